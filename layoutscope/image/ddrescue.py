"""Images of failing disks, with the map file that GNU ddrescue wrote beside them.

The map says which areas were read. The others hold zeros in the image, or whatever lay there before: nothing is known
about them, so a read that touches one fails instead of returning zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope import inputs
from layoutscope.arrays.intervals import runs_of, subtract
from layoutscope.errors import ImageError, UnreadError
from layoutscope.image.source import Source, overlaps

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_FINISHED: Final = "+"
_STATUSES: Final = frozenset("?*/-+")
_MAX_MAP_BYTES: Final = 256 * 1024**2


def read_map(path: Path, size_bytes: int) -> NDArray[np.int64]:
    """List the areas of an image that its map file does not call finished.

    Offset and length in bytes, in address order; areas that the map does not name count as unread.
    """
    # That line is current position, status and pass: it looks like an area, and is none.
    blocks = _lines(path)[1:]  # the first one is the state of the rescue
    parsed = [_block(path, number, text) for number, text in blocks]
    # "-" failed, "*" and "/" were not yet retried sector by sector, "?" was never tried: the image has zeros, or what
    # the file held before, in all of them.
    done = np.array([(start, length) for start, length, status in parsed if status == _FINISHED], np.int64)
    end = int(done.reshape(-1, 2).sum(axis=1).max(initial=0))
    if end > size_bytes:
        reason = f"calls bytes up to {end:,} read, and the image ends at {size_bytes:,}"
        raise ImageError(f"{path}: {reason}: it is another image's map, or the image is cut off")
    return subtract(np.array([[0, size_bytes]]), runs_of(*done.reshape(-1, 2).T))


def _lines(path: Path) -> list[tuple[int, str]]:
    try:
        if path.stat().st_size > _MAX_MAP_BYTES:
            raise ImageError(f"{path}: too large for a ddrescue map file")
        text = inputs.read_text(path, "ascii", most_bytes=_MAX_MAP_BYTES)
    except OSError as error:
        raise ImageError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise ImageError(f"{path}: is no ddrescue map file") from error
    lines = [(number, line.split("#")[0].strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line]
    if len(lines) < 2:
        raise ImageError(f"{path}: is no ddrescue map file, or one without areas")
    return lines


def _block(path: Path, number: int, text: str) -> tuple[int, int, str]:
    words = text.split()
    try:
        start, length, status = int(words[0], 0), int(words[1], 0), words[2]
    except (ValueError, IndexError) as error:
        raise ImageError(f"{path}: line {number} is no area of a ddrescue map file") from error
    if status not in _STATUSES or start < 0 or length < 0 or start + length >= 2**63:
        raise ImageError(f"{path}: line {number} is no area of a ddrescue map file")
    return start, length, status


class RescuedSource(Source):
    """An image of which areas were never read."""

    def __init__(
        self,
        source: Source,
        unread: NDArray[np.int64],  # offset and length in bytes of those areas, in address order
    ) -> None:
        self._source = self.around = source
        self._unread = unread
        self.name = source.name
        self.size_bytes = source.size_bytes
        self.sector_size_bytes = source.sector_size_bytes
        self.counter = source.counter

    def _fetch(self, image_offset: int, length_bytes: int) -> bytes:
        if overlaps(self._unread, np.array([image_offset]), np.array([length_bytes]))[0]:
            raise self._never_read(image_offset, length_bytes)
        return self._source.read(image_offset, length_bytes)

    def _never_read(self, image_offset: int, length_bytes: int) -> UnreadError:
        behind = self._unread[:, 0] + self._unread[:, 1] > image_offset
        first = max(image_offset, int(self._unread[behind][0, 0]))
        return UnreadError(
            "lies in an area that was never read from the disk", structure=f"{length_bytes} bytes", image_offset=first
        )

    def _fetch_into(self, image_offset: int, target: memoryview) -> int:
        self._source.read_into(image_offset, target)
        end = image_offset + len(target)
        first = int(np.searchsorted(self._unread[:, 0] + self._unread[:, 1], image_offset, side="right"))
        last = int(np.searchsorted(self._unread[:, 0], end))
        for start, length in self._unread[first:last].tolist():
            blank = slice(max(0, start - image_offset), min(end, start + length) - image_offset)
            target[blank] = bytes(blank.stop - blank.start)
        return len(target)

    def unread_ranges(self) -> NDArray[np.int64]:
        """Areas that were never read into the image, shape (n, 2): offset and length in bytes."""
        return self._unread

    @property
    def holes(self) -> NDArray[np.int64]:
        """Areas that the file does not store, shape (n, 2): offset and length in bytes."""
        return self._source.holes

    def close(self) -> None:
        """Close the image."""
        self._source.close()
