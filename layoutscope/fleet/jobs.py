"""One source's work as plain data: what is read, how, within which limits, and by what it is known to be unchanged."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import field, to_builtins

from layoutscope import inputs
from layoutscope.display import Struct
from layoutscope.errors import ImageError, UsageError
from layoutscope.fleet.store import plain_text
from layoutscope.image.containers.sparse import is_bundle
from layoutscope.image.remote import address_identity, is_address, whole_address
from layoutscope.image.split import find_parts
from layoutscope.tables.capture import is_capture
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


END_BYTES: Final = 65536
"""So much of a file's beginning and end is part of its identity: a disk that was written to has other headers there."""


class FleetLimits(Struct, frozen=True):
    """What the process of one source may take."""

    memory_bytes: int  # address space; 0 where the worker of a cluster gives it a part of its own
    seconds: float  # time on the clock
    written_bytes: int | None = None  # length of each file that it writes; as much as there is room for without


class FleetJob(Struct, frozen=True):
    """What is done about one source, for whoever runs it, here or elsewhere."""

    source: FleetSource  # what is read
    folder: str  # the batch's folder
    limits: FleetLimits  # what it may take
    options: dict[str, Any] = field(default_factory=dict)  # keywords of `scan`; and `orders`, `hash_names`
    at: str = field(default_factory=os.getcwd)  # the folder from which paths are told

    def key(self) -> dict[str, Any]:
        """Say what the results depend on: as long as this is the same, they need not be made again."""
        is_read = not (self.source.failed or self.source.refused)
        path = self.source.path if is_address(self.source.path) else os.path.join(self.at, self.source.path)  # noqa: PTH118
        identity = source_identity(path) if is_read else {}
        return {"made_by": f"layoutscope {__version__}", "options": _public(self.options), **identity}

    def to_json(self) -> str:
        """Write the job for the process that does it."""
        return json.dumps(to_builtins(self))


def _public(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as they may be kept: of a secret it is known only whether one was given."""
    from layoutscope.filesystems.registry import read_options

    secrets = {name for name, (each, _) in read_options().items() if each.kind == "secret"}
    kept = {name: value for name, value in options.items() if name != "cache_dir"}
    plain = {name: value is not None if name in secrets else value for name, value in kept.items()}
    known: dict[str, Any] = json.loads(json.dumps(plain, default=str))
    return known


def source_identity(path: str) -> dict[str, Any]:
    """Say what can be known of a source without reading it whole.

    `size_bytes` and `modify_time_ns` (the newest) of all of its files, and `identity`: SHA-256 of their names, sizes
    and times, and of the ends of a file that is named itself. Empty where it cannot be read.
    """
    if is_address(path):
        return address_identity(path)
    total, newest, digest = 0, 0, hashlib.sha256()
    try:
        for name in _files(path):
            status = os.stat(name)  # noqa: PTH116  (names may be no UTF-8)
            total, newest = total + status.st_size, max(newest, status.st_mtime_ns)
            about = os.fsencode(os.path.relpath(name, path))
            digest.update(b"%d:%s %d %d\n" % (len(about), about, status.st_size, status.st_mtime_ns))
            if name == path:
                digest.update(_ends(name, status.st_size))
    except (OSError, ValueError):
        return {}
    return {"size_bytes": total, "modify_time_ns": newest, "identity": digest.hexdigest()}


def _files(path: str) -> Iterator[str]:
    """Yield the files of a source: its own, those in its folder, the parts of a split image."""
    if not os.path.isdir(path):  # noqa: PTH112
        from layoutscope.errors import ImageError
        from layoutscope.image.split import find_parts

        yield path
        try:
            yield from (str(part) for part in find_parts(Path(path))[1:])
        except ImageError:
            return
        return
    yield from inputs.walk_files(path)


def _ends(path: str, size_bytes: int) -> bytes:
    with inputs.open_file(Path(path)) as file:
        begin = file.read(END_BYTES)
        file.seek(max(0, size_bytes - END_BYTES))
        return begin + file.read(END_BYTES)


ID_DIGITS: Final = 16
"""Hexadecimal digits of a source's identifier: a thousand million sources have one in common once in forty times."""

LIST_SIGN: Final = "@"
"""What stands before the name of a list of sources."""

UNREAD_KINDS: Final = (
    (stat.S_ISFIFO, "is a pipe, which is not read: it may never end"),
    (stat.S_ISSOCK, "is a socket, which is not read"),
    (stat.S_ISCHR, "is a character device, which is not read"),
)


class FleetSource(Struct, frozen=True):
    """One thing to be read."""

    path: str  # as it was found; bytes that are no UTF-8 are surrogates, as Python's own functions take them
    # refused, failed: why it is not read at all, as far as that is known before: it is no image, or cannot be reached
    refused: str = ""
    failed: str = ""

    @property
    def identifier(self) -> str:
        """What its rows and its capture are found by: the same for the same place, whatever was asked for besides."""
        place = self.path if is_address(self.path) else os.path.realpath(self.path)
        return hashlib.sha256(os.fsencode(place)).hexdigest()[:ID_DIGITS]

    @property
    def shown(self) -> str:
        """The path as text; bytes that are no UTF-8 are escaped."""
        return plain_text(self.path)


def find_sources(asked: Iterable[str | os.PathLike[str]], output: Path) -> list[FleetSource]:
    """List what is to be read, each once, in the order in which it is found."""
    walk = _Walk(output)
    found: dict[str, FleetSource] = {}
    for path, is_named in _expand_lists(asked):
        if "\0" in path:
            raise UsageError(f"{path}: has a zero byte, which no path has; a list has a path per line")
        # Its captures would be read as further disks, and its tables would be about nothing else.
        if is_named and walk.is_own(path):
            why = f"{path}: is in the folder of this batch ({output}), which is no source"
            raise UsageError(f"{why}. Name the disks, or another folder for a batch of these captures.")
        for source in walk.below(path):
            found.setdefault(source.identifier, source)
    if not found:
        raise UsageError("there is no source: nothing was named, or what was named holds no file")
    return list(found.values())


def _expand_lists(asked: Iterable[str | os.PathLike[str]]) -> list[tuple[str, bool]]:
    """Put the lines of lists and the matches of patterns in their places; true for what is named, not matched."""
    names: list[tuple[str, bool]] = []
    for each in (os.fspath(item) for item in asked):
        if each.startswith(LIST_SIGN) and not os.path.lexists(each):
            names += [(line, True) for line in _lines(Path(each.removeprefix(LIST_SIGN)))]
        elif is_address(each):
            names.append((whole_address(each), True))
        elif glob.has_magic(each) and not os.path.lexists(each):
            matches = sorted(glob.glob(each, recursive=True)) or [each]  # noqa: PTH207  (names may be no UTF-8)
            names += [(match, False) for match in matches]
        else:
            names.append((each, True))
    return names


def _lines(path: Path) -> list[str]:
    try:
        text = inputs.read_text(path, errors="surrogateescape")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{path}: cannot be read as a list of sources: {reason}") from error
    return [line for line in text.split("\n") if line]


class _Walk:
    """Goes through folders, each once, however many links lead there."""

    def __init__(self, output: Path) -> None:
        self._output = Path(os.path.realpath(output))
        self._seen: set[tuple[int, int] | None] = set()

    def is_own(self, path: str) -> bool:
        """Whether a path leads to the folder of the batch or into it."""
        return not is_address(path) and Path(os.path.realpath(path)).is_relative_to(self._output)

    def below(self, path: str) -> list[FleetSource]:
        """List the sources that a path leads to: itself, or what a folder holds; none in the folder of the batch."""
        if is_address(path):
            return [FleetSource(path)]
        if self.is_own(path):
            return []
        try:
            mode = os.stat(path).st_mode  # noqa: PTH116  (names may be no UTF-8)
        except (OSError, ValueError) as error:
            return [FleetSource(path, failed=_why(error))]
        for is_kind, reason in UNREAD_KINDS:
            if is_kind(mode):
                return [FleetSource(path, refused=reason)]
        place = Path(path)
        if not stat.S_ISDIR(mode) or is_bundle(place) or is_capture(place):
            return [FleetSource(path)]
        return self._folder(path)

    def _folder(self, path: str) -> list[FleetSource]:
        identity = _identity(Path(path))
        if identity in self._seen:
            return []
        self._seen.add(identity)
        try:
            names = sorted(inputs.list_folder(path))
        except OSError as error:
            return [FleetSource(path, failed=_why(error))]
        inside = [os.path.join(path, name) for name in names]  # noqa: PTH118
        parts = {str(part) for name in inside for part in _later_parts(Path(name))}
        return [source for name in inside if name not in parts for source in self.below(name)]


def _later_parts(path: Path) -> Iterator[Path]:
    """Yield the parts of a split image that are read with its first one."""
    try:
        yield from find_parts(path)[1:] if path.is_file() else ()
    except (ImageError, OSError):
        # A part is missing: the row of the first one says which, and the others have theirs.
        return


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _why(error: OSError | ValueError) -> str:
    return ((error.strerror if isinstance(error, OSError) else None) or str(error)).lower()
