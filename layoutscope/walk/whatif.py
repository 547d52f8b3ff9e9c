"""Layouts with nodes in other places, to compute the cost of the same walk on them.

Addresses change and contents do not: only walks read a changed layout. A layout that would not change is returned as
it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.access.trace import place_of
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.structs.arrays import distinct, starts_of
from layoutscope.tables import LIVE_STATES, Values
from layoutscope.tables.columns import are_walked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.structs.arrays import I64, Mask
    from layoutscope.tables import Table, VolumeLayout


def walked_trees(layout: VolumeLayout) -> tuple[str, ...]:
    """Return the trees that enumerations read: names and inodes, attributes, and their maps."""
    present = layout.columns("nodes")["tree"].numbered()[1]
    return tuple(name for name in filesystem_of(layout).traits.walked_trees if name in present)


def _list_walked_maps(layout: VolumeLayout) -> list[str]:
    """Return the walked trees that map the addresses of the others."""
    return [tree.name for tree in filesystem_of(layout).traits.trees if tree.is_walked and tree.role == "map"]


def pack_nodes(layout: VolumeLayout) -> VolumeLayout:
    """Place index nodes from the root down, then maps, then leaves in key order, end to end."""
    places = _walked_rows(layout)
    moved = layout.columns("nodes").take(places)
    tree, level = moved["tree"], moved["level"].signed()
    is_leaf = (level == 0) & tree.equals(filesystem_of(layout).traits.main_tree)
    codes, words = tree.numbered()
    spelled = np.argsort(np.argsort(np.array(words, np.str_)))[codes] if words else codes
    keys = (moved["key_rank"].signed(), -level, spelled, tree.is_in(_list_walked_maps(layout)), is_leaf)
    return _lay_end_to_end(layout, places[np.lexsort(keys)])


def clump_nodes(layout: VolumeLayout) -> VolumeLayout:
    """Place the same nodes in the same order without the data between them, separately on each device of a set."""
    places = _walked_rows(layout)
    ordered = places[_order_by_address(layout.columns("nodes").take(places))]
    return _lay_end_to_end(layout, ordered, keeps_device=True)


def lay_in_read_order(layout: VolumeLayout, reads: AccessTrace) -> VolumeLayout:
    """Lay nodes end to end in the order of their first reads; nodes that are not read follow."""
    places = _walked_rows(layout)
    moved = layout.columns("nodes").take(places)
    offset = moved["image_offset"].signed()
    turn = first_reads(reads, moved["device"].filled(0), offset)
    return _lay_end_to_end(layout, places[np.lexsort((offset, turn))])


def first_reads(reads: AccessTrace, device: NDArray[np.uint8], image_offset: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number of the read that first touches each node, or the number of reads if none does."""
    place = place_of(device, image_offset)
    order = np.argsort(place, kind="stable")
    begin = place_of(reads.device, reads.image_offset)
    # A read may begin within a node (the previous one in order) and extend over several nodes.
    first = np.maximum(np.searchsorted(place[order], begin, side="right") - 1, 0)
    stop = np.maximum(np.searchsorted(place[order], begin + reads.length_bytes, side="left"), first + 1)
    turn = np.full(len(place), len(reads), np.int64)
    for step in range(int((stop - first).max(initial=0))):
        going_on = np.flatnonzero(first + step < np.minimum(stop, len(place)))
        np.minimum.at(turn, order[first[going_on] + step], going_on)
    return turn


def _walked_rows(layout: VolumeLayout) -> I64:
    """Return the places, in the table of nodes, of the nodes that enumerations read."""
    nodes = layout.columns("nodes")
    is_walked = nodes["state"].is_in(LIVE_STATES) & nodes["tree"].is_in(walked_trees(layout))
    return np.flatnonzero(nodes["level"].is_known & is_walked & are_walked(nodes))


def _order_by_address(nodes: Table) -> I64:
    return np.lexsort((nodes["image_offset"].signed(), nodes["device"].filled(0)))


def _lay_end_to_end(
    layout: VolumeLayout,
    places: I64,  # places of the nodes in the table
    *,
    keeps_device: bool = False,  # whether each node stays on its device; if not, all are on that of the first
) -> VolumeLayout:
    """Lay nodes end to end from the current address of the first of them."""
    nodes, fragments = layout.columns("nodes"), layout.columns("node_fragments")
    maps_every_node = filesystem_of(layout).traits.maps_every_node
    before, device = nodes["image_offset"].signed(), nodes["device"].filled(0).copy()
    offset = before.copy()
    if len(places) and not keeps_device:
        device[places] = device[places[_order_by_address(nodes.take(places))[0]]]
    own_device = nodes["device"].filled(0)
    for each in distinct(device[places]):
        mine = places[device[places] == each]
        first = before[mine][own_device[mine] == each].min()
        offset[mine] = first + starts_of(nodes["size_bytes"].data[mine])
    are_located = nodes["locator_row"].is_known.any() and not maps_every_node
    if np.array_equal(offset, before) and not len(fragments) and not are_located:
        return layout
    moved = nodes.changed("image_offset", Values(offset, offset >= 0)).changed("device", Values(device))
    if not maps_every_node:
        # Laid end to end, a tree is within the first extents of its file.
        moved = moved.changed("locator_row", Values(np.zeros(len(nodes), np.uint32), np.zeros(len(nodes), np.bool_)))
    kept = fragments.take(~np.isin(fragments["node_row"].data, nodes["row"].data[places]))
    return layout.changed(nodes=moved, node_fragments=kept)


def drop_snapshot_nodes(layout: VolumeLayout) -> VolumeLayout:
    """Drop nodes that only snapshots use; neighbouring map leaves merge up to the capacity of the fullest one."""
    nodes = layout.columns("nodes")
    live = nodes.take(nodes["state"].is_in(LIVE_STATES))
    if len(live) == len(nodes):
        return layout
    if not filesystem_of(layout).traits.maps_every_node:
        return layout.changed(nodes=live)
    leaves = live.take(live["tree"].is_in(_list_walked_maps(layout)) & _is_leaf(live))
    leaves = leaves.take(np.argsort(leaves["key_rank"].signed(), kind="stable"))
    rows, locator = leaves["row"].data, live["locator_row"]
    needed = np.bincount(locator.present(), minlength=int(rows.max(initial=0)) + 1)
    target = _merge_leaves(needed[rows], int(leaves["num_records"].filled(0).max(initial=0)) or 1)
    merged = np.arange(max(len(needed), int(locator.filled(0).max(initial=0)) + 1), dtype=np.uint32)
    merged[rows] = rows[target]
    replaced = live.changed("locator_row", Values(merged[locator.filled(0)], locator.known))
    return layout.changed(nodes=replaced)


def _is_leaf(nodes: Table) -> Mask:
    found: Mask = nodes["level"].signed() == 0
    return found


def _merge_leaves(counts: NDArray[np.int64], capacity: int) -> NDArray[np.int64]:
    """Return the leaf that gets each leaf's records when neighbours are merged up to a capacity."""
    target = np.zeros(len(counts), np.int64)
    head, held = 0, 0
    for place, count in enumerate(counts.tolist()):
        if held + count > capacity:
            head, held = place, 0
        held += count
        target[place] = head
    return target
