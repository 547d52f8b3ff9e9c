from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutscope.filesystems.hfsplus.volume.allocation import free_runs


def runs(bits):
    """Runs of zeros, counted one by one."""
    found, start = [], None
    for place, bit in enumerate([*bits, 1]):
        if not bit and start is None:
            start = place
        if bit and start is not None:
            found.append((start, place - start))
            start = None
    return found


def free(bits, total):
    starts, counts = free_runs(np.packbits(np.array(bits, np.uint8)), total)
    return list(zip(starts.tolist(), counts.tolist(), strict=True))


@pytest.mark.parametrize("total", [0, 1, 7, 8, 63, 64, 65, 200])
@pytest.mark.parametrize("bit", [0, 1])
def test_uniform_bitmaps(total, bit):
    """All free is one run, all used is none, whatever the size."""
    assert free([bit] * total, total) == ([(0, total)] if total and not bit else [])


@given(st.lists(st.sampled_from([(0, 1), (1, 1), (0, 64), (1, 64), (0, 200), (1, 7)]), max_size=20))
@settings(derandomize=True, max_examples=200, deadline=None)
def test_runs_equal_those_counted_bit_by_bit(pieces):
    """Runs that cross bytes and words are found once."""
    bits = [bit for bit, count in pieces for _ in range(count)]
    assert free(bits, len(bits)) == runs(bits)


def test_bits_behind_the_last_block_are_ignored():
    """A bitmap with room for more blocks than the volume has."""
    assert free([1, 0, 0, 1, 0, 0, 0, 0], 6) == [(1, 2), (4, 2)]


def test_blocks_without_a_bit_are_not_free():
    """A bitmap that ends early says nothing of the blocks behind it."""
    assert free([1] * 7 + [0], 32) == [(7, 1)]
