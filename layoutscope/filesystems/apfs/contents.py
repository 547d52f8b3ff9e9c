"""Read all of a container: structures outside of volumes, each volume's trees, and the nodes of its states."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import field

from layoutscope.display import Struct
from layoutscope.errors import FormatError, UnsupportedError
from layoutscope.filesystems.apfs import snapshots
from layoutscope.filesystems.apfs.btree import Pool, read_nodes, walk_tree
from layoutscope.filesystems.apfs.fsrecords import RecordsAhead, RecordTree, to_text, walk_record_tree
from layoutscope.filesystems.apfs.fusion import list_second_regions, middle_tree, use_cache, write_cache
from layoutscope.filesystems.apfs.keybag import container_keybag, volume_keybag_run
from layoutscope.filesystems.apfs.objects import read_reaper, report_unknown
from layoutscope.filesystems.apfs.source import TreeSource
from layoutscope.filesystems.apfs.spaceman import (
    MAX_BLOCKS,
    Details,
    Region,
    Space,
    inside,
    node_runs,
    read_space,
    rest,
    to_runs,
    type_name,
)
from layoutscope.filesystems.apfs.verify import decode_objects, read_object, report_damaged
from layoutscope.filesystems.apfs.volume import (
    fs_source,
    is_encrypted,
    list_locked_nodes,
    program,
    read_rolling,
    walk_fext_tree,
    walk_fs_tree,
)
from layoutscope.image.passes import read_alone, read_together
from layoutscope.structs import arrays, grammar
from layoutscope.structs.arrays import Index, index_of, is_among, is_strictly_ascending, match
from layoutscope.structs.records import EFI_JUMPSTART, EVICT_MAPPING_KEY, EVICT_MAPPING_VAL, OBJ_PHYS
from layoutscope.tables.schema import fork_of_attribute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.container import Container
    from layoutscope.filesystems.apfs.fsrecords import Columns
    from layoutscope.filesystems.apfs.nodes import NodeRows
    from layoutscope.filesystems.apfs.snapshots import Snapshot
    from layoutscope.filesystems.apfs.sweep import Swept
    from layoutscope.filesystems.apfs.volume import Volume
    from layoutscope.findings import FindingLog
    from layoutscope.image.passes import Reading


def list_virtual_regions(volume: Volume, claimed: list[NodeRows]) -> list[Region]:
    """Make regions of the objects that are not nodes of known trees, by the type in their headers."""
    blocks, omap = volume.store.blocks, volume.omap
    known = np.concatenate([nodes.paddr for nodes in claimed])
    rows = np.flatnonzero(~omap.is_deleted & ~is_among(omap.paddr, known))
    rows = rows[blocks.readable(omap.paddr[rows], blocks.block_size)]
    if not len(rows):
        return []
    # Objects that are encrypted or have no header have neither a checksum to verify nor a type to name.
    is_plain = ~omap.is_encrypted[rows] & ~omap.is_noheader[rows]
    heads = blocks.read(omap.paddr[rows], blocks.block_size)
    kinds = decode_objects(OBJ_PHYS, heads, (OBJ_PHYS.type,))["type"].astype(np.int64)
    _report_objects(volume, rows[is_plain], kinds[is_plain])
    hidden = omap.is_encrypted[rows].tolist()
    names = ["locked" if secret else type_name(kind) for kind, secret in zip(kinds.tolist(), hidden, strict=True)]
    columns = (omap.oid[rows], omap.xid[rows], omap.paddr[rows], omap.size_bytes[rows] // blocks.block_size)
    items = zip(names, *(column.tolist() for column in columns), strict=True)
    return [Region(name, f"object {oid}, xid {xid}", paddr, count) for name, oid, xid, paddr, count in items]


def _report_objects(volume: Volume, rows: NDArray[np.int64], kinds: NDArray[np.int64]) -> None:
    """Report objects that are damaged or of an unknown type: their contents are not read."""
    omap, store = volume.omap, volume.store
    names = [f"virtual object {oid}" for oid in omap.oid[rows].tolist()]
    is_damaged = np.zeros(len(rows), bool)
    single = np.flatnonzero(omap.size_bytes[rows] == store.blocks.block_size)
    is_damaged[single] = report_damaged(store, omap.paddr[rows[single]], [names[row] for row in single.tolist()])
    known = [int(kind) for kind in grammar.ApfsObject.ObjectType]
    for row in np.flatnonzero(~is_damaged & ~np.isin(kinds, known)).tolist():
        log, kind = store.log.at(names[row], int(omap.paddr[rows[row]])), type_name(int(kinds[row]))
        log.add("record-invalid", "warning", "object of an unknown type; it was not read", found=kind)


def list_volume_regions(
    container: Container, states: list[Volume], claimed: list[NodeRows], others: list[Region]
) -> list[Region]:
    """List a volume's and its snapshots' metadata outside of their trees, each block once."""
    volume = states[0]
    regions = [*others, Region("object-map", "volume object map", volume.superblock.omap_oid)]
    for state in states:
        owner = "live" if state is volume else f"snapshot of xid {state.xid}"
        regions.append(Region("volume-superblock", owner, state.paddr))
    regions += list_virtual_regions(volume, claimed)
    if is_encrypted(volume):
        # The container's key bag, which records that of the volume, needs no password.
        try:
            run = volume_keybag_run(container_keybag(container), bytes(volume.superblock.vol_uuid))
            regions += [Region("volume-keybag", "container key bag", *run)] if run else []
        except FormatError as error:
            if container.superblock.is_crypto_sw:
                volume.log.survive(error)
            else:
                message = f"the key bag was not located, whose own key the hardware may hold: {error.reason}"
                log = volume.log.at_byte("container key bag", error.image_offset)
                log.add("volume-hardware-locked", "info", message)
        except UnsupportedError as error:
            message = f"the key bag was not located: {error}"
            volume.log.at("volume key bag").add("volume-locked", "info", message)
    first = {region.paddr: region for region in reversed(regions)}
    return inside(list(first.values()), volume.store)


class VolumeParts(Struct, frozen=True, dict=True):
    """Everything that was read of a volume."""

    state: Volume  # the state that the layout shows
    view: str  # its name
    # fs, extentref, snapmeta, fext: its trees; fext exists only in sealed volumes
    fs: RecordTree
    extentref: RecordTree
    snapmeta: RecordTree
    fext: RecordTree
    snapshots: list[Snapshot]  # all snapshots of the volume
    # nodes of the file-system trees of all states by name, the live state first; parents are positions in it
    views: dict[str, NodeRows]
    snapshot_extents: list[RecordTree]  # extent-reference trees of the snapshots
    regions: list[Region]  # metadata outside of tree nodes
    is_locked: bool  # whether the file-system tree could not be read because its key is missing
    key: bytes | None = None  # set if the volume is encrypted and was unlocked
    # facts for a report, and trees, of an encryption in progress
    rolling_details: Details = field(default_factory=dict)
    rolling_trees: list[NodeRows] = field(default_factory=list)
    # blocks of file-system tree nodes that no object map names any more
    inferred: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    # lost, lost_of_snapshots: nodes that a tree led to but that are not among its nodes: unusable roots, and leaves
    # that others replaced
    lost: list[NodeRows] = field(default_factory=list)
    lost_of_snapshots: list[NodeRows] = field(default_factory=list)

    @property
    def log(self) -> FindingLog:
        """Findings about this volume."""
        return self.state.log

    @property
    def block_size(self) -> int:
        """Block size of the container, in bytes."""
        return self.state.store.blocks.block_size

    @cached_property
    def claimed(self) -> NDArray[np.int64]:
        """Blocks that the volume uses."""
        return arrays.union(self.claims)

    @cached_property
    def claims(self) -> list[NDArray[np.int64]]:
        """Sets of blocks that the volume uses: for nodes, regions, reference-counted data, and file data."""
        return [node_runs(self._trees(), self.block_size), to_runs(self.regions), self.data_runs, self.file_runs]

    def _trees(self) -> list[NodeRows]:
        """All trees of all states, each once."""
        trees = [*self.own_trees(), *(tree.nodes for tree in self.snapshot_extents)]
        trees += [*self.lost, *self.lost_of_snapshots]
        return trees + [nodes for nodes in self.views.values() if not any(nodes is other for other in trees)]

    def own_trees(self) -> list[NodeRows]:
        """Nodes of this state's trees; the object map is first, the file-system tree second."""
        state = self.state
        trees = [self.fs, self.extentref, self.snapmeta, self.fext]
        return [state.omap.nodes, *(tree.nodes for tree in trees), state.omap_snapshots, *self.rolling_trees]

    def file_extents(self) -> Columns:
        """Extents of files, from the file-system tree or from the fext tree of a sealed volume."""
        return self.fext.get("file_extent") if len(self.fext.nodes) else self.fs.get("file_extent")

    @cached_property
    def data_runs(self) -> NDArray[np.int64]:
        """Blocks of data that the live volume or a snapshot refers to."""
        tables = [tree.get("extent") for tree in (self.extentref, *self.snapshot_extents)]
        return arrays.union(
            [arrays.runs_of(table["obj_id"], table["num_blocks"]) for table in tables if len(table["obj_id"])]
        )

    @cached_property
    def file_runs(self) -> NDArray[np.int64]:
        """Blocks of data that files of this state hold."""
        return arrays.runs_of(*stretches(self.file_extents(), self.block_size))


def stretches(extents: Columns, block_size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first block and the number of blocks of each extent, without holes."""
    # The signed view has the same bytes.
    first, length = extents["paddr"].view(np.int64), extents["len_extent"].view(np.int64)
    # An extent at block 0 is a hole: the superblock is there, so no file can be.
    is_hole = first == 0
    if is_hole.any():
        first, length = first[~is_hole], length[~is_hole]
    # The size of a block is a power of two, so no division is needed.
    blocks: NDArray[np.int64] = length >> (block_size.bit_length() - 1)
    blocks += (length & (block_size - 1)) != 0
    return first, blocks


def read_volume_parts(
    container: Container, volume: Volume, *, key: bytes | None = None, chosen: str = "live"
) -> VolumeParts:
    """Read all trees of one state of a volume, and the nodes of its other states."""
    # Trees that need no object map.
    superblock, store, xid = volume.superblock, volume.store, container.xid
    snapmeta = read_alone(walk_record_tree(TreeSource(store, "snapmeta", superblock.snap_meta_tree_oid, xid)))
    listed = snapshots.list_snapshots(snapmeta)
    opened = snapshots.open_all(volume, listed)
    states = {"live": volume} | {snapshot.view: state for snapshot, state in opened}
    if chosen not in states:
        where = store.blocks.at(int(superblock.snap_meta_tree_oid))
        raise FormatError("cannot be opened", structure=chosen, image_offset=where)
    shown = states[chosen]
    others = [
        walk_record_tree(TreeSource(store, "extentref", superblock.extentref_tree_oid, xid)),
        walk_fext_tree(shown),
        # Extents that only a snapshot keeps; a snapshot may have no such tree.
        *(walk_record_tree(TreeSource(store, "extentref", snapshot.extentref_paddr, xid)) for snapshot, _ in opened),
    ]
    (fs, views), (extentref, fext, *references) = _read_trees(states, chosen, key, others)
    rolling_regions, rolling_trees, rolling_details = read_rolling(container, volume)
    claimed = [*views.values(), fext.nodes, *rolling_trees]
    regions = list_volume_regions(container, list(states.values()), claimed, rolling_regions)
    return VolumeParts(
        state=shown,
        view=chosen,
        fs=fs,
        extentref=extentref,
        snapmeta=snapmeta,
        fext=fext,
        snapshots=listed,
        views=views,
        snapshot_extents=references,
        regions=regions,
        is_locked=is_encrypted(volume) and key is None,
        key=key,
        rolling_details=rolling_details,
        rolling_trees=rolling_trees,
        lost=[nodes for nodes in store.lost if _is_live(nodes, volume)],
        lost_of_snapshots=[nodes for nodes in store.lost if not _is_live(nodes, volume)],
    )


def _is_live(root: NodeRows, volume: Volume) -> bool:
    """Return whether the live state of the volume leads to a lost root, and not only a snapshot."""
    superblock = volume.superblock
    if root.tree == "extentref":
        return int(root.node_id[0]) == superblock.extentref_tree_oid
    if root.tree != "fs":
        return True
    row = volume.view.find_one(superblock.root_tree_oid)
    # The root of a physical tree is identified by its address.
    mapped = None if row is None else int(volume.view.omap.paddr[row])
    return int(root.paddr[0]) in (mapped, superblock.root_tree_oid)


def _read_trees(
    states: dict[str, Volume], chosen: str, key: bytes | None, others: list[Reading[RecordTree]]
) -> tuple[tuple[RecordTree, dict[str, NodeRows]], list[RecordTree]]:
    """Read the file-system tree of the chosen state, nodes that only other states have, and the other trees."""
    if is_encrypted(states["live"]) and key is None:
        locked = {name: list_locked_nodes(state) for name, state in states.items()}
        return (RecordTree(nodes=locked[chosen]), locked), read_together(others)
    # Sealed and unsealed states read their nodes differently, even those that they share.
    pools = {_hash_type(state): Pool() for state in states.values()}
    shown = states[chosen]
    rest = {name: state for name, state in states.items() if name != chosen}
    ahead = RecordsAhead(hashed_names=bool(shown.superblock.has_hashed_names))
    same = [state.view for state in rest.values() if _hash_type(state) == _hash_type(shown)]
    found: list[Any] = read_together([*others, ahead.read(fs_source(shown.store, shown, key), same)])
    pool = pools[_hash_type(shown)] if len(states) > 1 else None
    trees: list[Reading[Any]] = [walk_fs_tree(shown, key, pool, ahead)]
    trees += [
        walk_tree(fs_source(state.store, state, key), pool=pools[_hash_type(state)], ahead=ahead)
        for state in rest.values()
    ]
    fs, *nodes = read_together(trees)
    views = dict(zip(rest, nodes, strict=True)) | {chosen: fs.nodes}
    return (fs, {name: views[name] for name in states}), found[:-1]


def _hash_type(state: Volume) -> int:
    """Return how the nodes of a state are hashed; 0 if they are not, or if that is unknown."""
    return state.seal.hash_type if state.seal else 0


RESOURCE_FORK = "com.apple.ResourceFork"


DATA, ORPHAN = 0, 1
"""Positions in the list of forks."""


class Streams(Struct, frozen=True):
    """Owners of data streams, sorted by the stream's identifier, which the index searches.

    `are_files` means that every stream belongs to the file with the same number.
    """

    index: Index
    file_id: NDArray[np.uint64]
    size_bytes: NDArray[np.int64]
    fork: NDArray[np.uint32]
    forks: tuple[str, ...]
    are_files: bool = False


def streams(records: RecordTree) -> Streams:
    """List the owners of data streams: inodes, and extended attributes that are too long to be embedded."""
    return records.compute_once(("streams",), lambda: _list_streams(records))


def _list_streams(records: RecordTree) -> Streams:
    inodes, xattrs = records.get("inode"), records.get("xattr")
    forks = ["data", "orphan"]
    parts: list[tuple[Any, ...]] = []
    if records.count("inode"):
        size = inodes["data_size"].view(np.int64)
        parts.append((inodes["private_id"], inodes["obj_id"], size, np.broadcast_to(np.uint32(DATA), len(size))))
    if records.count("xattr"):
        rows = np.flatnonzero(xattrs["stream_id"] != 0)
        names: list[Any] = to_text(xattrs["name"]).take(rows).to_list() if len(rows) else []
        shown = ["resource" if name == RESOURCE_FORK else fork_of_attribute(name) for name in names]
        forks += sorted(set(shown) - set(forks))
        codes, size = np.array([forks.index(name) for name in shown], np.uint32), xattrs["stream_size"][rows]
        parts.append((xattrs["stream_id"][rows], xattrs["obj_id"][rows], size.astype(np.int64), codes))
    if not parts:
        nothing = np.empty(0, np.uint64)
        return Streams(index_of(nothing), nothing, np.empty(0, np.int64), np.empty(0, np.uint32), tuple(forks))
    # One table needs no copy.
    columns = parts[0] if len(parts) == 1 else tuple(np.concatenate(column) for column in zip(*parts, strict=True))
    stream_id, file_id, size, fork = columns
    if not is_strictly_ascending(stream_id):
        order = np.argsort(stream_id, kind="stable")
        stream_id, file_id, size, fork = stream_id[order], file_id[order], size[order], fork[order]
    # Streams of files that are not clones have the number of their inode.
    is_plain = np.array_equal(stream_id, file_id) and len(parts) == 1
    index = records.index("inode") if is_plain else index_of(stream_id)
    return Streams(index, file_id, size, fork, tuple(forks), is_plain)


class ContainerContents(Struct, frozen=True):
    """A container as it was read, before its parts are compared with each other."""

    container: Container
    space: Space | None  # the space manager; None if it cannot be read
    # trees, regions: of the container itself
    trees: list[NodeRows]
    regions: list[Region]
    details: Details  # facts for a report
    lost: list[NodeRows]  # roots of trees, including those of volumes that cannot be opened
    volumes: list[VolumeParts] = field(default_factory=list)  # all volumes that could be opened
    slots: dict[int, int] = field(default_factory=dict)  # each volume's position in the container's list, by its number
    swept: Swept | None = None  # results of a sweep, if one was requested


def read_container_parts(container: Container) -> ContainerContents:
    """Read the space manager and locate every structure of the container outside of its volumes."""
    space = None
    try:
        space = read_space(container.store, container.checkpoint)
    except FormatError as error:
        container.log.survive(error, code="spaceman-invalid")
    details = read_reaper(container)
    report_unknown(container)
    evicted, moves = read_evictions(container)
    middle, dirty, cached = middle_tree(container)
    cache, held = write_cache(container)
    trees = [container.omap.nodes, *container.area_trees, *(space.queues if space else []), *evicted, *middle]
    regions = [*_superblock_regions(container), *(space.regions if space else [])]
    regions += [*read_jumpstart(container), *cache, *list_second_regions(container)]
    lost = list(container.store.lost)
    regions = inside([*regions, *_checkpoint_regions(container, [*trees, *lost])], container.store)
    if space:
        regions = _mark_pending_blocks(regions, space)
    return ContainerContents(use_cache(container, dirty), space, trees, regions, details | moves | cached | held, lost)


def _mark_pending_blocks(regions: list[Region], space: Space) -> list[Region]:
    """Show blocks that wait to become free as waiting, unless they hold current data; the internal pool holds none."""
    pool = [item for item in regions if item.type == "internal-pool"]
    others = [item for item in regions if item.type != "internal-pool"]
    taken = to_runs(others)
    waiting = [region for item in space.pending for region in rest(item.type, item.owner, to_runs([item]), taken)]
    return [*others, *rest("internal-pool", "space manager", to_runs(pool), to_runs(space.pending)), *waiting]


def _superblock_regions(container: Container) -> list[Region]:
    """Return copies of the superblock, the object map's header, and single structures that the superblock names."""
    superblock = container.superblock
    regions = [Region("container-superblock", "copy in block 0", 0)]
    if len(container.omap.nodes):
        regions.append(Region("object-map", "container object map", superblock.omap_oid))
    for kind, run in (
        ("container-keybag", superblock.keylocker),
        ("media-key", superblock.mkb_locker),
        ("fusion-write-cache", superblock.fusion_wbc),
    ):
        if run.num_blocks:
            regions.append(Region(kind, "container superblock", run.start_paddr, run.num_blocks))
    return regions


def _checkpoint_regions(container: Container, trees: list[NodeRows]) -> list[Region]:
    """Return both checkpoint areas, block by block where contents are known."""
    block_size = container.blocks.block_size
    kinds = grammar.ApfsObject.ObjectType
    area = container.area
    names = {int(kinds.nx_superblock): "container-superblock", int(kinds.checkpoint_map): "checkpoint-map"}
    regions = [
        Region(names[int(area.kind[row])], f"checkpoint {area.xid[row]}", int(area.paddr[row]))
        for row in sorted(area.blocks)
    ]
    regions += rest("checkpoint-descriptor", "unused", _form_ring(area.paddr), to_runs(regions))
    held = node_runs(trees, block_size)
    objects = [
        Region("checkpoint-data", type_name(item.type), item.paddr, item.size_bytes // block_size)
        for item in container.checkpoint.ephemerals.values()
    ]
    # Nodes of the space manager's free queues are ephemeral objects too, but already in the table of nodes.
    objects = [region for region in objects if not len(arrays.intersect(to_runs([region]), held))]
    taken = arrays.union([held, to_runs(objects)])
    return regions + objects + rest("checkpoint-data", "unused", _form_ring(container.data_paddrs), taken)


def _form_ring(paddrs: NDArray[np.uint64]) -> NDArray[np.int64]:
    return arrays.runs_of(paddrs.astype(np.int64), np.ones(len(paddrs), np.int64))


def read_jumpstart(container: Container) -> list[Region]:
    """Locate the EFI jumpstart and the driver that firmware boots a container with; most containers have none."""
    paddr, blocks = container.superblock.efi_jumpstart, container.blocks
    if not paddr:
        return []
    regions = [Region("efi-jumpstart", "container superblock", paddr)]
    try:
        record = read_object(blocks, grammar.ApfsContainer.EfiJumpstart, paddr, "EFI jumpstart")
    except FormatError as error:
        container.log.survive(error)
        return regions
    room = sum(run.num_blocks for run in record.extents) * blocks.block_size
    if record.len_efi_file > room:
        log = container.log.at("EFI jumpstart", paddr, plus=EFI_JUMPSTART.len_efi_file.offset)
        message, found = "the driver is longer than its extents", record.len_efi_file
        log.add("structure-invalid", "warning", message, expected=f"at most {room}", found=found)
    return regions + [Region("efi-driver", "EFI jumpstart", run.start_paddr, run.num_blocks) for run in record.extents]


def read_evictions(container: Container) -> tuple[list[NodeRows], Details]:
    """Read where a shrinking container moves the blocks after its future end; return nodes and numbers.

    Most containers have no such table.
    """
    superblock, details = container.superblock, Details()
    if superblock.blocked_out.num_blocks:
        run = superblock.blocked_out
        details["blocked-out blocks"] = f"{run.num_blocks:,} from block {run.start_paddr:,}"
    oid = superblock.evict_mapping_tree_oid
    if not oid:
        return [], details
    nodes, leaves = read_nodes(TreeSource(container.store, "evict-mapping", oid, container.xid))
    num_moved, limit = 0, np.uint64(container.device_blocks[0])
    for batch in leaves:
        start = batch.column("key", EVICT_MAPPING_KEY, EVICT_MAPPING_KEY.paddr)
        found = batch.columns("val", EVICT_MAPPING_VAL, (EVICT_MAPPING_VAL.dst_paddr, EVICT_MAPPING_VAL.num_blocks))
        length = np.minimum(found["num_blocks"], limit + np.uint64(1))
        outside = start + length > limit
        # The reference's paddr_t is signed, here as in all structures; a negative address has no meaning.
        outside |= (found["dst_paddr"] < 0) | (found["dst_paddr"].astype(np.uint64) + length > limit)
        for row in np.flatnonzero(outside).tolist():
            at = int(batch.slots.val_start[row]) + EVICT_MAPPING_VAL.dst_paddr.offset
            message = f"blocks from {start[row]} move to where no blocks are"
            batch.at(int(batch.slots.node[row]), at).add("record-invalid", "warning", message)
        num_moved += int(length[~outside].sum())
    details["blocks to be moved"] = num_moved
    return [nodes], details


MAX_LISTED: Final = 100


def balance(
    devices: NDArray[np.int64],  # blocks of each device
    free: NDArray[np.int64],
    claims: Sequence[NDArray[np.int64]],
    log: FindingLog,
) -> dict[str, NDArray[np.int64]]:
    """Compare claims with the bitmaps; return sets of blocks by their names in a report.

    Unclaimed blocks are used in the bitmaps, but belong to no structure that was read.
    """
    free = arrays.intersect(free, devices)
    claimed = arrays.intersect(arrays.union(claims), devices)
    used = arrays.subtract(devices, free)
    disputed = arrays.intersect(claimed, free)
    for start, length in disputed[:MAX_LISTED].tolist():
        message = f"{length} blocks from block {start} are used, but free in the bitmaps"
        log.at("space manager", start).add("block-claimed-free", "warning", message)
    if len(disputed) > MAX_LISTED:
        message = f"{len(disputed) - MAX_LISTED} further runs of blocks are used, but free in the bitmaps"
        log.at("space manager").add("block-claimed-free", "warning", message)
    return {
        "blocks": devices,
        "used blocks": used,
        "free blocks": free,
        "claimed blocks": claimed,
        "unclaimed blocks": arrays.subtract(used, claimed),
        "claimed but free blocks": disputed,
    }


NO_RUNS = np.empty((0, 2), np.int64)


def account(contents: ContainerContents) -> dict[str, NDArray[np.int64]]:
    """Compare all claimed blocks with the bitmaps, see :func:`balance`."""
    block_size = contents.container.blocks.block_size
    claims = [node_runs([*contents.trees, *contents.lost], block_size), to_runs(contents.regions)]
    claims += [volume.claimed for volume in contents.volumes]
    _report_data_in_metadata(contents)
    # Blocks in the free queues stay used in the bitmaps, so nothing overwrites the contents of earlier checkpoints.
    free = contents.space.free if contents.space else NO_RUNS
    return balance(list_devices(contents), free, claims, contents.container.log)


def _report_data_in_metadata(contents: ContainerContents) -> None:
    """Report blocks of file data that a node or region also claims."""
    block_size = contents.container.blocks.block_size
    metadata = [node_runs(contents.trees, block_size), to_runs(contents.regions)]
    data = []
    for volume in contents.volumes:
        metadata += volume.claims[:2]
        data += volume.claims[2:]
    for start, length in arrays.intersect(arrays.union(metadata), arrays.union(data))[:MAX_LISTED].tolist():
        message = f"{length} blocks from block {start} are claimed by metadata and by data"
        contents.container.log.at("space manager", start).add("block-claimed-twice", "warning", message)


def list_devices(contents: ContainerContents) -> NDArray[np.int64]:
    """Return the blocks of each device of a container, as runs."""
    container, space = contents.container, contents.space
    runs = [[0, min(container.device_blocks[0], MAX_BLOCKS)]]
    if space is not None and space.header.devices[1].num_blocks:
        # Block numbers of the second device start at its mark, far above those of the main device.
        runs.append([container.blocks.tier2_mark, min(space.header.devices[1].num_blocks, MAX_BLOCKS)])
    return np.array(runs, np.int64)


CONVERTER: Final = "hfs_convert"
"""This program writes wrong child counts, which no later change corrects."""

_KINDS: Final = grammar.ApfsInode.ModeFormat
_MIN_USER: Final = int(grammar.ApfsInode.InodeNumber.min_user)
FORMAT_SHIFT: Final = 12
"""The type of a directory record is the format bits of a mode, shifted as by ``IFTODT`` of POSIX."""
_ENTRY_TYPES: Final = {
    "files": int(_KINDS.file) >> FORMAT_SHIFT,
    "directories": int(_KINDS.directory) >> FORMAT_SHIFT,
    "symbolic links": int(_KINDS.symlink) >> FORMAT_SHIFT,
}

DECLARED: Final = {
    "files": "num_files",
    "directories": "num_directories",
    "symbolic links": "num_symlinks",
    "other objects": "num_other_fsobjects",
}
"""Counts in a volume's superblock, by field."""


def num_missing_entries(parts: VolumeParts) -> int:
    """Return the minimum number of lost names; 0 for a locked volume, whose contents are unknown.

    A file or directory whose inode is lost but that a directory still lists has kept its name.
    """
    if parts.is_locked:
        return 0
    found = inodes_by_kind(parts.fs.get("inode"))
    superblock = parts.state.superblock
    unknown = {what: max(int(getattr(superblock, DECLARED[what])) - count, 0) for what, count in found.items()}
    # The checks examine all names: without errors, inodes and directories lack none of the names that they count.
    if not parts.log.has_errors and not any(unknown.values()):
        return 0
    return max(_missing_names(parts, unknown), _missing_children(parts))


def _missing_names(parts: VolumeParts, unknown: dict[str, int]) -> int:
    """Count names that inodes should have, and one per counted `unknown` object without inode and name."""
    inodes, drecs = parts.fs.get("inode"), parts.fs.get("dir_rec")
    if not len(drecs["file_id"]):
        return sum(unknown.values())
    named, first, times = np.unique(drecs["file_id"], return_index=True, return_counts=True)
    numbers, limit = inodes["obj_id"], int(parts.state.superblock.next_obj_id)
    spot, is_named = match(named, numbers)
    listed = np.where(is_named, times[spot], 0)
    is_directory = inodes["format"] == int(_KINDS.directory)
    links = np.where(is_directory, 1, inodes["num_children_or_links"].astype(np.int64))
    # A number above all inode numbers is itself damaged, so it proves nothing.
    short = int((links - listed)[(numbers >= _MIN_USER) & (links > listed) & (links <= limit)].sum())
    has_inode = match(numbers, named)[1]
    kinds, named = drecs["entry_type"][first][~has_inode], named[~has_inode]
    listed_alone = _count_kinds(kinds[named >= _MIN_USER])
    return short + sum(max(count - listed_alone[what], 0) for what, count in unknown.items())


def inodes_by_kind(inodes: Columns) -> dict[str, int]:
    """Count inodes as superblocks do: without the root directory and the private directory."""
    kinds = inodes["format"][(inodes["obj_id"] >= _MIN_USER) & ~is_deleted(inodes)] >> FORMAT_SHIFT
    return _count_kinds(kinds)


def _count_kinds(kinds: NDArray[Any]) -> dict[str, int]:
    counts = {what: int((kinds == kind).sum()) for what, kind in _ENTRY_TYPES.items()}
    return counts | {"other objects": len(kinds) - sum(counts.values())}


def is_deleted(inodes: Columns) -> NDArray[np.bool_]:
    """Return which inodes are unlinked files that were still open: they wait in the private directory, uncounted."""
    is_directory = inodes["format"] == int(_KINDS.directory)
    result: NDArray[np.bool_] = ~is_directory & (inodes["num_children_or_links"] == 0)
    return result


def is_converted(parts: VolumeParts) -> bool:
    """Return whether the volume was converted in place from HFS+."""
    return program(parts.state.superblock.formatted_by).startswith(CONVERTER)


def _missing_children(parts: VolumeParts) -> int:
    """Count the entries that directories declare but do not have."""
    inodes, drecs = parts.fs.get("inode"), parts.fs.get("dir_rec")
    if is_converted(parts):
        return 0
    is_directory = inodes["format"] == int(_KINDS.directory)
    short = inodes["num_children_or_links"].astype(np.int64) - times_listed(inodes["obj_id"], drecs["obj_id"])
    # A number above all inode numbers is itself damaged, so it proves nothing.
    is_credible = short <= int(parts.state.superblock.next_obj_id)
    return int(short[is_directory & (short > 0) & is_credible].sum())


def times_listed(numbers: NDArray[np.uint64], parents: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Count the directory records of each of some ascending numbers; those of one directory are adjacent."""
    starts = arrays.heads(parents)
    spot, found = match(numbers, parents[starts])
    counts = arrays.lengths_of(starts, len(parents))
    return np.bincount(spot[found], counts[found], len(numbers)).astype(np.int64)
