"""Containers of other makers, read in place by libyal's libraries: qcow2, vhd, vhdx and vmdk.

The libraries come with the extra ``containers``, and run in a process of their own. They get bytes, never a name, so
that what is compressed or itself inside of a container can be read too; the files that a description names are looked
up here, beside it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from contextlib import ExitStack, suppress
from functools import cached_property
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope import bounded
from layoutscope.errors import FormatError, ImageError, UnreadError, UnsupportedError
from layoutscope.findings import Finding
from layoutscope.image.containers.placed import (
    find_differing_table,
    last_block,
    refuse_expansion,
    refuse_extent,
    refuse_qcow,
    refuse_version,
    stored_runs,
    vhd_end,
)
from layoutscope.image.raw import RawFile
from layoutscope.image.signatures import trailer_of
from layoutscope.image.source import FillingSource, ReadCounter, Source
from layoutscope.structs import arrays
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from layoutscope.image.signatures import Signature


PROGRAM: Final = Path(__file__).with_name("parserprocess.py")

MEMORY_BYTES: Final = 1 << 30
"""What a parser may take, besides a part of what it reads: tables of chunks of an image of terabytes are long."""

MEMORY_PART: Final = 64

READ_SECONDS: Final = 10.0
"""Of processor time, for some MiB of data; opening may take more where more is stored."""

OPEN_BYTES_A_SECOND: Final = 1 << 26

WAIT_SECONDS: Final = 60.0
"""How long nothing at all may come; whatever a parser reads is read here, so that it never waits for a disk."""

PIPE_BYTES: Final = 1 << 20
MAX_LINE_BYTES: Final = 1 << 22
MAX_NEED_BYTES: Final = 1 << 28
"""The longest piece that is read for a parser at once; those of sound containers are a chunk or a table."""


class ParserError(Exception):
    """The parser ended without an answer, or refused; why, in words."""


class RefusedError(ParserError):
    """The library refused the container, or a part of it; in its own words, which say nothing to whoever uses it."""


class Parser:
    """A container that is open in another process."""

    def __init__(
        self,
        library: str,
        create: str,
        sources: Sequence[Source],
        most_extents: int,
        # given the name of such a file, None where it has none, returns its source
        extent: Callable[[str | None], Source],
    ) -> None:
        self._sources, self._extent, self._most_extents = list(sources), extent, most_extents
        self._held = bytearray()
        self._unread: UnreadError | None = None  # why the parser did not get what it needs for an answer
        self._allowed_seconds = 0.0
        self.size_bytes = 0
        self.layer: str | None = None
        stored = sum(source.size_bytes for source in sources)
        task = {
            "library": library,
            "create": create,
            "path": sys.path,
            "sizes": [source.size_bytes for source in sources],
            "extents": most_extents,
            "memory_bytes": MEMORY_BYTES + stored // MEMORY_PART,
            "seconds_to_open": READ_SECONDS + stored / OPEN_BYTES_A_SECOND,
            "seconds_to_read": READ_SECONDS,
        }
        try:
            self._process = subprocess.Popen(  # noqa: S603  (this interpreter, and a program of our own)
                bounded.command_of(f"{__package__}.{PROGRAM.stem}", "-I", "-S", str(PROGRAM)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                # Whoever interrupts a command at its terminal interrupts this process alone, which ends the other one.
                start_new_session=True,
            )
        except OSError as error:
            raise ParserError(f"its reader cannot be started: {(error.strerror or str(error)).lower()}") from error
        self._to, self._from = (_enlarge_pipe(pipe) for pipe in (self._process.stdin, self._process.stdout))
        with ExitStack() as unless_started:
            unless_started.callback(self.close)
            self._start(task)
            unless_started.pop_all()

    def _start(self, task: dict[str, Any]) -> None:
        self._send(json.dumps(task).encode() + b"\n", task["seconds_to_open"])
        word, rest = self._answer()
        if word == "layer":
            self.layer = str(json.loads(rest))
        else:
            self.size_bytes = int(rest)

    def read_into(self, offset: int, target: memoryview) -> int:
        """Read from a place of the disk on; how many bytes came, fewer only at the end of a damaged container."""
        done = 0
        while done < len(target):
            self._send(b"%d %d\n" % (offset + done, len(target) - done), READ_SECONDS)
            length = int(self._answer()[1])
            if not 0 < length <= len(target) - done:
                break
            self._receive(target[done : done + length])
            done += length
        return done

    def _answer(self) -> tuple[str, str]:
        """Serve what the parser needs until it answers."""
        self._unread = None
        while True:
            word, _, rest = self._line().partition(" ")
            if word == "need":
                self._serve(*map(int, rest.split()))
            elif word == "extents":
                self._open_extents(json.loads(rest))
            elif word in ("error", "refused"):
                if self._unread is not None:
                    raise self._unread
                raise (RefusedError if word == "refused" else ParserError)(str(json.loads(rest)))
            else:
                return word, rest

    def _serve(self, number: int, offset: int, length: int) -> None:
        if not 0 <= length <= MAX_NEED_BYTES:
            raise ParserError(f"its reader asks for {length:,} bytes at once")
        try:
            data = self._sources[number].read(offset, length)
        except FormatError as error:
            self._unread = error if isinstance(error, UnreadError) else None
            self._send(b"-1\n")
            return
        self._send(b"%d\n" % len(data))
        self._send(data)

    def _open_extents(self, names: list[str | None]) -> None:
        if len(names) > self._most_extents:
            raise ParserError(f"claims more than {self._most_extents:,} extents")
        found = [self._extent(name) for name in names]
        first = len(self._sources)
        self._sources += found
        told = [[number, source.size_bytes] for number, source in enumerate(found, first)]
        self._send(json.dumps(told).encode() + b"\n")

    def _line(self) -> str:
        while b"\n" not in self._held:
            if len(self._held) > MAX_LINE_BYTES:
                raise ParserError("its reader answers without end")
            self._wait(self._from, select.POLLIN)
            data = os.read(self._from, PIPE_BYTES)
            if not data:
                raise ParserError(self._last_words())
            self._held += data
        line, _, rest = bytes(self._held).partition(b"\n")
        self._held = bytearray(rest)
        return line.decode()

    def _receive(self, target: memoryview) -> None:
        """Fill a buffer with what was announced."""
        done = min(len(target), len(self._held))
        target[:done] = self._held[:done]
        del self._held[:done]
        while done < len(target):
            self._wait(self._from, select.POLLIN)
            got = os.readv(self._from, [target[done:]])
            if not got:
                raise ParserError(self._last_words())
            done += got

    def _send(self, data: bytes, seconds: float | None = None) -> None:
        """Send bytes; a number of seconds begins a request, which may take so much processor time."""
        if seconds is not None:
            self._allowed_seconds = WAIT_SECONDS + 2 * seconds
        left = memoryview(data)
        while left:
            self._wait(self._to, select.POLLOUT)
            try:
                left = left[os.write(self._to, left) :]
            except BrokenPipeError as error:
                raise ParserError(self._last_words()) from error

    def _wait(self, descriptor: int, event: int) -> None:
        """Wait for the other process; what it takes in all is bounded for each request."""
        poll = select.poll()
        poll.register(descriptor, event)
        start = time.monotonic()
        if not poll.poll(max(0.0, self._allowed_seconds) * 1000):
            self._process.kill()
            raise ParserError("its reader does not answer any more")
        self._allowed_seconds -= time.monotonic() - start

    def _last_words(self) -> str:
        """Describe why the process ended."""
        code = self._process.wait()
        if code == -signal.SIGXCPU:
            return "its reader takes more time than any sound one needs"
        if code < 0:
            with suppress(ValueError):
                return f"its reader crashed ({signal.Signals(-code).name})"
        return f"its reader ended with {code}"

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def _enlarge_pipe(pipe: Any) -> int:
    """Have a pipe hold more than a few pages, where the system can; its descriptor, which nobody waits on."""
    descriptor = int(pipe.fileno())
    with suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    os.set_blocking(descriptor, False)
    return descriptor


INSTALL: Final = "pip install 'layoutscope[containers]'"
MAX_EXTENTS: Final = 4096

MAX_DISK_BYTES: Final = 64 * 1024**4
"""The largest disk of every format here but qcow2; a larger one claims what nobody ever stored."""

BLOCK_BYTES: Final = 64 * 1024
"""What is asked for at once at least: a cluster of qcow2, which is unpacked as a whole anyway."""

AHEAD_BLOCKS: Final = 8
"""So many more are asked for where reads follow one another."""

KEPT_BLOCKS: Final = 512
MAX_BYTES: Final = 4 * 1024**2
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
        refuse_version(source)
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
        self._others: list[Source] = []
        given = self._add_footer() if found.magic == VHD_MAGIC else source
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
        if found.reader == "pyvmdk":
            self._compare_tables()
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
        refuse_expansion(self.name, arrays.total(stored), files)
        return arrays.subtract(np.array([[0, self.size_bytes]]), stored)

    def _add_footer(self) -> Source:
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

    def _compare_tables(self) -> None:
        for each in (self._source, *self._others):
            at = find_differing_table(each)
            if at is not None:
                message = f"a table of {Path(each.name).name} and its copy differ; which is right is not known"
                told = Finding("container-invalid", "error", self._kind, at, message)
                self.own_findings = (*self.own_findings, told)

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
        refuse_version(found)
        return found

    def _damaged(self, error: Exception) -> ImageError:
        """Explain in one line why a container cannot be read; the words of a library would say nothing."""
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
            if left >= MAX_BYTES:
                got = self._ask(at, target[done : done + MAX_BYTES])
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
        self._unread = arrays.union([self._unread, np.array([[image_offset, len(target)]], np.int64)])
        message = (
            f"the file is cut or damaged (it ends at byte {self._end}): "
            f"{format_bytes(arrays.total(self._unread))} that were asked for count as not read"
        )
        self.own_findings = (Finding("image-incomplete", "error", self._kind, int(self._unread[0, 0]), message),)
        return len(target)

    def _close_others(self) -> None:
        for each in self._others:
            each.close()

    def close(self) -> None:
        """Close the container and its files, and end the process that reads it."""
        self._parser.close()
        self._close_others()
        self._source.close()
