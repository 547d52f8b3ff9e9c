"""Walks in other orders: stats sorted by inode number, or of some folders alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.access.touches import concatenated, interleaved
from layoutscope.arrays.ragged import ranges
from layoutscope.remedies.filelist import new_on_the_way
from layoutscope.walk.assemble import metadata_reads
from layoutscope.walk.data import places_by_turn
from layoutscope.walk.directories import listed_entries, lookups, stat_walk
from layoutscope.walk.listing import buffers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.remedies.case import Case


def stat_by_number(case: Case, *, is_whole: bool) -> AccessTrace:
    """List, then stat in the order of inode numbers: directory by directory, or everything after all listings."""
    model = case.model
    descent = listed_entries(model, case.descent)
    cut = buffers(model, descent)
    walk = replace(stat_walk(model, descent, cut), wanted=np.zeros(len(model.entries), bool))
    if is_whole:
        # A folder that was not stat'ed is looked up when it is opened.
        walk = replace(walk, before=np.where(cut.is_first & (cut.directory > 0), descent.entry[cut.directory], -1))
    listed, per_buffer = walk.laid_out()
    shown = ranges(descent.first, descent.count)
    turn = np.repeat(np.arange(len(descent)), descent.count)
    seen = ~model.entries.is_hidden[shown]
    shown, turn = shown[seen], np.zeros(int(seen.sum()), np.int64) if is_whole else turn[seen]
    order = np.lexsort((model.entries.file_id[shown], turn))
    found, each = lookups(model, shown[order])
    when = cut.directory - len(descent) if is_whole else cut.directory
    counts = [per_buffer, np.full(len(shown), each)]
    needed = interleaved([listed, found], places_by_turn([when, turn[order]], counts))
    return metadata_reads(model, [(concatenated([needed]), _one_thread(len(needed)))])


def _one_thread(count: int) -> NDArray[np.uint16]:
    return np.zeros(count, np.uint16)


def some_folders(case: Case, chosen: NDArray[np.bool_]) -> AccessTrace:
    """Go down to some folders of the walk, each by its path, and list and stat what lies in them."""
    model, descent = case.model, case.descent.take(np.flatnonzero(chosen))
    is_below = np.flatnonzero(descent.entry >= 0)
    needed, owner = new_on_the_way(case, descent.entry[is_below])
    found, each = lookups(model, needed)
    cut = buffers(model, descent)
    listed, per_buffer = stat_walk(model, listed_entries(model, descent), cut).laid_out()
    turns = [2 * is_below[owner], 2 * cut.directory + 1]
    touches = interleaved([found, listed], places_by_turn(turns, [np.full(len(needed), each), per_buffer]))
    return metadata_reads(model, [(concatenated([touches]), _one_thread(len(touches)))])
