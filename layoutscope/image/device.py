"""Block and raw character devices.

Linux tells a device's size by seeking to its end; macOS needs to be asked for the block count and the block size.
Raw devices accept only whole sectors, so every read is widened to them.
"""

from __future__ import annotations

import os
import stat
import sys
from array import array
from typing import TYPE_CHECKING, Final

from layoutscope import inputs
from layoutscope.errors import ImageError
from layoutscope.image.raw import RawFile
from layoutscope.image.source import ReadCounter, Source

if TYPE_CHECKING:
    from pathlib import Path

DARWIN_BLOCK_SIZE: Final = 0x40046418
"""DKIOCGETBLOCKSIZE, a 32-bit number (<sys/disk.h>)."""

DARWIN_BLOCK_COUNT: Final = 0x40086419
"""DKIOCGETBLOCKCOUNT, a 64-bit number (<sys/disk.h>)."""

LINUX_SECTOR_SIZE: Final = 0x1268
"""BLKSSZGET, an int (<linux/fs.h>)."""


class Device(RawFile):
    """A disk, partition or loop device."""

    def __init__(self, path: Path) -> None:
        self._descriptor = _open(path)
        self.name = str(path)
        self.counter = ReadCounter()
        self._is_sparse = False
        self._stored = 0, 0
        self.size_bytes, self.sector_size_bytes = _measure(self._descriptor, path)

    # Raw devices refuse what is not whole sectors at the start of a sector: macOS with EINVAL for /dev/rdisk, Linux for
    # descriptors without a page cache.
    _fetch_pieces = Source._fetch_pieces  # noqa: SLF001  (piece by piece, each in whole sectors)

    def _call(self, image_offset: int, target: memoryview) -> int:
        start, stop = aligned(image_offset, len(target), self.sector_size_bytes)
        if (start, stop) == (image_offset, image_offset + len(target)):
            return super()._call(image_offset, target)
        whole = bytearray(stop - start)
        got = super()._call(start, memoryview(whole)) - (image_offset - start)
        got = max(0, min(got, len(target)))
        target[:got] = whole[image_offset - start :][:got]
        return got


def aligned(image_offset: int, length_bytes: int, sector_size_bytes: int) -> tuple[int, int]:
    """Widen a range to whole sectors.

    Start and stop in bytes.

    >>> aligned(700, 100, 512)
    (512, 1024)
    """
    stop = image_offset + length_bytes
    return image_offset - image_offset % sector_size_bytes, stop + -stop % sector_size_bytes


def _open(path: Path) -> int:
    try:
        descriptor = inputs.open_untouched(path)
    except PermissionError as error:
        raise ImageError(f"{path}: permission denied; {_access_advice()}") from error
    except OSError as error:
        raise ImageError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    inputs.note(path, descriptor)
    return descriptor


def _access_advice() -> str:
    if sys.platform == "darwin":
        return "run with sudo, and give the terminal Full Disk Access in System Settings, Privacy & Security"
    return "run with sudo, or as a member of the group that owns the device"


def _measure(descriptor: int, path: Path) -> tuple[int, int]:
    """Size and sector size in bytes, by the system's own calls."""
    try:
        return _darwin_size(descriptor) if sys.platform == "darwin" else _linux_size(descriptor)
    except OSError as error:
        os.close(descriptor)
        raise ImageError(f"{path}: is not a disk: the system does not tell its size") from error


def _darwin_size(descriptor: int) -> tuple[int, int]:
    block_size = _ask(descriptor, DARWIN_BLOCK_SIZE, "I")
    # Darwin does not seek to the end of a device; it tells the count and size of blocks.
    return _ask(descriptor, DARWIN_BLOCK_COUNT, "Q") * block_size, block_size


def _linux_size(descriptor: int) -> tuple[int, int]:
    # stat tells a size of 0 for a block device; the end of the file is the end of the disk.
    size_bytes = os.lseek(descriptor, 0, os.SEEK_END)
    if not stat.S_ISBLK(os.fstat(descriptor).st_mode):
        raise OSError("no block device")  # /dev/zero and its like seek to 0
    return size_bytes, _ask(descriptor, LINUX_SECTOR_SIZE, "i")


def _ask(descriptor: int, request: int, form: str) -> int:
    import fcntl

    answer = array(form, [0])
    fcntl.ioctl(descriptor, request, answer, True)
    return int(answer[0])
