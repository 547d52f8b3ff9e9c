from __future__ import annotations

import numpy as np
import pytest

from layoutscope.errors import TruncatedError
from layoutscope.image import MemorySource, Window
from layoutscope.image.source import overlaps

DATA = bytes(range(256))


def test_reads_and_their_counts():
    """Address 16 of the counting bytes holds 16; two reads of three and five bytes are counted as two and eight."""
    source = MemorySource(DATA)
    assert source.read(16, 3) == bytes([16, 17, 18])
    source.read(100, 5)
    assert (source.counter.reads, source.counter.bytes) == (2, 8)
    assert source.touches_unread(np.array([0, 50]), np.array([256, 1])).tolist() == [False, False]


@pytest.mark.parametrize(("start", "length"), [(0, 257), (256, 1), (-1, 1), (0, -1), (2**63, 1), (1, 2**64)])
def test_read_outside_names_the_address(start, length):
    """A range that leaves the image is an error that carries its start."""
    with pytest.raises(TruncatedError) as caught:
        MemorySource(DATA).read(start, length)
    assert caught.value.image_offset == start


def test_windows_count_from_their_start():
    """Byte 9 of a window at 8 in a window at 32 is byte 49 of the image; a window of 100 bytes at 200 of 256 has 56."""
    source = MemorySource(DATA)
    assert Window(source, 32, 8).read(0, 2) == bytes([32, 33])
    assert source.counter.reads == 1
    assert Window(source, 200, 100).size_bytes == 56
    assert Window(source, 100, 50).read_extents(np.array([7, 0]), np.array([2, 1])).tolist() == [107, 108, 100]
    with pytest.raises(TruncatedError) as caught:
        Window(Window(source, 32, 64), 8, 8).read(9, 1)
    assert caught.value.image_offset == 32 + 8 + 9


@pytest.mark.parametrize(
    ("start", "length", "is_hit"),
    [(0, 10, False), (0, 11, True), (19, 1, True), (20, 10, False), (25, 6, True), (15, 0, False), (0, 100, True)],
)
def test_overlap_is_exact_to_the_byte(start, length, is_hit):
    """A range from 10 to 20 and one from 30 to 35 overlap any extent that shares at least one byte with them."""
    ranges = np.array([[10, 10], [30, 5]])
    assert overlaps(ranges, np.array([start]), np.array([length])).tolist() == [is_hit]
