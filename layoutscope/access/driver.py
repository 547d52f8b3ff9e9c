"""The model of a host's driver for one file system: the nodes it touches, and in which order.

A file system describes it as data (:class:`Driver`) and two functions; the orders
above (:mod:`layoutscope.walk`) know no file system.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast

import numpy as np
from msgspec import field
from msgspec.structs import asdict, replace

from layoutscope.access.trace import group_by_kind
from layoutscope.display import Struct
from layoutscope.structs.arrays import ranges, starts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.entries import EntryTable, NodeTable
    from layoutscope.access.trace import FixedPlaces, MountStep
    from layoutscope.tables import VolumeFacts, VolumeLayout


Mounted: TypeAlias = "tuple[NDArray[np.int32], NDArray[np.int32]]"
"""What a mount reads: nodes that its searches end in (-1 for none), and nodes that it reads by themselves."""


def first_leaves(entries: EntryTable, descent: Descent) -> NDArray[np.int32]:
    """Leaves in which listings start: that with a directory's first record in the order of the listing.

    For an empty directory, the leaf where its first record would be, if the reader knows it, or that of its inode.
    """
    if not len(entries):
        return np.full(len(descent), -1, np.int32)
    # The root of a volume has no entry in any directory.
    own = np.maximum(descent.entry, 0)
    first = entries.name_node[np.minimum(descent.first, len(entries) - 1)]
    empty = np.where(entries.listing_node[own] >= 0, entries.listing_node[own], entries.inode_node[own])
    return np.where(descent.count > 0, first, np.where(descent.entry >= 0, empty, -1)).astype(np.int32)


def roots(facts: VolumeFacts, nodes: NodeTable, entries: EntryTable) -> Mounted:  # noqa: ARG001  (others need all)
    """Read the root of every tree at the mount, and search nothing."""
    return np.empty(0, np.int32), np.flatnonzero((nodes.parent < 0) & (nodes.level >= 0)).astype(np.int32)


def mount_by_nodes(layout: VolumeLayout, nodes: NodeTable, entries: EntryTable) -> list[MountStep]:
    """Read at the mount the roots of the trees alone."""
    _, read = roots(layout.facts, nodes, entries)
    return [(read, "index")]


def no_places(layout: VolumeLayout) -> list[FixedPlaces]:  # noqa: ARG001  (others need it)
    """Read nothing before the first change."""
    return []


def check_by_nodes(layout: VolumeLayout, nodes: NodeTable, entries: EntryTable) -> list[FixedPlaces]:  # noqa: ARG001  (as others)
    """Read every node once at a check, tree by tree, in key order from the root down."""
    order = np.lexsort((nodes.key_rank, -nodes.level, nodes.tree))
    order = order[nodes.image_offset[order] >= 0]
    places = nodes.device[order], nodes.image_offset[order], nodes.size_bytes[order]
    return group_by_kind(nodes.trees, nodes.tree[order], *places)


def compose_name(name: str, facts: VolumeFacts) -> str:
    """Return what names compare by where nothing else is known: composed, and small where case does not count."""
    text = unicodedata.normalize("NFC", name)
    return text if facts.case_sensitive else text.lower()


class Driver(Struct, frozen=True, kw_only=True):
    """The properties of a driver; by default those of a file system without oddities."""

    costs: Costs  # host time
    # what a stat of a name searches, in order: causes, each that of an array of leaves of an `EntryTable`, `name_node`
    searches: tuple[str, ...] = ("name", "inode")
    # whether the record of a name holds its inode, so that a listing with attributes searches nothing more
    inode_beside_name: bool = False
    lists_backwards: bool = False  # whether a directory is listed from its last record to its first
    stops_at_valence: bool = False  # whether a listing ends after as many entries as the directory's record says
    # whether a listing that goes on in a further buffer searches the entry that did not fit into the last one
    resumes_by_search: bool = False
    hidden_names: tuple[str, ...] = ()  # directories of the root that a listing passes over
    # whether a listing does not give the type of hard links, so they are always stat'ed
    hard_link_type_unknown: bool = False
    # whether a leaf leads to the next, so that a listing that goes on touches no index node
    leaves_are_chained: bool = False
    page_bytes: int = 0  # cache page that small nodes share; 0 where nodes are cached by themselves
    node_cache_bytes: int | None = None  # memory that nodes get from the host's; None for as much as there is
    # locator_cause, extents_cause: cause of reads that look up the address of a node, and of file data
    locator_cause: str = "omap"
    extents_cause: str = "extents"
    # whether the first extents of a file are in the main tree next to its inode and need no search
    inode_holds_extents: bool = False
    reads_compressed: bool = False  # whether compressed files are read, and then from the fork that holds them packed
    holds_last_piece: bool = False  # whether the piece before a read of metadata is not queued yet when that is made
    # whether the target of a symbolic link is an extended attribute, and not the link's data
    links_are_attributes: bool = False
    # type of the regions with a bit for each block, a page of which is read for each extent that is freed; empty where
    # freeing reads no such file
    bitmap_region: str = ""
    # tree in which an extent that is freed is looked up by its address; empty where there is none
    extents_tree: str = ""
    # says what the first change of a mounted volume reads
    first_write: Callable[[VolumeLayout], Sequence[FixedPlaces]] = no_places
    scans_by_number: bool = False  # whether `searchfs` reads the nodes of the main tree in the order of their numbers
    # turns a name into what the file system compares of it; among ASCII letters case alone may not count
    compared_by: Callable[[str, VolumeFacts], str] = compose_name
    # finds the leaf in which the listing of each directory starts
    listing_start: Callable[[EntryTable, Descent], NDArray[np.int32]] = first_leaves
    mounted: Callable[[VolumeFacts, NodeTable, EntryTable], Mounted] = roots  # finds what the mount has read already
    # says step by step what a mount reads
    mount: Callable[[VolumeLayout, NodeTable, EntryTable], Sequence[MountStep]] = mount_by_nodes
    # says what the maker's checker reads of a sound volume, after its own cache
    check: Callable[[VolumeLayout, NodeTable, EntryTable], Sequence[FixedPlaces]] = check_by_nodes


class Costs(Struct, frozen=True):
    """Host time of one file system, in microseconds of one processor."""

    list_us: float  # for each name that is listed
    # besides, for each entry that is listed with its attributes: its inode is found, its attributes are handed out
    bulk_entry_us: float
    stat_us: float  # for each look-up by a system call of its own, which the name cache may answer
    search_us: float  # for each search of a tree from its root that a look-up or the start of a listing makes
    node_us: float  # for each node that is read from the drive: checksum, byte order, set-up
    # for each entry that is looked up and that no cache holds: what stands for it in memory is made
    vnode_us: float = 0.0
    # processor time over work when several threads run at once, at least 1: waiting for the file system's locks in a
    # busy loop. What the name cache answers takes none of them.
    contention: float = 1.0

    def with_contention(self) -> Costs:
        """Return what each costs while several threads run at once."""
        times = {name: cost * self.contention for name, cost in asdict(self).items() if name.endswith("_us")}
        return replace(self, **times)


class DriverProperties(Protocol):
    """The properties of a file system's driver on one host, which users may change by name."""

    @property
    def costs(self) -> Costs:
        """Host time."""


P = TypeVar("P", bound=DriverProperties)


class PlainProperties(Struct, frozen=True):
    """Properties of a driver if only its costs are known."""

    costs: Costs  # host time


class HostProfile(Struct, frozen=True):
    """How one host enumerates and reads. A file system describes what only its own driver does."""

    name: str  # `linux` or `macos`
    node_read_bytes: int  # largest request for metadata; 0 reads whole nodes
    listing_buffer_bytes: int  # names that a listing hands out before the program continues
    listing_entry_bytes: int  # fixed part of an entry in that buffer: name and its end are added, then rounded up to 8
    listing_dots_bytes: int  # share of `.` and `..` in the first buffer
    # whether `fts` gets attributes with the names, so that only directories are stat'ed one by one
    listing_carries_attributes: bool
    reads_decmpfs_for_stat: bool  # whether the size of a compressed file is taken from its attribute
    read_ahead_bytes: int  # window in which file data are read
    optimal_read_bytes: int  # largest window for a single read that is longer than the usual one
    random_read_ahead: bool  # whether reads that follow cached pages are taken for a stream
    # memory segments of one request for data: a page takes one, or each block where blocks are smaller
    request_segments: int
    elevator: bool  # whether the requests of a window are sent in one upward sweep
    # what is read of a disk that appears, to see how it is divided, before anything of it is mounted; 0 where that is
    # left out
    partition_scan_bytes: int
    scan_read_bytes: int  # request size of a scan of all nodes (`searchfs`)
    cache_bytes: int | None  # memory for what is read, least recently used first out; None for unlimited
    # how much of what a cache that drops at random would keep is kept besides, where `cache_bytes` are too few: 0 where
    # the least recently used goes first, and nothing is left when all is read again
    cache_keeps: float
    # files and directories whose names and attributes stay in memory, so that looking one up again searches no tree;
    # None for unlimited. A listing of a directory reads its tree in any case.
    name_cache_entries: int | None
    # how much of what a cache that drops names at random would keep is kept where the names are too many: 0 where the
    # least recently used goes first, and nothing is left when all are asked for again
    name_cache_keeps: float
    threads: int  # threads that share the walk's host work; its reads come one after the other all the same
    processors: int  # threads that can run at the same time
    # by file system, properties of its driver that differ from the file system's values for this host
    own: Mapping[str, DriverProperties] = field(default_factory=dict)

    @property
    def parallel_threads(self) -> int:
        """How many of the threads run at the same time."""
        return min(self.threads, self.processors)

    def properties_of(self, filesystem: str, usual: Mapping[str, P]) -> P:
        """Return the properties of a file system's driver on this host."""
        return cast("P", self.own[filesystem]) if filesystem in self.own else usual[self.name]


class Model(Struct, frozen=True):
    """One layout as one host sees it."""

    layout: VolumeLayout  # the tables
    host: HostProfile  # who walks
    driver: Driver  # what it does on this file system
    main_tree: str  # the tree with names and inodes
    nodes: NodeTable
    entries: EntryTable  # its entries in the host's listing order
    # whether the name cache answers every look-up, as it does when a workload that fits into it is done again
    names_are_cached: bool = False
    # directories in the order of walks that were asked for, by where they start, and the entries that they are of
    descents: dict[int, tuple[EntryTable, Descent]] = field(default_factory=dict)

    def descend(self, start_id: int) -> Descent:
        """Order the directories under one directory, as :func:`descend` does; once for all walks."""
        entries, found = self.descents.get(start_id, (None, None))
        if found is None or entries is not self.entries:
            found = descend(self.entries, start_id)
            self.descents[start_id] = self.entries, found
        return found

    @property
    def costs(self) -> Costs:
        """Host time of this file system, as the host's threads leave it."""
        alone = self.driver.costs
        return alone.with_contention() if self.host.parallel_threads > 1 else alone

    @property
    def node_cache_bytes(self) -> int | None:
        """Memory for nodes, the least recently used first out; None if all of them fit."""
        rooms = [room for room in (self.host.cache_bytes, self.driver.node_cache_bytes) if room is not None]
        room = min(rooms, default=None)
        # Large volumes are walked far more quickly where nothing can be dropped.
        is_enough = self.host.cache_bytes is None and int(self.nodes.size_bytes.sum()) <= (room or 0)
        return None if is_enough else room

    @property
    def main_tree_code(self) -> int:
        """Code of the tree with names and inodes among those of the nodes, -1 if there is none."""
        return self.nodes.tree_code(self.main_tree)


class Descent(Struct, frozen=True):
    """Directories in the order of the walk; arrays of shape (n_directories,)."""

    directory_id: NDArray[np.uint64]  # CNID or oid
    entry: NDArray[np.int64]  # their own entries in the table, -1 for a start that has none
    # first, count: their entries in the table
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    turn: NDArray[np.int64]  # place among all entries of the walk, files included, in depth-first order
    under: NDArray[np.int64]  # entries anywhere below

    def __len__(self) -> int:
        return len(self.entry)

    def take(self, rows: NDArray[np.int64]) -> Descent:
        """Return some of the directories, in the order given."""
        places = (each[rows] for each in (self.entry, self.first, self.count, self.turn, self.under))
        return Descent(self.directory_id[rows], *places)


def descend(entries: EntryTable, start_id: int) -> Descent:
    """Order the directories under one directory, itself first.

    A directory that is met twice (a loop in a damaged volume) is walked once.
    """
    levels = _levels(entries, start_id)
    entry, _, first, count = (np.concatenate(column) for column in zip(*levels, strict=True))
    under = _entries_under(levels)
    turn = _turns(levels, under)
    below = np.concatenate(under)
    order = np.argsort(turn)
    ids = np.where(
        entry >= 0, entries.file_id[np.maximum(entry, 0)] if len(entries) else np.uint64(0), np.uint64(start_id)
    )
    return Descent(ids[order], entry[order], first[order], count[order], turn[order], below[order])


def turns_of(descent: Descent, n_entries: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return every entry that the walk lists, directory by directory, and its depth-first place."""
    below = np.zeros(n_entries + 1, np.int64)
    known = descent.entry >= 0
    below[descent.entry[known]] = descent.under[known]
    before = starts_of(below)
    entry = ranges(descent.first, descent.count)
    directory = np.repeat(np.arange(len(descent)), descent.count)
    first = descent.first[directory]
    return entry, descent.turn[directory] + 1 + entry - first + before[entry] - before[first]


def entry_of(entries: EntryTable, file_id: int) -> int:
    """Return the first entry of a file or directory, -1 where it has none."""
    found = np.flatnonzero(entries.file_id == np.uint64(file_id))
    return int(found[0]) if len(found) else -1


_Level: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]"
"""Directories at one depth: their entries, their parents' places in the level above, where their own entries begin, and
how many these are."""


def _levels(entries: EntryTable, start_id: int) -> list[_Level]:
    order = np.argsort(entries.group_id, kind="stable")
    ids = entries.group_id[order]
    directories = np.flatnonzero(entries.is_directory & ~entries.is_hidden)
    begins, counts = entries.group_start[:-1][order], np.diff(entries.group_start)[order]

    def find_group(wanted: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the entries of directories begin and how many they are; none where there are none."""
        if not len(ids):
            return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.int64)
        place = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        found = ids[place] == wanted
        return np.where(found, begins[place], 0), np.where(found, counts[place], 0)

    entry, parent = np.array([entry_of(entries, start_id)]), np.zeros(1, np.int64)
    first, count = find_group(np.array([start_id], np.uint64))
    seen = np.zeros(len(entries) + 1, bool)
    levels = []
    while len(entry):
        levels.append((entry, parent, first, count))
        seen[entry] = True
        begin = np.searchsorted(directories, first)
        inside = np.searchsorted(directories, first + count) - begin
        below, above = directories[ranges(begin, inside)], np.repeat(np.arange(len(inside)), inside)
        new = ~seen[below]
        entry, parent = below[new], above[new]
        first, count = find_group(entries.file_id[entry])
    return levels


def _turns(levels: list[_Level], under: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Depth-first places: after the parent, its earlier entries and all that is under them."""
    turns = [np.zeros(1, np.int64)]
    for (_, _, begin, _), (entry, parent, _, _), extra in zip(levels, levels[1:], under[1:], strict=False):
        before = starts_of(extra)
        first_child = np.searchsorted(parent, parent)
        within = entry - begin[parent]
        turns.append(turns[-1][parent] + 1 + within + before - before[first_child])
    return np.concatenate(turns)


def _entries_under(levels: list[_Level]) -> list[NDArray[np.int64]]:
    """Entries anywhere under each directory, level by level from the top."""
    under = [count.copy() for _, _, _, count in levels]
    for depth in range(len(levels) - 1, 0, -1):
        _, parent, _, _ = levels[depth]
        sums = np.bincount(parent, weights=under[depth], minlength=len(under[depth - 1]))
        under[depth - 1] += sums.astype(np.int64)
    return under
