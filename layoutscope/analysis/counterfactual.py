"""A walk with one thing changed: its reads if nodes lay elsewhere, came in another order, or were not needed.

Input: the reads of a walk and the tables of the volume. Each change is made to the reads that there are, not by another
walk, so that all of them together cost little beside one: the order in which a changed walk comes to its nodes is that
of the walk as it is. Service times of long walks are those of stretches spread over them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from layoutscope.access.entries import node_table
from layoutscope.access.trace import place_of
from layoutscope.display import Struct
from layoutscope.drive import service
from layoutscope.drive.simulation import is_sampled, sampled
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.results.verdict import Why
from layoutscope.structs.arrays import distinct, first_places, heads, order_of, starts_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.access.entries import NodeTable
    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import DriveProfile
    from layoutscope.tables import VolumeLayout

    I64 = NDArray[np.int64]
    Mask = NDArray[np.bool_]

SMALLEST_READ: Final = 4096
PAGES: Final = 16
"""Pages of the largest nodes, of 64 KiB."""

DEEPEST: Final = 16
"""Levels of trees, maps included, that are followed upwards; sound ones have fewer."""

NEEDED_FOR_NAMES: Final = ("entry_node_row", "listing_node_row", "listing_end_node_row")
"""Columns of entries with the leaves that listing their names needs."""


class ReadsOfNodes(Struct, frozen=True):
    """The reads of a walk, and the node that each of them reads."""

    layout: VolumeLayout  # the volume
    trace: AccessTrace  # the reads
    nodes: NodeTable
    node: I64  # node that each read lies in, -1 where it lies in none
    within: I64  # byte of that node at which the read starts
    used: I64  # nodes that are read, in the order in which they lie on the disk
    by_place: I64  # reads in the order in which they lie there

    def of_node(self, values: NDArray[np.generic], missing: int) -> I64:
        """Return a value of the node of each read, and another one where there is no node."""
        found = values[np.maximum(self.node, 0)].astype(np.int64)
        return np.where(self.node >= 0, found, missing)

    def moved(self, offset: I64) -> AccessTrace:
        """Return the reads of the same nodes at other places, shape (n_nodes,)."""
        to = np.where(self.node >= 0, self.of_node(offset, 0) + self.within, self.trace.image_offset)
        return replace(self.trace, image_offset=to)


def walked(layout: VolumeLayout, trace: AccessTrace) -> ReadsOfNodes:
    """Find the node of each read."""
    nodes = node_table(layout)
    pieces = _pieces(layout, nodes)
    at = place_of(trace.device, trace.image_offset)
    by_place = order_of(at)
    node, within = np.full(len(trace), -1), np.zeros(len(trace), np.int64)
    if len(pieces.key):
        # Sorted keys are found many times quicker than those that jump about.
        at = at[by_place]
        found = np.maximum(np.searchsorted(pieces.key, at, side="right") - 1, 0)
        into = at - pieces.key[found]
        node[by_place] = np.where((into >= 0) & (into < pieces.length[found]), pieces.owner[found], -1)
        within[by_place] = pieces.before[found] + into
    is_used = np.zeros(len(nodes) + 1, bool)
    is_used[node] = True
    order = order_of(place_of(nodes.device, nodes.image_offset))
    return ReadsOfNodes(layout, trace, nodes, node, within, order[is_used[order]], by_place)


class _Pieces(NamedTuple):
    """Where nodes lie, in one piece or several, by place; arrays of one length."""

    key: I64
    length: I64
    owner: I64
    before: I64
    """Bytes of the node in the pieces before this one."""


def _pieces(layout: VolumeLayout, nodes: NodeTable) -> _Pieces:
    own, fragments = np.flatnonzero(nodes.level >= 0), layout.columns("node_fragments")
    key, length = place_of(nodes.device, nodes.image_offset)[own], nodes.size_bytes[own]
    before = np.zeros(len(own), np.int64)
    if len(fragments):
        # Pieces of a node stand together, in its order.
        owner = nodes.nodes_of(fragments["node_row"]).astype(np.int64)
        held = fragments["length_bytes"].data.astype(np.int64)
        head = heads(owner)
        ahead = np.cumsum(held) - held
        ahead -= np.repeat(ahead[head], np.diff(head, append=len(owner)))
        place = place_of(fragments["device"].filled(0), fragments["image_offset"].signed())
        whole, of_tree = ~np.isin(own, owner), np.isin(owner, own)
        columns = ((key, place), (length, held), (own, owner), (before, ahead))
        key, length, own, before = (np.concatenate([one[whole], other[of_tree]]) for one, other in columns)
    order = order_of(key)
    return _Pieces(key[order], length[order], own[order], before[order])


def by_address(reads: ReadsOfNodes) -> AccessTrace:
    """The same reads in the order in which they lie on the disk."""
    return reads.trace[reads.by_place]


def close_together(reads: ReadsOfNodes) -> AccessTrace:
    """The same reads, with nothing between the nodes that are read; their order on disk stays."""
    return reads.moved(_laid_out(reads.nodes, reads.used))


def _laid_out(nodes: NodeTable, order: I64) -> I64:
    """Lay nodes end to end from where the first of them lies now, on each device of a set its own."""
    offset = nodes.image_offset.copy()
    for device in distinct(nodes.device[order]):
        own = order[nodes.device[order] == device]
        offset[own] = offset[own].min() + starts_of(nodes.size_bytes[own])
    return offset


def without_maps(reads: ReadsOfNodes) -> AccessTrace:
    """The reads that are left if every node's place were known."""
    return reads.trace[~_is_map_read(reads)]


def _is_map_read(reads: ReadsOfNodes) -> Mask:
    return np.isin(reads.of_node(reads.nodes.tree, -1), _maps(reads))


def _maps(reads: ReadsOfNodes) -> list[int]:
    trees = filesystem_of(reads.layout).traits.trees
    codes = [reads.nodes.tree_code(tree.name) for tree in trees if tree.role == "map"]
    return [code for code in codes if code >= 0]


def _main(reads: ReadsOfNodes) -> int:
    return reads.nodes.tree_code(filesystem_of(reads.layout).traits.main_tree)


def in_whole_nodes(reads: ReadsOfNodes) -> AccessTrace:
    """The same bytes, each node in one request instead of page by page."""
    # Linux reads a node of 8 KiB as two pages of 4 KiB, one request after the other; Apple's drivers read it whole.
    trace, node = reads.trace, reads.node
    goes_on = np.zeros(len(trace), bool)
    end = trace.image_offset + trace.length_bytes
    goes_on[1:] = (node[1:] == node[:-1]) & (node[1:] >= 0) & (trace.image_offset[1:] == end[:-1])
    first = np.flatnonzero(~goes_on)
    if len(first) in (0, len(trace)):
        return trace
    joined = trace[first]
    return replace(
        joined,
        length_bytes=np.add.reduceat(trace.length_bytes, first),
        think_us=np.add.reduceat(trace.think_us, first),
    )


def in_full_leaves(reads: ReadsOfNodes) -> AccessTrace:
    """The reads that are left if neighbouring leaves were merged as far as their records fit into one."""
    nodes = reads.nodes
    main = nodes.leaves(_main(reads))
    table = reads.layout.columns("nodes")
    used, free = (table[name].filled(0)[main].astype(np.int64) for name in ("used_bytes", "free_bytes"))
    room = int((used + free).max(initial=0))
    if not room:
        return reads.trace
    merged = np.arange(len(nodes), dtype=np.int64)
    # As if every leaf were filled to the last byte: whole records leave gaps, so no real tree gets as far.
    group = (np.cumsum(used) - 1) // room
    # The leaf that is kept of each group is its first.
    merged[main] = main[np.searchsorted(group, group)]
    after = np.where(reads.node >= 0, merged[np.maximum(reads.node, 0)], -1)
    # A node of several pages is read page by page, and each page is read once.
    page = reads.within // SMALLEST_READ % PAGES
    first = first_places(np.where(after >= 0, after * PAGES + page, len(nodes) * PAGES), len(nodes) * PAGES + 1)
    kept = after < 0
    kept[first] = True
    return reads.trace[kept]


def names_only(reads: ReadsOfNodes) -> AccessTrace:
    """The reads that are left if only directories are stat'ed: leaves with names or their inodes, what leads there."""
    nodes, entries = reads.nodes, reads.layout.columns("entries")
    # A listing tells types (d_type), so only directories are stat'ed, to see whether they were entered already. Who
    # lists backwards sees the end of a directory in the leaf before its first record.
    columns = [entries[name] for name in NEEDED_FOR_NAMES]
    columns.append(entries["inode_node_row"].take(entries["kind"].equals("directory")))
    # Entries of a directory stand together, and so do their leaves.
    keys = [(column.data,) if column.known is None else (column.data, column.known) for column in columns]
    wanted = [nodes.nodes_of(column.take(heads(*key))) for column, key in zip(columns, keys, strict=True)]
    return needed_alone(reads, np.concatenate(wanted))


def needed_alone(
    reads: ReadsOfNodes,
    wanted: NDArray[np.int32],  # the nodes, -1 for none
) -> AccessTrace:
    """Return the reads that are left if only some nodes are needed, and what leads to them."""
    nodes = reads.nodes
    needed = np.zeros(len(nodes) + 1, bool)
    needed[wanted] = True
    for _ in range(DEEPEST):
        rows = np.flatnonzero(needed[:-1])
        above = np.concatenate([nodes.parent[rows], nodes.mapper[rows]])
        if needed[above].all():
            break
        needed[above] = True
    needed[-1] = True
    return reads.trace[needed[reads.node]]


CAUSES: Final[dict[Why, Callable[[ReadsOfNodes], AccessTrace]]] = {
    Why.STAT: names_only,
    Why.ORDER: by_address,
    Why.DISTANCE: close_together,
    Why.MAPS: without_maps,
    Why.FILL: in_full_leaves,
    Why.REQUESTS: in_whole_nodes,
}
"""What a walk may take long for, and the reads of one where it is not so."""


def seconds_of(trace: AccessTrace, profile: DriveProfile) -> float:
    """Serve reads on a drive, of long traces on a disk the stretches of :func:`~layoutscope.drive.simulation.sampled`.

    >>> from layoutscope.access.trace import AccessTrace
    >>> from layoutscope.drive import load_profile
    >>> reads = AccessTrace.from_reads(np.arange(100_000) * 4096, np.full(100_000, 4096))
    >>> round(seconds_of(reads, load_profile("sata-ssd")) / service(reads, load_profile("sata-ssd")).seconds, 3)
    1.0
    """
    if not is_sampled(trace, profile):
        return service(trace, profile, phases=1).seconds
    part = sampled(trace)
    return service(part, profile, phases=1).seconds * len(trace) / len(part)
