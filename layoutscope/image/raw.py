"""A raw image in a regular file, sparse or not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from layoutscope import inputs
from layoutscope.errors import ImageError, UnreadError
from layoutscope.image import sparse
from layoutscope.image.source import ReadCounter, Source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

SMALL_BYTES: Final = 64 * 1024
"""Of many pieces, those up to this size are read without asking for holes, which would cost more than the read."""

_MAX_CALL_BYTES: Final = 1 << 30
"""Linux and macOS cut one read call a little below 2 GiB."""


def open_read_only(path: Path) -> int:
    """Open a file for reading; its descriptor.

    Raises
    ------
    ImageError
        If that fails, in one line.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except PermissionError as error:
        raise ImageError(f"{path}: permission denied; run as a user who may read it") from error
    except FileNotFoundError as error:
        raise ImageError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        raise ImageError(f"{path}: {_reason(error)}") from error
    inputs.note(descriptor)
    return descriptor


def _reason(error: OSError | ValueError) -> str:
    return str(getattr(error, "strerror", None) or error).lower()


class RawFile(Source):
    """A raw image in a regular file.

    Holes of a sparse file are not read: they cost no request and are counted apart.

    Parameters
    ----------
    path : Path
        The file; opened read-only.
    descriptor : int, optional
        An open descriptor of it, which becomes this object's own.

    Raises
    ------
    ImageError
        If the file cannot be opened.
    """

    def __init__(self, path: Path, descriptor: int | None = None) -> None:
        self._descriptor = open_read_only(path) if descriptor is None else descriptor
        self.name = str(path)
        self.size_bytes = os.lseek(self._descriptor, 0, os.SEEK_END)
        self.counter = ReadCounter()
        self._is_sparse = sparse.is_sparse(self._descriptor)
        self._stored = 0, 0  # the stretch that the last read met, which the next one often meets too

    def _fetch(self, image_offset: int, length_bytes: int) -> bytes:
        buffer = bytearray(length_bytes)
        got = self._fetch_into(image_offset, memoryview(buffer))
        return bytes(buffer[:got] if got < length_bytes else buffer)

    def _fetch_into(self, image_offset: int, target: memoryview) -> int:
        end = image_offset + len(target)
        if not self._is_sparse or self._stored[0] <= image_offset <= end <= self._stored[1]:
            return self._pread(image_offset, target)
        position = image_offset
        for first, last in sparse.data_segments(self._descriptor, image_offset, end):
            self._stored = first, last
            start, stop = first, min(last, end)
            self._fill_hole(target[position - image_offset : start - image_offset])
            got = self._pread(start, target[start - image_offset : stop - image_offset])
            if got < stop - start:
                return start + got - image_offset
            position = stop
        self._fill_hole(target[position - image_offset :])
        return len(target)

    def _fetch_pieces(
        self, image_offsets: Sequence[int], lengths_bytes: Sequence[int], places: Sequence[int], target: memoryview
    ) -> None:
        descriptor, done_bytes = self._descriptor, []
        for start, length, place in zip(image_offsets, lengths_bytes, places, strict=True):
            piece = target[place : place + length]
            if length <= SMALL_BYTES and _got(descriptor, start, piece) == length:
                done_bytes.append(length)
            else:
                self.read_into(start, piece)
        self.counter.reads += len(done_bytes)
        self.counter.bytes += sum(done_bytes)

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
                f"the system cannot read it: {_reason(error)}",
                structure=f"{len(target)} bytes",
                image_offset=image_offset,
            ) from error

    @property
    def holes(self) -> NDArray[np.int64]:
        """Areas that the file does not store, shape (n, 2): offset and length in bytes."""
        return sparse.hole_ranges(self._descriptor, self.size_bytes) if self._is_sparse else super().holes

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _got(descriptor: int, image_offset: int, target: memoryview) -> int:
    """Read at an address; how many bytes came, none where that failed: asking once more tells why."""
    try:
        return pread_into(descriptor, image_offset, target)
    except OSError:
        return 0


def pread_into(descriptor: int, image_offset: int, target: memoryview) -> int:
    """Read at an address into a buffer.

    Parameters
    ----------
    descriptor : int
        An open file.
    image_offset : int
        Where from, in bytes.
    target : memoryview
        The buffer.

    Returns
    -------
    int
        How many bytes came; fewer than asked for at the end of the file, or where the system cuts a call.
    """
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, (target,), image_offset)
    data = os.pread(descriptor, len(target), image_offset)
    target[: len(data)] = data
    return len(data)
