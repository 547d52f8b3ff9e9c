"""HFS+ as it ages: a catalog whose nodes stay where they are, numbers that are used again, clumps behind them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from layoutscope.aging import records as rec
from layoutscope.aging.cycle import done, files_by_seat, present
from layoutscope.aging.edits import Edits, edited
from layoutscope.aging.policy import Policy
from layoutscope.aging.trees import NOWHERE, NodeRule
from layoutscope.aging.volume import (
    blocks_of,
    found_tree,
    leaves_of,
    made_tree,
    numbers_of,
    pinned,
    read_data,
    read_entries,
    read_free,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.aging.cycle import Done
    from layoutscope.aging.edits import NodeTouches
    from layoutscope.aging.space import FreeBlocks
    from layoutscope.aging.trees import AgingTree, TreeLevel
    from layoutscope.aging.volume import AgingEntries, Data
    from layoutscope.aging.workloads import CycleKind
    from layoutscope.tables import VolumeLayout

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
        cycle = done(self.entries, chosen.choose(self.entries.parent[files], wanted, rng), self.next_ident, 1, rng)
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
            (name, catalog_bytes(new.letters, is_directory=False), turn),
            (thread, thread_bytes(new.letters), turn),
        )
        gone, _, gone_turn = present(*((old.keys[part], 0, cycle.old_turn) for part in ("entry", "thread")))
        known = np.isin(gone, self.trees[CATALOG].key)
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
        freed = np.setdiff1d(before, ident)
        self.spare = np.union1d(self.spare, freed[freed >= 0])
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
    read = found_tree(layout, CATALOG)
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
    node_bytes = int(nodes["size_bytes"].data[read.rows[0][0]])
    rule = NodeRule(node_bytes - NODE_HEAD, policy.leaf_keep, policy.merge_share, policy.split_less)
    tree = made_tree(layout, read, (key[once], size[once], at[once]), (rule, rule, INDEX_BYTES), TABLE_ENTRY)
    tree = replace(tree, short_index_bytes=SHORT_INDEX_BYTES)
    offsets = [nodes["image_offset"].signed()[rows] - layout.facts.image_offset for rows in read.rows]
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
