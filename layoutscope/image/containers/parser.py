"""Asking a library for containers that runs in a process of its own, :mod:`layoutscope.image.containers.parserprocess`.

The libraries are large programs in C that read what strangers made. One that crashes, loops or eats memory ends with
its process, and the command in one line.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from layoutscope import system
from layoutscope.errors import FormatError, UnreadError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from layoutscope.image.source import Source

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
                system.part(f"{__package__}.{PROGRAM.stem}", "-I", "-S", str(PROGRAM)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                # Whoever interrupts a command at its terminal interrupts this process alone, which ends the other one.
                start_new_session=True,
            )
        except OSError as error:
            raise ParserError(f"its reader cannot be started: {(error.strerror or str(error)).lower()}") from error
        self._to, self._from = (_quick(pipe) for pipe in (self._process.stdin, self._process.stdout))
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
        """Say why the process ended."""
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


def _quick(pipe: Any) -> int:
    """Have a pipe hold more than a few pages, where the system can; its descriptor, which nobody waits on."""
    descriptor = int(pipe.fileno())
    with suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    os.set_blocking(descriptor, False)
    return descriptor
