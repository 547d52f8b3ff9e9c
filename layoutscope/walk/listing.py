"""Listings: what reading a directory's names touches, buffer by buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.access.entries import listed_bytes, padded, stored_bytes
from layoutscope.arrays.ragged import starts_of
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.descent import Descent
    from layoutscope.access.model import Model


@frozen
class Buffers:
    """Fills of the listing's buffer, in the order of the walk; arrays of shape (n_buffers,)."""

    directory: NDArray[np.int64]  # place of the directory in the descent
    # first, count: entries that the buffer hands out
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    is_first: NDArray[np.bool_]  # whether it is the directory's first
    is_last: NDArray[np.bool_]  # whether no entry follows

    def __len__(self) -> int:
        return len(self.directory)


def whole_directories(descent: Descent) -> Buffers:
    """Treat each directory as one buffer."""
    every = np.ones(len(descent), bool)
    return Buffers(np.arange(len(descent)), descent.first, descent.count, every, every)


def buffers(model: Model, descent: Descent) -> Buffers:
    """Cut each directory into the buffers in which the host hands its names out."""
    large = _larger_than_a_buffer(model, descent)
    if not len(large):
        return whole_directories(descent)
    fills = [_fills(model, int(descent.first[place]), int(descent.count[place])) for place in large]
    cuts = np.ones(len(descent), np.int64)
    cuts[large] = [len(sizes) for sizes in fills]
    directory = np.repeat(np.arange(len(descent)), cuts)
    first, count = descent.first[directory], descent.count[directory]
    begins = starts_of(cuts)
    for place, sizes in zip(large, fills, strict=True):
        own = slice(begins[place], begins[place] + len(sizes))
        first[own] += starts_of(sizes)
        count[own] = sizes
    change = directory[1:] != directory[:-1]
    edge = np.ones(1, bool)
    return Buffers(directory, first, count, np.concatenate([edge, change]), np.concatenate([change, edge]))


def _larger_than_a_buffer(model: Model, descent: Descent) -> NDArray[np.int64]:
    host = model.host
    room = host.listing_buffer_bytes - host.listing_dots_bytes
    longest = int(padded(np.array([LONGEST_NAME_BYTES]), host.listing_entry_bytes)[0])
    # Few volumes have a directory that large; of the others no name needs to be measured.
    if int(descent.count.max(initial=0)) * longest <= room:
        return np.empty(0, np.int64)
    end = np.concatenate([[0], np.cumsum(stored_bytes(model.entries, host.listing_entry_bytes))])
    return np.flatnonzero(end[descent.first + descent.count] - end[descent.first] > room)


LONGEST_NAME_BYTES = 3 * 255
"""255 UTF-16 units take at most so many bytes in UTF-8."""


def _fills(model: Model, first: int, count: int) -> NDArray[np.int64]:
    """How many entries of one directory go into each buffer."""
    host = model.host
    length = listed_bytes(model.entries, slice(first, first + count), host.listing_entry_bytes)
    # Passed over by the driver before it counts room; read all the same.
    length[model.entries.is_hidden[first : first + count]] = 0
    end = np.cumsum(length)
    fills, done, room = [], 0, host.listing_buffer_bytes - host.listing_dots_bytes
    while done < count:
        taken = int(np.searchsorted(end, (end[done - 1] if done else 0) + room, side="right"))
        # A call returns one entry at least, or fails: no name is longer than a buffer.
        taken = max(taken, done + 1)
        fills.append(taken - done)
        done, room = taken, host.listing_buffer_bytes
    return np.array(fills, np.int64)


def read_ahead(cut: Buffers) -> NDArray[np.int64]:
    """How many entries are read for each buffer, shape (n_buffers,): those that it hands out, and one behind them."""
    # The driver puts an entry into the buffer after it has read it; so the one that does not fit has been read, and its
    # leaf belongs to this call, not to the next.
    return cut.count + ~cut.is_last


def behind_the_first(model: Model, descent: Descent, cut: Buffers) -> NDArray[np.int32] | None:
    """Leaf in which a backward listing sees that it has passed a directory's first record, -1 where there is none.

    It is the leaf before where a leaf begins with the directory's own records.

    None where nothing is listed backwards.
    """
    if not model.entries.backwards or not len(model.entries):
        return None
    own = descent.entry[cut.directory]
    end = np.where(own >= 0, model.entries.listing_end_node[np.maximum(own, 0)], -1)
    return np.where(cut.is_last, end, -1).astype(np.int32)


def buffer_start(model: Model, descent: Descent, cut: Buffers) -> NDArray[np.int32]:
    """Leaf that the search for each buffer ends in: where the listing starts, or that of the entry that did not fit."""
    start = model.driver.listing_start(model.entries, descent)[cut.directory]
    if not model.driver.resumes_by_search or not len(model.entries):
        return start
    return np.where(cut.is_first, start, model.entries.name_node[np.minimum(cut.first, len(model.entries) - 1)])
