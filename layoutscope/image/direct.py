"""Timed reads of a disk past every cache of the host, for its calibration. Nothing here can write."""

from __future__ import annotations

import mmap
import os
import stat
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from layoutscope import inputs
from layoutscope.errors import ImageError
from layoutscope.image.device import Device

if TYPE_CHECKING:
    from pathlib import Path

DARWIN_NOCACHE: Final = 48
"""F_NOCACHE: reads leave nothing in the page cache (<sys/fcntl.h>)."""
LARGEST: Final = 1 << 20


class DirectDrive:
    """A drive whose reads are timed: a device, or a file that stands in for one."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.capacity_bytes, self.is_file = _size(path)
        if not hasattr(os, "preadv"):
            raise ImageError(f"{path}: this system reads no disk past its cache in a way that is known here")
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECT", 0))
            if sys.platform == "darwin":
                import fcntl

                fcntl.fcntl(self._descriptor, DARWIN_NOCACHE, 1)
        except OSError as error:
            raise ImageError(
                f"{path}: cannot be read past the cache: {(error.strerror or str(error)).lower()}"
            ) from error
        inputs.note(self._descriptor)
        # O_DIRECT wants memory at whole pages, which an anonymous map is.
        self._memory = mmap.mmap(-1, LARGEST)

    def read(self, offset: int, length: int) -> tuple[int, int]:
        """Read once; when it began and how long it took, in nanoseconds."""
        return self._timed(offset, length, memoryview(self._memory)[:length])

    def _timed(self, offset: int, length: int, target: memoryview) -> tuple[int, int]:
        began = time.perf_counter_ns()
        try:
            got = os.preadv(self._descriptor, [target], offset)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ImageError(f"{self.name}: byte {offset:,}: {reason}; nothing more was read") from error
        taken = time.perf_counter_ns() - began
        if got != length:
            raise ImageError(f"{self.name}: byte {offset:,}: {got:,} of {length:,} bytes came; nothing more was read")
        return began, taken

    def read_together(self, offsets: list[int], length: int, depth: int) -> int:
        """Read with several reads outstanding, each of a thread of its own; how long all took, in nanoseconds."""
        began = time.perf_counter_ns()
        with ThreadPoolExecutor(depth) as threads:
            for _ in threads.map(
                lambda offset: self._timed(offset, length, memoryview(mmap.mmap(-1, length))), offsets
            ):
                pass
        return time.perf_counter_ns() - began

    def wait(self, milliseconds: float) -> None:
        """Let the drive read ahead for a while."""
        time.sleep(milliseconds / 1000)

    def close(self) -> None:
        """Close the device."""
        os.close(self._descriptor)


def _size(path: Path) -> tuple[int, bool]:
    """Return the size of a device or of a file, in bytes, and whether it is a file."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ImageError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    if stat.S_ISREG(mode):
        return path.stat().st_size, True
    with Device(path) as device:
        return device.size_bytes, False


def mounted_from(path: Path, table: str) -> list[str]:
    """Return what of a device is mounted, by a table of mounts: ``/proc/mounts``, or what ``mount`` prints on macOS."""
    # /dev/rdisk4 is the same disk as /dev/disk4, and /dev/disk4s2 a part of it; so are /dev/sdb1 and /dev/nvme0n1p1.
    name = path.name.removeprefix("r") if path.name.startswith("rdisk") else path.name
    found = []
    for line in table.splitlines():
        device = line.split(" ", 1)[0].rpartition("/")[2]
        if device == name or (device.startswith(name) and device[len(name) :].lstrip("ps").isdigit()):
            found.append(device)
    return found
