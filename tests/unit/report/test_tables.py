from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.report import tables
from layoutscope.report.tables import join_tables, write_csv, write_table
from layoutscope.tables.columns import Rows, TextColumn, Values
from layoutscope.tables.schema import Column
from tests.layouts import entries, layout, leaves


def written(table, file_format):
    file = io.BytesIO()
    write_table(Rows.of(table), file, file_format)
    return file.getvalue().decode("utf-8")


@pytest.mark.parametrize(
    "start", ["=", "+", "-", "@", "\t", "\r", " =", "  -", "\u00a0@", "\uff1d", "\uff0b", "\uff0d", "\uff20", " \uff1d"]
)
def test_formulas_are_guarded_in_csv(start):
    """A name that a spreadsheet would execute gets an apostrophe in front; others are unchanged."""
    made = layout(nodes=leaves(1), entries=entries((2, 20, f"{start}1+1", "file", 0), (2, 21, "a=b", "file", 0)))
    rows = list(csv.DictReader(io.StringIO(written(made.columns("entries"), "csv"), newline="")))
    shown = f"\\u{ord(start):04x}1+1" if start in "\t\r" else f"'{start}1+1"
    assert [row["name"] for row in rows] == [shown, "a=b"]


def test_values_that_csv_would_change():
    """Numbers, line ends and large identifiers come back as they were."""
    # Only text is guarded; numbers stay numbers, and nulls stay empty.
    made = layout(nodes=leaves(1, parent_row=None))
    row = next(csv.DictReader(io.StringIO(written(made.columns("nodes"), "csv"))))
    assert (row["image_offset"], row["parent_row"], row["xid"]) == ("4096", "", "")
    # Commas, quotes and line ends in names survive a round trip.
    name = 'a,"b"\nc'
    made = layout(nodes=leaves(1), entries=entries((2, 20, name, "file", 0)))
    (row,) = csv.DictReader(io.StringIO(written(made.columns("entries"), "csv"), newline=""))
    assert row["name"] == name
    assert bytes.fromhex(row["name_raw"]).decode("utf-16-be") == name
    # An id of 64 bits comes back digit for digit.
    made = layout(nodes=leaves(1, node_id=[2**64 - 1]))
    assert json.loads(written(made.columns("nodes"), "jsonl"))["node_id"] == str(2**64 - 1)
    # Rows and references of the second volume are offset by the first: its child's parent is row 2.
    first = layout(nodes=leaves(1, 2))
    second = layout(nodes=leaves(5, 6, parent_row=[None, 0], volume=1))
    table = join_tables((first, second), "nodes")
    assert table["row"].to_list() == [0, 1, 2, 3]
    assert table["parent_row"].to_list() == [None, None, None, 2]
    listed = entries((2, 20, "a", "file", 1))
    both = layout(nodes=leaves(1, 2), entries=listed), layout(nodes=leaves(3, 4), entries=listed)
    assert join_tables(both, "entries")["inode_node_row"].to_list() == [1, 3]


LEAST, MOST = -(2**63), 2**63 - 1
NUMBERS = [0, 9, 10, 9999, 10_000, 99_999_999, 100_000_000, 2**32, MOST, -1, -10_000, LEAST]
FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""0001-01-01 and the last microsecond of 9999, in microseconds since 1970."""


@given(
    st.lists(
        st.tuples(
            st.sampled_from(NUMBERS) | st.integers(LEAST, MOST) | st.none(),
            st.integers(0, 2**64 - 1),
            st.integers(-128, 127),
            st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.none(),
            st.binary(max_size=4) | st.none(),
            st.sampled_from([FIRST_US - 1, FIRST_US, -1, 0, 10**15, LAST_US, LAST_US + 1, None]),
            st.sampled_from(["file", "a,b", None]),
        ),
        max_size=40,
    )
)
def test_columns_of_arrays_are_written_like_lists(rows):
    """Numbers, texts, bytes and times are written like the same values one by one."""
    kinds = ("Int64", "UInt64", "Int64", "String", "Binary", "time", "Categorical")
    columns = [Column(f"c{number}", kind, "", "") for number, kind in enumerate(kinds)]
    values = list(zip(*rows, strict=True)) or [()] * len(kinds)
    known = [np.array([value is not None for value in own], bool) for own in values]
    numbers = [[0 if value is None else value for value in own] for own in values]
    words = ("file", "a,b")
    arrays = [
        Values(np.array(numbers[0], np.int64), known[0]),
        Values(np.array(numbers[1], np.uint64)),
        Values(np.array(numbers[2], np.int8)),
        TextColumn.of(values[3]),
        TextColumn.of(values[4]),
        Values(np.array(numbers[5], np.int64), known[5]),
        Values(np.array([words.index(word or "file") for word in values[6]], np.uint8), known[6], words),
    ]

    def in_columns(chosen):
        return {column.name: array.take(chosen) for column, array in zip(columns, arrays, strict=True)}

    by_array = Rows(columns, len(rows), in_columns, lambda: None)
    by_value = Rows(columns, len(rows), by_array.part, lambda: None)
    files = io.BytesIO(), io.BytesIO()
    for made, file in zip((by_array, by_value), files, strict=True):
        write_csv(made, file)
    assert files[0].getvalue() == files[1].getvalue()


def test_plain_names_are_copied_and_not_looked_at_one_by_one(monkeypatch):
    """Of 1,000 names only the one with a comma is quoted, and so for names of columns and kinds."""
    names = [f"name {number}" for number in range(999)] + ["a,b"]
    made = layout(nodes=leaves(1), entries=entries(*((2, 20 + k, name, "file", 0) for k, name in enumerate(names))))
    texts = []
    quote = tables._quote_csv
    monkeypatch.setattr(tables, "_quote_csv", lambda text: texts.append(text) or quote(text))
    table = made.columns("entries")
    found = list(csv.DictReader(io.StringIO(written(table, "csv"), newline="")))
    assert [row["name"] for row in found] == names
    assert sorted(set(texts) - {*found[0]}) == ["a,b", "file"]
    assert len(texts) == len(found[0]) + 2
