from __future__ import annotations

import numpy as np
import pytest

from layoutscope.filesystems.apfs import sweep
from layoutscope.filesystems.apfs.blocks import Blocks
from layoutscope.filesystems.apfs.rescue import find_used_blocks
from layoutscope.image import MemorySource


@pytest.mark.parametrize("claimed", [16, 2**32, 2**63, 2**64 - 1])
def test_no_more_is_searched_than_an_image_holds(claimed):
    """The count in a damaged superblock does not extend the search; free runs and data within are not searched."""
    blocks = Blocks((MemorySource(bytes(16 * 4096)),), (0,), 4096)
    data = [np.array([[4, 2], [14, 9]], np.int64)]
    assert find_used_blocks(blocks, (claimed,), None, data).tolist() == [[0, 4], [6, 8]]


def test_what_is_searched_of_a_set():
    """The present half, in parts of at most four blocks."""
    # Only the half of a Fusion set that is present is searched.
    blocks = Blocks((MemorySource(bytes(16 * 4096)), None), (0,), 4096)
    assert find_used_blocks(blocks, (16, 64), None, []).tolist() == [[0, 16]]
    # Parts have at most four blocks: 4 of 5, the rest with two single blocks, then 4, 4 and 1 of 9.
    stretches = np.array([[0, 5], [10, 1], [20, 1], [30, 9]], np.int64)
    parts = [[*zip(*map(np.ndarray.tolist, part), strict=True)] for part in sweep._cut_and_gather(stretches, 4)]
    assert parts == [[(0, 4)], [(4, 1), (10, 1), (20, 1)], [(30, 4)], [(34, 4)], [(38, 1)]]
    assert list(sweep._cut_and_gather(np.empty((0, 2), np.int64), 4)) == []
