"""APFS as it ages: three trees whose nodes are written anew with every transaction that changes them.

The file-system tree holds names, inodes and extents; the object map where its nodes lie; the extent references whose
blocks are whose. Of all three each changed node gets another block, and the old one is free after the transaction.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from layoutscope.aging import trees as rec
from layoutscope.aging.model import done, files_by_seat, present
from layoutscope.aging.trees import NOWHERE, Edits, NodeRule, NodeTouches, edited
from layoutscope.aging.volume import (
    blocks_of,
    find_tree,
    leaves_of,
    make_tree,
    node_blocks,
    numbers_of,
    pinned,
    read_data,
    read_entries,
    read_free,
)
from layoutscope.structs.arrays import distinct, is_among, ranges
from layoutscope.tables.columns import are_walked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.aging.model import CycleKind, Done, Policy
    from layoutscope.aging.trees import AgingTree, TreeLevel
    from layoutscope.aging.volume import AgingEntries, Data, FreeBlocks, TreeRows
    from layoutscope.tables import VolumeLayout

    I64 = NDArray[np.int64]

INODE: Final = 3
XATTR: Final = 4
SIBLING_LINK: Final = 5
DATA_STREAM: Final = 6
FILE_EXTENT: Final = 8
SIBLING_MAP: Final = 12
"""Types of records in the order of their keys."""

DATA_STREAM_BYTES: Final = 8 + 8 + 4
EXTENT_BYTES: Final = 8 + 16 + 24
SIBLING_MAP_BYTES: Final = 8 + 8 + 8
INDEX_BYTES: Final = 8 + 17 + 8
SHORT_INDEX_BYTES: Final = 8 + 8 + 8
NAME_VALUE_BYTES: Final = 18
CHILD_BYTES: Final = 8
MAP_TABLE_BYTES: Final = 4
MAP_BYTES: Final = MAP_TABLE_BYTES + 16 + 16
MAP_INDEX_BYTES: Final = 4 + 16 + 8
REFERENCE_BYTES: Final = 8 + 8 + 20
REFERENCE_INDEX_BYTES: Final = 8 + 8 + 8


def inode_bytes(letters: I64, has_data: NDArray[np.bool_]) -> I64:
    """An inode: fixed part, the field of its name, and that of its data stream."""
    return 8 + 8 + 92 + 4 + 4 + (letters + 8) // 8 * 8 + np.where(has_data, 4 + 40, 0)


def entry_name_bytes(letters: I64, *, has_sibling: bool | NDArray[np.bool_] = False) -> I64:
    """A directory record; that of a hard link has its sibling's id."""
    return 8 + 12 + letters + 1 + NAME_VALUE_BYTES + np.where(has_sibling, 16, 0)


def sibling_link_bytes(letters: I64) -> I64:
    """The record that leads from an inode to one of its names."""
    return 8 + 16 + 10 + letters + 1


NODES, DATA, REFERENCES = range(3)
"""What takes blocks."""


class FileWork(NamedTuple):
    """What a transaction does to files; turns are the places of operations in it."""

    # turn, need, ident: when each new file is written, its blocks, its number
    turn: I64
    need: I64
    ident: I64
    # gone, gone_turn: first blocks of extents that are deleted, and when
    gone: I64
    gone_turn: I64


def merge_turns(turns: tuple[I64, ...], counts: tuple[I64, ...]) -> tuple[I64, I64, I64]:
    """Join what takes blocks: when, what it is, and how many blocks it takes."""
    kind = np.repeat(np.arange(len(turns)), [len(part) for part in turns])
    return np.concatenate(turns), kind, np.concatenate(counts)


def order_of_blocks(turn: I64, kind: I64, at_commit: bool) -> I64:
    """Return the order in which blocks are taken: nodes before the data that belong to them, references behind."""
    if at_commit:
        return np.lexsort((np.where(kind == DATA, turn, 0), kind != DATA))
    return np.lexsort((kind, turn))


def new_extents(given: I64, work: FileWork) -> tuple[I64, I64]:
    """Return the first blocks of the extents of new files, and when they were written."""
    file = np.repeat(np.arange(len(work.need)), work.need)
    cuts = (np.diff(file, prepend=-2) != 0) | (np.diff(given, prepend=-2) != 1)
    return given[cuts], work.turn[file[cuts]]


def touches_within(touched: NodeTouches, first: int, stop: int) -> NodeTouches:
    """Return what changes from one turn to another."""
    mine = (touched.turn >= first) & (touched.turn < stop)
    return NodeTouches(touched.level[mine], touched.node[mine], touched.turn[mine])


def blocks_of_extents(data: Data, rows: NDArray[np.bool_]) -> I64:
    """Return the blocks of some extents."""
    return np.asarray(ranges(data.start[rows], data.count[rows]), np.int64)


TREES: Final = ("fs", "omap", "extentref")
CHUNK_BLOCKS: Final = 32768
MAP_RECORDS: Final = 112
"""Records for which a leaf of an object map has a table, however few it has (its node of 4,096 bytes)."""
NO_KEYS: Final = np.empty(0, np.int64)
NO_FILE: Final = (0.0, 0.0)


@dataclass
class ApfsVolume:
    """An APFS volume between two cycles."""

    policy: Policy  # how its driver places
    block_bytes: int
    # entries, data, space: its entries, the extents of its files, its free blocks
    entries: AgingEntries
    data: Data
    space: FreeBlocks
    trees: dict[str, AgingTree]  # the three of `TREES`, as far as it has them
    numbers: I64  # ids of files that were there in the beginning; further ones follow them
    # next_ident, next_oid, xid: the next number of a file, the next id of a node, the last transaction
    next_ident: int
    next_oid: int
    xid: int
    is_apart: bool  # whether nodes lie behind all data, in chunks of their own
    # share of the blocks of a file that do not follow the one before, of the files written last
    broken_share: float = 0.0
    cursor: int = 0  # block behind the last that was taken
    keep_cycles: int = 0  # how many cycles back a snapshot holds what was replaced
    held: list[I64] = field(default_factory=list)  # blocks that snapshots hold, a cycle each
    waiting: list[I64] = field(default_factory=list)  # blocks that are not free yet, a transaction each
    # blocks that a file frees, and those that are written for it, as of the last cycle
    a_file: tuple[float, float] | None = None

    main: ClassVar[str] = "fs"
    maps: ClassVar[str] = "omap"
    entry_bytes: ClassVar[dict[str, int]] = {"fs": 8, "omap": 4, "extentref": 8}

    def begins(self, ident: I64) -> dict[str, I64]:
        """Return the keys at which listings of directories begin and end: they go backwards."""
        last = rec.key_of(ident, rec.NAME, rec.MAX_PLACES)
        return {"listing_node_row": last, "listing_end_node_row": rec.key_of(ident, rec.NAME) - 1}

    def place_of(self, name: str, level: TreeLevel) -> I64:  # noqa: ARG002  (all trees lie in blocks)
        """Return where nodes of a tree lie, in bytes from the start of the volume."""
        return level.block * self.block_bytes

    def unused_table(self, name: str, count: I64) -> I64:
        """Return the bytes of nodes' tables that no record uses, by how many records they have."""
        if name == "omap":
            return np.maximum(MAP_RECORDS - count, 0) * MAP_TABLE_BYTES
        return -count % 8 * self.entry_bytes[name]

    def copy(self) -> ApfsVolume:
        """Return the same volume, to be aged apart from this one."""
        lists = {"held": list(self.held), "waiting": list(self.waiting)}
        return replace(self, space=self.space.copy(), trees=dict(self.trees), **lists)  # type: ignore[arg-type]

    def age(self, chosen: CycleKind, wanted: int, rng: np.random.Generator) -> None:
        """Let a cycle pass."""
        if self.policy.queue_blocks and self.a_file is None:
            # How many blocks a file takes is seen in a cycle that is only tried.
            self.a_file = NO_FILE
            trial = self.copy()
            trial.age(chosen, wanted, deepcopy(rng))
            self.a_file = trial.a_file
        files = files_by_seat(self.entries)
        work = chosen.choose(self.entries.parent[files], wanted, rng)
        self.follow(done(self.entries, work, self.next_ident, self.policy.ids_per_file, rng))

    def follow(self, cycle: Done) -> None:
        """Write what a cycle changes."""
        if not cycle.num_turns:
            return
        # Every operation has two turns: what is written before a file's data, and what is when it gets its name.
        batch = np.repeat(np.arange(cycle.num_turns) // self._length(), 2)
        before = np.concatenate([level.ident for level in self.trees["fs"].levels])
        self.trees["fs"], touched, freed = edited(self.trees["fs"], _fs_change(self, cycle), batch)
        events = [(TREES.index("fs"), touched)]
        # Every new node is numbered, so that a volume whose map was not read has ids all the same.
        change = self._update_object_map(before, touched)
        if "omap" in self.trees:
            self.trees["omap"], mapped, gone = edited(self.trees["omap"], change, batch)
            events.append((TREES.index("omap"), mapped))
            freed = np.concatenate([freed, gone])
        self._write(cycle, events, batch, freed)
        self.entries, self.next_ident = cycle.kept.with_more(cycle.new), cycle.next_ident

    def _length(self) -> int:
        """Return how many files a transaction writes: until so many blocks wait to be freed, or are written."""
        if not self.policy.queue_blocks or self.a_file is None or self.a_file == NO_FILE:
            return self.policy.files_per_transaction
        freed, written = self.a_file
        queue = self.policy.queue_blocks / (self.policy.waits + 1)
        return max(int(min(queue / max(freed, 1e-9), self.policy.buffer_blocks / max(written, 1e-9))), 1)

    def _update_object_map(self, before: I64, touched: NodeTouches) -> Edits:
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
        gone = distinct(before[~is_among(before, ident)])
        gone = gone[is_among(gone, self.trees["omap"].key)] if "omap" in self.trees else NO_KEYS
        kept = ~is_among(ident[node], ident[new])
        return Edits(
            ident[new], np.full(len(new), MAP_BYTES), born[new], gone, np.zeros_like(gone), ident[node][kept],
            np.zeros(int(kept.sum()), np.int64), touched.turn[kept],
        )  # fmt: skip

    def _write(self, cycle: Done, events: list[tuple[int, NodeTouches]], batch: I64, freed: I64) -> None:
        """Give blocks to data and nodes, transaction by transaction."""
        rest, old = self.data.taken_from(cycle.old.ident)
        order = np.argsort(cycle.old.ident)
        found = np.searchsorted(cycle.old.ident[order], old.ident)
        old_turn = 2 * cycle.old_turn[order[found]] + 1
        need = blocks_of(cycle.new.size_bytes, self.block_bytes)
        self.data = rest
        holding, num_freed, num_written = [freed], len(freed), int(need.sum())
        edges = np.append(np.flatnonzero(np.diff(batch, prepend=-1)), len(batch))
        for first, stop in zip(edges.tolist(), edges[1:].tolist(), strict=False):
            self.xid += 1
            mine = np.arange(first // 2, min(stop // 2, len(need)))
            going = (old_turn >= first) & (old_turn < stop)
            nodes = [(number, touches_within(touched, first, stop)) for number, touched in events]
            work = FileWork(
                2 * mine - first, need[mine], cycle.new.ident[mine], old.start[going], old_turn[going] - first
            )
            given, replaced = self._transaction(nodes, work, first, stop)
            self.data = self.data.with_blocks(np.repeat(work.ident, work.need), given)
            released = np.concatenate([replaced, blocks_of_extents(old, going)])
            num_freed, num_written = num_freed + len(released), num_written + len(replaced)
            if self.keep_cycles:
                holding.append(released)
            else:
                self._wait(released)
        extents = len(self.data.ident) - len(rest.ident)
        inside = int(np.maximum(need - 1, 0).sum())
        self.broken_share = (extents - int((need > 0).sum())) / inside if inside else 0.0
        self.a_file = (num_freed / cycle.num_turns, num_written / cycle.num_turns)
        self._release(holding)

    def _wait(self, blocks: I64) -> None:
        """Free the blocks that were left in the transaction that is so far back."""
        self.waiting = [*self.waiting, blocks]
        while len(self.waiting) > self.policy.waits:
            self.space.give_back(self.waiting.pop(0))

    def _release(self, holding: list[I64]) -> None:
        """Free what no snapshot holds any more."""
        blocks = np.concatenate(holding)
        if not self.keep_cycles:
            self.space.give_back(blocks)
            return
        self.held = [*self.held, blocks]
        while len(self.held) > self.keep_cycles:
            self.space.give_back(self.held.pop(0))

    def _transaction(
        self, nodes: list[tuple[int, NodeTouches]], work: FileWork, first: int, stop: int
    ) -> tuple[I64, I64]:
        """Give a transaction's blocks; returns those of data, in the order of the files, and those replaced."""
        starts = np.cumsum([0] + [len(touched.node) for _, touched in nodes])
        own_turn = np.concatenate([touched.turn for _, touched in nodes]) - first
        turn, kind, count = merge_turns((own_turn, work.turn), (np.ones(starts[-1], np.int64), work.need))
        at_commit = self.policy.at_commit
        if "extentref" in self.trees and not at_commit:
            # Where data would come to lie says which references change; these take blocks between them.
            likely = self._allocate_in_order(order_of_blocks(turn, kind, at_commit), kind, count, is_try=True)[0]
            keys, turns = new_extents(likely, work)
            extra = self._date_reference_changes(
                np.concatenate([keys, work.gone]), np.concatenate([turns, work.gone_turn])
            )
            turn, kind, count = merge_turns(
                (own_turn, work.turn, extra), (np.ones(starts[-1], np.int64), work.need, np.ones_like(extra))
            )
        given, own, spare = self._allocate_in_order(order_of_blocks(turn, kind, at_commit), kind, count)
        replaced = [
            self._move_nodes(TREES[number], touched, own[a:b])
            for (number, touched), a, b in zip(nodes, starts, starts[1:], strict=False)
        ]
        return given, np.concatenate([*replaced, self._references(given, work, spare, stop - first)])

    def _allocate_in_order(self, order: I64, kind: I64, count: I64, *, is_try: bool = False) -> tuple[I64, I64, I64]:
        """Give blocks in an order: to data, nodes and references, each in the order in which it was told."""
        # A damaged file may claim any size: what does not fit is refused before it is listed block by block.
        self.space.check_room(int(count.sum()))
        kinds = np.repeat(kind[order], count[order])
        blocks = np.empty(len(kinds), np.int64)
        is_data = kinds == DATA
        if self.is_apart:
            blocks[is_data] = self._take(int(is_data.sum()), is_try=is_try)
            blocks[~is_data] = 0 if is_try else self._take_apart(int((~is_data).sum()))
        else:
            blocks[:] = self._take(len(kinds), is_try=is_try)
        own = np.empty(int((kind == NODES).sum()), np.int64)
        own[order[kind[order] == NODES]] = blocks[kinds == NODES]
        return blocks[is_data], own, blocks[kinds == REFERENCES]

    def _date_reference_changes(self, key: I64, turn: I64) -> I64:
        """Return when each node of the extent references is changed first, in the order of time."""
        found = []
        for level in self.trees["extentref"].levels:
            first = np.full(len(level), np.iinfo(np.int64).max)
            np.minimum.at(first, level.node_of(key), turn)
            found.append(first[first < np.iinfo(np.int64).max])
        return np.sort(np.concatenate(found))

    def _move_nodes(self, name: str, touched: NodeTouches, blocks: I64) -> I64:
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

    def _references(
        self,
        given: I64,  # blocks of the new files
        work: FileWork,
        spare: I64,
        turns: int,
    ) -> I64:
        """Change the extent references of a transaction; returns blocks that are free after it."""
        tree = self.trees.get("extentref")
        if tree is None:
            return spare
        key, turn = new_extents(given, work)
        there = is_among(work.gone, tree.key)
        size = np.full(len(key), REFERENCE_BYTES)
        change = Edits(key, size, turn, work.gone[there], work.gone_turn[there], *(NO_KEYS,) * 3)
        self.trees["extentref"], touched, freed = edited(tree, change, np.zeros(turns, np.int64))
        order = np.lexsort((touched.node, touched.level, *(() if self.policy.at_commit else (touched.turn,))))
        touched = NodeTouches(touched.level[order], touched.node[order], touched.turn[order])
        more = max(len(order) - len(spare), 0)
        late = self._take_apart(more) if self.is_apart else self._take(more)
        blocks, left = np.concatenate([spare[: len(order)], late]), spare[len(order) :]
        return np.concatenate([self._move_nodes("extentref", touched, blocks), freed, left])

    def _take(self, count: int, *, is_try: bool = False) -> I64:
        blocks = self.space.take(count, self.cursor if self.policy.next_fit else 0, is_try=is_try)
        if not is_try:
            self.cursor = int(blocks[-1]) + 1 if count else self.cursor
        return blocks

    def _take_apart(self, count: int) -> I64:
        """Take blocks in the lowest chunk that nodes lie in, then in the one before."""
        # Nodes that are new lie nowhere yet.
        lies = np.concatenate([level.block for level in self.trees["fs"].levels])
        chunk = int(lies[lies != NOWHERE].min(initial=1 << 60)) // CHUNK_BLOCKS * CHUNK_BLOCKS
        while chunk > 0 and self.space.num_free_from(chunk) < count:
            chunk -= CHUNK_BLOCKS
        return self.space.take(count, max(chunk, 0))


def _extent_bytes(volume: ApfsVolume, files: AgingEntries) -> I64:
    """All extent records of a file as one: as many as files got last."""
    blocks = blocks_of(files.size_bytes, volume.block_bytes)
    return EXTENT_BYTES * (1 + np.rint(np.maximum(blocks - 1, 0) * volume.broken_share).astype(np.int64))


def _fs_change(volume: ApfsVolume, cycle: Done) -> Edits:
    """Say what a cycle does to the records of the file-system tree; give the new entries their keys."""
    policy, new, old = volume.policy, cycle.new, cycle.old
    turn, old_turn = 2 * np.arange(len(new)), 2 * cycle.old_turn + 1
    linked = cycle.is_replaced & policy.leaves_siblings
    new.has_sibling = linked
    none = np.full(len(new), NOWHERE)
    stream, extent = (
        np.where(new.is_file, rec.key_of(new.ident, kind), NOWHERE) for kind in (DATA_STREAM, FILE_EXTENT)
    )
    entry, inode = rec.key_of(new.parent, rec.NAME, new.place), rec.key_of(new.ident, INODE)
    new.keys = {"entry": entry, "inode": inode, "dstream": stream, "thread": none, "xattr": none}
    key, size, when = present(
        (entry, entry_name_bytes(new.letters, has_sibling=linked), turn + 1),
        (inode, inode_bytes(new.letters, new.is_file), turn),
        (stream, DATA_STREAM_BYTES, turn),
        (extent, _extent_bytes(volume, new), turn),
        (
            np.where(linked, rec.key_of(new.ident, SIBLING_LINK), NOWHERE),
            sibling_link_bytes(new.letters),
            turn + 1,
        ),
        (np.where(linked, rec.key_of(new.ident + 2, SIBLING_MAP), NOWHERE), SIBLING_MAP_BYTES, turn + 1),
    )
    there = old.has_sibling
    gone, _, gone_turn = present(
        *((old.keys[name], 0, old_turn) for name in ("entry", "inode", "dstream", "xattr")),
        (rec.key_of(old.ident, FILE_EXTENT), 0, old_turn),
        (np.where(there, rec.key_of(old.ident, SIBLING_LINK), NOWHERE), 0, old_turn),
        (np.where(there, rec.key_of(old.ident + 2, SIBLING_MAP), NOWHERE), 0, old_turn),
    )
    known = is_among(gone, volume.trees["fs"].key)
    # Names that were pinned to a leaf are no records of their own.
    _, once = np.unique(gone[known], return_index=True)
    temporary = cycle.is_replaced
    longer = new.letters[temporary] + rec.TEMPORARY_LETTERS
    passing = new.keys["entry"][temporary]
    return Edits(
        key, size, when, gone[known][once], gone_turn[known][once], passing, entry_name_bytes(longer),
        turn[temporary],
    )  # fmt: skip


TABLE_ENTRY: Final = 8
MAP_TABLE_ENTRY: Final = 4
TABLE_SLACK: Final = 8 * 4
"""Bytes of a node's table that are hardly ever used: it grows by eight records of eight bytes."""
NODE_HEAD: Final = 56
"""Bytes of a node's head: object header and node header (Apple File System Reference, btree_node_phys)."""


def read_apfs(layout: VolumeLayout, policy: Policy) -> ApfsVolume | None:
    """Make a volume of a layout; nothing where its tree was not read, or lies on several devices."""
    read = {name: found for name in TREES if (found := find_tree(layout, name)) is not None}
    if "fs" not in read:
        return None
    numbers = numbers_of(layout)
    entries = read_entries(layout, numbers)
    data = read_data(layout, numbers)
    leaf = leaves_of(layout, read["fs"])
    leaf["thread"] = np.full(len(entries), NOWHERE)
    keys = {
        "entry": rec.key_of(entries.parent, rec.NAME, entries.place),
        "inode": rec.key_of(entries.ident, INODE),
        "thread": np.full(len(entries), NOWHERE),
        "xattr": rec.key_of(entries.ident, XATTR),
        "dstream": rec.key_of(entries.ident, DATA_STREAM),
    }
    trees = {"fs": _fs_tree(layout, policy, read["fs"], entries, (keys, leaf))}
    entries.keys = pinned(trees["fs"], keys, leaf)
    room = int(layout.columns("nodes")["size_bytes"].data[read["fs"][0][0]]) - NODE_HEAD
    rule = NodeRule(room, policy.map_keep, policy.merge_share, by_count=policy.split_by_count)
    if "omap" in read:
        trees["omap"] = _map_tree(layout, trees["fs"], read["omap"], rule)
    if "extentref" in read:
        trees["extentref"] = _reference_tree(layout, data, read["extentref"], rule)
    space = read_free(layout)
    space.pin(_find_snapshot_blocks(layout, read, data, entries.ident, leaf["inode"]))
    blocks = node_blocks(layout, np.concatenate(read["fs"]))
    known = data.start[data.ident != NOWHERE]
    oids = layout.columns("nodes")["node_id"].signed()
    return ApfsVolume(
        policy,
        layout.facts.block_size_bytes,
        entries,
        data,
        space,
        trees,
        numbers,
        len(numbers),
        int(oids.max(initial=0)) + 1,
        int(layout.columns("nodes")["xid"].signed().max(initial=0)),
        is_apart=_are_apart(blocks, known),
        cursor=int(max(blocks.max(), known.max(initial=0))) + 1,
    )


def _are_apart(nodes: I64, data: I64) -> bool:
    return len(data) > 0 and bool(np.quantile(nodes, 0.1) > np.quantile(data, 0.9))


def lies_apart(layout: VolumeLayout) -> bool:
    """Whether the nodes of a volume lie behind all data."""
    read = find_tree(layout, "fs")
    data = read_data(layout, numbers_of(layout))
    return read is not None and _are_apart(node_blocks(layout, np.concatenate(read)), data.start[data.ident != NOWHERE])


def _find_snapshot_blocks(layout: VolumeLayout, read: dict[str, TreeRows], data: Data, ident: I64, leaf: I64) -> I64:
    """Return the blocks that snapshots of the volume hold, too: they are not free when they are replaced.

    What was written when the last snapshot was made, or before, is its own: nodes, by their transactions, and the data
    of files whose inodes lie in such leaves. Of files of other leaves it is not known.
    """
    nodes = layout.columns("nodes")
    xid = nodes["xid"].signed()
    made = nodes["tree"].equals("omap-snapshots") & nodes["state"].equals("live")
    if not layout.facts.details.get("snapshots") or not made.any():
        return np.empty(0, np.int64)
    last = int(xid[made].max())
    held = []
    for tree in ("fs", "extentref"):
        if tree in read:
            rows = np.concatenate(read[tree])
            held.append(node_blocks(layout, rows)[(xid[rows] > 0) & (xid[rows] <= last)])
    there = leaf >= 0
    old = (xid[read["fs"][0]] <= last)[leaf[there]]
    files = is_among(data.ident, ident[there][old]) & (data.ident != NOWHERE)
    held.append(np.asarray(ranges(data.start[files], data.count[files]), np.int64))
    return np.concatenate(held)


def _fs_tree(
    layout: VolumeLayout,
    policy: Policy,
    read: TreeRows,
    entries: AgingEntries,
    where: tuple[dict[str, I64], dict[str, I64]],
) -> AgingTree:
    keys, leaf = where
    has_data = leaf["dstream"] >= 0
    sizes: dict[str, I64 | int] = {
        "entry": entry_name_bytes(entries.letters, has_sibling=entries.has_sibling),
        "inode": inode_bytes(entries.letters, has_data),
        "dstream": DATA_STREAM_BYTES,
        "xattr": DATA_STREAM_BYTES,
    }
    parts = [(np.where(leaf[name] >= 0, keys[name], NOWHERE), size, leaf[name]) for name, size in sizes.items()]
    extent_key = np.where(has_data & entries.is_file, rec.key_of(entries.ident, FILE_EXTENT), NOWHERE)
    parts.append((extent_key, EXTENT_BYTES, leaf["dstream"]))
    key, size, at = present(*parts)
    # Of a file with several names, inode and data stream are one record.
    _, once = np.unique(key, return_index=True)
    room = int(layout.columns("nodes")["size_bytes"].data[read[0][0]]) - NODE_HEAD
    room -= TABLE_SLACK
    # All extents of a file are one record here, so that shares are of bytes.
    leaf_rule, index_rule = (NodeRule(room, keep, policy.merge_share) for keep in (policy.leaf_keep, policy.index_keep))
    rules = (leaf_rule, index_rule, INDEX_BYTES)
    return make_tree(layout, read, (key[once], size[once], at[once]), rules, TABLE_ENTRY)


def _map_tree(layout: VolumeLayout, mapped: AgingTree, read: TreeRows, rule: NodeRule) -> AgingTree:
    """Make the object map: a record for each node, in the leaf that leads to it."""
    nodes = layout.columns("nodes")
    row = nodes["row"].signed()[read[0]]
    order = np.argsort(row)
    ids = np.concatenate([level.ident for level in mapped.levels])
    live = nodes["tree"].equals("fs") & nodes["state"].equals("live") & nodes["level"].is_known & are_walked(nodes)
    wanted = nodes["locator_row"].signed()[live]
    place = order[np.minimum(np.searchsorted(row[order], wanted), len(row) - 1)]
    known = (row[place] == wanted) & is_among(nodes["node_id"].signed()[live], ids)
    key = nodes["node_id"].signed()[live][known]
    records = (key, np.full(len(key), MAP_BYTES), place[known])
    return make_tree(layout, read, records, (rule, rule, MAP_INDEX_BYTES), MAP_TABLE_ENTRY)


def _reference_tree(layout: VolumeLayout, data: Data, read: TreeRows, rule: NodeRule) -> AgingTree:
    """Make the tree of extent references: a record for each extent, in the leaf whose first block is not behind it."""
    key = distinct(data.start)
    first = layout.columns("nodes")["first_key_id"].signed()[read[0]]
    leaf = np.maximum(np.searchsorted(first, key, side="right") - 1, 0)
    records = (key, np.full(len(key), REFERENCE_BYTES), leaf)
    return make_tree(layout, read, records, (rule, rule, REFERENCE_INDEX_BYTES), TABLE_ENTRY)
