"""A source over another one, with some ranges replaced: what a journal would write, without writing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays.ragged import ordinals, owners
from layoutscope.image import Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, U8

_GRAIN_BYTES = 512
"""Blocks of a journal are whole sectors: the smallest sector is the unit in which later writes cover earlier ones."""


class Overlay(Source):
    """A source with some ranges replaced."""

    def __init__(self, source: Source, image_offsets: I64, lengths_bytes: I64, data_starts: I64, data: U8) -> None:
        self.source = source
        self.name = source.name
        self.size_bytes = source.size_bytes
        self.sector_size_bytes = source.sector_size_bytes
        self.counter = source.counter
        self.origin = source.origin
        self._starts, self._data = _last_writes(image_offsets, lengths_bytes, data_starts, data)

    def _fetch(self, image_offset: int, length_bytes: int) -> bytes:
        buffer = np.frombuffer(self.source.read(image_offset, length_bytes), np.uint8).copy()
        first = int(np.searchsorted(self._starts, image_offset - _GRAIN_BYTES, side="right"))
        last = int(np.searchsorted(self._starts, image_offset + length_bytes, side="left"))
        for grain in range(first, last):
            at = int(self._starts[grain]) - image_offset
            start, stop = max(at, 0), min(at + _GRAIN_BYTES, length_bytes)
            buffer[start:stop] = self._data[grain, start - at : stop - at]
        return buffer.tobytes()

    def unread_ranges(self) -> NDArray[np.int64]:
        """Areas never read into the image below."""
        return self.source.unread_ranges()


def _last_writes(offsets: I64, lengths: I64, starts: I64, data: U8) -> tuple[I64, U8]:
    """Cut writes into grains and keep the last one of each: their places, ascending, and contents, (n, 512)."""
    counts = lengths // _GRAIN_BYTES
    write = owners(counts)
    number = ordinals(counts)
    place = offsets[write] + number * _GRAIN_BYTES
    found, newest = np.unique(place[::-1], return_index=True)
    chosen = len(place) - 1 - newest
    begin = starts[write[chosen]] + number[chosen] * _GRAIN_BYTES
    return found, data[begin[:, None] + np.arange(_GRAIN_BYTES)]
