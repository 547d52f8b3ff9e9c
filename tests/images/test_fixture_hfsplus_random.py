from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.hfsplus.names import sort_key
from fixtures.hfsplus.plan import File, Folder, Fork, Tree, VolumePlan, Xattr
from fixtures.hfsplus.writer import render
from layoutscope.image import MemorySource
from tests.agreement import node_differences
from tests.hfsplus import read_layout

# Any code units, including lone surrogates and NULs; up to 60, so at least four keys fit into an index node.
NAMES = st.text(st.characters(codec=None), min_size=1, max_size=60).filter(
    lambda name: len(name.encode("utf-16-be", "surrogatepass")) <= 120
)
FORKS = st.builds(Fork, st.integers(0, 60_000), pieces=st.integers(1, 24))
XATTRS = st.builds(Xattr, NAMES, st.binary(max_size=200)) | st.builds(
    lambda name, size, pieces: Xattr(name, fork=Fork(size, pieces=pieces)),
    NAMES,
    st.integers(1, 40_000),
    st.integers(1, 12),
)
FILES = st.builds(
    File, NAMES, FORKS, FORKS, st.lists(XATTRS, max_size=3, unique_by=lambda xattr: xattr.name).map(tuple)
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
