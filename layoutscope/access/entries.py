"""The directory entries of a layout as arrays, grouped by directory and in listing order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.structs.arrays import distinct, match, order_of
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
    # is_directory, is_file, is_symlink: entries that can be descended into, that have data to read, that have a target
    is_directory: NDArray[np.bool_]
    is_file: NDArray[np.bool_]
    is_symlink: NDArray[np.bool_]
    is_hidden: NDArray[np.bool_]  # private directories that listings skip
    # is_hard_link, is_compressed: flags of the entry
    is_hard_link: NDArray[np.bool_]
    is_compressed: NDArray[np.bool_]
    # name_node, inode_node, thread_node, xattr_node, dstream_node, listing_node, listing_end_node: leaves that hold the
    # entry's records, as nodes of a `NodeTable`; -1 for none
    name_node: NDArray[np.int32]
    inode_node: NDArray[np.int32]
    thread_node: NDArray[np.int32]
    xattr_node: NDArray[np.int32]
    dstream_node: NDArray[np.int32]
    listing_node: NDArray[np.int32]
    listing_end_node: NDArray[np.int32]
    valence: NDArray[np.int64]  # number of entries according to the directory's record, -1 if unknown
    size_bytes: NDArray[np.int64]  # logical size
    group_id: NDArray[np.uint64]  # directories with entries, in the order of `group_start`
    group_start: NDArray[np.int64]  # their first entries
    backwards: bool  # whether the directories are listed from their last record to the first
    stored_names: TextColumn  # names in the order of the layout's table
    order: slice | NDArray[np.int64]  # converts that order into listing order

    def __len__(self) -> int:
        return len(self.file_id)

    def chosen(self, places: NDArray[np.int64]) -> EntryTable:
        """Return a table of some entries; their names stay in the whole table's column."""
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
        """Return the names of entries in listing order."""
        return self.stored_names.take(np.arange(len(self))[self.order][places])


BY_ENTRY: Final = (
    "parent_id", "file_id", "is_directory", "is_file", "is_symlink", "is_hidden", "is_hard_link", "is_compressed",
    "name_node", "inode_node", "thread_node", "xattr_node", "dstream_node", "listing_node", "listing_end_node",
    "valence", "size_bytes",
)  # fmt: skip
"""Arrays of an :class:`EntryTable` with one value per entry."""


def entry_table(
    layout: VolumeLayout, nodes: NodeTable, *, backwards: bool = False, hidden_names: tuple[str, ...] = ()
) -> EntryTable:
    """Read the layout's table of entries into arrays."""
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
    """Return the nodes for each column of leaves; columns with the same rows, or with none, share one array."""
    made: dict[int | None, NDArray[np.int32]] = {}
    leaves: dict[str, NDArray[np.int32]] = {}
    for name, wanted in LEAVES.items():
        column = table[wanted]
        # Columns with equal rows may differ in which rows are known, unless all of them are.
        key = None if not column.is_known.any() else id(column.data) if column.known is None else id(column)
        leaves[name] = made[key] = made[key] if key in made else nodes.nodes_of(column)
    return leaves


def _find_hidden(layout: VolumeLayout, names: tuple[str, ...]) -> NDArray[np.bool_]:
    table = layout.columns("entries")
    if not names:
        return np.zeros(len(table), bool)
    # Linux's driver omits the private directory of hard links from the root's listing (its dir.c).
    # No other directory has one of that name.
    hidden: NDArray[np.bool_] = (table["parent_id"].data == ROOT_ID) & table["kind"].equals("directory")
    places = np.flatnonzero(hidden)
    hidden[places] = [name in names for name in table.texts("name").take(places).to_list()]
    return hidden


def _listing_order(table: Table, *, backwards: bool) -> NDArray[np.int64] | slice:
    parent, rank = table["parent_id"].data, table["entry_rank"].filled(0)
    same = parent[1:] == parent[:-1]
    if np.all(parent[1:] >= parent[:-1]) and np.all(rank[1:][same] >= rank[:-1][same]):
        return slice(None, None, -1) if backwards else slice(None)
    order = np.lexsort((rank, parent))
    return order[::-1] if backwards else order


def _group_starts(parent_id: NDArray[np.uint64]) -> NDArray[np.int64]:
    changes = np.flatnonzero(parent_id[1:] != parent_id[:-1]) + 1
    first = np.zeros(1 if len(parent_id) else 0, np.int64)
    return np.concatenate([first, changes, [len(parent_id)]]).astype(np.int64)


def listing_sizes(table: EntryTable, entries: slice, fixed_bytes: int) -> NDArray[np.int64]:
    """Return the bytes of each entry in a listing's buffer; Linux returns names in composed form."""
    return pad_to_8(name_bytes(table, entries), fixed_bytes)


def name_bytes(table: EntryTable, entries: slice = slice(None)) -> NDArray[np.int64]:
    """Return the UTF-8 lengths of the names of some entries, in listing order, as Linux returns them."""
    places = np.arange(len(table))[table.order][entries]
    names = table.stored_names.take(places)
    if names.is_ascii():
        return _lengths(names)
    # A name on disk can hold é as two characters, three bytes in UTF-8. The driver composes them for listings (its
    # unicode.c), so more names fit into a buffer than their stored lengths suggest.
    # ASCII names do not change, and few names are not ASCII.
    lengths, others = _lengths(names), np.flatnonzero(names.num_chars() != names.lengths())
    lengths[others] = table.stored_names.composed_lengths(places[others])
    return lengths


def stored_sizes(table: EntryTable, fixed_bytes: int) -> NDArray[np.int64]:
    """Return :func:`listing_sizes` of all entries from the stored names: faster, and never less."""
    return pad_to_8(_lengths(table.stored_names)[table.order], fixed_bytes)


def pad_to_8(name_bytes: NDArray[np.int64], fixed_bytes: int) -> NDArray[np.int64]:
    """Add a terminating byte to the fixed part and the name, and round the sum up to 8."""
    # getdents64 ends a name with a zero byte, and starts the next record at a multiple of eight.
    return (fixed_bytes + name_bytes + 1 + 7) // 8 * 8


UNKNOWN_BYTES: Final = 20
"""Assumed length of a name that was left out of a capture."""


def _lengths(names: TextColumn) -> NDArray[np.int64]:
    return names.lengths(UNKNOWN_BYTES)


MAX_PATH_BYTES: Final = 4094
"""Longest path that is spelled in full; a list prepends a dot, Linux appends a zero byte (PATH_MAX, 4,096)."""

END_BYTES: Final = 1000
"""Bytes kept from the end of a longer path."""

MAX_KNOWN_BYTES: Final = 8 << 20
"""Size limit of the cache of directory paths that later entries reuse."""

NAME, LENGTH, LOST = "name", "length", "lost"
"""Flaws of a path: a name that cannot be a component, too many bytes, no connection to the root."""

_ESCAPED: Final = re.compile(r"[/\0]|\\(?=u00(?:2[ef]|00|5c))")


def path_component(name: str) -> str:
    r"""Spell a name as a single path component that differs from the spelling of every other name.

    >>> path_component("a/b"), path_component(".."), path_component("a..b")
    ('a\\u002fb', '\\u002e\\u002e', 'a..b')
    """
    if name in (".", ".."):
        return name.replace(".", r"\u002e")
    # A backslash that precedes text like one of these escapes is escaped itself.
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", name)


def can_be_component(name: str) -> bool:
    """Return whether a path can contain a name."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


class SpelledPath(NamedTuple):
    """A path for display, and its flaw if it has one."""

    # from the root of the volume. `<17>/a` is in a directory that cannot be reached from the root; `…/<17>/a` is the
    # end of a path that is too long, starting at directory 17.
    text: str
    flaw: str  # `NAME`, `LENGTH` or `LOST`; empty for a path that other programs accept

    def to_bytes(self) -> bytes:
        """Return the path as stored on the volume; valid only for a path without a flaw."""
        return self.text.replace(r"\u005c", "\\").encode("utf-8", "surrogatepass")


class Paths:
    """Spells paths of a volume one by one; the cost is the number of components, and the length is bounded."""

    def __init__(self, layout: VolumeLayout) -> None:
        entries = layout.columns("entries")
        folders = entries.take(entries["kind"].equals("directory") & (entries["file_id"].data != ROOT_ID))
        # If several entries name a directory (damage, links to directories), the first one is used.
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
        """Spell the path of a directory; the root is ``/``."""
        if number == ROOT_ID:
            return SpelledPath("/", "")
        place = self._place.get(number)
        if place is None:
            return SpelledPath(f"<{number}>", LOST)
        flaw = self._flaws[place]
        is_long = self._lengths[place] > MAX_PATH_BYTES
        return SpelledPath(self._end("", place) if is_long else self._whole(place), flaw)

    def entry(self, file_id: int, parent_id: int, name: str | None) -> SpelledPath:
        """Spell the path of a name in a directory; the root is ``/``, whatever its name is."""
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
        """Return the prefix of paths under a directory without a parent: empty for the root, else a number."""
        if self._above[place] >= 0:
            return ""
        if self._is_ring[place]:
            return f"<{self._numbers[place]}>"
        parent = self._parent_ids[place]
        return "" if parent == ROOT_ID else f"<{parent}>"

    def _whole(self, place: int) -> str:
        """Spell a whole path, starting at the nearest directory whose path is already known."""
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
        """Spell the end of a path whose last part is `text`, starting at a directory given by its number."""
        parts, size = [text], _num_bytes(text)
        while (size := size + 1 + _num_bytes(self._names[place])) <= END_BYTES and self._above[place] >= 0:
            parts.append(f"/{self._names[place]}")
            place = self._above[place]
        return f"…/<{self._numbers[place]}>{''.join(reversed(parts))}"


def volume_folders(layouts: Sequence[VolumeLayout]) -> list[str]:
    """Return a top folder per volume, the start of all its paths; empty for a single volume."""
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
    """Mark the directories that contain themselves because of damage."""
    steps = np.append(above, -1)  # -1 also indexes the last element, so a directory without a parent stays there
    for _ in range(len(above).bit_length()):
        steps = steps[steps]
    # After as many steps up as there are directories, every path is on a ring, and each directory of a ring is reached.
    found = np.zeros(len(above), np.bool_)
    found[steps[steps >= 0]] = True
    return found


def _sum_to_tops(above: I64, sizes: I64, *marks: Mask) -> tuple[I64, list[Mask]]:
    """Sum the sizes from each directory up to its top, and mark it if any directory on that path is marked."""
    steps, total = np.append(above, -1), np.append(sizes, 0)
    told = [np.append(mark, False) for mark in marks]
    while (steps[:-1] >= 0).any():
        total = total + total[steps]
        told = [mark | mark[steps] for mark in told]
        steps = steps[steps]
    return total[:-1], [mark[:-1] for mark in told]


NO_NODE = np.int32(-1)

MAX_LEVEL: Final = 30
"""Highest level of a node that a walk goes through; trees have fewer than 16, and the kernels follow 64 nodes."""


class NodeTable(Struct, frozen=True):
    """Nodes of one layout; arrays of shape (n_nodes,) unless stated otherwise."""

    # node of each table row; -1 if there is none. The last element represents null.
    of_row: NDArray[np.int32]
    parent: NDArray[np.int32]  # index node that points here, -1 at roots
    mapper: NDArray[np.int32]  # node that maps the address of this one, or -1
    tree: NDArray[np.uint8]  # index into `trees`
    # 0 at the leaf; -1 for header, map and free nodes, and for damaged and unread nodes, which no walk reads
    level: NDArray[np.int16]
    node_id: NDArray[np.int64]  # node number or oid
    key_rank: NDArray[np.int64]  # position in key order within its tree and level
    is_header: NDArray[np.bool_]  # header nodes
    is_own: NDArray[np.bool_]  # nodes of this view: neither stale nor held only by snapshots
    device: NDArray[np.uint8]  # image of a Fusion set
    # image_offset, size_bytes: start and size of the node
    image_offset: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    trees: tuple[str, ...]  # names of the trees

    def __len__(self) -> int:
        return len(self.parent)

    def nodes_of(self, column: Values) -> NDArray[np.int32]:
        """Convert a column of rows into nodes; null and unknown rows become -1."""
        if column.known is not None and not column.known.any():
            return np.full(len(column), NO_NODE)
        found: NDArray[np.int32] = self.of_row.take(column.filled(len(self.of_row) - 1), mode="clip")
        return found

    def leaves(self, tree: int) -> NDArray[np.int64]:
        """Return the leaves of a tree in this view, in key order."""
        own = np.flatnonzero((self.tree == tree) & (self.level == 0) & self.is_own)
        return own[order_of(self.key_rank[own])]

    def is_moved(self, other: NodeTable) -> bool:
        """Return whether both tables describe the same nodes, perhaps at other places."""
        others = set(self.__struct_fields__) - {"device", "image_offset", "trees"}
        same = (np.array_equal(getattr(self, name), getattr(other, name)) for name in others)
        return self.trees == other.trees and all(same)

    def tree_code(self, name: str) -> int:
        """Return the code of a tree, -1 if the layout has no tree of that name."""
        return self.trees.index(name) if name in self.trees else -1


def node_table(layout: VolumeLayout) -> NodeTable:
    """Read the layout's table of nodes into arrays."""
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
    # Damage may make a node a child of itself, or a map locate itself. Walks would follow both forever, so relations
    # that no sound tree has are omitted.
    parent, mapper = table.nodes_of(nodes["parent_row"]), table.nodes_of(nodes["locator_row"])
    parent[~walked] = NO_NODE
    above = table.level[parent]
    parent[(parent >= 0) & ((above <= table.level) | (above > MAX_LEVEL))] = NO_NODE
    mapper[(mapper >= 0) & (table.tree[mapper] == table.tree)] = NO_NODE
    # What maps others is not mapped itself, nor are the nodes above it.
    maps = distinct(mapper[mapper >= 0])
    while len(maps):
        mapper[maps] = NO_NODE
        maps = distinct(parent[maps])
        maps = maps[maps >= 0]
    return replace(table, parent=parent, mapper=mapper)
