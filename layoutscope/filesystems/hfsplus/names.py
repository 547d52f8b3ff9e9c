"""Names: UTF-16 as stored on the disk, and their display form.

TN1150, "Unicode Subtleties". Names are decomposed and may contain any 16-bit unit, including NULs and unpaired
surrogates. A ``/`` on the disk stands for a ``:`` in Unix paths and is shown as ``:``.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from layoutscope.structs.arrays import owners, ranges, starts_of, take_ranges
from layoutscope.structs.leaves import Texts
from layoutscope.tables import TextColumn

if TYPE_CHECKING:
    from layoutscope.structs.arrays import I64, U8, Mask

    Places = tuple[U8, I64, NDArray[np.int32], U8, I64, NDArray[np.int32]]
    """The bytes, starts and lengths of names, in display form and in the other form."""

Units: TypeAlias = NDArray[np.uint16]
_Number = TypeVar("_Number", np.uint16, np.uint64)

UNIT_BYTES: Final = 2
ENCODING: Final = "utf-16-be"
COMPARED_AT_ONCE: Final = 1 << 16

_SLASH, _COLON = ord("/"), ord(":")
_IS_LITTLE: Final = sys.byteorder == "little"


def gather(
    buffer: U8,
    starts: I64,  # start of each name, in bytes; even, like keys
    counts: I64,
) -> Units:
    """Concatenate names from a buffer."""
    return swap_to_disk_order(take_ranges(buffer.view(np.uint16), starts // UNIT_BYTES, counts))


def shown(units: Units) -> str:
    """Decode one name; unpaired surrogates are replaced."""
    return units.tobytes().decode("utf-16-le" if _IS_LITTLE else ENCODING, "replace")


def swap_to_disk_order(numbers: NDArray[_Number]) -> NDArray[_Number]:
    """Convert big-endian numbers into native ones, and back."""
    return numbers.byteswap() if _IS_LITTLE else numbers


def differ(first: TextColumn, second: TextColumn) -> Mask:
    """Mark the rows whose names differ; both sides have the same number of names."""
    (data, start, length), (other, other_start, other_length) = (_locate(each, each.rows) for each in (first, second))
    found: Mask = length != other_length
    same = np.flatnonzero(~found)
    for at in range(0, len(same), COMPARED_AT_ONCE):
        rows = same[at : at + COMPARED_AT_ONCE]
        lengths = length[rows].astype(np.int64)
        differs = data[ranges(start[rows], lengths)] != other[ranges(other_start[rows], lengths)]
        found[rows[owners(lengths)[differs]]] = True
    return found


def show_names(text: Texts, others: Texts, rows: NDArray[np.integer[Any]] | None) -> tuple[TextColumn, Texts]:
    """Convert decoded UTF-8 names into display form; return them, and the stored form of ambiguous ones.

    The latter are in the order of the decoded names, without rows if none is ambiguous. Most names thus take half the
    bytes.
    """
    # Both a colon on the disk, which names should not contain, and a slash are shown as a colon. The display form is
    # then ambiguous.
    if (text.data == _COLON).any():
        others = widen_names(text, others)
    if not len(others.data):
        others = Texts(others.data[:0].copy(), others.length[:0].copy())
    # HFS separates names with colons, so a name may contain a slash. It would split a Unix path: it shows as a colon.
    text.data[text.data == _SLASH] = _COLON
    return TextColumn(text.data, text.length, rows), others


def store_names(display_names: TextColumn, others: Texts) -> TextColumn:
    """Return all names as stored."""
    units = np.where(display_names.data == _COLON, np.uint8(_SLASH), display_names.data)
    text = Texts(units, display_names.length.astype(np.uint32, copy=False))
    return TextColumn(*widen_names(text, others), display_names.rows)


def place_names(display_names: TextColumn, others: Texts) -> Places:
    """Return the bytes, starts and lengths of the names of each row: in display form, and in the other form."""
    rows = display_names.rows
    return (*_locate(display_names, rows), *_locate(others, rows))


def _locate(texts: TextColumn | Texts, rows: NDArray[np.integer[Any]] | None) -> tuple[U8, I64, NDArray[np.int32]]:
    start, length = starts_of(texts.length), texts.length
    if rows is not None and len(length):
        start, length = start[rows], length[rows]
    # A name has fewer than 2**31 bytes.
    return texts.data, start, length.astype(np.uint32, copy=False).view(np.int32)


def widen_names(
    text: Texts,
    others: Texts,  # stored form of ambiguous names, empty for other names; no rows if none is ambiguous
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
    """Return the number of units in names, given as for :func:`widen_names`, and their sum, whatever the order."""
    units, plain = others.data.view(np.uint16), text.data
    if len(units):
        plain = plain[np.repeat(others.length == 0, text.length)]
    # Units are summed as stored, without swapping their bytes.
    one = int(swap_to_disk_order(np.array([1], np.uint16))[0])
    return len(plain) + len(units), one * int(plain.sum(dtype=np.uint64)) + int(units.sum(dtype=np.uint64))


def names_equal(
    buffer: U8,
    starts: I64,  # start of each name, in bytes; even, like keys
    counts: I64,
    name: str,
) -> NDArray[np.bool_]:
    """Mark the names in a buffer that equal the given name."""
    wanted = np.array([ord(character) for character in name], np.uint16)
    found: NDArray[np.bool_] = counts == len(wanted)
    candidates = np.flatnonzero(found)
    if len(candidates):
        units = gather(buffer, starts[candidates], counts[candidates]).reshape(-1, len(wanted))
        found[candidates] = (units == wanted).all(axis=1)
    return found


_CAPITALS: Final = (
    # Latin
    (0x0041, 0x005A, 1, 32), (0x00C6, 0x00C6, 1, 32), (0x00D0, 0x00D0, 1, 32), (0x00D8, 0x00D8, 1, 32),
    (0x00DE, 0x00DE, 1, 32), (0x0110, 0x0110, 1, 1), (0x0126, 0x0126, 1, 1), (0x0132, 0x0132, 1, 1),
    (0x013F, 0x0141, 2, 1), (0x014A, 0x014A, 1, 1), (0x0152, 0x0152, 1, 1), (0x0166, 0x0166, 1, 1),
    (0x0181, 0x0181, 1, 210), (0x0182, 0x0184, 2, 1), (0x0186, 0x0186, 1, 206), (0x0187, 0x0187, 1, 1),
    (0x0189, 0x018A, 1, 205), (0x018B, 0x018B, 1, 1), (0x018E, 0x018E, 1, 79), (0x018F, 0x018F, 1, 202),
    (0x0190, 0x0190, 1, 203), (0x0191, 0x0191, 1, 1), (0x0193, 0x0193, 1, 205), (0x0194, 0x0194, 1, 207),
    (0x0196, 0x0196, 1, 211), (0x0197, 0x0197, 1, 209), (0x0198, 0x0198, 1, 1), (0x019C, 0x019C, 1, 211),
    (0x019D, 0x019D, 1, 213), (0x019F, 0x019F, 1, 214), (0x01A2, 0x01A4, 2, 1), (0x01A7, 0x01A7, 1, 1),
    (0x01A9, 0x01A9, 1, 218), (0x01AC, 0x01AC, 1, 1), (0x01AE, 0x01AE, 1, 218), (0x01B1, 0x01B2, 1, 217),
    (0x01B3, 0x01B5, 2, 1), (0x01B7, 0x01B7, 1, 219), (0x01B8, 0x01B8, 1, 1), (0x01BC, 0x01BC, 1, 1),
    (0x01C4, 0x01C4, 1, 2), (0x01C5, 0x01C5, 1, 1), (0x01C7, 0x01C7, 1, 2), (0x01C8, 0x01C8, 1, 1),
    (0x01CA, 0x01CA, 1, 2), (0x01CB, 0x01CB, 1, 1), (0x01E4, 0x01E4, 1, 1), (0x01F1, 0x01F1, 1, 2),
    (0x01F2, 0x01F2, 1, 1),
    # Greek and Coptic
    (0x0391, 0x03A1, 1, 32), (0x03A3, 0x03A9, 1, 32), (0x03E2, 0x03EE, 2, 1),
    # Cyrillic
    (0x0402, 0x0404, 2, 80), (0x0405, 0x0406, 1, 80), (0x0408, 0x040B, 1, 80), (0x040F, 0x040F, 1, 80),
    (0x0410, 0x0418, 1, 32), (0x041A, 0x042F, 1, 32), (0x0460, 0x0474, 2, 1), (0x0478, 0x0480, 2, 1),
    (0x0490, 0x04BE, 2, 1), (0x04C3, 0x04C3, 1, 1), (0x04C7, 0x04C7, 1, 1), (0x04CB, 0x04CB, 1, 1),
    # Armenian, Georgian, Roman numerals, full-width Latin
    (0x0531, 0x0556, 1, 48), (0x10A0, 0x10C5, 1, 48), (0x2160, 0x216F, 1, 16), (0xFF21, 0xFF3A, 1, 32),
)  # fmt: skip
"""First and last capital of a run, the step between capitals, and the distance to their lower-case letters."""

_IGNORABLE: Final = ((0x200C, 0x200F), (0x202A, 0x202E), (0x206A, 0x206F), (0xFEFF, 0xFEFF))
"""First and last character of the runs that comparison ignores: joiners, directional marks and similar characters."""

_UNDECOMPOSED: Final = re.compile("([\u2000-\u2fff\uf900-\ufaff\U0002f800-\U0002faff]+)")
"""Characters that are never decomposed, although Unicode decomposes some: marks, symbols and ideographs."""

_LAST_UNIT: Final = 0xFFFF


@cache
def case_table() -> NDArray[np.uint16]:
    """Return the lower case of every 16-bit unit for comparison; 0 for ignorable characters, shape (65536,)."""
    table = np.arange(1 << 16, dtype=np.uint16)
    for first, last, step, shift in _CAPITALS:
        table[first : last + 1 : step] += np.uint16(shift)
    for first, last in _IGNORABLE:
        table[first : last + 1] = 0
    # A name may contain NUL, so NUL must not be ignorable: it sorts after everything.
    table[0] = _LAST_UNIT
    return table


def to_compared_form(name: str, *, is_folded: bool) -> str:
    """Return the form in which a name is compared, in disk units: decomposed, and folded if case does not matter.

    Names are decomposed according to Unicode 3.2 (TN1150, "Unicode Subtleties"). Letters that were given a
    decomposition later are stored as typed.
    """
    parts = _UNDECOMPOSED.split(name)
    parts[::2] = [unicodedata.ucd_3_2_0.normalize("NFD", part) for part in parts[::2]]
    text = "".join(parts)
    if not is_folded:
        return text
    units = case_table()[swap_to_disk_order(np.frombuffer(text.encode(ENCODING, "surrogatepass"), np.uint16))]
    compared_units: bytes = swap_to_disk_order(units[units != 0]).tobytes()
    return compared_units.decode(ENCODING, "surrogatepass")


def fold_names(units: NDArray[np.uint16], starts: I64, lengths: I64) -> tuple[NDArray[np.uint16], I64, I64]:
    """Fold names for case-insensitive comparison."""
    lower = case_table()[units]
    kept = lower != 0
    if kept.all():
        return lower, starts, lengths
    before = np.concatenate([[0], np.cumsum(kept)])
    return lower[kept], before[starts], before[starts + lengths] - before[starts]
