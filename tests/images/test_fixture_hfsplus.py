from __future__ import annotations

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
from tests.cases import for_each
from tests.hfsplus import read_layout, rendered

FORKS = {"data": "data", "rsrc": "resource"}
KINDS = {"folder": "directory", "folder-inode": "directory", "folder-link": "directory", "symlink": "symlink"}


PENDING = [name for name, plan in SCENARIOS.items() if plan.journal and plan.journal.before is not None]


def _rows(frame, *columns):
    return sorted(frame.select(columns).rows(), key=repr)


def _found(layout):
    """Return a volume as read, in the terms of the plan; rows without an order of their own are sorted."""
    nodes, entries = layout.nodes, layout.entries
    number = {None: None, **dict(nodes.select("row", "node_id").rows())}
    tree_node = {row: (tree, node) for row, tree, node in nodes.select("row", "tree", "node_id").rows()}
    leaves = ("entry_node_row", "inode_node_row", "thread_node_row", "xattr_node_row")
    header = ("height", "num_nodes", "num_free_nodes", "num_leaf_records", "root_node_id")
    return {
        "nodes": _rows(nodes, "tree", "node_id", "image_offset", "size_bytes", "level", "kind", "key_rank"),
        "records": _rows(nodes.filter(nodes["level"].is_not_null()), "tree", "node_id", "num_records", "free_bytes"),
        "parents": sorted(
            ((tree, node, number[row]) for tree, node, row in nodes.select("tree", "node_id", "parent_row").rows()),
            key=repr,
        ),
        "fragments": sorted(
            (tree_node[row], start, length)
            for row, start, length in layout.node_fragments.select("node_row", "image_offset", "length_bytes").rows()
        ),
        "extents": _rows(layout.extents, "file_id", "fork", "logical_offset", "image_offset", "length_bytes"),
        "entries": entries.select("parent_id", "file_id", "name_raw", "kind", "size_bytes", "link_count").rows(),
        "leaves of entries": [tuple(number[row] for row in rows) for rows in entries.select(leaves).rows()],
        "free": layout.free.select("image_offset", "length_bytes").rows(),
        "trees": {tree.tree: tuple(getattr(tree, field) for field in header) for tree in layout.facts.trees},
    }


def _planned(expected):
    """Return the same for the plan."""
    nodes = expected.nodes
    kinds = {e.cnid: KINDS.get(e.kind, "file") for e in expected.entries}
    header = ("tree_depth", "total_nodes", "free_nodes", "leaf_records", "root_node")
    return {
        "nodes": sorted(
            ((n.tree, n.node_number, n.image_offset, n.size_bytes, n.level, n.kind, n.key_rank) for n in nodes),
            key=repr,
        ),
        "records": sorted(
            ((n.tree, n.node_number, n.num_records, n.size_bytes - n.used_bytes) for n in nodes if n.level is not None),
            key=repr,
        ),
        "parents": sorted(((n.tree, n.node_number, n.parent) for n in nodes), key=repr),
        "fragments": sorted(
            ((n.tree, n.node_number), *piece) for n in nodes if len(n.fragments) > 1 for piece in n.fragments
        ),
        "extents": sorted(
            (
                (
                    e.file_id,
                    FORKS.get(e.fork, e.fork.removeprefix("attr:")),
                    e.logical_offset,
                    e.image_offset,
                    e.length_bytes,
                )
                for e in expected.extents
                if e.file_id
            ),
            key=repr,
        ),
        "entries": [
            (
                e.parent_id,
                e.inode_id,
                e.name.encode("utf-16-be", "surrogatepass"),
                kinds[e.inode_id],
                e.size_bytes,
                e.link_count,
            )
            for e in expected.entries
        ],
        "leaves of entries": [(e.record_node, e.inode_node, e.thread_node, e.xattr_node) for e in expected.entries],
        "free": list(expected.free),
        "trees": {tree: tuple(planned[name] for name in header) for tree, planned in expected.trees.items()},
    }


@pytest.mark.parametrize("name", SCENARIOS)
def test_tables_are_the_plan(name):
    """Nodes, records, room, parents, fragments, extents, entries in their order, free runs and headers of trees.

    Headers, allocation file, startup file and journal are among the regions. A volume as planned gives no warning,
    however odd; a dirty one says so.
    """
    image, expected = rendered(name)
    layout = read_layout(MemorySource(image), image_offset=expected.volume_offset)
    assert _found(layout) == _planned(expected)
    regions = set(layout.regions.select("type", "image_offset", "length_bytes").rows())
    assert {(r.type, r.image_offset, r.length_bytes) for r in expected.regions} <= regions
    bad = layout.findings.filter(layout.findings["level"] != "info")
    assert len(bad) <= {"dirty": 1, "journal-external": 1}.get(name, 0), bad.to_dicts()


@pytest.mark.parametrize("name", PENDING)
def test_disk_as_it_lies_is_the_state_before_the_transactions(name):
    """Without replay, the reader shows the state that the plan gives before the transactions."""
    plan = SCENARIOS[name]
    image, _ = rendered(name)
    _, before = render(without_transactions(plan))
    layout = read_layout(MemorySource(image), options={"no_journal": True})
    names = [entry.name.encode("utf-16-be") for entry in before.entries]
    assert layout.entries["name_raw"].to_list() == names


@pytest.mark.full
@for_each("fault", FAULTS)
def test_grammars_agree_on_the_nodes_around_a_fault(fault):
    """With any fault planted, reading ends with tables, and the grammars read their nodes alike."""
    whole, expected = rendered(fault.scenario)
    image = bytearray(whole)
    fault.apply(image, expected)
    source = MemorySource(bytes(image))
    assert node_differences(source, [read_layout(source)]) == []


def test_large_image_reads_as_it_was_written(tmp_path):
    """Leaves in key order, extents, counts and free blocks of a large image equal the plan; there are no findings."""
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
    """The README's image: 3,899 files by its plan, a catalog of 14 extents, nodes at their planned places."""
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
