"""The files of which an image consists, as they lie on this machine: parts, segments, extents, bands, tables."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from layoutscope import inputs
from layoutscope.errors import ImageError
from layoutscope.image.containers import foreign, witness, wrappers
from layoutscope.image.raw import RawFile
from layoutscope.image.signatures import head_of, signature_of, trailer_of
from layoutscope.image.split import find_parts

if TYPE_CHECKING:
    from layoutscope.image.source import Source


def files_of(path: Path) -> list[Path]:
    """List the files of an image, each once, the one that was named first where there is one."""
    if path.is_dir():
        inputs.note(path)
        return sorted(item for item in map(Path, inputs.walk_files(str(path))) if item.is_file())
    parts = find_parts(path)
    if parts:
        return parts
    with open_plain(path) as source:
        head = head_of(source)
        if wrappers.is_cue(head):
            return [path, wrappers.data_track(source).path]
        found = signature_of(head, trailer_of(source))
        if found is None or found.reader not in ("witness", "pyvmdk"):
            return [path]
        if found.reader == "witness":
            return witness.segments_of(path)
        with foreign.ForeignSource(source, found) as disk:
            return disk.files


def open_plain(path: Path) -> Source:
    """Open a file or a device as the bytes that it holds, whatever they are."""
    mode = mode_of(path)
    if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
        from layoutscope.image.device import Device

        return Device(path)
    if not stat.S_ISREG(mode):
        raise ImageError(f"{path}: is neither a file nor a disk")
    return RawFile(path)


def mode_of(path: Path) -> int:
    """Return what kind of thing lies at a path, as ``st_mode`` has it."""
    try:
        return path.stat().st_mode
    except FileNotFoundError as error:
        raise ImageError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        raise ImageError(f"{path}: {getattr(error, 'strerror', None) or error}".lower()) from error
