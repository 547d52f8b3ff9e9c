"""Saving what was read as a capture, with its names, without them, or with hashes in their place."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layoutscope.api.naming import with_hashed_names
from layoutscope.api.outputs import FORCE, OutputError, refuse_input, tell_written, umask
from layoutscope.errors import UsageError
from layoutscope.progress import phase
from layoutscope.tables.capture import is_capture, own_files, write_capture
from layoutscope.version import __version__

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from layoutscope.results.scan import ScanResult
    from layoutscope.tables.layout import VolumeLayout


def check_capture(path: str | os.PathLike[str], *, force: bool, reads: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Refuse before the work what would fail after it, and what would destroy anything but an old capture.

    Parameters
    ----------
    path : path
        Where a capture is to go.
    force : bool
        Whether an existing capture is overwritten.
    reads : iterable of path
        What will be read; what has been read already is known.

    Raises
    ------
    UsageError
        If something exists there that is no capture or holds anything else, if it is an input or a capture and `force`
        is not given, or its folder does not exist.
    """
    target = Path(path)
    refuse_input(target, reads)
    if target.exists():
        if not is_capture(target):
            raise UsageError(f"{target}: exists; it is no capture")
        if not force:
            raise UsageError(f"{target}: exists; force=True overwrites it", options=FORCE)
        _, strangers = own_files(target)
        if strangers:
            raise UsageError(f"{target}: is not overwritten: {strangers[0].name} in it belongs to no capture")
    if not target.absolute().parent.is_dir():
        raise UsageError(f"{target}: its folder does not exist")


def save(result: ScanResult, path: str | os.PathLike[str], *, hash_names: bool = False, force: bool = False) -> None:
    """Save a scan as a capture, which every verb takes in place of the image.

    Parameters
    ----------
    result : ScanResult
        What :func:`layoutscope.api.scan` returned.
    path : path
        The folder, by custom ``NAME.lscope``.
    hash_names : bool
        Whether names are replaced by hashes with a salt that nobody keeps: the same name has the same hash.
    force : bool
        Whether an existing capture is overwritten.

    Raises
    ------
    UsageError
        As :func:`check_capture`.
    OutputError
        If it cannot be written.

    Examples
    --------
    >>> import layoutscope
    >>> layoutscope.save(layoutscope.scan("fixtures/images/hfsplus-scattered.img.zst"), "tuesday.lscope")
    >>> layoutscope.scan("tuesday.lscope").volume.layout.facts.name
    'Scattered'
    """
    check_capture(path, force=force)
    layouts = [volume.layout for volume in result.volumes]
    salt = secrets.token_bytes(16)
    if hash_names:
        layouts = [with_hashed_names(layout, salt) for layout in layouts]
    has_names = not hash_names and any(layout.columns("entries").texts("name").is_known.any() for layout in layouts)
    partitions = tuple(item if has_names else replace(item, name="") for item in result.image.partitions)
    image = replace(result.image, partitions=partitions)
    about: dict[str, Any] = {
        "made_by": f"layoutscope {__version__}",
        "image": {**asdict(image), "name": Path(image.name).name if has_names else ""},
        "findings": [asdict(replace(finding, cause=None)) for finding in result.findings],
    }
    try:
        with phase("saving the capture"):
            _write(Path(path), layouts, about)
        stored = sum(file.stat().st_size for file in own_files(Path(path))[0])
        tell_written(path, stored, f"{sum(len(layout.columns('entries')) for layout in layouts):,} entries")
    except OSError as error:
        raise OutputError(f"{path}: {(error.strerror or str(error)).lower()}") from error


def _write(target: Path, layouts: list[VolumeLayout], about: dict[str, Any]) -> None:
    """Write into a folder beside the target, and move it there when it is complete."""
    goal = target.resolve()
    work = Path(tempfile.mkdtemp(prefix=f".{goal.name[:64]}.", suffix=".part", dir=goal.parent))
    part, old = work / "new", work / "old"
    try:
        part.mkdir()
        write_capture(part, layouts, about)
        part.chmod(0o777 & ~umask())
        _swap(part, goal, old)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):
            work.rmdir()


def _swap(part: Path, goal: Path, old: Path) -> None:
    """Put a capture in the place of an old one, which stays whole until then and goes file by file."""
    is_there = goal.exists()
    if is_there:
        goal.replace(old)
    try:
        part.replace(goal)
    except OSError:
        if is_there:
            old.replace(goal)
        raise
    if is_there:
        _remove(old)


def _remove(capture: Path) -> None:
    """Remove a capture's own files and the folders that are empty then; a stranger stays, and its folder with it."""
    files, _ = own_files(capture)
    for file in files:
        file.unlink()
    for folder in {file.parent for file in files} - {capture}:
        folder.rmdir()
    capture.rmdir()
