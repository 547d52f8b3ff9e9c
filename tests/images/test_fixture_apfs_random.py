"""Random histories of APFS volumes: the reader finds what was drawn, and apfsck reports no error."""

from __future__ import annotations

import subprocess

import polars as pl
import pytest

from fixtures.apfs.random_plans import random_plan
from fixtures.apfs.structures.records import ROOT_PARENT
from fixtures.apfs.writer import write
from layoutscope.image import open_image
from tests.apfs import read_layouts

SEEDS = range(12)


@pytest.fixture(scope="module", params=SEEDS)
def written(request, tmp_path_factory):
    """Write a random container; return its image and layout."""
    path = tmp_path_factory.mktemp("random") / "a.img"
    return path, write(random_plan(request.param), path)


def test_reader_finds_what_was_drawn(written):
    """Nodes, entries and extents are the planned ones, every block is accounted for, and there are no findings."""
    path, expected = written
    container, volume = read_layouts(open_image(path))
    size, state = expected.block_size, expected.live
    nodes = volume.nodes.filter(pl.col("state") == "live")
    found = nodes.select("tree", "level", "key_rank", "node_id", "xid", "image_offset", "num_records").rows()
    planned = [n for n in state.nodes if n.volume == 0]
    assert set(found) == {(n.tree, n.level, n.key_rank, n.oid, n.xid, n.paddr * size, n.num_keys) for n in planned}
    entries = volume.entries.filter(pl.col("parent_id") != ROOT_PARENT)
    names = entries.select("parent_id", "file_id", "name", "kind", "size_bytes").rows()
    assert names == [(e.parent_id, e.file_id, e.name, e.kind, e.size_bytes) for e in state.entries]
    extents = volume.extents.select("file_id", "fork", "logical_offset", "image_offset", "length_bytes").rows()
    assert set(extents) == {
        (e.file_id, e.fork, e.logical_offset, None if e.paddr is None else e.paddr * size, e.length_bytes)
        for e in state.extents
    }
    details = container.facts.details
    assert (details["used blocks"], details["unclaimed blocks"]) == (sum(state.num_used), 0)
    assert details["claimed but free blocks"] == 0
    assert [layout.findings.height for layout in (container, volume)] == [0, 0]


def test_apfsck_calls_it_clean(written, peer):
    """Apfsck reports no error for a random history."""
    done = subprocess.run([peer("apfsck"), "-cuw", written[0]], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
