"""What checkers read of a volume of APFS and of its container: apfsck on Linux, fsck_apfs on macOS.

apfsck 0.2.1 of apfsprogs with ``-cuw``, recorded: what it maps of the image, block by block. Which bitmap of the
internal pool it reads first, the newest of the ring, no table tells: all are read in the order of their addresses.

fsck_apfs is not public. Its order is that of the lines that it prints: container superblock, checkpoint, space manager,
object map, then of each volume its superblock, object map, snapshots' metadata and each snapshot, tree, extent
references. Versions of 2017 printed the tree before the snapshots, those of 2018 extent references first; what is read
stays the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.steps import CheckerReads, FixedPlaces, fixed_place, regions_of
from layoutscope.filesystems.apfs.driver.mounting import ring

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.entries import EntryTable
    from layoutscope.access.nodes import NodeTable
    from layoutscope.tables import VolumeLayout

LIVE: Final = ("live", "inferred")


def apfsck_reads(layout: VolumeLayout, nodes: NodeTable, entries: EntryTable) -> CheckerReads:  # noqa: ARG001  (as others)
    """Say what apfsck reads, whose blocks the page cache keeps."""
    pieces = [*_checkpoint(layout), *_ephemeral(layout, "nx-reaper"), *_volume(layout, nodes)]
    pieces += _ephemeral(layout, "spaceman")
    pieces += [regions_of(layout.container, kind) for kind in ("spaceman-cab", "spaceman-cib")]
    pieces += [*_own_nodes(layout.container, "spaceman")]
    pieces += [regions_of(layout.container, "internal-pool-bitmap")]
    return _placed(pieces, layout.facts.block_size_bytes, is_cached=True)


def fsck_apfs_reads(
    caches: bool,
    year: int,
    layout: VolumeLayout,
    nodes: NodeTable,
    entries: EntryTable,  # noqa: ARG001  (as others)
) -> CheckerReads:
    """Say what fsck_apfs reads, as far as its printed lines tell."""
    pieces = [*_checkpoint(layout), *_ephemeral(layout, "nx-reaper"), *_ephemeral(layout, "spaceman")]
    kinds = ("spaceman-cab", "spaceman-cib", "spaceman-bitmap", "internal-pool-bitmap")
    pieces += [regions_of(layout.container, kind) for kind in kinds]
    pieces += [*_own_nodes(layout.container, "spaceman"), *_volume(layout, nodes, printed(year))]
    return _placed(pieces, layout.facts.block_size_bytes, is_cached=caches)


def _checkpoint(layout: VolumeLayout) -> Iterator[FixedPlaces]:
    """Read block 0, the descriptor area, and the container's object map."""
    if layout.container is None:
        return
    yield fixed_place("container-superblock", layout.facts.image_offset, layout.facts.block_size_bytes)
    yield from ring(layout)
    yield regions_of(layout.container, "object-map")
    yield from _own_nodes(layout.container, "container-omap")


def _ephemeral(layout: VolumeLayout, owner: str) -> list[FixedPlaces]:
    return [regions_of(layout.container, "checkpoint-data", lambda name: name == owner)]


def _own_nodes(layout: VolumeLayout | None, tree: str) -> Iterator[FixedPlaces]:
    if layout is None:
        return
    table = layout.columns("nodes")
    rows = np.flatnonzero(table["tree"].equals(tree))
    rows = rows[np.lexsort((table["image_offset"].signed()[rows], -table["level"].signed()[rows]))]
    yield _nodes(tree, layout, rows)


APFSCK: Final = ("snapshots", "extentref", "fs", "fext")
"""Order of a volume's parts, behind its object map, as apfsck reads them."""


def printed(year: int) -> Sequence[str]:
    """Return the order of a volume's parts, behind its object map, as fsck_apfs of a year prints them.

    >>> printed(2017)[0], printed(2018)[0], printed(2025)[0]
    ('fs', 'extentref', 'snapshots')
    """
    if year <= FIRST_YEAR:
        return ("fs", "fext", "snapshots", "extentref")
    return ("extentref", "fs", "fext", "snapshots") if year == SECOND_YEAR else ("snapshots", "fs", "fext", "extentref")


FIRST_YEAR, SECOND_YEAR = 2017, 2018
"""Years of macOS 10.13 and 10.14, whose checkers print their own orders."""


def _volume(layout: VolumeLayout, nodes: NodeTable, order: Sequence[str] = APFSCK) -> Iterator[FixedPlaces]:
    """Read superblock and object map, then the parts of a volume in some order; snapshots the oldest first."""
    yield regions_of(layout, "volume-superblock", lambda owner: owner == "live")
    yield regions_of(layout, "object-map")
    live = np.zeros(len(nodes), bool)
    for state in LIVE:
        live |= layout.columns("nodes")["state"].equals(state)
    view = np.flatnonzero(live), nodes.parent.astype(np.int64), nodes.key_rank
    for tree in ("omap-snapshots", "omap"):
        yield _state(layout, nodes, tree, view)
    for part in order:
        if part != "snapshots":
            yield _state(layout, nodes, part, view)
            continue
        yield _state(layout, nodes, "snapmeta", view)
        yield from _of_snapshots(layout, nodes, ~live)


def _of_snapshots(layout: VolumeLayout, nodes: NodeTable, kept: NDArray[np.bool_]) -> Iterator[FixedPlaces]:
    """Read each snapshot's superblock, extent references and tree, the oldest first."""
    parent, rank = nodes.parent.astype(np.int64), nodes.key_rank
    superblocks = regions_of(layout, "volume-superblock", lambda owner: owner != "live")
    references = _kept_references(layout, nodes, kept)
    for number, view in enumerate(_snapshots(layout, nodes)):
        yield superblocks.chosen(slice(number, number + 1))
        for rows in references[number : number + 1]:
            yield _state(layout, nodes, "extentref", (rows, parent, rank))
        yield _state(layout, nodes, "fs", view)


_View = tuple["NDArray[np.int64]", "NDArray[np.int64]", "NDArray[np.int64]"]


def _kept_references(layout: VolumeLayout, nodes: NodeTable, kept: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Return the nodes of each snapshot's own tree of extent references, the oldest first."""
    own = np.flatnonzero(kept & (nodes.tree == nodes.tree_code("extentref")))
    top = np.arange(len(nodes))
    for node in own[np.argsort(-nodes.level[own], kind="stable")].tolist():
        top[node] = top[nodes.parent[node]] if nodes.parent[node] >= 0 else node
    roots = np.unique(top[own])
    written = layout.columns("nodes")["xid"].filled(0)[roots]
    return [own[top[own] == root] for root in roots[np.argsort(written, kind="stable")].tolist()]


def _snapshots(layout: VolumeLayout, nodes: NodeTable) -> Iterator[_View]:
    """List the nodes of each snapshot that was read, with parents and places as they are in it."""
    views = layout.columns("node_views")
    codes, names = views["view"].numbered()
    own = nodes.nodes_of(views["node_row"]).astype(np.int64)
    above = nodes.nodes_of(views["parent_row"]).astype(np.int64)
    ranks = views["key_rank"].signed()
    for code, name in enumerate(names):
        if not name.startswith("snapshot"):
            continue
        mine = np.flatnonzero(codes == code)
        parent, rank = np.full(len(nodes), -1, np.int64), np.zeros(len(nodes), np.int64)
        parent[own[mine]], rank[own[mine]] = above[mine], ranks[mine]
        yield own[mine], parent, rank


def _state(layout: VolumeLayout, nodes: NodeTable, tree: str, view: _View) -> FixedPlaces:
    """Go through a tree of one state, each node before those below it."""
    rows, parent, rank = view
    rows = rows[nodes.tree[rows] == nodes.tree_code(tree)]
    first = np.full(len(nodes), np.iinfo(np.int64).max)
    for level in range(int(nodes.level[rows].max(initial=-1)) + 1):
        here = rows[nodes.level[rows] == level]
        if level == 0:
            first[here] = rank[here]
        above = parent[here]
        np.minimum.at(first, above[above >= 0], first[here[above >= 0]])
    return _nodes(tree, layout, rows[np.lexsort((-nodes.level[rows], first[rows]))])


def _nodes(tree: str, layout: VolumeLayout, rows: NDArray[np.int64]) -> FixedPlaces:
    table = layout.columns("nodes")
    rows = rows[~table["condition"].equals("unread")[rows]]
    device = table["device"].filled(0)[rows].astype(np.uint8)
    return FixedPlaces(tree, device, table["image_offset"].signed()[rows], table["size_bytes"].signed()[rows])


def _placed(pieces: Sequence[FixedPlaces], block_bytes: int, *, is_cached: bool) -> CheckerReads:
    """Read places block by block."""
    blocks = [each.cut(block_bytes) for each in pieces if len(each)]
    kinds = tuple(dict.fromkeys(each.kind for each in blocks))
    offset = np.concatenate([np.empty(0, np.int64), *(each.image_offset for each in blocks)])
    device = np.concatenate([np.empty(0, np.uint8), *(each.device for each in blocks)])
    length = np.concatenate([np.empty(0, np.int64), *(each.length_bytes for each in blocks)])
    kind = np.repeat([kinds.index(each.kind) for each in blocks], [len(each) for each in blocks]).astype(np.uint8)
    kept = np.arange(len(offset))
    if is_cached:
        kept = np.sort(np.unique(np.stack([device.astype(np.int64), offset]), axis=1, return_index=True)[1])
    return CheckerReads(kinds, kind[kept], offset[kept], length[kept], device[kept])
