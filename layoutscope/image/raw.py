"""A raw image in a regular file, sparse or not.

Holes, areas that the host's file system does not store, read as zeros. Asking the system for the next data
(``SEEK_DATA``) instead of reading holes makes scans of an image of many terabytes with little data fast.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import sys
import time
from array import array
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope import inputs
from layoutscope.errors import ImageError, ShrunkError, UnreadError, reason_of
from layoutscope.image.source import ReadCounter, Source
from layoutscope.inputs import pread_into
from layoutscope.structs.arrays import GAP_BYTES, I64, U8, runs_of, subtract
from layoutscope.structs.native import Kernel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


SMALL_BYTES: Final = 1 << 20
"""In a request for many pieces, those up to this size are read without a check for holes, which would cost more."""

READ_PIECES: Final = Kernel("read_pieces", "nnnlllBBL")

_JOINT_BYTES: Final = 8 << 20
"""Largest request in which small pieces are read together."""

_MAX_CALL_BYTES: Final = 1 << 30
"""Linux and macOS limit one read call to slightly less than 2 GiB."""

STAT_BLOCK_BYTES: Final = 512
"""The unit of ``st_blocks`` on every system, whatever the block size of the file system."""


def disk_bytes(status: os.stat_result) -> int:
    """Return the size of a file on the disk, or its length if the system does not report that size."""
    blocks: int = getattr(status, "st_blocks", -(-status.st_size // STAT_BLOCK_BYTES))
    return blocks * STAT_BLOCK_BYTES


def open_read_only(path: Path, advice: str = "run as a user who may read it") -> int:
    """Open a file or device for reading; return its descriptor."""
    try:
        descriptor = inputs.open_untouched(path)
    except PermissionError as error:
        raise ImageError(f"{path}: permission denied; {advice}") from error
    except FileNotFoundError as error:
        raise ImageError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        raise ImageError(f"{path}: {reason_of(error)}") from error
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ImageError(f"{path}: is a pipe, not a file")
    inputs.note(path, descriptor)
    return descriptor


class RawFile(Source):
    """A raw image in a regular file."""

    # Gaps between pieces are read through even if they are holes, because a check would take longer.
    gap_bytes = GAP_BYTES

    def __init__(self, path: Path, descriptor: int | None = None, counter: ReadCounter | None = None) -> None:
        self._descriptor = open_read_only(path) if descriptor is None else descriptor
        self.name = str(path)
        self.counter = counter or ReadCounter()  # the files of one image share theirs
        try:
            self._measure()
        except ImageError:
            self.close()
            raise
        self._stored = 0, 0  # the stored stretch of the last read, which the next read often hits, too

    def _measure(self) -> None:
        try:
            self.size_bytes = os.lseek(self._descriptor, 0, os.SEEK_END)
        except OSError as error:
            raise ImageError(f"{self.name}: has no size, so it holds no disk: {reason_of(error)}") from error
        facts = self.status()
        self._is_sparse = hasattr(os, "SEEK_DATA") and disk_bytes(facts) < facts.st_size
        try:
            if self._is_sparse:
                os.lseek(self._descriptor, 0, os.SEEK_DATA)
        except OSError as error:
            # Either the whole file is a hole, or the system cannot report holes.
            self._is_sparse = error.errno == errno.ENXIO

    def status(self) -> os.stat_result:
        """Return the status that the system reports for the open file."""
        return os.fstat(self._descriptor)

    def _fetch_into(self, image_offset: int, target: memoryview) -> None:
        end = image_offset + len(target)
        if not self._is_sparse or self._stored[0] <= image_offset <= end <= self._stored[1]:
            self._pread(image_offset, target)
            return
        position = image_offset
        for first, last in data_segments(self._descriptor, image_offset, end):
            self._stored = first, last
            start, stop = first, min(last, end)
            self._fill_hole(target[position - image_offset : start - image_offset])
            self._pread(start, target[start - image_offset : stop - image_offset])
            position = stop
        self._fill_hole(target[position - image_offset :])

    @cached_property
    def _scratch(self) -> U8:
        """Reusable memory for joint reads: fresh memory is slow, because the system clears it at the first access."""
        return np.empty(_JOINT_BYTES, np.uint8)

    def read_pieces(self, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview) -> None:
        """Read many pieces in address order, each to its place in a buffer."""
        done, used, out = 0, np.zeros(2, np.int64), np.frombuffer(target, np.uint8)
        while done < len(image_offsets):
            rest = image_offsets[done:], lengths_bytes[done:], places[done:]
            count = READ_PIECES.attempt(self._descriptor, SMALL_BYTES, self.gap_bytes, *rest, self._scratch, out, used)
            if count is None:
                super().read_pieces(*rest, target)
                return
            self.counter.reads += int(used[0])
            self.counter.bytes += int(used[1])
            done += count
            for place in places[done : done + 1].tolist():
                # Too long, in need of a retry, or beyond the end: this path finds out which.
                self.read_into(int(image_offsets[done]), target[place : place + int(lengths_bytes[done])])
                done += 1

    def _pread(self, image_offset: int, target: memoryview) -> None:
        done = 0
        while done < len(target):
            piece = target[done : done + _MAX_CALL_BYTES]
            self.counter.reads += 1
            got = self._call(image_offset + done, piece)
            if not got:
                message = "the image became shorter while it was read"
                raise ShrunkError(message, structure="image", image_offset=image_offset)
            self.counter.bytes += got
            done += got

    def _call(self, image_offset: int, target: memoryview) -> int:
        try:
            return pread_into(self._descriptor, image_offset, target)
        except OSError as error:
            raise UnreadError(
                f"cannot be read: {reason_of(error)}",
                structure=f"{len(target)} bytes",
                image_offset=image_offset,
            ) from error

    @property
    def holes(self) -> I64:
        """Return the areas that the file does not store, shape (n, 2): offset and length in bytes."""
        if not self._is_sparse:
            return super().holes
        stored = np.array(list(data_segments(self._descriptor, 0, self.size_bytes)), np.int64).reshape(-1, 2)
        return subtract(np.array([[0, self.size_bytes]]), runs_of(stored[:, 0], stored[:, 1] - stored[:, 0]))

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def data_segments(
    descriptor: int,
    start: int,  # start, stop: the range, in bytes
    stop: int,
) -> Iterator[tuple[int, int]]:
    """Yield start and stop of the stored stretches that overlap a range, beyond which the last may extend."""
    position = start
    while position < stop:
        data = _seek(descriptor, position, os.SEEK_DATA, stop)
        if data >= stop:
            return
        # Beyond the end of the file, the read itself finds the end by coming up short.
        position = max(data + 1, _seek(descriptor, data, os.SEEK_HOLE, stop))
        yield data, position


def _seek(descriptor: int, position: int, whence: int, otherwise: int) -> int:
    try:
        return os.lseek(descriptor, position, whence)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return otherwise


DARWIN_BLOCK_SIZE: Final = 0x40046418
"""DKIOCGETBLOCKSIZE, a 32-bit number (<sys/disk.h>)."""

DARWIN_BLOCK_COUNT: Final = 0x40086419
"""DKIOCGETBLOCKCOUNT, a 64-bit number (<sys/disk.h>)."""

LINUX_SECTOR_SIZE: Final = 0x1268
"""BLKSSZGET, an int (<linux/fs.h>)."""


class Device(RawFile):
    """A disk, partition or loop device."""

    def __init__(self, path: Path) -> None:
        advice = "run with sudo, or as a member of the group that owns the device"
        if sys.platform == "darwin":
            advice = "run with sudo, and give the terminal Full Disk Access in System Settings, Privacy & Security"
        super().__init__(path, open_read_only(path, advice))

    def _measure(self) -> None:
        """Ask the system for size and sector size."""
        try:
            self.size_bytes, self.sector_size_bytes = _ask_for_size(self._descriptor)
        except OSError as error:
            raise ImageError(f"{self.name}: is not a disk: the system does not report its size") from error
        self._is_sparse = False

    def read_pieces(self, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview) -> None:
        """Read many pieces in address order, each to its place in a buffer."""
        # Raw devices accept only whole sectors: macOS returns EINVAL for /dev/rdisk, Linux for descriptors without a
        # page cache.
        is_whole = not ((image_offsets | lengths_bytes) % self.sector_size_bytes).any()
        (RawFile if is_whole else Source).read_pieces(self, image_offsets, lengths_bytes, places, target)

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
    """Extend a range to whole sectors; return start and stop in bytes.

    >>> aligned(700, 100, 512)
    (512, 1024)
    """
    stop = image_offset + length_bytes
    return image_offset - image_offset % sector_size_bytes, stop + -stop % sector_size_bytes


def _ask_for_size(descriptor: int) -> tuple[int, int]:
    """Return size and sector size of a device in bytes from system calls."""
    if sys.platform == "darwin":
        block_size = _ask(descriptor, DARWIN_BLOCK_SIZE, "I")
        # Darwin does not seek to the end of a device; it reports the number and size of blocks.
        return _ask(descriptor, DARWIN_BLOCK_COUNT, "Q") * block_size, block_size
    # stat reports a size of 0 for a block device; the end of the file is the end of the disk.
    size_bytes = os.lseek(descriptor, 0, os.SEEK_END)
    if not stat.S_ISBLK(os.fstat(descriptor).st_mode):
        raise OSError("no block device")  # /dev/zero and similar devices seek to 0
    return size_bytes, _ask(descriptor, LINUX_SECTOR_SIZE, "i")


def _ask(descriptor: int, request: int, form: str) -> int:
    import fcntl

    answer = array(form, [0])
    fcntl.ioctl(descriptor, request, answer, True)
    return int(answer[0])


DARWIN_NOCACHE: Final = 48
"""F_NOCACHE: reads leave nothing in the page cache (<sys/fcntl.h>)."""
LARGEST: Final = 1 << 20


class DirectDrive:
    """A drive whose reads are timed: a device, or a file in its place."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        try:
            facts = path.stat()
        except OSError as error:
            raise ImageError(f"{path}: {reason_of(error)}") from error
        self.capacity_bytes, self.is_file = facts.st_size, stat.S_ISREG(facts.st_mode)
        if not self.is_file:
            with Device(path) as device:
                self.capacity_bytes = device.size_bytes
        if not hasattr(os, "preadv"):
            raise ImageError(f"{path}: this system reads no disk past its cache in a way that is known here")
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECT", 0))
            if sys.platform == "darwin":
                import fcntl

                fcntl.fcntl(self._descriptor, DARWIN_NOCACHE, 1)
        except OSError as error:
            raise ImageError(f"{path}: cannot be read past the cache: {reason_of(error)}") from error
        inputs.note(self._descriptor)
        # O_DIRECT needs page-aligned memory, which an anonymous map provides.
        self._memory = mmap.mmap(-1, LARGEST)

    def read(self, offset: int, length: int, memory: mmap.mmap | None = None) -> tuple[int, int]:
        """Read once; return when the read began and how long it took, in nanoseconds."""
        target = memoryview(memory or self._memory)[:length]
        began = time.perf_counter_ns()
        try:
            got = os.preadv(self._descriptor, [target], offset)
        except OSError as error:
            reason = reason_of(error)
            raise ImageError(f"{self.name}: byte {offset:,}: {reason}; nothing more was read") from error
        taken = time.perf_counter_ns() - began
        if got != length:
            raise ImageError(f"{self.name}: byte {offset:,}: {got:,} of {length:,} bytes came; nothing more was read")
        return began, taken

    def read_together(self, offsets: list[int], length: int, depth: int) -> int:
        """Read with several outstanding reads, one per thread; return the total time in nanoseconds."""
        from concurrent.futures import ThreadPoolExecutor  # only needed to measure a drive

        began = time.perf_counter_ns()
        with ThreadPoolExecutor(depth) as threads:
            list(threads.map(lambda offset: self.read(offset, length, mmap.mmap(-1, length)), offsets))
        return time.perf_counter_ns() - began

    def wait(self, milliseconds: float) -> None:
        """Let the drive read ahead for a while."""
        time.sleep(milliseconds / 1000)

    def close(self) -> None:
        """Close the device."""
        os.close(self._descriptor)


def list_mounted(path: Path, table: str) -> list[str]:
    """Return the mounted parts of a device from a table of mounts: ``/proc/mounts``, or macOS ``mount``'s output."""
    # /dev/rdisk4 is the same disk as /dev/disk4, and /dev/disk4s2 is a part of it; so are /dev/sdb1 and /dev/nvme0n1p1.
    name = path.name.removeprefix("r") if path.name.startswith("rdisk") else path.name
    found = []
    for line in table.splitlines():
        device = line.split(" ", 1)[0].rpartition("/")[2]
        if device == name or (device.startswith(name) and device[len(name) :].lstrip("ps").isdigit()):
            found.append(device)
    return found
