"""What-ifs: named changes of a layout or a host, to ask what the same walk would cost then.

Each changes one thing. Addresses change, contents do not: nobody reads a changed layout but the walks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from layoutscope.access.trace import place_of
from layoutscope.display import Struct
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.structs.arrays import starts_of
from layoutscope.tables import LIVE_STATES, Values
from layoutscope.tables.columns import are_walked
from layoutscope.walk.host import host_profile
from layoutscope.walk.orders import trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.access.driver import HostProfile
    from layoutscope.access.trace import AccessTrace
    from layoutscope.structs.arrays import I64, Mask
    from layoutscope.tables import Table, VolumeLayout


class WhatIf(Struct, frozen=True):
    """A changed case."""

    name: str  # key of `WHAT_IFS`
    because: str  # what is different, as a sentence's end
    layout: VolumeLayout  # the layout, changed or not
    host: HostProfile  # the host, changed or not
    # where the image lies on the drive in this case; None to leave it where it is
    start_offset_bytes: int | None = None
    reads: AccessTrace | None = None  # what the work reads, as the volume is; the reads of `fts` without


def what_if(
    name: str, layout: VolumeLayout, host: str | HostProfile = "linux", reads: AccessTrace | None = None
) -> WhatIf:
    """Change one thing of a case."""
    known = WHAT_IFS[name]
    return known.change(WhatIf(name, known.because, layout, host_profile(host), reads=reads))


def walked_trees(layout: VolumeLayout) -> tuple[str, ...]:
    """Return the trees that enumerations read: names and inodes, attributes, and what maps them."""
    present = layout.columns("nodes")["tree"].numbered()[1]
    return tuple(name for name in filesystem_of(layout).traits.walked_trees if name in present)


def _list_walked_maps(layout: VolumeLayout) -> list[str]:
    """Return those of them that tell where nodes of the others lie."""
    return [tree.name for tree in filesystem_of(layout).traits.trees if tree.is_walked and tree.role == "map"]


def _pack_nodes(case: WhatIf) -> WhatIf:
    """Index nodes from the root down, then maps, then leaves in key order, one behind the other."""
    places = _walked_places(case.layout)
    moved = case.layout.columns("nodes").take(places)
    tree, level = moved["tree"], moved["level"].signed()
    is_leaf = (level == 0) & tree.equals(filesystem_of(case.layout).traits.main_tree)
    codes, words = tree.numbered()
    spelled = np.argsort(np.argsort(np.array(words, np.str_)))[codes] if words else codes
    keys = (moved["key_rank"].signed(), -level, spelled, tree.is_in(_list_walked_maps(case.layout)), is_leaf)
    return _lay_end_to_end(case, places[np.lexsort(keys)])


def _clump_nodes(case: WhatIf) -> WhatIf:
    """The same nodes in the same order on disk, without the data between them."""
    places = _walked_places(case.layout)
    return _lay_end_to_end(case, places[_order_by_address(case.layout.columns("nodes").take(places))])


def _walk_order(case: WhatIf) -> WhatIf:
    """In the order in which the work reads them first; what it does not read, behind."""
    reads = trace(case.layout, host=case.host) if case.reads is None else case.reads
    places = _walked_places(case.layout)
    moved = case.layout.columns("nodes").take(places)
    offset = moved["image_offset"].signed()
    turn = first_reads(reads, moved["device"].filled(0), offset)
    return _lay_end_to_end(case, places[np.lexsort((offset, turn))])


def first_reads(reads: AccessTrace, device: NDArray[np.uint8], image_offset: NDArray[Any]) -> NDArray[np.int64]:
    """Return by which read each node is touched first; as many as there are reads where it is not."""
    place = place_of(device, image_offset)
    order = np.argsort(place, kind="stable")
    begin = place_of(reads.device, reads.image_offset)
    # A read may begin within a node, which is the one before, and go on through several.
    first = np.maximum(np.searchsorted(place[order], begin, side="right") - 1, 0)
    stop = np.maximum(np.searchsorted(place[order], begin + reads.length_bytes, side="left"), first + 1)
    turn = np.full(len(place), len(reads), np.int64)
    for step in range(int((stop - first).max(initial=0))):
        going_on = np.flatnonzero(first + step < np.minimum(stop, len(place)))
        np.minimum.at(turn, order[first[going_on] + step], going_on)
    return turn


def _walked_places(layout: VolumeLayout) -> I64:
    """Places of the nodes that enumerations read, in the table of nodes."""
    nodes = layout.columns("nodes")
    is_walked = nodes["state"].is_in(LIVE_STATES) & nodes["tree"].is_in(walked_trees(layout))
    return np.flatnonzero(nodes["level"].is_known & is_walked & are_walked(nodes))


def _order_by_address(nodes: Table) -> I64:
    return np.lexsort((nodes["image_offset"].signed(), nodes["device"].filled(0)))


def _lay_end_to_end(case: WhatIf, places: I64) -> WhatIf:
    """Lay nodes, given by their places in the table, end to end from where the first of them lies now."""
    nodes, fragments = case.layout.columns("nodes"), case.layout.columns("node_fragments")
    before, device = nodes["image_offset"].signed(), nodes["device"].filled(0).copy()
    offset = before.copy()
    if len(places):
        order = nodes.take(places)
        first = places[_order_by_address(order)[0]]
        offset[places] = before[first] + starts_of(order["size_bytes"].data)
        device[places] = device[first]
    are_located = nodes["locator_row"].is_known.any() and not filesystem_of(case.layout).traits.maps_every_node
    if np.array_equal(offset, before) and not len(fragments) and not are_located:
        return case
    moved = nodes.changed("image_offset", Values(offset, offset >= 0)).changed("device", Values(device))
    if not filesystem_of(case.layout).traits.maps_every_node:
        # Laid end to end, a tree lies within the first extents of its file.
        moved = moved.changed("locator_row", Values(np.zeros(len(nodes), np.uint32), np.zeros(len(nodes), np.bool_)))
    kept = fragments.take(~np.isin(fragments["node_row"].data, nodes["row"].data[places]))
    return replace(case, layout=case.layout.changed(nodes=moved, node_fragments=kept))


def _outer_zone(case: WhatIf) -> WhatIf:
    return replace(case, start_offset_bytes=-case.layout.facts.image_offset)


def _double_cache(case: WhatIf) -> WhatIf:
    held = case.host.cache_bytes
    return case if held is None else replace(case, host=host_profile(case.host, cache_bytes=2 * held))


def _no_snapshots(case: WhatIf) -> WhatIf:
    """Drop what only snapshots hold; neighbouring map leaves merge as far as the fullest one goes."""
    nodes = case.layout.columns("nodes")
    live = nodes.take(nodes["state"].is_in(LIVE_STATES))
    if len(live) == len(nodes):
        return case
    if not filesystem_of(case.layout).traits.maps_every_node:
        return replace(case, layout=case.layout.changed(nodes=live))
    leaves = live.take(live["tree"].is_in(_list_walked_maps(case.layout)) & _is_leaf(live))
    leaves = leaves.take(np.argsort(leaves["key_rank"].signed(), kind="stable"))
    rows, locator = leaves["row"].data, live["locator_row"]
    needed = np.bincount(locator.present(), minlength=int(rows.max(initial=0)) + 1)
    target = _merge_leaves(needed[rows], int(leaves["num_records"].filled(0).max(initial=0)) or 1)
    merged = np.arange(max(len(needed), int(locator.filled(0).max(initial=0)) + 1), dtype=np.uint32)
    merged[rows] = rows[target]
    replaced = live.changed("locator_row", Values(merged[locator.filled(0)], locator.known))
    return replace(case, layout=case.layout.changed(nodes=replaced))


def _is_leaf(nodes: Table) -> Mask:
    found: Mask = nodes["level"].signed() == 0
    return found


def _merge_leaves(counts: NDArray[np.int64], capacity: int) -> NDArray[np.int64]:
    """Leaf that takes each leaf's records when neighbours are merged up to a capacity."""
    target = np.zeros(len(counts), np.int64)
    head, held = 0, 0
    for place, count in enumerate(counts.tolist()):
        if held + count > capacity:
            head, held = place, 0
        held += count
        target[place] = head
    return target


class Change(NamedTuple):
    """A what-if as it is known."""

    # changes a case; returns the same layout and host where there is nothing to change
    change: Callable[[WhatIf], WhatIf]
    because: str  # what is different then, as a sentence's end
    unless: str  # why it does not apply where nothing changes, likewise


WHAT_IFS: Final = {
    "packed": Change(
        _pack_nodes,
        "the same nodes lie one behind the other in key order",
        "the nodes lie one behind the other in key order already",
    ),
    "walk-order": Change(
        _walk_order,
        "the same nodes lie one behind the other in the order in which they are read",
        "the nodes lie in that order already",
    ),
    "clumped-like-hfs": Change(
        _clump_nodes,
        "the nodes keep their order on disk, but no data lie between them",
        "no data lie between the nodes",
    ),
    "outer-zone": Change(
        _outer_zone, "the volume begins at the outer edge of the drive", "the volume begins there already"
    ),
    "no-snapshots": Change(
        _no_snapshots,
        "nodes that only snapshots hold are gone, and the object map is merged",
        "no node is held by snapshots alone",
    ),
    "double-cache": Change(
        _double_cache, "twice as much metadata fits into memory", "the memory for metadata is unlimited"
    ),
}
"""What-ifs by their names."""

LAYOUTS: Final = ("packed", "walk-order", "clumped-like-hfs")
"""Those that lay out the nodes anew: the best of them, the layout as it is among them, is as near to a bound as is
known."""
