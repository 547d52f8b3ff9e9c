"""Layouts that were computed, not read: of a volume after aging, or of entries that were written again.

Every tree is a list of levels from the leaves up. File systems differ in a few facts: the size and place of nodes,
and the records that point to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from layoutscope.aging import trees as rec
from layoutscope.aging.trees import NOWHERE
from layoutscope.aging.volume import are_movable, owner_of_free
from layoutscope.structs.arrays import I64, heads, is_among, lengths_of, ranks_of, starts_of
from layoutscope.tables import NULL_ROW, Values, VolumeLayout, build_table, findings_table
from layoutscope.tables.columns import are_walked, stack_tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.aging.trees import GrownLevel
    from layoutscope.aging.volume import AgingVolume
    from layoutscope.tables import Table

NODE_KINDS = ("header", "index", "leaf")


class FilledLevel(NamedTuple):
    """Nodes of a level in key order; arrays of shape (n_nodes,)."""

    parent: I64  # position of each parent in the level above
    block: I64


def join_levels(parents: Sequence[I64], starts: I64) -> tuple[I64, I64, I64]:
    """Join the levels of a tree in the order of their first rows: level, position in it, and row of the parent.

    The nodes of the highest level have no parent.

    >>> root, leaves = np.zeros(1, np.int64), np.zeros(2, np.int64)
    >>> [part.tolist() for part in join_levels([leaves, root], np.array([8, 7]))]
    [[1, 0, 0], [0, 0, 1], [-1, 7, 7]]
    """
    order = np.argsort(starts)
    widths = [len(parents[number]) for number in order]
    above = [start + parent for start, parent in zip(starts[1:], parents, strict=False)]
    above.append(np.full(len(parents[-1]), NOWHERE))
    rank = np.concatenate([np.arange(width) for width in widths])
    return np.repeat(order, widths), rank, np.concatenate([above[number] for number in order])


def to_rows(rows: I64) -> NDArray[np.uint32]:
    """Convert rows into a column of references; negative rows become null."""
    return np.where(rows < 0, NULL_ROW, rows).astype(np.uint32)


def fill_leaves(size: I64, order: I64, leaf_bytes: int) -> I64:
    """Fill leaves sequentially with records in the given order; return the leaf of each record.

    >>> fill_leaves(np.array([30, 50, 40]), np.array([2, 0, 1]), 80).tolist()
    [0, 1, 0]
    """
    leaf = np.empty(len(order), np.int64)
    leaf[order] = np.maximum(np.cumsum(size[order]) - 1, 0) // leaf_bytes
    return leaf


def count_nodes(num_leaves: int, fanout: int) -> list[int]:
    """Count the nodes of each level, from the leaves up to the root.

    >>> count_nodes(100, 10)
    [100, 10, 1]
    """
    widths = [num_leaves]
    while widths[-1] > 1:
        widths.append(-(-widths[-1] // fanout))
    return widths


def place_evenly(widths: Sequence[int], fanout: int, first_block: int) -> list[FilledLevel]:
    """Place the levels of a tree contiguously, its root first."""
    ends = first_block + np.cumsum(widths[::-1])[::-1]
    pairs = zip(widths, ends, strict=True)
    return [FilledLevel(np.arange(width) // fanout, end - width + np.arange(width)) for width, end in pairs]


def place_grown(levels: Sequence[GrownLevel], blocks: Sequence[I64]) -> list[FilledLevel]:
    """Place levels that a driver filled at the blocks assigned to their nodes."""
    above = [level.node for level in levels[1:]] + [np.zeros(1, np.int64)]
    return [FilledLevel(parent, block) for parent, block in zip(above, blocks, strict=True)]


def build_filled_nodes(trees: Mapping[str, Sequence[FilledLevel]], first_row: int = 0) -> tuple[dict[str, Any], I64]:
    """Build the columns of filled trees, tree by tree, each from its root down.

    Rows before the first one are headers. The function also returns the block of each node, 0 for headers.
    """
    joined, start = [], first_row
    for levels in trees.values():
        widths = np.array([len(level.block) for level in levels])
        ends = start + np.cumsum(widths[::-1])[::-1]
        joined.append(join_levels([level.parent for level in levels], ends - widths))
        start = int(ends[0])
    none = np.zeros(first_row, np.int64)
    level, rank, parent = (np.concatenate(each) for each in zip((none, none, none + NOWHERE), *joined, strict=True))
    blocks = [level.block for levels in trees.values() for level in levels[::-1]]
    is_node = np.arange(start) >= first_row
    tree = np.repeat(np.arange(len(trees)), [len(part[0]) for part in joined])
    every = np.zeros(start, np.int64)
    columns = {
        "device": 0,
        "volume": None,
        "tree": (np.concatenate([none, tree]), tuple(trees)),
        "level": Values(level, is_node),
        "kind": (np.select([~is_node, level > 0], [0, 1], 2), NODE_KINDS),
        "num_records": None,
        "free_bytes": None,
        "parent_row": to_rows(parent),
        "key_rank": Values(rank, is_node),
        "first_key_id": None,
        "last_key_id": None,
        "state": (every, ("live",)),
        "valid": (every, ("structure",)),
    }
    return columns, np.concatenate([none, *blocks])


def build_filled_layout(
    layout: VolumeLayout, table: Table, nodes: Table, rows: Mapping[str, Any], label: tuple[str, str]
) -> VolumeLayout:
    """Build a volume with the entries of another one, their records in other nodes."""
    kept = {name: table[name] for name in ("parent_id", "file_id", "kind", "size_bytes", "flags")}
    entries = build_table(
        "entries",
        {
            **kept,
            "volume": layout.facts.volume,
            "name": table.texts("name"),
            "name_raw": table.texts("name_raw"),
            "link_count": 1,
            "create_time": None,
            "modify_time": None,
            "entry_rank": np.arange(len(table), dtype=np.uint32),
            **rows,
        },
    )
    filesystem, variant = label
    facts = replace(layout.facts, filesystem=filesystem, variant=variant, trees=(), details={})
    none = {name: build_table(name, {}) for name in ("node_fragments", "regions", "extents", "free")}
    return VolumeLayout(facts=facts, nodes=nodes, entries=entries, findings=findings_table([]), **none)


def build_aged_layout(layout: VolumeLayout, volume: AgingVolume) -> VolumeLayout:
    """Build the layout of an aged volume as a reader would have read it."""
    nodes = layout.columns("nodes")
    rows, at = {}, int(nodes["row"].data.max(initial=0)) + 1
    for name, tree in volume.trees.items():
        starts = at + np.cumsum([0] + [len(level) for level in tree.levels])
        rows[name], at = starts[:-1], int(starts[-1])
    aged = [_build_aged_nodes(layout, volume, name, rows) for name in volume.trees]
    entries = _build_entries(layout, volume, int(rows[volume.main][0]))
    num_files = layout.facts.num_files + int(volume.entries.is_file.sum())
    num_files -= int(are_movable(layout.columns("entries")).sum())
    stamp = max(layout.facts.stamp, volume.trees[volume.main].newest)
    made = layout.changed(
        facts=replace(layout.facts, stamp=stamp, num_files=num_files),
        nodes=stack_tables([nodes.take(~_select_aged_nodes(nodes, volume)), *aged]),
        entries=entries,
        extents=_build_extents(layout, volume),
    )
    owner = owner_of_free(layout)
    start, count = volume.space.runs()
    free = build_table(
        "free",
        {
            "device": 0,
            "volume": owner.facts.volume,
            "image_offset": start * volume.block_bytes + layout.facts.image_offset,
            "length_bytes": count * volume.block_bytes,
        },
    )
    return made.changed(free=free) if owner is layout else made.inside(owner.changed(free=free))


def _select_aged_nodes(nodes: Table, volume: AgingVolume) -> NDArray[np.bool_]:
    """Mark the live nodes of the aged trees, and the free nodes whose numbers are now in use."""
    is_used = is_among(nodes["node_id"].signed(), volume.trees[volume.main].join("ident"))
    is_read = nodes["level"].is_known & are_walked(nodes)
    is_live = nodes["tree"].is_in(volume.trees) & nodes["state"].equals("live")
    return is_live & (is_read | (is_used & nodes["kind"].equals("free")))


def _build_aged_nodes(layout: VolumeLayout, volume: AgingVolume, name: str, rows: Mapping[str, I64]) -> Table:
    """Build the rows of a tree, its leaves first."""
    tree, nodes = volume.trees[name], layout.columns("nodes")
    before = np.flatnonzero(nodes["tree"].equals(name) & nodes["level"].is_known)
    # New nodes are sound, like the first node of the original.
    sound = before[nodes["condition"].equals("sound")[before]]
    old = nodes.take((sound if len(sound) else before)[:1]).rows()[0]
    above = [*tree.levels[1:], tree.levels[-1]]
    parents = [upper.node_of(own.bound) for own, upper in zip(tree.levels, above, strict=True)]
    level, rank, parent = join_levels(parents, rows[name])
    load, count = (np.concatenate(each) for each in zip(*map(tree.fill, range(len(tree.levels))), strict=True))
    first_id, xid, block = np.maximum(tree.join("bound"), 0), tree.join("xid"), tree.join("block")
    number, locator = block, np.full(len(block), NOWHERE)
    if name == volume.main:
        number, first_id = tree.join("ident"), real_ids(volume, first_id >> rec.ID_SHIFT)
        if volume.maps in volume.trees:
            locator = rows[volume.maps][0] + volume.trees[volume.maps].leaf_of(number)
    capacity = tree.leaf.capacity_bytes
    return build_table(
        "nodes",
        {
            "row": int(rows[name][0]) + np.arange(len(level)),
            "device": 0,
            "volume": old["volume"],
            "tree": name,
            "node_id": number.view(np.uint64),
            "image_offset": layout.facts.image_offset + block * volume.place_bytes,
            "size_bytes": old["size_bytes"],
            "level": level,
            "kind": (np.where(level > 0, 1, 2), NODE_KINDS),
            "num_records": count,
            "used_bytes": np.clip(load - count * volume.entry_bytes[name], 0, capacity),
            "free_bytes": np.maximum(capacity - load - volume.unused_table(name, count), 0),
            "xid": Values(xid, xid >= 0),
            "parent_row": to_rows(parent),
            "locator_row": to_rows(locator),
            "key_rank": rank,
            "first_key_id": first_id.view(np.uint64),
            "last_key_id": first_id.view(np.uint64),
            "state": "live",
            "valid": old["valid"],
        },
    )


def real_ids(volume: AgingVolume, ident: I64) -> I64:
    """Convert file numbers into ids: the original ids, then new ids that follow the greatest of them."""
    numbers = volume.numbers
    if not len(numbers):
        return ident
    known = np.minimum(ident, len(numbers) - 1)
    return np.where(ident < len(numbers), numbers[known], numbers[-1:] + (1 + ident - len(numbers)))


def _build_entries(layout: VolumeLayout, volume: AgingVolume, first_row: int) -> Table:
    """Build the table of entries: original rows or copies of them, with their leaves."""
    entries, tree = volume.entries, volume.trees[volume.main]
    entries = entries.take(np.lexsort((np.arange(len(entries)), entries.place, entries.parent)))
    table = layout.columns("entries").take(entries.source)
    leaves = {f"{name}_node_row": (key != NOWHERE, key) for name, key in entries.keys.items()}
    if not (entries.keys["xattr"] != NOWHERE).any():
        # Extended attributes are in a separate tree, which does not age, or there are none.
        leaves.pop("xattr_node_row")
    leaves |= {name: (entries.is_directory, key) for name, key in volume.begins(entries.ident).items()}
    valence = np.bincount(entries.parent, minlength=int(entries.ident.max(initial=0)) + 1)[entries.ident]
    counted = table["valence"].is_known & table["kind"].equals("directory")
    link = table["link_id"]
    made = {
        "row": Values(np.arange(len(entries), dtype=np.uint32)),
        "file_id": Values(real_ids(volume, entries.ident).view(np.uint64)),
        "size_bytes": Values(entries.size_bytes),
        "entry_rank": Values(ranks_of(entries.parent)),
        "valence": Values(valence.astype(np.uint32), counted),
        "link_id": Values(link.data, link.is_known & (entries.ident < len(volume.numbers))),
    }
    for name, (is_there, key) in leaves.items():
        made[name] = Values((first_row + tree.leaf_of(key)).astype(np.uint32), is_there)
    for name, column in made.items():
        table = table.changed(name, column)
    return table


def _build_extents(layout: VolumeLayout, volume: AgingVolume) -> Table:
    """Build the table of extents: the remaining original ones, and those of new files."""
    table, data = layout.columns("extents"), volume.data
    is_new = data.ident >= len(volume.numbers)
    held = table["file_id"].signed()
    left = real_ids(volume, data.ident[~is_new & (data.ident >= 0)])
    gone = is_among(held, volume.numbers) & ~is_among(held, left) & table["image_offset"].is_known
    ident, start, count = data.ident[is_new], data.start[is_new], data.count[is_new]
    first, before = heads(ident), starts_of(count)
    made = build_table(
        "extents",
        {
            "device": 0,
            "volume": layout.facts.volume,
            "file_id": real_ids(volume, ident).view(np.uint64),
            "fork": "data",
            "logical_offset": (before - np.repeat(before[first], lengths_of(first, len(ident)))) * volume.block_bytes,
            "image_offset": start * volume.block_bytes + layout.facts.image_offset,
            "length_bytes": count * volume.block_bytes,
            "node_row": None,
            "flags": 0,
        },
    )
    whole = stack_tables([table.take(~gone), made], is_renumbered=True)
    none = Values(np.zeros(len(whole), np.uint32), np.zeros(len(whole), np.bool_))
    return whole.changed("node_row", none)
