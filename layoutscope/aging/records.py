"""Keys of records: one number that sorts as the file system's own, by object, type and place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

KIND_SHIFT: Final = 24
ID_SHIFT: Final = 28
MOST_PLACES: Final = (1 << KIND_SHIFT) - 1

NAME: Final = 9
"""Type of the records that a directory lists."""

TEMPORARY_LETTERS: Final = 5
"""A replacement is written as ``.NAME.tmp`` first."""


def key_of(number: I64, kind: int, place: I64 | int = 0) -> I64:
    """Return keys of records of one type."""
    return (number << ID_SHIFT) + (kind << KIND_SHIFT) + np.minimum(place, MOST_PLACES)


def record_kind_of(key: I64) -> I64:
    """Return the types of records by their keys."""
    return (key >> KIND_SHIFT) & ((1 << (ID_SHIFT - KIND_SHIFT)) - 1)
