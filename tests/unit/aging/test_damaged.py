"""Aging of damaged volumes: trees without leaves or index nodes, trees of one level, and volumes without files."""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fixtures.hfsplus.plan import File, Fork, VolumePlan
from fixtures.hfsplus.writer import write
from layoutscope import forecast, read_layouts
from layoutscope.aging.volume import FreeBlocks, FullError, _clip_to_volume
from layoutscope.errors import LayoutscopeError, UsageError
from layoutscope.image import open_image

IMAGES = {name: f"fixtures/images/{name}-scattered.img.zst" for name in ("hfsplus", "apfs")}
DAMAGED = "The volume is damaged: what was not read of it does not age."


def aged(path):
    """Age a volume for two cycles."""
    return forecast(path, cycles=2, seeds=1, share=0.3, drives=())


@pytest.fixture(scope="module", params=IMAGES)
def volume(request):
    """Return the bytes of a committed image, and its nodes."""
    with open_image(IMAGES[request.param]) as source:
        data = source.read(0, source.size_bytes)
    nodes = read_layouts(IMAGES[request.param])[-1].nodes
    return data, nodes.filter(pl.col("level").is_not_null())


@pytest.mark.full
def test_any_level_of_any_tree_may_be_lost(volume, tmp_path):
    """Zero all nodes of a level, or the first one: the rest ages with a note, or one line says why it cannot."""
    data, nodes = volume
    failures = []
    levels = nodes.select(pl.col("tree").cast(pl.String), "level").unique().sort("tree", "level").rows()
    assert {level for _, level in levels} == {0, 1, 2}
    for tree, level in levels:
        mine = nodes.filter((pl.col("tree").cast(pl.String) == tree) & (pl.col("level") == level))
        for count in sorted({1, mine.height}):
            bad = bytearray(data)
            for offset, size in mine.head(count).select("image_offset", "size_bytes").rows():
                bad[offset : offset + size] = bytes(size)
            (tmp_path / "bad.img").write_bytes(bad)
            try:
                notes = aged(tmp_path / "bad.img").notes
            except LayoutscopeError as error:
                if "\n" in str(error):
                    failures.append((tree, level, count, str(error)))
            except Exception as error:  # noqa: BLE001  (that there is none is what is tested)
                failures.append((tree, level, count, repr(error)))
            else:
                failures += [] if DAMAGED in notes else [(tree, level, count, notes)]
    assert failures == []


def test_index_nodes_that_were_lost_are_made_new(tmp_path):
    """Leaves of HFS+ are chained, so they are read without the level above; a note names that level."""
    with open_image(IMAGES["hfsplus"]) as source:
        data = bytearray(source.read(0, source.size_bytes))
    nodes = read_layouts(IMAGES["hfsplus"])[0].nodes.filter(tree="catalog", level=1)
    for offset, size in nodes.select("image_offset", "size_bytes").rows():
        data[offset : offset + size] = bytes(size)
    (tmp_path / "bad.img").write_bytes(data)
    found = aged(tmp_path / "bad.img")
    assert "No node of level 1 of its catalog tree was read: nodes from there up are made new." in found.notes
    assert [point.files.value for point in found.points] == [found.points[0].files.value] * 3


@pytest.mark.parametrize("count", [1, 3])
def test_a_tree_of_one_level_ages(tmp_path, count):
    """The root is a leaf. Nothing is damaged, and no note mentions damage."""
    write(VolumePlan(attributes=None, root=tuple(File(f"f{n}", Fork(9000)) for n in range(count))), tmp_path / "a.img")
    found = aged(tmp_path / "a.img")
    assert [point.files.value for point in found.points] == [count] * 3
    assert DAMAGED not in found.notes


def test_a_volume_without_files_is_one_line(tmp_path):
    """A volume on which nothing would change gives a one-line error."""
    write(VolumePlan(attributes=None), tmp_path / "empty.img")
    with pytest.raises(UsageError, match="without files"):
        aged(tmp_path / "empty.img")


DAMAGED_BLOCKS = Path(__file__).parent / "damaged"
"""Blocks of 4,096 bytes that a fuzzer changed, with correct checksums; the file name has the image and the offset."""


@pytest.mark.parametrize(
    ("name", "places", "note"),
    [
        ("apfs-normsens", ("0x67f000",), "No leaf of its extentref tree was read: that tree does not age."),
        (
            "apfs-ci",
            ("0x4a6000", "0xae000"),
            "No node of level 1 of its fs tree was read: nodes from there up are made new.",
        ),
    ],
)
def test_forged_nodes_that_lead_to_no_leaf(reference_image, tmp_path, name, places, note):
    """An index node of another level, and a root without leaves, each leave a gap in a tree."""
    # Do not copy the mode: the original is read-only.
    shutil.copyfile(reference_image(f"driver/{name}.img"), tmp_path / "bad.img")
    with (tmp_path / "bad.img").open("r+b") as image:
        for place in places:
            image.seek(int(place, 16))
            image.write(zlib.decompress((DAMAGED_BLOCKS / f"{name}-{place}.block.z").read_bytes()))
    assert note in aged(tmp_path / "bad.img").notes


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [
        ([0, 10], [5, 5], [5, 5]),
        ([90], [2**31], [10]),
        ([100, 2**40, -5], [1, 1, 3], [0, 0, 3]),
        ([0, 0, 50], [60, 60, 50], [60, 0, 40]),
        ([0, 0], [50, 50], [50, 50]),
    ],
)
def test_extents_stay_within_the_volume(start, count, expected):
    """Each extent ends within the 100 blocks; extents that claim more than that together get each block once."""
    found = _clip_to_volume(np.array(start, np.int64), np.array(count, np.int64), 100)
    assert found[1].tolist() == expected
    assert (found[0] + found[1]).max() <= 100


def test_what_does_not_fit_is_refused_before_it_is_listed():
    """Refusing a file that claims 2**60 blocks does not allocate memory for them."""
    space = FreeBlocks(np.array([0]), np.array([10]))
    space.check_room(10)
    with pytest.raises(FullError, match="1,152,921,504,606,846,976 blocks are written, and 10 are free"):
        space.check_room(2**60)
