"""The check engine: which checks run, how skipped ones are listed, and how rows of a table are reported."""

import types

import numpy as np
import pytest

from layoutscope.checks.engine import Check, Table, list_unchecked, run_checks
from layoutscope.findings import FindingLog

TENS = np.arange(5) * 10
WRONG = np.array([False, True, True, False, True])


def table_of(log, **options):
    """Return a table whose rows are structures of a log."""
    return Table(lambda row, field: log.at(f"row {row}").within(field), "structure-invalid", **options)


@pytest.mark.parametrize("wrong", [WRONG, np.flatnonzero(WRONG)])
@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1, [("row 1", "odd; 2 more cases", "10", "11")]),
        (2, [("row 1", "odd", "10", "11"), ("row 2", "odd; 1 more cases", "20", "21")]),
        (3, [("row 1", "odd", "10", "11"), ("row 2", "odd", "20", "21"), ("row 4", "odd", "40", "41")]),
    ],
)
def test_cases_are_listed_up_to_a_number(most, expected, wrong):
    """Rows 1, 2 and 4 of five are wrong; cases beyond the limit are counted with the last listed one."""
    log = FindingLog()
    table_of(log, most=most).report(wrong, "odd", expected=TENS, found=lambda row: TENS[row] + 1)
    assert [(item.structure, item.message, item.expected, item.found) for item in log.findings] == expected


def test_further_cases_are_counted_where_the_table_says():
    """One case is listed at its field, and a warning about the rows as a whole has the number of the others."""
    log = FindingLog()
    table = table_of(log, most=1, rest=log.at("rows"))
    table.report(WRONG, "odd", lambda row: f"field {row}", code="truncated")
    assert [(item.structure, item.field, item.code, item.level, item.message) for item in log.findings] == [
        ("row 1", "field 1", "truncated", "error", "odd"),
        ("rows", "", "truncated", "warning", "2 further cases of the same kind"),
    ]


@pytest.mark.parametrize(("wrong", "number"), [(True, 1), (False, 0), (np.zeros(3, bool), 0)])
def test_a_structure_alone_is_a_table_of_one_row(wrong, number):
    """One flag says whether it is wrong; a sound structure gives no finding."""
    log = FindingLog()
    table_of(log).report(wrong, "odd", level="info")
    assert [(item.structure, item.level) for item in log.findings] == [("row 0", "info")] * number


def test_checks_run_as_far_as_their_parts_were_read():
    """A check runs without its optional needs, but not without what it requires or takes; both have reasons."""
    ran = []
    subject = types.SimpleNamespace(records=[1], lost=None, trees={"a": "tree a", "b": "tree b"})
    checks = {
        "whole": Check(lambda *given: ran.append(("whole", *given[1:]))),
        "in-part": Check(lambda *given: ran.append(("in-part", *given[1:])), ("catalog",), takes=("records",)),
        "required": Check(lambda *_: ran.append("required"), requires=("catalog", "header")),
        "without-table": Check(lambda *_: ran.append("without-table"), takes=("lost",)),
        "skipped": Check(lambda *_: ran.append("skipped")),
        "trees": Check(lambda *given: ran.append(given[1]), ("catalog",), each="trees"),
    }
    unread = {"catalog": "a leaf cannot be read", "header": "it is lost"}
    run_checks(checks, unread, {"skipped"}, subject)
    assert ran == [("whole",), ("in-part", [1]), "tree a", "tree b"]
    assert [(item.rule, item.reason) for item in list_unchecked(checks, unread)] == [
        ("in-part", "a leaf cannot be read"),
        ("required", "a leaf cannot be read, it is lost"),
        ("trees", "a leaf cannot be read"),
    ]


def test_a_reason_without_a_part_is_about_every_part():
    """Checks that name no part are independent of unread parts."""
    checks = {"named": Check(print, ("omap",)), "unnamed": Check(print)}
    assert [item.rule for item in list_unchecked(checks, {"": "the volume has errors"})] == ["named"]
