"""What the drivers of APFS touch: linux-apfs-rw and Apple's.

linux-apfs-rw 0.3.20: ``dir.c``, ``btree.c``, ``inode.c``, ``super.c``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.driver import INODE, NAME, Driver, Mounted, Search, no_places, roots
from layoutscope.access.entries import ROOT_ID
from layoutscope.access.host import Costs
from layoutscope.filesystems.apfs import compared_form
from layoutscope.filesystems.apfs.driver.fsck import apfsck_reads, fsck_apfs_reads
from layoutscope.filesystems.apfs.driver.mounting import PRIVATE_ID, apfs_by_linux, apfs_by_macos, first_write
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from layoutscope.access.entries import EntryTable
    from layoutscope.access.host import HostProfile
    from layoutscope.access.nodes import NodeTable
    from layoutscope.tables import VolumeFacts


@frozen
class ApfsProperties:
    """What the APFS driver of one host does; see :data:`HOST_SOURCES` for where each value comes from."""

    costs: Costs  # host time
    apfs_lists_backwards: bool  # whether an APFS directory is listed from its last record to its first
    apfs_looks_up_dstream: bool  # whether a new APFS inode is followed by a search for its data-stream record
    # whether a mount of APFS reads the ephemeral objects of the checkpoint, the space manager's among them
    apfs_mount_reads_space: bool
    apfs_mount_trims: bool  # whether it then reads all chunk-info blocks and bitmaps to trim what is free
    apfs_fsck_caches: bool  # whether the checker of APFS reads what several snapshots share once
    # the year of Apple's checker, which decides the order in which it goes through the trees; 0 for another's
    apfs_fsck_year: int


HOSTS: Final = {
    "linux": ApfsProperties(
        costs=Costs(list_us=1.0, entry_us=7.0, search_us=0.0, node_us=0.0),
        apfs_lists_backwards=True,
        apfs_looks_up_dstream=True,
        apfs_mount_reads_space=False,
        apfs_mount_trims=False,
        apfs_fsck_caches=True,
        apfs_fsck_year=0,
    ),
    "macos": ApfsProperties(
        costs=Costs(list_us=2.0, entry_us=10.0, search_us=6.0, node_us=30.0, vnode_us=12.0, contention=3.0),
        apfs_lists_backwards=False,
        apfs_looks_up_dstream=False,
        apfs_mount_reads_space=True,
        apfs_mount_trims=True,
        apfs_fsck_caches=False,
        apfs_fsck_year=2025,
    ),
}

HOST_SOURCES: Final[Mapping[str, tuple[str, str]]] = {
    "apfs_lists_backwards": (
        "linux-apfs-rw 0.3.20 btree.c: a query for several records starts at the highest match",
        "assumed: in key order",
    ),
    "apfs_looks_up_dstream": (
        "linux-apfs-rw 0.3.20 inode.c; 0.3.0 does not",
        "assumed: the inode holds the size",
    ),
    "apfs_mount_reads_space": (
        "linux-apfs-rw 0.3.20 super.c: not before it writes (recorded)",
        "Apple File System Reference, Mounting an Apple File System Partition",
    ),
    "apfs_mount_trims": (
        "linux-apfs-rw 0.3.20: no trim",
        "observed (Eclectic Light Company, 2025-06-17); that all bitmaps are read for it is assumed",
    ),
    "apfs_fsck_caches": (
        "apfsck 0.2.1 maps the image; its pages stay in memory",
        "assumed: not, since a check of all snapshots is reported to take half an hour and more",
    ),
    "apfs_fsck_year": (
        "apfsck has an order of its own (recorded)",
        "the lines that fsck_apfs prints: 2017 tree before snapshots, 2018 extent references first, then last",
    ),
    "apfs": (
        "measured on one machine: 8 us an entry that is listed and stat'ed; the share of the listing is assumed",
        (
            "assumed: two searches an entry, Fletcher-64 and two trees a node, what is looked up anew as on HFS+; "
            "contention set to the 30.7 s of processor time of the same report, in 7.65 s"
        ),
    ),
}
"""Property to its source on (linux, macos)."""


def driver(host: HostProfile) -> Driver:
    """Return the driver of a host."""
    own = host.properties_of("apfs", HOSTS)
    on_macos = partial(fsck_apfs_reads, own.apfs_fsck_caches, own.apfs_fsck_year)
    dstream = (Search("dstream_node", "dstream"),) if own.apfs_looks_up_dstream else ()
    return Driver(
        costs=own.costs,
        searches=(NAME, INODE, *dstream),
        lists_backwards=own.apfs_lists_backwards,
        locator_cause="omap",
        # com.apple.fs.symlink (reference, Symbolic Links).
        links_are_attributes=True,
        reads_compressed=True,
        # mpage_readahead holds the last piece of a window until it knows what follows.
        holds_last_piece=True,
        extents_tree="extentref",
        # A mount that needs the space manager has read it.
        first_write=no_places if own.apfs_mount_reads_space else first_write,
        compared_by=_compared_by,
        mounted=_mounted,
        mount=partial(apfs_by_macos, own.apfs_mount_trims) if own.apfs_mount_reads_space else apfs_by_linux,
        check=on_macos if own.apfs_mount_reads_space else apfsck_reads,
    )


def _compared_by(name: str, facts: VolumeFacts) -> str:
    """Return what a name is compared by, and hashed: decomposed, and folded where case does not count."""
    folded = not facts.case_sensitive
    # Volumes of the first developer versions compare the bytes of names.
    return compared_form(name, folded=folded) if folded or "normalization-insensitive" in facts.features else name


def _mounted(facts: VolumeFacts, nodes: NodeTable, entries: EntryTable) -> Mounted:
    """Roots of the trees, and the leaves with the inodes of the root and of the private directory."""
    first = [entries.inode_node[np.flatnonzero(entries.file_id == number)[:1]] for number in (ROOT_ID, PRIVATE_ID)]
    # That of the extents is read when the first of them is freed.
    read = roots(facts, nodes, entries).read
    return Mounted(np.concatenate(first).astype(np.int32), read[nodes.tree[read] != nodes.tree_code("extentref")])
