"""Columns that grow while batches of rows are added, in memory that is touched once.

Parts in a list, put together in the end, take their memory twice, and fresh memory is dear: the system clears each page
of it when it is first touched. Room that was reserved and never touched costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.pieces import take_ranges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import DTypeLike, NDArray

    from layoutscope.arrays.columns import I64

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
