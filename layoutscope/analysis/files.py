"""Every entry of a volume with its path, and with what its inode says: what lists of files for other programs need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.access.entries import ROOT_ID
from layoutscope.analysis.owners import MOST_LEVELS
from layoutscope.filesystems.contract import NO_TIME
from layoutscope.frames import pl
from layoutscope.tables.table import time_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.filesystems.contract import InodeStats
    from layoutscope.tables import VolumeLayout

STATS: Final = ("mode", "user_id", "group_id")
TIMES: Final = ("access_time", "change_time")
"""Columns that inodes add to those of the table of entries."""

PERMISSIONS: Final = 0o7777
"""The bits of a mode that are no type (POSIX, sys/stat.h)."""


def directory_paths(layout: VolumeLayout) -> dict[int, str]:
    """Spell the path of each directory, that of the root as an empty text.

    A directory that cannot be reached from the root begins with its number, as ``<17>``.
    """
    entries = layout.columns("entries")
    folders = entries.take(entries["kind"].equals("directory") & (entries["file_id"].data != ROOT_ID))
    rows = zip(*map(folders.listed, ("file_id", "parent_id", "name")), strict=True)
    above = {number: (parent, name or f"<{number}>") for number, parent, name in rows}
    known = {ROOT_ID: ""}
    for number in above:
        chain: list[int] = []
        place = number
        while place not in known and place in above and len(chain) < MOST_LEVELS:
            chain.append(place)
            place = above[place][0]
        # Directories of a circle hang on none of them.
        if place not in known:
            known[place] = f"<{place}>"
        for each in reversed(chain):
            known.setdefault(each, f"{known[above[each][0]]}/{above[each][1]}")
    return known


def entry_paths(layout: VolumeLayout) -> list[str]:
    """Spell the path of each entry, from the root of the volume on; the root itself is ``/``."""
    known = directory_paths(layout)
    return [_path(known, *row) for row in zip(*map(layout.columns("entries").listed, _NAMED), strict=True)]


def with_paths(layout: VolumeLayout) -> pl.DataFrame:
    """Return the entries as a frame with a column ``path``."""
    return layout.entries.with_columns(pl.Series("path", entry_paths(layout), dtype=pl.String))


_NAMED: Final = ("file_id", "parent_id", "name")


def _path(known: dict[int, str], file_id: int, parent_id: int, name: str | None) -> str:
    if file_id == ROOT_ID:
        return "/"
    return f"{known.get(parent_id, f'<{parent_id}>')}/{f'<{file_id}>' if name is None else name}"


def listed_files(layout: VolumeLayout, stats: InodeStats | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of entries with their paths and what their inodes say; None where that is not known.

    Parameters
    ----------
    layout : VolumeLayout
        The volume.
    stats : InodeStats or None
        Of its inodes; None where these were not read.
    """
    known, entries = directory_paths(layout), layout.columns("entries")
    inodes = {} if stats is None else dict(zip(*_first_of_each(stats.file_id), strict=True))
    nothing: dict[str, Any] = dict.fromkeys((*STATS, *TIMES))
    for first in range(0, len(entries), BATCH_ROWS):
        for row in entries.take(slice(first, first + BATCH_ROWS)).rows():
            inode = inodes.get(row["file_id"])
            told = nothing if stats is None or inode is None else _told(stats, inode)
            yield {**row, "path": _path(known, *(row[name] for name in _NAMED)), **told}


BATCH_ROWS: Final = 65_536
"""Entries that are made rows of at once."""


def _first_of_each(file_id: NDArray[np.uint64]) -> tuple[list[int], list[int]]:
    ids, first = np.unique(file_id, return_index=True)
    return ids.tolist(), first.tolist()


def _told(stats: InodeStats, inode: int) -> dict[str, Any]:
    """Return what an inode says; without a mode nothing was ever written to its owner either."""
    has_mode = stats.mode[inode] != 0
    found = {name: int(getattr(stats, name)[inode]) if has_mode else None for name in STATS}
    times = (int(stats.access_us[inode]), int(stats.change_us[inode]))
    return {**found, **{name: None if us == NO_TIME else time_of(us) for name, us in zip(TIMES, times, strict=True)}}
