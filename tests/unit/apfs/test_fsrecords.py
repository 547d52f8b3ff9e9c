from __future__ import annotations

import struct

import numpy as np
import pytest

from layoutscope.filesystems.apfs import fsrecords
from layoutscope.filesystems.apfs.fsrecords import is_text, to_text, walk_record_tree
from layoutscope.filesystems.apfs.source import TreeSource
from layoutscope.image.passes import read_alone
from layoutscope.tables import TextColumn
from tests.unit.apfs.toys import BLOCK, record_node, record_root, store_of

FSTREE = 14
PHYSICAL_EXTENT, DSTREAM_ID, SIBLING_LINK, UNKNOWN = 2, 6, 5, 15


def key(obj_id: int, record_type: int, rest: bytes = b"") -> bytes:
    """Return a key with the record's type in the four highest bits."""
    return struct.pack("<Q", record_type << 60 | obj_id) + rest


def extent(num_blocks: int, owner: int, refcnt: int) -> bytes:
    """Return the value of an extent reference with its kind in the four highest bits of the length."""
    return struct.pack("<QQI", 1 << 60 | num_blocks, owner, refcnt)


@pytest.fixture
def read():
    """Return a function that reads records from a tree of one node in block 1."""

    def run(*records: tuple[bytes, bytes]):
        store = store_of({1: record_root(1, FSTREE, list(records))})
        return read_alone(walk_record_tree(TreeSource(store, "fs", 1, 7))), store.log.findings

    return run


def test_records_are_sorted_into_tables_by_type(read):
    """Two extent references and a data stream: one field of the key gives the number and type of a record."""
    tree, findings = read(
        (key(40, PHYSICAL_EXTENT), extent(3, 16, 1)),
        (key(50, PHYSICAL_EXTENT), extent(4, 17, 2)),
        (key(60, DSTREAM_ID), struct.pack("<I", 5)),
    )
    extents, streams = tree.get("extent"), tree.get("dstream_id")
    assert extents["obj_id"].tolist() == [40, 50]
    assert extents["num_blocks"].tolist() == [3, 4]
    assert extents["owning_obj_id"].tolist() == [16, 17]
    assert (streams["obj_id"].tolist(), streams["refcnt"].tolist()) == ([60], [5])
    assert findings == []
    # The place in the node and the owner are dropped; the blocks, their reference counts and the record count stay.
    tree, _ = read((key(40, PHYSICAL_EXTENT), extent(3, 16, 1)), (key(60, DSTREAM_ID), struct.pack("<I", 5)))
    tree.drop_check_columns()
    assert set(tree.get("extent")) == {"node", "num_blocks", "kind", "refcnt", "obj_id"}
    assert tree.count("dstream_id") == 1
    # With one table entry of 8 bytes, the key is at 56 + 8; the value of 20 bytes ends at 512 - 40.
    tree, _ = read((key(40, PHYSICAL_EXTENT), extent(3, 16, 1)))
    table = tree.get("extent")
    assert (table["key_at"].tolist(), table["val_at"].tolist()) == ([64], [BLOCK - 40 - 20])


def test_names_end_where_their_length_says(read):
    """A hard link's record has the parent, the name's length including its zero byte, and the name."""
    value = struct.pack("<QH", 2, 4) + b"abc\0"
    tree, _ = read((key(40, SIBLING_LINK, struct.pack("<Q", 77)), value))
    table = tree.get("sibling_link")
    assert table["sibling_id"].tolist() == [77]
    assert table["parent_id"].tolist() == [2]
    assert to_text(table["name"]).to_list() == ["abc"]
    # Three hard links: a name with a zero byte inside, an empty name, and a name without a zero byte, kept whole.
    raw = (b"ab\0cd\0", b"\0", b"xyz")
    tree, findings = read(
        *((key(40 + n, SIBLING_LINK, bytes(8)), struct.pack("<QH", 2, len(each)) + each) for n, each in enumerate(raw))
    )
    assert tree.get("sibling_link")["name"].raw() == [b"ab", b"", b"xyz"]
    assert findings == []
    # No byte follows at its start that could continue a character.
    names = TextColumn(np.frombuffer("\u00e9".encode(), np.uint8), np.array([2, 0]))
    assert is_text(names)
    assert names.raw() == ["\u00e9".encode(), b""]
    assert names.equal_to(b"").tolist() == [False, True]
    assert names.equal_to(b"abc").tolist() == [False, False]


def xfields(*items: tuple[int, bytes]) -> bytes:
    """Return extended fields: their number, the bytes of their data, descriptions, then data padded to eight bytes."""
    padded = [data.ljust(-(-len(data) // 8) * 8, b"\0") for _, data in items]
    described = b"".join(struct.pack("<BBH", kind, 0, len(data)) for kind, data in items)
    return struct.pack("<HH", len(items), sum(map(len, padded))) + described + b"".join(padded)


STREAM = struct.pack("<QQQQQ", 4000, 4096, 0, 4000, 0)
INODE = struct.pack("<QQQQQQQi", 2, 40, 1, 2, 3, 4, 0, 1).ljust(92, b"\0")
FIELDS = xfields((8, STREAM), (4, b"name\0"))
"""Two fields: the head, two descriptions, a stream of 40 bytes and a name of five, padded to eight."""
assert len(FIELDS) == 4 + 2 * 4 + 40 + 8


def files() -> bytes:
    """Return a leaf with an inode with a stream, the stream, an extent, and an entry with the number of a hard link."""
    link = struct.pack("<QQH", 77, 9, 8) + xfields((1, struct.pack("<Q", 88)))
    records = [
        (key(40, 3), INODE + FIELDS),
        (key(40, DSTREAM_ID), struct.pack("<I", 5)),
        (key(40, 8, bytes(8)), struct.pack("<QQQ", 4096, 7, 0)),
        (key(40, 9, struct.pack("<I", 5 << 10 | 4) + b"one\0"), link),
    ]
    return record_root(1, FSTREE, records)


def attributes() -> bytes:
    """Return a leaf with a streamed attribute, that of a compressed file, a hard link and an unknown record."""
    stored = struct.pack("<HHQ", 1, 48, 91) + STREAM
    header = struct.pack("<HH", 2, 16) + b"cmpf" + struct.pack("<IQ", 3, 12345)
    records = [
        (key(40, 4, struct.pack("<H", 6) + b"large\0"), stored),
        (key(40, 4, struct.pack("<H", 18) + b"com.apple.decmpfs\0"), header),
        (key(40, SIBLING_LINK, struct.pack("<Q", 77)), struct.pack("<QH", 2, 4) + b"abc\0"),
        (key(41, UNKNOWN), b""),
    ]
    return record_root(1, FSTREE, records)


def decoded(node: bytes):
    """Read a tree of one node; return the values by table and column, the counts of records, and the findings."""
    store = store_of({1: node})
    tree = read_alone(walk_record_tree(TreeSource(store, "fs", 1, 7), hashed_names=True))
    shown = {
        (table, name): values.raw() if isinstance(values, TextColumn) else values.tolist()
        for table, columns in tree.tables.items()
        for name, values in columns.items()
    }
    return shown, tree.num_records, tree.num_decoded, store.log.findings


def test_attributes_and_extended_fields_become_columns():
    """The stream of an inode and of an attribute, the size a compressed file declares, the number of a hard link."""
    shown, *counts, _ = decoded(files())
    assert counts == [4, 4]
    assert (shown["inode", "has_dstream"], shown["inode", "data_size"]) == ([True], [4000])
    assert (shown["dir_rec", "sibling_id"], shown["dir_rec", "name"]) == ([88], [b"one"])
    shown, *counts, _ = decoded(attributes())
    assert counts == [4, 3]
    assert (shown["xattr", "stream_id"], shown["xattr", "expanded_size"]) == ([91, 0], [-1, 12345])


@pytest.mark.parametrize(
    ("length", "is_whole"), [(0, None), (2, False), (4, False), (51, False), (56, False), (57, True)]
)
def test_fields_of_an_inode_that_is_cut(read, length, is_whole):
    """The last padding may be cut off, the last data may not; a head without fields is 0. The next inode is whole."""
    tree, findings = read((key(40, 3), INODE + FIELDS[:length]), (key(41, 3), INODE + FIELDS))
    inodes = tree.get("inode")
    assert inodes["has_dstream"].tolist() == [bool(is_whole), True]
    assert inodes["data_size"].tolist()[1] == 4000
    assert [item.code for item in findings] == ["record-invalid"] * (is_whole is False)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ((key(40, UNKNOWN), b""), "record of an unknown type"),
        # A value of 20 bytes is cut to 8; a name of 9 bytes is declared in a value with room for 4.
        ((key(40, PHYSICAL_EXTENT), extent(3, 16, 1)[:8]), "record contradicts its own lengths"),
        (
            (key(40, SIBLING_LINK, bytes(8)), struct.pack("<QH", 2, 9) + b"abc\0"),
            "record contradicts its own lengths",
        ),
    ],
)
def test_records_that_are_not_understood_are_told(read, record, message):
    """The finding is located at the record's key; the record after it is read."""
    last = (key(60, DSTREAM_ID), struct.pack("<I", 5))
    tree, findings = read(record, last)
    assert tree.get("dstream_id")["obj_id"].tolist() == [60]
    told = [(item.code, item.structure, item.image_offset, item.message) for item in findings]
    # Two entries of 8 bytes precede the first key.
    assert told == [("record-invalid", "fs tree, record of object 40", BLOCK + 56 + 16, message)]


@pytest.mark.parametrize(
    ("is_stream", "length", "stream", "expanded"),
    [
        (True, 48, (91, 4000), -1),
        (True, 47, (0, 0), -1),
        (False, 48, (0, 0), 4000),
        (False, 16, (0, 0), 4000),
        (False, 15, (0, 0), -1),
        (False, 0, (0, 0), -1),
    ],
)
def test_attributes_that_are_too_short_tell_no_size(read, is_stream, length, stream, expanded):
    """A stream takes 48 bytes, and its second number is the size; the header of a compressed file takes 16 bytes.

    The attribute before it has a name of the same length, but is neither of these.
    """
    data = struct.pack("<QQQQQQ", 91, 4000, 4096, 0, 4000, 0)[:length]
    flags = 1 if is_stream else 2
    values = [struct.pack("<HH", flag, len(each)) + each for flag, each in ((2, data), (flags, data))]
    names = [name + b"\0" for name in (b"com.apple.decmpfx", b"com.apple.decmpfs")]
    tree, findings = read(
        *((key(40, 4, struct.pack("<H", len(name)) + name), value) for name, value in zip(names, values, strict=True))
    )
    table = tree.get("xattr")
    assert findings == []
    assert table["expanded_size"].tolist() == [-1, expanded]
    assert (table["stream_id"].tolist(), table["stream_size"].tolist()) == ([0, stream[0]], [0, stream[1]])


def test_records_of_some_types_are_counted(read):
    """One of four records is understood; each type that occurs has a table, and no other type has one."""
    tree, _ = read(
        (key(40, DSTREAM_ID), struct.pack("<I", 5)),
        (key(41, DSTREAM_ID), b""),
        (key(42, PHYSICAL_EXTENT), b""),
        (key(43, UNKNOWN), b""),
    )
    assert (tree.num_records, tree.num_decoded) == (4, 1)
    assert {name: tree.count(name) for name in tree.tables} == {"dstream_id": 1, "extent": 0}
    # The table of another type has all columns, those of texts and of the data of attributes too, and no rows.
    assert {"obj_id", "node", "name", "is_stream", "stream_id", "expanded_size"} <= tree.get("xattr").keys()
    assert {len(values) for values in tree.get("xattr").values()} == {0}
    rows, is_found = tree.find("dstream_id", "dstream_id", "obj_id")
    assert (rows.tolist(), is_found.tolist()) == ([0], [True])
    assert tree.count("dstream_id") == 1
    # An empty table has the columns of its fields and the location of each record.
    columns = fsrecords.no_records("dstream_id")
    assert {name: (len(values), values.dtype.itemsize) for name, values in columns.items()} == {
        "node": (0, 4), "key_at": (0, 2), "val_at": (0, 2), "refcnt": (0, 4), "obj_id": (0, 8),
    }  # fmt: skip


@pytest.mark.parametrize("batch", [1, 1024])
def test_attributes_of_several_leaves(monkeypatch, batch):
    """Reading leaves one by one or at once gives the same size: that of the right one of three in the last leaf."""
    monkeypatch.setattr("layoutscope.filesystems.apfs.btree.BATCH_NODES", batch)
    header = struct.pack("<HH", 2, 16) + b"cmpf" + struct.pack("<IQ", 3, 12345)

    def attribute(obj_id: int, name: bytes) -> tuple[bytes, bytes]:
        return key(obj_id, 4, struct.pack("<H", len(name) + 1) + name + b"\0"), header

    first = [attribute(40, b"one"), attribute(40, b"two")]
    last = [attribute(50, b"com.apple"), attribute(50, b"com.apple.decmpfs"), attribute(60, b"three")]
    leads = [(first[0][0], struct.pack("<Q", 2)), (last[0][0], struct.pack("<Q", 3))]
    store = store_of(
        {
            1: record_node(1, FSTREE, leads, level=1, info=(28, 20, 5, 3)),
            2: record_node(2, FSTREE, first),
            3: record_node(3, FSTREE, last),
        }
    )
    tree = read_alone(walk_record_tree(TreeSource(store, "fs", 1, 7)))
    assert store.log.findings == []
    table = tree.get("xattr")
    assert (table["obj_id"].tolist(), table["node"].tolist()) == ([40, 40, 50, 50, 60], [1, 1, 2, 2, 2])
    assert table["expanded_size"].tolist() == [-1, -1, -1, 12345, -1]
    assert (tree.num_records, tree.num_decoded) == (5, 5)
    assert tree.nodes.first_key_id.tolist() == [40, 40, 50]
