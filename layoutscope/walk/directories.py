"""Orders that walk directories: ``fts``, ``readdir-stat``, ``bulk`` and ``names``.

Sources: glibc ``io/fts.c`` and ``readdir``; Apple Libc ``fts.c``; the drivers as in :mod:`layoutscope.access.host`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.access.descent import descend
from layoutscope.access.entries import ROOT_ID
from layoutscope.access.touches import columns, merged, nothing, touches
from layoutscope.walk.listing import buffer_start, buffers, listing_touches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.descent import Descent
    from layoutscope.access.model import Model
    from layoutscope.access.touches import Touches
    from layoutscope.walk.listing import Buffers


def lookups(model: Model, entries: NDArray[np.int64]) -> tuple[Touches, int]:
    """Look entries up by name and then by number, as ``lstat`` of a name that is not cached does.

    What the name cache answers costs its system call alone.

    Returns
    -------
    Touches, int
        Entry by entry, and the number of touches an entry has.
    """
    table, costs = model.entries, model.costs
    if model.names_are_cached:
        entry_us = model.driver.costs.entry_us
        return touches(np.full(len(entries), -1, np.int32), "name", table.parent_id[entries], entry_us), 1
    searches = model.driver.searches
    host_us = [costs.entry_us + costs.search_us] + [costs.search_us] * (len(searches) - 1)
    nodes = [getattr(table, search.leaf)[entries] for search in searches]
    causes = [search.cause for search in searches]
    if model.host.reads_decmpfs_for_stat:
        nodes.append(np.where(table.is_compressed[entries], table.xattr_node[entries], -1).astype(np.int32))
        causes.append("xattr")
        host_us.append(0.0)
    return columns(nodes, causes, table.parent_id[entries], host_us), len(causes)


def listed_entries(model: Model, descent: Descent) -> Descent:
    """Leave away what the host does not list: entries beyond the directory record's count."""
    if not model.driver.stops_at_valence:
        return descent
    valence = np.where(descent.entry >= 0, model.entries.valence[np.maximum(descent.entry, 0)], -1)
    count = np.where(valence >= 0, np.minimum(valence, descent.count), descent.count)
    return replace(descent, count=count)


def fts(model: Model, start_id: int, *, stat: bool) -> Touches:
    """List each directory, stat its entries buffer by buffer, then descend.

    Parameters
    ----------
    model : Model
        The volume and its host.
    start_id : int
        Directory in which the walk starts.
    stat : bool
        Whether every entry is stat'ed, or only directories are.
    """
    descent = listed_entries(model, descend(model.entries, start_id))
    return grouped_walk(model, descent, buffers(model, descent), stat=stat)[0]


def grouped_walk(
    model: Model, descent: Descent, cut: Buffers, *, stat: bool = True
) -> tuple[Touches, NDArray[np.int64]]:
    """Walk buffer by buffer; returns the touches, and how many belong to each buffer.

    Parameters
    ----------
    model : Model
        The volume and its host.
    descent : Descent
        The directories in the order of the walk.
    cut : Buffers
        Their listings, buffer by buffer.
    stat : bool
        Whether every entry is stat'ed, or only directories are.
    """
    listed, per_buffer = listing_touches(model, descent, cut)
    found, per_found = _looked_up(model, cut, stat=stat)
    return merged(listed, found, per_buffer, per_found), per_buffer + per_found


def _looked_up(model: Model, cut: Buffers, *, stat: bool) -> tuple[Touches, NDArray[np.int64]]:
    place = cut.entries()
    wanted = ~model.entries.is_hidden[place]
    if not stat:
        wanted &= _type_asks_for_stat(model, place)
    found, each = lookups(model, place[wanted])
    ends = np.cumsum(cut.count)
    running = np.concatenate([[0], np.cumsum(wanted)])
    return found, (running[ends] - running[ends - cut.count]) * each


def _type_asks_for_stat(model: Model, place: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Directories, and what a listing cannot tell the type of."""
    table = model.entries
    asks = table.is_directory[place]
    if model.driver.hard_link_type_unknown:
        asks = asks | table.is_hard_link[place]
    return asks


def names(model: Model, start_id: int) -> Touches:
    """List a directory to its end, then look each sub-directory up and list it in turn."""
    descent = listed_entries(model, descend(model.entries, start_id))
    cut = buffers(model, descent)
    listed, per_buffer = listing_touches(model, descent, cut)
    found, each = lookups(model, descent.entry[1:])
    per_found = np.where(cut.is_first & (cut.directory > 0), each, 0)
    return merged(found, listed, per_found, per_buffer)


def bulk(model: Model, start_id: int, *, descend_by_stat: bool = False) -> Touches:
    """Get attributes together with the names; with `descend_by_stat` each sub-directory is then looked up as well.

    Parameters
    ----------
    model : Model
        The volume and its host.
    start_id : int
        Directory in which the walk starts.
    descend_by_stat : bool
        Whether each sub-directory is looked up before it is listed.
    """
    descent = listed_entries(model, descend(model.entries, start_id))
    cut = buffers(model, descent)
    listed, per_buffer = _attributes(model, descent, cut)
    if not descend_by_stat:
        return listed
    found, per_found = _looked_up(model, cut, stat=False)
    return merged(listed, found, per_buffer, per_found)


def _attributes(model: Model, descent: Descent, cut: Buffers) -> tuple[Touches, NDArray[np.int64]]:
    """A listing that fetches each entry's inode as it goes."""
    table, costs = model.entries, model.costs
    place = cut.entries()
    own = [table.name_node[place], table.inode_node[place]]
    causes = ["next", "inode"]
    if model.host.reads_decmpfs_for_stat:
        own.append(np.where(table.is_compressed[place], table.xattr_node[place], -1).astype(np.int32))
        causes.append("xattr")
    search_us = 0.0 if model.driver.inode_beside_name else costs.search_us
    each = columns(own, causes, table.parent_id[place], [costs.list_us + costs.entry_us, search_us, 0.0][: len(own)])
    opened = touches(buffer_start(model, descent, cut), "list", descent.directory_id[cut.directory], costs.search_us)
    per_buffer = cut.count * len(own)
    once = np.ones(len(cut), np.int64)
    return merged(opened, each, once, per_buffer), per_buffer + 1


def reached(model: Model, start_id: int) -> Touches:
    """Look up the way from the root to the directory in which a walk starts."""
    way = way_to(model, start_id)
    return lookups(model, np.array(way, np.int64))[0] if way else nothing()


def way_to(model: Model, file_id: int) -> list[int]:
    """Return the entries from the root down to a file or directory; empty for the root and what is not listed."""
    way: list[int] = []
    table = model.entries
    wanted = np.uint64(file_id)
    # Damage may make a folder an ancestor of its own: no way is longer than there are entries.
    while wanted > ROOT_ID and len(way) <= len(table):
        found = np.flatnonzero(table.file_id == wanted)
        if not len(found):
            return []
        way.append(int(found[0]))
        wanted = table.parent_id[found[0]]
    return way[::-1]
