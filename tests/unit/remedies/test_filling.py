"""A volume filled from scratch: numbers in the order of the copy, records placed by number."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from layoutscope.aging import apfs
from layoutscope.drive import load_profile
from layoutscope.filesystems.registry import filesystem
from layoutscope.remedies.case import (
    Case,
    entries_by_name,
    entries_in_walk_order,
    level_by_level,
    number_entries,
    space_nodes,
    split_leaves,
)
from layoutscope.walk.host import host_profile
from tests.layouts import NODE, entries, layout, leaves

DISK = load_profile("generic-7200")


def case_of(made):
    return Case(made, DISK, "fts", host_profile("linux"))


@pytest.fixture
def tree():
    """Folders b (with y) and a (with aa, which has x), in this order in the root."""
    rows = entries(
        (2, 30, "b", "directory", 0), (2, 20, "a", "directory", 0),
        (20, 25, "aa", "directory", 0), (25, 99, "x", "file", 0), (30, 31, "y", "file", 0),
        entry_rank=[0, 1, 0, 0, 0],
    )  # fmt: skip
    return case_of(layout(nodes=leaves(1), entries=rows))


def names(case, order):
    return [case.model.entries.names().to_list()[place] for place in order.tolist()]


def test_orders_of_a_copy(tree):
    """In listing order, depth first; by name, depth first; and level by level from the root."""
    assert names(tree, entries_in_walk_order(tree)) == ["b", "a", "y", "aa", "x"]
    assert names(tree, entries_by_name(tree)) == ["a", "b", "aa", "x", "y"]
    assert names(tree, level_by_level(tree)) == ["b", "a", "y", "aa", "x"]
    # The first folder contains a deep one, whose contents come after the first folder's siblings.
    rows = entries(
        (2, 20, "a", "directory", 0), (2, 30, "b", "directory", 0),
        (20, 25, "aa", "directory", 0), (25, 99, "x", "file", 0), (30, 31, "y", "file", 0),
        entry_rank=[0, 1, 0, 0, 0],
    )  # fmt: skip
    case = case_of(layout(nodes=leaves(1), entries=rows))
    assert names(case, entries_in_walk_order(case)) == ["a", "b", "aa", "x", "y"]
    assert names(case, level_by_level(case)) == ["a", "b", "aa", "y", "x"]


def test_numbers_are_given_in_the_order_of_the_copy(tree):
    """The first new file gets 16, as on both file systems; the root stays 2, and children follow their folders."""
    made = number_entries(tree, entries_in_walk_order(tree)).entries
    number = dict(zip(made["name"], made["file_id"], strict=True))
    parent = dict(zip(made["name"], made["parent_id"], strict=True))
    assert number == {"b": 16, "a": 17, "y": 18, "aa": 19, "x": 20}
    assert parent == {"b": 2, "a": 2, "y": 16, "aa": 17, "x": 19}
    # A hard link is created with its first name.
    rows = entries((2, 40, "one", "file", 0), (2, 41, "other", "file", 0), (2, 40, "two", "file", 0))
    case = case_of(layout(nodes=leaves(1), entries=rows))
    assert number_entries(case, entries_in_walk_order(case)).entries["file_id"].to_list() == [16, 17, 16]
    # An entry without a folder gets a number too, after all others.
    rows = entries((77, 40, "lost", "file", 0), (2, 41, "found", "file", 0))
    case = case_of(layout(nodes=leaves(1), entries=rows))
    made = number_entries(case, entries_in_walk_order(case)).entries
    assert dict(zip(made["name"], made["file_id"], strict=True)) == {"found": 16, "lost": 17}


def test_a_fresh_tree_has_full_leaves_and_a_parent_for_each_node():
    # Twenty files in the root: names of 46 + 4 bytes under 2, then inodes of 208 each, in leaves of 2,541 bytes.
    rows = entries(*((2, 16 + k, f"f{k:03}", "file", 0) for k in range(20)), size_bytes=1)
    made = apfs.remade(layout(nodes=leaves(1), entries=rows))
    first = int(made.nodes.filter(tree="fs", level=0)["row"].min())
    assert {row - first for row in made.entries["entry_node_row"]} == {0}
    ends = 20 * 50 + 208 * np.arange(1, 21)
    by_number = made.entries.sort("file_id")["inode_node_row"]
    assert [row - first for row in by_number] == ((ends - 1) // 2541).tolist()
    assert made.entries["dstream_node_row"].equals(made.entries["inode_node_row"])
    # Each node has a parent on the level above, up to the root; a leaf of the object map has 56 nodes.
    rows = entries(*((2, 16 + k, f"f{k:05}", "file", 0) for k in range(2000)))
    nodes = apfs.remade(layout(nodes=leaves(1), entries=rows)).nodes
    level = dict(zip(nodes["row"], nodes["level"], strict=True))
    below = nodes.filter(nodes["parent_row"].is_not_null())
    assert all(level[parent] == own + 1 for own, parent in zip(below["level"], below["parent_row"], strict=True))
    assert nodes.height - below.height == 2
    assert nodes.filter(tree="fs")["locator_row"].value_counts()["count"].max() == 56
    assert nodes["image_offset"].to_list() == [NODE * row for row in range(nodes.height)]


def test_nodes_are_spaced_and_split():
    """Copies are as dense as now, and split leaves move to the end."""
    # If every second block of the span is a node, new nodes also have a block between them; a catalog has none.
    rows = entries(*((2, 16 + k, f"f{k}", "file", k) for k in range(100)))
    old = layout(nodes=leaves(*range(0, 200, 2)), entries=rows, size_bytes=2**30)
    case = case_of(old)
    fresh = apfs.remade(old)
    apart = space_nodes(case, fresh).nodes["image_offset"].to_list()
    # 99 nodes at 98 % are in a span of 197 blocks: half of it, less the last gap.
    assert {later - earlier for earlier, later in itertools.pairwise(apart)} <= {NODE, 2 * NODE}
    catalog = filesystem("hfsplus").remade(old)
    assert space_nodes(case, catalog) is catalog
    # The second and fourth of five leaves in key order are last on the disk; nothing else moves.
    made = layout(nodes=leaves(10, 11, 12, 13, 14))
    split = split_leaves(made).columns("nodes")
    assert (split["image_offset"].signed() // NODE).tolist() == [10, 13, 11, 14, 12]
    assert sorted(split["image_offset"].data) == sorted(made.columns("nodes")["image_offset"].data)
