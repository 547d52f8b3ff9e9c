"""A source that keeps the data it has read, so that reading it again does not access the disk.

A check and a copy of the metadata read the same nodes as the tables. The system's page cache helps with files, but raw
devices on macOS have none, and failing disks and servers should be read as little as possible.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.image.source import WrappedSource
from layoutscope.structs.arrays import copy_pieces, starts_of

if TYPE_CHECKING:
    from layoutscope.image.source import Source
    from layoutscope.structs.arrays import I64

MEMORY_BYTES: Final = 32 * 1024**2
"""Amount that is kept in memory."""

SINGLE_BYTES: Final = 64 * 1024
"""Single reads up to this length are kept: longer reads are sequential passes that read everything once."""

_NOTHING: Final = np.full(3, np.iinfo(np.int64).max)


class RememberedSource(WrappedSource):
    """A source that keeps the first pieces read in memory, or all pieces in a temporary file."""

    def __init__(self, source: Source, *, keeps_all: bool) -> None:
        super().__init__(source)
        self._size_bytes, self._room = 0, max(source.size_bytes if keeps_all else 0, MEMORY_BYTES)
        # The system allocates only memory that is written to.
        self._memory = np.empty(0 if keeps_all else MEMORY_BYTES, np.uint8)
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115  (closed with the source)
        # kept pieces: start and stop on the image, and place in the file; by address, without overlap
        self._kept = np.empty((0, 3), np.int64)

    def _fetch_into(self, image_offset: int, target: memoryview) -> None:
        if len(target) <= SINGLE_BYTES:
            self.read_pieces(np.array([image_offset]), np.array([len(target)]), np.zeros(1, np.int64), target)
        else:
            self._read_around(image_offset, target, keeps=False)

    def _read_around(self, image_offset: int, target: memoryview, *, keeps: bool) -> None:
        """Read a range that may be partly kept: kept parts from the file, and the rest from the source."""
        position, end = image_offset, image_offset + len(target)
        first = int(np.searchsorted(self._kept[:, 1], image_offset, side="right"))
        last = int(np.searchsorted(self._kept[:, 0], end))
        for start, stop, place in (*self._kept[first:last].tolist(), (end, end, 0)):
            if position < start:
                new = target[position - image_offset : start - image_offset]
                self.source.read_into(position, new)
                if keeps:
                    self._keep(np.array([position]), np.array([len(new)]), np.zeros(1, np.int64), new)
            low, position = max(start, image_offset), min(stop, end)
            self._recall(place + low - start, target[low - image_offset : position - image_offset])

    def _recall(self, place: int, target: memoryview) -> None:
        if len(self._memory):
            target[:] = self._memory.data[place : place + len(target)]
        else:
            self._file.seek(place)
            self._file.readinto(target)

    def read_pieces(self, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview) -> None:
        """Read many pieces in address order, each to its place in a buffer, and keep the new ones."""
        ends = image_offsets + lengths_bytes
        row = np.searchsorted(self._kept[:, 1], image_offsets, side="right")
        start, stop, place = np.concatenate([self._kept, [_NOTHING]])[row].T
        is_new = start >= ends
        new = image_offsets[is_new], lengths_bytes[is_new], places[is_new]
        self.source.read_pieces(*new, target)
        self._keep(*new, target)
        is_whole = (start <= image_offsets) & (ends <= stop)
        known = np.stack([image_offsets, ends, places, place + image_offsets - start, is_whole], axis=1)[~is_new]
        for first, last, goal, at, is_kept in known.tolist():
            piece = target[goal : goal + last - first]
            if is_kept:
                self._recall(at, piece)
            else:
                self._read_around(first, piece, keeps=True)

    def _keep(self, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview) -> None:
        """Keep some pieces; once there is no more room, later pieces are read again."""
        own, begin, end = starts_of(lengths_bytes), self._size_bytes, self._size_bytes + int(lengths_bytes.sum())
        if begin == end or end > self._room:
            return
        data = self._memory[begin:end] if len(self._memory) else np.empty(end - begin, np.uint8)
        copy_pieces(np.frombuffer(target, np.uint8), places, lengths_bytes, own, data)
        if not len(self._memory):
            try:
                self._file.seek(begin)
                self._file.write(data.data)
            except OSError:
                self._room = 0  # the disk with temporary files is full
                return
        new = np.stack([image_offsets, image_offsets + lengths_bytes, own + begin], axis=1)
        self._size_bytes = end
        kept = np.concatenate([self._kept, new])
        kept = kept[np.argsort(kept[:, 0], kind="stable")]
        # Clones list blocks twice: of overlapping pieces, the first is kept.
        is_free = kept[:, 0] >= np.append(0, np.maximum.accumulate(kept[:, 1])[:-1])
        kept = kept[is_free & (kept[:, 1] > kept[:, 0])]
        is_next = (kept[1:, 0] == kept[:-1, 1]) & (np.diff(kept[:, 2]) == np.diff(kept[:, 0]))
        heads = np.flatnonzero(np.append(True, ~is_next))
        tails = np.append(heads[1:], len(kept)) - 1
        self._kept = np.stack([kept[heads, 0], kept[tails, 1], kept[heads, 2]], axis=1)

    def close(self) -> None:
        """Discard the kept pieces, and close the source."""
        self._file.close()
        super().close()
