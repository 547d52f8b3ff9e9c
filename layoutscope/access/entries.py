"""The directory entries of a layout as arrays, grouped by directory and in listing order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.frozen import frozen
from layoutscope.tables.schema import FLAG_COMPRESSED, FLAG_HARD_LINK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.nodes import NodeTable
    from layoutscope.tables import Table, TextColumn, VolumeLayout

ROOT_ID: Final = 2
"""Root directory of both file systems (TN1150, reserved CNIDs; Apple File System Reference, inode numbers)."""


@frozen
class EntryTable:
    """Entries in listing order, directory by directory; arrays of shape (n_entries,)."""

    # parent_id, file_id: the directory and the file (CNID or inode number)
    parent_id: NDArray[np.uint64]
    file_id: NDArray[np.uint64]
    # is_directory, is_file, is_symlink: what can be descended into, what has data to read, and what has a target
    is_directory: NDArray[np.bool_]
    is_file: NDArray[np.bool_]
    is_symlink: NDArray[np.bool_]
    is_hidden: NDArray[np.bool_]  # private directories that a listing passes over
    # is_hard_link, is_compressed: flags of the entry
    is_hard_link: NDArray[np.bool_]
    is_compressed: NDArray[np.bool_]
    # name_node, inode_node, thread_node, xattr_node, dstream_node, listing_node, listing_end_node: leaves with its
    # records, as nodes of a `NodeTable`; -1 for none
    name_node: NDArray[np.int32]
    inode_node: NDArray[np.int32]
    thread_node: NDArray[np.int32]
    xattr_node: NDArray[np.int32]
    dstream_node: NDArray[np.int32]
    listing_node: NDArray[np.int32]
    listing_end_node: NDArray[np.int32]
    valence: NDArray[np.int64]  # entries of a directory as its record says, -1 where unknown
    size_bytes: NDArray[np.int64]  # logical size
    group_id: NDArray[np.uint64]  # directories that have entries, in the order of `group_start`
    group_start: NDArray[np.int64]  # their first entries
    backwards: bool  # whether the directories are listed from their last record to the first
    stored_names: TextColumn  # names in the order of the table of the layout
    order: slice | NDArray[np.int64]  # brings that order into this one

    def __len__(self) -> int:
        return len(self.file_id)

    def chosen(self, places: NDArray[np.int64]) -> EntryTable:
        """Return a table of some entries, whose names stay with the whole."""
        arrays = {name: getattr(self, name)[places] for name in BY_ENTRY}
        start = _group_starts(arrays["parent_id"])
        return replace(
            self,
            **arrays,
            group_id=arrays["parent_id"][start[:-1]],
            group_start=start,
            order=np.arange(len(self))[self.order][places],
        )

    def names(self, places: slice | NDArray[np.int64] = slice(None)) -> TextColumn:
        """Return names in listing order."""
        return self.stored_names.take(np.arange(len(self))[self.order][places])


BY_ENTRY: Final = (
    "parent_id", "file_id", "is_directory", "is_file", "is_symlink", "is_hidden", "is_hard_link", "is_compressed",
    "name_node", "inode_node", "thread_node", "xattr_node", "dstream_node", "listing_node", "listing_end_node",
    "valence", "size_bytes",
)  # fmt: skip
"""Arrays of an :class:`EntryTable` that have a value for each entry."""


def entry_table(
    layout: VolumeLayout, nodes: NodeTable, *, backwards: bool = False, hidden_names: tuple[str, ...] = ()
) -> EntryTable:
    """Read the table of entries into arrays."""
    table = layout.columns("entries")
    order = _listing_order(table, backwards=backwards)
    flags = table["flags"].filled(0)[order]
    parent_id = np.ascontiguousarray(table["parent_id"].data[order])
    start = _group_starts(parent_id)
    leaves = {name: column[order] for name, column in _leaves(table, nodes).items()}
    return EntryTable(
        parent_id=parent_id,
        file_id=np.ascontiguousarray(table["file_id"].data[order]),
        is_directory=table["kind"].equals("directory")[order],
        is_file=table["kind"].equals("file")[order],
        is_symlink=table["kind"].equals("symlink")[order],
        is_hidden=_hidden(layout, hidden_names)[order],
        is_hard_link=(flags & FLAG_HARD_LINK) != 0,
        is_compressed=(flags & FLAG_COMPRESSED) != 0,
        **leaves,
        valence=table["valence"].signed()[order],
        size_bytes=table["size_bytes"].filled(0)[order],
        group_id=parent_id[start[:-1]],
        group_start=start,
        backwards=backwards,
        stored_names=table.texts("name"),
        order=order,
    )


LEAVES: Final = {
    "name_node": "entry_node_row",
    "inode_node": "inode_node_row",
    "thread_node": "thread_node_row",
    "xattr_node": "xattr_node_row",
    "dstream_node": "dstream_node_row",
    "listing_node": "listing_node_row",
    "listing_end_node": "listing_end_node_row",
}


def _leaves(table: Table, nodes: NodeTable) -> dict[str, NDArray[np.int32]]:
    """Nodes of each column of leaves; columns of the same numbers, or of none, are one array."""
    made: dict[int | None, NDArray[np.int32]] = {}
    leaves: dict[str, NDArray[np.int32]] = {}
    for name, wanted in LEAVES.items():
        column = table[wanted]
        # What is known of equal rows may differ, unless all of them are.
        key = None if not column.is_known.any() else id(column.data) if column.known is None else id(column)
        leaves[name] = made[key] = made[key] if key in made else nodes.nodes_of(column)
    return leaves


def _hidden(layout: VolumeLayout, names: tuple[str, ...]) -> NDArray[np.bool_]:
    table = layout.columns("entries")
    if not names:
        return np.zeros(len(table), bool)
    # Linux's driver leaves the private directory of hard links out of the root's listing (its dir.c),
    # and nowhere else is one of that name.
    hidden: NDArray[np.bool_] = (table["parent_id"].data == ROOT_ID) & table["kind"].equals("directory")
    places = np.flatnonzero(hidden)
    hidden[places] = [name in names for name in table.texts("name").take(places).to_list()]
    return hidden


def _listing_order(table: Table, *, backwards: bool) -> NDArray[np.int64] | slice:
    parent, rank = table["parent_id"].data, table["entry_rank"].filled(0)
    if _is_sorted(parent, rank):
        return slice(None, None, -1) if backwards else slice(None)
    order = np.lexsort((rank, parent))
    return order[::-1] if backwards else order


def _is_sorted(parent: NDArray[np.uint64], rank: NDArray[np.uint32]) -> bool:
    same = parent[1:] == parent[:-1]
    return bool(np.all(parent[1:] >= parent[:-1]) and np.all(rank[1:][same] >= rank[:-1][same]))


def _group_starts(parent_id: NDArray[np.uint64]) -> NDArray[np.int64]:
    changes = np.flatnonzero(parent_id[1:] != parent_id[:-1]) + 1
    first = np.zeros(1 if len(parent_id) else 0, np.int64)
    return np.concatenate([first, changes, [len(parent_id)]]).astype(np.int64)


def listed_bytes(table: EntryTable, entries: slice, fixed_bytes: int) -> NDArray[np.int64]:
    """Bytes that each of some entries takes in a listing's buffer; Linux hands names out composed."""
    return padded(name_bytes(table, entries), fixed_bytes)


def name_bytes(table: EntryTable, entries: slice = slice(None)) -> NDArray[np.int64]:
    """Return the lengths in UTF-8 of names as Linux hands them out, of some entries in listing order."""
    places = np.arange(len(table))[table.order][entries]
    names = table.stored_names.take(places)
    if names.is_ascii():
        return _lengths(names)
    # The disk has é as two characters, of three bytes in UTF-8; the driver joins them before it hands them out
    # (its unicode.c), so that more names fit into a buffer than their stored lengths say.
    # No text of ASCII changes; of the others there are few.
    lengths, others = _lengths(names), np.flatnonzero(names.num_chars() != names.lengths())
    lengths[others] = table.stored_names.composed_lengths(places[others])
    return lengths


def stored_bytes(table: EntryTable, fixed_bytes: int) -> NDArray[np.int64]:
    """As :func:`listed_bytes` for all entries, with names as they are stored: never less, and quicker."""
    return padded(_lengths(table.stored_names)[table.order], fixed_bytes)


def padded(name_bytes: NDArray[np.int64], fixed_bytes: int) -> NDArray[np.int64]:
    """Fixed part, name and one byte for its end, rounded up to 8."""
    # getdents64 ends a name with a zero byte, and begins the next record at a multiple of eight.
    return (fixed_bytes + name_bytes + 1 + 7) // 8 * 8


UNKNOWN_BYTES: Final = 20
"""What a name that was left out of a capture counts."""


def _lengths(names: TextColumn) -> NDArray[np.int64]:
    return names.lengths(UNKNOWN_BYTES)
