"""Orders that walk directories: ``fts``, ``readdir-stat``, ``bulk`` and ``names``.

Sources: glibc ``io/fts.c`` and ``readdir``; Apple Libc ``fts.c``; the drivers as in :mod:`layoutscope.access.driver`.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.access.entries import ROOT_ID, listing_sizes, pad_to_8, path_component, stored_sizes
from layoutscope.access.trace import CODE, Touches, nothing
from layoutscope.structs.arrays import first_places, is_head, starts_of
from layoutscope.walk.cache import choose_evenly
from layoutscope.walk.visits import Searches, Visits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.descent import Descent
    from layoutscope.access.driver import Model

    I64 = NDArray[np.int64]


def fill_buffers(model: Model, descent: Descent) -> tuple[I64, I64, I64]:
    """Cut directories into fills of the host's listing buffer: the directory, the first entry and the count of each."""
    host, every = model.host, np.arange(len(descent))
    room = host.listing_buffer_bytes - host.listing_dots_bytes
    longest = int(pad_to_8(np.array([LONGEST_NAME_BYTES]), host.listing_entry_bytes)[0])
    # Few volumes have such a large directory; for the others no name needs to be measured.
    if int(descent.count.max(initial=0)) * longest <= room:
        return every, descent.first, descent.count
    end = np.concatenate([[0], np.cumsum(stored_sizes(model.entries, host.listing_entry_bytes))])
    large = np.flatnonzero(end[descent.first + descent.count] - end[descent.first] > room)
    fills = [_fills(model, int(descent.first[place]), int(descent.count[place])) for place in large]
    cuts = np.ones(len(descent), np.int64)
    cuts[large] = [len(sizes) for sizes in fills]
    directory = np.repeat(every, cuts)
    first, count = descent.first[directory], descent.count[directory]
    begins = starts_of(cuts)
    for place, sizes in zip(large, fills, strict=True):
        own = slice(begins[place], begins[place] + len(sizes))
        first[own] += starts_of(sizes)
        count[own] = sizes
    return directory, first, count


LONGEST_NAME_BYTES = 3 * 255
"""255 UTF-16 units take at most this many bytes in UTF-8."""


def _fills(model: Model, first: int, count: int) -> NDArray[np.int64]:
    """Return how many entries of one directory go into each buffer."""
    host = model.host
    length = listing_sizes(model.entries, slice(first, first + count), host.listing_entry_bytes)
    # The driver skips hidden entries before it counts space, but it reads them.
    length[model.entries.is_hidden[first : first + count]] = 0
    end = np.cumsum(length)
    fills, done, room = [], 0, host.listing_buffer_bytes - host.listing_dots_bytes
    while done < count:
        taken = int(np.searchsorted(end, (end[done - 1] if done else 0) + room, side="right"))
        # A call returns at least one entry or fails: no name is longer than a buffer.
        taken = max(taken, done + 1)
        fills.append(taken - done)
        done, room = taken, host.listing_buffer_bytes
    return np.array(fills, np.int64)


def searches_of_lookup(model: Model) -> Searches:
    """Return the searches that look up an entry by name and then by number, as ``lstat`` of a new name does.

    Answers from the name cache cost only their system call.
    """
    table, costs = model.entries, model.costs
    if model.names_are_cached:
        return Searches((np.full(len(table), -1, np.int32),), ("name",), (model.driver.costs.stat_us,))
    causes = tuple(model.driver.searches)
    host_us = (costs.stat_us + costs.vnode_us + costs.search_us, *[costs.search_us] * (len(causes) - 1))
    return _with_decmpfs(model, Searches(tuple(getattr(table, f"{cause}_node") for cause in causes), causes, host_us))


def _with_decmpfs(model: Model, searches: Searches) -> Searches:
    """Add the search for the attribute that stores the size of a compressed file, if the host makes it."""
    if not model.host.reads_decmpfs_for_stat:
        return searches
    leaf = np.where(model.entries.is_compressed, model.entries.xattr_node, -1).astype(np.int32)
    return searches.with_search(leaf, "xattr")


def lookups(model: Model, entries: I64) -> tuple[Touches, I64]:
    """Look up entries; also return the number of touches for each."""
    searches = searches_of_lookup(model)
    found = searches.of(entries, model.entries.parent_id[entries])
    # All elements share one place in memory.
    return found, np.broadcast_to(len(searches.nodes), len(entries))


def drop_unlisted_entries(model: Model, descent: Descent) -> Descent:
    """Drop entries that the host does not list: those beyond the count in the directory record."""
    if not model.driver.stops_at_valence:
        return descent
    valence = np.where(descent.entry >= 0, model.entries.valence[np.maximum(descent.entry, 0)], -1)
    count = np.where(valence >= 0, np.minimum(valence, descent.count), descent.count)
    return replace(descent, count=count)


def fts(model: Model, start_id: int, *, stat: bool) -> Visits:
    """List each directory, stat its entries buffer by buffer, and then descend."""
    descent = drop_unlisted_entries(model, model.descend(start_id))
    walk = stat_walk(model, descent, look_up_start(model, start_id))
    return walk if stat else replace(walk, wanted=walk.wanted & type_asks_for_stat(model))


def stat_walk(model: Model, descent: Descent, way: Touches | None = None) -> Visits:
    """List directories and stat all their entries, buffer by buffer."""
    table, costs = model.entries, model.costs
    directory, first, count = fill_buffers(model, descent)
    is_first = is_head(directory)
    is_last = np.ones(len(directory), bool)
    is_last[:-1] = is_first[1:]
    start, behind = model.driver.listing_start(table, descent)[directory], None
    if model.driver.resumes_by_search and len(table):
        # The search for the next buffer ends at the entry that was left over.
        start = np.where(is_first, start, table.name_node[np.minimum(first, len(table) - 1)])
    if table.backwards and len(table):
        # A backward listing sees in the previous leaf that it has passed the directory's first record, if that record
        # begins a leaf.
        own = descent.entry[directory]
        end = np.where(own >= 0, table.listing_end_node[np.maximum(own, 0)], -1)
        behind = np.where(is_last, end, -1).astype(np.int32)
    return Visits(
        directory=directory,
        directory_id=descent.directory_id[directory],
        first=first,
        count=count,
        start=start,
        start_us=(costs.search_us + costs.list_us * count).astype(np.float32),
        leaf=table.name_node,
        looked_up=searches_of_lookup(model),
        wanted=~table.is_hidden,
        parent_id=table.parent_id,
        way=nothing() if way is None else way,
        # The driver puts an entry into the buffer after it has read it. So it has read the entry that does not fit, and
        # the leaf of that entry belongs to this call, not to the next.
        ahead=count + ~is_last,
        behind=behind,
    )


def type_asks_for_stat(model: Model) -> NDArray[np.bool_]:
    """Return which entries are directories or have a type that a listing does not return."""
    table = model.entries
    return table.is_directory | table.is_hard_link if model.driver.hard_link_type_unknown else table.is_directory


def names_alone(model: Model, descent: Descent, way: Touches | None = None) -> Visits:
    """List directories without look-ups."""
    return replace(stat_walk(model, descent, way), wanted=np.zeros(len(model.entries), bool))


def names_and_folders(model: Model, descent: Descent, way: Touches | None = None) -> Visits:
    """List each directory to its end, then look up each sub-directory and list it in turn."""
    walk = names_alone(model, descent, way)
    return replace(walk, before=np.where(walk.is_first & (walk.directory > 0), descent.entry[walk.directory], -1))


def bulk(model: Model, descent: Descent, *, start_id: int, descend_by_stat: bool = False) -> Visits:
    """Get attributes together with the names; with `descend_by_stat`, each sub-directory is then also looked up."""
    table, costs = model.entries, model.costs
    walk = stat_walk(model, drop_unlisted_entries(model, descent), look_up_start(model, start_id))
    listed = Searches(
        (table.name_node, table.inode_node), ("next", "inode"), (costs.list_us + costs.bulk_entry_us, 0.0)
    )
    return replace(
        walk,
        start_us=np.full(len(walk.start), costs.search_us, np.float32),
        listed=_with_decmpfs(model, listed),
        ahead=None,
        behind=None,
        wanted=walk.wanted & type_asks_for_stat(model) if descend_by_stat else np.zeros(len(table), bool),
    )


def look_up_start(model: Model, start_id: int) -> Touches:
    """Look up the path from the root to the directory in which a walk starts."""
    way = way_to(model, start_id)
    return lookups(model, np.array(way, np.int64))[0] if way else nothing()


def way_to(model: Model, file_id: int) -> list[int]:
    """Return the entries from the root down to a file or directory; empty for the root and for unlisted files."""
    way: list[int] = []
    table = model.entries
    wanted = np.uint64(file_id)
    # Damage may make a folder its own ancestor: no path is longer than the number of entries.
    while wanted > ROOT_ID and len(way) <= len(table):
        found = np.flatnonzero(table.file_id == wanted)
        if not len(found):
            return []
        way.append(int(found[0]))
        wanted = table.parent_id[found[0]]
    return way[::-1]


def look_up_components(
    model: Model,
    components: I64,  # entries of each path from its start; -1 for none
) -> tuple[Touches, NDArray[np.uint16]]:
    """Look up the components of each path that are new, and return the thread of each touch.

    Several threads take one slice of the list each, as git's ``preload-index`` does, and are assumed to advance in
    step. The set of reads is certain, but their sequence differs from one run to the next (recorded).
    """
    size = -(-len(components) // max(model.host.threads, 1)) or 1
    thread, step = np.divmod(np.arange(len(components)), size)
    order = np.lexsort((thread, step))
    components, thread = components[order], thread[order].astype(np.uint16)
    exists = components >= 0
    found, threads = components[exists], np.broadcast_to(thread[:, None], components.shape)[exists]
    new = first_places(found, len(model.entries))
    made, each = lookups(model, found[new])
    return made, np.repeat(threads[new], each)


def entries_on_paths(model: Model, wanted: Sequence[str], start_id: int = ROOT_ID) -> NDArray[np.int64]:
    """Find the entry of every component.

    Entries are in the order of the components; -1 follows the last one, or starts at the first that does not exist.
    """
    # A list of paths may hold bytes that are not text; no name in the tables has them.
    words = [path.encode("utf-8", "surrogatepass").decode("utf-8", "replace") for path in wanted]
    split = [components_of(path) for path in words]
    depth = max(map(len, split), default=0)
    result = np.full((len(split), depth), -1, np.int64)
    reached = dict.fromkeys(range(len(split)), start_id)
    for level in range(depth):
        known = _index_by_name(model, set(reached.values()))
        below: dict[int, int] = {}
        for row, parent in reached.items():
            entry = known.get((parent, _fold_name(split[row][level], model))) if level < len(split[row]) else None
            if entry is not None:
                result[row, level] = entry
                below[row] = int(model.entries.file_id[entry])
        reached = below
    return result


def components_of(path: str) -> list[str]:
    r"""Split a path into its names; doubled slashes and ``.``, as ``find .`` prints it, are dropped.

    A ``..`` counts as a name, which no file has: a file with this name is found as ``\u002e\u002e``.
    """
    return [name for name in path.split("/") if name not in ("", ".")]


def missing_paths(wanted: Sequence[str], found: NDArray[np.int64]) -> tuple[str, ...]:
    """Return the paths that do not exist; the first part of a path may exist."""
    there = (found >= 0).sum(axis=1).tolist()
    return tuple(path for path, count in zip(wanted, there, strict=True) if count < len(components_of(path)))


def _index_by_name(model: Model, parents: set[int]) -> dict[tuple[int, str], int]:
    """Return the first entry of each name in some directories, keyed by directory and name as it is compared."""
    entries = model.entries
    places = np.flatnonzero(np.isin(entries.parent_id, np.array(list(parents), np.uint64)))
    rows = zip(places.tolist(), entries.parent_id[places].tolist(), entries.names(places).to_list(), strict=True)
    known: dict[tuple[int, str], int] = {}
    for entry, parent, name in rows:
        if name is not None:
            known.setdefault((parent, _fold_name(path_component(name), model)), entry)
    return known


def _fold_name(name: str, model: Model) -> str:
    """Return a name as the file system compares it."""
    facts = model.layout.facts
    if not name.isascii():
        return model.driver.compared_by(name, facts)
    # ASCII, which most names are, compares the same under all versions of the Unicode rules.
    return name if facts.case_sensitive else name.lower()


def repeat_order(
    model: Model, once: Callable[[Model], tuple[Touches, NDArray[Any]]], times: int
) -> list[tuple[Touches, NDArray[Any]]]:
    """Make the touches of each pass of a workload.

    Each look-up takes a slot in the name cache. If the cache cannot hold them all, the host determines what it keeps.
    """
    first = once(model)
    if times == 1:
        return [first]
    looked_up = int(np.count_nonzero(first[0].cause == CODE["name"]))
    room = model.host.name_cache_entries
    is_kept = room is None or looked_up <= room
    if is_kept:
        later = once(replace(model, names_are_cached=True))
    else:
        later = _partly_answered(model, first, share_still_cached(looked_up, room or 0) * model.host.name_cache_keeps)
    return [first, *[later] * (times - 1)]


def share_still_cached(names: int, room: int) -> float:
    """Return the share of names that a cache still holds when all of them are looked up again in sequence.

    A cache that evicts the least recently used would hold none of them. If a cache evicts all names with equal chance,
    a name remains from the last pass with the chance that no miss since then replaced it:
    ``h = (1 - 1 / room) ** ((1 - h) * names)``, which is solved here.

    >>> round(share_still_cached(277_800, 263_168), 2), share_still_cached(10, 0)
    (0.9, 0.0)
    """
    share = 0.0
    for _ in range(FIXED_POINT_STEPS if room else 0):
        share = exp(-(1 - share) * names / room)
    return share


FIXED_POINT_STEPS: Final = 2000


def _partly_answered(model: Model, found: tuple[Touches, NDArray[Any]], share: float) -> tuple[Touches, NDArray[Any]]:
    """Let the name cache answer a share of the look-ups."""
    needed, beside = found
    if not share:
        return found
    names = np.flatnonzero(needed.cause == CODE["name"])
    kept = names[choose_evenly(len(names), share)]
    node, host_us = needed.node.copy(), needed.host_us.copy()
    node[kept], host_us[kept] = -1, model.driver.costs.stat_us
    # A look-up is a search by name followed by searches by number; an answer from the cache needs none of them.
    others = len(searches_of_lookup(model).nodes) - 1
    is_left = np.ones(len(needed), bool)
    is_left[(kept[:, None] + np.arange(1, others + 1)).ravel()] = False
    return replace(needed, node=node, host_us=host_us)[is_left], beside[is_left]
