"""Orders that walk directories: ``fts``, ``readdir-stat``, ``bulk`` and ``names``.

Sources: glibc ``io/fts.c`` and ``readdir``; Apple Libc ``fts.c``; the drivers as in :mod:`layoutscope.access.host`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.access.descent import descend
from layoutscope.access.entries import ROOT_ID
from layoutscope.access.touches import nothing
from layoutscope.walk.listing import behind_the_first, buffer_start, buffers, read_ahead
from layoutscope.walk.visits import Searches, Visits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.descent import Descent
    from layoutscope.access.model import Model
    from layoutscope.access.touches import Touches
    from layoutscope.walk.listing import Buffers


def searches_of_lookup(model: Model) -> Searches:
    """Return what the look-up of an entry by name and then by number searches, as ``lstat`` of a new name does.

    What the name cache answers costs its system call alone.
    """
    table, costs = model.entries, model.costs
    if model.names_are_cached:
        return Searches((np.full(len(table), -1, np.int32),), ("name",), (model.driver.costs.entry_us,))
    searches = model.driver.searches
    host_us = [costs.entry_us + costs.vnode_us + costs.search_us] + [costs.search_us] * (len(searches) - 1)
    nodes = [getattr(table, search.leaf) for search in searches]
    causes = [search.cause for search in searches]
    if model.host.reads_decmpfs_for_stat:
        nodes.append(_decmpfs(model))
        causes.append("xattr")
        host_us.append(0.0)
    return Searches(tuple(nodes), tuple(causes), tuple(host_us))


def _decmpfs(model: Model) -> NDArray[np.int32]:
    """Leaf with the attribute that has the size of each compressed file."""
    return np.where(model.entries.is_compressed, model.entries.xattr_node, -1).astype(np.int32)


def lookups(model: Model, entries: NDArray[np.int64]) -> tuple[Touches, int]:
    """Look entries up."""
    searches = searches_of_lookup(model)
    return searches.of(entries, model.entries.parent_id[entries]), len(searches.nodes)


def listed_entries(model: Model, descent: Descent) -> Descent:
    """Leave away what the host does not list: entries beyond the directory record's count."""
    if not model.driver.stops_at_valence:
        return descent
    valence = np.where(descent.entry >= 0, model.entries.valence[np.maximum(descent.entry, 0)], -1)
    count = np.where(valence >= 0, np.minimum(valence, descent.count), descent.count)
    return replace(descent, count=count)


def fts(model: Model, start_id: int, *, stat: bool) -> Visits:
    """List each directory, stat its entries buffer by buffer, then descend."""
    descent = listed_entries(model, descend(model.entries, start_id))
    walk = stat_walk(model, descent, buffers(model, descent), reached(model, start_id))
    return walk if stat else replace(walk, wanted=walk.wanted & type_asks_for_stat(model))


def stat_walk(model: Model, descent: Descent, cut: Buffers, way: Touches | None = None) -> Visits:
    """List directories and stat all their entries, buffer by buffer."""
    costs = model.costs
    return Visits(
        directory_id=descent.directory_id[cut.directory],
        first=cut.first,
        count=cut.count,
        start=buffer_start(model, descent, cut),
        start_us=(costs.search_us + costs.list_us * cut.count).astype(np.float32),
        leaf=model.entries.name_node,
        looked_up=searches_of_lookup(model),
        wanted=~model.entries.is_hidden,
        parent_id=model.entries.parent_id,
        way=nothing() if way is None else way,
        ahead=read_ahead(cut),
        behind=behind_the_first(model, descent, cut),
    )


def type_asks_for_stat(model: Model) -> NDArray[np.bool_]:
    """Mark directories, and what a listing cannot tell the type of."""
    table = model.entries
    return table.is_directory | table.is_hard_link if model.driver.hard_link_type_unknown else table.is_directory


def names(model: Model, start_id: int) -> Visits:
    """List a directory to its end, then look each sub-directory up and list it in turn."""
    descent = listed_entries(model, descend(model.entries, start_id))
    cut = buffers(model, descent)
    walk = stat_walk(model, descent, cut, reached(model, start_id))
    before = np.where(cut.is_first & (cut.directory > 0), descent.entry[cut.directory], -1)
    return replace(walk, before=before, wanted=np.zeros(len(model.entries), bool))


def bulk(model: Model, descent: Descent, *, start_id: int, descend_by_stat: bool = False) -> Visits:
    """Get attributes together with the names; with `descend_by_stat` each sub-directory is then looked up as well."""
    table, costs = model.entries, model.costs
    descent = listed_entries(model, descent)
    cut = buffers(model, descent)
    walk = stat_walk(model, descent, cut, reached(model, start_id))
    wanted = walk.wanted & type_asks_for_stat(model) if descend_by_stat else np.zeros(len(table), bool)
    return replace(
        walk,
        start_us=np.full(len(cut), costs.search_us, np.float32),
        listed=_with_attributes(model),
        ahead=None,
        behind=None,
        wanted=wanted,
    )


def _with_attributes(model: Model) -> Searches:
    """A listing that fetches each entry's inode as it goes."""
    table, costs = model.entries, model.costs
    search_us = 0.0 if model.driver.inode_beside_name else costs.search_us
    own, causes = (table.name_node, table.inode_node), ("next", "inode")
    host_us = (costs.list_us + costs.entry_us, search_us)
    if not model.host.reads_decmpfs_for_stat:
        return Searches(own, causes, host_us)
    return Searches((*own, _decmpfs(model)), (*causes, "xattr"), (*host_us, 0.0))


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
