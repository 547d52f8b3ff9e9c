"""A whole tree of extents on a volume of a few blocks: its file, its map, its nodes and its records."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from layoutscope.filesystems.hfsplus.btree import TreePlace, open_tree
from layoutscope.filesystems.hfsplus.extents import overflow_leaves
from layoutscope.filesystems.hfsplus.forks import Fork
from layoutscope.filesystems.hfsplus.nodes import HEADER, INDEX, LEAF
from layoutscope.filesystems.hfsplus.tree import read_tree
from layoutscope.filesystems.hfsplus.volume import Volume
from layoutscope.findings import FindingLog
from layoutscope.image import MemorySource
from layoutscope.ondisk.records import EXTENT_KEY, EXTENT_LEAF_RECORD, HEADER_RECORD
from tests.unit.hfsplus.written import node

SIZE, FIRST_BLOCK = 512, 2
HEADER_AT = FIRST_BLOCK * SIZE


def record(file_id):
    return EXTENT_LEAF_RECORD.blank(
        {
            "key.len_key": 10,
            "key.file_id": file_id,
            "data.extents.start_block": [file_id],
            "data.extents.num_blocks": [1],
        }
    )


def pointer(file_id, child):
    return EXTENT_KEY.blank({"len_key": 10, "file_id": file_id}) + child.to_bytes(4, "big")


def header(used=0b1111_0000, **changed):
    """Return the header node of a tree with root 1 and leaves 3 and 2; the first bit is that of node 0."""
    usual = {"tree_depth": 2, "root_node": 1, "leaf_records": 3, "first_leaf_node": 3, "last_leaf_node": 2}
    sizes = {"len_node": SIZE, "len_key_max": 10, "num_nodes": 4}
    record = HEADER_RECORD.blank({**usual, **sizes, **changed})
    map_bytes = SIZE - 14 - len(record) - 128 - 8
    return node([record, bytes(128), bytes([used]).ljust(map_bytes, b"\0")], kind=HEADER, height=0, size=SIZE)


ROOT = node([pointer(7, 3), pointer(9, 2)], kind=INDEX, height=2, size=SIZE)
LAST = node([record(9)], size=SIZE, b_link=3)
FIRST = node([record(7), record(8)], size=SIZE, f_link=2)


def volume_of(*nodes):
    """Return a volume that has the nodes from block 2 on, and where to find them."""
    data = bytes(HEADER_AT) + b"".join(nodes)
    known = SimpleNamespace(len_block=SIZE, num_blocks=len(data) // SIZE)
    volume = Volume(MemorySource(data), 0, known, None, FindingLog())
    blocks = np.array([FIRST_BLOCK]), np.array([len(nodes)]), np.array([-1])
    return volume, TreePlace("extents-overflow", 3, Fork(len(nodes) * SIZE, *blocks))


def codes(volume):
    return [(finding.code, finding.image_offset) for finding in volume.log.findings]


def test_records_come_in_the_order_of_keys():
    """Leaf 3 stands before leaf 2, as the root says; nothing is wrong."""
    volume, place = volume_of(header(), ROOT, LAST, FIRST)
    tree = read_tree(volume, place, overflow_leaves())
    assert tree.records["key.file_id"].tolist() == [7, 8, 9]
    assert tree.records["node"].tolist() == [3, 3, 2]
    assert tree.reach.leaves.tolist() == [3, 2]
    assert codes(volume) == []


def test_rows_of_nodes_say_what_the_nodes_do():
    """By number: header, root, the last leaf, the first; keys from 7 to 9, and free space behind the records."""
    volume, place = volume_of(header(), ROOT, LAST, FIRST)
    nodes = read_tree(volume, place, overflow_leaves()).nodes
    assert nodes.kind.tolist() == [HEADER, INDEX, LEAF, LEAF]
    assert nodes.parent.tolist() == [-1, -1, 1, 1]
    assert nodes.first_key_id.tolist() == [-1, 7, 9, 7]
    assert nodes.last_key_id.tolist() == [-1, 9, 9, 8]
    assert nodes.free_offset[1:].tolist() == [14 + 2 * 16, 14 + 76, 14 + 2 * 76]


def test_a_node_that_the_map_calls_free_is_read_if_the_tree_points_to_it():
    """Node 3 has no bit; what it holds is there all the same, and the byte of the map is told."""
    volume, place = volume_of(header(used=0b1110_0000, num_free_nodes=1), ROOT, LAST, FIRST)
    tree = read_tree(volume, place, overflow_leaves())
    assert tree.records["key.file_id"].tolist() == [7, 8, 9]
    assert codes(volume) == [("node-map-differs", HEADER_AT + 14 + HEADER_RECORD.width + 128)]


def test_a_file_of_another_size_than_the_header_counts_is_told():
    """The header counts five nodes, the file has four."""
    volume, place = volume_of(header(num_nodes=5), ROOT, LAST, FIRST)
    assert open_tree(volume, place).num_nodes == 4
    assert codes(volume) == [("tree-size-differs", HEADER_AT + 14 + HEADER_RECORD.num_nodes.offset)]


@pytest.mark.parametrize("size", [0, 500, 256, 513, 3 * 512])
def test_a_tree_with_an_impossible_size_of_nodes_is_lost(size):
    """None of these is a power of two from 512 on."""
    volume, place = volume_of(header(len_node=size), ROOT, LAST, FIRST)
    assert read_tree(volume, place, overflow_leaves()) is None
    assert codes(volume) == [("tree-header-invalid", HEADER_AT + 14 + HEADER_RECORD.len_node.offset)]


def test_no_blocks_are_no_tree():
    """A volume may have no such file; that is no finding."""
    volume, place = volume_of(header(), ROOT, LAST, FIRST)
    none = np.empty(0, np.int64)
    assert read_tree(volume, place._replace(fork=Fork(0, none, none, none)), overflow_leaves()) is None
    assert codes(volume) == []


def test_a_leaf_without_a_whole_record_is_damaged():
    """The record of file 8 lacks four bytes: it drops out, and its leaf is told."""
    short = node([record(7), record(8)[:-4]], size=SIZE, f_link=2)
    volume, place = volume_of(header(), ROOT, LAST, short)
    tree = read_tree(volume, place, overflow_leaves())
    assert tree.records["key.file_id"].tolist() == [7, 9]
    assert codes(volume) == [("records-invalid", HEADER_AT + 3 * SIZE)]
