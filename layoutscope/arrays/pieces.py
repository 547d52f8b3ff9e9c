"""Many pieces of an array copied at once: bytes, each piece to its place, and rows, one range behind the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.ragged import ranges, starts_of
from layoutscope.native.library import Kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, U8

COPY_PIECES: Final = Kernel("copy_pieces", "blllB")


def copy_pieces(
    source: U8,
    offsets: I64,  # offsets, lengths: where each piece lies there, in bytes
    lengths: I64,
    places: I64,
    target: U8,
) -> None:
    """Copy pieces of bytes."""
    if COPY_PIECES(source, offsets, lengths, places, target) is None:
        plain_copy(source, offsets, lengths, places, target)


def plain_copy(source: U8, offsets: I64, lengths: I64, places: I64, target: U8) -> None:
    """Copy pieces in numpy, those of one length together, through views in which row i is the bytes from i on."""
    for length in sorted(set(lengths.tolist())):
        chosen = np.flatnonzero(lengths == length)
        rows = np.ndarray((len(source) - length + 1, length), np.uint8, source, strides=(1, 1))
        out = np.ndarray((len(target) - length + 1, length), np.uint8, target, strides=(1, 1))
        out[places[chosen]] = rows[offsets[chosen]]


def take_ranges(values: NDArray[Any], starts: I64, counts: I64) -> NDArray[Any]:
    """Return ranges of rows, one behind the other.

    >>> take_ranges(np.array([7, 8, 9]), np.array([2, 0]), np.array([1, 2])).tolist()
    [9, 7, 8]
    """
    width = values[:1].nbytes
    if not width or not values.flags.c_contiguous:
        return values[ranges(starts, counts)]
    if not values.any():
        # What nobody writes takes no memory.
        return np.zeros((int(counts.sum()), *values.shape[1:]), values.dtype)
    found = np.empty((int(counts.sum()), *values.shape[1:]), values.dtype)
    source, target = (each.reshape(-1).view(np.uint8) for each in (values, found))
    if COPY_PIECES(source, starts * width, counts * width, starts_of(counts) * width, target) is None:
        return values[ranges(starts, counts)]
    return found
