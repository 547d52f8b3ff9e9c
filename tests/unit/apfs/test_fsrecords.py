from __future__ import annotations

import struct

import pytest

from layoutscope.filesystems.apfs.store.fsrecords import read_record_tree
from layoutscope.filesystems.apfs.store.source import TreeSource
from tests.unit.apfs.toys import BLOCK, record_root, store_of

FSTREE = 14
PHYSICAL_EXTENT, DSTREAM_ID, SIBLING_LINK, UNKNOWN = 2, 6, 5, 15


def key(obj_id: int, record_type: int, rest: bytes = b"") -> bytes:
    """Return a key: the record's type stands in the four highest bits."""
    return struct.pack("<Q", record_type << 60 | obj_id) + rest


def extent(num_blocks: int, owner: int, refcnt: int) -> bytes:
    """Return the value of an extent reference; its kind stands in the four highest bits of its length."""
    return struct.pack("<QQI", 1 << 60 | num_blocks, owner, refcnt)


@pytest.fixture
def read(decoder):
    """Return a function that reads records from a tree of one node in block 1."""

    def run(*records: tuple[bytes, bytes]):
        store = store_of({1: record_root(1, FSTREE, list(records))}, decoder)
        return read_record_tree(TreeSource(store, "fs", 1, 7)), store.log.findings

    return run


def test_records_are_sorted_into_tables_by_type(read):
    """Two extent references and a data stream: number and type of a record come from one field of its key."""
    tree, findings = read(
        (key(40, PHYSICAL_EXTENT), extent(3, 16, 1)),
        (key(50, PHYSICAL_EXTENT), extent(4, 17, 2)),
        (key(60, DSTREAM_ID), struct.pack("<I", 5)),
    )
    extents, streams = tree.records.get("extent"), tree.records.get("dstream_id")
    assert extents["obj_id"].tolist() == [40, 50]
    assert extents["num_blocks"].tolist() == [3, 4]
    assert extents["owning_obj_id"].tolist() == [16, 17]
    assert (streams["obj_id"].tolist(), streams["refcnt"].tolist()) == ([60], [5])
    assert findings == []


def test_places_of_key_and_value_are_counted_from_the_node(read):
    """One entry of 8 bytes: the key stands at 56 + 8; the value of 20 bytes ends at 512 - 40."""
    tree, _ = read((key(40, PHYSICAL_EXTENT), extent(3, 16, 1)))
    table = tree.records.get("extent")
    assert (table["key_at"].tolist(), table["val_at"].tolist()) == ([64], [BLOCK - 40 - 20])


def test_names_end_where_their_length_says(read):
    """A hard link's record: the parent, the name's length with its zero byte, the name."""
    value = struct.pack("<QH", 2, 4) + b"abc\0"
    tree, _ = read((key(40, SIBLING_LINK, struct.pack("<Q", 77)), value))
    table = tree.records.get("sibling_link")
    assert table["sibling_id"].tolist() == [77]
    assert table["parent_id"].tolist() == [2]
    assert table["name"].text().to_list() == ["abc"]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ((key(40, UNKNOWN), b""), "record of an unknown type"),
        # A value of 20 bytes is cut to 8; a name of 9 bytes is said to be in a value that has room for 4.
        ((key(40, PHYSICAL_EXTENT), extent(3, 16, 1)[:8]), "record contradicts its own lengths"),
        (
            (key(40, SIBLING_LINK, bytes(8)), struct.pack("<QH", 2, 9) + b"abc\0"),
            "record contradicts its own lengths",
        ),
    ],
)
def test_records_that_are_not_understood_are_told(read, record, message):
    """The finding is at the record's key; the record after it is read."""
    last = (key(60, DSTREAM_ID), struct.pack("<I", 5))
    tree, findings = read(record, last)
    assert tree.records.get("dstream_id")["obj_id"].tolist() == [60]
    told = [(item.code, item.structure, item.image_offset, item.message) for item in findings]
    # Two entries of 8 bytes stand before the first key.
    assert told == [("record-invalid", "fs tree, record of object 40", BLOCK + 56 + 16, message)]
