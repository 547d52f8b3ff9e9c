"""The questions of docs/reference/queries.md are asked, and answered as the page says."""

from __future__ import annotations

import pytest

from tests.docs.fleet_questions import PAGE, QUESTION, answer, make_fleet

TEXT = PAGE.read_text("utf-8")
QUESTIONS = {match.start(): match for match in QUESTION.finditer(TEXT)}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """The small fleet that the page asks."""
    pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    return make_fleet(tmp_path_factory.mktemp("fleet"))


def test_there_are_ten():
    """Each heading has its question."""
    assert len(QUESTIONS) == TEXT.count("\n## ") == 10


@pytest.mark.full
@pytest.mark.parametrize("number", range(10))
def test_answers_are_those_of_the_page(fleet, number):
    """Each question has the answer that is below it, with a row at least."""
    _, sql, shown = list(QUESTIONS.values())[number].groups()
    assert answer(fleet, sql) == shown, "python -m tests.docs.fleet_questions"
    assert shown.count("\n") > 2
