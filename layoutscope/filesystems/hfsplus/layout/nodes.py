"""Nodes of all trees, and the fragments of those that lie in several pieces.

Nodes are numbered tree by tree, in node-number order: the row of a node is the row of its tree's node 0 and its number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.ragged import heads
from layoutscope.filesystems.hfsplus.records.rootfiles import HOT_FILES, data_fork_of, find_root_file
from layoutscope.filesystems.hfsplus.tree.btree import pieces_of
from layoutscope.filesystems.hfsplus.tree.nodes import DESCRIPTOR_BYTES, HEADER, INDEX, LEAF, MAP, OFFSET_BYTES
from layoutscope.filesystems.hfsplus.tree.shape import MAX_HEIGHT
from layoutscope.filesystems.hfsplus.tree.tree import Tree, damaged_nodes, first_rows, is_unusable
from layoutscope.ondisk import grammar
from layoutscope.tables import NULL_ROW, Table, Values, build_table, stacked
from layoutscope.tables.schema import CONDITIONS

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64, Columns, Mask
    from layoutscope.filesystems.hfsplus.contents import Contents
    from layoutscope.filesystems.hfsplus.volume.volume import Volume

CNID: Final = grammar.HfsplusVolume.Cnid
SIZES: Final = grammar.HfsplusBtree.NodeSizeLimit
USUAL_NODE_BYTES: Final = 4096
BTREE_FILES: Final = {
    "extents-overflow": int(CNID.extents_file),
    "catalog": int(CNID.catalog_file),
    "attributes": int(CNID.attributes_file),
}
"""Trees that the volume header leads to, by their names in the tables."""

UNKNOWN: Final = ("level", "num_records", "used_bytes", "free_bytes", "key_rank", "first_key_id", "last_key_id")
"""Columns of which nothing is known where a node is lost."""

NODE_KINDS: Final = ("leaf", "index", "header", "map", "free", "unreadable")
STATES: Final = ("live", "stale", "inferred")
VALIDITY: Final = ("structure", "no")
SOUND, DAMAGED, UNREAD, _ = range(len(CONDITIONS))


def nodes_tables(volume: Volume, number: int | None, trees: list[Tree]) -> tuple[Table, Table]:
    """Build the tables of nodes and of fragments of nodes that lie in several pieces."""
    rows = first_rows(trees)
    parts = [_nodes_of(volume, number, tree, rows[tree.file.tree]) for tree in trees]
    if not parts:
        return build_table("nodes", {}), build_table("node_fragments", {})
    fragments = [part[1] for part in parts]
    pieces: Columns = {name: np.concatenate([part[name] for part in fragments]) for name in fragments[0]}
    return stacked([part[0] for part in parts]), build_table("node_fragments", {"device": 0, **pieces})


def _nodes_of(volume: Volume, number: int | None, tree: Tree, first_row: int) -> tuple[Table, Columns]:
    file, table = tree.file, tree.nodes
    numbers = np.arange(file.num_nodes, dtype=np.int64)
    pieces = pieces_of(volume, file.fork, file.node_size_bytes, numbers)
    offset = np.full(file.num_nodes, -1, np.int64)
    first = heads(pieces.part)
    offset[pieces.part[first]] = pieces.volume_offset[first] + volume.image_offset
    damaged = damaged_nodes(tree)
    kind = _kinds(tree, damaged)
    is_keyed, is_unreadable = kind <= 1, kind == NODE_KINDS.index("unreadable")
    used, free = _fill(tree)
    level, parent = _places_of_lost(tree, is_unreadable)
    reached = (table.key_rank >= 0) | (kind >= 2)
    columns: dict[str, Any] = {
        "row": (numbers + first_row).astype(np.uint32),
        "device": 0,
        "volume": number,
        "tree": (np.zeros(file.num_nodes, np.int64), (file.tree,)),
        "node_id": numbers,
        "image_offset": offset,
        "size_bytes": file.node_size_bytes,
        # The format counts heights from 1 at the leaves; the tables of all file systems count levels from 0.
        "level": _nullable(
            np.where(is_keyed, table.height - 1, level), np.where(is_keyed, table.height > 0, level >= 0)
        ),
        "kind": (kind, NODE_KINDS),
        "num_records": _nullable(table.num_records, kind <= 3),
        "used_bytes": _nullable(used, is_keyed & (used >= 0)),
        # Damage makes counts whose offset tables would be longer than their node.
        "free_bytes": _nullable(free, is_keyed & (used >= 0) & (free >= 0)),
        "parent_row": np.where(parent >= 0, parent + first_row, int(NULL_ROW)).astype(np.uint32),
        # A lost node has a place among its neighbours, and no rank: ranks count the nodes that are there.
        "key_rank": _nullable(table.key_rank, (table.key_rank >= 0) & ~is_unreadable),
        "first_key_id": _nullable(table.first_key_id, is_keyed & (table.first_key_id >= 0)),
        "last_key_id": _nullable(table.last_key_id, is_keyed & (table.last_key_id >= 0)),
        "state": (np.where(is_keyed, np.where(reached, 2 * table.is_inferred, 1), 0), STATES),
        "valid": (table.damaged | is_unreadable, VALIDITY),
        "condition": (np.where(file.used & ~file.readable, UNREAD, np.where(damaged, DAMAGED, SOUND)), CONDITIONS),
    }
    several = np.bincount(pieces.part, minlength=file.num_nodes)[pieces.part] > 1
    fragments: Columns = {
        "node_row": (pieces.part[several] + first_row).astype(np.uint32),
        "image_offset": pieces.volume_offset[several] + volume.image_offset,
        "length_bytes": pieces.length_bytes[several],
    }
    return build_table("nodes", columns), fragments


SPECIAL_FILES: Final = {"catalog": CNID.catalog_file, "attributes": CNID.attributes_file}
"""Files of B-trees whose later extents the overflow tree may hold; its own file has all of them in the header."""


def with_locators(nodes: Table, extents: Table) -> Table:
    """Tell of nodes beyond the eighth extent of their file which overflow leaf leads there."""
    owner = extents["file_id"].data
    locator = np.full(len(nodes), NULL_ROW, np.uint32)
    node_offset = nodes["node_id"].data.astype(np.int64) * nodes["size_bytes"].data
    for tree, file_id in SPECIAL_FILES.items():
        found = np.flatnonzero((owner == file_id) & extents["node_row"].is_known)
        logical = extents["logical_offset"].data[found]
        order = np.argsort(logical, kind="stable")
        piece = np.searchsorted(logical[order], node_offset, side="right") - 1
        chosen = nodes["tree"].equals(tree) & (piece >= 0)
        locator[chosen] = extents["node_row"].data[found][order][piece[chosen]]
    return nodes.changed("locator_row", Values(locator, locator != NULL_ROW))


def _nullable(values: I64, known: np.ndarray[Any, np.dtype[np.bool_]]) -> Values:
    return Values(values, known)


def _kinds(tree: Tree, damaged: Mask) -> I64:
    """Kind of every node by its place in ``NODE_KINDS``; what is not in use is free, whatever its bytes say."""
    file, table = tree.file, tree.nodes
    # A node that was freed keeps its bytes, descriptor included, until it is used again; the map record decides.
    kinds = np.full(file.num_nodes, NODE_KINDS.index("free"), np.int64)
    for name, number in (("leaf", LEAF), ("index", INDEX), ("header", HEADER), ("map", MAP)):
        kinds[file.used & (table.kind == number)] = NODE_KINDS.index(name)
    kinds[file.used & (~file.readable | is_unusable(tree, damaged))] = NODE_KINDS.index("unreadable")
    return kinds


def _places_of_lost(tree: Tree, is_unreadable: Mask) -> tuple[I64, I64]:
    """Level, and parent of every node; what is lost has those that the pointer to it tells, or the header of the root.

    Both are -1 where nothing tells.
    """
    file, table, reach = tree.file, tree.nodes, tree.reach
    parent, level = table.parent.copy(), np.full(file.num_nodes, -1, np.int64)
    lost = is_unreadable[reach.lost]
    parent[reach.lost[lost]] = reach.lost_from[lost]
    # Heights count from 1 at the leaves.
    below = np.flatnonzero(is_unreadable & (parent >= 0))
    level[below] = table.height[parent[below]] - 2
    root, depth = int(file.header.root_node), int(file.header.tree_depth)
    if 0 < root < file.num_nodes and is_unreadable[root] and 0 < depth <= MAX_HEIGHT:
        level[root] = depth - 1
    return level, parent


def lost_headers(volume: Volume, number: int | None, contents: Contents) -> Table:
    """Make a row of each header node of which nothing can be used, and that is in no tree that was read."""
    columns: list[dict[str, Any]] = []
    forks = {name: contents.special[file_id] for name, file_id in BTREE_FILES.items()}
    hot_files = find_root_file(contents.catalog, HOT_FILES)
    # A file that has nothing but the name of that tree is not reported.
    is_reported = any(item.structure.startswith("hot-files ") for item in volume.log.findings)
    if hot_files >= 0 and is_reported and "hot-files" not in contents.trees:
        forks["hot-files"] = data_fork_of(contents.catalog, hot_files)
    for name, fork in forks.items():
        tree = contents.trees.get(name)
        if (tree is not None and tree.file.fork.is_same(fork)) or not fork.num_blocks:
            continue
        # The header alone tells the size of nodes, and no leaf is left that shows it: a block, or the usual 4 KiB.
        size = min(max(volume.block_size_bytes, int(SIZES.minimum)), USUAL_NODE_BYTES)
        start = int(fork.start_blocks[0]) * volume.block_size_bytes
        if start + size > volume.size_bytes:
            continue
        is_readable = bool(volume.is_readable(np.array([start]), np.array([size]))[0])
        offset = start + volume.image_offset
        columns.append({"tree": name, "image_offset": offset, "size_bytes": size, "is_readable": is_readable})
    if not columns:
        return build_table("nodes", {})
    return build_table(
        "nodes",
        {
            "device": 0,
            "volume": number,
            "tree": (np.arange(len(columns)), tuple(row["tree"] for row in columns)),
            "node_id": np.zeros(len(columns), np.int64),
            **{key: np.array([row[key] for row in columns]) for key in ("image_offset", "size_bytes")},
            **{key: Values(np.zeros(len(columns), np.int64), np.zeros(len(columns), np.bool_)) for key in UNKNOWN},
            "kind": (np.full(len(columns), NODE_KINDS.index("unreadable")), NODE_KINDS),
            "parent_row": np.full(len(columns), NULL_ROW),
            "state": (np.zeros(len(columns), np.int64), STATES),
            "valid": (np.full(len(columns), VALIDITY.index("no")), VALIDITY),
            "condition": (np.array([DAMAGED if row["is_readable"] else UNREAD for row in columns]), CONDITIONS),
        },
    )


def _fill(tree: Tree) -> tuple[I64, I64]:
    """Bytes of records, and bytes that further records could take; -1 where it cannot be told."""
    table = tree.nodes
    limit = tree.file.node_size_bytes - OFFSET_BYTES * (table.num_records + 1)
    known = table.free_offset >= 0
    return np.where(known, table.free_offset - DESCRIPTOR_BYTES, -1), np.where(known, limit - table.free_offset, -1)
