"""Saving what was read as a capture, with its names, without them, or with hashes in their place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import to_builtins
from msgspec.structs import replace

from layoutscope import ownfiles
from layoutscope.api.outputs import FORCE, refuse_place, report_written
from layoutscope.errors import OutputError, UsageError, reason_of
from layoutscope.progress import phase
from layoutscope.tables import TextColumn, Values
from layoutscope.tables.capture import is_capture, list_capture_files, write_capture
from layoutscope.tables.schema import FORKS
from layoutscope.version import __version__

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from layoutscope.results.scan import ScanResult
    from layoutscope.tables import Table, VolumeLayout

    Change = Callable[[str], str]


def check_capture(
    path: str | os.PathLike[str], *, force: bool, reads: Iterable[str | os.PathLike[str]] = (), of_batch: bool = False
) -> ownfiles.Snapshot:
    """Refuse before the work what would fail after it, and what would destroy anything but an old capture."""
    target = Path(path)
    refuse_place(target, reads, of_batch=of_batch)
    seen: ownfiles.Snapshot = {}
    if target.exists():
        if not is_capture(target):
            raise UsageError(f"{target}: exists; it is not a capture")
        if not force:
            raise UsageError(f"{target}: exists; force=True overwrites it", options=FORCE)
        seen = ownfiles.take_snapshot(target)
        _, strangers = list_capture_files(target)
        if strangers:
            raise UsageError(f"{target}: is not overwritten: {strangers[0].name} in it belongs to no capture")
        ownfiles.refuse_strangers(target, seen, is_folder=True)
    if not target.absolute().parent.is_dir():
        raise UsageError(f"{target}: its folder does not exist")
    return seen


def save(result: ScanResult, path: str | os.PathLike[str], *, hash_names: bool = False, force: bool = False) -> None:
    """Save a scan as a capture, with its names or with hashes whose salt nobody keeps (:meth:`ScanResult.save`)."""
    seen = check_capture(path, force=force)
    layouts = [volume.layout for volume in result.parts]
    if hash_names:
        import secrets

        salt = secrets.token_bytes(16)
        layouts = [with_hashed_names(layout, salt) for layout in layouts]
    has_names = not hash_names and any(layout.columns("entries").texts("name").is_known.any() for layout in layouts)
    partitions = tuple(item if has_names else replace(item, name="") for item in result.image.partitions)
    image = replace(result.image, partitions=partitions)
    findings = [to_builtins(finding) for finding in result.findings]
    for fields in findings:
        # ``cause`` belongs to the format, and is never set outside of volumes.
        del fields["causes"]
        fields["cause"] = None
    about: dict[str, Any] = {
        "made_by": f"layoutscope {__version__}",
        "image": {**to_builtins(image), "name": Path(image.name).name if has_names else ""},
        "findings": findings,
    }
    try:
        with phase("saving the capture"):
            _write(Path(path), seen, layouts, about)
        stored = sum(file.stat().st_size for file in list_capture_files(Path(path))[0])
        report_written(path, stored, f"{sum(len(layout.columns('entries')) for layout in layouts):,} entries")
    except OSError as error:
        raise OutputError(f"{path}: {reason_of(error)}") from error


def _write(target: Path, seen: ownfiles.Snapshot, layouts: list[VolumeLayout], about: dict[str, Any]) -> None:
    """Write into a folder beside the target, and move it there when it is complete."""
    name = ownfiles.new_name(f".{ownfiles.truncate_name(target.name, 64)}.", ownfiles.PART)
    work = ownfiles.make_folder(target.absolute().parent / name)
    part = work / "new"
    try:
        part.mkdir()
        write_capture(part, layouts, about)
        part.chmod(ownfiles.choose_mode(target, seen, 0o777))
        ownfiles.place(part, target, seen)
    finally:
        ownfiles.remove_folder(work)


HASH_DIGITS: Final = 20
"""Hexadecimal digits of a hashed name: as long as walks take a name to be that was left out."""


def without_names(layout: VolumeLayout) -> VolumeLayout:
    """Return the layout without names of files, attributes, snapshots and the volume."""
    known: dict[str, str] = {}

    def numbered(name: str) -> str:
        return known.setdefault(name, str(len(known) + 1))

    entries = layout.columns("entries")
    rows = np.zeros(len(entries), np.int64)
    nothing = TextColumn(np.empty(0, np.uint8), np.zeros(1, np.int64), rows, np.zeros(len(entries), np.bool_))
    changed = _rename_snapshots(layout, numbered)
    return changed.changed(
        facts=replace(changed.facts, name=""),
        entries=entries.changed("name", nothing).changed("name_raw", nothing),
        extents=_rename_forks(layout.columns("extents"), lambda _: "attribute"),
    )


def with_hashed_names(
    layout: VolumeLayout,
    salt: bytes,  # the key, 1 to 64 bytes; without it nobody can try names out
) -> VolumeLayout:
    """Return the layout with a keyed hash in place of every name; equal names have equal hashes."""
    import hashlib

    def hashed(name: str) -> str:
        return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), key=salt).hexdigest()[:HASH_DIGITS]

    entries, changed = layout.columns("entries"), _rename_snapshots(layout, hashed)
    names = _map_texts(entries, "name", hashed)
    return changed.changed(
        facts=replace(changed.facts, name=hashed(layout.facts.name) if layout.facts.name else ""),
        entries=entries.changed("name", names).changed("name_raw", names),
        extents=_rename_forks(layout.columns("extents"), hashed),
    )


def _rename_forks(extents: Table, change: Change) -> Table:
    return extents.changed("fork", _rename_words(extents["fork"], lambda name: name if name in FORKS else change(name)))


def _rename_words(column: Values, change: Change) -> Values:
    """Change the words that some row has; what were two words may be one then."""
    codes, words = column.numbered()
    told = [change(word) if word else "" for word in words]
    kept = list(dict.fromkeys(told))
    places = np.array([kept.index(word) for word in told] or [0], np.uint32)
    return Values(places[codes], column.known, kept)


def _map_texts(table: Table, name: str, change: Change) -> TextColumn:
    """Change each different text once."""
    texts = table.listed(name)
    known = {text: change(text) for text in dict.fromkeys(texts) if text is not None}
    return TextColumn.of([None if text is None else known[text] for text in texts])


def _rename_snapshots(layout: VolumeLayout, change: Change) -> VolumeLayout:
    """Change the names of snapshots and of the volume wherever texts quote them."""
    node_views, findings = layout.columns("node_views"), layout.columns("findings")
    views = {layout.facts.view, *node_views["view"].numbered()[1], *layout.facts.details}
    quoted = [f"volume {layout.facts.name}"] if layout.facts.name else []
    quoted += sorted({str(view).removesuffix(" nodes") for view in views if str(view).startswith("snapshot ")})
    if not quoted:
        return layout
    pattern = re.compile("|".join(rf"{re.escape(text)}(?!\w)" for text in sorted(quoted, key=len, reverse=True)))

    def told(text: str) -> str:
        return pattern.sub(lambda found: " ".join((found[0].split(" ")[0], change(found[0].partition(" ")[2]))), text)

    for name in ("structure", "expected", "found", "message"):
        findings = findings.changed(name, _map_texts(findings, name, told))
    facts = layout.facts
    details = {told(key): told(value) if isinstance(value, str) else value for key, value in facts.details.items()}
    return layout.changed(
        facts=replace(facts, view=told(facts.view), details=details),
        node_views=node_views.changed("view", _rename_words(node_views["view"], told)),
        findings=findings,
    )
