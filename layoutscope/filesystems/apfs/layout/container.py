"""What belongs to a container as a whole, in tables: checkpoint areas, object map, space manager and their like.

Apple File System Reference, Container and Fusion. Of the second device of a Fusion set alone, that is its copy of the
superblock, and nodes that a sweep finds on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays import intervals
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.container import find_superblock, uuid_text
from layoutscope.filesystems.apfs.container.regions import Region, as_runs, from_runs
from layoutscope.filesystems.apfs.layout.facts import Summary, container_facts, container_features, volume_groups
from layoutscope.filesystems.apfs.layout.nodes import found_once, nodes_table, with_stale
from layoutscope.filesystems.apfs.layout.regions import free_table, regions_table
from layoutscope.filesystems.apfs.store.blocks import Blocks
from layoutscope.filesystems.apfs.store.sweep import sweep
from layoutscope.filesystems.apfs.volume.accounting import NO_RUNS, Account
from layoutscope.image.source import Window
from layoutscope.ondisk.decoder import BULK
from layoutscope.tables import VolumeFacts, VolumeLayout, build_table, findings_table
from layoutscope.tables.table import condition_details

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Half
    from layoutscope.filesystems.apfs.volume.parts import ContainerContents
    from layoutscope.findings import FindingLog
    from layoutscope.ondisk.grammar import ApfsContainer


def build_container_layout(
    contents: ContainerContents, balance_of: Account, stack: tuple[str, ...], view: str
) -> VolumeLayout:
    """Put what belongs to the container into tables; ``volume`` is null in them."""
    container, parts = contents.container, contents.parts
    blocks = container.blocks
    is_known = parts.space is not None and parts.space.is_free_known
    unclaimed = from_runs("unclaimed", "space manager", balance_of.unclaimed) if is_known else []
    trees = [*parts.trees, *found_once(parts.lost, parts.trees)]
    nodes = nodes_table(trees, blocks, None, [np.zeros(len(tree), np.int64) for tree in trees])
    sizes = nodes["size_bytes"].data
    read = int(sizes[nodes["condition"].equals("sound")].sum())
    known = int(sizes.sum()) + blocks.block_size * ((parts.space is None) + (not len(container.omap.nodes)))
    waiting = intervals.total(as_runs(parts.space.pending)) if parts.space else 0
    details = (
        volume_groups([item.state for item in contents.volumes])
        | parts.details
        | (balance_of.details() if is_known else {"free space": "unknown"})
        | {"pending-free blocks": waiting}
        | condition_details(nodes)
    )
    return VolumeLayout(
        facts=container_facts(container, Summary(stack, view, parts.trees, details, known, read)),
        nodes=nodes,
        node_fragments=build_table("node_fragments", {}),
        regions=regions_table([*parts.regions, *unclaimed], blocks, None),
        extents=build_table("extents", {}),
        entries=build_table("entries", {}),
        free=free_table(balance_of.free if is_known else NO_RUNS, blocks, None),
        findings=findings_table(container.log.findings),
    )


def second_half(
    half: Half,  # the image, and where the container starts there, in bytes
    stack: tuple[str, ...],
    log: FindingLog,
    *,
    sweeps: bool = False,
) -> VolumeLayout | None:
    """Make a layout of what can be told from the second device alone; None if the image is no such device.

    That is what its copy of the superblock says, and, if it is swept, the nodes that lie on it.
    """
    source, image_offset = half
    try:
        superblock = find_superblock(source, image_offset, log)
    except FormatError:
        return None
    if not superblock.is_fusion or superblock.is_fusion_main:
        return None
    message = "this is the second device of a Fusion set; its main device, with all checkpoints, was not given"
    log.at("container superblock", image_offset).add("fusion-half", "error", message)
    size = source.size_bytes - image_offset
    blocks = Blocks((Window(source, image_offset, size),), (image_offset,), superblock.len_block)
    empty = {name: build_table(name, {}) for name in ("nodes", "node_fragments", "extents", "entries", "free")}
    own = regions_table([Region("container-superblock", "copy in block 0", 0)], blocks, None)
    facts = _half_facts(superblock, image_offset, size, stack)
    layout = VolumeLayout(facts=facts, regions=own, findings=findings_table(log.findings), **empty)
    return with_stale(blocks, sweep(blocks, BULK), layout, [])[0] if sweeps else layout


def _half_facts(
    superblock: ApfsContainer.NxSuperblock, image_offset: int, size_bytes: int, stack: tuple[str, ...]
) -> VolumeFacts:
    """Describe the second device by its copy of the superblock."""
    return VolumeFacts(
        filesystem="apfs",
        variant="APFS container",
        volume=None,
        name="",
        uuid=uuid_text(bytes(superblock.uuid)),
        stack=stack,
        image_offset=image_offset,
        size_bytes=size_bytes,
        block_size_bytes=superblock.len_block,
        case_sensitive=False,
        stamp=superblock.hdr.xid,
        num_files=0,
        num_directories=0,
        features=container_features(superblock),
        details={
            "fusion device": "second",
            "fusion set": uuid_text(bytes(superblock.fusion_uuid)),
            "volumes": sum(bool(oid) for oid in superblock.fs_oid),
            "most volumes": superblock.max_file_systems,
            "blocks of both devices": superblock.num_blocks,
            "next oid": superblock.next_oid,
        },
    )
