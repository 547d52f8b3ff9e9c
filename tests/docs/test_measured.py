"""The pages of evidence lead with their misses, and what they say is counted again from the saved results."""

from __future__ import annotations

import re

from tests.cases import for_each
from tests.docs import measured, pages
from tests.docs.measured import OUTCOMES, results


def rows_of(page):
    """Return the cells of the first table of a page, its head first, and what is above it and below."""
    above, table, below = re.split(r"(?m)((?:^\|.*\n)+)", pages.read(pages.DOCS / page), maxsplit=1)
    return [[cell.strip() for cell in line.strip("|\n").split(" | ")] for line in table.splitlines()], above, below


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
    intervals, witnesses = results("intervals"), results("witnesses")
    counts: dict[tuple[str, str], tuple[int, int]] = {}

    def count(name, hits, cases, words="{0} of {1} "):
        counts[name, words.format(hits, cases)] = hits, cases

    for name, kind in (
        ("Times on hard disks", "disk"),
        ("Times on SSDs or with cached metadata", "flash"),
        ("The same with ranges as wide as the others vary", "flash_by_spread"),
    ):
        found = intervals["coverage"][kind]
        count(name, found["hits"], found["experiments"])
    close, runs = (sum(row[name] for row in witnesses["agreement"]) for name in ("close", "runs"))
    count("Time of a drive, every sector known", close, runs)
    for known, words in (("zones", "zones known"), ("datasheet", "from its data sheet")):
        hits = [row["is_hit"] for row in intervals["drives"] if row["known"] == known]
        count(f"Time of a drive, {words}", sum(hits), len(hits))
    for words, rows in (("listings and copies", witnesses["traces"]), ("other programs", results("programs"))):
        same, requests = (sum(row[name] for row in rows) for name in ("same_requests", "requests"))
        shown = f"all but {requests - same} of {requests:,} " if same < requests else f"all {requests:,} "
        count(f"Reads of {words} on Linux", same, requests, shown)
    (_, _, *rows), _, _ = rows_of("evidence.md")
    shown = {(row[1], row[3]): row[0] for row in rows}
    for (name, words), (hits, total) in counts.items():
        (outcome,) = (found for (what, result), found in shown.items() if what == name and result.startswith(words))
        assert outcome == ("agrees" if hits == total else "partly met" if hits / total >= 0.85 else "missed"), name
    article = [row for row in intervals["rows"] if row["experiment"] == "aging-2019"]
    for row in article:
        (outcome,) = (found for (what, _), found in shown.items() if what == f"{row['filesystem']}: {row['work']}")
        assert (outcome == "agrees") == row["is_hit"]
    unchecked = [what for (what, _), found in shown.items() if found == "not checked"]
    assert len(shown) == len(counts) + len(article) + len(unchecked)


def test_a_comparison_is_judged_by_its_share():
    """Nothing compared, under 85 %, all but one, all."""
    made = [measured.Comparison("a", "b", "c", hits, cases) for hits, cases in ((0, 0), (84, 100), (99, 100), (5, 5))]
    assert tuple(item.outcome for item in made) == OUTCOMES


@for_each("page, title", [("evidence.md", "Evidence"), ("intervals.md", "Ranges")])
def test_other_tables_are_in_the_reference(page, title):
    """All but the first one, and the costs in a section of their own, are in the reference."""
    _, _, below = rows_of(page)
    assert len(re.findall(r"(?m)^\|---", below)) == (page == "intervals.md")
    tables = pages.read(pages.DOCS / "reference" / "evidence.md").split("\n## ")
    assert [len(re.findall(r"(?m)^\|---", text)) >= 5 for text in tables if text.startswith(f"{title}\n")] == [True]


def test_remedies_with_real_drivers():
    """Six or more on both file systems and two sizes, exact or nearly so for copies; misses come first."""
    rows = results("remedies")
    done = {(row["filesystem"], row["files"]): 0 for row in rows}
    for row in rows:
        done[row["filesystem"], row["files"]] += 1
        assert row["of"] == "the new volume" or measured.is_exact(row), row["remedy"]
        assert abs(row["predicted_reads"] / row["reads"] - 1) <= measured.MANY, row["remedy"]
    assert len(done) == 4
    assert min(done.values()) >= 6
    inside = [measured.is_inside(found) for row in rows for found in row["times"]]
    assert sum(inside) > 0.9 * len(inside)
    savings = measured.remedies().split("## Savings\n\n")[1].split("\n\n")[0].splitlines()[2:]
    assert len(savings) == len(inside)
    assert [line[2:5].strip() == "yes" for line in savings] == sorted(inside)


def test_the_claim_has_the_figures_of_the_results():
    """How much longer APFS takes by recorded reads and the simulator alone, and the times that give the reasons."""
    witnesses, text = results("witnesses"), pages.read(pages.DOCS / "evidence.md")
    rows = {(row["drive"], row["buffer"], row["files"][-3:]): row for row in witnesses["claim"]}
    for buffer, words in (("on", "{} times as long on APFS as on HFS+ if"), ("off", "the factors are {} if fresh")):
        for age, sentence in (("c00", words), ("c20", {"on": "it takes {} times", "off": "and {} after"}[buffer])):
            factors = " and ".join(f"{rows[drive, buffer, age]['disksim']:.1f}" for drive in measured.DRIVES)
            assert sentence.format(factors) in text
    ours = ", ".join(f"{rows[drive, 'on', age]['ours']:.1f}" for age in ("c00", "c20") for drive in measured.DRIVES)
    assert f"The times of layoutscope give {ours}." in text
    why = [f"{row['seconds']:.0f} s" for row in witnesses["why"] if row["case"] != "hfsplus"]
    assert len(why) == 6
    assert all(f"{each}" in text.split("## The article's")[0] for each in why)
