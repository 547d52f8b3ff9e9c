"""Names of many records, stored as UTF-8 with a zero byte at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.frozen import frozen
from layoutscope.tables import TextColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ASCII_LAST: Final = 0x7F
_CONTINUES, _CONTINUES_MASK = 0x80, 0xC0


@frozen
class Names:
    """Many names, one after the other."""

    # Lengths on the disk count the zero byte, these do not.
    data: NDArray[np.uint8]  # all of them, without their zero bytes
    length: NDArray[np.integer]  # bytes of each

    def __len__(self) -> int:
        return len(self.length)

    @property
    def start(self) -> NDArray[np.int64]:
        """Where each name starts in `data`."""
        return np.cumsum(self.length, dtype=np.int64) - self.length

    def take(self, chosen: NDArray[np.bool_]) -> Names:
        """Return some of the names."""
        return Names(self.data[np.repeat(chosen, self.length)], self.length[chosen])

    def raw(self) -> list[bytes]:
        """Return the names as bytes."""
        whole, start = self.data.tobytes(), self.start.tolist()
        return [whole[first : first + size] for first, size in zip(start, self.length.tolist(), strict=True)]

    def columns(self) -> tuple[TextColumn, TextColumn]:
        """Return the names as text and as bytes.

        All at once where every name is valid; a damaged one is shown with replacement characters.
        """
        if self.is_text():
            return (TextColumn(self.data, self.length),) * 2
        return TextColumn.of([name.decode(errors="replace") for name in self.raw()]), TextColumn(self.data, self.length)

    def is_text(self) -> bool:
        """Tell whether every name is valid UTF-8: all in one piece, and none begins inside of a character."""
        if int(self.data.max(initial=0)) <= _ASCII_LAST:
            return True
        firsts = self.data[self.start[self.length > 0]]
        return not ((firsts & _CONTINUES_MASK) == _CONTINUES).any() and _is_utf8(self.data.tobytes())

    def text(self) -> TextColumn:
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
