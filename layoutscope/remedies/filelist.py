"""The order in which all files are best read, as a list: by place on the disk, within what memory can hold.

The list has every name once that is no directory. Who can hold few names at once sorts the walk in windows.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.paths import LENGTH, LOST, MAX_PATH_BYTES, NAME, Paths
from layoutscope.access.touches import nothing
from layoutscope.analysis.files import BATCH_ROWS, NAMED
from layoutscope.arrays.lookup import find
from layoutscope.drive import service
from layoutscope.frozen import frozen
from layoutscope.remedies.filling import by_name, in_walk_order
from layoutscope.remedies.reading import first_places_on_disk
from layoutscope.results.plan import MissingFiles
from layoutscope.walk.data import WalkPart, data_trace, read_in_turn
from layoutscope.walk.directories import lookups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.remedies.case import Case
    from layoutscope.tables import VolumeLayout

    I64 = NDArray[np.int64]

ENTRY_BYTES: Final = 64
"""What a name in memory takes besides its path: number, place, and what points to them."""

PLACE, WALK, NAMES, INODES = "by place", "walk", "names", "inodes"
"""Orders that are timed: that of the list, the walk's, sorted by name, sorted by number."""

LINE_END: Final = "line end"
"""A flaw of a path in a list whose names end with line ends, besides those of :mod:`layoutscope.access.paths`."""

REASONS: Final = {
    NAME: "their names cannot be part of a path",
    LENGTH: f"their paths have more than {MAX_PATH_BYTES:,} bytes",
    LOST: "no path leads to them from the root",
    LINE_END: "line ends in their paths; -0 lists them",
}


@frozen
class FileList:
    """A list of files."""

    # from the root of the volume, beginning with `./`, in the order in which they are best read
    paths: tuple[bytes, ...]
    missing: tuple[MissingFiles, ...]  # what could not be listed, reason by reason
    windows: int  # how many pieces of the walk were sorted, each by itself; 1 where memory holds everything
    seconds: dict[str, float]  # what reading them takes in this order, and in others


def file_list(case: Case, memory_bytes: int | None = None, *, is_null_separated: bool = False) -> FileList:
    """List all files in the order in which they are best read."""
    entries = case.model.entries
    files = in_walk_order(case)
    files = files[~entries.is_directory[files]]
    rows = np.arange(len(entries))[entries.order]
    paths, flaws, shown = _spelled(case.layout, rows[files], is_null_separated=is_null_separated)
    windows = _windows(paths, memory_bytes)
    at = first_places_on_disk(case.layout, entries.file_id[files])
    order = np.lexsort((entries.file_id[files], at, windows))
    orders = {PLACE: files[order], WALK: files, NAMES: _without_folders(case, by_name(case))}
    orders[INODES] = files[np.argsort(entries.file_id[files], kind="stable")]
    seconds = {name: _seconds(case, chosen) for name, chosen in orders.items()}
    counts = Counter(filter(None, flaws))
    missing = [MissingFiles(REASONS[flaw], counts[flaw], shown[flaw]) for flaw in REASONS if counts[flaw]]
    left = int((~entries.is_directory).sum()) - len(files)
    missing += [MissingFiles("no walk from the root comes to them", left)] if left else []
    listed = tuple(paths[place] for place in order.tolist() if not flaws[place])
    return FileList(listed, tuple(missing), int(windows.max(initial=0)) + 1, seconds)


def _spelled(
    layout: VolumeLayout, rows: I64, *, is_null_separated: bool
) -> tuple[list[bytes], list[str], dict[str, str]]:
    """Spell the path of each row of the entries: as a list has it, its flaw if any, and the first path of each flaw."""
    spelling, entries = Paths(layout), layout.columns("entries")
    paths: list[bytes] = []
    flaws: list[str] = []
    shown: dict[str, str] = {}
    for first in range(0, len(rows), BATCH_ROWS):
        part = entries.take(rows[first : first + BATCH_ROWS])
        for row in zip(*map(part.listed, NAMED), strict=True):
            text, flaw = path = spelling.entry(*row)
            flaw = flaw or ("" if is_null_separated or "\n" not in text else LINE_END)
            if flaw:
                shown.setdefault(flaw, text)
            paths.append(b"." + path.to_bytes())
            flaws.append(flaw)
    return paths, flaws, shown


def _without_folders(case: Case, order: I64) -> I64:
    return order[~case.model.entries.is_directory[order]]


def _windows(paths: list[bytes], memory_bytes: int | None) -> I64:
    """Number the pieces of the walk that memory holds at once."""
    if memory_bytes is None:
        return np.zeros(len(paths), np.int64)
    end = np.cumsum([ENTRY_BYTES + len(path) for path in paths])
    return np.asarray((end - 1) // max(memory_bytes, 1), np.int64)


def _seconds(case: Case, files: I64) -> float:
    """Look each file up by its path, and read it when its turn comes."""
    model = case.model
    needed, owner = new_on_the_way(case, files)
    found, each = lookups(model, needed)
    step = WalkPart(found, owner, np.full(len(needed), each))
    _, first = np.unique(model.entries.file_id[files], return_index=True)
    has_data = model.entries.is_file[files] & (model.entries.size_bytes[files] > 0)
    wanted = np.sort(first)
    wanted = wanted[has_data[wanted]]
    reads = data_trace(model, read_in_turn(model, [step], (files[wanted], wanted), nothing()))
    return service(reads, case.drive, phases=1, start_offset_bytes=case.start_offset_bytes).seconds


def new_on_the_way(case: Case, files: I64) -> tuple[I64, I64]:
    """Find what each file or folder is the first to need: entries on the way to it from the root down, itself last.

    Entries, each once, and the place in `files` of what is the first to need it, ascending.
    """
    entries = case.model.entries
    folders = np.flatnonzero(entries.is_directory)
    above = find(entries.file_id[folders], entries.parent_id)
    parent = np.where(above >= 0, folders[np.maximum(above, 0)] if len(folders) else -1, -1)
    owner, height = np.full(len(entries), len(files)), np.zeros(len(entries), np.int64)
    at, places, step = files, np.arange(len(files)), 0
    while len(at):
        # One level up at once; who comes to a folder behind another one needs nothing of what is above it.
        np.minimum.at(owner, at, places)
        is_first = owner[at] == places
        at, places = at[is_first], places[is_first]
        height[at] = step
        upper = parent[at]
        is_new = (upper >= 0) & (places < owner[np.maximum(upper, 0)])
        at, places, step = upper[is_new], places[is_new], step + 1
    needed = np.flatnonzero(owner < len(files))
    needed = needed[np.lexsort((-height[needed], owner[needed]))]
    return needed, owner[needed]
