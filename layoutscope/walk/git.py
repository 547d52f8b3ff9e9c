"""The order ``git-status``: every tracked file is stat'ed, then every directory listed for files that are not tracked.

Sources: git's ``read-cache.c`` (refresh_index), ``preload-index.c``, ``cache_name_stage_compare`` for the order
of the index, and ``dir.c`` (read_directory_recursive, treat_directory). The repository is taken to hold all
files under the directory in which it starts; what git reads of its own files in ``.git`` is left out, and so are its
looks for files ``.gitignore`` that do not exist.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.descent import descend, turns_of
from layoutscope.access.touches import concatenated, interleaved
from layoutscope.walk.data import places_by_turn
from layoutscope.walk.directories import listed_entries, lookups, reached
from layoutscope.walk.paths import looked_up
from layoutscope.walk.programs import names_alone

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.descent import Descent
    from layoutscope.access.entries import EntryTable
    from layoutscope.access.model import Model
    from layoutscope.access.touches import Touches

OWN: Final = ".git"


def git_status(model: Model, start_id: int) -> tuple[Touches, NDArray[np.uint16]]:
    """Stat all files in the order of the index, then go through all directories as they list their entries.

    Several threads share the first part, as of :func:`~layoutscope.walk.paths.paths`; git has one for each 500 files,
    20 at most.
    """
    descent = _without_own(model.entries, listed_entries(model, descend(model.entries, start_id)))
    files = _in_index_order(model.entries, descent, start_id)
    components = _components(model.entries, descent, files)
    stats, threads = looked_up(model, components)
    way, later = reached(model, start_id), _untracked(model, descent, np.unique(components))
    before, behind = (np.zeros(len(each), np.uint16) for each in (way, later))
    return concatenated([way, stats, later]), np.concatenate([before, threads, behind])


def _without_own(entries: EntryTable, descent: Descent) -> Descent:
    """Leave git's own directory out."""
    first, count = int(descent.first[0]), int(descent.count[0])
    names = entries.names(slice(first, first + count)).to_list()
    place = first + names.index(OWN) if OWN in names else -2  # the start has none, which is -1
    own = np.flatnonzero(descent.entry == place)
    if not len(own):
        return descent
    begin = int(descent.turn[own[0]])
    is_inside = (descent.turn >= begin) & (descent.turn <= begin + int(descent.under[own[0]]))
    return descent.take(np.flatnonzero(~is_inside))


def _in_index_order(entries: EntryTable, descent: Descent, start_id: int) -> NDArray[np.int64]:
    """Entries of all files, sorted by the bytes of their paths."""
    names = entries.names()
    # What readdir hands out on Linux, and what git makes of it on macOS (core.precomposeUnicode).
    texts = (unicodedata.normalize("NFC", name or "").encode() for name in names.to_list())
    # The slash behind a directory's name takes part: "a-b" comes before "a/b", though "a" is less than "a-b".
    keys = [text + b"/" * is_folder for text, is_folder in zip(texts, entries.is_directory.tolist(), strict=True)]
    group = np.repeat(np.arange(len(entries.group_id)), np.diff(entries.group_start))
    place = np.array(sorted(range(len(entries)), key=keys.__getitem__), np.int64)
    place = place[np.argsort(group[place], kind="stable")]
    entry, turn = turns_of(descend(entries.chosen(place), start_id), len(entries))
    ordered = place[entry[np.argsort(turn, kind="stable")]]
    is_known = np.isin(entries.parent_id[ordered], descent.directory_id)
    found: NDArray[np.int64] = ordered[is_known & ~entries.is_directory[ordered] & ~entries.is_hidden[ordered]]
    return found


def _components(entries: EntryTable, descent: Descent, files: NDArray[np.int64]) -> NDArray[np.int64]:
    """Entries on the way to each file from the start on; -1 before and behind."""
    order = np.argsort(descent.directory_id, kind="stable")
    ids = descent.directory_id[order]
    columns, entry = [files], files
    # No way is longer than there are directories, though damage may lead in a circle.
    for _ in range(len(descent)):
        parent = entries.parent_id[np.maximum(entry, 0)]
        row = order[np.minimum(np.searchsorted(ids, parent), len(ids) - 1)]
        # The start is on every way, and looked up before them.
        entry = np.where((entry >= 0) & (row > 0), descent.entry[row], -1)
        if not (entry >= 0).any():
            break
        columns.append(entry)
    return np.stack(columns[::-1], axis=1)


def _untracked(model: Model, descent: Descent, known: NDArray[np.int64]) -> Touches:
    """List directories, each when its name comes; those that hold no tracked file are looked up first."""
    entry, turns = turns_of(descent, len(model.entries))
    turn = np.full(len(model.entries) + 1, -1, np.int64)
    turn[entry] = turns
    listed, per_buffer, cut = names_alone(model, descent)
    own = turn[descent.entry[cut.directory]]
    # A directory is not read on before what its names so far lead to was gone through.
    later = turn[np.minimum(cut.first, len(turn) - 1)]
    when = np.where(cut.is_first, 4 * own + 2, 4 * later - 1)
    new = descent.entry[1:][~np.isin(descent.entry[1:], known)]
    found, each = lookups(model, new)
    places = places_by_turn([when, 4 * turn[new]], [per_buffer, np.full(len(new), each)])
    return interleaved([listed, found], places)
