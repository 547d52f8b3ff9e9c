"""Columns of texts, bytes and words: from arrays and to arrays.

What is cut from one buffer is taken over through the Arrow C data interface, as a copy costs more than its bytes: it
needs these and where each value ends, and polars makes its own references from that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray


def cut(
    name: str, data: NDArray[np.uint8], lengths_bytes: NDArray[np.int64], kind: Literal["text", "binary"]
) -> pl.Series:
    """Cut bytes into the values of a column.

    Parameters
    ----------
    name : str
        Of the column.
    data : (sum of lengths,) uint8 array
        The values, one after the other; must not change any more.
    lengths_bytes : (n,) int64 array
        Of each value.
    kind : {'text', 'binary'}
        What they are; text must be valid UTF-8 that no value's end cuts in two.

    Returns
    -------
    polars.Series of String or Binary
    """
    import nanoarrow

    ends = np.zeros(len(lengths_bytes) + 1, np.int64)
    np.cumsum(lengths_bytes, out=ends[1:])
    schema = nanoarrow.large_string() if kind == "text" else nanoarrow.large_binary()
    parts: list[Any] = [None, ends, np.ascontiguousarray(data)]
    return pl.Series(nanoarrow.c_array_from_buffers(schema, len(lengths_bytes), parts)).alias(name)


def numbered(column: pl.Series) -> tuple[NDArray[np.uint32], tuple[str, ...]]:
    """Number the categories of a column in the order of their first rows, whatever else the process has read.

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
