"""Trees of a few nodes: which leaf comes when, and what pointers that lie do to it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from layoutscope.filesystems.hfsplus.nodes import INDEX, LEAF, UNKNOWN_KIND, NodeRows
from layoutscope.filesystems.hfsplus.tree import find_reach, follow_chain

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


@pytest.mark.parametrize("pointer", [99, 0, ROOT, 3], ids=["outside", "the header", "upwards", "twice"])
def test_pointers_to_no_child_mislead_but_do_not_stop_the_walk(pointer):
    """The root is to blame, and leaf 2 behind the wrong pointer is still found."""
    found = reach(rows(), 3, pointer, 2)
    assert found.leaves.tolist() == [3, 2]
    assert found.misled.tolist() == [ROOT]


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


def test_a_chain_that_bites_its_tail_ends():
    """3 links to 4, 4 to 3: each is counted once."""
    nodes = rows((-1, 0, 0, 4, 3))
    assert follow_chain(FILE, nodes, reach(nodes, 3)).leaves.tolist() == [3, 4]
