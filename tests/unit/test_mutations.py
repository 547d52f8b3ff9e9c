"""Which changes of a module are made, and that tests notice one."""

from __future__ import annotations

import pytest

from tests.mutations import ROOT, changes_of, is_noticed

TEXT = '''"""Words with 1 number."""

LEAST: int = 5
MAX_ROWS: int = 6


def judged(value: 9, least=3):
    """Some 2 words."""
    found = []
    if value > least and value % 2 == 0:
        found.append(value + 1)
    if not found:
        raise ValueError(1)
    return lambda: found
'''


def test_every_change_of_code_is_made_and_no_other(tmp_path):
    """Errors, words, annotations and limits stay."""
    path = tmp_path / "judged.py"
    path.write_text(TEXT)
    assert sorted(changes_of(path)) == [
        (3, "5 to 6"),
        (7, "3 to 4"),
        (10, "0 to 1"),
        (10, "2 to 3"),
        (10, "And to Or"),
        (10, "Eq to NotEq"),
        (10, "Gt to GtE"),
        (10, "Mod to FloorDiv"),
        (10, "condition negated"),
        (11, "1 to 2"),
        (11, "Add to Sub"),
        (12, "condition negated"),
    ]


@pytest.mark.full
def test_a_change_is_noticed_and_nothing_else():
    """The backup of a GPT is used if the primary header is sound: the tests fail, and pass without the change."""
    path, tests = ROOT / "layoutscope/partition/maps.py", ["tests/unit/partition/test_maps.py"]
    change = next(number for number, (_, what) in enumerate(changes_of(path)) if what == "IsNot to Is")
    assert [is_noticed(path, number, tests, 600) for number in (-1, change)] == [False, True]
