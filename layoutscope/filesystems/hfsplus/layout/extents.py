"""The table of extents: of files, of attributes, and of the special files.

TN1150, "Fork Data Structure", "Extents Overflow File".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.arrays.columns import I64, Columns, take_joined
from layoutscope.arrays.lookup import find
from layoutscope.arrays.ragged import starts_of
from layoutscope.filesystems.hfsplus.records.catalog import DATA_FORK
from layoutscope.filesystems.hfsplus.records.overflow import flatten
from layoutscope.filesystems.hfsplus.tree.tree import first_rows
from layoutscope.ondisk import grammar
from layoutscope.tables import NULL_ROW, Table, build_table
from layoutscope.tables.schema import FLAG_PAST_END

if TYPE_CHECKING:
    from layoutscope.filesystems.hfsplus.contents import Contents
    from layoutscope.filesystems.hfsplus.records.attributes import Attributes
    from layoutscope.filesystems.hfsplus.records.catalog import Catalog
    from layoutscope.filesystems.hfsplus.tree.tree import Tree
    from layoutscope.filesystems.hfsplus.volume.fork import Fork
    from layoutscope.filesystems.hfsplus.volume.volume import Volume

CNID = grammar.HfsplusVolume.Cnid

_COLUMNS = ("file_id", "fork", "fork_block", "start_block", "block_count", "node_row", "size")
FORKS = ("data", "resource")


def extents_table(volume: Volume, number: int | None, contents: Contents) -> Table:
    """Build the table of extents, sorted by file, fork and place in the fork.

    Parameters
    ----------
    volume, number
        The volume.
    contents : Contents
        What was read of it.
    """
    rows, special = first_rows(list(contents.trees.values())), contents.special
    catalog, attributes, overflow = contents.catalog, contents.attributes, contents.trees.get("extents-overflow")
    parts = [
        _special(special, rows.get("extents-overflow", 0)),
        _inline(catalog, rows.get("catalog", 0)),
        _overflow(volume, catalog, overflow, rows.get("extents-overflow", 0), special),
        _attributes(attributes),
    ]
    file_id, fork = (np.concatenate([part[name] for part in parts]) for name in ("file_id", "fork"))
    # Within each part the extents of a fork stand in its order, and overflow extents come behind the others.
    order = np.argsort(file_id * (int(fork.max(initial=0)) + 1) + fork, kind="stable")
    joined = take_joined(parts, dict.fromkeys(_COLUMNS, np.int64), order)
    attribute_names = dict.fromkeys(attributes.owner_name)
    return _table(volume, number, joined, (*FORKS, *attribute_names))


def _table(volume: Volume, number: int | None, rows: Columns, fork_names: tuple[str, ...]) -> Table:
    block = volume.block_size_bytes
    logical, node_row, size = rows.pop("fork_block"), rows.pop("node_row").astype(np.uint32), rows.pop("size")
    logical *= block
    # Columns are computed in place, as memory is what there is least of here.
    offset, length = rows.pop("start_block"), rows.pop("block_count")
    offset *= block
    offset += volume.image_offset
    length *= block
    columns: dict[str, Any] = {
        "device": 0,
        "volume": number,
        "file_id": rows.pop("file_id"),
        "fork": (rows.pop("fork"), fork_names),
        "logical_offset": logical,
        "image_offset": offset,
        "length_bytes": length,
        "node_row": node_row,
        "flags": ((size >= 0) & (logical >= size)) * np.uint8(FLAG_PAST_END),
    }
    return build_table("extents", columns)


def _inline(catalog: Catalog, first_row: int) -> Columns:
    forks, entries = catalog.forks, catalog.entries
    entry = forks["entry"]
    is_data = forks["fork_type"] == DATA_FORK
    return {
        "file_id": entries["file_id"][entry],
        "fork": np.where(is_data, 0, 1),
        "fork_block": forks["fork_block"],
        "start_block": forks["start_block"],
        "block_count": forks["block_count"],
        "node_row": entries["node"][entry] + first_row,
        "size": np.where(is_data, entries["data_size"][entry], entries["resource_size"][entry]),
    }


def _overflow(
    volume: Volume, catalog: Catalog, overflow: Tree | None, first_row: int, special: dict[int, Fork]
) -> Columns:
    """Overflow records of files; those of the special files are theirs already."""
    if overflow is None or not len(overflow.records["node"]):
        return {name: np.empty(0, np.int64) for name in _COLUMNS}
    records = overflow.records
    chosen = np.flatnonzero(find(np.array(sorted(special), np.int64), records["key.file_id"]) < 0)
    owner = records["key.file_id"][chosen]
    is_data = records["key.fork_type"][chosen] == DATA_FORK
    rows = flatten(
        records["data.extents.start_block"][chosen],
        records["data.extents.num_blocks"][chosen],
        records["key.start_block"][chosen],
    )
    record = rows.pop("record")
    entry = find(catalog.entries["file_id"], owner)
    # The bad-block file has extents but no catalog record.
    _report_orphans(volume, owner[(entry < 0) & (owner != CNID.bad_block_file)])
    sizes = np.where(is_data, *(np.append(catalog.entries[name], 0)[entry] for name in ("data_size", "resource_size")))
    return {
        "file_id": owner[record],
        "fork": np.where(is_data, 0, 1)[record],
        **rows,
        "node_row": records["node"][chosen][record] + first_row,
        "size": np.where(entry >= 0, sizes, -1)[record],
    }


def _report_orphans(volume: Volume, owner: I64) -> None:
    if len(owner):
        volume.log.at("extents-overflow records").add(
            "extents-orphaned",
            "warning",
            f"{len(owner):,} records belong to no file of the catalog; the first names file {owner[0]}",
        )


def _attributes(attributes: Attributes) -> Columns:
    forks, owner = attributes.forks, attributes.forks["owner"]
    codes = {name: code for code, name in enumerate(dict.fromkeys(attributes.owner_name))}
    code = np.array([codes[name] for name in attributes.owner_name], np.int64)
    return {
        "file_id": attributes.owners["file_id"][owner],
        "fork": code[owner] + len(FORKS),
        "fork_block": forks["fork_block"],
        "start_block": forks["start_block"],
        "block_count": forks["block_count"],
        "node_row": attributes.owners["node"][owner] + attributes.first_row,
        "size": attributes.owners["size"][owner],
    }


def _special(special: dict[int, Fork], first_row: int) -> Columns:
    """Extents of the special files; those beside their sizes stand in no node."""
    parts = [_special_rows(file_id, fork, first_row) for file_id, fork in special.items()]
    return {name: np.concatenate([part[name] for part in parts]) for name in _COLUMNS}


def _special_rows(file_id: int, fork: Fork, first_row: int) -> Columns:
    count = len(fork.start_blocks)
    return {
        "file_id": np.full(count, file_id, np.int64),
        "fork": np.zeros(count, np.int64),
        "fork_block": starts_of(fork.block_counts),
        "start_block": fork.start_blocks,
        "block_count": fork.block_counts,
        "node_row": np.where(fork.record_nodes >= 0, fork.record_nodes + first_row, int(NULL_ROW)),
        "size": np.full(count, fork.logical_size_bytes, np.int64),
    }
