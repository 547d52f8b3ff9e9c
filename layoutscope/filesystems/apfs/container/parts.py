"""What belongs to a container as a whole: checkpoint areas, object map, space manager and their like.

Apple File System Reference, Container, EFI Jumpstart, and nx_evict_mapping_tree_oid with nx_blocked_out_prange for a
container that is being made smaller.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays import intervals
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.fusion import middle_tree, second_regions, write_cache
from layoutscope.filesystems.apfs.container.reaper import read_reaper, report_unknown
from layoutscope.filesystems.apfs.container.regions import Details, Region, as_runs, inside, node_runs, rest, type_name
from layoutscope.filesystems.apfs.container.spaceman import Space, read_space
from layoutscope.filesystems.apfs.store.blocks import DirtyRuns
from layoutscope.filesystems.apfs.store.source import TreeSource
from layoutscope.filesystems.apfs.store.verify import read_object
from layoutscope.filesystems.apfs.store.walk import read_nodes
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import EFI_JUMPSTART, EVICT_MAPPING_KEY, EVICT_MAPPING_VAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.store.btree import ReadNodes
    from layoutscope.filesystems.apfs.store.nodes import NodeRows


@frozen
class ContainerParts:
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
        regions = _without_pending(regions, space) + _pending(space, regions)
    return ContainerParts(space, trees, regions, details, dirty, lost)


def _rare_structures(container: Container) -> tuple[list[NodeRows], list[Region], DirtyRuns, Details]:
    """Read what most containers do not have: trees, regions, runs of a cache, and numbers for a report."""
    details = read_reaper(container)
    report_unknown(container)
    evicted, moves = read_evictions(container)
    middle, dirty, cached = middle_tree(container)
    cache, held = write_cache(container)
    regions = [*read_jumpstart(container), *cache, *second_regions(container)]
    return [*evicted, *middle], regions, dirty, details | moves | cached | held


def _without_pending(regions: list[Region], space: Space) -> list[Region]:
    """Spare blocks of the internal pool that wait in its free queue are shown as waiting."""
    pending = as_runs(space.pending)
    kept = [item for item in regions if item.type != "internal-pool"]
    pool = as_runs([item for item in regions if item.type == "internal-pool"])
    return kept + rest("internal-pool", "space manager", pool, pending)


def _pending(space: Space, regions: list[Region]) -> list[Region]:
    """Blocks that wait to become free, where nothing current lies."""
    taken = as_runs([item for item in regions if item.type != "internal-pool"])
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
    regions += rest("checkpoint-descriptor", "unused", _as_ring(area.paddr), as_runs(regions))
    held = node_runs(trees, block_size)
    objects = [
        Region("checkpoint-data", type_name(item.type), item.paddr, item.size_bytes // block_size)
        for item in container.checkpoint.ephemerals.values()
    ]
    # Nodes of the space manager's free queues are ephemeral objects too; these are in the table of nodes already.
    objects = [region for region in objects if not len(intervals.intersect(as_runs([region]), held))]
    taken = intervals.union([held, as_runs(objects)])
    return regions + objects + rest("checkpoint-data", "unused", _as_ring(container.data_paddrs), taken)


def _as_ring(paddrs: NDArray[np.uint64]) -> NDArray[np.int64]:
    return intervals.runs_of(paddrs.astype(np.int64), np.ones(len(paddrs), np.int64))


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
    """Read where the blocks behind the future end of a container go that is made smaller: nodes, and numbers.

    Mostly there is none.
    """
    superblock, details = container.superblock, Details()
    if superblock.blocked_out.num_blocks:
        run = superblock.blocked_out
        details["blocked-out blocks"] = f"{run.num_blocks:,} from block {run.start_paddr:,}"
    oid = superblock.evict_mapping_tree_oid
    if not oid:
        return [], details
    nodes, leaves = read_nodes(TreeSource(container.store, "evict-mapping", oid, container.xid))
    details["blocks to be moved"] = sum(_moved(container, batch) for batch in leaves)
    return [nodes], details


def _moved(container: Container, batch: ReadNodes) -> int:
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
