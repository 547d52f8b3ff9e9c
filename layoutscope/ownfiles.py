"""All deletions and replacements of this package, which only affect files that the tool itself wrote.

A finished file has a mark, an extended attribute with its length and modification time. A file without a mark, or
changed since, belongs to the user. A decision to replace a file holds for the snapshot on which it is based.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from layoutscope.errors import OutputError, UsageError, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ATTRIBUTE: Final = "user.layoutscope.result"
UNFINISHED: Final = "unfinished"
"""Mark of an unfinished file, followed by its inode number."""

SPECIAL: Final = ("/dev", "/proc", "/sys")
"""Folders whose files are devices, processes and settings of the system."""

PLAIN_BELOW_SPECIAL: Final = ("/dev/shm",)  # noqa: S108  (a place that is recognized, not one that is written to)
"""A file system in memory, with ordinary files."""

PART: Final = ".part"
OLD: Final = "old"
"""Suffix of the name under which a file waits while it is being replaced."""

REMEDY: Final = "Remove it or name another file."
_MAX_MARK_BYTES: Final = 64
_UNSUPPORTED: Final = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EACCES)
_IS_DARWIN: Final = sys.platform == "darwin"


class State(NamedTuple):
    """The state of a file, which differs from all its other states; a folder has only the first three fields."""

    device: int
    inode: int
    type: int
    size_bytes: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0

    @property
    def identity(self) -> tuple[int, int, int]:
        """The fields that stay equal when the contents change."""
        return self[:3]


Snapshot = dict[str, State]
"""States of a path and, for a folder, of everything below it, by relative path; ``""`` is the path itself. Empty if
nothing is there."""


def take_snapshot(path: Path) -> Snapshot:
    """Take a snapshot of a path, including the contents of a folder, without following links."""
    try:
        states = {"": _make_state(os.lstat(path))}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    if stat.S_ISDIR(states[""].type):
        for folder, folders, files in os.walk(path):
            for name in (*folders, *files):
                path_below = Path(folder, name)
                # If a file vanishes meanwhile, the snapshot differs from earlier ones.
                with suppress(FileNotFoundError):
                    states[path_below.relative_to(path).as_posix()] = _make_state(os.lstat(path_below))
    return states


def _make_state(status: os.stat_result) -> State:
    kind = stat.S_IFMT(status.st_mode)
    if stat.S_ISDIR(status.st_mode):
        return State(status.st_dev, status.st_ino, kind)
    return State(status.st_dev, status.st_ino, kind, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def refuse_special(path: Path) -> None:
    """Refuse a path for results that is a link, or a device, process or setting of the system."""
    if path.is_symlink():
        raise UsageError(f"{path}: is a link; results are not written through links. Name the file itself.")
    real = Path(os.path.realpath(path))
    if any(real.is_relative_to(place) for place in SPECIAL) and not any(
        real.is_relative_to(place) for place in PLAIN_BELOW_SPECIAL
    ):
        raise UsageError(f"{path}: is in a folder of the system ({real}); results are not written there.")


def refuse_strangers(path: Path, snapshot: Snapshot, *, is_folder: bool = False) -> None:
    """Refuse to replace a file that was not written here or was changed since, or a folder by a file."""
    if snapshot and stat.S_ISDIR(snapshot[""].type) and not is_folder:
        raise UsageError(f"{path}: is a folder, and was not written by layoutscope. {REMEDY}")
    filled = {name.rpartition("/")[0] for name in snapshot}
    for name, state in snapshot.items():
        path_below = path / name if name else path
        if not stat.S_ISDIR(state.type) and (why := _explain_stranger(path_below, state)):
            raise UsageError(why)
        # A folder has no mark: a folder with a file of this tool counts as its own.
        if stat.S_ISDIR(state.type) and name and name not in filled:
            raise UsageError(f"{path_below}: is an empty folder, and was not written by layoutscope. {REMEDY}")
        if added := _added_attribute(path_below):
            raise UsageError(f"{path_below}: has the attribute {added}, which layoutscope did not write. {REMEDY}")


def is_own(path: Path) -> bool:
    """Whether a file was written here, and not changed since."""
    try:
        return not _explain_stranger(path, _make_state(os.lstat(path)))
    except OSError:
        return False


def is_unfinished(path: Path) -> bool:
    """Whether a file was begun here, but not finished."""
    with suppress(OSError):
        status = os.lstat(path)
        return stat.S_ISREG(status.st_mode) and _read_mark(path) == f"{UNFINISHED} {status.st_ino}"
    return False


def _explain_stranger(path: Path, state: State) -> str:
    """Explain why a file was not written here; empty if it was."""
    if not stat.S_ISREG(state.type):
        return f"{path}: is not a regular file, and was not written by layoutscope. {REMEDY}"
    try:
        mark = _read_mark(path)
    except OSError as error:
        # EACCES means that this user may not read the file.
        if error.errno not in _UNSUPPORTED or error.errno == errno.EACCES:
            return f"{path}: exists, and its mark cannot be read: {error.strerror}. {REMEDY}"
        return (
            f"{path}: exists, and its file system keeps no extended attributes, by which layoutscope knows its own "
            f"files. {REMEDY}"
        )
    if mark == f"{state.size_bytes} {state.mtime_ns}":
        return ""
    if mark:
        return f"{path}: exists and was changed since layoutscope wrote it. {REMEDY}"
    return f"{path}: exists and was not written by layoutscope. {REMEDY}"


@contextmanager
def new_file(
    target: Path,
    snapshot: Snapshot,  # of the target, when its replacement was approved; empty if nothing was there
    *,
    prefix: str | None = None,  # of the name of the unfinished file; by default from the name of the target
) -> Iterator[IO[bytes]]:
    """Open a new file that gets its name and mark when it is complete."""
    start = f".{truncate_name(target.name, 64)}." if prefix is None else prefix
    try:
        stack = ExitStack()
        file, part = stack.enter_context(part_file(target.absolute().parent, start))
    except OSError as error:
        reason = reason_of(error)
        raise OutputError(f"{target}: its folder takes no new file: {reason}") from error
    with stack:
        yield file
        # A temporary file is created with access for its owner only.
        finish(file, part, mode=choose_mode(target, snapshot))
        # After a crash, the name must not belong to an empty file.
        os.fsync(file.fileno())
        file.close()
        place(part, target, snapshot)


def truncate_name(name: str, max_bytes: int) -> str:
    """Truncate a file name for use in another name, because systems limit the length of names in bytes."""
    return name.encode("utf-8", "ignore")[:max_bytes].decode("utf-8", "ignore")


@contextmanager
def part_file(folder: Path, prefix: str) -> Iterator[tuple[IO[bytes], Path]]:
    """Open a file with a random name, and remove it at the end unless it was renamed."""
    # This loads modules for random numbers and hashes, so it is imported only when a file is written.
    import tempfile

    descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=PART, dir=folder)
    part, identity = Path(name), _make_state(os.fstat(descriptor)).identity
    try:
        with os.fdopen(descriptor, "wb") as file:
            _set_mark(descriptor, f"{UNFINISHED} {identity[1]}")
            yield file, part
    finally:
        with suppress(FileNotFoundError, PermissionError):  # Windows does not remove open files
            if _make_state(os.lstat(part)).identity == identity:
                part.unlink()


def write_new(path: Path, data: bytes | memoryview) -> None:
    """Write a marked file into a folder that this process made, where its name is not in use."""
    with path.open("xb") as file:
        _set_mark(file.fileno(), f"{UNFINISHED} {os.fstat(file.fileno()).st_ino}")
        file.write(data)
        finish(file, path)


def finish(file: IO[bytes], path: Path, *, mode: int | None = None) -> None:
    """Mark a file as complete; it must not be written to any more."""
    file.flush()
    if mode is not None:
        # Use the descriptor, because another file may have the name by now.
        os.chmod(file.fileno() if os.chmod in os.supports_fd else path, mode)  # noqa: PTH101
    # File systems have coarse clocks. A time between two ticks makes even a change in the same tick visible.
    now = time.time_ns()
    os.utime(file.fileno() if os.utime in os.supports_fd else path, ns=(now, now))
    status = os.fstat(file.fileno())
    _set_mark(file.fileno(), f"{status.st_size} {status.st_mtime_ns}")


def _set_mark(descriptor: int, text: str) -> None:
    """Mark an open file; without a mark, for lack of extended attributes, a file is never replaced."""
    value = text.encode()
    try:
        if hasattr(os, "setxattr"):
            os.setxattr(descriptor, ATTRIBUTE, value)
        elif _IS_DARWIN:
            import ctypes

            length = ctypes.c_size_t(len(value))
            _raise_on_error(_libc().fsetxattr(descriptor, ATTRIBUTE.encode(), value, length, 0, 0))
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def _read_mark(path: Path) -> str:
    """Read the mark of a file; empty if it has none."""
    try:
        if hasattr(os, "getxattr"):
            return os.getxattr(path, ATTRIBUTE, follow_symlinks=False).decode("ascii", "replace")
    except OSError as error:
        if error.errno == errno.ENODATA:
            return ""
        raise
    if not _IS_DARWIN:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    import ctypes

    no_attribute, no_follow = 93, 1  # ENOATTR <sys/errno.h>, XATTR_NOFOLLOW <sys/xattr.h>
    buffer = ctypes.create_string_buffer(_MAX_MARK_BYTES)
    getxattr = _libc().getxattr
    getxattr.restype = ctypes.c_ssize_t
    length = getxattr(os.fsencode(path), ATTRIBUTE.encode(), buffer, ctypes.c_size_t(_MAX_MARK_BYTES), 0, no_follow)
    if length < 0 and ctypes.get_errno() == no_attribute:
        return ""
    _raise_on_error(length)
    return buffer.raw[:length].decode("ascii", "replace")


def _added_attribute(path: Path) -> str:
    """Return the name of an attribute that a user or another program added, such as a comment; empty if there is none.

    macOS itself adds attributes to any file, so attributes are not checked there.
    """
    with suppress(OSError):
        for name in os.listxattr(path, follow_symlinks=False) if hasattr(os, "listxattr") else ():
            if name.startswith("user.") and name != ATTRIBUTE:
                return name
    return ""


def _raise_on_error(result: int) -> None:
    """Raise the error of a failed system call."""
    import ctypes

    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def read_umask() -> int:
    """Read the umask of the process, which is only possible by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def choose_mode(target: Path, snapshot: Snapshot, default: int = 0o666) -> int:
    """Return the mode of a result: that of the file it replaces, if any, which may deny access to others."""
    with suppress(FileNotFoundError):
        if snapshot:
            return os.lstat(target).st_mode & 0o777
    return default & ~read_umask()


def place(
    part: Path,
    target: Path,
    snapshot: Snapshot,  # of the target, when its replacement was approved; empty if nothing was there
) -> None:
    """Rename a finished file or folder to its target, replacing exactly what was seen there."""
    current = take_snapshot(target) if snapshot else {}
    if current and current != snapshot:
        raise OutputError(f"{target}: was changed while the result was made, and stays as it is. {REMEDY}")
    if not current:
        try:
            rename_new(part, target)
        except FileExistsError as error:
            raise OutputError(f"{target}: appeared while the result was made, and is not replaced. {REMEDY}") from error
    elif not stat.S_ISDIR(current[""].type):
        os.replace(part, target)  # noqa: PTH105
    else:
        # No system call replaces a folder with files in it.
        aside = part.with_name(f"{part.name}.{OLD}")
        os.rename(target, aside)  # noqa: PTH104
        try:
            rename_new(part, target)
        except OSError:
            os.rename(aside, target)  # noqa: PTH104
            raise
        _discard(aside)


def rename_new(part: Path, target: Path) -> None:
    """Rename without replacing anything."""
    if part.is_dir() and not part.is_symlink() and os.name != "nt":
        # Renaming a folder replaces only an empty folder.
        target.mkdir()
    elif os.name != "nt":
        try:
            os.link(part, target, follow_symlinks=os.link not in os.supports_follow_symlinks)
        except FileExistsError:
            raise
        except OSError as error:
            # Some file systems have no hard links.
            if error.errno not in (*_UNSUPPORTED, errno.EMLINK):
                raise
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
        else:
            try:
                part.unlink()
            except OSError:
                target.unlink()
                raise
            return
    os.rename(part, target)  # noqa: PTH104  (on Windows, this never replaces)


@cache
def _libc() -> Any:
    if os.name == "nt":
        return None
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def new_name(prefix: str, suffix: str = "") -> str:
    """Return a random name."""
    return f"{prefix}{os.urandom(8).hex()}{suffix}"


def make_folder(path: Path) -> Path:
    """Make a folder for files of this process; :func:`remove_folder` removes it with its contents."""
    if os.name != "nt" and read_umask() & stat.S_IRWXU:
        raise PermissionError(errno.EACCES, "the umask keeps new folders from their owner")
    path.absolute().mkdir(0o700)
    return path.absolute()


def empty_folder(path: Path) -> None:
    """Remove the contents of a folder that this tool made for its own use."""
    if path.is_dir():
        remove_folder(path)
        path.mkdir(0o700)


def remove_folder(path: Path) -> None:
    """Remove a folder that this tool made for its own use, with its contents."""
    import shutil

    if not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)


def remove(path: Path, snapshot: Snapshot, *, aside: Path | None = None) -> None:
    """Remove a file or folder of this tool, if it is still as it was seen."""
    if take_snapshot(path) != snapshot:
        raise OutputError(f"{path}: was changed meanwhile, and is not removed")
    if aside is not None:
        os.rename(path, aside)  # noqa: PTH104
    _discard(aside or path)


def _discard(path: Path) -> None:
    """Remove a file, or a folder that was replaced."""
    import shutil

    if not path.is_dir() or path.is_symlink():
        path.unlink()
        return
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise OutputError(f"{path}: was replaced, but is left: {reason_of(error)}") from error
