"""Trees put together: the tables ``nodes``, with rows that other tables refer to, and ``node_views``.

Apple File System Reference, Objects: nothing is written in place; each change leaves the last version behind until its
block is used again. Such old copies, of earlier transactions, are rows too where a sweep found them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.filesystems.apfs.store.nodes import DAMAGED, LOCKED, SOUND, UNKNOWN_LEVEL, NodeRows, rows_of
from layoutscope.filesystems.apfs.store.sweep import TREES, Swept
from layoutscope.filesystems.apfs.store.verify import VALID_NAMES
from layoutscope.findings import FindingLog
from layoutscope.tables import (
    NULL_ROW,
    Table,
    Values,
    VolumeLayout,
    build_table,
    findings_table,
    layout_findings,
    stacked,
)
from layoutscope.tables.schema import CONDITIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.blocks import Blocks
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts

CONTENT_COLUMNS = ("num_records", "used_bytes", "free_bytes", "first_key_id", "last_key_id")
STATES = ("live", "snapshot", "stale", "inferred")
KINDS = ("leaf", "index", "locked", "unreadable")
SHOWN_TRANSACTIONS: Final = 8
CHECKED: Final = VALID_NAMES.index("checksum")


def rows_before(trees: Sequence[NodeRows]) -> list[int]:
    """Number the nodes of several trees through: the row of the first node of each."""
    return list(accumulate((len(nodes) for nodes in trees[:-1]), initial=0))[: len(trees)]


def nodes_table(
    trees: Sequence[NodeRows], blocks: Blocks, volume: int | None, states: list[NDArray[np.int64]]
) -> Table:
    """Make the table of nodes, in the order of their rows."""
    state = np.concatenate([np.empty(0, np.int64), *states])
    trees = [nodes for nodes in trees if len(nodes)]
    if not trees:
        return build_table("nodes", {})
    names = list(dict.fromkeys(nodes.tree for nodes in trees))
    codes = np.concatenate([np.full(len(nodes), names.index(nodes.tree)) for nodes in trees])
    paddr = blocks.dirty.newest(_all(trees, "paddr"))
    level, condition, xid = (_all(trees, name) for name in ("level", "condition", "xid"))
    # A damaged node may have sound records: these count, and say that its other contents are known too.
    is_known = (condition == SOUND) | ((condition == DAMAGED) & (_all(trees, "num_records") > 0))
    kind = np.where(is_known, np.minimum(level, 1), np.where(condition == LOCKED, 2, 3))
    columns: dict[str, Any] = {
        "device": blocks.split(paddr)[0],
        "volume": volume,
        "tree": (codes, names),
        "node_id": _all(trees, "node_id"),
        "image_offset": blocks.image_offset(paddr),
        "size_bytes": _all(trees, "size_bytes"),
        "level": Values(level, level != UNKNOWN_LEVEL),
        "kind": (kind, KINDS),
        # Physical nodes alone tell their transaction: no damaged one is believed, and 0 is none.
        "xid": Values(xid, is_known | (xid > 0)),
        **{name: Values(_all(trees, name), is_known) for name in CONTENT_COLUMNS},
        "key_rank": Values(_all(trees, "key_rank"), level != UNKNOWN_LEVEL),
        "parent_row": np.concatenate(
            [_refer(nodes.parent, first) for nodes, first in zip(trees, rows_before(trees), strict=True)]
        ),
        "locator_row": _refer(_all(trees, "omap_leaf"), 0),
        "state": (state, STATES),
        "valid": (_all(trees, "valid"), VALID_NAMES),
        "condition": (condition, CONDITIONS),
    }
    return build_table("nodes", columns)


def found_once(lost: Sequence[NodeRows], trees: Sequence[NodeRows]) -> list[NodeRows]:
    """Leave out lost nodes that are among those of other trees, or came up before: states share their nodes."""
    seen = np.concatenate([np.empty(0, np.uint64), *(nodes.paddr for nodes in trees)])
    kept = []
    for nodes in lost:
        fresh = nodes.take(np.flatnonzero(~np.isin(nodes.paddr, seen)))
        if len(fresh):
            kept.append(fresh)
            seen = np.concatenate([seen, fresh.paddr])
    return kept


def _all(trees: Sequence[NodeRows], name: str) -> NDArray[Any]:
    return np.concatenate([getattr(nodes, name) for nodes in trees])


def _refer(position: NDArray[np.int64], first_row: int) -> NDArray[np.uint32]:
    """Rows from positions in a tree; null where the position is negative."""
    return np.where(position < 0, NULL_ROW, position + first_row).astype(np.uint32)


def with_stale(
    blocks: Blocks, swept: Swept, own: VolumeLayout, volumes: list[tuple[VolumeParts, VolumeLayout]]
) -> list[VolumeLayout]:
    """Add the nodes that no state holds to the layouts: of the volume whose object map knows them, or the container."""
    # A node that is current for any state, of any volume, is no old copy: addresses are the same for all of them.
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
        # Address and device as one number.
        layout.columns("nodes")["image_offset"].data * 2 + layout.columns("nodes")["device"].data
        for layout in layouts
    ]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _added(layout: VolumeLayout, left: Swept, blocks: Blocks) -> VolumeLayout:
    """Add nodes to a layout's table, counts to its facts, and a finding for each tree."""
    trees: list[NodeRows] = []
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
        return layout.changed(facts=replace(layout.facts, details={**layout.facts.details, "stale nodes": 0}))
    states = [np.full(len(nodes), STATES.index("stale")) for nodes in trees]
    table = nodes_table(trees, blocks, layout.facts.volume, states)
    before = layout.columns("nodes")
    first = int(before["row"].data.max()) + 1 if len(before) else 0
    nodes = stacked([before, table.changed("row", Values(table["row"].data + np.uint32(first)))])
    told = findings_table([*layout_findings(layout), *log.findings])
    facts = replace(layout.facts, details={**layout.facts.details, "stale nodes": len(left), **details})
    return layout.changed(facts=facts, nodes=nodes, findings=told)


def as_nodes(tree: str, found: Swept) -> NodeRows:
    """Nodes as a tree's, without their places in it."""
    names = ("node_id", "xid", "paddr", "size_bytes", "level", "num_records")
    columns = (found.oid, found.xid, found.paddr, found.size_bytes, found.level, found.num_records)
    return rows_of(tree, dict(zip(names, columns, strict=True)) | {"valid": np.full(len(found), CHECKED, np.uint8)})


def _report(log: FindingLog, tree: str, found: Swept) -> None:
    xids, counts = np.unique(found.xid, return_counts=True)
    newest = [f"xid {xid}: {count}" for xid, count in zip(xids.tolist(), counts.tolist(), strict=True)][::-1]
    shown = ", ".join(newest[:SHOWN_TRANSACTIONS]) + (", ..." if len(newest) > SHOWN_TRANSACTIONS else "")
    copies = np.unique(found.oid, return_counts=True)[1]
    message = (
        f"{len(found)} old nodes of {len(xids)} transactions lie around, up to {copies.max()} copies of one ({shown})"
    )
    log.at(f"{tree} tree", int(found.paddr[0])).add("stale-nodes", "info", message)


def views_table(views: Mapping[str, NodeRows], paddr: NDArray[np.uint64], rows: NDArray[np.uint32]) -> Table:
    """Make the table of memberships."""
    order = np.argsort(paddr, kind="stable")
    parts = [_membership(nodes, paddr[order], rows[order]) for nodes in views.values()]
    lengths = [len(part[0]) for part in parts]
    codes = np.repeat(np.arange(len(views)), lengths)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return build_table(
        "node_views",
        {"node_row": columns[0], "view": (codes, list(views)), "parent_row": columns[1], "key_rank": columns[2]},
    )


def _membership(nodes: NodeRows, paddr: NDArray[np.uint64], rows: NDArray[np.uint32]) -> tuple[NDArray[Any], ...]:
    own = rows[np.searchsorted(paddr, nodes.paddr)]
    parent = np.where(nodes.parent < 0, NULL_ROW, own[np.maximum(nodes.parent, 0)])
    return own, parent.astype(np.uint32), nodes.key_rank
