"""The directory entries of a layout as arrays, grouped by directory and in listing order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.structs.arrays import match, order_of
from layoutscope.tables.columns import are_walked
from layoutscope.tables.schema import FLAG_COMPRESSED, FLAG_HARD_LINK, LIVE_STATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.structs.arrays import I64, Mask
    from layoutscope.tables import Table, TextColumn, Values, VolumeLayout


ROOT_ID: Final = 2
"""Root directory of both file systems (TN1150, reserved CNIDs; Apple File System Reference, inode numbers)."""


class EntryTable(Struct, frozen=True):
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
        is_hidden=_find_hidden(layout, hidden_names)[order],
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


def _find_hidden(layout: VolumeLayout, names: tuple[str, ...]) -> NDArray[np.bool_]:
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


def listing_sizes(table: EntryTable, entries: slice, fixed_bytes: int) -> NDArray[np.int64]:
    """Bytes that each of some entries takes in a listing's buffer; Linux hands names out composed."""
    return pad_to_8(name_bytes(table, entries), fixed_bytes)


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


def stored_sizes(table: EntryTable, fixed_bytes: int) -> NDArray[np.int64]:
    """As :func:`listing_sizes` for all entries, with names as they are stored: never less, and quicker."""
    return pad_to_8(_lengths(table.stored_names)[table.order], fixed_bytes)


def pad_to_8(name_bytes: NDArray[np.int64], fixed_bytes: int) -> NDArray[np.int64]:
    """Fixed part, name and one byte for its end, rounded up to 8."""
    # getdents64 ends a name with a zero byte, and begins the next record at a multiple of eight.
    return (fixed_bytes + name_bytes + 1 + 7) // 8 * 8


UNKNOWN_BYTES: Final = 20
"""What a name that was left out of a capture counts."""


def _lengths(names: TextColumn) -> NDArray[np.int64]:
    return names.lengths(UNKNOWN_BYTES)


MAX_PATH_BYTES: Final = 4094
"""Longest path that is spelled in full; a list puts a dot before it, Linux a zero after it (PATH_MAX, 4,096)."""

END_BYTES: Final = 1000
"""What is kept of the end of a longer path."""

MAX_KNOWN_BYTES: Final = 8 << 20
"""Paths of directories that are kept for the next entries."""

NAME, LENGTH, LOST = "name", "length", "lost"
"""Flaws of a path: a name that cannot be part of one, too many bytes, no way from the root."""

_ESCAPED: Final = re.compile(r"[/\0]|\\(?=u00(?:2[ef]|00|5c))")


def path_component(name: str) -> str:
    r"""Spell a name so that it is one component of a path, and no other name is spelled the same.

    >>> path_component("a/b"), path_component(".."), path_component("a..b")
    ('a\\u002fb', '\\u002e\\u002e', 'a..b')
    """
    if name in (".", ".."):
        return name.replace(".", r"\u002e")
    # A backslash before what looks like one of these escapes is escaped itself.
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", name)


def can_be_component(name: str) -> bool:
    """Whether a path can hold a name."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


class SpelledPath(NamedTuple):
    """A path for people, and what is wrong with it."""

    # from the root of the volume. `<17>/a` is in a directory that cannot be reached from the root; `…/<17>/a` is the
    # end of a path that is too long, from directory 17 on.
    text: str
    flaw: str  # `NAME`, `LENGTH` or `LOST`; empty for a path that other programs can take

    def to_bytes(self) -> bytes:
        """Return the path as the volume has it, which is only meant of one without a flaw."""
        return self.text.replace(r"\u005c", "\\").encode("utf-8", "surrogatepass")


class Paths:
    """Spells paths of a volume one by one; each costs as many steps as it has components, and has a bounded length."""

    def __init__(self, layout: VolumeLayout) -> None:
        entries = layout.columns("entries")
        folders = entries.take(entries["kind"].equals("directory") & (entries["file_id"].data != ROOT_ID))
        # If several entries name a directory (damage, links to directories), the first one counts.
        ids, first = np.unique(folders["file_id"].data, return_index=True)
        folders = folders.take(first)
        numbers, names = ids.tolist(), folders.texts("name").to_list()
        self._place = dict(zip(numbers, range(len(ids)), strict=True))
        self._names = [_component(name, number) for name, number in zip(names, numbers, strict=True)]
        parents = folders["parent_id"].data
        place, is_there = match(ids, parents)
        above = np.where(is_there, place, -1).astype(np.int64)
        ring = _ring(above)
        above[ring] = -1
        self._parent_ids, self._numbers = parents.tolist(), numbers
        self._above = above.tolist()
        self._is_ring = ring.tolist()
        is_odd = np.array([not can_be_component(name or "") for name in names], np.bool_)
        is_lost = ring | (~is_there & (parents != ROOT_ID))
        own = np.array([1 + _num_bytes(name) for name in self._names], np.int64)
        tops = np.array([_num_bytes(text) for text in map(self._top, range(len(ids)))], np.int64)
        lengths, (flawed, lost) = _sum_to_tops(above, np.where(ring, 0, own) + tops, is_odd & ~ring, is_lost)
        self._lengths = lengths.tolist()
        self._flaws = np.select([lost, lengths > MAX_PATH_BYTES, flawed], [LOST, LENGTH, NAME], "").tolist()
        self._known: dict[int, str] = {}
        self._known_bytes = 0

    def folder(self, number: int) -> SpelledPath:
        """Spell the path of a directory; that of the root is ``/``."""
        if number == ROOT_ID:
            return SpelledPath("/", "")
        place = self._place.get(number)
        if place is None:
            return SpelledPath(f"<{number}>", LOST)
        flaw = self._flaws[place]
        is_long = self._lengths[place] > MAX_PATH_BYTES
        return SpelledPath(self._end("", place) if is_long else self._whole(place), flaw)

    def entry(self, file_id: int, parent_id: int, name: str | None) -> SpelledPath:
        """Spell the path of a name in a directory; that of the root, whatever it is called, is ``/``."""
        if file_id == ROOT_ID:
            return SpelledPath("/", "")
        own = _component(name, file_id)
        flaw = "" if name and can_be_component(name) else NAME
        if parent_id == ROOT_ID:
            return SpelledPath(f"/{own}", flaw)
        place = self._place.get(parent_id)
        if place is None:
            return SpelledPath(f"<{parent_id}>/{own}", LOST)
        flaw = self._flaws[place] or flaw
        if self._lengths[place] + 1 + _num_bytes(own) > MAX_PATH_BYTES:
            return SpelledPath(self._end(f"/{own}", place), flaw if flaw == LOST else LENGTH)
        return SpelledPath(f"{self._whole(place)}/{own}", flaw)

    def _top(self, place: int) -> str:
        """Prefix of the path of a directory without a parent: nothing for the root, else a number."""
        if self._above[place] >= 0:
            return ""
        if self._is_ring[place]:
            return f"<{self._numbers[place]}>"
        parent = self._parent_ids[place]
        return "" if parent == ROOT_ID else f"<{parent}>"

    def _whole(self, place: int) -> str:
        """Spell a path from its top on, from the nearest directory that is known."""
        names: list[str] = []
        at = place
        while at >= 0 and at not in self._known:
            if not self._is_ring[at]:
                names.append(self._names[at])
            last, at = at, self._above[at]
        text = self._known[at] if at >= 0 else self._top(last)
        if names:
            text = "/".join([text, *reversed(names)])
        if place not in self._known:
            self._known_bytes += len(text)
            if self._known_bytes > MAX_KNOWN_BYTES:
                self._known.clear()
                self._known_bytes = len(text)
            self._known[place] = text
        return text

    def _end(self, text: str, place: int) -> str:
        """Spell the end of a path whose last part is `text`, from a directory on that its number stands for."""
        parts, size = [text], _num_bytes(text)
        while (size := size + 1 + _num_bytes(self._names[place])) <= END_BYTES and self._above[place] >= 0:
            parts.append(f"/{self._names[place]}")
            place = self._above[place]
        return f"…/<{self._numbers[place]}>{''.join(reversed(parts))}"


def volume_folders(layouts: Sequence[VolumeLayout]) -> list[str]:
    """Name a folder for each of several volumes, as the paths of all of them begin; empty where there is one alone."""
    if len(layouts) == 1:
        return [""]
    names = [f"/{path_component(each.facts.name) or f'volume {each.facts.volume or 1}'}" for each in layouts]
    numbers = [
        f" (volume {each.facts.volume})" if names.count(name) > 1 else ""
        for each, name in zip(layouts, names, strict=True)
    ]
    return [name + number for name, number in zip(names, numbers, strict=True)]


def _component(name: str | None, number: int) -> str:
    return path_component(name) if name else f"<{number}>"


def _num_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _ring(above: I64) -> Mask:
    """Return which directories contain themselves, through damage."""
    steps = np.append(above, -1)  # -1 stands for the last place, too: what has no parent stays there
    for _ in range(len(above).bit_length()):
        steps = steps[steps]
    # As many steps up as there are directories end on a ring, and come to each directory of it.
    found = np.zeros(len(above), np.bool_)
    found[steps[steps >= 0]] = True
    return found


def _sum_to_tops(above: I64, sizes: I64, *marks: Mask) -> tuple[I64, list[Mask]]:
    """Add up sizes on the way from each directory to its top, and return where any on that way is marked."""
    steps, total = np.append(above, -1), np.append(sizes, 0)
    told = [np.append(mark, False) for mark in marks]
    while (steps[:-1] >= 0).any():
        total = total + total[steps]
        told = [mark | mark[steps] for mark in told]
        steps = steps[steps]
    return total[:-1], [mark[:-1] for mark in told]


NO_NODE = np.int32(-1)


class NodeTable(Struct, frozen=True):
    """Nodes of one layout; arrays of shape (n_nodes,) unless they say otherwise."""

    # node of each row of the table; -1 where there is none. The last element stands for null.
    of_row: NDArray[np.int32]
    parent: NDArray[np.int32]  # index node that points here, -1 at roots
    mapper: NDArray[np.int32]  # node that maps the address of this one, or -1
    tree: NDArray[np.uint8]  # index into `trees`
    # 0 at the leaf, -1 for header, map and free nodes, and for damaged and unread ones that no walk reads
    level: NDArray[np.int16]
    node_id: NDArray[np.int64]  # node number or oid
    key_rank: NDArray[np.int64]  # place in key order in its tree and level
    is_header: NDArray[np.bool_]  # header nodes
    is_own: NDArray[np.bool_]  # nodes of this view: neither held by snapshots alone nor stale
    device: NDArray[np.uint8]  # image of a Fusion set
    # image_offset, size_bytes: where the node starts and its size
    image_offset: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    trees: tuple[str, ...]  # names of the trees

    def __len__(self) -> int:
        return len(self.parent)

    def nodes_of(self, column: Values) -> NDArray[np.int32]:
        """Turn a column of rows into nodes; null and unknown rows become -1."""
        if column.known is not None and not column.known.any():
            return np.full(len(column), NO_NODE)
        found: NDArray[np.int32] = self.of_row.take(column.filled(len(self.of_row) - 1), mode="clip")
        return found

    def leaves(self, tree: int) -> NDArray[np.int64]:
        """Return the leaves of a tree as this view has it, by its code, in the order of their keys."""
        own = np.flatnonzero((self.tree == tree) & (self.level == 0) & self.is_own)
        return own[order_of(self.key_rank[own])]

    def is_moved(self, other: NodeTable) -> bool:
        """Decide whether these are the nodes of another table at other places."""
        others = set(self.__struct_fields__) - {"device", "image_offset", "trees"}
        same = (np.array_equal(getattr(self, name), getattr(other, name)) for name in others)
        return self.trees == other.trees and all(same)

    def tree_code(self, name: str) -> int:
        """Return the code of a tree, -1 where the layout has none of that name."""
        return self.trees.index(name) if name in self.trees else -1


def node_table(layout: VolumeLayout) -> NodeTable:
    """Read the table of nodes into arrays."""
    nodes = layout.columns("nodes")
    rows = nodes["row"].data
    of_row = np.full(int(rows.max(initial=0)) + 2, NO_NODE, np.int32)
    of_row[rows] = np.arange(len(rows), dtype=np.int32)
    of_row[-1] = NO_NODE
    codes, trees = nodes["tree"].numbered()
    walked = are_walked(nodes)
    table = NodeTable(
        of_row=of_row,
        parent=np.full(len(rows), NO_NODE),
        mapper=np.full(len(rows), NO_NODE),
        tree=codes.astype(np.uint8),
        level=np.where(walked, nodes["level"].signed(), -1).astype(np.int16),
        node_id=nodes["node_id"].signed(),
        key_rank=nodes["key_rank"].signed(),
        is_header=nodes["kind"].equals("header"),
        is_own=nodes["state"].is_in(LIVE_STATES),
        device=nodes["device"].filled(0),
        image_offset=nodes["image_offset"].signed(),
        size_bytes=nodes["size_bytes"].signed(),
        trees=trees,
    )
    return _add_relations(table, layout)


def _add_relations(table: NodeTable, layout: VolumeLayout) -> NodeTable:
    """Add what each node hangs on; relations that no sound tree has are left out."""
    # Damage may make a child of its own parent, or a map locate itself: walks follow both without end.
    nodes = layout.columns("nodes")
    parent = table.nodes_of(nodes["parent_row"])
    parent[~are_walked(nodes)] = NO_NODE
    parent[(parent >= 0) & (table.level[parent] <= table.level)] = NO_NODE
    mapper = table.nodes_of(nodes["locator_row"])
    mapper[(mapper >= 0) & (table.tree[mapper] == table.tree)] = NO_NODE
    return replace(table, parent=parent, mapper=mapper)
