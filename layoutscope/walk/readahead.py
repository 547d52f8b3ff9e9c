"""Read-ahead of file data: in which windows the host reads a file.

Linux 6.1 ``mm/readahead.c`` (``ondemand_readahead``) and ``mm/filemap.c``. A reader that goes through a file in
steps of at least the window gets windows aligned to its beginning (:func:`sequential_windows`). Other readers are
followed page by page (:class:`ReadAhead`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from layoutscope.arrays.ragged import ranges
from layoutscope.walk.filemap import PAGE_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.walk.filemap import FileMap


def sequential_windows(
    files: FileMap, window_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Cut files that are read from beginning to end."""
    kind = files.is_packed.astype(np.int64)
    return _windows(files, Growth(kind, np.zeros((2, 1), np.int64), np.array([window_bytes, AT_ONCE])))


def growing_windows(
    files: FileMap, window_bytes: int, first_bytes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Cut files that are read from beginning to end in steps that are small against a window, which grows then."""
    limit = max(window_bytes // PAGE_BYTES, 1)
    pages = np.maximum(-(-first_bytes // PAGE_BYTES), 1)
    asked, kind = np.unique(pages, return_inverse=True)
    edges = [_growing(int(count), limit) for count in asked.tolist()]
    deepest = max(map(len, edges), default=1)
    # A place that no page reaches stands behind those that grow in fewer steps.
    table = np.array([[*each, *[AT_ONCE] * (deepest - len(each))] for each in [*edges, [0]]])
    step = np.array([*[limit * PAGE_BYTES] * len(edges), AT_ONCE])
    return _windows(files, Growth(np.where(files.is_packed, len(edges), kind), table, step))


def _growing(wanted: int, limit: int) -> list[int]:
    """List where windows begin, in bytes, up to the first that grows no more."""
    state, edges = ReadAhead(0, limit), [0]
    state.size = state._first_size(wanted)  # noqa: SLF001  (of this module)
    while state.size < limit:
        edges.append(edges[-1] + state.size * PAGE_BYTES)
        state.size = state._next_size()  # noqa: SLF001
    return edges


class Growth(NamedTuple):
    """Where the windows of files begin, by kinds of files."""

    kind: NDArray[np.int64]  # kind of each file
    # where the first windows begin, in bytes from the start of a file; at least 0 itself, `AT_ONCE` for no window
    edges: NDArray[np.int64]
    step: NDArray[np.int64]  # size of all windows from the last of these on

    def numbers(self, file: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tell in which of its file's windows each place lies."""
        kind = self.kind[file]
        known = (self.edges[kind] <= at[:, None]).sum(axis=1) - 1
        over = (at - self.edges[kind, known]) // self.step[kind]
        found: NDArray[np.int64] = known + np.where(known == self._last()[kind], over, 0)
        return found

    def begins(self, file: NDArray[np.int64], number: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tell where windows begin in their files."""
        kind = self.kind[file]
        last = self._last()[kind]
        found: NDArray[np.int64] = self.edges[kind, np.minimum(number, last)]
        found += np.maximum(number - last, 0) * self.step[kind]
        return found

    def _last(self) -> NDArray[np.int64]:
        last: NDArray[np.int64] = (self.edges < AT_ONCE).sum(axis=1) - 1
        return last


def _windows(files: FileMap, growth: Growth) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    base = files.base[files.file]
    first = growth.numbers(files.file, files.start - base)
    last = np.where(files.image_offset >= 0, growth.numbers(files.file, files.stop - base - 1), first)
    extent = np.repeat(np.arange(len(first)), last - first + 1)
    number = ranges(first, last - first + 1)
    file = files.file[extent]
    new = np.ones(len(file), bool)
    new[1:] = (file[1:] != file[:-1]) | (number[1:] != number[:-1])
    number, file = number[new], file[new]
    begin, end = (files.base[file] + growth.begins(file, each) for each in (number, number + 1))
    return file, begin, np.minimum(end, np.append(files.base, AT_ONCE)[file + 1])


AT_ONCE = 2**62
"""Larger than any file."""


class ReadAhead:
    """State of one open file: pages that are cached, and the stream that the host thinks it sees."""

    def __init__(
        self,
        size_bytes: int,
        max_pages: int,
        *,
        optimal_pages: int = 0,
        # whether reads behind cached pages are taken for a stream; without it just the pages asked for are read
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
        """Read a part of the file, and note the windows that are fetched, in pages."""
        end = min(-(-(offset + length_bytes) // PAGE_BYTES), self.n_pages)
        self.limit = self.max_pages
        for page in range(offset // PAGE_BYTES, end):
            if page not in self.cached:
                self._missed(page, end - page)
            if page in self.marked:
                self.marked.discard(page)
                self._reached_mark(page, end - page)
            self.previous_page = min(offset + length_bytes, (page + 1) * PAGE_BYTES) // PAGE_BYTES

    def _missed(self, page: int, wanted: int) -> None:
        # page_cache_sync_ra: POSIX_FADV_RANDOM, or a device without read-ahead, takes what was asked for.
        self._set_limit(wanted)
        if not self.detects_streams:
            self._fetch(page, wanted, 0)
        elif page == 0 or not self._goes_on(page):
            self._new_stream(page, wanted)

    def _goes_on(self, page: int) -> bool:
        """Push the window forward where the reader is at its mark or its end."""
        if page not in (self.start + self.size - self.ahead, self.start + self.size):
            return False
        self.start += self.size
        self.size = self.ahead = self._next_size()
        self._fetch_window(page)
        return True

    def _new_stream(self, page: int, wanted: int) -> None:
        # The start of a file, a read larger than any window, and a miss right behind the last read are a stream at
        # once; the last read's page itself counts too, as a read may end within it.
        if page == 0 or wanted > self.limit or 0 <= page - self.previous_page <= 1:
            self.start, self.size = page, self._first_size(wanted)
            self.ahead = self.size - wanted if self.size > wanted else self.size
            self._fetch_window(page)
            return
        # try_context_readahead: of interleaved readers each finds the pages before its own still cached. Pages up to
        # the very start of the file are the strongest sign, and count twice.
        history = self._cached_before(page)
        if history <= wanted:
            self._fetch(page, wanted, 0)
            return
        self.start, self.ahead = page, 1
        self.size = min((2 * history if history >= page else history) + wanted, self.limit)
        self._fetch_window(page)

    def _set_limit(self, wanted: int) -> None:
        """Let windows grow with a read that is longer than they are, as far as the drive likes (observed)."""
        self.limit = max(self.limit, min(wanted, self.optimal_pages))

    def _reached_mark(self, page: int, wanted: int) -> None:
        self._set_limit(wanted)
        if self._goes_on(page):
            return
        # Another reader owns the window that is known, or a seek has lost it: the mark alone says that there was one,
        # and the first page missing behind it is taken for its end (page_cache_next_miss).
        missing = self._next_missing(page + 1)
        if missing - page > self.limit:
            return
        self.start, self.size = missing, missing - page + wanted
        self.size = self.ahead = self._next_size()
        self._fetch_window(page)

    def _fetch_window(self, page: int) -> None:
        # The read would meet the mark that its own window sets: the window behind is fetched together with it.
        if page == self.start and self.size == self.ahead:
            more = self._next_size()
            fits = self.size + more <= self.limit
            self.ahead = more if fits else self.limit // 2
            self.size = self.size + more if fits else self.limit
        self._fetch(self.start, self.size, self.ahead)

    def _fetch(self, first: int, count: int, ahead: int) -> None:
        """Fetch the missing pages of a window; each run of them is queued by itself."""
        count = min(count, self.n_pages - first)
        run = first
        for page in range(first, first + count):
            if page in self.cached:
                self._queue(run, page)
                run = page + 1
            # PG_readahead: whoever reads this page has the next window fetched, before the pages run out.
            elif page == first + count - ahead:
                self.marked.add(page)
        self._queue(run, first + max(count, 0))

    def _queue(self, first: int, stop: int) -> None:
        if stop > first:
            self.windows.append((first, stop))
            self.cached.update(range(first, stop))

    def _first_size(self, wanted: int) -> int:
        # get_init_ra_size.
        rounded = 1 << max(wanted - 1, 0).bit_length()
        if rounded <= self.limit // 32:
            return rounded * 4
        return rounded * 2 if rounded <= self.limit // 4 else self.limit

    def _next_size(self) -> int:
        # get_next_ra_size.
        if self.size < self.limit // 16:
            return 4 * self.size
        return 2 * self.size if self.size <= self.limit // 2 else self.limit

    def _cached_before(self, page: int) -> int:
        """Count cached pages before one; the search's last page counts as missing even if it is not."""
        count = 0
        while count < self.limit - 1 and count < page and page - 1 - count in self.cached:
            count += 1
        return count

    def _next_missing(self, page: int) -> int:
        """Find the first missing page from one on; the search's last page is returned even if it is cached."""
        last = page + self.limit - 1
        while page < last and page < self.n_pages and page in self.cached:
            page += 1
        return page
