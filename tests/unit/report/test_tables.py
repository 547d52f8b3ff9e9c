from __future__ import annotations

import csv
import io
import json

import pytest

from layoutscope.report.tables import joined_table, write_table
from layoutscope.tables.columns import Rows
from tests.layouts import entries, layout, leaves


def written(table, file_format):
    file = io.BytesIO()
    write_table(Rows.of(table), file, file_format)
    return file.getvalue().decode("utf-8")


@pytest.mark.parametrize(
    "start", ["=", "+", "-", "@", "\t", "\r", " =", "  -", "\u00a0@", "\uff1d", "\uff0b", "\uff0d", "\uff20", " \uff1d"]
)
def test_formulas_are_guarded_in_csv(start):
    """A name that a spreadsheet would run starts with an apostrophe; others stay."""
    made = layout(nodes=leaves(1), entries=entries((2, 20, f"{start}1+1", "file", 0), (2, 21, "a=b", "file", 0)))
    rows = list(csv.DictReader(io.StringIO(written(made.columns("entries"), "csv"), newline="")))
    shown = f"\\u{ord(start):04x}1+1" if start in "\t\r" else f"'{start}1+1"
    assert [row["name"] for row in rows] == [shown, "a=b"]


def test_negative_numbers_are_no_formulas():
    """Guards apply to text alone; numbers stay numbers, nulls stay empty."""
    made = layout(nodes=leaves(1, parent_row=None))
    row = next(csv.DictReader(io.StringIO(written(made.columns("nodes"), "csv"))))
    assert (row["image_offset"], row["parent_row"], row["xid"]) == ("4096", "", "")


def test_csv_quotes_what_would_break_lines():
    """Commas, quotes and line ends in names survive a round trip."""
    name = 'a,"b"\nc'
    made = layout(nodes=leaves(1), entries=entries((2, 20, name, "file", 0)))
    (row,) = csv.DictReader(io.StringIO(written(made.columns("entries"), "csv"), newline=""))
    assert row["name"] == name
    assert bytes.fromhex(row["name_raw"]).decode("utf-16-be") == name


def test_largest_ids_survive_json_lines():
    """An id of 64 bits comes back digit for digit."""
    made = layout(nodes=leaves(1, node_id=[2**64 - 1]))
    assert json.loads(written(made.columns("nodes"), "jsonl"))["node_id"] == str(2**64 - 1)


def test_volumes_are_numbered_through():
    """Rows and references of the second volume follow those of the first: its child's parent is row 2."""
    first = layout(nodes=leaves(1, 2))
    second = layout(nodes=leaves(5, 6, parent_row=[None, 0], volume=1))
    table = joined_table((first, second), "nodes")
    assert table["row"].to_list() == [0, 1, 2, 3]
    assert table["parent_row"].to_list() == [None, None, None, 2]
    listed = entries((2, 20, "a", "file", 1))
    both = layout(nodes=leaves(1, 2), entries=listed), layout(nodes=leaves(3, 4), entries=listed)
    assert joined_table(both, "entries")["inode_node_row"].to_list() == [1, 3]
