"""Segments of the map: every stretch occurs once, with separate nodes."""

from __future__ import annotations

import numpy as np

from layoutscope.filesystems.traits import TreeTraits
from layoutscope.report.map.page import TILE_SEGMENTS, tiles
from layoutscope.report.map.pyramid import FILE_DATA, FREE_SPACE, Segments, merge_touching, tree_class

CLASSES = (tree_class(TreeTraits("fs", "file-system B-tree")), FILE_DATA, FREE_SPACE)


def segments(*rows: tuple[int, int, int, int]) -> Segments:
    """Return start, length, class and owner of each segment."""
    start, length, code, owner = (np.array(column) for column in zip(*rows, strict=True))
    return Segments(start, length, code.astype(np.uint8), owner, CLASSES)


def test_stretches_join_and_nodes_stay_apart():
    """Two contiguous extents of a file are one segment; the next file's extent starts a new one."""
    joined = merge_touching(segments((0, 10, 1, -7), (10, 10, 1, -7), (20, 10, 1, -8), (40, 10, 1, -8)))
    assert joined.start.tolist() == [0, 20, 40]
    assert joined.length.tolist() == [20, 10, 10]
    # Contiguous nodes remain separate.
    assert len(merge_touching(segments((0, 4096, 0, 1), (4096, 4096, 0, 2)))) == 2
    # Tiles are consecutive, and each has the byte range of its segments.
    count = TILE_SEGMENTS + 5
    made = tiles(segments(*((at * 8192, 4096, 0, at + 1) for at in range(count))))
    assert [tile["start"]["n"] for tile in made] == [TILE_SEGMENTS, 5]
    assert [tile["from"] for tile in made] == [0, TILE_SEGMENTS * 8192]
    assert made[1]["to"] == (count - 1) * 8192 + 4096
