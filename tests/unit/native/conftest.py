from __future__ import annotations

import pytest

from layoutscope.native import core


@pytest.fixture(scope="session")
def native():
    """Skip where the kernels do not run, and say why."""
    if core().startswith("plain"):
        pytest.skip(core())
