"""From catalog records to what a ``stat`` shows: the entries table.

TN1150, "Catalog File", "HFS Plus Permissions", "HFS Plus Dates".
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.columns import LARGEST
from layoutscope.arrays.lookup import find
from layoutscope.arrays.ragged import heads, lengths_of
from layoutscope.filesystems.contract import NO_TIME, InodeStats
from layoutscope.filesystems.hfsplus.records.catalog import FILE, FOLDER, TYPE, unix_seconds
from layoutscope.filesystems.hfsplus.tree.folding import compared
from layoutscope.filesystems.hfsplus.tree.names import ENCODING
from layoutscope.filesystems.hfsplus.tree.nodes import decode_nodes, locate_records
from layoutscope.ondisk import grammar
from layoutscope.ondisk.decoder import BULK
from layoutscope.tables import NULL_ROW, Later, Table, Values, build_table, stacked
from layoutscope.tables.schema import FLAG_COMPRESSED, FLAG_DIRECTORY_LINK, FLAG_HARD_LINK, FLAG_INFERRED, FLAG_PRIVATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, U8, Mask
    from layoutscope.filesystems.hfsplus.records.attributes import Attributes
    from layoutscope.filesystems.hfsplus.records.catalog import Catalog
    from layoutscope.filesystems.hfsplus.records.links import Links
    from layoutscope.recordtypes import RecordColumn, RecordType
    from layoutscope.tables import VolumeFacts

KINDS: Final = ("file", "directory", "symlink", "fifo", "socket", "char-device", "block-device")

_MODE = grammar.HfsplusCatalog.ModeType
_KIND_OF_MODE: Final = np.zeros(1 << 16, np.uint8)
for _mode, _kind in (
    (_MODE.symbolic_link, "symlink"),
    (_MODE.fifo, "fifo"),
    (_MODE.socket, "socket"),
    (_MODE.character_device, "char-device"),
    (_MODE.block_device, "block-device"),
):
    _KIND_OF_MODE[int(_mode)] = KINDS.index(_kind)


def entries_table(
    volume_number: int | None, catalog: Catalog, links: Links, attributes: Attributes, catalog_row: int
) -> Table:
    """Build the entries table."""
    entries, follow = catalog.entries, links.follow
    file_id = follow(entries["file_id"])
    is_link = links.is_link | links.is_directory_link
    is_compressed = follow(entries["is_compressed"])
    sizes = _sizes(catalog, links, attributes, is_compressed)
    entry_row = _rows(entries["node"], catalog_row)
    count = len(entry_row)
    columns: dict[str, Any] = {
        "volume": volume_number,
        "parent_id": entries["parent_id"],
        "file_id": file_id,
        "name": catalog.name,
        "name_raw": Later(count, catalog.names.stored),
        "kind": (_kinds(catalog, links), KINDS),
        "size_bytes": Values(sizes, sizes != LARGEST),
        "link_count": _link_counts(catalog, links),
        **{
            f"{name}_time": Later(
                count, partial(_times, follow(entries[f"{name}_date"]), follow(entries["has_expanded_times"]))
            )
            for name in ("create", "modify")
        },
        "flags": _flags(links, is_compressed),
        "entry_rank": _ranks(entries["parent_id"]),
        "entry_node_row": entry_row,
        "inode_node_row": follow(entry_row),
        "thread_node_row": _chosen_rows(catalog.threads["node"], follow(catalog.thread_of), catalog_row),
        "xattr_node_row": attributes.rows_of(file_id, is_compressed),
        "valence": Values(follow(entries["valence"]), follow(entries["is_folder"])),
        "link_id": Values(entries["file_id"], is_link) if is_link.any() else None,
    }
    columns["listing_node_row"] = np.where(follow(entries["is_folder"]), columns["thread_node_row"], NULL_ROW)
    return build_table("entries", columns)


def with_orphans(table: Table, volume_number: int | None, catalog: Catalog, catalog_row: int) -> Table:
    """Add files and folders that are lost but for their threads, which name them and the folders they were in."""
    rows, stored = catalog.orphans, catalog.orphan_names
    if not len(rows):
        return table
    threads = {name: values[rows] for name, values in catalog.threads.items()}
    places = zip(stored.start.tolist(), (stored.start + stored.length).tolist(), strict=True)
    raw = [stored.data[start:stop].tobytes() for start, stop in places]
    unknown = Values(np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_))
    row = _rows(threads["node"], catalog_row)
    columns: dict[str, Any] = {
        "volume": volume_number,
        "parent_id": threads["parent_id"],
        "file_id": threads["file_id"],
        "name": [name.decode(ENCODING, "replace").replace("/", ":") for name in raw],
        "name_raw": raw,
        "kind": (threads["is_folder"].astype(np.uint8), KINDS),
        **dict.fromkeys(("size_bytes", "create_time", "modify_time"), unknown),
        "link_count": np.ones(len(rows), np.uint32),
        "flags": np.full(len(rows), FLAG_INFERRED, np.uint32),
        # They stand behind the entries that are there: where between them, only their names would tell.
        "entry_rank": np.arange(len(table), len(table) + len(rows)),
        **dict.fromkeys(("entry_node_row", "inode_node_row", "thread_node_row"), row),
    }
    more = build_table("entries", columns)
    return stacked([table, more.changed("row", Values(more["row"].data + np.uint32(len(table))))])


def _kinds(catalog: Catalog, links: Links) -> NDArray[np.uint8]:
    entries = catalog.entries
    # A record without a mode was written by a system before Mac OS X; a file is never a directory.
    kinds: NDArray[np.uint8] = _KIND_OF_MODE[links.follow(entries["mode_type"])]
    kinds[links.follow(entries["is_folder"])] = KINDS.index("directory")
    return kinds


def _sizes(catalog: Catalog, links: Links, attributes: Attributes, is_compressed: Mask) -> I64:
    """Logical sizes; those of compressed files stand in an attribute."""
    sizes = links.follow(catalog.entries["data_size"])
    rows = np.flatnonzero(is_compressed)
    if not len(rows):
        return sizes
    sizes = sizes.copy()
    place = find(attributes.compressed_id, catalog.entries["file_id"][links.target[rows]])
    sizes[rows[place >= 0]] = attributes.uncompressed_size[place[place >= 0]]
    return sizes


def _times(dates: NDArray[np.uint32], is_expanded: Mask) -> Values:
    """Dates as times; 0 means that there is none."""
    return Values(unix_seconds(dates, is_expanded) * 1_000_000, dates != 0)


def _link_counts(catalog: Catalog, links: Links) -> NDArray[np.uint32] | int:
    """Links of each file; what is no indirect node has one."""
    if not links.is_inode.any():
        return 1
    return np.where(links.follow(links.is_inode), links.follow(catalog.entries["special"]), np.uint32(1))


def _flags(links: Links, is_compressed: Mask) -> NDArray[np.uint8] | int:
    if not any(mask.any() for mask in (links.is_link, is_compressed, links.is_private, links.is_directory_link)):
        return 0
    flags = links.is_link * np.uint8(FLAG_HARD_LINK)
    flags |= is_compressed * np.uint8(FLAG_COMPRESSED)
    flags |= links.is_private * np.uint8(FLAG_PRIVATE)
    flags |= links.is_directory_link * np.uint8(FLAG_DIRECTORY_LINK)
    return flags


def _ranks(parent_id: I64) -> NDArray[np.uint32]:
    """Place of each entry among those of its folder, which stand together in key order."""
    first = heads(parent_id)
    ranks = np.arange(len(parent_id), dtype=np.uint32)
    ranks -= np.repeat(first.astype(np.uint32), lengths_of(first, len(parent_id)))
    return ranks


def _rows(nodes: NDArray[np.uint32], first_row: int) -> NDArray[np.uint32]:
    return nodes + np.uint32(first_row)


def _chosen_rows(nodes: NDArray[np.uint32], places: NDArray[np.int32], first_row: int) -> NDArray[np.uint32]:
    """Rows of nodes at places, none where the place is -1: that leads to the last one."""
    found: NDArray[np.uint32] = np.append(_rows(nodes, first_row), NULL_ROW)[places]
    return found


def compared_by(name: str, facts: VolumeFacts) -> str:
    """Return what a name is compared by on a volume: HFSX says in its catalog's header whether case counts."""
    return compared(name, is_folded=not facts.case_sensitive)


def inode_stats(nodes: U8) -> InodeStats:
    """Decode what the records of files and folders say of owners, modes and times."""
    read = decode_nodes(BULK, nodes.ravel(), nodes.shape[1], np.arange(len(nodes), dtype=np.int64))
    records = locate_records(BULK, read, None)
    room = records.stop - records.data
    start, room = records.data[room >= TYPE.width], room[room >= TYPE.width]
    kind = BULK.column(TYPE, read.buffer, start, TYPE.record_type)
    parts = [
        _stats_of(read.buffer, start[(kind == number) & (room >= record_type.width)], record_type, file_id)
        for number, record_type, file_id in (
            (int(grammar.HfsplusCatalog.RecordType.folder), FOLDER, FOLDER.folder_id),
            (int(grammar.HfsplusCatalog.RecordType.file), FILE, FILE.file_id),
        )
    ]
    return InodeStats(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _stats_of(buffer: U8, starts: I64, record_type: RecordType, file_id: RecordColumn) -> InodeStats:
    # Files and folders have these fields at the same places, under the same names.
    fields = (FILE.access_date, FILE.attribute_mod_date, FILE.has_expanded_times)
    owners = (FILE.permissions.file_mode, FILE.permissions.owner_id, FILE.permissions.group_id)
    found = BULK.columns(record_type, buffer, starts, (file_id, *fields, *owners))
    dates = [found[name].astype(np.uint32) for name in fields[:2]]
    access, change = (
        np.where(date > 0, unix_seconds(date, found[FILE.has_expanded_times]) * 1_000_000, NO_TIME) for date in dates
    )
    mode, owner, group = (found[name] for name in owners)
    return InodeStats(
        found[file_id].astype(np.uint64),
        mode.astype(np.uint16),
        owner.astype(np.uint32),
        group.astype(np.uint32),
        access,
        change,
    )
