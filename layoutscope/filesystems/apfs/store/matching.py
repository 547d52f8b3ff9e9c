"""Rows by their number: numbers of inodes and streams hardly have gaps, so a table of all of them leads to the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_SPARSENESS: Final = 8
"""A table is made where it has at most so many places a key."""

MAX_PLACES: Final = 256
"""As :data:`MAX_SPARSENESS`, for a table of one byte a place that is used once."""


@dataclass(frozen=True, slots=True)
class Index:
    """Ascending keys that can be looked up.

    Attributes
    ----------
    keys : (n,) uint64 array
        Ascending; the first of equal ones is found.
    base : int
        The least.
    table : (m,) int32 array or None
        Position of each number from `base` on, -1 where there is no such key; the last place stands for all others.
        None where the numbers are too far apart.
    """

    keys: NDArray[np.uint64]
    base: int = 0
    table: NDArray[np.int32] | None = None

    def find(self, wanted: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Find many keys: position of the first match, and whether there is one."""
        if not len(self.keys):
            return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
        if self.table is None or wanted.dtype != self.keys.dtype:
            near = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
            return near, self.keys[near] == wanted
        # What lies below the least wraps around to the greatest, so that one comparison tells both.
        place = wanted - np.uint64(self.base)
        np.minimum(place, np.uint64(len(self.table) - 1), out=place)
        spot = self.table[place.view(np.int64)]
        found = spot >= 0
        np.maximum(spot, 0, out=spot)
        return spot.astype(np.int64), found


def index_of(keys: NDArray[np.uint64]) -> Index:
    """Prepare ascending keys for look-ups."""
    if not len(keys):
        return Index(keys)
    base, span = int(keys.min()), int(keys.max()) - int(keys.min())
    if span >= MAX_SPARSENESS * len(keys) or keys.dtype != np.uint64:
        return Index(keys)
    table = np.full(span + 2, -1, np.int32)
    firsts = np.arange(len(keys), dtype=np.int32)
    if not is_strictly_ascending(keys):
        firsts = firsts[np.append(True, keys[1:] != keys[:-1])]
    named = keys if len(firsts) == len(keys) else keys[firsts]
    table[(named - np.uint64(base)).view(np.int64)] = firsts
    return Index(keys, base, table)


def is_strictly_ascending(keys: NDArray[np.uint64]) -> bool:
    """Tell whether each key is greater than the one before it."""
    return bool((keys[1:] > keys[:-1]).all())


def match(sorted_keys: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Find keys in ascending ones: position of the first match, and whether there is one."""
    return index_of(sorted_keys).find(wanted)


def is_among(values: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Tell which values are among some others: block addresses, which lie close enough for a table of all."""
    span = int(known.max(initial=0)) - int(known.min(initial=0)) if len(known) else 0
    return np.isin(values, known, kind="table" if span < MAX_PLACES * len(known) else None)


def last_at_most(bounds: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Position of the last ascending bound that is not greater than each key, -1 where all are.

    Keys that ascend, too, are merged.

    Examples
    --------
    >>> last_at_most(np.array([10, 20], np.uint64), np.array([5, 10, 15, 25], np.uint64)).tolist()
    [-1, 0, 0, 1]
    """
    if len(keys) <= len(bounds) or not (keys[1:] >= keys[:-1]).all():
        return np.searchsorted(bounds, keys, side="right") - 1
    stops = np.searchsorted(keys, bounds, side="left")
    counts = np.diff(stops, prepend=0, append=len(keys))
    return np.repeat(np.arange(-1, len(bounds)), counts)
