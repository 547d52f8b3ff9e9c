"""Checkpoints: the mountable states of a container.

Apple File System Reference, Container (Mounting). The descriptor area is a ring of blocks with container superblocks
and checkpoint maps. The data area, another ring, holds the ephemeral objects that the maps name. A mount takes the
newest checkpoint whose parts are all sound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import field

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.btree import read_nodes
from layoutscope.filesystems.apfs.source import TreeSource
from layoutscope.filesystems.apfs.verify import checksum_of, decode_objects, object_header
from layoutscope.structs import grammar
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.checksum import fletcher64
from layoutscope.structs.records import CHECKPOINT_MAP_HEAD, CHECKPOINT_MAPPING, OBJ_PHYS, PRANGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.blocks import Blocks
    from layoutscope.filesystems.apfs.nodes import NodeRows
    from layoutscope.filesystems.apfs.source import Store
    from layoutscope.findings import FindingLog
    from layoutscope.structs.grammar import ApfsContainer


BATCH_BLOCKS: Final = 1024
MAX_RING_BLOCKS: Final = 2**20
MAX_OBJECT_BYTES: Final = 64 * 1024**2
"""The largest ephemeral object, the space manager, holds eight bytes per 16 GB or so of the container."""

_MAPPING_FIELDS = tuple(map(CHECKPOINT_MAPPING.column, ("oid", "type", "subtype", "fs_oid", "paddr", "len_object")))


class Ephemeral(Struct, frozen=True):
    """One ephemeral object of a checkpoint: type, address and size."""

    oid: int
    type: int
    subtype: int
    fs_oid: int
    paddr: int
    size_bytes: int


class DescriptorArea(Struct, frozen=True):
    """The blocks of the descriptor ring; arrays of one length."""

    paddr: NDArray[np.uint64]  # address of each block
    # object type in the block's header, even if the block is damaged; 0 if it cannot be read
    claimed: NDArray[np.int64]
    kind: NDArray[np.int64]  # object type; 0 if the block holds no sound object
    xid: NDArray[np.uint64]  # transaction
    is_blank: NDArray[np.bool_]  # readable blocks that were never written: zeros
    # contents of sound superblocks and maps, by row; not all blocks, as a ring may declare a far larger size
    blocks: dict[int, NDArray[np.uint8]]


class Checkpoint(Struct, frozen=True):
    """One mountable checkpoint."""

    xid: int  # its transaction
    paddr: int  # block of its superblock
    superblock: ApfsContainer.NxSuperblock  # parsed
    map_paddrs: tuple[int, ...]  # blocks of its checkpoint maps
    ephemerals: dict[int, Ephemeral]  # ephemeral objects by oid
    # objects that its maps name but that are damaged, by oid
    damaged: dict[int, Ephemeral] = field(default_factory=dict)

    @property
    def addresses(self) -> dict[int, int]:
        """First block of each ephemeral object, including damaged ones: a reader verifies the object."""
        return {oid: item.paddr for oid, item in (self.ephemerals | self.damaged).items()}


def read_descriptor_area(blocks: Blocks, paddrs: NDArray[np.uint64]) -> DescriptorArea:
    """Read the ring and identify the blocks that hold sound objects."""
    kinds = grammar.ApfsObject.ObjectType
    claimed, kind, xid = np.zeros(len(paddrs), np.int64), np.zeros(len(paddrs), np.int64), np.zeros_like(paddrs)
    blank = np.zeros(len(paddrs), bool)
    kept: dict[int, NDArray[np.uint8]] = {}
    readable = np.flatnonzero(blocks.readable(paddrs, blocks.block_size))
    for start in range(0, len(readable), BATCH_BLOCKS):
        rows = readable[start : start + BATCH_BLOCKS]
        data = blocks.read(paddrs[rows], blocks.block_size)
        head = decode_objects(OBJ_PHYS, data, (OBJ_PHYS.cksum, OBJ_PHYS.xid, OBJ_PHYS.type))
        claimed[rows], xid[rows], blank[rows] = head["type"], head["xid"], ~data.any(axis=1)
        # An unfinished checkpoint, or one that a crash interrupted, leaves blocks with a wrong checksum.
        kind[rows] = np.where(fletcher64(data) == head["cksum"], head["type"], 0)
        wanted = np.flatnonzero(np.isin(kind[rows], [int(kinds.nx_superblock), int(kinds.checkpoint_map)]))
        kept.update(zip(rows[wanted].tolist(), data[wanted], strict=True))
    return DescriptorArea(paddrs, claimed, kind, xid, blank, kept)


def superblocks(store: Store, area: DescriptorArea) -> list[tuple[int, ApfsContainer.NxSuperblock]]:
    """Parse all sound superblocks of the ring, newest first; return their addresses and structures."""
    kind = int(grammar.ApfsObject.ObjectType.nx_superblock)
    rows = np.flatnonzero(area.kind == kind)
    rows = rows[np.argsort(area.xid[rows], kind="stable")[::-1]]
    found = []
    for row in rows.tolist():
        paddr, data, cls = int(area.paddr[row]), area.blocks[row].tobytes(), grammar.ApfsContainer.NxSuperblock
        where = store.blocks.at(paddr)
        try:
            parsed = grammar.parse(cls, data, structure="container superblock", image_offset=where)
        except FormatError as error:
            store.log.at_error(error).add("structure-invalid", "warning", error.reason)
            continue
        found.append((paddr, parsed))
    return found


def open_checkpoint(
    store: Store, area: DescriptorArea, paddr: int, superblock: ApfsContainer.NxSuperblock
) -> tuple[Checkpoint, tuple[FormatError, ...]]:
    """Read a superblock's checkpoint maps and ephemeral objects; return the sound parts and the errors."""
    xid, blocks, ring = superblock.hdr.xid, store.blocks, len(area.paddr)
    first, count = superblock.xp_desc_index, superblock.num_desc_used
    unusable = Checkpoint(xid, paddr, superblock, (), {})
    if not 1 <= count <= ring:
        reason, where = "impossible length in the descriptor ring", blocks.at(paddr)
        return unusable, (FormatError(reason, structure="checkpoint", image_offset=where),)
    # The superblock is the last block of its checkpoint. The maps precede it, and may wrap around the end of the ring.
    rows = (first + np.arange(count - 1)) % ring
    are_maps = (area.kind[rows] == int(grammar.ApfsObject.ObjectType.checkpoint_map)) & (area.xid[rows] == xid)
    ephemerals: dict[int, Ephemeral] = {}
    try:
        for row in rows[are_maps].tolist():
            for item in _decode_map(area.blocks[row], blocks.at(int(area.paddr[row]))):
                ephemerals[item.oid] = item
    except FormatError as error:
        return unusable, (error,)
    sound: dict[int, Ephemeral] = {}
    damaged: dict[int, Ephemeral] = {}
    wrong: list[FormatError] = []
    for row in rows[~are_maps][:1].tolist():
        at = blocks.at(int(area.paddr[row]))
        wrong.append(FormatError("block is not a map of this checkpoint", structure="checkpoint map", image_offset=at))
    for oid, item in ephemerals.items():
        try:
            _verify(item, blocks)
        except FormatError as error:
            wrong.append(error)
            damaged[oid] = item
        else:
            sound[oid] = item
    found = Checkpoint(xid, paddr, superblock, tuple(area.paddr[rows[are_maps]].tolist()), sound, damaged)
    return found, tuple(wrong)


def _decode_map(block: NDArray[np.uint8], image_offset: int) -> list[Ephemeral]:
    """Decode the mappings of one checkpoint map."""
    head, size = CHECKPOINT_MAP_HEAD.width, CHECKPOINT_MAPPING.width
    counts = decode_column(CHECKPOINT_MAP_HEAD, block, np.zeros(1, np.int64), CHECKPOINT_MAP_HEAD.num_mappings)
    if head + int(counts[0]) * size > len(block):
        raise FormatError("more mappings than fit", structure="checkpoint map", image_offset=image_offset)
    starts = head + np.arange(int(counts[0]), dtype=np.int64) * size
    found = decode_columns(CHECKPOINT_MAPPING, block, starts, _MAPPING_FIELDS)
    return [Ephemeral(*row) for row in zip(*(column.tolist() for column in found.values()), strict=True)]


def _verify(item: Ephemeral, blocks: Blocks) -> None:
    """Verify an ephemeral object: address, checksum, identity."""
    where, name = blocks.at(item.paddr), f"ephemeral object {item.oid}"
    if not 0 < item.size_bytes <= MAX_OBJECT_BYTES or item.size_bytes % blocks.block_size:
        raise FormatError("impossible size", structure=name, image_offset=where, found=str(item.size_bytes))
    data = blocks.read_object(item.paddr, item.size_bytes)
    head = object_header(data, where)
    if checksum_of(data) != head.cksum:
        raise FormatError("checksum differs", structure=name, image_offset=where)
    if head.oid != item.oid:
        raise FormatError("another object is there", structure=name, image_offset=where)


def usable(store: Store, area: DescriptorArea, xid: int | None = None) -> Iterator[Checkpoint]:
    """Open checkpoints, newest first, and report damaged parts.

    A mount skips a checkpoint with any damaged part. The trees of files depend only on its superblock, and an older
    state lacks later changes. So a damaged checkpoint is read, unless it was requested by its number.
    """
    everything = superblocks(store, area)
    for paddr, superblock in [item for item in everything if item[1].hdr.xid == xid] or everything:
        opened, errors = open_checkpoint(store, area, paddr, superblock)
        for error in errors:
            pass_over(store.log, superblock.hdr.xid, error)
        if not errors or xid is None:
            yield opened


def pass_over(log: FindingLog, xid: int, error: FormatError) -> None:
    """Report that a checkpoint is damaged."""
    message = f"checkpoint of transaction {xid} is damaged: {error.reason}"
    log.at_error(error).add("checkpoint-invalid", "error", message)


def descriptor_paddrs(
    store: Store, superblock: ApfsContainer.NxSuperblock
) -> tuple[NDArray[np.uint64], list[NodeRows]]:
    """List the blocks of the descriptor area of a superblock."""
    base, count = superblock.xp_desc_base, superblock.num_desc_blocks
    return ring_paddrs(store, base, count, is_tree=bool(superblock.desc_is_tree))


def ring_paddrs(store: Store, base: int, count: int, *, is_tree: bool) -> tuple[NDArray[np.uint64], list[NodeRows]]:
    """List the blocks of a checkpoint area, contiguous or mapped by a tree of runs; return that tree's nodes too."""
    if count > MAX_RING_BLOCKS:
        where = store.blocks.at(0)
        raise FormatError("impossibly large", structure="checkpoint area", image_offset=where, found=str(count))
    # The highest bit of the superblock's block count distinguishes these (reference, nx_xp_desc_blocks).
    if not is_tree:
        return _run(base, count), []
    nodes, leaves = read_nodes(TreeSource(store, "checkpoint-area", base, 2**64 - 1))
    parts, left = [np.empty(0, np.uint64)], count
    for batch in leaves:
        runs = batch.columns("val", PRANGE, (PRANGE.start_paddr, PRANGE.num_blocks))
        for start, length in zip(runs["start_paddr"].tolist(), runs["num_blocks"].tolist(), strict=True):
            parts.append(_run(start, min(length, left)))
            left -= len(parts[-1])
    return np.concatenate(parts), [nodes]


def _run(first: int, count: int) -> NDArray[np.uint64]:
    """Return the addresses of contiguous blocks; addresses that overflow are outside of every device anyway."""
    return np.uint64(first % 2**64) + np.arange(count, dtype=np.uint64)


def find_younger(area: DescriptorArea, xid: int, copy_xid: int) -> tuple[int, int, str] | None:
    """Find the youngest transaction that was committed after the one that is read, but cannot be read itself.

    Return its number, the block that shows it, and a description.
    """
    kinds = grammar.ApfsObject.ObjectType
    newer = area.xid > np.uint64(xid)
    is_superblock = area.claimed == int(kinds.nx_superblock)
    # A superblock is written after its maps. If the following block is still a sound block from an earlier round
    # through the ring, the transaction was never finished. A crash leaves this, and nothing is lost. In the first
    # round, all blocks from there to the ring's end were never written. After the last block of a ring comes its first.
    following = np.roll(np.arange(len(area.kind)), -1)
    is_rest_blank = np.logical_and.accumulate(area.is_blank[::-1])[::-1]
    is_followed = (area.kind[following] != 0) | is_rest_blank[following]
    lacks_superblock = (area.kind == int(kinds.checkpoint_map)) & ~is_followed
    # The number in a damaged block may be damaged itself; a ring holds at most one transaction per block.
    damaged = is_superblock & (area.kind == 0) & (area.xid <= np.uint64(min(xid + len(area.xid), 2**64 - 1)))
    found: list[tuple[int, int, str]] = []
    for rows, why in (
        (newer & is_superblock & (area.kind != 0), "a part of its checkpoint is damaged"),
        (newer & damaged, "its superblock is damaged"),
        (newer & lacks_superblock, "its superblock is missing"),
    ):
        found += [(int(area.xid[row]), int(area.paddr[row]), why) for row in np.flatnonzero(rows).tolist()]
    found += [(copy_xid, 0, "of its superblock only the copy in block 0 is left")] if copy_xid > xid else []
    return max(found, key=lambda item: item[0], default=None)
