"""The page of evidence leads with one table, in which misses come first; the page of ranges does so, too."""

from __future__ import annotations

import json
import re
from importlib import import_module

import pytest

from tests.docs.imports import ROOT

OUTCOMES = ["not checked", "missed", "partly met", "agrees"]


def rows_of(page):
    """Return the cells of the first table of a page, its head first, and what is above it and below."""
    above, table, below = re.split(r"(?m)((?:^\|.*\n)+)", (ROOT / "docs" / page).read_text(), maxsplit=1)
    return [[cell.strip() for cell in line.strip("|\n").split(" | ")] for line in table.splitlines()], above, below


def saved(name):
    """Read saved results."""
    return json.loads((ROOT / f"tests/validation/results/{name}.json").read_text())


def test_the_evidence_leads_with_its_misses():
    """What was never checked, then misses, then what is met in part; by what came of them, not by their words."""
    (head, _, *rows), above, _ = rows_of("evidence.md")
    assert head == ["outcome", "prediction", "compared with", "result"]
    assert above.count("\n## ") == 0
    ranks = [OUTCOMES.index(row[0]) for row in rows]
    assert ranks == sorted(ranks)
    assert set(ranks) == set(range(len(OUTCOMES)))


def test_outcomes_follow_from_the_results():
    """Counted again from what is saved: fewer than 85 % is a miss, and all is agreement."""
    intervals, witnesses, programs = saved("intervals"), saved("witnesses"), saved("programs")
    cases = {
        (name, f"{coverage[kind]['hits']} of {coverage[kind]['experiments']} "): (
            coverage[kind]["hits"], coverage[kind]["experiments"]
        )
        for coverage in [intervals["coverage"]]
        for name, kind in (
            ("Times on hard disks", "disk"), ("Times on SSDs or with cached metadata", "flash"),
            ("The same with ranges as wide as the others vary", "flash_by_spread"),
        )
    }  # fmt: skip
    agreed = witnesses["agreement"]
    close, runs = sum(row["close"] for row in agreed), sum(row["runs"] for row in agreed)
    cases["Time of a drive, every sector known", f"{close} of {runs} "] = close, runs
    for known, words in (("zones", "zones known"), ("datasheet", "from its data sheet")):
        hits = [row["is_hit"] for row in intervals["drives"] if row["known"] == known]
        cases[f"Time of a drive, {words}", f"{sum(hits)} of {len(hits)} "] = sum(hits), len(hits)
    for words, rows in (("listings and copies", witnesses["traces"]), ("other programs", programs)):
        same, requests = sum(row["same_requests"] for row in rows), sum(row["requests"] for row in rows)
        count = f"all but {requests - same} of {requests:,} " if same < requests else f"all {requests:,} "
        cases[f"Reads of {words} on Linux", count] = same, requests
    (_, _, *rows), _, _ = rows_of("evidence.md")
    shown = {(row[1], row[3]): row[0] for row in rows}
    for (name, words), (hits, total) in cases.items():
        (outcome,) = (found for (what, result), found in shown.items() if what == name and result.startswith(words))
        assert outcome == ("agrees" if hits == total else "partly met" if hits / total >= 0.85 else "missed"), name
    article = [row for row in intervals["rows"] if row["experiment"] == "aging-2019"]
    for row in article:
        (outcome,) = (found for (what, _), found in shown.items() if what == f"{row['filesystem']}: {row['work']}")
        assert (outcome == "agrees") == row["is_hit"]
    unchecked = [what for (what, _), found in shown.items() if found == "not checked"]
    assert len(shown) == len(cases) + len(article) + len(unchecked)


def test_a_comparison_is_judged_by_its_share(monkeypatch):
    """Nothing compared, under 85 %, all but one, all."""
    monkeypatch.syspath_prepend(ROOT / "tests" / "docs")
    tables = import_module("evidence_tables")
    made = [tables.Comparison("a", "b", "c", hits, cases) for hits, cases in ((0, 0), (84, 100), (99, 100), (5, 5))]
    assert [item.outcome for item in made] == OUTCOMES


@pytest.mark.parametrize("page", ["evidence.md", "intervals.md"])
def test_other_tables_are_in_the_reference(page):
    """All but the first one, and the costs in a section of their own, are in the reference."""
    _, _, below = rows_of(page)
    assert len(re.findall(r"(?m)^\|---", below)) == (page == "intervals.md")
    tables = (ROOT / "docs" / "reference" / "evidence.md").read_text().split("\n## ")
    title = {"evidence.md": "Evidence", "intervals.md": "Ranges"}[page]
    assert [len(re.findall(r"(?m)^\|---", text)) >= 5 for text in tables if text.startswith(f"{title}\n")] == [True]
