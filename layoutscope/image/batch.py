"""Reading many extents in address order, in few requests, without a loop per extent where a merge is possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from layoutscope.display import Struct
from layoutscope.errors import TruncatedError
from layoutscope.progress import tick
from layoutscope.structs.arrays import copy_pieces, order_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

MAX_GAP_BYTES: Final = 64 * 1024
"""Gaps up to this are read over where the budget allows: reading on is cheaper than asking again."""

MAX_REQUEST_BYTES: Final = 8 * 1024**2


class ExtentReader(Protocol):
    """What is read from: of a :class:`~layoutscope.image.source.Source` no more than this."""

    size_bytes: int
    origin: int
    gap_budget: float

    def read_into(self, image_offset: int, target: memoryview) -> None:
        """Fill a buffer from an address on."""

    def read_pieces(self, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview) -> None:
        """Read many pieces, each to its place in a buffer."""


class Workspace:
    """Memory that successive reads share: what a read returns is valid until the next one.

    Fresh memory is dear: the system clears each page of it when it is first touched.
    """

    __slots__ = ("_bytes", "_scratch")

    def __init__(self) -> None:
        self._bytes = self._scratch = np.empty(0, np.uint8)

    def bytes(self, length_bytes: int) -> NDArray[np.uint8]:
        """Return room for the bytes of a read, shape (length_bytes,)."""
        if len(self._bytes) < length_bytes:
            self._bytes = np.empty(length_bytes, np.uint8)
        return self._bytes[:length_bytes]

    def scratch(self, length_bytes: int) -> NDArray[np.uint8]:
        """Return room for one request, shape (length_bytes,)."""
        if len(self._scratch) < length_bytes:
            self._scratch = np.empty(length_bytes, np.uint8)
        return self._scratch[:length_bytes]


class _Extents(Struct, frozen=True):
    """Extents in address order, with their places in the result."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    targets: NDArray[np.int64]

    def part(self, first: int, last: int) -> _Extents:
        return _Extents(self.starts[first:last], self.lengths[first:last], self.targets[first:last])


def read_extents(
    source: ExtentReader,
    image_offsets: NDArray[np.int64],
    lengths_bytes: NDArray[np.int64],
    workspace: Workspace | None = None,  # memory to read into; fresh memory without it
) -> NDArray[np.uint8]:
    """Read extents in address order; see :meth:`layoutscope.image.Source.read_extents`."""
    tick()
    room = Workspace() if workspace is None else workspace
    starts = np.ascontiguousarray(image_offsets, np.int64)
    lengths = np.ascontiguousarray(lengths_bytes, np.int64)
    _check(source, starts, lengths)
    out = room.bytes(int(lengths.sum()))
    if not len(out):
        return out
    extents = _sort_by_address(starts, lengths)
    bounds = _request_bounds(extents, source.gap_budget)
    shared = np.flatnonzero(np.diff(bounds) > 1)
    done = 0
    for first, last in zip(bounds[shared].tolist(), bounds[shared + 1].tolist(), strict=True):
        _read_singly(source, extents.part(done, first), out)
        _scatter(source, extents.part(first, last), out, room)
        done = last
    _read_singly(source, extents.part(done, len(extents.starts)), out)
    return out


def _read_singly(source: ExtentReader, extents: _Extents, out: NDArray[np.uint8]) -> None:
    """Fetch extents that have a request each."""
    if len(extents.starts):
        source.read_pieces(extents.starts, extents.lengths, extents.targets, out.data)


def _check(source: ExtentReader, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
    bad = (starts < 0) | (lengths < 0) | (starts > source.size_bytes - lengths)
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise TruncatedError(
            "extent leaves the image",
            structure=f"{lengths[first]} bytes",
            image_offset=source.origin + int(starts[first]),
            expected=f"an end at or before byte {source.origin + source.size_bytes:,}",
            found=f"{source.origin + int(starts[first]) + int(lengths[first]):,}",
        )


def _sort_by_address(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> _Extents:
    """Sort; extents that follow one another on disk and in the result become one, up to a request's size."""
    targets = np.cumsum(lengths) - lengths
    used = np.flatnonzero(lengths > 0)
    order = used[order_of(starts[used])]
    starts, lengths, targets = starts[order], lengths[order], targets[order]
    ends = starts + lengths
    is_first = np.ones(len(starts), bool)
    is_first[1:] = (starts[1:] != ends[:-1]) | (targets[1:] != targets[:-1] + lengths[:-1])
    is_first[1:] |= np.diff(starts // MAX_REQUEST_BYTES) > 0
    heads = np.flatnonzero(is_first)
    tails = np.append(heads[1:], len(starts)) - 1
    return _Extents(starts[heads], ends[tails] - starts[heads], targets[heads])


def _request_bounds(extents: _Extents, gap_budget: float) -> NDArray[np.int64]:
    """Where each request's extents begin in address order, and the end, shape (n_requests + 1,)."""
    starts, lengths = extents.starts, extents.lengths
    ends = np.maximum.accumulate(starts + lengths)
    # Clones name blocks twice, and so do damaged pointers: extents may overlap, and no gap is negative.
    gaps = np.maximum(starts[1:] - ends[:-1], 0)
    # Requests end at multiples of the largest one, which bounds the memory for one, however much lies together.
    is_break = ~_choose_bridged_gaps(gaps, gap_budget * int(lengths.sum())) | (np.diff(starts // MAX_REQUEST_BYTES) > 0)
    return np.concatenate([[0], np.flatnonzero(is_break) + 1, [len(starts)]])


def _choose_bridged_gaps(gaps: NDArray[np.int64], budget_bytes: float) -> NDArray[np.bool_]:
    """Mark the gaps that are read over: the small ones first, as far as the budget goes."""
    order = order_of(gaps)
    ascending = gaps[order]
    is_cheap = (np.cumsum(ascending) <= budget_bytes) & (ascending <= MAX_GAP_BYTES)
    bridged = np.zeros(len(gaps), bool)
    bridged[order[is_cheap]] = True
    return bridged


def _scatter(source: ExtentReader, extents: _Extents, out: NDArray[np.uint8], room: Workspace) -> None:
    """Fetch one request and put each of its extents where it belongs."""
    base = int(extents.starts[0])
    data = room.scratch(int((extents.starts + extents.lengths).max()) - base)
    source.read_into(base, data.data)
    copy_pieces(data, extents.starts - base, extents.lengths, extents.targets, out)
