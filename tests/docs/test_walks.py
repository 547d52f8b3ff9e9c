"""The notebook on orders runs, and its text agrees with its tables."""

from __future__ import annotations

import json

import pytest

from tests.docs.imports import ROOT

NOTEBOOK = ROOT / "docs" / "walks.ipynb"
BOOK = json.loads(NOTEBOOK.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def names():
    """Run the cells as a script, from the folder of the notebook."""
    made: dict[str, object] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(NOTEBOOK.parent)
        for cell in BOOK["cells"]:
            if cell["cell_type"] == "code":
                text = "".join(cell["source"])
                exec(compile(text, str(NOTEBOOK), "exec"), made)  # noqa: S102  (it is the notebook that is tested)
    return made


def test_names_are_quicker_and_key_order_is_as_slow_on_the_disk(names):
    """The text below the first table is true."""
    rows = {row["order"]: row for row in names["wide"].to_dicts()}
    assert all(rows["names"][drive] < rows["fts"][drive] for drive in names["DRIVES"])
    assert rows["catalog"]["generic-7200"] == pytest.approx(rows["fts"]["generic-7200"], rel=0.1)
    assert rows["catalog"]["reads"] > rows["fts"]["reads"]


def test_less_memory_means_more_reads(names):
    """The same nodes are read again."""
    rows = {row["case"]: row for row in names["changed"].to_dicts()}
    assert rows["256 KiB of memory"]["reads"] > rows["as it is"]["reads"]
    assert rows["256 KiB of memory"]["seconds"] > rows["as it is"]["seconds"]
    assert rows["no stat"]["reads"] < rows["as it is"]["reads"]


def test_next_to_no_read_goes_on_where_the_last_one_ended(names):
    """Each read has a reason, and the last sentences about the share are true."""
    assert names["sequential"] < 0.01
    assert len(names["why"]) == len(names["trace"])


def test_it_is_committed_without_outputs():
    """Outputs are made at each build; none is stored that could be outdated."""
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in BOOK["cells"])
