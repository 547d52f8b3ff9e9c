from __future__ import annotations

import numpy as np
import pytest

from layoutscope.filesystems.hfsplus.volume import Overlay
from layoutscope.image import MemorySource
from layoutscope.structs.checksum import journal_checksums


def one_by_one(data):
    """The 32-bit checksum as defined in TN1150."""
    total = 0
    for byte in data:
        total = (total << 8 ^ total + byte) & 0xFFFFFFFF
    return ~total & 0xFFFFFFFF


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 40, bytes(range(256))])
def test_checksum_equals_the_definition(data):
    """All blocks at once give the same sum as byte by byte."""
    block = np.frombuffer(data, np.uint8)
    assert journal_checksums(np.stack([block, block])).tolist() == [one_by_one(data)] * 2


def make_overlay():
    """4 KiB of zeros, with 512 bytes of 1 at 512, then 1024 bytes of 2 at 1024, then 512 bytes of 3 at 1024."""
    data = np.repeat(np.array([1, 2, 3], np.uint8), [512, 1024, 512])
    places, lengths, starts = np.array([512, 1024, 1024]), np.array([512, 1024, 512]), np.array([0, 512, 1536])
    return Overlay(MemorySource(bytes(4096)), places, lengths, starts, data)


def test_later_writes_cover_earlier_ones():
    """The third write replaces half of the second."""
    expected = bytes(512) + b"\1" * 512 + b"\3" * 512 + b"\2" * 512 + bytes(2048)
    assert make_overlay().read(0, 4096) == expected


@pytest.mark.parametrize(
    ("start", "length"), [(0, 10), (500, 24), (511, 2), (1000, 1000), (1535, 1), (1536, 513), (4095, 1)]
)
def test_parts_equal_the_whole(start, length):
    """A request that starts or ends inside a replaced sector gets the right part of it."""
    overlay = make_overlay()
    assert overlay.read(start, length) == overlay.read(0, 4096)[start : start + length]
