"""Fusion sets: a container on a solid-state and a hard disk, of which one image may be missing.

Apple File System Reference, Fusion. The main device holds the checkpoints; the second one holds a copy of the
superblock and data, addressed with a mark. The middle tree maps runs of the second device to where they are cached on
the main one. Apple does not say how the write-back cache's state and lists are stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from msgspec import field
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.blocks import DirtyRuns
from layoutscope.filesystems.apfs.btree import read_nodes
from layoutscope.filesystems.apfs.container import Half, Halves, find_superblock
from layoutscope.filesystems.apfs.objects import ObjectKind, objects_of, read_reaper, report_unknown
from layoutscope.filesystems.apfs.source import Store, TreeSource
from layoutscope.filesystems.apfs.spaceman import (
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
from layoutscope.filesystems.apfs.verify import read_object
from layoutscope.findings import FindingLog
from layoutscope.structs import arrays, grammar
from layoutscope.structs.bulk import decode_columns
from layoutscope.structs.records import (
    EFI_JUMPSTART,
    EVICT_MAPPING_KEY,
    EVICT_MAPPING_VAL,
    FUSION_MT_KEY,
    FUSION_MT_VAL,
    FUSION_WBC_LIST_ENTRY,
    FUSION_WBC_LIST_HEAD,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.btree import ReadNodes
    from layoutscope.filesystems.apfs.container import Container
    from layoutscope.filesystems.apfs.nodes import NodeRows
    from layoutscope.image.source import Source
    from layoutscope.structs.grammar import ApfsContainer


KINDS: Final = grammar.ApfsObject.ObjectType
LIST: Final = FUSION_WBC_LIST_HEAD
ENTRY: Final = FUSION_WBC_LIST_ENTRY
CACHE: Final = "write-back cache"


def order_halves(first: Half, second: Half | None, log: FindingLog) -> Halves:
    """Put the main device of a set first, whichever image was named first."""
    if second is None:
        return first, None
    halves = first, second
    found = [_superblock_of(*half) for half in halves]
    known = [item for item in found if not isinstance(item, FormatError)]
    for number, lost in enumerate(found):
        if isinstance(lost, FormatError):
            if not known or not known[0].is_fusion:
                raise lost
            is_main = not known[0].is_fusion_main
            message = f"this half's own superblock cannot be used, so that nothing proves its set: {lost.reason}"
            log.at_byte(lost.structure, lost.image_offset, int(not is_main)).add(
                "checkpoint-invalid", "warning", message
            )
            return _order_halves(halves, first_is_main=is_main == (number == 0))
    one, two = known
    if not one.is_fusion or _set_of(one) != _set_of(two) or one.is_fusion_main == two.is_fusion_main:
        raise FormatError(
            "the two images are not the halves of one Fusion set",
            structure="container superblock",
            image_offset=first[1],
        )
    return _order_halves(halves, first_is_main=bool(one.is_fusion_main))


def _superblock_of(source: Source, image_offset: int) -> ApfsContainer.NxSuperblock | FormatError:
    """Parse the superblock of one half, or say what is wrong with it; opening the main device reports the rest."""
    try:
        return find_superblock(source, image_offset, FindingLog())
    except FormatError as error:
        return error


def _order_halves(halves: tuple[Half, Half], *, first_is_main: bool) -> Halves:
    return halves if first_is_main else (halves[1], halves[0])


def _set_of(superblock: ApfsContainer.NxSuperblock) -> bytes:
    """Return what the identifiers of both devices share."""
    *shared, last = bytes(superblock.fusion_uuid)
    # One bit distinguishes the devices.
    return bytes([*shared, last & ~1])


def report_missing(container: Container) -> None:
    """Say that the second device is missing."""
    if container.superblock.is_fusion and len(container.blocks.sources) < 2:
        message = "the second device's image was not given; its data is not read"
        container.log.at("container superblock", 0).add("fusion-half", "error", message)


def list_second_regions(container: Container) -> list[Region]:
    """Return the bytes at a fixed place on the second device."""
    if not container.superblock.is_fusion:
        return []
    return [Region("container-superblock", "copy on the second device", container.blocks.tier2_mark)]


class Cached(NamedTuple):
    """Runs of the second device that the main one caches; arrays of one length.

    Those that are not dirty hold on both devices what was written last.
    """

    target: NDArray[np.uint64]
    paddr: NDArray[np.uint64]
    num_blocks: NDArray[np.int64]
    is_dirty: NDArray[np.bool_]


def middle_tree(container: Container) -> tuple[list[NodeRows], DirtyRuns, Details]:
    """Read the tree that maps cached blocks of the second device: its nodes, the dirty runs, numbers for a report."""
    oid = container.superblock.fusion_mt_oid
    if not oid:
        return [], DirtyRuns(), {}
    nodes, leaves = read_nodes(TreeSource(container.store, "fusion-middle", oid, container.xid))
    parts = [_decode_cached_runs(container, batch) for batch in leaves]
    target, paddr, count, is_dirty = (np.concatenate(column) for column in zip(_NONE_CACHED, *parts, strict=True))
    start, stop = target[is_dirty], target[is_dirty] + count[is_dirty].astype(np.uint64)
    # Keys ascend; where two runs overlap all the same, a block belongs to the later one.
    dirty = DirtyRuns(start, np.minimum(stop, np.append(start[1:], NO_BLOCK)), paddr[is_dirty])
    details: Details = {"cached blocks": int(count.sum()), "dirty cached blocks": int(count[is_dirty].sum())}
    return [nodes], dirty, details


_NONE_CACHED: Final = Cached(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, bool))
NO_BLOCK: Final = np.uint64(2**64 - 1)


def use_cache(container: Container, dirty: DirtyRuns) -> Container:
    """Let a container read from the main device what is newest there."""
    blocks = replace(container.blocks, dirty=dirty)
    return replace(container, store=Store.over(blocks, container.log)) if len(dirty) else container


def _decode_cached_runs(container: Container, batch: ReadNodes) -> Cached:
    """Decode the runs of one batch; one on the wrong device is a finding, and left out."""
    slots = batch.slots
    values = batch.columns(
        "val", FUSION_MT_VAL, (FUSION_MT_VAL.paddr, FUSION_MT_VAL.num_blocks, FUSION_MT_VAL.is_dirty)
    )
    keys = batch.column("key", FUSION_MT_KEY, FUSION_MT_KEY.paddr)
    length = values["num_blocks"].astype(np.int64)
    limit = container.device_blocks[0]
    wrong = (values["paddr"] < 0) | (values["paddr"] > limit - length) | (keys < container.blocks.tier2_mark)
    for row in np.flatnonzero(wrong).tolist():
        log = batch.at(int(slots.node[row]), int(slots.val_start[row]))
        log.add("record-invalid", "warning", "it is cached on the wrong device")
    target, paddr = keys[~wrong].astype(np.uint64), values["paddr"][~wrong].astype(np.uint64)
    return Cached(target, paddr, length[~wrong], values["is_dirty"][~wrong].astype(bool))


def write_cache(container: Container) -> tuple[list[Region], Details]:
    """Read the state of the write-back cache and its lists: regions outside the checkpoint areas, and numbers."""
    oid = container.superblock.fusion_wbc_oid
    kind = ObjectKind(grammar.ApfsFusion.FusionWbc, int(KINDS.nx_fusion_wbc), CACHE)
    found = objects_of(container).try_read(kind, oid) if oid else None
    if found is None:
        return [], {}
    state, place = found
    regions = place.regions("fusion-wbc", CACHE)
    if state.rc_stash.num_blocks:
        run = state.rc_stash
        regions.append(Region("fusion-read-cache-stash", CACHE, run.start_paddr, run.num_blocks))
    held = 0
    # Lists hold no address of the next one; the state names the first and the last.
    for list_oid in dict.fromkeys((state.list_head_oid, state.list_tail_oid)):
        more, count = _read_list(container, list_oid) if list_oid else ([], 0)
        regions += more
        held += count
    return regions, {"write-back cache blocks in use": held}


def _read_list(container: Container, oid: int) -> tuple[list[Region], int]:
    """Read a list of the cache: its region, and the blocks that it names."""
    name = f"cache list {oid}"
    kind = ObjectKind(grammar.ApfsFusion.FusionWbcListHead, int(KINDS.nx_fusion_wbc_list), name)
    found = objects_of(container).try_read(kind, oid)
    if found is None:
        return [], 0
    head, place = found
    first, stop, size = head.index_begin, head.index_end, ENTRY.width
    if not first <= stop <= head.index_max or LIST.width + stop * size > place.size_bytes:
        log = container.log.at(name, place.paddr, plus=LIST.index_begin.offset)
        log.add("structure-invalid", "warning", "entries that do not fit into the list")
        return place.regions("fusion-wbc-list", CACHE), 0
    data = np.frombuffer(container.blocks.read_object(place.paddr, place.size_bytes), np.uint8)
    starts = LIST.width + np.arange(first, stop, dtype=np.int64) * size
    entries = decode_columns(ENTRY, data, starts, (ENTRY.wbc_paddr, ENTRY.target_paddr, ENTRY.num_blocks))
    wrong = _outside(container.superblock.fusion_wbc, container.blocks.tier2_mark, entries)
    for start in starts[wrong].tolist():
        message = "an entry leads out of the cache, or not to the second device"
        container.log.at(name, place.paddr, plus=start).add("record-invalid", "warning", message)
    return place.regions("fusion-wbc-list", CACHE), int(entries["num_blocks"][~wrong].sum())


def _outside(cache: grammar.ApfsObject.Prange, mark: int, entries: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Return which entries are outside of the cache, or do not belong to a block of the second device."""
    base, room = cache.start_paddr, cache.num_blocks
    length = np.minimum(entries["num_blocks"], np.uint64(room + 1)).astype(np.int64)
    place = entries["wbc_paddr"]
    result: NDArray[np.bool_] = (place < base) | (place > base + room - length) | (entries["target_paddr"] < mark)
    return result


class ContainerParts(Struct, frozen=True):
    """All that was read of a container beside its volumes, and which blocks of a Fusion set are newest in its cache.

    What is lost are roots of trees, those of volumes that cannot be opened among them.
    """

    space: Space | None
    trees: list[NodeRows]
    regions: list[Region]
    details: Details = field(default_factory=dict)
    dirty: DirtyRuns = field(default_factory=DirtyRuns)
    lost: list[NodeRows] = field(default_factory=list)


def read_container_parts(container: Container) -> ContainerParts:
    """Read the space manager and locate every structure of the container."""
    space = None
    try:
        space = read_space(container.store, container.checkpoint)
    except FormatError as error:
        container.log.survive(error, code="spaceman-invalid")
    trees, regions, dirty, details = _rare_structures(container)
    trees = [container.omap.nodes, *container.area_trees, *(space.queues if space else []), *trees]
    regions = [*_superblock_regions(container), *(space.regions if space else []), *regions]
    lost = list(container.store.lost)
    regions = inside([*regions, *_checkpoint_regions(container, [*trees, *lost])], container.store)
    if space:
        regions = _mark_pending_blocks(regions, space) + _pending(space, regions)
    return ContainerParts(space, trees, regions, details, dirty, lost)


def _rare_structures(container: Container) -> tuple[list[NodeRows], list[Region], DirtyRuns, Details]:
    """Read what most containers do not have: trees, regions, runs of a cache, and numbers for a report."""
    details = read_reaper(container)
    report_unknown(container)
    evicted, moves = read_evictions(container)
    middle, dirty, cached = middle_tree(container)
    cache, held = write_cache(container)
    regions = [*read_jumpstart(container), *cache, *list_second_regions(container)]
    return [*evicted, *middle], regions, dirty, details | moves | cached | held


def _mark_pending_blocks(regions: list[Region], space: Space) -> list[Region]:
    """Spare blocks of the internal pool that wait in its free queue are shown as waiting."""
    pending = to_runs(space.pending)
    kept = [item for item in regions if item.type != "internal-pool"]
    pool = to_runs([item for item in regions if item.type == "internal-pool"])
    return kept + rest("internal-pool", "space manager", pool, pending)


def _pending(space: Space, regions: list[Region]) -> list[Region]:
    """Blocks that wait to become free, which hold nothing current."""
    taken = to_runs([item for item in regions if item.type != "internal-pool"])
    waiting = []
    for item in space.pending:
        runs = np.array([[item.paddr, item.num_blocks]], np.int64)
        waiting += rest(item.type, item.owner, runs, taken)
    return waiting


def _superblock_regions(container: Container) -> list[Region]:
    """Copies of the superblock, the object map's head, and single structures that the superblock names."""
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
    """Both checkpoint areas, block by block where something is known."""
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
    # Nodes of the space manager's free queues are ephemeral objects too; these are in the table of nodes already.
    objects = [region for region in objects if not len(arrays.intersect(to_runs([region]), held))]
    taken = arrays.union([held, to_runs(objects)])
    return regions + objects + rest("checkpoint-data", "unused", _form_ring(container.data_paddrs), taken)


def _form_ring(paddrs: NDArray[np.uint64]) -> NDArray[np.int64]:
    return arrays.runs_of(paddrs.astype(np.int64), np.ones(len(paddrs), np.int64))


def read_jumpstart(container: Container) -> list[Region]:
    """Read where firmware finds the driver that boots from a container, and locate it; mostly there is none."""
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
    """Read where a container that is being made smaller moves the blocks after its future end: nodes, and numbers.

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
    details["blocks to be moved"] = sum(_count_moved_blocks(container, batch) for batch in leaves)
    return [nodes], details


def _count_moved_blocks(container: Container, batch: ReadNodes) -> int:
    """Count the blocks of a batch of leaves that move; a run that leaves the container is a finding."""
    slots = batch.slots
    keys = batch.columns("key", EVICT_MAPPING_KEY, (EVICT_MAPPING_KEY.paddr,))
    found = batch.columns("val", EVICT_MAPPING_VAL, (EVICT_MAPPING_VAL.dst_paddr, EVICT_MAPPING_VAL.num_blocks))
    limit = np.uint64(container.device_blocks[0])
    length = np.minimum(found["num_blocks"], limit + np.uint64(1))
    outside = keys["paddr"] + length > limit
    # The reference's paddr_t is signed, here as in all structures; no negative address means anything.
    outside |= (found["dst_paddr"] < 0) | (found["dst_paddr"].astype(np.uint64) + length > limit)
    for row in np.flatnonzero(outside).tolist():
        at = int(slots.val_start[row]) + EVICT_MAPPING_VAL.dst_paddr.offset
        message = f"blocks from {keys['paddr'][row]} move to where no blocks are"
        batch.at(int(slots.node[row]), at).add("record-invalid", "warning", message)
    return int(length[~outside].sum())
