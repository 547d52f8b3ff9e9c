"""HFS+ as it ages: a catalog whose nodes stay where they are, numbers that are used again, clumps behind them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np

from layoutscope.aging import trees as rec
from layoutscope.aging.model import Policy, done, files_by_seat, present
from layoutscope.aging.trees import NOWHERE, Edits, NodeRule, RecordWrites, SplitRule, edited, grown_tree
from layoutscope.aging.volume import (
    blocks_of,
    find_tree,
    leaves_of,
    made_anew,
    make_tree,
    numbers_of,
    pinned,
    read_data,
    read_entries,
    read_free,
)
from layoutscope.structs.arrays import distinct, find, is_among
from layoutscope.structs.records import CATALOG_FILE, CATALOG_FOLDER, CATALOG_KEY, CATALOG_THREAD
from layoutscope.tables import NULL_ROW, Table, Values, VolumeLayout, build_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.aging.model import CycleKind, Done
    from layoutscope.aging.trees import AgingTree, NodeTouches, TreeLevel
    from layoutscope.aging.volume import AgingEntries, Data, FreeBlocks
    from layoutscope.structs.arrays import Mask

    I64 = NDArray[np.int64]

CATALOG: Final = "catalog"
NODE_HEAD: Final = 14 + 2
"""Bytes of a node's descriptor, and of the offset of its free space (TN1150, B-Trees)."""
TABLE_ENTRY: Final = 2
SMALLEST_CLUMP_BLOCKS: Final = 256

THREAD: Final = 0
"""Place of a thread record among those of its directory: before all names."""

INDEX_BYTES: Final = 2 + 8 + 33 + 4
SHORT_INDEX_BYTES: Final = 2 + 8 + 4
"""Bytes that a record of an index node takes, key and offset with it: with a name, and that of a thread."""

LINUX: Final = Policy(
    # fs/hfsplus/brec.c splits a full node in the middle, less two bytes a record that the half of them which stays has
    # for its offsets besides, and removes only empty nodes; bitmap.c takes the first free block.
    split_less=1,
    leaf_keep=0.5,
    index_keep=0.5,
    map_keep=0.5,
    merge_share=0.0,
    next_fit=False,
)
MACOS: Final = Policy(
    # Apple's BTreeTreeOps.c moves records to the left neighbour before it splits.
    leaf_keep=0.9,
    index_keep=0.9,
    map_keep=0.9,
    merge_share=0.5,
    next_fit=True,
    assumes=(
        "Blocks are taken behind those that were taken last.",
        "Neighbours that fill half a node together are merged.",
    ),
)
POLICIES: Final = {"linux": LINUX, "macos": MACOS}


@dataclass
class HfsPlusVolume:
    """An HFS+ volume between two cycles."""

    policy: Policy  # how its driver places
    # block_bytes, node_bytes: its block, and a node of its catalog
    block_bytes: int
    node_bytes: int
    # entries, data, space: its entries, the extents of its files, its free blocks
    entries: AgingEntries
    data: Data
    space: FreeBlocks
    # the catalog; blocks of its nodes are offsets in bytes, since a node may be smaller than a block
    trees: dict[str, AgingTree]
    numbers: I64  # CNIDs that were there in the beginning; further ones follow them
    spare: I64  # numbers of nodes that are free, in ascending order
    offset_of: I64  # where each node lies, in bytes, by its number; -1 where that is not known
    clump_blocks: int  # by how much the catalog grows
    # next_ident, cursor, keep_cycles: the next number of a file; block behind the last that was taken; of no effect:
    # HFS+ has no snapshots
    next_ident: int
    cursor: int = 0
    keep_cycles: int = 0
    grown: list[tuple[int, int]] = field(default_factory=list)  # clumps that the catalog got, first block and blocks

    main: ClassVar[str] = CATALOG
    maps: ClassVar[str] = ""
    entry_bytes: ClassVar[dict[str, int]] = {CATALOG: 2}

    def begins(self, ident: I64) -> dict[str, I64]:
        """Return the keys at which listings of directories begin: that of the thread record."""
        return {"listing_node_row": rec.key_of(ident, THREAD)}

    def place_of(self, name: str, level: TreeLevel) -> I64:  # noqa: ARG002  (there is one tree)
        """Return where nodes of the catalog lie, in bytes from the start of the volume."""
        return level.block

    def unused_table(self, name: str, count: I64) -> I64:  # noqa: ARG002  (there is one tree)
        """Return nothing: offsets of records are as many as these."""
        return np.zeros_like(count)

    def copy(self) -> HfsPlusVolume:
        """Return the same volume, to be aged apart from this one."""
        return replace(self, space=self.space.copy(), trees=dict(self.trees), grown=list(self.grown))

    def age(self, chosen: CycleKind, wanted: int, rng: np.random.Generator) -> None:
        """Let a cycle pass."""
        files = files_by_seat(self.entries)
        work = chosen.choose(self.entries.parent[files], wanted, rng)
        self.follow(done(self.entries, work, self.next_ident, 1, rng))

    def follow(self, cycle: Done) -> None:
        """Write what a cycle changes."""
        if not cycle.num_turns:
            return
        self._place(cycle)
        before = np.concatenate([level.ident for level in self.trees[CATALOG].levels])
        at_once = np.zeros(cycle.num_turns, np.int64)
        self.trees[CATALOG], touched, _ = edited(self.trees[CATALOG], self._change(cycle), at_once)
        self._number(before, touched)
        self.entries, self.next_ident = cycle.kept.with_more(cycle.new), cycle.next_ident

    def _place(self, cycle: Done) -> None:
        """Give files blocks; those that a file had are free when the next one comes."""
        self.data, old = self.data.taken_from(cycle.old.ident)
        need = blocks_of(cycle.new.size_bytes, self.block_bytes)
        order = np.argsort(cycle.old.ident)
        old_turn = cycle.old_turn[order[np.searchsorted(cycle.old.ident[order], old.ident)]]
        # In steps of a hundredth of the cycle: file by file would be slower and hardly different.
        step = max(cycle.num_turns // 100, 1)
        for first in range(0, cycle.num_turns, step):
            mine = np.arange(first, min(first + step, len(need)))
            if len(mine):
                blocks = self.space.take(int(need[mine].sum()), self.cursor if self.policy.next_fit else 0)
                self.cursor = int(blocks[-1]) + 1 if len(blocks) else self.cursor
                self.data = self.data.with_blocks(np.repeat(cycle.new.ident[mine], need[mine]), blocks)
            gone = (old_turn >= first) & (old_turn < first + step)
            self.space.give_back(type(old)(old.ident[gone], old.start[gone], old.count[gone]).blocks())

    def _change(self, cycle: Done) -> Edits:
        """Say what a cycle does to the records of the catalog; give the new entries their keys."""
        new, old, turn = cycle.new, cycle.old, np.arange(len(cycle.new))
        none = np.full(len(new), NOWHERE)
        name = rec.key_of(new.parent, rec.NAME, new.place)
        # The record of a file is that of its name.
        thread = rec.key_of(new.ident, THREAD)
        new.keys = {"entry": name, "inode": name, "thread": thread, "xattr": none, "dstream": none}
        key, size, when = present(
            (name, catalog_bytes(new.letters, new.is_directory), turn),
            (thread, thread_bytes(new.letters), turn),
        )
        gone, _, gone_turn = present(*((old.keys[part], 0, cycle.old_turn) for part in ("entry", "thread")))
        known = is_among(gone, self.trees[CATALOG].key)
        _, once = np.unique(gone[known], return_index=True)
        temporary = cycle.is_replaced
        longer = catalog_bytes(new.letters[temporary] + rec.TEMPORARY_LETTERS, is_directory=False)
        # A name that begins with a full stop stands before the others of its directory.
        begin = rec.key_of(new.parent[temporary], rec.NAME) - 1
        return Edits(key, size, when, gone[known][once], gone_turn[known][once], begin, longer, turn[temporary])

    def _number(self, before: I64, touched: NodeTouches) -> None:
        """Give new nodes the first numbers that are free, in the order in which they appear; free those of others."""
        tree = self.trees[CATALOG]
        start = np.cumsum([0] + [len(level) for level in tree.levels])
        ident = np.concatenate([level.ident for level in tree.levels])
        block = np.concatenate([level.block for level in tree.levels])
        node = touched.node + start[touched.level]
        order = np.argsort(touched.turn, kind="stable")
        new = node[order][ident[node[order]] == NOWHERE]
        self._grow(len(new))
        ident[new], self.spare = self.spare[: len(new)], self.spare[len(new) :]
        block[new] = self.offset_of[ident[new]]
        freed = before[~is_among(before, ident) & (before >= 0)]
        self.spare = distinct(np.concatenate([self.spare, freed]))
        pairs = zip(tree.levels, start, start[1:], strict=False)
        made = [replace(level, ident=ident[a:b], block=block[a:b]) for level, a, b in pairs]
        self.trees[CATALOG] = replace(tree, levels=tuple(made))

    def _grow(self, wanted: int) -> None:
        """Give the catalog clumps until so many nodes are free."""
        while len(self.spare) < wanted:
            blocks = self.space.take(self.clump_blocks, self.cursor if self.policy.next_fit else 0)
            cuts = np.flatnonzero(np.diff(blocks, prepend=-2) != 1)
            counts = np.diff(cuts, append=len(blocks))
            self.grown += list(zip(blocks[cuts].tolist(), counts.tolist(), strict=True))
            place = np.arange(self.clump_blocks * self.block_bytes // self.node_bytes) * self.node_bytes
            offset = blocks[place // self.block_bytes] * self.block_bytes + place % self.block_bytes
            number = len(self.offset_of) + np.arange(len(place))
            self.offset_of = np.concatenate([self.offset_of, offset])
            self.spare = np.concatenate([self.spare, number])


def read_hfsplus(layout: VolumeLayout, policy: Policy) -> HfsPlusVolume | None:
    """Make a volume of a layout; nothing where its catalog was not read."""
    read = find_tree(layout, CATALOG)
    if read is None:
        return None
    numbers = numbers_of(layout)
    entries = read_entries(layout, numbers)
    leaf = leaves_of(layout, read)
    leaf["xattr"] = leaf["dstream"] = np.full(len(entries), NOWHERE)
    name = rec.key_of(entries.parent, rec.NAME, entries.place)
    none = np.full(len(entries), NOWHERE)
    thread = rec.key_of(entries.ident, THREAD)
    keys = {"entry": name, "inode": name, "thread": thread, "xattr": none, "dstream": none}
    sizes = {
        "entry": catalog_bytes(entries.letters, entries.is_directory),
        "thread": thread_bytes(entries.letters),
    }
    parts = ((np.where(leaf[part] >= 0, keys[part], NOWHERE), sizes[part], leaf[part]) for part in sizes)
    key, size, at = present(*parts)
    _, once = np.unique(key, return_index=True)
    nodes = layout.columns("nodes")
    node_bytes = int(nodes["size_bytes"].data[read[0][0]])
    rule = NodeRule(node_bytes - NODE_HEAD, policy.leaf_keep, policy.merge_share, policy.split_less)
    tree = make_tree(layout, read, (key[once], size[once], at[once]), (rule, rule, INDEX_BYTES), TABLE_ENTRY)
    tree = replace(tree, short_index_bytes=SHORT_INDEX_BYTES)
    offsets = [nodes["image_offset"].signed()[rows] - layout.facts.image_offset for rows in read]
    levels = tuple(replace(level, block=offset) for level, offset in zip(tree.levels, offsets, strict=True))
    entries.keys = pinned(tree, keys, leaf)
    spare, offset_of = _free_nodes(layout)
    block_bytes = layout.facts.block_size_bytes
    clump = int(layout.facts.details.get("catalog clump bytes", 0)) // block_bytes
    data = read_data(layout, numbers)
    return HfsPlusVolume(
        policy,
        block_bytes,
        node_bytes,
        entries,
        data,
        read_free(layout),
        {CATALOG: replace(tree, levels=levels)},
        numbers,
        spare,
        offset_of,
        max(clump, SMALLEST_CLUMP_BLOCKS, node_bytes // block_bytes),
        len(numbers),
        cursor=int((data.start + data.count).max(initial=0)),
    )


def _free_nodes(layout: VolumeLayout) -> tuple[I64, I64]:
    """Return the numbers of free nodes, and where every node lies."""
    nodes = layout.columns("nodes")
    mine = np.flatnonzero(nodes["tree"].equals(CATALOG) & nodes["image_offset"].is_known)
    number = nodes["node_id"].signed()[mine]
    offset_of = np.full(int(number.max(initial=-1)) + 1, NOWHERE)
    offset_of[number] = nodes["image_offset"].signed()[mine] - layout.facts.image_offset
    return np.sort(number[nodes["kind"].equals("free")[mine]]), offset_of


def catalog_bytes(letters: I64, is_directory: NDArray[np.bool_] | bool) -> I64:
    """Return the bytes of records of files or folders: key, value and offset (TN1150, Catalog File)."""
    return 2 + 8 + 2 * letters + np.where(is_directory, 88, 248)


def thread_bytes(letters: I64) -> I64:
    """Return the bytes of thread records: the key has no name, the record has."""
    return 2 + 8 + 10 + 2 * letters


NODE_BYTES: Final = 8192
"""Node size of catalogs that newfs_hfs and mkfs.hfsplus make on volumes of 1 GiB or more."""

FILL: Final = 0.47
"""Share of leaves that records take: 0.50 and 0.52 on fresh volumes of 20,000 and 200,000 files, 0.42 and 0.44 on aged.

Who adds keys in their order leaves nodes half full: a full one is split in two, and nothing is added to the first.
"""

FANOUT: Final = 60
"""Children of an index node: keys with names of a usual length, in nodes that are half full, too."""

_HEAD_BYTES: Final = 24
_UNIT_BYTES: Final = 2
_OFFSET_BYTES: Final = 2
"""A record's entry in the table of offsets at the end of its node."""

_POINTER_BYTES: Final = 4
"""The number of a node, that an index record leads to."""

FIRST_NODE: Final = 1
"""The first number that a node gets: the header has 0."""

_DESCRIPTOR_BYTES: Final = 14

_KINDS: Final = ("header", "index", "leaf")


class KeyedRecords(NamedTuple):
    """Records of a catalog: the thread of each entry, then the record of each; arrays of twice as many items."""

    own: NDArray[np.uint64]  # numbers of the entries
    order: I64  # records in the order of their keys
    size: I64  # bytes that each takes in a leaf
    index_bytes: I64  # bytes that each takes in an index node, if a node begins with it


class PlacedLevel(NamedTuple):
    """Nodes of a level in key order: the place of each one's parent in the level above, and its number."""

    parent: I64
    number: I64


class FilledTree(NamedTuple):
    """Where records and nodes come to lie: the leaf of each record, and the levels from the leaves up."""

    leaf: I64
    levels: list[PlacedLevel]


def remade(
    layout: VolumeLayout,
    # fills nodes with the records; without it all are as full as measured ones, and lie in the order of their keys
    filled: Callable[[KeyedRecords], FilledTree] | None = None,
) -> VolumeLayout:
    """Lay the entries of a volume into a catalog that lies in one piece."""
    table = layout.columns("entries")
    table = table.take(_order_by_catalog_key(table, is_of_catalog=layout.facts.filesystem == "hfsplus"))
    is_folder = table["kind"].equals("directory")
    own, parent = table["file_id"].data, table["parent_id"].data
    leaf, levels = (filled or _fill_evenly)(_records(table, own, parent, is_folder))
    nodes, first_leaf = _nodes(levels, layout.facts.image_offset)
    thread_row, entry_row = ((part + first_leaf).astype(np.uint32) for part in np.split(leaf, 2))
    counts = np.bincount(np.maximum(find(own, parent), 0), minlength=len(own))
    rows = {
        "entry_node_row": entry_row,
        "inode_node_row": entry_row,
        "thread_node_row": thread_row,
        "listing_node_row": np.where(is_folder, thread_row, NULL_ROW),
        "valence": Values(counts.astype(np.uint32), is_folder),
    }
    return made_anew(layout, table, nodes, rows, ("hfsplus", "HFS+"))


def has_names(layout: VolumeLayout) -> bool:
    """Whether entries have their names, on which their order in a catalog depends: hashes are all of one length."""
    names = layout.columns("entries").texts("name")
    return names.known is None and bool((names.length != names.length[:1]).any())


def _order_by_catalog_key(table: Table, *, is_of_catalog: bool) -> I64:
    """Order of the entries in a catalog: by folder, then as they stand in that of HFS+, else by name without case.

    Of the latter, names that agree in their first bytes, and letters that ASCII has not, may change places: they do so
    within a leaf or beside it, and the number of leaves is the same.
    """
    if is_of_catalog:
        return np.lexsort((table["entry_rank"].signed(), table["parent_id"].data))
    heads = table.texts("name").heads(_HEAD_BYTES)
    heads[(heads >= ord("A")) & (heads <= ord("Z"))] += ord("a") - ord("A")
    # Eight letters as one number, the first of them the highest.
    words = heads.view(np.dtype(np.uint64).newbyteorder("big"))
    return np.lexsort((*words.T[::-1], table["parent_id"].data))


def _sizes(table: Table, is_folder: Mask) -> tuple[I64, I64]:
    """Bytes of each entry's thread, and of its own record: key, value, and its entry in the table of offsets."""
    names = table.texts("name").num_chars() * _UNIT_BYTES
    fixed = CATALOG_KEY.width + _OFFSET_BYTES
    records = np.where(is_folder, CATALOG_FOLDER.width, CATALOG_FILE.width)
    return fixed + CATALOG_THREAD.width + names, fixed + names + records


def _records(table: Table, own: NDArray[np.uint64], parent: NDArray[np.uint64], is_folder: Mask) -> KeyedRecords:
    """Return the records of entries that stand in the order of their keys."""
    number = np.concatenate([own, parent])
    # A thread has no name: of the records under one number it is the first.
    is_entry = np.repeat(np.array([0, 1], np.uint8), len(own))
    order = np.lexsort((np.tile(np.arange(len(own)), 2), is_entry, number))
    named = table.texts("name").num_chars() * _UNIT_BYTES
    short = CATALOG_KEY.width + _OFFSET_BYTES + _POINTER_BYTES
    index_bytes = short + np.concatenate([np.zeros_like(named), named])
    return KeyedRecords(own, order, np.concatenate(_sizes(table, is_folder)), index_bytes)


def _fill_evenly(records: KeyedRecords) -> FilledTree:
    """Fill leaves as full as measured ones, one after the other."""
    end = np.cumsum(records.size[records.order])
    leaf = np.empty(len(records.order), np.int64)
    leaf[records.order] = (end - 1) // int(NODE_BYTES * FILL)
    widths = [int(leaf.max(initial=0)) + 1]
    while widths[-1] > 1:
        widths.append(-(-widths[-1] // FANOUT))
    # Numbers go from the root down; the header has the first.
    ends = 1 + np.cumsum(widths[::-1])[::-1]
    levels = [
        PlacedLevel(np.arange(width) // FANOUT, end - width + np.arange(width))
        for width, end in zip(widths, ends, strict=True)
    ]
    return FilledTree(leaf, levels)


def _nodes(levels: list[PlacedLevel], image_offset: int) -> tuple[Table, int]:
    """Make header, index nodes from the root down, and leaves; returns the row of the first leaf, too."""
    widths = [len(level.number) for level in levels[::-1]]
    starts = 1 + np.cumsum([0, *widths])
    parents = [np.full(2, NULL_ROW, np.int64)]
    parents += [start + level.parent for start, level in zip(starts, levels[-2::-1], strict=False)]
    level = np.repeat(np.arange(len(widths))[::-1], widths)
    rank = np.concatenate([np.arange(width) for width in widths])
    number = np.concatenate([np.zeros(1, np.int64), *(each.number for each in levels[::-1])])
    known = np.arange(len(number)) > 0
    nodes: dict[str, Any] = {
        "device": 0,
        "volume": None,
        "tree": (np.zeros(len(number), np.int64), ("catalog",)),
        "node_id": number,
        "image_offset": image_offset + number * NODE_BYTES,
        "size_bytes": NODE_BYTES,
        "level": Values(np.concatenate([[0], level]), known),
        "kind": (np.concatenate([[0], np.where(level > 0, 1, 2)]), _KINDS),
        "num_records": None,
        "used_bytes": None,
        "free_bytes": None,
        "parent_row": np.concatenate(parents).astype(np.uint32),
        "key_rank": Values(np.concatenate([[0], rank]), known),
        "first_key_id": None,
        "last_key_id": None,
        "state": (np.zeros(len(number), np.int64), ("live",)),
        "valid": (np.zeros(len(number), np.int64), ("structure",)),
    }
    return build_table("nodes", nodes), int(starts[-2])


def linux_rule() -> SplitRule:
    """Return how Linux splits: fs/hfsplus/brec.c, hfs_bnode_split.

    Records stay until they reach the middle of the node, counted with its descriptor, less two bytes for each record
    that the node has and the descriptor again.
    """
    room = NODE_BYTES // 2 - 2 * _DESCRIPTOR_BYTES
    return SplitRule(NODE_BYTES - NODE_HEAD, stays_at_cut=False, room_bytes=room, less_per_record=_OFFSET_BYTES)


def macos_rule() -> SplitRule:
    """Return how macOS is taken to split: as much stays as its forecasts assume."""
    room = NODE_BYTES - NODE_HEAD
    return SplitRule(room, stays_at_cut=False, room_bytes=int(POLICIES["macos"].leaf_keep * room))


def fill_catalogs(layout: VolumeLayout, host: str) -> tuple[VolumeLayout, ...]:
    """Lay entries out as a driver does that makes them in the order of their numbers."""
    if not has_names(layout):
        return ()
    rules = (linux_rule(),) if host == "linux" else (macos_rule(), linux_rule())
    return tuple(remade(layout, partial(_fill_by_driver, rule)) for rule in rules)


def _fill_by_driver(rule: SplitRule, records: KeyedRecords) -> FilledTree:
    """Write thread and record of each entry, in the order of their numbers."""
    count = len(records.own)
    rank = np.empty(2 * count, np.int64)
    rank[records.order] = np.arange(2 * count)
    made = np.argsort(records.own, kind="stable")
    written = np.stack([made, made + count], axis=1).ravel()
    none = np.zeros(2 * count, np.int64)
    writes = RecordWrites(rank[written], records.size[written], none, np.arange(2 * count), none)
    levels = grown_tree(writes, (rule, rule), records.index_bytes[records.order])
    born = np.concatenate([level.born for level in levels])
    depth = np.repeat(np.arange(len(levels)), [len(level.born) for level in levels])
    number = np.empty(len(born), np.int64)
    number[np.lexsort((depth, born))] = FIRST_NODE + np.arange(len(born))
    numbers = np.split(number, np.cumsum([len(level.born) for level in levels])[:-1])
    above = [level.node for level in levels[1:]] + [np.zeros(1, np.int64)]
    placed = [PlacedLevel(parent, own) for parent, own in zip(above, numbers, strict=True)]
    return FilledTree(levels[0].node[rank], placed)
