"""What the reader makes of APFS containers whose layout was planned."""

from __future__ import annotations

import polars as pl
import pytest

from fixtures.apfs.scenarios import PASSWORD, RECOVERY_KEY, SCENARIOS
from fixtures.apfs.structures.records import ROOT_PARENT
from fixtures.apfs.writer import write
from layoutscope.filesystems.apfs.reader import Options, list_states
from layoutscope.image import open_image
from tests.agreement import node_differences
from tests.apfs import read_layouts

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
"""The writer's names of regions, in the reader's words; areas that the reader shows block by block are left out."""


class Written:
    """A scenario's images and what must be found in them."""

    def __init__(self, name, folder):
        plan = SCENARIOS[name]
        self.paths = [folder / f"{name}-{number}.img" for number in range(2 if plan.fusion else 1)]
        self.expected = write(plan, *self.paths)
        self.layouts = {}

    def read(self, **options):
        """Read the layouts: the container's, then the volumes'."""
        key = tuple(sorted(options.items()))
        if key not in self.layouts:
            source, *others = [open_image(path) for path in self.paths]
            second = (others[0], 0) if others else None
            self.layouts[key] = read_layouts(source, options=Options(second=second, **options))
        return self.layouts[key]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return a function that writes a scenario once."""
    folder, known = tmp_path_factory.mktemp("apfs"), {}

    def get(name):
        return known.setdefault(name, None) or known.update({name: Written(name, folder)}) or known[name]

    return get


def planned(number):
    """Turn a volume's number into the plan's, which counts from 0 and calls the container -1."""
    return -1 if number is None else number - 1


def rows(layouts, table, *columns):
    """Give the rows of a table of all layouts."""
    return [row for layout in layouts for row in getattr(layout, table).select(columns).rows()]


def found_nodes(layouts, block_size):
    columns = ("volume", "tree", "level", "node_id", "xid", "device", "image_offset", "num_records", "key_rank")
    live = [layout.nodes.filter(pl.col("state") == "live").select(columns).rows() for layout in layouts]
    return {(planned(row[0]), *row[1:6], row[6] // block_size, *row[7:]) for part in live for row in part}


def planned_nodes(state, volume=None):
    return {
        (n.volume, n.tree, n.level, n.oid, n.xid, n.device, n.paddr, n.num_keys, n.key_rank)
        for n in state.nodes
        if volume is None or n.volume == volume
    }


def found_entries(layouts):
    columns = ("volume", "parent_id", "file_id", "name", "kind", "size_bytes", "link_count")
    return [(planned(row[0]), *row[1:]) for row in rows(layouts, "entries", *columns) if row[1] != ROOT_PARENT]


def planned_entries(state):
    return [(e.volume, e.parent_id, e.file_id, e.name, e.kind, e.size_bytes, e.link_count) for e in state.entries]


def found_extents(layouts, block_size):
    columns = ("volume", "file_id", "fork", "logical_offset", "device", "image_offset", "length_bytes")
    found = rows(layouts, "extents", *columns)
    return {(planned(row[0]), *row[1:5], None if row[5] is None else row[5] // block_size, row[6]) for row in found}


def planned_extents(state):
    return {(e.volume, e.file_id, e.fork, e.logical_offset, e.device, e.paddr, e.length_bytes) for e in state.extents}


def password_of(name):
    return PASSWORD if name.startswith("encrypted") else None


@pytest.mark.parametrize("name", SCENARIOS)
def test_tables_are_the_plan(name, written):
    """Nodes, entries (in the order of their keys) and extents are the planned ones, row for row, without a finding."""
    image = written(name)
    layouts, state = image.read(password=password_of(name)), image.expected.live
    assert found_nodes(layouts, image.expected.block_size) == planned_nodes(state)
    assert found_entries(layouts) == planned_entries(state)
    assert found_extents(layouts, image.expected.block_size) == planned_extents(state)
    assert rows(layouts, "findings", "code", "structure", "message") == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_block_is_accounted_for(name, written):
    """Used and free blocks are the plan's; nothing used is unclaimed, and nothing claimed is free."""
    image = written(name)
    container = image.read(password=password_of(name))[0]
    used = sum(image.expected.live.num_used)
    details = container.facts.details
    assert details["used blocks"] == used
    assert details["free blocks"] == sum(image.expected.block_counts) - used
    assert (details["unclaimed blocks"], details["claimed but free blocks"]) == (0, 0)
    assert container.free["length_bytes"].sum() == details["free blocks"] * image.expected.block_size


@pytest.mark.parametrize("name", SCENARIOS)
def test_regions_lie_where_they_were_put(name, written):
    """Superblocks, object maps, key bags and the space manager's blocks are regions of their type at their place."""
    image = written(name)
    layouts = image.read(password=password_of(name))
    columns = ("type", "volume", "device", "image_offset", "length_bytes")
    size = image.expected.block_size
    found = {(row[0], planned(row[1]), *row[2:]) for row in rows(layouts, "regions", *columns)}
    volume_of = {"volume-keybag": 0}
    expected = {
        (REGIONS[r.type], volume_of.get(r.type, r.volume), r.device, r.paddr * size, r.num_blocks * size)
        for r in image.expected.live.regions
        if r.type in REGIONS
    }
    assert expected <= found


@pytest.mark.parametrize("name", ["aged", "edited", "wrapped-rings", "fusion"])
def test_older_transactions_are_read_as_they_were(name, written):
    """Each checkpoint that is still in the ring shows the nodes and entries of its own time."""
    image = written(name)
    assert len(image.expected.readable_xids) > 1
    for xid in image.expected.readable_xids:
        layouts, state = image.read(xid=xid), image.expected.states[xid]
        assert found_entries(layouts) == planned_entries(state)
        found = found_nodes(layouts, image.expected.block_size)
        for tree in ("container-omap", "omap", "fs", "extentref"):
            assert {n for n in found if n[1] == tree} == {n for n in planned_nodes(state) if n[1] == tree}


def test_states_are_listed(written):
    """Checkpoints that no later one overwrote and both snapshots are listed with their transactions."""
    image = written("snapshots")
    states = list_states(open_image(image.paths[0]))
    listed = {(state.kind, state.xid) for state in states}
    planned = {("checkpoint", xid) for xid in image.expected.readable_xids}
    assert listed == planned | {("snapshot", snapshot.xid) for snapshot in image.expected.snapshots}


def test_snapshots_are_read_as_they_were(written):
    """Each snapshot shows the fs tree and the entries of the transaction that took it."""
    image = written("snapshots")
    assert [snapshot.name for snapshot in image.expected.snapshots] == ["first", "second"]
    for snapshot in image.expected.snapshots:
        layouts, state = image.read(snapshot=snapshot.name), image.expected.states[snapshot.xid]
        assert found_entries(layouts) == planned_entries(state)
        own = layouts[1].node_views.filter(pl.col("view").cast(pl.String) == f"snapshot {snapshot.name}")
        held = layouts[1].nodes.filter(pl.col("row").is_in(own["node_row"].to_list()))
        found = set(held.select("node_id", "xid", "image_offset", "level").rows())
        size = image.expected.block_size
        assert found == {(n.oid, n.xid, n.paddr * size, n.level) for n in state.nodes if n.tree == "fs"}


def test_recovery_key_opens_an_encrypted_volume(written):
    """The recovery key serves as well as the password."""
    image = written("encrypted")
    layouts = image.read(password=RECOVERY_KEY)
    assert found_entries(layouts) == planned_entries(image.expected.live)


@pytest.mark.parametrize("password", [None, "wrong"])
def test_locked_volume_shows_where_its_nodes_lie(password, written):
    """Without the key no name is shown, but every node of the locked tree has its address, number and transaction."""
    image = written("encrypted")
    layouts = image.read(password=password)
    assert found_entries(layouts) == []
    size = image.expected.block_size
    columns = ("node_id", "xid", "image_offset")
    (volume,) = layouts[1:]
    locked = set(volume.nodes.filter(pl.col("tree") == "fs").select(columns).rows())
    assert locked == {(n.oid, n.xid, n.paddr * size) for n in image.expected.live.nodes if n.tree == "fs"}
    assert layouts[0].facts.details["unclaimed blocks"] == 0
    assert [row[0] for row in rows(layouts, "findings", "code")] == ["volume-locked"]


def test_sealed_tree_is_verified_by_hashes(written):
    """Nodes of a sealed tree, which have no checksum, are valid by their parents' hashes."""
    layouts = written("sealed-deep").read()
    valid = layouts[1].nodes.filter(pl.col("tree") == "fs")["valid"].unique().to_list()
    assert valid == ["child-hash"]


@pytest.mark.parametrize("name", ["rich", "sealed-deep", "encrypted", "fusion", "snapshots"])
def test_grammars_agree_on_every_node(name, written):
    """Bulk decoding and the grammars read the same records."""
    image = written(name)
    source, *others = [open_image(path) for path in image.paths]
    options = {"password": password_of(name), "second": (others[0], 0) if others else None}
    assert node_differences(source, image.read(password=password_of(name)), **options) == []
