"""What the drivers of APFS read: linux-apfs-rw and Apple's.

linux-apfs-rw 0.3.20: ``dir.c``, ``btree.c``, ``inode.c``, ``super.c``.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.driver import Costs, Driver, DriverProperties, no_places, roots, sources_of, values_by_host
from layoutscope.access.entries import ROOT_ID
from layoutscope.access.trace import FixedPlaces, make_fixed_place, place_of, regions_of
from layoutscope.filesystems.apfs import compared_form
from layoutscope.units import KIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.driver import HostProfile, KnownProperties, Mounted
    from layoutscope.access.entries import EntryTable, NodeTable
    from layoutscope.access.trace import MountStep
    from layoutscope.tables import VolumeFacts, VolumeLayout


PRIVATE_ID: Final = 3
"""Private directory (Apple File System Reference, inode numbers)."""

FIRST_BYTES: Final = 4 * KIB
"""Size of the first read of block 0, before the block size is known (NX_DEFAULT_BLOCK_SIZE)."""

RING: Final = ("checkpoint-map", "container-superblock", "checkpoint-descriptor")
"""Types of the blocks in the descriptor area; block 0 also holds a copy of the superblock."""


def mount_by_linux(layout: VolumeLayout, nodes: NodeTable, entries: EntryTable) -> list[MountStep]:  # noqa: ARG001  (as others)
    """Read block 0, every block of the descriptor area, both object maps, the root and the private directory."""
    return [*_superblock(layout), *read_ring(layout), *_volume(layout, entries)]


def mount_by_macos(
    trims: bool,
    layout: VolumeLayout,
    nodes: NodeTable,  # noqa: ARG001  (as others)
    entries: EntryTable,
) -> list[MountStep]:
    """Read as Linux does, plus the checkpoint's ephemeral objects before the maps, and the structures for a trim."""
    container = layout.container
    steps = [*_superblock(layout), *read_ring(layout)]
    # The unused rest of the data area is a region of the same type.
    steps += find_ephemeral_objects(layout)
    steps.append(_nodes_of(container, "spaceman"))
    steps += _volume(layout, entries)
    if trims:
        steps += [regions_of(container, kind) for kind in ("spaceman-cab", "spaceman-cib", "spaceman-bitmap")]
    return steps


def find_ephemeral_objects(layout: VolumeLayout) -> list[FixedPlaces]:
    """Find the ephemeral objects of the checkpoint: the space manager with its queues of freed blocks, the reaper."""
    return [regions_of(layout.container, "checkpoint-data", lambda owner: owner != "unused")]


def first_write(layout: VolumeLayout) -> list[FixedPlaces]:
    """Return the reads of the first transaction, as far as the volume shows them.

    linux-apfs-rw 0.3.0 ``transaction.c`` (apfs_transaction_start), ``spaceman.c`` (apfs_read_spaceman,
    apfs_spaceman_allocate_block): all ephemeral objects, then the internal pool's bitmap, the last chunk-info block,
    and the bitmap of the chunk in which the first block is allocated. The chunk-info block is included only if the
    volume has a single one, because otherwise the right one is unknown. The bitmaps are omitted for that reason.
    """
    places = regions_of(layout.container, "spaceman-cib")
    queues = _nodes_of(layout.container, "spaceman")
    return [*find_ephemeral_objects(layout), queues, *([places] if len(places) == 1 else [])]


def _superblock(layout: VolumeLayout) -> Iterator[MountStep]:
    start, block_bytes = layout.facts.image_offset, layout.facts.block_size_bytes
    if layout.container is None:
        return
    yield make_fixed_place("container-superblock", start, FIRST_BYTES)
    if block_bytes != FIRST_BYTES:
        yield make_fixed_place("container-superblock", start, block_bytes)


def read_ring(layout: VolumeLayout) -> Iterator[FixedPlaces]:
    """Read every block of the descriptor area in address order, used or not."""
    parts = [regions_of(layout.container, kind, lambda owner: not owner.startswith("copy")) for kind in RING]
    blocks = [part.cut(layout.facts.block_size_bytes) for part in parts]
    offset = np.concatenate([part.image_offset for part in blocks])
    owner = np.repeat(np.arange(len(blocks)), [len(part) for part in blocks])
    nth = np.concatenate([np.arange(len(part)) for part in blocks])
    for row in np.argsort(offset, kind="stable").tolist():
        yield blocks[owner[row]].take(nth[row : row + 1])


def _nodes_of(layout: VolumeLayout | None, tree: str) -> FixedPlaces:
    """Return the nodes of a tree of the container, from the root down."""
    if layout is None:
        return regions_of(None, tree)
    table = layout.columns("nodes")
    own = np.flatnonzero(table["tree"].equals(tree))
    return _nodes(tree, layout, own[np.lexsort((table["image_offset"].signed()[own], -table["level"].signed()[own]))])


def _volume(layout: VolumeLayout, entries: EntryTable) -> Iterator[MountStep]:
    """Read both object maps with the volume's superblock between them, then the trees' roots and two inodes."""
    yield regions_of(layout.container, "object-map")
    # One leaf holds some hundred volumes, and a container has at most a hundred.
    yield _nodes_of(layout.container, "container-omap")
    yield regions_of(layout, "volume-superblock", lambda owner: owner == "live")
    yield regions_of(layout, "object-map")
    # The roots of the object map and of the tree are on the path to the first inode.
    for number in (PRIVATE_ID, ROOT_ID):
        yield entries.inode_node[np.flatnonzero(entries.file_id == number)[:1]], "inode"


LIVE: Final = ("live", "inferred")


def list_apfsck_reads(layout: VolumeLayout, nodes: NodeTable, entries: EntryTable) -> list[FixedPlaces]:  # noqa: ARG001  (as others)
    """List the reads of apfsck, whose blocks stay in the page cache."""
    pieces = [*_checkpoint(layout), *_ephemeral(layout, "nx-reaper"), *_list_checked_volume(layout, nodes)]
    pieces += _ephemeral(layout, "spaceman")
    pieces += [regions_of(layout.container, kind) for kind in ("spaceman-cab", "spaceman-cib")]
    pieces += [_nodes_of(layout.container, "spaceman"), regions_of(layout.container, "internal-pool-bitmap")]
    return _place_block_reads(pieces, layout.facts.block_size_bytes, is_cached=True)


def list_fsck_reads(
    caches: bool,
    year: int,
    layout: VolumeLayout,
    nodes: NodeTable,
    entries: EntryTable,  # noqa: ARG001  (as others)
) -> list[FixedPlaces]:
    """List the reads of fsck_apfs, as far as its printed lines show them."""
    pieces = [*_checkpoint(layout), *_ephemeral(layout, "nx-reaper"), *_ephemeral(layout, "spaceman")]
    kinds = ("spaceman-cab", "spaceman-cib", "spaceman-bitmap", "internal-pool-bitmap")
    pieces += [regions_of(layout.container, kind) for kind in kinds]
    pieces += [_nodes_of(layout.container, "spaceman"), *_list_checked_volume(layout, nodes, printed(year))]
    return _place_block_reads(pieces, layout.facts.block_size_bytes, is_cached=caches)


def _checkpoint(layout: VolumeLayout) -> Iterator[FixedPlaces]:
    """Read block 0, the descriptor area, and the container's object map."""
    if layout.container is None:
        return
    yield make_fixed_place("container-superblock", layout.facts.image_offset, layout.facts.block_size_bytes)
    yield from read_ring(layout)
    yield regions_of(layout.container, "object-map")
    yield _nodes_of(layout.container, "container-omap")


def _ephemeral(layout: VolumeLayout, owner: str) -> list[FixedPlaces]:
    return [regions_of(layout.container, "checkpoint-data", lambda name: name == owner)]


APFSCK: Final = ("snapshots", "extentref", "fs", "fext")
"""The order in which apfsck reads a volume's parts after its object map."""


def printed(year: int) -> Sequence[str]:
    """Return the order in which fsck_apfs of a year prints a volume's parts after its object map.

    >>> printed(2017)[0], printed(2018)[0], printed(2025)[0]
    ('fs', 'extentref', 'snapshots')
    """
    if year <= FIRST_YEAR:
        return ("fs", "fext", "snapshots", "extentref")
    return ("extentref", "fs", "fext", "snapshots") if year == SECOND_YEAR else ("snapshots", "fs", "fext", "extentref")


FIRST_YEAR, SECOND_YEAR = 2017, 2018
"""Years of macOS 10.13 and 10.14, whose checkers print their own orders."""


def _list_checked_volume(
    layout: VolumeLayout, nodes: NodeTable, order: Sequence[str] = APFSCK
) -> Iterator[FixedPlaces]:
    """Read superblock and object map, then the parts of a volume in the given order; snapshots oldest first."""
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
        # Each snapshot's superblock, extent references and tree.
        superblocks = regions_of(layout, "volume-superblock", lambda owner: owner != "live")
        references = _list_snapshot_references(layout, nodes, ~live)
        for number, snapshot in enumerate(_snapshots(layout, nodes)):
            yield superblocks.take(slice(number, number + 1))
            for rows in references[number : number + 1]:
                yield _state(layout, nodes, "extentref", (rows, *view[1:]))
            yield _state(layout, nodes, "fs", snapshot)


_View = tuple["NDArray[np.int64]", "NDArray[np.int64]", "NDArray[np.int64]"]


def _list_snapshot_references(
    layout: VolumeLayout, nodes: NodeTable, kept: NDArray[np.bool_]
) -> list[NDArray[np.int64]]:
    """Return the nodes of each snapshot's own extent-reference tree, oldest first."""
    own = np.flatnonzero(kept & (nodes.tree == nodes.tree_code("extentref")))
    top = np.arange(len(nodes))
    for node in own[np.argsort(-nodes.level[own], kind="stable")].tolist():
        top[node] = top[nodes.parent[node]] if nodes.parent[node] >= 0 else node
    roots = np.unique(top[own])
    written = layout.columns("nodes")["xid"].filled(0)[roots]
    return [own[top[own] == root] for root in roots[np.argsort(written, kind="stable")].tolist()]


def _snapshots(layout: VolumeLayout, nodes: NodeTable) -> Iterator[_View]:
    """List the nodes of each snapshot that was read, with their parents and positions in that snapshot."""
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
    """Read a tree of one state, each node before its children."""
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


def _place_block_reads(pieces: Sequence[FixedPlaces], block_bytes: int, *, is_cached: bool) -> list[FixedPlaces]:
    """Read places block by block; with a cache, read each block only once."""
    blocks = [each.cut(block_bytes) for each in pieces if len(each)]
    if not is_cached or not blocks:
        return blocks
    place = np.concatenate([place_of(each.device, each.image_offset) for each in blocks])
    is_first = np.zeros(len(place), bool)
    is_first[np.unique(place, return_index=True)[1]] = True
    parts = np.split(is_first, np.cumsum([len(each) for each in blocks])[:-1])
    return [each.take(part) for each, part in zip(blocks, parts, strict=True) if part.any()]


class ApfsProperties(DriverProperties, frozen=True):
    """The properties of one host's APFS driver."""

    apfs_lists_backwards: bool  # whether an APFS directory is listed from its last record to its first
    apfs_looks_up_dstream: bool  # whether a new APFS inode is followed by a search for its data-stream record
    # whether a mount of APFS reads the ephemeral objects of the checkpoint, including the space manager
    apfs_mount_reads_space: bool
    apfs_mount_trims: bool  # whether it then reads all chunk-info blocks and bitmaps to trim free space
    apfs_fsck_caches: bool  # whether the APFS checker reads blocks shared by snapshots only once
    # release year of Apple's checker, which determines the order of the trees; 0 for another checker
    apfs_fsck_year: int


_KNOWN: Final[KnownProperties] = {
    "apfs_lists_backwards": (
        (True, "linux-apfs-rw 0.3.20 btree.c: a query for several records starts at the highest match"),
        (False, "assumed: in key order"),
    ),
    "apfs_looks_up_dstream": (
        (True, "linux-apfs-rw 0.3.20 inode.c; 0.3.0 does not"),
        (False, "assumed: the inode holds the size"),
    ),
    "apfs_mount_reads_space": (
        (False, "linux-apfs-rw 0.3.20 super.c: not before it writes (recorded)"),
        (True, "Apple File System Reference, Mounting an Apple File System Partition"),
    ),
    "apfs_mount_trims": (
        (False, "linux-apfs-rw 0.3.20: no trim"),
        (True, "observed (Eclectic Light Company, 2025-06-17); that all bitmaps are read for it is assumed"),
    ),
    "apfs_fsck_caches": (
        (True, "apfsck 0.2.1 maps the image; its pages stay in memory"),
        (False, "assumed: not, since a check of all snapshots is reported to take half an hour and more"),
    ),
    "apfs_fsck_year": (
        (0, "apfsck has an order of its own (recorded)"),
        (2025, "the lines that fsck_apfs prints: 2017 tree before snapshots, 2018 extent references first, then last"),
    ),
}
"""Each property but the costs: its value and its source, on Linux and macOS."""

COSTS: Final = {
    "linux": Costs(list_us=1.0, bulk_entry_us=7.0, stat_us=7.0, search_us=0.0, node_us=0.0),
    "macos": Costs(
        list_us=2.0, bulk_entry_us=5.0, stat_us=15.0, search_us=6.0, node_us=30.0, vnode_us=7.0, contention=3.0
    ),
}

HOSTS: Final = {host: ApfsProperties(costs=COSTS[host], **own) for host, own in values_by_host(_KNOWN).items()}

HOST_SOURCES: Final[Mapping[str, tuple[str, str]]] = sources_of(_KNOWN) | {
    "apfs": (
        "measured on one machine: 8 us to list and stat an entry; how much of it is listing is assumed",
        (
            "assumed: two searches a look-up, Fletcher-64 and two trees a node, a new look-up as on HFS+; "
            "contention set to the 30.7 s of processor time of the same report, in 7.65 s"
        ),
    ),
    "apfs.bulk_entry_us": (
        "no such call: as a stat of each entry",
        (
            "public timings of getattrlistbulk and fts on warm caches: 2.1 to 3.3 us an entry on Macs of 2021 to 2026, "
            "which are 2 to 2.5 times as fast as one of 2017; `list_us` is a part of that (healeycodes-2025, dua-369, "
            "dua-371, tokcat-61)"
        ),
    ),
    "apfs.stat_us": (
        "measured on one machine: 8 us to list and stat an entry, less `list_us`",
        (
            "public timings of look-ups: 3.8 to 5.6 us each on a Mac of 2026 (dua-369), more where several threads "
            "look up; 14 us on one of 2017 is fitted to all (docs/intervals.md)"
        ),
    ),
}
"""Source of each property on (linux, macos)."""


def driver(host: HostProfile) -> Driver:
    """Return the driver of a host."""
    own = host.properties_of("apfs", HOSTS)
    on_macos = partial(list_fsck_reads, own.apfs_fsck_caches, own.apfs_fsck_year)
    dstream = ("dstream",) if own.apfs_looks_up_dstream else ()
    return Driver(
        costs=own.costs,
        searches=("name", "inode", *dstream),
        lists_backwards=own.apfs_lists_backwards,
        locator_cause="omap",
        # com.apple.fs.symlink (reference, Symbolic Links).
        links_are_attributes=True,
        reads_compressed=True,
        # mpage_readahead holds the last piece of a window until it knows what follows.
        holds_last_piece=True,
        extents_tree="extentref",
        # A mount that needs the space manager has already read it.
        first_write=no_places if own.apfs_mount_reads_space else first_write,
        compared_by=_normalize_name,
        mounted=_find_mounted_nodes,
        mount=partial(mount_by_macos, own.apfs_mount_trims) if own.apfs_mount_reads_space else mount_by_linux,
        check=on_macos if own.apfs_mount_reads_space else list_apfsck_reads,
    )


def _normalize_name(name: str, facts: VolumeFacts) -> str:
    """Return the form in which a name is compared and hashed: decomposed, and case-folded unless case-sensitive."""
    folded = not facts.case_sensitive
    # Volumes of the first developer versions compare names byte by byte.
    return compared_form(name, folded=folded) if folded or "normalization-insensitive" in facts.features else name


def _find_mounted_nodes(facts: VolumeFacts, nodes: NodeTable, entries: EntryTable) -> Mounted:
    """Return the leaves with the inodes of the root and of the private directory, and the roots of the trees."""
    first = [entries.inode_node[np.flatnonzero(entries.file_id == number)[:1]] for number in (ROOT_ID, PRIVATE_ID)]
    # The root of the extent references is read when the first extent is freed.
    _, read = roots(facts, nodes, entries)
    return np.concatenate(first).astype(np.int32), read[nodes.tree[read] != nodes.tree_code("extentref")]


BEFORE: Final = "EA Fernández"
"""Name that the Linux driver wrote into volumes before it wrote its version."""


WRITERS: Final = {
    **dict.fromkeys(("linux-apfs", "mkapfs", BEFORE), "linux"),
    **dict.fromkeys(
        ("apfs_kext", "newfs_apfs", "fsck_apfs", "asr", "storagekitd", "diskmanagementd", "hfs_convert"), "macos"
    ),
}
"""Host of the programs that write a volume, by prefix of their names (``apfs_formatted_by``, ``apfs_modified_by``)."""


def written_by(layout: VolumeLayout) -> str:
    """Return the host of the program that last changed a volume; of an unchanged volume, of the one that made it."""
    details = layout.facts.details
    # The newest program comes first.
    program = str(details.get("modified by") or details.get("formatted by", ""))
    return next((host for name, host in WRITERS.items() if program.startswith(name)), "")


def joins_pieces(layout: VolumeLayout) -> bool | None:
    """Return whether the Linux driver that wrote a volume compacts a node before it splits it; None if unknown.

    0.3.20 compacts and 0.3.0 does not; no version between them was examined.
    """
    found = re.match(r"linux-apfs by eafer \((\d+)\.(\d+)\.(\d+)", str(layout.facts.details.get("modified by", "")))
    version = tuple(map(int, found.groups())) if found else (0, 3, 10)
    return True if version >= (0, 3, 20) else False if version <= (0, 3, 0) else None
