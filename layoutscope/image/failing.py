"""Disks that fail while they are read.

Ranges that the system cannot read are read again by sector, so that as little as possible is lost. An area that fails
again is recorded and not read a third time. From then on it counts as never read, as if a map of ddrescue listed it.
Work that relied on such an area is repeated, so that nothing is built from the zeros that replace it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from layoutscope import inputs
from layoutscope.errors import ImageError, LayoutscopeError, UnreadError, reason_of
from layoutscope.image.raw import aligned
from layoutscope.image.source import Source, WrappedSource, clip, overlaps
from layoutscope.structs.arrays import I64, runs_of, subtract, total, union

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


Result = TypeVar("Result")

COPY_FIRST: Final = "copy it with GNU ddrescue first, and read the copy with ddrescue_map"
COPIED: Final = {"ddrescue_map": "--ddrescue-map"}

MAX_ATTEMPTS: Final = 64
"""Number of times that an image is read again because areas failed that the work relied on."""

MAX_FAILED_READS: Final = 256
"""Number of requests that may fail; each can take half a minute on a failing disk, and wears it out."""

COARSE_BYTES: Final = 64 * 1024
"""A long request that failed is split into pieces of this length before any piece is read by sector."""

PRECISE_BYTES: Final = 4096
"""Up to this length, a page of the system, a failing stretch is reported to the sector."""


class FailingError(ImageError):
    """The disk fails so often that further reading does more harm than good."""


class FailingSource(WrappedSource):
    """An image whose unreadable areas are found by reading."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._failed: I64 = np.empty((0, 2), np.int64)
        self._reason = ""
        self._num_failed = 0

    def _fetch_into(self, image_offset: int, target: memoryview) -> None:
        position = 0
        for start, length in (*clip(self._failed, image_offset, len(target)).tolist(), (len(target), 0)):
            if position < start:
                self._read_around(image_offset + position, target[position:start])
            position = start + length
            target[start:position] = bytes(length)

    def refuse_unread(self, image_offset: int, length_bytes: int) -> None:
        """Raise an error with its reason if part of a range was never read, or failed."""
        self.source.refuse_unread(image_offset, length_bytes)
        failed = clip(self._failed, image_offset, length_bytes)
        if len(failed):
            place = image_offset + int(failed[0, 0])
            raise UnreadError(self._reason, structure=f"{length_bytes} bytes", image_offset=place)

    def read_pieces(self, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview) -> None:
        """Read many pieces, each to its place in a buffer."""
        is_lost = overlaps(self._failed, image_offsets, lengths_bytes)
        sound = ~is_lost
        try:
            self.source.read_pieces(image_offsets[sound], lengths_bytes[sound], places[sound], target)
        except UnreadError:
            is_lost[:] = True
        super().read_pieces(image_offsets[is_lost], lengths_bytes[is_lost], places[is_lost], target)

    def _read_around(self, start: int, target: memoryview) -> None:
        """Read a range without known failures as far as possible; failures are recorded and filled with zeros."""
        end = start + len(target)
        if self._is_given(start, target):
            return
        at, fine_until = start, end if len(target) <= COARSE_BYTES else start
        while at < end:
            # Where a read fails, a sector is given up, or more after a long failed stretch: otherwise a lost track or
            # head would take a request for each of its sectors.
            before = int(np.searchsorted(self._failed.sum(axis=1), at, side="left"))
            stretch = self._failed[before : before + 1]
            length = int(stretch[0, 1]) if len(stretch) and int(stretch[0].sum()) == at else 0
            whole = length // 4 if length >= PRECISE_BYTES else 0
            least = max(self.sector_size_bytes, whole - whole % self.sector_size_bytes)
            step = least if at < fine_until else max(COARSE_BYTES, least)
            stop = min(end, at - at % self.sector_size_bytes + step)
            piece = target[at - start : stop - start]
            if not self._is_given(at, piece):
                if step > least:
                    fine_until = stop
                    continue
                # The whole sectors are lost.
                first, last = aligned(at, stop - at, self.sector_size_bytes)
                lost = np.array([[first, min(self.size_bytes, last) - first]], np.int64)
                self._failed = runs_of(*np.concatenate([self._failed, lost]).T)
                piece[:] = bytes(len(piece))
            at = stop

    def _is_given(self, image_offset: int, target: memoryview) -> bool:
        """Read a range with one request; return whether that succeeded."""
        if self._num_failed >= MAX_FAILED_READS:
            raise FailingError(
                f"{self.name}: the disk fails too often: {self._num_failed} reads failed, the last of them at byte "
                f"{int(self._failed[-1].sum()) if len(self._failed) else image_offset:,}; "
                f"{COPY_FIRST}",
                options=COPIED,
            )
        try:
            self.source.read_into(image_offset, target)
        except UnreadError as error:
            self._num_failed += 1
            self._reason = error.reason
            return False
        return True

    def unread_ranges(self) -> I64:
        """Return the areas known so far to be unreadable, shape (n, 2): offset and length in bytes."""
        known = self.source.unread_ranges()
        return union([known, self._failed]) if len(self._failed) else known


def around_failures(sources: Sequence[Source], work: Callable[[], Result]) -> Result:
    """Repeat work on images until it encounters no new failures."""
    for _ in range(MAX_ATTEMPTS):
        known = _count_unread_bytes(sources)
        try:
            result = work()
        except LayoutscopeError as error:
            if isinstance(error, FailingError) or _count_unread_bytes(sources) == known:
                raise
        else:
            if _count_unread_bytes(sources) == known:
                return result
    raise FailingError(
        f"{sources[0].name}: the disk fails too often: other areas failed in each of {MAX_ATTEMPTS} readings; "
        f"{COPY_FIRST}",
        options=COPIED,
    )


def _count_unread_bytes(sources: Sequence[Source]) -> int:
    return sum(total(source.unread_ranges()) for source in sources)


_STATUSES: Final = frozenset("?*/-+")
_MAX_MAP_BYTES: Final = 256 * 1024**2


def read_map(path: Path, size_bytes: int) -> I64:
    """Return the areas of an image that its map file does not list as finished.

    Offset and length in bytes, in address order; areas missing from the map count as unread.
    """
    try:
        if path.stat().st_size > _MAX_MAP_BYTES:
            raise ImageError(f"{path}: too large for a ddrescue map file")
        text = inputs.read_text(path, "ascii", max_bytes=_MAX_MAP_BYTES)
    except OSError as error:
        raise ImageError(f"{path}: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        raise ImageError(f"{path}: not a ddrescue map file") from error
    numbered = enumerate(text.splitlines(), 1)
    # The words of all lines at once would take many times the memory of the text.
    lines = ((number, words) for number, line in numbered if (words := line.split("#")[0].split()))
    # The first line has the current position, status and pass: it looks like an area, but is not one.
    next(lines, None)
    number, finished = 0, []
    for number, words in lines:
        try:
            start, length, status = int(words[0], 0), int(words[1], 0), words[2]
        except (ValueError, IndexError) as error:
            raise ImageError(f"{path}: line {number} is not an area of a ddrescue map file") from error
        if status not in _STATUSES or start < 0 or length < 0 or start + length >= 2**63:
            raise ImageError(f"{path}: line {number} is not an area of a ddrescue map file")
        # "-" failed, "*" and "/" were not yet retried sector by sector, "?" was never tried. In all of these areas, the
        # image has zeros, or what the file contained before.
        if status == "+":
            finished.append((start, length))
    if not number:
        raise ImageError(f"{path}: not a ddrescue map file, or it lists no areas")
    done = np.array(finished, np.int64).reshape(-1, 2)
    end = int(done.sum(axis=1).max(initial=0))
    if end > size_bytes:
        reason = f"calls bytes up to {end:,} read, and the image ends at {size_bytes:,}"
        raise ImageError(f"{path}: {reason}: it is another image's map, or the image is cut off")
    return subtract(np.array([[0, size_bytes]]), runs_of(*done.T))


class RescuedSource(WrappedSource):
    """An image with areas that were never read."""

    unread_reason = "is in an area that was never read from the disk"
    refuse_unread = Source.refuse_unread
    unread_ranges = Source.unread_ranges

    def __init__(
        self,
        source: Source,
        unread: I64,  # offset and length in bytes of those areas, in address order
    ) -> None:
        super().__init__(source)
        self._unread = unread

    def _fetch_into(self, image_offset: int, target: memoryview) -> None:
        self.source.read_into(image_offset, target)
        for start, length in clip(self._unread, image_offset, len(target)).tolist():
            target[start : start + length] = bytes(length)
