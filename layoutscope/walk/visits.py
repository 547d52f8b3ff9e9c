"""The work of a walk over directories, per fill of the listing buffer, and the reads that a cache makes for it.

The touches of a walk are several times as many as its files. They are laid out only for callers that need all of them;
the native core asks the cache for each touch as it comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.access.trace import (
    CAUSES,
    CODE,
    AccessTrace,
    FixedPlaces,
    Touches,
    columns,
    concatenate,
    make_fixed_place,
    merge_alternating,
    touches,
)
from layoutscope.display import Struct
from layoutscope.structs.arrays import is_head, ranges, starts_of
from layoutscope.structs.native import Kernel
from layoutscope.walk.cache import (
    empty_cache,
    empty_limited_cache,
    list_mount_cached_nodes,
    read_lacking,
    read_lacking_limited,
    read_limited,
    read_once,
    select_spared,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.access.driver import Model
    from layoutscope.access.entries import NodeTable
    from layoutscope.tables import VolumeLayout

    I64 = NDArray[np.int64]

VISIT_ONCE: Final = Kernel("visit_once", "ciiibccbniilnBBIIBLCIBL")


class Searches(Struct, frozen=True):
    """The searches for an entry, and their host time."""

    # leaves in which the searches end, -1 for none: one array per search, in the order of the table of entries
    nodes: tuple[NDArray[np.int32], ...] = ()
    causes: tuple[str, ...] = ()  # why each search is made
    host_us: tuple[float, ...] = ()  # host time of each

    def of(self, entries: I64, directory_id: NDArray[np.uint64]) -> Touches:
        """Search for some entries in sequence."""
        return columns([each[entries] for each in self.nodes], self.causes, directory_id, self.host_us)

    def with_search(self, nodes: NDArray[np.int32], cause: str) -> Searches:
        """Add a search, which takes no host time."""
        return Searches((*self.nodes, nodes), (*self.causes, cause), (*self.host_us, 0.0))


class Visits(Struct, frozen=True):
    """The work for each fill of a listing buffer, in this order; arrays of shape (n_buffers,)."""

    # directory, directory_id: the directory that is listed, as its place in the descent and its CNID or oid
    directory: I64
    directory_id: NDArray[np.uint64]
    # first, count: the entries that the buffer returns
    first: I64
    count: I64
    start: NDArray[np.int32]  # leaf in which the search for the listing ends
    start_us: NDArray[np.float32]  # host time of that search and of the listing that follows
    leaf: NDArray[np.int32]  # leaf with the name of each entry
    looked_up: Searches  # searches of the look-up of an entry
    wanted: NDArray[np.bool_]  # entries that are looked up once the buffer is filled
    parent_id: NDArray[np.uint64]  # the directory of each entry
    way: Touches  # path to the start of the walk
    before: I64 | None = None  # the entry that is looked up first, -1 for none
    ahead: I64 | None = None  # number of entries, from the first on, whose leaves the listing enters
    listed: Searches = Searches()  # searches for each entry while it is listed
    behind: NDArray[np.int32] | None = None  # leaf in which the listing ends, -1 for none

    @property
    def is_first(self) -> NDArray[np.bool_]:
        """Whether each buffer is the first of its directory."""
        return is_head(self.directory)

    def lay_out(self) -> tuple[Touches, I64]:
        """Lay out all touches except those on the path to the start; also return the number for each buffer."""
        listed, per_listing = self._listings()
        every = ranges(self.first, self.count)
        is_wanted = self.wanted[every]
        after, per_after = self._look_up(every[is_wanted], _sums(is_wanted, self.count))
        found, per_buffer = merge_alternating(listed, after, per_listing, per_after), per_listing + per_after
        if self.before is None:
            return found, per_buffer
        before, per_before = self._look_up(self.before[self.before >= 0], (self.before >= 0).astype(np.int64))
        return merge_alternating(before, found, per_before, per_buffer), per_before + per_buffer

    def touches(self) -> Touches:
        """Lay out all touches, those on the path to the start first."""
        return concatenate([self.way, self.lay_out()[0]])

    def _look_up(self, entries: I64, per_buffer: I64) -> tuple[Touches, I64]:
        return self.looked_up.of(entries, self.parent_id[entries]), per_buffer * len(self.looked_up.nodes)

    def _listings(self) -> tuple[Touches, I64]:
        """Return where each listing starts, the touches of its entries or cursor, and the leaf where it ends."""
        body, per_body = self._search_with_names() if self.ahead is None else self._enter_leaves(self.ahead)
        begun = touches(self.start, "list", self.directory_id)
        begun.host_us[:] = self.start_us
        found, per_buffer = merge_alternating(begun, body, np.ones(len(self.start), np.int64), per_body), per_body + 1
        if self.behind is None:
            return found, per_buffer
        is_there = self.behind >= 0
        ends = touches(self.behind[is_there], "next", self.directory_id[is_there])
        return merge_alternating(found, ends, per_buffer, is_there.astype(np.int64)), per_buffer + is_there

    def _search_with_names(self) -> tuple[Touches, I64]:
        every = ranges(self.first, self.count)
        return self.listed.of(every, self.parent_id[every]), self.count * len(self.listed.nodes)

    def _enter_leaves(self, ahead: I64) -> tuple[Touches, I64]:
        """Return the leaves of each buffer's names in sequence, each once."""
        leaf = self.leaf[ranges(self.first, ahead)]
        is_new = is_head(leaf)
        is_new[starts_of(ahead)[ahead > 0]] = True
        per_buffer = _sums(is_new, ahead)
        return touches(leaf[is_new], "next", np.repeat(self.directory_id, per_buffer)), per_buffer


def _sums(marks: NDArray[np.bool_], counts: I64) -> I64:
    """Return the number of marks of each owner; the marks of an owner are contiguous."""
    running = np.concatenate([[0], np.cumsum(marks)])
    begins = starts_of(counts)
    found: I64 = running[begins + counts] - running[begins]
    return found


def find_reads_laid_out(visits: Visits, model: Model) -> tuple[Touches, NDArray[np.float64]]:
    """Find what a cache reads for a walk: an unlimited cache that starts empty, or a limited one after the mount."""
    needed, room = visits.touches(), model.node_cache_bytes
    if room is None:
        reads, touch = read_once(needed, model, len(model.nodes))
    else:
        reads, touch = read_limited(needed, model, list_mount_cached_nodes(model), room)
    return reads, clock_at(needed, touch)


def clock_at(needed: Touches, touch: I64, begin: int = 0) -> NDArray[np.float64]:
    """Return the host's time in microseconds at a touch, before each of some other touches, and at the end."""
    clock = np.zeros(len(needed) + 1)
    np.cumsum(needed.host_us, dtype=np.float64, out=clock[1:])
    return np.concatenate([clock[[begin]], clock[touch], clock[-1:]])


READS_OF_NODE: Final = 16
"""Average number of times that a limited cache may read a node before all touches are laid out instead."""


def find_reads_natively(visits: Visits, model: Model) -> tuple[Touches, NDArray[np.float64]] | None:
    """Find the reads in the kernel; None if a small cache reads too often."""
    limit, rows = model.node_cache_bytes, len(model.nodes)
    none = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8)
    if limit is None:
        unlimited = empty_cache(model, rows)
        begun = read_lacking(unlimited, visits.way, model)
        cache = *unlimited[:2], none[0], 0, *unlimited[2:], none[1], none[1], none[2], none[0]
    else:
        known = list_mount_cached_nodes(model)
        limited = empty_limited_cache(model, len(known))
        begun = read_lacking_limited(limited, visits.way, model, known, limit)
        cache = *limited[:3], limit, none[2], none[2], *limited[3:]
        rows *= READS_OF_NODE
    at_us = clock_at(visits.way, begun[1])
    node, cause, directory_id = np.empty(rows, np.int32), np.empty(rows, np.uint8), np.empty(rows, np.int64)
    searches = [*visits.listed.causes, *visits.looked_up.causes]
    causes = [CODE[name] for name in ("list", "next", "index", model.driver.locator_cause, *searches)]
    search_us = np.array([*visits.listed.host_us, *visits.looked_up.host_us], np.float32)
    clock, read_us = at_us[-1:].copy(), np.empty(rows)
    # Missing columns are empty.
    before = none[0] if visits.before is None else visits.before
    before_id = visits.parent_id[np.maximum(before, 0)] if len(before) and len(visits.parent_id) else before
    ahead = none[0] if visits.ahead is None else visits.ahead
    columns_of = visits.directory_id, visits.first, visits.count, ahead, before, before_id
    buffers = [np.ascontiguousarray(each).astype(np.int64, copy=False) for each in columns_of]
    count = VISIT_ONCE.attempt(
        buffers, *map(_flat, (visits.start, visits.behind, visits.leaf)),
        np.ascontiguousarray(visits.wanted).view(np.uint8),
        [_flat(each) for each in visits.listed.nodes], [_flat(each) for each in visits.looked_up.nodes],
        np.array(causes, np.uint8), int(model.driver.leaves_are_chained),
        *cache, [np.ascontiguousarray(visits.start_us, np.float32), search_us, clock, read_us],
        node, cause, directory_id,
    )  # fmt: skip
    if count is None:
        return None
    found = Touches(node[:count], cause[:count], directory_id[:count].view(np.uint64), np.zeros(count, np.float32))
    reads, at_us = concatenate([begun[0], found]), np.concatenate([at_us[:-1], read_us[:count], clock])
    if limit is None:
        return reads, at_us
    left = ~select_spared(reads.node, limited[2], limit, model.host.cache_keeps)
    return reads[left], np.concatenate([at_us[:1], at_us[1:-1][left], at_us[-1:]])


def _flat(column: NDArray[np.int32] | None) -> NDArray[np.int32]:
    return np.empty(0, np.int32) if column is None else np.ascontiguousarray(column, np.int32)


def metadata_reads(
    model: Model,
    passes: Sequence[tuple[Touches, NDArray[np.uint16]]],
    *,
    uncounted: int = 0,
) -> AccessTrace:
    """Apply the host's cache to touches of metadata."""
    made = requests(model)
    reads, thread, at_us = read_passes(model, made, passes, model.node_cache_bytes, uncounted)
    return request_reads(model, made, reads, at_us, thread)[0]


def read_passes(
    model: Model,
    made: Requests,
    passes: Sequence[tuple[Touches, NDArray[Any]]],  # the touches of each pass, and a value for each of them
    room: int | None,  # memory for nodes and pieces; None if all fit
    uncounted: int = 0,
    piece_bytes: NDArray[np.int64] | None = None,  # as in `read_limited`
) -> tuple[Touches, NDArray[Any], NDArray[np.float64]]:
    """Find the reads of the counted passes, the values of their touches, and the host's times as in `request_reads`."""
    needed, known = concatenate([touched for touched, _ in passes]), list_mount_cached_nodes(model)
    if room is None:
        reads, touch = read_pages_once(made, needed, model, known)
    else:
        reads, touch = read_limited(needed, model, known, room, piece_bytes)
    begin = sum(len(touched) for touched, _ in passes[:uncounted])
    counted = touch >= begin
    touch = touch[counted]
    values = passes[0][1] if len(passes) == 1 else np.concatenate([own for _, own in passes])
    return reads[counted], values[touch], clock_at(needed, touch, begin)


def read_for_visits(model: Model, visits: Visits) -> AccessTrace:
    """Apply the host's cache to a walk that runs once."""
    made = requests(model)
    reads, at_us = find_reads_natively(visits, model) or find_reads_laid_out(visits, model)
    if model.node_cache_bytes is not None:
        return request_reads(model, made, reads, at_us)[0]
    new = _lacking(made, reads.node, list_mount_cached_nodes(model))
    return request_reads(model, made, reads[new], np.concatenate([at_us[:1], at_us[1:-1][new], at_us[-1:]]))[0]


def read_pages_once(
    made: Requests, needed: Touches, model: Model, known: NDArray[np.int32]
) -> tuple[Touches, NDArray[np.int64]]:
    """Reduce touches as :func:`read_once` does; a page that several nodes share is read only with the first of them."""
    reads, touch = read_once(needed, model, len(made.unit))
    new = _lacking(made, reads.node, known)
    return reads[new], touch[new]


def _lacking(made: Requests, node: NDArray[np.int32], known: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the places of nodes that are neither cached at the start nor read earlier with another node."""
    fresh = np.ones(len(made.unit), bool)
    fresh[known] = False
    new = np.flatnonzero(fresh[node])
    if not made.are_shared:
        return new
    unit = made.unit[node[new]]
    first = np.sort(np.unique(unit, return_index=True)[1])
    return new[first[~np.isin(unit[first], made.unit[known])]]


def request_reads(
    model: Model,
    made: Requests,
    reads: Touches,
    # host time at the start, before each read, and at the end; all of it elapses, whether or not something is read
    at_us: NDArray[np.float64],
    thread: NDArray[np.uint16] | None = None,  # the thread of each read; None means the first thread
) -> tuple[AccessTrace, NDArray[np.int64]]:
    """Turn reads of nodes and file pieces into requests."""
    # Between two reads, the time of all touches that the cache served elapses, not only that of the next touch.
    place, source = made.of(made.unit[reads.node])
    node = np.minimum(reads.node, len(model.nodes))
    think_us = np.diff(at_us)[:-1] + np.where(node < len(model.nodes), model.costs.node_us, 0.0)
    begins = np.diff(source, prepend=-1) != 0
    result = AccessTrace(
        device=made.device[place],
        image_offset=made.image_offset[place],
        length_bytes=made.length_bytes[place],
        cause=reads.cause[source],
        tree=np.append(model.nodes.tree, np.uint8(len(model.nodes.trees)))[node[source]],
        directory_id=reads.directory_id[source],
        issuer=np.zeros(len(source), np.uint16) if thread is None else thread[source],
        think_us=np.where(begins, think_us[source], 0.0),
        causes=CAUSES,
        trees=(*model.nodes.trees, "data"),
        after_us=float(at_us[-1] - at_us[-2]),
    )
    return result, source


class Requests(Struct, frozen=True):
    """The requests that read each cache unit."""

    # cache unit of each node and of the pieces numbered after the nodes: nodes smaller than a page share a unit
    unit: NDArray[np.int64]
    start: NDArray[np.int64]  # first request of each unit
    device: NDArray[np.uint8]  # image of a Fusion set
    # image_offset, length_bytes: the requests
    image_offset: NDArray[np.int64]
    length_bytes: NDArray[np.int64]

    @property
    def are_shared(self) -> bool:
        """Whether several nodes share a unit."""
        return len(self.start) - 1 < len(self.unit)

    def of(self, units: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the requests of a sequence of units, and for each request the place of its unit in the sequence."""
        count = self.start[units + 1] - self.start[units]
        return ranges(self.start[units], count), np.repeat(np.arange(len(units)), count)

    def append_requests(self, pieces: Sequence[FixedPlaces]) -> Requests:
        """Number further requests (pieces of files) after the nodes, each as its own unit."""
        device, image_offset, length_bytes = join_places(pieces)
        own = np.arange(len(image_offset) + 1)
        return Requests(
            unit=np.concatenate([self.unit, len(self.start) - 1 + own[:-1]]),
            start=np.concatenate([self.start[:-1], len(self.image_offset) + own]),
            device=np.concatenate([self.device, device]),
            image_offset=np.concatenate([self.image_offset, image_offset]),
            length_bytes=np.concatenate([self.length_bytes, length_bytes]),
        )


def requests(model: Model) -> Requests:
    """Compute the requests of every node of a layout."""
    page_bytes = model.driver.page_bytes
    unit = _units(model.nodes, page_bytes)
    owner, device, offset, length = _join_adjacent(*_pieces(model.layout, model.nodes, unit, page_bytes))
    if model.host.node_read_bytes:
        owner, device, offset, length = _cut(owner, device, offset, length, model.host.node_read_bytes)
    start = np.searchsorted(owner, np.arange(int(unit.max(initial=-1)) + 2))
    return Requests(unit, start, device, offset, length)


def _units(nodes: NodeTable, page_bytes: int) -> NDArray[np.int64]:
    """Number the cache units; nodes in the same page of a file share one."""
    small = (nodes.size_bytes > 0) & (nodes.size_bytes < page_bytes)
    if not small.any():
        return np.arange(len(nodes))
    # Linux reads nodes through the page cache of the tree's file: nodes in one page are cached and evicted together.
    page = np.where(small, nodes.node_id * nodes.size_bytes // max(page_bytes, 1), nodes.node_id)
    keys = np.stack([nodes.tree.astype(np.int64), page], axis=1)
    return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _pieces(
    layout: VolumeLayout, nodes: NodeTable, unit: I64, page_bytes: int
) -> tuple[I64, NDArray[np.uint8], I64, I64]:
    """Return the pieces of every unit in the order of its bytes: unit, device, image_offset, length_bytes."""
    split = layout.columns("node_fragments")
    split_node = nodes.nodes_of(split["node_row"]).astype(np.int64)
    is_whole = nodes.image_offset >= 0
    is_whole[split_node] = False
    node = np.concatenate([np.flatnonzero(is_whole), split_node])
    device = np.concatenate([nodes.device[is_whole], split["device"].filled(0)])
    offset = np.concatenate([nodes.image_offset[is_whole], split["image_offset"].data])
    length = np.concatenate([nodes.size_bytes[is_whole], split["length_bytes"].data])
    order = np.argsort(node, kind="stable")
    if page_bytes:
        order = order[np.lexsort((nodes.node_id[node[order]], unit[node[order]]))]
    return unit[node[order]], device[order], offset[order], length[order]


def _join_adjacent(
    owner: I64, device: NDArray[np.uint8], offset: I64, length: I64
) -> tuple[I64, NDArray[np.uint8], I64, I64]:
    """Join pieces of one unit that are adjacent on the drive."""
    begins = is_head(owner, device)
    begins[1:] |= offset[1:] != offset[:-1] + length[:-1]
    first = np.flatnonzero(begins)
    lengths = np.add.reduceat(length, first) if len(first) else length
    return owner[first], device[first], offset[first], lengths


def _cut(
    owner: NDArray[np.int64],
    device: NDArray[np.uint8],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    largest: int,
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Cut pieces where the bytes of their unit cross a multiple of `largest`."""
    total = starts_of(length)
    first = np.searchsorted(owner, owner)
    # The page cache counts pages from the start of the node or file, not from an address on the drive.
    at = total - total[first]
    count = (at + length - 1) // largest - at // largest + 1
    source = np.repeat(np.arange(len(owner)), count)
    chunk = at[source] // largest + np.arange(len(source)) - starts_of(count)[source]
    begin = np.maximum(chunk * largest, at[source])
    end = np.minimum((chunk + 1) * largest, (at + length)[source])
    return owner[source], device[source], offset[source] + begin - at[source], end - begin


def mount(model: Model) -> AccessTrace:
    """Make the reads of a mount with nothing cached, including those that precede it on a newly attached disk.

    Nodes are read once, and fixed places as often as they are listed.
    """
    steps = list(model.driver.mount(model.layout, model.nodes, model.entries))
    if model.host.partition_scan_bytes:
        steps.insert(0, make_fixed_place("partition-scan", 0, model.host.partition_scan_bytes))
    pieces = [step for step in steps if isinstance(step, FixedPlaces)]
    first = len(model.nodes)
    needed: list[Touches] = []
    for step in steps:
        if isinstance(step, FixedPlaces):
            node = np.arange(first, first + len(step), dtype=np.int32)
            first += len(step)
            needed.append(touches(node, "structure", np.zeros(len(step), np.uint64)))
        else:
            node, cause = step
            needed.append(touches(node, cause, np.zeros(len(node), np.uint64), model.costs.search_us))
    return read_places(model, concatenate(needed), pieces, np.empty(0, np.int32))


def read_places(model: Model, needed: Touches, pieces: Sequence[FixedPlaces], known: NDArray[np.int32]) -> AccessTrace:
    """Make the reads of nodes and of fixed places, which are numbered after the nodes; each is read once."""
    made = requests(model).append_requests(pieces)
    reads, touch = read_pages_once(made, needed, model, known)
    trace, source = request_reads(model, made, reads, clock_at(needed, touch))
    # The column of trees records what is stored at each fixed place.
    kinds = list(dict.fromkeys(each.kind for each in pieces))
    names = [*trace.trees, *(kind for kind in kinds if kind not in trace.trees)]
    codes = np.repeat([names.index(each.kind) for each in pieces], [len(each) for each in pieces]).astype(np.uint8)
    place, tree = reads.node[source] - len(model.nodes), trace.tree.copy()
    tree[place >= 0] = codes[place[place >= 0]]
    return replace(trace, tree=tree, trees=tuple(names))


def fsck(model: Model) -> AccessTrace:
    """Make the reads of the vendor's checker, which has its own cache."""
    pieces = model.driver.check(model.layout, model.nodes, model.entries)
    kinds = tuple(dict.fromkeys(each.kind for each in pieces))
    device, offset, length_bytes = join_places(pieces)
    return replace(
        AccessTrace.from_reads(offset, length_bytes, think_us=model.costs.node_us),
        device=device,
        cause=np.full(len(offset), CODE["check"], np.uint8),
        tree=np.repeat([kinds.index(each.kind) for each in pieces], [len(each) for each in pieces]).astype(np.uint8),
        causes=CAUSES,
        trees=kinds,
    )


def join_places(pieces: Sequence[FixedPlaces]) -> tuple[NDArray[np.uint8], I64, I64]:
    """Return image, offset and length of all places in sequence."""
    none = np.empty(0, np.int64)
    device = np.concatenate([none, *(each.device for each in pieces)]).astype(np.uint8)
    offset = np.concatenate([none, *(each.image_offset for each in pieces)]).astype(np.int64)
    return device, offset, np.concatenate([none, *(each.length_bytes for each in pieces)]).astype(np.int64)


def leaves(model: Model) -> Touches:
    """Touch every leaf of the main tree in key order, as ``searchfs`` presumably does unless it scans by number."""
    ordered = model.nodes.leaves(model.main_tree_code).astype(np.int32)
    cause = np.full(len(ordered), CODE["next"], np.uint8)
    cause[:1] = CODE["scan"]
    return touches(ordered, cause, np.zeros(len(ordered), np.uint64))


def all_nodes(model: Model) -> AccessTrace:
    """Read the catalog in the order of node numbers, several adjacent nodes at once.

    Apple's ``BTScanNextRecord`` does this and ignores the links between nodes.
    """
    made = requests(model)
    node = np.flatnonzero(model.nodes.tree == model.main_tree_code)
    node = node[np.argsort(model.nodes.node_id[node], kind="stable")]
    units = made.unit[node]
    place, _ = made.of(units[np.sort(np.unique(units, return_index=True)[1])])
    offset, length = made.image_offset[place], made.length_bytes[place]
    # Adjacent requests are joined up to the size of the scanner's reads.
    begins = np.ones(len(offset), bool)
    begins[1:] = offset[1:] != offset[:-1] + length[:-1]
    run = np.cumsum(begins) - 1
    chunk = (offset - offset[begins][run] if len(offset) else offset) // model.host.scan_read_bytes
    begins[1:] |= (chunk[1:] != chunk[:-1]) & (run[1:] == run[:-1])
    first = np.flatnonzero(begins)
    length_bytes = np.add.reduceat(length, first) if len(first) else np.empty(0, np.int64)
    nodes_each = length_bytes / model.nodes.size_bytes[node].max(initial=1)
    return replace(
        AccessTrace.from_reads(offset[first], length_bytes),
        device=made.device[place][first],
        cause=np.full(len(first), CODE["scan"], np.uint8),
        tree=np.full(len(first), max(model.main_tree_code, 0), np.uint8),
        think_us=model.costs.node_us * nodes_each,
        causes=CAUSES,
        trees=(*model.nodes.trees, "data"),
    )
