"""A volume between two cycles as arrays, the policy of its driver, and the changes that a workload cycle makes."""

from __future__ import annotations

import json
from copy import copy
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeAlias

import numpy as np

from layoutscope.aging.trees import FIRST, NOWHERE, AgingTree, NodeRule, Records, TreeLevel
from layoutscope.errors import LayoutscopeError, UsageError, did_you_mean
from layoutscope.structs.arrays import I64, Rows, distinct, find, is_among, ranges
from layoutscope.tables import VolumeLayout
from layoutscope.tables.columns import are_walked
from layoutscope.tables.schema import FLAG_HARD_LINK, FLAG_PRIVATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from layoutscope.tables import Table, VolumeLayout


@dataclass(frozen=True)
class Policy:
    """A driver's allocation and node-splitting policy."""

    next_fit: bool  # whether allocation continues after the last block taken, or takes the first free ones
    # leaf_keep, index_keep, map_keep: share of a node that stays left of a split: for leaves, index nodes, and nodes of
    # the tree that maps them
    leaf_keep: float = 0.5
    index_keep: float = 0.5
    map_keep: float = 0.5
    balances: bool = False  # whether excess records move to the left neighbour, as in a `SplitRule` with `BALANCED`
    merge_share: float = 0.0  # share of a node up to which neighbours are merged; 0 if only empty nodes are removed
    # whether nodes get their blocks at the end of a transaction, in key order, or at their first change
    at_commit: bool = False
    # files that are written in one transaction, if the block limits of the next two fields do not determine it
    files_per_transaction: int = 1000
    # queue_blocks, buffer_blocks: number of blocks waiting to be freed, or written, that ends a transaction; 0 if
    # unknown
    queue_blocks: int = 0
    buffer_blocks: int = 0
    waits: int = 0  # number of transactions after which released blocks are free
    length_spread: float = 1.0  # factor within which transaction lengths are drawn
    ids_per_file: int = 1  # object ids that a replaced file uses up
    leaves_siblings: bool = False  # whether a rename leaves the records of a hard link in place
    split_less: int = 0  # bytes per record of the node subtracted from the part left of a split
    split_by_count: bool = False  # whether a node is split at a share of its records instead of its capacity
    assumes: Mapping[str, str] = field(default_factory=dict)  # assumptions, one sentence per rule

    def drawn(self, share: float) -> Policy:
        """Return the policy with transaction lengths at another point of their spread, from -1 to 1.

        >>> as_it_is = Policy(next_fit=False, files_per_transaction=100, length_spread=2.0)
        >>> as_it_is.drawn(-1).files_per_transaction
        50
        """
        factor = self.length_spread**share
        return replace(
            self,
            files_per_transaction=max(round(self.files_per_transaction * factor), 1),
            queue_blocks=round(self.queue_blocks * factor),
            buffer_blocks=round(self.buffer_blocks * factor),
        )


def model_errors(filesystem: str, host: str) -> Mapping[tuple[str, str], float]:
    """Return the relative error of each forecast number, by metric and subject; empty if no errors were measured.

    >>> model_errors("one of another package", "linux")
    {}
    """
    # No volumes of another host were available to compare with forecasts.
    if host != "linux":
        return {}
    told = json.loads(files("layoutscope.aging").joinpath("errors.json").read_text()).get(filesystem, {})
    return {(name.partition(" ")[0], name.partition(" ")[2]): share for name, share in told.items()}


WORKLOADS: Final = {
    "replace": "replaces files drawn at random, each under a temporary name first",
    "replace-directories": "replaces the files of directories drawn at random",
    "add": "adds files beside some drawn at random, of their sizes",
    "delete": "deletes files drawn at random",
    "mixed": "adds a third of its files, deletes a third and replaces a third",
}
"""Workloads of a cycle, by name, and what each of them does."""


def describe_workload(name: str) -> str:
    """Return what a workload does; raise an error if there is none of that name."""
    if name not in WORKLOADS:
        raise UsageError(
            f"unknown workload {name!r}{did_you_mean(name, WORKLOADS)}. Choose from: {', '.join(WORKLOADS)}"
        )
    return WORKLOADS[name]


CycleWork: TypeAlias = "tuple[I64, I64, I64]"
"""The files of a volume on which a cycle works, as indexes.

First those that are rewritten under a temporary name, which is then renamed over the old file; then those beside which
another of the same size is created; then those that it deletes.
"""


def choose_files(workload: str, directory: I64, wanted: int, rng: np.random.Generator) -> CycleWork:
    """Draw the files on which a cycle works, given the directory of each file.

    >>> replaced, _, _ = choose_files("replace-directories", np.array([2, 2, 3, 3]), 2, np.random.default_rng(1))
    >>> replaced.tolist() in ([0, 1], [2, 3])
    True
    """
    none = np.empty(0, np.int64)
    if workload == "replace-directories":
        # Whole directories in random order until there are enough files; the last one may be partial.
        _, number = np.unique(directory, return_inverse=True)
        turn = rng.permutation(int(number.max(initial=-1)) + 1)[number]
        return np.sort(np.argsort(turn, kind="stable")[:wanted]), none, none
    order = rng.permutation(len(directory))[:wanted]
    if workload == "mixed":
        third = len(order) // 3
        return np.sort(order[2 * third :]), np.sort(order[:third]), np.sort(order[third : 2 * third])
    chosen = np.sort(order)
    return {"replace": (chosen, none, none), "add": (none, chosen, none), "delete": (none, none, chosen)}[workload]


@dataclass(frozen=True)
class Cycle:
    """The operations of a cycle, one per turn: first the writes, then the plain deletions."""

    old: AgingEntries  # files before they are replaced or deleted
    old_turn: I64  # turn in which each is replaced or deleted
    new: AgingEntries  # written files, with their new numbers; turns are 0, 1, 2 …
    is_replaced: NDArray[np.bool_]  # which of them replace others
    kept: AgingEntries  # all other entries
    num_turns: int  # number of operations
    next_ident: int  # the next unused file number

    def turn_of(self, ident: I64) -> I64:
        """Return the turns in which files are replaced or deleted, by their numbers."""
        return self.old_turn[find(self.old.ident, ident)]


def plan_cycle(
    entries: AgingEntries, work: CycleWork, next_ident: int, ids_per_file: int, rng: np.random.Generator
) -> Cycle:
    """Compute the operations of a cycle."""
    files, (replaced, added, deleted) = entries.files_by_seat(), work
    written = np.sort(np.concatenate([replaced, added]))
    is_replaced = is_among(written, replaced)
    new = entries.take(files[written])
    num = len(written)
    new.ident = next_ident + np.arange(num) * ids_per_file
    # A rewritten file gets another size, drawn from the sizes of the volume's files.
    new.size_bytes = entries.size_bytes[files[rng.integers(0, max(len(files), 1), num)]] if num else new.size_bytes
    new.has_sibling = np.zeros(num, bool)
    fresh = ~is_replaced
    siblings = entries.place[files[rng.integers(0, max(len(files), 1), num)]] if num else new.place
    new.place = np.where(fresh, np.where(new.place > 0, siblings % np.maximum(new.place, 1), siblings), new.place)
    gone = files[np.concatenate([replaced, deleted])]
    old_turn = np.concatenate([np.flatnonzero(is_replaced), num + np.arange(len(deleted))])
    stays = np.ones(len(entries), bool)
    stays[gone] = False
    return Cycle(
        old=entries.take(gone),
        old_turn=old_turn.astype(np.int64),
        new=new,
        is_replaced=is_replaced,
        kept=entries.take(np.flatnonzero(stays)),
        num_turns=num + len(deleted),
        next_ident=next_ident + num * ids_per_file,
    )


def join_records(*parts: tuple[I64, I64 | int, I64]) -> Records:
    """Join records: keys, sizes and turns; records without a key are omitted."""
    joined = []
    for key, size, turn in parts:
        there = key != NOWHERE
        joined.append((key[there], np.broadcast_to(size, key.shape)[there], turn[there]))
    return Records(*map(np.concatenate, zip(*joined, strict=True)))


MAX_BLOCKS: Final = 1 << 28
"""Limit on blocks whose use is tracked individually, 1 TiB of 4 KiB blocks; free blocks beyond it are ignored."""


class FullError(LayoutscopeError):
    """A volume has too little free space for the writes of a forecast."""


class FreeBlocks:
    """The free blocks of a volume.

    >>> space = FreeBlocks(np.array([2, 9]), np.array([3, 100]))
    >>> space.take(4).tolist(), space.num_free
    ([2, 3, 4, 9], 99)
    >>> space.give_back(np.array([3]))
    >>> space.take(2).tolist(), space.take(1, after=50).tolist()
    ([3, 10], [50])
    """

    def __init__(
        self,
        free_start: I64,  # free_start, free_count: runs of free blocks, in ascending order
        free_count: I64,
    ) -> None:
        self.end = min(int((free_start + free_count).max(initial=0)), MAX_BLOCKS)
        # No block after the start of the last run was ever used, so its blocks are tracked only once they are reached.
        self._used = np.ones(min(int(free_start.max(initial=0)), self.end), bool)
        for start, count in zip(free_start.tolist(), free_count.tolist(), strict=True):
            self._used[start : start + count] = False
        self.num_free = int(np.minimum(free_count, np.maximum(self.end - free_start, 0)).sum())
        self._low = int(np.argmin(self._used)) if len(self._used) else 0
        self._pinned = np.empty(0, np.int64)

    @property
    def num_pinned(self) -> int:
        """Number of blocks that are never freed."""
        return len(self._pinned)

    def pin(self, blocks: I64) -> None:
        """Prevent blocks from ever being freed, because snapshots hold them."""
        self._pinned = distinct(blocks)

    def copy(self) -> FreeBlocks:
        """Return an independent copy."""
        made = copy(self)
        vars(made)["_used"] = self._used.copy()
        return made

    def take(self, count: int, after: int = 0, *, is_try: bool = False) -> I64:
        """Take the first free blocks at or after a block; if too few follow it, also take the first of the volume."""
        self.check_room(count)
        found = self._free_from(max(after, self._low), count)
        if len(found) < count:
            rest = self._free_from(self._low, count)
            found = np.concatenate([found, rest[~is_among(rest, found)][: count - len(found)]])
        if is_try:
            return found
        self._used[found] = True
        self.num_free -= count
        if not after:
            self._low = int(found[-1]) + 1 if count else self._low
        return found

    def check_room(self, count: int) -> None:
        """Raise an error if fewer blocks are free than needed."""
        if count > self.num_free:
            raise FullError(f"the volume is full: {count:,} blocks are written, and {self.num_free:,} are free")

    def give_back(self, blocks: I64) -> None:
        """Free blocks that are in use; ignore untracked and already free blocks."""
        blocks = distinct(blocks[(blocks >= 0) & (blocks < len(self._used))])
        if len(self._pinned):
            place = np.minimum(np.searchsorted(self._pinned, blocks), len(self._pinned) - 1)
            blocks = blocks[self._pinned[place] != blocks]
        blocks = blocks[self._used[blocks]]
        self._used[blocks] = False
        self.num_free += len(blocks)
        self._low = min(self._low, int(blocks.min(initial=self._low)))

    def num_free_from(self, first: int) -> int:
        """Count the free blocks from a given block on."""
        return int((~self._used[first:]).sum()) + max(self.end - max(len(self._used), first), 0)

    def runs(self) -> tuple[I64, I64]:
        """Return the runs of free blocks: first blocks and counts."""
        start, count = block_runs(np.flatnonzero(~self._used))
        if self.end <= len(self._used):
            return start, count
        if len(start) and start[-1] + count[-1] == len(self._used):
            count[-1] += self.end - len(self._used)
            return start, count
        return np.append(start, len(self._used)), np.append(count, self.end - len(self._used))

    def _free_from(self, first: int, count: int) -> I64:
        """Find free blocks from a given block on, extending the searched range only if needed."""
        found, at, step = [np.empty(0, np.int64)], first, max(4 * count, 1 << 14)
        missing = count
        while missing > 0 and at < self.end:
            stop = min(at + step, self.end)
            if stop > len(self._used):
                grown = np.zeros(max(stop, min(2 * len(self._used), self.end)), bool)
                grown[: len(self._used)] = self._used
                self._used = grown
            found.append(at + np.flatnonzero(~self._used[at:stop])[:missing])
            missing -= len(found[-1])
            at, step = stop, 2 * step
        return np.concatenate(found)


def block_runs(blocks: I64) -> tuple[I64, I64]:
    """Cut blocks into contiguous runs: first blocks and counts.

    >>> [part.tolist() for part in block_runs(np.array([4, 5, 6, 2, 3]))]
    [[4, 2], [3, 2]]
    """
    begins = np.flatnonzero(np.diff(blocks, prepend=-2) != 1)
    return blocks[begins], np.diff(begins, append=len(blocks))


UNKNOWN_LETTERS: Final = 16
"""Assumed length of a name that a capture left out."""

RECORDS: Final = ("entry", "inode", "thread", "xattr", "dstream")
"""Records of an entry whose leaves are recorded in the tables."""


@dataclass
class AgingEntries:
    """Entries of a volume; arrays of shape (n_entries,)."""

    source: I64  # table row that the entry was, or was copied from
    # parent, ident: numbers of the directory and the file, in the order of their ids
    parent: I64
    ident: I64
    place: I64  # place in the directory
    letters: I64  # length of the name
    size_bytes: I64  # logical size
    # is_directory, is_file: kind of the entry; is_file is true only for files that a cycle may replace
    is_directory: NDArray[np.bool_]
    is_file: NDArray[np.bool_]
    seat: I64  # position in creation order
    has_sibling: NDArray[np.bool_]  # whether hard-link records remain from a rename
    keys: dict[str, I64]  # key of each of `RECORDS`, `NOWHERE` if there is none

    def __len__(self) -> int:
        return len(self.source)

    def files_by_seat(self) -> I64:
        """Return the files that a cycle may replace, in creation order."""
        files = np.flatnonzero(self.is_file)
        found: I64 = files[np.argsort(self.seat[files], kind="stable")]
        return found

    def take(self, rows: Any) -> AgingEntries:
        """Return the selected entries."""
        parts = {name: value[rows] for name, value in vars(self).items() if name != "keys"}
        return AgingEntries(**parts, keys={name: key[rows] for name, key in self.keys.items()})

    def with_more(self, more: AgingEntries) -> AgingEntries:
        """Return the entries followed by others."""
        pairs = ((name, value) for name, value in vars(self).items() if name != "keys")
        parts = {name: np.concatenate([value, getattr(more, name)]) for name, value in pairs}
        return AgingEntries(
            **parts, keys={name: np.concatenate([key, more.keys[name]]) for name, key in self.keys.items()}
        )


class Data(Rows, frozen=True):
    """Extents of files; arrays of shape (n_extents,): number of the file, first block, blocks.

    Extents of files that no cycle may replace have the number :data:`~layoutscope.aging.trees.NOWHERE`.
    """

    ident: I64
    start: I64
    count: I64

    def split_off(self, idents: I64) -> tuple[Data, Data]:
        """Return the extents of all other files, and those of the given files."""
        mine = is_among(self.ident, idents)
        return self.take(~mine), self.take(mine)

    def blocks(self, rows: Any = slice(None)) -> I64:
        """Return the blocks of all extents, or of the selected ones."""
        return np.asarray(ranges(self.start[rows], self.count[rows]), np.int64)

    def with_blocks(self, ident: I64, blocks: I64) -> Data:
        """Return the extents followed by those of new blocks, given one file number per block."""
        cuts = np.flatnonzero((np.diff(ident, prepend=-2) != 0) | (np.diff(blocks, prepend=-2) != 1))
        return Data.join([self, Data(ident[cuts], blocks[cuts], np.diff(cuts, append=len(blocks)))])


@dataclass(kw_only=True)
class AgingVolume:
    """A volume between two cycles; each file system has its own subclass."""

    policy: Policy  # allocation policy of its driver
    block_bytes: int
    # entries, data, space: its entries, the extents of its files, its free blocks
    entries: AgingEntries
    data: Data
    space: FreeBlocks
    trees: dict[str, AgingTree]  # the trees that are modelled, by name
    numbers: I64  # ids of the initial files; new ids follow them
    next_ident: int  # the next number of a file
    cursor: int = 0  # block after the last one taken
    keep_cycles: int = 0  # number of past cycles whose replaced blocks snapshots still hold

    main: ClassVar[str]
    """The tree that listings enumerate."""
    maps: ClassVar[str] = ""
    """The tree that maps its nodes, if any."""
    entry_bytes: ClassVar[dict[str, int]]
    """Bytes of a record's entry in the table of a node, by tree."""

    @property
    def place_bytes(self) -> int:
        """Bytes of the unit in which node places are counted."""
        return self.block_bytes

    def begins(self, ident: I64) -> dict[str, I64]:
        """Return the keys at which listings of directories begin and end, by column of the entries table."""
        raise NotImplementedError

    def unused_table(self, name: str, count: I64) -> I64:  # noqa: ARG002  (of trees whose tables have room to spare)
        """Return the unused bytes of nodes' tables for the given numbers of records."""
        return np.zeros_like(count)

    def copy(self) -> Self:
        """Return an independent copy of the volume, to be aged separately."""
        lists: dict[str, Any] = {name: list(value) for name, value in vars(self).items() if isinstance(value, list)}
        return replace(self, space=self.space.copy(), trees=dict(self.trees), **lists)

    def age(self, workload: str, wanted: int, rng: np.random.Generator) -> None:
        """Simulate one cycle of a workload."""
        self.change(choose_files(workload, self.entries.parent[self.entries.files_by_seat()], wanted, rng), rng)

    def change(self, work: CycleWork, rng: np.random.Generator) -> None:
        """Simulate one cycle on some files."""
        self.follow(plan_cycle(self.entries, work, self.next_ident, self.policy.ids_per_file, rng))

    def follow(self, cycle: Cycle) -> None:
        """Write the changes of a cycle."""
        if cycle.num_turns:
            self._write(cycle)
            self.entries, self.next_ident = cycle.kept.with_more(cycle.new), cycle.next_ident

    def _write(self, cycle: Cycle) -> None:
        raise NotImplementedError

    def _take(self, count: int, *, is_try: bool = False) -> I64:
        """Take blocks where the driver's policy places them."""
        blocks = self.space.take(count, self.cursor if self.policy.next_fit else 0, is_try=is_try)
        if count and not is_try:
            self.cursor = int(blocks[-1]) + 1
        return blocks


def blocks_of(size_bytes: I64, block_bytes: int) -> I64:
    """Return the number of blocks that files need."""
    return -(-size_bytes // block_bytes)


def numbers_of(layout: VolumeLayout) -> I64:
    """Return all file ids of a volume in ascending order; the index of an id is its number.

    Ids from 2**63 on, which only damage can produce, are negative here.
    """
    table = layout.columns("entries")
    links = table["link_id"].present()
    return distinct(
        np.concatenate([each.astype(np.int64) for each in (table["file_id"].data, table["parent_id"].data, links)])
    )


def read_entries(layout: VolumeLayout, numbers: I64) -> AgingEntries:
    """Read the entries of a layout; their records do not have keys yet."""
    table = layout.columns("entries")
    ident = np.searchsorted(numbers, table["file_id"].data.astype(np.int64))
    seat = np.empty(len(table), np.int64)
    seat[np.argsort(ident, kind="stable")] = np.arange(len(table))
    return AgingEntries(
        source=np.arange(len(table)),
        parent=np.searchsorted(numbers, table["parent_id"].data.astype(np.int64)),
        ident=ident,
        place=table["entry_rank"].filled(0).astype(np.int64),
        letters=table.texts("name").lengths(UNKNOWN_LETTERS),
        size_bytes=table["size_bytes"].filled(0).astype(np.int64),
        is_directory=table["kind"].equals("directory"),
        is_file=are_movable(table),
        seat=seat,
        has_sibling=table["link_id"].is_known & _are_plain(table),
        keys={},
    )


def _are_plain(table: Table) -> NDArray[np.bool_]:
    return np.asarray((table["flags"].filled(0) & (FLAG_HARD_LINK | FLAG_PRIVATE)) == 0)


def are_movable(table: Table) -> NDArray[np.bool_]:
    """Mark the entries that a cycle may replace: plain files with one name."""
    return np.asarray(table["kind"].equals("file") & _are_plain(table) & (table["link_count"].filled(1) <= 1))


def read_data(layout: VolumeLayout, numbers: I64) -> Data:
    """Read the extents of a layout on its first device."""
    table = layout.columns("extents")
    there = table["image_offset"].is_known & (table["device"].filled(0) == 0)
    bytes_ = layout.facts.block_size_bytes
    start = (table["image_offset"].signed()[there] - layout.facts.image_offset) // bytes_
    ids = table["file_id"].data[there].astype(np.int64)
    count = -(-table["length_bytes"].signed()[there] // bytes_)
    return Data(find(numbers, ids), *_clip_to_volume(start, count, layout.facts.size_bytes // bytes_))


def _clip_to_volume(start: I64, count: I64, num_blocks: int) -> tuple[I64, I64]:
    """Clip extents to the volume; damaged extents may exceed it, individually or in total."""
    start = np.clip(start, 0, num_blocks)
    count = np.clip(count, 0, num_blocks - start)
    # Clones share extents. If the total exceeds the volume, each block is counted for only one extent.
    if int(count.sum(dtype=np.float64)) > num_blocks:
        order = np.argsort(start, kind="stable")
        ends = np.maximum.accumulate((start + count)[order])
        begin = np.maximum(start[order], np.concatenate([[0], ends[:-1]]))
        left = np.maximum((start + count)[order] - begin, 0)
        start[order], count[order] = begin, left
    return start, count


def owner_of_free(layout: VolumeLayout) -> VolumeLayout:
    """Return the owner of the free-space table: the volume, or the container whose space it shares."""
    return layout.container if layout.container is not None and not len(layout.columns("free")) else layout


def read_free(layout: VolumeLayout) -> FreeBlocks:
    """Read the free space."""
    table = owner_of_free(layout).columns("free")
    mine = table["device"].filled(0) == 0
    bytes_ = layout.facts.block_size_bytes
    start = (table["image_offset"].signed()[mine] - layout.facts.image_offset) // bytes_
    count = table["length_bytes"].signed()[mine] // bytes_
    order = np.argsort(start)
    return FreeBlocks(start[order], count[order])


TreeRows: TypeAlias = "tuple[I64, ...]"
"""The nodes of a tree: rows of the node table, by level, in key order."""


def find_tree(layout: VolumeLayout, name: str) -> TreeRows | None:
    """Find the live nodes of a tree; return None if none of its leaves was read, or if it is on several devices.

    Whole levels of a damaged tree may be missing. Nodes above such a gap lead to none of the nodes below and are
    omitted. A node that needs a parent gets a new one.
    """
    nodes = layout.columns("nodes")
    live = nodes["tree"].equals(name) & nodes["state"].equals("live") & nodes["level"].is_known
    live &= nodes["image_offset"].is_known & are_walked(nodes)
    if not live.any() or nodes["device"].filled(0)[live].any():
        return None
    level, rank = nodes["level"].filled(0), nodes["key_rank"].filled(0)
    rows = []
    for number in range(int(level[live].max()) + 1):
        mine = np.flatnonzero(live & (level == number))
        if not len(mine):
            break
        rows.append(mine[np.argsort(rank[mine], kind="stable")])
    if not rows:
        return None
    return tuple(rows)


def node_blocks(layout: VolumeLayout, rows: I64) -> I64:
    """Return the first blocks of some nodes of a layout."""
    offset = layout.columns("nodes")["image_offset"].signed()[rows] - layout.facts.image_offset
    return offset // layout.facts.block_size_bytes


def list_unaged_parts(layout: VolumeLayout, trees: Iterable[str]) -> Iterator[str]:
    """Yield sentences about the parts of a damaged volume that do not age; none for a sound volume."""
    if not any(owner is not None and owner.num_errors for owner in (layout, layout.container)):
        return
    yield "The volume is damaged: what was not read of it does not age."
    nodes = layout.columns("nodes")
    for name in trees:
        read = find_tree(layout, name)
        if read is None:
            yield f"No leaf of its {name} tree was read: that tree does not age."
            continue
        live = nodes["tree"].equals(name) & nodes["state"].equals("live") & nodes["level"].is_known
        if len(read) <= int(nodes["level"].filled(0)[live].max()):
            level = len(read)
            yield f"No node of level {level} of its {name} tree was read: nodes from there up are made new."


def make_tree(
    layout: VolumeLayout,
    read: TreeRows,
    records: tuple[I64, I64, I64],
    rules: tuple[NodeRule, NodeRule, int],
    entry_bytes: int,
) -> AgingTree:
    """Build a tree from its nodes and its known records."""
    nodes = layout.columns("nodes")
    leaves, (key, size, leaf) = read[0], records
    first = np.full(len(leaves), np.iinfo(np.int64).max)
    np.minimum.at(first, leaf, key)
    # A leaf without known records begins just before the next one. Damage must not reverse their order.
    bound = np.minimum.accumulate((first - np.arange(len(leaves)))[::-1])[::-1] + np.arange(len(leaves))
    bound[0] = FIRST
    held = nodes["used_bytes"].filled(0)[leaves].astype(np.int64)
    held += nodes["num_records"].filled(0)[leaves].astype(np.int64) * entry_bytes
    # Record sizes follow from rules, but a leaf's fill is in its header. The header takes precedence.
    told = np.bincount(leaf, size, len(leaves))
    size = np.maximum(np.rint(size * (held / np.maximum(told, 1))[leaf]).astype(np.int64), 1)
    # A leaf without known records gets one record at its first key.
    stands = bound.copy()
    stands[0] = min(int(key.min(initial=0)), 0) - 1
    more = (told == 0) & (held > 0)
    key, size = np.concatenate([key, stands[more]]), np.concatenate([size, held[more]])
    order = np.argsort(key, kind="stable")
    levels, own = [], bound
    for number, rows in enumerate(read):
        if number:
            own = _index_bounds(nodes, read[number - 1], rows, own)
        ident = nodes["node_id"].signed()[rows]
        levels.append(TreeLevel(own, ident, node_blocks(layout, rows), nodes["xid"].signed()[rows]))
    return AgingTree(key[order], size[order], tuple(levels), *rules)


def _index_bounds(nodes: Table, below: I64, rows: I64, bound: I64) -> I64:
    """Return the first key of each index node, taken from its first child."""
    parent = nodes["parent_row"].signed()[below]
    row = nodes["row"].signed()[rows]
    order = np.argsort(row)
    place = order[np.minimum(np.searchsorted(row[order], parent), len(row) - 1)]
    first = np.full(len(rows), np.iinfo(np.int64).max)
    np.minimum.at(first, place, np.arange(len(below)))
    first = np.minimum.accumulate(np.minimum(first, len(below) - 1)[::-1])[::-1]
    own: I64 = bound[first].copy()
    own[0] = FIRST
    return np.maximum.accumulate(own)


def leaves_of(layout: VolumeLayout, read: TreeRows) -> dict[str, I64]:
    """Return the leaf of each record of each entry as an index into the leaves; -1 if there is none."""
    row, table = layout.columns("nodes")["row"].signed()[read[0]], layout.columns("entries")
    return {name: find(row, table[f"{name}_node_row"].signed()) for name in RECORDS}


def make_main_tree(
    layout: VolumeLayout,
    read: TreeRows,
    entries: AgingEntries,
    leaf: dict[str, I64],  # from `leaves_of`
    # key and bytes of each of `RECORDS` in the tree; bytes are None for a record that is part of another
    records: Mapping[str, tuple[I64, I64 | int | None]],
    rules: tuple[NodeRule, NodeRule, int],
    entry_bytes: int,
    *more: tuple[I64, I64 | int, I64],  # further records: keys, bytes and leaves
) -> AgingTree:
    """Build the tree that listings enumerate, and give the entries keys that lead to their leaves in it."""
    parts = [
        (np.where(leaf[name] >= 0, key, NOWHERE), size, leaf[name])
        for name, (key, size) in records.items()
        if size is not None
    ]
    key, size, at = join_records(*parts, *more)
    # A file with several names has one inode and one data stream.
    _, once = np.unique(key, return_index=True)
    tree = make_tree(layout, read, (key[once], size[once], at[once]), rules, entry_bytes)
    # Keys must lead to the leaves in which the records were found, even if key order says otherwise.
    begin = np.maximum(tree.levels[0].bound, int(tree.key[0]) if len(tree.key) else 0)
    entries.keys = {name: np.full(len(entries), NOWHERE) for name in RECORDS}
    for name, (own, _) in records.items():
        known = leaf[name] >= 0
        astray = known & (tree.leaf_of(own) != leaf[name])
        entries.keys[name] = np.where(astray, begin[leaf[name]], np.where(known, own, NOWHERE))
    return tree
