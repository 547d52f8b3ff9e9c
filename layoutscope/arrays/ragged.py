"""Ragged rows: what loops over lists of different lengths would do, without the loops.

`counts` says how many items each of n owners has; the items of all owners lie end to end. Equal neighbours in an array
are such owners too: :func:`heads` tells where each of their runs begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from layoutscope.native.library import Kernel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import DTypeLike


def starts_of(counts: NDArray[np.integer[Any]]) -> I64:
    """Where the items of each owner start, shape (n,): the sum of all counts before.

    >>> starts_of(np.array([2, 0, 3])).tolist()
    [0, 2, 2]
    """
    starts = np.cumsum(counts, dtype=np.int64)
    starts -= counts
    return starts


def owners(counts: NDArray[np.integer[Any]]) -> I64:
    """Whose each item is, shape (sum of counts,).

    >>> owners(np.array([2, 0, 3])).tolist()
    [0, 0, 2, 2, 2]
    """
    return np.repeat(np.arange(len(counts), dtype=np.int64), counts)


def ordinals(counts: NDArray[np.integer[Any]]) -> I64:
    """Which of its owner's items each item is, shape (sum of counts,).

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
    """Rows where one of the keys, (n,) arrays, differs from the row before; the first row is one.

    >>> heads(np.array([7, 7, 4, 4, 4])).tolist()
    [0, 2]
    >>> heads(np.array([7, 7, 4, 4, 4]), np.array([1, 1, 1, 2, 2])).tolist()
    [0, 2, 3]
    """
    return np.flatnonzero(is_head(*keys))


def is_head(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the rows that :func:`heads` names, shape (n,)."""
    marked = np.ones(len(keys[0]), np.bool_)
    if len(marked):
        marked[1:] = keys[0][1:] != keys[0][:-1]
        for key in keys[1:]:
            marked[1:] |= key[1:] != key[:-1]
    return marked


def lengths_of(starts: I64, total: int) -> I64:
    """How long runs are that begin at ascending `starts` and fill `total` rows, shape (n,).

    >>> lengths_of(np.array([0, 2]), 5).tolist()
    [2, 3]
    """
    return np.diff(starts, append=total)


def interleave(parts: Sequence[I64]) -> list[I64]:
    """Tell where runs go that alternate: group 0 of every part in turn, then group 1 of every part.

    >>> [part.tolist() for part in interleave([np.array([1, 2]), np.array([2, 0])])]
    [[0, 3, 4], [1, 2]]
    """
    together = np.stack(parts, axis=1)
    # Row by row, the array of lengths has the runs in the order in which they stand merged.
    start = starts_of(together.ravel()).reshape(together.shape)
    return [ranges(start[:, i], together[:, i]) for i in range(len(parts))]


U8: TypeAlias = NDArray[np.uint8]
I64: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Columns: TypeAlias = dict[str, NDArray[Any]]

LARGEST: Final = 2**63 - 1


def concatenate(parts: Sequence[Columns], empty: Columns) -> Columns:
    """Join batches of equal columns; `empty` says what no batch at all looks like."""
    if not parts:
        return empty
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def signed(values: NDArray[Any]) -> I64:
    """Turn 64-bit sizes into signed ones; impossible ones become the largest."""
    if values.dtype != np.uint64:
        return values.astype(np.int64)
    clipped: I64 = np.minimum(values, np.uint64(LARGEST)).astype(np.int64)
    return clipped


COPY_PIECES: Final = Kernel("copy_pieces", "blllB")


def copy_pieces(
    source: U8,
    offsets: I64,  # offsets, lengths: where each piece lies there, in bytes
    lengths: I64,
    places: I64,
    target: U8,
) -> None:
    """Copy pieces of bytes."""
    COPY_PIECES(source, offsets, lengths, places, target)


def take_ranges(values: NDArray[Any], starts: I64, counts: I64) -> NDArray[Any]:
    """Return ranges of rows, one behind the other.

    >>> take_ranges(np.array([7, 8, 9]), np.array([2, 0]), np.array([1, 2])).tolist()
    [9, 7, 8]
    """
    width = values[:1].nbytes
    if not width or not values.flags.c_contiguous:
        return values[ranges(starts, counts)]
    if not values.any():
        # What nobody writes takes no memory.
        return np.zeros((int(counts.sum()), *values.shape[1:]), values.dtype)
    found = np.empty((int(counts.sum()), *values.shape[1:]), values.dtype)
    source, target = (each.reshape(-1).view(np.uint8) for each in (values, found))
    COPY_PIECES(source, starts * width, counts * width, starts_of(counts) * width, target)
    return found


_MARGIN: Final = 1.1
"""How much more is reserved than the rows so far promise."""


class GrowingColumn:
    """One column that grows.

    >>> column = GrowingColumn()
    >>> column.add(np.array([1, 2]), to_come=1.0)
    >>> column.add(np.array([3]))
    >>> column.values.tolist()
    [1, 2, 3]
    """

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
        room[self._length : length] = values
        self._room, self._length = room, length

    def room(
        self,
        least: int = 0,  # how many values it must hold
        used: int = 0,  # how many of those that are there are kept if it must grow for that
    ) -> NDArray[Any]:
        """Return all that is reserved, for one who fills and counts it; zeros where nobody wrote."""
        room = self._room
        if room is None or least > len(room):
            grown = np.zeros(least, self._dtype if room is None else room.dtype)
            if room is not None:
                grown[:used] = room[:used]
            self._room = room = grown
        return room

    def _grown(self, values: NDArray[Any], length: int, to_come: int) -> NDArray[Any]:
        if self._room is None:
            return np.empty((length + to_come, *values.shape[1:]), self._dtype or values.dtype)
        # Half as much again where less was promised than came: all copies together stay linear in the rows.
        room = np.empty((max(length + to_come, length + length // 2), *values.shape[1:]), self._room.dtype)
        room[: self._length] = self._room[: self._length]
        return room

    @property
    def values(self) -> NDArray[Any]:
        """All values so far, shape (len(self),) or (len(self), k); a view that the next addition may leave behind."""
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
        """All rows so far; views that the next addition may leave behind."""
        return {name: column.values for name, column in self._columns.items()}

    def give_up(self, starts: I64, counts: I64) -> dict[str, NDArray[Any]]:
        """Return ranges of rows; each column is let go as it has been copied, so that no two tables are held."""
        return {name: take_ranges(self._columns.pop(name).values, starts, counts) for name in list(self._columns)}
