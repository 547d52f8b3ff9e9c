"""The README's examples run."""

from __future__ import annotations

import doctest
from pathlib import Path

from layoutscope import api

ROOT = Path(__file__).resolve().parents[2]


def test_examples_of_the_readme_hold(monkeypatch):
    """Each Python example of the README gives what it shows."""
    monkeypatch.chdir(ROOT)
    outcome = doctest.testfile(str(ROOT / "README.md"), module_relative=False, encoding="utf-8")
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_every_verb_has_numpydoc_sections():
    """Each function of the library says what it takes and what it raises."""
    for name in api.__all__:
        text = getattr(api, name).__doc__ or ""
        assert "Parameters\n" in text, name
        assert "Raises\n" in text, name
