"""Read-only byte sources.

Every byte of an image comes through a :class:`Source`, which checks bounds and counts its reads, so that a scan can
say how much it read. Nothing is ever written.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from layoutscope.errors import ImageError, TruncatedError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

MERGE_GAP_BYTES: Final = 64 * 1024
"""Extents with smaller gaps are fetched in one request: reading on is cheaper than asking again."""

MAX_REQUEST_BYTES: Final = 8 * 1024**2


@dataclass(slots=True)
class ReadCounter:
    """How much was asked of the image: requests and bytes."""

    reads: int = 0
    bytes: int = 0


class Source(ABC):
    """A readable range of bytes.

    Attributes
    ----------
    name : str
        For messages.
    size_bytes : int
        Length of the image.
    sector_size_bytes : int
        Sector size of the device, 512 where unknown.
    counter : ReadCounter
        Requests and bytes that reached the underlying file.
    """

    name: str
    size_bytes: int
    sector_size_bytes: int = 512
    counter: ReadCounter

    @abstractmethod
    def _fetch(self, image_offset: int, length_bytes: int) -> bytes:
        """Read within bounds; short only if the image shrank underneath."""

    def read(self, image_offset: int, length_bytes: int) -> bytes:
        """Read exactly so many bytes.

        Raises
        ------
        TruncatedError
            If the range leaves the image.
        """
        self._check(image_offset, length_bytes)
        data = self._fetch(image_offset, length_bytes)
        if len(data) != length_bytes:
            raise TruncatedError("the image became shorter while it was read", structure="image", image_offset=image_offset)
        return data

    def _check(self, image_offset: int, length_bytes: int) -> None:
        if image_offset < 0 or length_bytes < 0 or image_offset + length_bytes > self.size_bytes:
            raise TruncatedError(
                "range leaves the image",
                structure=f"{length_bytes} bytes",
                image_offset=image_offset,
                expected=f"an end at or before byte {self.size_bytes:,}",
                found=f"{image_offset + length_bytes:,}",
            )

    def read_array(self, image_offset: int, length_bytes: int) -> NDArray[np.uint8]:
        """Read exactly so many bytes as an array, shape (length_bytes,)."""
        return np.frombuffer(self.read(image_offset, length_bytes), np.uint8)

    def read_extents(self, image_offsets: NDArray[np.int64], lengths_bytes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Read many extents, in address order and in large requests.

        Parameters
        ----------
        image_offsets, lengths_bytes : (n,) int64 arrays
            Where the extents lie, in any order.

        Returns
        -------
        (sum of lengths,) uint8 array
            The bytes, concatenated in the order given.

        Raises
        ------
        TruncatedError
            If an extent leaves the image.
        """
        from layoutscope.image.batch import read_extents

        return read_extents(self, image_offsets, lengths_bytes)

    def unread_ranges(self) -> NDArray[np.int64]:
        """Areas that were never read into the image, shape (n, 2): offset and length in bytes."""
        return np.empty((0, 2), np.int64)

    def close(self) -> None:
        """Release what is held; reading afterwards fails."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class RawFile(Source):
    """A raw image in a regular file.

    Parameters
    ----------
    path : Path
        The file; opened read-only.

    Raises
    ------
    ImageError
        If the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            raise ImageError(f"{path}: {(error.strerror or str(error)).lower()}") from error
        self.name = str(path)
        self.size_bytes = os.lseek(self._descriptor, 0, os.SEEK_END)
        self.counter = ReadCounter()

    def _fetch(self, image_offset: int, length_bytes: int) -> bytes:
        self.counter.reads += 1
        self.counter.bytes += length_bytes
        return os.pread(self._descriptor, length_bytes, image_offset)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class MemorySource(Source):
    """A byte string as an image."""

    def __init__(self, data: bytes, name: str = "memory") -> None:
        self._data = data
        self.name = name
        self.size_bytes = len(data)
        self.counter = ReadCounter()

    def _fetch(self, image_offset: int, length_bytes: int) -> bytes:
        self.counter.reads += 1
        self.counter.bytes += length_bytes
        return self._data[image_offset : image_offset + length_bytes]


class Window(Source):
    """A part of another source, with addresses that start at 0.

    Parameters
    ----------
    source : Source
        The whole.
    image_offset : int
        Where the window starts in the whole, in bytes.
    size_bytes : int
        Its length; cut at the end of the whole.
    """

    def __init__(self, source: Source, image_offset: int, size_bytes: int) -> None:
        self.source = source
        self.image_offset = image_offset
        self.size_bytes = max(0, min(size_bytes, source.size_bytes - image_offset))
        self.sector_size_bytes = source.sector_size_bytes
        self.name = source.name
        self.counter = source.counter

    def _fetch(self, image_offset: int, length_bytes: int) -> bytes:
        return self.source.read(self.image_offset + image_offset, length_bytes)

    def unread_ranges(self) -> NDArray[np.int64]:
        """Areas never read, clipped to the window, in the window's addresses; shape (n, 2)."""
        ranges = self.source.unread_ranges()
        start = np.clip(ranges[:, 0] - self.image_offset, 0, self.size_bytes)
        stop = np.clip(ranges[:, 0] + ranges[:, 1] - self.image_offset, 0, self.size_bytes)
        return np.stack([start, stop - start], axis=1)[stop > start]
