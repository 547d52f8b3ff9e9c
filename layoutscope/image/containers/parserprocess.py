"""The process in which a library for containers runs: whatever a hostile file makes of it, it harms nobody else.

Started as a script by :mod:`layoutscope.image.containers.foreign`, so that it loads nothing but the library. It has no
file but its pipes, may open none, has no network, and is bounded in memory and processor time. The bytes of the
container come from the other side, piece by piece, as the library asks for them.

A message is a line of words, of which one may be JSON, and the bytes that it announces. From here: ``need SOURCE OFFSET
LENGTH``, ``extents NAMES``, ``ready SIZE``, ``data LENGTH``, ``layer NAME``, ``refused REASON`` where the
library has something against what it reads, and ``error REASON``; to here: the task as JSON, the sizes of extents,
``OFFSET LENGTH`` to be read, and the length of what was needed, -1 where there is none.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import resource
import sys
import time
from contextlib import suppress
from importlib import import_module
from typing import Any, BinaryIO

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
"""Flags of ``unshare`` (<linux/sched.h>): a user of one's own may have a network of one's own, in which nobody is."""


class Pipes:
    """Both ways of talking to the process that asks."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._incoming, self._outgoing = incoming, outgoing

    def tell(self, *words: object, data: bytes = b"") -> None:
        """Send a message."""
        self._outgoing.write(" ".join(map(str, words)).encode() + b"\n" + data)
        self._outgoing.flush()

    def line(self) -> str:
        """Wait for a message; without anybody to ask, the process has nothing left to do."""
        line = self._incoming.readline()
        if not line:
            sys.exit()
        return line.decode()

    def bytes_of(self, length: int) -> bytes:
        """Read what a message announced."""
        return self._incoming.read(length)


class RemoteFile(io.RawIOBase):
    """A file that the other process reads, as libyal wants it."""

    def __init__(self, pipes: Pipes, number: int, size_bytes: int) -> None:
        super().__init__()
        self._pipes, self._number, self._size_bytes, self._position = pipes, number, size_bytes, 0

    def read(self, size: int = -1) -> bytes:
        """Read from the current position."""
        left = max(0, self._size_bytes - self._position)
        length = left if size < 0 else min(size, left)
        if not length:
            return b""
        self._pipes.tell("need", self._number, self._position, length)
        found = int(self._pipes.line())
        if found < 0:
            raise OSError("a part of the file cannot be read")
        self._position += length
        return self._pipes.bytes_of(found)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    get_offset = tell

    def get_size(self) -> int:
        """Return the length in bytes."""
        return self._size_bytes

    def readable(self) -> bool:
        """Report that it can be read."""
        return True

    def seekable(self) -> bool:
        """Report that it has positions."""
        return True


def handle_of(pipes: Pipes, task: dict[str, Any], library: Any) -> Any:
    """Open a container."""
    files = [RemoteFile(pipes, number, size) for number, size in enumerate(task["sizes"])]
    handle = getattr(library, task["create"])()
    handle.open_file_object(files[0])
    if hasattr(handle, "get_number_of_extents"):
        count = handle.get_number_of_extents()
        # What they are called is all that is taken of the description; where they lie says whoever named the image.
        names = [
            handle.get_extent_descriptor(number).get_filename() for number in range(min(count, task["extents"] + 1))
        ]
        pipes.tell("extents", json.dumps(names))
        extents = [RemoteFile(pipes, number, size) for number, size in json.loads(pipes.line())]
        handle.open_extent_data_files_as_file_objects(extents)
    return handle


def layer_below(handle: Any) -> str | None:
    """Name the file that a container only holds the differences to, if there is one."""
    names = (getattr(handle, name, lambda: None)() for name in ("get_backing_filename", "get_parent_filename"))
    return next((str(name) for name in names if name), None)


def limit(memory_bytes: int) -> None:
    """Give up what no parser needs; what a system does not know is left."""
    limits = {"AS": memory_bytes, "DATA": memory_bytes, "CORE": 0, "FSIZE": 0, "NPROC": 0}
    for name, most in limits.items():
        with suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).unshare(CLONE_NEWUSER | CLONE_NEWNET)
    # Standard input, output and error are the only descriptors there are, and the last that there will be: a file or a
    # socket would need another one.
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))


def allow(seconds: float) -> None:
    """Let the process run for so many seconds of processor time from now on."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + 1, most))


def answer(pipes: Pipes) -> None:
    """Open what is asked for and read of it until nobody asks any more."""
    task = json.loads(pipes.line())
    sys.path[:] = task["path"]
    try:
        library = import_module(task["library"])
        limit(task["memory_bytes"])
        allow(task["seconds_to_open"])
        handle = handle_of(pipes, task, library)
        below = layer_below(handle)
        if below is not None:
            pipes.tell("layer", json.dumps(below))
            return
        pipes.tell("ready", handle.get_media_size())
        while True:
            offset, length = map(int, pipes.line().split())
            allow(task["seconds_to_read"])
            try:
                data = handle.read_buffer_at_offset(length, offset)
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001
                # What a disk does not give, or a file that was cut, is needed for this answer, and not for every other.
                pipes.tell("refused", json.dumps(str(error) or type(error).__name__))
                continue
            pipes.tell("data", len(data), data=data)
    except MemoryError:
        handle = None
        pipes.tell("error", json.dumps("it asks for more memory than any that is sound"))
    except Exception as error:  # noqa: BLE001  (whatever a library raises is told in a line)
        pipes.tell("refused", json.dumps(str(error) or type(error).__name__))


if __name__ == "__main__":
    answer(Pipes(os.fdopen(0, "rb"), os.fdopen(1, "wb")))
