"""Building tables against their schema."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.findings import Finding
from layoutscope.tables import (
    NULL_ROW,
    TABLES,
    LazyColumn,
    Table,
    TextColumn,
    Values,
    build_table,
    findings_table,
    layout_findings,
    stack_tables,
)
from layoutscope.tables.schema import NUMBERS
from tests.layouts import layout

REGION = {"device": 0, "volume": 0, "type": ([0, 1], ["a", "b"]), "owner": "", "length_bytes": np.array([3, 4])}


def test_addresses_and_rows_that_are_none():
    """Empty tables keep their columns, and unknown addresses become null."""
    for name, columns in TABLES.items():
        frame = build_table(name, {}).frame
        assert frame.columns == [column.name for column in columns]
        assert frame.height == 0
    # A hole has no address, so it is null.
    frame = build_table("regions", {**REGION, "image_offset": np.array([-1, 5])}).frame
    assert frame["image_offset"].to_list() == [None, 5]
    assert frame["type"].cast(pl.String).to_list() == ["a", "b"]
    # A missing reference is null, never a number.
    columns = {"node_row": np.array([NULL_ROW, 1], np.uint32), "device": 0}
    frame = build_table(
        "node_fragments", {**columns, "image_offset": np.array([1, 2]), "length_bytes": np.array([1, 1])}
    )
    assert frame["node_row"].to_list() == [None, 1]


@pytest.mark.parametrize("change", [{"colour": 1}, {"length_bytes": np.array([1])}], ids=["unknown", "length"])
def test_wrong_columns_are_refused(change):
    """Unknown columns and unequal lengths are errors of the caller."""
    with pytest.raises(ValueError, match=r"column"):
        build_table("regions", {**REGION, "image_offset": np.array([0, 5]), **change})


def test_columns_are_made_once():
    """Columns are made once, and rows that follow are no copy."""
    # It is checked, converted and sliced like any other, and is not made for other columns.
    asked = []

    def make():
        asked.append(1)
        return np.array([5, -1])

    table = build_table("regions", {**REGION, "image_offset": LazyColumn(2, make)})
    assert table.take(np.array([1]))["length_bytes"].to_list() == [4]
    assert not asked
    assert table["image_offset"].to_list() == [5, None]
    assert table.take(np.array([True, False]))["image_offset"].to_list() == [5]
    assert len(asked) == 1
    with pytest.raises(ValueError, match="different lengths"):
        build_table("regions", {**REGION, "image_offset": LazyColumn(3, make)})
    # The middle two of four rows share memory, which is read-only; other selections are copied.
    lengths = np.array([3, 4, 5, 6])
    columns = {"device": 0, "volume": 0, "type": "a", "owner": ["a", "b", "c", "d"], "image_offset": lengths * 100}
    table = build_table("regions", {**columns, "length_bytes": lengths})
    middle, ends = table.take(np.array([False, True, True, False])), table.take(np.array([True, False, False, True]))
    assert np.shares_memory(middle["length_bytes"].data, lengths)
    assert middle["length_bytes"].to_list() == [4, 5]
    assert middle.texts("owner").to_list() == ["b", "c"]
    assert (len(middle), middle["row"].to_list()) == (2, [1, 2])
    with pytest.raises(ValueError, match="read-only"):
        middle["length_bytes"].data[0] = 9
    assert (ends["length_bytes"].to_list(), ends.texts("owner").to_list()) == ([3, 6], ["a", "d"])
    assert len(table.take(np.zeros(4, np.bool_))) == 0


def test_columns_that_cannot_be_are_refused():
    """A missing column, and numbers beyond it."""
    # A reader cannot forget a column.
    with pytest.raises(ValueError, match="image_offset"):
        build_table("regions", REGION)
    # A number that does not fit into signed 64 bits is an error of the caller, never another number.
    with pytest.raises(ValueError, match="image_offset"):
        build_table("regions", {**REGION, "image_offset": np.array([0, 2**63], np.uint64)})


def test_a_table_is_the_same_as_arrays_and_as_a_frame():
    """Numbers, words, texts and times, known and unknown, survive the conversion and back."""
    times = Values(np.array([0, 10**6, 0]), np.array([False, True, True]))
    made = build_table(
        "entries",
        {
            "volume": None, "parent_id": np.array([2, 2, 2]), "file_id": [16, 17, 18], "name": ["a", None, "\u00e9"],
            "name_raw": TextColumn(np.frombuffer(b"cab", np.uint8), np.array([1, 1, 1]), np.array([1, 2, 0])),
            "kind": ([1, 0, 1], ("file", "directory")), "size_bytes": [1, None, 3], "link_count": 1,
            "create_time": times, "modify_time": None, "flags": 0, "entry_rank": [0, 1, 2],
            "entry_node_row": np.array([NULL_ROW, 0, 1], np.uint32), "inode_node_row": None,
        },
    )  # fmt: skip
    frame = made.frame
    assert dict(frame.schema) == {column.name: column.dtype for column in TABLES["entries"]}
    assert frame["name_raw"].to_list() == made.texts("name_raw").raw() == [b"a", b"b", b"c"]
    assert frame["kind"].to_list() == ["directory", "file", "directory"]
    assert frame["create_time"].dt.timestamp("ms").to_list() == [None, 1000, 0]
    back = Table.of("entries", frame)
    assert (
        back.texts("name").to_list() == made.texts("name").to_list() == frame["name"].to_list() == ["a", None, "\u00e9"]
    )
    assert back["kind"].equals("file").tolist() == made["kind"].equals("file").tolist() == [False, True, False]
    for name in (column.name for column in TABLES["entries"] if column.kind in NUMBERS):
        assert back[name].to_list() == made[name].to_list() == frame[name].to_physical().to_list()


def test_words_are_numbered_once_over_all_tables():
    """Words are numbered by rows, each once."""
    # The second table has its words in another order.
    first, second = (
        build_table("regions", {**REGION, "type": ([0, 1], words), "image_offset": [1, -1]})
        for words in (("a", "b"), ("b", "c"))
    )
    both = stack_tables([first.changed("row", first["row"]), second])
    assert [both["type"].equals(word).tolist() for word in "abc"] == [
        [True, False, False, False],
        [False, True, True, False],
        [False, False, False, True],
    ]
    assert both["image_offset"].to_list() == [1, None, 1, None]
    # An attribute can have the name of a fork.
    words = build_table("regions", {**REGION, "type": ([0, 1], ("data", "data")), "image_offset": [1, 2]})["type"]
    assert words.equals("data").all()
    assert words.numbered()[1] == ("data",)
    # The order of codes does not matter; unknown is the empty word.
    words = Values(np.array([1, 0, 0, 1]), np.array([True, False, True, True]), ("a", "b", "never"))
    numbers, found = words.numbered()
    assert (numbers.tolist(), found) == ([0, 1, 2, 0], ("b", "", "a"))


def test_frames_and_findings_come_back():
    """Frames and findings are those that were given."""
    # Both tables and frames are accepted; unchanged parts are not rebuilt.
    made = layout(regions={**REGION, "image_offset": [1, 2]})
    assert made.changed(regions=made.regions.head(1)).columns("regions")["length_bytes"].to_list() == [3]
    assert replace(made, free=made.free).regions is made.regions
    assert made.changed(facts=made.facts).columns("nodes") is made.columns("nodes")
    # Findings are restored row by row, including unknown values.
    found = (
        Finding("node-invalid", "error", "node 1", None, "one"),
        Finding("truncated", "info", "node 2", 7, "two", "x", "y", 1),
    )
    assert layout_findings(layout().changed(findings=findings_table(found))) == found


TEXTS = st.lists(st.one_of(st.none(), st.text(max_size=5)), max_size=8)


@given(TEXTS, st.data())
def test_texts_are_found_in_any_order(texts, data):
    """They are selected, compared and measured like a list."""
    rows = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=8)) if texts else []
    wanted = data.draw(st.sampled_from([text for text in texts if text is not None] or ["x"]))
    taken = TextColumn.of(texts).take(np.array(rows, np.int64))
    chosen = [texts[row] for row in rows]
    assert taken.to_list() == chosen
    assert taken.series("name", pl.String()).to_list() == chosen
    assert taken.equal_to(wanted.encode()).tolist() == [text == wanted for text in chosen]
    assert taken.lengths(20).tolist() == [20 if text is None else len(text.encode()) for text in chosen]
    assert taken.is_ascii() == all(text is None or text.isascii() for text in chosen)
    assert taken.num_chars().tolist() == [len(text or "") for text in chosen]
    raw = [(text or "").encode() for text in chosen]
    assert [row.tobytes() for row in taken.heads(5)] == [text[:5].ljust(5, b"\0") for text in raw]


@pytest.mark.parametrize("name", ["hfsplus-scattered", "apfs-scattered"])
def test_polars_is_not_loaded_before_a_frame_is_asked_for(name):
    """A scan of an image makes no frame, nor does it load masked arrays, which some numpy functions need."""
    program = (
        "import sys; from layoutscope.api.scan import scan; result = scan(sys.argv[1]);"
        "print('polars' in sys.modules, 'numpy.ma' in sys.modules);"
        "print(result.volumes[-1].layout.nodes.height > 0, 'polars' in sys.modules)"
    )
    root = Path(__file__).parents[3]
    words = [sys.executable, "-c", program, root / "fixtures" / "images" / f"{name}.img.zst"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.split() == ["False", "False", "True", "True"]
