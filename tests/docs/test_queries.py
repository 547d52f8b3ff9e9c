"""The queries of docs/images.md run on a capture; those of docs/reference/queries.md have the answers shown there."""

from __future__ import annotations

import re

import polars as pl
import pytest

from layoutscope import read_layouts, scan
from layoutscope.api.save import save
from tests.cases import for_each
from tests.docs.fleet_questions import PAGE, QUESTION, answer, make_fleet
from tests.docs.imports import ROOT

QUERIES = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "images.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with ``disk.lscope``, a capture of the committed APFS image."""
    target = tmp_path_factory.mktemp("queries")
    save(scan(ROOT / "fixtures" / "images" / "apfs-scattered.img.zst", drives=()), target / "disk.lscope")
    return target


def test_queries_of_a_capture(folder, monkeypatch):
    """Nodes by tree and level, files in most pieces, steps between leaves: as polars finds them in the tables."""
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    monkeypatch.chdir(folder)
    fill, pieces, steps = (duckdb.sql(query).fetchall() for query in QUERIES)
    container, layout = read_layouts(folder / "disk.lscope")
    assert sum(row[2] for row in fill) == sum(each.nodes["level"].count() for each in (container, layout))
    assert all(0 <= row[3] <= 1 for row in fill)
    data = layout.extents.filter((pl.col("fork") == "data") & pl.col("image_offset").is_not_null())
    assert pieces[0][2] == data.join(layout.entries, on="file_id")["file_id"].value_counts()["count"].max()
    leaves = layout.nodes.filter((pl.col("tree") == "fs") & (pl.col("level") == 0) & (pl.col("state") == "live"))
    leaves = leaves.sort("key_rank")
    step = leaves["image_offset"] - (leaves["image_offset"] + leaves["size_bytes"]).shift(1)
    assert dict(steps)["fs"] == step.abs().median()


# A fleet

TEXT = PAGE.read_text("utf-8")
QUESTIONS = [found.groups() for found in QUESTION.finditer(TEXT)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """The small fleet that the page asks."""
    pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    return make_fleet(tmp_path_factory.mktemp("fleet"))


@pytest.mark.full
@for_each("question", QUESTIONS)
def test_answers_are_those_of_the_page(fleet, question):
    """Each heading has a question, and each question the answer that is below it, with a row at least."""
    assert len(QUESTIONS) == TEXT.count("\n## ") == 10
    _, sql, shown = question
    assert answer(fleet, sql) == shown, "python -m tests.docs.fleet_questions"
    assert shown.count("\n") > 2
