"""Nodes of all trees, and the fragments of those that lie in several pieces.

Nodes are numbered tree by tree, in node-number order: the row of a node is the row of its tree's node 0 and its number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.ragged import heads
from layoutscope.filesystems.hfsplus.tree.btree import pieces_of
from layoutscope.filesystems.hfsplus.tree.nodes import DESCRIPTOR_BYTES, HEADER, INDEX, LEAF, MAP, OFFSET_BYTES
from layoutscope.filesystems.hfsplus.tree.tree import Tree, first_rows, nodes_apart
from layoutscope.ondisk import grammar
from layoutscope.tables import NULL_ROW, Table, Values, build_table, stacked

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64, Columns, Mask
    from layoutscope.filesystems.hfsplus.volume.volume import Volume

CNID: Final = grammar.HfsplusVolume.Cnid

NODE_KINDS: Final = ("leaf", "index", "header", "map", "free", "unreadable")
STATES: Final = ("live", "stale", "inferred")
VALIDITY: Final = ("structure", "no")


def nodes_tables(volume: Volume, number: int | None, trees: list[Tree]) -> tuple[Table, Table]:
    """Build the tables of nodes and of fragments of nodes that lie in several pieces.

    Parameters
    ----------
    volume : Volume
        Gives the block size and where it starts on the image.
    number : int or None
        Its number on the image.
    trees : list of Tree
        In the order that their nodes shall have in the table.

    Returns
    -------
    Table, Table
        One row a node, whether in use or not; one row a piece of those nodes that lie in several.
    """
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
    kind = _kinds(tree)
    is_keyed = kind <= 1
    used, free = _fill(tree)
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
        "level": _nullable(table.height - 1, is_keyed & (table.height > 0)),
        "kind": (kind, NODE_KINDS),
        "num_records": _nullable(table.num_records, kind <= 3),
        "used_bytes": _nullable(used, is_keyed & (used >= 0)),
        # Damage makes counts whose offset tables would be longer than their node.
        "free_bytes": _nullable(free, is_keyed & (used >= 0) & (free >= 0)),
        "parent_row": np.where(table.parent >= 0, table.parent + first_row, int(NULL_ROW)).astype(np.uint32),
        "key_rank": _nullable(table.key_rank, table.key_rank >= 0),
        "first_key_id": _nullable(table.first_key_id, is_keyed & (table.first_key_id >= 0)),
        "last_key_id": _nullable(table.last_key_id, is_keyed & (table.last_key_id >= 0)),
        "state": (np.where(is_keyed, np.where(reached, 2 * table.is_inferred, 1), 0), STATES),
        "valid": (table.damaged | (kind == NODE_KINDS.index("unreadable")), VALIDITY),
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
    """Tell of nodes beyond the eighth extent of their file which overflow leaf leads there.

    Parameters
    ----------
    nodes, extents : Table
        The tables of a volume; extents of special files that the volume header holds name no leaf.
    """
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


def _kinds(tree: Tree) -> I64:
    """Kind of every node by its place in ``NODE_KINDS``; what is not in use is free, whatever its bytes say."""
    file, table = tree.file, tree.nodes
    # A node that was freed keeps its bytes, descriptor included, until it is used again; the map record decides.
    kinds = np.full(file.num_nodes, NODE_KINDS.index("free"), np.int64)
    for name, number in (("leaf", LEAF), ("index", INDEX), ("header", HEADER), ("map", MAP)):
        kinds[file.used & (table.kind == number)] = NODE_KINDS.index(name)
    kinds[file.used & (~file.readable | _is_destroyed(tree))] = NODE_KINDS.index("unreadable")
    return kinds


def _is_destroyed(tree: Tree) -> Mask:
    """Nodes whose bytes are those of no node: the root, and of a tree that lost some what nothing leads to."""
    file, table = tree.file, tree.nodes
    needed = nodes_apart(tree)
    root = int(file.header.root_node)
    if 0 < root < file.num_nodes and file.header.leaf_records:
        needed[root] = True
    is_node: Mask = np.isin(table.kind, (LEAF, INDEX)) & (table.num_records > 0)
    return needed & ~is_node


def _fill(tree: Tree) -> tuple[I64, I64]:
    """Bytes of records, and bytes that further records could take; -1 where it cannot be told."""
    table = tree.nodes
    limit = tree.file.node_size_bytes - OFFSET_BYTES * (table.num_records + 1)
    known = table.free_offset >= 0
    return np.where(known, table.free_offset - DESCRIPTOR_BYTES, -1), np.where(known, limit - table.free_offset, -1)
