"""Names as stored: UTF-8 with a zero byte at the end, gathered from many records at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Names:
    """Many names, one after the other.

    Attributes
    ----------
    data : (n_bytes,) uint8 array
        All of them, each with its zero byte.
    length : (n,) int64 array
        Bytes of each, the zero byte included.
    """

    data: NDArray[np.uint8]
    length: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.length)

    @property
    def start(self) -> NDArray[np.int64]:
        """Where each name starts in `data`."""
        return np.cumsum(self.length) - self.length

    def raw(self) -> list[bytes]:
        """Return the names without their zero bytes."""
        whole, start = self.data.tobytes(), self.start.tolist()
        return [whole[a : a + n].split(b"\0", 1)[0] for a, n in zip(start, self.length.tolist(), strict=True)]

    def columns(self) -> tuple[pl.Series, pl.Series]:
        """Return the names as text and as bytes.

        All at once where every name is valid; a damaged one is shown with replacement characters.
        """
        whole = self.data.tobytes()
        ends = np.cumsum(self.length) - 1
        regular = len(ends) and (self.length > 0).all() and not self.data[ends].any()
        if regular and np.count_nonzero(self.data == 0) == len(ends) and _is_utf8(whole):
            text = pl.Series([whole[:-1].decode()]).str.split("\0").explode()
            return text, text.cast(pl.Binary)
        raw = self.raw()
        return pl.Series([name.decode(errors="replace") for name in raw], dtype=pl.String), pl.Series(
            raw, dtype=pl.Binary
        )

    def text(self) -> pl.Series:
        """Return the names as text."""
        return self.columns()[0]

    def equal_to(self, name: bytes) -> NDArray[np.bool_]:
        """Tell which names are this one."""
        wanted = np.frombuffer(name + b"\0", np.uint8)
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
    """Copy names out of a buffer.

    Parameters
    ----------
    buffer : (n_bytes,) uint8 array
        Where they lie.
    start, length : (n,) int64 arrays
        In bytes; the zero byte counts.
    """
    first = np.cumsum(length) - length
    spots = np.repeat(start - first, length) + np.arange(int(length.sum()))
    return Names(buffer[spots], length)


def join_names(parts: list[Names]) -> Names:
    """Put names of several batches together."""
    return Names(np.concatenate([part.data for part in parts]), np.concatenate([part.length for part in parts]))
