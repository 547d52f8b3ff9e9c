"""Jobs of a batch: its sources, the limits of each, and what a result depends on."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import field

from layoutscope import inputs
from layoutscope.display import Struct
from layoutscope.errors import ImageError
from layoutscope.fleet.store import plain_text
from layoutscope.image.remote import address_identity
from layoutscope.image.split import find_parts
from layoutscope.inputs import is_address
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


END_BYTES: Final = 65536
"""So much of a file's beginning and end is part of its identity: a disk that was written to has other headers there."""


class FleetLimits(Struct, frozen=True):
    """What the process of one source may take."""

    memory_bytes: int  # address space; 0 where the worker of a cluster gives it a part of its own
    seconds: float  # time on the clock
    written_bytes: int | None = None  # length of each file that it writes; as much as there is room for without


class FleetJob(Struct, frozen=True):
    """What is done about one source, for anyone who runs it, here or elsewhere."""

    source: FleetSource  # what is read
    folder: str  # the batch's folder
    limits: FleetLimits  # what it may take
    options: dict[str, Any] = field(default_factory=dict)  # keywords of `scan`; and `orders`, `hash_names`
    at: str = field(default_factory=os.getcwd)  # the folder to which paths are relative

    def key(self) -> dict[str, Any]:
        """Describe what the results depend on: as long as this is the same, they need not be made again."""
        is_read = not (self.source.failed or self.source.refused)
        path = self.source.path if is_address(self.source.path) else os.path.join(self.at, self.source.path)  # noqa: PTH118
        identity = source_identity(path) if is_read else {}
        return {"made_by": f"layoutscope {__version__}", "options": _public(self.options), **identity}


def _public(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as they may be kept: of a secret it is known only whether one was given."""
    from layoutscope.filesystems.registry import read_options

    secrets = {name for name, (each, _) in read_options().items() if each.kind == "secret"}
    kept = {name: value for name, value in options.items() if name != "cache_dir"}
    plain = {name: value is not None if name in secrets else value for name, value in kept.items()}
    known: dict[str, Any] = json.loads(json.dumps(plain, default=str))
    return known


def source_identity(path: str) -> dict[str, Any]:
    """Describe what can be known of a source without reading it whole.

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


class FleetSource(Struct, frozen=True):
    """One thing to be read."""

    path: str  # as it was found; bytes that are not UTF-8 are surrogates, as Python's own functions take them
    # refused, failed: why it is not read at all, as far as that is known before: it is not an image, or cannot be
    # reached
    refused: str = ""
    failed: str = ""

    @property
    def identifier(self) -> str:
        """What its rows and its capture are found by: the same for the same place, whatever was asked for besides."""
        place = self.path if is_address(self.path) else os.path.realpath(self.path)
        return hashlib.sha256(os.fsencode(place)).hexdigest()[:ID_DIGITS]

    @property
    def shown(self) -> str:
        """The path as text; bytes that are not UTF-8 are escaped."""
        return plain_text(self.path)
