"""APFS containers written from a plan, at random and large: everything in the plan must be found."""

from __future__ import annotations

import subprocess
from functools import cache

import numpy as np
import polars as pl
import pytest

import layoutscope
from fixtures import large
from fixtures.apfs.large import LargePlan, write_large
from fixtures.apfs.random_plans import random_plan
from fixtures.apfs.scenarios import PASSWORD, RECOVERY_KEY, SCENARIOS
from fixtures.apfs.structures.records import ROOT_PARENT
from fixtures.apfs.victims import VICTIMS
from fixtures.apfs.writer import write
from fixtures.fault import planted
from fixtures.faults_apfs import FAULTS
from layoutscope.errors import LayoutscopeError, UsageError
from layoutscope.image import open_image
from layoutscope.image.raw import RawFile
from layoutscope.metrics.history import (
    AS_LISTED,
    BY_NAME,
    FOLDERS_FIRST,
    REUSED_BELOW,
    infer_creation_order,
    writing_metrics,
)
from tests.agreement import node_differences
from tests.apfs import list_states, read_layouts
from tests.cases import for_each

REGIONS = {
    "object-map": "object-map",
    "volume-superblock": "volume-superblock",
    "integrity-metadata": "integrity-meta",
    "container-keybag": "container-keybag",
    "volume-keybag": "volume-keybag",
    "chunk-info": "spaceman-cib",
    "chunk-info-address": "spaceman-cab",
    "block-bitmap": "spaceman-bitmap",
    "pool-bitmaps": "internal-pool-bitmap",
    "efi-jumpstart": "efi-jumpstart",
    "efi-driver": "efi-driver",
    "fusion-write-back-cache": "fusion-write-cache",
}
"""The writer's names of regions, in the reader's terms; areas that the reader shows block by block are left out."""


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """Return a function from a scenario's name to its images and the planned layout."""

    @cache
    def get(name: str):
        plan = SCENARIOS[name]
        folder = tmp_path_factory.mktemp(name)
        paths = [folder / "main.img"] + ([folder / "second.img"] if plan.fusion else [])
        return paths, write(plan, *paths)

    return get


@pytest.fixture(scope="session")
def read(written):
    """Return a function that reads a scenario once."""

    @cache
    def get(name: str, **options):
        paths, _ = written(name)
        second = (RawFile(paths[1]), 0) if len(paths) > 1 else None
        options.setdefault("password", PASSWORD if name.startswith("encrypted") else None)
        with RawFile(paths[0]) as source:
            return read_layouts(source, second=second, **options)

    return get


def planned(number):
    """Convert a volume number to the plan's, which counts from 0 and calls the container -1."""
    return -1 if number is None else number - 1


def rows(layouts, table, *columns):
    """Return the rows of a table of all layouts."""
    return [row for layout in layouts for row in getattr(layout, table).select(columns).rows()]


def found_nodes(layouts, block_size):
    columns = ("volume", "tree", "level", "node_id", "xid", "device", "image_offset", "num_records", "key_rank")
    live = [
        layout.nodes.filter(pl.col("state") == "live").select(*columns, "first_key_id").rows() for layout in layouts
    ]
    return {(planned(row[0]), *row[1:6], row[6] // block_size, *row[7:]) for part in live for row in part}


def planned_nodes(state):
    return {
        (n.volume, n.tree, n.level, n.oid, n.xid, n.device, n.paddr, n.num_keys, n.key_rank, n.first_id)
        for n in state.nodes
    }


def found_entries(layouts):
    columns = ("volume", "parent_id", "file_id", "name", "kind", "size_bytes", "link_count")
    return [(planned(row[0]), *row[1:]) for row in rows(layouts, "entries", *columns) if row[1] != ROOT_PARENT]


def planned_entries(state):
    return [(e.volume, e.parent_id, e.file_id, e.name, e.kind, e.size_bytes, e.link_count) for e in state.entries]


def found_extents(layouts, block_size):
    columns = ("volume", "file_id", "fork", "logical_offset", "device", "image_offset", "length_bytes")
    found = rows(layouts, "extents", *columns)
    places = [(planned(row[0]), *row[1:5], None if row[5] is None else row[5] // block_size, row[6]) for row in found]
    return sorted(places, key=repr)


def planned_extents(state):
    places = [(e.volume, e.file_id, e.fork, e.logical_offset, e.device, e.paddr, e.length_bytes) for e in state.extents]
    return sorted(places, key=repr)


def is_covered(region, layouts, block_size):
    """Whether a planned structure is wholly inside regions, nodes or blocks in the free queue."""
    covered = np.zeros(region.num_blocks, bool)
    for layout in layouts:
        for table, length in ((layout.regions, "length_bytes"), (layout.nodes, "size_bytes")):
            for row in table.filter(pl.col("device") == region.device).to_dicts():
                first = row["image_offset"] // block_size - region.paddr
                covered[max(first, 0) : max(first + row[length] // block_size, 0)] = True
    return covered.all()


@pytest.mark.parametrize("name", SCENARIOS)
def test_tables_are_the_plan(name, read, written):
    """Nodes, entries in key order, extents, regions and free space are the planned ones.

    A sound container gives no finding, all its records decode, and every block is accounted for: no used block is
    unclaimed, and no claimed block is free.
    """
    expected, layouts = written(name)[1], read(name)
    state, size = expected.live, expected.block_size
    assert found_nodes(layouts, size) == planned_nodes(state)
    assert found_entries(layouts) == planned_entries(state)
    assert found_extents(layouts, size) == planned_extents(state)
    assert rows(layouts, "findings", "code", "structure", "message") == []
    assert [layout.facts.details.get("records") for layout in layouts] == [
        layout.facts.details.get("records decoded") for layout in layouts
    ]

    container, used = layouts[0], sum(state.num_used)
    free = sum(expected.block_counts) - used
    accounts = ("used blocks", "free blocks", "unclaimed blocks", "claimed but free blocks")
    assert [container.facts.details[account] for account in accounts] == [used, free, 0, 0]
    assert container.free["length_bytes"].sum() == free * size

    columns = ("type", "volume", "device", "image_offset", "length_bytes")
    regions = {(row[0], planned(row[1]), *row[2:]) for row in rows(layouts, "regions", *columns)}
    volume_of = {"volume-keybag": 0}
    assert {
        (REGIONS[r.type], volume_of.get(r.type, r.volume), r.device, r.paddr * size, r.num_blocks * size)
        for r in state.regions
        if r.type in REGIONS
    } <= regions
    assert [region for region in state.regions if not is_covered(region, layouts, size)] == []


def test_snapshots_are_views_of_the_same_nodes(read, written):
    """Each physical node appears once; live and snapshot views share some nodes."""
    expected = written("snapshots")[1]
    volume = read("snapshots")[1]
    views = volume.node_views.with_columns(pl.col("view").cast(pl.String))
    assert views["view"].unique().sort().to_list() == [
        "live",
        *sorted(f"snapshot {item.name}" for item in expected.snapshots),
    ]
    assert volume.nodes.select("device", "image_offset").is_unique().all()
    held = {name: set(frame["node_row"]) for (name,), frame in views.group_by("view")}
    assert held["live"] & held["snapshot first"] != set()
    assert held["live"] - held["snapshot first"] != set()
    only = volume.nodes.filter((pl.col("state") == "snapshot") & (pl.col("tree") == "fs"))
    assert set(only["row"]) == (held["snapshot first"] | held["snapshot second"]) - held["live"]


@pytest.mark.parametrize(("name", "by"), [("first", "snapshot"), ("first", "xid"), ("second", "snapshot")])
def test_a_snapshot_is_read_as_it_was(read, written, name, by):
    """Read by name or transaction, a snapshot shows the entries and nodes of its own transaction."""
    expected = written("snapshots")[1]
    assert [item.name for item in expected.snapshots] == ["first", "second"]
    (xid,) = [item.xid for item in expected.snapshots if item.name == name]
    layouts = read("snapshots", **({"snapshot": name} if by == "snapshot" else {"xid": xid}))
    layout, state = layouts[1], expected.states[xid]
    assert layout.facts.view == f"snapshot {name}"
    assert found_entries(layouts) == planned_entries(state)
    held = layout.node_views.filter(pl.col("view").cast(pl.String) == layout.facts.view)["node_row"]
    nodes = layout.nodes.filter(pl.col("row").is_in(held.to_list()))
    found = set(nodes.select("node_id", "xid", "image_offset", "level").rows())
    size = expected.block_size
    assert found == {(n.oid, n.xid, n.paddr * size, n.level) for n in state.nodes if n.tree == "fs"}


def test_a_state_that_is_not_there_is_named_with_those_that_are(read):
    """Requesting a state that does not exist raises an error that lists the available ones."""
    with pytest.raises(UsageError, match="snapshot first"):
        read("snapshots", snapshot="third")
    with pytest.raises(UsageError, match="checkpoint"):
        read("basic", xid=999)


@pytest.mark.parametrize("name", ["aged", "edited", "wrapped-rings", "fusion", "snapshots"])
def test_older_checkpoints_are_read(read, written, name):
    """Every checkpoint still in the ring is listed, opens, and shows the nodes and entries of its transaction."""
    paths, expected = written(name)
    assert len(expected.readable_xids) > 1
    if name != "fusion":
        with RawFile(paths[0]) as source:
            states = list_states(source)
        found = [(item.kind, item.label, item.xid) for item in states if item.kind == "snapshot"]
        assert found == [("snapshot", item.name, item.xid) for item in expected.snapshots]
        checkpoints = [item.xid for item in states if item.kind == "checkpoint" and item.is_complete]
        assert checkpoints == sorted(expected.readable_xids, reverse=True)
    for xid in expected.readable_xids:
        layouts, state = read(name, xid=xid), expected.states[xid]
        container, volume = layouts[:2]
        assert (container.facts.stamp, volume.facts.stamp) == (xid, xid)
        is_newest = xid == max(expected.readable_xids)
        assert {container.facts.view, volume.facts.view} == {"live" if is_newest else f"xid {xid}"}
        assert found_entries(layouts) == planned_entries(state)
        if name != "snapshots":
            nodes = found_nodes(layouts, expected.block_size)
            for tree in ("container-omap", "omap", "fs", "extentref"):
                assert {n for n in nodes if n[1] == tree} == {n for n in planned_nodes(state) if n[1] == tree}
        if len(layouts) == 2:
            now, then = ({n.paddr for n in each.nodes if n.tree == "fs"} for each in (expected.live, state))
            kept = {n.paddr for s in expected.snapshots for n in expected.states[s.xid].nodes if n.tree == "fs"}
            count_dropped_nodes = None if is_newest else len(then - now - kept)
            assert volume.facts.details.get("nodes given up since") == count_dropped_nodes


def without_blocks(path, target, paddrs):
    """Overwrite blocks of a copy with zeros."""
    data = bytearray(path.read_bytes())
    for paddr in paddrs:
        data[paddr * 4096 : paddr * 4096 + 4096] = bytes(4096)
    target.write_bytes(data)
    with RawFile(target) as source:
        return list_states(source)


def test_lost_lists_of_snapshots_are_no_lists_without_any(written, tmp_path):
    """If the snapshot records are lost, the volume's own count reveals that there were some."""
    paths, expected = written("snapshots")
    lost = [node.paddr for node in expected.live.nodes if node.tree == "snapmeta"]
    states = without_blocks(paths[0], tmp_path / "a.img", lost)
    found = [(item.label, item.is_complete) for item in states if item.kind == "snapshot"]
    assert found == [(f"{len(expected.snapshots)} lost", False)]


def test_snapshot_without_its_superblock_is_not_complete(written, tmp_path):
    """It is still listed, but the path to its nodes is lost."""
    paths, expected = written("snapshots")
    layouts = layoutscope.read_layouts(paths[0])
    copies = layouts[-1].regions.filter(type="volume-superblock", owner=f"snapshot of xid {expected.snapshots[0].xid}")
    states = without_blocks(paths[0], tmp_path / "a.img", [copies["image_offset"].to_list()[0] // 4096])
    found = [item.is_complete for item in states if item.kind == "snapshot"]
    assert found == [False, *(True for _ in expected.snapshots[1:])]


def test_nodes_that_a_damaged_map_no_longer_names_are_not_passed_over(written, tmp_path):
    """A state whose map lost a leaf is not reported as complete."""
    paths, expected = written("snapshots")
    lost = [node.paddr for node in expected.live.nodes if (node.tree, node.level) == ("omap", 0)]
    states = without_blocks(paths[0], tmp_path / "a.img", lost[-1:])
    newest = states[0]
    assert (newest.xid, newest.is_complete) == (max(expected.readable_xids), False)
    assert not any(item.is_complete for item in states if item.kind == "snapshot")


@pytest.mark.parametrize("password", [None, "", "wrong"])
def test_a_locked_volume_shows_what_needs_no_key(read, written, password):
    """Without the key no name is shown, but the locked tree's nodes have place, number, transaction and size."""
    expected = written("encrypted")[1]
    layouts = read("encrypted", password=password)
    container, volume = layouts
    assert found_entries(layouts) == []
    wanted = {(n.oid, n.xid, n.paddr * expected.block_size) for n in expected.live.nodes if n.tree == "fs"}
    for locked in (volume.nodes.filter(pl.col("tree") == "fs"), volume.nodes.filter(pl.col("kind") == "locked")):
        assert set(locked.select("node_id", "xid", "image_offset").rows()) == wanted
    assert locked["level"].null_count() == locked["num_records"].null_count() == len(wanted)
    assert container.facts.details["unclaimed blocks"] == 0
    assert rows(layouts, "findings", "code") == [("volume-locked",)]
    read_nodes = len(volume.nodes) - len(wanted)
    assert volume.coverage == pytest.approx(read_nodes / len(volume.nodes))


def test_a_recovery_key_unlocks_like_the_password(read):
    """The recovery key opens the same tree as the password."""
    by_password, by_key = read("encrypted")[1], read("encrypted", password=RECOVERY_KEY)[1]
    assert by_key.nodes.equals(by_password.nodes)
    assert by_key.entries.equals(by_password.entries)


def test_half_a_fusion_set_shows_what_lies_on_it(written):
    """Without the second image the first one's nodes are read, and findings report missing data."""
    paths, expected = written("fusion")
    with RawFile(paths[0]) as source:
        layouts = read_layouts(source)
    found = {row for row in found_nodes(layouts, expected.block_size) if row[5] == 0}
    wanted = {(node.volume, node.paddr) for node in expected.live.nodes if node.device == 0 and node.volume == -1}
    assert {(row[0], row[6]) for row in found} >= wanted
    assert any("fusion-half" in layout.findings["code"].to_list() for layout in layouts)


def test_a_sealed_volume_is_verified_by_its_hashes(read):
    """Every node of a sealed tree is verified by the hash in its parent, the root by the seal."""
    nodes = read("sealed-deep")[1].nodes.filter(pl.col("tree") == "fs")
    assert nodes["valid"].cast(pl.String).unique().to_list() == ["child-hash"]


@pytest.mark.parametrize("name", ["rich", "sealed-deep", "encrypted", "fusion", "snapshots"])
def test_grammars_agree_on_every_node(name, read, written):
    """Bulk decoding and the grammars read the same records."""
    source, *others = [RawFile(path) for path in written(name)[0]]
    options = {"password": PASSWORD if name == "encrypted" else None, "second": (others[0], 0) if others else None}
    assert node_differences(source, read(name), **options) == []


# Reading a large written APFS container.


FILES = 20_000


@pytest.fixture(scope="module")
def large_container(tmp_path_factory):
    """Write an aged container of 20,000 files; return its image and layout."""
    path = tmp_path_factory.mktemp("large") / "a.img"
    return path, write_large(LargePlan(FILES, cycles=5), path)


@pytest.fixture(scope="module")
def layouts(large_container):
    """Read it with bulk decoding; small containers show that the other decoder agrees."""
    return read_layouts(open_image(large_container[0]))


def test_leaves_lie_where_they_were_written(large_container, layouts):
    """Each leaf of the fs tree, in key order, is at the address of its last transaction."""
    planned = large_container[1]
    leaves = layouts[1].nodes.filter((pl.col("tree") == "fs") & (pl.col("level") == 0)).sort("key_rank")
    assert leaves["image_offset"].to_list() == (planned.node_paddr[: planned.num_leaves] * 4096).tolist()
    assert leaves["valid"].unique().to_list() == ["checksum"]


def test_files_and_extents_are_the_planned_ones(large_container, layouts):
    """There are 20,000 files with one extent each, at their planned blocks."""
    planned = large_container[1]
    assert layouts[1].entries.filter(pl.col("kind") == "file").height == FILES
    found = layouts[1].extents.sort("image_offset").select("image_offset", "length_bytes").rows()
    blocks = sorted(zip(planned.file_start_block.tolist(), planned.file_blocks.tolist(), strict=True))
    assert found == [(start * 4096, number * 4096) for start, number in blocks]


def test_every_block_is_accounted_for(large_container, layouts):
    """All used blocks are claimed, and there are no findings."""
    details = layouts[0].facts.details
    assert details["used blocks"] == large_container[1].num_used
    assert (details["unclaimed blocks"], details["claimed but free blocks"]) == (0, 0)
    assert all(layout.findings.height == 0 for layout in layouts)


@pytest.mark.parametrize("order", ["alphabetical", "hash", "numbered"])
def test_files_are_created_in_the_order_that_is_asked_for(tmp_path, order):
    """The numbers of an aged volume show the order, on HFS+ as far as it lists by name."""
    expected = {"alphabetical": BY_NAME, "hash": AS_LISTED, "numbered": FOLDERS_FIRST}[order]
    for filesystem, shown in (("apfs", expected), ("hfsplus", "" if order == "hash" else expected)):
        path = tmp_path / f"{filesystem}.img"
        options = ["--filesystem", filesystem, "--files", "4000", "--cycles", "4", "--order", order, "-o", str(path)]
        assert large.main(options) == 0
        (layout,) = (item for item in layoutscope.read_layouts(path) if len(item.columns("entries")))
        assert infer_creation_order(layout) == shown


@pytest.mark.parametrize(("words", "reuses"), [((), False), (("--reuse",), True)])
def test_transactions_are_as_long_as_asked_for_and_take_blocks_as_asked_for(tmp_path, words, reuses):
    """Files per transaction from the newest ones; where freed blocks are reused, transactions are out of disk order."""
    path = tmp_path / "a.img"
    options = ["--filesystem", "apfs", "--files", "20000", "--cycles", "6", "--transaction-files", "100", *words]
    assert large.main([*options, "-o", str(path)]) == 0
    (layout,) = (item for item in layoutscope.read_layouts(path) if len(item.columns("entries")))
    values = {metric.name: metric.value for metric in writing_metrics(layout)}
    assert values["files-per-transaction"] == pytest.approx(100, rel=0.1)
    assert (values["written-behind"] < REUSED_BELOW) == reuses
    # Six cycles and the creation, which rewrites folders as their entries are added.
    assert 5 <= values["write-streams"] <= 9
    assert layout.num_errors == 0


def test_hfsplus_has_no_transactions(tmp_path, capsys):
    """Options that only APFS has are refused."""
    with pytest.raises(SystemExit):
        large.main(["--filesystem", "hfsplus", "--files", "500", "--reuse", "-o", str(tmp_path / "a.img")])
    assert "HFS+ has no transactions" in capsys.readouterr().err


# Random histories of APFS volumes: the reader finds what was drawn, and apfsck reports no error.


SEEDS = range(12)


@pytest.fixture(scope="module", params=SEEDS)
def random_container(request, tmp_path_factory):
    """Write a random container; return its image and layout."""
    path = tmp_path_factory.mktemp("random") / "a.img"
    return path, write(random_plan(request.param), path)


def test_reader_finds_what_was_drawn(random_container):
    """Nodes, entries and extents are the planned ones, every block is accounted for, and there are no findings."""
    path, expected = random_container
    container, volume = read_layouts(open_image(path))
    size, state = expected.block_size, expected.live
    nodes = volume.nodes.filter(pl.col("state") == "live")
    found = nodes.select("tree", "level", "key_rank", "node_id", "xid", "image_offset", "num_records").rows()
    planned = [n for n in state.nodes if n.volume == 0]
    assert set(found) == {(n.tree, n.level, n.key_rank, n.oid, n.xid, n.paddr * size, n.num_keys) for n in planned}
    entries = volume.entries.filter(pl.col("parent_id") != ROOT_PARENT)
    names = entries.select("parent_id", "file_id", "name", "kind", "size_bytes").rows()
    assert names == [(e.parent_id, e.file_id, e.name, e.kind, e.size_bytes) for e in state.entries]
    extents = volume.extents.select("file_id", "fork", "logical_offset", "image_offset", "length_bytes").rows()
    assert set(extents) == {
        (e.file_id, e.fork, e.logical_offset, None if e.paddr is None else e.paddr * size, e.length_bytes)
        for e in state.extents
    }
    details = container.facts.details
    assert (details["used blocks"], details["unclaimed blocks"]) == (sum(state.num_used), 0)
    assert details["claimed but free blocks"] == 0
    assert [layout.findings.height for layout in (container, volume)] == [0, 0]


def test_apfsck_calls_it_clean(random_container, peer):
    """Apfsck reports no error for a random history."""
    done = subprocess.run([peer("apfsck"), "-cuw", random_container[0]], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


# Reading APFS containers with one planted fault each.


NOT_IN_THE_WAY = {"index-key-order"}
"""Contradictions that do not hinder reading and that only the structure check looks for."""


def outcome(path, scenario):
    """Read a container; return the findings, or the text of the error."""
    password = PASSWORD if scenario == "encrypted" else None
    try:
        with open_image(path) as source:
            layouts = read_layouts(source, password=password)
    except LayoutscopeError as error:
        return [(type(error).__name__, str(error))]
    found = [row for layout in layouts for row in layout.findings.drop("row").rows()]
    unclaimed = layouts[0].facts.details.get("unclaimed blocks", 0)
    return found + ([("unclaimed", unclaimed)] if unclaimed else [])


def differences(path, scenario):
    """List differences between bulk decoding and the grammars; empty if the container cannot be read."""
    password = PASSWORD if scenario == "encrypted" else None
    try:
        with open_image(path) as source:
            return node_differences(source, read_layouts(source, password=password), password=password)
    except LayoutscopeError:
        return []


@pytest.mark.full
@for_each("fault", FAULTS)
def test_fault_is_survived(fault, victims):
    """Reading always ends in findings or in one of our errors; the grammars read each node alike."""
    with planted(fault, victims) as image:
        found = outcome(image.path, fault.scenario)
        assert differences(image.path, fault.scenario) == []
    assert "<" not in str(found), "both sides of a contradiction are written as numbers, not as objects of the code"
    assert (not found) == (fault.name in NOT_IN_THE_WAY)


@pytest.mark.parametrize("name", VICTIMS)
def test_victims_are_clean_before(name, victims):
    """Without the fault there are no findings."""
    assert outcome(victims[name][0], name) == []
