"""Saving what was read as a capture, with its names, without them, or with hashes in their place."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import layoutscope
from layoutscope.api.naming import with_hashed_names
from layoutscope.api.outputs import OutputError
from layoutscope.errors import UsageError
from layoutscope.tables.capture import MANIFEST, is_capture, write_capture

if TYPE_CHECKING:
    import os

    from layoutscope.report.result import ScanResult
    from layoutscope.tables.layout import VolumeLayout


def check_capture(path: str | os.PathLike[str], *, force: bool) -> None:
    """Refuse before the work what would fail after it.

    Raises
    ------
    UsageError
        If something exists there that is no capture, or a capture and `force` is not given.
    """
    target = Path(path)
    if target.exists() and not (force and is_capture(target)):
        hint = "--force overwrites it" if is_capture(target) else "it is no capture"
        raise UsageError(f"{target}: exists; {hint}")
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
    """
    check_capture(path, force=force)
    layouts = [volume.layout for volume in result.volumes]
    salt = secrets.token_bytes(16)
    if hash_names:
        layouts = [with_hashed_names(layout, salt) for layout in layouts]
    has_names = not hash_names and any(layout.entries["name"].count() for layout in layouts)
    about: dict[str, Any] = {
        "made_by": f"layoutscope {layoutscope.__version__}",
        "image": {**asdict(result.image), "name": Path(result.image.name).name if has_names else ""},
        "findings": [asdict(finding) for finding in result.findings],
    }
    try:
        _write(Path(path), layouts, about)
    except OSError as error:
        raise OutputError(f"{path}: {(error.strerror or str(error)).lower()}") from error


def _write(target: Path, layouts: list[VolumeLayout], about: dict[str, Any]) -> None:
    """Write into a folder beside the target, and move it there when it is complete."""
    part = Path(tempfile.mkdtemp(prefix=f".{target.name[:64]}.", suffix=".part", dir=target.absolute().parent))
    try:
        write_capture(part, layouts, about)
        if target.exists():
            (target / MANIFEST).unlink()
            shutil.rmtree(target)
        part.chmod(0o755)
        part.replace(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
