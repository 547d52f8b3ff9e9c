"""Who uses which field of the formats is what the type checker says; ``python -m tests.docs.spec --uses`` asks it."""

from __future__ import annotations

import pytest

from tests.docs.spec import coverage, uses


@pytest.mark.full
def test_uses_are_those_of_the_code():
    """Each field of the tables in docs/spec-coverage is used by the modules that are named there, and by no others."""
    pytest.importorskip("mypy", reason="the type checker is not installed")
    assert {address: sorted(modules) for address, modules in uses.uses().items()} == coverage.uses()
