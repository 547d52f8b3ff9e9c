"""Sweeps of APFS containers: broken trees are rebuilt from the remaining nodes, and old copies are counted."""

from __future__ import annotations

import mmap

import polars as pl
import pytest

import layoutscope
from fixtures.apfs import locate as at
from fixtures.apfs.checksum import fletcher64
from fixtures.apfs.structures import objects as disk
from fixtures.apfs.structures.objects import ObjectType
from fixtures.apfs.victims import VICTIMS
from fixtures.apfs.writer import write
from fixtures.faults_apfs import FAULTS
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs import sweep as sweep_module
from layoutscope.filesystems.apfs.sweep import sweep as sweep_blocks
from layoutscope.image import open_image
from layoutscope.structs import arrays
from layoutscope.tables import coverage_of
from tests.apfs import check_container, read_layouts
from tests.layouts import listing

BLOCK_BYTES = 4096
BY_NAME = {fault.name: fault for fault in FAULTS}

# Faults that destroy the path to leaves, but not the leaves.
WAYS = (
    *("root-checksum", "index-checksum", "child-loop", "child-unknown", "volume-root"),
    *("omap-checksum", "omap-tree-oid", "omap-leaf-checksum", "omap-deleted", "omap-entry-missing"),
    *("omap-address-outside", "volume-omap", "omap-volume-missing"),
)


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    """Write a container with several transactions; return its image and layout."""
    path = tmp_path_factory.mktemp("sweep") / "disk.img"
    return path, write(VICTIMS["victim"], path)


def read(path, *, sweep):
    """Read a container."""
    with open_image(path) as source:
        return read_layouts(source, sweep=sweep)


@pytest.fixture
def broken(victim, tmp_path):
    """Return a function that plants a fault in a copy of the image."""

    def plant(name):
        path, expected = victim
        copy = tmp_path / "broken.img"
        copy.write_bytes(path.read_bytes())
        with copy.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as memory:
            BY_NAME[name].apply(memory, expected)
        return copy

    return plant


def is_told(layouts):
    """Whether a finding reports that something was rebuilt."""
    return "tree-rebuilt" in [code for layout in layouts for code in layout.findings["code"]]


@pytest.mark.full
@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("name", WAYS)
def test_tree_is_rebuilt_where_its_leaves_are_left(name, sweep, victim, broken):
    """Whatever is lost above the leaves, all entries and extents are found, and the report says how."""
    healthy = read(victim[0], sweep=False)[1]
    layouts = read(broken(name), sweep=sweep)
    assert listing(layouts[1]) == listing(healthy)
    assert len(layouts[1].extents) == len(healthy.extents)
    assert is_told(layouts)
    assert coverage_of(layouts) != 1
    assert any(layout.num_errors for layout in layouts)


@pytest.mark.parametrize("name", WAYS)
def test_no_more_than_the_limit_is_searched_unasked(name, broken, monkeypatch):
    """Above the limit blocks in use are not searched; the report mentions a sweep where it would find more."""
    monkeypatch.setattr("layoutscope.filesystems.apfs.rescue.SEARCHED_BYTES", 0)
    monkeypatch.setattr("layoutscope.filesystems.apfs.rescue.SEARCHED_BYTES", 0)
    looked_at = []

    def note(blocks, within=None):
        looked_at.append(arrays.total(within))
        return sweep_blocks(blocks, within)

    monkeypatch.setattr("layoutscope.filesystems.apfs.rescue.sweep", note)
    layouts = read(broken(name), sweep=False)
    messages = [text for layout in layouts for text in layout.findings["message"]]
    assert bool(looked_at) == any("--sweep would find more" in text for text in messages)
    # Data of earlier checkpoints: at most the metadata of this small container.
    assert all(count < 200 for count in looked_at)


def test_sound_container_is_not_searched(victim, monkeypatch):
    """Nothing is searched if nothing is lost."""
    monkeypatch.setattr("layoutscope.filesystems.apfs.rescue.sweep", None)
    monkeypatch.setattr("layoutscope.filesystems.apfs.rescue.sweep", None)
    assert not is_told(read(victim[0], sweep=False))


def test_lost_leaf_is_not_searched_for(victim, tmp_path, monkeypatch):
    """A damaged leaf's data exist nowhere else: nothing is searched if the path to all others is intact."""
    monkeypatch.setattr("layoutscope.filesystems.apfs.rescue.sweep", None)
    path, expected = victim
    leaf = next(node for node in expected.live.nodes if (node.tree, node.level) == ("fs", 0))
    copy = tmp_path / "broken.img"
    copy.write_bytes(without(path.read_bytes(), leaf.paddr))
    volume = read(copy, sweep=False)[1]
    assert volume.coverage < 1
    assert volume.num_errors


@pytest.mark.parametrize("name", ["omap-leaf-checksum", "omap-deleted"])
def test_inferred_nodes_are_marked(name, victim, broken):
    """Nodes that no map names have a state of their own with their transaction, and do not count as read."""
    healthy, found = read(victim[0], sweep=False)[1], read(broken(name), sweep=False)[1]
    states = found.nodes.with_columns(pl.col("state", "tree").cast(pl.String))
    inferred = states.filter(pl.col("state") == "inferred")
    live = set(healthy.nodes.select("node_id", "image_offset", "xid").rows())
    assert set(inferred.select("node_id", "image_offset", "xid").rows()) <= live
    assert len(inferred)
    read_bytes = states.filter(pl.col("state") != "inferred")["size_bytes"].sum()
    assert found.facts.metadata_read_bytes <= read_bytes


def test_nodes_of_a_sound_map_are_not_inferred(broken):
    """Leaves that lost their index nodes are where the object map says, so they are certain."""
    found = read(broken("root-checksum"), sweep=False)[1]
    assert "inferred" not in found.nodes["state"].cast(pl.String).to_list()
    assert any("found through the object map" in text for text in found.findings["message"])


def ring(data, expected):
    """List the blocks of the checkpoint descriptor area with their types."""
    area = next(item for item in expected.live.regions if item.type == "checkpoint-descriptor-area")
    blocks = range(area.paddr, area.paddr + area.num_blocks)
    return [(block, at.parse(data, disk.OBJECT_HEADER, block * BLOCK_BYTES).o_type & 0xFFFF) for block in blocks]


def without(data, *blocks):
    """Overwrite blocks with invalid objects."""
    data = bytearray(data)
    for block in blocks:
        data[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES] = b"\xa5" * BLOCK_BYTES
    return bytes(data)


def lost_blocks(data, expected, what):
    """List the blocks to overwrite for a loss: every checkpoint map, those and the object map, or the superblocks."""
    found = ring(data, expected)
    maps = [block for block, kind in found if kind == ObjectType.CHECKPOINT_MAP]
    superblocks = [0, *(block for block, kind in found if kind == ObjectType.NX_SUPERBLOCK)]
    root = next(node.paddr for node in expected.live.nodes if node.tree == "container-omap" and node.volume == -1)
    heads = [item.paddr for item in expected.live.regions if item.type == "object-map" and item.volume == -1]
    return {"maps": maps, "maps and object map": [*maps, root, *heads], "superblocks": superblocks}[what]


def test_container_without_checkpoint_maps_is_read(victim, tmp_path):
    """Files are found through a checkpoint superblock alone: the newest is read, and is damage."""
    path, expected = victim
    broken = tmp_path / "broken.img"
    broken.write_bytes(without(path.read_bytes(), *lost_blocks(path.read_bytes(), expected, "maps")))
    own, volume = read(broken, sweep=False)
    assert listing(volume) == listing(read(path, sweep=False)[1])
    assert own.facts.view == volume.facts.view == "live"
    assert ("checkpoint-invalid", "error") in set(zip(own.findings["code"], own.findings["level"], strict=True))
    assert own.coverage != 1


@pytest.mark.parametrize("what", ["maps and object map", "superblocks"])
def test_container_without_any_checkpoint_is_salvaged(what, victim, tmp_path):
    """A sweep finds the volume with all entries of its tree, reports it as inferred, and counts the loss."""
    path, expected = victim
    data = path.read_bytes()
    healthy = read(path, sweep=False)[1]
    broken = tmp_path / "broken.img"
    broken.write_bytes(without(data, *lost_blocks(data, expected, what)))
    own, volume = read(broken, sweep=True)
    assert listing(volume) == listing(healthy)
    assert len(volume.extents) == len(healthy.extents)
    assert volume.facts.name == healthy.facts.name
    codes = set(zip(own.findings["code"], own.findings["level"], strict=True))
    assert ("tree-rebuilt", "warning") in codes
    assert any(level == "error" for _, level in codes)
    assert own.coverage != 1


@pytest.mark.parametrize("what", ["maps and object map", "superblocks"])
def test_salvaged_container_is_checked(what, victim, tmp_path):
    """A check with a sweep has the same findings, and no others about the intact volume."""
    path, expected = victim
    data = path.read_bytes()
    broken = tmp_path / "broken.img"
    broken.write_bytes(without(data, *lost_blocks(data, expected, what)))
    with open_image(broken) as source:
        found = check_container(source, sweep=True)
    assert {"checkpoint-invalid", "tree-rebuilt"} <= {item.code for item in found}
    assert not [item for item in found if item.structure == "reaper" and what == "superblocks"]
    assert not {item.code for item in found} & {"inode-missing", "record-differs", "count-differs", "keys-unordered"}


def test_nothing_is_salvaged_where_nothing_is_left(tmp_path):
    """Without any volume superblock the container gives the same error as without a sweep."""
    path = tmp_path / "disk.img"
    path.write_bytes(b"\xa5" * (1 << 20))
    for sweep in (False, True):
        with pytest.raises(FormatError):
            read(path, sweep=sweep)


def test_old_copies_are_counted(victim):
    """Stale nodes are all sound nodes that the newest state does not contain, by transaction."""
    path, expected = victim
    data, live = path.read_bytes(), {node.paddr for node in expected.live.nodes}
    xids = {}
    for paddr in range(len(data) // BLOCK_BYTES):
        block = data[paddr * BLOCK_BYTES : (paddr + 1) * BLOCK_BYTES]
        if not any(block):
            continue
        head = at.parse(data, disk.OBJECT_HEADER, paddr * BLOCK_BYTES)
        is_node = head.o_type & 0xFFFF in (int(ObjectType.BTREE), int(ObjectType.BTREE_NODE))
        if is_node and paddr not in live and fletcher64(block) == block[:8]:
            xids[paddr] = head.o_xid
    layouts = read(path, sweep=True)
    found = {}
    for layout in layouts:
        rows = layout.nodes.filter(layout.nodes["state"].cast(str) == "stale")
        found |= {row["image_offset"] // BLOCK_BYTES: row["xid"] for row in rows.iter_rows(named=True)}
        assert layout.facts.details["stale nodes"] == len(rows)
    assert found == xids
    assert xids


def test_sweep_changes_nothing_else(victim):
    """Live data are the same with and without a sweep."""
    plain, swept = (read(victim[0], sweep=sweep) for sweep in (False, True))
    for one, other in zip(plain, swept, strict=True):
        live = other.nodes.filter(other.nodes["state"].cast(str) != "stale")
        assert live.equals(one.nodes)
        assert other.entries.equals(one.entries)
        assert other.extents.equals(one.extents)


def test_aged_image_is_full_of_old_copies(reference_image):
    """Rounds of changes leave old fs tree nodes of several transactions, none after the newest."""
    layouts = read(reference_image("aged/apfs-20000-c20.img"), sweep=True)
    stale = layouts[1].nodes.filter(layouts[1].nodes["state"].cast(str) == "stale")
    assert stale["xid"].n_unique() > 1
    assert stale["xid"].max() <= layouts[1].facts.stamp


@pytest.mark.parametrize("lost", ["roots", "roots and object map"])
def test_old_root_does_not_win_over_younger_leaves(reference_image, tmp_path, lost):
    """With only the snapshot's root left, deleted files do not come back, and no newer ones are missing."""
    image, path = reference_image("driver/apfs-snap.img"), tmp_path / "damaged.img"
    data = bytearray(image.read_bytes())
    with open_image(image) as source:
        own, healthy = read_layouts(source, sweep=True)
    nodes = pl.concat([own.nodes, healthy.nodes]).with_columns(pl.col("tree", "kind", "state").cast(pl.String))
    live = nodes.filter((pl.col("tree") == "fs") & (pl.col("state") == "live") & pl.col("parent_row").is_null())
    oid = live["node_id"][0]
    roots = nodes.filter((pl.col("tree") == "fs") & (pl.col("node_id") == oid)).sort("xid")["image_offset"].to_list()
    assert len(roots) > 1
    places = roots[1:]
    if lost != "roots":
        omap = nodes.filter((pl.col("tree") == "omap") & (pl.col("state") == "live") & pl.col("parent_row").is_null())
        places += omap["image_offset"].to_list()
    for place in places:
        data[place : place + BLOCK_BYTES] = bytes(BLOCK_BYTES)
    path.write_bytes(data)
    with open_image(path) as source:
        found = read_layouts(source, sweep=True)[-1]
    assert listing(found) - listing(healthy) == set()
    assert listing(healthy) - listing(found) == set()
    assert found.coverage != 1


def test_free_space_is_unknown_where_a_bitmap_is_lost(victim, tmp_path):
    """There is no table of free runs, no number of free blocks, and no unclaimed block."""
    path, _ = victim
    healthy = read(path, sweep=False)[0]
    bitmap = healthy.regions.filter(type="spaceman-bitmap")["image_offset"][0] // BLOCK_BYTES
    copy = tmp_path / "broken.img"
    copy.write_bytes(without(path.read_bytes(), bitmap))
    own = read(copy, sweep=False)[0]
    assert len(healthy.free)
    assert "free blocks" in healthy.facts.details
    assert len(own.free) == 0
    assert own.facts.details["free space"] == "unknown"
    assert not {"free blocks", "used blocks", "unclaimed blocks"} & set(own.facts.details)
    assert "unclaimed" not in own.regions["type"].cast(str).to_list()


def test_damage_elsewhere_leaves_a_whole_tree_as_it_is(reference_image, tmp_path):
    """If the list of snapshots is lost, the file-system tree keeps exactly the nodes in its map."""
    image, path = reference_image("driver/apfs-snap.img"), tmp_path / "damaged.img"
    with open_image(image) as source:
        healthy = read_layouts(source)[-1]
    nodes = healthy.nodes.with_columns(pl.col("tree", "state").cast(pl.String))
    root = nodes.filter((pl.col("tree") == "snapmeta") & pl.col("parent_row").is_null())["image_offset"][0]
    data = bytearray(image.read_bytes())
    data[root : root + BLOCK_BYTES] = bytes(BLOCK_BYTES)
    path.write_bytes(data)
    with open_image(path) as source:
        found = read_layouts(source)[-1]
    live = (pl.col("tree") == "fs") & (pl.col("state") == "live")
    rows = [
        item.nodes.with_columns(pl.col("tree", "state").cast(pl.String)).filter(live).select("node_id", "image_offset")
        for item in (healthy, found)
    ]
    assert rows[0].equals(rows[1])
    assert found.entries.equals(healthy.entries)
    assert found.num_errors


def test_a_sparse_image_is_looked_at_in_parts_of_8_mib(reference_image, tmp_path, monkeypatch):
    """An extract stores the nodes of an aged volume separately: the work depends on bytes, not on extents."""
    layoutscope.extract(reference_image("aged/apfs-20000-c20.img"), tmp_path / "a.img")
    parts = []
    objects_in = sweep_module._objects_in
    monkeypatch.setattr(
        sweep_module, "_objects_in", lambda data, *words: parts.append(len(data)) or objects_in(data, *words)
    )
    with open_image(tmp_path / "a.img") as source:
        num_stretches = len(source.holes)
        layouts = read_layouts(source, sweep=True)
    assert num_stretches > 100
    assert len(parts) <= 2 * sum(parts) * BLOCK_BYTES // sweep_module.PART_BYTES + 1
    nodes = layouts[1].columns("nodes")
    plain = read(tmp_path / "a.img", sweep=False)[1].columns("nodes")
    assert nodes["image_offset"].signed().tolist() == plain["image_offset"].signed().tolist()
