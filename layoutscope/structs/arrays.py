"""Arithmetic on arrays that all packages share: ragged rows, look-ups, sets of runs, bitmaps, columns.

Nothing here depends on a format. Ragged rows are lists of different lengths: `counts` has the number of items of each
of n owners, and the items of all owners are contiguous. Equal neighbours in an array are such owners, too:
:func:`heads` finds where each of their runs begins. Look-ups in sorted and unsorted keys use no hashing: numbers of
inodes, files and streams have few gaps, so a table of all numbers in their range maps them to rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from layoutscope.display import Struct
from layoutscope.structs.native import Kernel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from numpy.typing import DTypeLike

U8: TypeAlias = NDArray[np.uint8]
U32: TypeAlias = NDArray[np.uint32]
I64: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Columns: TypeAlias = dict[str, NDArray[Any]]

LARGEST: Final = 2**63 - 1


class Rows(Struct, frozen=True):
    """Arrays of equal length, one row per item; other fields apply to all items."""

    def __len__(self) -> int:
        return len(next(value for value in astuple(self) if isinstance(value, np.ndarray | Rows)))

    def take(self, chosen: Any) -> Self:
        """Return some of the rows."""
        return type(self)(*(_take(value, chosen) for value in astuple(self)))

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of several parts, of which there is at least one."""
        return cls(*map(_join, zip(*map(astuple, parts), strict=True)))


def _take(value: Any, chosen: Any) -> Any:
    if isinstance(value, Rows):
        return value.take(chosen)
    return value[chosen] if isinstance(value, np.ndarray) else value


def _join(values: Sequence[Any]) -> Any:
    if isinstance(values[0], Rows):
        return values[0].join(values)
    return np.concatenate(values) if isinstance(values[0], np.ndarray) else values[0]


def starts_of(counts: NDArray[np.integer[Any]]) -> I64:
    """Return where the items of each owner start, shape (n,): the sum of all counts before.

    >>> starts_of(np.array([2, 0, 3])).tolist()
    [0, 2, 2]
    """
    starts = np.cumsum(counts, dtype=np.int64)
    starts -= counts
    return starts


def owners(counts: NDArray[np.integer[Any]]) -> I64:
    """Return the owner of each item, shape (sum of counts,).

    >>> owners(np.array([2, 0, 3])).tolist()
    [0, 0, 2, 2, 2]
    """
    return np.repeat(np.arange(len(counts), dtype=np.int64), counts)


def ordinals(counts: NDArray[np.integer[Any]]) -> I64:
    """Return the number of each item among its owner's items, shape (sum of counts,).

    >>> ordinals(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    found = np.arange(int(counts.sum()), dtype=np.int64)
    found -= np.repeat(starts_of(counts), counts)
    return found


def ranges(starts: NDArray[np.integer[Any]], counts: NDArray[np.integer[Any]]) -> I64:
    """Concatenate ``arange(starts[i], starts[i] + counts[i])`` of all owners.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    found = np.arange(int(counts.sum()), dtype=np.int64)
    found += np.repeat(starts - starts_of(counts), counts)
    return found


def heads(*keys: NDArray[Any]) -> I64:
    """Return the rows where one of the keys, (n,) arrays, differs from the previous row, and the first row.

    >>> heads(np.array([7, 7, 4, 4, 4])).tolist()
    [0, 2]
    >>> heads(np.array([7, 7, 4, 4, 4]), np.array([1, 1, 1, 2, 2])).tolist()
    [0, 2, 3]
    """
    return np.flatnonzero(is_head(*keys))


def is_head(*keys: NDArray[Any]) -> Mask:
    """Mark the rows that :func:`heads` returns, shape (n,)."""
    marked = np.ones(len(keys[0]), np.bool_)
    if len(marked):
        marked[1:] = keys[0][1:] != keys[0][:-1]
        for key in keys[1:]:
            marked[1:] |= key[1:] != key[:-1]
    return marked


def ranks_of(keys: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the number of each row in its run of equal keys, shape (n,)."""
    count, starts = len(keys), heads(keys)
    ranks = np.arange(count, dtype=np.uint32)
    ranks -= np.repeat(starts.astype(np.uint32), lengths_of(starts, count))
    return ranks


def lengths_of(starts: I64, total: int) -> I64:
    """Return the lengths of runs that begin at ascending `starts` and fill `total` rows, shape (n,)."""
    return np.diff(starts, append=total)


def concatenate(parts: Sequence[Columns], empty: Columns) -> Columns:
    """Join batches of equal columns; `empty` is the result for no batches."""
    if not parts:
        return empty
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def signed(values: NDArray[Any]) -> I64:
    """Convert 64-bit sizes to signed ones; values that do not fit become the largest."""
    if values.dtype != np.uint64:
        return values.astype(np.int64)
    clipped: I64 = np.minimum(values, np.uint64(LARGEST)).astype(np.int64)
    return clipped


COPY_PIECES: Final = Kernel("copy_pieces", "blllB")


def copy_pieces(
    source: U8,
    offsets: I64,  # offsets, lengths: place of each piece there, in bytes
    lengths: I64,
    places: I64,
    target: U8,
) -> None:
    """Copy pieces of bytes."""
    COPY_PIECES(source, offsets, lengths, places, target)


def take_ranges(values: NDArray[Any], starts: I64, counts: I64) -> NDArray[Any]:
    """Return ranges of rows, concatenated."""
    width = values[:1].nbytes
    if not width or not values.flags.c_contiguous:
        return values[ranges(starts, counts)]
    if not values.any():
        # Pages that are never written take no memory.
        return np.zeros((int(counts.sum()), *values.shape[1:]), values.dtype)
    found = np.empty((int(counts.sum()), *values.shape[1:]), values.dtype)
    source, target = (each.reshape(-1).view(np.uint8) for each in (values, found))
    COPY_PIECES(source, starts * width, counts * width, starts_of(counts) * width, target)
    return found


FIRST_PLACES: Final = Kernel("first_places", "lBL")
ORDER_NUMBERS: Final = Kernel("order_numbers", "lLL")

MAX_SPARSENESS: Final = 8
"""A table of a whole range of numbers is used if it has at most this many places per key."""

MAX_PLACES: Final = 256
"""Like :data:`MAX_SPARSENESS`, for a table of one byte per place that is used once."""

AT_ONCE: Final = 1 << 15
"""Numbers that are looked up together, so that intermediate results stay in the processor's cache."""

FEW_CODES: Final = 1024
"""Number of places up to which a table costs practically nothing."""


class Index(Struct, frozen=True):
    """Keys that can be looked up."""

    keys: NDArray[Any]  # ascending; the first of equal keys is found
    # row of each key if they were sorted for the look-up; None if rows and keys are in the same order
    order: I64 | None = None
    base: int = 0  # the smallest key
    # row of each number from `base` on, -1 if there is no such key; the last place is for all other numbers. None if
    # the numbers are too far apart.
    table: NDArray[np.int32] | None = None

    def find(self, wanted: NDArray[Any]) -> tuple[I64, Mask]:
        """Return the row of the first match of each key (any row if none matches), and whether a row matches."""
        if not len(self.keys):
            return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
        if self.table is None or wanted.dtype != self.keys.dtype:
            near = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
            found = self.keys[near] == wanted
            return (near if self.order is None else self.order[near]), found
        rows, found = np.empty(len(wanted), np.int64), np.empty(len(wanted), np.bool_)
        for start in range(0, len(wanted), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            # Values below the smallest wrap around to the largest, so one comparison covers both.
            place = (wanted[part] - wanted.dtype.type(self.base)).view(np.uint64)
            np.minimum(place, np.uint64(len(self.table) - 1), out=place)
            spot = self.table[place.view(np.int64)]
            np.greater_equal(spot, 0, out=found[part])
            np.maximum(spot, 0, out=rows[part])
        return rows, found


def index_of(keys: NDArray[Any]) -> Index:
    """Prepare keys, an (n,) array of 64-bit integers in any order, for look-ups."""
    if not len(keys):
        return Index(keys)
    base, span = int(keys.min()), int(keys.max()) - int(keys.min())
    if span >= MAX_SPARSENESS * len(keys) or keys.dtype.itemsize != np.dtype(np.int64).itemsize:
        if is_ascending(keys):
            return Index(keys)
        # If damage or an old copy of a leaf gave a number to two rows, the first row must be found.
        order = order_of(keys)
        return Index(keys[order], order)
    table = np.full(span + 2, -1, np.int32)
    # The last of several values written to one place stays; in reverse order, that is the first.
    for start in reversed(range(0, len(keys), AT_ONCE)):
        part = keys[start : start + AT_ONCE]
        place = (part - keys.dtype.type(base)).view(np.int64)
        table[place[::-1]] = np.arange(start, start + len(part), dtype=np.int32)[::-1]
    return Index(keys, None, base, table)


def match(keys: NDArray[Any], wanted: NDArray[Any]) -> tuple[I64, Mask]:
    """Return the row of the first match of each wanted key (any row if none matches), and whether a row matches."""
    return index_of(keys).find(wanted)


def find(keys: NDArray[Any], wanted: NDArray[Any]) -> I64:
    """Return the row of the first match of each wanted key, -1 if none matches; see :func:`match`."""
    rows, is_there = match(keys, wanted)
    rows[~is_there] = -1
    return rows


def is_among(values: NDArray[np.integer[Any]], known: NDArray[np.integer[Any]]) -> Mask:
    """Return which values are among others: block addresses, which are mostly dense enough for a table of all."""
    if not len(known):
        return np.zeros(len(values), bool)
    if int(known.max()) - int(known.min()) < MAX_PLACES * len(known):
        return np.isin(values, known, kind="table")
    ordered = np.sort(known)
    found: Mask = ordered[np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)] == values
    return found


def last_at_most(bounds: NDArray[np.uint64], keys: NDArray[np.uint64]) -> I64:
    """Return the position of the last ascending bound that is not greater than each key, -1 if all are greater.

    Ascending keys are merged with the bounds.
    """
    if len(keys) <= len(bounds) or not is_ascending(keys):
        return np.searchsorted(bounds, keys, side="right") - 1
    # It is faster to look up the shorter of two ascending lists in the longer one.
    stops = np.searchsorted(keys, bounds, side="left")
    counts = np.diff(stops, prepend=0, append=len(keys))
    return np.repeat(np.arange(-1, len(bounds)), counts)


def order_of(values: NDArray[np.integer[Any]]) -> I64:
    """Return the order that sorts numbers, stable, like ``np.argsort``."""
    if values.dtype != np.int64:
        return np.argsort(values, kind="stable")
    order, scratch = (np.empty(len(values), np.int64) for _ in range(2))
    ORDER_NUMBERS(np.ascontiguousarray(values), order, scratch)
    return order


def is_ascending(values: NDArray[Any]) -> bool:
    """Return whether no value is less than the previous one."""
    return bool((values[1:] >= values[:-1]).all())


def is_strictly_ascending(values: NDArray[Any]) -> bool:
    """Return whether each value is greater than the previous one."""
    return bool((values[1:] > values[:-1]).all())


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct values, ascending."""
    # ``np.unique`` imports masked arrays, which costs more than the work.
    ordered = np.sort(values)
    return ordered[heads(ordered)]


def dense_codes(*ids: NDArray[np.uint64]) -> tuple[list[I64], int]:
    """Convert identifiers to numbers below a small bound."""
    rows = sum(len(one) for one in ids)
    last = max((int(one.max()) for one in ids if len(one)), default=0)
    if last < MAX_SPARSENESS * rows + FEW_CODES:
        return [one.view(np.int64) for one in ids], last + 1
    known, codes = np.unique(np.concatenate(ids), return_inverse=True)
    parts = np.split(codes.reshape(-1).astype(np.int64), np.cumsum([len(one) for one in ids])[:-1])
    return list(parts), len(known)


def first_places(codes: NDArray[np.integer[Any]], bound: int) -> I64:
    """Return, in ascending order, the places of the first occurrence of each number from 0 to below a bound."""
    places = np.empty(len(codes), np.int64)
    count = FIRST_PLACES(np.ascontiguousarray(codes, np.int64), np.zeros(bound, np.uint8), places)
    return places[:count]


JOIN_RUNS: Final = Kernel("join_runs", "llL")
COMBINE_RUNS: Final = Kernel("combine_runs", "llnL")

ALL_SET: Final = 255
WORD_BYTES: Final = 8


MAX_REQUEST_BYTES: Final = 8 * 1024**2

GAP_BYTES: Final = 64 * 1024
"""Largest gap in a file or device that is read through: an SSD transfers that much in the time of a request, and a disk
waits for it to pass."""


def request_bounds(starts: I64, lengths: I64, gap_bytes: int) -> I64:
    """Return where each request's pieces begin in address order, and the end, shape (n_requests + 1,)."""
    ends = np.maximum.accumulate(starts + lengths)
    # Pieces may overlap, because clones and damaged pointers list blocks twice. Requests end at multiples of the
    # largest size, which bounds their memory, however much is contiguous.
    is_break = (starts[1:] - ends[:-1] > gap_bytes) | (np.diff(starts // MAX_REQUEST_BYTES) > 0) | (np.diff(starts) < 0)
    return np.concatenate([np.arange(min(len(starts), 1)), np.flatnonzero(is_break) + 1, [len(starts)]])


def runs_of(start: NDArray[Any], length: NDArray[Any]) -> I64:
    """Make a set from runs, which may be in any order and overlap.

    >>> runs_of(np.array([5, 0, 6]), np.array([2, 3, 4])).tolist()
    [[0, 3], [5, 5]]
    """
    first, count = np.asarray(start, np.int64), np.asarray(length, np.int64)
    if (count <= 0).any():
        first, count = first[count > 0], count[count > 0]
    if not len(first):
        return np.empty((0, 2), np.int64)
    if (first[1:] < first[:-1]).any():
        order = order_of(first)
        first, count = first[order], count[order]
    runs = np.empty((len(first), 2), np.int64)
    return _cut_off(runs, JOIN_RUNS(np.ascontiguousarray(first), np.ascontiguousarray(count), runs))


def _cut_off(runs: I64, count: int) -> I64:
    """Return the first runs, copied if they would keep much unused memory alive."""
    return runs[:count] if 2 * count > len(runs) else runs[:count].copy()


def union(sets: Sequence[I64]) -> I64:
    """Return the blocks that are in any of the sets."""
    distinct: list[I64] = []
    for runs in sets:
        if len(runs) and not any(np.array_equal(runs, other) for other in distinct):
            distinct.append(runs)
    if len(distinct) == 1 and is_set(distinct[0]):
        return distinct[0]
    table = np.concatenate([np.empty((0, 2), np.int64), *distinct])
    return runs_of(table[:, 0], table[:, 1])


def is_set(runs: I64) -> bool:
    """Return whether runs are sorted, nonempty, and separated by gaps, as in a set."""
    return bool((runs[:, 1] > 0).all() and (runs[1:, 0] > runs[:-1].sum(axis=1)).all())


def total(runs: I64) -> int:
    """Return the number of blocks in a set."""
    return int(runs[:, 1].sum())


def subtract(runs: I64, taken: I64) -> I64:
    """Return the blocks that are in the first set and not in the second."""
    return _combine(runs, taken, 1) if len(taken) else runs


def intersect(runs: I64, other: I64) -> I64:
    """Return the blocks that are in both sets."""
    if len(runs) and len(other) == 1 and other[0, 0] <= runs[0, 0] and runs[-1].sum() <= other[0].sum():
        return runs
    return _combine(runs, other, 3)


def _combine(runs: I64, other: I64, wanted: int) -> I64:
    """Return the stretches with the wanted membership (1 first, 2 second, 3 both)."""
    found = np.empty((len(runs) + len(other), 2), np.int64)
    return _cut_off(found, COMBINE_RUNS(np.ascontiguousarray(runs), np.ascontiguousarray(other), wanted, found))


def clear_runs(bitmaps: U8, num_bits: I64, bit_order: Literal["big", "little"]) -> tuple[I64, I64, I64]:
    """Find runs of clear bits.

    >>> runs = clear_runs(np.array([[0b11110011, 0b01111111]], np.uint8), np.array([16]), "little")
    >>> [part.tolist() for part in runs]
    [[0, 0], [2, 15], [2, 1]]
    """
    # Formats differ in which bit of a byte is the first block: TN1150 uses the highest, Apple's reference the lowest.
    rows, width = bitmaps.shape
    # At least one byte of ones follows each row, so every run has both edges within its row.
    num_words = width // WORD_BYTES + 1
    padded: U8 = np.full((rows, num_words * WORD_BYTES), ALL_SET, np.uint8)
    padded[:, :width] = bitmaps
    # Most of a bitmap is all zeros or all ones: such words have no edges if they equal the previous word. Everything
    # before a row counts as set.
    words = padded.view(np.uint64)
    is_mixed = (words != 0) & (words != ~np.uint64(0))
    is_mixed[:, 0] |= words[:, 0] == 0
    is_mixed[:, 1:] |= words[:, 1:] != words[:, :-1]
    row, column = np.nonzero(is_mixed)
    own: U8 = padded.reshape(rows, num_words, WORD_BYTES)
    found: U8 = own[row, column]
    before = np.empty_like(found)
    before[:, 1:] = found[:, :-1]
    before[:, 0] = np.where(column > 0, own[row, column - 1, -1], ALL_SET)
    one, seven = np.uint8(1), np.uint8(7)
    shifted = (found << one) | (before >> seven) if bit_order == "little" else (found >> one) | (before << seven)
    # Edges are the bits that differ from the previous one.
    word, bit = np.nonzero(np.unpackbits(found ^ shifted, axis=1, bitorder=bit_order))
    place = column[word] * 8 * WORD_BYTES + bit
    owner, first, stop = row[word][::2], place[::2], place[1::2]
    stop = np.minimum(stop, num_bits[owner])
    keep = stop > first
    return owner[keep], first[keep], (stop - first)[keep]


_MARGIN: Final = 1.1
"""Factor by which more is reserved than the rows so far suggest."""


def _put(values: NDArray[Any], room: NDArray[Any]) -> None:
    """Write values into zeros; columns of zeros are not touched."""
    for new, kept in zip(values.T, room.T, strict=True) if values.ndim > 1 else ((values, room),):
        if new.any():
            kept[:] = new


class GrowingColumn:
    """One column that grows; rows of zeros take no memory, because they are not written."""

    __slots__ = ("_dtype", "_length", "_room")

    def __init__(self, dtype: DTypeLike | None = None) -> None:
        self._dtype = dtype
        self._length = 0
        self._room: NDArray[Any] | None = None

    def __len__(self) -> int:
        return self._length

    def add(self, values: NDArray[Any], to_come: float = 0.0) -> None:
        """Add values."""
        length = self._length + len(values)
        room = self._room
        if room is None or length > len(room):
            room = self._grown(values, length, int(len(values) * to_come * _MARGIN))
        _put(values, room[self._length : length])
        self._room, self._length = room, length

    def _grown(self, values: NDArray[Any], length: int, to_come: int) -> NDArray[Any]:
        # Each of several numbers in a row is a column of its own.
        shape = values.shape[:0:-1]
        if self._room is None:
            return np.zeros((*shape, length + to_come), self._dtype or values.dtype).T
        # Grow by half if more rows came than expected, so that all copies together stay linear in the rows.
        room = np.zeros((*shape, max(length + to_come, length + length // 2)), self._room.dtype).T
        _put(self.values, room[: self._length])
        return room

    @property
    def values(self) -> NDArray[Any]:
        """All values so far, shape (len(self),) or (len(self), k); a view that the next addition may invalidate."""
        room = np.empty(0, self._dtype) if self._room is None else self._room
        return room[: self._length]


class GrowingTable:
    """Columns that grow together."""

    __slots__ = ("_columns",)

    def __init__(self, dtypes: Mapping[str, DTypeLike] | None = None) -> None:
        self._columns = {name: GrowingColumn(dtype) for name, dtype in (dtypes or {}).items()}

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()))) if self._columns else 0

    def add(self, rows: Mapping[str, NDArray[Any]], to_come: float = 0.0) -> None:
        """Add rows; `to_come` times as many are likely to follow."""
        if not self._columns:
            self._columns = {name: GrowingColumn() for name in rows}
        for name, column in self._columns.items():
            column.add(rows[name], to_come)

    @property
    def values(self) -> dict[str, NDArray[Any]]:
        """All rows so far; views that the next addition may invalidate."""
        return {name: column.values for name, column in self._columns.items()}

    def give_up(self, starts: I64, counts: I64) -> dict[str, NDArray[Any]]:
        """Return ranges of rows; each column is freed after it has been copied, so two tables never exist at once."""
        return {name: take_ranges(self._columns.pop(name).values, starts, counts) for name in list(self._columns)}
