"""Superblock and space manager: sizes that must agree, chunk by chunk.

Apple File System Reference, Container and Space Manager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.filesystems.apfs.check.subject import MOST_CASES
from layoutscope.filesystems.apfs.container.regions import MAX_BLOCKS
from layoutscope.filesystems.apfs.container.spaceman import BATCH_BITMAPS, QUEUE_NAMES
from layoutscope.ondisk.records import CHUNK_INFO, CIB_HEAD, SPACEMAN_DEVICE, SPACEMAN_FREE_QUEUE, SPACEMAN_PHYS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.container.spaceman import Space
    from layoutscope.findings import FindingLog
    from layoutscope.ondisk import grammar

INVALID: Final = "spaceman-invalid"
SPACEMAN: Final = SPACEMAN_PHYS
DEVICE: Final = SPACEMAN_DEVICE
QUEUE: Final = SPACEMAN_FREE_QUEUE
CHUNK: Final = CHUNK_INFO
CIB: Final = CIB_HEAD
POOL_FACTOR: Final = 3
"""The internal pool has room for three versions of every chunk-info block and bitmap."""
_POOL_BITMAP: Final = "bitmap of the internal pool"
_IN_POOL: Final = frozenset({"spaceman-cab", "spaceman-cib", "spaceman-bitmap", "pending-free"})


def spaceman_field(
    subject: Subject,
    path: str,
    *,
    device: int = -1,  # 0 for the main device, 1 for the second of a Fusion set; -1 if no device is meant
    # 0 for the free queue of the internal pool, 1 and 2 for those of the devices; -1 if no queue is meant
    queue: int = -1,
) -> FindingLog:
    """Bind the log to a field of the space manager, of one of its devices, or of a free queue."""
    container = subject.container
    item = container.checkpoint.ephemerals[container.superblock.spaceman_oid]
    plus = SPACEMAN.offset_of(path) if device < 0 and queue < 0 else 0
    if device >= 0:
        plus = SPACEMAN.devices.offset + device * DEVICE.width + DEVICE.offset_of(path)
    elif queue >= 0:
        plus = SPACEMAN.free_queues.offset + queue * QUEUE.width + QUEUE.offset_of(path)
    return subject.log.at("space manager", item.paddr, plus=plus)


def check_sizes(subject: Subject) -> None:
    """Superblock and space manager have as many blocks as each other, in as many chunks as that takes."""
    container, space = subject.container, subject.parts.space
    if space is None:
        return
    superblock, header = container.superblock, space.header
    found = superblock.num_blocks
    expected = sum(int(device.num_blocks) for device in header.devices)
    if found != expected:
        log, message = subject.reporting.at_superblock("num_blocks"), "counts other blocks than the space manager"
        log.add("superblock-differs", "warning", message, expected=expected, found=found)
    # A chunk is what one block of bitmap can tell of, so that its size follows from the block's.
    bits = container.blocks.block_size * 8
    for path, wanted in (("len_block", container.blocks.block_size), ("num_blocks_per_chunk", bits)):
        if getattr(header, path) != wanted:
            differs(spaceman_field(subject, path), path, wanted, getattr(header, path))
    for number, device in enumerate(header.devices):
        for path, wanted in _device_sizes(header, device):
            if getattr(device, path) != wanted:
                at = spaceman_field(subject, path, device=number)
                differs(at, f"{path} of the {QUEUE_NAMES[number + 1]}", wanted, getattr(device, path))


def _device_sizes(
    header: grammar.ApfsSpaceman.SpacemanPhys, device: grammar.ApfsSpaceman.SpacemanDevice
) -> Iterator[tuple[str, int]]:
    chunks = -(-int(device.num_blocks) // max(int(header.num_blocks_per_chunk), 1))
    cibs = -(-chunks // max(int(header.chunks_per_cib), 1))
    yield "num_chunks", chunks
    yield "num_cibs", cibs
    # Only where the addresses of all chunk-info blocks do not fit into the space manager do blocks of addresses hold
    # them (reference, sm_cab_count).
    if device.num_cabs:
        yield "num_cabs", -(-cibs // max(int(header.cibs_per_cab), 1))


def differs(log: FindingLog, what: str, expected: object, found: object) -> None:
    """Say that a number of the space manager is another."""
    log.add(INVALID, "warning", f"{what} differs", expected=expected, found=found)


def check_pool(subject: Subject) -> None:
    """The internal pool has room for three versions of everything in it, and its bitmap a bit for each block."""
    space = subject.parts.space
    if space is None:
        return
    # Bitmaps are written to new places like everything else, and could not say of themselves where: their pool lies
    # apart from what they speak of, and has a bitmap of its own.
    header = space.header
    parts = sum(int(item.num_chunks) + int(item.num_cibs) + int(item.num_cabs) for item in header.devices)
    if header.num_ip_blocks != POOL_FACTOR * parts:
        at = spaceman_field(subject, "num_ip_blocks")
        differs(at, "size of the internal pool", POOL_FACTOR * parts, header.num_ip_blocks)
    needed = -(-int(header.num_ip_blocks) // (8 * subject.container.blocks.block_size))
    if header.num_ip_bm_used != needed:
        at = spaceman_field(subject, "num_ip_bm_used")
        differs(at, "size of the internal pool's bitmap", needed, header.num_ip_bm_used)


def check_chunks(subject: Subject) -> None:
    """Chunks follow each other without gap, and each has a bitmap in the pool and counts its free blocks."""
    space = subject.parts.space
    for number, device in enumerate(space.header.devices if space is not None else ()):
        if not device.num_blocks:
            continue
        table, heads = chunk_table(subject, number)
        _check_heads(subject, heads)
        if table.columns:
            _check_geometry(subject, table, number)
            _check_free_counts(subject, table, number)


def _check_heads(subject: Subject, heads: dict[str, NDArray[Any]]) -> None:
    for path, expected in (("index", np.arange(len(heads["paddr"]))), ("hdr.oid", heads["paddr"])):
        for row in np.flatnonzero(heads[path] != expected)[:MOST_CASES].tolist():
            message = "chunk information has another place" if path == "index" else "number is not the address"
            log = subject.log.at("chunk information", int(heads["paddr"][row]), plus=CIB.offset_of(path))
            log.add(INVALID, "warning", message, expected=expected[row], found=heads[path][row])


def _check_geometry(subject: Subject, table: ChunkTable, number: int) -> None:
    space = subject.parts.space
    if space is None:
        return
    header, columns = space.header, table.columns
    per_chunk, total = int(header.num_blocks_per_chunk), min(int(header.devices[number].num_blocks), MAX_BLOCKS)
    start = np.arange(len(table.plus), dtype=np.int64) * per_chunk
    length = np.clip(total - start, 0, per_chunk)
    # Those of the second device count from its start, or bear its mark: both are in use.
    mark = np.uint64(subject.container.blocks.tier2_mark if number else 0)
    plain = (columns["paddr"] & ~mark).astype(np.int64)
    bitmap = columns["bitmap_paddr"].astype(np.int64)
    base = min(max(int(header.ip_base), 0), MAX_BLOCKS)
    pool = (bitmap >= base) & (bitmap < base + min(int(header.num_ip_blocks), MAX_BLOCKS))
    table.report(subject.log, "paddr", plain != start, "starts elsewhere", start)
    table.report(subject.log, "num_blocks_and_flags", columns["num_blocks"] != length, "is of another size", length)
    table.report(subject.log, "bitmap_paddr", (bitmap != 0) & ~pool, "has a bitmap outside of the internal pool")
    young = columns["xid"] > np.uint64(subject.container.xid)
    table.report(subject.log, "xid", young, "is younger than its container")


def _check_free_counts(subject: Subject, table: ChunkTable, number: int) -> None:
    """Count the free blocks of every bitmap, and sum up what the chunks count."""
    blocks, columns = subject.container.blocks, table.columns
    length, bitmap = columns["num_blocks"].astype(np.int64), columns["bitmap_paddr"]
    # A chunk of which nothing is used needs no bitmap: its address is 0.
    counted = length.copy()
    rows = np.flatnonzero((bitmap != 0) & blocks.readable(bitmap, blocks.block_size))
    for start in range(0, len(rows), BATCH_BITMAPS):
        some = rows[start : start + BATCH_BITMAPS]
        counted[some] = count_free(blocks.read(bitmap[some], blocks.block_size), length[some])
    free = columns["num_free_blocks"].astype(np.int64)
    wrong = counted != free
    wrong[(bitmap != 0) & ~blocks.readable(bitmap, blocks.block_size)] = False
    table.report(subject.log, "num_free_and_flags", wrong, "counts other free blocks than its bitmap", counted)
    space = subject.parts.space
    if space is not None and int(space.header.devices[number].num_free_blocks) != int(free.sum()):
        at = spaceman_field(subject, "num_free_blocks", device=number)
        found = space.header.devices[number].num_free_blocks
        what = f"free blocks of the {QUEUE_NAMES[number + 1]}"
        differs(at, what, int(free.sum()), found)


def count_free(bitmaps: NDArray[np.uint8], num_blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the clear bits among the first ones of each row."""
    bits = np.arange(8)
    ones = ((np.arange(256)[:, None] >> bits) & 1).sum(axis=1).astype(np.int64)
    used = np.concatenate([np.zeros((len(bitmaps), 1), np.int64), np.cumsum(ones[bitmaps], axis=1)], axis=1)
    whole, rest = np.divmod(np.minimum(num_blocks, bitmaps.shape[1] * 8), 8)
    rows = np.arange(len(bitmaps))
    last = bitmaps[rows, np.minimum(whole, bitmaps.shape[1] - 1)] & ((1 << rest) - 1).astype(np.uint8)
    result: NDArray[np.int64] = num_blocks - used[rows, whole] - ones[last]
    return result


class ChunkTable(NamedTuple):
    """Chunks of a device: columns by field, the block that holds each entry, and where it starts there in bytes."""

    columns: dict[str, NDArray[Any]]
    cib_paddr: NDArray[np.uint64]
    plus: NDArray[np.int64]

    def report(
        self,
        log: FindingLog,
        field: str,
        wrong: NDArray[np.bool_],
        message: str,
        expected: NDArray[np.int64] | None = None,
    ) -> None:
        """Report chunks at a field of theirs."""
        names = {"num_blocks_and_flags": "num_blocks", "num_free_and_flags": "num_free_blocks"}
        found = self.columns[names.get(field, field)]
        for row in np.flatnonzero(wrong)[:MOST_CASES].tolist():
            at = log.at(f"chunk {row}", int(self.cib_paddr[row]), plus=int(self.plus[row]) + CHUNK.offset_of(field))
            side = "" if expected is None else expected[row]
            at.add(INVALID, "warning", message, expected=side, found=found[row])


def chunk_table(subject: Subject, device: int) -> tuple[ChunkTable, dict[str, NDArray[Any]]]:
    """Decode the chunks of a device, and the heads of the blocks that hold them with their addresses."""
    container, space = subject.container, subject.parts.space
    blocks, decoder = container.blocks, container.decoder
    owner, regions = QUEUE_NAMES[device + 1], space.regions if space is not None else []
    paddr = np.array([r.paddr for r in regions if (r.type, r.owner) == ("spaceman-cib", owner)], np.uint64)
    paddr = paddr[blocks.readable(paddr, blocks.block_size)]
    buffer = blocks.read(paddr, blocks.block_size).reshape(-1)
    starts = np.arange(len(paddr), dtype=np.int64) * blocks.block_size
    heads = decoder.columns(CIB, buffer, starts, (CIB.hdr.oid, CIB.hdr.xid, CIB.index, CIB.num_chunks))
    heads["paddr"] = paddr
    room = (blocks.block_size - CIB.width) // CHUNK.width
    counts = np.minimum(heads["num_chunks"].astype(np.int64), room)
    block = np.repeat(np.arange(len(paddr)), counts)
    slot = np.arange(len(block)) - np.repeat(np.cumsum(counts) - counts, counts)
    within = CIB.width + slot * CHUNK.width
    names = (CHUNK.xid, CHUNK.paddr, CHUNK.num_blocks, CHUNK.num_free_blocks, CHUNK.bitmap_paddr)
    columns = decoder.columns(CHUNK, buffer, starts[block] + within, names) if len(block) else {}
    return ChunkTable(columns, paddr[block], within), heads


def check_pool_bitmap(subject: Subject, space: Space, paddrs: NDArray[np.int64]) -> None:
    """The pool's bitmap calls used what holds chunks and bitmaps or waits in its free queue, and nothing else."""
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
        if item.type in _IN_POOL and base <= item.paddr < base + count:
            used[item.paddr - base : item.paddr - base + item.num_blocks] = 1
    wrong = np.flatnonzero(bits != used)
    if len(wrong):
        row, byte = divmod(int(wrong[0]) // 8, blocks.block_size)
        message = f"it calls used or free what is not, first block {base + wrong[0]}"
        log = subject.log.at(_POOL_BITMAP, int(paddrs[row]), plus=byte)
        log.add(INVALID, "warning", message, expected=f"{used.sum()} used", found=f"{bits.sum()} used")
