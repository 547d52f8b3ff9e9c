"""The order in which a walk visits directories: depth-first, each with its place among all entries of the walk."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from layoutscope.structs.arrays import Rows, index_of, ranges, starts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.entries import EntryTable


class Descent(Rows, frozen=True):
    """Directories in the order of the walk; arrays of shape (n_directories,)."""

    directory_id: NDArray[np.uint64]  # CNID or oid
    entry: NDArray[np.int64]  # rows of their own entries in the table, -1 for a start without one
    # first, count: range of the entries that each directory contains
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    turn: NDArray[np.int64]  # position among all entries of the walk, including files, in depth-first order
    under: NDArray[np.int64]  # number of entries at any depth below


def descend(entries: EntryTable, start_id: int) -> Descent:
    """Order the directories under one directory, starting with that directory itself.

    A directory that is reached twice (a loop in a damaged volume) is walked once.
    """
    levels = _levels(entries, start_id)
    entry, _, first, count = (np.concatenate(column) for column in zip(*levels, strict=True))
    under = _entries_under(levels)
    turn = _turns(levels, under)
    below = np.concatenate(under)
    order = np.argsort(turn)
    ids = np.where(
        entry >= 0, entries.file_id[np.maximum(entry, 0)] if len(entries) else np.uint64(0), np.uint64(start_id)
    )
    return Descent(ids[order], entry[order], first[order], count[order], turn[order], below[order])


def turns_of(descent: Descent, n_entries: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return every entry that the walk lists, directory by directory, and its depth-first position."""
    below = np.zeros(n_entries + 1, np.int64)
    known = descent.entry >= 0
    below[descent.entry[known]] = descent.under[known]
    before = starts_of(below)
    entry = ranges(descent.first, descent.count)
    directory = np.repeat(np.arange(len(descent)), descent.count)
    first = descent.first[directory]
    return entry, descent.turn[directory] + 1 + entry - first + before[entry] - before[first]


def entry_of(entries: EntryTable, file_id: int) -> int:
    """Return the first entry of a file or directory, -1 if it has none."""
    found = np.flatnonzero(entries.file_id == np.uint64(file_id))
    return int(found[0]) if len(found) else -1


_Level: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]"
"""Directories at one depth: their entries, their parents' positions in the level above, the starts of their own entries
and the numbers of these."""


def _levels(entries: EntryTable, start_id: int) -> list[_Level]:
    groups, directories = index_of(entries.group_id), np.flatnonzero(entries.is_directory & ~entries.is_hidden)
    begins, counts = entries.group_start, np.append(np.diff(entries.group_start), 0)

    def find_group(wanted: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the start and the number of each directory's entries, both 0 if it has none."""
        place, found = groups.find(wanted)
        return np.where(found, begins[place], 0), np.where(found, counts[place], 0)

    entry, parent = np.array([entry_of(entries, start_id)]), np.zeros(1, np.int64)
    first, count = find_group(np.array([start_id], np.uint64))
    seen = np.zeros(len(entries) + 1, bool)
    levels = []
    while len(entry):
        levels.append((entry, parent, first, count))
        seen[entry] = True
        begin = np.searchsorted(directories, first)
        inside = np.searchsorted(directories, first + count) - begin
        below, above = directories[ranges(begin, inside)], np.repeat(np.arange(len(inside)), inside)
        new = ~seen[below]
        entry, parent = below[new], above[new]
        first, count = find_group(entries.file_id[entry])
    return levels


def _turns(levels: list[_Level], under: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return depth-first positions: each entry follows its parent, its earlier siblings and everything below those."""
    turns = [np.zeros(1, np.int64)]
    for (_, _, begin, _), (entry, parent, _, _), extra in zip(levels, levels[1:], under[1:], strict=False):
        before = starts_of(extra)
        first_child = np.searchsorted(parent, parent)
        within = entry - begin[parent]
        turns.append(turns[-1][parent] + 1 + within + before - before[first_child])
    return np.concatenate(turns)


def _entries_under(levels: list[_Level]) -> list[NDArray[np.int64]]:
    """Count the entries at any depth under each directory, level by level from the top."""
    under = [count.copy() for _, _, _, count in levels]
    for depth in range(len(levels) - 1, 0, -1):
        _, parent, _, _ = levels[depth]
        sums = np.bincount(parent, weights=under[depth], minlength=len(under[depth - 1]))
        under[depth - 1] += sums.astype(np.int64)
    return under
