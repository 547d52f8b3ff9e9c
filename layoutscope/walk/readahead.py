"""Read-ahead of file data: the windows in which the host reads a file.

Linux 6.1 ``mm/readahead.c`` (``ondemand_readahead``) and ``mm/filemap.c``. A sequential reader whose steps are at
least as large as the window gets windows aligned to the start of the file (:func:`sequential_windows`). Other readers
are followed page by page (:class:`ReadAhead`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.access.trace import FixedPlaces
from layoutscope.display import Struct
from layoutscope.structs.arrays import match, order_of, ranges, starts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.driver import Model
    from layoutscope.tables import Table


PAGE_BYTES = 4096


class FileMap(Struct, frozen=True):
    """Extents of files; arrays of shape (n_extents,) in ascending position."""

    base: NDArray[np.int64]  # position at which each file begins
    is_packed: NDArray[np.bool_]  # whether it is compressed: then another fork is read, in one window
    file: NDArray[np.int64]  # place of each extent's file
    # start, stop: positions of the extents
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    image_offset: NDArray[np.int64]  # their addresses, -1 for holes
    device: NDArray[np.uint8]  # image of a Fusion set
    node: NDArray[np.int32]  # leaf in which the host must look the extent up, -1 if the inode contains it


def file_map(model: Model, entries: NDArray[np.int64]) -> FileMap:
    """Join the data forks of some files end to end on one axis."""
    ids = model.entries.file_id[entries]
    packed = model.entries.is_compressed[entries] & model.driver.reads_compressed
    table, file = _extents_of(model, ids, packed)
    logical = table["logical_offset"].data
    length = np.minimum(table["length_bytes"].data, model.layout.facts.size_bytes)
    # A file ends with its last block or page, but not beyond its last extent. Read-ahead stops at the last page: blocks
    # allocated beyond it are never read.
    unit = min(PAGE_BYTES, model.layout.facts.block_size_bytes or PAGE_BYTES)
    last = np.zeros(len(entries), np.int64)
    np.maximum.at(last, file, logical + length)
    listed = -(-np.minimum(model.entries.size_bytes[entries], last) // unit) * unit
    size = np.where(packed, last, np.minimum(listed, last))
    base = starts_of(size)
    start = base[file] + logical
    stop = base[file] + np.minimum(logical + length, size[file])
    order = order_of(start)
    order = order[stop[order] > start[order]]
    # An extent that is next to the inode is not looked up.
    node = model.nodes.nodes_of(table["node_row"])
    if model.driver.inode_holds_extents:
        node[(node >= 0) & (model.nodes.tree[node] == model.main_tree_code)] = -1
    return FileMap(
        base,
        packed,
        file[order],
        start[order],
        stop[order],
        table["image_offset"].signed()[order],
        table["device"].filled(0)[order],
        node[order],
    )


def _extents_of(model: Model, ids: NDArray[np.uint64], packed: NDArray[np.bool_]) -> tuple[Table, NDArray[np.int64]]:
    """Return the extents of the forks that are read (if compressed, the resource fork), and their files' places."""
    extents = model.layout.columns("extents")
    if not len(ids):
        return extents.take(slice(0)), np.empty(0, np.int64)
    place, is_wanted = match(ids, extents["file_id"].data)
    is_resource = extents["fork"].equals("resource")
    is_read = is_wanted & (is_resource == packed[place]) & (is_resource | extents["fork"].equals("data"))
    return extents.take(is_read), place[is_read]


def pieces(
    files: FileMap, start: NDArray[np.int64], stop: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], FixedPlaces]:
    """Cut windows, given by their positions, at the borders of extents.

    Return the window of each piece, the leaf in which it is looked up (or -1), and its place (-1 for holes).
    """
    first = np.searchsorted(files.stop, start, side="right")
    count = np.maximum(np.searchsorted(files.start, stop, side="left") - first, 0)
    extent = ranges(first, count)
    window = np.repeat(np.arange(len(start)), count)
    begin = np.maximum(files.start[extent], start[window])
    end = np.minimum(files.stop[extent], stop[window])
    offset = files.image_offset[extent]
    offset = np.where(offset >= 0, offset + begin - files.start[extent], -1)
    return window, files.node[extent], FixedPlaces("data", files.device[extent], offset, end - begin)


def sequential_windows(
    files: FileMap, window_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the windows of files that are read from beginning to end."""
    kind = files.is_packed.astype(np.int64)
    return _windows(files, kind, np.zeros((2, 1), np.int64), np.array([window_bytes, AT_ONCE]))


def growing_windows(
    files: FileMap, window_bytes: int, first_bytes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the windows of files that are read sequentially in steps smaller than a window, so that windows grow."""
    limit = max(window_bytes // PAGE_BYTES, 1)
    pages = np.maximum(-(-first_bytes // PAGE_BYTES), 1)
    asked, kind = np.unique(pages, return_inverse=True)
    # Where windows begin, in bytes, up to the first one of full size.
    edges = []
    for count in asked.tolist():
        size, begins = first_window_pages(count, limit), [0]
        while size < limit:
            begins.append(begins[-1] + size * PAGE_BYTES)
            size = next_window_pages(size, limit)
        edges.append(begins)
    deepest = max(map(len, edges), default=1)
    # Rows with fewer steps of growth are padded with a place that no page reaches.
    table = np.array([[*each, *[AT_ONCE] * (deepest - len(each))] for each in [*edges, [0]]])
    step = np.array([*[limit * PAGE_BYTES] * len(edges), AT_ONCE])
    return _windows(files, np.where(files.is_packed, len(edges), kind), table, step)


def _windows(
    files: FileMap,
    kind: NDArray[np.int64],  # kind of each file
    # by kind, where the first windows begin, in bytes from the start of a file: at least 0, and `AT_ONCE` for no
    # window
    edges: NDArray[np.int64],
    step: NDArray[np.int64],  # by kind, the size of all windows from the last edge on
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    last_edge = (edges < AT_ONCE).sum(axis=1) - 1

    def number_windows(at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number, within its file, of the window that contains a place of each extent."""
        own = kind[files.file]
        known = (edges[own] <= at[:, None]).sum(axis=1) - 1
        over = (at - edges[own, known]) // step[own]
        found: NDArray[np.int64] = known + np.where(known == last_edge[own], over, 0)
        return found

    base = files.base[files.file]
    first = number_windows(files.start - base)
    last = np.where(files.image_offset >= 0, number_windows(files.stop - base - 1), first)
    extent = np.repeat(np.arange(len(first)), last - first + 1)
    number = ranges(first, last - first + 1)
    file = files.file[extent]
    new = np.ones(len(file), bool)
    new[1:] = (file[1:] != file[:-1]) | (number[1:] != number[:-1])
    number, file = number[new], file[new]
    own = kind[file]
    begin, end = (
        files.base[file]
        + edges[own, np.minimum(each, last_edge[own])]
        + np.maximum(each - last_edge[own], 0) * step[own]
        for each in (number, number + 1)
    )
    return file, begin, np.minimum(end, np.append(files.base, AT_ONCE)[file + 1])


AT_ONCE = 2**62
"""Larger than any file."""


def first_window_pages(wanted: int, limit: int) -> int:
    """Return the size of the first window of a stream (get_init_ra_size)."""
    rounded = 1 << max(wanted - 1, 0).bit_length()
    if rounded <= limit // 32:
        return rounded * 4
    return rounded * 2 if rounded <= limit // 4 else limit


def next_window_pages(size: int, limit: int) -> int:
    """Return the size of the window after one of the given size (get_next_ra_size)."""
    if size < limit // 16:
        return 4 * size
    return 2 * size if size <= limit // 2 else limit


class ReadAhead:
    """State of one open file: its cached pages, and the stream that the host has detected."""

    def __init__(
        self,
        size_bytes: int,
        max_pages: int,
        *,
        optimal_pages: int = 0,
        # whether reads that follow cached pages count as a stream; if not, only the requested pages are read
        detects_streams: bool = True,
    ) -> None:
        self.n_pages = -(-size_bytes // PAGE_BYTES)
        self.max_pages = self.limit = max_pages
        self.optimal_pages = optimal_pages
        self.detects_streams = detects_streams
        self.cached: set[int] = set()
        self.marked: set[int] = set()
        self.start = self.size = self.ahead = 0
        self.previous_page = -(2**40)
        self.windows: list[tuple[int, int]] = []

    def read(self, offset: int, length_bytes: int) -> None:
        """Read a part of the file and record the windows that are fetched, in pages."""
        end = min(-(-(offset + length_bytes) // PAGE_BYTES), self.n_pages)
        self.limit = self.max_pages
        for page in range(offset // PAGE_BYTES, end):
            if page not in self.cached:
                self._on_miss(page, end - page)
            if page in self.marked:
                self.marked.discard(page)
                self._on_mark(page, end - page)
            self.previous_page = min(offset + length_bytes, (page + 1) * PAGE_BYTES) // PAGE_BYTES

    def _raise_limit(self, wanted: int) -> None:
        """Let windows grow with a longer read, up to the drive's optimal size (observed)."""
        self.limit = max(self.limit, min(wanted, self.optimal_pages))

    def _on_miss(self, page: int, wanted: int) -> None:
        # page_cache_sync_ra: POSIX_FADV_RANDOM, or a device without read-ahead, fetches only the requested pages.
        self._raise_limit(wanted)
        if not self.detects_streams:
            self._fetch(page, wanted, 0)
        elif page == 0 or not self._goes_on(page):
            self._new_stream(page, wanted)

    def _goes_on(self, page: int) -> bool:
        """Advance the window if the reader is at its mark or its end."""
        if page not in (self.start + self.size - self.ahead, self.start + self.size):
            return False
        self.start += self.size
        self.size = self.ahead = next_window_pages(self.size, self.limit)
        self._fetch_window(page)
        return True

    def _new_stream(self, page: int, wanted: int) -> None:
        # The start of a file, a read larger than any window, and a miss right after the last read start a stream at
        # once. So does a miss in the last page of the last read, because a read may end within a page.
        if page == 0 or wanted > self.limit or 0 <= page - self.previous_page <= 1:
            self.start, self.size = page, first_window_pages(wanted, self.limit)
            self.ahead = self.size - wanted if self.size > wanted else self.size
            self._fetch_window(page)
            return
        # try_context_readahead: each of several interleaved readers finds the pages before its own still cached. Pages
        # cached back to the start of the file are the strongest sign, and count twice. The last page searched counts as
        # missing even if it is cached.
        history = 0
        while history < self.limit - 1 and history < page and page - 1 - history in self.cached:
            history += 1
        if history <= wanted:
            self._fetch(page, wanted, 0)
            return
        self.start, self.ahead = page, 1
        self.size = min((2 * history if history >= page else history) + wanted, self.limit)
        self._fetch_window(page)

    def _on_mark(self, page: int, wanted: int) -> None:
        self._raise_limit(wanted)
        if self._goes_on(page):
            return
        # Another reader owns the known window, or a seek has lost it. Only the mark shows that there was a window; the
        # first missing page after the mark is taken as its end (page_cache_next_miss). The last page searched is taken
        # even if it is cached.
        missing, last = page + 1, page + self.limit
        while missing < last and missing < self.n_pages and missing in self.cached:
            missing += 1
        if missing - page > self.limit:
            return
        self.start = missing
        self.size = self.ahead = next_window_pages(missing - page + wanted, self.limit)
        self._fetch_window(page)

    def _fetch_window(self, page: int) -> None:
        # The read would reach the mark that its own window sets, so the next window is fetched together with it.
        if page == self.start and self.size == self.ahead:
            more = next_window_pages(self.size, self.limit)
            fits = self.size + more <= self.limit
            self.ahead = more if fits else self.limit // 2
            self.size = self.size + more if fits else self.limit
        self._fetch(self.start, self.size, self.ahead)

    def _fetch(self, first: int, count: int, ahead: int) -> None:
        """Fetch the missing pages of a window; each contiguous run is queued separately."""
        count = min(count, self.n_pages - first)
        run = first
        for page in range(first, first + count):
            if page in self.cached:
                self._queue(run, page)
                run = page + 1
            # PG_readahead: a read of this page fetches the next window before the pages run out.
            elif page == first + count - ahead:
                self.marked.add(page)
        self._queue(run, first + max(count, 0))

    def _queue(self, first: int, stop: int) -> None:
        if stop > first:
            self.windows.append((first, stop))
            self.cached.update(range(first, stop))


def send(
    offset: NDArray[np.int64],
    length_bytes: NDArray[np.int64],
    # read-ahead window of each request, for data or the look-up of its address; requests of one window are contiguous,
    # and requests outside any window have -1
    window: NDArray[np.int64],
    waits: NDArray[np.bool_],
    *,
    holds_last: bool,  # whether the piece before a read of metadata is not queued yet
    sorts: bool = True,  # whether there is a queue that sorts; if not, the order of the file is kept
    largest_bytes: int = 2**40,  # largest request of the drive
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Order and merge requests.

    Return for each request, in the order of sending: the request that it began as, the offset of its start from that
    request's start, and its length in bytes including merged requests.
    """
    joined = np.zeros(len(offset), bool)
    joined[1:] = (window[1:] == window[:-1]) & (offset[1:] == offset[:-1] + length_bytes[:-1])
    joined[1:] &= ~(waits[1:] | waits[:-1])
    first = np.flatnonzero(~joined)
    lengths = np.add.reduceat(length_bytes, first) if len(first) else length_bytes
    source, length = first.copy(), lengths.copy()
    kept = np.ones(len(first), bool)
    # Only windows whose requests are not in ascending order change in a queue.
    for begin, end in _disorderly(offset[first], window[first], waits[first]) if sorts else ():
        window_queue = _Queue(holds_last)
        for place in range(begin, end):
            request = _Request(place, int(offset[first[place]]), int(lengths[place]))
            window_queue.add(request, waits=bool(waits[first[place]]))
        sent = window_queue.finish()
        kept[begin + len(sent) : end] = False
        source[begin : begin + len(sent)] = [first[request.place] for request in sent]
        length[begin : begin + len(sent)] = [request.length for request in sent]
    source, length = source[kept], length[kept]
    count = -(-length // largest_bytes)
    part = np.repeat(np.arange(len(source)), count)
    skipped = (np.arange(len(part)) - starts_of(count)[part]) * largest_bytes
    return source[part], skipped, np.minimum(length[part] - skipped, largest_bytes)


def _disorderly(
    offset: NDArray[np.int64], window: NDArray[np.int64], waits: NDArray[np.bool_]
) -> list[tuple[int, int]]:
    """Find windows that are not in ascending order; return the first request of each and the one after its last."""
    goes_on = (window[1:] == window[:-1]) & (window[1:] >= 0)
    wrong = goes_on & (waits[1:] | (offset[1:] < offset[:-1]))
    begins = np.append(True, ~goes_on)
    run = np.unique((np.cumsum(begins) - 1)[1:][wrong])
    edge = np.append(np.flatnonzero(begins), len(window))
    return list(zip(edge[run].tolist(), edge[run + 1].tolist(), strict=True))


PLUG_REQUESTS = 32
PLUG_BYTES = 128 * 1024
"""A plug is flushed when it holds this many requests, or when its last one is this long (``blk_add_rq_to_plug``)."""


class _Request(Struct, eq=False):
    """A request on its way; `place` is that of the first request merged into it."""

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
        """Accept the next request; a request that waits for its answer flushes the queue."""
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
        """Send the rest, and return all requests in the order in which they were sent."""
        self._release()
        self._send()
        return self.sent

    def _release(self) -> None:
        if self.held:
            self._queue(self.held)
        self.held = None

    def _queue(self, request: _Request) -> None:
        """Queue a request, or merge it at either end of the request queued last."""
        last = self.waiting[-1] if self.waiting else None
        if last and last.end == request.offset:
            last.length += request.length
        elif last and request.end == last.offset:
            last.place, last.offset, last.length = request.place, request.offset, request.length + last.length
        else:
            # A plug is the task's own list: it is not sorted together with requests of other tasks before it is
            # flushed.
            if len(self.waiting) >= PLUG_REQUESTS or (last and last.length >= PLUG_BYTES):
                self._send()
            self.waiting.append(request)

    def _send(self) -> None:
        """Send all waiting requests, the oldest first and then upwards; back-merge adjacent requests."""
        waiting: list[_Request] = []
        for request in self.waiting:
            _insert(waiting, request)
        self.waiting = []
        head = None
        while waiting:
            # deadline_next_request continues above the last address that was sent. If nothing is above, dispatch starts
            # at the head of the FIFO, which need not be the lowest address.
            above = [request for request in waiting if head is not None and request.offset >= head]
            request = min(above, key=lambda item: item.offset) if above else waiting[0]
            waiting.remove(request)
            head = request.end
            self.sent.append(request)


def _insert(waiting: list[_Request], request: _Request) -> None:
    """Queue a request after older ones, or merge it into a request that ends at its start, repeatedly."""
    # elv_attempt_insert_merge tries only back merges, and tries again with the merged request.
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
