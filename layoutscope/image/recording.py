"""A source that remembers what was read of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.image.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    I64 = NDArray[np.int64]


class RecordingSource(Source):
    """An image whose reads are remembered, gaps between them not read over.

    Parameters
    ----------
    source : Source
        The image.
    """

    gap_budget = 0.0

    def __init__(self, source: Source) -> None:
        self._source = source
        self._starts: list[NDArray[np.int64]] = []
        self._lengths: list[NDArray[np.int64]] = []
        self.name = source.name
        self.size_bytes = source.size_bytes
        self.sector_size_bytes = source.sector_size_bytes
        self.counter = source.counter

    def _note(self, image_offsets: Sequence[int] | I64, lengths_bytes: Sequence[int] | I64) -> None:
        self._starts.append(np.array(image_offsets, np.int64))
        self._lengths.append(np.array(lengths_bytes, np.int64))

    def _fetch(self, image_offset: int, length_bytes: int) -> bytes:
        self._note([image_offset], [length_bytes])
        return self._source.read(image_offset, length_bytes)

    def _fetch_into(self, image_offset: int, target: memoryview) -> int:
        self._note([image_offset], [len(target)])
        self._source.read_into(image_offset, target)
        return len(target)

    def _fetch_pieces(self, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview) -> None:
        self._note(image_offsets, lengths_bytes)
        self._source.read_pieces(image_offsets, lengths_bytes, places, target)

    def unread_ranges(self) -> NDArray[np.int64]:
        """Areas that were never read into the image, shape (n, 2): offset and length in bytes."""
        return self._source.unread_ranges()

    @property
    def holes(self) -> NDArray[np.int64]:
        """Areas that the image does not store, shape (n, 2): offset and length in bytes."""
        return self._source.holes

    def recorded(self) -> NDArray[np.int64]:
        """What was read, shape (n, 2): start and stop in bytes, in the order of the reads."""
        if not self._starts:
            return np.empty((0, 2), np.int64)
        starts, lengths = np.concatenate(self._starts), np.concatenate(self._lengths)
        return np.stack([starts, starts + lengths], axis=1)
