"""Which directories a walk takes its time in: those that are worth a box of the page's treemap.

Each volume that was walked is a tree of its own: numbers of directories mean nothing across volumes of a container.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.access.entries import ROOT_ID
from layoutscope.access.paths import path_component
from layoutscope.arrays.lookup import dense_codes, first_places
from layoutscope.frozen import frozen
from layoutscope.report import escape_text
from layoutscope.report.map.panels import rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.report.map.model import MapDisk, MapWalk
    from layoutscope.tables import VolumeLayout

MOST: Final = 1_500
"""The costliest directories of a disk that have a box each; their ancestors have one, too."""

NO_DIRECTORY: Final = 0
"""Reads that no directory caused, such as those of a mount, are charged to this number."""


@frozen
class Directories:
    """The directories of one volume by rising number; all arrays have shape (n,)."""

    volume: int  # place of the volume's layout on its disk
    ids: NDArray[np.uint64]  # their numbers
    parent: NDArray[np.int64]  # place of the directory that each lies in; -1 where there is none
    name_row: NDArray[np.int64]  # row of entries that names each; -1 where there is none
    seconds: NDArray[np.float64]  # of the walk, caused by each
    # entries, held_bytes: what each lists, and the sizes of that
    entries: NDArray[np.int64]
    held_bytes: NDArray[np.int64]


def directories(item: MapDisk, *, names: bool) -> dict[str, Any] | None:
    """Return the costliest directories of a disk with their ancestors: time of a walk, entries and bytes.

    Of each volume its first walk counts. None where nothing was walked.
    """
    walks = {walk.volume: walk for walk in reversed(item.walks)}
    volumes = [_of_volume(number, item.layouts[number], walks[number]) for number in sorted(walks)]
    if not volumes:
        return None
    chosen = [_with_ancestors(one, rows) for one, rows in zip(volumes, _costliest(volumes), strict=True)]
    kept = list(zip(volumes, chosen, strict=True))
    return {
        "id": [key for one, rows in kept for key in _keys(one, rows)],
        "parent": [key for one, rows in kept for key in _keys(one, one.parent[rows])],
        "name": [name for one, rows in kept for name in _names(one, item, rows, names=names)],
        "seconds": rounded(np.concatenate([one.seconds[rows] for one, rows in kept])),
        "entries": [count for one, rows in kept for count in one.entries[rows].tolist()],
        "bytes": [count for one, rows in kept for count in one.held_bytes[rows].tolist()],
        "whole": {
            "seconds": math.fsum(math.fsum(one.seconds) for one in volumes),  # the same in whatever order
            "entries": sum(int(one.entries.sum()) for one in volumes),
            "bytes": sum(int(one.held_bytes.sum()) for one in volumes),
        },
        "shown": sum(map(len, chosen)),
        "total": sum(len(one.ids) for one in volumes),
    }


def _of_volume(number: int, layout: VolumeLayout, walk: MapWalk) -> Directories:
    """Add up what the directories of a volume list, and what of a walk each of them caused."""
    entries = layout.columns("entries")
    folder_rows = np.flatnonzero(entries["kind"].equals("directory"))
    folders = entries["file_id"].data[folder_rows]
    parents = entries["parent_id"].data
    # What the root lies in is no directory, unless damage made it one: nobody lists it.
    above = parents[folder_rows[folders == ROOT_ID]]
    inside = ~np.isin(parents, above[~np.isin(above, folders)])
    (listing, folder, caused), bound = dense_codes(parents, folders, walk.trace.directory_id)
    codes = np.concatenate([listing[inside], folder, caused])
    there = np.zeros(bound, np.bool_)
    there[codes] = True
    place = np.where(there, np.cumsum(there) - 1, -1)
    numbers = np.concatenate([parents[inside], folders, walk.trace.directory_id])
    ids = np.sort(numbers[first_places(codes, bound)])
    name_row, parent = np.full(len(ids), -1), np.full(len(ids), -1)
    # Of a directory that several entries name, as damage and links to directories have it, the first one counts.
    own = place[folder][::-1]
    name_row[own] = folder_rows[::-1]
    parent[own] = place[listing[folder_rows]][::-1]
    parent[_circles(parent)] = -1
    size = np.maximum(entries["size_bytes"].filled(0), 0)
    return Directories(
        number,
        ids,
        parent,
        name_row,
        np.bincount(place[caused], walk.read_seconds, minlength=len(ids)).astype(np.float64),
        np.bincount(place[listing[inside]], minlength=len(ids)),
        np.bincount(place[listing[inside]], size[inside], minlength=len(ids)).astype(np.int64),
    )


def _circles(parent: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which directories have no topmost one: damage made one of their ancestors lie in itself."""
    above = np.append(parent, -1)  # -1 stands for the last place, too: what has no parent stays there
    for _ in range(len(parent).bit_length()):
        above = above[above]
    return above[:-1] >= 0


def _costliest(volumes: Sequence[Directories]) -> list[NDArray[np.int64]]:
    """Choose the costliest of all volumes; of equally costly ones those of lower numbers."""
    seconds = np.concatenate([one.seconds for one in volumes])
    chosen = np.zeros(len(seconds), np.bool_)
    chosen[np.argsort(-seconds, kind="stable")[:MOST]] = True
    return [np.flatnonzero(part) for part in np.split(chosen, np.cumsum([len(one.ids) for one in volumes])[:-1])]


def _with_ancestors(volume: Directories, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add what lies between directories and the root; a damaged tree's circles end where they began."""
    chosen = np.zeros(len(volume.ids), np.bool_)
    while len(rows):
        chosen[rows] = True
        above = volume.parent[rows]
        above = above[above >= 0]
        rows = np.unique(above[~chosen[above]])
    return np.flatnonzero(chosen)


def _keys(volume: Directories, rows: NDArray[np.int64]) -> list[str | None]:
    """Name directories across volumes, as the page's files are; None for no directory."""
    return [f"{volume.volume}:{volume.ids[row]}" if row >= 0 else None for row in rows.tolist()]


def _names(volume: Directories, item: MapDisk, rows: NDArray[np.int64], *, names: bool) -> list[str]:
    entries = item.layouts[volume.volume].columns("entries")
    texts = entries.texts("name").take(np.maximum(volume.name_row[rows], 0)).to_list()
    told = []
    for row, text in zip(rows.tolist(), texts, strict=True):
        number = int(volume.ids[row])
        if number == NO_DIRECTORY:
            told.append("no directory")
        elif number == ROOT_ID:
            told.append(f"{item.called.get(volume.volume, '')} /".lstrip())
        elif volume.name_row[row] >= 0 and names:
            told.append(escape_text(path_component(text or "")))
        else:
            told.append(f"directory {number}")
    return told
