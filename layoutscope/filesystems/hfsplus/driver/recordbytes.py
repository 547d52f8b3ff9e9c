"""Bytes that records of the catalog take in nodes: key, value and offset (TN1150, Catalog File)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

THREAD: Final = 0
"""Place of a thread record among those of its directory: before all names."""

INDEX_BYTES: Final = 2 + 8 + 33 + 4
SHORT_INDEX_BYTES: Final = 2 + 8 + 4
"""What a record of an index node takes: with a name, and that of a thread."""


def catalog_bytes(letters: I64, is_directory: NDArray[np.bool_] | bool) -> I64:
    """A file or folder record."""
    return 2 + 8 + 2 * letters + np.where(is_directory, 88, 248)


def thread_bytes(letters: I64) -> I64:
    """A thread record: its key has no name, the record has."""
    return 2 + 8 + 10 + 2 * letters
