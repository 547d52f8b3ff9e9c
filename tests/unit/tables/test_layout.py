"""Building tables against their schema."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from layoutscope.tables import NULL_ROW, TABLES, build_table

REGION = {"device": 0, "volume": 0, "type": ([0, 1], ["a", "b"]), "owner": "", "length_bytes": np.array([3, 4])}


def test_every_table_can_be_empty():
    """An empty table has the columns and types of the schema."""
    for name, columns in TABLES.items():
        frame = build_table(name, {})
        assert frame.columns == [column.name for column in columns]
        assert frame.height == 0


def test_negative_address_becomes_null():
    """A hole has no address."""
    frame = build_table("regions", {**REGION, "image_offset": np.array([-1, 5])})
    assert frame["image_offset"].to_list() == [None, 5]
    assert frame["type"].cast(pl.String).to_list() == ["a", "b"]


def test_no_row_becomes_null():
    """A reference to nothing is null, never a number."""
    columns = {"node_row": np.array([NULL_ROW, 1], np.uint32), "device": 0}
    frame = build_table(
        "node_fragments", {**columns, "image_offset": np.array([1, 2]), "length_bytes": np.array([1, 1])}
    )
    assert frame["node_row"].to_list() == [None, 1]


@pytest.mark.parametrize("change", [{"colour": 1}, {"length_bytes": np.array([1])}], ids=["unknown", "length"])
def test_wrong_columns_are_refused(change):
    """Unknown columns and different lengths are errors of the caller."""
    with pytest.raises(ValueError, match=r"column"):
        build_table("regions", {**REGION, "image_offset": np.array([0, 5]), **change})


def test_missing_column_is_refused():
    """A reader cannot forget a column."""
    with pytest.raises(ValueError, match="image_offset"):
        build_table("regions", REGION)
