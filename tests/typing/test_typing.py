from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_types_are_what_callers_are_told(monkeypatch):
    """Every verb has its own result's type, and what is misspelt is an error of the type checker."""
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    monkeypatch.chdir(ROOT)
    told, errors, status = api.run(["--no-error-summary", "tests/typing/verbs.py"])
    assert (told, errors, status) == ("", "", 0)
