"""The order in which a depth-first walk visits directories.

A directory is listed, then its sub-directories are walked in the order of the listing (fts without a comparison,
rsync, git). Worked out level by level, not directory by directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays.ragged import ranges, starts_of
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.entries import EntryTable


@frozen
class Descent:
    """Directories in the order of the walk; arrays of shape (n_directories,)."""

    directory_id: NDArray[np.uint64]  # CNID or oid
    entry: NDArray[np.int64]  # their own entries in the table, -1 for a start that has none
    # first, count: their entries in the table
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    turn: NDArray[np.int64]  # place among all entries of the walk, files included, in depth-first order
    under: NDArray[np.int64]  # entries anywhere below

    def __len__(self) -> int:
        return len(self.entry)

    def take(self, rows: NDArray[np.int64]) -> Descent:
        """Return some of the directories, in the order given."""
        places = (each[rows] for each in (self.entry, self.first, self.count, self.turn, self.under))
        return Descent(self.directory_id[rows], *places)


def descend(entries: EntryTable, start_id: int) -> Descent:
    """Order the directories under one directory, itself first.

    A directory that is met twice (a loop in a damaged volume) is walked once.
    """
    levels = _levels(entries, start_id)
    entry = np.concatenate([level.entry for level in levels])
    first = np.concatenate([level.first for level in levels])
    count = np.concatenate([level.count for level in levels])
    under = _entries_under(levels)
    turn = _turns(levels, under)
    below = np.concatenate(under)
    order = np.argsort(turn)
    ids = np.where(
        entry >= 0, entries.file_id[np.maximum(entry, 0)] if len(entries) else np.uint64(0), np.uint64(start_id)
    )
    return Descent(ids[order], entry[order], first[order], count[order], turn[order], below[order])


def turns_of(descent: Descent, n_entries: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return every entry that the walk lists, directory by directory, and its depth-first place."""
    below = np.zeros(n_entries + 1, np.int64)
    known = descent.entry >= 0
    below[descent.entry[known]] = descent.under[known]
    before = starts_of(below)
    entry = ranges(descent.first, descent.count)
    directory = np.repeat(np.arange(len(descent)), descent.count)
    first = descent.first[directory]
    return entry, descent.turn[directory] + 1 + entry - first + before[entry] - before[first]


def entry_of(entries: EntryTable, file_id: int) -> int:
    """Return the first entry of a file or directory, -1 where it has none."""
    found = np.flatnonzero(entries.file_id == np.uint64(file_id))
    return int(found[0]) if len(found) else -1


@frozen
class _Level:
    """Directories at one depth; ``parent`` is their place in the level above."""

    entry: NDArray[np.int64]
    parent: NDArray[np.int64]
    first: NDArray[np.int64]
    count: NDArray[np.int64]


def _levels(entries: EntryTable, start_id: int) -> list[_Level]:
    order = np.argsort(entries.group_id, kind="stable")
    ids = entries.group_id[order]
    directories = np.flatnonzero(entries.is_directory & ~entries.is_hidden)
    spans = _Spans(ids, entries.group_start[:-1][order], np.diff(entries.group_start)[order])
    first, count = spans.of(np.array([start_id], np.uint64))
    level = _Level(np.array([entry_of(entries, start_id)]), np.zeros(1, np.int64), first, count)
    seen = np.zeros(len(entries) + 1, bool)
    levels = []
    while len(level.entry):
        levels.append(level)
        seen[level.entry] = True
        below, parent = _children(directories, level)
        new = ~seen[below]
        below, parent = below[new], parent[new]
        first, count = spans.of(entries.file_id[below])
        level = _Level(below, parent, first, count)
    return levels


@frozen
class _Spans:
    """Entries of each directory that has some, by ascending id."""

    ids: NDArray[np.uint64]
    first: NDArray[np.int64]
    count: NDArray[np.int64]

    def of(self, wanted: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if not len(self.ids):
            return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.int64)
        place = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        found = self.ids[place] == wanted
        return np.where(found, self.first[place], 0), np.where(found, self.count[place], 0)


def _children(directories: NDArray[np.int64], level: _Level) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sub-directories of a level, and the place of their parents in it."""
    begin = np.searchsorted(directories, level.first)
    count = np.searchsorted(directories, level.first + level.count) - begin
    return directories[ranges(begin, count)], np.repeat(np.arange(len(count)), count)


def _turns(levels: list[_Level], under: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Depth-first places: after the parent, its earlier entries and all that is under them."""
    turns = [np.zeros(1, np.int64)]
    for above, level, extra in zip(levels, levels[1:], under[1:], strict=False):
        before = starts_of(extra)
        first_child = np.searchsorted(level.parent, level.parent)
        within = level.entry - above.first[level.parent]
        turns.append(turns[-1][level.parent] + 1 + within + before - before[first_child])
    return np.concatenate(turns)


def _entries_under(levels: list[_Level]) -> list[NDArray[np.int64]]:
    """Entries anywhere under each directory, level by level from the top."""
    under = [level.count.copy() for level in levels]
    for depth in range(len(levels) - 1, 0, -1):
        sums = np.bincount(levels[depth].parent, weights=under[depth], minlength=len(under[depth - 1]))
        under[depth - 1] += sums.astype(np.int64)
    return under
