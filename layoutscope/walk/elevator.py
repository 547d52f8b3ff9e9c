"""The order in which the requests of a read-ahead window reach the drive.

Linux 6.1 ``block/blk-mq.c`` (plugging) and ``block/mq-deadline.c``: requests of a window are queued together. The
oldest goes first, then the next higher address, and so on upwards; when none is higher, the oldest that is left. A
look-up of metadata between pieces, or behind the last one for a hole at the window's end, is queued like them and
sends what is queued so far. A driver that looks up page by page has then queued all pages before; where one goes
through ``mpage_readahead``, that still holds the piece just before, to see whether the next one continues it. A request
is merged at either end of the one queued just before (``blk_attempt_plug_merge``), and when the queue is sent behind
any older one that ends where it begins (``elv_attempt_insert_merge``). A queue that is full is sent before the next
request joins it.

Each window is taken to find the drive idle. Where a window that was asked for ahead of the reader is still under way,
the drive, which takes 64 requests at once, may leave a part of the next one with the scheduler until more have joined:
the same requests in another order, which differs from one run to the next (observed).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from layoutscope.arrays.ragged import starts_of
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray


@frozen
class Sent:
    """Requests as they are sent; arrays of shape (n_sent,)."""

    source: NDArray[np.int64]  # request that it began as
    skipped_bytes: NDArray[np.int64]  # how far behind that request's start it starts
    length_bytes: NDArray[np.int64]  # its length, with what was merged into it


class QueueRules(NamedTuple):
    """How requests are queued."""

    holds_last: bool  # whether the piece before a read of metadata is not queued yet
    sorts: bool = True  # whether there is a queue that sorts; without it the file's order is kept
    largest_bytes: int = 2**40  # what the drive takes at once


def send(
    offset: NDArray[np.int64],
    length_bytes: NDArray[np.int64],
    # read-ahead window that each is made for, data or the look-up of where they lie; those of a window stand together,
    # and requests outside of any have -1
    window: NDArray[np.int64],
    waits: NDArray[np.bool_],
    queue: QueueRules,
) -> Sent:
    """Order and merge requests."""
    joined = np.zeros(len(offset), bool)
    joined[1:] = (window[1:] == window[:-1]) & (offset[1:] == offset[:-1] + length_bytes[:-1])
    joined[1:] &= ~(waits[1:] | waits[:-1])
    first = np.flatnonzero(~joined)
    lengths = np.add.reduceat(length_bytes, first) if len(first) else length_bytes
    source, length = first.copy(), lengths.copy()
    kept = np.ones(len(first), bool)
    for begin, end in _disorderly(offset[first], window[first], waits[first]) if queue.sorts else ():
        window_queue = _Queue(queue.holds_last)
        for place in range(begin, end):
            request = _Request(place, int(offset[first[place]]), int(lengths[place]))
            window_queue.add(request, waits=bool(waits[first[place]]))
        sent = window_queue.finish()
        kept[begin + len(sent) : end] = False
        source[begin : begin + len(sent)] = [first[request.place] for request in sent]
        length[begin : begin + len(sent)] = [request.length for request in sent]
    return _cut(source[kept], length[kept], queue.largest_bytes)


def _cut(source: NDArray[np.int64], length_bytes: NDArray[np.int64], largest_bytes: int) -> Sent:
    count = -(-length_bytes // largest_bytes)
    place = np.repeat(np.arange(len(source)), count)
    skipped = (np.arange(len(place)) - starts_of(count)[place]) * largest_bytes
    return Sent(source[place], skipped, np.minimum(length_bytes[place] - skipped, largest_bytes))


def _disorderly(
    offset: NDArray[np.int64], window: NDArray[np.int64], waits: NDArray[np.bool_]
) -> list[tuple[int, int]]:
    """Find windows that do not simply go upwards: from their first request to behind their last."""
    goes_on = (window[1:] == window[:-1]) & (window[1:] >= 0)
    wrong = goes_on & (waits[1:] | (offset[1:] < offset[:-1]))
    begins = np.append(True, ~goes_on)
    run = np.unique((np.cumsum(begins) - 1)[1:][wrong])
    edge = np.append(np.flatnonzero(begins), len(window))
    return list(zip(edge[run].tolist(), edge[run + 1].tolist(), strict=True))


PLUG_REQUESTS = 32
PLUG_BYTES = 128 * 1024
"""A plug is emptied when it holds so many requests, or when the last one is so long (``blk_add_rq_to_plug``)."""


@dataclass(slots=True, eq=False)
class _Request:
    """A request on its way; `place` is that of the first one it was merged from."""

    place: int
    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


class _Queue:
    """Requests of one window, waiting to be sent."""

    def __init__(self, holds_last: bool) -> None:
        self.holds_last = holds_last
        self.waiting: list[_Request] = []
        self.held: _Request | None = None
        self.sent: list[_Request] = []

    def add(self, request: _Request, *, waits: bool) -> None:
        """Take the next request; one that waits for its answer sends what is queued."""
        if waits:
            self._queue(request)
            self._send()
        elif not self.holds_last:
            self._queue(request)
        elif self.held and self.held.end == request.offset:
            self.held.length += request.length
        else:
            self._release()
            self.held = request

    def finish(self) -> list[_Request]:
        """Send what is left, and return all in the order in which it was sent."""
        self._release()
        self._send()
        return self.sent

    def _release(self) -> None:
        if self.held:
            self._queue(self.held)
        self.held = None

    def _queue(self, request: _Request) -> None:
        """Queue a request, or merge it at either end of the one queued last."""
        last = self.waiting[-1] if self.waiting else None
        if last and last.end == request.offset:
            last.length += request.length
        elif last and request.end == last.offset:
            last.place, last.offset, last.length = request.place, request.offset, request.length + last.length
        else:
            # A plug is the task's own list: nothing of it can be sorted with what other tasks have queued until it is
            # flushed.
            if len(self.waiting) >= PLUG_REQUESTS or (last and last.length >= PLUG_BYTES):
                self._send()
            self.waiting.append(request)

    def _send(self) -> None:
        """Send all that waits: the oldest, then upwards; merging what begins where an older request ends."""
        waiting: list[_Request] = []
        for request in self.waiting:
            _insert(waiting, request)
        self.waiting = []
        head = None
        while waiting:
            # deadline_next_request goes on above the last address that was sent; where nothing is above, dispatch
            # starts at the head of the FIFO, which need not be the lowest address.
            above = [request for request in waiting if head is not None and request.offset >= head]
            request = min(above, key=lambda item: item.offset) if above else waiting[0]
            waiting.remove(request)
            head = request.end
            self.sent.append(request)


def _insert(waiting: list[_Request], request: _Request) -> None:
    """Put a request behind older ones; what ends where it begins takes it over, and so on."""
    # elv_attempt_insert_merge looks for back merges alone, and tries again with what it has merged.
    older = _ends_at(waiting, request.offset)
    if older is None:
        waiting.append(request)
    while older is not None:
        older.length += request.length
        if request in waiting:
            waiting.remove(request)
        request, older = older, _ends_at(waiting, older.offset)


def _ends_at(waiting: list[_Request], offset: int) -> _Request | None:
    return next((other for other in waiting if other.end == offset), None)
