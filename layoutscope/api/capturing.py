"""Saving what was read as a capture, with its names, without them, or with hashes in their place."""

from __future__ import annotations

import hashlib
import secrets
import shutil
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

import layoutscope
from layoutscope.api.outputs import OutputError
from layoutscope.errors import UsageError
from layoutscope.tables.capture import MANIFEST, is_capture, write_capture

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from layoutscope.report.result import ScanResult
    from layoutscope.tables.layout import VolumeLayout

HASH_DIGITS: Final = 16
"""Hexadecimal digits of a hashed name."""

FORKS: Final = ("data", "resource")
"""Forks that are no names of attributes."""


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
    about: dict[str, Any] = {
        "made_by": f"layoutscope {layoutscope.__version__}",
        "image": {**asdict(result.image), "name": Path(result.image.name).name},
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


def with_hashed_names(layout: VolumeLayout, salt: bytes) -> VolumeLayout:
    """Replace every name by a keyed hash of itself."""

    def hashed(name: str) -> str:
        return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), key=salt).hexdigest()[:HASH_DIGITS]

    forks = layout.extents["fork"].cast(pl.String)
    return replace(
        layout,
        facts=replace(layout.facts, name=hashed(layout.facts.name) if layout.facts.name else ""),
        entries=layout.entries.with_columns(_mapped(layout.entries["name"], hashed), _no_raw_names()),
        extents=layout.extents.with_columns(
            _mapped(forks, lambda name: name if name in FORKS else hashed(name)).cast(pl.Categorical)
        ),
    )


def _mapped(column: pl.Series, change: Callable[[str], str]) -> pl.Series:
    """Change each different value once."""
    known = {value: change(value) for value in column.drop_nulls().unique()}
    return column.replace_strict(known, default=None, return_dtype=pl.String)


def _no_raw_names() -> pl.Expr:
    return pl.lit(None, pl.Binary).alias("name_raw")
