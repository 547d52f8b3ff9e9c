"""A raw image in a regular file, sparse or not.

Holes, areas that the host's file system does not store, read as zeros. Asking the system for the next data
(``SEEK_DATA``) instead of reading them makes an image of many terabytes with little in it quick to scan.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope import inputs
from layoutscope.arrays.intervals import runs_of, subtract
from layoutscope.errors import ImageError, UnreadError
from layoutscope.image.source import FillingSource, ReadCounter
from layoutscope.native import Kernel
from layoutscope.system import pread_into

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

SMALL_BYTES: Final = 64 * 1024
"""Of many pieces, those up to this size are read without asking for holes, which would cost more than the read."""

READ_PIECES: Final = Kernel("read_pieces", "nnlllB")

_MAX_CALL_BYTES: Final = 1 << 30
"""Linux and macOS cut one read call a little below 2 GiB."""

_STAT_BLOCK_BYTES: Final = 512
"""The unit of ``st_blocks`` on every system, whatever the file system's own."""


def open_read_only(path: Path) -> int:
    """Open a file for reading; its descriptor."""
    try:
        descriptor = inputs.open_untouched(path)
    except PermissionError as error:
        raise ImageError(f"{path}: permission denied; run as a user who may read it") from error
    except FileNotFoundError as error:
        raise ImageError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        raise ImageError(f"{path}: {_reason(error)}") from error
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ImageError(f"{path}: is a pipe, not a file")
    inputs.note(path, descriptor)
    return descriptor


def _size_bytes(descriptor: int, path: Path) -> int:
    try:
        return os.lseek(descriptor, 0, os.SEEK_END)
    except OSError as error:
        os.close(descriptor)
        raise ImageError(f"{path}: has no size, so it holds no disk: {_reason(error)}") from error


def _reason(error: OSError | ValueError) -> str:
    return str(getattr(error, "strerror", None) or error).lower()


class RawFile(FillingSource):
    """A raw image in a regular file.

    Holes of a sparse file are not read: they cost no request and are counted apart.
    """

    def __init__(self, path: Path, descriptor: int | None = None) -> None:
        self._descriptor = open_read_only(path) if descriptor is None else descriptor
        self.name = str(path)
        self.size_bytes = _size_bytes(self._descriptor, path)
        self.counter = ReadCounter()
        self._is_sparse = is_sparse(self._descriptor)
        self._stored = 0, 0  # the stretch that the last read met, which the next one often meets too

    def status(self) -> os.stat_result:
        """Return what the system says of the file that is open."""
        return os.fstat(self._descriptor)

    def _fetch_into(self, image_offset: int, target: memoryview) -> int:
        end = image_offset + len(target)
        if not self._is_sparse or self._stored[0] <= image_offset <= end <= self._stored[1]:
            return self._pread(image_offset, target)
        position = image_offset
        for first, last in data_segments(self._descriptor, image_offset, end):
            self._stored = first, last
            start, stop = first, min(last, end)
            self._fill_hole(target[position - image_offset : start - image_offset])
            got = self._pread(start, target[start - image_offset : stop - image_offset])
            if got < stop - start:
                return start + got - image_offset
            position = stop
        self._fill_hole(target[position - image_offset :])
        return len(target)

    def _fetch_pieces(self, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview) -> None:
        done = 0
        while done < len(image_offsets):
            rest = image_offsets[done:], lengths_bytes[done:], places[done:]
            count = READ_PIECES(self._descriptor, SMALL_BYTES, *rest, np.frombuffer(target, np.uint8))
            count = plain_pieces(self._descriptor, *rest, target) if count is None else count
            self.counter.reads += count
            self.counter.bytes += int(lengths_bytes[done : done + count].sum())
            done += count
            for place in places[done : done + 1].tolist():
                # Too long, in need of a second attempt, or past the end: this way tells which.
                self.read_into(int(image_offsets[done]), target[place : place + int(lengths_bytes[done])])
                done += 1

    def _fill_hole(self, target: memoryview) -> None:
        if len(target):
            self.counter.hole_bytes += len(target)
            target[:] = bytes(len(target))

    def _pread(self, image_offset: int, target: memoryview) -> int:
        """Read until the buffer is full or the file ends."""
        done = 0
        while done < len(target):
            piece = target[done : done + _MAX_CALL_BYTES]
            self.counter.reads += 1
            got = self._call(image_offset + done, piece)
            if not got:
                break
            self.counter.bytes += got
            done += got
        return done

    def _call(self, image_offset: int, target: memoryview) -> int:
        try:
            return pread_into(self._descriptor, image_offset, target)
        except OSError as error:
            raise UnreadError(
                f"cannot be read: {_reason(error)}",
                structure=f"{len(target)} bytes",
                image_offset=image_offset,
            ) from error

    @property
    def holes(self) -> NDArray[np.int64]:
        """Areas that the file does not store, shape (n, 2): offset and length in bytes."""
        return hole_ranges(self._descriptor, self.size_bytes) if self._is_sparse else super().holes

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def plain_pieces(descriptor: int, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview) -> int:
    """Read small pieces until one is too long or does not come whole; the twin of ``native/source/pieces.c``."""
    for k in range(len(places)):
        place, length = int(places[k]), int(lengths_bytes[k])
        if length > SMALL_BYTES or _got(descriptor, int(image_offsets[k]), target[place : place + length]) != length:
            return k
    return len(places)


def _got(descriptor: int, image_offset: int, target: memoryview) -> int:
    """Read at an address; how many bytes came, none where that failed: asking once more tells why."""
    try:
        return pread_into(descriptor, image_offset, target)
    except OSError:
        return 0


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


def data_segments(
    descriptor: int,
    start: int,  # start, stop: the range, in bytes
    stop: int,
) -> Iterator[tuple[int, int]]:
    """List the stored stretches that meet a range.

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
