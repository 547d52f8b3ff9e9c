from __future__ import annotations

import numpy as np
import pytest

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.blocks import Blocks
from layoutscope.image.source import MemorySource

MARK = 2**62 // 512
"""Bit 62 of a byte address marks the second device; in blocks of 512 bytes it is bit 53."""


@pytest.fixture
def blocks():
    """Return a set: ten blocks of ones at byte 100 of the first image, four of twos at byte 0 of the second."""
    return Blocks((MemorySource(b"\1" * 5120), MemorySource(b"\2" * 2048)), (100, 0), 512)


def test_addresses_of_both_devices(blocks):
    """Block 3 is at byte 100 + 3 * 512 of the first image, marked block 3 at byte 3 * 512 of the second."""
    assert blocks.place(3) == (1636, 0)
    assert blocks.place(MARK + 3) == (1536, 1)


def test_blocks_are_read_in_the_order_given(blocks):
    """A read that uses both devices gives each row the right bytes."""
    rows = blocks.read(np.array([MARK + 1, 2, MARK + 3], np.uint64), 512)
    assert rows[:, 0].tolist() == [2, 1, 2]


def test_what_leaves_its_device_is_not_present(blocks):
    """The first device has ten blocks, the second four; two blocks from the ninth on do not fit."""
    paddrs = np.array([9, 10, MARK + 3, MARK + 4], np.uint64)
    assert blocks.present(paddrs, 512).tolist() == [True, False, True, False]
    assert blocks.present(paddrs, 1024).tolist() == [False] * 4


def test_an_object_outside_says_where(blocks):
    """The error has the device and the address that the block would have."""
    with pytest.raises(FormatError) as caught:
        blocks.read_object(MARK + 7)
    assert (caught.value.image_offset, caught.value.device) == (7 * 512, 1)
