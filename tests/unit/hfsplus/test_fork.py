from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layoutscope.filesystems.hfsplus.forks import Fork, join_pieces, locate


@dataclass
class Blocks:
    """The parts of a volume that locating needs."""

    block_size_bytes: int


def make_fork(*extents):
    starts, counts = np.array(extents, np.int64).reshape(-1, 2).T
    return Fork(1 << 40, starts, counts, np.full(len(starts), -1))


def pieces(fork, block, offsets, lengths):
    found = locate(Blocks(block), fork, np.array(offsets), np.array(lengths))
    return list(zip(found.part.tolist(), found.volume_offset.tolist(), found.length_bytes.tolist(), strict=True))


def test_parts_are_cut_at_the_ends_of_extents():
    # A node of 2048 bytes at 512, in extents of one, two and five blocks of 512 bytes: 2 blocks, then 2 more.
    fork = make_fork((10, 1), (20, 2), (30, 5))
    assert pieces(fork, 512, [0], [2048]) == [(0, 10 * 512, 512), (0, 20 * 512, 1024), (0, 30 * 512, 512)]
    # Nodes of 4096 bytes in blocks of 8192: two in each block.
    fork = make_fork((7, 1), (3, 1))
    found = pieces(fork, 8192, [0, 4096, 8192, 12288], [4096] * 4)
    assert found == [(0, 57344, 4096), (1, 61440, 4096), (2, 24576, 4096), (3, 28672, 4096)]
    # Parts outside all extents are left out.
    assert pieces(make_fork((7, 1)), 512, [0, 512], [512, 512]) == [(0, 3584, 512)]
    # Extents that are contiguous on the volume are read at once.
    found = locate(
        Blocks(512), make_fork((1, 2), (3, 2), (9, 1)), np.array([0, 1024, 2048]), np.array([1024, 1024, 512])
    )
    offsets, lengths = join_pieces(found)
    assert (offsets.tolist(), lengths.tolist()) == ([512, 4608], [2048, 512])
