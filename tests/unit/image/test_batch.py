from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.errors import TruncatedError
from layoutscope.image import MemorySource
from layoutscope.image.source import MAX_GAP_BYTES, MAX_REQUEST_BYTES

DATA = np.random.default_rng(7).integers(0, 256, 200_000, np.uint8).tobytes()
EXTENTS = st.lists(st.tuples(st.integers(0, 199_000), st.integers(0, 1_000)), max_size=60)


@given(EXTENTS)
def test_extents_come_in_the_order_given(extents):
    """Whatever the order, overlap and length, the result is the slices one after the other."""
    starts, lengths = (np.array(column, np.int64) for column in (zip(*extents, strict=True) if extents else ([], [])))
    found = MemorySource(DATA).read_extents(starts, lengths).tobytes()
    assert found == b"".join(DATA[start : start + length] for start, length in extents)


@given(EXTENTS)
def test_gaps_stay_within_their_budget(extents):
    """No more than four per cent of the wanted bytes are read beside them."""
    starts, lengths = (np.array(column, np.int64) for column in (zip(*extents, strict=True) if extents else ([], [])))
    source = MemorySource(DATA)
    source.read_extents(starts, lengths)
    assert source.counter.bytes <= lengths.sum() * (1 + source.gap_budget)


def test_adjacent_extents_are_one_request():
    """A hundred nodes in a row, asked for backwards, cost one read."""
    source = MemorySource(DATA)
    starts = np.arange(100)[::-1] * 512
    found = source.read_extents(starts, np.full(100, 512)).reshape(100, 512)
    assert source.counter.reads == 1
    assert found[0].tobytes() == DATA[99 * 512 : 100 * 512]


def test_a_narrow_gap_is_read_over():
    """Two extents of 50,000 bytes with 1,000 between them are one read; 1,000 is a hundredth of 100,000."""
    source = MemorySource(DATA)
    source.read_extents(np.array([0, 51_000]), np.array([50_000, 50_000]))
    assert (source.counter.reads, source.counter.bytes) == (1, 101_000)


def test_a_wide_gap_is_not_read():
    """Two sectors 100,000 bytes apart are two reads of one sector."""
    source = MemorySource(DATA)
    source.read_extents(np.array([100_512, 0]), np.array([512, 512]))
    assert (source.counter.reads, source.counter.bytes) == (2, 1024)


def test_no_gap_is_wider_than_the_limit():
    """Even where the budget would allow it, a gap of more than 64 KiB is left out."""
    data = bytes(8 * 1024**2)
    source = MemorySource(data)
    size = 3 * 1024**2
    source.read_extents(np.array([0, size + MAX_GAP_BYTES + 1]), np.array([size, size]))
    assert source.counter.bytes == 2 * size


def test_requests_have_a_limited_size():
    """Small extents that fill 20 MiB come in at least three requests, so that memory stays bounded."""
    source = MemorySource(bytes(20 * 1024**2))
    starts = np.arange(0, 20 * 1024**2, 4096)
    source.read_extents(starts[::-1].copy(), np.full(len(starts), 4096))
    assert source.counter.reads == 20 * 1024**2 // MAX_REQUEST_BYTES + 1


def test_extent_past_the_end_names_its_address():
    """The first extent that leaves the image is the one the error names."""
    with pytest.raises(TruncatedError) as caught:
        MemorySource(DATA).read_extents(np.array([0, 199_999]), np.array([1, 2]))
    assert caught.value.image_offset == 199_999


def test_extent_near_the_largest_number_does_not_overflow():
    """An address close to 2^63 is outside the image, not a negative end."""
    with pytest.raises(TruncatedError):
        MemorySource(DATA).read_extents(np.array([2**63 - 10]), np.array([100]))
