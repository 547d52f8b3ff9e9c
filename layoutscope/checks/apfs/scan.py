"""The comparisons of a scan: checks that need no second reading, each limited to its first case.

A scan must not load the other checks or the field rules. This module has the comparisons for superblocks and checkpoint
maps. Those for records are in the modules of inodes, names and extents (Apple File System Reference, Container and
Volumes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from layoutscope.checks.apfs import extents, inodes, snapshots
from layoutscope.checks.apfs.namehashes import compare_names
from layoutscope.checks.apfs.subject import open_subject
from layoutscope.filesystems.apfs.contents import DECLARED, inodes_by_kind
from layoutscope.filesystems.apfs.spaceman import to_runs
from layoutscope.filesystems.apfs.verify import decode_objects, object_header, report_damaged
from layoutscope.structs import arrays, grammar, records

if TYPE_CHECKING:
    from layoutscope.checks.apfs.subject import Subject
    from layoutscope.filesystems.apfs.contents import ContainerContents, VolumeParts
    from layoutscope.filesystems.apfs.spaceman import Space


def compare_contents(contents: ContainerContents, parts: VolumeParts | None) -> None:
    """Compare a container's own structures, or those of one volume; findings go to their logs."""
    log = contents.container.log if parts is None else parts.log
    subject = replace(open_subject(contents), log=log, most=1)
    if parts is None:
        check_numbers(subject)
        check_maps(subject)
        check_newer(subject)
        if subject.contents.space is not None:
            check_queue_counts(subject, subject.contents.space)
            check_space_blocks(subject)
        return
    check_identity(subject, parts)
    # The hash of a name is in the same record, so it can be checked even if other records are lost.
    compare_names(subject, parts, plain_alone=not log.has_errors)
    # Other findings would just follow from the missing records.
    if not (parts.is_locked or log.has_errors):
        check_counts(subject, parts)
        inodes.check_links(subject, parts)
        inodes.check_streams(subject, parts)
        inodes.check_attributes(subject, parts)
    if not (parts.is_locked or log.has_errors):
        extents.check_shape(subject, parts)
        if parts.extentref.count("extent"):
            extents.check_owners(subject, parts)
            extents.check_references(subject, parts)
        snapshots.check_snapshots(subject, parts)


def check_counts(_: Subject, parts: VolumeParts) -> None:
    """Compare the superblock's counts with the inodes and with the blocks that the volume uses."""
    superblock, inodes = parts.state.superblock, parts.fs.get("inode")
    if not len(inodes["obj_id"]):
        return
    for what, found in inodes_by_kind(inodes).items():
        _compare(parts, f"counts other {what} than the volume holds", found, DECLARED[what], is_loss_error=True)
    if parts.view == "live":
        # The copy of the superblock in a snapshot has the counts at the time of the snapshot.
        snapshots = len(parts.snapshots)
        _compare(parts, "counts other snapshots than the volume holds", snapshots, "num_snapshots", is_loss_error=True)
        # Superblocks and key bag belong to the container.
        foreign = to_runs([item for item in parts.regions if item.type in ("volume-superblock", "volume-keybag")])
        used = arrays.total(arrays.subtract(parts.claimed, foreign))
        _compare(parts, "counts other blocks than the volume uses", used, "num_alloced_blocks")
    last = int(inodes["obj_id"].max(initial=0))
    if last >= superblock.next_obj_id:
        _compare(parts, "gives a next object number that is taken", last + 1, "next_obj_id")


def _compare(parts: VolumeParts, message: str, found: int, field: str, *, is_loss_error: bool = False) -> None:
    """Compare a count of the superblock; a higher count is an error if it means that an object is missing."""
    declared = getattr(parts.state.superblock, field)
    if found != declared:
        is_lost = is_loss_error and declared > found
        message = f"{message}: {declared - found:,} are missing" if is_lost else message
        log = parts.state.at_superblock(field)
        log.add("count-differs", "error" if is_lost else "warning", message, expected=found, found=declared)


def check_identity(subject: Subject, parts: VolumeParts) -> None:
    """Compare the superblock with its slot in the container and with its own flags."""
    state = parts.state
    superblock, blocks = state.superblock, state.store.blocks
    roles = [int(role) for role in grammar.ApfsVolume.VolumeRole]
    encrypted = int(state.omap.is_encrypted.sum()) if superblock.is_unencrypted else 0
    odd = int((state.omap.size_bytes[~state.omap.is_deleted] % blocks.block_size != 0).sum())
    empty = int((state.omap.size_bytes[~state.omap.is_deleted] == 0).sum())
    role = superblock.role if superblock.role in roles else "a known role"
    for message, expected, found, field in (
        ("is in another slot", subject.contents.slots[state.number], superblock.fs_index, "fs_index"),
        ("is younger than its container", state.xid, max(superblock.hdr.xid, state.xid), "hdr.xid"),
        ("has an unknown role", role, superblock.role, "role"),
        ("is not encrypted, but its object map says encrypted", 0, encrypted, "fs_flags"),
        ("has an object map with impossible sizes", 0, odd + empty, "omap_oid"),
    ):
        if expected != found:
            state.at_superblock(field).add("superblock-differs", "warning", message, expected=expected, found=found)


def check_numbers(subject: Subject) -> None:
    """Check that the next transaction and object numbers are free."""
    container = subject.reporting
    # Ephemeral and virtual objects share one number sequence; the number of a physical object is its address.
    highest = max([*container.checkpoint.ephemerals, int(container.omap.oid.max(initial=0))])
    for field, last, message in (
        ("next_xid", container.xid, "the next transaction is not younger than this one"),
        ("next_oid", highest, "the next object number is taken"),
    ):
        found = getattr(container.superblock, field)
        if found <= last:
            log = container.at_superblock(field)
            log.add("superblock-differs", "warning", message, expected=f"more than {last}", found=found)


def check_maps(subject: Subject) -> None:
    """Check that mappings have the types of their objects, and that only the last map is marked as last."""
    container = subject.reporting
    blocks, paddrs = container.blocks, np.array(container.checkpoint.map_paddrs, np.uint64)
    if len(paddrs):
        kind = records.CHECKPOINT_MAP_HEAD
        heads = decode_objects(kind, blocks.read(paddrs, blocks.block_size), (kind.is_last,))
        if heads["is_last"].tolist() != [0] * (len(paddrs) - 1) + [1]:
            message = "the checkpoint's last map, and no other, must be marked as the last"
            container.log.at("checkpoint map", int(paddrs[-1])).add("checkpoint-invalid", "warning", message)
    for item in container.checkpoint.ephemerals.values():
        head = object_header(blocks.read_object(item.paddr, blocks.block_size), blocks.at(item.paddr))
        expected, found = (item.type, item.subtype), (int(head.type), int(head.subtype))
        if found != expected:
            log = container.log.at(f"ephemeral object {item.oid}", item.paddr)
            message = "the checkpoint map says another type"
            log.add("checkpoint-invalid", "warning", message, expected=expected, found=found)


def check_newer(subject: Subject) -> None:
    """Report a newer checkpoint than the one that was read, which is lost."""
    container = subject.reporting
    if container.younger is not None:
        xid, paddr, reason = container.younger
        message = f"transaction {xid} cannot be read: {reason}; {container.xid} is shown"
        log = container.log.at("checkpoint", paddr)
        log.add("checkpoint-invalid", "error", message, expected=xid, found=container.xid)


def check_queue_counts(subject: Subject, space: Space) -> None:
    """Check that free queues have as many blocks as they count, all of them inside the container."""
    container = subject.reporting
    log, code = container.log.at("space manager"), "spaceman-invalid"
    for number, queue in enumerate(space.header.free_queues):
        found = space.queued.get(number, 0)
        if found != queue.num_blocks:
            message = f"free queue {number} counts other blocks than it holds"
            log.add(code, "warning", message, expected=found, found=queue.num_blocks)
    limit = container.device_blocks[0]
    for item in space.pending:
        if item.paddr < container.blocks.tier2_mark and item.paddr + item.num_blocks > limit:
            log.add(code, "warning", f"block {item.paddr} waits to become free, but is outside")


def check_space_blocks(subject: Subject) -> None:
    """Check the checksums of chunk-info blocks and of the blocks with their addresses."""
    container = subject.container
    regions = [item for item in subject.contents.regions if item.type in ("spaceman-cib", "spaceman-cab")]
    paddrs = np.array([item.paddr for item in regions], np.uint64)
    readable = container.blocks.readable(paddrs, container.blocks.block_size)
    report_damaged(container.store, paddrs[readable], ["chunk information"] * int(readable.sum()))
