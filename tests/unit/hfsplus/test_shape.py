"""Trees of a few nodes: which leaf comes when, and what pointers that lie do to it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from layoutscope.filesystems.hfsplus.nodes import HEADER, INDEX, LEAF, MAP, UNKNOWN_KIND, NodeRows
from layoutscope.filesystems.hfsplus.tree import (
    MAX_HEIGHT,
    Reach,
    find_reach,
    follow_chain,
    may_be_node,
    nodes_apart,
)

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
    pointers = {"node": np.full(len(children), ROOT, np.int64), "child": np.array(children, np.int64)}
    return find_reach(FILE, nodes, [pointers])


def test_leaves_come_in_the_order_of_their_pointers():
    """Not in that of their numbers: 3, 4, 2, with ranks 0, 1, 2."""
    nodes = rows()
    found = reach(nodes, 3, 4, 2)
    assert found.leaves.tolist() == [3, 4, 2]
    assert nodes.key_rank.tolist() == [-1, 0, 2, 0, 1]
    assert nodes.parent.tolist() == [-1, -1, 1, 1, 1]
    assert (found.missing.tolist(), found.misled.tolist()) == ([], [])


@pytest.mark.parametrize("pointer", [99, 5, 0, ROOT, 3], ids=["outside", "the end", "the header", "upwards", "twice"])
def test_pointers_to_no_child_mislead_but_do_not_stop_the_walk(pointer):
    """The root is to blame, and leaf 2 behind the wrong pointer is still found."""
    found = reach(rows(), 3, pointer, 2)
    assert found.leaves.tolist() == [3, 2]
    assert found.misled.tolist() == [ROOT]
    assert found.lost.tolist() == []


def test_a_child_that_was_not_read_is_missing():
    """Node 4 was not decoded, as the map calls it free."""
    nodes = rows()
    nodes.kind[4] = UNKNOWN_KIND
    found = reach(nodes, 3, 4)
    assert (found.leaves.tolist(), found.missing.tolist(), found.misled.tolist()) == ([3], [4], [])


def test_lost_leaves_are_found_along_their_chain():
    """Only leaf 3 has a pointer; it links to 4, and 4 to 2."""
    nodes = rows()
    found = follow_chain(FILE, nodes, reach(nodes, 3))
    assert found.leaves.tolist() == [3, 4, 2]
    assert nodes.key_rank.tolist() == [-1, 0, 2, 0, 1]


def test_a_lost_first_leaf_comes_first():
    """The header names 3, which links to 4, from where on pointers lead."""
    nodes = rows()
    found = follow_chain(FILE, nodes, reach(nodes, 4, 2))
    assert found.leaves.tolist() == [3, 4, 2]
    assert nodes.key_rank.tolist() == [-1, 0, 2, 0, 1]


def test_a_chain_that_bites_its_tail_ends():
    """3 links to 4, 4 to 3: each is counted once."""
    nodes = rows((-1, 0, 0, 4, 3))
    assert follow_chain(FILE, nodes, reach(nodes, 3)).leaves.tolist() == [3, 4]


def test_a_lost_node_is_known_with_the_node_that_points_to_it():
    """The root leads to the index nodes 2 and 3, of which 2 leads out of the file and to leaf 4, and 3 to the root."""
    nodes = NodeRows.blank(6)
    nodes.kind[:], nodes.height[:] = [UNKNOWN_KIND, INDEX, INDEX, INDEX, LEAF, LEAF], [-1, 3, 2, 2, 1, 2]
    file = SimpleNamespace(num_nodes=6, header=SimpleNamespace(root_node=1))
    pairs = [(1, 2), (1, 3), (2, 99), (2, 4), (3, 5), (3, 5)]
    pointers = {name: np.array([pair[place] for pair in pairs]) for place, name in enumerate(("node", "child"))}
    found = find_reach(file, nodes, [pointers])
    assert found.leaves.tolist() == [4]
    assert (found.lost.tolist(), found.lost_from.tolist()) == ([5], [3])
    assert found.misled.tolist() == [2, 3]
    assert found.astray.tolist() == [[2, 99], [3, 5], [3, 5]]
    assert nodes.parent.tolist() == [-1, -1, 1, 1, 2, -1]


@pytest.mark.parametrize("root", [0, 5, 6])
def test_a_root_outside_of_the_file_leads_nowhere(root):
    """Node 0 is the header, and there are five."""
    file = SimpleNamespace(num_nodes=5, header=SimpleNamespace(root_node=root))
    nodes = rows()
    assert len(find_reach(file, nodes, []).leaves) == 0
    assert nodes.key_rank.tolist() == [-1] * 5


def test_a_root_that_is_a_leaf_is_all_of_the_tree():
    file = SimpleNamespace(num_nodes=5, header=SimpleNamespace(root_node=3))
    nodes = rows()
    assert find_reach(file, nodes, []).leaves.tolist() == [3]
    assert (nodes.key_rank.tolist(), nodes.parent.tolist()) == ([-1, -1, -1, 0, -1], [-1] * 5)


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
        ([3], [], [], 5, []),  # as many records as the header counts
        ([3], [], [], 6, [2, 4]),
        ([3], [2], [], 5, [2, 4]),
        ([3], [2], [1], 5, [2, 4]),
        ([3], [], [1], 5, [2, 4]),
        ([], [], [], 0, [2, 4]),
    ],
)
def test_nodes_apart_of_a_tree_that_has_lost_something(leaves, missing, misled, count, expected):
    """Leaf 3 has five records; nodes 2 and 4 have no rank, and neither are they header or map nodes, as 0 and 5."""
    nodes = NodeRows.blank(6)
    nodes.kind[:] = [HEADER, INDEX, LEAF, LEAF, 7, MAP]
    nodes.key_rank[:], nodes.num_records[:] = [-1, 0, -1, 0, -1, -1], 5
    file = SimpleNamespace(num_nodes=6, header=SimpleNamespace(leaf_records=count))
    reach = Reach(some(*leaves), some(*missing), some(*misled), some(), some(), np.empty((0, 2), np.int64))
    assert np.flatnonzero(nodes_apart(file, nodes, reach)).tolist() == expected
