"""What was read of a volume, put into tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.lookup import is_among
from layoutscope.filesystems.apfs.container.regions import Details, rest
from layoutscope.filesystems.apfs.layout.entries import entries_table
from layoutscope.filesystems.apfs.layout.extents import extents_table
from layoutscope.filesystems.apfs.layout.facts import Summary, role_name, volume_facts
from layoutscope.filesystems.apfs.layout.nodes import (
    STATES,
    found_once,
    nodes_table,
    rows_before,
    views_table,
)
from layoutscope.filesystems.apfs.layout.regions import regions_table
from layoutscope.filesystems.apfs.store.nodes import without_others
from layoutscope.filesystems.apfs.volume.states import LIVE
from layoutscope.filesystems.apfs.volume.witnesses import num_missing_entries
from layoutscope.tables import Table, VolumeLayout, build_table, findings_table
from layoutscope.tables.table import condition_details

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.store.nodes import NodeRows
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts

FIRMLINK: Final = b"com.apple.fs.firmlink"
"""Attribute of a folder of the system volume that shows a folder of the data volume; not in Apple's reference."""

FS: Final = 1


def build_volume_layout(
    container: Container, parts: VolumeParts, stack: tuple[str, ...], live: str, details: Details
) -> VolumeLayout:
    """Put what was read of a volume into tables."""
    blocks, state = container.blocks, parts.state
    view = live if parts.view == LIVE else parts.view
    own = parts.own_trees()
    read = [*own, *_exclusive_trees(parts, own)]
    lost = found_once(parts.lost, read)
    trees = [*read, *lost, *found_once(parts.lost_of_snapshots, [*read, *lost])]
    first = rows_before(trees)
    extent_row = first[own.index(parts.fext.nodes)] if len(parts.fext.nodes) else first[FS]
    states = _states(parts, read, len(own))
    states += [np.full(len(each), int(place >= len(lost))) for place, each in enumerate(trees[len(read) :])]
    nodes = nodes_table(trees, blocks, state.number, states)
    entries = entries_table(parts.fs, first[FS], state.number, parts.log)
    extents = extents_table(parts, extent_row)
    held = rest(_held_type(parts), "extent references", parts.data_runs(), parts.file_runs(blocks.block_size))
    return VolumeLayout(
        facts=volume_facts(
            container,
            state,
            Summary(
                stack,
                view,
                own,
                _details(parts) | condition_details(nodes) | details,
                *_coverage(parts, nodes),
                num_missing_entries(parts),
            ),
        ),
        nodes=nodes,
        node_fragments=build_table("node_fragments", {}),
        regions=regions_table([*parts.regions, *held], blocks, state.number),
        extents=extents,
        entries=entries,
        free=build_table("free", {}),
        findings=findings_table(parts.log.findings),
        node_views=_views(parts, trees, live),
    )


def _held_type(parts: VolumeParts) -> str:
    """Data that no extent of this state's files shows: of a locked volume all, else what other states hold."""
    if parts.is_locked:
        return "file-data"
    return "snapshot-data" if parts.snapshots else "referenced-data"


def _exclusive_trees(parts: VolumeParts, own: list[NodeRows]) -> list[NodeRows]:
    """Nodes that only other states hold, each physical node once."""
    known = np.concatenate([np.empty(0, np.uint64), *(nodes.paddr for nodes in own)])
    views = [nodes for nodes in parts.views.values() if not any(nodes is other for other in own)]
    if not views:
        return [tree.nodes for tree in parts.snapshot_extents]
    shown = np.concatenate([known, *(nodes.paddr for nodes in views)])
    first = np.sort(np.unique(shown, return_index=True)[1])
    stops = np.cumsum([len(known), *(len(nodes) for nodes in views)])
    fresh = np.split(first, np.searchsorted(first, stops))[1:-1]
    extra = [without_others(nodes, rows - start) for nodes, rows, start in zip(views, fresh, stops[:-1], strict=True)]
    return extra + [tree.nodes for tree in parts.snapshot_extents]


def _states(parts: VolumeParts, trees: list[NodeRows], num_own: int) -> list[NDArray[np.int64]]:
    """Say of each node whether the live state holds it, snapshots alone do, or that it is inferred to be live."""
    live = next(iter(parts.views.values()))
    states = [
        (~is_among(nodes.paddr, live.paddr)).astype(np.int64)
        if nodes.tree == "fs" and nodes is not live
        else np.full(len(nodes), int(number >= num_own))
        for number, nodes in enumerate(trees)
    ]
    if len(parts.inferred):
        states[FS][is_among(trees[FS].paddr, parts.inferred)] = STATES.index("inferred")
    return states


def _views(parts: VolumeParts, trees: list[NodeRows], live: str) -> Table:
    """Membership of the file-system tree's nodes in each view; nothing where there is but one."""
    if len(parts.views) < 2:
        return build_table("node_views", {})
    chosen = [(nodes, first) for nodes, first in zip(trees, rows_before(trees), strict=True) if nodes.tree == "fs"]
    paddr = np.concatenate([nodes.paddr for nodes, _ in chosen])
    rows = np.concatenate([np.arange(first, first + len(nodes), dtype=np.uint32) for nodes, first in chosen])
    return views_table({live if name == LIVE else name: nodes for name, nodes in parts.views.items()}, paddr, rows)


def _details(parts: VolumeParts) -> Details:
    trees = (parts.fs, parts.extentref, parts.snapmeta, parts.fext)
    details: Details = {
        "locked": parts.is_locked,
        "object map entries": len(parts.state.omap),
        "records": sum(tree.records.num_records for tree in trees),
        "records decoded": sum(tree.records.num_decoded for tree in trees),
    }
    for name in sorted(parts.fs.records.tables):
        details[f"{name} records"] = parts.fs.records.count(name)
    xattrs = parts.fs.records.get("xattr")
    # Nothing is known of the names of a tree that has no attributes, or is locked.
    if role_name(parts.state.superblock.role) == "system" and "name" in xattrs:
        details["firmlinks"] = int(xattrs["name"].equal_to(FIRMLINK).sum())
    details |= parts.rolling.details | _shares(parts)
    if parts.state.seal:
        details["seal"] = "broken" if parts.state.seal.is_broken else "intact"
    return details


def _shares(parts: VolumeParts) -> Details:
    """Count the nodes of each view and those that no other view holds, and what views share."""
    if len(parts.views) < 2:
        return {}
    paddr = np.concatenate([nodes.paddr for nodes in parts.views.values()])
    _, first, place, counts = np.unique(paddr, return_index=True, return_inverse=True, return_counts=True)
    size = np.concatenate([nodes.size_bytes for nodes in parts.views.values()])[first]
    details: Details = {
        "shared metadata bytes": int(size[counts > 1].sum()),
        "exclusive metadata bytes": int(size[counts == 1].sum()),
    }
    start = 0
    for name, nodes in parts.views.items():
        alone = counts[place[start : start + len(nodes)]] == 1
        details |= {f"{name} nodes": len(alone), f"{name} nodes held by it alone": int(alone.sum())}
        start += len(nodes)
    return details


def _coverage(parts: VolumeParts, nodes: Table) -> tuple[int, int]:
    """Metadata that is known to exist, and what of it could be read, in bytes."""
    # What could not be read and has no row has no place in the container either: no map, or a wrong one, leads to it.
    missing = sum(item.code in ("node-missing", "unread-area") for item in parts.log.findings)
    missing = max(0, missing - int(nodes["condition"].equals("unread").sum()))
    unit = int(parts.fs.nodes.size_bytes[0]) if len(parts.fs.nodes) else 0
    sizes = nodes["size_bytes"].data
    # What is inferred may be an old copy of what is lost: it is read, but not in its place.
    read = int(sizes[nodes["condition"].equals("sound") & ~nodes["state"].equals("inferred")].sum())
    known = int(sizes.sum()) + missing * unit
    return known, read
