from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.errors import TruncatedError
from layoutscope.image import MemorySource
from layoutscope.structs.arrays import MAX_REQUEST_BYTES

DATA = np.random.default_rng(7).integers(0, 256, 200_000, np.uint8).tobytes()
EXTENTS = st.lists(st.tuples(st.integers(0, 199_000), st.integers(0, 1_000)), max_size=60)


@given(EXTENTS)
def test_extents_come_in_the_order_given(extents):
    """For any order, overlap and length, the result is the concatenated slices."""
    starts, lengths = (np.array(column, np.int64) for column in (zip(*extents, strict=True) if extents else ([], [])))
    found = MemorySource(DATA).read_extents(starts, lengths).tobytes()
    assert found == b"".join(DATA[start : start + length] for start, length in extents)


def test_adjacent_extents_are_one_request():
    """A hundred contiguous nodes, requested backwards, cost one read."""
    source = MemorySource(DATA)
    starts = np.arange(100)[::-1] * 512
    found = source.read_extents(starts, np.full(100, 512)).reshape(100, 512)
    assert source.counter.reads == 1
    assert found[0].tobytes() == DATA[99 * 512 : 100 * 512]


@pytest.mark.parametrize(("gap", "expected"), [(1_000, (1, 101_000)), (1_001, (2, 100_000))])
def test_gaps_are_read_over_up_to_the_limit_of_the_source(gap, expected):
    """Two extents of 50,000 bytes, with a gap of 1,000 bytes or one more."""
    source = MemorySource(DATA)
    source.gap_bytes = 1_000
    source.read_extents(np.array([50_000 + gap, 0]), np.array([50_000, 50_000]))
    assert (source.counter.reads, source.counter.bytes) == expected


def test_requests_have_a_limited_size():
    """Small extents of 20 MiB in total come in at least three requests, so memory stays bounded."""
    source = MemorySource(bytes(20 * 1024**2))
    starts = np.arange(0, 20 * 1024**2, 4096)
    source.read_extents(starts[::-1].copy(), np.full(len(starts), 4096))
    assert source.counter.reads == 20 * 1024**2 // MAX_REQUEST_BYTES + 1
    # The error names the first extent that leaves the image.
    with pytest.raises(TruncatedError) as caught:
        MemorySource(DATA).read_extents(np.array([0, 199_999]), np.array([1, 2]))
    assert caught.value.image_offset == 199_999
    # An address close to 2^63 is outside the image, not a negative end.
    with pytest.raises(TruncatedError):
        MemorySource(DATA).read_extents(np.array([2**63 - 10]), np.array([100]))
