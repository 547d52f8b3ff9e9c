"""The order of names in a folder, under both key compare types.

TN1150, "Case-Insensitive String Comparison Algorithm" and "HFSX". Names compare by their 16-bit units; on HFS+ volumes,
and on HFSX volumes that say so, after folding letters to lower case and leaving out ignorable characters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.filesystems.hfsplus.tree.folding import case_table
from layoutscope.filesystems.hfsplus.tree.names import in_disk_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, Mask

_WORD_UNITS: Final = 4
_MASKS: Final = np.array([0, *(~0 << shift & (1 << 64) - 1 for shift in (48, 32, 16, 0))], np.uint64)
"""Of a word, the part that so many units fill."""

_ASCII_LAST: Final = 0x7F
_LAST_UNIT: Final = 0xFFFF


def _lower(units: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Fold units; without the table where all are ASCII, as on most volumes."""
    if (units > _ASCII_LAST).any():
        return case_table()[units]
    is_capital = units - np.uint16(ord("A")) <= ord("Z") - ord("A")  # what is below A wraps round
    lower = units + is_capital * np.uint16(ord("a") - ord("A"))
    lower[units == 0] = _LAST_UNIT
    return lower


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
    lower = _lower(units)
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
    padded = np.concatenate([in_disk_order(units), np.zeros(_WORD_UNITS, np.uint16)])
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
    """Take four units of each name, from a depth on, as a number that compares as they do."""
    every = np.ndarray((len(padded) - _WORD_UNITS + 1,), np.uint64, padded, strides=(padded.itemsize,))
    words = in_disk_order(every[np.minimum(starts + depth, len(every) - 1)])
    return words & _MASKS[np.clip(lengths - depth, 0, _WORD_UNITS)]
