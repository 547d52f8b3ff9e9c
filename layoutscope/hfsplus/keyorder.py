"""The order of names in a folder, under both key compare types.

TN1150, "Case-Insensitive String Comparison Algorithm" and "HFSX". Names compare by their 16-bit units; on HFS+ volumes,
and on HFSX volumes that say so, after folding letters to lower case and leaving out ignorable characters.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.hfsplus.arrays import I64, Mask

_FOLDED_BLOCKS: Final = (0x00, 0x01, 0x03, 0x04, 0x05, 0x10, 0x21, 0xFF)
"""High bytes of the characters that the table folds."""

_IGNORABLE: Final = (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
_GEORGIAN_CAPITALS: Final = range(0x10A0, 0x10C6)
_GEORGIAN_SHIFT: Final = 0x30
_WORD_UNITS: Final = 4
_ASCII_LAST: Final = 0x7F
_LAST_UNIT: Final = 0xFFFF


@cache
def case_table() -> NDArray[np.uint16]:
    """Lower case of every 16-bit unit, as in the comparison; 0 for ignorable characters, shape (65536,).

    The table is that of Unicode 2: single letters that do not decompose. NUL is folded to the largest number,
    so that it is not ignorable.
    """
    table = np.arange(1 << 16, dtype=np.uint16)
    for block in _FOLDED_BLOCKS:
        for number in range(block << 8, (block + 1) << 8):
            lower = chr(number).lower()
            if len(lower) == 1 and not unicodedata.decomposition(chr(number)).strip("<>").startswith(
                tuple("0123456789")
            ):
                table[number] = ord(lower)
    for number in _GEORGIAN_CAPITALS:
        table[number] = number + _GEORGIAN_SHIFT
    table[list(_IGNORABLE)] = 0
    table[0] = _LAST_UNIT
    return table


@cache
def _ascii_table() -> NDArray[np.uint16]:
    """Return the first part of the table, which is enough for most volumes; shape (128,)."""
    table = np.arange(_ASCII_LAST + 1, dtype=np.uint16)
    capitals = slice(ord("A"), ord("Z") + 1)
    table[capitals] += ord("a") - ord("A")
    table[0] = _LAST_UNIT
    return table


def folded(units: NDArray[np.uint16], starts: I64, lengths: I64) -> tuple[NDArray[np.uint16], I64, I64]:
    """Fold names for comparison without regard to case.

    Parameters
    ----------
    units : (n_units,) uint16 array
        Names one after the other.
    starts, lengths : (n,) int64 arrays
        Where each name lies, in units.

    Returns
    -------
    units, starts, lengths
        Of the folded names; shorter where ignorable characters were left out.
    """
    is_ascii = not (units > _ASCII_LAST).any()
    lower = (_ascii_table() if is_ascii else case_table())[units]
    kept = lower != 0
    if kept.all():
        return lower, starts, lengths
    before = np.concatenate([[0], np.cumsum(kept)])
    return lower[kept], before[starts], before[starts + lengths] - before[starts]


def misplaced(parent_id: I64, units: NDArray[np.uint16], starts: I64, lengths: I64) -> Mask:
    """Find keys that do not come after the key before them.

    Parameters
    ----------
    parent_id : (n,) int64 array
        First part of the keys.
    units : (n_units,) uint16 array
        Names, folded or not.
    starts, lengths : (n,) int64 arrays
        Where each key's name lies, in units.

    Returns
    -------
    (n,) bool array
    """
    wrong = np.zeros(len(parent_id), np.bool_)
    rows = np.arange(1, len(parent_id), dtype=np.int64)
    wrong[1:] = not_after(parent_id, units, starts, lengths, rows - 1, rows)
    return wrong


def not_after(parent_id: I64, units: NDArray[np.uint16], starts: I64, lengths: I64, before: I64, after: I64) -> Mask:
    """Say of pairs of keys whether the second one fails to come after the first.

    Parameters
    ----------
    parent_id, units, starts, lengths
        Keys, as for :func:`misplaced`.
    before, after : (m,) int64 arrays
        Rows of the keys that are compared.

    Returns
    -------
    (m,) bool array
    """
    wrong: Mask = parent_id[after] < parent_id[before]
    padded = np.append(units, np.uint16(0))
    active = np.flatnonzero(parent_id[after] == parent_id[before])
    depth = 0
    while len(active):
        one, other = before[active], after[active]
        first, second = (_words(padded, starts[rows], lengths[rows], depth) for rows in (one, other))
        wrong[active[first > second]] = True
        same = first == second
        depth += _WORD_UNITS
        ended = same & ((lengths[other] <= depth) | (lengths[one] <= depth))
        wrong[active[ended]] |= lengths[one[ended]] >= lengths[other[ended]]
        active = active[same & ~ended]
    return wrong


def _words(padded: NDArray[np.uint16], starts: I64, lengths: I64, depth: int) -> NDArray[np.uint64]:
    """Pack four units of each name, from a depth on, into a number that compares as they do."""
    words = np.zeros(len(starts), np.uint64)
    for place in range(depth, depth + _WORD_UNITS):
        unit = padded[np.where(lengths > place, starts + place, len(padded) - 1)]
        words = (words << np.uint64(16)) | unit
    return words
