"""Letters that compare as equal on HFS+: the case folding table of the format, which no version of Unicode is.

TN1150, "Case-Insensitive String Comparison Algorithm" (its tables ``gLowerCaseTable`` and ``gLatinCaseFold``). The
table was made for Unicode 2 and frozen: letters that came later, Kazakh and Mongolian ones among them, and those that
decompose are left alone, so that no library's notion of lower case may stand in for it.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.filesystems.hfsplus.tree.names import ENCODING, in_disk_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64

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
"""First and last capital of a run, how far they are apart, and what leads to their small letters."""

_IGNORABLE: Final = ((0x200C, 0x200F), (0x202A, 0x202E), (0x206A, 0x206F), (0xFEFF, 0xFEFF))
"""First and last character of the runs that the comparison leaves out: joiners, marks of direction and the like."""

_UNDECOMPOSED: Final = re.compile("([\u2000-\u2fff\uf900-\ufaff\U0002f800-\U0002faff]+)")
"""Characters that stay as they are although Unicode decomposes some of them: marks, symbols and ideographs."""

_LAST_UNIT: Final = 0xFFFF
_ASCII_LAST: Final = 0x7F


@cache
def case_table() -> NDArray[np.uint16]:
    """Lower case of every 16-bit unit, as in the comparison; 0 for ignorable characters, shape (65536,)."""
    table = np.arange(1 << 16, dtype=np.uint16)
    for first, last, step, shift in _CAPITALS:
        table[first : last + 1 : step] += np.uint16(shift)
    for first, last in _IGNORABLE:
        table[first : last + 1] = 0
    # NUL may stand in a name, and so must not be ignorable: it sorts behind everything.
    table[0] = _LAST_UNIT
    return table


def compared(name: str, *, is_folded: bool) -> str:
    """Return what a name is compared by, as units of the disk: decomposed, folded where case does not count.

    Names are stored decomposed as Unicode 3.2 has it (TN1150, "Unicode Subtleties"): letters that were given a
    decomposition later are stored as they were typed.
    """
    parts = _UNDECOMPOSED.split(name)
    parts[::2] = [unicodedata.ucd_3_2_0.normalize("NFD", part) for part in parts[::2]]
    text = "".join(parts)
    if not is_folded:
        return text
    units = case_table()[in_disk_order(np.frombuffer(text.encode(ENCODING, "surrogatepass"), np.uint16))]
    compared_units: bytes = in_disk_order(units[units != 0]).tobytes()
    return compared_units.decode(ENCODING, "surrogatepass")


def folded_names(units: NDArray[np.uint16], starts: I64, lengths: I64) -> tuple[NDArray[np.uint16], I64, I64]:
    """Fold names for comparison without regard to case."""
    lower = _lower(units)
    kept = lower != 0
    if kept.all():
        return lower, starts, lengths
    before = np.concatenate([[0], np.cumsum(kept)])
    return lower[kept], before[starts], before[starts + lengths] - before[starts]


def _lower(units: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Fold units; without the table where all are ASCII, as on most volumes."""
    if (units > _ASCII_LAST).any():
        return case_table()[units]
    is_capital = units - np.uint16(ord("A")) <= ord("Z") - ord("A")  # what is below A wraps round
    lower = units + is_capital * np.uint16(ord("a") - ord("A"))
    lower[units == 0] = _LAST_UNIT
    return lower
