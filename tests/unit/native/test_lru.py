"""The cache of limited size in C and in Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.walk import cache
from tests.unit.native.fences import EXAMPLES, Fenced, spoil
from tests.unit.native.reference.walk import Ways, plain_misses


@st.composite
def trees(draw) -> list[np.ndarray]:
    """Return touches, flags, paths, sizes and the initial cache; paths may be loops, as on damaged volumes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, 30))
    above = np.arange(count) if draw(st.integers(0, 3)) else np.full(count, count)
    touched = rng.integers(-1, count, draw(st.integers(0, 60))).astype(np.int32)
    parent, mapper = (
        np.where(rng.random(count) < 0.8, rng.integers(0, 2**30, count) % np.maximum(above, 1), -1) for _ in range(2)
    )
    parent[0] = mapper[0] = -1
    return [
        touched, (rng.random(len(touched)) < 0.2).view(np.uint8), parent.astype(np.int32), mapper.astype(np.int32),
        rng.integers(1, 100, count), rng.integers(-1, count, draw(st.integers(0, 5))).astype(np.int32),
    ]  # fmt: skip


def work_space(given: list[np.ndarray], room: int) -> list[np.ndarray]:
    """Return the ring, the flags, the state and room for results, as `misses` makes them."""
    count = len(given[2])
    return [
        *np.full((2, count + 1), count, np.int32), np.zeros(count, np.uint8), np.array([-len(given[5]), 0]),
        np.zeros(room, np.int32), np.zeros(room, np.int64), np.zeros(room, np.uint8),
    ]  # fmt: skip


@EXAMPLES
@given(data=st.data(), limit=st.integers(0, 2000))
def test_an_answer_in_pieces_is_the_same(data, limit):
    """With room for one path at a time, the kernel resumes where it stopped."""
    sound = data.draw(trees())
    fenced = Fenced(*sound, *work_space(sound, data.draw(st.integers(64, 80))))
    given, space = fenced.copies[:6], fenced.copies[6:]
    nodes: list[int] = []
    while space[3][0] < len(given[0]):
        count = cache.LRU_MISSES.attempt(*given, limit, *space)
        assert count is not None
        nodes += space[4][:count].tolist()
    touched, alone, *rest = sound
    assert nodes == plain_misses(touched, alone.view(bool), Ways(*rest[:3]), rest[3], limit)[0].tolist()
    assert fenced.hold()


@EXAMPLES
@given(data=st.data(), limit=st.integers(0, 2000), evil=st.none() | st.integers(-(2**63), 2**63 - 1))
def test_the_same_is_read_or_refused(data, limit, evil):
    """Every read, its touch and its kind are equal.

    With any number replaced and any end cut off, nothing outside is touched; accepted input gives right results.
    """
    sound = data.draw(trees())
    touched, alone, *rest = sound
    ours = cache.misses(touched, alone.view(bool), *rest, limit)
    theirs = plain_misses(touched, alone.view(bool), Ways(*rest[:3]), rest[3], limit)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.dtype == other.dtype
        assert np.array_equal(mine, other)
    spoilt, limit = spoil(data.draw, sound), limit if evil is None else evil
    fenced = Fenced(*spoilt, *work_space(spoilt, 70 * 64))
    count = cache.LRU_MISSES.attempt(*fenced.copies[:6], limit, *fenced.copies[6:])
    assert fenced.hold()
    assert fenced.unchanged(*range(6))
    if count is not None:
        touched, alone, *rest = spoilt
        theirs = plain_misses(touched, alone, Ways(*rest[:3]), rest[3], limit)
        for mine, other in zip(fenced.copies[-3:], theirs, strict=True):
            assert np.array_equal(mine[:count], other)


@EXAMPLES
@given(data=st.data())
def test_a_spoilt_ring_leads_nowhere(data):
    """A corrupt work space does not keep the kernel from ending, or make it write elsewhere."""
    sound = data.draw(trees())
    fenced = Fenced(*sound, *spoil(data.draw, work_space(sound, 64)))
    cache.LRU_MISSES.attempt(*fenced.copies[:6], data.draw(st.integers(0, 300)), *fenced.copies[6:])
    assert fenced.hold()
