from __future__ import annotations

import struct

import numpy as np
import pytest
from msgspec.structs import replace

from fixtures.apfs.checksum import with_checksum
from layoutscope.filesystems.apfs.btree import as_rows, read_batch, read_nodes, read_omap, read_root
from layoutscope.filesystems.apfs.source import TreeSource
from layoutscope.filesystems.apfs.verify import VALID_NAMES
from tests.unit.apfs.toys import BLOCK, HEAD, child, mapping, node, store_of

LEFT = [mapping(10, 3, 90), mapping(10, 5, 91)]
RIGHT = [mapping(20, 4, 92), mapping(30, 7, 93)]
ROOT = [child(10, 3, 2), child(20, 4, 3)]


def tree(**instead: bytes):
    """Return a root in block 1 with leaves in blocks 2 and 3, some of them replaced."""
    blocks = {"root": node(1, ROOT, level=1, root=(4, 3)), "left": node(2, LEFT), "right": node(3, RIGHT)} | instead
    return dict(zip((1, 2, 3), blocks.values(), strict=True))


def found(store):
    """Return what was found, without words."""
    return [(item.code, item.structure, item.image_offset) for item in store.log.findings]


def test_nodes_come_level_by_level_in_key_order(decoder):
    """Root in block 1, leaves in blocks 2 and 3, both children of the first node."""
    store = store_of(tree(), decoder)
    nodes, leaves = read_nodes(TreeSource(store, "omap", 1, 7))
    assert nodes.paddr.tolist() == [1, 2, 3]
    assert nodes.level.tolist() == [1, 0, 0]
    assert nodes.parent.tolist() == [-1, 0, 0]
    assert nodes.key_rank.tolist() == [0, 0, 1]
    assert nodes.num_records.tolist() == [2, 2, 2]
    assert (nodes.first_key_id.tolist(), nodes.last_key_id.tolist()) == ([10, 10, 20], [20, 10, 30])
    # A leaf: two keys and two values of 16 bytes; the root: two keys of 16, two values of 8.
    assert nodes.used_bytes.tolist() == [48, 64, 64]
    assert [len(batch.slots) for batch in leaves] == [4]
    assert found(store) == []


def test_object_map_knows_its_leaves(decoder):
    """Entries of both leaves, each with the position of its leaf among the nodes."""
    omap = read_omap(store_of(tree(), decoder), "omap", 1, 7)
    assert omap.oid.tolist() == [10, 10, 20, 30]
    assert omap.paddr.tolist() == [90, 91, 92, 93]
    assert omap.leaf.tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        # The second leaf says another number, a younger transaction, another level, and no sound checksum.
        (node(9, RIGHT), ("node-invalid", "omap tree, node 3", 3 * BLOCK)),
        (node(3, RIGHT, xid=8), ("node-invalid", "omap tree, node 3", 3 * BLOCK)),
        (node(3, [child(20, 4, 2)], level=1), ("node-invalid", "omap tree, node 3", 3 * BLOCK)),
        (node(3, RIGHT)[:-1] + b"\1", ("checksum-mismatch", "omap tree, node 3", 3 * BLOCK)),
    ],
)
def test_node_that_is_not_what_was_looked_for_is_left_out(broken, expected):
    """The finding is at the node; the other leaf is read."""
    store = store_of(tree(right=broken))
    assert read_omap(store, "omap", 1, 7).oid.tolist() == [10, 10]
    assert found(store) == [expected]


def test_a_record_that_leaves_its_leaf_is_left_out_alone():
    """The third entry of block 3, 2 * 4 bytes into its table, has its value behind the node; the rest is read."""
    leaf = bytearray(node(3, [*RIGHT, mapping(40, 7, 94)]))
    entry = HEAD + 2 * 4
    leaf[entry + 2 : entry + 4] = (BLOCK).to_bytes(2, "little")
    store = store_of(tree(right=with_checksum(bytes(leaf))))
    omap = read_omap(store, "omap", 1, 7)
    assert omap.oid.tolist() == [10, 10, 20, 30]
    assert found(store) == [("record-invalid", "omap tree, record 2 of node 3", 3 * BLOCK + entry)]
    assert omap.nodes.valid.tolist() == [VALID_NAMES.index(name) for name in ("checksum", "checksum", "no")]


def test_address_outside_the_container_is_told():
    """The index leads to block 50 of a container of four blocks."""
    store = store_of(tree(root=node(1, [ROOT[0], child(20, 4, 50)], level=1, root=(4, 3))))
    assert read_omap(store, "omap", 1, 7).oid.tolist() == [10, 10]
    assert found(store) == [("node-missing", "omap tree, node 50", 50 * BLOCK)]


def test_node_that_two_entries_lead_to_is_read_once():
    """Both entries of the root lead to block 2."""
    store = store_of(tree(root=node(1, [ROOT[0], child(20, 4, 2)], level=1, root=(2, 2))))
    assert read_omap(store, "omap", 1, 7).oid.tolist() == [10, 10]
    assert found(store) == [("node-invalid", "omap tree, node 2", 2 * BLOCK)]


def test_counts_of_the_root_are_compared():
    """Four keys and three nodes, of which the root counts five and four."""
    store = store_of(tree(root=node(1, ROOT, level=1, root=(5, 4))))
    read_omap(store, "omap", 1, 7)
    sides = [(item.code, item.expected, item.found) for item in store.log.findings]
    assert sides == [("count-differs", "4", "5"), ("count-differs", "3", "4")]


def test_keys_that_fall_are_told():
    """The second leaf begins before what its parent promises."""
    store = store_of(tree(right=node(3, [mapping(15, 4, 92), RIGHT[1]])))
    read_omap(store, "omap", 1, 7)
    assert found(store) == [("keys-unordered", "omap tree, node 3", 3 * BLOCK)]


def test_tree_whose_root_is_a_leaf_of_another_is_unreadable():
    """Block 2 is a node, but no root."""
    store = store_of(tree())
    assert len(read_omap(store, "omap", 2, 7)) == 0
    assert found(store) == [("tree-unreadable", "omap tree, node 2", 2 * BLOCK)]


def test_free_bytes_are_those_of_all_three_lists():
    """Free space and the free lists of keys and of values: 100 in the first, 24 and 40 bytes in the others.

    Bytes 48 to 55 of a node are the places and lengths of the two lists (btn_key_free_list, btn_val_free_list).
    """
    leaf = bytearray(node(3, RIGHT))
    leaf[44:56] = struct.pack("<HHHHHH", 0, 100, 0, 24, 0, 40)
    nodes, _ = read_nodes(TreeSource(store_of(tree(right=with_checksum(bytes(leaf)))), "omap", 1, 7))
    assert nodes.free_bytes.tolist()[2] == 100 + 24 + 40


def test_a_node_without_header_has_the_transaction_of_its_entry():
    """Nodes of sealed volumes have zeros for a header; what led to them says that they are of transaction 7."""
    opened, root = read_root(TreeSource(store_of(tree()), "omap", 1, 7))
    batch = read_batch(opened, replace(root, xid=np.array([7], np.uint64)), 1, 0)
    assert as_rows(batch).xid.tolist() == [7]
    bare = replace(batch, head=batch.head | {"hdr.xid": np.zeros(1, np.uint64)})
    assert as_rows(bare).xid.tolist() == [7]
    younger = replace(batch, head=batch.head | {"hdr.xid": np.full(1, 5, np.uint64)})
    assert as_rows(younger).xid.tolist() == [5]
