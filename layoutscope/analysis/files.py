"""Every entry of a volume with its path, and with what its inode says: what lists of files for other programs need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.access.paths import Paths
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


def with_paths(layout: VolumeLayout) -> pl.DataFrame:
    """Return the entries as a frame with a column ``path``."""
    paths, named = Paths(layout), layout.columns("entries")
    rows = zip(*map(named.listed, NAMED), strict=True)
    return layout.entries.with_columns(pl.Series("path", (paths.entry(*row).text for row in rows), dtype=pl.String))


NAMED: Final = ("file_id", "parent_id", "name")
"""Columns of entries that paths are made of."""


def listed_files(
    layout: VolumeLayout,
    stats: InodeStats | None,  # of its inodes; None where these were not read
) -> Iterator[dict[str, Any]]:
    """Yield the rows of entries with their paths and what their inodes say; None where that is not known."""
    paths, entries = Paths(layout), layout.columns("entries")
    inodes = {} if stats is None else dict(zip(*_first_of_each(stats.file_id), strict=True))
    nothing: dict[str, Any] = dict.fromkeys((*STATS, *TIMES))
    for first in range(0, len(entries), BATCH_ROWS):
        for row in entries.take(slice(first, first + BATCH_ROWS)).rows():
            inode = inodes.get(row["file_id"])
            told = nothing if stats is None or inode is None else _told(stats, inode)
            yield {**row, "path": paths.entry(*(row[name] for name in NAMED)).text, **told}


BATCH_ROWS: Final = 16_384
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
