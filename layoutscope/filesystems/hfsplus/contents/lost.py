"""Which records are missing where part of a B-tree cannot be reached.

TN1150, "B-Trees", Index Nodes: a pointer's key is the first key of the node it leads to, and the next pointer's
key comes behind the last one. So the keys are known that a lost node held, even though nothing of it can be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.columns import I64, concatenate
from layoutscope.arrays.lookup import distinct
from layoutscope.filesystems.hfsplus.tree.btree import pieces_of
from layoutscope.filesystems.hfsplus.tree.keys import FORMS
from layoutscope.filesystems.hfsplus.tree.nodes import INDEX, decode_nodes, locate_records
from layoutscope.filesystems.hfsplus.volume.fork import locate, read_parts
from layoutscope.ondisk.records import POINTER_RECORD

if TYPE_CHECKING:
    from layoutscope.arrays.columns import Columns
    from layoutscope.filesystems.hfsplus.records.catalog import Catalog
    from layoutscope.filesystems.hfsplus.tree.tree import Tree
    from layoutscope.filesystems.hfsplus.volume.volume import Volume

MOST_LOSSES: Final = 100
MOST_FOLDERS: Final = 10
_COLUMNS: Final = ("level", "ident", "child", "at", "node")
_NOUNS: Final = {"catalog": "folder", "hot-files": "temperature"}


def report_losses(volume: Volume, tree: Tree, catalog: Catalog) -> None:
    """Report every pointer whose node was not reached, with the keys that are missing."""
    if not len(tree.reach.missing) and not len(tree.reach.misled):
        return
    rows = _pointers(volume, tree)
    child = rows["child"]
    inside = (child > 0) & (child < tree.file.num_nodes)
    place = np.where(inside, child, 0)
    reached = inside & (tree.nodes.key_rank[place] >= 0)
    # A rebuilt tree has leaves without a parent: the pointer is broken, but nothing is missing.
    lost = np.flatnonzero(~reached)
    for row in lost[:MOST_LOSSES].tolist():
        _report(volume, tree, catalog, rows, row)


def _pointers(volume: Volume, tree: Tree) -> Columns:
    """Read the records of all index nodes that the tree reaches, each level in key order."""
    table, file = tree.nodes, tree.file
    reached = np.flatnonzero((table.key_rank >= 0) & (table.kind == INDEX))
    order = np.lexsort((table.key_rank[reached], table.height[reached]))
    numbers = reached[order]
    form = FORMS[file.tree]
    fixed = None if file.header.has_variable_index_keys else int(file.header.len_key_max)
    parts = []
    for number in numbers.tolist():
        one = np.array([number], np.int64)
        buffer = read_parts(volume, pieces_of(volume, file.fork, file.node_size_bytes, one))
        records = locate_records(volume.decoder, decode_nodes(volume.decoder, buffer, file.node_size_bytes, one), fixed)
        whole = records.data - records.key >= form.fixed_length + 2
        key, data = records.key[whole], records.data[whole]
        ident = volume.decoder.column(form.key_type, buffer, key, form.ident)
        child = volume.decoder.column(POINTER_RECORD, buffer, data, POINTER_RECORD.child_node)
        parts.append(
            {
                "level": np.full(len(key), int(table.height[number]) - 1, np.int64),
                "ident": ident.astype(np.int64),
                "child": child.astype(np.int64),
                "at": data + number * file.node_size_bytes,
                "node": np.full(len(key), number, np.int64),
            }
        )
    return concatenate(parts, dict.fromkeys(_COLUMNS, np.empty(0, np.int64)))


def _report(volume: Volume, tree: Tree, catalog: Catalog, rows: Columns, row: int) -> None:
    first, noun = int(rows["ident"][row]), _NOUNS.get(tree.file.tree, "file")
    after = row + 1
    ends = after < len(rows["level"]) and rows["level"][after] == rows["level"][row]
    until = f"up to {noun} {rows['ident'][after]}" if ends else "to the end"
    last = int(rows["ident"][after]) if ends else np.iinfo(np.int64).max
    pieces = locate(volume, tree.file.fork, rows["at"][row : row + 1], np.ones(1, np.int64))
    at = int(pieces.volume_offset[0]) if len(pieces.part) else None
    known = _folders(catalog, first, last) if tree.file.tree == "catalog" else ""
    volume.log.at(f"{tree.file.tree} node {rows['child'][row]}", at).add(
        "subtree-missing",
        "error",
        f"node {rows['child'][row]} cannot be reached: records from {noun} {first} {until} are missing{known}",
    )


def _folders(catalog: Catalog, first: int, last: int) -> str:
    """List the folders that are known and whose entries may be among what is missing."""
    entries = catalog.entries
    ids: I64 = distinct(
        entries["file_id"][entries["is_folder"] & (entries["file_id"] >= first) & (entries["file_id"] <= last)]
    )
    if not len(ids):
        return ""
    more = f" and {len(ids) - MOST_FOLDERS:,} more" if len(ids) > MOST_FOLDERS else ""
    return f"; of known folders this concerns {', '.join(map(str, ids[:MOST_FOLDERS].tolist()))}{more}"
