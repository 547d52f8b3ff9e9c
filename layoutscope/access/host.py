"""Hosts: what differs between the systems that enumerate a volume, property by property."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping


@frozen
class Costs:
    """Host time of one file system, in microseconds of one processor."""

    list_us: float  # for each name that is listed
    entry_us: float  # for each entry whose attributes are handed to the program
    search_us: float  # for each search of a tree from its root
    node_us: float  # for each node that is read from the drive: checksum, byte order, set-up
    # for each entry that is looked up and that no cache holds: what stands for it in memory is made
    vnode_us: float = 0.0
    # processor time over work when several threads run at once, at least 1: waiting for the file system's locks in a
    # busy loop. What the name cache answers takes none of them.
    contention: float = 1.0

    def contended(self) -> Costs:
        """Return what each costs while several threads run at once."""
        return Costs(
            self.list_us * self.contention,
            self.entry_us * self.contention,
            self.search_us * self.contention,
            self.node_us * self.contention,
            self.vnode_us * self.contention,
        )


class DriverProperties(Protocol):
    """What a file system's driver does on one host: a frozen dataclass, whose other fields users may change by name."""

    @property
    def costs(self) -> Costs:
        """Host time."""


P = TypeVar("P", bound=DriverProperties)


@frozen
class PlainProperties:
    """Properties of a driver of which nothing is known but its costs."""

    costs: Costs  # host time


@frozen
class HostProfile:
    """How one host enumerates and reads; what only one file system's driver does, the file system says."""

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
    # by file system, properties of its driver that differ from what the file system says of this host
    own: Mapping[str, DriverProperties] = field(default_factory=dict)

    @property
    def parallel_threads(self) -> int:
        """How many of the threads run at the same time."""
        return min(self.threads, self.processors)

    def properties_of(self, filesystem: str, usual: Mapping[str, P]) -> P:
        """Return the properties of a file system's driver on this host."""
        return cast("P", self.own[filesystem]) if filesystem in self.own else usual[self.name]
