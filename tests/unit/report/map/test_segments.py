"""Segments of the map: every byte stands for what it holds."""

from __future__ import annotations

import numpy as np

from layoutscope.filesystems.traits import TreeTraits
from layoutscope.report.map.page import TILE_SEGMENTS, tiles
from layoutscope.report.map.segments import (
    FILE_DATA,
    FREE_SPACE,
    Segments,
    coalesce,
    merge_touching,
    tree_class,
    used_span,
)

CLASSES = (tree_class(TreeTraits("fs", "file-system B-tree")), FILE_DATA, FREE_SPACE)


def segments(*rows: tuple[int, int, int, int]) -> Segments:
    """Start, length, class and owner of each."""
    start, length, code, owner = (np.array(column) for column in zip(*rows, strict=True))
    return Segments(start, length, length.copy(), code.astype(np.uint8), owner, CLASSES)


def test_touching_stretches_of_one_owner_join():
    """Two extents of a file that touch are one; the next file's begins a new one."""
    joined = merge_touching(segments((0, 10, 1, -7), (10, 10, 1, -7), (20, 10, 1, -8), (40, 10, 1, -8)))
    assert joined.start.tolist() == [0, 20, 40]
    assert joined.length.tolist() == [20, 10, 10]


def test_nodes_stay_apart():
    """Nodes that touch are still told apart."""
    assert len(merge_touching(segments((0, 4096, 0, 1), (4096, 4096, 0, 2)))) == 2


def test_coalescing_keeps_the_bytes_of_each_class():
    """However few stretches are left, the filled bytes of a class are the same."""
    rows = [(at * 12288, 4096, at % 2, at + 1) for at in range(1000)]
    few = coalesce(segments(*rows), 10)
    assert len(few) <= 10
    for code in (0, 1):
        assert few.filled[few.class_id == code].sum() == 500 * 4096
    assert (few.filled <= few.length).all()


def test_a_long_stretch_keeps_its_edges():
    """A terabyte of free space beside small gaps is not smeared over them."""
    rows = [*((at * 8192, 4096, 2, 0) for at in range(100)), (2**20, 2**40, 2, 0)]
    few = coalesce(segments(*rows), 5)
    assert (few.start[-1], few.length[-1], few.filled[-1]) == (2**20, 2**40, 2**40)


def test_used_span_leaves_out_a_lone_header_at_the_end():
    """A copy of a header at the far end does not stretch the first view."""
    held = segments((0, 10**6, 1, -1), (10**6, 10**9, 2, 0), (2 * 10**9, 512, 0, 1))
    assert used_span(held, 0) == 10**6


def test_tiles_cover_all_segments_once():
    """Tiles follow each other without gap or overlap, within the budget each segment stands in one."""
    count = TILE_SEGMENTS + 5
    many = segments(*((at * 8192, 4096, 0, at + 1) for at in range(count)))
    made = tiles(many, 10**6, lambda part: {"count": len(part)})
    assert [tile["count"] for tile in made] == [TILE_SEGMENTS, 5]
    assert made[0]["to"] == made[1]["from"] == TILE_SEGMENTS * 8192
