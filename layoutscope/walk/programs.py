"""Orders of programs that go through directories in their own way: ``du``, ``find``, ``rsync`` and ``ls``.

Sources: gnulib ``fts.c`` (fts_build, fts_read) with the options that coreutils' ``du.c`` and findutils' ``ftsfind.c``
give it; rsync's ``flist.c`` (send_directory, send_extra_file_list, f_name_cmp, readlink_stat); coreutils' ``ls.c``
(print_dir, gobble_file, extract_dirs_from_files).
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.access.driver import Descent, descend, turns_of
from layoutscope.access.trace import concatenated, interleaved
from layoutscope.structs.arrays import ranges
from layoutscope.walk.data import FileTouches, places_by_turn
from layoutscope.walk.directories import (
    buffers,
    bulk,
    drop_unlisted_entries,
    lookups,
    reached,
    stat_walk,
    type_asks_for_stat,
)
from layoutscope.walk.readahead import file_map, pieces, sequential_windows
from layoutscope.walk.visits import Searches

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.access.driver import Model
    from layoutscope.access.entries import EntryTable
    from layoutscope.access.trace import Touches
    from layoutscope.walk.directories import Buffers
    from layoutscope.walk.visits import Visits

    Also = Callable[[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]], tuple[Touches, NDArray[np.int64]]]

SORTED_ABOVE: Final = 10_000
"""Entries above which gnulib's fts sorts a directory by inode number (_FTS_INODE_SORT_DIR_ENTRIES_THRESHOLD)."""

LISTED_AT_ONCE: Final = 100_000
"""Entries that gnulib's fts reads of a directory before it hands the first of them out (FTS_MAX_READDIR_ENTRIES)."""


def deferred(model: Model, start_id: int, also: Also | None = None, *, stat: bool = True) -> Touches:
    """List a directory whole, then stat each entry when its turn comes, and go down into it at once.

    A directory of more than :data:`SORTED_ABOVE` entries is gone through by inode number, at most
    :data:`LISTED_AT_ONCE` of them at a time.
    """
    descent = drop_unlisted_entries(model, descend(model.entries, start_id))
    turn = _turns(model.entries, descent, start_id)
    listed, per_buffer, cut = names_alone(model, descent)
    shown = in_turn(model, descent, turn)
    if not stat:
        shown = shown[type_asks_for_stat(model)[shown]]
    found, each = lookups(model, shown)
    when = _turns_of_buffers(cut, descent, turn)
    turns, counts, parts = [when, 2 * turn[shown]], [per_buffer, np.full(len(shown), each)], [listed, found]
    if also is not None:
        under = np.zeros(len(model.entries) + 1, np.int64)
        under[descent.entry] = descent.under
        more, then = also(shown, turn[shown], under[shown])
        parts, turns, counts = [*parts, more], [*turns, then], [*counts, np.ones(len(then), np.int64)]
    return concatenated([reached(model, start_id), interleaved(parts, places_by_turn(turns, counts))])


def names_alone(model: Model, descent: Descent) -> tuple[Touches, NDArray[np.int64], Buffers]:
    """List directories and look nothing up: the touches, how many belong to each buffer, and the buffers."""
    cut, unseen = buffers(model, descent), np.zeros(len(model.entries), bool)
    return *replace(stat_walk(model, descent, cut), wanted=unseen).laid_out(), cut


def in_turn(model: Model, descent: Descent, turn: NDArray[np.int64]) -> NDArray[np.int64]:
    """Order the entries that listings hand out by their turns."""
    shown = ranges(descent.first, descent.count)
    shown = shown[~model.entries.is_hidden[shown]]
    return shown[np.argsort(turn[shown], kind="stable")]


def ls(model: Model, start_id: int, *, is_deep: bool = True) -> Visits | FileTouches:
    """List a directory, stat each entry as its name comes, read where links lead, then go down by name.

    So do ``ls -lR``, and ``ls -l`` for one directory; names sort as their bytes do, as in the C locale.
    """
    return _visit_by_name(model, start_id, _sort_by_name(model.entries, start_id, b"") if is_deep else None)


def ls_at_once(model: Model, start_id: int, *, is_deep: bool = True) -> Visits:
    """Get attributes together with the names, and go down by name.

    So does BSD's ``ls``, whose fts sorts what it hands out. Where links lead is read when they are printed, and left
    out here.
    """
    return bulk(
        model, _sort_by_name(model.entries, start_id, b"") if is_deep else _one(model, start_id), start_id=start_id
    )


def _one(model: Model, start_id: int) -> Descent:
    """One directory alone."""
    return descend(model.entries, start_id).take(np.zeros(1, np.int64))


def _turns(entries: EntryTable, descent: Descent, start_id: int) -> NDArray[np.int64]:
    """Depth-first place of each entry, those of large directories by inode number; -1, also at the end, for none."""
    place = np.arange(len(entries))
    for large in np.flatnonzero(descent.count > SORTED_ABOVE).tolist():
        first, count = int(descent.first[large]), int(descent.count[large])
        part = np.arange(count) // LISTED_AT_ONCE
        place[first : first + count] = first + np.lexsort((entries.file_id[first : first + count], part))
    entry, turns = turns_of(descend(entries.chosen(place), start_id), len(entries))
    turn = np.full(len(entries) + 1, -1, np.int64)
    turn[place[entry]] = turns
    return turn


def _turns_of_buffers(cut: Buffers, descent: Descent, turn: NDArray[np.int64]) -> NDArray[np.int64]:
    """Doubled turns of buffers: odd, so that those of entries lie between them."""
    first, count = descent.first[cut.directory], descent.count[cut.directory]
    # The start of the walk has no turn of its own, and is listed before all others.
    when = 2 * turn[descent.entry[cut.directory]] + 1
    part = (cut.first - first) // LISTED_AT_ONCE
    for late in np.flatnonzero(part > 0).tolist():
        begin = int(part[late]) * LISTED_AT_ONCE
        end = min(begin + LISTED_AT_ONCE, int(count[late]))
        when[late] = 2 * int(turn[first[late] + begin : first[late] + end].min()) - 1
    return when


def backup(model: Model, start_id: int) -> Visits | FileTouches:
    """List a directory, stat each entry as its name comes, read where links lead, then go down by name.

    So does ``rsync -an``, which finds nothing to copy.
    """
    return _visit_by_name(model, start_id, _sort_by_name(model.entries, start_id, b"/"))


def _visit_by_name(model: Model, start_id: int, directories: Descent | None) -> Visits | FileTouches:
    descent = drop_unlisted_entries(model, _one(model, start_id) if directories is None else directories)
    walk = stat_walk(model, descent, buffers(model, descent), reached(model, start_id))
    links = np.flatnonzero(model.entries.is_symlink)
    if directories is None:
        links = links[np.isin(links, ranges(descent.first, descent.count))]
    if not len(links):
        return walk
    if model.driver.links_are_attributes:
        targets = np.full(len(model.entries), -1, np.int32)
        targets[links] = model.entries.xattr_node[links]
        return replace(walk, looked_up=followed_by(walk.looked_up, targets, "xattr"))
    return _read_link_targets(model, walk, links)


def followed_by(
    searches: Searches,
    nodes: NDArray[np.int32],  # leaves in which it ends, -1 for none
    cause: str,
) -> Searches:
    """Add a search behind others."""
    return Searches((*searches.nodes, nodes), (*searches.causes, cause), (*searches.host_us, 0.0))


def _read_link_targets(model: Model, walk: Visits, links: NDArray[np.int64]) -> FileTouches:
    """Read the blocks of links' targets, numbered on behind the nodes, after the look-up of each."""
    files = file_map(model, links)
    file, begin, end = sequential_windows(files, model.host.read_ahead_bytes)
    parts = pieces(files, begin, end)
    owner, searches = file[parts.window], walk.looked_up
    nth = np.arange(len(owner)) - np.searchsorted(owner, owner)
    for number in range(int(nth.max(initial=-1)) + 1):
        mine = np.flatnonzero((nth == number) & (parts.image_offset >= 0))
        targets = np.full(len(model.entries), -1, np.int32)
        targets[links[owner[mine]]] = len(model.nodes) + mine
        searches = followed_by(searches, targets, "data")
    needed = replace(walk, looked_up=searches).touches()
    # Touches of nodes have no window: the last place stands for them.
    window = np.append(parts.window, -1)[np.maximum(needed.node - len(model.nodes), -1)]
    return FileTouches(needed, window, parts)


def _sort_by_name(entries: EntryTable, start_id: int, end: bytes) -> Descent:
    """Directories as programs go down into them that sort: those of one parent by name, with `end` behind it."""
    as_listed, place = descend(entries, start_id), _directories_by_name(entries, end)
    own = descend(entries.chosen(place), start_id).entry
    row = np.full(len(entries) + 1, -1, np.int64)
    row[as_listed.entry] = np.arange(len(as_listed))
    order = row[np.append(place, -1)[own]]
    return replace(as_listed.take(order), turn=np.arange(len(order)))


def _directories_by_name(entries: EntryTable, end: bytes) -> NDArray[np.int64]:
    """Places of the directories' entries, those of one parent sorted as rsync sorts them (slash) or ls (no end)."""
    place = np.flatnonzero(entries.is_directory & ~entries.is_hidden)
    names = entries.stored_names.take(np.arange(len(entries))[entries.order][place]).to_list()
    # Linux's driver hands names out composed; f_name_cmp compares bytes, and takes a directory to end with a slash.
    keys = [unicodedata.normalize("NFC", name or "").encode("utf-8", "surrogatepass") + end for name in names]
    rank = np.empty(len(place), np.int64)
    rank[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    group = np.searchsorted(entries.group_start, place, side="right")
    return place[np.lexsort((rank, group))]
