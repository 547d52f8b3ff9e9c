"""The allocation file: which blocks are free.

TN1150, "Allocation File". One bit a block, the most significant bit of the first byte first; 1 means in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.filesystems.hfsplus.volume.volume import HEADER_OFFSET, Volume
from layoutscope.ondisk import bulk

if TYPE_CHECKING:
    from layoutscope.filesystems.hfsplus.arrays import I64, U8

_WORD_BYTES = 8
_ALL_USED = 0xFF


def free_runs(bitmap: U8, total_blocks: int) -> tuple[I64, I64]:
    """Find the runs of free blocks.

    Parameters
    ----------
    bitmap : (n_bytes,) uint8 array
        Contents of the allocation file.
    total_blocks : int
        Blocks of the volume; bits behind them are ignored, blocks behind the last bit are taken as used.

    Returns
    -------
    starts, counts : (n,) int64 arrays
        In allocation blocks.

    Notes
    -----
    Most of a bitmap is all zeros or all ones, so that whole words are compared first and only mixed ones are unpacked.
    """
    num_bytes = min(len(bitmap), -(-total_blocks // 8))
    body_bytes = max(0, num_bytes - 1) // _WORD_BYTES * _WORD_BYTES
    tail = np.full(2 * _WORD_BYTES, _ALL_USED, np.uint8)
    tail[: num_bytes - body_bytes] = bitmap[body_bytes:num_bytes]
    if total_blocks < 8 * num_bytes:
        tail[num_bytes - body_bytes - 1] |= _ALL_USED >> (total_blocks - 8 * (num_bytes - 1))
    # What lies before block 0 and behind the last one counts as used, so that runs start and end at edges by turns.
    edges, is_free = _edges(bitmap[:body_bytes], is_free=False)
    tail_edges, _ = _edges(tail, is_free=is_free)
    edges = np.concatenate([edges, tail_edges + 8 * body_bytes])
    starts, stops = edges[::2], edges[1::2]
    return starts, stops - starts


def _edges(data: U8, *, is_free: bool) -> tuple[I64, bool]:
    """Blocks whose bit differs from that of the block before, ascending, and whether the last block is free."""
    if not len(data):
        return np.empty(0, np.int64), is_free
    words = data.view(np.uint64)
    mixed = np.flatnonzero((words != 0) & (words != np.uint64(2**64 - 1)))
    bits = np.unpackbits(data.reshape(-1, _WORD_BYTES)[mixed], axis=1)
    row, column = np.nonzero(bits[:, 1:] != bits[:, :-1])
    inside = mixed[row] * 64 + column + 1
    first, last = data[::_WORD_BYTES] >> 7, data[_WORD_BYTES - 1 :: _WORD_BYTES] & 1
    before = np.concatenate([[0 if is_free else 1], last[:-1]])
    between = np.flatnonzero(first != before) * 64
    return np.sort(np.concatenate([inside, between]).astype(np.int64)), not last[-1]


def check_free_count(volume: Volume, counts: I64) -> None:
    """Compare the free blocks that the volume header counts with those of the allocation file."""
    found, declared = int(counts.sum()), int(volume.header.free_blocks)
    if found != declared:
        at = HEADER_OFFSET + bulk.offset("hfsplus_volume.volume_header", "free_blocks")
        message = "the volume header counts other free blocks than the allocation file"
        volume.report("free-count-differs", "warning", "volume header", at, message, expected=found, found=declared)
