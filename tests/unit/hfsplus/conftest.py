from __future__ import annotations

from types import SimpleNamespace

import pytest

from layoutscope.ondisk.decoder import decoder_named


@pytest.fixture(params=["bulk", "grammar"])
def reader(request):
    """Return a volume that only knows its decoder, either of both."""
    return SimpleNamespace(decoder=decoder_named(request.param))
