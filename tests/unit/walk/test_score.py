from __future__ import annotations

import numpy as np
import pytest

from layoutscope.walk import AccessTrace, score, trace
from layoutscope.walk.score import block_size, first_blocks


def reads(*blocks, length=4096) -> AccessTrace:
    offsets = np.array(blocks, np.int64) * 4096
    return AccessTrace.from_reads(offsets, np.full(len(blocks), length, np.int64))


def test_scores_of_traces():
    """Blocks are counted once, and order in pairs."""
    # All blocks and all pairs are shared.
    result = score(reads(3, 1, 2), reads(3, 1, 2))
    assert (result.block_share, result.extra_share, result.pair_share) == (1.0, 0.0, 1.0)
    # 1 2 3 4 and 1 2 4 3 share all blocks, but only one of three steps (1 to 2) is predicted.
    result = score(reads(1, 2, 3, 4), reads(1, 2, 4, 3))
    assert (result.block_share, result.pair_share) == (1.0, pytest.approx(1 / 3))
    result = score(reads(1, 2, 3, 4), reads(1, 2, 3, 9))
    assert (result.block_share, result.extra_share) == (0.75, 0.25)
    # Only the first read of a block matters.
    assert first_blocks(reads(5, 6, 5, 7, 6), 4096).tolist() == [5, 6, 7]
    # One read of 8 KiB equals two of 4 KiB.
    assert score(reads(4, length=8192), reads(4, 5)).pair_share == 1.0
    # A read of 512 bytes at 1024 requires blocks of 512 bytes.
    odd = AccessTrace.from_reads(np.array([1024]), np.array([512]))
    assert block_size(odd, reads(0)) == 512
    # Nothing was read and nothing was predicted.
    assert score(reads(), reads()).pair_share == 1.0


def test_differences_are_told_by_tree(hfs_plan):
    """A missing leaf 5 is two blocks of catalog leaves; a block elsewhere is unknown."""
    layout = hfs_plan.layout()
    predicted = trace(layout)
    real = reads(0x30, 0x31, 0x40, 0x41, 0x900)
    result = score(real, predicted, layout)
    assert result.missed == {"unknown": 1}
    assert result.extra == {"catalog leaf": 2}
