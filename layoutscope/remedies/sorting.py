"""Walks that sort: names first, then what stat needs, in the order of inode numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.access.touches import concatenated, interleaved
from layoutscope.arrays.ragged import ranges
from layoutscope.walk.assemble import metadata_reads
from layoutscope.walk.data import places_by_turn
from layoutscope.walk.directories import listed_entries, lookups
from layoutscope.walk.programs import names_alone

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.remedies.case import Case


def stat_by_number(case: Case, *, is_whole: bool) -> AccessTrace:
    """List, then stat in the order of inode numbers: directory by directory, or everything after all listings.

    Parameters
    ----------
    case : Case
        The volume and its host.
    is_whole : bool
        Whether the names of the whole volume are listed before the first stat.
    """
    model = case.model
    descent = listed_entries(model, case.descent)
    listed, per_buffer, cut = names_alone(model, descent)
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
