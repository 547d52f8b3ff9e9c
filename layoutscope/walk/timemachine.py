"""What Time Machine reads of the volume that it backs up, as far as its published behaviour tells.

Apple's backupd is not public. Without a record of what changed it goes through the whole volume and holds names and
attributes, which come together (getattrlistbulk), against the last backup; with one (FSEvents, "File System Events
Programming Guide") it looks at the folders that were named, each listed whole. What it copies is not in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.access.descent import descend
from layoutscope.access.entries import ROOT_ID
from layoutscope.access.touches import interleaved
from layoutscope.arrays.lookup import first_places
from layoutscope.walk.data import places_by_turn
from layoutscope.walk.directories import bulk, listed_entries, lookups
from layoutscope.walk.listing import buffers
from layoutscope.walk.paths import components_of, entries_on_paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.access.model import Model
    from layoutscope.access.touches import Touches


def changed_folders(
    model: Model,
    wanted: Sequence[str],  # paths of folders from the root; an empty one or `/` is the root itself
) -> Touches:
    """List folders one after the other, names and attributes at once, each after a look-up of the way to it.

    What was looked up for an earlier folder is not looked up again. Paths that lead to no folder cost their look-ups.
    """
    components = entries_on_paths(model, wanted)
    owner = np.broadcast_to(np.arange(len(components))[:, None], components.shape)
    exists = components >= 0
    new = first_places(components[exists], len(model.entries))
    found, each = lookups(model, components[exists][new])
    folder, named = _folders(model, components, wanted)
    every = descend(model.entries, ROOT_ID)
    row = np.full(len(model.entries) + 1, -1, np.int64)
    row[every.entry] = np.arange(len(every))
    chosen = every.take(row[folder])
    listed, per_buffer = bulk(model, chosen, start_id=ROOT_ID).laid_out()
    listings = named[buffers(model, listed_entries(model, chosen)).directory]
    turns = [2 * owner[exists][new], 2 * listings + 1]
    return interleaved([found, listed], places_by_turn(turns, [np.full(len(new), each), per_buffer]))


def _folders(
    model: Model, components: NDArray[np.int64], wanted: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the entries of the paths that lead to folders, -1 for the root, and which of the paths these are."""
    found, named = [], []
    for number, path in enumerate(wanted):
        names = components_of(path)
        last = int(components[number, len(names) - 1]) if names else -1
        if not names or (last >= 0 and bool(model.entries.is_directory[last])):
            found.append(last)
            named.append(number)
    return np.array(found, np.int64), np.array(named, np.int64)
