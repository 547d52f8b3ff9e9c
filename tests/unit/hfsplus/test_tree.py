"""A tree on a volume of a few blocks: its file, its bitmap, its nodes and its records."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace

from layoutscope.filesystems.hfsplus.btree import open_tree
from layoutscope.filesystems.hfsplus.contents import decode_overflow
from layoutscope.filesystems.hfsplus.forks import Fork
from layoutscope.filesystems.hfsplus.nodes import HEADER, INDEX, LEAF, MAP
from layoutscope.filesystems.hfsplus.tree import (
    find_damaged_nodes,
    first_rows,
    is_case_sensitive,
    is_unusable,
    is_whole,
    map_offset,
    node_offset,
    read_tree,
)
from layoutscope.filesystems.hfsplus.volume import Volume
from layoutscope.findings import FindingLog
from layoutscope.image import MemorySource
from layoutscope.image.failing import RescuedSource
from layoutscope.structs import grammar
from layoutscope.structs.records import EXTENT_KEY, EXTENT_LEAF_RECORD, HEADER_RECORD
from tests.cases import for_each
from tests.unit.hfsplus.written import node

TREE = "extents-overflow"
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
    """Return the header node of a tree with root 1 and leaves 3 and 2; the first bit belongs to node 0."""
    usual = {"tree_depth": 2, "root_node": 1, "leaf_records": 3, "first_leaf_node": 3, "last_leaf_node": 2}
    sizes = {"len_node": SIZE, "len_key_max": 10, "num_nodes": 4}
    record = HEADER_RECORD.blank({**usual, **sizes, **changed})
    map_bytes = SIZE - 14 - len(record) - 128 - 8
    return node([record, bytes(128), bytes([used]).ljust(map_bytes, b"\0")], kind=HEADER, height=0, size=SIZE)


ROOT = node([pointer(7, 3), pointer(9, 2)], kind=INDEX, height=2, size=SIZE)
LAST = node([record(9)], size=SIZE, b_link=3)
FIRST = node([record(7), record(8)], size=SIZE, f_link=2)


def volume_of(*nodes):
    """Return a volume with the nodes from block 2 on, and their location."""
    data = bytes(HEADER_AT) + b"".join(nodes)
    known = SimpleNamespace(len_block=SIZE, num_blocks=len(data) // SIZE)
    volume = Volume(MemorySource(data), 0, known, None, FindingLog())
    blocks = np.array([FIRST_BLOCK]), np.array([len(nodes)]), np.array([-1])
    return volume, Fork(len(nodes) * SIZE, *blocks)


def codes(volume):
    return [(finding.code, finding.image_offset) for finding in volume.log.findings]


def test_records_come_in_the_order_of_keys():
    """Leaf 3 comes before leaf 2, as the root says."""
    # The bit of node 3 is clear; its contents are read all the same, and the bitmap's byte is reported.
    volume, fork = volume_of(header(used=0b1110_0000, num_free_nodes=1), ROOT, LAST, FIRST)
    tree = read_tree(volume, TREE, fork, decode_overflow)
    assert tree.records["key.file_id"].tolist() == [7, 8, 9]
    assert tree.records["node"].tolist() == [3, 3, 2]
    assert codes(volume) == [("node-map-differs", HEADER_AT + 14 + HEADER_RECORD.width + 128)]


def test_a_tree_has_the_nodes_that_its_header_counts():
    """Nodes have up to 32 KiB, and a file that is too short is reported."""
    # The header counts five nodes, but the file has four.
    volume, fork = volume_of(header(num_nodes=5), ROOT, LAST, FIRST)
    assert open_tree(volume, TREE, fork).num_nodes == 4
    assert codes(volume) == [("tree-size-differs", HEADER_AT + 14 + HEADER_RECORD.num_nodes.offset)]
    # The file has 511 of 512 bytes.
    volume, fork = volume_of(header(), ROOT, LAST, FIRST)
    small = Fork(SIZE - 1, fork.start_blocks, fork.block_counts, fork.record_nodes)
    assert open_tree(volume, TREE, small) is None
    assert codes(volume) == [("tree-header-invalid", HEADER_AT)]
    # An image of 6 blocks of 512 bytes has room for 6 nodes and part of one more, whatever its file claims.
    volume, fork = volume_of(header(), ROOT, LAST, FIRST)
    fork = Fork(100 * SIZE, np.array([FIRST_BLOCK]), np.array([100]), np.array([-1]))
    assert open_tree(volume, TREE, fork).num_nodes == 7
    # A volume need not have such a file, so there is no finding.
    volume, _ = volume_of(header(), ROOT, LAST, FIRST)
    none = np.empty(0, np.int64)
    assert read_tree(volume, TREE, Fork(0, none, none, none), decode_overflow) is None
    assert codes(volume) == []
    # TN1150, "Node Size"; the file has one such node.
    volume, fork = volume_of(header(len_node=32_768, num_nodes=1), *[bytes(SIZE)] * 63)
    assert open_tree(volume, TREE, fork).num_nodes == 1
    assert codes(volume) == []


@pytest.mark.parametrize("size", [0, 500, 256, 513, 3 * 512])
def test_a_tree_with_an_impossible_size_of_nodes_is_lost(size):
    """None of these sizes is a power of two from 512 on."""
    volume, fork = volume_of(header(len_node=size), ROOT, LAST, FIRST)
    assert read_tree(volume, TREE, fork, decode_overflow) is None
    assert codes(volume) == [("tree-header-invalid", HEADER_AT + 14 + HEADER_RECORD.len_node.offset)]


def test_a_leaf_without_a_whole_record_is_damaged():
    """The record of file 8 lacks four bytes: it is dropped, and its leaf is reported."""
    short = node([record(7), record(8)[:-4]], size=SIZE, f_link=2)
    volume, fork = volume_of(header(), ROOT, LAST, short)
    tree = read_tree(volume, TREE, fork, decode_overflow)
    assert tree.records["key.file_id"].tolist() == [7, 9]
    assert codes(volume) == [("records-invalid", HEADER_AT + 3 * SIZE)]
    assert find_damaged_nodes(tree).tolist() == [False, False, False, True]
    # Depth, root, counts and leaf links are zero.
    empty = {"tree_depth": 0, "root_node": 0, "leaf_records": 0, "first_leaf_node": 0, "last_leaf_node": 0}
    tree, found, _ = read(header(used=0b1000_0000, num_nodes=1, **empty))
    assert (len(tree.records["node"]), found, is_whole(tree)) == (0, [], True)
    assert find_damaged_nodes(tree).tolist() == [False]
    tree, _, _ = read(header(used=0, num_nodes=1, **empty))
    assert tree.records["key.file_id"].tolist() == []


def read(*nodes):
    """Read the tree of some nodes; return it, and its findings without messages."""
    volume, fork = volume_of(*nodes)
    return read_tree(volume, TREE, fork, decode_overflow), codes(volume), volume


@pytest.mark.parametrize(("count", "is_right"), [(2, True), (3, True), (4, False)])
def test_a_tree_is_whole_with_as_many_records_as_its_header_counts(count, is_right):
    """Its leaves have three; more than the header's count is not a loss."""
    tree, _, _ = read(header(leaf_records=count), ROOT, LAST, FIRST)
    assert is_whole(tree) == is_right


@pytest.mark.parametrize(
    ("first", "last", "place", "sides"),
    [
        ({"f_link": 1}, {"b_link": 3}, 3 * SIZE, ("2", "1")),
        ({"f_link": 2, "b_link": 2}, {"b_link": 3}, 3 * SIZE + 4, ("0", "2")),
        ({"f_link": 2}, {"b_link": 1}, 2 * SIZE + 4, ("3", "1")),
        ({"f_link": 2}, {"b_link": 3, "f_link": 3}, 2 * SIZE, ("0", "3")),
    ],
)
def test_links_that_contradict_the_keys_are_told_at_their_field(first, last, place, sides):
    """Leaf 3 comes before leaf 2; the links are the first two words of a node, forward, then backward."""
    nodes = node([record(9)], size=SIZE, **last), node([record(7), record(8)], size=SIZE, **first)
    tree, found, volume = read(header(), ROOT, *nodes)
    assert found == [("leaf-chain-broken", HEADER_AT + place)]
    assert (volume.log.findings[0].expected, volume.log.findings[0].found) == sides
    assert ("next leaf" in volume.log.findings[0].message) == (place % SIZE == 0)
    assert is_whole(tree) == ("f_link" in first and place % SIZE == 4)


@pytest.mark.parametrize(
    ("changed", "records"),
    [
        ({"kind": 5}, [7, 8]),
        ({"kind": INDEX}, [7, 8]),
        ({"height": 2}, [7, 8, 9]),  # leaves that the chain leads to are used
        ({"height": 0}, [7, 8, 9]),
    ],
)
def test_a_leaf_that_is_none_is_told_where_it_is(changed, records):
    """The pointer to node 2 is right, but the node is damaged; the other leaf is read."""
    tree, found, _ = read(header(), ROOT, node([record(9)], size=SIZE, b_link=3, **changed), FIRST)
    assert tree.records["key.file_id"].tolist() == records
    invalid = [item for item in found if item[0] in ("node-invalid", "pointer-invalid")]
    assert invalid == [("node-invalid", HEADER_AT + 2 * SIZE)]
    assert not is_whole(tree)
    damaged = find_damaged_nodes(tree)
    assert damaged.tolist() == [False, False, True, False]
    # A node of another kind gives no record. The chain leads to a leaf of another height, which gives its records.
    assert is_unusable(tree, damaged).tolist() == [False, False, "kind" in changed, False]


def test_damage_is_reported_at_its_place():
    """Pointers, roots and header nodes."""
    # The root's second record leads to node 9 of four; leaf 2 is found along the chain all the same.
    root = node([pointer(7, 3), pointer(9, 9)], kind=INDEX, height=2, size=SIZE)
    tree, found, _ = read(header(), root, LAST, FIRST)
    assert ("pointer-invalid", HEADER_AT + SIZE) in found
    assert tree.records["key.file_id"].tolist() == [7, 8, 9]
    assert tree.reach.misled.tolist() == [1]
    assert not is_whole(tree)
    assert find_damaged_nodes(tree).tolist() == [False] * 4
    # Its kind is invalid; its leaves are found along their chain.
    tree, found, _ = read(header(), node([pointer(7, 3), pointer(9, 2)], kind=5, height=2, size=SIZE), LAST, FIRST)
    assert ("tree-unreachable", HEADER_AT + SIZE) in found
    assert ("node-invalid", HEADER_AT + SIZE) in found
    assert tree.records["key.file_id"].tolist() == [7, 8, 9]
    assert find_damaged_nodes(tree).tolist() == [False, True, False, False]
    # The kind is byte 8 of a descriptor.
    whole = bytearray(header())
    whole[8] = LEAF & 0xFF
    tree, found, _ = read(bytes(whole), ROOT, LAST, FIRST)
    assert found == [("node-invalid", HEADER_AT + 8)]
    assert find_damaged_nodes(tree).tolist() == [True, False, False, False]


@pytest.mark.parametrize("root", [0, 4, 9, 3])
def test_a_root_that_leads_to_no_leaf(root):
    """Node 0 is the header, 4 and 9 are after the file; leaf 3 has fewer records than the header counts."""
    tree, found, _ = read(header(root_node=root), ROOT, LAST, FIRST)
    invalid = [item for item in found if item[0] == "tree-unreachable"]
    assert invalid == ([("tree-unreachable", HEADER_AT + 14 + HEADER_RECORD.root_node.offset)] if root != 3 else [])
    assert tree.records["key.file_id"].tolist() == [7, 8, 9]


@pytest.mark.parametrize(("pointers", "plus"), [([], 10), ([pointer(7, 99)], 0)])
def test_an_index_node_that_leads_nowhere_is_told(pointers, plus):
    """The finding is at its number of records, bytes 10 and 11, if it has none."""
    _, found, _ = read(header(), node(pointers, kind=INDEX, height=2, size=SIZE), LAST, FIRST)
    assert [place for code, place in found if code == "tree-unreachable"] == [HEADER_AT + SIZE + plus]


def test_a_node_that_the_tree_does_not_reach_is_told():
    """Nothing leads to leaf 4, which is in use; without a record, its bit (byte 248 of node 0) is wrong instead.

    That byte follows the descriptor, the header record and 128 bytes for users: 14 + 106 + 128.
    """
    used = 0b1111_1000
    spare = node([record(11)], size=SIZE)
    tree, found, volume = read(header(used, num_nodes=5), ROOT, LAST, FIRST, spare)
    assert found == [("node-unreached", HEADER_AT + 4 * SIZE)]
    assert tree.records["key.file_id"].tolist() == [7, 8, 9]
    assert is_whole(tree)
    _, found, volume = read(header(used, num_nodes=5), ROOT, LAST, FIRST, node([], size=SIZE))
    assert found == [("node-map-differs", HEADER_AT + 248)]
    assert volume.log.findings[0].expected == "free"


MAP_BYTES = SIZE - 248 - 8
"""The bitmap in the header node ends before four record offsets: 256 bytes, the bits of 2,048 nodes."""

NODES = 8 * MAP_BYTES + 4


def long_tree(*, leaf: int, map_node: int = 0, used: int = 0b1000_0000, kind: int = MAP) -> tuple[bytes, ...]:
    """Return a tree of 2,052 nodes: root 1, leaf 3, another leaf, and optionally map node 2.

    `used` is the first byte of the map node, that of nodes 2,048 to 2,055.
    """
    sizes = {"num_nodes": NODES, "leaf_records": 3, "last_leaf_node": leaf}
    head = bytearray(header(0b1111_0000, **sizes))
    head[:4] = map_node.to_bytes(4, "big")
    nodes = [bytes(SIZE)] * NODES
    nodes[0] = bytes(head)
    nodes[1] = node([pointer(7, 3), pointer(9, leaf)], kind=INDEX, height=2, size=SIZE)
    nodes[2] = node([bytes([used]) + bytes(SIZE - 14 - 4 - 1)], kind=kind, height=0, size=SIZE)
    nodes[3] = node([record(7), record(8)], size=SIZE, f_link=leaf)
    nodes[leaf] = node([record(9)], size=SIZE, b_link=3)
    return tuple(nodes)


def test_the_map_goes_on_in_map_nodes():
    """It has 256 bytes in the header node and 494 in node 2, from byte 14: the first of these has bit 2,048."""
    tree, found, volume = read(*long_tree(leaf=2048, map_node=2))
    file = tree.file
    assert found == []
    assert file.map_nodes.tolist() == [2]
    assert file.map_parts == ((248, 256), (2 * SIZE + 14, 494))
    assert file.num_mapped == NODES
    assert np.flatnonzero(file.used).tolist() == [0, 1, 2, 3, 2048]
    assert [map_offset(volume, file, number) for number in (0, 7, 8, 2047, 2048, 2055, 2056)] == [
        HEADER_AT + place for place in (248, 248, 249, 503, 2 * SIZE + 14, 2 * SIZE + 14, 2 * SIZE + 15)
    ]
    assert map_offset(volume, file, 8 * (256 + 494) - 1) == HEADER_AT + 2 * SIZE + 14 + 493
    assert map_offset(volume, file, 8 * (256 + 494)) is None
    assert find_damaged_nodes(tree).sum() == 0
    # Node 2 is of another kind: it is reported at its byte 8 and damaged; the second leaf has no bit.
    tree, found, _ = read(*long_tree(leaf=2048, map_node=2, kind=5))
    assert found[0] == ("node-invalid", HEADER_AT + 2 * SIZE + 8)
    assert tree.file.lost_map_nodes.tolist() == [2]
    assert tree.file.map_parts == ((248, 256),)
    assert np.flatnonzero(find_damaged_nodes(tree)).tolist() == [2]
    assert tree.records["key.file_id"].tolist() == [7, 8, 9]
    nodes = long_tree(leaf=2048, map_node=2)
    volume, fork = volume_of(*nodes)
    source = RescuedSource(volume.source, np.array([[HEADER_AT + 2 * SIZE, SIZE]]))
    file = open_tree(replace(volume, source=source), TREE, fork)
    assert (file.map_nodes.tolist(), file.lost_map_nodes.tolist(), file.num_mapped) == ([], [2], 2048)
    assert np.flatnonzero(~file.readable).tolist() == [2]


def test_a_map_that_ends_before_the_file_is_told():
    """Without a map node, 2,048 of 2,052 nodes have bits; that is valid unless the tree uses one without a bit."""
    nodes = list(long_tree(leaf=2047))
    nodes[2] = bytes(SIZE)
    head = bytearray(nodes[0])
    head[248] = 0b1101_0000
    head[248 + 255] = 1
    tree, _, volume = read(bytes(head), *nodes[1:])
    (finding,) = volume.log.findings
    assert (finding.code, finding.level, finding.image_offset) == ("node-map-short", "info", HEADER_AT)
    assert (finding.expected, finding.found) == ("2052", "2048")
    assert tree.file.num_mapped == 2048
    nodes = list(long_tree(leaf=2048))
    nodes[2] = bytes(SIZE)
    head = bytearray(nodes[0])
    head[248] = 0b1101_0000
    tree, _, volume = read(bytes(head), *nodes[1:])
    assert [(item.code, item.level) for item in volume.log.findings] == [("node-map-short", "warning")]
    assert "uses 1 nodes after its end" in volume.log.findings[0].message
    assert tree.records["key.file_id"].tolist() == [7, 8, 9]


def test_nodes_are_located_in_the_extents_of_their_file():
    """Their rows are consecutive."""
    # Two blocks are at block 2 and two at block 7; node 4 is after the file, and -1 is before it.
    volume, _ = volume_of(header(), ROOT, bytes(SIZE), bytes(SIZE), bytes(SIZE), LAST, FIRST)
    pieces = Fork(4 * SIZE, np.array([2, 7]), np.array([2, 2]), np.array([-1, -1]))
    tree = read_tree(volume, TREE, pieces, decode_overflow)
    assert [node_offset(volume, tree.file, number) for number in (-1, 0, 1, 2, 3, 4)] == [
        None, 2 * SIZE, 3 * SIZE, 7 * SIZE, 8 * SIZE, None,
    ]  # fmt: skip
    assert tree.records["key.file_id"].tolist() == [7, 8, 9]
    assert codes(volume) == []
    tree, _, _ = read(header(), ROOT, LAST, FIRST)
    other = SimpleNamespace(file=SimpleNamespace(tree="catalog", num_nodes=7))
    assert first_rows({"extents-overflow": tree, "catalog": other, "attributes": tree}) == {
        "extents-overflow": 0,
        "catalog": 4,
        "attributes": 11,
    }
    # None if the tree is sound, even were they damaged; for a header node only invalid ones.
    tree, _, _ = read(header(), ROOT, LAST, FIRST)
    assert is_unusable(tree, np.ones(4, np.bool_)).tolist() == [False] * 4
    whole = bytearray(header())
    whole[8] = LEAF & 0xFF
    tree, _, _ = read(bytes(whole), ROOT, LAST, FIRST)
    assert is_unusable(tree, np.ones(4, np.bool_)).tolist() == [True, False, False, False]


SPARE = node([record(11)], size=SIZE, kind=5)
"""A node of an invalid kind."""


def test_nodes_apart_count_where_index_nodes_are_lost():
    """Node 4 is in use, but nothing leads to it; its contents matter only if the root is lost.

    A pointer that leads out of the file makes the tree broken, and yet loses no index node; nor does a lost leaf.
    """
    broken = node([pointer(7, 3), pointer(9, 2), pointer(11, 99)], kind=INDEX, height=2, size=SIZE)
    lost = node([pointer(7, 3), pointer(9, 2)], kind=5, height=2, size=SIZE)
    for root, last, expected in ((ROOT, LAST, []), (broken, LAST, []), (lost, LAST, [1, 4]), (ROOT, SPARE, [2])):
        _, found, _ = read(header(0b1111_1000, num_nodes=5), root, last, FIRST, SPARE)
        places = [place for code, place in found if code == "node-invalid"]
        assert places == [HEADER_AT + number * SIZE for number in expected]


@pytest.mark.parametrize(("most", "words"), [(2, [""]), (1, ["; 1 further nodes"])])
def test_damaged_nodes_beyond_a_number_are_counted(monkeypatch, most, words):
    """Neither leaf is valid; as many findings are listed as the limit allows."""
    monkeypatch.setattr("layoutscope.filesystems.hfsplus.tree.MAX_REPORTED", most)
    _, _, volume = read(header(), ROOT, SPARE, SPARE)
    told = [item.message for item in volume.log.findings if item.code == "node-invalid"]
    assert [message.partition("with records")[2] for message in told] == [*[""] * (most - 1), *words]


@pytest.mark.parametrize(
    ("length", "expected"),
    [(1, 1), (100, 100), (256, 256), (257, 256), (0, 0), (-100, 0), (14 - 248, 256), (15 - 248, 0), (-248, 256)],
)
def test_the_map_ends_where_its_node_is_free(length, expected):
    """The record begins at byte 248; the node's last offset is its end.

    Byte 15 is the first that can be free; a value inside the descriptor, or after byte 504, is not an offset.
    """
    whole = bytearray(header(0b1000_0000, num_nodes=1, tree_depth=0, root_node=0, leaf_records=0))
    whole[SIZE - 8 : SIZE - 6] = (248 + length).to_bytes(2, "big")
    volume, fork = volume_of(bytes(whole))
    assert open_tree(volume, TREE, fork).map_parts == ((248, expected),)


@for_each(
    "leaf, first, link, length, expected",
    [
        # A link to itself, to nothing, or beyond the file ends the chain; nodes without a bit then count as free.
        *((2048, 2, link, NODES, ([2], NODES)) for link in (2, 0, NODES)),
        # The first invalid number of 2,052 nodes is 2,052; then 2,048 nodes have bits.
        *((2047, link, None, NODES, ([], 2048)) for link in (NODES, NODES + 1, 2**32 - 1)),
        # 2,048 nodes have their bits in the header node, so its invalid link is not followed.
        (2047, 2, None, 2048, ([], 2048)),
    ],
)
def test_chains_of_map_nodes_end(leaf, first, link, length, expected):
    nodes = list(long_tree(leaf=leaf, map_node=first))[:length]
    if link is not None:
        nodes[2] = link.to_bytes(4, "big") + nodes[2][4:]
    volume, fork = volume_of(*nodes)
    file = open_tree(volume, TREE, fork)
    assert (file.map_nodes.tolist(), file.num_mapped) == expected
    assert file.lost_map_nodes.tolist() == []


@pytest.mark.parametrize("count", [0, 247, 248, 249, 2**16 - 1])
def test_a_map_node_with_any_number_of_records(count):
    """Offsets of two bytes each leave 512 - 2 * (count + 1) bytes, and the descriptor takes 14 of them."""
    nodes = list(long_tree(leaf=2048, map_node=2))
    nodes[2] = nodes[2][:10] + count.to_bytes(2, "big") + nodes[2][12:-2] + bytes(2)
    volume, fork = volume_of(*nodes)
    room = max(SIZE - 2 * (count + 1) - 14, 0)
    assert open_tree(volume, TREE, fork).map_parts == ((248, 256), (2 * SIZE + 14, room))


def test_nodes_in_use_that_were_never_read_are_told():
    """Leaf 3 was not read, nor was node 4, which is not in use; leaf 2 gives its record."""
    spare = bytes(SIZE)
    volume, fork = volume_of(header(num_nodes=5), ROOT, LAST, FIRST, spare)
    source = RescuedSource(volume.source, np.array([[HEADER_AT + 3 * SIZE, 2 * SIZE]]))
    volume = replace(volume, source=source)
    tree = read_tree(volume, TREE, fork, decode_overflow)
    assert tree.records["key.file_id"].tolist() == [9]
    (finding,) = (item for item in volume.log.findings if item.code == "node-unreadable")
    assert finding.image_offset == HEADER_AT + 3 * SIZE
    assert finding.message.startswith("1 nodes")


@pytest.mark.parametrize(("batch", "expected"), [(2 * SIZE, [1.0, 0.0]), (3 * SIZE, [1 / 3, 0.0]), (4 * SIZE, [0.0])])
def test_how_much_is_to_come_is_told_with_each_batch(monkeypatch, batch, expected):
    """Two of four nodes follow the first two, and one follows the first three; then none is left."""
    monkeypatch.setattr("layoutscope.filesystems.hfsplus.btree.BATCH_BYTES", batch)
    volume, fork = volume_of(header(), ROOT, LAST, FIRST)
    seen = []

    def decode(records, leaf):
        seen.append(records.nodes.to_come)
        return decode_overflow(records, leaf)

    tree = read_tree(volume, TREE, fork, decode)
    assert tree.records["key.file_id"].tolist() == [7, 8, 9]
    assert seen == pytest.approx([*expected, 0.0])


@pytest.mark.parametrize(
    ("signature", "compare", "expected"),
    [(0x4858, 0xBC, True), (0x4858, 0xCF, False), (0x482B, 0xBC, False)],
)
def test_case_counts_on_hfsx_where_the_catalog_compares_numbers(signature, compare, expected):
    """BC means binary comparison, CF means case folding (TN1150, "HFSX")."""
    volume, fork = volume_of(header(key_compare_type=compare), ROOT, LAST, FIRST)
    known = SimpleNamespace(len_block=SIZE, num_blocks=6, signature=grammar.HfsplusVolume.Signature(signature))
    volume = replace(volume, header=known)
    tree = read_tree(volume, TREE, fork, decode_overflow)
    assert is_case_sensitive(volume, tree) == expected
    assert not is_case_sensitive(volume, None)
