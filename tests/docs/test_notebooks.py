"""The notebooks run, and their sentences agree with their results."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import polars as pl
import pytest

from tests.cases import for_each
from tests.docs.imports import ROOT

NOTEBOOKS = sorted((ROOT / "docs").glob("*.ipynb"))


def cells(notebook: str, kind: str) -> list[str]:
    found = json.loads((ROOT / "docs" / notebook).read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == kind]


@cache
def run(notebook: str) -> dict[str, Any]:
    """Run the cells as a script, with few files, from the folder of the notebook; return its names."""
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT / "docs")
        patch.setenv("LAYOUTSCOPE_CASE_FILES", "5000")
        for text in cells(notebook, "code"):
            exec(compile(text, notebook, "exec"), names)  # noqa: S102  (it is the notebook that is tested)
    return names


@for_each("notebook", NOTEBOOKS)
def test_it_is_committed_without_outputs(notebook):
    """Outputs are made at each build; none is stored that could be outdated."""
    found = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in found)
    assert len(cells(notebook.name, "markdown")) >= 5


# questions.ipynb


def test_the_three_questions_are_answered():
    """The costs of directories with reasons, the owners of expensive nodes, and what differs between two captures."""
    answers = run("questions.ipynb")
    worst, why = answers["worst"], answers["why"]
    assert worst.height == 10
    assert worst["seconds"].is_sorted(descending=True)
    assert why["seconds"].sum() == pytest.approx(worst["seconds"].sum())
    assert why["reads"].sum() == worst["reads"].sum()
    assert 0 < answers["share"] < 1
    assert answers["orders"]["seconds"].min() < answers["total"]
    # The first node is a leaf with names or inodes, as many as the table says have a record in it, or more.
    first = answers["costs"].nodes.row(0, named=True)
    assert first["level"] == 0
    assert 0 < answers["owners"].height <= first["files"]
    assert answers["by_tree"]["nodes"].sum() == answers["costs"].nodes.height
    changed = answers["changed"]
    assert changed.height > 0
    assert (changed["difference"] == changed["value"] - changed["first_value"]).all()
    assert changed.filter(pl.col("metric") == "seconds").height == 1
    assert "B takes" in answers["comparison"].verdict


def test_the_notebook_runs_in_jupyter():
    """A kernel executes it from the first cell to the last."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed; the tests above run the cells")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    book = nbformat.read(ROOT / "docs" / "questions.ipynb", as_version=4)
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(ROOT / "docs")}}).execute()
    shown = [output for cell in book.cells for output in cell.get("outputs", ())]
    assert any("text/html" in output.get("data", {}) for output in shown)


# walks.ipynb


def test_sentences_on_orders_are_true():
    """Names are quicker, key order as slow on the disk; less memory means more reads; few reads are sequential."""
    walks = run("walks.ipynb")
    rows = {row["order"]: row for row in walks["wide"].to_dicts()}
    assert all(rows["names"][drive] < rows["fts"][drive] for drive in walks["DRIVES"])
    assert rows["catalog"]["generic-7200"] == pytest.approx(rows["fts"]["generic-7200"], rel=0.1)
    assert rows["catalog"]["reads"] > rows["fts"]["reads"]
    cases = {row["case"]: row for row in walks["changed"].to_dicts()}
    usual, small = cases["as it is"], cases["256 KiB of memory"]
    assert small["reads"] > usual["reads"] > cases["no stat"]["reads"]
    assert small["seconds"] > usual["seconds"]
    assert walks["sequential"] < 0.01
    assert len(walks["why"]) == len(walks["trace"])


# article.ipynb


@pytest.fixture
def article():
    """Return the names of the case study."""
    pytest.importorskip("IPython", reason="IPython is not installed (pip install -e '.[docs]')")
    return run("article.ipynb")


def test_hfsplus_ages_once_and_apfs_grows(article):
    """With few files as with a million: new names split the nodes of a full catalog in the first cycles alone."""
    for row in article["stories"]:
        fresh, *aged = (median for _, median, _ in row["hfsplus"])
        assert max(aged) < 1.2 * min(aged)
        assert (min(aged) > 1.4 * fresh) == row["temporary_names"]
        assert row["apfs"][-1][1] > 2.3 * row["apfs"][0][1]
    small = {name: [median for _, median, _ in points] for name, points in article["small"].items()}
    assert max(small["HFS+"][1:]) < 1.2 * min(small["HFS+"][1:])
    assert small["APFS"][-1] > 1.3 * small["APFS"][0]


def test_every_story_is_drawn_and_told(article):
    """A row of the table for each, and none has the words of another; rotation explains the difference."""
    stories = article["rows"]["story"].to_list()
    assert len(set(stories)) == len(stories) == len(article["stories"])
    kept = [row["snapshots"] == article["article"].KEEP_ALL for row in article["stories"]]
    assert (article["rows"].filter(kept)["refuted by"] == "nothing").sum() == 1
    assert "waiting for the platter to turn (rotation)" in article["compared"].verdict
    # After twenty cycles, of a million files, seeks take a fifth to a third of the rotation.
    for row in (row for row, is_kept in zip(article["stories"], kept, strict=True) if is_kept):
        seek_s, rotation_s = row["seek_and_rotation_s"]["apfs"][-1]
        assert 0.2 < seek_s / rotation_s < 0.34
