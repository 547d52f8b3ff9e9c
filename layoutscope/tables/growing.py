"""Columns that grow while batches of rows are added, in memory that is touched once.

Parts in a list, put together in the end, take their memory twice, and fresh memory is dear: the system clears each page
of it when it is first touched. Room that was reserved and never touched costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

_MARGIN: Final = 1.1
"""How much more is reserved than the rows so far promise."""


class GrowingColumn:
    """One column that grows.

    Parameters
    ----------
    dtype : dtype, optional
        Of its values; that of the first ones if left out.

    Examples
    --------
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
        """Add values.

        Parameters
        ----------
        values : (n,) array
            The next ones; cast to the column's type.
        to_come : float
            How many times as many are likely to follow.
        """
        length = self._length + len(values)
        room = self._room
        if room is None or length > len(room):
            room = self._grown(values.dtype, length, int(len(values) * to_come * _MARGIN))
        room[self._length : length] = values
        self._room, self._length = room, length

    def _grown(self, dtype: DTypeLike, length: int, to_come: int) -> NDArray[Any]:
        if self._room is None:
            return np.empty(length + to_come, self._dtype or dtype)
        room = np.empty(max(length + to_come, length + length // 2), self._room.dtype)
        room[: self._length] = self._room[: self._length]
        return room

    @property
    def values(self) -> NDArray[Any]:
        """All values so far, shape (len(self),); a view that the next addition may leave behind."""
        room = np.empty(0, self._dtype) if self._room is None else self._room
        return room[: self._length]
