"""Columns that take over arrays as they are, through the Arrow C data interface: a copy costs more than its bytes.

Values that are cut from one buffer need its bytes and where each one ends; polars makes its own references from that.
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
