"""Saving what was read as a capture, with its names, without them, or with hashes in their place."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins
from msgspec.structs import replace

from layoutscope import ownfiles
from layoutscope.api.naming import with_hashed_names
from layoutscope.api.outputs import FORCE, refuse_place, tell_written
from layoutscope.errors import OutputError, UsageError
from layoutscope.progress import phase
from layoutscope.tables.capture import is_capture, list_capture_files, write_capture
from layoutscope.version import __version__

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from layoutscope.findings import Finding
    from layoutscope.results.scan import ScanResult
    from layoutscope.tables.layout import VolumeLayout


def check_capture(
    path: str | os.PathLike[str],
    *,
    force: bool,
    reads: Iterable[str | os.PathLike[str]] = (),
    of_batch: bool = False,
) -> ownfiles.Seen:
    """Refuse before the work what would fail after it, and what would destroy anything but an old capture."""
    target = Path(path)
    refuse_place(target, reads, of_batch=of_batch)
    seen: ownfiles.Seen = {}
    if target.exists():
        if not is_capture(target):
            raise UsageError(f"{target}: exists; it is no capture")
        if not force:
            raise UsageError(f"{target}: exists; force=True overwrites it", options=FORCE)
        seen = ownfiles.look(target)
        _, strangers = list_capture_files(target)
        if strangers:
            raise UsageError(f"{target}: is not overwritten: {strangers[0].name} in it belongs to no capture")
        ownfiles.refuse_strangers(target, seen, is_folder=True)
    if not target.absolute().parent.is_dir():
        raise UsageError(f"{target}: its folder does not exist")
    return seen


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
        Whether a capture that was written here is overwritten.

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
    seen = check_capture(path, force=force)
    layouts = [volume.layout for volume in result.volumes]
    salt = secrets.token_bytes(16)
    if hash_names:
        layouts = [with_hashed_names(layout, salt) for layout in layouts]
    has_names = not hash_names and any(layout.columns("entries").texts("name").is_known.any() for layout in layouts)
    partitions = tuple(item if has_names else replace(item, name="") for item in result.image.partitions)
    image = replace(result.image, partitions=partitions)
    about: dict[str, Any] = {
        "made_by": f"layoutscope {__version__}",
        "image": {**to_builtins(image), "name": Path(image.name).name if has_names else ""},
        "findings": [_saved(finding) for finding in result.findings],
    }
    try:
        with phase("saving the capture"):
            _write(Path(path), seen, layouts, about)
        stored = sum(file.stat().st_size for file in list_capture_files(Path(path))[0])
        tell_written(path, stored, f"{sum(len(layout.columns('entries')) for layout in layouts):,} entries")
    except OSError as error:
        raise OutputError(f"{path}: {(error.strerror or str(error)).lower()}") from error


def _write(target: Path, seen: ownfiles.Seen, layouts: list[VolumeLayout], about: dict[str, Any]) -> None:
    """Write into a folder beside the target, and move it there when it is complete."""
    work = ownfiles.make_folder(target.absolute().parent, f".{ownfiles.beginning(target.name, 64)}.", ownfiles.PART)
    part = work / "new"
    try:
        part.mkdir()
        write_capture(part, layouts, about)
        part.chmod(ownfiles.mode_of(target, seen, 0o777))
        ownfiles.place(part, target, seen)
    finally:
        ownfiles.remove_folder(work)


def _saved(finding: Finding) -> dict[str, Any]:
    """Return the fields of a finding; ``cause`` is one of the format, and of what lies outside of volumes never set."""
    fields = to_builtins(finding)
    del fields["causes"]
    return {**fields, "cause": None}
