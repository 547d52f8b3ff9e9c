"""The examples of README and docstrings run."""

from __future__ import annotations

import doctest
import inspect
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import layoutscope
from tests.docs.imports import read_modules

ROOT = Path(__file__).resolve().parents[2]
WITH_EXAMPLES = [name for name, module in read_modules().items() if ">>>" in module.text]


def test_examples_of_the_readme_hold(monkeypatch):
    """Each Python example of the README gives what it shows."""
    monkeypatch.chdir(ROOT)
    outcome = doctest.testfile(str(ROOT / "README.md"), module_relative=False, encoding="utf-8")
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_examples_of_exports_hold(tmp_path, monkeypatch):
    """Each example of the page on exports gives what it shows."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    page = str(ROOT / "docs" / "exports.md")
    outcome = doctest.testfile(page, module_relative=False, encoding="utf-8")
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_of_the_docstrings_hold(name, tmp_path, monkeypatch):
    """Each example of a module gives what it shows, in a folder of its own beside the committed images."""
    if name in ("layoutscope.fleet.query", "layoutscope.fleet.report"):
        pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    outcome = doctest.testmod(import_module(name), extraglobs={"np": np})
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_every_verb_has_numpydoc_sections():
    """Each function of the library says what it takes, what it raises, and shows how it is used."""
    for name in set(layoutscope.__all__) - {"__version__"}:
        verb = getattr(layoutscope, name)
        text = verb.__doc__ or ""
        assert "Examples\n" in text, name
        # Who is asked for nothing can be asked for nothing wrong.
        if inspect.signature(verb).parameters:
            assert "Parameters\n" in text, name
            assert "Raises\n" in text, name
