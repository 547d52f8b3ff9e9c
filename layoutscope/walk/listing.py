"""Listings: what reading a directory's names touches, buffer by buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.access.entries import listed_bytes, padded, stored_bytes
from layoutscope.access.touches import CODE, Touches, touches
from layoutscope.arrays.ragged import ranges, starts_of
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.descent import Descent
    from layoutscope.access.model import Model


@frozen
class Buffers:
    """Fills of the listing's buffer, in the order of the walk; arrays of shape (n_buffers,).

    Attributes
    ----------
    directory : int64 array
        Place of the directory in the descent.
    first, count : int64 arrays
        Entries that the buffer hands out.
    is_first : bool array
        Whether it is the directory's first.
    is_last : bool array
        Whether no entry follows.
    """

    directory: NDArray[np.int64]
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    is_first: NDArray[np.bool_]
    is_last: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.directory)

    def entries(self) -> NDArray[np.int64]:
        """Return the entries of all buffers, one after the other."""
        return ranges(self.first, self.count)


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


def listing_touches(model: Model, descent: Descent, cut: Buffers) -> tuple[Touches, NDArray[np.int64]]:
    """List: the leaf where the listing starts, then each leaf that the cursor enters.

    Parameters
    ----------
    model : Model
        The volume and its host.
    descent : Descent
        The directories in the order of the walk.
    cut : Buffers
        Their listings, buffer by buffer.

    Returns
    -------
    Touches, (n_buffers,) int64 array
        The touches, and how many belong to each buffer.

    Notes
    -----
    The entry that no longer fits into a buffer has been read already when the buffer is handed out.
    """
    entered, per_buffer = _leaves_entered(model, cut)
    behind = _behind_the_first(model, descent, cut)
    ends = np.flatnonzero(behind >= 0)
    total = per_buffer + 1 + (behind >= 0)
    head = starts_of(total)
    tail = head[ends] + total[ends] - 1
    node = np.empty(int(total.sum()), np.int32)
    is_body = np.ones(len(node), bool)
    is_body[head] = is_body[tail] = False
    node[head], node[tail], node[is_body] = buffer_start(model, descent, cut), behind[ends], entered
    cause = np.full(len(node), CODE["next"], np.uint8)
    cause[head] = CODE["list"]
    listed = touches(node, cause, np.repeat(descent.directory_id[cut.directory], total))
    listed.host_us[head] = model.costs.search_us + model.costs.list_us * cut.count
    return listed, total


def _leaves_entered(model: Model, cut: Buffers) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Leaves that each buffer's names lie in, one after the other, and how many each buffer has."""
    # The driver puts an entry into the buffer after it has read it; so the one that does not fit has been read, and its
    # leaf belongs to this call, not to the next.
    ahead = cut.count + ~cut.is_last
    leaf = model.entries.name_node[ranges(cut.first, ahead)]
    begins = starts_of(ahead)
    is_new = np.ones(len(leaf), bool)
    is_new[1:] = leaf[1:] != leaf[:-1]
    is_new[begins[ahead > 0]] = True
    running = np.concatenate([[0], np.cumsum(is_new)])
    return leaf[is_new], running[begins + ahead] - running[begins]


def _behind_the_first(model: Model, descent: Descent, cut: Buffers) -> NDArray[np.int32]:
    """Leaf in which a backward listing sees that it has passed a directory's first record, -1 where there is none.

    It is the leaf before where a leaf begins with the directory's own records.
    """
    none = np.full(len(cut), -1, np.int32)
    if not model.entries.backwards or not len(model.entries):
        return none
    own = descent.entry[cut.directory]
    end = np.where(own >= 0, model.entries.listing_end_node[np.maximum(own, 0)], -1)
    return np.where(cut.is_last, end, none).astype(np.int32)


def buffer_start(model: Model, descent: Descent, cut: Buffers) -> NDArray[np.int32]:
    """Leaf that the search for each buffer ends in: where the listing starts, or that of the entry that did not fit.

    Parameters
    ----------
    model : Model
        The volume and its host.
    descent : Descent
        The directories in the order of the walk.
    cut : Buffers
        Their listings, buffer by buffer.
    """
    start = model.driver.listing_start(model.entries, descent)[cut.directory]
    if not model.driver.resumes_by_search or not len(model.entries):
        return start
    return np.where(cut.is_first, start, model.entries.name_node[np.minimum(cut.first, len(model.entries) - 1)])
