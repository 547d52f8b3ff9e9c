"""Names: stored as UTF-8 with a zero byte at the end, gathered from many records at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from layoutscope.arrays.growing import GrowingColumn
from layoutscope.tables import series

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ASCII_LAST: Final = 0x7F
_CONTINUES, _CONTINUES_MASK = 0x80, 0xC0


@dataclass(frozen=True, slots=True)
class Names:
    """Many names, one after the other.

    Attributes
    ----------
    data : (n_bytes,) uint8 array
        All of them, without their zero bytes.
    length : (n,) integer array
        Bytes of each.
    """

    data: NDArray[np.uint8]
    length: NDArray[np.integer]

    def __len__(self) -> int:
        return len(self.length)

    @property
    def start(self) -> NDArray[np.int64]:
        """Where each name starts in `data`."""
        return np.cumsum(self.length, dtype=np.int64) - self.length

    def raw(self) -> list[bytes]:
        """Return the names as bytes."""
        whole, start = self.data.tobytes(), self.start.tolist()
        return [whole[first : first + size] for first, size in zip(start, self.length.tolist(), strict=True)]

    def columns(self) -> tuple[pl.Series, pl.Series]:
        """Return the names as text and as bytes.

        All at once where every name is valid; a damaged one is shown with replacement characters.
        """
        if self._is_text():
            text = series.cut("name", self.data, self.length.astype(np.int64), "text")
            return text, text.cast(pl.Binary)
        raw = self.raw()
        return pl.Series([name.decode(errors="replace") for name in raw], dtype=pl.String), pl.Series(
            raw, dtype=pl.Binary
        )

    def _is_text(self) -> bool:
        """Tell whether every name is valid UTF-8: all in one piece, and none begins inside of a character."""
        if int(self.data.max(initial=0)) <= _ASCII_LAST:
            return True
        firsts = self.data[self.start[self.length > 0]]
        return not ((firsts & _CONTINUES_MASK) == _CONTINUES).any() and _is_utf8(self.data.tobytes())

    def text(self) -> pl.Series:
        """Return the names as text."""
        return self.columns()[0]

    def equal_to(self, name: bytes) -> NDArray[np.bool_]:
        """Tell which names are this one."""
        wanted = np.frombuffer(name, np.uint8)
        same: NDArray[np.bool_] = self.length == len(wanted)
        rows = np.flatnonzero(same)
        spots = self.start[rows][:, None] + np.arange(len(wanted))
        same[rows] = (self.data[spots] == wanted).all(axis=1) if len(rows) else False
        return same


def _is_utf8(whole: bytes) -> bool:
    try:
        whole.decode()
    except UnicodeDecodeError:
        return False
    return True


def gather_names(buffer: NDArray[np.uint8], start: NDArray[np.int64], length: NDArray[np.int64]) -> Names:
    """Copy names out of a buffer; a zero byte ends a name wherever it stands.

    Parameters
    ----------
    buffer : (n_bytes,) uint8 array
        Where they lie.
    start, length : (n,) int64 arrays
        In bytes; the zero byte counts.
    """
    stop = start + length
    size = np.where((length > 0) & (buffer[stop - 1] == 0), length - 1, length)
    names = Names(_gathered(buffer, start, size), size)
    return names if names.data.all() else of_bytes([name.split(b"\0", 1)[0] for name in names.raw()])


def _gathered(buffer: NDArray[np.uint8], start: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Copy pieces of a buffer, those of one length at once, through views in which item i is the bytes from i on."""
    target = np.cumsum(length) - length
    out = np.empty(int(length.sum()), np.uint8)
    order = np.argsort(length.astype(np.uint16), kind="stable")
    stops = np.cumsum(np.bincount(length))
    for size in (np.flatnonzero(np.diff(stops)) + 1).tolist():
        rows = order[stops[size - 1] : stops[size]]
        _items(out, size)[target[rows]] = _items(buffer, size)[start[rows]]
    return out


def _items(data: NDArray[np.uint8], size: int) -> NDArray[np.void]:
    return np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))


class GrowingNames:
    """Names that are added batch by batch; see :class:`~layoutscope.arrays.growing.GrowingColumn`."""

    __slots__ = ("_data", "_length")

    def __init__(self) -> None:
        self._data, self._length = GrowingColumn(np.uint8), GrowingColumn(np.uint16)

    def add(self, names: Names, to_come: float = 0.0) -> None:
        """Add names; `to_come` times as many are likely to follow."""
        self._data.add(names.data, to_come)
        self._length.add(names.length, to_come)

    @property
    def values(self) -> Names:
        """All names so far."""
        return Names(self._data.values, self._length.values)


def of_bytes(raw: list[bytes]) -> Names:
    """Make names of byte strings."""
    return Names(np.frombuffer(b"".join(raw), np.uint8), np.array([len(name) for name in raw], np.int64))
