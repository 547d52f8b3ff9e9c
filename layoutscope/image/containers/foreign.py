"""Containers of other makers, read in place by libyal's libraries: qcow2, vhd, vhdx and vmdk.

The libraries come with the extra ``containers``, and run in a process of their own. They get bytes, never a name, so
that what is compressed or itself inside of a container can be read too; the files that a description names are looked
up here, beside it.
"""

from __future__ import annotations

import select
from collections import OrderedDict
from functools import cached_property
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays import intervals
from layoutscope.errors import ImageError, UnreadError, UnsupportedError
from layoutscope.findings import Finding
from layoutscope.image.containers.allocation import (
    last_block,
    refuse_expansion,
    refuse_extent,
    refuse_qcow,
    stored_runs,
    vhd_end,
)
from layoutscope.image.containers.parser import Parser, ParserError, RefusedError
from layoutscope.image.raw import RawFile
from layoutscope.image.signatures import trailer_of
from layoutscope.image.source import FillingSource, ReadCounter, Source
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.image.signatures import Signature

INSTALL: Final = "pip install 'layoutscope[containers]'"
MAX_EXTENTS: Final = 4096

MAX_DISK_BYTES: Final = 64 * 1024**4
"""The largest disk of every format here but qcow2; a larger one claims what nobody ever stored."""

BLOCK_BYTES: Final = 64 * 1024
"""What is asked for at once at least: a cluster of qcow2, which is unpacked as a whole anyway."""

AHEAD_BLOCKS: Final = 8
"""So many more are asked for where reads follow one another."""

KEPT_BLOCKS: Final = 512
MOST_BYTES: Final = 4 * 1024**2
"""The longest answer."""

VHD_MAGIC: Final = b"conectix"
VHD_FOOTER_BYTES: Final = 512

CREATE: Final = {"pyqcow": "file", "pyvhdi": "file", "pyvmdk": "handle"}
"""What in each library makes a handle."""


def open_foreign(source: Source, found: Signature) -> Source:
    """Open the disk in a container."""
    # What strangers made is handed to libraries in C only where a process can be bounded.
    is_bounded = hasattr(select, "poll")
    if not is_bounded or find_spec(found.reader) is None:
        advice = f"install what reads it with: {INSTALL}; or {found.advice}" if is_bounded else found.advice
        raise UnsupportedError(f"{source.name}: is no raw image but: {found.name}", code="container", advice=advice)
    if found.reader == "pyqcow":
        refuse_qcow(source)
    elif found.reader == "pyvmdk":
        refuse_extent(source)
    return ForeignSource(source, found)


class _Footed(Source):
    """A file that lost its footer, with its first 512 bytes behind what it should hold."""

    def __init__(self, source: Source, footer_at: int) -> None:
        self._source, self._footer_at = source, footer_at
        self.name, self.counter = source.name, source.counter
        self.size_bytes = footer_at + VHD_FOOTER_BYTES

    def _fetch(self, image_offset: int, length_bytes: int) -> bytes:
        # What lies behind the end of the file is refused by it.
        in_footer = image_offset >= self._footer_at
        return self._source.read(image_offset - self._footer_at if in_footer else image_offset, length_bytes)


class ForeignSource(FillingSource):
    """The disk in a container."""

    def __init__(self, source: Source, found: Signature) -> None:
        self._source = self.around = source
        self._kind = found.name
        self.name = source.name
        self.counter = ReadCounter()
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self._next_block = -1
        self._unread: NDArray[np.int64] = np.empty((0, 2), np.int64)
        self._others: list[Source] = []
        given = self._with_footer() if found.magic == VHD_MAGIC else source
        last = last_block(source)
        if last >= source.size_bytes:
            message = f"the file is cut: it ends at byte {self._end}, and its last block begins at {last:,}"
            self.own_findings = (Finding("image-incomplete", "error", self._kind, source.size_bytes, message),)
        try:
            self._parser = Parser(found.reader, CREATE[found.reader], [given], MAX_EXTENTS, self._extent)
        except (ParserError, ImageError, UnreadError) as error:
            self._close_others()
            raise self._damaged(error) if isinstance(error, ParserError) else error from error
        self.size_bytes = self._parser.size_bytes
        try:
            self._refuse_claims()
        except (ImageError, UnsupportedError):
            self._parser.close()
            self._close_others()
            raise

    @property
    def files(self) -> list[Path]:
        """The container's file, and those that it names."""
        return [Path(self.name), *(Path(each.name) for each in self._others)]

    @cached_property
    def holes(self) -> NDArray[np.int64]:
        """Areas that the container does not store, shape (n, 2): offset and length in bytes."""
        stored = stored_runs([self._source, *self._others], self.size_bytes)
        files = self._source.size_bytes + sum(each.size_bytes for each in self._others)
        refuse_expansion(self.name, intervals.total(stored), files)
        return intervals.subtract(np.array([[0, self.size_bytes]]), stored)

    def _with_footer(self) -> Source:
        """Return the file of a dynamic VHD; with the copy of its footer behind its last block if it is cut."""
        end = vhd_end(self._source)
        if end is None or trailer_of(self._source).startswith(VHD_MAGIC):
            return self._source
        size = self._source.size_bytes
        if size < end:
            message = f"the file is cut: it ends at byte {size:,}, its last block at {end:,}"
            self.own_findings = (Finding("image-incomplete", "error", self._kind, size, message),)
        else:
            message = "the file has no footer at its end; the copy that begins it is used"
            self.own_findings = (Finding("container-invalid", "warning", self._kind, size, message),)
        return _Footed(self._source, max(size, end))

    def _refuse_claims(self) -> None:
        if self._parser.layer is not None:
            raise UnsupportedError(
                f"{self.name}: holds the differences to {self._parser.layer!r:.200} alone",
                code="container",
                advice="join them with: qemu-img convert -O raw IMAGE RAW",
            )
        if not 0 <= self.size_bytes <= MAX_DISK_BYTES:
            raise ImageError(
                f"{self.name}: {self._kind} claims a disk of {format_bytes(self.size_bytes)}; "
                f"at most {format_bytes(MAX_DISK_BYTES)} are read"
            )

    def _extent(self, name: str | None) -> Source:
        """Open an extent; names with folders in them are taken for the file of that name beside the description."""
        # A disk in one file (KDMV) holds its extent itself, under whatever name its description had when it was made.
        if not name or self._source.read(0, 4) == b"KDMV":
            return self._source
        found = RawFile(Path(self.name).parent / Path(name.replace("\\", "/")).name)
        self._others.append(found)
        return found

    def _damaged(self, error: Exception) -> ImageError:
        """Say in one line why a container cannot be read; the words of a library would say nothing."""
        reason = str(error)
        if isinstance(error, RefusedError):
            reason = f"its header or tables are damaged, or the file, which ends at byte {self._end}, is cut"
        return ImageError(f"{self.name}: {self._kind} cannot be read: {reason}")

    @property
    def _end(self) -> str:
        return f"{self._source.size_bytes:,}"

    def _fetch_into(self, image_offset: int, target: memoryview) -> int:
        done = 0
        while done < len(target):
            at, left = image_offset + done, len(target) - done
            if left >= MOST_BYTES:
                got = self._ask(at, target[done : done + MOST_BYTES])
            else:
                block = self._block(at // BLOCK_BYTES, -(-(at + left) // BLOCK_BYTES))
                piece = block[at % BLOCK_BYTES :][:left]
                got = len(piece)
                target[done : done + got] = piece
            if not got:
                break
            done += got
        return done

    def _block(self, number: int, stop: int) -> bytes:
        """Return a block; those up to `stop` that are not at hand either come with it."""
        if number not in self._kept:
            ahead = AHEAD_BLOCKS if number == self._next_block else 0
            wanted = list(takewhile(lambda each: each not in self._kept, range(number, stop + ahead)))
            start = number * BLOCK_BYTES
            data = bytearray(max(0, min(len(wanted) * BLOCK_BYTES, self.size_bytes - start)))
            del data[self._ask(start, memoryview(data)) :]
            self._next_block = number + len(wanted)
            for place, each in enumerate(wanted):
                self._kept[each] = bytes(data[place * BLOCK_BYTES :][:BLOCK_BYTES])
        self._kept.move_to_end(number)
        while len(self._kept) > KEPT_BLOCKS:
            self._kept.popitem(last=False)
        return self._kept[number]

    def _ask(self, image_offset: int, target: memoryview) -> int:
        self.counter.reads += 1
        try:
            got = self._parser.read_into(image_offset, target)
        except RefusedError:
            return self._ask_in_parts(image_offset, target)
        except ParserError as error:
            raise self._damaged(error) from error
        self.counter.bytes += got
        return got

    def _ask_in_parts(self, image_offset: int, target: memoryview) -> int:
        """Read what can be read of a range, block by block; what cannot counts as never read."""
        if len(target) > BLOCK_BYTES:
            starts = range(0, len(target), BLOCK_BYTES)
            return sum(self._ask(image_offset + at, target[at : at + BLOCK_BYTES]) for at in starts)
        target[:] = bytes(len(target))
        self._unread = intervals.union([self._unread, np.array([[image_offset, len(target)]], np.int64)])
        message = (
            f"the file is cut or damaged (it ends at byte {self._end}): "
            f"{format_bytes(intervals.total(self._unread))} that were asked for count as not read"
        )
        self.own_findings = (Finding("image-incomplete", "error", self._kind, int(self._unread[0, 0]), message),)
        return len(target)

    def unread_ranges(self) -> NDArray[np.int64]:
        """Areas that cannot be read, as far as is known by now, shape (n, 2): offset and length in bytes."""
        return self._unread

    def _close_others(self) -> None:
        for each in self._others:
            each.close()

    def close(self) -> None:
        """Close the container and its files, and end the process that reads it."""
        self._parser.close()
        self._close_others()
        self._source.close()
