"""A source that keeps what was read, so that a second look at it costs the disk nothing.

A check and a copy of the metadata look at the same nodes as the tables do. The page cache of the system helps with
files, but raw devices on macOS have none, and failing disks and servers should be asked as little as possible.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.image.raw import RawFile
from layoutscope.image.source import FillingSource, WrappedSource
from layoutscope.structs.arrays import copy_pieces, starts_of

if TYPE_CHECKING:
    from layoutscope.image.source import Source
    from layoutscope.structs.arrays import I64


_NOTHING = np.full(3, np.iinfo(np.int64).max)


class RememberedSource(FillingSource, WrappedSource):
    """A source of which all pieces that were read together are kept, in a temporary file without a name."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  (closed with the source)
        self._copy = RawFile(Path(str(self._file.name)), self._file.fileno())
        self._size_bytes, self._is_full = 0, False
        # what is kept: start and stop on the image, and place in the file; by address
        self._kept = np.empty((0, 3), np.int64)

    def _fetch_into(self, image_offset: int, target: memoryview) -> int:
        """Read, what is kept from the file and the rest from the source; what is read by itself is not kept."""
        position, end = image_offset, image_offset + len(target)
        first = int(np.searchsorted(self._kept[:, 1], image_offset, side="right"))
        for start, stop, place in (*self._kept[first:].tolist(), (end, end, 0)) if len(target) else ():
            low, high = max(start, position), min(stop, end)
            if position < min(low, end):
                self._source.read_into(position, target[position - image_offset : min(low, end) - image_offset])
            if low < high:
                self._copy.read_into(place + low - start, target[low - image_offset : high - image_offset])
            position = max(position, high, min(low, end))
            if start >= end:
                break
        return len(target)

    def read_pieces(self, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview) -> None:
        """Read many pieces in address order, each to its place in a buffer, and keep those that are new."""
        if not len(places):
            return
        ends = image_offsets + lengths_bytes
        row = np.searchsorted(self._kept[:, 1], image_offsets, side="right")
        start, stop, place = np.concatenate([self._kept, [_NOTHING]])[row].T
        is_new = start >= ends
        new = image_offsets[is_new], lengths_bytes[is_new], places[is_new]
        self._source.read_pieces(*new, target)
        self._keep(*new, target)
        is_whole = (start <= image_offsets) & (ends <= stop)
        at = (place + image_offsets - start)[is_whole]
        self._copy.read_pieces(at, lengths_bytes[is_whole], places[is_whole], target)
        for number in np.flatnonzero(~is_new & ~is_whole).tolist():
            first = int(places[number])
            self.read_into(int(image_offsets[number]), target[first : first + int(lengths_bytes[number])])

    def _keep(self, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview) -> None:
        """Keep some pieces; where the file cannot grow any more, what follows is read again."""
        if self._is_full or not len(places):
            return
        own = starts_of(lengths_bytes)
        data = np.empty(int(lengths_bytes.sum()), np.uint8)
        copy_pieces(np.frombuffer(target, np.uint8), places, lengths_bytes, own, data)
        try:
            self._is_full = os.pwrite(self._file.fileno(), data.data, self._size_bytes) < len(data)
        except OSError:
            self._is_full = True
        if self._is_full:
            return
        new = np.stack([image_offsets, image_offsets + lengths_bytes, own + self._size_bytes], axis=1)
        self._size_bytes += len(data)
        self._copy.size_bytes = self._size_bytes
        # Clones name blocks twice: of pieces that overlap the first is kept.
        kept = np.concatenate([self._kept, new])
        kept = kept[np.argsort(kept[:, 0], kind="stable")]
        is_free = kept[:, 0] >= np.append(0, np.maximum.accumulate(kept[:, 1])[:-1])
        kept = kept[is_free & (kept[:, 1] > kept[:, 0])]
        follows = np.append(False, (kept[1:, 0] == kept[:-1, 1]) & (kept[1:, 2] - kept[:-1, 2] == np.diff(kept[:, 0])))
        heads = np.flatnonzero(~follows)
        self._kept = np.stack([kept[heads, 0], kept[np.append(heads[1:], len(kept)) - 1, 1], kept[heads, 2]], axis=1)

    def close(self) -> None:
        """Forget what was kept, and close the source."""
        self._file.close()
        super().close()
