"""What the drivers of HFS+ touch: Linux's hfsplus and Apple's hfs.

Linux 6.1 ``fs/hfsplus``: ``dir.c``, ``inode.c``, ``super.c``, ``bnode.c``.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.driver import INODE, NAME, Driver, Mounted, Search, composed
from layoutscope.access.host import Costs
from layoutscope.access.steps import FixedPlaces
from layoutscope.filesystems.hfsplus import DIRECTORY_LINKS_DIRECTORY, FILE_LINKS_DIRECTORY
from layoutscope.filesystems.hfsplus.driver.fsck import checked_reads
from layoutscope.filesystems.hfsplus.driver.mounting import hfsplus_by_linux, hfsplus_by_macos, root_leaves
from layoutscope.frozen import frozen
from layoutscope.units import KIB

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from layoutscope.access.descent import Descent
    from layoutscope.access.entries import EntryTable
    from layoutscope.access.host import HostProfile
    from layoutscope.access.nodes import NodeTable
    from layoutscope.access.steps import MountStep
    from layoutscope.tables import VolumeFacts, VolumeLayout


@frozen
class HfsplusProperties:
    """What the HFS+ driver of one host does; see :data:`HOST_SOURCES` for where each value comes from."""

    costs: Costs  # host time
    # cache page of HFS+ metadata: nodes that share one are read together; 0 where nodes are cached by themselves
    page_bytes: int
    hfs_looks_up_thread: bool  # whether a new HFS+ inode is found through its thread record
    hfs_stops_at_valence: bool  # whether an HFS+ listing ends after as many entries as the folder record says
    hidden_names: tuple[str, ...]  # directories of an HFS+ root that a listing passes over
    # whether a listing cannot tell the type of HFS+ hard links, so that they are stat'ed in any case
    hard_link_type_unknown: bool
    hfs_scans_bitmap: bool  # whether a mount of HFS+ reads the journal and the whole bitmap, as Apple's does
    hfs_fsck_cache_blocks: int  # blocks of 32 KiB in the cache of fsck_hfs


HOSTS: Final = {
    "linux": HfsplusProperties(
        costs=Costs(list_us=1.0, entry_us=7.0, search_us=0.0, node_us=0.0),
        page_bytes=4 * KIB,
        hfs_looks_up_thread=True,
        hfs_stops_at_valence=True,
        hidden_names=(FILE_LINKS_DIRECTORY,),
        hard_link_type_unknown=True,
        hfs_scans_bitmap=False,
        hfs_fsck_cache_blocks=1024,
    ),
    "macos": HfsplusProperties(
        costs=Costs(list_us=2.0, entry_us=10.0, search_us=4.0, node_us=10.0, vnode_us=12.0),
        page_bytes=0,
        hfs_looks_up_thread=False,
        hfs_stops_at_valence=False,
        hidden_names=(FILE_LINKS_DIRECTORY, DIRECTORY_LINKS_DIRECTORY),
        hard_link_type_unknown=False,
        hfs_scans_bitmap=True,
        hfs_fsck_cache_blocks=65_536,
    ),
}

HOST_SOURCES: Final[Mapping[str, tuple[str, str]]] = {
    "page_bytes": (
        "Linux 6.1 fs/hfsplus/bnode.c: nodes live in the page cache of their file",
        "Apple's hfs: a node is one buffer",
    ),
    "hfs_looks_up_thread": (
        "Linux 6.1 fs/hfsplus/inode.c, hfsplus_iget and hfsplus_find_cat",
        "Apple's hfs hfs_lookup: the record found by name makes the vnode",
    ),
    "hfs_stops_at_valence": (
        "Linux 6.1 fs/hfsplus/dir.c: i_size is 2 + valence",
        "Apple's hfs cat_getentriesattr: up to the first record of another directory",
    ),
    "hidden_names": (
        "Linux 6.1 fs/hfsplus/dir.c: the directory of iNode files is passed over",
        "Apple's hfs cat_getentriesattr: private directories are passed over",
    ),
    "hard_link_type_unknown": (
        "Linux 6.1 fs/hfsplus/dir.c: d_type from the link's mode, which is 0 in links it made",
        "Apple's hfs: the type comes with the attributes",
    ),
    "hfs_scans_bitmap": (
        "Linux 6.1 fs/hfsplus/super.c: neither at a mount (recorded)",
        "Apple's hfs hfs_MountHFSPlusVolume: hfs_scan_blocks, also where it is mounted read-only",
    ),
    "hfs_fsck_cache_blocks": (
        "fsck_hfs 627.40.1 cache.h: DefaultCacheBlocks (recorded)",
        "reported of macOS, 2 GiB; its share of memory is assumed to be there",
    ),
    "hfsplus": (
        "measured on one machine: 8 us an entry that is listed and stat'ed; the share of the listing is assumed",
        (
            "assumed: 10 us an entry as on Linux with a slower system call, two searches, 10 us a node read; what is "
            "looked up anew set to the 8.5 s of processor time that 250,000 files take in the 2017 report on git status"
        ),
    ),
}
"""Property to its source on (linux, macos)."""


def driver(host: HostProfile, compared_by: Callable[[str, VolumeFacts], str] = composed) -> Driver:
    """Return the driver of a host, which compares names by a rule."""
    own = host.properties_of("hfsplus", HOSTS)
    # Linux finds a new inode by its thread record, and the catalog record through that.
    thread = (Search("thread_node", "thread"), INODE) if own.hfs_looks_up_thread else ()
    searches = (NAME, INODE, *thread)
    return Driver(
        costs=own.costs,
        searches=searches,
        # A record of the catalog is name and inode in one.
        inode_beside_name=True,
        stops_at_valence=own.hfs_stops_at_valence,
        # Observed: an index node is read then, if no look-up has read it before.
        resumes_by_search=True,
        hidden_names=own.hidden_names,
        hard_link_type_unknown=own.hard_link_type_unknown,
        leaves_are_chained=True,
        page_bytes=own.page_bytes,
        locator_cause="overflow",
        extents_cause="overflow",
        inode_holds_extents=True,
        # Linux 6.1: dir.c (hfsplus_unlink), catalog.c (hfsplus_delete_cat), extents.c (hfsplus_file_truncate, from the
        # last extent back), bitmap.c (hfsplus_block_free), brec.c and bnode.c (hfs_bnode_unlink: both neighbours of a
        # node without records are read), btree.c (hfs_bmap_free: the whole header node).
        bitmap_region="allocation-file",
        # Apple's searchfs goes through the nodes by number and ignores their links (`BTScanNextRecord`).
        scans_by_number=True,
        compared_by=compared_by,
        listing_start=_threads,
        mounted=partial(_mounted, searches),
        mount=partial(_mounted_by_macos, own.hfs_fsck_cache_blocks)
        if own.hfs_scans_bitmap
        else partial(hfsplus_by_linux, searches),
        check=partial(checked_reads, own.hfs_fsck_cache_blocks),
    )


def _mounted_by_macos(
    cache_blocks: int, layout: VolumeLayout, nodes: NodeTable, entries: EntryTable
) -> list[MountStep]:
    """Check a volume that was neither unmounted nor has a journal, then mount it.

    The disk arbitration of macOS has it repaired first if a quick check finds it dirty (DiskArbitration, DAMount.c and
    DAFileSystem.c; fsck_hfs.c, which takes a journaled volume for clean); the repair of a sound one reads what a check
    does. Linux mounts what was not unmounted as it is, to be read alone.
    """
    steps = hfsplus_by_macos(layout, nodes, entries)
    if not {"unmounted", "journaled"}.isdisjoint(layout.facts.features):
        return steps
    found = checked_reads(cache_blocks, layout, nodes, entries)
    begins = np.flatnonzero(np.diff(found.kind, prepend=np.uint8(255)) != 0).tolist()
    checked = [
        FixedPlaces(
            found.kinds[found.kind[at]], found.device[at:end], found.image_offset[at:end], found.length_bytes[at:end]
        )
        for at, end in pairwise([*begins, len(found.kind)])
    ]
    return [*checked, *steps]


def _threads(entries: EntryTable, descent: Descent) -> NDArray[np.int32]:
    """Leaves with the thread records of directories, which stand before the first entry."""
    if not len(entries):
        return np.full(len(descent), -1, np.int32)
    found = np.where(descent.entry >= 0, entries.thread_node[np.maximum(descent.entry, 0)], -1)
    return found.astype(np.int32)


def _mounted(searches: tuple[Search, ...], facts: VolumeFacts, nodes: NodeTable, entries: EntryTable) -> Mounted:
    """Header nodes, and what the mount's searches end in."""
    found = np.concatenate([*root_leaves(searches, facts, entries)])
    return Mounted(found.astype(np.int32), np.flatnonzero(nodes.is_header).astype(np.int32))
