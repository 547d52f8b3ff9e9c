"""Reading a volume of APFS for its aging: its three trees with what is known of their records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.aging import records as rec
from layoutscope.aging.cycle import present
from layoutscope.aging.trees import NOWHERE, NodeRule
from layoutscope.aging.volume import (
    found_tree,
    leaves_of,
    made_tree,
    numbers_of,
    pinned,
    read_data,
    read_entries,
    read_free,
)
from layoutscope.arrays.ragged import ranges
from layoutscope.filesystems.apfs.driver import recordbytes as taken
from layoutscope.filesystems.apfs.driver.writing import TREES, ApfsVolume
from layoutscope.tables.table import are_walked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.aging.policy import Policy
    from layoutscope.aging.trees import AgingTree
    from layoutscope.aging.volume import AgingEntries, Data, ReadTree
    from layoutscope.tables import VolumeLayout

    I64 = NDArray[np.int64]

TABLE_ENTRY: Final = 8
MAP_TABLE_ENTRY: Final = 4
TABLE_SLACK: Final = 8 * 4
"""Bytes of a node's table that are hardly ever used: it grows by eight records of eight bytes."""
NODE_HEAD: Final = 56
"""Bytes of a node's head: object header and node header (Apple File System Reference, btree_node_phys)."""


def read_apfs(layout: VolumeLayout, policy: Policy) -> ApfsVolume | None:
    """Make a volume of a layout; nothing where its tree was not read, or lies on several devices."""
    read = {name: found for name in TREES if (found := found_tree(layout, name)) is not None}
    if "fs" not in read:
        return None
    numbers = numbers_of(layout)
    entries = read_entries(layout, numbers)
    data = read_data(layout, numbers)
    leaf = leaves_of(layout, read["fs"])
    leaf["thread"] = np.full(len(entries), NOWHERE)
    keys = {
        "entry": rec.key_of(entries.parent, rec.NAME, entries.place),
        "inode": rec.key_of(entries.ident, taken.INODE),
        "thread": np.full(len(entries), NOWHERE),
        "xattr": rec.key_of(entries.ident, taken.XATTR),
        "dstream": rec.key_of(entries.ident, taken.DATA_STREAM),
    }
    trees = {"fs": _fs_tree(layout, policy, read["fs"], entries, (keys, leaf))}
    entries.keys = pinned(trees["fs"], keys, leaf)
    room = int(layout.columns("nodes")["size_bytes"].data[read["fs"].rows[0][0]]) - NODE_HEAD
    rule = NodeRule(room, policy.map_keep, policy.merge_share, by_count=policy.split_by_count)
    if "omap" in read:
        trees["omap"] = _map_tree(layout, trees["fs"], read["omap"], rule)
    if "extentref" in read:
        trees["extentref"] = _reference_tree(layout, data, read["extentref"], rule)
    space = read_free(layout)
    space.pin(_held_by_snapshots(layout, read, data, entries.ident, leaf["inode"]))
    blocks = np.concatenate(read["fs"].blocks)
    known = data.start[data.ident != NOWHERE]
    oids = layout.columns("nodes")["node_id"].signed()
    return ApfsVolume(
        policy,
        layout.facts.block_size_bytes,
        entries,
        data,
        space,
        trees,
        numbers,
        len(numbers),
        int(oids.max(initial=0)) + 1,
        int(layout.columns("nodes")["xid"].signed().max(initial=0)),
        is_apart=_are_apart(blocks, known),
        cursor=int(max(blocks.max(), known.max(initial=0))) + 1,
    )


def _are_apart(nodes: I64, data: I64) -> bool:
    return len(data) > 0 and bool(np.quantile(nodes, 0.1) > np.quantile(data, 0.9))


def lies_apart(layout: VolumeLayout) -> bool:
    """Whether the nodes of a volume lie behind all data."""
    read = found_tree(layout, "fs")
    data = read_data(layout, numbers_of(layout))
    return read is not None and _are_apart(np.concatenate(read.blocks), data.start[data.ident != NOWHERE])


def _held_by_snapshots(layout: VolumeLayout, read: dict[str, ReadTree], data: Data, ident: I64, leaf: I64) -> I64:
    """Return the blocks that snapshots of the volume hold, too: they are not free when they are replaced.

    What was written when the last snapshot was made, or before, is its own: nodes, by their transactions, and the data
    of files whose inodes lie in such leaves. Of files of other leaves it is not known.
    """
    nodes = layout.columns("nodes")
    xid = nodes["xid"].signed()
    made = nodes["tree"].equals("omap-snapshots") & nodes["state"].equals("live")
    if not layout.facts.details.get("snapshots") or not made.any():
        return np.empty(0, np.int64)
    last = int(xid[made].max())
    held = []
    for tree in ("fs", "extentref"):
        if tree in read:
            rows, blocks = np.concatenate(read[tree].rows), np.concatenate(read[tree].blocks)
            held.append(blocks[(xid[rows] > 0) & (xid[rows] <= last)])
    there = leaf >= 0
    old = (xid[read["fs"].rows[0]] <= last)[leaf[there]]
    files = np.isin(data.ident, ident[there][old]) & (data.ident != NOWHERE)
    held.append(np.asarray(ranges(data.start[files], data.count[files]), np.int64))
    return np.concatenate(held)


def _fs_tree(
    layout: VolumeLayout,
    policy: Policy,
    read: ReadTree,
    entries: AgingEntries,
    where: tuple[dict[str, I64], dict[str, I64]],
) -> AgingTree:
    keys, leaf = where
    has_data = leaf["dstream"] >= 0
    sizes: dict[str, I64 | int] = {
        "entry": taken.entry_name_bytes(entries.letters, has_sibling=entries.has_sibling),
        "inode": taken.inode_bytes(entries.letters, has_data),
        "dstream": taken.DATA_STREAM_BYTES,
        "xattr": taken.DATA_STREAM_BYTES,
    }
    parts = [(np.where(leaf[name] >= 0, keys[name], NOWHERE), size, leaf[name]) for name, size in sizes.items()]
    extent_key = np.where(has_data & entries.is_file, rec.key_of(entries.ident, taken.FILE_EXTENT), NOWHERE)
    parts.append((extent_key, taken.EXTENT_BYTES, leaf["dstream"]))
    key, size, at = present(*parts)
    # Of a file with several names, inode and data stream are one record.
    _, once = np.unique(key, return_index=True)
    room = int(layout.columns("nodes")["size_bytes"].data[read.rows[0][0]]) - NODE_HEAD
    room -= TABLE_SLACK
    # All extents of a file are one record here, so that shares are of bytes.
    leaf_rule, index_rule = (NodeRule(room, keep, policy.merge_share) for keep in (policy.leaf_keep, policy.index_keep))
    rules = (leaf_rule, index_rule, taken.INDEX_BYTES)
    return made_tree(layout, read, (key[once], size[once], at[once]), rules, TABLE_ENTRY)


def _map_tree(layout: VolumeLayout, mapped: AgingTree, read: ReadTree, rule: NodeRule) -> AgingTree:
    """Make the object map: a record for each node, in the leaf that leads to it."""
    nodes = layout.columns("nodes")
    row = nodes["row"].signed()[read.rows[0]]
    order = np.argsort(row)
    ids = np.concatenate([level.ident for level in mapped.levels])
    live = nodes["tree"].equals("fs") & nodes["state"].equals("live") & nodes["level"].is_known & are_walked(nodes)
    wanted = nodes["locator_row"].signed()[live]
    place = order[np.minimum(np.searchsorted(row[order], wanted), len(row) - 1)]
    known = (row[place] == wanted) & np.isin(nodes["node_id"].signed()[live], ids)
    key = nodes["node_id"].signed()[live][known]
    records = (key, np.full(len(key), taken.MAP_BYTES), place[known])
    return made_tree(layout, read, records, (rule, rule, taken.MAP_INDEX_BYTES), MAP_TABLE_ENTRY)


def _reference_tree(layout: VolumeLayout, data: Data, read: ReadTree, rule: NodeRule) -> AgingTree:
    """Make the tree of extent references: a record for each extent, in the leaf whose first block is not behind it."""
    key = np.unique(data.start)
    first = layout.columns("nodes")["first_key_id"].signed()[read.rows[0]]
    leaf = np.maximum(np.searchsorted(first, key, side="right") - 1, 0)
    records = (key, np.full(len(key), taken.REFERENCE_BYTES), leaf)
    return made_tree(layout, read, records, (rule, rule, taken.REFERENCE_INDEX_BYTES), TABLE_ENTRY)
