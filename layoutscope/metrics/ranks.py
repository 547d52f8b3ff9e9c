"""Medians and percentiles of numbers, without sorting all of them.

Those of numpy load masked arrays first, which takes longer than to find them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.lookup import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray

PERCENTILES: Final = (10, 50, 90, 99)
"""Percentiles that distances are reported with."""


def median_and_percentiles(values: NDArray[np.integer[Any]]) -> tuple[float, tuple[tuple[str, float], ...]]:
    """Median of some numbers, of which there is at least one, and their percentiles with labels."""
    ordered = _partly_sorted(values)
    middle = ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]
    return float(middle.mean()), _percentiles(ordered)


def median(values: NDArray[np.integer[Any]]) -> float:
    """Median of some numbers, of which there is at least one."""
    return median_and_percentiles(values)[0]


def _ranks(count: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Ranks of the percentiles among so many values, and the places on which their values depend, with the median's."""
    rank = (count - 1) * (np.array(PERCENTILES) / 100)
    below = np.floor(rank).astype(np.int64)
    return rank, np.concatenate([below, np.minimum(below + 1, count - 1), [(count - 1) // 2, count // 2]])


def _partly_sorted(values: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """Return the values, of which those that percentiles and the median need stand where sorting would bring them."""
    return np.partition(values, distinct(_ranks(len(values))[1]))


def _percentiles(ordered: NDArray[np.integer[Any]]) -> tuple[tuple[str, float], ...]:
    # As ``np.percentile``.
    rank, places = _ranks(len(ordered))
    below = places[: len(rank)]
    low, high, share = ordered[below], ordered[np.minimum(below + 1, len(ordered) - 1)], rank - below
    found = np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1 - share))
    return tuple((f"p{p}", float(value)) for p, value in zip(PERCENTILES, found, strict=True))
