"""Jobs of a batch: a source, its limits, and the key of its result."""

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
"""Length of a file's beginning and end that its identity includes: a write to a disk changes headers there."""


class FleetLimits(Struct, frozen=True):
    """Limits of the process of one source."""

    memory_bytes: int  # address space; 0 for a share of the cluster worker's own limit
    seconds: float  # wall time
    written_bytes: int | None = None  # length of each file that it writes; None for no limit


class FleetJob(Struct, frozen=True):
    """The work on one source, for an engine on any machine."""

    source: FleetSource
    folder: str  # the batch's folder
    limits: FleetLimits
    options: dict[str, Any] = field(default_factory=dict)  # keywords of `scan`, and `orders` and `hash_names`
    at: str = field(default_factory=os.getcwd)  # the folder to which paths are relative

    def key(self) -> dict[str, Any]:
        """Return what the results depend on: while it is equal, the source need not be read again."""
        is_read = not (self.source.failed or self.source.refused)
        path = self.source.path if is_address(self.source.path) else os.path.join(self.at, self.source.path)  # noqa: PTH118
        identity = source_identity(path) if is_read else {}
        return {"made_by": f"layoutscope {__version__}", "options": _redact_secrets(self.options), **identity}


def _redact_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that may be stored; a secret is reduced to whether one was given."""
    from layoutscope.filesystems.registry import read_options

    secrets = {name for name, (each, _) in read_options().items() if each.kind == "secret"}
    relevant = {name: value for name, value in options.items() if name != "cache_dir"}
    plain = {name: value is not None if name in secrets else value for name, value in relevant.items()}
    document: dict[str, Any] = json.loads(json.dumps(plain, default=str))
    return document


def source_identity(path: str) -> dict[str, Any]:
    """Identify a source without reading it whole.

    Returns `size_bytes` and `modify_time_ns` (the newest) of all of its files, and `identity`: SHA-256 of their names,
    sizes and times, and of the ends of a file that is named itself. Empty if the source cannot be read.
    """
    if is_address(path):
        return address_identity(path)
    total, newest, digest = 0, 0, hashlib.sha256()
    try:
        for name in _list_files(path):
            status = os.stat(name)  # noqa: PTH116  (names may be no UTF-8)
            total, newest = total + status.st_size, max(newest, status.st_mtime_ns)
            about = os.fsencode(os.path.relpath(name, path))
            digest.update(b"%d:%s %d %d\n" % (len(about), about, status.st_size, status.st_mtime_ns))
            if name == path:
                with inputs.open_file(Path(name)) as file:
                    begin = file.read(END_BYTES)
                    file.seek(max(0, status.st_size - END_BYTES))
                    digest.update(begin + file.read(END_BYTES))
    except (OSError, ValueError):
        return {}
    return {"size_bytes": total, "modify_time_ns": newest, "identity": digest.hexdigest()}


def _list_files(path: str) -> Iterator[str]:
    """Yield the files of a source: the file itself, the parts of a split image, or the files of a folder."""
    if not os.path.isdir(path):  # noqa: PTH112
        yield path
        try:
            yield from (str(part) for part in find_parts(Path(path))[1:])
        except ImageError:
            return
        return
    yield from inputs.walk_files(path)


ID_DIGITS: Final = 16
"""Hexadecimal digits of a source's identifier: among 10^9 sources, the chance of a collision is 1 in 40."""


class FleetSource(Struct, frozen=True):
    """One source of a batch."""

    path: str  # as it was found; bytes that are not UTF-8 are surrogates, as in Python's own functions
    refused: str = ""  # why it is not an image, where that is known before it is read
    failed: str = ""  # why it cannot be reached

    @property
    def identifier(self) -> str:
        """The key of its rows and its capture: the same for the same path, whatever the options."""
        place = self.path if is_address(self.path) else os.path.realpath(self.path)
        return hashlib.sha256(os.fsencode(place)).hexdigest()[:ID_DIGITS]

    @property
    def shown(self) -> str:
        """The path as text; bytes that are not UTF-8 are escaped."""
        return plain_text(self.path)
