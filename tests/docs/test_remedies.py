"""The page of remedies is complete."""

from __future__ import annotations

import re

from layoutscope.remedies.case import words_of
from layoutscope.remedies.planning import list_remedies
from tests.docs import proven
from tests.docs.remedies import PAGE, page


def test_the_page_of_remedies_is_fresh():
    """``python -m tests.docs.remedies`` was run after the last change of the words."""
    assert PAGE.read_text("utf-8") == page()


def test_every_remedy_has_its_section():
    """Each section that a plan names exists, and each section is about a remedy of a plan."""
    named = {words_of(name).page.removeprefix("docs/remedies.md#") for name in list_remedies()}
    assert named == set(re.findall(r"(?m)^### ([a-z][a-z-]+)$", page()))


def test_the_how_to_comes_first():
    """Text by people is above the mark."""
    assert page().index("# Remedies") < page().index("1. **") < page().index("## All remedies")


def test_what_was_done_for_real_is_shown():
    """``python -m tests.docs.proven`` writes the page: misses first, and all that was measured."""
    text = proven.PAGE.read_text("utf-8")
    assert text == proven.page()
    assert text.index("## Missed") < text.index("## Reads") < text.index("## Savings")


def test_enough_was_done_for_real():
    """Six remedies or more on both file systems and two sizes; predictions are exact, or nearly for copies."""
    rows = proven.rows()
    done = {(row["filesystem"], row["files"]): 0 for row in rows}
    for row in rows:
        done[row["filesystem"], row["files"]] += 1
        assert row["of"] == "the new volume" or proven.is_exact(row), row["remedy"]
        assert abs(row["predicted_reads"] / row["reads"] - 1) <= proven.MANY, row["remedy"]
    assert len(done) == 4
    assert min(done.values()) >= 6
    inside = [proven.is_inside(found) for row in rows for found in row["times"]]
    assert sum(inside) > 0.9 * len(inside)
