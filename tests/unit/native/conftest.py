from __future__ import annotations

import pytest

from layoutscope.native import describe


@pytest.fixture(scope="session")
def native():
    """Skip where the kernels do not run, and say why."""
    if describe().startswith("plain"):
        pytest.skip(describe())
