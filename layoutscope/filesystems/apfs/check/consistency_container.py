"""Contradictions in what belongs to a container: superblock, checkpoint, space manager.

Apple File System Reference, Container and Space Manager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.filesystems.apfs.store.verify import object_header, report_damaged
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import CHECKPOINT_MAP_HEAD

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.container.parts import ContainerParts
    from layoutscope.filesystems.apfs.container.spaceman import Space


def check_container(container: Container, parts: ContainerParts) -> None:
    """Run all checks of a container; findings go to its own log."""
    check_numbers(container)
    check_maps(container)
    check_newer(container)
    if parts.space is not None:
        check_queues(container, parts.space)
        check_space_blocks(container, parts)


def check_numbers(container: Container) -> None:
    """The next transaction and object number are not taken."""
    superblock, code = container.superblock, "superblock-differs"
    if superblock.next_xid <= container.xid:
        log, expected = container.at_superblock("next_xid"), f"more than {container.xid}"
        message = "the next transaction is not younger than this one"
        log.add(code, "warning", message, expected=expected, found=superblock.next_xid)
    highest = max([*container.checkpoint.ephemerals, int(container.omap.oid.max(initial=0))])
    if superblock.next_oid <= highest:
        log, expected = container.at_superblock("next_oid"), f"more than {highest}"
        log.add(code, "warning", "the next object number is taken", expected=expected, found=superblock.next_oid)


def check_maps(container: Container) -> None:
    """Mappings say what lies where they lead, and the last map of a checkpoint, and no other, says that it is."""
    blocks, paddrs = container.blocks, np.array(container.checkpoint.map_paddrs, np.uint64)
    if len(paddrs):
        data = blocks.read(paddrs, blocks.block_size).reshape(-1)
        starts = np.arange(len(paddrs), dtype=np.int64) * blocks.block_size
        heads = container.decoder.columns(CHECKPOINT_MAP_HEAD, data, starts, (CHECKPOINT_MAP_HEAD.is_last,))
        if heads["is_last"].tolist() != [0] * (len(paddrs) - 1) + [1]:
            message = "the checkpoint's last map, and no other, must be marked as the last"
            container.log.at("checkpoint map", int(paddrs[-1])).add("checkpoint-invalid", "warning", message)
    for item in container.checkpoint.ephemerals.values():
        head = object_header(blocks.read_object(item.paddr, blocks.block_size), blocks.at(item.paddr))
        wanted, found = (item.type, item.subtype), (int(head.type), int(head.subtype))
        if found != wanted:
            log = container.log.at(f"ephemeral object {item.oid}", item.paddr)
            message = "the checkpoint map says another type"
            log.add("checkpoint-invalid", "warning", message, expected=wanted, found=found)


def check_newer(container: Container) -> None:
    """A damaged superblock in the ring that is younger than the one in use means that a state was lost."""
    area = container.area
    kind = int(grammar.ApfsObject.ObjectType.nx_superblock)
    lost = (area.kind == 0) & (area.claimed == kind) & (area.xid > np.uint64(container.xid))
    for paddr, xid in zip(area.paddr[lost].tolist(), area.xid[lost].tolist(), strict=True):
        message = f"superblock of transaction {xid} is damaged; an older one is used"
        container.log.at("container superblock", paddr).add("checkpoint-invalid", "warning", message)


def check_queues(container: Container, space: Space) -> None:
    """Each free queue holds as many blocks as it counts, all of them inside the container."""
    log, code = container.log.at("space manager"), "spaceman-invalid"
    for number, queue in enumerate(space.header.free_queues):
        found = space.queued.get(number, 0)
        if found != queue.num_blocks:
            message = f"free queue {number} counts other blocks than it holds"
            log.add(code, "warning", message, expected=found, found=queue.num_blocks)
    limit = container.device_blocks[0]
    for item in space.pending:
        if item.paddr < container.blocks.tier2_mark and item.paddr + item.num_blocks > limit:
            log.add(code, "warning", f"block {item.paddr} waits to become free, but lies outside")


def check_space_blocks(container: Container, parts: ContainerParts) -> None:
    """Checksums of chunk-info blocks and of blocks with their addresses."""
    wanted = [item for item in parts.regions if item.type in ("spaceman-cib", "spaceman-cab")]
    paddrs = np.array([item.paddr for item in wanted], np.uint64)
    readable = container.blocks.readable(paddrs, container.blocks.block_size)
    report_damaged(container.store, paddrs[readable], "chunk information")
