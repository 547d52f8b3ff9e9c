"""Files that this process reads, which its outputs must not replace.

An image may consist of many files (parts of a split image, bands of a bundle, the second device of a set, tables of a
capture), and each may have many names. Therefore, files are registered by device and inode where they are opened, and
outputs are checked against this register. Standard output and standard error are opened by the parent process, so they
are compared with each input.
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
"""Limit for profiles and fio reports, which have some KiB; the parsed form takes many times as much memory."""

MAX_SECRET_BYTES: Final = 1 << 20
"""Limit for a list of paths, a ddrescue map, a profile or a password."""
PIECE_BYTES: Final = 1 << 20

STREAMS: Final = {1: "standard output", 2: "standard error"}
"""Names of the output streams, by descriptor."""

_SEEK_LOCK: Final = threading.Lock()

_READ: Final[dict[tuple[int, int], dict[str, int]]] = {}
"""The paths of each file that was read, by device and inode, with the ctime of its inode at that time."""


def note(file: object, descriptor: int | None = None) -> None:
    """Register a file, folder or device as an input; absent ones are ignored."""
    if not isinstance(file, str | os.PathLike):
        return
    path = split_volume(file)[0]
    status = _stat_or_none(path if descriptor is None else descriptor)
    if status is not None:
        _READ.setdefault(_identity(status), {})[os.path.realpath(path)] = status.st_ctime_ns
        _refuse_streams(path, status)


def _refuse_streams(path: str | os.PathLike[str], status: os.stat_result) -> None:
    """Refuse an input that is the target of standard output or standard error, or a folder with such a target."""
    for stream, name in STREAMS.items():
        target = _get_stored_target(stream)
        if target is None:
            continue
        folders = find_stream_path(stream).parents if stat.S_ISDIR(status.st_mode) else ()
        if any(os.path.samestat(status, each) for each in (target, *(folder.stat() for folder in folders))):
            _READ.setdefault(_identity(target), {})  # so nothing more is printed there
            raise UsageError(f"{os.fspath(path)}: is read as input, and {name} leads there. Send it elsewhere.")


def redirect_streams() -> bool:
    """Redirect standard output and standard error if they lead to inputs, so nothing is printed there."""
    targets = {stream: _get_stored_target(stream) for stream in STREAMS}
    affected = [stream for stream, status in targets.items() if status is not None and _identity(status) in _READ]
    for stream in affected:
        is_error_alone = stream != 1 and 1 not in affected
        descriptor = 1 if is_error_alone else os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, stream)
    return bool(affected)


def _get_stored_target(stream: int) -> os.stat_result | None:
    """Return the status of a stream's target if it is a file or a disk, not a terminal or a pipe."""
    status = _stat_or_none(stream)
    if status is None:
        return None
    null = _stat_or_none(os.devnull)
    is_null = null is not None and _identity(null) == _identity(status)
    is_disk = stat.S_ISBLK(status.st_mode) or (  # a raw disk of macOS is a character device, like a terminal
        stat.S_ISCHR(status.st_mode) and not os.isatty(stream) and not is_null
    )
    return status if is_disk or stat.S_ISREG(status.st_mode) else None


def find_stream_path(stream: int) -> Path:
    """Return a path that opens the target of a descriptor for reading."""
    if sys.platform == "darwin":
        import fcntl

        return Path(os.fsdecode(fcntl.fcntl(stream, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0")))
    link = Path(f"/proc/self/fd/{stream}")
    named = Path(os.path.realpath(link))
    status = _stat_or_none(named)
    is_there = status is not None and _identity(status) == _identity(os.fstat(stream))
    return named if is_there else link


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
    """Whether a path leads to an input, or into an input folder, under any name.

    Symbolic and hard links are resolved. A file stays an input until the process ends, even if it is closed, because
    results outlive their source.
    """
    target = Path(os.path.realpath(path))
    return any(_is_registered(_stat_or_none(place)) for place in (target, *target.parents))


def is_open_input(file: IO[bytes]) -> bool:
    """Whether an open file or disk is an input; always False for pipes and data in memory."""
    try:
        status = os.fstat(file.fileno())
    except (AttributeError, OSError, ValueError):
        return False
    return (stat.S_ISREG(status.st_mode) or stat.S_ISBLK(status.st_mode)) and _is_registered(status)


def _is_registered(status: os.stat_result | None) -> bool:
    """Whether the file with this status is an input.

    After the removal of a file, another file may get its inode number. The other file has a later ctime, and none of
    the paths of the input leads to it.
    """
    if status is None:
        return False
    paths = _READ.get(_identity(status), {})
    return status.st_ctime_ns in paths.values() or any(
        other is not None and _identity(other) == _identity(status) for other in map(_stat_or_none, paths)
    )


def read_text(path: Path, encoding: str = "utf-8", errors: str = "strict", *, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Read an input as text."""
    return io.TextIOWrapper(io.BytesIO(read_bytes(path, max_bytes)), encoding, errors).read()


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Read an input file, or an input pipe to its end."""
    note(path)
    data, remaining = bytearray(), max_bytes + 1
    with os.fdopen(open_untouched(path, waits=True), "rb") as file:
        # Python allocates the requested size before it reads, so the data is read in pieces.
        while remaining and (piece := file.read(min(remaining, PIECE_BYTES))):
            data += piece
            remaining -= len(piece)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"is longer than {max_bytes:,} bytes, which no such file is", str(path))
    return bytes(data)


def open_untouched(path: str | os.PathLike[str], *, waits: bool = False) -> int:
    """Open a file or a folder read-only, without changing its time of access if the system allows that."""
    flags = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_BINARY"))
    flags |= 0 if waits else getattr(os, "O_NONBLOCK", 0)
    try:
        return os.open(path, flags | getattr(os, "O_NOATIME", 0))
    except PermissionError:
        # Linux allows O_NOATIME only to the file's owner and root.
        return os.open(path, flags)


def pread_into(
    descriptor: int,
    offset: int,  # in bytes
    target: memoryview,
) -> int:
    """Read from an offset of an open file into a buffer."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, (target,), offset)
    with _SEEK_LOCK:  # on Windows and before macOS 11, threads share the position of the file
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
    """Return the names in a folder, without changing its time of access if the system allows that."""
    if os.listdir not in os.supports_fd:
        return os.listdir(folder)  # noqa: PTH208  (names may be no UTF-8)
    descriptor = open_untouched(folder)
    try:
        return os.listdir(descriptor)  # noqa: PTH208
    finally:
        os.close(descriptor)


def walk_files(folder: str) -> Iterator[str]:
    """Yield the paths of all files below a folder, without following links to folders."""
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


def _stat_or_none(file: str | os.PathLike[str] | int) -> os.stat_result | None:
    try:
        return os.stat(file)  # noqa: PTH116  (paths and descriptors)
    except (OSError, ValueError):
        return None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


_ADDRESS: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):/{1,2}(?P<rest>[^/].*)", re.DOTALL)


def is_address(path: str | os.PathLike[str]) -> bool:
    """Whether a name is an address on a server, and not a path on this machine."""
    return _ADDRESS.fullmatch(os.fspath(path)) is not None and not Path(path).exists()


def restore_address(path: str | os.PathLike[str]) -> str:
    """Restore the second slash of an address, which conversion to a path removes."""
    return _ADDRESS.sub(r"\g<scheme>://\g<rest>", os.fspath(path))
