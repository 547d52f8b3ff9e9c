"""What fsck_hfs reads of a volume, pass by pass, through a cache of its own.

Apple's fsck_hfs 627.40.1 with ``-n -f``: ``dfalib/SControl.c`` (ScavCtrl, scavVerify), ``SVerify1.c`` (CatHChk,
CheckFolderCount, VInfoChk), ``SVerify2.c`` (BTCheck, BTMapChk, BTCheckUnusedNodes), ``CatalogCheck.c``
(CheckCatalogBTree), ``VolumeBitmapCheck.c``, ``cache.c``.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.entries import ROOT_ID
from layoutscope.access.steps import CheckerReads, regions_of
from layoutscope.filesystems.hfsplus.driver.mounting import HEADERS
from layoutscope.frozen import frozen
from layoutscope.units import KIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.entries import EntryTable
    from layoutscope.access.nodes import NodeTable
    from layoutscope.tables import VolumeFacts, VolumeLayout

BLOCK_BYTES: Final = 32 * KIB
"""DefaultCacheBlockSize; the cache is aligned to the start of the volume."""

OVERFLOW, CATALOG, ATTRIBUTES = HEADERS


@frozen
class TreeWays:
    """The nodes of a volume as the checker goes through them."""

    nodes: NodeTable  # all of them
    way: list[list[int]]  # of each node, the nodes from the root down to it, itself last

    @classmethod
    def of(cls, nodes: NodeTable) -> TreeWays:
        """Follow the parents of every node."""
        parent, level = nodes.parent.tolist(), nodes.level
        way: list[list[int]] = [[node] for node in range(len(nodes))]
        for node in np.argsort(-level, kind="stable").tolist():
            if parent[node] >= 0:
                way[node] = [*way[parent[node]], node]
        return cls(nodes, way)

    def leaves(self, tree: str) -> list[int]:
        """List the leaves of a tree in key order."""
        own = np.flatnonzero((self.nodes.tree == self.nodes.tree_code(tree)) & (self.nodes.level == 0))
        found: list[int] = own[np.argsort(self.nodes.key_rank[own], kind="stable")].tolist()
        return found

    def others(self, tree: str, *, is_header: bool) -> list[int]:
        """List the header node of a tree, or its map nodes and those that are not in use, by number."""
        own = (self.nodes.tree == self.nodes.tree_code(tree)) & (self.nodes.level < 0)
        rows = np.flatnonzero(own & (self.nodes.is_header == is_header))
        found: list[int] = rows[np.argsort(self.nodes.node_id[rows], kind="stable")].tolist()
        return found


def checked_reads(
    cache_blocks: int,  # blocks of 32 KiB that the checker's cache holds; the least recently used one goes
    layout: VolumeLayout,
    nodes: NodeTable,
    entries: EntryTable,
) -> CheckerReads:
    """Say what a check of a sound volume reads."""
    cache = _Cache(layout, nodes, cache_blocks)
    cache.regions("volume-header", "alternate-volume-header", "volume-header")
    ways = TreeWays.of(nodes)
    catalog = ways.leaves(CATALOG)
    first = ways.way[catalog[0]] if catalog else []
    # Behind each header the tree's own further extents are looked for, whether or not it has any.
    overflow = ways.leaves(OVERFLOW)
    extents = ways.way[overflow[0]] if overflow else []
    cache.nodes([*ways.others(OVERFLOW, is_header=True), *extents])
    cache.nodes(ways.others(CATALOG, is_header=True))
    # The volume's name stands in the record of the root, which is the first of all.
    cache.nodes(first)
    cache.regions("alternate-volume-header")
    cache.nodes([*extents, *ways.others(ATTRIBUTES, is_header=True)])
    cache.regions("alternate-volume-header")
    cache.nodes([*extents, *first[-1:]])
    _tree(cache, ways, OVERFLOW, [])
    cache.regions("alternate-volume-header")
    private = _private(ways, layout.facts, entries)
    cache.nodes([*private, *first])
    _tree(cache, ways, CATALOG, _extents_searched(ways, layout, entries, catalog))
    cache.nodes([*private, *first])
    if catalog:
        cache.nodes(_hierarchy(ways, entries, catalog))
        if layout.facts.variant == "HFSX":
            cache.nodes([*first, *catalog])
    _tree(cache, ways, ATTRIBUTES, [])
    cache.regions("allocation-file")
    cache.nodes(ways.others(CATALOG, is_header=True))
    cache.regions("alternate-volume-header", "volume-header")
    return cache.reads()


def _tree(cache: _Cache, ways: TreeWays, tree: str, behind: Sequence[list[int]]) -> None:
    """Go down to each leaf, index nodes anew for each child, then over all nodes that are not in use."""
    header = ways.others(tree, is_header=True)
    # Of a journaled volume nodes must lie in one piece: whether it is one is read anew.
    cache.regions("volume-header")
    cache.nodes(header)
    cache.regions("volume-header")
    before: list[int] = []
    for place, leaf in enumerate(ways.leaves(tree)):
        way = ways.way[leaf]
        # Back up to the node that both have above them, from there down again.
        shared = sum(1 for one, other in zip(before, way, strict=False) if one == other)
        cache.nodes(before[-2 : max(shared - 1, 0) : -1] if before else [])
        cache.nodes(way[max(shared - 1, 0) :])
        if behind:
            cache.nodes(behind[place])
        before = way
    cache.nodes(before[-2::-1])
    cache.nodes(header)
    # Nodes that are not in use must hold zeros (BTCheckUnusedNodes); map nodes come before, and are seen again here.
    cache.nodes(ways.others(tree, is_header=False))
    cache.nodes(header)


def _extents_searched(ways: TreeWays, layout: VolumeLayout, entries: EntryTable, catalog: list[int]) -> list[list[int]]:
    """Say for each leaf of the catalog on which ways of the overflow tree its files' extents are looked for.

    They are, also where a file has no more than fit into its record.
    """
    leaves = ways.leaves(OVERFLOW)
    if not leaves:
        return [[] for _ in catalog]
    first_ids, last_ids = (layout.columns("nodes")[f"{end}_key_id"].filled(0)[leaves] for end in ("first", "last"))
    files = np.flatnonzero(~entries.is_directory)
    found = np.maximum(np.searchsorted(first_ids, entries.file_id[files], side="left") - 1, 0)
    # A search that ends behind the last record of a leaf goes on to the next leaf for the record that follows.
    further = (entries.file_id[files] >= last_ids[found]) & (found + 1 < len(leaves))
    node = entries.name_node[files].astype(np.int64)
    pairs = np.unique(np.stack([np.append(node, node[further]), np.append(found, found[further] + 1)]), axis=1)
    behind: dict[int, list[int]] = {}
    for leaf, row in pairs.T.tolist():
        behind.setdefault(leaf, []).extend(ways.way[leaves[row]])
    return [behind.get(leaf, []) for leaf in catalog]


def _private(ways: TreeWays, facts: VolumeFacts, entries: EntryTable) -> list[int]:
    """List the way to the directory of iNode files, or to where it would stand: behind all else in the root."""
    hidden = np.flatnonzero(entries.is_hidden)
    # Its name begins with NUL, which sorts behind everything where case is folded, and before where it is not.
    hidden = hidden[:1] if facts.case_sensitive else hidden[-1:]
    last = np.flatnonzero(entries.parent_id == ROOT_ID)
    leaf = entries.name_node[hidden if len(hidden) else last[-1:]]
    return ways.way[int(leaf[0])] if len(leaf) and leaf[0] >= 0 else []


def _hierarchy(ways: TreeWays, entries: EntryTable, catalog: list[int]) -> Iterator[int]:
    """Go down into each folder when its record comes, and back to where its parent's records go on.

    A folder's records are followed by the threads of files with higher numbers, which are passed over up to the next
    record of a folder: the thread of that with the next number.
    """
    rank = np.full(len(ways.nodes) + 1, -1, np.int64)
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
    yield from ways.way[catalog[0]]
    if not len(root):
        return
    first, end = thread.tolist(), last.tolist()
    # Of each folder that is open: its number, the next of its folders, and the leaf that is looked at.
    seen = {int(root[0])}
    stack = [[int(root[0]), starts[int(root[0])], first[int(root[0])]]]
    yield from ways.way[catalog[first[int(root[0])]]]
    while stack:
        folder, child, at = top = stack[-1]
        if child < starts[folder + 1]:
            below = children[child]
            yield from (catalog[leaf] for leaf in range(at + 1, record[below] + 1))
            top[1], top[2] = child + 1, max(at, record[below])
            # In a damaged volume a folder may be its own grandparent.
            if first[below] >= 0 and below not in seen:
                seen.add(below)
                yield from ways.way[catalog[first[below]]]
                stack.append([below, starts[below], first[below]])
            continue
        yield from (catalog[leaf] for leaf in range(at + 1, end[folder] + 1))
        stack.pop()
        if stack:
            yield catalog[max(record[folder], 0)]


class _Cache:
    """Blocks of the volume, of which the least recently used goes, and what was read into it."""

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

    def nodes(self, wanted: Iterable[int]) -> None:
        """Read nodes, before each what tells of extents behind the eighth of its tree."""
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

    def reads(self) -> CheckerReads:
        """Return what was read, in order."""
        offset = np.array(self._blocks, np.int64) * BLOCK_BYTES
        length = np.minimum(BLOCK_BYTES, self._layout.facts.size_bytes - offset)
        kinds = np.array(self._kinds, np.uint8)
        return CheckerReads(tuple(self._names), kinds, offset + self._start, length, np.zeros(len(offset), np.uint8))


def _spans(layout: VolumeLayout, nodes: NodeTable) -> list[Sequence[int]]:
    """Blocks that each node lies in."""
    begin = nodes.image_offset - layout.facts.image_offset
    end = begin + np.maximum(nodes.size_bytes, 1)
    low = begin // BLOCK_BYTES
    # Of a cut image some nodes lie nowhere.
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
