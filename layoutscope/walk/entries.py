"""The directory entries of a layout as arrays, grouped by directory and in listing order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from layoutscope.tables.schema import FLAG_COMPRESSED, FLAG_HARD_LINK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.tables import VolumeLayout
    from layoutscope.walk.host import HostProfile
    from layoutscope.walk.nodetable import NodeTable

HFS_ROOT_ID = 2
APFS_ROOT_ID = 2
"""Root directory (TN1150, reserved CNIDs; Apple File System Reference, inode numbers)."""


@dataclass(frozen=True, slots=True)
class EntryTable:
    """Entries in listing order, directory by directory; arrays of shape (n_entries,).

    Attributes
    ----------
    parent_id, file_id : uint64 arrays
        The directory and the file (CNID or inode number).
    is_directory, is_file : bool arrays
        What can be descended into, and what has data to read.
    is_hidden : bool array
        Private directories that a listing passes over.
    is_hard_link, is_compressed : bool arrays
        Flags of the entry.
    name_node, inode_node, thread_node, xattr_node, dstream_node, listing_node : int32 arrays
        Leaves with its records, as nodes of a :class:`~layoutscope.walk.nodetable.NodeTable`; -1 for none.
    valence : int64 array
        Entries of a directory as its record says, -1 where unknown.
    size_bytes : int64 array
        Logical size.
    group_id : (n_groups,) uint64 array
        Directories that have entries, in the order of `group_start`.
    group_start : (n_groups + 1,) int64 array
        Their first entries.
    backwards : bool
        Whether the directories are listed from their last record to the first.
    names : polars Series
        Names in the same order.
    """

    parent_id: NDArray[np.uint64]
    file_id: NDArray[np.uint64]
    is_directory: NDArray[np.bool_]
    is_file: NDArray[np.bool_]
    is_hidden: NDArray[np.bool_]
    is_hard_link: NDArray[np.bool_]
    is_compressed: NDArray[np.bool_]
    name_node: NDArray[np.int32]
    inode_node: NDArray[np.int32]
    thread_node: NDArray[np.int32]
    xattr_node: NDArray[np.int32]
    dstream_node: NDArray[np.int32]
    listing_node: NDArray[np.int32]
    valence: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    group_id: NDArray[np.uint64]
    group_start: NDArray[np.int64]
    backwards: bool
    names: pl.Series

    def __len__(self) -> int:
        return len(self.file_id)


def entry_table(layout: VolumeLayout, nodes: NodeTable, host: HostProfile) -> EntryTable:
    """Read the table of entries into arrays.

    Parameters
    ----------
    layout : VolumeLayout
        The volume.
    nodes : NodeTable
        Its nodes.
    host : HostProfile
        Who lists: it decides on the direction and on what is hidden.
    """
    backwards = host.apfs_lists_backwards and layout.facts.filesystem == "apfs"
    frame = _in_listing_order(layout.entries, backwards=backwards)
    flags = frame["flags"].fill_null(0).to_numpy()
    kind = frame["kind"].cast(pl.String)
    parent_id = frame["parent_id"].to_numpy()
    start = _group_starts(parent_id)
    return EntryTable(
        parent_id=parent_id,
        file_id=frame["file_id"].to_numpy(),
        is_directory=(kind == "directory").fill_null(value=False).to_numpy(),
        is_file=(kind == "file").fill_null(value=False).to_numpy(),
        is_hidden=_hidden(frame, host.hidden_names)
        if layout.facts.filesystem == "hfsplus"
        else np.zeros(len(frame), bool),
        is_hard_link=(flags & FLAG_HARD_LINK) != 0,
        is_compressed=(flags & FLAG_COMPRESSED) != 0,
        name_node=nodes.nodes_of(frame["entry_node_row"]),
        inode_node=nodes.nodes_of(frame["inode_node_row"]),
        thread_node=nodes.nodes_of(frame["thread_node_row"]),
        xattr_node=nodes.nodes_of(frame["xattr_node_row"]),
        dstream_node=nodes.nodes_of(frame["dstream_node_row"]),
        listing_node=nodes.nodes_of(frame["listing_node_row"]),
        valence=frame["valence"].cast(pl.Int64).fill_null(-1).to_numpy(),
        size_bytes=frame["size_bytes"].fill_null(0).to_numpy(),
        group_id=parent_id[start[:-1]],
        group_start=start,
        backwards=backwards,
        names=frame["name"],
    )


def _hidden(frame: pl.DataFrame, names: tuple[str, ...]) -> NDArray[np.bool_]:
    in_root = (frame["parent_id"] == HFS_ROOT_ID) & (frame["kind"].cast(pl.String) == "directory")
    hidden = in_root.fill_null(value=False).to_numpy().copy()
    places = np.flatnonzero(hidden)
    hidden[places] = frame["name"][places].is_in(list(names)).fill_null(value=False).to_numpy()
    return hidden


def _in_listing_order(frame: pl.DataFrame, *, backwards: bool) -> pl.DataFrame:
    parent, rank = frame["parent_id"].to_numpy(), frame["entry_rank"].fill_null(0).to_numpy()
    if not _is_sorted(parent, rank):
        frame = frame[np.lexsort((rank, parent))]
    return frame.reverse() if backwards else frame


def _is_sorted(parent: NDArray[np.uint64], rank: NDArray[np.uint32]) -> bool:
    same = parent[1:] == parent[:-1]
    return bool(np.all(parent[1:] >= parent[:-1]) and np.all(rank[1:][same] >= rank[:-1][same]))


def _group_starts(parent_id: NDArray[np.uint64]) -> NDArray[np.int64]:
    changes = np.flatnonzero(parent_id[1:] != parent_id[:-1]) + 1
    first = np.zeros(1 if len(parent_id) else 0, np.int64)
    return np.concatenate([first, changes, [len(parent_id)]]).astype(np.int64)


def listed_bytes(table: EntryTable, entries: slice, fixed_bytes: int) -> NDArray[np.int64]:
    """Bytes that each of some entries takes in a listing's buffer: fixed part, name, one byte, rounded up to 8.

    A name that the table does not hold (left out of a capture) counts as 20 bytes.
    """
    names = table.names[entries]
    if names.str.contains(r"[^\x00-\x7f]").any():
        names = names.str.normalize("NFC")
    length = names.str.len_bytes().fill_null(20).to_numpy().astype(np.int64)
    return (fixed_bytes + length + 1 + 7) // 8 * 8
