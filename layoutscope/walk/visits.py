"""What a walk over directories does, buffer by buffer of their listings, and what an unlimited cache reads for it.

The touches of a walk are several times as many as there are files. They are laid out only for who must see all of them;
the native core asks the cache for each as it comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.touches import CODE, Touches, columns, concatenated, merged, touches
from layoutscope.arrays.ragged import ranges, starts_of
from layoutscope.frozen import frozen
from layoutscope.native import Kernel
from layoutscope.walk.cache import NodeCache, read_once

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.model import Model

    I64 = NDArray[np.int64]

VISIT_ONCE: Final = Kernel("visit_once", "ciiibccbniiBBCIBL")


@frozen
class Searches:
    """What is searched for an entry, and how long the host takes for it."""

    # leaves in which the searches end, -1 for none: an array a search, in the order of the table of entries
    nodes: tuple[NDArray[np.int32], ...] = ()
    causes: tuple[str, ...] = ()  # why each search is made
    host_us: tuple[float, ...] = ()  # host time of each

    def of(self, entries: I64, directory_id: NDArray[np.uint64]) -> Touches:
        """Search some entries, one after the other."""
        return columns([each[entries] for each in self.nodes], self.causes, directory_id, self.host_us)


@frozen
class Visits:
    """What is done for each fill of a listing's buffer, in this order; arrays of shape (n_buffers,)."""

    directory_id: NDArray[np.uint64]  # the directory that is listed
    # first, count: the entries that the buffer hands out
    first: I64
    count: I64
    start: NDArray[np.int32]  # leaf that the search for the listing ends in
    start_us: NDArray[np.float32]  # host time of that search, and of listing what it leads to
    leaf: NDArray[np.int32]  # leaf with the name of each entry
    looked_up: Searches  # what the look-up of an entry searches
    wanted: NDArray[np.bool_]  # entries that are looked up when the buffer is there
    parent_id: NDArray[np.uint64]  # the directory of each entry
    way: Touches  # what leads to where the walk starts
    before: I64 | None = None  # the entry that is looked up first, -1 for none
    ahead: I64 | None = None  # entries, from the first on, whose leaves the listing enters
    listed: Searches = Searches()  # what is searched for each entry as it is listed
    behind: NDArray[np.int32] | None = None  # leaf in which the listing ends, -1 for none

    def laid_out(self) -> tuple[Touches, I64]:
        """Lay out all touches but those on the way to the start; how many belong to each buffer."""
        listed, per_listing = self._listings()
        every = ranges(self.first, self.count)
        is_wanted = self.wanted[every]
        after, per_after = self._looked_up(every[is_wanted], _sums(is_wanted, self.count))
        found, per_buffer = merged(listed, after, per_listing, per_after), per_listing + per_after
        if self.before is None:
            return found, per_buffer
        before, per_before = self._looked_up(self.before[self.before >= 0], (self.before >= 0).astype(np.int64))
        return merged(before, found, per_before, per_buffer), per_before + per_buffer

    def touches(self) -> Touches:
        """Lay out all touches, those on the way to the start first."""
        return concatenated([self.way, self.laid_out()[0]])

    def _looked_up(self, entries: I64, per_buffer: I64) -> tuple[Touches, I64]:
        return self.looked_up.of(entries, self.parent_id[entries]), per_buffer * len(self.looked_up.nodes)

    def _listings(self) -> tuple[Touches, I64]:
        """Leaf where the listing starts, then what each entry needs or what the cursor enters, then where it ends."""
        body, per_body = self._leaves_entered() if self.ahead is not None else self._searched_with_names()
        once = np.ones(len(self.start), np.int64)
        begun = touches(self.start, "list", self.directory_id)
        begun.host_us[:] = self.start_us
        found, per_buffer = merged(begun, body, once, per_body), per_body + 1
        if self.behind is None:
            return found, per_buffer
        is_there = self.behind >= 0
        ends = touches(self.behind[is_there], "next", self.directory_id[is_there])
        return merged(found, ends, per_buffer, is_there.astype(np.int64)), per_buffer + is_there

    def _searched_with_names(self) -> tuple[Touches, I64]:
        every = ranges(self.first, self.count)
        return self.listed.of(every, self.parent_id[every]), self.count * len(self.listed.nodes)

    def _leaves_entered(self) -> tuple[Touches, I64]:
        """Leaves that each buffer's names lie in, one after the other."""
        ahead = self.count if self.ahead is None else self.ahead
        leaf = self.leaf[ranges(self.first, ahead)]
        is_new = np.ones(len(leaf), bool)
        is_new[1:] = leaf[1:] != leaf[:-1]
        is_new[starts_of(ahead)[ahead > 0]] = True
        per_buffer = _sums(is_new, ahead)
        return touches(leaf[is_new], "next", np.repeat(self.directory_id, per_buffer)), per_buffer


def _sums(marks: NDArray[np.bool_], counts: I64) -> I64:
    """How many marks each of some owners has, whose marks lie end to end."""
    running = np.concatenate([[0], np.cumsum(marks)])
    begins = starts_of(counts)
    found: I64 = running[begins + counts] - running[begins]
    return found


def visited(visits: Visits, model: Model) -> tuple[Touches, NDArray[np.float64]]:
    """Find what an unlimited cache reads for a walk that knows nothing at first."""
    return natively_visited(visits, model) or plain_visited(visits, model)


def plain_visited(visits: Visits, model: Model) -> tuple[Touches, NDArray[np.float64]]:
    """Find it in all touches, laid out; the twin of the kernel."""
    needed = visits.touches()
    reads, touch = read_once(needed, model, len(model.nodes))
    return reads, clock_at(needed, touch)


def clock_at(needed: Touches, touch: I64, begin: int = 0) -> NDArray[np.float64]:
    """Tell the host's time at a touch, before each of some others, and in the end, in microseconds."""
    clock = np.zeros(len(needed) + 1)
    np.cumsum(needed.host_us, dtype=np.float64, out=clock[1:])
    return np.concatenate([clock[[begin]], clock[touch], clock[-1:]])


def natively_visited(visits: Visits, model: Model) -> tuple[Touches, NDArray[np.float64]] | None:
    """Let the kernel find it; None where it does not run, or ways of a damaged volume are loops."""
    room = len(model.nodes)
    cache = NodeCache.empty(model, room)
    begun = cache.read(visits.way, model)
    if begun is None:
        return None
    at_us = clock_at(visits.way, begun[1])
    node, cause, directory_id = np.empty(room, np.int32), np.empty(room, np.uint8), np.empty(room, np.int64)
    searches = [*visits.listed.causes, *visits.looked_up.causes]
    causes = [CODE[name] for name in ("list", "next", "index", model.driver.locator_cause, *searches)]
    search_us = np.array([*visits.listed.host_us, *visits.looked_up.host_us], np.float32)
    clock, read_us = at_us[-1:].copy(), np.empty(room)
    count = VISIT_ONCE(
        _buffers(visits), *map(_flat, (visits.start, visits.behind, visits.leaf)),
        np.ascontiguousarray(visits.wanted).view(np.uint8),
        [_flat(each) for each in visits.listed.nodes], [_flat(each) for each in visits.looked_up.nodes],
        np.array(causes, np.uint8), int(model.driver.leaves_are_chained),
        *cache, [np.ascontiguousarray(visits.start_us, np.float32), search_us, clock, read_us],
        node, cause, directory_id,
    )  # fmt: skip
    if count is None:
        return None
    found = Touches(node[:count], cause[:count], directory_id[:count].view(np.uint64), np.zeros(count, np.float32))
    return concatenated([begun[0], found]), np.concatenate([at_us[:-1], read_us[:count], clock])


def _flat(column: NDArray[np.int32] | None) -> NDArray[np.int32]:
    return np.empty(0, np.int32) if column is None else np.ascontiguousarray(column, np.int32)


def _buffers(visits: Visits) -> list[NDArray[np.int64]]:
    """Return the columns of buffers as the kernel takes them; those that nobody has are empty."""
    none = np.empty(0, np.int64)
    before, before_id = none, none
    if visits.before is not None:
        before = visits.before
        before_id = visits.parent_id[np.maximum(before, 0)].astype(np.int64) if len(visits.parent_id) else before
    many = (visits.directory_id, visits.first, visits.count, none if visits.ahead is None else visits.ahead)
    return [np.ascontiguousarray(each).astype(np.int64, copy=False) for each in (*many, before, before_id)]
