"""Names: UTF-16 as it stands on the disk, and as people see them.

TN1150, "Unicode Subtleties". Names are decomposed and may hold any 16-bit unit: NULs, and halves of surrogate pairs.
A ``/`` on the disk stands for the ``:`` of Unix paths and is shown as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from layoutscope.arrays.ragged import owners, ranges, starts_of
from layoutscope.tables import Later, TextColumn

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64, U8, Mask
    from layoutscope.ondisk.leaves import Texts

Units: TypeAlias = NDArray[np.uint16]
_Number = TypeVar("_Number", np.uint16, np.uint64)

UNIT_BYTES: Final = 2
ENCODING: Final = "utf-16-be"
COMPARED_AT_ONCE: Final = 1 << 16

_SLASH, _COLON = ord("/"), ord(":")
_IS_LITTLE: Final = bool(np.array([1], np.uint16).view(np.uint8)[0])


def gather(buffer: U8, starts: I64, counts: I64) -> Units:
    """Concatenate names of a buffer.

    Parameters
    ----------
    buffer : (n_bytes,) uint8 array
        An even number of bytes.
    starts : (n,) int64 array
        Where each name starts, in bytes; even, as keys are.
    counts : (n,) int64 array
        Lengths in 16-bit units.

    Returns
    -------
    (sum of counts,) uint16 array
        In native byte order.
    """
    return in_disk_order(buffer.view(np.uint16)[ranges(starts // UNIT_BYTES, counts)])


def shown(units: Units) -> str:
    """Decode one name; halves of surrogate pairs without the other half are replaced."""
    return units.tobytes().decode("utf-16-le" if _IS_LITTLE else ENCODING, "replace")


def in_disk_order(numbers: NDArray[_Number]) -> NDArray[_Number]:
    """Turn big-endian numbers into native ones, and back."""
    return numbers.byteswap() if _IS_LITTLE else numbers


class StoredNames(NamedTuple):
    """Names as they stand on the disk.

    Attributes
    ----------
    data : (n_bytes,) uint8 array
        Big-endian UTF-16.
    start, length : (n,) int64 arrays
        Where each name lies among these, in bytes.
    """

    data: U8
    start: I64
    length: I64

    def take(self, rows: NDArray[np.integer[Any]]) -> StoredNames:
        """Return the names of some rows."""
        return StoredNames(self.data, self.start[rows], self.length[rows])


def sum_of_units(data: U8) -> tuple[int, int]:
    """Add up names that stand one behind the other: how many units there are, and their sum."""
    units = data.view(np.uint16)
    return len(units), int(units.sum(dtype=np.uint64))


def stored(texts: Texts | TextColumn, rows: NDArray[np.integer[Any]] | None) -> StoredNames:
    """Return names of some rows of a table that was decoded, or of all."""
    lengths = texts.length.astype(np.int64)
    start = starts_of(lengths)
    return (
        StoredNames(texts.data, start, lengths).take(rows)
        if rows is not None
        else StoredNames(texts.data, start, lengths)
    )


def told_by(shown: TextColumn, raw: TextColumn) -> TextColumn | Later:
    """Return names as stored, without those bytes that the names that are shown tell: twice as many, of most names.

    Parameters
    ----------
    shown, raw : TextColumn
        The same names in the same order, as people see them and as stored.
    """
    # UTF-8 has one byte for a unit of 16 bits in ASCII alone. A colon on the disk, which is none of a name's
    # characters, is shown as one, and so is a slash: where both are, nothing tells them apart.
    is_plain = raw.length == UNIT_BYTES * shown.length
    num_slashes = np.count_nonzero(raw.data.view(np.uint16) == in_disk_order(np.array([_SLASH], np.uint16)))
    if num_slashes != np.count_nonzero(shown.data == _COLON):
        return raw
    others = raw.data[np.repeat(~is_plain, raw.length)] if not is_plain.all() else raw.data[:0].copy()
    lengths = raw.length if len(others) else None
    return Later(len(shown), lambda: _widened(shown, is_plain, lengths, others))


def _widened(shown: TextColumn, is_plain: Mask, lengths: NDArray[np.integer[Any]] | None, others: U8) -> TextColumn:
    """Make names of ASCII those that are stored, and put the bytes of all others between them."""
    data = np.zeros((len(shown.data), UNIT_BYTES), np.uint8)
    data[:, 1] = np.where(shown.data == _COLON, np.uint8(_SLASH), shown.data)
    if lengths is None:
        return TextColumn(data.reshape(-1), UNIT_BYTES * shown.length, shown.rows)
    merged, is_mine = np.empty(int(lengths.sum(dtype=np.int64)), np.uint8), np.repeat(is_plain, lengths)
    merged[is_mine] = data[np.repeat(is_plain, shown.length)].reshape(-1)
    merged[~is_mine] = others
    return TextColumn(merged, lengths, shown.rows)


def differ(first: StoredNames, second: StoredNames) -> NDArray[np.bool_]:
    """Say which names are not the same in both; there are as many."""
    found: NDArray[np.bool_] = first.length != second.length
    same = np.flatnonzero(~found)
    for start in range(0, len(same), COMPARED_AT_ONCE):
        rows = same[start : start + COMPARED_AT_ONCE]
        lengths = first.length[rows]
        places = ranges(first.start[rows], lengths), ranges(second.start[rows], lengths)
        found[rows[owners(lengths)[first.data[places[0]] != second.data[places[1]]]]] = True
    return found


def as_shown(texts: Texts) -> U8:
    """Turn names in UTF-8 into those that people see, in which ``/`` becomes ``:``; returns the same bytes."""
    # HFS separates names by colons, so that a slash may stand in one; Unix paths, which it would split, show a colon.
    texts.data[texts.data == _SLASH] = _COLON
    return texts.data


def equals(buffer: U8, starts: I64, counts: I64, name: str) -> NDArray[np.bool_]:
    """Say which names of a buffer are this one.

    Parameters
    ----------
    buffer : (n_bytes,) uint8 array
        An even number of bytes.
    starts : (n,) int64 array
        Where each name starts, in bytes; even, as keys are.
    counts : (n,) int64 array
        Lengths in 16-bit units.
    name : str
        Compared unit by unit, with its case; it has no character beyond the first 65,536.

    Returns
    -------
    (n,) bool array
    """
    wanted = np.array([ord(character) for character in name], np.uint16)
    found: NDArray[np.bool_] = counts == len(wanted)
    candidates = np.flatnonzero(found)
    if len(candidates):
        units = gather(buffer, starts[candidates], counts[candidates]).reshape(-1, len(wanted))
        found[candidates] = (units == wanted).all(axis=1)
    return found
