"""The notebook of the docs answers its three questions."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "questions.ipynb"


def cells(kind: str) -> list[str]:
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == kind]


@pytest.fixture(scope="module")
def answers():
    """Run the cells as a script, from the folder that the notebook is in; each is shown as a notebook does."""
    names: dict[str, object] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(NOTEBOOK.parent)
        for text in cells("code"):
            exec(compile(text, str(NOTEBOOK), "exec"), names)  # noqa: S102  (it is the notebook that is tested)
    return names


def test_the_worst_directories_are_told_with_the_reason(answers):
    """They are sorted, each of their reads is explained, and their sum is at most the whole."""
    worst, why = answers["worst"], answers["why"]
    assert worst.height == 10
    assert worst["seconds"].is_sorted(descending=True)
    assert why["seconds"].sum() == pytest.approx(worst["seconds"].sum())
    assert why["reads"].sum() == worst["reads"].sum()
    assert 0 < answers["share"] < 1
    assert answers["orders"]["seconds"].min() < answers["total"]


def test_the_most_expensive_nodes_have_owners(answers):
    """The first node is a leaf with names or inodes, as many as the table says have a record in it, or more."""
    first = answers["costs"].nodes.row(0, named=True)
    assert first["level"] == 0
    assert 0 < answers["owners"].height <= first["files"]
    assert answers["by_tree"]["nodes"].sum() == answers["costs"].nodes.height


def test_two_captures_differ_in_what_was_changed(answers):
    """The frame has differences alone, the predicted time among them, and every node is accounted for."""
    changed = answers["changed"]
    assert changed.height > 0
    assert (changed["difference"] == changed["value"] - changed["first_value"]).all()
    assert changed.filter(pl.col("metric") == "seconds").height == 1
    assert "B takes" in answers["comparison"].verdict


def test_the_notebook_is_committed_without_outputs():
    """Outputs are made at each run; none is stored that could be outdated."""
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in found["cells"])
    assert len(cells("markdown")) > 5


def test_the_notebook_runs_in_jupyter():
    """A kernel executes it from the first cell to the last."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed; the tests above run the cells")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    book = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(NOTEBOOK.parent)}}).execute()
    shown = [output for cell in book.cells for output in cell.get("outputs", ())]
    assert any("text/html" in output.get("data", {}) for output in shown)
