"""Directory entries joined with their inodes: the table ``entries``.

Apple File System Reference, File-System Objects. A directory's records lie together in the tree, in the order of the
hash of their names; each inode lies elsewhere, in the order of inode numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from layoutscope.apfs.places import order_key
from layoutscope.findings import Finding
from layoutscope.ondisk import grammar
from layoutscope.tables import NULL_ROW, build_table
from layoutscope.tables.schema import FLAG_COMPRESSED, FLAG_HARD_LINK, FLAG_PRIVATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.apfs.fsrecords import Columns, RecordTables
    from layoutscope.apfs.nodes import TreeNodes

KINDS = ("file", "directory", "symlink", "fifo", "socket", "char-device", "block-device", "whiteout", "unknown")
MAX_LISTED = 100
MAX_SPARSENESS = 8
SYMLINK_NAME = b"com.apple.fs.symlink"


def match(sorted_keys: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Find keys in ascending ones: position of the first match, and whether there is one."""
    if not len(sorted_keys):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
    base, span = int(sorted_keys.min()), int(sorted_keys.max()) - int(sorted_keys.min())
    if span < MAX_SPARSENESS * len(sorted_keys) and wanted.dtype == sorted_keys.dtype:
        return _match_dense(sorted_keys, wanted, base, span)
    spot = np.minimum(np.searchsorted(sorted_keys, wanted), len(sorted_keys) - 1)
    return spot, sorted_keys[spot] == wanted


def _match_dense(
    sorted_keys: NDArray[np.uint64], wanted: NDArray[np.uint64], base: int, span: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Find keys through a table of all numbers between the least and the greatest: inode numbers hardly have gaps."""
    table = np.full(span + 2, -1, np.int32)
    is_first = np.ones(len(sorted_keys), bool)
    is_first[1:] = sorted_keys[1:] != sorted_keys[:-1]
    firsts = np.flatnonzero(is_first)
    table[(sorted_keys[firsts] - np.uint64(base)).astype(np.int64)] = firsts
    # What lies below the least wraps around to the greatest, so that one comparison tells both.
    place = np.minimum(wanted - np.uint64(base), np.uint64(span + 1)).astype(np.int64)
    spot = table[place].astype(np.int64)
    return np.maximum(spot, 0), spot >= 0


def entries_table(
    records: RecordTables, nodes: TreeNodes, first_row: int, volume: int, findings: list[Finding]
) -> pl.DataFrame:
    """Make the table of directory entries.

    Parameters
    ----------
    records : RecordTables
        Of the file-system tree.
    nodes : TreeNodes
        Its nodes.
    first_row : int
        Row of the tree's root in the table of nodes.
    volume : int
        Number of the volume on the image.
    findings : list of Finding
        Collects entries without inode.
    """
    drecs, inodes = records.get("dir_rec"), records.get("inode")
    if not len(drecs["obj_id"]):
        return build_table("entries", {})
    spot, known = match(inodes["obj_id"], drecs["file_id"])
    _report_missing(drecs, known, findings)
    inode = {name: _of(values, spot, known) for name, values in inodes.items()}
    kind = np.where(known, _kind_of_mode(inode["format"]), _kind_of_entry(drecs["entry_type"]))
    text, raw = drecs["name"].columns()
    is_directory = kind == KINDS.index("directory")
    links = np.where(is_directory, 1, inode["num_children_or_links"]).astype(np.int64)
    xattrs = records.get("xattr")
    xattr_spot, has_xattr = match(xattrs["obj_id"], drecs["file_id"])
    columns = {
        "volume": volume,
        "parent_id": drecs["obj_id"],
        "file_id": drecs["file_id"],
        "name": text,
        "name_raw": raw,
        "kind": (kind, KINDS),
        "size_bytes": _sizes(inode, kind, xattrs, drecs["file_id"]),
        "link_count": np.maximum(links, 0).astype(np.uint32),
        "create_time": _times(inode["create_time"]),
        "modify_time": _times(inode["mod_time"]),
        "flags": _flags(drecs, inode, links),
        "entry_rank": _ranks(drecs["obj_id"]),
        "entry_node_row": _rows(drecs["node"], first_row),
        "inode_node_row": _rows(np.where(known, inode["node"], -1), first_row),
        "xattr_node_row": _rows(np.where(has_xattr, _of(xattrs["node"], xattr_spot, has_xattr), -1), first_row),
        "dstream_node_row": _rows(_dstream_leaves(inode, nodes, known), first_row),
        "listing_node_row": _rows(_listing_leaves(drecs["file_id"], is_directory, nodes), first_row),
        "listing_end_node_row": _rows(_listing_ends(drecs["file_id"], is_directory, nodes), first_row),
        "valence": _masked(np.maximum(inode["num_children_or_links"], 0), is_directory & known),
        "link_id": _masked(drecs["sibling_id"], drecs["sibling_id"] != 0),
    }
    return build_table("entries", columns)


def _of(values: Any, spot: NDArray[np.int64], known: NDArray[np.bool_]) -> NDArray[Any]:
    """Gather the matched inode's value; zero where there is none."""
    if not len(values):
        return np.zeros(len(spot), values.dtype)
    result: NDArray[Any] = np.where(known, values[spot], np.zeros(1, values.dtype))
    return result


def _masked(values: NDArray[Any], keep: NDArray[np.bool_]) -> pl.Series:
    return pl.select(pl.when(pl.Series(keep)).then(pl.Series(values)).otherwise(None)).to_series()


def _rows(position: NDArray[np.int64], first_row: int) -> NDArray[np.uint32]:
    """Rows of nodes from positions among the tree's nodes; null where the position is negative."""
    return np.where(position < 0, NULL_ROW, position + first_row).astype(np.uint32)


def _times(nanoseconds: NDArray[np.int64]) -> pl.Series:
    return pl.Series(nanoseconds // 1000).cast(pl.Datetime("us", "UTC"))


def _lookup(pairs: dict[int, str], values: NDArray[Any]) -> NDArray[np.uint8]:
    result = np.full(len(values), KINDS.index("unknown"), np.uint8)
    for value, name in pairs.items():
        result[values == value] = KINDS.index(name)
    return result


def _kind_of_mode(mode_format: NDArray[Any]) -> NDArray[np.uint8]:
    return _lookup({int(item): item.name.replace("_", "-") for item in grammar.ApfsFsrecords.ModeFormat}, mode_format)


def _kind_of_entry(entry_type: NDArray[Any]) -> NDArray[np.uint8]:
    return _lookup({int(item): item.name.replace("_", "-") for item in grammar.ApfsFsrecords.EntryType}, entry_type)


def _sizes(inode: Columns, kind: NDArray[np.uint8], xattrs: Columns, file_id: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Logical sizes: of the data stream, of a compressed file's expansion, of a symbolic link's target."""
    size = inode["data_size"].astype(np.int64)
    # A compressed file's own data stream is empty or absent.
    compressed = inode["is_compressed"]
    stored = compressed & inode["has_uncompressed_size"]
    size = np.where(stored, inode["uncompressed_size"].astype(np.int64), size)
    if "expanded_size" in xattrs:
        size = _from_attribute(xattrs, xattrs["expanded_size"] >= 0, xattrs["expanded_size"], file_id, compressed, size)
        is_target = xattrs["name"].equal_to(SYMLINK_NAME)
        # The target ends with a zero byte that stat does not count.
        target = xattrs["xdata_len"].astype(np.int64) - 1
        size = _from_attribute(xattrs, is_target, target, file_id, kind == KINDS.index("symlink"), size)
    return np.where(kind == KINDS.index("directory"), 0, size)


def _from_attribute(
    xattrs: Columns,
    chosen: NDArray[np.bool_],
    value: NDArray[np.int64],
    file_id: NDArray[np.uint64],
    wanted: NDArray[np.bool_],
    size: NDArray[np.int64],
) -> NDArray[np.int64]:
    rows = np.flatnonzero(chosen)
    spot, found = match(xattrs["obj_id"][rows], file_id)
    return np.where(found & wanted, value[rows][spot], size) if len(rows) else size


def _flags(drecs: Columns, inode: Columns, links: NDArray[np.int64]) -> NDArray[np.uint32]:
    private = int(grammar.ApfsFsrecords.InodeNumber.private_dir)
    flags = np.where(links > 1, FLAG_HARD_LINK, 0)
    flags |= np.where(inode["is_compressed"], FLAG_COMPRESSED, 0)
    flags |= np.where((drecs["file_id"] == private) | (drecs["obj_id"] == private), FLAG_PRIVATE, 0)
    return flags.astype(np.uint32)


def _ranks(parent: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Count within runs of one directory: records are in key order."""
    is_first = np.ones(len(parent), bool)
    is_first[1:] = parent[1:] != parent[:-1]
    starts = np.flatnonzero(is_first)
    return (np.arange(len(parent)) - np.repeat(starts, np.diff(starts, append=len(parent)))).astype(np.uint32)


def leaf_of(nodes: TreeNodes, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Leaf in which a search for the last record not after a key ends, as position among the nodes."""
    leaves = nodes.leaves
    if not len(leaves):
        return np.full(len(keys), -1, np.int64)
    low = nodes.low_key[leaves]
    return leaves[np.maximum(np.searchsorted(low, keys, side="right") - 1, 0)]


def _dstream_leaves(inode: Columns, nodes: TreeNodes, known: NDArray[np.bool_]) -> NDArray[np.int64]:
    kind = int(grammar.ApfsFsrecords.RecordType.dstream_id)
    leaves = leaf_of(nodes, order_key(inode["private_id"], kind))
    return np.where(known & inode["has_dstream"], leaves, -1)


def _listing_leaves(
    file_id: NDArray[np.uint64], is_directory: NDArray[np.bool_], nodes: TreeNodes
) -> NDArray[np.int64]:
    """Leaf with the last record of each directory, where a listing backwards begins."""
    kind = int(grammar.ApfsFsrecords.RecordType.dir_rec)
    return np.where(is_directory, leaf_of(nodes, order_key(file_id, kind)), -1)


def _listing_ends(file_id: NDArray[np.uint64], is_directory: NDArray[np.bool_], nodes: TreeNodes) -> NDArray[np.int64]:
    """Leaf with the last record before those of each directory: only there a listing backwards sees that it is done."""
    leaves = nodes.leaves
    if not len(leaves):
        return np.full(len(file_id), -1, np.int64)
    first = order_key(file_id, int(grammar.ApfsFsrecords.RecordType.dir_rec))
    place = np.searchsorted(nodes.low_key[leaves], first, side="left") - 1
    return np.where(is_directory, leaves[np.maximum(place, 0)], -1)


def _report_missing(drecs: Columns, known: NDArray[np.bool_], findings: list[Finding]) -> None:
    missing = np.flatnonzero(~known)
    for row in missing[:MAX_LISTED].tolist():
        name = f"entry of directory {drecs['obj_id'][row]}"
        number = str(drecs["file_id"][row])
        findings.append(Finding("inode-missing", "error", name, None, "its inode does not exist", found=number))
    if len(missing) > MAX_LISTED:
        message = f"{len(missing) - MAX_LISTED} further entries name inodes that do not exist"
        findings.append(Finding("inode-missing", "error", "directory entries", None, message))
