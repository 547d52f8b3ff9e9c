from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest
from msgspec.structs import replace

from fixtures.apfs.checksum import with_checksum
from layoutscope.filesystems.apfs.blocks import Blocks
from layoutscope.filesystems.apfs.btree import (
    level_of_disorder,
    read_batch,
    read_levels,
    read_nodes,
    read_omap,
    read_root,
)
from layoutscope.filesystems.apfs.nodes import DAMAGED, SOUND, UNREAD
from layoutscope.filesystems.apfs.omap import view_at
from layoutscope.filesystems.apfs.source import OpenTree, Store, TreeSource, locate_nodes
from layoutscope.filesystems.apfs.verify import VALID_NAMES, check_nodes, hash_objects, hash_size
from layoutscope.findings import FindingLog
from layoutscope.image.failing import RescuedSource
from layoutscope.image.source import MemorySource
from tests.cases import for_each
from tests.unit.apfs.toys import BLOCK, HEAD, INFO, child, mapping, node, object_map, record_root, store_of

MARK = 2**62 // BLOCK
LEFT = [mapping(10, 3, 90), mapping(10, 5, 91)]
RIGHT = [mapping(20, 4, 92), mapping(30, 7, 93)]
ROOT = [child(10, 3, 2), child(20, 4, 3)]


def tree(**instead: bytes):
    """Return a root in block 1 with leaves in blocks 2 and 3, some of which can be replaced."""
    blocks = {"root": node(1, ROOT, level=1, root=(4, 3)), "left": node(2, LEFT), "right": node(3, RIGHT)} | instead
    return dict(zip((1, 2, 3), blocks.values(), strict=True))


def found(store):
    """Return the findings without their messages."""
    return [(item.code, item.structure, item.image_offset) for item in store.log.findings]


def change_node(block: bytes, *changes: tuple[int, int, int]) -> bytes:
    """Return a node with changed numbers, given as (offset, size in bytes, value)."""
    data = bytearray(block)
    for place, size, number in changes:
        data[place : place + size] = number.to_bytes(size, "little")
    return with_checksum(bytes(data))


FREE = BLOCK - HEAD - 2 * 4 - 2 * 16 - 2 * 16
"""Bytes of free space in a leaf of two entries: the node without its table, keys and values."""


def test_nodes_come_level_by_level_in_key_order():
    """Root in block 1, leaves in blocks 2 and 3, both children of the first node."""
    store = store_of(tree())
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
    # Entries of both leaves, each with the position of its leaf among the nodes.
    omap = read_omap(store_of(tree()), "omap", 1, 7)
    assert omap.oid.tolist() == [10, 10, 20, 30]
    assert omap.paddr.tolist() == [90, 91, 92, 93]
    assert omap.leaf.tolist() == [1, 1, 2, 2]


def right(*changes: tuple[int, int, int]) -> dict[str, bytes]:
    """Return the second leaf with changed numbers."""
    return {"right": change_node(node(3, RIGHT), *changes)}


def rooted(second: tuple[bytes, bytes], *counts: int) -> dict[str, bytes]:
    """Return a root with another second record, and counts of keys and nodes."""
    return {"root": node(1, [ROOT[0], second], level=1, root=counts)}


HALF, WHOLE = [10, 10], [10, 10, 20, 30]
INVALID, DIFFERS = [("node-invalid", 3)], [("node-header-differs", 3)]


@for_each(
    "instead, oids, findings",
    [
        # The second leaf has another number, a younger transaction, another level, or a wrong checksum.
        ({"right": node(9, RIGHT)}, HALF, INVALID),
        ({"right": node(3, RIGHT, xid=8)}, HALF, INVALID),
        ({"right": node(3, [child(20, 4, 2)], level=1)}, HALF, INVALID),
        ({"right": node(3, RIGHT)[:-1] + b"\1"}, HALF, [("checksum-mismatch", 3)]),
        # The second leaf begins before the key that its parent has for it.
        ({"right": node(3, [mapping(15, 4, 92), RIGHT[1]])}, [10, 10, 15, 30], [("keys-unordered", 3)]),
        # The index leads to block 50 of a container of four blocks, or twice to block 2.
        (rooted(child(20, 4, 50), 4, 3), HALF, [("node-missing", 50)]),
        (rooted(child(20, 4, 2), 2, 2), HALF, [("node-invalid", 2)]),
        # Type at byte 24, storage at 27, kind of records at 28, flags at 32, length of the free space at 46.
        (right((24, 1, 2)), WHOLE, DIFFERS),  # below a root, a leaf has the type of a node, not of a root
        (right((32, 2, 7)), WHOLE, DIFFERS),  # it does not have the flag of a root
        (right((32, 2, 4)), WHOLE, DIFFERS),  # it has the flag of a leaf
        (right((27, 1, 0)), WHOLE, DIFFERS),  # a physical tree has no virtual nodes
        (right((27, 1, 0x80)), WHOLE, DIFFERS),  # nor has it ephemeral nodes
        (right((46, 2, BLOCK - HEAD - 8 - 32)), WHOLE, []),  # free space that ends with the node
        (right((46, 2, BLOCK - HEAD - 8 - 32 + 1)), WHOLE, DIFFERS),  # free space that ends after the node
        (right((46, 2, FREE)), WHOLE, []),
        (right((24, 1, 4)), HALF, INVALID),  # another type of object
        (right((28, 4, 14)), HALF, INVALID),  # a node of a tree of other records
        # The root is an index node; without the flag it has no information about the tree.
        ({"root": change_node(node(1, ROOT, level=1, root=(4, 3)), (24, 1, 3))}, WHOLE, [("node-header-differs", 1)]),
    ],
)
def test_nodes_that_contradict_their_place(instead, oids, findings):
    """The finding is located at the node; the other leaf is read, and records of the right node are used."""
    store = store_of(tree(**instead))
    assert read_omap(store, "omap", 1, 7).oid.tolist() == oids
    assert found(store) == [(code, f"omap tree, node {number}", number * BLOCK) for code, number in findings]


@for_each(
    "keys, nodes, told",
    [
        (5, 4, [("error", "4", "5"), ("error", "3", "4")]),
        (5, 3, [("error", "4", "5")]),  # what is counted too much is missing
        (3, 3, [("warning", "4", "3")]),
        (4, 2, [("warning", "3", "2")]),
    ],
)
def test_counts_and_kind_of_a_root(keys, nodes, told):
    """The tree has four keys and three nodes. Block 2 is a node, but not a root."""
    store = store_of(tree(root=node(1, ROOT, level=1, root=(keys, nodes))))
    read_omap(store, "omap", 1, 7)
    assert {item.code for item in store.log.findings} == {"count-differs"}
    assert [(item.level, item.expected, item.found) for item in store.log.findings] == told
    store = store_of(tree())
    assert len(read_omap(store, "omap", 2, 7)) == 0
    assert found(store) == [("tree-unreadable", "omap tree, node 2", 2 * BLOCK)]


def test_what_a_node_should_be_is_told_beside_what_it_is():
    """Another number, a checksum of other bytes, and another level, which has no number to compare."""
    spoilt = node(3, RIGHT)[:-1] + b"\1"
    computed, stored = (struct.unpack_from("<Q", block)[0] for block in (with_checksum(spoilt), spoilt))
    for broken, sides in (
        (node(9, RIGHT), ("3", "9")),
        (spoilt, (str(computed), str(stored))),
        (node(3, [child(20, 4, 2)], level=1), ("", "")),
    ):
        store = store_of(tree(right=broken))
        read_omap(store, "omap", 1, 7)
        assert [(item.expected, item.found) for item in store.log.findings] == [sides]
    # A map is searched by bisection, so disorder hides objects; other trees are read as a whole.
    levels = [level_of_disorder(tree) for tree in ("omap", "container-omap", "fs", "extentref", "spaceman")]
    assert levels == ["error", "error", "warning", "warning", "warning"]


def test_records_that_leave_their_leaf():
    """Records are compared with their node and their root."""
    # The third entry of block 3, 2 * 4 bytes into its table, has its value after the node; the rest is read.
    leaf = bytearray(node(3, [*RIGHT, mapping(40, 7, 94)]))
    entry = HEAD + 2 * 4
    leaf[entry + 2 : entry + 4] = (BLOCK).to_bytes(2, "little")
    store = store_of(tree(right=with_checksum(bytes(leaf))))
    omap = read_omap(store, "omap", 1, 7)
    assert omap.oid.tolist() == [10, 10, 20, 30]
    assert found(store) == [("record-invalid", "omap tree, record 2 of node 3", 3 * BLOCK + entry)]
    assert omap.nodes.valid.tolist() == [VALID_NAMES.index(name) for name in ("checksum", "checksum", "no")]
    assert omap.nodes.condition.tolist() == [SOUND, SOUND, DAMAGED]
    # A root with less than the 8 bytes of a key is reported; more is valid. It is number five of the last 40 bytes.
    whole = record_root(1, 9, [(struct.pack("<Q", 5), bytes(20)), (struct.pack("<Q", 6), bytes(8))])
    for number, is_told in ((8, False), (7, True), (9, False)):
        store = store_of({1: change_node(whole, (BLOCK - INFO + 16, 4, number))})
        read_nodes(TreeSource(store, "spaceman", 1, 7))
        assert [item[0] for item in found(store)] == ["count-differs"] * is_told
    # A tree of blocks to move when a container shrinks has no subtype (byte 28); an object map has subtype 11.
    leaf = record_root(2, 5, [(struct.pack("<Q", 5), bytes(16))])
    for kind, codes in (("evict-mapping", []), ("spaceman", ["node-invalid"])):
        store = store_of({2: leaf})
        read_nodes(TreeSource(store, kind, 2, 7))
        assert [item[0] for item in found(store)] == codes


def test_free_bytes_transactions_and_places_of_nodes_are_read():
    # Free space and the free lists of keys and of values: 100 in the first, 24 and 40 bytes in the others.
    # Bytes 48 to 55 of a node are the places and lengths of the two lists (btn_key_free_list, btn_val_free_list).
    leaf = bytearray(node(3, RIGHT))
    leaf[44:56] = struct.pack("<HHHHHH", 0, 100, 0, 24, 0, 40)
    nodes, _ = read_nodes(TreeSource(store_of(tree(right=with_checksum(bytes(leaf)))), "omap", 1, 7))
    assert nodes.free_bytes.tolist()[2] == 100 + 24 + 40
    # Nodes of sealed volumes have a zero header; the entry that leads to them says that they are of transaction 7.
    for stored, expected in ((7, 7), (0, 7), (5, 5)):
        root = node(1, ROOT, level=1, root=(4, 3), xid=stored)
        opened, place = read_root(TreeSource(store_of(tree(root=root)), "omap", 1, 7))
        batch = read_batch(opened, replace(place, xid=np.array([7], np.uint64)), 1, np.zeros(1, np.int64))
        assert batch.rows.xid.tolist() == [expected]
    # Byte 60 of the second leaf of a batch is in block 3.
    store = store_of(tree())
    leaves = next(batch for batch in read_levels(TreeSource(store, "omap", 1, 7)) if not batch.level)
    for log in (leaves.at(1, BLOCK + 60), leaves.at(0, 60), leaves.at(1)):
        log.add("node-invalid", "error", "words")
    assert found(store) == [
        ("node-invalid", "omap tree, node 3", 3 * BLOCK + 60),
        ("node-invalid", "omap tree, node 2", 2 * BLOCK + 60),
        ("node-invalid", "omap tree, node 3", 3 * BLOCK),
    ]


@pytest.mark.parametrize(("count", "is_torn"), [(2, False), (3, True), (200, True)])
def test_a_node_whose_table_has_no_room_for_its_entries_is_torn(count, is_torn):
    """Bytes 36 to 39 count the 4-byte entries; a table of eight bytes has no room for them, so no record is read."""
    store = store_of(tree(right=change_node(node(3, RIGHT), (36, 4, count))))
    omap = read_omap(store, "omap", 1, 7)
    assert omap.oid.tolist() == ([10, 10] if is_torn else [10, 10, 20, 30])
    assert omap.nodes.valid.tolist() == [VALID_NAMES.index("checksum")] * 2 + [0 if is_torn else 2]
    assert omap.nodes.condition.tolist() == [SOUND, SOUND, DAMAGED if is_torn else SOUND]
    assert omap.nodes.num_records.tolist() == [2, 2, 0 if is_torn else 2]
    assert [item[2] for item in found(store)] == [3 * BLOCK] * is_torn


SHA256 = 1


@pytest.mark.parametrize(("spoil", "has_hash", "expected"), [(0, True, 3), (1, True, 0), (0, False, 1), (1, False, 1)])
def test_nodes_of_sealed_volumes_have_the_hash_that_their_parent_holds(spoil, has_hash, expected):
    """The hash is SHA-256 over the whole node; if no parent holds one, only the structure can be checked."""
    block = bytearray(node(2, LEFT))
    want = np.frombuffer(hashlib.sha256(bytes(block)).digest(), np.uint8)[None, :]
    block[-1] ^= spoil
    store = store_of({2: bytes(block)})
    source = TreeSource(store, "omap", 2, 7)
    places = locate_nodes(source, np.array([2], np.uint64))
    places = replace(places, child_hash=want if has_hash else np.empty((1, 0), np.uint8))
    tree = OpenTree(source, BLOCK, (16, 16, 8), 0, is_hashed=True, hash_type=SHA256, is_noheader=True)

    def check(level):
        head, data = {"level": np.zeros(1, np.uint16)}, np.frombuffer(block, np.uint8)[None]
        return [each.tolist() for each in check_nodes(tree, places, head, data, level)]

    valid, is_sound, _ = check(0)
    assert (valid, is_sound) == ([expected], [expected > 0])
    assert found(store) == [("checksum-mismatch", "omap tree, node 2", 2 * BLOCK)] * (expected == 0)
    valid, _, is_damaged = check(1)
    assert (valid, is_damaged) == ([0], [True])


def test_hashes_have_the_length_of_their_type():
    """None, SHA-256, SHA-512/256, SHA-384 and SHA-512, for each row of objects separately."""
    assert [hash_size(kind) for kind in range(5)] == [0, 32, 32, 48, 64]
    objects = np.arange(2 * BLOCK).astype(np.uint8).reshape(2, BLOCK)
    assert [row.tobytes() for row in hash_objects(SHA256, objects)] == [
        hashlib.sha256(row.tobytes()).digest() for row in objects
    ]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([], None),
        ([(BLOCK - INFO + 4, 4, 1024)], "tree-unreadable"),  # the node size that the root states
        ([(32, 2, 6)], "tree-unreadable"),  # without the flag of a root
        ([(34, 2, 16)], "tree-unreadable"),  # more levels than any tree has
    ],
)
def test_a_root_says_what_its_tree_is_like(changes, code):
    """The node size is the second number of the last 40 bytes; flags are at byte 32, the level is at 34."""
    store = store_of({1: change_node(node(1, [mapping(10, 3, 90)], root=(1, 1)), *changes)})
    omap = read_omap(store, "omap", 1, 7)
    assert omap.oid.tolist() == ([] if code else [10])
    assert [item[0] for item in found(store)] == [code] * (code is not None)
    lost = store.lost
    assert [(part.paddr.tolist(), part.size_bytes.tolist()) for part in lost] == [([1], [BLOCK])] * (code is not None)


def test_batches_of_any_number_of_nodes_give_the_same_tree(monkeypatch):
    """In batches of one node, one of two leaves is still to come after the first, and none after the second."""
    whole, _ = read_nodes(TreeSource(store_of(tree()), "omap", 1, 7))
    monkeypatch.setattr("layoutscope.filesystems.apfs.btree.BATCH_NODES", 1)
    source = TreeSource(store_of(tree()), "omap", 1, 7)
    batches = list(read_levels(source))
    assert [(batch.level, batch.numbers.tolist()) for batch in batches] == [(1, [0]), (0, [1]), (0, [2])]
    nodes, leaves = read_nodes(source)
    assert [batch.node.tolist() for batch in leaves] == [[1, 1], [2, 2]]
    for column in ("paddr", "parent", "key_rank", "first_key_id", "last_key_id", "used_bytes", "low_key"):
        assert getattr(nodes, column).tolist() == getattr(whole, column).tolist()


@pytest.mark.parametrize("batch", [1, 1024])
@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([mapping(0, 0, 90)], [mapping(20, 4, 92)], []),  # no key is less than 0
        ([mapping(10, 3, 90), mapping(10, 3, 91)], [mapping(20, 4, 92)], []),  # equal numbers are in order
        ([mapping(11, 3, 90), mapping(10, 3, 91)], [mapping(20, 4, 92)], [2]),
        ([mapping(10, 3, 90), mapping(21, 3, 91)], [mapping(20, 4, 92)], [3]),
        ([mapping(10, 3, 90), mapping(20, 3, 91)], [mapping(20, 4, 92)], []),
        ([], [mapping(20, 4, 92)], []),
        ([mapping(10, 3, 90)], [], []),
    ],
)
def test_keys_ascend_over_the_nodes_of_a_level(monkeypatch, batch, left, right, expected):
    """Both leaves are read at once or one by one; the root has key 0 and leads to keys from 20 on."""
    monkeypatch.setattr("layoutscope.filesystems.apfs.btree.BATCH_NODES", batch)
    root = node(1, [child(0, 0, 2), child(20, 4, 3)], level=1, root=(len(left) + len(right), 3))
    store = store_of(tree(root=root, left=node(2, left), right=node(3, right)))
    nodes, _ = read_nodes(TreeSource(store, "omap", 1, 7))
    assert found(store) == [("keys-unordered", f"omap tree, node {paddr}", paddr * BLOCK) for paddr in expected]
    ends = [(struct.unpack("<Q", side[place][0][:8])[0] if side else 0) for side in (left, right) for place in (0, -1)]
    assert nodes.first_key_id.tolist() == [0, *ends[::2]]
    assert nodes.last_key_id.tolist() == [20, *ends[1::2]]
    assert nodes.used_bytes.tolist() == [48, 32 * len(left), 32 * len(right)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(10, 5, 90), (10, 3, 91), (9, 7, 92)], [92, 91, 90]),
        ([(10, 3, 90), (10, 5, 91), (11, 1, 92)], [90, 91, 92]),
        ([(10, 5, 90), (10, 3, 91), (11, 1, 92)], [91, 90, 92]),
        ([(11, 1, 90), (10, 2, 91), (12, 3, 92)], [91, 90, 92]),
    ],
)
def test_mappings_of_a_map_that_is_out_of_order_are_sorted(rows, expected):
    """By object, then by transaction."""
    omap = read_omap(store_of({1: node(1, [mapping(*row) for row in rows], root=(3, 1))}), "omap", 1, 7)
    assert omap.paddr.tolist() == expected


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, BLOCK),
        (BLOCK - 1, BLOCK),
        (BLOCK + 1, BLOCK),
        (BLOCK, BLOCK),
        (3 * BLOCK, 3 * BLOCK),
        (65_536, 65_536),
        (65_536 + BLOCK, BLOCK),
    ],
)
def test_a_root_that_cannot_be_used_has_the_size_that_its_map_says(size, expected):
    """Whole blocks, up to 64 KiB; otherwise it counts as one block. Block 1 and all after it are zeros."""
    store = store_of({200: bytes(BLOCK)})
    view = view_at(object_map((5, 6, 1), size=[size]), 7)
    assert read_root(TreeSource(store, "fs", 5, 7, view)) is None
    (lost,) = store.lost
    assert (lost.size_bytes.tolist(), lost.level.tolist(), lost.condition.tolist()) == ([expected], [255], [DAMAGED])
    assert (lost.node_id.tolist(), lost.xid.tolist(), lost.paddr.tolist()) == ([5], [6], [1])
    (finding,) = store.log.findings
    is_whole = size in (BLOCK, 3 * BLOCK, 65_536, 65_536 + BLOCK)
    assert (finding.code, finding.image_offset) == ("tree-unreadable", BLOCK)
    assert ("impossible size" in finding.message) != is_whole


def test_a_sealed_tree_counts_its_children_from_its_root():
    """Children are numbered from the root, 1 and 2 after it, and have a hash of 32 bytes after their number.

    The flags of a tree are the first number of the last 40 bytes; bit 7 says that children are hashed.
    """
    leaves = {oid: node(oid, [mapping(10 * oid, 3, 90)]) for oid in (6, 7)}
    hashes = [hashlib.sha256(block).digest() for block in leaves.values()]
    records = [
        (struct.pack("<QQ", 60 + 10 * number, 3), struct.pack("<Q", 1 + number) + digest)
        for number, digest in enumerate(hashes)
    ]
    root = change_node(node(5, records, level=1, root=(2, 3)), (BLOCK - INFO, 4, 0x80))
    store = store_of({5: root, **leaves})
    source = TreeSource(store, "omap", 5, 7, hash_type=SHA256, root_hash=hashlib.sha256(root).digest())
    nodes, _ = read_nodes(source)
    assert found(store) == []
    assert (nodes.node_id.tolist(), nodes.valid.tolist()) == ([5, 6, 7], [3, 3, 3])
    assert nodes.used_bytes.tolist() == [2 * (16 + 8 + 32), 32, 32]
    # Without the seal, neither the hashes nor their length are known.
    nodes, _ = read_nodes(TreeSource(store, "omap", 5, 7))
    assert found(store) == []
    assert (nodes.node_id.tolist(), nodes.valid.tolist()) == ([5, 6, 7], [2, 2, 2])
    other = store_of({5: root, **leaves})
    read_nodes(replace(source, store=other, root_hash=bytes(32)))
    assert [item[:2] for item in found(other)] == [("checksum-mismatch", "omap tree, node 5")]


@pytest.mark.parametrize(
    ("paddr", "words"),
    [(MARK + 3, "the device whose image was not given"), (50, "outside the image"), (5, "could not be read")],
)
def test_why_a_node_is_not_there(paddr, words):
    """It is on the second device, after the container's end, or in an unread area; another tree gives no reason.

    Of the last the container has the place, so that its node is known; an object that no map has is not.
    """
    source = RescuedSource(MemorySource(bytes(10 * BLOCK)), np.array([[5 * BLOCK, BLOCK]]))
    store = Store.over(Blocks((source,), (0,), BLOCK), FindingLog())
    view = view_at(object_map((5, 6, paddr), (7, 6, 9)), 7)
    places = locate_nodes(TreeSource(store, "fs", 5, 7, view), np.array([5, 6, 7], np.uint64))
    assert (places.node_id.tolist(), (places.condition == UNREAD).tolist()) == (
        ([5, 7], [True, False]) if paddr == 5 else ([7], [False])
    )
    told = {item.structure: item.message for item in store.log.findings}
    assert told.pop("fs tree, node 6") == "no map knows this node"
    assert words in told.pop("fs tree, node 5")
    assert told == {}


def test_ephemeral_nodes_are_where_the_checkpoint_has_them():
    """Object 5 is in block 2; no map has object 6."""
    store = store_of({3: bytes(BLOCK)})
    source = TreeSource(store, "spaceman", 5, 7, ephemerals={5: 2}, root_size_bytes=2 * BLOCK)
    places = locate_nodes(source, np.array([5, 6], np.uint64))
    assert (places.node_id.tolist(), places.paddr.tolist(), places.size_bytes.tolist()) == ([5], [2], [2 * BLOCK])
    assert (places.parent.tolist(), places.omap_leaf.tolist(), places.xid.tolist()) == ([-1], [-1], [0])
    assert [item.message for item in store.log.findings] == ["no map knows this node"]


@pytest.mark.parametrize(
    ("encrypted", "has_key", "codes"),
    [
        ((False, False, True), True, []),
        ((True, False, False), True, ["tree-unreadable"]),
        ((False, False, True), False, ["checksum-mismatch"]),
        ((False, False, False), True, ["checksum-mismatch"]),
    ],
)
def test_nodes_are_decrypted_whose_mapping_says_so(monkeypatch, encrypted, has_key, codes):
    """The second leaf is written with every other bit inverted; the root and the first leaf are not."""
    blocks = tree(root=node(1, ROOT, level=1, root=(4, 3)))
    blocks = {paddr: change_node(block, (27, 1, 0)) for paddr, block in blocks.items()}
    blocks[3] = bytes(byte ^ 0x55 for byte in blocks[3])
    store = store_of(blocks)
    view = view_at(object_map((1, 7, 1), (2, 7, 2), (3, 7, 3), encrypted=list(encrypted)), 7)

    def decrypt(_blocks, _key, objects, paddrs, chosen):
        assert len(paddrs) == len(chosen)
        return np.where(chosen[:, None], objects ^ 0x55, objects)

    monkeypatch.setattr(Blocks, "decrypt", decrypt)
    read_nodes(TreeSource(store, "omap", 1, 7, view, key=b"key" if has_key else None))
    assert [item[0] for item in found(store)] == codes


@pytest.mark.parametrize(
    ("known", "expected"),
    [([], [1, 2, 3]), ([2], [1, 2, 3]), ([1, 2], [1, 3]), ([1, 2, 3], [1]), ([2, 3], [1, 2, 3])],
)
def test_leaves_that_are_known_are_left_out_below_nodes_that_are_known(known, expected):
    """Index nodes are always read, and all leaves of a new index node are read, known or not."""
    source = TreeSource(store_of(tree()), "omap", 1, 7)
    batches = list(read_levels(source, known=np.array(known, np.uint64)))
    assert [paddr for batch in batches for paddr in batch.rows.paddr.tolist()] == expected
    assert found(source.store) == []
    alone = TreeSource(store_of({1: node(1, LEFT, root=(2, 1))}), "omap", 1, 7)
    assert len(list(read_levels(alone, known=np.array([1], np.uint64)))) == 1
