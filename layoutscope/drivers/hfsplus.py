"""What the drivers of HFS+ read: Linux's hfsplus and Apple's hfs.

Linux 6.1 ``fs/hfsplus``: ``dir.c``, ``inode.c``, ``super.c``, ``bnode.c``.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.driver import Costs, Driver, DriverProperties, compose_name, sources_of, values_by_host
from layoutscope.access.entries import ROOT_ID
from layoutscope.access.trace import FixedPlaces, group_by_kind, make_fixed_place, regions_of
from layoutscope.filesystems.hfsplus import DIRECTORY_LINKS_DIRECTORY, FILE_LINKS_DIRECTORY
from layoutscope.units import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.descent import Descent
    from layoutscope.access.driver import HostProfile, KnownProperties, Mounted
    from layoutscope.access.entries import EntryTable, NodeTable
    from layoutscope.access.trace import MountStep
    from layoutscope.tables import VolumeFacts, VolumeLayout


PAGE_BYTES: Final = 4 * KIB
"""Linux's page size; also the assumed physical sector size on macOS, since all larger disks have it."""

SCAN_BYTES: Final = 1 * MIB
"""MAXBSIZE of xnu: the largest single read of the bitmap."""

HEADERS: Final = ("extents-overflow", "catalog", "attributes")
"""Trees in the order in which both drivers open them."""

JOURNAL_FILES: Final = (".journal_info_block", ".journal")


def mount_by_linux(
    searches: tuple[str, ...], layout: VolumeLayout, nodes: NodeTable, entries: EntryTable
) -> list[MountStep]:
    """Read both headers sector by sector, a page of each tree's header node, and the leaves that two searches reach."""
    steps: list[MountStep] = [regions_of(layout, "volume-header"), regions_of(layout, "alternate-volume-header")]
    for tree in HEADERS:
        header = _header(nodes, tree)
        # A whole page is read: it holds further nodes if nodes are smaller, or a part of the node if nodes are larger.
        in_file = sum(each.num_nodes * each.node_size_bytes for each in layout.facts.trees if each.tree == tree)
        length = np.full(len(header), min(PAGE_BYTES, in_file))
        steps.append(FixedPlaces(tree, nodes.device[header], nodes.image_offset[header], length))
    return [*steps, *((node, "inode") for node in find_root_leaves(searches, layout.facts, entries))]


def find_root_leaves(searches: tuple[str, ...], facts: VolumeFacts, entries: EntryTable) -> Iterator[NDArray[np.int32]]:
    """Find the leaves with the root's records, and those at which the search for the directory of iNode files ends.

    If there is no such directory, the search ends at the last record that is smaller than its name: the last record
    of the root in case-folded order, where a leading NUL sorts after everything; the root's thread record in binary
    order.
    """
    hidden = np.flatnonzero(entries.is_hidden)[:1]
    # Linux looks an inode up by its number: it finds the thread record first, whose name leads to the record.
    by_number = searches[::-1]
    for entry in (np.flatnonzero((entries.file_id == ROOT_ID) & entries.is_directory)[:1], hidden):
        ordered = by_number if entry is not hidden else searches
        yield from (getattr(entries, f"{cause}_node")[entry] for cause in ordered)
    if not len(hidden) and not facts.case_sensitive:
        yield entries.name_node[np.flatnonzero(entries.parent_id == ROOT_ID)][::-1][:1]


def mount_by_macos(layout: VolumeLayout, nodes: NodeTable, entries: EntryTable) -> list[MountStep]:
    """Read the header, the journal, header nodes, the root, the whole bitmap and the private directories.

    The alternate header is not read: only its place is computed. A separate thread scans the bitmap, in requests
    split at its extents. The model places these requests before the mount's later searches.
    """
    start = layout.facts.image_offset
    steps: list[MountStep] = [make_fixed_place("volume-header", start, PAGE_BYTES), *_journal(layout)]
    for tree in HEADERS:
        header = _header(nodes, tree)
        physical = np.minimum(nodes.size_bytes[header], PAGE_BYTES)
        # The first read returns the node size; its buffer is discarded (kTrashBlock), and the whole node is read.
        steps.append(FixedPlaces(tree, nodes.device[header], nodes.image_offset[header], physical))
        larger = header[nodes.size_bytes[header] != PAGE_BYTES]
        steps.append(FixedPlaces(tree, nodes.device[larger], nodes.image_offset[larger], nodes.size_bytes[larger]))
    root = np.flatnonzero((entries.file_id == ROOT_ID) & entries.is_directory)[:1]
    steps.append((entries.thread_node[root], "thread"))
    steps.append((entries.name_node[root], "inode"))
    steps.append(_bitmap(layout))
    # Search for the journal's files by name, then for both private directories.
    in_root = np.flatnonzero(entries.parent_id == ROOT_ID)
    names = entries.stored_names.take(np.arange(len(entries))[entries.order][in_root]).to_list()
    if len(regions_of(layout, "journal")):
        for name in JOURNAL_FILES:
            rows = in_root[[each == name for each in names]]
            steps.append((entries.name_node[rows], "name"))
    steps.append((entries.name_node[np.flatnonzero(entries.is_hidden)], "name"))
    return steps


def _header(nodes: NodeTable, tree: str) -> NDArray[np.int64]:
    return np.flatnonzero(nodes.is_header & (nodes.tree == nodes.tree_code(tree)))


def _journal(layout: VolumeLayout) -> Iterator[MountStep]:
    """Read the info block and the journal's header, and all pending blocks if the journal must be replayed.

    Lists and blocks are read in order to verify them. Each block is then read again in the order of its place on the
    volume, which is assumed to be the same order. The read of each place before it is overwritten (update_fs_block) is
    omitted, because only the lists give these places.
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
            yield make_fixed_place("journal", at + begin, tail)
            if pending > tail:
                # The ring continues after the header, which has the sector size of the system that made the journal.
                yield make_fixed_place("journal", at + length - begin - tail + 512, pending - tail)


def _bitmap(layout: VolumeLayout) -> FixedPlaces:
    """Split the allocation file into single reads, aligned to the start of the file, up to its last used bit."""
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


BLOCK_BYTES: Final = 32 * KIB
"""DefaultCacheBlockSize; the checker's cache is aligned to the start of the volume."""

OVERFLOW, CATALOG, ATTRIBUTES = HEADERS


def list_check_reads(
    cache_blocks: int,  # capacity of the checker's cache in blocks of 32 KiB; it drops the least recently used
    layout: VolumeLayout,
    nodes: NodeTable,
    entries: EntryTable,
) -> list[FixedPlaces]:
    """List the reads of a check of a sound volume."""
    cache = _Cache(layout, nodes, cache_blocks)
    cache.regions("volume-header", "alternate-volume-header", "volume-header")
    catalog = cache.leaves(CATALOG)
    first = cache.way[catalog[0]] if catalog else []
    # After each header, the driver searches for further extents of the tree, even if there are none.
    overflow = cache.leaves(OVERFLOW)
    extents = cache.way[overflow[0]] if overflow else []
    cache.nodes([*cache.others(OVERFLOW, is_header=True), *extents])
    cache.nodes(cache.others(CATALOG, is_header=True))
    # The volume's name is in the root's record, the first record of the catalog.
    cache.nodes(first)
    cache.regions("alternate-volume-header")
    cache.nodes([*extents, *cache.others(ATTRIBUTES, is_header=True)])
    cache.regions("alternate-volume-header")
    cache.nodes([*extents, *first[-1:]])
    _tree(cache, OVERFLOW, [])
    cache.regions("alternate-volume-header")
    private = _private(cache, layout.facts, entries)
    cache.nodes([*private, *first])
    _tree(cache, CATALOG, _extents_searched(cache, layout, entries, catalog))
    cache.nodes([*private, *first])
    if catalog:
        cache.nodes(_hierarchy(cache, entries, catalog))
        if layout.facts.variant == "HFSX":
            cache.nodes([*first, *catalog])
    _tree(cache, ATTRIBUTES, [])
    cache.regions("allocation-file")
    cache.nodes(cache.others(CATALOG, is_header=True))
    cache.regions("alternate-volume-header", "volume-header")
    return cache.reads()


def _tree(cache: _Cache, tree: str, behind: Sequence[list[int]]) -> None:
    """Descend to each leaf, reading index nodes again for each child, then read all unused nodes."""
    header = cache.others(tree, is_header=True)
    # Nodes of a journaled volume must be contiguous. The header is read again to see whether it is journaled.
    cache.regions("volume-header")
    cache.nodes(header)
    cache.regions("volume-header")
    before: list[int] = []
    for place, leaf in enumerate(cache.leaves(tree)):
        way = cache.way[leaf]
        # Go up to the node above both leaves, then down again.
        shared = sum(1 for one, other in zip(before, way, strict=False) if one == other)
        cache.nodes(before[-2 : max(shared - 1, 0) : -1] if before else [])
        cache.nodes(way[max(shared - 1, 0) :])
        if behind:
            cache.nodes(behind[place])
        before = way
    cache.nodes(before[-2::-1])
    cache.nodes(header)
    # Unused nodes must hold zeros (BTCheckUnusedNodes). Map nodes were read before, and are read again here.
    cache.nodes(cache.others(tree, is_header=False))
    cache.nodes(header)


def _extents_searched(cache: _Cache, layout: VolumeLayout, entries: EntryTable, catalog: list[int]) -> list[list[int]]:
    """Return, for each leaf of the catalog, the paths in the overflow tree on which its files' extents are searched.

    These searches also happen for files whose extents all fit into their records.
    """
    leaves = cache.leaves(OVERFLOW)
    if not leaves:
        return [[] for _ in catalog]
    first_ids, last_ids = (layout.columns("nodes")[f"{end}_key_id"].filled(0)[leaves] for end in ("first", "last"))
    files = np.flatnonzero(~entries.is_directory)
    found = np.maximum(np.searchsorted(first_ids, entries.file_id[files], side="left") - 1, 0)
    # A search that ends after the last record of a leaf continues in the next leaf.
    further = (entries.file_id[files] >= last_ids[found]) & (found + 1 < len(leaves))
    node = entries.name_node[files].astype(np.int64)
    pairs = np.unique(np.stack([np.append(node, node[further]), np.append(found, found[further] + 1)]), axis=1)
    behind: dict[int, list[int]] = {}
    for leaf, row in pairs.T.tolist():
        behind.setdefault(leaf, []).extend(cache.way[leaves[row]])
    return [behind.get(leaf, []) for leaf in catalog]


def _private(cache: _Cache, facts: VolumeFacts, entries: EntryTable) -> list[int]:
    """List the path to the directory of iNode files, or to its place if it is missing: after everything in the root."""
    hidden = np.flatnonzero(entries.is_hidden)
    # Its name begins with NUL, which sorts last if case is folded, and first if it is not.
    hidden = hidden[:1] if facts.case_sensitive else hidden[-1:]
    last = np.flatnonzero(entries.parent_id == ROOT_ID)
    leaf = entries.name_node[hidden if len(hidden) else last[-1:]]
    return cache.way[int(leaf[0])] if len(leaf) and leaf[0] >= 0 else []


def _hierarchy(cache: _Cache, entries: EntryTable, catalog: list[int]) -> Iterator[int]:
    """Descend into each folder when its record is reached, then return to the next record of its parent.

    After a folder's records come the threads of files with higher numbers. These are skipped up to the next record
    of a folder, the thread with the next folder number.
    """
    rank = np.full(len(cache.way) + 1, -1, np.int64)
    rank[catalog] = np.arange(len(catalog))
    folders = np.flatnonzero(entries.is_directory)
    folders = folders[np.argsort(entries.file_id[folders], kind="stable")]
    ids = entries.file_id[folders]
    thread = rank[entries.thread_node[folders]]
    last = np.append(thread[1:], len(catalog) - 1)
    parent = np.searchsorted(ids, entries.parent_id[folders])
    known = (parent < len(ids)) & (ids[np.minimum(parent, len(ids) - 1)] == entries.parent_id[folders])
    by_name = np.lexsort((np.argsort(np.argsort(folders)), parent))
    by_name = by_name[known[by_name]]
    starts = np.searchsorted(parent[by_name], np.arange(len(ids) + 1)).tolist()
    children, record = by_name.tolist(), rank[entries.name_node[folders]].tolist()
    root = np.flatnonzero(ids == ROOT_ID)
    yield from cache.way[catalog[0]]
    if not len(root):
        return
    first, end = thread.tolist(), last.tolist()
    # For each open folder: its number, its next subfolder, and the current leaf.
    seen = {int(root[0])}
    stack = [[int(root[0]), starts[int(root[0])], first[int(root[0])]]]
    yield from cache.way[catalog[first[int(root[0])]]]
    while stack:
        folder, child, at = top = stack[-1]
        if child < starts[folder + 1]:
            below = children[child]
            yield from (catalog[leaf] for leaf in range(at + 1, record[below] + 1))
            top[1], top[2] = child + 1, max(at, record[below])
            # In a damaged volume a folder may be its own grandparent.
            if first[below] >= 0 and below not in seen:
                seen.add(below)
                yield from cache.way[catalog[first[below]]]
                stack.append([below, starts[below], first[below]])
            continue
        yield from (catalog[leaf] for leaf in range(at + 1, end[folder] + 1))
        stack.pop()
        if stack:
            yield catalog[max(record[folder], 0)]


class _Cache:
    """The volume as read by the checker: a cache that drops the least recently used block, and the reads."""

    def __init__(self, layout: VolumeLayout, nodes: NodeTable, size: int) -> None:
        start = layout.facts.image_offset
        self._layout, self._start, self._size = layout, start, size
        self._held: OrderedDict[int, None] = OrderedDict()
        self._blocks: list[int] = []
        self._kinds: list[int] = []
        self._names = [*nodes.trees]
        self._tree = nodes.tree.tolist()
        self._mapper = nodes.mapper.tolist()
        self._parent = nodes.parent.tolist()
        self._spans = _spans(layout, nodes)
        self._nodes = nodes
        # for each node, the path from the root down to it, including the node itself
        self.way: list[list[int]] = [[node] for node in range(len(nodes))]
        for node in np.argsort(-nodes.level, kind="stable").tolist():
            if self._parent[node] >= 0:
                self.way[node] = [*self.way[self._parent[node]], node]

    def leaves(self, tree: str) -> list[int]:
        """List the leaves of a tree in key order."""
        own = np.flatnonzero((self._nodes.tree == self._nodes.tree_code(tree)) & (self._nodes.level == 0))
        found: list[int] = own[np.argsort(self._nodes.key_rank[own], kind="stable")].tolist()
        return found

    def others(self, tree: str, *, is_header: bool) -> list[int]:
        """List the header node of a tree, or its map nodes and unused nodes, by number."""
        own = (self._nodes.tree == self._nodes.tree_code(tree)) & (self._nodes.level < 0)
        rows = np.flatnonzero(own & (self._nodes.is_header == is_header))
        found: list[int] = rows[np.argsort(self._nodes.node_id[rows], kind="stable")].tolist()
        return found

    def nodes(self, wanted: Iterable[int]) -> None:
        """Read nodes, and before each node its tree's overflow records (extents after the eighth)."""
        for node in wanted:
            mapper = self._mapper[node]
            if mapper >= 0:
                if self._parent[mapper] >= 0:
                    self._touch(self._spans[self._parent[mapper]], self._tree[mapper])
                self._touch(self._spans[mapper], self._tree[mapper])
            self._touch(self._spans[node], self._tree[node])

    def regions(self, *kinds: str) -> None:
        """Read the regions of each type."""
        for kind in kinds:
            if kind not in self._names:
                self._names.append(kind)
            found = regions_of(self._layout, kind)
            for offset, length in zip(found.image_offset.tolist(), found.length_bytes.tolist(), strict=True):
                begin = offset - self._start
                span = range(begin // BLOCK_BYTES, (begin + length - 1) // BLOCK_BYTES + 1)
                self._touch(span, self._names.index(kind))

    def _touch(self, span: Iterable[int], kind: int) -> None:
        held = self._held
        for block in span:
            if block in held:
                held.move_to_end(block)
                continue
            if len(held) >= self._size:
                held.popitem(last=False)
            held[block] = None
            self._blocks.append(block)
            self._kinds.append(kind)

    def reads(self) -> list[FixedPlaces]:
        """Return the reads so far, in order."""
        offset = np.array(self._blocks, np.int64) * BLOCK_BYTES
        length = np.minimum(BLOCK_BYTES, self._layout.facts.size_bytes - offset)
        kinds = np.array(self._kinds, np.uint8)
        return group_by_kind(self._names, kinds, np.zeros(len(offset), np.uint8), offset + self._start, length)


def _spans(layout: VolumeLayout, nodes: NodeTable) -> list[Sequence[int]]:
    """Return the cache blocks of each node."""
    begin = nodes.image_offset - layout.facts.image_offset
    end = begin + np.maximum(nodes.size_bytes, 1)
    low = begin // BLOCK_BYTES
    # On a truncated image, some nodes have no location.
    high = np.where(nodes.image_offset >= 0, (end - 1) // BLOCK_BYTES + 1, low)
    spans: list[Sequence[int]] = [range(one, other) for one, other in zip(low.tolist(), high.tolist(), strict=True)]
    split = layout.columns("node_fragments")
    owners = nodes.nodes_of(split["node_row"])
    for node in np.unique(owners[owners >= 0]).tolist():
        mine = np.flatnonzero(owners == node)
        pieces: NDArray[np.int64] = split["image_offset"].data[mine] - layout.facts.image_offset
        ends = pieces + split["length_bytes"].data[mine]
        both = zip(pieces.tolist(), ends.tolist(), strict=True)
        spans[node] = [block for one, other in both for block in range(one // BLOCK_BYTES, -(-other // BLOCK_BYTES))]
    return spans


class HfsplusProperties(DriverProperties, frozen=True):
    """The properties of one host's HFS+ driver."""

    # cache page of HFS+ metadata: nodes that share one are read together; 0 if each node is cached separately
    page_bytes: int
    hfs_node_cache_bytes: int | None  # memory for nodes; None for all memory of the host
    hfs_looks_up_thread: bool  # whether a new HFS+ inode is found through its thread record
    hfs_stops_at_valence: bool  # whether an HFS+ listing ends after the number of entries in the folder record
    hidden_names: tuple[str, ...]  # directories in an HFS+ root that listings skip
    # whether a listing omits the type of HFS+ hard links, so that they always need a stat
    hard_link_type_unknown: bool
    hfs_scans_bitmap: bool  # whether a mount of HFS+ reads the journal and the whole bitmap, as Apple's driver does
    hfs_fsck_cache_blocks: int  # blocks of 32 KiB in the cache of fsck_hfs


_KNOWN: Final[KnownProperties] = {
    "page_bytes": (
        (4 * KIB, "Linux 6.1 fs/hfsplus/bnode.c: nodes live in the page cache of their file"),
        (0, "Apple's hfs: a node is one buffer"),
    ),
    "hfs_node_cache_bytes": (
        (None, "Linux 6.1 fs/hfsplus/bnode.c: pages as those of any file"),
        (
            128 * MIB,
            (
                "xnu bsd/dev/unix_startup.c: a header for each 8 KiB node, for 2 % of memory, 16,384 at most "
                "(6.4 GB and more)"
            ),
        ),
    ),
    "hfs_looks_up_thread": (
        (True, "Linux 6.1 fs/hfsplus/inode.c, hfsplus_iget and hfsplus_find_cat"),
        (False, "Apple's hfs hfs_lookup: the record found by name makes the vnode"),
    ),
    "hfs_stops_at_valence": (
        (True, "Linux 6.1 fs/hfsplus/dir.c: i_size is 2 + valence"),
        (False, "Apple's hfs cat_getentriesattr: up to the first record of another directory"),
    ),
    "hidden_names": (
        ((FILE_LINKS_DIRECTORY,), "Linux 6.1 fs/hfsplus/dir.c: the directory of iNode files is passed over"),
        (
            (FILE_LINKS_DIRECTORY, DIRECTORY_LINKS_DIRECTORY),
            "Apple's hfs cat_getentriesattr: private directories are passed over",
        ),
    ),
    "hard_link_type_unknown": (
        (True, "Linux 6.1 fs/hfsplus/dir.c: d_type from the link's mode, which is 0 in links it made"),
        (False, "Apple's hfs: the type comes with the attributes"),
    ),
    "hfs_scans_bitmap": (
        (False, "Linux 6.1 fs/hfsplus/super.c: neither at a mount (recorded)"),
        (True, "Apple's hfs hfs_MountHFSPlusVolume: hfs_scan_blocks, also where it is mounted read-only"),
    ),
    "hfs_fsck_cache_blocks": (
        (1024, "fsck_hfs 627.40.1 cache.h: DefaultCacheBlocks (recorded)"),
        (65_536, "reported of macOS, 2 GiB; its share of memory is assumed to be there"),
    ),
}
"""Each property but the costs: its value and its source, on Linux and macOS."""

COSTS: Final = {
    "linux": Costs(list_us=1.0, bulk_entry_us=7.0, stat_us=7.0, search_us=0.0, node_us=0.0),
    "macos": Costs(list_us=2.0, bulk_entry_us=2.0, stat_us=15.0, search_us=4.0, node_us=10.0, vnode_us=7.0),
}

HOSTS: Final = {host: HfsplusProperties(costs=COSTS[host], **own) for host, own in values_by_host(_KNOWN).items()}

HOST_SOURCES: Final[Mapping[str, tuple[str, str]]] = sources_of(_KNOWN) | {
    "hfsplus": (
        "measured on one machine: 8 us to list and stat an entry; how much of it is listing is assumed",
        (
            "assumed: two searches a look-up, 10 us a node read; the cost of a new look-up is set to the 8.5 s of "
            "processor "
            "time that 250,000 files take in the 2017 report on git status"
        ),
    ),
    "hfsplus.bulk_entry_us": (
        "no such call: as a stat of each entry",
        "assumed: less than on APFS, because name and inode are one record (Apple's hfs cat_getentriesattr)",
    ),
    "hfsplus.stat_us": (
        "measured on one machine: 8 us to list and stat an entry, less `list_us`",
        "as on APFS: the system call, not the file system",
    ),
}
"""Source of each property on (linux, macos)."""

WRITERS: Final = {"H+Lx": "linux", "10.0": "macos", "HFSJ": "macos", "fsck": "macos", "8.10": "macos"}
"""Host of the last write mount, by lastMountedVersion (TN1150, Volume Header; Linux fs/hfsplus/hfsplus_raw.h)."""


def written_by(layout: VolumeLayout) -> str:
    """Return the name of the host that last mounted a volume."""
    return WRITERS.get(str(layout.facts.details.get("last mounted by", "")), "")


def driver(host: HostProfile, compared_by: Callable[[str, VolumeFacts], str] = compose_name) -> Driver:
    """Return the driver of a host; names are compared by the given rule."""
    own = host.properties_of("hfsplus", HOSTS)
    # Linux finds a new inode by its thread record, which leads to the catalog record.
    thread = ("thread", "inode") if own.hfs_looks_up_thread else ()
    searches = ("name", "inode", *thread)
    return Driver(
        costs=own.costs,
        searches=searches,
        # A catalog record is both name and inode.
        inode_beside_name=True,
        stops_at_valence=own.hfs_stops_at_valence,
        # Observed: an index node is read here, unless an earlier look-up has read it.
        resumes_by_search=True,
        hidden_names=own.hidden_names,
        hard_link_type_unknown=own.hard_link_type_unknown,
        leaves_are_chained=True,
        page_bytes=own.page_bytes,
        node_cache_bytes=own.hfs_node_cache_bytes,
        locator_cause="overflow",
        extents_cause="overflow",
        inode_holds_extents=True,
        # Linux 6.1: dir.c (hfsplus_unlink), catalog.c (hfsplus_delete_cat), extents.c (hfsplus_file_truncate, from the
        # last extent back), bitmap.c (hfsplus_block_free), brec.c and bnode.c (hfs_bnode_unlink: both neighbours of a
        # node without records are read), btree.c (hfs_bmap_free: the whole header node).
        bitmap_region="allocation-file",
        # Apple's searchfs visits the nodes by number and ignores their links (`BTScanNextRecord`).
        scans_by_number=True,
        compared_by=compared_by,
        listing_start=_threads,
        mounted=partial(_find_mounted_nodes, searches),
        mount=partial(_list_macos_mount, own.hfs_fsck_cache_blocks)
        if own.hfs_scans_bitmap
        else partial(mount_by_linux, searches),
        check=partial(list_check_reads, own.hfs_fsck_cache_blocks),
    )


def _list_macos_mount(
    cache_blocks: int, layout: VolumeLayout, nodes: NodeTable, entries: EntryTable
) -> list[MountStep]:
    """Check a volume that was not unmounted and has no journal, then mount it.

    On macOS, disk arbitration first repairs a volume that a quick check finds dirty (DiskArbitration, DAMount.c and
    DAFileSystem.c; fsck_hfs.c, which treats a journaled volume as clean). The repair of a sound volume reads the same
    blocks as a check. Linux mounts a volume that was not unmounted as it is, read-only.
    """
    steps = mount_by_macos(layout, nodes, entries)
    if not {"unmounted", "journaled"}.isdisjoint(layout.facts.features):
        return steps
    return [*list_check_reads(cache_blocks, layout, nodes, entries), *steps]


def _threads(entries: EntryTable, descent: Descent) -> NDArray[np.int32]:
    """Return the leaves with the thread records of directories, which precede the first entry."""
    if not len(entries):
        return np.full(len(descent), -1, np.int32)
    found = np.where(descent.entry >= 0, entries.thread_node[np.maximum(descent.entry, 0)], -1)
    return found.astype(np.int32)


def _find_mounted_nodes(
    searches: tuple[str, ...], facts: VolumeFacts, nodes: NodeTable, entries: EntryTable
) -> Mounted:
    """Return the nodes at which the mount's searches end, and the header nodes."""
    found = np.concatenate([*find_root_leaves(searches, facts, entries)])
    return found.astype(np.int32), np.flatnonzero(nodes.is_header).astype(np.int32)
