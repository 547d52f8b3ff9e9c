"""Small helpers over arrays that every part of the reader shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

U8: TypeAlias = NDArray[np.uint8]
I64: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Columns: TypeAlias = dict[str, NDArray[Any]]


def ragged(starts: I64, counts: I64) -> I64:
    """Concatenate the ranges ``starts[i], starts[i] + 1, … `` of ``counts[i]`` numbers each.

    Parameters
    ----------
    starts, counts : (n,) int64 arrays

    Returns
    -------
    (sum of counts,) int64 array
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    numbers: I64 = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - counts), counts)
    return numbers


def owners(counts: I64) -> I64:
    """Return, for each item, which of the owners with so many items each it belongs to."""
    return np.repeat(np.arange(len(counts), dtype=np.int64), counts)


def concatenate(parts: Sequence[Columns], empty: Columns) -> Columns:
    """Join batches of equal columns; `empty` says what no batch at all looks like."""
    if not parts:
        return empty
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def take_joined(parts: Sequence[Columns], columns: Mapping[str, type[np.generic]], chosen: I64) -> Columns:
    """Join batches column by column and choose rows; the batches lose their columns, so that no two copies are held.

    Parameters
    ----------
    parts : sequence of Columns
        Batches of equal columns.
    columns : mapping of str to type
        Names and types, for the case that there is no batch at all.
    chosen : (n,) int64 array
        Rows of the joined batches.
    """
    if not parts:
        return {name: np.empty(0, dtype) for name, dtype in columns.items()}
    return {name: np.concatenate([part.pop(name) for part in parts])[chosen] for name in columns}


DENSE: Final = 8
"""Numbers are looked up in a table of their range where that is at most so many times their count."""


def find_sorted(haystack: I64, needles: I64) -> I64:
    """Position of each needle in ascending numbers, -1 where it is missing; the first one where it repeats."""
    if not len(haystack):
        return np.full(len(needles), -1, np.int64)
    places = np.searchsorted(haystack, needles)
    found = haystack[np.minimum(places, len(haystack) - 1)] == needles
    return np.where(found, places, -1)


def find(haystack: I64, needles: I64) -> I64:
    """Position of each needle in numbers of any order, -1 where it is missing; the first one where it repeats."""
    if not len(haystack):
        return np.full(len(needles), -1, np.int64)
    low, high = int(haystack.min()), int(haystack.max())
    if high - low < DENSE * len(haystack):
        return _find_dense(haystack - low, needles - low, high - low)
    order = np.argsort(haystack, kind="stable")
    places = find_sorted(haystack[order], needles)
    return np.where(places >= 0, order[places], -1)


def _find_dense(haystack: I64, needles: I64, highest: int) -> I64:
    """Find numbers from 0 to a highest one that is not much larger than their count, through a table of all of them."""
    places = np.full(highest + 2, -1, np.int64)
    places[haystack[::-1]] = np.arange(len(haystack) - 1, -1, -1)
    is_there = (needles >= 0) & (needles <= highest)
    found: I64 = places[np.where(is_there, needles, highest + 1)]
    return found


def distinct(values: I64) -> I64:
    """Return the distinct values, ascending.

    Like ``np.unique``, whose import of masked arrays would cost more than its work.
    """
    ordered = np.sort(values)
    return ordered[heads(ordered)]


def is_ascending(values: NDArray[Any]) -> bool:
    """Say whether no value is below the one before it."""
    return bool((values[1:] >= values[:-1]).all())


def heads(values: NDArray[Any]) -> I64:
    """Places where a value differs from the one before, the first place included."""
    if not len(values):
        return np.empty(0, np.int64)
    return np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))


LARGEST = 2**63 - 1


def signed(values: NDArray[Any]) -> I64:
    """Turn 64-bit sizes into signed ones; impossible ones become the largest."""
    if values.dtype != np.uint64:
        return values.astype(np.int64)
    clipped: I64 = np.minimum(values, np.uint64(LARGEST)).astype(np.int64)
    return clipped
