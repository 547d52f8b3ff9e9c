"""Columns: arrays of equal length by their names, as batches of records are decoded into."""

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

LARGEST: Final = 2**63 - 1


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

    Returns
    -------
    Columns
        Of (n,) arrays.
    """
    if not parts:
        return {name: np.empty(0, dtype) for name, dtype in columns.items()}
    return {name: np.concatenate([part.pop(name) for part in parts])[chosen] for name in columns}


def signed(values: NDArray[Any]) -> I64:
    """Turn 64-bit sizes into signed ones; impossible ones become the largest."""
    if values.dtype != np.uint64:
        return values.astype(np.int64)
    clipped: I64 = np.minimum(values, np.uint64(LARGEST)).astype(np.int64)
    return clipped
