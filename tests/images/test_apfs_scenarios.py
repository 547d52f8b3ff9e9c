"""APFS containers written to a plan: what the plan leads to must be found."""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl
import pytest

import layoutscope
from fixtures.apfs import scenarios
from fixtures.apfs.writer import write
from layoutscope.errors import UsageError
from layoutscope.filesystems.apfs.reader import Options, list_states
from layoutscope.image.raw import RawFile
from layoutscope.tables.schema import FLAG_PRIVATE
from tests.apfs import read_layouts

ROOT_PARENT = 1
NAMES = {"free-queue-ip": "spaceman", "free-queue-main": "spaceman", "free-queue-tier2": "spaceman"}
NAMES |= {"extent-references": "extentref", "snapshots": "snapmeta", "snapshot-metadata": "snapmeta"}
KINDS = {"char": "char-device", "block": "block-device"}
PASSWORDS = {"encrypted": scenarios.PASSWORD, "encrypted-corestorage": scenarios.PASSWORD}


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """Return a function from a scenario's name to its images and the planned layout."""

    @cache
    def get(name: str):
        plan = scenarios.SCENARIOS[name]
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
        options.setdefault("password", PASSWORDS.get(name))
        with RawFile(paths[0]) as source:
            return read_layouts(source, options=Options(second=second, **options))

    return get


def node_rows(layouts, block_size: int) -> set[tuple]:
    """Return live nodes as a set of what the plan tells of them."""
    rows = set()
    for layout in layouts:
        volume = -1 if layout.facts.volume is None else layout.facts.volume - 1
        for row in layout.nodes.filter(pl.col("state") == "live").to_dicts():
            place = row["image_offset"] // block_size
            names = ("tree", "level", "node_id", "xid", "device", "num_records", "key_rank", "first_key_id")
            rows.add((volume, place, *(row[name] for name in names)))
    return rows


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_nodes_lie_where_the_plan_put_them(read, written, name):
    """Address, tree, level, oid, xid, keys, rank and first key of every node are the planned ones."""
    expected = written(name)[1]
    wanted = {
        (
            node.volume,
            node.paddr,
            NAMES.get(node.tree, node.tree),
            node.level,
            node.oid,
            node.xid,
            node.device,
            node.num_keys,
            node.key_rank,
            node.first_id,
        )
        for node in expected.live.nodes
    }
    assert node_rows(read(name), expected.block_size) == wanted


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_entries_are_the_planned_ones_in_listing_order(read, written, name):
    """Every directory lists its names in the order of the tree, with inode, kind, size and links."""
    for layout in read(name)[1:]:
        entries = layout.entries.filter((pl.col("parent_id") > ROOT_PARENT) & (pl.col("flags") & FLAG_PRIVATE == 0))
        found = entries.select("parent_id", "file_id", "name", pl.col("kind").cast(pl.String), "link_count").rows()
        wanted = [
            (entry.parent_id, entry.file_id, entry.name, KINDS.get(entry.kind, entry.kind), entry.link_count)
            for entry in written(name)[1].live.entries
            if entry.volume == layout.facts.volume - 1
        ]
        assert found == wanted
        sizes = {
            entry.file_id: entry.size_bytes
            for entry in written(name)[1].live.entries
            if entry.volume == layout.facts.volume - 1
        }
        files = entries.filter(pl.col("kind") == "file")
        assert dict(files.select("file_id", "size_bytes").rows()) == {
            file_id: sizes[file_id] for file_id in files["file_id"].to_list()
        }


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_extents_are_the_planned_ones(read, written, name):
    """Every run of every stream lies where it was put, holes have no address."""
    expected = written(name)[1]
    for layout in read(name)[1:]:
        columns = layout.extents.select("logical_offset", "device", "image_offset", "length_bytes")
        wanted = [
            (
                item.logical_offset,
                item.device,
                None if item.paddr is None else item.paddr * expected.block_size,
                item.length_bytes,
            )
            for item in expected.live.extents
            if item.volume == layout.facts.volume - 1
        ]
        assert sorted(columns.rows(), key=repr) == sorted(wanted, key=repr)


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_every_block_is_accounted_for(read, written, name):
    """Used blocks are those that the writer took, each is claimed, and no claimed one is free."""
    details = read(name)[0].facts.details
    assert details["used blocks"] == sum(written(name)[1].live.num_used)
    assert details["unclaimed blocks"] == 0
    assert details["claimed but free blocks"] == 0


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_sound_containers_have_no_findings(read, name):
    """A container without damage gives no finding, and all records decode."""
    for layout in read(name):
        assert layout.findings.rows() == []
        details = layout.facts.details
        assert details.get("records") == details.get("records decoded")


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_regions_cover_the_planned_structures(read, written, name):
    """Each planned structure lies wholly inside regions, nodes or blocks that wait to become free."""
    expected, layouts = written(name)[1], read(name)
    for region in expected.live.regions:
        covered = np.zeros(region.num_blocks, bool)
        for layout in layouts:
            for table, length in ((layout.regions, "length_bytes"), (layout.nodes, "size_bytes")):
                for row in table.filter(pl.col("device") == region.device).to_dicts():
                    first = row["image_offset"] // expected.block_size - region.paddr
                    stop = first + row[length] // expected.block_size
                    covered[max(first, 0) : max(stop, 0)] = True
        assert covered.all(), region


def test_snapshots_are_views_of_the_same_nodes(read, written):
    """Each physical node stands once; live and snapshot views share nodes and differ in some."""
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


@pytest.mark.parametrize("by", ["snapshot", "xid"])
def test_a_snapshot_is_read_as_it_was(read, written, by):
    """Read by name or transaction, a snapshot shows the entries and nodes of its own transaction."""
    expected = written("snapshots")[1]
    first = expected.snapshots[0]
    layout = read("snapshots", **({"snapshot": first.name} if by == "snapshot" else {"xid": first.xid}))[1]
    state = expected.states[first.xid]
    assert layout.facts.view == f"snapshot {first.name}"
    names = layout.entries.filter((pl.col("parent_id") > ROOT_PARENT) & (pl.col("flags") & FLAG_PRIVATE == 0))["name"]
    assert names.to_list() == [entry.name for entry in state.entries]
    held = layout.node_views.filter(pl.col("view").cast(pl.String) == layout.facts.view)["node_row"]
    rows = layout.nodes.filter(pl.col("row").is_in(held.to_list()))
    wanted = {(node.paddr, node.oid) for node in state.nodes if node.tree == "fs"}
    assert {(row["image_offset"] // 4096, row["node_id"]) for row in rows.to_dicts()} == wanted


def test_a_state_that_is_not_there_is_named_with_those_that_are(read):
    """Asking for a state that does not exist is an error that lists what exists."""
    with pytest.raises(UsageError, match="snapshot first"):
        read("snapshots", snapshot="third")
    with pytest.raises(UsageError, match="checkpoint"):
        read("basic", xid=999)


@pytest.mark.parametrize("name", ["edited", "wrapped-rings", "snapshots"])
def test_older_checkpoints_are_read(read, written, name):
    """Every checkpoint still in the ring opens and shows the entries of its transaction."""
    expected = written(name)[1]
    for xid in expected.readable_xids:
        container, volume = read(name, xid=xid)
        assert (container.facts.stamp, volume.facts.stamp) == (xid, xid)
        is_newest = xid == max(expected.readable_xids)
        assert {container.facts.view, volume.facts.view} == {"live" if is_newest else f"xid {xid}"}
        now, then = (
            {n.paddr for n in state.nodes if n.tree == "fs"} for state in (expected.live, expected.states[xid])
        )
        kept = {n.paddr for s in expected.snapshots for n in expected.states[s.xid].nodes if n.tree == "fs"}
        count_dropped_nodes = None if is_newest else len(then - now - kept)
        assert volume.facts.details.get("nodes given up since") == count_dropped_nodes
        names = volume.entries.filter((pl.col("parent_id") > ROOT_PARENT) & (pl.col("flags") & FLAG_PRIVATE == 0))[
            "name"
        ]
        assert names.to_list() == [entry.name for entry in expected.states[xid].entries]


@pytest.mark.parametrize("name", ["edited", "wrapped-rings", "snapshots"])
def test_checkpoints_and_snapshots_are_listed(written, name):
    """The list of states names the readable checkpoints, newest first, then the snapshots."""
    paths, expected = written(name)
    with RawFile(paths[0]) as source:
        states = list_states(source)
    found = [item.xid for item in states if item.kind == "checkpoint" and item.is_complete]
    assert found == sorted(expected.readable_xids, reverse=True)
    assert [(item.label, item.xid) for item in states if item.kind == "snapshot"] == [
        (item.name, item.xid) for item in expected.snapshots
    ]


def without_blocks(path, target, paddrs):
    """Overwrite blocks of a copy by zeros."""
    data = bytearray(path.read_bytes())
    for paddr in paddrs:
        data[paddr * 4096 : paddr * 4096 + 4096] = bytes(4096)
    target.write_bytes(data)
    with RawFile(target) as source:
        return list_states(source)


def test_lost_lists_of_snapshots_are_no_lists_without_any(written, tmp_path):
    """Where the records of snapshots are gone, the volume's own count says that there were some."""
    paths, expected = written("snapshots")
    lost = [node.paddr for node in expected.live.nodes if node.tree == "snapmeta"]
    states = without_blocks(paths[0], tmp_path / "a.img", lost)
    found = [(item.label, item.is_complete) for item in states if item.kind == "snapshot"]
    assert found == [(f"{len(expected.snapshots)} lost", False)]


def test_snapshot_without_its_superblock_is_not_complete(written, tmp_path):
    """It is still listed, and what leads to its nodes is lost."""
    paths, expected = written("snapshots")
    layouts = layoutscope.read_layouts(paths[0])
    copies = layouts[-1].regions.filter(type="volume-superblock", owner=f"snapshot of xid {expected.snapshots[0].xid}")
    states = without_blocks(paths[0], tmp_path / "a.img", [copies["image_offset"].to_list()[0] // 4096])
    found = [item.is_complete for item in states if item.kind == "snapshot"]
    assert found == [False, *(True for _ in expected.snapshots[1:])]


def test_nodes_that_a_damaged_map_no_longer_names_are_not_passed_over(written, tmp_path):
    """Of a state whose map has lost a leaf it is not said that all is left."""
    paths, expected = written("snapshots")
    lost = [node.paddr for node in expected.live.nodes if (node.tree, node.level) == ("omap", 0)]
    states = without_blocks(paths[0], tmp_path / "a.img", lost[-1:])
    newest = states[0]
    assert (newest.xid, newest.is_complete) == (max(expected.readable_xids), False)
    assert not any(item.is_complete for item in states if item.kind == "snapshot")


def test_a_locked_volume_shows_what_needs_no_key(read, written):
    """Without a password all nodes of the locked tree have address and size, and all blocks are accounted for."""
    expected = written("encrypted")[1]
    container, volume = read("encrypted", password="")
    wanted = {(node.paddr, node.oid) for node in expected.live.nodes if node.tree == "fs"}
    locked = volume.nodes.filter(pl.col("kind") == "locked")
    assert {(row["image_offset"] // 4096, row["node_id"]) for row in locked.to_dicts()} == wanted
    assert locked["level"].null_count() == locked["num_records"].null_count() == len(wanted)
    assert container.facts.details["unclaimed blocks"] == 0
    assert volume.findings["code"].to_list() == ["volume-locked"]
    read_nodes = len(volume.nodes) - len(wanted)
    assert volume.coverage == pytest.approx(read_nodes / len(volume.nodes))


def test_a_recovery_key_unlocks_like_the_password(read):
    """The recovery key opens the same tree as the password."""
    by_password, by_key = read("encrypted")[1], read("encrypted", password=scenarios.RECOVERY_KEY)[1]
    assert by_key.nodes.equals(by_password.nodes)


def test_half_a_fusion_set_shows_what_lies_on_it(written):
    """Without the second image the first one's nodes are read, and findings say what is missing."""
    paths, expected = written("fusion")
    with RawFile(paths[0]) as source:
        layouts = read_layouts(source)
    found = {row for row in node_rows(layouts, expected.block_size) if row[6] == 0}
    wanted = {(node.volume, node.paddr) for node in expected.live.nodes if node.device == 0 and node.volume == -1}
    assert {row[:2] for row in found} >= wanted
    assert any("fusion-half" in layout.findings["code"].to_list() for layout in layouts)


def test_a_sealed_volume_is_verified_by_its_hashes(read):
    """Every node of a sealed tree is verified by the hash that its parent holds, the root by the seal."""
    nodes = read("sealed-deep")[1].nodes.filter(pl.col("tree") == "fs")
    assert nodes["valid"].cast(pl.String).unique().to_list() == ["child-hash"]
