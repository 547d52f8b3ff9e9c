"""What ``rm -r`` reads: each entry looked up when its turn comes, and what its removal frees.

Sources: coreutils ``rm.c`` and gnulib ``fts.c`` (a directory is listed whole, its entries come one by one, and itself
behind them); of drivers, those that set :attr:`~layoutscope.access.driver.Driver.bitmap_region`. What is written is
not in the trace: at least every leaf that loses a record, and every page of the bitmap that loses a bit, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.access.entries import ROOT_ID
from layoutscope.access.steps import FixedPlaces, regions_of
from layoutscope.access.touches import CODE, concatenated, touches
from layoutscope.arrays.ragged import ranges
from layoutscope.walk.assemble import Timeline, read_pages_once, requested, requests
from layoutscope.walk.cache import cached_by_mount
from layoutscope.walk.programs import deferred
from layoutscope.walk.steps import named
from layoutscope.walk.visits import clock_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.model import Model
    from layoutscope.access.touches import Touches
    from layoutscope.access.trace import AccessTrace

    I64 = NDArray[np.int64]

PAGE_BYTES = 4096


def delete(model: Model, start_id: int) -> AccessTrace:
    """Read what the removal of a directory reads, and of all that is in it.

    Parameters
    ----------
    model : Model
        The volume and its host.
    start_id : int
        The directory.
    """
    pages = _bitmap_pages(model)
    header = _rest_of_header(model)
    first_page, first_header = len(model.nodes), len(model.nodes) + len(pages)

    def freed(entries: I64, turn: I64, under: I64) -> tuple[Touches, I64]:
        found, when = _freed(model, entries, turn, (first_page, first_header))
        if not model.driver.bitmap_region:
            return found, when
        neighbours, emptied = _emptied(model, entries, turn, under)
        # The map of nodes loses a bit when the first of them is free; what comes later finds it there.
        rest = np.arange(first_header, first_header + (len(header) if len(emptied) else 0), dtype=np.int32)
        linked = _of(np.concatenate([neighbours[:2], rest, neighbours[2:]]).astype(np.int32), "index")
        then = np.concatenate([emptied[:2], np.repeat(emptied[:1], len(rest)), emptied[2:]])
        return concatenated([linked, found]), np.concatenate([then, when])

    needed = deferred(model, start_id, freed)
    pieces = [pages, header]
    made = requests(model)
    for each in pieces:
        made = made.followed_by(each.device, each.image_offset, each.length_bytes)
    reads, touch = read_pages_once(made, needed, model, first_header + len(header), cached_by_mount(model))
    trace, source = requested(model, made, reads, Timeline(clock_at(needed, touch)))
    return named(trace, reads.node[source] - len(model.nodes), pieces)


def _bitmap_pages(model: Model) -> FixedPlaces:
    """Pages of the file that has a bit for each block, in the order of the file; none where there is no such file."""
    region = model.driver.bitmap_region
    return regions_of(model.layout if region else None, region).cut(PAGE_BYTES)


def _rest_of_header(model: Model) -> FixedPlaces:
    """What the mount has not read of the main tree's header node, which has the map of its nodes."""
    nodes = model.nodes
    header = np.flatnonzero(nodes.is_header & (nodes.tree == model.main_tree_code) & (nodes.size_bytes > PAGE_BYTES))
    whole = FixedPlaces(
        model.main_tree,
        nodes.device[header],
        nodes.image_offset[header] + PAGE_BYTES,
        nodes.size_bytes[header] - PAGE_BYTES,
    )
    return whole.cut(PAGE_BYTES).chosen(slice(None) if model.driver.bitmap_region else slice(0))


def _freed(model: Model, entries: I64, turn: I64, numbers: tuple[int, int]) -> tuple[Touches, I64]:
    """Look for the extents of each file, the last one first, in overflow tree and bitmap; tell when that is done.

    Parameters
    ----------
    model : Model
        The volume.
    entries : (n,) int64 array
        What is removed.
    turn : (n,) int64 array
        When.
    numbers : (int, int)
        Number of the bitmap's first page behind the nodes, and that behind its last.
    """
    table = model.layout.columns("extents")
    offset, length = table["image_offset"].filled(-1).astype(np.int64), table["length_bytes"].data
    file, at = _files(model, entries)
    place = np.searchsorted(file, table["file_id"].data)
    place = np.minimum(place, max(len(file) - 1, 0))
    is_here = (offset >= 0) & (file[place] == table["file_id"].data) if len(file) else np.zeros(len(offset), bool)
    rows = np.flatnonzero(is_here)
    entry = at[place[rows]]
    order = np.lexsort((-table["logical_offset"].data[rows], turn[entry]))
    rows, entry = rows[order], entry[order]
    block = model.layout.facts.block_size_bytes * 8 * PAGE_BYTES
    begin = (offset[rows] - model.layout.facts.image_offset) // block
    count = (offset[rows] + length[rows] - 1 - model.layout.facts.image_offset) // block - begin + 1
    # Of a damaged file an extent may end where the volume has no blocks, and so no bits.
    count[(begin < 0) | (begin + count > numbers[1] - numbers[0])] = 0
    node = model.nodes.nodes_of(table["node_row"])[rows]
    searched = np.where(model.nodes.tree[node] == model.main_tree_code, -1, node).astype(np.int32)
    if not model.driver.bitmap_region:
        searched = node
    # Of each extent the leaf that tells of it, then the pages with its bits.
    starts = np.cumsum(count + 1) - count - 1
    touched = np.empty(int((count + 1).sum()), np.int32)
    touched[starts] = searched
    behind = np.ones(len(touched), bool)
    behind[starts] = False
    touched[behind] = numbers[0] + ranges(begin, count)
    owner = np.repeat(entry, count + 1)
    found = _of(touched, "structure")
    found.cause[starts] = CODE[model.driver.extents_cause]
    return found, 2 * turn[owner]


def _of(node: NDArray[np.int32], cause: str) -> Touches:
    return touches(node, cause, np.full(len(node), ROOT_ID, np.uint64))


def _files(model: Model, entries: I64) -> tuple[NDArray[np.uint64], I64]:
    """Files that are removed with their last name, by number, and the place of that name among the entries."""
    ids = model.entries.file_id[entries]
    order = np.argsort(ids, kind="stable")
    file, last = np.unique(ids[order][::-1], return_index=True)
    return file, order[::-1][last]


def _emptied(model: Model, entries: I64, turn: I64, under: I64) -> tuple[NDArray[np.int32], I64]:
    """Find the neighbours that are linked anew when a node has lost its last record, and when that is.

    Both are read, as they are by then; the last child takes its index node along.

    Parameters
    ----------
    model : Model
        The volume.
    entries, turn, under : (n,) int64 arrays
        What is removed, when, and how many entries lie below.
    """
    nodes, never = model.nodes, np.iinfo(np.int64).max
    # A directory goes behind all that is in it, and behind its own listing, where that is empty; of several that end
    # together the innermost first; of each the record with its name before its thread.
    gone = np.full(len(model.entries), never)
    at = np.where(model.entries.is_directory[entries], 2 * (turn + under) + 1, 2 * turn)
    steps = 2 * (int(turn.max(initial=0)) + 2)
    gone[entries] = at * steps + steps - 2 * (turn + 2)
    last = np.zeros(len(nodes), np.int64)
    for nth, leaf in enumerate((model.entries.name_node, model.entries.thread_node)):
        known = leaf >= 0
        np.maximum.at(last, leaf[known], np.where(gone[known] < never, gone[known] + nth, never))
    main = np.flatnonzero(nodes.tree == model.main_tree_code)
    for level in range(int(nodes.level[main].max(initial=0))):
        here = main[(nodes.level[main] == level) & (nodes.parent[main] >= 0)]
        np.maximum.at(last, nodes.parent[here], last[here])
    before, after = _neighbours(model, main)
    emptied = main[(last[main] > 0) & (last[main] < never)]
    read: list[int] = []
    when: list[int] = []
    for node in emptied[np.lexsort((nodes.level[emptied], last[emptied]))].tolist():
        left, right = before.get(node, -1), after.get(node, -1)
        read += [left, right]
        when += [int(last[node]) // steps] * 2
        after[left], before[right] = right, left
    return np.array(read, np.int32), np.array(when, np.int64)


def _neighbours(model: Model, main: I64) -> tuple[dict[int, int], dict[int, int]]:
    """Return the nodes before and behind each of the main tree on its level, -1 at the ends."""
    nodes = model.nodes
    chained = main[nodes.level[main] >= 0]
    order = chained[np.lexsort((nodes.key_rank[chained], nodes.level[chained]))]
    same = nodes.level[order[1:]] == nodes.level[order[:-1]]
    pairs = list(zip(order[:-1][same].tolist(), order[1:][same].tolist(), strict=True))
    return {right: left for left, right in pairs}, dict(pairs)
