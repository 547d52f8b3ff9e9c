"""Trees of a few nodes: which leaf comes when, and what pointers that lie do to it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from layoutscope.filesystems.hfsplus.tree.btree import Decoded
from layoutscope.filesystems.hfsplus.tree.nodes import INDEX, LEAF
from layoutscope.filesystems.hfsplus.tree.shape import UNKNOWN_KIND, NodeTable, find_shape, follow_chain

ROOT = 1
KINDS = [UNKNOWN_KIND, INDEX, LEAF, LEAF, LEAF]
HEIGHTS = [-1, 2, 1, 1, 1]
FILE = SimpleNamespace(num_nodes=5, header=SimpleNamespace(root_node=ROOT, first_leaf_node=3))
"""Node 0 is the header; the root 1 points to leaves among 2, 3 and 4."""


def table(f_link=(-1, 0, 0, 4, 2)):
    blank = np.full(5, -1, np.int64)
    columns = dict.fromkeys(("b_link", "num_records", "free_offset", "first_key_id", "last_key_id"), blank)
    links, kind, height = (np.array(values, np.int64) for values in (f_link, KINDS, HEIGHTS))
    return NodeTable(f_link=links, kind=kind, height=height, damaged=np.zeros(5, np.bool_), **columns)


def shape(*children):
    pointers = {"node": np.full(len(children), ROOT, np.int64), "child": np.array(children, np.int64)}
    return find_shape(FILE, table(), Decoded(pointers=[pointers]))


def test_leaves_come_in_the_order_of_their_pointers():
    """Not in that of their numbers: 3, 4, 2, with ranks 0, 1, 2."""
    found = shape(3, 4, 2)
    assert found.leaves.tolist() == [3, 4, 2]
    assert found.key_rank.tolist() == [-1, 0, 2, 0, 1]
    assert found.parent.tolist() == [-1, -1, 1, 1, 1]
    assert (found.missing.tolist(), found.misled.tolist()) == ([], [])


@pytest.mark.parametrize("pointer", [99, 0, ROOT, 3], ids=["outside", "the header", "upwards", "twice"])
def test_pointers_to_no_child_mislead_but_do_not_stop_the_walk(pointer):
    """The root is to blame, and leaf 2 behind the wrong pointer is still found."""
    found = shape(3, pointer, 2)
    assert found.leaves.tolist() == [3, 2]
    assert found.misled.tolist() == [ROOT]


def test_a_child_that_was_not_read_is_missing():
    """Node 4 was not decoded, as the map calls it free."""
    nodes = table()
    nodes.kind[4] = UNKNOWN_KIND
    pointers = {"node": np.array([1, 1]), "child": np.array([3, 4])}
    found = find_shape(FILE, nodes, Decoded(pointers=[pointers]))
    assert (found.leaves.tolist(), found.missing.tolist(), found.misled.tolist()) == ([3], [4], [])


def test_lost_leaves_are_found_along_their_chain():
    """Only leaf 3 has a pointer; it links to 4, and 4 to 2."""
    found = follow_chain(FILE, table(), shape(3))
    assert found.leaves.tolist() == [3, 4, 2]
    assert found.key_rank.tolist() == [-1, 0, 2, 0, 1]


def test_a_chain_that_bites_its_tail_ends():
    """3 links to 4, 4 to 3: each is counted once."""
    assert follow_chain(FILE, table((-1, 0, 0, 4, 3)), shape(3)).leaves.tolist() == [3, 4]
