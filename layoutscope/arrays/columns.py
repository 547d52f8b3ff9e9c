"""Columns: arrays of equal length by their names, as batches of records are decoded into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def signed(values: NDArray[Any]) -> I64:
    """Turn 64-bit sizes into signed ones; impossible ones become the largest."""
    if values.dtype != np.uint64:
        return values.astype(np.int64)
    clipped: I64 = np.minimum(values, np.uint64(LARGEST)).astype(np.int64)
    return clipped
