"""Orders of programs that walk directories in their own way: ``du``, ``find``, ``rsync``, ``ls`` and ``rm -r``.

Sources: gnulib ``fts.c`` (fts_build, fts_read) with the options of coreutils' ``du.c`` and ``rm.c`` and of findutils'
``ftsfind.c``; rsync's ``flist.c`` (send_directory, send_extra_file_list, f_name_cmp, readlink_stat); coreutils'
``ls.c`` (print_dir, gobble_file, extract_dirs_from_files); drivers that set
:attr:`~layoutscope.access.driver.Driver.bitmap_region` or :attr:`~layoutscope.access.driver.Driver.extents_tree`.
The trace of a removal does not include its writes; :func:`least_written` returns their lower bound.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.access.descent import Descent, descend, turns_of
from layoutscope.access.entries import ROOT_ID
from layoutscope.access.trace import CODE, FixedPlaces, concatenate, regions_of, touches
from layoutscope.display import Displayed, Struct
from layoutscope.structs.arrays import match, ranges
from layoutscope.walk.cache import list_mount_cached_nodes
from layoutscope.walk.data import FileTouches, merge_by_turn
from layoutscope.walk.directories import (
    drop_unlisted_entries,
    look_up_start,
    lookups,
    names_alone,
    stat_walk,
    type_asks_for_stat,
)
from layoutscope.walk.readahead import PAGE_BYTES, file_map, pieces, sequential_windows
from layoutscope.walk.visits import read_places

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.access.driver import Model
    from layoutscope.access.entries import EntryTable
    from layoutscope.access.trace import AccessTrace, Touches
    from layoutscope.walk.data import WalkPart
    from layoutscope.walk.visits import Visits

    Also = Callable[[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]], tuple[Touches, NDArray[np.int64]]]
    I64 = NDArray[np.int64]

SORTED_ABOVE: Final = 10_000
"""Number of entries above which gnulib's fts sorts a directory by inode (_FTS_INODE_SORT_DIR_ENTRIES_THRESHOLD)."""

LISTED_AT_ONCE: Final = 100_000
"""Entries of a directory that gnulib's fts reads before it returns the first of them (FTS_MAX_READDIR_ENTRIES)."""


def stat_in_turn(model: Model, start_id: int, also: Also | None = None, *, stat: bool = True) -> Touches:
    """List a whole directory, then stat each entry in turn and descend into it at once.

    A directory of more than :data:`SORTED_ABOVE` entries is visited by inode number, at most :data:`LISTED_AT_ONCE`
    entries at a time.
    """
    descent = drop_unlisted_entries(model, model.descend(start_id))
    turn = _number_turns_by_inode(model.entries, descent, start_id)
    listings = _list_in_turn(model, descent, turn)
    shown = order_by_turn(model, descent, turn)
    if not stat:
        shown = shown[type_asks_for_stat(model)[shown]]
    found, each = lookups(model, shown)
    steps = [listings, (found, 2 * turn[shown], each)]
    if also is not None:
        under = np.zeros(len(model.entries) + 1, np.int64)
        under[descent.entry] = descent.under
        more, then = also(shown, turn[shown], under[shown])
        steps.append((more, then, np.ones(len(then), np.int64)))
    return concatenate([look_up_start(model, start_id), merge_by_turn(steps)])


def _number_turns_by_inode(entries: EntryTable, descent: Descent, start_id: int) -> I64:
    """Return the depth-first place of each entry if large directories are visited by inode number."""
    place = np.arange(len(entries))
    for large in np.flatnonzero(descent.count > SORTED_ABOVE).tolist():
        first, count = int(descent.first[large]), int(descent.count[large])
        part = np.arange(count) // LISTED_AT_ONCE
        place[first : first + count] = first + np.lexsort((entries.file_id[first : first + count], part))
    return number_turns(entries, descend(entries.chosen(place), start_id), place)


def _list_in_turn(model: Model, descent: Descent, turn: I64) -> WalkPart:
    """List directories without look-ups; the turns are doubled and odd, so they fall between those of entries."""
    walk = names_alone(model, descent)
    first, count = descent.first[walk.directory], descent.count[walk.directory]
    # The start of the walk has no turn, and is listed before all others.
    when = 2 * turn[descent.entry[walk.directory]] + 1
    part = (walk.first - first) // LISTED_AT_ONCE
    for late in np.flatnonzero(part > 0).tolist():
        begin = int(part[late]) * LISTED_AT_ONCE
        end = min(begin + LISTED_AT_ONCE, int(count[late]))
        when[late] = 2 * int(turn[first[late] + begin : first[late] + end].min()) - 1
    listed, per_buffer = walk.lay_out()
    return listed, when, per_buffer


def number_turns(entries: EntryTable, descent: Descent, place: I64 | None = None) -> I64:
    """Return the depth-first place of each entry in a walk; -1 if it has none, and at the end.

    With `place`, the walk is over the entries at these places.
    """
    entry, turns = turns_of(descent, len(entries))
    turn = np.full(len(entries) + 1, -1, np.int64)
    turn[entry if place is None else place[entry]] = turns
    return turn


def order_by_turn(model: Model, descent: Descent, turn: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the entries that listings return, ordered by turn."""
    shown = ranges(descent.first, descent.count)
    shown = shown[~model.entries.is_hidden[shown]]
    return shown[np.argsort(turn[shown], kind="stable")]


def visit_by_name(model: Model, start_id: int, end: bytes | None) -> Visits | FileTouches:
    """List a directory, stat each entry and read link targets in name order, then descend by name.

    ``ls -lR`` does this, and ``rsync -an`` if it finds nothing to copy. ``ls -l`` does it for one directory.
    """
    descent = drop_unlisted_entries(model, sort_directories(model, start_id, end))
    walk = stat_walk(model, descent, look_up_start(model, start_id))
    links = np.flatnonzero(model.entries.is_symlink)
    if end is None:
        links = links[np.isin(links, ranges(descent.first, descent.count))]
    if not len(links):
        return walk
    if model.driver.links_are_attributes:
        targets = np.full(len(model.entries), -1, np.int32)
        targets[links] = model.entries.xattr_node[links]
        return replace(walk, looked_up=walk.looked_up.with_search(targets, "xattr"))
    return _read_link_targets(model, walk, links)


def _read_link_targets(model: Model, walk: Visits, links: NDArray[np.int64]) -> FileTouches:
    """Read the blocks of link targets, numbered after the nodes, after the look-up of each link."""
    files = file_map(model, links)
    file, begin, end = sequential_windows(files, model.host.read_ahead_bytes)
    of_piece, _, parts = pieces(files, begin, end)
    owner, searches = file[of_piece], walk.looked_up
    nth = np.arange(len(owner)) - np.searchsorted(owner, owner)
    for number in range(int(nth.max(initial=-1)) + 1):
        mine = np.flatnonzero((nth == number) & (parts.image_offset >= 0))
        targets = np.full(len(model.entries), -1, np.int32)
        targets[links[owner[mine]]] = len(model.nodes) + mine
        searches = searches.with_search(targets, "data")
    needed = replace(walk, looked_up=searches).touches()
    # Touches of nodes have no window: the last element is for them.
    window = np.append(of_piece, -1)[np.maximum(needed.node - len(model.nodes), -1)]
    return FileTouches(needed, window, parts)


def sort_directories(model: Model, start_id: int, end: bytes | None) -> Descent:
    """Order directories as programs that sort visit them: siblings by name, followed by `end`.

    ``ls`` compares plain names by their bytes, as in the C locale; rsync's ``f_name_cmp`` appends a slash. An `end` of
    None stands for programs that visit only the first directory.
    """
    entries = model.entries
    if end is None:
        return model.descend(start_id).take(np.zeros(1, np.int64))
    place = sort_siblings(entries, np.flatnonzero(entries.is_directory & ~entries.is_hidden), end)
    as_listed, own = descend(entries, start_id), descend(entries.chosen(place), start_id).entry
    row = np.full(len(entries) + 1, -1, np.int64)
    row[as_listed.entry] = np.arange(len(as_listed))
    order = row[np.append(place, -1)[own]]
    return replace(as_listed.take(order), turn=np.arange(len(order)))


def sort_siblings(entries: EntryTable, place: I64, end: bytes) -> I64:
    """Sort the entries at some places by group, and within a group by name, with `end` appended to directories."""
    # What readdir returns on Linux, and what git makes of it on macOS (core.precomposeUnicode).
    texts = (unicodedata.normalize("NFC", name or "") for name in entries.names(place).to_list())
    names = zip(texts, entries.is_directory[place].tolist(), strict=True)
    keys = [text.encode("utf-8", "surrogatepass") + end * is_directory for text, is_directory in names]
    rank = np.empty(len(place), np.int64)
    rank[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return place[np.lexsort((rank, np.searchsorted(entries.group_start, place, side="right")))]


def delete(model: Model, start_id: int) -> AccessTrace:
    """Make the reads of the removal of a directory and its contents."""
    nodes, pages, has_bitmap = model.nodes, _bitmap_pages(model), bool(model.driver.bitmap_region)
    # The part of the main tree's header node that the mount has not read; it contains the map of its nodes.
    own = np.flatnonzero(nodes.is_header & (nodes.tree == model.main_tree_code) & (nodes.size_bytes > PAGE_BYTES))
    own = own if has_bitmap else own[:0]
    rest = nodes.image_offset[own] + PAGE_BYTES, nodes.size_bytes[own] - PAGE_BYTES
    header = FixedPlaces(model.main_tree, nodes.device[own], *rest).cut(PAGE_BYTES)
    pieces = [pages, header, *model.driver.first_write(model.layout)]
    first_page, first_header = len(nodes), len(nodes) + len(pages)
    size = len(nodes) + sum(map(len, pieces))

    def free_entries(entries: I64, turn: I64, under: I64) -> tuple[Touches, I64]:
        found, when = _list_extent_reads(model, entries, turn, (first_page, first_header))
        if has_bitmap:
            neighbours, emptied = _list_emptied_neighbours(model, entries, turn, under)
            # The node map loses a bit when the first node becomes free; later changes find the map cached.
            bits = np.arange(first_header, first_header + (len(header) if len(emptied) else 0), dtype=np.int32)
            linked = _of(np.concatenate([neighbours[:2], bits, neighbours[2:]]).astype(np.int32), "index")
            then = np.concatenate([emptied[:2], np.repeat(emptied[:1], len(bits)), emptied[2:]])
            return concatenate([linked, found]), np.concatenate([then, when])
        # Listing the start changes its access time, which begins the first transaction.
        begun = _of(np.arange(first_header + len(header), size, dtype=np.int32), "structure")
        # If a name has a number, the record that maps the number to its inode is removed.
        number = model.layout.columns("entries")["link_id"].filled(0)[model.entries.order][entries]
        names = _of(_leaves_by_key(model, model.main_tree, number[number > 0]), "inode")
        # The record of each file's data stream is removed after its extents.
        leaf = model.entries.dstream_node[entries]
        is_streamed = np.isin(entries, entries[_files(model, entries)[1]]) & (leaf >= 0)
        needed = concatenate([begun, names, found, _of(leaf[is_streamed], "dstream")])
        return needed, np.concatenate([np.full(len(begun), -1), 2 * turn[number > 0], when, 2 * turn[is_streamed]])

    needed = stat_in_turn(model, start_id, free_entries)
    return read_places(model, needed, pieces, list_mount_cached_nodes(model))


class LeastWritten(Displayed, Struct, frozen=True):
    """The least that a change writes."""

    pieces: int  # nodes and pages
    written_bytes: int  # their bytes


def least_written(model: Model, start_id: int) -> LeastWritten:
    """Count what the removal of a directory must write at some time, each block once.

    It counts leaves that lose a record and keep another, and pages of the bitmap. If nodes move when they are written,
    it also counts their parents and the maps of their addresses. It leaves out leaves that lose all their records, the
    journal, headers, checkpoints, and anything written a second time. It assumes that nodes are not merged, as in all
    drivers whose source was read.
    """
    table, nodes = model.entries, model.nodes
    descent = descend(table, start_id)
    gone = np.zeros(len(table), bool)
    gone[ranges(descent.first, descent.count)] = True
    gone[descent.entry[(descent.entry >= 0) & (table.file_id[descent.entry] != ROOT_ID)]] = True
    loses, keeps = np.zeros(len(nodes), bool), np.zeros(len(nodes), bool)
    for leaf in (table.name_node, table.inode_node, table.thread_node):
        loses[leaf[gone & (leaf >= 0)]] = True
        keeps[leaf[~gone & (leaf >= 0)]] = True
    changed = loses & keeps
    if model.driver.extents_tree:
        # Leaves are written to new places. The object map records this, and is a tree whose own nodes also move.
        above = nodes.mapper[changed]
        while len(above := np.unique(above[above >= 0])):
            changed[above] = True
            above = nodes.parent[above]
    pages = _bitmap_pages(model)
    free_entries, _ = _list_extent_reads(
        model, np.flatnonzero(gone), np.arange(int(gone.sum())), (len(nodes), len(nodes) + len(pages))
    )
    bits = np.unique(free_entries.node[free_entries.node >= len(nodes)]) - len(nodes)
    length = int(nodes.size_bytes[changed].sum()) + int(pages.length_bytes[bits].sum())
    return LeastWritten(int(changed.sum()) + len(bits), length)


def _bitmap_pages(model: Model) -> FixedPlaces:
    """Return the pages of the file with one bit per block, in file order; empty if there is no such file."""
    region = model.driver.bitmap_region
    return regions_of(model.layout if region else None, region).cut(PAGE_BYTES)


def _list_extent_reads(model: Model, entries: I64, turn: I64, numbers: tuple[int, int]) -> tuple[Touches, I64]:
    """Look up the extents of each file, last one first, in overflow tree and bitmap; also return the turns."""
    table = model.layout.columns("extents")
    offset, length = table["image_offset"].filled(-1).astype(np.int64), table["length_bytes"].data
    file, at = _files(model, entries)
    place, is_here = match(file, table["file_id"].data)
    rows = np.flatnonzero((offset >= 0) & is_here)
    entry = at[place[rows]]
    order = np.lexsort((-table["logical_offset"].data[rows], turn[entry]))
    rows, entry = rows[order], entry[order]
    node = model.nodes.nodes_of(table["node_row"])[rows]
    if model.driver.extents_tree:
        searched = node
        facts = model.layout.facts
        address = ((offset[rows] - facts.image_offset) // facts.block_size_bytes).astype(np.uint64)
        begin = _leaves_by_key(model, model.driver.extents_tree, address).astype(np.int64)
        count = np.ones(len(rows), np.int64)
    else:
        searched = np.where(model.nodes.tree[node] == model.main_tree_code, -1, node).astype(np.int32)
        # The bitmap pages with the bits of each extent.
        bytes_each = model.layout.facts.block_size_bytes * 8 * PAGE_BYTES
        inside = offset[rows] - model.layout.facts.image_offset
        begin = inside // bytes_each
        count = (inside + length[rows] - 1) // bytes_each - begin + 1
        # An extent of a damaged file may end beyond the last block of the volume, which is the last with a bit.
        count[(begin < 0) | (begin + count > numbers[1] - numbers[0])] = 0
        begin = numbers[0] + begin
    # For each extent: the leaf that records it, then the pages with its bits or the leaf that counts its references.
    starts = np.cumsum(count + 1) - count - 1
    touched = np.empty(int((count + 1).sum()), np.int32)
    touched[starts] = searched
    behind = np.ones(len(touched), bool)
    behind[starts] = False
    touched[behind] = ranges(begin, count)
    owner = np.repeat(entry, count + 1)
    found = _of(touched, "structure")
    found.cause[starts] = CODE[model.driver.extents_cause]
    return found, 2 * turn[owner]


def _leaves_by_key(model: Model, tree: str, key: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Return the leaves in which keys that begin with an address or number are looked up; -1 if there is none."""
    nodes = model.nodes
    own = nodes.leaves(nodes.tree_code(tree))
    if not len(own):
        return np.full(len(key), -1, np.int32)
    first = model.layout.columns("nodes")["first_key_id"].filled(0)[own]
    return own[np.maximum(np.searchsorted(first, key, side="right") - 1, 0)].astype(np.int32)


def _of(node: NDArray[np.int32], cause: str) -> Touches:
    return touches(node, cause, np.full(len(node), ROOT_ID, np.uint64))


def _files(model: Model, entries: I64) -> tuple[NDArray[np.uint64], I64]:
    """Return the numbers of files whose last name is removed, and the place of that name among the entries."""
    ids = model.entries.file_id[entries]
    order = np.argsort(ids, kind="stable")
    file, last = np.unique(ids[order][::-1], return_index=True)
    return file, order[::-1][last]


def _list_emptied_neighbours(model: Model, entries: I64, turn: I64, under: I64) -> tuple[NDArray[np.int32], I64]:
    """Return the neighbours that are relinked when a node loses its last record, and the turns.

    Both neighbours at that time are read. When an index node loses its last child, it is emptied, too.
    """
    nodes, never = model.nodes, np.iinfo(np.int64).max
    # A directory is removed after all its contents, and an empty one after its own listing. If several end together,
    # the innermost comes first. The record with a directory's name is removed before its thread.
    gone = np.full(len(model.entries), never)
    at = np.where(model.entries.is_directory[entries], 2 * (turn + under) + 1, 2 * turn)
    steps = 2 * (int(turn.max(initial=0)) + 2)
    gone[entries] = at * steps + steps - 2 * (turn + 2)
    last = np.zeros(len(nodes), np.int64)
    for nth, leaf in enumerate((model.entries.name_node, model.entries.thread_node)):
        known = leaf >= 0
        np.maximum.at(last, leaf[known], np.where(gone[known] < never, gone[known] + nth, never))
    main = np.flatnonzero((nodes.tree == model.main_tree_code) & nodes.is_own)
    for level in range(int(nodes.level[main].max(initial=0))):
        here = main[(nodes.level[main] == level) & (nodes.parent[main] >= 0)]
        np.maximum.at(last, nodes.parent[here], last[here])
    # The nodes before and after each node on its level; none at the ends.
    chained = main[nodes.level[main] >= 0]
    order = chained[np.lexsort((nodes.key_rank[chained], nodes.level[chained]))]
    same = nodes.level[order[1:]] == nodes.level[order[:-1]]
    after = dict(zip(order[:-1][same].tolist(), order[1:][same].tolist(), strict=True))
    before = {right: left for left, right in after.items()}
    emptied = main[(last[main] > 0) & (last[main] < never)]
    read: list[int] = []
    when: list[int] = []
    for node in emptied[np.lexsort((nodes.level[emptied], last[emptied]))].tolist():
        left, right = before.get(node, -1), after.get(node, -1)
        read += [left, right]
        when += [int(last[node]) // steps] * 2
        after[left], before[right] = right, left
    return np.array(read, np.int32), np.array(when, np.int64)
