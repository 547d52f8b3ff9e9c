"""Files that this process reads, which none of its outputs may replace.

Images come in many files (parts of a split one, bands of a bundle, the second device of a set, tables of a capture),
and each may be named in many ways. So whatever is opened for reading is noted by what it is, device and inode, in the
one place where it is opened; anyone who is about to write asks here. Standard output and standard error are opened by
anyone who starts this process, so they are compared with each input.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import sys
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from layoutscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

MAX_TEXT_BYTES: Final = 1 << 30

MAX_PARSED_BYTES: Final = 16 << 20
"""Limit for profiles and fio reports, which have some KiB: parsed, they take many times as much."""

MAX_SECRET_BYTES: Final = 1 << 20
"""Limit for a list of paths, a ddrescue map, a profile or a password."""
PIECE_BYTES: Final = 1 << 20

_SEEK_LOCK: Final = threading.Lock()

_READ: Final[dict[tuple[int, int], dict[str, int]]] = {}
"""Device and inode: the places where such a file was read, and when its inode had last been changed then."""


def note(file: object, descriptor: int | None = None) -> None:
    """Remember a file, folder or device as one that is read; absent ones are not."""
    if not isinstance(file, str | os.PathLike):
        return
    path = split_volume(file)[0]
    status = _status(path if descriptor is None else descriptor)
    if status is not None:
        _READ.setdefault(_identity(status), {})[os.path.realpath(path)] = status.st_ctime_ns
        _refuse_streams(path, status)


def _refuse_streams(path: str | os.PathLike[str], status: os.stat_result) -> None:
    """Refuse an input to which standard output or standard error leads, or a folder that holds what one leads to."""
    for stream, name in _streams().items():
        kept = _status_if_stored(stream)
        if kept is None:
            continue
        around = stream_path(stream).parents if stat.S_ISDIR(status.st_mode) else ()
        if any(os.path.samestat(status, each) for each in (kept, *(folder.stat() for folder in around))):
            _READ.setdefault(_identity(kept), {})  # nothing more is printed there
            raise UsageError(f"{os.fspath(path)}: is read as input, and {name} leads there. Send it elsewhere.")


def leave_inputs() -> bool:
    """Turn standard output and standard error away from what is read, so that nothing printed is written there."""
    kept = {stream: _status_if_stored(stream) for stream in _streams()}
    led = [stream for stream, status in kept.items() if status is not None and _identity(status) in _READ]
    for stream in led:
        is_error_alone = stream != 1 and 1 not in led
        elsewhere = 1 if is_error_alone else os.open(os.devnull, os.O_WRONLY)
        os.dup2(elsewhere, stream)
    return bool(led)


def _streams() -> dict[int, str]:
    """Return the descriptors of what is printed to, with their names; under a limit of memory there is one more."""
    streams = {1: "standard output", 2: "standard error"}
    try:
        streams[sys.stderr.fileno()] = "standard error"
    except (AttributeError, OSError, ValueError):
        return streams  # it was closed, or is not a file
    return streams


def _status_if_stored(stream: int) -> os.stat_result | None:
    """Return what a stream leads to, if that keeps what is written there: a file or a disk, no terminal and no pipe."""
    status = _status(stream)
    if status is None:
        return None
    is_disk = stat.S_ISBLK(status.st_mode) or (  # a raw disk of macOS is a device of characters, as terminals are
        stat.S_ISCHR(status.st_mode) and not os.isatty(stream) and not _is_null(status)
    )
    return status if is_disk or stat.S_ISREG(status.st_mode) else None


def stream_path(stream: int) -> Path:
    """Return a path by which what a descriptor leads to can be opened for reading."""
    if sys.platform == "darwin":
        import fcntl

        return Path(os.fsdecode(fcntl.fcntl(stream, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0")))
    link = Path(f"/proc/self/fd/{stream}")
    named = Path(os.path.realpath(link))
    status = _status(named)
    is_there = status is not None and _identity(status) == _identity(os.fstat(stream))
    return named if is_there else link


def _is_null(status: os.stat_result) -> bool:
    null = _status(os.devnull)
    return null is not None and _identity(null) == _identity(status)


def split_volume(path: str | os.PathLike[str]) -> tuple[str, str | None]:
    """Split ``IMAGE:VOLUME`` into the path of the image and the name or number of a volume, None without one.

    The path is tried as written first, so files with a colon in their names can be opened.
    """
    whole = os.fspath(path)
    image, colon, volume = whole.rpartition(":")
    if not (colon and image and volume) or Path(whole).exists() or not Path(image).exists():
        return whole, None
    return image, volume


def is_input(path: str | os.PathLike[str]) -> bool:
    """Whether a path leads to something that was read, or into a folder that was, under whatever name.

    Links of both kinds lead to the same. What was read stays an input until the process ends, also after it was closed:
    results outlive their source.
    """
    target = Path(os.path.realpath(path))
    return any(_was_read(_status(place)) for place in (target, *target.parents))


def is_open_input(file: IO[bytes]) -> bool:
    """Whether an open file or disk is one that was read; never true for pipes and data in memory."""
    try:
        status = os.fstat(file.fileno())
    except (AttributeError, OSError, ValueError):
        return False
    return (stat.S_ISREG(status.st_mode) or stat.S_ISBLK(status.st_mode)) and _was_read(status)


def _was_read(status: os.stat_result | None) -> bool:
    """Whether what is in this state was read.

    The number of an inode goes to another file once its own has been removed. One was changed after the other was read,
    and no path of the other leads to it.
    """
    if status is None:
        return False
    noted = _READ.get(_identity(status), {})
    return status.st_ctime_ns in noted.values() or any(
        found is not None and _identity(found) == _identity(status) for found in map(_status, noted)
    )


def read_text(path: Path, encoding: str = "utf-8", errors: str = "strict", *, most_bytes: int = MAX_TEXT_BYTES) -> str:
    """Read a text that is an input."""
    return io.TextIOWrapper(io.BytesIO(read_bytes(path, most_bytes)), encoding, errors).read()


def read_bytes(path: Path, most_bytes: int) -> bytes:
    """Read a file that is an input, or a pipe to its end."""
    note(path)
    data, left = bytearray(), most_bytes + 1
    with os.fdopen(open_untouched(path, waits=True), "rb") as file:
        # Python makes room for all that is asked for, before anything has come.
        while left and (piece := file.read(min(left, PIECE_BYTES))):
            data += piece
            left -= len(piece)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"is longer than {most_bytes:,} bytes, which no such file is", str(path))
    return bytes(data)


def open_untouched(path: str | os.PathLike[str], *, waits: bool = False) -> int:
    """Open a file or a folder for reading alone, without a new time of access where the system allows it."""
    flags = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_BINARY"))
    flags |= 0 if waits else getattr(os, "O_NONBLOCK", 0)
    try:
        return os.open(path, flags | getattr(os, "O_NOATIME", 0))
    except PermissionError:
        # Linux leaves the time of access alone for the file's owner and root; others are refused.
        return os.open(path, flags)


def pread_into(
    descriptor: int,
    offset: int,  # where from, in bytes
    target: memoryview,
) -> int:
    """Read at a place of an open file into a buffer."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, (target,), offset)
    with _SEEK_LOCK:  # Windows, and macOS before 11: the file has one position, which threads share
        os.lseek(descriptor, offset, os.SEEK_SET)
        data = os.read(descriptor, len(target))
    target[: len(data)] = data
    return len(data)


def open_file(path: Path) -> BufferedReader:
    """Open a file next to or within the named one; its type is not under our control."""
    descriptor = open_untouched(path)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    file = os.fdopen(descriptor, "rb")
    _refuse_streams(path, os.fstat(descriptor))
    return file


def list_folder(folder: str | os.PathLike[str]) -> list[str]:
    """Return the names in a folder, without a new time of access where the system allows it."""
    if os.listdir not in os.supports_fd:
        return os.listdir(folder)  # noqa: PTH208  (names may be no UTF-8)
    descriptor = open_untouched(folder)
    try:
        return os.listdir(descriptor)  # noqa: PTH208
    finally:
        os.close(descriptor)


def walk_files(folder: str) -> Iterator[str]:
    """Yield the paths of all non-folders below a folder; no link to a folder is followed."""
    try:
        names = sorted(list_folder(folder))
    except OSError:
        return
    places = [os.path.join(folder, name) for name in names]  # noqa: PTH118
    folders = [place for place in places if os.path.isdir(place)]  # noqa: PTH112
    yield from sorted(set(places).difference(folders))
    for place in folders:
        if not os.path.islink(place):  # noqa: PTH114
            yield from walk_files(place)


def _status(file: str | os.PathLike[str] | int) -> os.stat_result | None:
    try:
        return os.stat(file)  # noqa: PTH116  (paths and descriptors)
    except (OSError, ValueError):
        return None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


_ADDRESS: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):/{1,2}(?P<rest>[^/].*)", re.DOTALL)


def is_address(path: str | os.PathLike[str]) -> bool:
    """Whether something names a place on a server, and nothing on this machine."""
    return _ADDRESS.fullmatch(os.fspath(path)) is not None and not Path(path).exists()


def whole_address(path: str | os.PathLike[str]) -> str:
    """Give back to an address what it lost where it was taken for a path, the second slash."""
    return _ADDRESS.sub(r"\g<scheme>://\g<rest>", os.fspath(path))
