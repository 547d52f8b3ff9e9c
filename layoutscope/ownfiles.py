"""Every deletion and every replacement of this package: nothing goes but what the tool itself made and knows again.

A finished file carries a mark, an extended attribute with the length and the time of change that it had then. A file
without one, or changed since, belongs to the user. A decision about a place holds for the state that was seen there,
and is taken back where another state turns out to have been replaced.
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
"""The mark of a file that is being written, with the number of its inode."""

SPECIAL: Final = ("/dev", "/proc", "/sys")
"""Below these, files are devices, processes and settings of the system."""

PLAIN_BELOW_SPECIAL: Final = ("/dev/shm",)  # noqa: S108  (a place that is recognized, not one that is written to)
"""A file system in memory, whose files are files."""

PART: Final = ".part"
OLD: Final = "old"
"""How the name ends under which something waits that is being replaced."""

REMEDY: Final = "Remove it or name another file."
_MOST_MARK_BYTES: Final = 64
_UNSUPPORTED: Final = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EACCES)
_IS_DARWIN: Final = sys.platform == "darwin"


class State(NamedTuple):
    """One state of a file, which differs from every other; a folder is known by its first three fields alone."""

    device: int
    inode: int
    type: int
    size_bytes: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0

    @property
    def identity(self) -> tuple[int, int, int]:
        """What no change of the contents changes."""
        return self[:3]


Seen = dict[str, State]
"""What is at a place, and in it if that is a folder, by relative path; the place itself is ``""``. Empty: nothing."""


def look(path: Path) -> Seen:
    """Return the state of what is at a path, links not followed, with everything in it where it is a folder."""
    try:
        seen = {"": _state(os.lstat(path))}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    if stat.S_ISDIR(seen[""].type):
        for folder, folders, files in os.walk(path):
            for name in (*folders, *files):
                found = Path(folder, name)
                # What vanishes meanwhile makes another state of the whole.
                with suppress(FileNotFoundError):
                    seen[found.relative_to(path).as_posix()] = _state(os.lstat(found))
    return seen


def _state(status: os.stat_result) -> State:
    kind = stat.S_IFMT(status.st_mode)
    if stat.S_ISDIR(status.st_mode):
        return State(status.st_dev, status.st_ino, kind)
    return State(status.st_dev, status.st_ino, kind, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _is_moved(found: Seen, seen: Seen) -> bool:
    """Whether something is what was seen, under another name: a rename changes the time of its own inode."""
    return found.keys() == seen.keys() and all(
        state == seen[name] if name else state[:5] == seen[name][:5] for name, state in found.items()
    )


def refuse_special(path: Path) -> None:
    """Refuse a place where no result can be: a link, a device, a process, a setting of the system."""
    if path.is_symlink():
        raise UsageError(f"{path}: is a link; results are not written through links. Name the file itself.")
    real = Path(os.path.realpath(path))
    if any(real.is_relative_to(place) for place in SPECIAL) and not any(
        real.is_relative_to(place) for place in PLAIN_BELOW_SPECIAL
    ):
        raise UsageError(f"{path}: is in a folder of the system ({real}); results are not written there.")


def refuse_strangers(path: Path, seen: Seen, *, is_folder: bool = False) -> None:
    """Refuse to replace what was not written here, or was changed since, or a folder where a file would be."""
    if seen and stat.S_ISDIR(seen[""].type) and not is_folder:
        raise UsageError(f"{path}: is a folder, and was not written by layoutscope. {REMEDY}")
    filled = {name.rpartition("/")[0] for name in seen}
    for name, state in seen.items():
        found = path / name if name else path
        if not stat.S_ISDIR(state.type) and (why := _stranger(found, state)):
            raise UsageError(why)
        # A folder carries no mark: one that holds a file of this tool is taken for its own.
        if stat.S_ISDIR(state.type) and name and name not in filled:
            raise UsageError(f"{found}: is an empty folder, and was not written by layoutscope. {REMEDY}")
        if added := _added_attribute(found):
            raise UsageError(f"{found}: has the attribute {added}, which layoutscope did not write. {REMEDY}")


def is_own(path: Path) -> bool:
    """Whether a file was written here, and not changed since."""
    try:
        return not _stranger(path, _state(os.lstat(path)))
    except OSError:
        return False


def is_unfinished(path: Path) -> bool:
    """Whether a file was begun here, and never finished."""
    with suppress(OSError):
        status = os.lstat(path)
        return stat.S_ISREG(status.st_mode) and _mark_of(path) == f"{UNFINISHED} {status.st_ino}"
    return False


def _stranger(path: Path, state: State) -> str:
    """Describe why a file is not one that was written here; empty if it is."""
    if not stat.S_ISREG(state.type):
        return f"{path}: is not a regular file, and was not written by layoutscope. {REMEDY}"
    try:
        mark = _mark_of(path)
    except OSError as error:
        # EACCES is of a file that this user may not read.
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
    seen: Seen,  # what was there when it was decided that this may be replaced; empty where nothing was
    *,
    prefix: str | None = None,  # how the name of the unfinished file begins; without it, as that of the target
) -> Iterator[IO[bytes]]:
    """Open a file that gets its name, with a mark, when it is complete."""
    start = f".{beginning(target.name, 64)}." if prefix is None else prefix
    try:
        stack = ExitStack()
        file, part = stack.enter_context(part_file(target.absolute().parent, start))
    except OSError as error:
        reason = reason_of(error)
        raise OutputError(f"{target}: its folder takes no new file: {reason}") from error
    with stack:
        yield file
        # A temporary file is made for its owner alone.
        finish(file, part, mode=mode_of(target, seen))
        # A name that a crash leaves must not lead to a file that it has emptied.
        os.fsync(file.fileno())
        file.close()
        place(part, target, seen)


def beginning(name: str, most_bytes: int) -> str:
    """Return the beginning of a file's name as part of another name, whose length systems bound in bytes."""
    return name.encode("utf-8", "ignore")[:most_bytes].decode("utf-8", "ignore")


@contextmanager
def part_file(folder: Path, prefix: str) -> Iterator[tuple[IO[bytes], Path]]:
    """Open a file under a name that nobody can guess, and remove it at the end unless it got another name."""
    # Brings random numbers and hashes along, which those who write no file need not wait for.
    import tempfile

    descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=PART, dir=folder)
    part, made = Path(name), _state(os.fstat(descriptor)).identity
    try:
        with os.fdopen(descriptor, "wb") as file:
            _set_mark(descriptor, f"{UNFINISHED} {made[1]}")
            yield file, part
    finally:
        with suppress(FileNotFoundError, PermissionError):  # Windows removes nothing that is open
            if _state(os.lstat(part)).identity == made:
                part.unlink()


def write_new(path: Path, data: bytes | memoryview) -> None:
    """Write a file, with a mark, into a folder that this process made: nothing is there under its name."""
    with path.open("xb") as file:
        _set_mark(file.fileno(), f"{UNFINISHED} {os.fstat(file.fileno()).st_ino}")
        file.write(data)
        finish(file, path)


def finish(file: IO[bytes], path: Path, *, mode: int | None = None) -> None:
    """Mark a file that is complete: nothing is written to it any more."""
    file.flush()
    if mode is not None:
        # By its descriptor: another file may have its name by now.
        os.chmod(file.fileno() if os.chmod in os.supports_fd else path, mode)  # noqa: PTH101
    # The clock of a file system ticks: with a time between its ticks, not even a change in the same tick goes unseen.
    now = time.time_ns()
    os.utime(file.fileno() if os.utime in os.supports_fd else path, ns=(now, now))
    status = os.fstat(file.fileno())
    _set_mark(file.fileno(), f"{status.st_size} {status.st_mtime_ns}")


def _set_mark(descriptor: int, text: str) -> None:
    """Mark an open file; where the file system keeps no attributes, the file has none and is never replaced."""
    value = text.encode()
    try:
        if hasattr(os, "setxattr"):
            os.setxattr(descriptor, ATTRIBUTE, value)
        elif _IS_DARWIN:
            import ctypes

            length = ctypes.c_size_t(len(value))
            _check(_libc().fsetxattr(descriptor, ATTRIBUTE.encode(), value, length, 0, 0))
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def _mark_of(path: Path) -> str:
    """Return the mark of a file, empty where it has none."""
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
    held = ctypes.create_string_buffer(_MOST_MARK_BYTES)
    get = _libc().getxattr
    get.restype = ctypes.c_ssize_t
    length = get(os.fsencode(path), ATTRIBUTE.encode(), held, ctypes.c_size_t(_MOST_MARK_BYTES), 0, no_follow)
    if length < 0 and ctypes.get_errno() == no_attribute:
        return ""
    _check(length)
    return held.raw[:length].decode("ascii", "replace")


def _added_attribute(path: Path) -> str:
    """Return the name of an attribute that a user or another program added, such as a tag or a comment; empty if none.

    macOS adds attributes to any file by itself, so none is looked for there.
    """
    with suppress(OSError):
        for name in os.listxattr(path, follow_symlinks=False) if hasattr(os, "listxattr") else ():
            if name.startswith("user.") and name != ATTRIBUTE:
                return name
    return ""


def _check(result: int) -> None:
    """Raise what a function of the system failed with."""
    import ctypes

    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def umask() -> int:
    """Read the process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def mode_of(target: Path, seen: Seen, widest: int = 0o666) -> int:
    """Return the mode of a result: that of the one it replaces, which its user may have closed to others, if any."""
    with suppress(FileNotFoundError):
        if seen:
            return os.lstat(target).st_mode & 0o777
    return widest & ~umask()


def place(
    part: Path,
    target: Path,
    seen: Seen,  # what was there when it was decided that this may be replaced; empty where nothing was
) -> None:
    """Give a finished file or folder its name, in the place of what was seen there, and of nothing else."""
    if not seen:
        try:
            place_new(part, target)
        except FileExistsError as error:
            raise OutputError(f"{target}: appeared while the result was made, and is not replaced. {REMEDY}") from error
        return
    made = _state(os.lstat(part)).identity
    changed = f"{target}: was changed while the result was made, and stays as it is. {REMEDY}"
    found = look(target)
    if not found:
        place(part, target, {})
        return
    if found != seen:
        raise OutputError(changed)
    aside = part
    if not _rename(part, target, _EXCHANGE):
        aside = part.with_name(f"{part.name}.{OLD}")
        _move_aside(target, aside)
        try:
            if _is_moved(look(aside), seen):
                place_new(part, target)
        except OSError:
            _put_back(aside, target)
            raise
    if not _is_moved(look(aside), seen):
        # Between the last look and the exchange something else got there.
        if aside != part:
            _put_back(aside, target)
        elif not _rename(part, target, _EXCHANGE) or _state(os.lstat(part)).identity != made:
            # And again; what is aside now is nobody's to remove.
            raise _left(aside, target)
        raise OutputError(changed)
    _discard(aside, seen)


def _move_aside(path: Path, aside: Path) -> None:
    """Move what is at a place to a name that nobody else knows, whatever it is by now.

    A second link and the removal of the first name would not do: between them another file may have got the name.
    """
    if _rename(path, aside, _NO_REPLACE):
        return
    if os.path.lexists(aside):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(aside))
    os.rename(path, aside)  # noqa: PTH104


def _put_back(aside: Path, path: Path) -> None:
    """Give what was moved aside its name again."""
    try:
        place_new(aside, path)
    except FileExistsError as error:
        raise _left(aside, path) from error


def _left(aside: Path, target: Path) -> OutputError:
    """Have what is aside stay there, with the folder around it; return an error that says where."""
    _MADE.pop(aside.parent.absolute(), None)
    return OutputError(f"{target}: another program writes there; what was there before is in {aside}")


def place_new(part: Path, target: Path) -> None:
    """Rename where nothing has the new name."""
    if _rename(part, target, _NO_REPLACE):
        return
    if os.name == "nt":
        os.rename(part, target)  # noqa: PTH104  (never replaces there)
        return
    if part.is_dir() and not part.is_symlink():
        # A folder takes the place of an empty one alone.
        target.mkdir()
        os.rename(part, target)  # noqa: PTH104
        return
    try:
        os.link(part, target, follow_symlinks=os.link not in os.supports_follow_symlinks)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in (*_UNSUPPORTED, errno.EMLINK):
            raise
    else:
        part.unlink()
        return
    holder = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    held = _state(os.fstat(holder))
    os.close(holder)
    try:
        if _state(os.lstat(target)) != held:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        os.replace(part, target)  # noqa: PTH105
    except OSError:
        if look(target) == {"": held}:
            target.unlink()
        raise


_NO_REPLACE, _EXCHANGE = (4, 2) if _IS_DARWIN else (1, 2)
"""RENAME_EXCL and RENAME_SWAP of <sys/stdio.h>; RENAME_NOREPLACE and RENAME_EXCHANGE of <linux/fs.h>."""


def _rename(old: Path, new: Path, how: int) -> bool:
    """Rename as no function of Python does; False where the system or the file system cannot."""
    function = _rename_function()
    if function is None:
        return False
    import ctypes

    names = os.fsencode(old.absolute()), os.fsencode(new.absolute())
    at = -100  # AT_FDCWD <linux/fcntl.h>
    if not (function(*names, how) if _IS_DARWIN else function(at, names[0], at, names[1], how)):
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(new))


@cache
def _rename_function() -> Any:
    """Return the system's function, None where it has none."""
    return getattr(_libc(), "renamex_np" if _IS_DARWIN else "renameat2", None)


@cache
def _libc() -> Any:
    if os.name == "nt":
        return None
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


_MADE: Final[dict[Path, tuple[int, int, int]]] = {}
"""Folders that this process made for its own use: file systems give the number of one that is gone to a new one."""


def new_name(prefix: str, suffix: str = "") -> str:
    """Return a name that nobody can guess."""
    return f"{prefix}{os.urandom(8).hex()}{suffix}"


def make_folder(path: Path) -> Path:
    """Make a folder for what this process writes; it goes with all that is in it by :func:`remove_folder`."""
    if os.name != "nt" and umask() & stat.S_IRWXU:
        raise PermissionError(errno.EACCES, "the umask keeps new folders from their owner")
    made = path.absolute()
    # As tempfile.mkdtemp does, for those who clean up after a killed process.
    sys.audit("tempfile.mkdtemp", str(made))
    made.mkdir(0o700)
    _MADE[made] = _state(os.lstat(made)).identity
    return made


def empty_folder(path: Path) -> None:
    """Remove all that is in a folder that this process made; nothing elsewhere, whatever has its name by now."""
    import shutil

    if not _is_made(path):
        return
    for held in path.iterdir():
        if held.is_dir() and not held.is_symlink():
            shutil.rmtree(held, ignore_errors=True)
        else:
            with suppress(OSError):
                held.unlink()


def remove_folder(path: Path) -> None:
    """Remove a folder that this process made, with all that is in it."""
    if _is_made(path):
        empty_folder(path)
        _MADE.pop(path.absolute(), None)
        with suppress(OSError):
            path.rmdir()


def _is_made(path: Path) -> bool:
    with suppress(OSError):
        return _MADE.get(path.absolute()) == _state(os.lstat(path)).identity
    return False


def remove_abandoned(path: Path, inode: int | None) -> None:
    """Remove what another process of this tool left in a folder that it made, and the folder once it is empty.

    A folder of another inode is not the one that was made, and what others put into it stays. Without an inode the
    process may have ended before it made the folder: only an empty one goes.
    """
    with suppress(OSError):
        state = _state(os.lstat(path))
        if inode is None:
            path.rmdir()
        if not stat.S_ISDIR(state.type) or state.inode != inode:
            return
        _MADE.pop(path.absolute(), None)
        for folder, folders, names in os.walk(path, topdown=False):
            own = [file for name in names if _is_ours(file := Path(folder, name))]
            for file in own:
                file.unlink()
            # An empty folder that held nothing of this tool may be anybody's, but not in a part of a result.
            inside = Path(folder).relative_to(path).parts
            is_in_part = any(name.startswith(".") and name.endswith(PART) for name in inside)
            if own or folders or is_in_part or not inside:
                with suppress(OSError):
                    os.rmdir(folder)  # noqa: PTH106


def remove(path: Path, seen: Seen, *, aside: Path | None = None) -> None:
    """Remove what was seen when it was found to be this tool's."""
    changed = f"{path}: was changed meanwhile, and is not removed"
    if look(path) != seen:
        raise OutputError(changed)
    if aside is not None:
        _move_aside(path, aside)
        if not _is_moved(look(aside), seen):
            _put_back(aside, path)
            raise OutputError(changed)
    _discard(aside or path, seen)


def _discard(aside: Path, seen: Seen) -> None:
    """Remove what was replaced, the innermost first; what is not as it was seen stays, and its folder with it."""
    for name in sorted(seen, key=lambda name: (name.count("/") + bool(name), name), reverse=True):
        path = aside / name if name else aside
        if stat.S_ISDIR(seen[name].type):
            try:
                path.rmdir()
            except OSError as error:
                _MADE.pop(aside.parent.absolute(), None)
                why = reason_of(error)
                raise OutputError(f"{aside}: was replaced, but is left: {why}") from error
        elif _is_moved({name: _state(os.lstat(path))}, {name: seen[name]}):
            path.unlink()
        elif not name:
            # A program that had it open wrote to it last.
            raise OutputError(f"{aside}: was replaced, but is left: it was changed meanwhile")


def remove_temporary(path: bytes) -> None:
    """Remove a temporary file or folder that a process of this tool made and left when it ended.

    What waits in a folder for its replacement stays, and so does another program's file: while two names are exchanged,
    one may have got this name.
    """
    waiting: list[bytes] = []
    if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114  (names may be no UTF-8)
        waiting = [name for name in os.listdir(path) if name.endswith(OLD.encode())]  # noqa: PTH208
    # An empty file has no mark yet.
    elif not os.path.islink(path) and os.lstat(path).st_size and not _is_ours(Path(os.fsdecode(path))):  # noqa: PTH114
        raise OutputError("was written by another program")
    _remove_all(path, waiting)


def _is_ours(path: Path) -> bool:
    """Whether a file was begun or written here, as far as its file system keeps marks."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return False
    try:
        _mark_of(path)
    except OSError as error:
        # EACCES is of a file that this user may not read.
        return error.errno in _UNSUPPORTED and error.errno != errno.EACCES
    return is_unfinished(path) or is_own(path)


def _remove_all(path: bytes, kept: list[bytes]) -> None:
    """Remove a file, or a folder with all that is in it but some names."""
    if os.path.islink(path) or not os.path.isdir(path):  # noqa: PTH112, PTH114
        os.unlink(path)  # noqa: PTH108
        return
    for name in os.listdir(path):  # noqa: PTH208
        if name not in kept:
            _remove_all(os.path.join(path, name), [])  # noqa: PTH118
    if not kept:
        os.rmdir(path)  # noqa: PTH106
