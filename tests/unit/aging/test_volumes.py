"""Invariants of aged volumes."""

from __future__ import annotations

from dataclasses import replace

import msgspec.structs
import numpy as np
import pytest

import layoutscope
from layoutscope.aging import apfs as writing
from layoutscope.aging.apfs import POLICIES, policy_of
from layoutscope.aging.layouts import build_aged_layout
from layoutscope.aging.trees import NOWHERE
from layoutscope.aging.volume import WORKLOADS
from layoutscope.api.forecast import LAID_OUT, VOLUMES, readable, volumes_alike
from layoutscope.metrics import measure
from layoutscope.remedies.changes import lay_in_read_order, pack_nodes
from layoutscope.walk import trace

IMAGES = {name: f"fixtures/images/{name}-scattered.img.zst" for name in ("hfsplus", "apfs")}

FILL = ("leaf-fill", "extentref")


@pytest.fixture(scope="module", params=IMAGES)
def layout(request):
    """Return the layout of a committed image."""
    return layoutscope.read_layouts(IMAGES[request.param])[-1]


def aged(layout, name, host="linux", cycles=3, share=0.2):
    """Age a volume."""
    volume = readable(layout, host)
    rng = np.random.default_rng(5)
    for _ in range(cycles):
        volume.age(name, round(share * volume.entries.is_file.sum()), rng)
    return volume


def owned(volume):
    """Return the blocks of nodes and files."""
    blocks = [volume.data.blocks()]
    for name, tree in volume.trees.items():
        for level in tree.levels:
            lies = level.block
            blocks.append(np.unique(lies // volume.block_bytes) if name == "catalog" else lies)
    return blocks


def test_a_volume_as_it_is_has_the_layout_that_was_read(layout):
    """Every metric of tables rebuilt from a volume that did not age equals that of the volume.

    Nodes are compared one by one, because the model rounds each record's share of a node.
    """
    again = build_aged_layout(layout, readable(layout, "linux"))
    for was, now in zip(measure(layout), measure(again), strict=True):
        assert (now.value is None) == (was.value is None)
        assert (now.definition, now.subject) == (was.definition, was.subject)
        # See the next test.
        if was.value is not None and (was.name, was.subject) != FILL:
            assert now.value == pytest.approx(was.value, rel=0.05)


def test_extent_references_fill_their_leaves_as_read_where_no_snapshot_has_some(reference_image):
    """Without snapshots, the model keeps every reference in the tree it was read from; with a snapshot it does not."""

    def fills(name):
        read = layoutscope.read_layouts(name)[-1]
        for made in (read, build_aged_layout(read, readable(read, "linux"))):
            yield next(found.value for found in measure(made) if (found.name, found.subject) == FILL)

    was, now = fills(reference_image("driver/apfs-ci.img"))
    assert now == pytest.approx(was, rel=0.05)
    was, now = fills(IMAGES["apfs"])
    assert abs(now - was) > 0.1


@pytest.mark.parametrize("host", ["linux", "macos"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_no_block_is_owned_twice_and_none_is_free_and_owned(layout, name, host):
    """Nodes and files have distinct blocks within the volume."""
    volume = aged(layout, name, host, share=0.02)
    begin = readable(layout, host)
    # Files of the volume itself can contain the nodes of a catalog.
    special = volume.data.blocks()[np.repeat(volume.data.ident < 0, volume.data.count)]
    blocks = np.concatenate(owned(volume))
    files = volume.data.blocks()[np.repeat(volume.data.ident >= 0, volume.data.count)]
    files = files[~np.isin(files, begin.data.blocks())]
    assert len(np.unique(files)) == len(files)
    if "catalog" not in volume.trees:
        nodes = np.concatenate([level.block for tree in volume.trees.values() for level in tree.levels])
        assert len(np.unique(nodes)) == len(nodes)
        assert not np.isin(nodes, files).any()
    else:
        numbers = np.concatenate([level.ident for level in volume.trees["catalog"].levels])
        assert len(np.unique(numbers)) == len(numbers)
        assert not np.isin(numbers, volume.spare).any()
        assert not np.isin(files, special).any()
    start, count = volume.space.runs()
    place = np.searchsorted(start, files, side="right") - 1
    assert not ((place >= 0) & (files < start[place] + count[place])).any()
    assert blocks.min() >= 0
    assert blocks.max() < layout.facts.size_bytes // volume.block_bytes


@pytest.mark.parametrize("name", WORKLOADS)
def test_files_are_as_many_as_the_workload_leaves(layout, name):
    """Replacing keeps the number of files; adding and deleting change it by the requested count."""
    before = int(readable(layout, "linux").entries.is_file.sum())
    each = round(0.2 * before)
    after = int(aged(layout, name, cycles=1).entries.is_file.sum())
    change = {"add": each, "delete": -each}
    assert after - before == change.get(name, 0)


def test_files_and_leaves_of_a_volume(layout):
    """Files have their blocks, and entries live leaves."""
    volume = aged(layout, "replace")
    new = volume.entries.ident >= len(volume.numbers)
    assert new.any()
    held = np.bincount(np.maximum(volume.data.ident, 0), volume.data.count, int(volume.next_ident))
    need = -(-volume.entries.size_bytes[new] // volume.block_bytes)
    assert held[volume.entries.ident[new]].tolist() == need.tolist()
    # Walks follow these rows: each leads to a leaf of the tree, and the parent of every node exists.
    made = build_aged_layout(layout, aged(layout, "mixed"))
    leaves = set(made.nodes.filter(made.nodes["level"] == 0)["row"].to_list())
    for name in ("entry_node_row", "inode_node_row", "listing_node_row"):
        assert set(made.entries[name].drop_nulls().to_list()) <= leaves
    assert set(made.nodes["parent_row"].drop_nulls().to_list()) <= set(made.nodes["row"].to_list())


def test_kept_snapshots_hold_blocks_that_are_free_without_them():
    """With the same cycles, fewer blocks are free if a snapshot of two cycles is kept."""
    layout = layoutscope.read_layouts(IMAGES["apfs"])[-1]
    free = []
    for keep in (0, 2):
        volume = readable(layout, "linux")
        volume.keep_cycles = keep
        rng = np.random.default_rng(5)
        for _ in range(2):
            volume.age("replace", 100, rng)
        free.append(volume.space.num_free + sum(map(len, volume.held)))
        assert bool(volume.held) == bool(keep)
    assert free[0] > free[1] - sum(map(len, volume.held))


def apfs_aged(**changes):
    """Age the committed APFS volume by one cycle under a changed policy."""
    layout = layoutscope.read_layouts(IMAGES["apfs"])[-1]
    volume = readable(layout, "linux")
    volume.policy = replace(volume.policy, **changes)
    before = volume.xid
    volume.age("replace", 100, np.random.default_rng(5))
    return volume, volume.xid - before


def test_a_transaction_ends_when_enough_blocks_wait_to_be_freed():
    """A smaller limit on blocks waiting to be freed gives several times as many transactions; a large one gives one."""
    assert apfs_aged(queue_blocks=1 << 20)[1] == 1
    many = apfs_aged(queue_blocks=400)[1]
    assert apfs_aged(queue_blocks=100)[1] >= 3 * many >= 6
    assert apfs_aged(queue_blocks=1 << 20, buffer_blocks=50)[1] > 2


def test_blocks_of_earlier_drivers_wait_for_transactions():
    """Blocks freed in the last four transactions are not free yet, with a queue limit five times as large."""
    now, _ = apfs_aged(queue_blocks=400)
    waiting, num = apfs_aged(queue_blocks=2000, waits=4)
    assert now.waiting == []
    assert len(waiting.waiting) == min(4, num)
    assert waiting.space.num_free < now.space.num_free


@pytest.mark.parametrize(
    ("writer", "waits"),
    [("linux-apfs by EA Fernández (xid 2)", 4), ("linux-apfs by eafer (0.3.20?)", 0), ("", 0)],
)
def test_the_driver_that_wrote_a_volume_last_says_how_it_is_written(writer, waits):
    """A driver that did not write its version delays freed blocks; other hosts have their own policy."""
    layout = layoutscope.read_layouts(IMAGES["apfs"])[-1]
    facts = msgspec.structs.replace(layout.facts, details={**layout.facts.details, "modified by": writer})
    assert policy_of(layout.changed(facts=facts), "linux").waits == waits
    assert policy_of(layout.changed(facts=facts), "macos") == POLICIES["macos"]


def test_a_transaction_of_macos_writes_as_many_files_in_every_cycle():
    """A transaction holds as many files as the policy says; files of one cycle do not end transactions of the next."""
    volume = readable(layoutscope.read_layouts(IMAGES["apfs"])[-1], "macos").copy()
    volume.policy = replace(volume.policy, files_per_transaction=100)
    began, rng = [volume.xid], np.random.default_rng(1)
    for _ in range(3):
        volume.age("replace", 150, rng)
        began.append(volume.xid)
    assert np.diff(began).tolist() == [2, 2, 2]


def test_volumes_like_one_are_those_that_were_drawn():
    """Eight volumes have drawn orders and ages and as many files; old ones have new files, new ones new leaf places."""
    layout = layoutscope.read_layouts(IMAGES["hfsplus"])[-1]
    found = volumes_alike(layout, "macos")
    assert len(found) == VOLUMES
    assert {creation for creation, _, _ in found} <= set(LAID_OUT)
    assert len({(LAID_OUT[creation], age) for creation, age, _ in found}) > 3
    assert min(age for _, age, _ in found) == 0
    ids = np.unique(layout.columns("entries")["file_id"].data)
    for creation, age, made in found:
        now = made.columns("entries")
        assert len(now) == len(layout.columns("entries"))
        assert np.array_equal(np.unique(now["file_id"].data), ids) == (age == 0)
        if age == 0:
            is_packed = LAID_OUT[creation] == "packed"
            new = pack_nodes(layout) if is_packed else lay_in_read_order(layout, trace(layout, host="macos"))
            new = new.columns("nodes")
            assert made.columns("nodes")["image_offset"].data.tolist() == new["image_offset"].data.tolist()


def test_nodes_that_lie_apart_stay_apart(monkeypatch):
    """If nodes are stored after the data, rewritten nodes are stored there too, even if new nodes have no place yet."""
    monkeypatch.setattr(writing, "CHUNK_BLOCKS", 1)
    volume = readable(layoutscope.read_layouts(IMAGES["apfs"])[-1], "linux")
    tree = volume.trees["fs"]
    levels = tuple(replace(level, block=np.maximum(level.block, 20_000)) for level in tree.levels)
    new = replace(levels[0], block=np.append(levels[0].block[:-1], NOWHERE))
    volume.trees["fs"] = replace(tree, levels=(new, *levels[1:]))
    assert volume.space.runs()[0][0] < 20_000
    assert volume._take_apart(3).min() >= 20_000
