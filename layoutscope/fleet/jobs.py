"""One source's work as plain data: what is read, how, within which limits, and by what it is known to be unchanged."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from layoutscope import inputs
from layoutscope.frozen import frozen
from layoutscope.image.remote import address_identity, is_address
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from layoutscope.fleet.sources import FleetSource

END_BYTES: Final = 65536
"""So much of a file's beginning and end is part of its identity: a disk that was written to has other headers there."""


@frozen
class FleetLimits:
    """What the process of one source may take."""

    memory_bytes: int  # address space; 0 where the worker of a cluster gives it a part of its own
    seconds: float  # time on the clock
    written_bytes: int | None = None  # length of each file that it writes; as much as there is room for without


@frozen
class FleetJob:
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
        return json.dumps(asdict(self))


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
