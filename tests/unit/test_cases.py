"""Cases that check many things report each failure, and fail if there is nothing to check."""

from __future__ import annotations

import os

import pytest

from tests.cases import for_each


@for_each("number, square", [(2, 4), (3, 8), (4, 16), (5, 24)])
def check_squares(number, square):
    assert number**2 == square


@for_each("name", ["a", "b"])
def check_own_folder(name, tmp_path, monkeypatch):
    assert not os.environ.get("LAYOUTSCOPE_TESTED")
    monkeypatch.setenv("LAYOUTSCOPE_TESTED", name)
    (tmp_path / "file").touch(exist_ok=False)


def test_each_failure_is_listed_with_its_value():
    """Two of four squares are wrong: the case names both, and none of the others."""
    with pytest.raises(
        AssertionError, match=r"^2 of 4:\n3-8: line \d+: AssertionError.*\n(.*\n)*5-24: line \d+"
    ) as told:
        check_squares()
    assert "4-16" not in str(told.value)
    # A rule over an empty set fails.
    with pytest.raises(AssertionError, match="nothing to check"):
        for_each("name", [])(check_squares)()


def test_values_share_neither_folder_nor_changes(tmp_path, monkeypatch):
    """They are as isolated as cases of ``parametrize``."""
    check_own_folder(tmp_path=tmp_path, monkeypatch=monkeypatch)
    assert "LAYOUTSCOPE_TESTED" not in os.environ
