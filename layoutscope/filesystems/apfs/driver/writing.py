"""APFS as it ages: three trees whose nodes are written anew with every transaction that changes them.

The file-system tree holds names, inodes and extents; the object map where its nodes lie; the extent references whose
blocks are whose. Of all three each changed node gets another block, and the old one is free after the transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from layoutscope.aging import records as rec
from layoutscope.aging.cycle import done, files_by_seat, present
from layoutscope.aging.policy import Policy
from layoutscope.aging.trees import NOWHERE, Edits, NodeTouches, edited
from layoutscope.aging.volume import blocks_of
from layoutscope.arrays.ragged import ranges
from layoutscope.filesystems.apfs.driver import recordbytes as taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.aging.cycle import Done
    from layoutscope.aging.space import FreeBlocks
    from layoutscope.aging.trees import AgingTree, TreeLevel
    from layoutscope.aging.volume import AgingEntries, Data
    from layoutscope.aging.workloads import CycleKind

    I64 = NDArray[np.int64]

TREES: Final = ("fs", "omap", "extentref")
LENGTHS: Final = "Lengths of transactions are drawn within a factor of two."

LINUX: Final = Policy(
    # linux-apfs-rw splits in the middle; the leaves that replaced files filled last are half full on volumes that it
    # aged, those of one that was filled once 0.68.
    leaf_keep=0.5,
    index_keep=0.5,
    map_keep=0.5,
    merge_share=0.0,
    next_fit=False,
    # Volumes that it aged have a transaction for every 673 files that were replaced.
    files_per_transaction=670,
    # The inode of the temporary file, and a sibling for each of its two names.
    ids_per_file=3,
    leaves_siblings=True,
    assumes=("A transaction writes 670 files, as the Linux driver's did.", LENGTHS),
)

MACOS: Final = Policy(
    leaf_keep=0.86,
    index_keep=0.86,
    map_keep=0.86,
    merge_share=0.5,
    next_fit=True,
    at_commit=True,
    assumes=(
        "A transaction writes 1,000 files.",
        LENGTHS,
        "Nodes are written at the end of a transaction, in the order of their keys.",
        "Blocks are taken behind those that were taken last.",
        "Neighbours that fill half a node together are merged.",
    ),
)

POLICIES: Final = {"linux": LINUX, "macos": MACOS}
CHUNK_BLOCKS: Final = 32768
NO_KEYS: Final = np.empty(0, np.int64)


@dataclass
class ApfsVolume:
    """An APFS volume between two cycles.

    Attributes
    ----------
    policy : Policy
        How its driver places.
    block_bytes : int
        Its block.
    entries, data, space
        Its entries, the extents of its files, its free blocks.
    trees : dict of str to AgingTree
        The three of :data:`TREES`, as far as it has them.
    numbers : int64 array
        Ids of files that were there in the beginning; further ones follow them.
    next_ident, next_oid, xid : int
        The next number of a file, the next id of a node, the last transaction.
    is_apart : bool
        Whether nodes lie behind all data, in chunks of their own.
    broken_share : float
        Share of the blocks of a file that do not follow the one before, of the files written last.
    cursor : int
        Block behind the last that was taken.
    keep_cycles : int
        How many cycles back a snapshot holds what was replaced.
    held : list
        Blocks that snapshots hold, a cycle each.
    """

    policy: Policy
    block_bytes: int
    entries: AgingEntries
    data: Data
    space: FreeBlocks
    trees: dict[str, AgingTree]
    numbers: I64
    next_ident: int
    next_oid: int
    xid: int
    is_apart: bool
    broken_share: float = 0.0
    cursor: int = 0
    keep_cycles: int = 0
    held: list[I64] = field(default_factory=list)

    main: ClassVar[str] = "fs"
    maps: ClassVar[str] = "omap"
    entry_bytes: ClassVar[dict[str, int]] = {"fs": 8, "omap": 4, "extentref": 8}

    def begins(self, ident: I64) -> dict[str, I64]:
        """Return the keys at which listings of directories begin and end: they go backwards."""
        last = rec.key_of(ident, rec.NAME, rec.MOST_PLACES)
        return {"listing_node_row": last, "listing_end_node_row": rec.key_of(ident, rec.NAME) - 1}

    def place_of(self, name: str, level: TreeLevel) -> I64:  # noqa: ARG002  (all trees lie in blocks)
        """Return where nodes of a tree lie, in bytes from the start of the volume."""
        return level.block * self.block_bytes

    def copy(self) -> ApfsVolume:
        """Return the same volume, to be aged apart from this one."""
        return replace(self, space=self.space.copy(), held=list(self.held), trees=dict(self.trees))

    def age(self, chosen: CycleKind, wanted: int, rng: np.random.Generator) -> None:
        """Let a cycle pass.

        Parameters
        ----------
        chosen : CycleKind
            What is done.
        wanted : int
            To how many files.
        rng : Generator
            Draws which.

        Raises
        ------
        FullError
            If there is no room left.
        """
        files = files_by_seat(self.entries)
        work = chosen.choose(self.entries.parent[files], wanted, rng)
        cycle = done(self.entries, work, self.next_ident, self.policy.ids_per_file, rng)
        if not cycle.num_turns:
            return
        batch = np.arange(cycle.num_turns) // self.policy.files_per_transaction
        before = np.concatenate([level.ident for level in self.trees["fs"].levels])
        self.trees["fs"], touched, freed = edited(self.trees["fs"], _fs_change(self, cycle), batch)
        events = [(TREES.index("fs"), touched)]
        # Every new node is numbered, so that a volume whose map was not read has ids all the same.
        change = self._mapped(before, touched)
        if "omap" in self.trees:
            self.trees["omap"], mapped, gone = edited(self.trees["omap"], change, batch)
            events.append((TREES.index("omap"), mapped))
            freed = np.concatenate([freed, gone])
        self._write(cycle, events, batch, freed)
        self.entries, self.next_ident = cycle.kept.with_more(cycle.new), cycle.next_ident

    def _mapped(self, before: I64, touched: NodeTouches) -> Edits:
        """Number the new nodes in the order in which they are written, and change the object map with all of them."""
        tree = self.trees["fs"]
        levels = list(tree.levels)
        start = np.cumsum([0] + [len(level) for level in levels])
        ident = np.concatenate([level.ident for level in levels])
        node = touched.node + start[touched.level]
        order = np.argsort(touched.turn, kind="stable")
        new = node[order][ident[node[order]] == NOWHERE]
        _, first = np.unique(new, return_index=True)
        new = new[np.sort(first)]
        ident[new] = self.next_oid + np.arange(len(new))
        self.next_oid += len(new)
        made = [replace(level, ident=ident[a:b]) for level, a, b in zip(levels, start, start[1:], strict=False)]
        self.trees["fs"] = replace(tree, levels=tuple(made))
        born = np.zeros(start[-1], np.int64)
        born[node[::-1]] = touched.turn[::-1]
        gone = np.intersect1d(np.setdiff1d(before, ident), self.trees["omap"].key) if "omap" in self.trees else NO_KEYS
        kept = ~np.isin(ident[node], ident[new])
        return Edits(
            ident[new], np.full(len(new), taken.MAP_BYTES), born[new], gone, np.zeros_like(gone), ident[node][kept],
            np.zeros(int(kept.sum()), np.int64), touched.turn[kept],
        )  # fmt: skip

    def _write(self, cycle: Done, events: list[tuple[int, NodeTouches]], batch: I64, freed: I64) -> None:
        """Give blocks to data and nodes, transaction by transaction."""
        rest, old = self.data.taken_from(cycle.old.ident)
        order = np.argsort(cycle.old.ident)
        found = np.searchsorted(cycle.old.ident[order], old.ident)
        old_turn = cycle.old_turn[order[found]]
        need = blocks_of(cycle.new.size_bytes, self.block_bytes)
        self.data = rest
        holding = [freed]
        edges = np.append(np.flatnonzero(np.diff(batch, prepend=-1)), len(batch))
        for first, stop in zip(edges.tolist(), edges[1:].tolist(), strict=False):
            self.xid += 1
            mine = np.arange(first, min(stop, len(need)))
            going = (old_turn >= first) & (old_turn < stop)
            nodes = [(number, _within(touched, first, stop)) for number, touched in events]
            given, replaced = self._transaction(nodes, mine, need)
            ident = np.repeat(cycle.new.ident[mine], need[mine])
            self.data = self.data.with_blocks(ident, given)
            lost = _starts(old, going)
            refs = self._references(given, ident, old.start[going])
            released = np.concatenate([replaced, refs, lost])
            if self.keep_cycles:
                holding.append(released)
            else:
                self.space.give_back(released)
        extents = len(self.data.ident) - len(rest.ident)
        inside = int(np.maximum(need - 1, 0).sum())
        self.broken_share = (extents - int((need > 0).sum())) / inside if inside else 0.0
        self._release(holding)

    def _release(self, holding: list[I64]) -> None:
        """Free what no snapshot holds any more."""
        blocks = np.concatenate(holding)
        if not self.keep_cycles:
            self.space.give_back(blocks)
            return
        self.held = [*self.held, blocks]
        while len(self.held) > self.keep_cycles:
            self.space.give_back(self.held.pop(0))

    def _transaction(self, nodes: list[tuple[int, NodeTouches]], files: I64, need: I64) -> tuple[I64, I64]:
        """Give a transaction's blocks; returns those of data, in the order of the files, and those replaced."""
        starts = np.cumsum([0] + [len(touched.node) for _, touched in nodes])
        turn = np.concatenate([*(touched.turn for _, touched in nodes), files])
        count = np.concatenate([np.ones(starts[-1], np.int64), need[files]])
        is_data = np.arange(len(turn)) >= starts[-1]
        if self.policy.at_commit:
            order = np.lexsort((np.where(is_data, turn, 0), ~is_data))
        else:
            order = np.lexsort((is_data, turn))
        for_data = np.repeat(is_data[order], count[order])
        blocks = np.empty(len(for_data), np.int64)
        if self.is_apart:
            blocks[for_data] = self._take(int(for_data.sum()))
            blocks[~for_data] = self._take_apart(int((~for_data).sum()))
        else:
            blocks[:] = self._take(len(for_data))
        own = np.empty(starts[-1], np.int64)
        own[order[~is_data[order]]] = blocks[~for_data]
        replaced = [
            self._placed(TREES[number], touched, own[a:b])
            for (number, touched), a, b in zip(nodes, starts, starts[1:], strict=False)
        ]
        return blocks[for_data], np.concatenate(replaced)

    def _placed(self, name: str, touched: NodeTouches, blocks: I64) -> I64:
        """Put nodes where they were written; returns where they lay."""
        tree, left, levels = self.trees[name], [], []
        for number, level in enumerate(tree.levels):
            mine = touched.level == number
            node, block, xid = touched.node[mine], level.block.copy(), level.xid.copy()
            left.append(block[node])
            block[node], xid[node] = blocks[mine], self.xid
            levels.append(replace(level, block=block, xid=xid))
        self.trees[name] = replace(tree, levels=tuple(levels))
        whole = np.concatenate(left)
        found: I64 = whole[whole != NOWHERE]
        return found

    def _references(self, given: I64, ident: I64, gone: I64) -> I64:
        """Edits the extent references of a transaction; returns blocks that are free after it."""
        tree = self.trees.get("extentref")
        if tree is None:
            return NO_KEYS
        cuts = (np.diff(ident, prepend=-2) != 0) | (np.diff(given, prepend=-2) != 1)
        key = given[cuts]
        zeros = np.zeros(len(gone), np.int64)
        there = np.isin(gone, tree.key)
        nothing = (NO_KEYS, NO_KEYS, NO_KEYS)
        size = np.full(len(key), taken.REFERENCE_BYTES)
        change = Edits(key, size, np.zeros(len(key), np.int64), gone[there], zeros[there], *nothing)
        made, touched, freed = edited(tree, change, np.zeros(1, np.int64))
        self.trees["extentref"] = made
        order = np.lexsort((touched.node, touched.level))
        touched = NodeTouches(touched.level[order], touched.node[order], touched.turn[order])
        blocks = self._take_apart(len(order)) if self.is_apart else self._take(len(order))
        return np.concatenate([self._placed("extentref", touched, blocks), freed])

    def _take(self, count: int) -> I64:
        blocks = self.space.take(count, self.cursor if self.policy.next_fit else 0)
        self.cursor = int(blocks[-1]) + 1 if count else self.cursor
        return blocks

    def _take_apart(self, count: int) -> I64:
        """Take blocks in the lowest chunk that nodes lie in, then in the one before."""
        own = min(int(level.block.min(initial=1 << 60)) for level in self.trees["fs"].levels)
        chunk = own // CHUNK_BLOCKS * CHUNK_BLOCKS
        while chunk > 0 and self.space.num_free_from(chunk) < count:
            chunk -= CHUNK_BLOCKS
        return self.space.take(count, max(chunk, 0))


def _extent_bytes(volume: ApfsVolume, files: AgingEntries) -> I64:
    """All extent records of a file as one: as many as files got last."""
    blocks = blocks_of(files.size_bytes, volume.block_bytes)
    return taken.EXTENT_BYTES * (1 + np.rint(np.maximum(blocks - 1, 0) * volume.broken_share).astype(np.int64))


def _within(touched: NodeTouches, first: int, stop: int) -> NodeTouches:
    mine = (touched.turn >= first) & (touched.turn < stop)
    return NodeTouches(touched.level[mine], touched.node[mine], touched.turn[mine])


def _starts(data: Data, rows: NDArray[np.bool_]) -> I64:
    return np.asarray(ranges(data.start[rows], data.count[rows]), np.int64)


def _where(there: NDArray[np.bool_], key: I64) -> I64:
    """Keep the keys of records that are there."""
    return np.where(there, key, NOWHERE)


def _fs_change(volume: ApfsVolume, cycle: Done) -> Edits:
    """Say what a cycle does to the records of the file-system tree; give the new entries their keys."""
    policy, new, old = volume.policy, cycle.new, cycle.old
    turn = np.arange(len(new))
    linked = cycle.is_replaced & policy.leaves_siblings
    new.has_sibling = linked
    none = np.full(len(new), NOWHERE)
    own = {name: rec.key_of(new.ident, kind) for name, kind in (("inode", taken.INODE), ("dstream", taken.DATA_STREAM))}
    new.keys = {"entry": rec.key_of(new.parent, rec.NAME, new.place), **own, "thread": none, "xattr": none}
    yes = np.ones(len(new), bool)
    key, size, when = present(
        (new.keys["entry"], taken.entry_name_bytes(new.letters, has_sibling=linked), turn),
        (own["inode"], taken.inode_bytes(new.letters, yes), turn),
        (own["dstream"], taken.DATA_STREAM_BYTES, turn),
        (rec.key_of(new.ident, taken.FILE_EXTENT), _extent_bytes(volume, new), turn),
        (
            np.where(linked, rec.key_of(new.ident, taken.SIBLING_LINK), NOWHERE),
            taken.sibling_link_bytes(new.letters),
            turn,
        ),
        (np.where(linked, rec.key_of(new.ident + 2, taken.SIBLING_MAP), NOWHERE), taken.SIBLING_MAP_BYTES, turn),
    )
    there = old.has_sibling
    gone, _, gone_turn = present(
        *((old.keys[name], 0, cycle.old_turn) for name in ("entry", "inode", "dstream", "xattr")),
        (rec.key_of(old.ident, taken.FILE_EXTENT), 0, cycle.old_turn),
        (_where(there, rec.key_of(old.ident, taken.SIBLING_LINK)), 0, cycle.old_turn),
        (_where(there, rec.key_of(old.ident + 2, taken.SIBLING_MAP)), 0, cycle.old_turn),
    )
    known = np.isin(gone, volume.trees["fs"].key)
    # Names that were pinned to a leaf are no records of their own.
    _, once = np.unique(gone[known], return_index=True)
    temporary = cycle.is_replaced
    longer = new.letters[temporary] + rec.TEMPORARY_LETTERS
    passing = new.keys["entry"][temporary]
    return Edits(
        key, size, when, gone[known][once], gone_turn[known][once], passing, taken.entry_name_bytes(longer),
        turn[temporary],
    )  # fmt: skip
