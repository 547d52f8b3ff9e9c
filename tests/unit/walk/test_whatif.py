from __future__ import annotations

import numpy as np
import pytest

from layoutscope.access.trace import AccessTrace
from layoutscope.drive import load_profile
from layoutscope.filesystems.hfsplus.layout import add_locators
from layoutscope.remedies.case import Case
from layoutscope.remedies.changes import (
    clump_nodes,
    drop_snapshot_nodes,
    first_reads,
    lay_in_read_order,
    pack_nodes,
    walk_folders,
)
from layoutscope.tables.columns import TextColumn
from layoutscope.walk import trace
from layoutscope.walk.host import host_profile
from tests.unit.walk.conftest import rows_read


def test_packed_and_clumped_nodes(apfs_plan):
    """Packed nodes are in key order, clumped ones keep theirs."""
    # Fs root, then object map, then leaves 4 to 7 are contiguous from 0: leaf 4 is the fifth block.
    nodes = pack_nodes(apfs_plan.layout()).nodes
    assert nodes["image_offset"].to_list() == [4096, 8192, 12288, 0, 16384, 20480, 24576, 28672]
    # The eight nodes of the plan are in ascending order, 64 KiB apart; clumped they are 4 KiB apart.
    nodes = clump_nodes(apfs_plan.layout()).nodes
    assert nodes["image_offset"].to_list() == [4096 * place for place in range(8)]


def test_packed_catalog_needs_no_overflow_tree(hfs_plan):
    """A packed catalog with more than eight extents is read without overflow nodes."""
    leaf = hfs_plan.node("extents-overflow", 0, 0x60000)
    hfs_plan.extent(4, 3 * 8192, 0x30000, 8 * 8192, node=leaf)
    layout = hfs_plan.layout()
    layout = layout.changed(nodes=add_locators(layout.columns("nodes"), layout.columns("extents")))
    assert "overflow" in {trace(layout).causes[code] for code in trace(layout).cause}
    packed = trace(pack_nodes(layout))
    assert "overflow" not in {packed.causes[code] for code in packed.cause}


@pytest.mark.parametrize("lay_out", [pack_nodes, clump_nodes])
def test_moving_nodes_does_not_change_what_is_read(apfs_plan, lay_out):
    """The reads have the same number, causes and order; only addresses differ."""
    layout = apfs_plan.layout()
    before, after = trace(layout), trace(lay_out(layout))
    assert np.array_equal(before.cause, after.cause)
    assert np.array_equal(before.directory_id, after.directory_id)
    assert not np.array_equal(before.image_offset, after.image_offset)
    # Nodes that are already in place are not changed: the layout is the same.
    once = lay_out(apfs_plan.layout())
    assert lay_out(once) is once


def test_without_snapshots_map_leaves_merge(apfs_plan):
    """Leaves 1 and 2 map four and two live nodes; with room for eight, leaf 1 maps them all and leaf 2 is not read."""
    apfs_plan.node("fs", 0, 0x80000, parent=3, mapper=2, rank=4, state="snapshot")
    layout = apfs_plan.layout()
    changed = drop_snapshot_nodes(layout)
    assert set(changed.nodes["locator_row"].drop_nulls()) == {1}
    assert 0x20000 in trace(layout).image_offset
    assert 0x20000 not in trace(changed).image_offset


def test_nodes_in_the_order_of_a_workload_are_read_in_sequence(apfs_plan):
    # Each read begins where the last one ended, except for nodes that the mount has read before.
    layout = apfs_plan.layout()
    reads = trace(lay_in_read_order(layout, trace(layout)))
    ends = reads.image_offset[:-1] + reads.length_bytes[:-1]
    assert (reads.image_offset[1:] == ends).all()
    assert len(reads) == len(trace(layout)) > 2
    # Nodes are placed in the order of the given reads: here from last to first.
    layout = apfs_plan.layout()
    reads = trace(layout)
    back = reads[np.arange(len(reads))[::-1]]
    moved = trace(lay_in_read_order(layout, back))
    assert (np.diff(moved.image_offset) < 0).all()
    # A read within a node counts for it, one of three nodes for all of them; an unread node comes last.
    reads = AccessTrace.from_reads(np.array([12288, 16384, 4096]), np.array([4096, 24576, 4096]))
    nodes = np.array([0, 8192, 16384, 24576, 32768, 40960])
    turn = first_reads(reads, np.zeros(6, np.uint8), nodes)
    # The first read is the second half of the second node, the third is the first half of the first.
    assert turn.tolist() == [2, 0, 1, 1, 1, 3]


def test_folders_that_changed_are_listed_to_their_valence(hfs_plan):
    """As in a whole listing, a valence of 1 ends the root's before b, so its thread (4) is not read."""
    hfs_plan.entries[0]["valence"] = 1
    case = Case(hfs_plan.layout(), load_profile("generic-7200"), "fts", host_profile("linux"))
    found = walk_folders(case, np.ones(len(case.descent), bool))
    assert rows_read(found) == rows_read(case.reads) == [3, 5]


def test_git_status_sorts_a_name_with_half_a_surrogate_pair(hfs_plan, monkeypatch):
    """UTF-8 cannot encode it: the order by bytes must not fail, and a/x (3, 5) still comes before b (4)."""
    own = TextColumn.to_list
    monkeypatch.setattr(TextColumn, "to_list", lambda self: ["b\ud800" if t == "b" else t for t in own(self)])
    assert rows_read(trace(hfs_plan.layout(), order="git-status")) == [3, 5, 4]
