"""Trees of a few nodes: the order of leaves, and the effect of wrong pointers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace

from layoutscope.filesystems.hfsplus.nodes import HEADER, INDEX, LEAF, MAP, UNKNOWN_KIND, NodeRows
from layoutscope.filesystems.hfsplus.tree import (
    MAX_HEIGHT,
    Reach,
    Tree,
    find_damaged_nodes,
    find_reach,
    follow_chain,
    may_be_node,
    nodes_apart,
    unusable_nodes,
)
from tests.cases import for_each

ROOT = 1
KINDS = [UNKNOWN_KIND, INDEX, LEAF, LEAF, LEAF]
HEIGHTS = [-1, 2, 1, 1, 1]
FILE = SimpleNamespace(num_nodes=5, header=SimpleNamespace(root_node=ROOT, first_leaf_node=3))
"""Node 0 is the header; the root 1 points to leaves among 2, 3 and 4."""


def rows(f_link=(-1, 0, 0, 4, 2)):
    nodes = NodeRows.blank(5)
    nodes.f_link[:], nodes.kind[:], nodes.height[:] = f_link, KINDS, HEIGHTS
    return nodes


def reach(nodes, *children):
    point(nodes, [(ROOT, child) for child in children])
    return find_reach(FILE, nodes)


def point(nodes, pairs):
    """Add pointers from nodes to others."""
    node, child = np.array(pairs, np.int64).reshape(-1, 2).T
    nodes.pointers.add({"node": node, "child": child, "ident": child, "at": child})


def test_leaves_come_in_the_order_of_their_pointers():
    """The order is not that of their numbers: 3, 4, 2 have ranks 0, 1, 2."""
    nodes = rows()
    found = reach(nodes, 3, 4, 2)
    assert found.leaves.tolist() == [3, 4, 2]
    assert nodes.key_rank.tolist() == [-1, 0, 2, 0, 1]
    assert nodes.parent.tolist() == [-1, -1, 1, 1, 1]
    assert (found.missing.tolist(), found.misled.tolist()) == ([], [])


@for_each("pointer", [99, 5, 0, ROOT, 3])
def test_pointers_to_no_child_mislead_but_do_not_stop_the_walk(pointer):
    """The root is reported, and leaf 2 after the wrong pointer is still found; node 0 may claim to be a leaf."""
    for claims in (False, True):
        nodes = rows()
        if claims:
            nodes.kind[0], nodes.height[0] = LEAF, 1
        found = reach(nodes, 3, pointer, 2)
        assert found.leaves.tolist() == [3, 2]
        assert (found.misled.tolist(), found.lost.tolist()) == ([ROOT], [])


def test_a_child_that_was_not_read_is_missing():
    """Node 4 was not decoded, because the bitmap marks it as free. A root that is a leaf is all of the tree."""
    nodes = rows()
    nodes.kind[4] = UNKNOWN_KIND
    found = reach(nodes, 3, 4)
    assert (found.leaves.tolist(), found.missing.tolist(), found.misled.tolist()) == ([3], [4], [])
    file, nodes = SimpleNamespace(num_nodes=5, header=SimpleNamespace(root_node=3)), rows()
    assert find_reach(file, nodes).leaves.tolist() == [3]
    assert (nodes.key_rank.tolist(), nodes.parent.tolist()) == ([-1, -1, -1, 0, -1], [-1] * 5)


@for_each(
    "links, first, children, expected",
    [
        ((4, 2), 3, [3], [3, 4, 2]),  # only leaf 3 has a pointer; it links to 4, and 4 links to 2
        ((4, 2), 3, [4, 2], [3, 4, 2]),  # the header names 3, which links to 4, and pointers lead from there
        ((4, 3), 3, [3], [3, 4]),  # 3 links to 4 and 4 to 3; each is counted once
        # 3 links to 4, which links to node 0, which claims to be a leaf, or to one after the file of five.
        *(((4, link), 3, [3], [3, 4]) for link in (0, 5, 99)),
        # The header names node 0 or a node after the file as first leaf.
        *(((4, 2), first, children, children) for first in (0, 5) for children in ([], [2])),
    ],
)
def test_lost_leaves_are_found_along_their_chain(links, first, children, expected):
    """The links are those of leaves 3 and 4; node 0 claims to be a leaf."""
    nodes = rows((-1, 0, 0, *links))
    nodes.kind[0], nodes.height[0] = LEAF, 1
    file = SimpleNamespace(num_nodes=5, header=SimpleNamespace(root_node=ROOT, first_leaf_node=first))
    assert follow_chain(file, nodes, reach(nodes, *children)).leaves.tolist() == expected
    if len(expected) == 3:
        assert nodes.key_rank.tolist() == [-1, 0, 2, 0, 1]


def test_nodes_are_reached_by_chains_and_by_pointers():
    """Pointers out of the file or to a wrong level lead astray."""
    # The root is node 4 and leads to leaf 3, which links to 1; there the chain ends.
    nodes = NodeRows.blank(5)
    nodes.f_link[:], nodes.kind[:], nodes.height[:] = (
        (-1, 0, 0, 1, 0),
        (HEADER, LEAF, LEAF, LEAF, INDEX),
        (0, 1, 1, 1, 2),
    )
    file = SimpleNamespace(num_nodes=5, header=SimpleNamespace(root_node=4, first_leaf_node=3))
    point(nodes, [(4, 3)])
    found = find_reach(file, nodes)
    assert follow_chain(file, nodes, found).leaves.tolist() == [3, 1]
    # Root leads to index nodes 2 and 3; node 2 leads out of the file and to leaf 4, node 3 to the root.
    nodes = NodeRows.blank(6)
    nodes.kind[:], nodes.height[:] = [UNKNOWN_KIND, INDEX, INDEX, INDEX, LEAF, LEAF], [-1, 3, 2, 2, 1, 2]
    file = SimpleNamespace(num_nodes=6, header=SimpleNamespace(root_node=1))
    pairs = [(1, 2), (1, 3), (2, 99), (2, 4), (3, 5), (3, 5)]
    point(nodes, pairs)
    found = find_reach(file, nodes)
    assert found.leaves.tolist() == [4]
    assert (found.lost.tolist(), found.lost_from.tolist()) == ([5], [3])
    assert found.misled.tolist() == [2, 3]
    assert found.astray.tolist() == [[2, 99], [3, 5], [3, 5]]
    assert nodes.parent.tolist() == [-1, -1, 1, 1, 2, -1]


@pytest.mark.parametrize("root", [0, 5, 6])
def test_a_root_outside_of_the_file_leads_nowhere(root):
    """The header is node 0 of five."""
    file = SimpleNamespace(num_nodes=5, header=SimpleNamespace(root_node=root))
    nodes = rows()
    assert len(find_reach(file, nodes).leaves) == 0
    assert nodes.key_rank.tolist() == [-1] * 5


@pytest.mark.parametrize(
    ("kind", "height", "count", "expected"),
    [
        (LEAF, 1, 1, True),
        (LEAF, 1, 0, False),
        (LEAF, 0, 1, False),
        (LEAF, 2, 1, False),
        (INDEX, 2, 1, True),
        (INDEX, 1, 1, False),
        (INDEX, MAX_HEIGHT, 1, True),
        (INDEX, MAX_HEIGHT + 1, 1, False),
        (INDEX, 2, 0, False),
        (HEADER, 1, 1, False),
        (MAP, 1, 1, False),
    ],
)
def test_what_may_be_a_node_with_keys(kind, height, count, expected):
    nodes = NodeRows.blank(1)
    nodes.kind[:], nodes.height[:], nodes.num_records[:] = kind, height, count
    assert may_be_node(nodes).tolist() == [expected]


def some(*values: int):
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("leaves", "missing", "misled", "count", "expected"),
    [
        ([3], [], [], 5, []),  # as many records as in the header's count
        ([3], [], [], 6, [2, 4]),
        ([3], [2], [], 5, [2, 4]),
        ([3], [2], [1], 5, [2, 4]),
        ([3], [], [1], 5, [2, 4]),
        ([], [], [], 0, [2, 4]),
    ],
)
def test_nodes_apart_of_a_tree_that_has_lost_something(leaves, missing, misled, count, expected):
    """Leaf 3 has five records; nodes 2 and 4 have no rank and, unlike 0 and 5, are not header or map nodes."""
    nodes = NodeRows.blank(6)
    nodes.kind[:] = [HEADER, INDEX, LEAF, LEAF, 7, MAP]
    nodes.key_rank[:], nodes.num_records[:] = [-1, 0, -1, 0, -1, -1], 5
    file = SimpleNamespace(num_nodes=6, header=SimpleNamespace(leaf_records=count))
    reach = Reach(some(*leaves), some(*missing), some(*misled), some(), some(), np.empty((0, 2), np.int64))
    assert np.flatnonzero(nodes_apart(file, nodes, reach)).tolist() == expected


def high_tree(**header: int):
    """Return a tree of three levels: root 1, index nodes 2 and 3, leaves 4 and 5; nothing leads to nodes 6 and 7.

    Node 7 has an invalid kind. The header counts three records, and the leaves have one each.
    """
    nodes = NodeRows.blank(8)
    nodes.kind[:] = [HEADER, INDEX, INDEX, INDEX, LEAF, LEAF, LEAF, 7]
    nodes.height[:], nodes.num_records[:] = [0, 3, 2, 2, 1, 1, 1, 1], 1
    nodes.key_rank[:], nodes.parent[:] = [-1, 0, 0, 1, 0, 1, -1, -1], [-1, -1, 1, 1, 2, 3, -1, -1]
    file = SimpleNamespace(
        num_nodes=8,
        header=SimpleNamespace(**{"root_node": 1, "leaf_records": 3, **header}),
        used=np.ones(8, np.bool_),
        readable=np.ones(8, np.bool_),
        map_nodes=some(),
        lost_map_nodes=some(),
    )
    return file, nodes, Reach(some(4, 5), some(), some(), some(), some(), np.empty((0, 2), np.int64))


@for_each(
    "header, damaged, empty, lost_from, expected",
    [
        # A damaged leaf has no pointers, and an index node outside the tree points to nothing in it.
        *(({}, [number], [6], None, expected) for number, expected in ((2, [6, 7]), (3, [6, 7]), (4, []), (6, []))),
        ({}, [], [6], None, []),
        # Root points to index nodes, and node 2 to leaves; node 6 is not one of these, as it has no record.
        ({}, [], [6], 1, [6, 7]),
        ({}, [], [6], 2, [6]),
        ({}, [], [], None, []),
        ({}, [], [1], None, [1, 7]),
        ({"leaf_records": 0}, [], [1], None, []),
        *(({"root_node": number}, [], [], None, [7]) for number in (0, 7, 8)),
    ],
)
def test_what_nothing_leads_to_counts_where_nodes_above_are_lost(header, damaged, empty, lost_from, expected):
    """Map nodes do not belong to the tree, nor does node 0, whatever their contents, nor what is free or unread."""
    file, nodes, reach = high_tree(**header)
    nodes.damaged[damaged], nodes.num_records[empty] = True, 0
    nodes.kind[6] = INDEX if damaged else LEAF
    if lost_from is not None:
        reach = replace(reach, lost=some(6), lost_from=some(lost_from))
    assert unusable_nodes(file, nodes, reach).tolist() == expected
    file.map_nodes = some(7)
    assert unusable_nodes(file, nodes, reach).tolist() == [number for number in expected if number != 7]
    file.map_nodes, file.readable[6], file.used[7] = some(), False, False
    assert unusable_nodes(file, nodes, reach).tolist() == [number for number in expected if number < 6]


@pytest.mark.parametrize(
    ("lost", "lost_from", "rank", "is_damaged"),
    [(6, 2, -1, True), (6, 7, -1, False), (6, 2, 0, False)],
)
def test_a_pointer_to_a_sound_node_is_believed_where_others_beside_it_are_right(lost, lost_from, rank, is_damaged):
    """Node 2 also leads to leaf 4, and node 7 to nothing; nodes that the chain reaches have a rank, even the first."""
    file, nodes, reach = high_tree()
    nodes.key_rank[lost] = rank
    tree = Tree(file, nodes, replace(reach, lost=some(lost), lost_from=some(lost_from)), {})
    assert np.flatnonzero(find_damaged_nodes(tree)).tolist() == [lost] * is_damaged


@pytest.mark.parametrize(
    ("kind", "damaged", "is_inferred", "expected"),
    [
        (HEADER, False, False, False),
        (HEADER, True, False, True),
        (7, False, False, True),
        (7, False, True, False),
        (7, True, True, True),
    ],
)
def test_node_0_is_damaged_where_it_is_no_header_and_none_was_made_up(kind, damaged, is_inferred, expected):
    file, nodes, reach = high_tree()
    nodes.kind[0], nodes.damaged[0], nodes.is_inferred[0] = kind, damaged, is_inferred
    assert find_damaged_nodes(Tree(file, nodes, reach, {})).tolist() == [expected, *[False] * 7]


def test_a_leaf_that_was_dropped_is_damaged():
    """Node 3 leads to leaf 5, which has lost its rank; sound records of node 4 do not change that."""
    file, nodes, reach = high_tree()
    nodes.key_rank[5] = -1
    assert np.flatnonzero(find_damaged_nodes(Tree(file, nodes, reach, {}))).tolist() == [5]
    nodes.damaged[4] = True
    assert np.flatnonzero(find_damaged_nodes(Tree(file, nodes, reach, {}))).tolist() == [4, 5]
