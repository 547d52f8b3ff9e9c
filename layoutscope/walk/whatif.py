"""What-ifs: named changes of a layout or a host, to ask what the same walk would cost then.

Each changes one thing. Addresses change, contents do not: nobody reads a changed layout but the walks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.arrays.ragged import starts_of
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.frames import pl
from layoutscope.frozen import frozen
from layoutscope.tables import LIVE_STATES
from layoutscope.walk.host import host_profile
from layoutscope.walk.orders import trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.access.host import HostProfile
    from layoutscope.access.trace import AccessTrace
    from layoutscope.tables import VolumeLayout


@frozen
class WhatIf:
    """A changed case.

    Attributes
    ----------
    name : str
        Key of :data:`WHAT_IFS`.
    because : str
        What is different, as a sentence's end.
    layout : VolumeLayout
        The layout, changed or not.
    host : HostProfile
        The host, changed or not.
    start_offset_bytes : int or None
        Where the image lies on the drive in this case; None to leave it where it is.
    reads : AccessTrace or None
        What the work reads, as the volume is; the reads of ``fts`` without.
    """

    name: str
    because: str
    layout: VolumeLayout
    host: HostProfile
    start_offset_bytes: int | None = None
    reads: AccessTrace | None = None


def what_if(
    name: str, layout: VolumeLayout, host: str | HostProfile = "linux", reads: AccessTrace | None = None
) -> WhatIf:
    """Change one thing of a case.

    Parameters
    ----------
    name : str
        Key of :data:`WHAT_IFS`.
    layout : VolumeLayout
        The volume as it is.
    host : str or HostProfile
        The host as it is.
    reads : AccessTrace, optional
        What the work reads, as the volume is; the reads of ``fts`` without.

    Raises
    ------
    KeyError
        If there is no such what-if.
    """
    known = WHAT_IFS[name]
    return known.change(WhatIf(name, known.because, layout, host_profile(host), reads=reads))


def walked_trees(layout: VolumeLayout) -> tuple[str, ...]:
    """Return the trees that enumerations read: names and inodes, attributes, and what maps them."""
    present = set(layout.nodes["tree"].cast(pl.String).unique().to_list())
    return tuple(name for name in filesystem_of(layout).traits.walked_trees if name in present)


def _walked_maps(layout: VolumeLayout) -> list[str]:
    """Return those of them that tell where nodes of the others lie."""
    return [tree.name for tree in filesystem_of(layout).traits.trees if tree.is_walked and tree.role == "map"]


def _packed(case: WhatIf) -> WhatIf:
    """Index nodes from the root down, then maps, then leaves in key order, one behind the other."""
    nodes = case.layout.nodes.with_row_index("place")
    moved = _walked(case.layout, nodes)
    is_leaf = (pl.col("level") == 0) & (pl.col("tree").cast(pl.String) == filesystem_of(case.layout).traits.main_tree)
    order = moved.sort(
        is_leaf,
        pl.col("tree").cast(pl.String).is_in(_walked_maps(case.layout)),
        pl.col("tree").cast(pl.String),
        -pl.col("level").cast(pl.Int16),
        "key_rank",
        maintain_order=True,
    )
    return _laid_out(case, order)


def _clumped(case: WhatIf) -> WhatIf:
    """The same nodes in the same order on disk, without the data between them."""
    nodes = case.layout.nodes.with_row_index("place")
    return _laid_out(case, _walked(case.layout, nodes).sort("device", "image_offset"))


def _walk_order(case: WhatIf) -> WhatIf:
    """In the order in which the work reads them first; what it does not read, behind."""
    reads = trace(case.layout, host=case.host) if case.reads is None else case.reads
    nodes = case.layout.nodes.with_row_index("place")
    moved = _walked(case.layout, nodes)
    turn = first_reads(reads, moved["device"].fill_null(0).to_numpy(), moved["image_offset"].to_numpy())
    return _laid_out(case, moved.with_columns(turn=turn).sort("turn", "image_offset"))


def first_reads(reads: AccessTrace, device: NDArray[np.uint8], image_offset: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return by which read each node is touched first; as many as there are reads where it is not.

    Parameters
    ----------
    reads : AccessTrace
        Of whole nodes, of their pages, or of several nodes at once.
    device, image_offset : (n_nodes,) arrays
        Where the nodes begin.
    """
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


def place_of(device: NDArray[np.uint8], image_offset: NDArray[Any]) -> NDArray[np.int64]:
    """Return places on all images of a set as one number."""
    return (np.asarray(device).astype(np.int64) << DEVICE_BITS) + np.asarray(image_offset).astype(np.int64)


DEVICE_BITS: Final = 60
"""No image is as long as 2 to this power in bytes."""


def _walked(layout: VolumeLayout, nodes: pl.DataFrame) -> pl.DataFrame:
    used = pl.col("level").is_not_null() & pl.col("state").cast(pl.String).is_in(LIVE_STATES)
    return nodes.filter(used & pl.col("tree").cast(pl.String).is_in(list(walked_trees(layout))))


def _laid_out(case: WhatIf, order: pl.DataFrame) -> WhatIf:
    """Lay nodes end to end from where the first of them lies now."""
    nodes = case.layout.nodes
    offset = nodes["image_offset"].cast(pl.Int64).fill_null(-1).to_numpy().copy()
    device = nodes["device"].fill_null(0).to_numpy().copy()
    place = order["place"].to_numpy()
    if len(place):
        first = order.sort("device", "image_offset").row(0, named=True)
        offset[place] = first["image_offset"] + starts_of(order["size_bytes"].to_numpy())
        device[place] = first["device"]
    stays = np.array_equal(offset, nodes["image_offset"].cast(pl.Int64).fill_null(-1).to_numpy())
    are_located = nodes["locator_row"].count() > 0 and not filesystem_of(case.layout).traits.maps_every_node
    if stays and case.layout.node_fragments.is_empty() and not are_located:
        return case
    moved = nodes.with_columns(pl.Series("image_offset", offset).replace(-1, None), pl.Series("device", device))
    rows = nodes["row"].gather(place)
    if not filesystem_of(case.layout).traits.maps_every_node:
        # Laid end to end, a tree lies within the first extents of its file.
        moved = moved.with_columns(locator_row=pl.lit(None, pl.UInt32))
    fragments = case.layout.node_fragments.filter(~pl.col("node_row").is_in(rows.implode()))
    layout = replace(case.layout, nodes=moved, node_fragments=fragments)
    return replace(case, layout=layout)


def _outer_zone(case: WhatIf) -> WhatIf:
    return replace(case, start_offset_bytes=-case.layout.facts.image_offset)


def _double_cache(case: WhatIf) -> WhatIf:
    held = case.host.cache_bytes
    return case if held is None else replace(case, host=host_profile(case.host, cache_bytes=2 * held))


def _no_snapshots(case: WhatIf) -> WhatIf:
    """Drop what only snapshots hold; neighbouring map leaves merge as far as the fullest one goes."""
    nodes = case.layout.nodes
    live = nodes.filter(pl.col("state").cast(pl.String).is_in(LIVE_STATES))
    if len(live) == len(nodes):
        return case
    if not filesystem_of(case.layout).traits.maps_every_node:
        return replace(case, layout=replace(case.layout, nodes=live))
    maps = _walked_maps(case.layout)
    leaves = live.filter(pl.col("tree").cast(pl.String).is_in(maps) & (pl.col("level") == 0)).sort("key_rank")
    needed = live["locator_row"].drop_nulls().value_counts().rename({"locator_row": "row"})
    counts = leaves.join(needed, on="row", how="left", maintain_order="left")["count"].fill_null(0).to_numpy()
    target = _merged_leaves(counts, int(leaves["num_records"].max() or 1))  # type: ignore[arg-type]
    rows = leaves["row"].to_numpy()
    replaced = live["locator_row"].replace(rows.tolist(), rows[target].tolist())
    return replace(case, layout=replace(case.layout, nodes=live.with_columns(replaced)))


def _merged_leaves(counts: NDArray[np.int64], capacity: int) -> NDArray[np.int64]:
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
    """A what-if as it is known.

    Attributes
    ----------
    change : callable
        Changes a case; returns the same layout and host where there is nothing to change.
    because : str
        What is different then, as a sentence's end.
    unless : str
        Why it does not apply where nothing changes, likewise.
    """

    change: Callable[[WhatIf], WhatIf]
    because: str
    unless: str


WHAT_IFS: Final = {
    "packed": Change(
        _packed,
        "the same nodes lie one behind the other in key order",
        "the nodes lie one behind the other in key order already",
    ),
    "walk-order": Change(
        _walk_order,
        "the same nodes lie one behind the other in the order in which they are read",
        "the nodes lie in that order already",
    ),
    "clumped-like-hfs": Change(
        _clumped,
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
