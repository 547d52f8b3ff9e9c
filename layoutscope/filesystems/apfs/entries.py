"""The table ``entries``: directory entries joined with their inodes.

Apple File System Reference, File-System Objects. A directory's records are adjacent in the tree, sorted by the hash of
their names. The inodes are elsewhere, sorted by inode number.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from layoutscope.filesystems.apfs.contents import ORPHAN, streams
from layoutscope.filesystems.apfs.fsrecords import to_text
from layoutscope.filesystems.apfs.nodes import order_key
from layoutscope.structs import grammar
from layoutscope.structs.arrays import (
    Index,
    is_strictly_ascending,
    last_at_most,
    match,
    ordinals,
    owners,
    ranges,
    ranks_of,
)
from layoutscope.tables import NULL_OFFSET, NULL_ROW, LazyColumn, Table, Values, build_table
from layoutscope.tables.schema import (
    FLAG_COMPRESSED,
    FLAG_DATALESS,
    FLAG_ENCRYPTED,
    FLAG_HARD_LINK,
    FLAG_PAST_END,
    FLAG_PRIVATE,
    FLAG_SHARED,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import IntEnum

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.blocks import Blocks
    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.filesystems.apfs.fsrecords import Columns, RecordTree
    from layoutscope.filesystems.apfs.nodes import NodeRows
    from layoutscope.findings import FindingLog


KINDS = ("file", "directory", "symlink", "fifo", "socket", "char-device", "block-device", "whiteout", "unknown")
MAX_LISTED = 100
NO_NODE = -1
# The target of a symbolic link is an attribute, not the file's data (reference, p. 97).
SYMLINK_NAME = b"com.apple.fs.symlink"


def entries_table(tree: RecordTree, first_row: int, volume: int, log: FindingLog) -> Table:
    """Make the table of directory entries."""
    nodes, drecs, inodes = tree.nodes, tree.get("dir_rec"), tree.get("inode")
    if not len(drecs["obj_id"]):
        return build_table("entries", {})
    spot, known = tree.find("dir_rec", "inode", "file_id")
    _report_missing(drecs, known, log)
    is_known = None if known.all() else known
    of_inode = partial(_take, spot, is_known)
    kind = of_inode(_kinds_of(grammar.ApfsInode.ModeFormat, inodes["format"]))
    if is_known is not None:
        kind = np.where(known, kind, _kinds_of(grammar.ApfsDirectory.EntryType, drecs["entry_type"]))
    is_directory = kind == KINDS.index("directory")
    # One inode field (nchildren or nlink) counts a directory's entries, or the links of any other inode.
    children = of_inode(inodes["num_children_or_links"])
    np.maximum(children, 0, out=children)
    # Directories have no hard links in APFS.
    links = np.where(is_directory, children.dtype.type(1), children)
    # Times are computed on request, from these two columns only.
    narrow = spot.astype(np.uint32)
    times = [partial(_times, narrow, is_known, inodes[name]) for name in ("create_time", "mod_time")]
    sizes = _sizes(of_inode, inodes, kind, tree.get("xattr"), drecs["file_id"])
    impossible = np.flatnonzero(sizes < 0)
    if len(impossible):
        first = impossible[0]
        message = (
            f"{len(impossible):,} files have a size of 2**63 bytes or more; the first is file {drecs['file_id'][first]}"
        )
        log.at(f"entry of directory {drecs['obj_id'][first]}").add("record-invalid", "error", message)
    # A file that was deleted while open waits there until it is closed.
    private = np.uint64(grammar.ApfsInode.InodeNumber.private_dir)
    flags = (links > 1) * np.uint8(FLAG_HARD_LINK)
    flags[of_inode(inodes["is_compressed"])] |= FLAG_COMPRESSED
    flags[of_inode(inodes["is_dataless"])] |= FLAG_DATALESS
    flags[(drecs["file_id"] == private) | (drecs["obj_id"] == private)] |= FLAG_PRIVATE
    columns = {
        "volume": volume,
        "parent_id": drecs["obj_id"],
        "file_id": drecs["file_id"],
        "name": to_text(drecs["name"]),
        "name_raw": drecs["name"],
        "kind": (kind, KINDS),
        "size_bytes": Values(sizes, sizes >= 0) if len(impossible) else sizes,
        "link_count": links.view(np.uint32),
        "create_time": LazyColumn(len(kind), times[0]),
        "modify_time": LazyColumn(len(kind), times[1]),
        "flags": flags if flags.any() else 0,
        "entry_rank": ranks_of(drecs["obj_id"]),  # records are in key order
        "entry_node_row": _rows(drecs["node"], first_row),
        "inode_node_row": _rows(of_inode(inodes["node"], NO_NODE), first_row),
        "xattr_node_row": _rows(_xattr_leaves(tree), first_row),
        "dstream_node_row": _rows(of_inode(_dstream_leaves(inodes, nodes), NO_NODE), first_row),
        "listing_node_row": _listing_rows(drecs["file_id"], is_directory, nodes, "right", first_row),
        "listing_end_node_row": _listing_rows(drecs["file_id"], is_directory, nodes, "left", first_row),
        "valence": Values(children.view(np.uint32), is_directory & known),
        "link_id": Values(drecs["sibling_id"], drecs["sibling_id"] != 0) if drecs["sibling_id"].any() else None,
    }
    return build_table("entries", columns)


def _report_missing(drecs: Columns, known: NDArray[np.bool_], log: FindingLog) -> None:
    missing = np.flatnonzero(~known)
    for row in missing[:MAX_LISTED].tolist():
        entry = log.at(f"entry of directory {drecs['obj_id'][row]}")
        entry.add("inode-missing", "error", "its inode does not exist", found=drecs["file_id"][row])
    if len(missing) > MAX_LISTED:
        message = f"{len(missing) - MAX_LISTED} further entries name inodes that do not exist"
        log.at("directory entries").add("inode-missing", "error", message)


def _take(
    spot: NDArray[np.integer[Any]],
    is_known: NDArray[np.bool_] | None,  # None if every item has a row
    values: NDArray[Any],
    otherwise: NDArray[Any] | int = 0,
) -> NDArray[Any]:
    """Return the value in each item's row of a table; `otherwise` if it has none."""
    if is_known is None:
        found: NDArray[Any] = values[spot]
        return found
    if not len(values):
        return np.full(len(spot), otherwise, values.dtype)
    return np.where(is_known, values[spot], np.asarray(otherwise, values.dtype))


def _rows(position: NDArray[np.int32], first_row: int) -> NDArray[np.uint32]:
    """Convert positions among the tree's nodes to rows of the node table; null if the position is negative."""
    rows: NDArray[np.uint32] = position.astype(np.uint32)
    rows += np.uint32(first_row)
    absent = position < 0
    if absent.any():
        rows[absent] = NULL_ROW
    return rows


def _times(
    spot: NDArray[np.uint32], is_known: NDArray[np.bool_] | None, values: NDArray[np.int64]
) -> NDArray[np.int64]:
    nanoseconds = _take(spot, is_known, values)
    # Nanoseconds since 1970 (reference, j_inode_val_t), interpreted as signed: earlier times are negative, and division
    # must round them down too.
    np.floor_divide(nanoseconds, 1000, out=nanoseconds)
    return nanoseconds


def _kinds_of(names: type[IntEnum], values: NDArray[np.uint16 | np.uint8]) -> NDArray[np.uint8]:
    """Return the position of the name of each value in :data:`KINDS`."""
    kinds = np.full(np.iinfo(np.uint16).max + 1, KINDS.index("unknown"), np.uint8)
    for item in names:
        kinds[int(item)] = KINDS.index(item.name.replace("_", "-"))
    return kinds[values]


def _sizes(
    of_inode: Callable[[NDArray[Any]], NDArray[Any]],
    inodes: Columns,
    kind: NDArray[np.uint8],
    xattrs: Columns,
    file_id: NDArray[np.uint64],
) -> NDArray[np.int64]:
    """Return logical sizes: of a data stream, an uncompressed file, or the target of a symbolic link."""
    size: NDArray[np.int64] = of_inode(inodes["data_size"]).view(np.int64)
    # A compressed file's own data stream is empty or absent.
    compressed = of_inode(inodes["is_compressed"])
    if compressed.any():
        stored = compressed & of_inode(inodes["has_uncompressed_size"])
        size = np.where(stored, of_inode(inodes["len_uncompressed"]).astype(np.int64), size)
    if len(xattrs["obj_id"]):
        rows = np.flatnonzero(xattrs["expanded_size"] >= 0)
        holders, values = xattrs["obj_id"][rows], xattrs["expanded_size"][rows]
        size = _take_attribute_sizes(size, compressed, file_id, holders, values)
        rows = np.flatnonzero(xattrs["name"].equal_to(SYMLINK_NAME))
        # The target ends with a zero byte, which stat does not count.
        holders, values = xattrs["obj_id"][rows], xattrs["len_xdata"][rows].astype(np.int64) - 1
        size = _take_attribute_sizes(size, kind == KINDS.index("symlink"), file_id, holders, values)
    size[kind == KINDS.index("directory")] = 0
    return size


def _take_attribute_sizes(
    size: NDArray[np.int64],
    wanted: NDArray[np.bool_],
    file_id: NDArray[np.uint64],
    holders: NDArray[np.uint64],  # the file of each attribute
    values: NDArray[np.int64],  # the size that it gives
) -> NDArray[np.int64]:
    """Set the sizes of wanted files from their attributes, if they have one."""
    spot, found = match(holders, file_id)
    return np.where(found & wanted, values[spot], size) if len(values) else size


def _low_keys(nodes: NodeRows) -> NDArray[np.uint64]:
    """Return lower bounds of the leaves' keys; in a damaged index they are made non-decreasing."""
    low: NDArray[np.uint64] = np.maximum.accumulate(nodes.low_key[nodes.leaves])
    return low


def _leaves_at(nodes: NodeRows, position: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the leaves at positions in key order, as positions among the nodes; the first leaf for -1."""
    leaves = nodes.leaves
    if not len(leaves):
        return np.full(len(position), NO_NODE, np.int32)
    return leaves.astype(np.int32)[np.maximum(position, 0)]


def _xattr_leaves(tree: RecordTree) -> NDArray[np.int32]:
    """Return the leaf with the first extended attribute of each entry's file."""
    if not tree.count("xattr"):
        return np.full(tree.count("dir_rec"), NO_NODE, np.int32)
    spot, is_known = tree.find("dir_rec", "xattr", "file_id")
    return np.where(is_known, tree.get("xattr")["node"][spot], NO_NODE).astype(np.int32)


def _dstream_leaves(inodes: Columns, nodes: NodeRows) -> NDArray[np.int32]:
    """Return the leaf at which a search for each inode's data-stream record ends."""
    if not len(inodes["obj_id"]):
        return np.empty(0, np.int32)
    wanted = order_key(inodes["private_id"], int(grammar.ApfsRecord.RecordType.dstream_id))
    found = _leaves_at(nodes, last_at_most(_low_keys(nodes), wanted))
    found[~inodes["has_dstream"]] = NO_NODE
    return found


def _listing_rows(
    file_id: NDArray[np.uint64],
    is_directory: NDArray[np.bool_],
    nodes: NodeRows,
    side: Literal["left", "right"],
    first_row: int,
) -> NDArray[np.uint32]:
    """Return the row of the leaf where a backward listing of each directory begins or ends.

    It begins at the leaf with the directory's last record (`side` right). It ends at the leaf with the last record
    before its first one (left).
    """
    rows = np.flatnonzero(is_directory)
    wanted = order_key(file_id[rows], int(grammar.ApfsRecord.RecordType.dir_rec))
    found = np.full(len(file_id), NULL_ROW)
    found[rows] = _rows(_leaves_at(nodes, np.searchsorted(_low_keys(nodes), wanted, side) - 1), first_row)
    return found


def extents_table(parts: VolumeParts, first_row: int) -> Table:
    """Make the table of extents."""
    extents, owners, blocks = parts.file_extents(), streams(parts.fs), parts.state.store.blocks
    if not len(extents["obj_id"]):
        return build_table("extents", {})
    rows, owner, is_owned, has_others = _find_owners(owners.index, extents["obj_id"])
    of_owner = partial(_take, owner, is_owned)
    stream_id, paddr = extents["obj_id"][rows], extents["paddr"][rows]
    # Block 0 holds the superblock; an extent there is a hole.
    is_hole = paddr == 0
    # The signed view has the same bytes.
    logical, length = (extents[name][rows].view(np.int64) for name in ("logical_addr", "len_extent"))
    physical, is_shared = parts.extentref.get("extent"), has_others
    if len(physical["obj_id"]) and int(physical["refcnt"].max()) > 1:
        # Runs of blocks with several users.
        first = physical["obj_id"]
        spot = np.maximum(np.searchsorted(first, paddr, side="right") - 1, 0)
        is_inside = (paddr >= first[spot]) & (paddr < first[spot] + physical["num_blocks"][spot])
        is_shared = is_shared | (is_inside & (physical["refcnt"][spot] > 1))
    flags = is_shared * np.uint8(FLAG_SHARED)
    if not parts.state.superblock.is_unencrypted:
        flags |= np.uint8(FLAG_ENCRYPTED)
    flags[is_hole] = 0
    is_past_end = logical >= of_owner(owners.size_bytes)
    flags[is_past_end if is_owned is None else is_past_end & is_owned] |= FLAG_PAST_END
    columns = {
        "volume": parts.state.number,
        "file_id": stream_id if owners.are_files and is_owned is None else of_owner(owners.file_id, stream_id),
        "fork": (of_owner(owners.fork, ORPHAN), owners.forks),
        "node_row": extents["node"][rows].astype(np.uint32) + np.uint32(first_row),
        "flags": flags,
    }
    if blocks.dirty.size:
        extent, distance, paddr, length = _where_newest(blocks, paddr, length)
        columns |= {name: columns[name][extent] for name in ("file_id", "node_row", "flags")}
        columns["fork"] = (columns["fork"][0][extent], owners.forks)
        logical, is_hole = logical[extent] + distance, is_hole[extent]
    device, offset = blocks.locate(paddr)
    offset[is_hole] = NULL_OFFSET
    columns |= {"device": device, "logical_offset": logical, "image_offset": offset, "length_bytes": length}
    # Columns that are constant take no memory.
    columns |= {name: 0 for name in ("device", "flags") if not columns[name].any()}
    return build_table("extents", columns)


def _where_newest(
    blocks: Blocks, paddr: NDArray[np.uint64], length: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64]]:
    """Split extents where the cache of a Fusion set holds newer bytes than the second device.

    Return the extent of each piece, the offset in it, the address of its newest bytes, and its length.
    """
    size, (dirty_start, dirty_stop, _) = blocks.block_size, blocks.dirty
    stop = paddr + (-(-length // size)).astype(np.uint64)
    # Runs are disjoint and ascending, so the runs that an extent crosses are consecutive.
    first = np.searchsorted(dirty_stop, paddr, side="right")
    last = np.searchsorted(dirty_start, stop, side="left")
    rows = np.repeat(np.arange(len(paddr)), 2 * np.maximum(last - first, 0))
    crossed = ranges(first, np.maximum(last - first, 0))
    borders = np.stack([dirty_start[crossed], dirty_stop[crossed]], axis=1).reshape(-1)
    is_within = (borders > paddr[rows]) & (borders < stop[rows])
    extent = np.concatenate([np.arange(len(paddr)), rows[is_within]])
    start = np.concatenate([paddr, borders[is_within]])
    # If one run ends at the block where the next one begins, their common boundary counts once.
    extent, start = np.unique(np.stack([extent.astype(np.uint64), start], axis=1), axis=0).T
    row = extent.astype(np.int64)
    distance = (start - paddr[row]).astype(np.int64) * size
    is_last = np.append(row[1:] != row[:-1], True)
    end = np.where(is_last, length[row], np.append(distance[1:], 0))
    return row, distance, blocks.newest(start), end - distance


def _find_owners(
    streams: Index, wanted: NDArray[np.uint64]
) -> tuple[NDArray[np.int64] | slice, NDArray[np.int64], NDArray[np.bool_] | None, NDArray[np.bool_]]:
    """Assign each extent to all owners of its stream, which clones can share; the extents of an owner are adjacent.

    Return the extent of each row, its owner, which rows have an owner (None if all have one), and whether the extent
    has further owners.
    """
    first, is_known = streams.find(wanted)
    if is_strictly_ascending(streams.keys):
        return slice(None), first, None if is_known.all() else is_known, np.zeros(len(wanted), bool)
    number = np.where(is_known, np.searchsorted(streams.keys, wanted, side="right") - first, 0)
    times = np.maximum(number, 1)
    extent, turn = owners(times), ordinals(times)
    if (times > 1).any():
        order = np.lexsort((extent, turn, wanted[extent]))
        extent, turn = extent[order], turn[order]
    is_known = number[extent] > 0
    owner = np.where(is_known, first[extent] + turn, 0)
    return extent, owner, None if is_known.all() else is_known, number[extent] > 1
