"""Runs of clear bits in bitmaps, many bitmaps at once: free blocks in allocation files and bitmap blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64, U8

ALL_SET: Final = 255
WORD_BYTES: Final = 8


def clear_runs(bitmaps: U8, num_bits: I64, bit_order: Literal["big", "little"]) -> tuple[I64, I64, I64]:
    """Find runs of clear bits.

    Parameters
    ----------
    bitmaps : (n, n_bytes) uint8 array
        One bitmap a row.
    num_bits : (n,) int64 array
        How many of a row's bits count; bits that a row lacks are taken as set.
    bit_order : {'big', 'little'}
        Whether the first bit of a byte is its highest or its lowest one.

    Returns
    -------
    row, first, length : (k,) int64 arrays
        Bitmap of each run, its first bit, and how many bits it has.

    Examples
    --------
    >>> runs = clear_runs(np.array([[0b11110011, 0b01111111]], np.uint8), np.array([16]), "little")
    >>> [part.tolist() for part in runs]
    [[0, 0], [2, 15], [2, 1]]
    """
    rows, width = bitmaps.shape
    # At least one set byte behind each row, so that every run has two edges within its row.
    num_words = width // WORD_BYTES + 1
    padded = np.full((rows, num_words * WORD_BYTES), ALL_SET, np.uint8)
    padded[:, :width] = bitmaps
    row, column, edges = _edges(padded.reshape(rows, num_words, WORD_BYTES), bit_order)
    word, bit = np.nonzero(np.unpackbits(edges, axis=1, bitorder=bit_order))
    place = column[word] * 8 * WORD_BYTES + bit
    owner, first, stop = row[word][::2], place[::2], place[1::2]
    stop = np.minimum(stop, num_bits[owner])
    keep = stop > first
    return owner[keep], first[keep], (stop - first)[keep]


def _edges(bitmaps: U8, bit_order: Literal["big", "little"]) -> tuple[I64, I64, U8]:
    """Rows and columns of words that hold bits other than the bit before, and their bytes with just these bits set.

    Most of a bitmap is all zeros or all ones: words that are so, and equal to the word before, have no edges. What lies
    before a row counts as set.
    """
    words = bitmaps.view(np.uint64)[..., 0]
    is_mixed = (words != 0) & (words != ~np.uint64(0))
    is_mixed[:, 0] |= words[:, 0] == 0
    is_mixed[:, 1:] |= words[:, 1:] != words[:, :-1]
    row, column = np.nonzero(is_mixed)
    found = bitmaps[row, column]
    before = np.empty_like(found)
    before[:, 1:] = found[:, :-1]
    before[:, 0] = np.where(column > 0, bitmaps[row, column - 1, -1], ALL_SET)
    one, seven = np.uint8(1), np.uint8(7)
    shifted = (found << one) | (before >> seven) if bit_order == "little" else (found >> one) | (before << seven)
    return row, column, found ^ shifted
