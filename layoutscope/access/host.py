"""Hosts: what differs between the drivers and libraries that enumerate a volume, property by property.

Every property is named, has a value for each host and says where the value comes from (:data:`SOURCES`), so that
a prediction differs between hosts for reasons that can be read, not through hidden constants.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from layoutscope.units import KIB, MIB

HFS_FILE_LINKS: Final = "\0\0\0\0HFS+ Private Data"
HFS_DIRECTORY_LINKS: Final = ".HFS+ Private Directory Data\r"
"""Where HFS+ keeps the files and directories behind hard links (TN1150, Hard Links)."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Host time of one file system, in microseconds of one processor.

    Attributes
    ----------
    list_us : float
        For each name that is listed.
    entry_us : float
        For each entry whose attributes are handed to the program.
    search_us : float
        For each search of a tree from its root.
    node_us : float
        For each node that is read from the drive: checksum, byte order, set-up.
    contention : float
        Processor time over work when several threads run at once, at least 1: waiting for the file system's locks in
        a busy loop. What the name cache answers takes none of them.
    """

    list_us: float
    entry_us: float
    search_us: float
    node_us: float
    contention: float = 1.0

    def contended(self) -> Costs:
        """Return what each costs while several threads run at once."""
        return Costs(
            self.list_us * self.contention,
            self.entry_us * self.contention,
            self.search_us * self.contention,
            self.node_us * self.contention,
        )


@dataclass(frozen=True, slots=True)
class HostProfile:
    """How one host enumerates and reads; see :data:`SOURCES` for where each value comes from.

    Attributes
    ----------
    name : str
        ``linux`` or ``macos``.
    node_read_bytes : int
        Largest request for metadata; 0 reads whole nodes.
    page_bytes : int
        Cache page of HFS+ metadata: nodes that share one are read together; 0 where nodes are cached by themselves.
    listing_buffer_bytes : int
        Names that a listing hands out before the program continues.
    listing_entry_bytes : int
        Fixed part of an entry in that buffer: name and its end are added, then rounded up to 8.
    listing_dots_bytes : int
        Share of ``.`` and ``..`` in the first buffer.
    listing_carries_attributes : bool
        Whether ``fts`` gets attributes with the names, so that only directories are stat'ed one by one.
    apfs_lists_backwards : bool
        Whether an APFS directory is listed from its last record to its first.
    hfs_looks_up_thread : bool
        Whether a new HFS+ inode is found through its thread record.
    hfs_stops_at_valence : bool
        Whether an HFS+ listing ends after as many entries as the folder record says.
    apfs_looks_up_dstream : bool
        Whether a new APFS inode is followed by a search for its data-stream record.
    reads_decmpfs_for_stat : bool
        Whether the size of a compressed file is taken from its attribute.
    hidden_names : tuple of str
        Directories of an HFS+ root that a listing passes over.
    hard_link_type_unknown : bool
        Whether a listing cannot tell the type of HFS+ hard links, so that they are stat'ed in any case.
    read_ahead_bytes : int
        Window in which file data are read.
    optimal_read_bytes : int
        Largest window for a single read that is longer than the usual one.
    random_read_ahead : bool
        Whether reads that follow cached pages are taken for a stream.
    request_segments : int
        Memory segments of one request for data: a page takes one, or each block where blocks are smaller.
    elevator : bool
        Whether the requests of a window are sent in one upward sweep.
    scan_read_bytes : int
        Request size of a scan of all nodes (``searchfs``).
    cache_bytes : int or None
        Memory for metadata, least recently used first out; None for unlimited.
    name_cache_entries : int or None
        Files and directories whose names and attributes stay in memory, so that looking one up again searches no
        tree; None for unlimited. A listing of a directory reads its tree in any case.
    threads : int
        Threads that share the walk's host work.
    processors : int
        Threads that can run at the same time.
    hfsplus, apfs : Costs
        Host time.
    """

    name: str
    node_read_bytes: int
    page_bytes: int
    listing_buffer_bytes: int
    listing_entry_bytes: int
    listing_dots_bytes: int
    listing_carries_attributes: bool
    apfs_lists_backwards: bool
    hfs_looks_up_thread: bool
    hfs_stops_at_valence: bool
    apfs_looks_up_dstream: bool
    reads_decmpfs_for_stat: bool
    hidden_names: tuple[str, ...]
    hard_link_type_unknown: bool
    read_ahead_bytes: int
    optimal_read_bytes: int
    random_read_ahead: bool
    request_segments: int
    elevator: bool
    scan_read_bytes: int
    cache_bytes: int | None
    name_cache_entries: int | None
    threads: int
    processors: int
    hfsplus: Costs
    apfs: Costs

    def costs(self, filesystem: str) -> Costs:
        """Return the host time of one file system."""
        return self.hfsplus if filesystem == "hfsplus" else self.apfs

    @property
    def parallel_threads(self) -> int:
        """How many of the threads run at the same time."""
        return min(self.threads, self.processors)


LINUX: Final = HostProfile(
    name="linux",
    node_read_bytes=4 * KIB,
    page_bytes=4 * KIB,
    listing_buffer_bytes=32 * KIB,
    listing_entry_bytes=19,
    listing_dots_bytes=48,
    listing_carries_attributes=False,
    apfs_lists_backwards=True,
    hfs_looks_up_thread=True,
    hfs_stops_at_valence=True,
    apfs_looks_up_dstream=True,
    reads_decmpfs_for_stat=False,
    hidden_names=(HFS_FILE_LINKS,),
    hard_link_type_unknown=True,
    read_ahead_bytes=128 * KIB,
    optimal_read_bytes=1280 * KIB,
    random_read_ahead=True,
    request_segments=64,
    elevator=True,
    scan_read_bytes=32 * KIB,
    cache_bytes=None,
    name_cache_entries=None,
    threads=1,
    processors=4,
    hfsplus=Costs(list_us=1.0, entry_us=7.0, search_us=0.0, node_us=0.0),
    apfs=Costs(list_us=1.0, entry_us=7.0, search_us=0.0, node_us=0.0),
)
"""Linux 6.1 with its hfsplus driver and linux-apfs-rw 0.3.20."""

MACOS: Final = HostProfile(
    name="macos",
    node_read_bytes=0,
    page_bytes=0,
    listing_buffer_bytes=32 * KIB,
    listing_entry_bytes=120,
    listing_dots_bytes=0,
    listing_carries_attributes=True,
    apfs_lists_backwards=False,
    hfs_looks_up_thread=False,
    hfs_stops_at_valence=False,
    apfs_looks_up_dstream=False,
    reads_decmpfs_for_stat=True,
    hidden_names=(HFS_FILE_LINKS, HFS_DIRECTORY_LINKS),
    hard_link_type_unknown=False,
    read_ahead_bytes=1 * MIB,
    optimal_read_bytes=1 * MIB,
    random_read_ahead=False,
    request_segments=256,
    elevator=False,
    scan_read_bytes=32 * KIB,
    cache_bytes=None,
    name_cache_entries=263_168,
    threads=1,
    processors=4,
    hfsplus=Costs(list_us=2.0, entry_us=10.0, search_us=4.0, node_us=10.0, contention=1.0),
    apfs=Costs(list_us=2.0, entry_us=10.0, search_us=6.0, node_us=30.0, contention=2.3),
)
"""macOS with Apple's hfs and apfs drivers and Libc's fts."""

HOSTS: Final = {"linux": LINUX, "macos": MACOS}

SOURCES: Final[dict[str, tuple[str, str]]] = {
    "node_read_bytes": (
        "block_read_full_folio of Linux 6.1 and sb_bread of linux-apfs-rw: one block a request",
        "GetBTreeBlock of Apple's hfs: buf_meta_bread of a whole node; APFS: assumed the same",
    ),
    "page_bytes": (
        "Linux 6.1 fs/hfsplus/bnode.c: nodes live in the page cache of their file",
        "Apple's hfs: a node is one buffer",
    ),
    "listing_buffer_bytes": (
        "glibc opendir: 32 KiB for getdents64",
        "Apple Libc fts.c: 32 KiB for getattrlistbulk",
    ),
    "listing_entry_bytes": (
        "Linux fs/readdir.c: struct linux_dirent64, 19 bytes before the name",
        "assumed: length, returned attributes, name reference and the attributes of fts.c",
    ),
    "listing_dots_bytes": (
        "Linux fs/readdir.c: two entries of 24 bytes",
        "getattrlistbulk returns neither",
    ),
    "listing_carries_attributes": (
        "glibc fts.c: readdir, then fstatat of each entry",
        "Apple Libc fts.c, fts_build: getattrlistbulk, then fstatat of each directory",
    ),
    "apfs_lists_backwards": (
        "linux-apfs-rw 0.3.20 btree.c: a query for several records starts at the highest match",
        "assumed: in key order",
    ),
    "hfs_looks_up_thread": (
        "Linux 6.1 fs/hfsplus/inode.c, hfsplus_iget and hfsplus_find_cat",
        "Apple's hfs hfs_lookup: the record found by name makes the vnode",
    ),
    "hfs_stops_at_valence": (
        "Linux 6.1 fs/hfsplus/dir.c: i_size is 2 + valence",
        "Apple's hfs cat_getentriesattr: up to the first record of another directory",
    ),
    "apfs_looks_up_dstream": (
        "linux-apfs-rw 0.3.20 inode.c; 0.3.0 does not",
        "assumed: the inode holds the size",
    ),
    "reads_decmpfs_for_stat": (
        "Linux 6.1 hfsplus knows no compression; linux-apfs-rw reads the attribute on open only",
        "Apple's hfs: the size of a compressed file is that in com.apple.decmpfs",
    ),
    "hidden_names": (
        "Linux 6.1 fs/hfsplus/dir.c: the directory of iNode files is passed over",
        "Apple's hfs cat_getentriesattr: private directories are passed over",
    ),
    "hard_link_type_unknown": (
        "Linux 6.1 fs/hfsplus/dir.c: d_type from the link's mode, which is 0 in links it made",
        "Apple's hfs: the type comes with the attributes",
    ),
    "read_ahead_bytes": (
        "Linux default read_ahead_kb 128",
        "assumed: MAXPHYS of 1 MiB",
    ),
    "optimal_read_bytes": (
        "Linux 6.1 block/blk-settings.c: BLK_DEF_MAX_SECTORS, 2560 of 512 bytes",
        "assumed: MAXPHYS of 1 MiB",
    ),
    "random_read_ahead": (
        "Linux 6.1 mm/readahead.c, ondemand_readahead",
        "assumed",
    ),
    "request_segments": (
        "User-Mode Linux arch/um/drivers/ubd_kern.c: 64; disks have up to 256",
        "assumed: MAXPHYS of 1 MiB",
    ),
    "elevator": (
        "Linux 6.1 block/mq-deadline.c on one queue",
        "assumed: one request after the other",
    ),
    "scan_read_bytes": (
        "no Linux call; as macOS",
        "assumed, after the scanner of Apple's hfs, which reads several nodes at once",
    ),
    "cache_bytes": (
        "assumed: memory does not run out; hfsplus keeps nodes until it is unmounted in any case (observed)",
        "assumed: memory does not run out",
    ),
    "name_cache_entries": (
        "Linux 6.1 fs/dcache.c, fs/inode.c: dentries and inodes outlive their pages (observed), until memory is short",
        "xnu bsd/dev/unix_startup.c: a vnode for each 64 KiB of memory, 263,168 at most (16 GiB and more)",
    ),
    "threads": ("fts is one thread", "fts is one thread"),
    "processors": ("assumed", "assumed: two cores with two threads each, as in the reports of 2017"),
    "hfsplus": (
        "measured on one machine: 8 us an entry that is listed and stat'ed; the share of the listing is assumed",
        (
            "assumed: 10 us an entry as on Linux with a slower system call, two searches, 10 us a node read: 400,000 "
            "lookups make 8 s; the 2017 report on git status has 8.5 s of processor time"
        ),
    ),
    "apfs": (
        "measured on one machine: 8 us an entry that is listed and stat'ed; the share of the listing is assumed",
        (
            "assumed: two searches an entry, Fletcher-64 and two trees a node; contention set to the 30.7 s of "
            "processor time of the same report, in 7.65 s"
        ),
    ),
}
"""Property to its source on (linux, macos)."""


def host_profile(host: str | HostProfile, **changes: object) -> HostProfile:
    """Return a host by its name, with some properties changed.

    Raises
    ------
    KeyError
        If there is no such host.
    TypeError
        If a property is unknown.

    Examples
    --------
    >>> host_profile("linux", apfs_looks_up_dstream=False).apfs_looks_up_dstream
    False
    """
    profile = host if isinstance(host, HostProfile) else HOSTS[host]
    return replace(profile, **changes) if changes else profile  # type: ignore[arg-type]
