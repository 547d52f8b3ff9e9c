"""Old copies of nodes: what earlier transactions left on the disk, tree by tree and transaction by transaction.

Apple File System Reference, Objects: nothing is written in place; each change leaves the last version behind until
its block is used again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from layoutscope.filesystems.apfs.layout.nodes import STATES, nodes_table, place
from layoutscope.filesystems.apfs.recovery.sweep import TREES, Swept
from layoutscope.filesystems.apfs.store.nodes import TreeNodes
from layoutscope.findings import FindingLog
from layoutscope.tables import VolumeLayout, findings_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.blocks import Blocks
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts

SHOWN_TRANSACTIONS: Final = 8
CHECKED: Final = 2


def with_stale(
    blocks: Blocks, swept: Swept, own: VolumeLayout, volumes: list[tuple[VolumeParts, VolumeLayout]]
) -> list[VolumeLayout]:
    """Add the nodes that no state holds to the layouts: of the volume whose object map knows them, or the container.

    Parameters
    ----------
    blocks : Blocks
        The container.
    swept : Swept
        All that was found.
    own : VolumeLayout
        Of the container.
    volumes : list of (VolumeParts, VolumeLayout)
        Of its volumes.

    Returns
    -------
    list of VolumeLayout
        The container's, then those of the volumes.
    """
    known = _addresses([own, *(layout for _, layout in volumes)])
    nodes = swept.take(swept.is_node & (swept.level >= 0))
    where = blocks.image_offset(nodes.paddr)
    device = blocks.split(nodes.paddr)[0].astype(np.int64)
    left = nodes.take(~np.isin(where * 2 + device, known))
    owner = np.full(len(left), -1, np.int64)
    for number, (parts, _) in enumerate(volumes):
        mine = np.isin(left.oid, parts.state.omap.oid) & (left.subtype == _subtype("fs"))
        owner[mine & (owner < 0)] = number
        if len(volumes) == 1:
            owner[left.subtype == _subtype("fs")] = number
    layouts = [own, *(layout for _, layout in volumes)]
    return [_added(layout, left.take(owner == number - 1), blocks) for number, layout in enumerate(layouts)]


def _subtype(tree: str) -> int:
    return next(number for number, name in TREES.items() if name == tree)


def _addresses(layouts: list[VolumeLayout]) -> NDArray[np.int64]:
    parts = [
        layout.nodes["image_offset"].to_numpy().astype(np.int64) * 2 + layout.nodes["device"].to_numpy()
        for layout in layouts
        if len(layout.nodes)
    ]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _added(layout: VolumeLayout, left: Swept, blocks: Blocks) -> VolumeLayout:
    """Add nodes to a layout's table, counts to its facts, and a finding for each tree."""
    trees: list[TreeNodes] = []
    log = FindingLog(locate=blocks.place)
    details: dict[str, Any] = {}
    for name in dict.fromkeys([*TREES.values(), "other"]):
        rows = ~np.isin(left.subtype, list(TREES)) if name == "other" else np.isin(left.subtype, [_subtype(name)])
        some = left.take(rows)
        if len(some):
            trees.append(as_nodes(name, some))
            _report(log, name, some)
            details[f"stale {name} nodes"] = len(some)
            details[f"stale {name} transactions"] = len(np.unique(some.xid))
    if not trees:
        return replace(layout, facts=replace(layout.facts, details={**layout.facts.details, "stale nodes": 0}))
    states = [np.full(len(nodes), STATES.index("stale")) for nodes in trees]
    table = nodes_table(place([(nodes, -1) for nodes in trees]), blocks, layout.facts.volume, states)
    first = int(layout.nodes["row"].max() or -1) + 1 if len(layout.nodes) else 0  # type: ignore[arg-type]
    table = table.with_columns((pl.col("row") + first).cast(table["row"].dtype))
    nodes = pl.concat([layout.nodes, table]) if len(layout.nodes) else table
    more = findings_table(log.findings).with_columns((pl.col("row") + len(layout.findings)).cast(pl.UInt32))
    told = pl.concat([layout.findings, more.cast(dict(layout.findings.schema))])  # type: ignore[arg-type]
    facts = replace(layout.facts, details={**layout.facts.details, "stale nodes": len(left), **details})
    return replace(layout, facts=facts, nodes=nodes, findings=told)


def as_nodes(tree: str, found: Swept) -> TreeNodes:
    """Nodes as a tree's, without their places in it."""
    count = len(found)
    numbers, places = np.zeros(count, np.uint64), np.full(count, -1, np.int64)
    nothing = np.zeros(count, np.uint32)
    return TreeNodes(
        tree=tree,
        node_id=found.oid,
        xid=found.xid,
        paddr=found.paddr,
        size_bytes=found.size_bytes,
        level=found.level.astype(np.uint8),
        num_records=found.num_records.astype(np.uint32),
        used_bytes=nothing,
        free_bytes=nothing,
        parent=places,
        omap_leaf=places,
        key_rank=nothing,
        low_key=numbers,
        first_key_id=numbers,
        last_key_id=numbers,
        valid=np.full(count, CHECKED, np.uint8),
    )


def _report(log: FindingLog, tree: str, found: Swept) -> None:
    xids, counts = np.unique(found.xid, return_counts=True)
    newest = [f"xid {xid}: {count}" for xid, count in zip(xids.tolist(), counts.tolist(), strict=True)][::-1]
    shown = ", ".join(newest[:SHOWN_TRANSACTIONS]) + (", ..." if len(newest) > SHOWN_TRANSACTIONS else "")
    copies = np.unique(found.oid, return_counts=True)[1]
    message = (
        f"{len(found)} old nodes of {len(xids)} transactions lie around, up to {copies.max()} copies of one ({shown})"
    )
    log.at(f"{tree} tree", int(found.paddr[0])).add("stale-nodes", "info", message)
