"""Sweeps of APFS containers: broken trees are rebuilt from what lies around, and old copies are counted."""

from __future__ import annotations

import mmap

import pytest

from fixtures.apfs import locate as at
from fixtures.apfs.checksum import fletcher64
from fixtures.apfs.structures import objects as disk
from fixtures.apfs.structures.objects import ObjectType
from fixtures.apfs.victims import VICTIMS
from fixtures.apfs.writer import write
from fixtures.faults_apfs import FAULTS
from layoutscope.apfs.options import Options
from layoutscope.apfs.reader import read_layouts
from layoutscope.image import open_image

BLOCK_BYTES = 4096
BY_NAME = {fault.name: fault for fault in FAULTS}

# Faults that take the way to leaves, not the leaves: all of them are still there.
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
        return read_layouts(source, options=Options(sweep=sweep))


def listing(layout):
    """Every entry of a volume with its size."""
    return set(layout.entries.select("parent_id", "file_id", "name", "kind", "size_bytes").rows())


@pytest.mark.parametrize("name", WAYS)
def test_tree_is_rebuilt_where_its_leaves_are_left(name, victim, tmp_path):
    """Whatever is lost on the way to the leaves, a sweep finds every entry and extent, and says what is inferred."""
    path, expected = victim
    healthy = read(path, sweep=False)[1]
    copy = tmp_path / "broken.img"
    copy.write_bytes(path.read_bytes())
    with copy.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as memory:
        BY_NAME[name].apply(memory, expected)
    plain, swept = read(copy, sweep=False), read(copy, sweep=True)
    assert len(plain) == 1 or listing(plain[1]) != listing(healthy) or len(plain[1].extents) != len(healthy.extents)
    assert listing(swept[1]) == listing(healthy)
    assert len(swept[1].extents) == len(healthy.extents)
    assert "tree-rebuilt" in swept[1].findings["code"].to_list() + swept[0].findings["code"].to_list()


def test_old_copies_are_counted(victim):
    """Stale nodes are all sound nodes on the disk that the newest state does not hold, told by transaction."""
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
    """What is live is told alike with and without a sweep."""
    plain, swept = (read(victim[0], sweep=sweep) for sweep in (False, True))
    for one, other in zip(plain, swept, strict=True):
        live = other.nodes.filter(other.nodes["state"].cast(str) != "stale")
        assert live.equals(one.nodes)
        assert other.entries.equals(one.entries)
        assert other.extents.equals(one.extents)


def test_aged_image_is_full_of_old_copies(reference_image):
    """After rounds of changes old nodes of the fs tree of several transactions are left, none after the newest."""
    layouts = read(reference_image("aged/apfs-20000-c20.img"), sweep=True)
    stale = layouts[1].nodes.filter(layouts[1].nodes["state"].cast(str) == "stale")
    assert stale["xid"].n_unique() > 1
    assert stale["xid"].max() <= layouts[1].facts.stamp
