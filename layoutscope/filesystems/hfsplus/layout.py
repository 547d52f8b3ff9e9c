"""The tables of an HFS+ or HFSX volume, in disk order: a :class:`~layoutscope.tables.layout.VolumeLayout`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.filesystems.hfsplus.btree import pieces_of
from layoutscope.filesystems.hfsplus.catalog import (
    DATA_FORK,
    data_fork_of,
    find_root_file,
    format_date,
    resolve_links,
    unix_seconds,
)
from layoutscope.filesystems.hfsplus.contents import (
    HOT_FILES,
    TREE_FILES,
    Contents,
    extend_fork,
    num_missing_entries,
    open_contents,
)
from layoutscope.filesystems.hfsplus.forks import Fork, blocks_before, flatten
from layoutscope.filesystems.hfsplus.names import ENCODING, store_names, to_compared_form
from layoutscope.filesystems.hfsplus.nodes import DESCRIPTOR_BYTES, HEADER, INDEX, LEAF, MAP, OFFSET_BYTES
from layoutscope.filesystems.hfsplus.tree import (
    MAX_HEIGHT,
    Tree,
    find_damaged_nodes,
    first_rows,
    is_case_sensitive,
    is_unusable,
    nodes_apart,
)
from layoutscope.filesystems.hfsplus.volume import END_BYTES, HEADER_BYTES, HEADER_OFFSET, attribute_names, volume_uuid
from layoutscope.structs import grammar
from layoutscope.structs.arrays import LARGEST, concatenate, find, heads, order_of, ranks_of, starts_of
from layoutscope.tables import NULL_ROW, LazyColumn, Table, Values, VolumeFacts, VolumeLayout, build_table, stack_tables
from layoutscope.tables.columns import condition_details
from layoutscope.tables.layout import TreeFacts, findings_table
from layoutscope.tables.schema import (
    CONDITIONS,
    FLAG_COMPRESSED,
    FLAG_DIRECTORY_LINK,
    FLAG_HARD_LINK,
    FLAG_INFERRED,
    FLAG_PAST_END,
    FLAG_PRIVATE,
    FORKS,
    fork_of_attribute,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.filesystems.contract import VolumeRequest
    from layoutscope.filesystems.hfsplus.attributes import Attributes
    from layoutscope.filesystems.hfsplus.catalog import Catalog, Links
    from layoutscope.filesystems.hfsplus.volume import Volume
    from layoutscope.structs.arrays import I64, Columns, Mask


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
    is_link, is_inode = links.is_link | links.is_directory_link, links.is_inode
    is_compressed = follow(entries["is_compressed"])
    sizes = _sizes(catalog, links, attributes, is_compressed)
    # Systems before Mac OS X wrote records without a mode. A file is never a directory.
    kinds: NDArray[np.uint8] = _KIND_OF_MODE[follow(entries["mode_type"])]
    kinds[follow(entries["is_folder"])] = KINDS.index("directory")
    entry_row = entries["node"] + np.uint32(catalog_row)
    # A position of -1 gives null, which is appended as the last element.
    thread_row = np.append(catalog.threads["node"] + np.uint32(catalog_row), NULL_ROW)[follow(catalog.thread_of)]
    count = len(entry_row)
    columns: dict[str, Any] = {
        "volume": volume_number,
        "parent_id": entries["parent_id"],
        "file_id": file_id,
        "name": catalog.name,
        "name_raw": LazyColumn(count, partial(store_names, catalog.name, catalog.other_names)),
        "kind": (kinds, KINDS),
        "size_bytes": Values(sizes, sizes != LARGEST),
        # 1 for everything except indirect nodes.
        "link_count": np.where(follow(is_inode), follow(entries["special"]), np.uint32(1)) if is_inode.any() else 1,
        **{
            f"{name}_time": LazyColumn(
                count, partial(_times, follow(entries[f"{name}_date"]), follow(entries["has_expanded_times"]))
            )
            for name in ("create", "modify")
        },
        "flags": _flags(links, is_compressed),
        "entry_rank": ranks_of(entries["parent_id"]),  # the entries of a folder are contiguous in key order
        "entry_node_row": entry_row,
        "inode_node_row": follow(entry_row),
        "thread_node_row": thread_row,
        "listing_node_row": np.where(follow(entries["is_folder"]), thread_row, NULL_ROW),
        "xattr_node_row": attributes.rows_of(file_id, is_compressed),
        "valence": Values(follow(entries["valence"]), follow(entries["is_folder"])),
        "link_id": Values(entries["file_id"], is_link) if is_link.any() else None,
    }
    return build_table("entries", columns)


def add_orphans(table: Table, volume_number: int | None, catalog: Catalog, catalog_row: int) -> Table:
    """Add lost files and folders that are known only from threads, which name them and their parent folders."""
    rows, raw = catalog.orphans, catalog.orphan_names
    if not len(rows):
        return table
    threads = {name: values[rows] for name, values in catalog.threads.items()}
    row = threads["node"] + np.uint32(catalog_row)
    more = {
        "volume": volume_number,
        "parent_id": threads["parent_id"],
        "file_id": threads["file_id"],
        "name": [name.decode(ENCODING, "replace").replace("/", ":") for name in raw],
        "name_raw": raw,
        "kind": (threads["is_folder"].astype(np.uint8), KINDS),
        **dict.fromkeys(("size_bytes", "create_time", "modify_time")),
        "link_count": 1,
        "flags": FLAG_INFERRED,
        # They follow the existing entries: only their names would show their place among these.
        "entry_rank": np.arange(len(table), len(table) + len(rows)),
        **dict.fromkeys(("entry_node_row", "inode_node_row", "thread_node_row"), row),
    }
    return stack_tables([table, build_table("entries", more)], is_renumbered=True)


def _sizes(catalog: Catalog, links: Links, attributes: Attributes, is_compressed: Mask) -> I64:
    """Return logical sizes; those of compressed files are in an attribute."""
    sizes = links.follow(catalog.entries["data_size"])
    rows = np.flatnonzero(is_compressed)
    if not len(rows):
        return sizes
    sizes = sizes.copy()
    place = find(attributes.compressed_id, catalog.entries["file_id"][links.target[rows]])
    sizes[rows[place >= 0]] = attributes.uncompressed_size[place[place >= 0]]
    return sizes


def _times(dates: NDArray[np.uint32], is_expanded: Mask) -> Values:
    """Convert dates to times; 0 means that there is no date."""
    return Values(unix_seconds(dates, is_expanded) * 1_000_000, dates != 0)


def _flags(links: Links, is_compressed: Mask) -> NDArray[np.uint8] | int:
    masks = {
        FLAG_HARD_LINK: links.is_link,
        FLAG_COMPRESSED: is_compressed,
        FLAG_PRIVATE: links.is_private,
        FLAG_DIRECTORY_LINK: links.is_directory_link,
    }
    # If no entry has a flag, the column is one number.
    return sum(mask * np.uint8(flag) for flag, mask in masks.items() if mask.any())


def compared_by(name: str, facts: VolumeFacts) -> str:
    """Return the form in which a volume compares a name; the header of an HFSX catalog states whether case matters."""
    return to_compared_form(name, is_folded=not facts.case_sensitive)


CNID = grammar.HfsplusVolume.Cnid

_COLUMNS: Final = {
    **dict.fromkeys(("file_id", "fork", "fork_block", "start_block", "block_count", "size"), np.int64),
    "node_row": np.uint32,
}
"""Columns of each extent, in allocation blocks; ``size`` is the size of its fork in bytes, -1 if unknown."""

_OF_FILES: Final = FORKS[:2]
"""Forks in the catalog: data and resource fork."""


def extents_table(volume: Volume, number: int | None, contents: Contents) -> Table:
    """Build the table of extents, sorted by file, fork and position in the fork."""
    rows, special = first_rows(contents.trees), contents.special
    catalog, attributes, overflow = contents.catalog, contents.attributes, contents.trees.get("extents-overflow")
    parts: tuple[Callable[[str], NDArray[Any]], ...] = (
        _special(special, rows.get("extents-overflow", 0)).__getitem__,
        partial(_inline, catalog, rows.get("catalog", 0)),
        _overflow(volume, catalog, overflow, rows.get("extents-overflow", 0), special).__getitem__,
        _attributes(attributes).__getitem__,
    )
    fork_names = (*_OF_FILES, *map(fork_of_attribute, dict.fromkeys(attributes.owner_name)))

    def join(name: str) -> NDArray[Any]:
        """Join one column of all parts at a time: joining holds its data twice, and extents are the largest table."""
        dtype = np.min_scalar_type(len(fork_names)) if name == "fork" else _COLUMNS[name]
        return np.concatenate([part(name).astype(dtype, copy=False) for part in parts])

    block, file_id, fork = volume.block_size_bytes, join("file_id"), join("fork")
    # Within each part, the extents of a fork are in fork order, and overflow extents follow the others.
    order = order_of(file_id * len(fork_names) + fork)
    logical = join("fork_block")
    logical *= block
    size = join("size")
    is_past_end = (size >= 0) & (logical >= size)
    del size
    # If every file is contiguous, both are 0 throughout.
    flags = is_past_end[order] * np.uint8(FLAG_PAST_END) if is_past_end.any() else 0
    logical_offset = logical[order] if logical.any() else 0
    del logical
    offset = join("start_block")[order]
    offset *= block
    offset += volume.image_offset
    length = join("block_count")[order]
    length *= block
    columns: dict[str, Any] = {
        "device": 0,
        "volume": number,
        "file_id": file_id[order],
        "fork": (fork[order], fork_names),
        "logical_offset": logical_offset,
        "image_offset": offset,
        "length_bytes": length,
        "node_row": join("node_row")[order],
        "flags": flags,
    }
    return build_table("extents", columns)


def _inline(catalog: Catalog, first_row: int, name: str) -> NDArray[Any]:
    """Return one column of the extents that are stored in the records of their files."""
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
            # The extents of a fork are contiguous rows.
            first = heads(forks["entry"], forks["fork_type"])
            if len(first) == len(forks["entry"]):
                return np.zeros(len(first), np.int64)
            found = blocks_before(forks["block_count"], first)
        case _:
            found = forks[name]
    return found


def _overflow(
    volume: Volume, catalog: Catalog, overflow: Tree | None, first_row: int, special: dict[int, Fork]
) -> Columns:
    """Return the extents in overflow records of files; those of the special files are already in their forks."""
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
    orphans = owner[(entry < 0) & (owner != CNID.bad_block_file)]
    if len(orphans):
        message = f"{len(orphans):,} records belong to no file of the catalog; the first names file {orphans[0]}"
        volume.log.at("extents-overflow records").add("extents-orphaned", "warning", message)
    sizes = np.where(is_data, *(np.append(catalog.entries[name], 0)[entry] for name in ("data_size", "resource_size")))
    return {
        "file_id": owner[record],
        "fork": np.where(is_data, 0, 1)[record],
        **rows,
        "node_row": records["node"][chosen][record] + first_row,
        "size": np.where(entry >= 0, sizes, -1)[record],
    }


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
    """Return the extents of the special files; those in the volume header have no node."""
    forks = list(special.values())
    counts = [len(fork.start_blocks) for fork in forks]
    records = np.concatenate([fork.record_nodes for fork in forks])
    return {
        "file_id": np.repeat(np.array([*special], np.int64), counts),
        "fork": np.zeros(len(records), np.int64),
        "fork_block": np.concatenate([starts_of(fork.block_counts) for fork in forks]),
        "start_block": np.concatenate([fork.start_blocks for fork in forks]),
        "block_count": np.concatenate([fork.block_counts for fork in forks]),
        "node_row": np.where(records >= 0, records + first_row, int(NULL_ROW)),
        "size": np.repeat(np.array([fork.logical_size_bytes for fork in forks], np.int64), counts),
    }


SIZES: Final = grammar.HfsplusBtree.NodeSizeLimit
USUAL_NODE_BYTES: Final = 4096
UNKNOWN: Final = ("level", "num_records", "used_bytes", "free_bytes", "key_rank", "first_key_id", "last_key_id")
"""Columns that are unknown for a lost node."""

NODE_KINDS: Final = ("leaf", "index", "header", "map", "free", "unreadable")
STATES: Final = ("live", "stale", "inferred")
VALIDITY: Final = ("structure", "no")
SOUND, DAMAGED, UNREAD, _ = range(len(CONDITIONS))


def nodes_tables(volume: Volume, number: int | None, contents: Contents) -> tuple[Table, Table]:
    """Build the tables of nodes, and of fragments of nodes with several pieces."""
    rows = first_rows(contents.trees)
    parts = [_nodes_of(volume, number, tree, rows[name]) for name, tree in contents.trees.items()]
    tables = [*(nodes for nodes, _ in parts), list_lost_headers(volume, number, contents)]
    none = dict.fromkeys(("node_row", "image_offset", "length_bytes"), np.empty(0, np.int64))
    fragments = concatenate([pieces for _, pieces in parts], none)
    return stack_tables(tables, is_renumbered=True), build_table("node_fragments", {"device": 0, **fragments})


def _nodes_of(volume: Volume, number: int | None, tree: Tree, first_row: int) -> tuple[Table, Columns]:
    file, table = tree.file, tree.nodes
    numbers = np.arange(file.num_nodes, dtype=np.int64)
    pieces = pieces_of(volume, file.fork, file.node_size_bytes, numbers)
    offset = np.full(file.num_nodes, -1, np.int64)
    first = heads(pieces.part)
    offset[pieces.part[first]] = pieces.volume_offset[first] + volume.image_offset
    damaged = find_damaged_nodes(tree)
    kind = _node_kinds(tree, damaged)
    is_keyed, is_unreadable = kind <= 1, kind == NODE_KINDS.index("unreadable")
    # Bytes of records, and bytes available for further records.
    is_known, limit = table.free_offset >= 0, file.node_size_bytes - OFFSET_BYTES * (table.num_records + 1)
    used = np.where(is_known, table.free_offset - DESCRIPTOR_BYTES, -1)
    free = np.where(is_known, limit - table.free_offset, -1)
    level, parent = _places_of_lost(tree, is_unreadable)
    reached = (table.key_rank >= 0) | (kind >= 2)
    columns: dict[str, Any] = {
        "device": 0,
        "volume": number,
        "tree": file.tree,
        "node_id": numbers,
        "image_offset": offset,
        "size_bytes": file.node_size_bytes,
        # The format counts heights from 1 at the leaves; the tables of all file systems count levels from 0.
        "level": Values(np.where(is_keyed, table.height - 1, level), np.where(is_keyed, table.height > 0, level >= 0)),
        "kind": (kind, NODE_KINDS),
        "num_records": Values(table.num_records, kind <= 3),
        "used_bytes": Values(used, is_keyed & (used >= 0)),
        # Damaged counts may imply offset tables longer than their node.
        "free_bytes": Values(free, is_keyed & (used >= 0) & (free >= 0)),
        "parent_row": np.where(parent >= 0, parent + first_row, int(NULL_ROW)).astype(np.uint32),
        # A lost node has a position among its neighbours but no rank: ranks count only the nodes that exist.
        "key_rank": Values(table.key_rank, (table.key_rank >= 0) & ~is_unreadable),
        "first_key_id": Values(table.first_key_id, is_keyed & (table.first_key_id >= 0)),
        "last_key_id": Values(table.last_key_id, is_keyed & (table.last_key_id >= 0)),
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


def add_locators(nodes: Table, extents: Table) -> Table:
    """Add the overflow leaf that maps each node beyond the eighth extent of its file."""
    owner = extents["file_id"].data
    locator = np.full(len(nodes), NULL_ROW, np.uint32)
    node_offset = nodes["node_id"].data.astype(np.int64) * nodes["size_bytes"].data
    # The overflow tree's own file has all extents in the volume header.
    for tree in ("catalog", "attributes"):
        found = np.flatnonzero((owner == TREE_FILES[tree]) & extents["node_row"].is_known)
        logical = extents["logical_offset"].data[found]
        order = np.argsort(logical, kind="stable")
        piece = np.searchsorted(logical[order], node_offset, side="right") - 1
        chosen = nodes["tree"].equals(tree) & (piece >= 0)
        locator[chosen] = extents["node_row"].data[found][order][piece[chosen]]
    return nodes.changed("locator_row", Values(locator, locator != NULL_ROW))


def _node_kinds(tree: Tree, damaged: Mask) -> I64:
    """Return the kind of every node as an index into ``NODE_KINDS``; an unused node is free, whatever its bytes."""
    file, table = tree.file, tree.nodes
    # A freed node keeps its bytes, including its descriptor, until it is reused; the map record decides.
    kinds = np.full(file.num_nodes, NODE_KINDS.index("free"), np.int64)
    for name, number in (("leaf", LEAF), ("index", INDEX), ("header", HEADER), ("map", MAP)):
        kinds[file.used & (table.kind == number)] = NODE_KINDS.index(name)
    kinds[file.used & (~file.readable | is_unusable(tree, damaged))] = NODE_KINDS.index("unreadable")
    return kinds


def _places_of_lost(tree: Tree, is_unreadable: Mask) -> tuple[I64, I64]:
    """Return level and parent of each node, -1 if unknown; those of lost nodes come from pointers or the header."""
    file, table, reach = tree.file, tree.nodes, tree.reach
    parent, level = table.parent.copy(), np.full(file.num_nodes, -1, np.int64)
    lost = is_unreadable[reach.lost]
    parent[reach.lost[lost]] = reach.lost_from[lost]
    # Heights count from 1 at the leaves, levels from 0.
    below = np.flatnonzero(is_unreadable & (parent >= 0))
    level[below] = table.height[parent[below]] - 2
    root, depth = int(file.header.root_node), int(file.header.tree_depth)
    if 0 < root < file.num_nodes and is_unreadable[root] and 0 < depth <= MAX_HEIGHT:
        level[root] = depth - 1
    return level, parent


def list_lost_headers(volume: Volume, number: int | None, contents: Contents) -> Table:
    """Make a row for each header node that is entirely unusable and in no tree that was read."""
    lost: list[tuple[str, int]] = []
    forks = {name: contents.special[file_id] for name, file_id in TREE_FILES.items()}
    hot_files = find_root_file(contents.catalog, HOT_FILES)
    # A file that merely has the name of that tree is not reported.
    is_reported = any(item.structure.startswith("hot-files ") for item in volume.log.findings)
    if hot_files >= 0 and is_reported and "hot-files" not in contents.trees:
        forks["hot-files"] = data_fork_of(contents.catalog, hot_files)
    # Only the header gives the node size, and no leaf is left to show it: assume one block, or the usual 4 KiB.
    size = min(max(volume.block_size_bytes, int(SIZES.minimum)), USUAL_NODE_BYTES)
    for name, fork in forks.items():
        tree = contents.trees.get(name)
        if fork.num_blocks and (tree is None or not tree.file.fork.is_same(fork)):
            start = int(fork.start_blocks[0]) * volume.block_size_bytes
            if start + size <= volume.size_bytes:
                lost.append((name, start))
    starts = np.array([start for _, start in lost], np.int64)
    is_readable = volume.is_readable(starts, np.full(len(lost), size))
    return build_table(
        "nodes",
        {
            "device": 0,
            "volume": number,
            "tree": (np.arange(len(lost)), tuple(name for name, _ in lost)),
            "node_id": 0,
            "image_offset": starts + volume.image_offset,
            "size_bytes": size,
            **dict.fromkeys(UNKNOWN),
            "parent_row": None,
            "kind": "unreadable",
            "state": "live",
            "valid": "no",
            "condition": (np.where(is_readable, DAMAGED, UNREAD), CONDITIONS),
        },
    )


Region = tuple[str, str, int, int]
"""Type, owner, volume offset, length in bytes."""

NEEDED_BY_NOBODY: Final = frozenset({"boot-blocks", "reserved", "startup-file", "bad-blocks"})
"""Types of regions whose bytes are not shown: boot code of other systems, Apple's factory area, and bad blocks."""


def find_regions(volume: Volume, contents: Contents) -> list[Region]:
    """List the regions of a volume: metadata that is not in tree nodes, by address."""
    block, special, journal = volume.block_size_bytes, contents.special, contents.journal
    regions: list[Region] = [
        ("boot-blocks", "", 0, HEADER_OFFSET),
        ("volume-header", "", HEADER_OFFSET, HEADER_BYTES),
    ]
    if volume.end_offset is not None:
        # The copy is in the second-to-last sector. The 512 bytes after it are reserved for Apple's manufacturing.
        reserved = volume.end_offset + HEADER_BYTES
        regions.append(("alternate-volume-header", "", volume.end_offset, HEADER_BYTES))
        regions.append(("reserved", "", reserved, END_BYTES - HEADER_BYTES))
    none = np.empty(0, np.int64)
    # Neither the volume header nor the catalog records this file: all of its extents are in the overflow file.
    overflow = contents.trees.get("extents-overflow")
    bad_blocks = extend_fork(Fork(0, none, none, none), overflow, CNID.bad_block_file, DATA_FORK)
    for kind, fork in (
        ("allocation-file", special[CNID.allocation_file]),
        ("startup-file", special[CNID.startup_file]),
        ("bad-blocks", bad_blocks),
    ):
        extents = zip(fork.start_blocks.tolist(), fork.block_counts.tolist(), strict=True)
        regions += [(kind, kind, start * block, count * block) for start, count in extents]
    if journal is not None:
        # The info block takes a whole block.
        regions.append(("journal-info-block", "journal", journal.info_offset, block))
        if journal.size_bytes:
            regions.append(("journal", "journal", journal.journal_offset, journal.size_bytes))
    return sorted(regions, key=lambda region: region[2])


def regions_table(volume: Volume, number: int | None, regions: list[Region]) -> Table:
    """Build the table of metadata that is not in tree nodes."""
    types, owners, offsets, lengths = zip(*regions, strict=True)
    return build_table(
        "regions",
        {
            "device": 0,
            "volume": number,
            "type": list(types),
            "owner": list(owners),
            "image_offset": np.array(offsets, np.int64) + volume.image_offset,
            "length_bytes": np.array(lengths, np.int64),
        },
    )


def volume_facts(
    volume: Volume, contents: Contents, regions: list[Region], stack: tuple[str, ...], number: int | None
) -> VolumeFacts:
    """Combine name, identifier, geometry, features, trees and coverage."""
    header, trees, catalog = volume.header, contents.trees, contents.catalog
    variant = "HFSX" if volume.is_hfsx else "HFS+"
    known, read = _coverage(volume, contents, regions)
    # The name of the root folder is the volume's name.
    roots = np.flatnonzero(catalog.entries["parent_id"] == CNID.root_parent)
    names = catalog.name.take(roots[:1]).to_list()
    return VolumeFacts(
        filesystem="hfsplus",
        variant=variant,
        volume=number,
        name=str(names[0]) if names else "",
        uuid=volume_uuid(header),
        stack=(*stack, variant),
        image_offset=volume.image_offset,
        size_bytes=volume.size_bytes,
        block_size_bytes=volume.block_size_bytes,
        case_sensitive=is_case_sensitive(volume, trees.get("catalog")),
        stamp=int(header.write_count),
        num_files=int(header.num_files),
        num_directories=int(header.num_folders),
        features=attribute_names(header),
        details=_details(volume, contents),
        trees=tuple(
            TreeFacts(
                tree=name,
                node_size_bytes=tree.file.node_size_bytes,
                height=int(tree.file.header.tree_depth),
                num_nodes=int(tree.file.header.num_nodes),
                num_free_nodes=int(tree.file.header.num_free_nodes),
                num_leaf_records=int(tree.file.header.leaf_records),
                root_node_id=int(tree.file.header.root_node),
            )
            for name, tree in trees.items()
        ),
        metadata_known_bytes=known,
        metadata_read_bytes=read,
        num_missing_entries=num_missing_entries(volume, catalog),
    )


def _details(volume: Volume, contents: Contents) -> dict[str, str | int | float | bool]:
    header = volume.header
    details: dict[str, str | int | float | bool] = {
        # TN1150: this is the only date of a volume in local time; the others are in UTC.
        "created (local time)": format_date(int(header.create_date)),
        "modified (UTC)": format_date(int(header.modify_date), is_expanded=bool(header.has_expanded_times)),
        "checked (UTC)": format_date(int(header.checked_date), is_expanded=bool(header.has_expanded_times)),
        "last mounted by": int(header.last_mounted_version).to_bytes(4, "big").decode("ascii", "replace"),
        "allocation blocks": int(header.num_blocks),
        "free blocks": int(header.num_free_blocks),
        "next CNID": int(header.next_catalog_id),
        "extended attributes": len(contents.attributes.file_id),
        "catalog clump bytes": int(header.catalog_file.len_clump),
        "attributes clump bytes": int(header.attributes_file.len_clump),
    }
    for name, count in (contents.stale or {}).items():
        details[f"stale {name} nodes"] = count
    journal = contents.journal
    if journal is not None and not journal.size_bytes:
        details["journal"] = "on another device"
    elif journal is not None:
        order = "little-endian" if journal.is_little_endian else "big-endian"
        state = "no header" if journal.header is None else f"{order}, {journal.num_pending_bytes:,} bytes pending"
        details["journal"] = f"{journal.size_bytes:,} bytes at volume byte {journal.journal_offset:,}, {state}"
        if journal.header is not None and journal.num_pending_bytes:
            details["journal pending bytes"] = journal.num_pending_bytes
            details["journal pending from byte"] = int(journal.header.ofs_start)
    is_replayed = any(item.code == "journal-replayed" for item in volume.log.findings)
    notes = ["the volume was not unmounted cleanly"] if not header.is_unmounted else []
    notes += ["its journal was replayed in memory"] if is_replayed else []
    if notes:
        details["note"] = "; ".join(notes)
    return details


def _coverage(volume: Volume, contents: Contents, regions: list[Region]) -> tuple[int, int]:
    """Return the bytes of metadata in use, and how many of them are on the image and were read into it."""
    starts, lengths = (np.array([region[place] for region in regions], np.int64) for place in (2, 3))
    # Regions that no reader needs do not count as lost if they cannot be read.
    is_read = volume.is_readable(starts, lengths) | np.array([region[0] in NEEDED_BY_NOBODY for region in regions])
    known, read = int(lengths.sum()), int(lengths[is_read].sum())
    for tree in contents.trees.values():
        file, nodes = tree.file, tree.nodes
        # All bytes of nodes that nothing leads to and of nodes with bad records were read, but not all content. The
        # kind of the former does not matter, because the kind itself may be damaged. Some of the inferred nodes, which
        # were placed only by their keys, may be missing.
        is_lost = nodes.damaged | nodes.is_inferred | nodes_apart(file, nodes, tree.reach)
        known += int(file.used.sum()) * file.node_size_bytes
        read += int((file.used & file.readable & ~is_lost).sum()) * file.node_size_bytes
    # If only a sweep found the volume, the location of the header is known, but not its content.
    read -= HEADER_BYTES if volume.is_inferred else 0
    # B-trees that could not be opened.
    lost = (contents.special[cnid].num_blocks for name, cnid in TREE_FILES.items() if name not in contents.trees)
    return known + sum(lost) * volume.block_size_bytes, read


def read_layout(request: VolumeRequest, compare: Callable[[Volume, Contents], None]) -> VolumeLayout:
    """Read the layout of an HFS+ or HFSX volume; `compare` adds findings about contradictions in its contents."""
    opened, contents = open_contents(request)
    read = opened, contents
    mark = opened.log.mark()
    compare(opened, contents)
    contents = replace(contents, catalog=contents.catalog.checked())
    # The last layer is the volume itself, for which its header gives a more precise name.
    layout = build_layout(opened, contents, request.stack[:-1], request.first_volume)
    request.keep(read, [mark])
    return layout


def build_layout(volume: Volume, contents: Contents, stack: tuple[str, ...], number: int | None) -> VolumeLayout:
    """Build the public tables."""
    rows = first_rows(contents.trees)
    nodes, fragments = nodes_tables(volume, number, contents)
    catalog, catalog_row = contents.trees.get("catalog"), rows.get("catalog", 0)
    links = resolve_links(volume, contents.catalog, catalog.file if catalog is not None else None)
    entries = entries_table(number, contents.catalog, links, contents.attributes, catalog_row)
    if contents.stale is not None:
        entries = add_orphans(entries, number, contents.catalog, catalog_row)
    extents = extents_table(volume, number, contents)
    regions = find_regions(volume, contents)
    facts = volume_facts(volume, contents, regions, stack, number)
    block = volume.block_size_bytes
    free = {
        "device": 0,
        "volume": number,
        "image_offset": contents.free_starts * block + volume.image_offset,
        "length_bytes": contents.free_counts * block,
    }
    return VolumeLayout(
        facts=replace(facts, details={**facts.details, **condition_details(nodes)}),
        nodes=add_locators(nodes, extents),
        node_fragments=fragments,
        regions=regions_table(volume, number, regions),
        extents=extents,
        entries=entries,
        free=build_table("free", free),
        findings=findings_table(volume.log.findings),
    )
