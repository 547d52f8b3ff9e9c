"""What the reader makes of a large written APFS container."""

from __future__ import annotations

import polars as pl
import pytest

from fixtures.apfs.large import LargePlan, write_large
from layoutscope.filesystems.apfs.reader import Options, read_layouts
from layoutscope.image import open_image

FILES = 20_000


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write an aged container of 20,000 files; return its image and layout."""
    path = tmp_path_factory.mktemp("large") / "a.img"
    return path, write_large(LargePlan(FILES, cycles=5), path)


@pytest.fixture(scope="module")
def layouts(written):
    """Read it with arrays; small containers show that the other decoder agrees."""
    return read_layouts(open_image(written[0]), options=Options())


def test_leaves_lie_where_they_were_strewn(written, layouts):
    """Each leaf of the fs tree, in key order, has the address that was drawn for it."""
    planned = written[1]
    leaves = layouts[1].nodes.filter((pl.col("tree") == "fs") & (pl.col("level") == 0)).sort("key_rank")
    assert leaves["image_offset"].to_list() == (planned.node_paddr[: planned.num_leaves] * 4096).tolist()
    assert leaves["valid"].unique().to_list() == ["checksum"]


def test_files_and_extents_are_the_planned_ones(written, layouts):
    """There are 20,000 files with one extent each, at the blocks that they were given."""
    planned = written[1]
    assert layouts[1].entries.filter(pl.col("kind") == "file").height == FILES
    found = layouts[1].extents.sort("image_offset").select("image_offset", "length_bytes").rows()
    blocks = sorted(zip(planned.file_start_block.tolist(), planned.file_blocks.tolist(), strict=True))
    assert found == [(start * 4096, number * 4096) for start, number in blocks]


def test_every_block_is_accounted_for(written, layouts):
    """All used blocks are claimed, and nothing is found wrong."""
    details = layouts[0].facts.details
    assert details["used blocks"] == written[1].num_used
    assert (details["unclaimed blocks"], details["claimed but free blocks"]) == (0, 0)
    assert all(layout.findings.height == 0 for layout in layouts)
