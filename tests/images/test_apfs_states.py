"""States of APFS volumes: snapshots, older checkpoints and versions, seals, and roots at a physical address."""

from __future__ import annotations

from functools import partial

import polars as pl
import pytest

import layoutscope
from fixtures.apfs import locate
from fixtures.apfs.checksum import with_checksum
from fixtures.apfs.plan import (
    ContainerPlan,
    Create,
    ExtentPlan,
    FilePlan,
    Remove,
    Scattered,
    SpacePlan,
    TakeSnapshot,
    Touch,
    TransactionPlan,
    TreeShape,
    VolumePlan,
)
from fixtures.apfs.scenarios import SEALED, SEALED_DEEP, container, many
from fixtures.apfs.structures import objects as disk_apfs
from fixtures.apfs.structures import records as disk
from fixtures.apfs.structures.volume import FS_SUPERBLOCK
from fixtures.apfs.victims import VICTIMS
from fixtures.apfs.writer import write
from layoutscope.filesystems.apfs.btree import Pool, read_levels, walk_tree
from layoutscope.filesystems.apfs.container import open_container
from layoutscope.filesystems.apfs.fsrecords import walk_record_tree
from layoutscope.filesystems.apfs.nodes import join
from layoutscope.filesystems.apfs.snapshots import list_snapshots, open_all
from layoutscope.filesystems.apfs.source import TreeSource
from layoutscope.filesystems.apfs.volume import fs_source, list_volumes, open_volume, walk_fs_tree
from layoutscope.findings import FindingLog
from layoutscope.image.passes import read_alone
from layoutscope.image.raw import RawFile
from layoutscope.structs.records import APFS_SUPERBLOCK
from tests.apfs import read_layouts
from tests.cases import for_each
from tests.losses.victim import rows_of
from tests.sparse import copy_zeroed

NUM_SNAPSHOTS = 8
FILES = tuple(FilePlan(f"file {number:03}", (ExtentPlan(1),)) for number in range(200))


def _turn(number: int) -> TransactionPlan:
    """Make a small change, and take a snapshot."""
    return TransactionPlan(
        (
            Touch(f"file {number * 7:03}"),
            Remove(f"file {100 + number:03}"),
            Create(FilePlan(f"new {number}", (ExtentPlan(1),))),
            TakeSnapshot(f"snapshot {number}"),
        )
    )


PLAN = ContainerPlan(
    (VolumePlan("Kept", FILES, fs_shape=TreeShape(12, 6), omap_shape=TreeShape(12, 6)),),
    (*(_turn(number) for number in range(NUM_SNAPSHOTS)), TransactionPlan((Remove("file 050"),))),
    metadata=Scattered(5, 1200),
    space=SpacePlan(pool_paddr=1100),
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write the container; return its image and the planned layout."""
    path = tmp_path_factory.mktemp("many") / "a.img"
    return path, write(PLAN, path)


def test_each_view_holds_the_nodes_of_its_transaction(written):
    """The members of every view are the planned nodes of its state, in key order within their level."""
    path, expected = written
    with RawFile(path) as source:
        volume = read_layouts(source)[1]
    assert volume.findings.height == 0
    states = {"live": expected.live} | {f"snapshot {s.name}": expected.states[s.xid] for s in expected.snapshots}
    members = volume.node_views.with_columns(pl.col("view").cast(pl.String)).join(
        volume.nodes.select("row", "image_offset", "node_id", "level"), left_on="node_row", right_on="row"
    )
    assert set(members["view"]) == set(states)
    for name, state in states.items():
        own = members.filter(pl.col("view") == name).select("image_offset", "node_id", "level", "key_rank").rows()
        planned = [n for n in state.nodes if n.tree == "fs"]
        assert sorted(own) == sorted((n.paddr * 4096, n.oid, n.level, n.key_rank) for n in planned)


def test_shared_and_exclusive_nodes_are_counted(written):
    """Every view has its number of nodes, and of those that no other view has."""
    path, expected = written
    with RawFile(path) as source:
        details = read_layouts(source)[1].facts.details
    states = {"live": expected.live} | {f"snapshot {s.name}": expected.states[s.xid] for s in expected.snapshots}
    held = {name: {n.paddr for n in state.nodes if n.tree == "fs"} for name, state in states.items()}
    alone = 0
    for name, own in held.items():
        others = set().union(*(nodes for other, nodes in held.items() if other != name))
        assert details[f"{name} nodes"] == len(own)
        assert details[f"{name} nodes held by it alone"] == len(own - others)
        alone += len(own - others)
    everything = set().union(*held.values())
    assert details["exclusive metadata bytes"] == alone * 4096
    assert details["shared metadata bytes"] == (len(everything) - alone) * 4096


def test_a_shared_node_is_read_once(written):
    """A snapshot costs only its new nodes and its root; the result equals that of reading everything."""
    log = FindingLog()
    with RawFile(written[0]) as source:
        container = open_container((source, 0), log)
        volume = open_volume(container, container.store, list_volumes(container)[0][1], 0)
        pool, root = Pool(), volume.superblock.snap_meta_tree_oid
        snapmeta = TreeSource(container.store, "snapmeta", root, container.xid)
        kept = list_snapshots(read_alone(walk_record_tree(snapmeta)))
        seen = set(read_alone(walk_fs_tree(volume, None, pool)).nodes.paddr.tolist())
        for _, state in open_all(volume, kept):
            before = source.counter.bytes
            nodes = read_alone(walk_tree(fs_source(state.store, state, None), pool=pool))
            cost = source.counter.bytes - before
            new = set(nodes.paddr.tolist()) - seen
            assert cost == (len(new) + 1) * 4096
            seen |= new
            tree = fs_source(container.store, state, None)
            alone = join("fs", [batch.rows for batch in read_levels(tree)])
            for column in alone.__struct_fields__[1:]:
                assert getattr(alone, column).tolist() == getattr(nodes, column).tolist()
    assert len(kept) == NUM_SNAPSHOTS
    assert log.findings == []


def test_damage_in_a_shared_node_is_found_once(written, tmp_path):
    """A leaf that all states share gives one finding, in however many states it is missing."""
    path, expected = written
    held = [
        {n.paddr for n in expected.states[s.xid].nodes if (n.tree, n.level) == ("fs", 0)} for s in expected.snapshots
    ]
    shared = sorted(set.intersection(*held, {n.paddr for n in expected.live.nodes if (n.tree, n.level) == ("fs", 0)}))
    data = bytearray(path.read_bytes())
    data[shared[0] * 4096 + 100] ^= 1
    broken = tmp_path / "broken.img"
    broken.write_bytes(data)
    with RawFile(broken) as source:
        found = read_layouts(source)[1].findings.filter(pl.col("code") == "checksum-mismatch")
    assert found["image_offset"].to_list() == [shared[0] * 4096]


def test_references_of_all_states_add_up(written, tmp_path):
    """An extra reference in a snapshot's own tree is found at its field; the sound volume has none."""
    path, expected = written
    with RawFile(path) as source:
        nodes = read_layouts(source)[1].nodes
    kept = nodes.filter((pl.col("tree") == "extentref") & (pl.col("state") == "snapshot") & (pl.col("level") == 0))
    start = kept.filter(pl.col("num_records") > 0)["image_offset"][0]
    data = bytearray(path.read_bytes())
    place = locate.records(data, start, expected.block_size)[0]
    where = locate.put_field(data, place.value, disk.PHYS_EXTENT, "refcnt", lambda count: count + 1)
    locate.fix_checksum(data, start, expected.block_size)
    broken = tmp_path / "broken.img"
    broken.write_bytes(data)
    with RawFile(broken) as source:
        findings = read_layouts(source)[1].findings
    assert findings.select("code", "image_offset").rows() == [("reference-differs", where)]


# If the last checkpoint is damaged an older one is read: that is damage, and its transaction is reported.


BLOCK = 4096
LAST, BEFORE = 183, 182


@pytest.fixture(scope="module")
def sound(reference_image):
    return reference_image("driver/apfs-ci.img")


@pytest.fixture(scope="module")
def regions(sound):
    return layoutscope.scan(sound, drives=()).parts[0].layout.regions.with_columns(pl.col("type").cast(pl.String))


@pytest.fixture
def without(sound, tmp_path):
    """Return a function that zeroes blocks of a copy."""
    return partial(copy_zeroed, sound, tmp_path / "damaged.img")


def place(regions, kind, owner):
    found = regions.filter((pl.col("type") == kind) & (pl.col("owner") == owner))
    return found["image_offset"][0]


def errors(result):
    return [finding for volume in result.parts for finding in volume.findings if finding.level == "error"]


def names_of(result):
    """Return entries of the volume from the last layout."""
    return set(result.parts[-1].layout.entries.select("parent_id", "name", "file_id").rows())


SUPERBLOCK, MAP = ("container-superblock", f"checkpoint {LAST}"), ("checkpoint-map", f"checkpoint {LAST}")
OBJECT_MAP = ("object-map", "container object map")
LOST = {
    # what is lost: its region, whether the copy in block 0 is lost, too, and the state that is shown
    "newest superblock": (SUPERBLOCK, False, f"xid {BEFORE}"),
    # The map of the lost checkpoint is left, followed by nothing sound, so it was committed.
    "newest superblock and its copy": (SUPERBLOCK, True, f"xid {BEFORE}"),
    # Volumes of the last state are found in blocks that the bitmaps mark as used; they are inferred, and damage.
    "newest object map": (OBJECT_MAP, False, "live"),
    # Files are found without the map.
    "newest map": (MAP, False, "live"),
}


@pytest.mark.images
@pytest.mark.parametrize("what", LOST)
def test_part_of_the_newest_checkpoint_lost(without, regions, sound, what):
    """The exit code says damage; a previous state is labeled, with both transactions, or nothing is missing."""
    region, has_no_copy, view = LOST[what]
    result = layoutscope.scan(without(place(regions, *region), *([0] if has_no_copy else [])), drives=())
    assert result.exit_code == 3
    assert {volume.layout.facts.view for volume in result.parts} == {view}
    if view == "live":
        assert result.coverage != 1
        assert names_of(result) == names_of(layoutscope.scan(sound, drives=()))
    elif not has_no_copy:
        assert any(str(LAST) in item.message and str(BEFORE) in item.message for item in errors(result))
    rebuilt = "tree-rebuilt" in {item.code for volume in result.parts for item in volume.findings}
    assert rebuilt or region != OBJECT_MAP


@pytest.mark.images
def test_older_object_map_is_read_where_much_is_in_use(without, regions, monkeypatch):
    """If more blocks are in use than the search limit, the previous state is shown and labeled."""
    monkeypatch.setattr("layoutscope.filesystems.apfs.rescue.SEARCHED_BYTES", 0)
    result = layoutscope.scan(without(place(regions, *OBJECT_MAP)), drives=())
    assert result.exit_code == 3
    assert {volume.layout.facts.view for volume in result.parts} == {f"xid {BEFORE}"}
    assert any(str(LAST) in item.message and str(BEFORE) in item.message for item in errors(result))


@pytest.mark.images
def test_sweep_goes_back_to_the_last_state(without, regions, sound):
    """If its superblock is lost, nodes of the last transaction take precedence over a readable older state."""
    swept = layoutscope.scan(without(place(regions, *SUPERBLOCK)), drives=(), sweep=True)
    found, all_of = (names_of(result) for result in (swept, layoutscope.scan(sound, drives=())))
    assert {row[1:] for row in found} == {row[1:] for row in all_of}


@pytest.mark.images
@pytest.mark.parametrize("kind", ["container-superblock", "checkpoint-map"])
def test_older_checkpoint_lost(without, regions, kind):
    """Their places are reused sooner or later: nothing of the live state is damaged."""
    result = layoutscope.scan(without(place(regions, kind, f"checkpoint {BEFORE}")), drives=())
    assert result.exit_code == 0
    assert {volume.layout.facts.view for volume in result.parts} == {"live"}


@pytest.mark.images
def test_older_state_that_was_asked_for_is_no_damage(sound):
    """Choosing a state by its transaction loses nothing."""
    result = layoutscope.scan(sound, xid=BEFORE, drives=())
    assert result.exit_code == 0
    assert {volume.layout.facts.view for volume in result.parts} == {f"xid {BEFORE}"}


@pytest.mark.images
def test_transaction_that_was_never_finished_is_no_damage(without, regions):
    """After a crash a map may exist without its superblock, whose place still holds that of the previous round."""
    newest = place(regions, "container-superblock", f"checkpoint {LAST}")
    oldest = place(regions, "container-superblock", "checkpoint 180")
    path = without(0)
    with path.open("r+b") as file:
        file.seek(oldest)
        former = file.read(BLOCK)
        file.seek(newest)
        file.write(former)
    result = layoutscope.scan(path, drives=())
    assert errors(result) == []
    assert {volume.layout.facts.view for volume in result.parts} == {"live"}


@pytest.mark.images
def test_block_0_lost(without):
    """A bare container is recognized by the superblocks of its checkpoints, without a sweep."""
    result = layoutscope.scan(without(0), drives=())
    assert sum(volume.layout.entries.height for volume in result.parts) == 2464
    assert {volume.layout.facts.view for volume in result.parts} == {"live"}


@pytest.mark.images
def test_copies_that_snapshots_keep_are_no_volumes(reference_image, tmp_path):
    """Without any container superblock, a sweep finds the one volume, with its newest entries."""
    image, path = reference_image("driver/apfs-snap.img"), tmp_path / "damaged.img"
    whole = layoutscope.scan(image, drives=())
    regions = whole.parts[0].layout.regions.with_columns(pl.col("type").cast(pl.String))
    places = regions.filter(pl.col("type") == "container-superblock")["image_offset"].to_list()
    result = layoutscope.scan(copy_zeroed(image, path, *places), drives=(), sweep=True)
    found = [volume.layout for volume in result.parts if volume.layout.facts.volume is not None]
    assert [layout.facts.name for layout in found] == ["SnapAPFS"]
    assert names_of(result) == names_of(whole)
    assert result.exit_code == 3


# An older version of an object in place of the live one: checksum and identifier are right, the state is wrong.


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    """Write a container with several transactions; return its image and layout."""
    path = tmp_path_factory.mktemp("versions") / "disk.img"
    return path, write(VICTIMS["victim"], path)


def leaf_places(expected):
    """Return blocks of a file-system leaf that was written more than once: now, and before."""
    for node in expected.live.nodes:
        older = older_place(expected, node)
        if (node.tree, node.level) == ("fs", 0) and older is not None:
            return node.paddr, older
    raise AssertionError


def root_places(expected):
    """Return blocks of the root of the file-system tree."""
    root = max((node for node in expected.live.nodes if node.tree == "fs"), key=lambda node: node.level)
    return root.paddr, older_place(expected, root)


def superblock_places(expected):
    """Return blocks of the volume's superblock."""
    states = [expected.states[xid] for xid in sorted(expected.states)]
    found = [next(item.paddr for item in state.regions if item.type == "volume-superblock") for state in states]
    return found[-1], next(paddr for paddr in reversed(found) if paddr != found[-1])


def older_place(expected, node):
    versions = {
        other.xid: other.paddr
        for state in expected.states.values()
        for other in state.nodes
        if (other.tree, other.oid) == (node.tree, node.oid) and other.xid < node.xid
    }
    return versions[max(versions)] if versions else None


def with_older(path, expected, places, copy):
    """Write a copy of the image with the older version at the live one's address."""
    size = expected.block_size
    now, before = places(expected)
    data = bytearray(path.read_bytes())
    data[now * size : (now + 1) * size] = data[before * size : (before + 1) * size]
    copy.write_bytes(data)
    return copy


@pytest.mark.parametrize("places", [leaf_places, root_places, superblock_places])
def test_older_version_is_damage(places, victim, tmp_path):
    """The object map names the transaction of each version: another one is an error, and coverage is below 1."""
    path, expected = victim
    whole = layoutscope.scan(path, drives=())
    result = layoutscope.scan(with_older(path, expected, places, tmp_path / "older.img"), drives=())
    told = [item.message for volume in result.parts for item in volume.findings if item.level == "error"]
    assert any("of another transaction than the object map says" in message for message in told)
    assert result.exit_code == 3
    assert result.coverage is None or result.coverage < 1
    # The leaves below a lost root are found through the object map; a lost leaf leaves nothing.
    assert bool(rows_of(whole) - rows_of(result)) == (places is leaf_places)


def test_sound_versions_are_no_damage(victim):
    """Each live node has the transaction in its mapping."""
    path, _ = victim
    result = layoutscope.scan(path, drives=())
    assert (result.exit_code, result.coverage) == (0, 1.0)


# Sealed volumes with snapshots: each state has its own seal or none, as on every macOS system volume since 11.


SEALED_FLAG = 0x20
STEPS = (TransactionPlan((TakeSnapshot("os"),)), TransactionPlan((Touch("short"), Create(FilePlan("new")))))


@pytest.fixture(scope="module", params=["flat", "deep"])
def sealed(request, tmp_path_factory):
    """A sealed volume with a sealed snapshot; their roots, and so their hashes, differ."""
    path = tmp_path_factory.mktemp("sealed") / f"{request.param}.img"
    base = {"flat": SEALED, "deep": SEALED_DEEP}[request.param]
    write(container(base, transactions=STEPS, block_count=16384), path)
    return path


def volume(path, verb=layoutscope.scan, **options):
    return verb(path, drives=(), **options).parts[-1]


def superblocks(path):
    """Return the places of the superblocks of the snapshot and the live state."""
    regions = volume(path).layout.regions.with_columns(pl.col("type").cast(pl.String))
    found = regions.filter(pl.col("type") == "volume-superblock").select("owner", "image_offset").rows()
    return {("live" if owner == "live" else "os"): at for owner, at in found}


def changed(path, target, places, change):
    """Change blocks of a copy, and correct their checksums."""
    data = bytearray(path.read_bytes())
    for at in places:
        block = bytearray(data[at : at + BLOCK])
        change(block)
        data[at : at + BLOCK] = with_checksum(bytes(block))
    target.write_bytes(data)
    return target


def unseal(block):
    block[APFS_SUPERBLOCK.offset_of("incompatible_features")] &= ~SEALED_FLAG


def names(found):
    return sorted(found.layout.entries["name"])


@pytest.mark.full
@for_each("unsealed", [(), ("live",), ("os",), ("live", "os")])
@for_each("state", ["live", "os"])
def test_each_state_is_sealed_by_its_own_superblock(sealed, tmp_path, unsealed, state):
    """Both states have all entries, whichever of them are sealed, and no damage is found."""
    path = changed(sealed, tmp_path / "copy.img", [superblocks(sealed)[name] for name in unsealed], unseal)
    options = {"snapshot": "os"} if state == "os" else {}
    result = layoutscope.scan(path, drives=(), **options)
    found = result.parts[-1]
    assert result.exit_code == 0
    assert result.coverage == 1
    assert ("new" in names(found)) == (state == "live")
    assert "short" in names(found)
    assert found.layout.facts.details.get("seal") == (None if state in unsealed else "intact")
    assert found.layout.extents.height > 0


def test_snapshot_is_verified_against_its_own_seal(sealed, tmp_path):
    """A changed byte of the root that only the snapshot has is damage of the snapshot."""
    nodes = volume(sealed).layout.nodes.with_columns(pl.col("tree", "state").cast(pl.String))
    roots = nodes.filter((pl.col("tree") == "fs") & pl.col("parent_row").is_null())
    at = roots.filter(pl.col("state") == "snapshot")["image_offset"][0]
    data = bytearray(sealed.read_bytes())
    data[at + BLOCK // 2] ^= 1
    damaged = tmp_path / "damaged.img"
    damaged.write_bytes(data)
    result = layoutscope.scan(damaged, drives=(), snapshot="os")
    assert result.exit_code == 3
    assert "checksum-mismatch" in {finding.code for finding in result.parts[-1].findings}
    assert names(volume(damaged)) == names(volume(sealed))


def test_tree_is_read_without_its_seal(sealed, tmp_path):
    """With damaged integrity metadata the tree cannot be verified, but nothing of it is lost."""
    regions = volume(sealed).layout.regions.with_columns(pl.col("type").cast(pl.String))
    places = regions.filter(pl.col("type") == "integrity-meta")["image_offset"].to_list()
    assert places
    data = bytearray(sealed.read_bytes())
    for at in places:
        data[at + 40] ^= 1
    damaged = tmp_path / "damaged.img"
    damaged.write_bytes(data)
    result = layoutscope.scan(damaged, drives=())
    assert result.exit_code == 3
    assert names(result.parts[-1]) == names(volume(sealed))


def test_check_of_a_sealed_volume_with_a_snapshot_is_clean(sealed):
    """Neither state is compared with the other's seal."""
    assert [item for item in layoutscope.check(sealed).findings if item.level != "info"] == []


# A volume with a physical file-system tree: its nodes are identified by address, without an object map.


PHYSICAL = 0x40000000
STORAGE = 0xC0000000


@pytest.fixture(scope="module")
def written_physical(tmp_path_factory):
    """Write a container whose tree has three levels; return its image and layout."""
    path = tmp_path_factory.mktemp("physical") / "disk.img"
    plan = container(VolumePlan("Physical", many(60), fs_shape=TreeShape(24, 8)), block_count=4096)
    return path, write(plan, path)


@pytest.fixture
def physical(written_physical, tmp_path):
    """Identify every node of the tree by its address: in its header, its parent, and the volume's superblock."""
    path, expected = written_physical
    data, size = bytearray(path.read_bytes()), expected.block_size
    nodes = [node for node in expected.live.nodes if node.tree == "fs"]
    place = {node.oid: node.paddr for node in nodes}
    for node in nodes:
        start = node.paddr * size
        locate.put_field(data, start, disk_apfs.OBJECT_HEADER, "o_oid", lambda old: place[old])
        locate.put_field(data, start, disk_apfs.OBJECT_HEADER, "o_type", lambda old: old & ~STORAGE | PHYSICAL)
        for record in locate.records(data, start, size) if node.level else ():
            child = int.from_bytes(data[record.value : record.value + 8], "little")
            data[record.value : record.value + 8] = place[child].to_bytes(8, "little")
        locate.fix_checksum(data, start, size)
    (superblock,) = [item.paddr * size for item in expected.live.regions if item.type == "volume-superblock"]
    fields = superblock + disk_apfs.OBJECT_HEADER_SIZE
    locate.put_field(data, fields, FS_SUPERBLOCK, "apfs_root_tree_oid", lambda old: place[old])
    locate.put_field(data, fields, FS_SUPERBLOCK, "apfs_root_tree_type", lambda old: old & ~STORAGE | PHYSICAL)
    locate.fix_checksum(data, superblock, size)
    copy = tmp_path / "physical.img"
    copy.write_bytes(data)
    return copy


def test_physical_tree_is_read(written_physical, physical):
    """Every entry is found, nothing is damaged, and no object map leaf is named as locator."""
    path, _ = written_physical
    result = layoutscope.scan(physical, drives=())
    assert rows_of(result) == rows_of(layoutscope.scan(path, drives=()))
    assert not [item for volume in result.parts for item in volume.findings if item.level == "error"]
    nodes = result.parts[-1].layout.nodes.filter(tree="fs")
    assert len(nodes) > 3
    assert nodes["locator_row"].null_count() == len(nodes)
