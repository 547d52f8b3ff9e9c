"""Read-only byte sources.

Every byte of an image comes through a :class:`Source`, which checks bounds and counts its reads. Sources never write.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from layoutscope.errors import TruncatedError, UnreadError
from layoutscope.progress import tick
from layoutscope.structs import grammar
from layoutscope.structs.arrays import (
    I64,
    MAX_REQUEST_BYTES,
    U8,
    Mask,
    copy_pieces,
    order_of,
    request_bounds,
    runs_of,
    starts_of,
    subtract,
    union,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from layoutscope.findings import Finding
    from layoutscope.structs.grammar import T


@dataclass(slots=True)
class ReadCounter:
    """Requests to the image and their bytes; bytes in holes cost no request."""

    reads: int = 0
    bytes: int = 0
    hole_bytes: int = 0


class Workspace:
    """Memory that successive reads share: the result of a read is valid until the next one.

    Fresh memory is slow: the system clears each page at the first access.
    """

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def bytes(self, length_bytes: int) -> U8:
        """Return memory for the bytes of a read, shape (length_bytes,)."""
        if len(self._bytes) < length_bytes:
            self._bytes = np.empty(length_bytes, np.uint8)
        return self._bytes[:length_bytes]


class Source(ABC):
    """A readable range of bytes."""

    name: str  # for messages
    size_bytes: int  # length of the image
    sector_size_bytes: int = 512  # sector size of the device, 512 if unknown
    counter: ReadCounter  # requests and bytes that reached the underlying file
    origin: int = 0  # offset of address 0 in the image, in bytes; nonzero only in a window
    # gaps between pieces up to this length in bytes are read through, if that is faster than a separate request
    gap_bytes: int = 0
    # the source around this one: the file of a container, or the source whose failing areas are found
    around: Source | None = None
    # problems of the files that contain the disk, such as a missing segment; reading may add to them
    own_findings: tuple[Finding, ...] = ()
    _unread: I64 = np.empty((0, 2), np.int64)  # default result of :meth:`unread_ranges`
    unread_reason = "is in a part of the image that is missing or damaged"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Problems of the containers around the disk, the outermost first."""
        outside = self.around.findings if self.around is not None else ()
        return (*outside, *self.own_findings)

    @abstractmethod
    def _fetch_into(self, image_offset: int, target: memoryview) -> None:
        """Fill a buffer from a range within bounds; areas that were never read become zeros."""

    def read(self, image_offset: int, length_bytes: int) -> bytes:
        """Read exactly the given number of bytes, all of which must be known."""
        self._check(image_offset, length_bytes)
        data = bytearray(length_bytes)
        self._fetch_into(image_offset, memoryview(data))
        self.refuse_unread(image_offset, length_bytes)
        return bytes(data)

    def parse(self, kind: type[T], image_offset: int, structure: str) -> T:
        """Parse the structure at an offset, which must not leave the image."""
        data = self.read(image_offset, grammar.width_of(kind))
        return grammar.parse(kind, data, structure=structure, image_offset=self.origin + image_offset)

    def read_into(self, image_offset: int, target: memoryview) -> None:
        """Fill a buffer; areas that were never read become zeros (:meth:`touches_unread` finds them)."""
        self._check(image_offset, len(target))
        self._fetch_into(image_offset, target)

    def read_pieces(self, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview) -> None:
        """Read many pieces in address order, each to its place in a buffer, including short gaps between them."""
        bounds = request_bounds(image_offsets, lengths_bytes, self.gap_bytes)
        out = np.frombuffer(target, np.uint8)
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            start, place = int(image_offsets[first]), int(places[first])
            if last == first + 1:
                self.read_into(start, target[place : place + int(lengths_bytes[first])])
                continue
            own = slice(first, last)
            data = np.empty(int((image_offsets[own] + lengths_bytes[own]).max()) - start, np.uint8)
            self.read_into(start, data.data)
            copy_pieces(data, image_offsets[own] - start, lengths_bytes[own], places[own], out)

    def _check(self, image_offset: int, length_bytes: int, what: str = "range") -> None:
        if image_offset < 0 or length_bytes < 0 or image_offset + length_bytes > self.size_bytes:
            raise TruncatedError(
                f"{what} leaves the image",
                structure=f"{length_bytes} bytes",
                image_offset=self.origin + image_offset,
                expected=f"an end at or before byte {self.origin + self.size_bytes:,}",
                found=f"{self.origin + image_offset + length_bytes:,}",
            )

    def _check_all(self, image_offsets: I64, lengths_bytes: I64, what: str = "range") -> None:
        outside = (image_offsets < 0) | (lengths_bytes < 0) | (image_offsets > self.size_bytes - lengths_bytes)
        for first in np.flatnonzero(outside)[:1].tolist():
            self._check(int(image_offsets[first]), int(lengths_bytes[first]), what)

    def read_extents(
        self,
        image_offsets: I64,
        lengths_bytes: I64,
        workspace: Workspace | None = None,  # memory to read into; None for fresh memory
    ) -> U8:
        """Read many extents, in address order and in large requests; return them in the order given."""
        tick()
        room = Workspace() if workspace is None else workspace
        starts = np.ascontiguousarray(image_offsets, np.int64)
        lengths = np.ascontiguousarray(lengths_bytes, np.int64)
        self._check_all(starts, lengths, "extent")
        out = room.bytes(int(lengths.sum()))
        if not len(out):
            return out
        places = starts_of(lengths)
        used = np.flatnonzero(lengths > 0)
        order = used[order_of(starts[used])]
        starts, lengths, places = starts[order], lengths[order], places[order]
        # Extents that are contiguous both on disk and in the result are joined, up to the size of a request.
        ends = starts + lengths
        is_first = np.ones(len(starts), bool)
        is_first[1:] = (starts[1:] != ends[:-1]) | (places[1:] != places[:-1] + lengths[:-1])
        is_first[1:] |= np.diff(starts // MAX_REQUEST_BYTES) > 0
        first = np.flatnonzero(is_first)
        last = np.append(first[1:], len(starts)) - 1
        self.read_pieces(starts[first], ends[last] - starts[first], places[first], out.data)
        return out

    def _fill_hole(self, target: memoryview) -> None:
        """Fill a hole with zeros, which cost no request."""
        if len(target):
            self.counter.hole_bytes += len(target)
            target[:] = bytes(len(target))

    def unread_ranges(self) -> I64:
        """Return the areas never read or known so far to be unreadable, shape (n, 2): offset and length in bytes."""
        return self._unread

    def refuse_unread(self, image_offset: int, length_bytes: int) -> None:
        """Raise an error if part of a range was never read."""
        unread = clip(self.unread_ranges(), image_offset, length_bytes)
        if len(unread):
            place = image_offset + int(unread[0, 0])
            raise UnreadError(self.unread_reason, structure=f"{length_bytes} bytes", image_offset=place)

    def touches_unread(self, image_offsets: I64, lengths_bytes: I64) -> Mask:
        """Return for each extent whether part of it was never read, shape (n,)."""
        return overlaps(self.unread_ranges(), image_offsets, lengths_bytes)

    @property
    def holes(self) -> I64:
        """Areas that a sparse file does not store, shape (n, 2): offset and length in bytes."""
        return np.empty((0, 2), np.int64)

    def _set_around(self, source: Source, size_bytes: int) -> None:
        """Set the source that this one is based on, which is closed with it."""
        self.source = self.around = source
        self.name, self.counter, self.size_bytes = source.name, source.counter, size_bytes

    def close(self) -> None:
        """Release all resources; later reads fail."""
        if self.around is not None:
            self.around.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


SECTOR_BYTES: Final = 512
"""The smallest unit that a disk returns or refuses."""


def read_by_sector(source: Source, image_offset: int, target: memoryview) -> int:
    """Read a range as far as possible, with zeros for unreadable sectors; return the number of unreadable bytes."""
    unread = 0
    for start in range(0, len(target), SECTOR_BYTES):
        sector = target[start : start + SECTOR_BYTES]
        try:
            source.read_into(image_offset + start, sector)
        except UnreadError:
            sector[:] = bytes(len(sector))
            unread += len(sector)
    return unread


HEAD_BYTES: Final = 4096
"""Length of the start of a file that is examined."""

TRAILER_BYTES: Final = 512


def trailer_of(source: Source) -> bytes:
    """Return the last 512 bytes, padded with zeros in front; areas that were never read are zeros."""
    length = min(TRAILER_BYTES, source.size_bytes)
    return peek(source, source.size_bytes - length, length).rjust(TRAILER_BYTES, b"\0")


def peek(source: Source, image_offset: int = 0, length_bytes: int = HEAD_BYTES) -> bytes:
    """Read data that may identify the kind of a file, up to its end; sectors that cannot be read are zeros."""
    length_bytes = min(length_bytes, source.size_bytes - image_offset)
    data = bytearray(length_bytes)
    try:
        source.read_into(image_offset, memoryview(data))
    except UnreadError:
        read_by_sector(source, image_offset, memoryview(data))
    return bytes(data)


class MemorySource(Source):
    """A byte string as an image."""

    def __init__(self, data: bytes, name: str = "memory") -> None:
        self._data = data
        self.name = name
        self.size_bytes = len(data)
        self.counter = ReadCounter()

    def _fetch_into(self, image_offset: int, target: memoryview) -> None:
        self.counter.reads += 1
        self.counter.bytes += len(target)
        target[:] = self._data[image_offset : image_offset + len(target)]


class PieceSource(Source):
    """A disk in pieces at various places of its files; areas without a piece are zeros."""

    # places of the pieces on the disk, in bytes and in ascending order
    _starts: I64
    _ends: I64

    def _fetch_into(self, image_offset: int, target: memoryview) -> None:
        stop = done = image_offset
        stop += len(target)
        first = int(np.searchsorted(self._ends, image_offset, side="right"))
        last = int(np.searchsorted(self._starts, stop))
        for number in range(first, last):
            start = int(self._starts[number])
            low, high = max(start, image_offset), min(int(self._ends[number]), stop)
            self._fill_hole(target[done - image_offset : low - image_offset])
            self._read_piece(number, low - start, target[low - image_offset : high - image_offset])
            done = high
        self._fill_hole(target[done - image_offset :])

    @abstractmethod
    def _read_piece(self, number: int, offset: int, target: memoryview) -> None:
        """Fill a buffer with data from an offset within a piece."""

    @property
    def holes(self) -> I64:
        """Areas that no piece covers, shape (n, 2): offset and length in bytes."""
        return subtract(np.array([[0, self.size_bytes]]), runs_of(self._starts, self._ends - self._starts))


def open_all(sources: Iterable[Source]) -> list[Source]:
    """Collect sources as they are opened; if one fails, the others are closed."""
    with ExitStack() as stack:
        taken = [stack.enter_context(each) for each in sources]
        stack.pop_all()
    return taken


class JoinedSource(PieceSource):
    """Several sources at their offsets on one disk, with zeros between them."""

    def __init__(self, sources: Sequence[Source], starts: I64) -> None:
        self._sources = tuple(sources)
        self._starts = starts
        self._ends = starts + np.array([each.size_bytes for each in sources], np.int64)
        self.name = sources[0].name
        self.size_bytes = int(self._ends[-1])
        self.counter = sources[0].counter

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Problems of the files of the parts."""
        return (*(item for each in self._sources for item in each.findings), *self.own_findings)

    def _read_piece(self, number: int, offset: int, target: memoryview) -> None:
        self._sources[number].read_into(offset, target)

    def unread_ranges(self) -> I64:
        """Areas that are missing or damaged, shape (n, 2): offset and length in bytes."""
        found = [(each.unread_ranges(), start) for each, start in zip(self._sources, self._starts, strict=True)]
        return union([self._unread, *(runs + np.array([start, 0]) for runs, start in found if len(runs))])

    @property
    def holes(self) -> I64:
        """Areas that the parts do not store, shape (n, 2): offset and length in bytes."""
        return np.concatenate([
            each.holes + np.array([start, 0]) for each, start in zip(self._sources, self._starts, strict=True)
        ])  # fmt: skip

    def close(self) -> None:
        """Close all parts."""
        for each in self._sources:
            each.close()


class Window(Source):
    """A part of another source, with addresses that start at 0."""

    def __init__(
        self,
        source: Source,
        image_offset: int,  # where the window starts in the whole, in bytes
        size_bytes: int,
    ) -> None:
        self.source = source
        self.image_offset = image_offset
        self.size_bytes = max(0, min(size_bytes, source.size_bytes - image_offset))
        self.sector_size_bytes = source.sector_size_bytes
        self.name = source.name
        # All windows of an image share one counter: a scan reports what reached the file.
        self.counter = source.counter
        self.origin = source.origin + image_offset

    def _fetch_into(self, image_offset: int, target: memoryview) -> None:
        self.source.read_into(self.image_offset + image_offset, target)

    def read_pieces(self, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview) -> None:
        """Read many pieces, each to its place in a buffer."""
        self._check_all(image_offsets, lengths_bytes)
        self.source.read_pieces(image_offsets + self.image_offset, lengths_bytes, places, target)

    def unread_ranges(self) -> I64:
        """Areas never read, clipped to the window, in the window's addresses; shape (n, 2)."""
        return clip(self.source.unread_ranges(), self.image_offset, self.size_bytes)

    def refuse_unread(self, image_offset: int, length_bytes: int) -> None:
        """Raise the error of the whole source if part of a range was never read."""
        self.source.refuse_unread(self.image_offset + image_offset, length_bytes)

    @property
    def holes(self) -> I64:
        """Areas not stored, clipped to the window, in the window's addresses; shape (n, 2)."""
        return clip(self.source.holes, self.image_offset, self.size_bytes)


def clip(ranges: I64, image_offset: int, length_bytes: int) -> I64:
    """Return the parts of ranges, which are as for :func:`overlaps`, within a stretch, from whose start they count."""
    if not len(ranges):
        return ranges
    # Many reads ask a long list of ranges, so only those of the stretch are computed.
    first = int(np.searchsorted(ranges[:, 0] + ranges[:, 1], image_offset, side="right"))
    near = ranges[first : int(np.searchsorted(ranges[:, 0], image_offset + length_bytes))]
    start = np.maximum(near[:, 0] - image_offset, 0)
    stop = np.minimum(near[:, 0] + near[:, 1] - image_offset, length_bytes)
    clipped: I64 = np.stack([start, stop - start], axis=1)[stop > start]
    return clipped


def overlaps(
    ranges: I64,  # offset and length in bytes, in address order, without overlap
    image_offsets: I64,
    lengths_bytes: I64,
) -> Mask:
    """Return for each extent whether it overlaps one of the ranges."""
    starts, lengths = np.asarray(image_offsets, np.int64), np.asarray(lengths_bytes, np.int64)
    following = np.searchsorted(ranges[:, 0] + ranges[:, 1], starts, side="right")
    bounds = np.append(ranges[:, 0], np.iinfo(np.int64).max)
    hit: Mask = (bounds[following] < starts + lengths) & (lengths > 0)
    return hit


class WrappedSource(Window):
    """Another source at the same addresses, which is closed with it; unchanged data passes through."""

    read_pieces = Source.read_pieces

    def __init__(self, source: Source) -> None:
        super().__init__(source, 0, source.size_bytes)
        self.around = source


class RecordingSource(WrappedSource):
    """An image whose reads are recorded, without the gaps that are read through."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._starts = [np.empty(0, np.int64)]
        self._lengths = [np.empty(0, np.int64)]

    def _note(self, image_offsets: Sequence[int] | I64, lengths_bytes: Sequence[int] | I64) -> None:
        self._starts.append(np.array(image_offsets, np.int64))
        self._lengths.append(np.array(lengths_bytes, np.int64))

    def _fetch_into(self, image_offset: int, target: memoryview) -> None:
        self._note([image_offset], [len(target)])
        super()._fetch_into(image_offset, target)

    def read_pieces(self, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview) -> None:
        """Read many pieces, each to its place in a buffer."""
        self._note(image_offsets, lengths_bytes)
        self.source.read_pieces(image_offsets, lengths_bytes, places, target)

    def recorded(self) -> I64:
        """Return what was read, shape (n, 2): start and stop in bytes, in the order of the reads."""
        starts, lengths = np.concatenate(self._starts), np.concatenate(self._lengths)
        return np.stack([starts, starts + lengths], axis=1)
