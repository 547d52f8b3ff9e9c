"""The table of extents: of files, of attributes, and of the special files.

TN1150, "Fork Data Structure", "Extents Overflow File".
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.lookup import find, order_of
from layoutscope.arrays.ragged import heads, lengths_of, starts_of
from layoutscope.filesystems.hfsplus.records.catalog import DATA_FORK
from layoutscope.filesystems.hfsplus.records.overflow import flatten
from layoutscope.filesystems.hfsplus.tree.tree import first_rows
from layoutscope.ondisk import grammar
from layoutscope.tables import NULL_ROW, Table, build_table
from layoutscope.tables.schema import FLAG_PAST_END, FORKS, fork_of_attribute

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, Columns
    from layoutscope.filesystems.hfsplus.contents import Contents
    from layoutscope.filesystems.hfsplus.records.attributes import Attributes
    from layoutscope.filesystems.hfsplus.records.catalog import Catalog
    from layoutscope.filesystems.hfsplus.tree.tree import Tree
    from layoutscope.filesystems.hfsplus.volume.fork import Fork
    from layoutscope.filesystems.hfsplus.volume.volume import Volume

CNID = grammar.HfsplusVolume.Cnid

_COLUMNS: Final = {
    **dict.fromkeys(("file_id", "fork", "fork_block", "start_block", "block_count", "size"), np.int64),
    "node_row": np.uint32,
}
"""What is told of each extent, in allocation blocks; ``size`` is that of its fork in bytes, -1 where unknown."""

_OF_FILES: Final = FORKS[:2]
"""Forks in the catalog, by whether they are the second one."""


def extents_table(volume: Volume, number: int | None, contents: Contents) -> Table:
    """Build the table of extents, sorted by file, fork and place in the fork."""
    rows, special = first_rows(list(contents.trees.values())), contents.special
    catalog, attributes, overflow = contents.catalog, contents.attributes, contents.trees.get("extents-overflow")
    parts: tuple[Callable[[str], NDArray[Any]], ...] = (
        _special(special, rows.get("extents-overflow", 0)).__getitem__,
        partial(_inline, catalog, rows.get("catalog", 0)),
        _overflow(volume, catalog, overflow, rows.get("extents-overflow", 0), special).__getitem__,
        _attributes(attributes).__getitem__,
    )
    fork_names = (*_OF_FILES, *map(fork_of_attribute, dict.fromkeys(attributes.owner_name)))
    return _table(volume, number, partial(_joined, parts, fork_names), fork_names)


def _joined(parts: Sequence[Callable[[str], NDArray[Any]]], fork_names: Sequence[str], name: str) -> NDArray[Any]:
    """Join one column of all parts: what is joined at once is held twice, and extents are what there is most of."""
    dtype = np.min_scalar_type(len(fork_names)) if name == "fork" else _COLUMNS[name]
    columns = (part(name) for part in parts)
    return np.concatenate([column.astype(dtype, copy=False) for column in columns])


def _table(
    volume: Volume, number: int | None, column: Callable[[str], NDArray[Any]], fork_names: tuple[str, ...]
) -> Table:
    block, file_id, fork = volume.block_size_bytes, column("file_id"), column("fork")
    # Within each part the extents of a fork stand in its order, and overflow extents come behind the others.
    order = order_of(file_id * len(fork_names) + fork)
    logical = column("fork_block")
    logical *= block
    size = column("size")
    is_past_end = (size >= 0) & (logical >= size)
    del size
    # Of files that lie in one piece each, both are 0 throughout.
    flags = is_past_end[order] * np.uint8(FLAG_PAST_END) if is_past_end.any() else 0
    logical_offset = logical[order] if logical.any() else 0
    del logical
    offset = column("start_block")[order]
    offset *= block
    offset += volume.image_offset
    length = column("block_count")[order]
    length *= block
    columns: dict[str, Any] = {
        "device": 0,
        "volume": number,
        "file_id": file_id[order],
        "fork": (fork[order], fork_names),
        "logical_offset": logical_offset,
        "image_offset": offset,
        "length_bytes": length,
        "node_row": column("node_row")[order],
        "flags": flags,
    }
    return build_table("extents", columns)


def _inline(catalog: Catalog, first_row: int, name: str) -> NDArray[Any]:
    """Return one column of the extents that stand in the records of their files."""
    forks, entries = catalog.forks, catalog.entries
    found: NDArray[Any]
    match name:
        case "file_id":
            found = entries["file_id"][forks["entry"]]
        case "fork":
            found = forks["fork_type"] != DATA_FORK
        case "node_row":
            found = (entries["node"] + first_row).astype(np.uint32)[forks["entry"]]
        case "size":
            found = entries["data_size"][forks["entry"]]
            rows = np.flatnonzero(forks["fork_type"] != DATA_FORK)
            found[rows] = entries["resource_size"][forks["entry"][rows]]
        case "fork_block":
            found = _blocks_before(forks)
        case _:
            found = forks[name]
    return found


def _blocks_before(forks: Columns) -> I64:
    """Count the blocks of each fork before each of its extents, which follow one another."""
    first = heads(forks["entry"], forks["fork_type"])
    if len(first) == len(forks["entry"]):
        return np.zeros(len(first), np.int64)
    before = starts_of(forks["block_count"])
    before -= np.repeat(before[first], lengths_of(first, len(before)))
    return before


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
        "fork": code[owner] + len(_OF_FILES),
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
