"""Check of the space manager: sizes, chunks, bitmaps, the internal pool, free queues, and the claims on blocks.

Apple File System Reference, Container and Space Manager.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.checks.apfs import objects
from layoutscope.checks.apfs.extents import mark_overlapping
from layoutscope.checks.apfs.subject import get_extent_nodes, list_queue_sources, locate_byte
from layoutscope.checks.engine import Table
from layoutscope.checks.fieldrules import ZERO, Want, at_most, check_fields, equals, item_offset, only_bits, rules
from layoutscope.filesystems.apfs.btree import read_levels, read_nodes
from layoutscope.filesystems.apfs.contents import account
from layoutscope.filesystems.apfs.spaceman import (
    BATCH_BITMAPS,
    MAX_BLOCKS,
    QUEUE_NAMES,
    decode_chunks,
    decode_queue_lengths,
    node_runs,
    to_runs,
)
from layoutscope.findings import MAX_CASES
from layoutscope.structs import arrays, records
from layoutscope.structs.bulk import decode_column, decode_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.checks.apfs.subject import Subject
    from layoutscope.checks.fieldrules import FieldRule
    from layoutscope.filesystems.apfs.btree import ReadNodes
    from layoutscope.filesystems.apfs.container import Container
    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.filesystems.apfs.spaceman import Space
    from layoutscope.findings import FindingLog
    from layoutscope.structs import grammar
    from layoutscope.structs.arrays import I64, Columns, Mask
    from layoutscope.structs.recordtypes import Field


INVALID: Final = "spaceman-invalid"
SPACE: Final = records.SPACEMAN_PHYS
CHUNK, CIB = records.CHUNK_INFO, records.CIB_HEAD
QUEUE_KEY: Final = records.FREE_QUEUE_KEY
_POOL_BITMAP: Final = "bitmap of the internal pool"


def locate_space_byte(subject: Subject, plus: int) -> FindingLog:
    """Bind the log to a byte of the space manager."""
    container = subject.container
    item = container.checkpoint.ephemerals[container.superblock.spaceman_oid]
    return subject.log.at("space manager", item.paddr, plus=plus)


def locate_field(subject: Subject, field: Field, *number: int) -> FindingLog:
    """Bind the log to a field of the space manager; a device or a free queue has a number."""
    return locate_space_byte(subject, item_offset(field, number))


def compare_numbers(subject: Subject, what: str, field: Field, expected: int, found: int, *number: int) -> None:
    """Compare a number of the space manager with the value derived from others."""
    if found != expected:
        log = locate_field(subject, field, *number)
        log.add(INVALID, "warning", f"{what} differs", expected=expected, found=found)


def check_sizes(subject: Subject, space: Space) -> None:
    """Check that superblock and space manager agree on the number of blocks and the derived numbers of chunks."""
    container, header = subject.container, space.header
    superblock = container.superblock
    num_blocks = superblock.num_blocks
    expected = sum(int(device.num_blocks) for device in header.devices)
    if num_blocks != expected:
        log, message = subject.reporting.at_superblock("num_blocks"), "counts other blocks than the space manager"
        log.add("superblock-differs", "warning", message, expected=expected, found=num_blocks)
    # A chunk is the range of one bitmap block, so its size follows from the block size.
    bits = container.blocks.block_size * 8
    compare_numbers(subject, "len_block", SPACE.len_block, container.blocks.block_size, header.len_block)
    per_chunk = SPACE.num_blocks_per_chunk
    compare_numbers(subject, "num_blocks_per_chunk", per_chunk, bits, header.num_blocks_per_chunk)
    for number, device in enumerate(header.devices):
        chunks = -(-int(device.num_blocks) // max(int(header.num_blocks_per_chunk), 1))
        cibs = -(-chunks // max(int(header.chunks_per_cib), 1))
        cabs = -(-cibs // max(int(header.cibs_per_cab), 1))
        for name, expected in (
            ("num_chunks", chunks),
            ("num_cibs", cibs),
            # The addresses of chunk-info blocks are in separate blocks only if they do not fit into the space manager
            # (reference, sm_cab_count).
            ("num_cabs", cabs if device.num_cabs else 0),
        ):
            what, field = f"{name} of the {QUEUE_NAMES[number + 1]}", getattr(SPACE.devices, name)
            compare_numbers(subject, what, field, expected, getattr(device, name), number)


def check_pool(subject: Subject, space: Space) -> None:
    """Check that the internal pool has room for three versions of its contents, and its bitmap a bit per block."""
    # Bitmaps are also copied on write, and cannot record their own allocation. So they are in a separate pool, which
    # has its own bitmap.
    header = space.header
    parts = sum(int(item.num_chunks) + int(item.num_cibs) + int(item.num_cabs) for item in header.devices)
    compare_numbers(subject, "size of the internal pool", SPACE.num_ip_blocks, 3 * parts, header.num_ip_blocks)
    needed = -(-int(header.num_ip_blocks) // (8 * subject.container.blocks.block_size))
    what, found = "size of the internal pool's bitmap", header.num_ip_bm_used
    compare_numbers(subject, what, SPACE.num_ip_bm_used, needed, found)


def check_chunks(subject: Subject, space: Space) -> None:
    """Check that chunks are contiguous, have their bitmap in the pool, and count their free blocks."""
    for number, device in enumerate(space.header.devices):
        if not device.num_blocks:
            continue
        chunks, heads = read_chunks(subject, number)
        places = np.arange(len(heads["paddr"]))
        _report_heads(subject, heads, "index", "chunk information has another place", places)
        _report_heads(subject, heads, "hdr.oid", "number is not the address", heads["paddr"])
        if len(chunks["cib"]):
            _check_geometry(subject, space, chunks, number)
            _check_free_counts(subject, space, chunks, number)


def _report_heads(subject: Subject, heads: Columns, path: str, message: str, expected: NDArray[Any]) -> None:
    """Report chunk-info blocks in which a field has an unexpected value."""

    def at(row: int, path: str) -> FindingLog:
        return subject.log.at("chunk information", int(heads["paddr"][row]), plus=CIB.offset_of(path))

    table, found = Table(at, INVALID, "warning"), heads[path]
    table.report(found != expected, message, path, expected=expected, found=found)


def _check_geometry(subject: Subject, space: Space, chunks: Columns, number: int) -> None:
    header = space.header
    per_chunk, total = int(header.num_blocks_per_chunk), min(int(header.devices[number].num_blocks), MAX_BLOCKS)
    start = np.arange(len(chunks["plus"]), dtype=np.int64) * per_chunk
    length = np.clip(total - start, 0, per_chunk)
    # Both forms of addresses on the second device are in use: relative to its start, with or without its mark.
    mark = np.uint64(subject.container.blocks.tier2_mark if number else 0)
    plain = (chunks["paddr"] & ~mark).astype(np.int64)
    bitmap = chunks["bitmap_paddr"].astype(np.int64)
    base = min(max(int(header.ip_base), 0), MAX_BLOCKS)
    pool = (bitmap >= base) & (bitmap < base + min(int(header.num_ip_blocks), MAX_BLOCKS))
    young = chunks["xid"] > np.uint64(subject.container.xid)
    _report_chunks(subject, chunks, "paddr", plain != start, "starts elsewhere", start)
    _report_chunks(
        subject, chunks, "num_blocks_and_flags", chunks["num_blocks"] != length, "is of another size", length
    )
    message = "has a bitmap outside of the internal pool"
    _report_chunks(subject, chunks, "bitmap_paddr", (bitmap != 0) & ~pool, message)
    _report_chunks(subject, chunks, "xid", young, "is younger than its container")


def _check_free_counts(subject: Subject, space: Space, chunks: Columns, number: int) -> None:
    """Count the free blocks of every bitmap, and add up the counts of the chunks."""
    blocks, length, bitmap = subject.container.blocks, chunks["num_blocks"].astype(np.int64), chunks["bitmap_paddr"]
    # A chunk without used blocks needs no bitmap: its address is 0.
    counted = length.copy()
    has_bitmap, is_readable = bitmap != 0, blocks.readable(bitmap, blocks.block_size)
    rows = np.flatnonzero(has_bitmap & is_readable)
    for start in range(0, len(rows), BATCH_BITMAPS):
        some = rows[start : start + BATCH_BITMAPS]
        chunk, _, free_runs = arrays.clear_runs(blocks.read(bitmap[some], blocks.block_size), length[some], "little")
        counted[some] = np.bincount(chunk, weights=free_runs, minlength=len(some)).astype(np.int64)
        # A damaged chunk may have more blocks than its bitmap has bits.
        counted[some] += np.maximum(length[some] - 8 * blocks.block_size, 0)
    free = chunks["num_free_blocks"].astype(np.int64)
    wrong = (counted != free) & ~(has_bitmap & ~is_readable)
    _report_chunks(subject, chunks, "num_free_and_flags", wrong, "counts other free blocks than its bitmap", counted)
    what, found = f"free blocks of the {QUEUE_NAMES[number + 1]}", int(space.header.devices[number].num_free_blocks)
    compare_numbers(subject, what, SPACE.devices.num_free_blocks, int(free.sum()), found, number)


def _report_chunks(
    subject: Subject, chunks: Columns, field: str, wrong: Mask, message: str, expected: object = ""
) -> None:
    """Report chunks, each at one of its fields."""
    place, paddr = chunks["plus"] + CHUNK.offset_of(field), chunks["cib_paddr"]
    at = lambda row, _: subject.log.at(f"chunk {row}", int(paddr[row]), plus=int(place[row]))  # noqa: E731
    # Two fields combine a number and flags.
    masked = {"num_blocks_and_flags": "num_blocks", "num_free_and_flags": "num_free_blocks"}
    found = chunks[masked.get(field, field)]
    Table(at, INVALID, "warning").report(wrong, message, field, expected=expected, found=found)


def read_chunks(subject: Subject, device: int) -> tuple[Columns, Columns]:
    """Decode the chunks of a device with the addresses of their blocks, and the headers of these blocks."""
    container, space = subject.container, subject.contents.space
    blocks = container.blocks
    owner, regions = QUEUE_NAMES[device + 1], space.regions if space is not None else []
    paddr = np.array([r.paddr for r in regions if (r.type, r.owner) == ("spaceman-cib", owner)], np.uint64)
    paddr = paddr[blocks.readable(paddr, blocks.block_size)]
    heads, chunks = decode_chunks(blocks, paddr)
    return chunks | {"cib_paddr": paddr[chunks["cib"]]}, heads


def check_pool_bitmap(subject: Subject, space: Space, paddrs: I64) -> None:
    """Check that the pool's bitmap marks exactly the blocks with chunks and bitmaps and those in its free queue."""
    blocks, base, count = subject.container.blocks, int(space.header.ip_base), int(space.header.num_ip_blocks)
    lost = ~blocks.readable(paddrs, blocks.block_size)
    for paddr in paddrs[lost].tolist():
        subject.log.at(_POOL_BITMAP, paddr).add(INVALID, "warning", "it cannot be read")
    if lost.any() or count > len(paddrs) * blocks.block_size * 8:
        return
    bits = np.unpackbits(blocks.read(paddrs, blocks.block_size).reshape(-1), count=count, bitorder="little")
    waiting = [item for item in space.pending if item.owner.startswith(QUEUE_NAMES[0])]
    used = np.zeros(count, np.uint8)
    for item in (*space.regions, *waiting):
        is_inside = base <= item.paddr < base + count
        if is_inside and item.type in ("spaceman-cab", "spaceman-cib", "spaceman-bitmap", "pending-free"):
            used[item.paddr - base : item.paddr - base + item.num_blocks] = 1
    wrong = np.flatnonzero(bits != used)
    if len(wrong):
        row, byte = divmod(int(wrong[0]) // 8, blocks.block_size)
        message = f"it calls used or free what is not, first block {base + wrong[0]}"
        log = subject.log.at(_POOL_BITMAP, int(paddrs[row]), plus=byte)
        log.add(INVALID, "warning", message, expected=f"{used.sum()} used", found=f"{bits.sum()} used")


DATAZONE, ZONES = records.DATAZONE, records.DATAZONE.zones
ZONE_RULES: Final = rules(
    INVALID,
    (ZONES.reserved, ZERO, objects.RESERVED),
    (ZONES.previous_boundary_index, at_most(7), "there is no such earlier place"),
)
"""Rules of the zones of a versioned space manager (spaceman_allocation_zone_info_phys_t, apfsck)."""


def check_zones(subject: Subject, paddr: int) -> None:
    """Check that unused zones and earlier boundaries are empty, and that used ones start before their end."""
    data, starts = objects.read_block(subject.container, paddr), np.array([SPACE.width])
    check_fields(DATAZONE, data, starts, ZONE_RULES, lambda _, byte: locate_space_byte(subject, byte))
    found = decode_columns(DATAZONE, data, starts, DATAZONE.fields())
    has_number, index = found[ZONES.zone_id][0] != 0, found[ZONES.previous_boundary_index][0]
    # Each zone has seven earlier boundaries.
    for part, is_used in ((ZONES.current, has_number), (ZONES.previous, (index != 0)[:, None])):
        start, stop = found[part.start_paddr][0], found[part.stop_paddr][0]
        # Some earlier boundaries may be unused; a used zone has blocks.
        is_set = np.ones(start.shape, bool) if part is ZONES.current else (start | stop) != 0
        for field, wrong, message in (
            (part.start_paddr, ~is_used & (start != 0), "blocks of a zone that is not used"),
            (part.stop_paddr, ~is_used & (stop != 0), "blocks of a zone that is not used"),
            (part.stop_paddr, is_used & (start >= stop) & is_set, "before the start of the zone"),
        ):
            for place in np.argwhere(wrong)[:1].tolist():
                log = locate_space_byte(subject, SPACE.width + item_offset(field, place))
                log.add(INVALID, "warning", f"{field}: {message}")


_WHOLE: Final = SPACE.width + DATAZONE.width
"""Size of a versioned space manager before its arrays, in bytes; its allocation zones follow the fixed part."""
_LIST_END, _VERSIONED = 0xFFFF, 1
_COUNT_BITS: Final = (1 << 20) - 1
"""Mask of a chunk's numbers of blocks and of free blocks."""


def compute_queue_limits(header: grammar.ApfsSpaceman.SpacemanPhys) -> list[int]:
    """Return the maximum numbers of nodes in the free queues of the internal pool and of each device."""
    limits = [3 * (sum(int(device.num_chunks) for device in header.devices) + 751) // 1127 - 1]
    # Each row: minimum size of the device in blocks, start, blocks per further node, base.
    steps = (1 << 20, 0, 1 << 63, 512), (1 << 18, 261281, 2272, 116), (0, 0, 4544, 1)
    for num_blocks in (int(device.num_blocks) for device in header.devices):
        _, start, step, first = next(row for row in steps if num_blocks >= row[0])
        limits.append(first + (num_blocks - start - (not start)) // step if num_blocks else 0)
    # Two nodes are impossible: splitting a root creates a third node.
    return [3 if limit == 2 else limit for limit in limits]


_SECOND: Final = (
    *(SPACE.devices.num_blocks, SPACE.devices.num_chunks, SPACE.devices.num_cibs, SPACE.devices.num_cabs),
    *(SPACE.devices.num_free_blocks, SPACE.free_queues.num_blocks, SPACE.free_queues.tree_oid),
    *(SPACE.free_queues.oldest_xid, SPACE.free_queues.tree_node_limit),
)


def make_space_rules(
    container: Container,
    header: grammar.ApfsSpaceman.SpacemanPhys,
    reserved: int | None,  # blocks that volumes reserve; None if not all volumes could be read
    oldest: list[int | None],  # the oldest transaction of each free queue; None if unknown
) -> tuple[FieldRule, ...]:
    """Return the rules of the space manager (spaceman_phys_t, apfsck)."""
    block_size, is_versioned = container.blocks.block_size, bool(int(header.flags) & _VERSIONED)
    room, full = block_size - CIB.width, "not as many as a block has room for"
    # Only a Fusion set has a second device.
    is_last_zero = Want(
        lambda found: (found == 0) | (np.arange(found.shape[1]) < found.shape[1] - 1),
        "0 of a second device, which there is not",
    )
    second = None if container.superblock.is_fusion else is_last_zero
    whole_reserve, part_of_reserve = (None, None) if reserved is None else (equals(reserved), at_most(reserved))
    # The limit for nodes of other sizes is not documented.
    limits = _expect_known(compute_queue_limits(header)) if block_size == 4096 else None
    first, queues = _WHOLE if is_versioned else SPACE.version.offset, SPACE.free_queues
    return rules(
        INVALID,
        (SPACE.hdr.xid, equals(container.xid), objects.EPHEMERAL),
        (SPACE.chunks_per_cib, equals(room // CHUNK.width), full),
        (SPACE.cibs_per_cab, equals(room // SPACE.num_ip_blocks.width), full),
        (SPACE.ip_bm_tx_multiplier, equals(16), "the pool's bitmap is kept in sixteen versions"),
        (SPACE.flags, only_bits(_VERSIONED), objects.UNKNOWN),
        (SPACE.num_fs_reserve_blocks, whole_reserve, "volumes reserve another number of blocks"),
        (SPACE.num_fs_reserve_alloced, part_of_reserve, "more of the reserve is in use than there is"),
        (SPACE.version, equals(1) if is_versioned else None, "the only version"),
        (SPACE.len_struct, equals(_WHOLE) if is_versioned else None, "another size than that of the structure"),
        (SPACE.ofs_ip_bm_xid, equals(first), "the first array follows the structure"),
        *((field, ZERO, objects.RESERVED) for field in (SPACE.devices.reserved, SPACE.devices.reserved2)),
        *((field, ZERO, objects.RESERVED) for field in (queues.pad16, queues.pad32, queues.reserved)),
        (queues.oldest_xid, _expect_known(oldest), "not the oldest transaction in the queue"),
        (queues.tree_node_limit, limits, "not the nodes that a queue of this size may have"),
        *((field, second, "there is no second device") for field in _SECOND),
    )


def _expect_known(expected: Sequence[int | None]) -> Want:
    """Require the known values among the items of a field."""
    known = np.array([item is not None for item in expected])
    values = np.array([item or 0 for item in expected], np.uint64)
    return Want(lambda found: (found == values) | ~known, " and ".join(map(str, expected)))


def check_space(subject: Subject, space: Space) -> None:
    """Check fields of the space manager against the block size, the volumes and the checkpoint."""
    container = subject.container
    item = container.checkpoint.ephemerals[container.superblock.spaceman_oid]
    volumes = [parts.state.superblock for parts in subject.contents.volumes if parts.view == "live"]
    is_known = len(volumes) == len([oid for oid in container.superblock.fs_oid if oid])
    reserved = sum(int(volume.num_reserve_blocks) for volume in volumes) if is_known else None
    header, queues = space.header, SPACE.free_queues
    for number, queue in enumerate(header.free_queues):
        if queue.tree_oid and queue.tree_oid not in container.checkpoint.ephemerals:
            name = f"{queues.tree_oid}[{number}]"
            log = locate_field(subject, queues.tree_oid, number).within(name)
            log.add(INVALID, "warning", f"{name}: the checkpoint holds no such object", found=queue.tree_oid)
        if queue.num_blocks and not queue.tree_oid:
            message = f"{queues.num_blocks}[{number}]: blocks of a queue that has no tree"
            log = locate_field(subject, queues.num_blocks, number)
            log.add(INVALID, "warning", message, expected=0, found=queue.num_blocks)
    oldest: list[int | None] = [0 if not queue.tree_oid else None for queue in header.free_queues]
    for number, source in list_queue_sources(subject):
        nodes, leaves = read_nodes(source)
        limit = int(header.free_queues[number].tree_node_limit)
        if len(nodes) > limit:
            # linux-apfs-rw 0.3.0 lets a queue exceed its limit during large deletions; apfsck reports that too.
            message = f"{queues.tree_node_limit}[{number}]: the queue has more nodes than it may have"
            log = locate_field(subject, queues.tree_node_limit, number)
            log.add(INVALID, "warning", message, expected=f"at least {len(nodes)}", found=limit)
        xids = [batch.column("key", QUEUE_KEY, QUEUE_KEY.xid) for batch in leaves if len(batch.slots)]
        oldest[number] = int(xids[0][0]) if xids else 0
    declared = make_space_rules(container, header, reserved, oldest)
    objects.check_objects(subject, "space manager", SPACE, [item.paddr], declared)
    if int(header.flags) & _VERSIONED:
        check_zones(subject, item.paddr)


def check_heads(subject: Subject, space: Space) -> None:
    """Check the headers of chunk-info blocks and of blocks with their addresses, and check chunks."""
    container = subject.container
    for region, head, kind in (
        ("spaceman-cib", CIB, objects.TYPES.spaceman_cib),
        ("spaceman-cab", records.CAB_HEAD, objects.TYPES.spaceman_cab),
    ):
        paddrs = [item.paddr for item in space.regions if item.type == region]
        header = objects.make_header_rules(head, "such blocks", kind | objects.STORAGE.physical, container.xid)
        objects.check_objects(subject, region, head, paddrs, rules(INVALID, *header))
    for number, device in enumerate(space.header.devices):
        if device.num_blocks:
            _check_chunks(subject, number)


def _check_chunks(subject: Subject, device: int) -> None:
    container = subject.container
    chunks, heads = read_chunks(subject, device)
    size, row = container.blocks.block_size, chunks["cib"]
    buffer = container.blocks.read(heads["paddr"], size).reshape(-1)
    xids = heads["hdr.xid"][row]
    is_past = Want(lambda found: (found > 0) & (found <= xids), "a transaction no younger than its block's")
    declared = rules(
        INVALID,
        (CHUNK.xid, is_past, objects.PAST),
        (CHUNK.num_blocks_and_flags, only_bits(_COUNT_BITS), objects.RESERVED),
        (CHUNK.num_free_and_flags, only_bits(_COUNT_BITS), objects.RESERVED),
    )
    paddr = chunks["cib_paddr"]
    at = lambda chunk, byte: subject.log.at(f"chunk {chunk}", int(paddr[chunk]), plus=byte % size)  # noqa: E731
    check_fields(CHUNK, buffer, row * size + chunks["plus"], declared, at)
    newest = np.zeros(len(heads["paddr"]), np.uint64)
    np.maximum.at(newest, row, chunks["xid"])
    # A chunk-info block is rewritten only when one of its chunks changes.
    newest = np.where(newest > 0, newest, heads["hdr.xid"])
    _report_heads(subject, heads, "hdr.xid", "hdr.xid: not that of its youngest chunk", newest)


def check_versions(subject: Subject, space: Space) -> None:
    """Check that the pool's bitmap is one of sixteen versions, and that the free list contains the others."""
    container, header = subject.container, space.header
    item = container.checkpoint.ephemerals[container.superblock.spaceman_oid]
    data = np.frombuffer(container.blocks.read_object(item.paddr, item.size_bytes), np.uint8)
    entry, index = records.XID_ENTRY, records.RING_INDEX
    used, count = int(header.num_ip_bm_used), int(header.num_ip_bm_blocks)
    xid_start, ring_start = int(header.ofs_ip_bm_xid), int(header.ofs_ip_bitmap)
    next_start = int(header.ofs_ip_bm_free_next)
    places = [
        (SPACE.ofs_ip_bm_xid, xid_start, used * entry.width),
        (SPACE.ofs_ip_bitmap, ring_start, used * index.width),
        (SPACE.ofs_ip_bm_free_next, next_start, count * index.width),
    ]
    for device in header.devices:
        length = 8 * int(device.num_cabs or device.num_cibs)
        places.append((SPACE.devices.ofs_addresses, int(device.ofs_addresses), length))
    # The arrays follow the structure within the object, aligned to eight bytes, without overlap.
    # In the first version, they are where later ones have their version number.
    fits, end = True, _WHOLE if int(header.flags) & _VERSIONED else SPACE.version.offset
    for field, start, length in sorted(places, key=lambda each: each[1]):
        if start % 8 or start < end or start + length > len(data):
            message = f"{field}: the array is not aligned, overlaps another, or leaves the space manager"
            locate_space_byte(subject, field.offset).add(INVALID, "warning", message, found=start)
            fits = False
        end = max(end, start + length)
    if not fits:
        return
    xids = decode_column(entry, data, xid_start + np.arange(used) * entry.width, entry.xid)
    ring, follows = (
        decode_column(index, data, start + np.arange(length) * index.width, index.index)
        for start, length in ((ring_start, used), (next_start, count))
    )
    for row in np.flatnonzero((xids == 0) | (xids > np.uint64(container.xid))).tolist():
        message = "the pool's bitmap is not of a transaction of this container's past"
        log = locate_space_byte(subject, xid_start + row * entry.width)
        log.add(INVALID, "warning", message, found=xids[row])
    _check_list(subject, header, ring, follows)
    for place in ring[ring < count].tolist():
        if follows[place] != _LIST_END:
            message = "a bitmap in use is followed by a free one"
            log = locate_space_byte(subject, next_start + place * index.width)
            log.add(INVALID, "warning", message, expected=_LIST_END, found=follows[place])
    check_pool_bitmap(subject, space, int(header.ip_bm_base) + ring.astype(np.int64))


def _check_list(subject: Subject, header: Any, ring: NDArray[np.uint16], follows: NDArray[np.uint16]) -> None:
    """Check that the list contains every block of the ring that is not in use, once, from head to tail."""
    listed: list[int] = []
    index = int(header.ip_bm_free_head)
    while index < len(follows) and index not in listed:
        listed.append(index)
        index = int(follows[index])
    free = set(range(len(follows))) - set(ring.tolist())
    if index != _LIST_END or set(listed) != free:
        message = "ip_bm_free_head: the list of free bitmaps is not that of all but those in use"
        sides = {"expected": f"{len(free)} bitmaps", "found": f"{len(listed)} bitmaps"}
        locate_field(subject, SPACE.ip_bm_free_head).add(INVALID, "warning", message, **sides)
    elif listed and listed[-1] != int(header.ip_bm_free_tail):
        message = "ip_bm_free_tail: not the last of the list of free bitmaps"
        log = locate_field(subject, SPACE.ip_bm_free_tail)
        log.add(INVALID, "warning", message, expected=listed[-1], found=int(header.ip_bm_free_tail))


def list_claims(subject: Subject) -> Iterator[tuple[str, I64]]:
    """Yield every structure with its blocks; nodes that several states of a volume share appear once."""
    block_size = subject.container.blocks.block_size
    for nodes in subject.contents.trees:
        yield f"{nodes.tree} tree of the container", node_runs([nodes], block_size)
    # These regions have no current contents.
    spare = ("internal-pool", "pending-free")
    for kind in dict.fromkeys(item.type for item in subject.contents.regions if item.type not in spare):
        yield kind, to_runs([item for item in subject.contents.regions if item.type == kind])
    for parts in subject.contents.volumes:
        volume, trees = f"of volume {parts.state.number}", [*parts.own_trees(), *parts.views.values()]
        for name in dict.fromkeys(nodes.tree for nodes in trees):
            yield f"{name} tree {volume}", node_runs([nodes for nodes in trees if nodes.tree == name], block_size)
        for number, tree in enumerate(parts.snapshot_extents):
            yield f"extent references of snapshot {number} {volume}", node_runs([tree.nodes], block_size)
        for kind in dict.fromkeys(item.type for item in parts.regions):
            yield f"{kind} {volume}", to_runs([item for item in parts.regions if item.type == kind])
        yield f"data {volume}", arrays.union([parts.data_runs, parts.file_runs])


def check_double_claims(subject: Subject) -> None:
    """Check that no block belongs to two structures."""
    named = [(name, runs) for name, runs in list_claims(subject) if len(runs)]
    table = np.concatenate([np.empty((0, 2), np.int64), *(runs for _, runs in named)])
    owner = np.repeat(np.arange(len(named)), [len(runs) for _, runs in named])
    order = np.argsort(table[:, 0], kind="stable")
    table, owner = table[order], owner[order]
    ends = table.sum(axis=1)
    furthest = np.maximum.accumulate(ends)
    wrong = np.flatnonzero(table[1:, 0] < furthest[:-1]) + 1
    for row in wrong[:MAX_CASES].tolist():
        start = int(table[row, 0])
        other = int(np.flatnonzero(ends[:row] > start)[-1])
        blocks = min(int(ends[row]), int(ends[other])) - start
        message = f"{blocks} blocks from block {start} belong to this and to: {named[owner[other]][0]}"
        subject.log.at(named[owner[row]][0], start).add("block-claimed-twice", "error", message)


def check_file_claims(subject: Subject) -> None:
    """Check that no file uses blocks of metadata, or unshared blocks of another file."""
    block_size = subject.container.blocks.block_size
    metadata = arrays.union([runs for name, runs in list_claims(subject) if not name.startswith("data ")])
    for parts in subject.contents.volumes:
        extents = parts.file_extents()
        if not len(extents["obj_id"]) or parts.is_locked:
            continue
        report = subject.reporter(get_extent_nodes(parts))
        # Block 0 contains the superblock; as the address of an extent it denotes a hole.
        real = extents["paddr"] != 0
        start = np.minimum(extents["paddr"], np.uint64(2**62)).astype(np.int64)
        length = -(-extents["len_extent"].astype(np.int64) // block_size)
        add = report(extents, "extent of data stream", "block-claimed-twice")
        add = partial(add, level="error", found=extents["paddr"])
        field = "val.file_extent_val.paddr"
        add(real & mark_overlapping(metadata, start, length), "it has blocks that metadata use", field)
        message = "it has blocks of another extent, and no reference says that they are shared"
        add(real & _find_double_claims(parts, start, length, real), message, field)


def _find_double_claims(parts: VolumeParts, start: I64, length: I64, real: Mask) -> Mask:
    """Mark extents that overlap another one in blocks with a reference count of 1."""
    rows = np.flatnonzero(real)
    rows = rows[np.argsort(start[rows], kind="stable")]
    furthest = np.maximum.accumulate(start[rows] + length[rows]) if len(rows) else rows
    twice = np.zeros(len(start), bool)
    later = np.flatnonzero(start[rows][1:] < furthest[:-1]) + 1
    twice[rows[later]] = True
    twice[rows[later - 1]] = True
    return twice & ~mark_overlapping(_find_shared_runs(parts), start, length)


def _find_shared_runs(parts: VolumeParts) -> I64:
    """Return runs of blocks with more than one reference, in one record or in those of several states."""
    shared = np.empty((0, 2), np.int64)
    known = shared
    for tree in (parts.extentref, *parts.snapshot_extents):
        physical = tree.get("extent")
        several = physical["refcnt"] > 1
        runs = arrays.runs_of(physical["obj_id"], physical["num_blocks"])
        again = arrays.intersect(known, runs)
        own = arrays.runs_of(physical["obj_id"][several], physical["num_blocks"][several])
        shared = arrays.union([shared, again, own])
        known = arrays.union([known, runs])
    return shared


def check_bitmaps(subject: Subject, _: Space) -> None:
    """Check that blocks in use are marked as used, and that blocks marked as used belong to a structure."""
    balance = account(subject.contents)
    _report_bits(subject, balance["claimed but free blocks"], "block-claimed-free", "used, but free in the bitmap")
    if subject.is_whole:
        _report_bits(
            subject, balance["unclaimed blocks"], "block-unclaimed", "used in the bitmap, but belong to nothing"
        )


def _report_bits(subject: Subject, runs: I64, code: str, message: str) -> None:
    """Report runs of blocks, each at the bitmap byte of its first block."""
    chunks = arrays.concatenate([read_chunks(subject, number)[0] for number in range(2 if len(runs) else 0)], {})
    for start, length in runs[:MAX_CASES].tolist():
        paddr, byte = _find_bit(chunks, start)
        log = subject.log.at(f"bitmap of block {start}", paddr, plus=byte)
        log.add(code, "warning", f"{length} blocks from block {start} are {message}")
    if len(runs) > MAX_CASES:
        more = f"{len(runs) - MAX_CASES} more runs of blocks are {message}"
        subject.log.at("bitmaps").add(code, "warning", more)


def _find_bit(chunks: Columns, paddr: int) -> tuple[int | None, int]:
    """Return the bitmap block and the byte in it that contain a block's bit, if the chunk of the block has a bitmap."""
    first = np.minimum(chunks["paddr"], np.uint64(2**62)).astype(np.int64)
    inside = (first <= paddr) & (paddr < first + chunks["num_blocks"].astype(np.int64)) & (chunks["bitmap_paddr"] != 0)
    for row in np.flatnonzero(inside)[:1].tolist():
        return int(chunks["bitmap_paddr"][row]), (paddr - int(first[row])) // 8
    return None, 0


def check_queues(subject: Subject, space: Space) -> None:
    """Check that free queues count their blocks, and that these are in the container and not in use."""
    claims = arrays.union([runs for _, runs in list_claims(subject)])
    for number, source in list_queue_sources(subject):
        queue = space.header.free_queues[number]
        what, found = f"number of blocks in free queue {number}", space.queued.get(number, 0)
        compare_numbers(subject, what, SPACE.free_queues.num_blocks, found, queue.num_blocks, number)
        for batch in read_levels(source):
            if not batch.level and len(batch.slots):
                _check_queued(subject, batch, claims, QUEUE_NAMES[number])


def _check_queued(subject: Subject, batch: ReadNodes, claims: I64, owner: str) -> None:
    """Compare the entries of a free queue with the blocks in use."""
    blocks = subject.container.blocks
    paddr = batch.column("key", QUEUE_KEY, QUEUE_KEY.paddr)
    length = np.minimum(decode_queue_lengths(batch), 2**40).astype(np.int64)
    outside = ~blocks.present(paddr, blocks.block_size)
    start = np.minimum(paddr, np.uint64(2**62)).astype(np.int64)
    used = ~outside & mark_overlapping(claims, start, length)
    for wrong, message in ((outside, "is outside"), (used, "is in use")):
        for row in np.flatnonzero(wrong)[:MAX_CASES].tolist():
            log = locate_byte(subject, batch, int(batch.slots.key_start[row]) + QUEUE_KEY.paddr.offset)
            log = replace(log, structure=f"free queue of the {owner}")
            log.add(INVALID, "warning", f"a block that waits to become free {message}", found=paddr[row])
