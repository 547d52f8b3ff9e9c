"""Contradictions in what belongs to a container: superblock, checkpoint, space manager.

Apple File System Reference, Container and Space Manager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.filesystems.apfs.store.verify import damaged_objects, object_header
from layoutscope.findings import Finding
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import CHECKPOINT_MAP_HEAD, NX_SUPERBLOCK

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.container.parts import ContainerParts


def check_container(container: Container, parts: ContainerParts) -> None:
    """Run all checks of a container; findings go to its own list."""
    check_numbers(container, parts.findings)
    check_maps(container, parts.findings)
    check_newer(container, parts.findings)
    if parts.space is not None:
        check_queues(container, parts)
        check_space_blocks(container, parts)


def _differs(
    container: Container, findings: list[Finding], message: str, expected: object, found: object, field: str
) -> None:
    where = container.blocks.at(container.checkpoint.paddr) + NX_SUPERBLOCK.offset_of(field)
    structure = "container superblock"
    findings.append(Finding("superblock-differs", "warning", structure, where, message, str(expected), str(found)))


def check_numbers(container: Container, findings: list[Finding]) -> None:
    """The next transaction and object number are not taken."""
    superblock = container.superblock
    if superblock.next_xid <= container.xid:
        message = "the next transaction is not younger than this one"
        _differs(container, findings, message, f"more than {container.xid}", superblock.next_xid, "next_xid")
    used = [*container.checkpoint.ephemerals, int(container.omap.oid.max(initial=0))]
    if superblock.next_oid <= max(used):
        message = "the next object number is taken"
        _differs(container, findings, message, f"more than {max(used)}", superblock.next_oid, "next_oid")


def check_maps(container: Container, findings: list[Finding]) -> None:
    """Mappings say what lies where they lead, and the last map of a checkpoint, and no other, says that it is."""
    blocks, paddrs = container.blocks, np.array(container.checkpoint.map_paddrs, np.uint64)
    if len(paddrs):
        data = blocks.read(paddrs, blocks.block_size).reshape(-1)
        starts = np.arange(len(paddrs), dtype=np.int64) * blocks.block_size
        heads = container.decoder.columns(CHECKPOINT_MAP_HEAD, data, starts, (CHECKPOINT_MAP_HEAD.is_last,))
        if heads["is_last"].tolist() != [0] * (len(paddrs) - 1) + [1]:
            message = "the checkpoint's last map, and no other, must be marked as the last"
            where = blocks.at(int(paddrs[-1]))
            findings.append(Finding("checkpoint-invalid", "warning", "checkpoint map", where, message))
    for item in container.checkpoint.ephemerals.values():
        data = np.frombuffer(blocks.read_object(item.paddr, blocks.block_size), np.uint8)
        head = object_header(data.tobytes(), blocks.at(item.paddr))
        found = head.type, head.subtype
        if found != (item.type, item.subtype):
            name, message = f"ephemeral object {item.oid}", "the checkpoint map says another type"
            where = blocks.at(item.paddr)
            sides = str((item.type, item.subtype)), str(found)
            findings.append(Finding("checkpoint-invalid", "warning", name, where, message, *sides))


def check_newer(container: Container, findings: list[Finding]) -> None:
    """A damaged superblock in the ring that is younger than the one in use means that a state was lost."""
    area = container.area
    kind = int(grammar.ApfsObject.ObjectType.nx_superblock)
    lost = (area.kind == 0) & (area.claimed == kind) & (area.xid > np.uint64(container.xid))
    for paddr, xid in zip(area.paddr[lost].tolist(), area.xid[lost].tolist(), strict=True):
        message = f"superblock of transaction {xid} is damaged; an older one is used"
        where = container.blocks.at(paddr)
        findings.append(Finding("checkpoint-invalid", "warning", "container superblock", where, message))


def check_queues(container: Container, parts: ContainerParts) -> None:
    """Each free queue holds as many blocks as it counts, all of them inside the container."""
    if parts.space is None:
        return
    for number, queue in enumerate(parts.space.header.free_queues):
        found = parts.space.queued.get(number, 0)
        if found != queue.num_blocks:
            message = f"free queue {number} counts other blocks than it holds"
            sides = str(found), str(queue.num_blocks)
            parts.findings.append(Finding("spaceman-invalid", "warning", "space manager", None, message, *sides))
    limit = container.superblock.block_count
    for item in parts.space.pending:
        if item.paddr < container.blocks.tier2_mark and item.paddr + item.num_blocks > limit:
            message = f"block {item.paddr} waits to become free, but lies outside"
            parts.findings.append(Finding("spaceman-invalid", "warning", "space manager", None, message))


def check_space_blocks(container: Container, parts: ContainerParts) -> None:
    """Checksums of chunk-info blocks and of blocks with their addresses."""
    wanted = [item for item in parts.regions if item.type in ("spaceman-cib", "spaceman-cab")]
    paddrs = np.array([item.paddr for item in wanted], np.uint64)
    readable = container.blocks.readable(paddrs, container.blocks.block_size)
    parts.findings.extend(damaged_objects(container.blocks, container.decoder, paddrs[readable], "chunk information"))
