"""The model of a host's driver for one file system: which nodes it reads, and in which order.

A file system describes its driver as data (:class:`Driver`) and as functions. The workloads in
:mod:`layoutscope.walk` do not depend on the file system.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import numpy as np
from msgspec import field
from msgspec.structs import asdict, replace

from layoutscope.access.descent import descend
from layoutscope.access.trace import group_by_kind
from layoutscope.display import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.descent import Descent
    from layoutscope.access.entries import EntryTable, NodeTable
    from layoutscope.access.trace import FixedPlaces, MountStep
    from layoutscope.tables import VolumeFacts, VolumeLayout


Mounted: TypeAlias = "tuple[NDArray[np.int32], NDArray[np.int32]]"
"""Reads of a mount: the nodes at which its searches end (-1 for none), and the nodes that it reads without a search."""


def first_leaves(entries: EntryTable, descent: Descent) -> NDArray[np.int32]:
    """Return the leaf in which each directory's listing starts: the one with its first record in listing order.

    For an empty directory, return the leaf where its first record would be, if known, otherwise that of its inode.
    """
    if not len(entries):
        return np.full(len(descent), -1, np.int32)
    # The root of a volume has no entry in any directory.
    own = np.maximum(descent.entry, 0)
    first = entries.name_node[np.minimum(descent.first, len(entries) - 1)]
    empty = np.where(entries.listing_node[own] >= 0, entries.listing_node[own], entries.inode_node[own])
    return np.where(descent.count > 0, first, np.where(descent.entry >= 0, empty, -1)).astype(np.int32)


def roots(facts: VolumeFacts, nodes: NodeTable, entries: EntryTable) -> Mounted:  # noqa: ARG001  (others need all)
    """Return the root of every tree as read at the mount, without any search."""
    return np.empty(0, np.int32), np.flatnonzero((nodes.parent < 0) & (nodes.level >= 0)).astype(np.int32)


def mount_by_nodes(layout: VolumeLayout, nodes: NodeTable, entries: EntryTable) -> list[MountStep]:
    """Read only the roots of the trees at the mount."""
    _, read = roots(layout.facts, nodes, entries)
    return [(read, "index")]


def no_places(layout: VolumeLayout) -> list[FixedPlaces]:  # noqa: ARG001  (others need it)
    """Read nothing before the first change."""
    return []


def check_by_nodes(layout: VolumeLayout, nodes: NodeTable, entries: EntryTable) -> list[FixedPlaces]:  # noqa: ARG001  (as others)
    """Read every node once, tree by tree, in key order from the root down."""
    order = np.lexsort((nodes.key_rank, -nodes.level, nodes.tree))
    order = order[nodes.image_offset[order] >= 0]
    places = nodes.device[order], nodes.image_offset[order], nodes.size_bytes[order]
    return group_by_kind(nodes.trees, nodes.tree[order], *places)


def compose_name(name: str, facts: VolumeFacts) -> str:
    """Return the default form in which names are compared: NFC, and lower case unless the volume is case-sensitive."""
    text = unicodedata.normalize("NFC", name)
    return text if facts.case_sensitive else text.lower()


class Driver(Struct, frozen=True, kw_only=True):
    """The properties of a driver; the defaults describe a file system without oddities."""

    costs: Costs  # host time
    # causes of the searches that a stat of a name makes, in order; each belongs to a leaf array of an `EntryTable`, as
    # `name` to `name_node`
    searches: tuple[str, ...] = ("name", "inode")
    # whether the record of a name holds its inode, so that a listing with attributes needs no further search
    inode_beside_name: bool = False
    lists_backwards: bool = False  # whether a directory is listed from its last record to its first
    stops_at_valence: bool = False  # whether a listing ends after the number of entries in the directory's record
    # whether a listing that continues in another buffer searches for the entry that did not fit into the last one
    resumes_by_search: bool = False
    hidden_names: tuple[str, ...] = ()  # directories in the root that listings skip
    # whether a listing omits the type of hard links, so that they always need a stat
    hard_link_type_unknown: bool = False
    # whether each leaf links to the next, so that a listing that continues reads no index node
    leaves_are_chained: bool = False
    page_bytes: int = 0  # size of a cache page shared by small nodes; 0 if each node is cached separately
    node_cache_bytes: int | None = None  # part of the host's memory available to nodes; None for all of it
    # locator_cause, extents_cause: cause of the reads that look up the address of a node, or of file data
    locator_cause: str = "omap"
    extents_cause: str = "extents"
    # whether the main tree stores a file's first extents next to its inode, so that they need no search
    inode_holds_extents: bool = False
    reads_compressed: bool = False  # whether compressed files are read, from the fork with the compressed data
    holds_last_piece: bool = False  # whether a metadata read is issued before the preceding piece is queued
    # whether the target of a symbolic link is an extended attribute instead of the link's data
    links_are_attributes: bool = False
    # type of the regions with one bit per block; each freed extent reads one of their pages; empty if freeing reads
    # no such file
    bitmap_region: str = ""
    # tree in which a freed extent is looked up by its address; empty if there is none
    extents_tree: str = ""
    # returns the reads of the first change to a mounted volume
    first_write: Callable[[VolumeLayout], Sequence[FixedPlaces]] = no_places
    scans_by_number: bool = False  # whether `searchfs` reads the nodes of the main tree in order of node number
    # converts a name to the form in which the file system compares it; among ASCII letters only case may be ignored
    compared_by: Callable[[str, VolumeFacts], str] = compose_name
    # finds the leaf in which each directory's listing starts
    listing_start: Callable[[EntryTable, Descent], NDArray[np.int32]] = first_leaves
    mounted: Callable[[VolumeFacts, NodeTable, EntryTable], Mounted] = roots  # finds the nodes read by the mount
    # returns the reads of a mount, step by step
    mount: Callable[[VolumeLayout, NodeTable, EntryTable], Sequence[MountStep]] = mount_by_nodes
    # returns the reads that the vendor's checker makes on a sound volume, after its own cache
    check: Callable[[VolumeLayout, NodeTable, EntryTable], Sequence[FixedPlaces]] = check_by_nodes


class Costs(Struct, frozen=True):
    """Host time of one file system, in microseconds of one processor."""

    list_us: float  # per listed name
    # extra time per entry listed with its attributes: finding its inode and returning the attributes
    bulk_entry_us: float
    stat_us: float  # per look-up in a separate system call, which the name cache may answer
    search_us: float  # per search of a tree from its root, for a look-up or the start of a listing
    node_us: float  # per node read from the drive: checksum, byte order, set-up
    # per entry that is looked up and is in no cache: creating its in-memory object
    vnode_us: float = 0.0
    # processor time divided by work when several threads run at once, at least 1: threads spin on the file system's
    # locks. Look-ups answered by the name cache take none of these locks.
    contention: float = 1.0

    def with_contention(self) -> Costs:
        """Return the costs while several threads run at once."""
        times = {name: cost * self.contention for name, cost in asdict(self).items() if name.endswith("_us")}
        return replace(self, **times)


class DriverProperties(Struct, frozen=True):
    """The properties of a file system's driver on one host, which users may change by name."""

    costs: Costs  # host time


P = TypeVar("P", bound=DriverProperties)

KnownProperties: TypeAlias = "Mapping[str, tuple[tuple[Any, str], tuple[Any, str]]]"
"""Each property's value and its source, on Linux and macOS."""


def values_by_host(known: KnownProperties) -> dict[str, dict[str, Any]]:
    """Return the value of each property, by host."""
    return {host: {name: on[at][0] for name, on in known.items()} for at, host in enumerate(("linux", "macos"))}


def sources_of(known: KnownProperties) -> dict[str, tuple[str, str]]:
    """Return the source of each property's value, on Linux and macOS."""
    return {name: (linux, macos) for name, ((_, linux), (_, macos)) in known.items()}


class HostProfile(Struct, frozen=True):
    """How one host lists and reads. Behaviour that only a file system's own driver has is described there."""

    name: str  # `linux` or `macos`
    node_read_bytes: int  # largest request for metadata; 0 reads whole nodes
    listing_buffer_bytes: int  # size of the buffer that a listing fills before the program continues
    listing_entry_bytes: int  # fixed part of an entry in that buffer; the name and its end are added, rounded up to 8
    listing_dots_bytes: int  # bytes that `.` and `..` take in the first buffer
    # whether `fts` gets attributes with the names, so that only directories need a stat each
    listing_carries_attributes: bool
    reads_decmpfs_for_stat: bool  # whether the size of a compressed file is taken from its attribute
    read_ahead_bytes: int  # window in which file data are read
    optimal_read_bytes: int  # largest window for a single read longer than the usual window
    random_read_ahead: bool  # whether reads that follow cached pages count as a stream
    # memory segments of one data request: one per page, or one per block where blocks are smaller
    request_segments: int
    elevator: bool  # whether the requests of a window are sent in one pass of ascending addresses
    # bytes read from a newly attached disk to find its partitions, before anything is mounted; 0 if this is omitted
    partition_scan_bytes: int
    scan_read_bytes: int  # request size of a scan of all nodes (`searchfs`)
    cache_bytes: int | None  # memory for cached reads, least recently used first out; None for unlimited
    # if `cache_bytes` is too small: retained data as a share of those that a cache with random replacement retains; 0
    # for strict LRU, which retains nothing when everything is read again
    cache_keeps: float
    # files and directories whose names and attributes stay in memory, so that another look-up searches no tree; None
    # for unlimited. A listing of a directory reads its tree in any case.
    name_cache_entries: int | None
    # if there are too many names: retained names as a share of those that a cache with random replacement retains; 0
    # for strict LRU, which retains nothing when every name is looked up again
    name_cache_keeps: float
    threads: int  # threads that share the walk's host work; its reads are still sequential
    processors: int  # threads that can run at the same time
    # properties of file systems' drivers that differ from the usual values for this host, by file system
    own: Mapping[str, DriverProperties] = field(default_factory=dict)

    @property
    def parallel_threads(self) -> int:
        """Number of threads that run at the same time."""
        return min(self.threads, self.processors)

    def properties_of(self, filesystem: str, usual: Mapping[str, P]) -> P:
        """Return the properties of a file system's driver on this host."""
        return cast("P", self.own[filesystem]) if filesystem in self.own else usual[self.name]


class Model(Struct, frozen=True):
    """One layout as seen by one host."""

    layout: VolumeLayout  # the tables
    host: HostProfile  # the host that walks the layout
    driver: Driver  # the host's driver for this file system
    main_tree: str  # the tree with names and inodes
    nodes: NodeTable
    entries: EntryTable  # its entries in the host's listing order
    # whether the name cache answers every look-up, as when a workload that fits into it is repeated
    names_are_cached: bool = False
    # orders of walks that were already computed, with the entries used, by the directory in which they start
    descents: dict[int, tuple[EntryTable, Descent]] = field(default_factory=dict)

    def descend(self, start_id: int) -> Descent:
        """Order the directories under one directory, as :func:`descend` does, and keep the order for further walks."""
        entries, found = self.descents.get(start_id, (None, None))
        if found is None or entries is not self.entries:
            found = descend(self.entries, start_id)
            self.descents[start_id] = self.entries, found
        return found

    @property
    def costs(self) -> Costs:
        """Host time of this file system, including contention between the host's threads."""
        alone = self.driver.costs
        return alone.with_contention() if self.host.parallel_threads > 1 else alone

    @property
    def node_cache_bytes(self) -> int | None:
        """Memory for nodes, the least recently used first out; None if all nodes fit."""
        rooms = [room for room in (self.host.cache_bytes, self.driver.node_cache_bytes) if room is not None]
        room = min(rooms, default=None)
        # Walks of large volumes are far faster if no node can be evicted.
        is_enough = self.host.cache_bytes is None and int(self.nodes.size_bytes.sum()) <= (room or 0)
        return None if is_enough else room

    @property
    def main_tree_code(self) -> int:
        """Index of the tree with names and inodes among the trees of the nodes, -1 if there is none."""
        return self.nodes.tree_code(self.main_tree)
