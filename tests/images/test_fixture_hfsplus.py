from __future__ import annotations

from functools import cache

import pytest

from fixtures import build
from fixtures.faults_hfsplus import FAULTS
from fixtures.hfsplus.large import LargePlan, write_large
from fixtures.hfsplus.layout import without_transactions
from fixtures.hfsplus.readme import scattered_plan
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render
from layoutscope.image import MemorySource, open_image
from tests.agreement import node_differences
from tests.hfsplus import read_layout, rendered

FORKS = {"data": "data", "rsrc": "resource"}
KINDS = {"folder": "directory", "folder-inode": "directory", "folder-link": "directory", "symlink": "symlink"}


@cache
def _read(name):
    image, expected = rendered(name)
    return read_layout(MemorySource(image), image_offset=expected.volume_offset), expected


every_scenario = pytest.mark.parametrize("name", list(SCENARIOS))
PENDING = [name for name, plan in SCENARIOS.items() if plan.journal and plan.journal.before is not None]


def _rows(frame, *columns):
    return sorted(frame.select(columns).rows(), key=repr)


@every_scenario
def test_nodes_are_the_planned_ones(name):
    """Each node of each tree has the planned address, level, kind, number of records and place in key order."""
    layout, expected = _read(name)
    columns = ("tree", "node_id", "image_offset", "size_bytes", "level", "kind", "key_rank")
    planned = [
        (n.tree, n.node_number, n.image_offset, n.size_bytes, n.level, n.kind, n.key_rank) for n in expected.nodes
    ]
    assert _rows(layout.nodes, *columns) == sorted(planned, key=repr)


@every_scenario
def test_records_and_room_of_nodes_are_the_planned_ones(name):
    """Leaf and index nodes hold the planned number of records, and the planned room is free."""
    layout, expected = _read(name)
    keyed = layout.nodes.filter(layout.nodes["level"].is_not_null())
    planned = [
        (n.tree, n.node_number, n.num_records, n.size_bytes - n.used_bytes)
        for n in expected.nodes
        if n.level is not None
    ]
    assert _rows(keyed, "tree", "node_id", "num_records", "free_bytes") == sorted(planned, key=repr)


@every_scenario
def test_parents_are_the_planned_ones(name):
    """``parent_row`` leads to the index node that the plan put above a node."""
    layout, expected = _read(name)
    number = dict(layout.nodes.select("row", "node_id").rows())
    found = [
        (tree, node, number.get(parent))
        for tree, node, parent in layout.nodes.select("tree", "node_id", "parent_row").rows()
    ]
    assert sorted(found, key=repr) == sorted([(n.tree, n.node_number, n.parent) for n in expected.nodes], key=repr)


@every_scenario
def test_fragments_of_straddling_nodes_are_the_planned_ones(name):
    """A node that lies in several extents has one fragment in each, others have none."""
    layout, expected = _read(name)
    node = {row: (tree, number) for row, tree, number in layout.nodes.select("row", "tree", "node_id").rows()}
    rows = layout.node_fragments.select("node_row", "image_offset", "length_bytes").rows()
    planned = [
        ((n.tree, n.node_number), *piece) for n in expected.nodes if len(n.fragments) > 1 for piece in n.fragments
    ]
    assert sorted((node[row], start, length) for row, start, length in rows) == sorted(planned)


@every_scenario
def test_extents_are_the_planned_ones(name):
    """Each fork of each file and attribute lies where the plan says, piece by piece."""
    layout, expected = _read(name)
    planned = [
        (e.file_id, FORKS.get(e.fork, e.fork.removeprefix("attr:")), e.logical_offset, e.image_offset, e.length_bytes)
        for e in expected.extents
        if e.file_id
    ]
    columns = ("file_id", "fork", "logical_offset", "image_offset", "length_bytes")
    assert _rows(layout.extents, *columns) == sorted(planned, key=repr)


@every_scenario
def test_entries_are_the_planned_ones(name):
    """Each folder lists the planned names, ids, kinds, sizes and link counts, in the planned order."""
    layout, expected = _read(name)
    kinds = {e.cnid: KINDS.get(e.kind, "file") for e in expected.entries}
    planned = [
        (
            e.parent_id,
            e.inode_id,
            e.name.encode("utf-16-be", "surrogatepass"),
            kinds[e.inode_id],
            e.size_bytes,
            e.link_count,
        )
        for e in expected.entries
    ]
    columns = ("parent_id", "file_id", "name_raw", "kind", "size_bytes", "link_count")
    assert layout.entries.select(columns).rows() == planned


@every_scenario
def test_leaves_of_entries_are_the_planned_ones(name):
    """An entry names the leaves of its own record, of its inode, of the inode's thread and of its first attribute."""
    layout, expected = _read(name)
    number = {None: None, **dict(layout.nodes.select("row", "node_id").rows())}
    columns = ("entry_node_row", "inode_node_row", "thread_node_row", "xattr_node_row")
    found = [tuple(number[row] for row in rows) for rows in layout.entries.select(columns).rows()]
    assert found == [(e.record_node, e.inode_node, e.thread_node, e.xattr_node) for e in expected.entries]


@every_scenario
def test_free_space_is_the_planned_one(name):
    """Free runs are those between the extents."""
    layout, expected = _read(name)
    assert layout.free.select("image_offset", "length_bytes").rows() == list(expected.free)


@every_scenario
def test_regions_hold_the_planned_ones(name):
    """Headers, allocation file, startup file and journal lie where the plan says."""
    layout, expected = _read(name)
    found = set(layout.regions.select("type", "image_offset", "length_bytes").rows())
    assert {(r.type, r.image_offset, r.length_bytes) for r in expected.regions} <= found


@every_scenario
def test_tree_headers_are_the_planned_ones(name):
    """Depth, nodes, free nodes, leaf records and root of each tree are those of its header."""
    layout, expected = _read(name)
    fields = ("height", "num_nodes", "num_free_nodes", "num_leaf_records", "root_node_id")
    found = {tree.tree: tuple(getattr(tree, field) for field in fields) for tree in layout.facts.trees}
    names = ("tree_depth", "total_nodes", "free_nodes", "leaf_records", "root_node")
    assert found == {tree: tuple(header[n] for n in names) for tree, header in expected.trees.items()}


@every_scenario
def test_whole_image_gives_no_finding_of_damage(name):
    """A volume as planned has nothing that deserves a warning, however odd; a dirty one says so."""
    layout, _ = _read(name)
    bad = layout.findings.filter(layout.findings["level"] != "info")
    allowed = {"dirty": 1, "journal-external": 1}.get(name, 0)
    assert len(bad) <= allowed, bad.to_dicts()


@pytest.mark.parametrize("name", PENDING)
def test_disk_as_it_lies_is_the_state_before_the_transactions(name):
    """Without replay, the reader shows what the plan says was there before."""
    plan = SCENARIOS[name]
    image, _ = rendered(name)
    _, before = render(without_transactions(plan))
    layout = read_layout(MemorySource(image), options={"no_journal": True})
    names = [entry.name.encode("utf-16-be") for entry in before.entries]
    assert layout.entries["name_raw"].to_list() == names


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_grammars_agree_on_the_nodes_around_a_fault(fault):
    """With any fault planted, reading ends with tables, and the grammars read the same of the nodes in them."""
    whole, expected = rendered(fault.scenario)
    image = bytearray(whole)
    fault.apply(image, expected)
    source = MemorySource(bytes(image))
    assert node_differences(source, [read_layout(source)]) == []


def test_large_image_reads_as_it_was_written(tmp_path):
    """Leaves in key order, extents, counts and free blocks of a large image are those of its plan; nothing is amiss."""
    path = tmp_path / "large.img"
    planned = write_large(LargePlan(6000, cycles=3, pieces=15), path)
    with open_image(path) as source:
        layout = read_layout(source)
    leaves = layout.nodes.filter((layout.nodes["tree"] == "catalog") & (layout.nodes["level"] == 0)).sort("key_rank")
    assert leaves["image_offset"].to_list() == planned.leaf_offset.tolist()
    rows = layout.extents.filter(layout.extents["file_id"] >= 16).sort("file_id")
    by_id = planned.population.file_id.argsort()
    assert (rows["image_offset"].to_numpy() == planned.file_start_block[by_id] * 4096).all()
    assert layout.entries.height == 6000 + len(planned.population.folder_id) + 1
    assert layout.free["length_bytes"].sum() == planned.free_blocks * 4096
    assert layout.findings.height == 0


def test_committed_image_reads_as_it_was_planned():
    """The README's image: 3,899 files by its plan, a catalog of 14 extents, nodes where they were put."""
    canvas, expected = render(scattered_plan())
    with open_image(build.FOLDER / "hfsplus-scattered.img.zst") as source:
        assert source.size_bytes == canvas.size_bytes
        layout = read_layout(source, image_offset=expected.volume_offset)
    assert layout.facts.num_files == expected.facts["file_count"] == 3899
    catalog = layout.extents.filter((layout.extents["file_id"] == 4) & (layout.extents["fork"] == "data"))
    assert catalog["image_offset"].to_list() == [
        expected.volume_offset + start * 4096 for start, _ in expected.special_extents["catalog"]
    ]
    nodes = layout.nodes.select("tree", "node_id", "image_offset").rows()
    assert sorted(nodes) == sorted((n.tree, n.node_number, n.image_offset) for n in expected.nodes)
    assert layout.findings.to_dicts() == []
