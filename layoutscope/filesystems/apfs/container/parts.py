"""What belongs to a container as a whole: checkpoint areas, object map, space manager and their like."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays import intervals
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.fusion import second_regions
from layoutscope.filesystems.apfs.container.fusioncache import middle_tree, write_cache
from layoutscope.filesystems.apfs.container.jumpstart import read_jumpstart
from layoutscope.filesystems.apfs.container.reaper import read_reaper, report_unknown
from layoutscope.filesystems.apfs.container.regions import Region, as_runs, inside, node_runs, rest, type_name
from layoutscope.filesystems.apfs.container.shrinking import read_evictions
from layoutscope.filesystems.apfs.container.spaceman import Space, read_space
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.store.nodes import TreeNodes


Details = dict[str, "str | int | float | bool"]


@dataclass(frozen=True, slots=True)
class ContainerParts:
    """All that was read of a container beside its volumes."""

    space: Space | None
    trees: list[TreeNodes]
    regions: list[Region]
    details: Details = field(default_factory=dict)


def read_container_parts(container: Container) -> ContainerParts:
    """Read the space manager and locate every structure of the container.

    Parameters
    ----------
    container : Container
        The container; its log is told what is wrong.
    """
    space = None
    try:
        space = read_space(container.store, container.checkpoint)
    except FormatError as error:
        container.log.survive(error, code="spaceman-invalid")
    trees, regions, details = _rare_structures(container)
    trees = [container.omap.nodes, *container.area_trees, *(space.queues if space else []), *trees]
    regions = [*_superblock_regions(container), *(space.regions if space else []), *regions]
    regions = inside([*regions, *_checkpoint_regions(container, trees)], container.store)
    if space:
        regions = _without_pending(regions, space) + _pending(space, regions)
    return ContainerParts(space, trees, regions, details)


def _rare_structures(container: Container) -> tuple[list[TreeNodes], list[Region], Details]:
    """Read what most containers do not have: trees, regions, and numbers for a report."""
    details = read_reaper(container)
    report_unknown(container)
    evicted, moves = read_evictions(container)
    middle, cached = middle_tree(container)
    cache, held = write_cache(container)
    regions = [*read_jumpstart(container), *cache, *second_regions(container)]
    return [*evicted, *middle], regions, details | moves | cached | held


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


def _checkpoint_regions(container: Container, trees: list[TreeNodes]) -> list[Region]:
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
    objects = [region for region in objects if not len(intervals.intersect(as_runs([region]), held))]
    taken = intervals.union([held, as_runs(objects)])
    return regions + objects + rest("checkpoint-data", "unused", _as_ring(container.data_paddrs), taken)


def _as_ring(paddrs: NDArray[np.uint64]) -> NDArray[np.int64]:
    return intervals.runs_of(paddrs.astype(np.int64), np.ones(len(paddrs), np.int64))
