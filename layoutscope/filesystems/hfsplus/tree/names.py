"""Names: UTF-16 as it stands on the disk, and as people see them.

TN1150, "Unicode Subtleties". Names are decomposed and may hold any 16-bit unit: NULs, and halves of surrogate pairs.
A ``/`` on the disk stands for the ``:`` of Unix paths and is shown as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from layoutscope.arrays.ragged import owners, ranges, starts_of

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64, U8
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

    def take(self, rows: I64) -> StoredNames:
        """Return the names of some rows."""
        return StoredNames(self.data, self.start[rows], self.length[rows])


def sum_of_units(data: U8) -> tuple[int, int]:
    """Add up names that stand one behind the other: how many units there are, and their sum."""
    units = data.view(np.uint16)
    return len(units), int(units.sum(dtype=np.uint64))


def stored(texts: Texts, rows: I64) -> StoredNames:
    """Return names of some rows of a table that was decoded."""
    lengths = texts.length.astype(np.int64)
    return StoredNames(texts.data, starts_of(lengths)[rows], lengths[rows])


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
