"""The case study runs, and its sentences agree with its results."""

from __future__ import annotations

import json

import pytest

from tests.docs.imports import ROOT

NOTEBOOK = ROOT / "docs" / "article.ipynb"
BOOK = json.loads(NOTEBOOK.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def names():
    """Run the cells as a script, with few files, from the folder of the notebook."""
    pytest.importorskip("IPython", reason="IPython is not installed (pip install -e '.[docs]')")
    made: dict[str, object] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(NOTEBOOK.parent)
        patch.setenv("LAYOUTSCOPE_CASE_FILES", "5000")
        for cell in BOOK["cells"]:
            if cell["cell_type"] == "code":
                text = "".join(cell["source"])
                exec(compile(text, str(NOTEBOOK), "exec"), made)  # noqa: S102  (it is the notebook that is tested)
    return made


def test_hfsplus_ages_once_and_apfs_grows(names):
    """With few files as with a million: new names split the nodes of a full catalog in the first cycles alone."""
    for row in names["stories"]:
        fresh, *aged = (median for _, median, _ in row["hfsplus"])
        assert max(aged) < 1.2 * min(aged)
        assert (min(aged) > 1.4 * fresh) == row["temporary_names"]
        assert row["apfs"][-1][1] > 2.3 * row["apfs"][0][1]
    small = {name: [median for _, median, _ in points] for name, points in names["small"].items()}
    assert max(small["HFS+"][1:]) < 1.2 * min(small["HFS+"][1:])
    assert small["APFS"][-1] > 1.3 * small["APFS"][0]


def test_every_story_is_drawn_and_told(names):
    """A row of the table for each, and none has the words of another."""
    stories = names["rows"]["story"].to_list()
    assert len(set(stories)) == len(stories) == len(names["stories"])
    kept = [row["snapshots"] == names["article"].KEEP_ALL for row in names["stories"]]
    assert (names["rows"].filter(kept)["refuted by"] == "nothing").sum() == 1


def test_waiting_for_the_platter_explains_the_difference(names):
    """The sentence of the comparison says so."""
    assert "waiting for the platter to turn (rotation)" in names["compared"].verdict


def test_seeks_take_a_fifth_to_a_third_of_the_rotation(names):
    """After twenty cycles, of a million files, in the stories in which all snapshots were kept."""
    for row in (row for row in names["stories"] if row["snapshots"] == names["article"].KEEP_ALL):
        seek_s, rotation_s = row["seek_and_rotation_s"]["apfs"][-1]
        assert 0.2 < seek_s / rotation_s < 0.34


def test_it_is_committed_without_outputs():
    """Outputs are made at each build; none is stored that could be outdated."""
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in BOOK["cells"])
