"""What a host's driver does on one file system: which nodes it touches for what, and in which order.

A file system says it as data (:class:`Driver`), with two functions for what the others have no word for; the orders
above (:mod:`layoutscope.walk`) know no file system.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.access.steps import CheckerReads, Searched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.descent import Descent
    from layoutscope.access.entries import EntryTable
    from layoutscope.access.host import Costs
    from layoutscope.access.nodes import NodeTable
    from layoutscope.access.steps import FixedPlaces, MountStep
    from layoutscope.tables import VolumeFacts, VolumeLayout


class Search(NamedTuple):
    """A search of a tree: the array of an ``EntryTable`` that has the leaf in which it ends, and its cause."""

    leaf: str
    cause: str


NAME: Final = Search("name_node", "name")
INODE: Final = Search("inode_node", "inode")


class Mounted(NamedTuple):
    """What a mount reads: nodes that its searches end in (-1 for none), and nodes that it reads by themselves."""

    searched: NDArray[np.int32]
    read: NDArray[np.int32]


def first_leaves(entries: EntryTable, descent: Descent) -> NDArray[np.int32]:
    """Leaves in which listings start: that with a directory's first record in the order of the listing.

    Of an empty directory the leaf where its first record would stand, if the reader tells it, or that of its inode.
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
    return Mounted(np.empty(0, np.int32), np.flatnonzero((nodes.parent < 0) & (nodes.level >= 0)).astype(np.int32))


def mount_by_nodes(layout: VolumeLayout, nodes: NodeTable, entries: EntryTable) -> list[MountStep]:
    """Read at the mount the roots of the trees alone."""
    return [Searched(roots(layout.facts, nodes, entries).read, "index")]


def no_places(layout: VolumeLayout) -> list[FixedPlaces]:  # noqa: ARG001  (others need it)
    """Read nothing before the first change."""
    return []


def check_by_nodes(layout: VolumeLayout, nodes: NodeTable, entries: EntryTable) -> CheckerReads:  # noqa: ARG001  (as others)
    """Read every node once at a check, tree by tree, in key order from the root down."""
    order = np.lexsort((nodes.key_rank, -nodes.level, nodes.tree))
    order = order[nodes.image_offset[order] >= 0]
    return CheckerReads(
        nodes.trees, nodes.tree[order], nodes.image_offset[order], nodes.size_bytes[order], nodes.device[order]
    )


def composed(name: str, facts: VolumeFacts) -> str:
    """Return what names compare by where nothing else is known: composed, and small where case does not count."""
    text = unicodedata.normalize("NFC", name)
    return text if facts.case_sensitive else text.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """What a driver does, by default that of a file system without oddities."""

    costs: Costs  # host time
    searches: tuple[Search, ...] = (NAME, INODE)  # what a stat of a name searches, in order
    # whether the record of a name holds its inode, so that a listing with attributes searches nothing more
    inode_beside_name: bool = False
    lists_backwards: bool = False  # whether a directory is listed from its last record to its first
    stops_at_valence: bool = False  # whether a listing ends after as many entries as the directory's record says
    # whether a listing that goes on in a further buffer searches the entry that did not fit into the last one
    resumes_by_search: bool = False
    hidden_names: tuple[str, ...] = ()  # directories of the root that a listing passes over
    # whether a listing cannot tell the type of hard links, so that they are stat'ed in any case
    hard_link_type_unknown: bool = False
    # whether a leaf leads to the next, so that a listing that goes on touches no index node
    leaves_are_chained: bool = False
    page_bytes: int = 0  # cache page that small nodes share; 0 where nodes are cached by themselves
    # locator_cause, extents_cause: cause of reads that tell where a node lies, and where file data do
    locator_cause: str = "omap"
    extents_cause: str = "extents"
    # whether the first extents of a file stand in the main tree beside its inode and need no search
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
    compared_by: Callable[[str, VolumeFacts], str] = composed
    # finds the leaf in which the listing of each directory starts
    listing_start: Callable[[EntryTable, Descent], NDArray[np.int32]] = first_leaves
    mounted: Callable[[VolumeFacts, NodeTable, EntryTable], Mounted] = roots  # finds what the mount has read already
    # says step by step what a mount reads
    mount: Callable[[VolumeLayout, NodeTable, EntryTable], Sequence[MountStep]] = mount_by_nodes
    # says what the maker's checker reads of a sound volume, behind its own cache
    check: Callable[[VolumeLayout, NodeTable, EntryTable], CheckerReads] = check_by_nodes
