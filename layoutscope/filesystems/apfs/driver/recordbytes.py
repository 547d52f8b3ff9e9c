"""Bytes of records in nodes: key, value, entry of the table (Apple File System Reference, File-System Objects)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

INODE: Final = 3
XATTR: Final = 4
SIBLING_LINK: Final = 5
DATA_STREAM: Final = 6
FILE_EXTENT: Final = 8
SIBLING_MAP: Final = 12
"""Types of records in the order of their keys."""

DATA_STREAM_BYTES: Final = 8 + 8 + 4
EXTENT_BYTES: Final = 8 + 16 + 24
SIBLING_MAP_BYTES: Final = 8 + 8 + 8
INDEX_BYTES: Final = 8 + 17 + 8
SHORT_INDEX_BYTES: Final = 8 + 8 + 8
NAME_VALUE_BYTES: Final = 18
CHILD_BYTES: Final = 8
MAP_TABLE_BYTES: Final = 4
MAP_BYTES: Final = MAP_TABLE_BYTES + 16 + 16
MAP_INDEX_BYTES: Final = 4 + 16 + 8
REFERENCE_BYTES: Final = 8 + 8 + 20
REFERENCE_INDEX_BYTES: Final = 8 + 8 + 8


def inode_bytes(letters: I64, has_data: NDArray[np.bool_]) -> I64:
    """An inode: fixed part, the field of its name, and that of its data stream."""
    return 8 + 8 + 92 + 4 + 4 + (letters + 8) // 8 * 8 + np.where(has_data, 4 + 40, 0)


def entry_name_bytes(letters: I64, *, has_sibling: bool | NDArray[np.bool_] = False) -> I64:
    """A directory record; that of a hard link has its sibling's id."""
    return 8 + 12 + letters + 1 + NAME_VALUE_BYTES + np.where(has_sibling, 16, 0)


def sibling_link_bytes(letters: I64) -> I64:
    """The record that leads from an inode to one of its names."""
    return 8 + 16 + 10 + letters + 1
