"""What a mount of HFS+ reads: by Linux's hfsplus and by Apple's hfs.

Linux 6.1 ``fs/hfsplus``: ``super.c`` (hfsplus_fill_super), ``wrapper.c`` (hfsplus_read_wrapper), ``btree.c``
(hfs_btree_open). Apple's hfs-627: ``hfs_vfsops.c`` (hfs_mountfs, hfs_scan_blocks), ``hfs_vfsutils.c``
(hfs_MountHFSPlusVolume, hfs_early_journal_init), ``hfs_journal.c`` (replay_journal), ``BTree.c`` (BTOpenPath),
``VolumeAllocation.c`` (hfs_scan_range_size).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.entries import ROOT_ID
from layoutscope.access.steps import FixedPlaces, Searched, fixed_place, regions_of
from layoutscope.units import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.access.driver import Search
    from layoutscope.access.entries import EntryTable
    from layoutscope.access.nodes import NodeTable
    from layoutscope.access.steps import MountStep
    from layoutscope.tables import VolumeFacts, VolumeLayout

PAGE_BYTES: Final = 4 * KIB
"""Linux's page; also the physical sector that macOS is taken to be told of, as that of all larger disks is."""

SCAN_BYTES: Final = 1 * MIB
"""MAXBSIZE of xnu: what is read at once of the bitmap."""

HEADERS: Final = ("extents-overflow", "catalog", "attributes")
"""Trees in the order in which both open them."""

JOURNAL_FILES: Final = (".journal_info_block", ".journal")


def hfsplus_by_linux(
    searches: tuple[Search, ...], layout: VolumeLayout, nodes: NodeTable, entries: EntryTable
) -> list[MountStep]:
    """Read both headers by the sector, a page of each tree's header node, then what two searches end in."""
    steps: list[MountStep] = [regions_of(layout, "volume-header"), regions_of(layout, "alternate-volume-header")]
    for tree in HEADERS:
        header = _header(nodes, tree)
        # A page is read whole, with further nodes where these are smaller, and a part of the node where it is larger.
        in_file = sum(each.num_nodes * each.node_size_bytes for each in layout.facts.trees if each.tree == tree)
        length = np.full(len(header), min(PAGE_BYTES, in_file))
        steps.append(FixedPlaces(tree, nodes.device[header], nodes.image_offset[header], length))
    return [*steps, *(Searched(node, "inode") for node in root_leaves(searches, layout.facts, entries))]


def root_leaves(searches: tuple[Search, ...], facts: VolumeFacts, entries: EntryTable) -> Iterator[NDArray[np.int32]]:
    """Find leaves with the root's records, and those that the search for the directory of iNode files ends in.

    Where there is no such directory, the search ends at the last record that is smaller than its name: in case-folded
    order, where a leading NUL sorts behind everything, the last of the root; in binary order the root's thread record.
    """
    hidden = np.flatnonzero(entries.is_hidden)[:1]
    # Linux looks an inode up by its number: the thread record comes first, the name in it leads to the record.
    by_number = searches[::-1]
    for entry in (np.flatnonzero((entries.file_id == ROOT_ID) & entries.is_directory)[:1], hidden):
        ordered = by_number if entry is not hidden else searches
        yield from (getattr(entries, search.leaf)[entry] for search in ordered)
    if not len(hidden) and not facts.case_sensitive:
        yield entries.name_node[np.flatnonzero(entries.parent_id == ROOT_ID)][::-1][:1]


def hfsplus_by_macos(layout: VolumeLayout, nodes: NodeTable, entries: EntryTable) -> list[MountStep]:
    """Read the header, the journal, header nodes, the root, the whole bitmap and the private directories.

    The alternate header is not read: its place is only worked out. The bitmap is scanned by a thread of its own, in
    requests that its extents cut; it is taken to come to the disk before what the mount searches after that.
    """
    start = layout.facts.image_offset
    steps: list[MountStep] = [fixed_place("volume-header", start, PAGE_BYTES), *_journal(layout)]
    for tree in HEADERS:
        header = _header(nodes, tree)
        physical = np.minimum(nodes.size_bytes[header], PAGE_BYTES)
        # The first read tells the size of nodes; its buffer is thrown away (kTrashBlock), and the node read whole.
        steps.append(FixedPlaces(tree, nodes.device[header], nodes.image_offset[header], physical))
        larger = header[nodes.size_bytes[header] != PAGE_BYTES]
        steps.append(FixedPlaces(tree, nodes.device[larger], nodes.image_offset[larger], nodes.size_bytes[larger]))
    root = np.flatnonzero((entries.file_id == ROOT_ID) & entries.is_directory)[:1]
    steps.append(Searched(entries.thread_node[root], "thread"))
    steps.append(Searched(entries.name_node[root], "inode"))
    steps.append(_bitmap(layout))
    return [*steps, *_looked_up(layout, entries)]


def _looked_up(layout: VolumeLayout, entries: EntryTable) -> Iterator[Searched]:
    """Search the files of the journal by name, then both private directories."""
    in_root = np.flatnonzero(entries.parent_id == ROOT_ID)
    names = entries.stored_names.take(np.arange(len(entries))[entries.order][in_root]).to_list()
    if len(regions_of(layout, "journal")):
        for name in JOURNAL_FILES:
            yield Searched(entries.name_node[in_root[[each == name for each in names]]], "name")
    yield Searched(entries.name_node[np.flatnonzero(entries.is_hidden)], "name")


def _header(nodes: NodeTable, tree: str) -> NDArray[np.int64]:
    return np.flatnonzero(nodes.is_header & (nodes.tree == nodes.tree_code(tree)))


def _journal(layout: VolumeLayout) -> Iterator[MountStep]:
    """Read the info block and the journal's header; all that is pending, if it must be replayed.

    Lists and blocks are read in their order to verify them, and each block once more in the order in which they belong
    on the volume, which is taken to be the same. The place of each, which is read before it is overwritten
    (update_fs_block), is left out: the lists alone tell it.
    """
    info, journal = regions_of(layout, "journal-info-block"), regions_of(layout, "journal")
    yield FixedPlaces(info.kind, info.device, info.image_offset, np.minimum(info.length_bytes, PAGE_BYTES))
    yield FixedPlaces(journal.kind, journal.device, journal.image_offset, np.minimum(journal.length_bytes, PAGE_BYTES))
    pending = layout.facts.details.get("journal pending bytes")
    begin = layout.facts.details.get("journal pending from byte")
    if isinstance(pending, int) and isinstance(begin, int) and len(journal):
        at, length = int(journal.image_offset[0]), int(journal.length_bytes[0])
        tail = min(pending, length - begin)
        for _ in range(2):
            yield fixed_place("journal", at + begin, tail)
            if pending > tail:
                # The ring goes on behind the header, whose size is the sector of whoever made the journal.
                yield fixed_place("journal", at + length - begin - tail + 512, pending - tail)


def _bitmap(layout: VolumeLayout) -> FixedPlaces:
    """Cut the allocation file into what is read at once, counted from the start of the file; up to its last bit."""
    file = regions_of(layout, "allocation-file")
    blocks = layout.facts.details.get("allocation blocks", 0)
    block_bytes = layout.facts.block_size_bytes
    used = -(-int(blocks) // (8 * block_bytes)) * block_bytes
    before = np.cumsum(file.length_bytes) - file.length_bytes
    length = np.clip(used - before, 0, file.length_bytes)
    pieces: list[tuple[int, int]] = []
    for offset, begin, size in zip(file.image_offset.tolist(), before.tolist(), length.tolist(), strict=True):
        at = begin
        while at < begin + size:
            end = min(begin + size, (at // SCAN_BYTES + 1) * SCAN_BYTES)
            pieces.append((offset + at - begin, end - at))
            at = end
    array = np.array(pieces, np.int64).reshape(-1, 2)
    return FixedPlaces(file.kind, np.zeros(len(array), np.uint8), array[:, 0], array[:, 1])
