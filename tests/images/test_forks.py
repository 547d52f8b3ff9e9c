"""Attribute data is kept apart from a file's own data, whatever the attribute's name."""

from __future__ import annotations

import polars as pl
import pytest

import layoutscope
from fixtures.apfs.plan import ExtentPlan, FilePlan, XattrPlan
from fixtures.apfs.plan import VolumePlan as ApfsVolume
from fixtures.apfs.scenarios import container
from fixtures.apfs.writer import write
from fixtures.hfsplus.plan import File, Fork, VolumePlan, Xattr
from fixtures.hfsplus.writer import render
from layoutscope.tables.schema import FORKS

LENGTH = 4096 * 3
NAMES = (*FORKS, "attribute:data", "plain")
TOLD = {"data", "attribute:data", "attribute:resource", "attribute:orphan", "attribute:attribute:data", "plain"}


@pytest.fixture(params=["apfs", "hfsplus"])
def image(request, tmp_path):
    """A volume with one file of three blocks, whose attributes have their own blocks and the names of forks."""
    path = tmp_path / "disk.img"
    if request.param == "apfs":
        held = tuple(XattrPlan(name, b"x" * 5000, is_streamed=True) for name in NAMES)
        write(container(ApfsVolume("Forks", (FilePlan("/a", (ExtentPlan(3),), xattrs=held),))), path)
    else:
        held = tuple(Xattr(name, fork=Fork(5000)) for name in NAMES)
        canvas, _ = render(VolumePlan("Forks", total_blocks=2048, root=(File("a", Fork(LENGTH), xattrs=held),)))
        path.write_bytes(bytes(canvas.to_bytearray()))
    return path


def test_an_attribute_called_data_is_not_the_files_data(image):
    """The file has exactly its three blocks; each attribute has its own fork."""
    with layoutscope.open(image) as disk:
        layout = disk.scan(drives=()).volume.layout
    number = layout.entries.row(by_predicate=pl.col("name") == "a", named=True)["file_id"]
    extents = layout.extents.filter(file_id=number).with_columns(pl.col("fork").cast(pl.String))
    assert set(extents["fork"]) == TOLD
    assert extents.filter(fork="data")["length_bytes"].sum() == LENGTH
    assert extents.filter(pl.col("fork") != "data").height == len(NAMES)
