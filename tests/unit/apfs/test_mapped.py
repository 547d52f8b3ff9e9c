"""Objects that the entries of an object map lead to: nodes of 512 bytes in their own blocks, laid out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from layoutscope.filesystems.apfs.nodes import rows_of
from layoutscope.filesystems.apfs.omap import are_misled, read_mapped, report_damaged_objects
from layoutscope.findings import FindingLog
from tests.unit.apfs.toys import BLOCK, mapping, node, object_map, store_of, virtual

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.omap import ObjectMap


def report_damage(omap: ObjectMap, store, known=()) -> tuple[list[int], list[tuple[str, str, int, str, str]]]:
    """Return the entries of damaged objects, and the findings."""
    mapped, log = read_mapped(omap, store.blocks, known), FindingLog(locate=store.blocks.place)
    entries = report_damaged_objects(omap, mapped, are_misled(omap, mapped), "node", log)
    return entries.tolist(), [
        (item.code, item.structure, item.image_offset, item.expected, item.found) for item in log.findings
    ]


def test_sound_objects_are_known_by_their_headers():
    """Objects 10 and 11 of transaction 7 in blocks 3 and 2: rows are in the order of addresses."""
    store = store_of({2: virtual(11), 3: virtual(10)})
    omap = object_map((10, 7, 3), (11, 7, 2))
    mapped = read_mapped(omap, store.blocks)
    assert (mapped.oid.tolist(), mapped.xid.tolist()) == ([11, 10], [7, 7])
    assert mapped.size_bytes.tolist() == [BLOCK, BLOCK]
    assert mapped.is_virtual.tolist() == mapped.is_node.tolist() == [True, True]
    row, is_sound = mapped.of(np.array([3, 2, 1], np.uint64))
    assert (row[:2].tolist(), is_sound.tolist()) == ([1, 0], [True, True, False])
    assert report_damage(omap, store) == ([], [])
    mapped = read_mapped(object_map((10, 7, 3), deleted=[True]), store_of({3: virtual(10)}).blocks)
    assert len(mapped.oid) == len(mapped.size_bytes) == len(mapped.is_node) == 0
    # The sound node of two is taken as given, and the other one is read.
    known = rows_of(
        "fs",
        {
            "node_id": np.array([10, 11], np.uint64),
            "xid": np.array([5, 5], np.uint64),
            "paddr": np.array([3, 2], np.uint64),
            "size_bytes": np.array([1024, 1024]),
            "valid": np.array([2, 0], np.uint8),
        },
    )
    mapped = read_mapped(object_map((10, 7, 3), (11, 7, 2)), store_of({2: virtual(11), 3: virtual(12)}).blocks, [known])
    assert mapped.oid.tolist() == [11, 10]
    assert mapped.xid.tolist() == [7, 5]
    assert mapped.size_bytes.tolist() == [BLOCK, 1024]
    assert mapped.is_virtual.tolist() == mapped.is_node.tolist() == [True, True]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, [2, 3]),
        ({"deleted": [True, False]}, [2]),
        ({"encrypted": [False, True]}, [3]),
        ({"size": [0, BLOCK]}, [2]),
        ({"size": [BLOCK + 1, BLOCK]}, [2]),
        ({"size": [2 * BLOCK, BLOCK]}, [2]),  # its second block is after the end
        ({"size": [BLOCK, 2 * BLOCK]}, [2, 3]),
    ],
)
def test_what_is_read_of_two_objects(flags, expected):
    """Deleted objects, encrypted ones without a key, and ones without whole blocks are not read.

    The object of the first entry is in block 3, the last of the container, that of the second one in block 2.
    """
    mapped = read_mapped(object_map((10, 7, 3), (11, 7, 2), **flags), store_of({2: virtual(11), 3: virtual(10)}).blocks)
    found = mapped.paddr.tolist()
    assert found == expected


def test_each_damage_is_reported_at_its_block():
    """Blocks 2 to 5: a wrong checksum, an object that no entry names, another transaction, and a whole object.

    Object 99 is physical, so the map did not lose it: the block of object 12 was overwritten.
    """
    broken = virtual(11)[:-1] + b"\1"
    store = store_of({2: broken, 3: node(99, [mapping(1, 1, 1)]), 4: virtual(13, xid=6), 5: virtual(14)})
    entries, findings = report_damage(object_map((11, 7, 2), (12, 7, 3), (13, 7, 4), (14, 7, 5)), store)
    assert entries == [0, 1, 2]
    assert [item[:3] for item in findings] == [
        ("checksum-mismatch", "node 11", 2 * BLOCK),
        ("node-invalid", "node 12", 3 * BLOCK),
        ("node-invalid", "node 13", 4 * BLOCK),
    ]
    assert [item[3:] for item in findings[1:]] == [("12", "99"), ("7", "6")]
    # An object after the end, a deleted one, and one that another entry names in the same place give no finding.
    omap = object_map((10, 7, 2), (11, 7, 90), (12, 7, 3), (13, 7, 2), deleted=[False, False, True, False])
    assert report_damage(omap, store_of({2: virtual(10), 3: virtual(99)[:-1] + b"\1"})) == ([], [])
    # Two transactions of object 11 lead to the same damaged block.
    entries, findings = report_damage(object_map((11, 6, 2), (11, 7, 2)), store_of({2: virtual(11)[:-1] + b"\1"}))
    assert entries == [0, 1]
    assert [item[:3] for item in findings] == [("checksum-mismatch", "node 11", 2 * BLOCK)]


@pytest.mark.parametrize(
    ("level", "table", "expected"),
    [
        (0, 8, []),
        (15, 8, []),
        (16, 8, [0]),  # no tree has that many levels
        (0, 0, [0]),  # an empty table of contents
        (0, BLOCK, []),
        (0, BLOCK + 1, [0]),  # larger than the node
    ],
)
def test_what_may_be_a_node_without_header(level, table, expected):
    """Nodes of sealed volumes have neither number nor checksum; only level and areas can be checked.

    Bytes 34 to 35 are the level, 42 to 43 the length of the table, and of the free space the place and length follow.
    """
    data = bytearray(BLOCK)
    data[34:36], data[42:44] = level.to_bytes(2, "little"), table.to_bytes(2, "little")
    entries, findings = report_damage(object_map((10, 7, 2), bare=[True]), store_of({2: bytes(data)}))
    assert entries == expected
    assert [item[0] for item in findings] == ["node-invalid"] * len(expected)


def test_areas_of_a_node_without_header_count_together():
    """With a table of 100 bytes at 100 and free space of 112 bytes at 200, 512 bytes are a node, 513 are not."""
    for length, expected in ((112, []), (113, [0])):
        data = bytearray(BLOCK)
        for at, number in ((40, 100), (42, 100), (44, 200), (46, length)):
            data[at : at + 2] = number.to_bytes(2, "little")
        assert report_damage(object_map((10, 7, 2), bare=[True]), store_of({2: bytes(data)}))[0] == expected


def find_misled(omap: ObjectMap, blocks: dict[int, bytes]) -> list[bool]:
    return are_misled(omap, read_mapped(omap, store_of(blocks).blocks)).tolist()


def test_entries_that_mislead():
    """An entry is wrong if its block has an object that belongs there."""
    # Entry 10 leads to block 3, which has object 11; the entry of 11 points there, so the entry of 10 is wrong.
    omap = object_map((10, 7, 3), (11, 7, 3))
    assert find_misled(omap, {3: virtual(11)}) == [True, False]
    # A physical object's number is its address: block 3 has object 3; object 4 in it would be a stray copy.
    assert find_misled(object_map((10, 7, 3)), {3: node(3, [mapping(1, 1, 1)])}) == [True]
    assert find_misled(object_map((10, 7, 3)), {3: node(4, [mapping(1, 1, 1)])}) == [False]
    # Object 12 has no entry; if it has an entry for another block, this block has a stray copy of it.
    assert find_misled(object_map((10, 7, 3)), {3: virtual(12)}) == [True]
    assert find_misled(object_map((10, 7, 3), (12, 7, 4)), {3: virtual(12), 4: virtual(12)}) == [False, False]
    assert find_misled(object_map((10, 7, 3)), {3: virtual(12)[:-1] + b"\1"}) == [False]
    assert find_misled(object_map((10, 7, 3), (11, 7, 3), deleted=[True, False]), {3: virtual(12)}) == [False, True]
