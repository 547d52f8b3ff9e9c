"""Volumes with many snapshots: each state is shown completely, and shared nodes are read once."""

from __future__ import annotations

import polars as pl
import pytest

from fixtures.apfs import locate
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
from fixtures.apfs.structures import records as disk
from fixtures.apfs.writer import write
from layoutscope.filesystems.apfs.btree import Pool, read_levels, to_node_rows, walk_tree
from layoutscope.filesystems.apfs.container import open_container
from layoutscope.filesystems.apfs.nodes import join
from layoutscope.filesystems.apfs.snapshots import list_snapshots, open_all
from layoutscope.filesystems.apfs.volume import (
    fs_source,
    list_volumes,
    open_volume,
    walk_fs_tree,
    walk_physical_tree,
)
from layoutscope.findings import FindingLog
from layoutscope.image.passes import read_alone
from layoutscope.image.raw import RawFile
from tests.apfs import read_layouts

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
        kept = list_snapshots(read_alone(walk_physical_tree(container.store, "snapmeta", root, container.xid)).records)
        seen = set(read_alone(walk_fs_tree(volume, None, pool)).nodes.paddr.tolist())
        for _, state in open_all(volume, kept):
            before = source.counter.bytes
            nodes = read_alone(walk_tree(fs_source(state.store, state, None), pool=pool))
            cost = source.counter.bytes - before
            new = set(nodes.paddr.tolist()) - seen
            assert cost == (len(new) + 1) * 4096
            seen |= new
            tree = fs_source(container.store, state, None)
            alone = join("fs", [to_node_rows(batch) for batch in read_levels(tree)])
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
