"""What a batch reads: images, captures, folders, patterns and lists become sources, one for each thing to be read.

Nothing is opened here but folders: what a file is, the process finds out that reads it. So nothing waits for a pipe,
and what is no image, or not there, is a source with its own row all the same.
"""

from __future__ import annotations

import glob
import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from layoutscope import inputs
from layoutscope.errors import ImageError, UsageError
from layoutscope.fleet.columns import plain_text
from layoutscope.frozen import frozen
from layoutscope.image.containers.bundle import is_bundle
from layoutscope.image.remote import is_address, whole_address
from layoutscope.image.split import find_parts
from layoutscope.tables.capture import is_capture

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ID_DIGITS: Final = 16
"""Hexadecimal digits of a source's identifier: a thousand million sources have one in common once in forty times."""

LIST_SIGN: Final = "@"
"""What stands before the name of a list of sources."""

UNREAD_KINDS: Final = (
    (stat.S_ISFIFO, "is a pipe, which is not read: it may never end"),
    (stat.S_ISSOCK, "is a socket, which is not read"),
    (stat.S_ISCHR, "is a character device, which is not read"),
)


@frozen
class FleetSource:
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
    for path in _listed(asked):
        for source in walk.below(path):
            found.setdefault(source.identifier, source)
    if not found:
        raise UsageError("there is no source: nothing was named, or what was named holds no file")
    return list(found.values())


def _listed(asked: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Put the lines of lists and the matches of patterns in their places."""
    names: list[str] = []
    for each in (os.fspath(item) for item in asked):
        if each.startswith(LIST_SIGN) and not os.path.lexists(each):
            names += _lines(Path(each.removeprefix(LIST_SIGN)))
        elif is_address(each):
            names.append(whole_address(each))
        elif glob.has_magic(each) and not os.path.lexists(each):
            names += sorted(glob.glob(each, recursive=True)) or [each]  # noqa: PTH207  (names may be no UTF-8)
        else:
            names.append(each)
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
        self._seen = {_identity(output)} - {None}

    def below(self, path: str) -> list[FleetSource]:
        """List the sources that a path leads to: itself, or what a folder holds."""
        if is_address(path):
            return [FleetSource(path)]
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
