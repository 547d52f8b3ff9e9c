"""Free runs in allocation bitmaps, many bitmap blocks at once.

Apple File System Reference, Space Manager: one bit a block, lowest bit first, set where the block is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALL_USED: Final = np.uint8(255)


def free_runs(
    bitmaps: NDArray[np.uint8], num_blocks: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Find runs of clear bits.

    Parameters
    ----------
    bitmaps : (n, n_bytes) uint8 array
        One bitmap block a row.
    num_blocks : (n,) int64 array
        How many of a row's bits count.

    Returns
    -------
    row, first, length : (k,) int64 arrays
        Bitmap of each run, its first bit, and how many bits it has.

    Examples
    --------
    >>> [part.tolist() for part in free_runs(np.array([[0b11110011, 0b01111111]], np.uint8), np.array([16]))]
    [[0, 0], [2, 15], [2, 1]]
    """
    rows, width = bitmaps.shape
    # A used bit before and after each row, so that every run has two edges within its row.
    padded = np.full((rows, width + 1), ALL_USED, np.uint8)
    padded[:, :width] = bitmaps
    carried = np.empty_like(padded)
    carried[:, 0] = 1
    carried[:, 1:] = padded[:, :-1] >> 7
    edges = padded ^ ((padded << 1) | carried)
    row, column = np.nonzero(edges)
    bits = np.unpackbits(edges[row, column][:, None], axis=1, bitorder="little")
    spot, bit = np.nonzero(bits)
    place = column[spot] * 8 + bit
    owner, first, stop = row[spot][::2], place[::2], place[1::2]
    stop = np.minimum(stop, num_blocks[owner])
    keep = stop > first
    return owner[keep], first[keep], (stop - first)[keep]
