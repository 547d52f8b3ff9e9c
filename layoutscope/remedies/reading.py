"""Reading the contents of files in another order than that of the walk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.access.touches import nothing
from layoutscope.access.trace import place_of
from layoutscope.walk.data import WalkPart, data_trace, files_in_turn, read_in_turn
from layoutscope.walk.directories import listed_entries, stat_walk
from layoutscope.walk.listing import buffers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.remedies.case import Case
    from layoutscope.tables import VolumeLayout


def files_by_place(case: Case) -> AccessTrace:
    """Walk the whole volume, then read each file in the order in which their first extents lie."""
    model = case.model
    descent = listed_entries(model, case.descent)
    walked, per_buffer = stat_walk(model, descent, buffers(model, descent)).laid_out()
    files, _ = files_in_turn(model, descent, model.entries.is_file)
    place = first_places_on_disk(case.layout, model.entries.file_id[files])
    files = files[np.argsort(place, kind="stable")]
    before = WalkPart(walked, np.zeros(len(per_buffer), np.int64), per_buffer)
    return data_trace(model, read_in_turn(model, [before], (files, np.arange(1, len(files) + 1)), nothing()))


def first_places_on_disk(layout: VolumeLayout, file_id: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return where the data of files begin, by device and address; behind everything where that is not known."""
    table = layout.columns("extents")
    known = np.flatnonzero(table["image_offset"].is_known & table["fork"].equals("data"))
    owner, logical = table["file_id"].data[known], table["logical_offset"].signed()[known]
    at = place_of(table["device"].filled(0)[known], table["image_offset"].signed()[known])
    order = np.lexsort((logical, owner))
    owner, at = owner[order], at[order]
    place = np.searchsorted(owner, file_id)
    found = place < len(owner)
    found[found] = owner[place[found]] == file_id[found]
    result = np.full(len(file_id), NOWHERE)
    result[found] = at[place[found]]
    return result


NOWHERE = np.iinfo(np.int64).max
