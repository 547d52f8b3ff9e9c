"""Chunks of the space manager, decoded whole with their addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.filesystems.apfs.container.spaceman import QUEUE_NAMES
from layoutscope.ondisk.records import CHUNK_INFO, CIB_HEAD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.subject import Subject


CHUNK: Final = CHUNK_INFO


CIB: Final = CIB_HEAD


class ChunkTable(NamedTuple):
    """Chunks of a device: columns by field, the block that holds each entry, and where it starts there in bytes."""

    columns: dict[str, NDArray[Any]]
    cib_paddr: NDArray[np.uint64]
    plus: NDArray[np.int64]


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
    names = (CHUNK.xid, CHUNK.paddr, CHUNK.num_blocks, CHUNK.free_count, CHUNK.bitmap_paddr)
    columns = decoder.columns(CHUNK, buffer, starts[block] + within, names) if len(block) else {}
    return ChunkTable(columns, paddr[block], within), heads
