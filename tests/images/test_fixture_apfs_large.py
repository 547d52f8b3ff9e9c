"""Reading a large written APFS container."""

from __future__ import annotations

import polars as pl
import pytest

import layoutscope
from fixtures import large
from fixtures.apfs.large import LargePlan, write_large
from layoutscope.image import open_image
from layoutscope.metrics.history import (
    AS_LISTED,
    BY_NAME,
    FOLDERS_FIRST,
    REUSED_BELOW,
    infer_creation_order,
    writing_metrics,
)
from tests.apfs import read_layouts

FILES = 20_000


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write an aged container of 20,000 files; return its image and layout."""
    path = tmp_path_factory.mktemp("large") / "a.img"
    return path, write_large(LargePlan(FILES, cycles=5), path)


@pytest.fixture(scope="module")
def layouts(written):
    """Read it with bulk decoding; small containers show that the other decoder agrees."""
    return read_layouts(open_image(written[0]))


def test_leaves_lie_where_they_were_written(written, layouts):
    """Each leaf of the fs tree, in key order, is at the address of its last transaction."""
    planned = written[1]
    leaves = layouts[1].nodes.filter((pl.col("tree") == "fs") & (pl.col("level") == 0)).sort("key_rank")
    assert leaves["image_offset"].to_list() == (planned.node_paddr[: planned.num_leaves] * 4096).tolist()
    assert leaves["valid"].unique().to_list() == ["checksum"]


def test_files_and_extents_are_the_planned_ones(written, layouts):
    """There are 20,000 files with one extent each, at their planned blocks."""
    planned = written[1]
    assert layouts[1].entries.filter(pl.col("kind") == "file").height == FILES
    found = layouts[1].extents.sort("image_offset").select("image_offset", "length_bytes").rows()
    blocks = sorted(zip(planned.file_start_block.tolist(), planned.file_blocks.tolist(), strict=True))
    assert found == [(start * 4096, number * 4096) for start, number in blocks]


def test_every_block_is_accounted_for(written, layouts):
    """All used blocks are claimed, and there are no findings."""
    details = layouts[0].facts.details
    assert details["used blocks"] == written[1].num_used
    assert (details["unclaimed blocks"], details["claimed but free blocks"]) == (0, 0)
    assert all(layout.findings.height == 0 for layout in layouts)


@pytest.mark.parametrize("order", ["alphabetical", "hash", "numbered"])
def test_files_are_created_in_the_order_that_is_asked_for(tmp_path, order):
    """The numbers of an aged volume show the order, on HFS+ as far as it lists by name."""
    expected = {"alphabetical": BY_NAME, "hash": AS_LISTED, "numbered": FOLDERS_FIRST}[order]
    for filesystem, shown in (("apfs", expected), ("hfsplus", "" if order == "hash" else expected)):
        path = tmp_path / f"{filesystem}.img"
        options = ["--filesystem", filesystem, "--files", "4000", "--cycles", "4", "--order", order, "-o", str(path)]
        assert large.main(options) == 0
        (layout,) = (item for item in layoutscope.read_layouts(path) if len(item.columns("entries")))
        assert infer_creation_order(layout) == shown


@pytest.mark.parametrize(("words", "reuses"), [((), False), (("--reuse",), True)])
def test_transactions_are_as_long_as_asked_for_and_take_blocks_as_asked_for(tmp_path, words, reuses):
    """Files per transaction from the newest ones; where freed blocks are reused, transactions are out of disk order."""
    path = tmp_path / "a.img"
    options = ["--filesystem", "apfs", "--files", "20000", "--cycles", "6", "--transaction-files", "100", *words]
    assert large.main([*options, "-o", str(path)]) == 0
    (layout,) = (item for item in layoutscope.read_layouts(path) if len(item.columns("entries")))
    values = {metric.name: metric.value for metric in writing_metrics(layout)}
    assert values["files-per-transaction"] == pytest.approx(100, rel=0.1)
    assert (values["written-behind"] < REUSED_BELOW) == reuses
    # Six cycles and the creation, which rewrites folders as their entries are added.
    assert 5 <= values["write-streams"] <= 9
    assert layout.num_errors == 0


def test_hfsplus_has_no_transactions(tmp_path, capsys):
    """Options that only APFS has are refused."""
    with pytest.raises(SystemExit):
        large.main(["--filesystem", "hfsplus", "--files", "500", "--reuse", "-o", str(tmp_path / "a.img")])
    assert "HFS+ has no transactions" in capsys.readouterr().err
