"""Names: UTF-16 as it stands on the disk, and as people see them.

TN1150, "Unicode Subtleties". Names are decomposed and may hold any 16-bit unit: NULs, and halves of surrogate pairs.
A ``/`` on the disk stands for the ``:`` of Unix paths and is shown as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from layoutscope.arrays.pieces import take_ranges
from layoutscope.arrays.ragged import owners, ranges, starts_of
from layoutscope.ondisk.leaves import Texts
from layoutscope.tables import TextColumn

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64, U8

Units: TypeAlias = NDArray[np.uint16]
_Number = TypeVar("_Number", np.uint16, np.uint64)

UNIT_BYTES: Final = 2
ENCODING: Final = "utf-16-be"
COMPARED_AT_ONCE: Final = 1 << 16

_SLASH, _COLON = ord("/"), ord(":")
_IS_LITTLE: Final = bool(np.array([1], np.uint16).view(np.uint8)[0])


def gather(
    buffer: U8,
    starts: I64,  # where each name starts, in bytes; even, as keys are
    counts: I64,
) -> Units:
    """Concatenate names of a buffer."""
    return in_disk_order(take_ranges(buffer.view(np.uint16), starts // UNIT_BYTES, counts))


def shown(units: Units) -> str:
    """Decode one name; halves of surrogate pairs without the other half are replaced."""
    return units.tobytes().decode("utf-16-le" if _IS_LITTLE else ENCODING, "replace")


def in_disk_order(numbers: NDArray[_Number]) -> NDArray[_Number]:
    """Turn big-endian numbers into native ones, and back."""
    return numbers.byteswap() if _IS_LITTLE else numbers


class StoredNames(NamedTuple):
    """Names as they stand on the disk."""

    data: U8  # big-endian UTF-16
    # start, length: where each name lies among these, in bytes
    start: I64
    length: I64

    def take(self, rows: NDArray[np.integer[Any]]) -> StoredNames:
        """Return the names of some rows."""
        return StoredNames(self.data, self.start[rows], self.length[rows])


def stored(texts: Texts | TextColumn, rows: NDArray[np.integer[Any]] | None) -> StoredNames:
    """Return names of some rows of a table that was decoded, or of all."""
    lengths = texts.length.astype(np.int64)
    start = starts_of(lengths)
    return (
        StoredNames(texts.data, start, lengths).take(rows)
        if rows is not None
        else StoredNames(texts.data, start, lengths)
    )


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


class KeptNames(NamedTuple):
    """Names as people see them, and as stored where these do not tell it: most names take half the bytes so."""

    shown: TextColumn  # UTF-8, in which a colon stands for a slash
    # as stored, in the order of the texts of `shown`: nothing of names that are told by these. No row where all are.
    others: Texts

    @classmethod
    def of(cls, text: Texts, others: Texts, rows: NDArray[np.integer[Any]] | None) -> KeptNames:
        """Keep names that were decoded, whose UTF-8 becomes what people see."""
        # A colon on the disk, which is none of a name's characters, is shown as one, and so is a slash: where one is,
        # what is shown tells nothing.
        if (text.data == _COLON).any():
            others = widened(text, others)
        shown = TextColumn(as_shown(text), text.length, rows)
        return cls(shown, others if len(others.data) else Texts(others.data[:0].copy(), others.length[:0].copy()))

    def stored(self) -> TextColumn:
        """Return all names as stored."""
        shown = self.shown
        units = np.where(shown.data == _COLON, np.uint8(_SLASH), shown.data)
        return TextColumn(*widened(Texts(units, shown.length.astype(np.uint32, copy=False)), self.others), shown.rows)

    def placed(self) -> tuple[U8, I64, NDArray[np.int32], U8, I64, NDArray[np.int32]]:
        """Return the bytes of names, and start and length of each row's: of those shown, and of the others."""
        return (*_placed(self.shown, self.shown.rows), *_placed(self.others, self.shown.rows))


def _placed(texts: TextColumn | Texts, rows: NDArray[np.integer[Any]] | None) -> tuple[U8, I64, NDArray[np.int32]]:
    start, length = starts_of(texts.length), texts.length
    if rows is not None and len(length):
        start, length = start[rows], length[rows]
    # A name has less than 2**31 bytes.
    return texts.data, start, length.astype(np.uint32, copy=False).view(np.int32)


def widened(
    text: Texts,
    others: Texts,  # as stored, with nothing in place of the others; without any row, if there are none
) -> Texts:
    """Return names as stored."""
    data = np.zeros((len(text.data), UNIT_BYTES), np.uint8)
    data[:, 1] = text.data
    if not len(others.data):
        return Texts(data.reshape(-1), UNIT_BYTES * text.length)
    is_plain = others.length == 0
    lengths = np.where(is_plain, UNIT_BYTES * text.length, others.length)
    merged, is_mine = np.empty(int(lengths.sum(dtype=np.int64)), np.uint8), np.repeat(is_plain, lengths)
    merged[is_mine] = data[np.repeat(is_plain, text.length)].reshape(-1)
    merged[~is_mine] = others.data
    return Texts(merged, lengths)


def sum_of_units(text: Texts, others: Texts) -> tuple[int, int]:
    """Add up names as :func:`widened` takes them, whatever their order: how many units there are, and their sum."""
    units, plain = others.data.view(np.uint16), text.data
    if len(units):
        plain = plain[np.repeat(others.length == 0, text.length)]
    # Units are added up as they lie, without changing the order of their bytes.
    total = int(plain.sum(dtype=np.uint64)) << (8 if _IS_LITTLE else 0)
    return len(plain) + len(units), total + int(units.sum(dtype=np.uint64))


def names_equal(
    buffer: U8,
    starts: I64,  # where each name starts, in bytes; even, as keys are
    counts: I64,
    name: str,
) -> NDArray[np.bool_]:
    """Say which names of a buffer are this one."""
    wanted = np.array([ord(character) for character in name], np.uint16)
    found: NDArray[np.bool_] = counts == len(wanted)
    candidates = np.flatnonzero(found)
    if len(candidates):
        units = gather(buffer, starts[candidates], counts[candidates]).reshape(-1, len(wanted))
        found[candidates] = (units == wanted).all(axis=1)
    return found
