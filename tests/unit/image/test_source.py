from __future__ import annotations

import numpy as np
import pytest

from layoutscope.errors import TruncatedError
from layoutscope.image import MemorySource, Window
from layoutscope.image.source import overlaps

DATA = bytes(range(256))


def test_read_returns_the_bytes_at_an_address():
    """Address 16 of the counting bytes holds 16."""
    assert MemorySource(DATA).read(16, 3) == bytes([16, 17, 18])


@pytest.mark.parametrize(("start", "length"), [(0, 257), (256, 1), (-1, 1), (0, -1), (2**63, 1), (1, 2**64)])
def test_read_outside_names_the_address(start, length):
    """A range that leaves the image is an error that carries its start."""
    with pytest.raises(TruncatedError) as caught:
        MemorySource(DATA).read(start, length)
    assert caught.value.image_offset == start


def test_source_counts_requests_and_bytes():
    """Two reads of three and five bytes are counted as two and eight."""
    source = MemorySource(DATA)
    source.read(0, 3)
    source.read(100, 5)
    assert (source.counter.reads, source.counter.bytes) == (2, 8)


def test_window_starts_at_zero():
    """Address 0 of a window at 32 is byte 32 of the image, and the image counts the read."""
    source = MemorySource(DATA)
    assert Window(source, 32, 8).read(0, 2) == bytes([32, 33])
    assert source.counter.reads == 1


def test_window_ends_with_its_source():
    """A window of 100 bytes at 200 of 256 holds 56."""
    assert Window(MemorySource(DATA), 200, 100).size_bytes == 56


def test_window_error_carries_the_address_in_the_image():
    """Byte 9 of a window at 8 in a window at 32 is byte 49 of the image."""
    window = Window(Window(MemorySource(DATA), 32, 64), 8, 8)
    with pytest.raises(TruncatedError) as caught:
        window.read(9, 1)
    assert caught.value.image_offset == 32 + 8 + 9


def test_window_reads_extents_in_its_own_addresses():
    """Extents of a window are found at its start plus their address."""
    window = Window(MemorySource(DATA), 100, 50)
    assert window.read_extents(np.array([7, 0]), np.array([2, 1])).tolist() == [107, 108, 100]


@pytest.mark.parametrize(
    ("start", "length", "is_hit"),
    [(0, 10, False), (0, 11, True), (19, 1, True), (20, 10, False), (25, 6, True), (15, 0, False), (0, 100, True)],
)
def test_overlap_is_exact_to_the_byte(start, length, is_hit):
    """A range from 10 to 20 and one from 30 to 35 overlap any extent that shares at least one byte with them."""
    ranges = np.array([[10, 10], [30, 5]])
    assert overlaps(ranges, np.array([start]), np.array([length])).tolist() == [is_hit]


def test_nothing_overlaps_no_ranges():
    """A fully read image has no unread extent."""
    source = MemorySource(DATA)
    assert source.touches_unread(np.array([0, 50]), np.array([256, 1])).tolist() == [False, False]
