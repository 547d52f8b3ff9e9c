"""Forks, which locate the bytes of a file on the volume, and the allocation file, which records the free blocks.

TN1150, "Fork Data Structure", "Extents Overflow File" and "Allocation File". A fork is a list of extents. The first
eight are in the volume header or the catalog record, the others in the extents-overflow file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.display import Struct
from layoutscope.errors import FormatError, UnreadError
from layoutscope.filesystems.hfsplus.volume import shift_error
from layoutscope.structs.arrays import (
    LARGEST,
    U8,
    Rows,
    clear_runs,
    heads,
    lengths_of,
    owners,
    ranges,
    runs_of,
    starts_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.hfsplus.volume import Volume
    from layoutscope.image import Workspace
    from layoutscope.structs.arrays import I64, Columns
    from layoutscope.structs.grammar import HfsplusVolume


STRETCH_BYTES: Final = 8 * 1024**2
"""Part of the allocation file that is held in memory at once."""

BLOCKS_A_BYTE: Final = 8


class Fork(Struct, frozen=True):
    """The extents of one fork, in fork order."""

    logical_size_bytes: int  # bytes of valid data
    # start_blocks, block_counts: extents, in allocation blocks from the start of the volume
    start_blocks: I64
    block_counts: I64
    # node of the extents-overflow file with the extent's record; -1 for an extent in the volume header
    record_nodes: I64

    @property
    def num_blocks(self) -> int:
        """Allocation blocks in all extents."""
        return int(self.block_counts.sum())

    def is_same(self, other: Fork) -> bool:
        """Return whether another fork has the same length and uses the same blocks."""
        return (
            self.logical_size_bytes == other.logical_size_bytes
            and np.array_equal(self.start_blocks, other.start_blocks)
            and np.array_equal(self.block_counts, other.block_counts)
        )


class ForkPieces(Rows, frozen=True):
    """Contiguous pieces of parts of a fork, in the order of the parts."""

    part: I64  # the part that the piece belongs to
    # volume_offset, length_bytes: location of the piece
    volume_offset: I64
    length_bytes: I64


def inline_fork(fork_data: HfsplusVolume.ForkData) -> Fork:
    """Make a fork of the eight extents stored with its size; unused extents are omitted."""
    starts = np.array([extent.start_block for extent in fork_data.extents], np.int64)
    counts = np.array([extent.num_blocks for extent in fork_data.extents], np.int64)
    used = counts > 0
    return Fork(
        min(int(fork_data.len_logical), LARGEST), starts[used], counts[used], np.full(int(used.sum()), -1, np.int64)
    )


def blocks_before(block_counts: NDArray[np.integer[Any]], first: I64) -> I64:
    """Count the blocks in each fork before each of its extents; `first` are the rows at which forks start."""
    before = starts_of(block_counts)
    before -= np.repeat(before[first], lengths_of(first, len(before)))
    return before


def flatten(starts: NDArray[Any], counts: NDArray[Any], first_block: I64) -> Columns:
    """Convert records of eight extents into one row per used extent."""
    record, slot = np.nonzero(counts)
    count = counts[record, slot].astype(np.int64)
    return {
        "record": record,
        "fork_block": first_block[record] + blocks_before(count, heads(record)),
        "start_block": starts[record, slot].astype(np.int64),
        "block_count": count,
    }


def locate(volume: Volume, fork: Fork, fork_offsets: I64, lengths_bytes: I64) -> ForkPieces:
    """Split parts of a fork at extent boundaries; a part that ends after the last extent has no pieces."""
    block = volume.block_size_bytes
    ends = np.cumsum(fork.block_counts) * block
    begins = ends - fork.block_counts * block
    first = np.searchsorted(ends, fork_offsets, side="right")
    last = np.searchsorted(ends, fork_offsets + lengths_bytes, side="left")
    counts = np.where(last < len(ends), last - first + 1, 0)
    part, extent = owners(counts), ranges(first, counts)
    start = np.maximum(begins[extent], fork_offsets[part])
    stop = np.minimum(ends[extent], fork_offsets[part] + lengths_bytes[part])
    return ForkPieces(part, fork.start_blocks[extent] * block + (start - begins[extent]), stop - start)


def locate_byte(volume: Volume, fork: Fork, at: int) -> int | None:
    """Return the offset of a fork's byte, in bytes from the start of the volume; None if the extents end before it."""
    pieces = locate(volume, fork, np.array([at], np.int64), np.ones(1, np.int64))
    return int(pieces.volume_offset[0]) if len(pieces.part) else None


def join_pieces(pieces: ForkPieces) -> tuple[I64, I64]:
    """Join pieces that are contiguous on the volume; return offsets and lengths in bytes."""
    if not len(pieces.part):
        return pieces.volume_offset, pieces.length_bytes
    ends = pieces.volume_offset + pieces.length_bytes
    first = np.flatnonzero(np.concatenate([[True], pieces.volume_offset[1:] != ends[:-1]]))
    return pieces.volume_offset[first], np.add.reduceat(pieces.length_bytes, first)


def read_parts(volume: Volume, pieces: ForkPieces, workspace: Workspace | None = None) -> U8:
    """Read pieces, each once, in large requests."""
    where = join_pieces(pieces)
    try:
        data = volume.source.read_extents(*where, workspace)
        # Areas that were never read appear as zeros. They must not count as map bits or as a header.
        for first in np.flatnonzero(volume.source.touches_unread(*where))[:1].tolist():
            volume.source.read(int(where[0][first]), int(where[1][first]))
    except FormatError as error:
        raise shift_error(error, -volume.source.origin) from error
    return data


def read_free_runs(volume: Volume, fork: Fork) -> tuple[I64, I64]:
    """Read the free runs from the allocation file."""
    none: I64 = np.empty(0, np.int64)
    if volume.is_inferred and not fork.num_blocks:
        return none, none
    num_blocks = int(volume.header.num_blocks)
    # Bits after the last block may have any value.
    length = min(fork.logical_size_bytes, fork.num_blocks * volume.block_size_bytes, -(-num_blocks // BLOCKS_A_BYTE))
    parts = [np.empty((2, 0), np.int64)]
    # One stretch of the file at a time: on the largest volume the file has half a GiB.
    for at in range(0, length, STRETCH_BYTES):
        pieces = locate(volume, fork, np.array([at]), np.array([min(STRETCH_BYTES, length - at)]))
        try:
            bits = read_parts(volume, pieces)
        except FormatError as error:
            structure = "allocation file" if isinstance(error, UnreadError) else ""
            volume.log.survive(shift_error(error, 0, structure), code="allocation-file-unreadable")
            return none, none
        # The first block is the highest bit of the first byte.
        _, first, count = clear_runs(bits[None], np.array([num_blocks - at * BLOCKS_A_BYTE]), "big")
        parts.append(np.stack([first + at * BLOCKS_A_BYTE, count]))
    starts, counts = runs_of(*np.concatenate(parts, axis=1)).T
    if not volume.is_inferred:
        check_free_count(volume, counts)
    return starts, counts


def check_free_count(volume: Volume, counts: I64) -> None:
    """Compare the free-block count of the volume header with the allocation file."""
    found, declared = int(counts.sum()), int(volume.header.num_free_blocks)
    if found != declared:
        field, message = "num_free_blocks", "the volume header counts other free blocks than the allocation file"
        volume.header_field(field).add("free-count-differs", "warning", message, expected=found, found=declared)
