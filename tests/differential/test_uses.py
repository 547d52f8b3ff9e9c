"""The documented users of each format field match the type checker; ``python -m tests.docs.spec --uses`` asks it."""

from __future__ import annotations

import pytest

from tests.docs.spec import coverage, uses


@pytest.mark.full
def test_uses_are_those_of_the_code():
    """Each field in the tables of docs/spec-coverage is used by exactly the modules named there."""
    pytest.importorskip("mypy", reason="the type checker is not installed")
    assert {address: sorted(modules) for address, modules in uses.uses().items()} == coverage.uses()
