"""Holes of sparse files: areas that the host's file system does not store.

They read as zeros. Asking the system for the next data (``SEEK_DATA``) instead of reading them makes an image of many
terabytes with little in it quick to scan.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.intervals import runs_of, subtract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_STAT_BLOCK_BYTES: Final = 512
"""The unit of ``st_blocks`` on every system, whatever the file system's own."""


def is_sparse(descriptor: int) -> bool:
    """Tell whether a file stores less than its length, and the system can say where."""
    facts = os.fstat(descriptor)
    stored_bytes = getattr(facts, "st_blocks", facts.st_size) * _STAT_BLOCK_BYTES
    if not hasattr(os, "SEEK_DATA") or stored_bytes >= facts.st_size:
        return False
    try:
        os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError as error:
        return error.errno == errno.ENXIO  # nothing but a hole
    return True


def data_segments(descriptor: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """List the stored stretches that meet a range.

    Parameters
    ----------
    descriptor : int
        An open file.
    start, stop : int
        The range, in bytes.

    Yields
    ------
    tuple of int
        Start and stop in bytes; the last stretch may go on past the range.
    """
    position = start
    while position < stop:
        data = _seek(descriptor, position, os.SEEK_DATA, stop)
        if data >= stop:
            return
        # Past the end of the file the rest is left to the read, which will be short.
        position = max(data + 1, _seek(descriptor, data, os.SEEK_HOLE, stop))
        yield data, position


def _seek(descriptor: int, position: int, whence: int, otherwise: int) -> int:
    try:
        return os.lseek(descriptor, position, whence)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return otherwise


def hole_ranges(descriptor: int, size_bytes: int) -> NDArray[np.int64]:
    """List the holes of a whole file, shape (n, 2): offset and length in bytes."""
    start, stop = np.array(list(data_segments(descriptor, 0, size_bytes)), np.int64).reshape(-1, 2).T
    return subtract(np.array([[0, size_bytes]]), runs_of(start, stop - start))
