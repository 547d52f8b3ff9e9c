"""The space manager: free blocks, and the locations of its own structures.

Apple File System Reference, Space Manager. It is an ephemeral object. The addresses of chunk-info blocks (or of blocks
with such addresses) follow its fixed part. Each entry of a chunk-info block gives the bitmap block of one chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.btree import read_nodes
from layoutscope.filesystems.apfs.source import TreeSource
from layoutscope.structs import arrays, grammar
from layoutscope.structs.arrays import clear_runs, ordinals, owners
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.records import BLOCK_ADDRESS, CAB_HEAD, CHUNK_INFO, CIB_HEAD, FREE_QUEUE_KEY, FREE_QUEUE_VAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.blocks import Blocks
    from layoutscope.filesystems.apfs.btree import ReadNodes
    from layoutscope.filesystems.apfs.checkpoint import Checkpoint
    from layoutscope.filesystems.apfs.nodes import NodeRows
    from layoutscope.filesystems.apfs.source import Store
    from layoutscope.structs.grammar import ApfsSpaceman


MAX_BLOCKS: Final = 2**44
"""No device is larger: 2**56 bytes in the smallest blocks."""

Details = dict[str, "str | int | float | bool"]
"""Facts for reports, by name."""


class Region(NamedTuple):
    """A run of blocks of one type."""

    type: str
    owner: str
    paddr: int
    num_blocks: int = 1


def type_name(kind: int) -> str:
    """Return the name of an object type, for regions."""
    return grammar.member_name(grammar.ApfsObject.ObjectType, kind).replace("_", "-") or f"type {kind:#x}"


def inside(regions: Sequence[Region], store: Store) -> list[Region]:
    """Drop regions that are outside of every possible device: their addresses are damaged."""
    kept, mark = [], store.blocks.tier2_mark
    for item in regions:
        plain = item.paddr - mark if item.paddr >= mark else item.paddr
        if plain >= 0 and item.num_blocks > 0 and plain + item.num_blocks <= MAX_BLOCKS:
            kept.append(item)
        else:
            message = f"impossible address: block {item.paddr}, {item.num_blocks} blocks"
            store.log.at(item.type).add("structure-invalid", "error", message)
    return kept


def to_runs(regions: Sequence[Region]) -> NDArray[np.int64]:
    """Return the blocks of regions as a set."""
    table = np.array([(item.paddr, item.num_blocks) for item in regions], np.int64).reshape(-1, 2)
    return arrays.runs_of(table[:, 0], table[:, 1])


def rest(
    region_type: str,
    owner: str,
    runs: NDArray[np.int64],  # first block and number of blocks of each
    taken: NDArray[np.int64],  # blocks of others
) -> list[Region]:
    """Make regions of the blocks in some runs that are not taken."""
    return [Region(region_type, owner, start, length) for start, length in arrays.subtract(runs, taken).tolist()]


def node_runs(trees: Sequence[NodeRows], block_size: int) -> NDArray[np.int64]:
    """Return the blocks of the nodes of trees."""
    parts = [arrays.runs_of(nodes.paddr, nodes.size_bytes // block_size) for nodes in trees if len(nodes)]
    return arrays.union(parts)


BATCH_BITMAPS: Final = 2048
QUEUE_NAMES: Final = ("internal pool", "main device", "second device")


class Space(Struct, frozen=True):
    """Contents of the space manager."""

    header: ApfsSpaceman.SpacemanPhys  # its fixed part
    free: NDArray[np.int64]  # free runs of blocks, of both devices
    regions: list[Region]  # its own structures outside the checkpoint areas
    pending: list[Region]  # blocks that become free when older checkpoints are discarded
    queues: list[NodeRows]  # trees of the free queues
    queued: dict[int, int]  # number of blocks in each queue, by the queue's number
    # whether the free blocks of every bitmap match the counts elsewhere: a bitmap has no checksum
    is_free_known: bool = True


def device_blocks(store: Store, checkpoint: Checkpoint) -> tuple[int, ...]:
    """Return the number of blocks of each device of a container.

    The superblock of a Fusion set counts the blocks of both devices together; the space manager counts them separately.
    If the space manager cannot be read, the blocks that the second image does not hold belong to the main device.

    The main device is first; only a Fusion set has a second one.
    """
    superblock, blocks = checkpoint.superblock, store.blocks
    total = int(superblock.num_blocks)
    if not superblock.is_fusion:
        return (total,)
    try:
        _, header, _ = _read_header(store, checkpoint)
    except FormatError:  # read_space reports it
        present = [source.size_bytes // blocks.block_size if source else 0 for source in blocks.sources]
        second = present[1] if len(present) > 1 else max(total - present[0], 0)
        return total - second, second
    return tuple(int(device.num_blocks) for device in header.devices)


def read_space(store: Store, checkpoint: Checkpoint) -> Space:
    """Read the space manager of a checkpoint."""
    paddr, header, array = _read_header(store, checkpoint)
    regions, free, agreeing = [], [], []
    for number, device in enumerate(header.devices):
        if device.num_blocks:
            found, runs, agrees = _read_device(store, paddr, array, device, number)
            regions += found
            free.append(runs)
            agreeing.append(agrees)
    regions = inside(regions, store)
    regions += _internal_pool(header, regions)
    pending: list[Region] = []
    queues: list[NodeRows] = []
    queued: dict[int, int] = {}
    for number, queue in enumerate(header.free_queues):
        source = queue_source(store, checkpoint, queue.tree_oid)
        if source is None:
            continue
        nodes, leaves = read_nodes(source)
        queues.append(nodes)
        queued[number] = 0
        for batch in leaves:
            keys = batch.columns("key", FREE_QUEUE_KEY, (FREE_QUEUE_KEY.xid, FREE_QUEUE_KEY.paddr))
            lengths = decode_queue_lengths(batch).astype(np.int64).tolist()
            for xid, start, length in zip(keys["xid"].tolist(), keys["paddr"].tolist(), lengths, strict=True):
                pending.append(Region("pending-free", f"{QUEUE_NAMES[number]}, freed by xid {xid}", start, length))
            queued[number] += sum(lengths)
    return Space(header, arrays.union(free), regions, inside(pending, store), queues, queued, all(agreeing))


def _read_header(store: Store, checkpoint: Checkpoint) -> tuple[int, ApfsSpaceman.SpacemanPhys, NDArray[np.uint8]]:
    """Read the ephemeral object; return its address, its fixed part, and all of its bytes."""
    blocks, item = store.blocks, checkpoint.ephemerals.get(checkpoint.superblock.spaceman_oid)
    if item is None:
        raise FormatError(
            "the checkpoint does not hold it", structure="space manager", image_offset=blocks.at(checkpoint.paddr)
        )
    data = blocks.read_object(item.paddr, item.size_bytes)
    header = grammar.parse(
        grammar.ApfsSpaceman.SpacemanPhys, data, structure="space manager", image_offset=blocks.at(item.paddr)
    )
    # The header gives the offsets of the arrays of addresses, ring positions and transactions. A versioned space
    # manager has its allocation zones, 2,176 bytes, between the header and these arrays (reference, p. 161 and 162).
    return item.paddr, header, np.frombuffer(data, np.uint8)


def _addresses(data: NDArray[np.uint8], start: int, count: int, image_offset: int) -> NDArray[np.uint64]:
    """Decode an array of block addresses in an object at an image offset."""
    size = BLOCK_ADDRESS.width
    if start + count * size > len(data):
        raise FormatError("more addresses than fit", structure="space manager", image_offset=image_offset)
    starts = start + np.arange(count, dtype=np.int64) * size
    return decode_column(BLOCK_ADDRESS, data, starts, BLOCK_ADDRESS.paddr)


def _read_device(
    store: Store, paddr: int, spaceman: NDArray[np.uint8], device: ApfsSpaceman.SpacemanDevice, number: int
) -> tuple[list[Region], NDArray[np.int64], bool]:
    """Read chunk information and bitmaps of one device; return regions, free runs, and whether all counts agree."""
    owner, where = QUEUE_NAMES[number + 1], store.blocks.at(paddr)
    cabs = np.empty(0, np.uint64)
    # If the addresses of all chunk-info blocks do not fit into the space manager, they are in separate blocks.
    if device.num_cabs:
        cabs = _addresses(spaceman, device.ofs_addresses, device.num_cabs, where)
        parts = [np.empty(0, np.uint64)]
        for cab in cabs.tolist():
            data = np.frombuffer(store.blocks.read_object(cab), np.uint8)
            num_cibs = decode_column(CAB_HEAD, data, np.zeros(1, np.int64), CAB_HEAD.num_cibs)
            parts.append(_addresses(data, CAB_HEAD.width, int(num_cibs[0]), store.blocks.at(cab)))
        cibs = np.concatenate(parts)
    else:
        cibs = _addresses(spaceman, device.ofs_addresses, device.num_cibs, where)
    chunks = _read_chunks(store.blocks, cibs, number)
    free, agrees = _free(store, chunks, owner)
    if arrays.total(free) != device.num_free_blocks:
        agrees = False
        message = f"free blocks of the {owner} differ between bitmaps and space manager"
        log = store.log.at("space manager")
        log.add("spaceman-invalid", "warning", message, expected=device.num_free_blocks, found=arrays.total(free))
    bitmaps = chunks["bitmap_paddr"][chunks["bitmap_paddr"] != 0]
    kinds = (("spaceman-cab", cabs), ("spaceman-cib", cibs), ("spaceman-bitmap", bitmaps))
    regions = [Region(kind, owner, paddr) for kind, paddrs in kinds for paddr in paddrs.tolist()]
    return regions, free, agrees


def decode_chunks(blocks: Blocks, cibs: NDArray[np.uint64]) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Decode chunk-info blocks: their headers, and their entries as far as these fit.

    Entries have the address of their block, the position of that block in `cibs`, and the position in it in bytes.
    """
    size, head, buffer = blocks.block_size, CIB_HEAD, blocks.read(cibs, blocks.block_size).reshape(-1)
    starts = np.arange(len(cibs), dtype=np.int64) * size
    heads = decode_columns(head, buffer, starts, (head.hdr.oid, head.hdr.xid, head.index, head.num_chunks))
    room = (size - head.width) // CHUNK_INFO.width
    counts = np.minimum(heads["num_chunks"].astype(np.int64), room)
    owner, within = owners(counts), head.width + ordinals(counts) * CHUNK_INFO.width
    names = (
        *(CHUNK_INFO.xid, CHUNK_INFO.paddr, CHUNK_INFO.num_blocks),
        *(CHUNK_INFO.num_free_blocks, CHUNK_INFO.bitmap_paddr),
    )
    chunks = decode_columns(CHUNK_INFO, buffer, starts[owner] + within, names)
    return heads | {"paddr": cibs, "room": np.full(len(cibs), room)}, chunks | {"cib": owner, "plus": within}


def _read_chunks(blocks: Blocks, cibs: NDArray[np.uint64], device: int) -> dict[str, NDArray[Any]]:
    """Decode the entries of the chunk-info blocks of a device."""
    outside = ~blocks.readable(cibs, blocks.block_size)
    if outside.any():
        is_there = bool(blocks.present(cibs[outside][:1], blocks.block_size)[0])
        raise FormatError(
            "could not be read" if is_there else "address outside the container",
            structure="chunk-info block",
            image_offset=blocks.at(int(cibs[outside][0])),
        )
    heads, chunks = decode_chunks(blocks, cibs)
    if (heads["num_chunks"] > heads["room"]).any():
        raise FormatError("more chunks than fit", structure="chunk-info block", image_offset=blocks.at(int(cibs[0])))
    # Chunk addresses of the second device count from its start (apfsck), or have its mark like any other address.
    chunks["paddr"] = chunks["paddr"] | np.uint64(blocks.tier2_mark if device else 0)
    return chunks | {name: chunks[name].astype(np.int64) for name in ("num_blocks", "num_free_blocks")}


def _free(store: Store, chunks: dict[str, NDArray[Any]], owner: str) -> tuple[NDArray[np.int64], bool]:
    """Return free runs and whether all bitmaps agree; bitmaps are read only for chunks neither full nor free."""
    blocks, agrees = store.blocks, True
    start, num_blocks, bitmap, num_free = (
        chunks[name] for name in ("paddr", "num_blocks", "bitmap_paddr", "num_free_blocks")
    )
    # A chunk without a bitmap is entirely free.
    whole = (bitmap == 0) | (num_free == num_blocks)
    parts = [arrays.runs_of(start[whole], num_blocks[whole])]
    # A chunk that is entirely used or free needs no bitmap.
    mixed = np.flatnonzero(~whole & (num_free > 0))
    for first_row in range(0, len(mixed), BATCH_BITMAPS):
        rows = mixed[first_row : first_row + BATCH_BITMAPS]
        is_there = blocks.readable(bitmap[rows], blocks.block_size)
        for paddr in bitmap[rows[~is_there]].tolist():
            is_lost = bool(blocks.present(np.array([paddr], np.uint64), blocks.block_size)[0])
            log = store.log.at(f"bitmap, {owner}", paddr)
            log.add("spaceman-invalid", "error" if is_lost else "warning", "the bitmap cannot be read")
        rows = rows[is_there]
        chunk, first, length = clear_runs(blocks.read(bitmap[rows], blocks.block_size), num_blocks[rows], "little")
        parts.append(arrays.runs_of(start[rows][chunk].astype(np.int64) + first, length))
        counted = np.bincount(chunk, weights=length, minlength=len(rows)).astype(np.int64)
        wrong = counted != num_free[rows]
        for row, found in zip(rows[wrong].tolist(), counted[wrong].tolist(), strict=True):
            log = store.log.at(f"bitmap of the chunk at block {start[row]}, {owner}", int(bitmap[row]))
            message = "free blocks differ between bitmap and chunk information"
            log.add("spaceman-invalid", "warning", message, expected=num_free[row], found=found)
        agrees &= bool(is_there.all()) and not wrong.any()
    return arrays.union(parts), agrees


def _internal_pool(header: ApfsSpaceman.SpacemanPhys, own: list[Region]) -> list[Region]:
    """Return the pool's blocks without current contents, and the ring of the pool's bitmap versions."""
    pool = np.array([[header.ip_base, min(header.num_ip_blocks, MAX_BLOCKS)]], np.int64)
    ring = Region("internal-pool-bitmap", "space manager", header.ip_bm_base, header.num_ip_bm_blocks)
    # The pool has room for three versions of every bitmap and chunk-info block; one of them is current.
    return [ring, *rest("internal-pool", "space manager", pool, to_runs(own))]


def queue_source(
    store: Store,
    checkpoint: Checkpoint,
    tree_oid: int,  # identifier of the root; 0 if there is none
) -> TreeSource | None:
    """Describe the tree of a free queue; None if the queue has no tree."""
    item = (checkpoint.ephemerals | checkpoint.damaged).get(tree_oid) if tree_oid else None
    if item is None:
        return None
    return TreeSource(
        store,
        "spaceman",
        item.oid,
        checkpoint.xid,
        ephemerals=checkpoint.addresses,
        root_size_bytes=item.size_bytes,
    )


def decode_queue_lengths(batch: ReadNodes) -> NDArray[np.uint64]:
    """Return the number of blocks of each entry of a free queue."""
    # A ghost, an entry without a value, is a single block.
    lengths = np.ones(len(batch.slots), np.uint64)
    rows = np.flatnonzero(batch.slots.val_len > 0)
    starts = batch.slots.val_start[rows]
    found = decode_columns(FREE_QUEUE_VAL, batch.buffer, starts, (FREE_QUEUE_VAL.num_blocks,))
    lengths[rows] = found["num_blocks"]
    return lengths
