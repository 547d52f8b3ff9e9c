"""Columns of categories as numbers that do not depend on what else the process has read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray


def numbered(column: pl.Series) -> tuple[NDArray[np.uint32], tuple[str, ...]]:
    """Number the categories of a column in the order of their first rows.

    Parameters
    ----------
    column : (n,) polars.Series
        Of type Categorical or Enum, whose own codes a process hands out as it meets the words.

    Returns
    -------
    (n,) uint32 array, tuple of str
        The number of each row, and the words; null is a word of no letters.

    Examples
    --------
    >>> codes, words = numbered(pl.Series(["b", "a", None, "b"], dtype=pl.Categorical))
    >>> codes.tolist(), words
    ([0, 1, 2, 0], ('b', 'a', ''))
    """
    found = column.to_physical().cast(pl.Int64).fill_null(-1).to_numpy() + 1
    first = np.full(int(found.max(initial=0)) + 1, -1)
    first[found[::-1]] = np.arange(len(found) - 1, -1, -1)
    present = np.flatnonzero(first >= 0)
    order = present[np.argsort(first[present])]
    number = np.zeros(len(first), np.uint32)
    number[order] = np.arange(len(order))
    return number[found], tuple(column[row] or "" for row in first[order].tolist())
