"""HFS+ volumes written from a plan, at random and large: everything in the plan must be found."""

from __future__ import annotations

import itertools
import json

import pytest
from construct import Int16ub
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures import build
from fixtures.faults_hfsplus import FAULTS
from fixtures.hfsplus import structures as s
from fixtures.hfsplus.large import LargePlan, write_large
from fixtures.hfsplus.layout import without_transactions
from fixtures.hfsplus.names import sort_key
from fixtures.hfsplus.placement import pieces_of
from fixtures.hfsplus.plan import Extent, File, Folder, Fork, Tree, VolumePlan, Xattr
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
@for_each("fault", FAULTS[::3])
def test_grammars_agree_on_the_nodes_around_a_fault(fault):
    """With a fault planted, reading ends with tables, and the grammars read their nodes alike; every third is tried."""
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
    """The README's image: 3,899 files by its plan, a catalog of 14 extents, everything at its planned place."""
    canvas, expected = render(scattered_plan())
    with open_image(build.FOLDER / "hfsplus-scattered.img.zst") as source:
        assert source.size_bytes == canvas.size_bytes
        layout = read_layout(source, image_offset=expected.volume_offset)
    assert layout.facts.num_files == expected.facts["file_count"] == 3899
    assert _found(layout) == _planned(expected)
    assert layout.findings.to_dicts() == []


# Any code units, including lone surrogates and NULs; up to 60, so at least four keys fit into an index node.
NAMES = st.text(st.characters(codec=None), min_size=1, max_size=60).filter(
    lambda name: len(name.encode("utf-16-be", "surrogatepass")) <= 120
)
ANY_FORK = st.builds(Fork, st.integers(0, 60_000), pieces=st.integers(1, 24))
XATTRS = st.builds(Xattr, NAMES, st.binary(max_size=200)) | st.builds(
    lambda name, size, pieces: Xattr(name, fork=Fork(size, pieces=pieces)),
    NAMES,
    st.integers(1, 40_000),
    st.integers(1, 12),
)
FILES = st.builds(
    File, NAMES, ANY_FORK, ANY_FORK, st.lists(XATTRS, max_size=3, unique_by=lambda xattr: xattr.name).map(tuple)
)


def _unique(*, case_sensitive):
    return lambda entry: sort_key(entry.name, case_sensitive=case_sensitive)


def _entries(*, case_sensitive):
    unique = _unique(case_sensitive=case_sensitive)
    children = st.lists(FILES, max_size=12, unique_by=unique).map(tuple)
    return st.lists(FILES | st.builds(Folder, NAMES, children), max_size=12, unique_by=unique).map(tuple)


TREES = st.builds(
    Tree,
    st.sampled_from([4096, 8192, 16384]),
    spare_nodes=st.integers(0, 9),
    pieces=st.integers(1, 12),
    pieces_of_whole_nodes=st.booleans(),
    shuffled=st.floats(0, 1),
    fill=st.floats(0.3, 1),
    seed=st.integers(0, 9),
)


@st.composite
def plans(draw):
    """Draw a plan of a volume with space for everything that the other strategies can draw."""
    case_sensitive = draw(st.booleans())
    block_size = draw(st.sampled_from([512, 1024, 4096, 8192]))
    return VolumePlan(
        block_size=block_size,
        total_blocks=max(60_000 * 512 // block_size, 12_000),
        root=draw(_entries(case_sensitive=case_sensitive)),
        case_sensitive=case_sensitive,
        catalog=draw(TREES),
        attributes=draw(TREES),
        shuffle_ids=draw(st.none() | st.integers(0, 9)),
    )


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(plans())
def test_any_plan_reads_as_it_was_written(plan):
    """For any plan, nodes, extents and entries are the planned ones, the grammars agree, and there are no findings."""
    canvas, expected = render(plan)
    source = MemorySource(bytes(canvas.to_bytearray()))
    layout = read_layout(source)
    assert node_differences(source, [layout]) == []
    columns = ("tree", "node_id", "image_offset", "level", "kind", "key_rank")
    planned = [(n.tree, n.node_number, n.image_offset, n.level, n.kind, n.key_rank) for n in expected.nodes]
    assert sorted(layout.nodes.select(columns).rows(), key=repr) == sorted(planned, key=repr)
    forks = {"data": "data", "rsrc": "resource"}
    extents = [
        (e.file_id, e.logical_offset, e.image_offset, e.length_bytes) for e in expected.extents if e.fork in forks
    ]
    files = layout.extents.filter(layout.extents["fork"].cast(str).is_in(["data", "resource"]))
    found = files.select("file_id", "logical_offset", "image_offset", "length_bytes").rows()
    assert sorted(found) == sorted(extents)
    entries = [
        (e.parent_id, e.inode_id, e.name.encode("utf-16-be", "surrogatepass"), e.size_bytes) for e in expected.entries
    ]
    assert layout.entries.select("parent_id", "file_id", "name_raw", "size_bytes").rows() == entries
    assert layout.free.select("image_offset", "length_bytes").rows() == list(expected.free)
    assert layout.findings.to_dicts() == []


# Bare volumes by Linux and Mac OS X whose catalog has at most eight extents.
VOLUMES = [
    "driver/hfsplus-4k.img",
    "driver/hfsplus-b512-n4096.img",
    "driver/hfsx-cs.img",
    "driver/hfsplus-journaled-pop.img",
    "apple/hfsinspect_hfsj.raw",
]


def _read(image, offset, length):
    image.seek(offset)
    return image.read(length)


def _nodes(image, fork, block_size):
    """Yield the leaves of a tree in chain order."""
    extents = [Extent(e.start_block, e.block_count) for e in fork.extents if e.block_count]

    def node(number, size):
        pieces = pieces_of(extents, block_size, number * size, size)
        return b"".join(_read(image, start, length) for start, length in pieces)

    header = s.HEADER_RECORD.parse(node(0, 512)[14:])
    number = header.first_leaf_node
    while number:
        raw = node(number, header.node_size)
        yield raw
        number = s.NODE_DESCRIPTOR.parse(raw).f_link


def _records(raw):
    count = s.NODE_DESCRIPTOR.parse(raw).num_records
    ends = [Int16ub.parse(raw[len(raw) - 2 * i - 2 :]) for i in range(count + 1)]
    return [raw[start:stop] for start, stop in itertools.pairwise(ends)]


@pytest.mark.parametrize("name", VOLUMES)
def test_catalogs_of_real_drivers_are_as_the_writer_makes_them(name, reference_image):
    """Keys ascend strictly in the writer's order; folder and file records, parsed and rebuilt, keep their bytes."""
    with reference_image(name).open("rb") as image:
        header = s.VOLUME_HEADER.parse(_read(image, 1024, 512))
        keys, rebuilt = [], 0
        for raw in _nodes(image, header.catalog_file, header.block_size):
            for record in _records(raw):
                key = s.CATALOG_KEY_HEAD.parse(record)
                text = record[8 : 2 + key.key_length].decode("utf-16-be", "surrogatepass")
                keys.append((key.parent_id, sort_key(text, case_sensitive=name == "driver/hfsx-cs.img")))
                payload = record[2 + key.key_length :]
                form = {1: s.CATALOG_FOLDER, 2: s.CATALOG_FILE}.get(Int16ub.parse(payload))
                # Every twentieth, because construct is slow.
                if form and len(keys) % 20 == 0:
                    assert form.build(form.parse(payload)) == payload
                    rebuilt += 1
    assert len(keys) > 100
    assert rebuilt > 2
    assert all(first < second for first, second in itertools.pairwise(keys))


@pytest.mark.parametrize("name", ["driver/hfsplus-4k.img", "driver/hfsx-cs.img"])
def test_headers_of_real_volumes_parse_to_the_recorded_truth(name, reference_image, truth):
    """Block counts, extents and tree headers equal those recorded by an independent walker."""
    facts = json.loads(truth(f"{name.partition('/')[2]}.gt.json"))
    with reference_image(name).open("rb") as image:
        header = s.VOLUME_HEADER.parse(_read(image, 1024, 512))
        extents = [[e.start_block, e.block_count] for e in header.catalog_file.extents if e.block_count]
        first = extents[0][0] * header.block_size
        tree = s.HEADER_RECORD.parse(_read(image, first + 14, 106))
    assert (header.block_size, header.free_blocks) == (facts["blocksize"], facts["free_blocks"])
    assert extents == facts["catalog"]["extents"][:8]
    recorded = facts["catalog"]["btree"]
    assert (tree.tree_depth, tree.root_node, tree.leaf_records) == tuple(
        recorded[k] for k in ("depth", "root", "leafrecs")
    )
    assert (tree.total_nodes, tree.free_nodes, tree.max_key_length) == tuple(
        recorded[k] for k in ("total", "free", "maxkey")
    )
