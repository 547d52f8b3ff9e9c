"""Touches interleaved in C and by their places."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.access.trace import MERGE_RUNS, Touches, merge_alternating
from tests.unit.native.fences import EVIL, EXAMPLES, Fenced, is_same, spoil

COUNTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8)


def numbered(count: int, first: int) -> Touches:
    """Return touches that all differ."""
    numbers = np.arange(first, first + count)
    return Touches(
        numbers.astype(np.int32), numbers.astype(np.uint8), numbers.astype(np.uint64) << 40, numbers.astype(np.float32)
    )


@EXAMPLES
@given(data=st.data(), groups=COUNTS)
def test_merged_groups_keep_their_order(data, groups):
    """The order is equal group by group in all columns; counts and widths that do not add up are refused."""
    counts = np.array(groups, np.int64).reshape(-1, 2)
    ones, others = counts.T
    first, second = numbered(int(ones.sum()), 0), numbered(int(others.sum()), 100)
    found = merge_alternating(first, second, ones, others)
    for name in Touches.__struct_fields__:
        mine, other = iter(getattr(first, name).tolist()), iter(getattr(second, name).tolist())
        expected = [next(side) for one, two in groups for side in [mine] * one + [other] * two]
        assert getattr(found, name).tolist() == expected
        assert getattr(found, name).dtype == getattr(first, name).dtype
    sizes = counts.sum(axis=0)
    tables = [np.arange(sizes[0]), np.arange(100, 100 + sizes[1]), np.full(sizes.sum(), 7)]
    arrays = [ones.copy(), others.copy(), np.array([8]), *tables]
    fenced = Fenced(*spoil(data.draw, arrays))
    given_ones, given_others, widths, *sides, whole = fenced.copies
    width = data.draw(st.one_of(st.just(8), EVIL))
    widths[:] = width
    count = MERGE_RUNS.attempt(given_ones, given_others, widths, [sides[0]], [sides[1]], [whole])
    assert fenced.hold()
    assert fenced.unchanged(0, 1, 3, 4)
    if is_same(arrays, fenced.originals) and width == 8:
        assert (count, whole.tolist()) == (len(whole), found.node.tolist())
    if count is not None:
        firsts, seconds = sum(given_ones.tolist()), sum(given_others.tolist())
        assert [firsts * width, seconds * width] == [side.nbytes for side in sides]
        assert (count, count * width) == (firsts + seconds, whole.nbytes)


def test_tables_of_another_width_are_cast():
    first, second = numbered(2, 0), numbered(1, 9)
    wide = Touches(second.node.astype(np.int64), second.cause, second.directory_id, second.host_us)
    assert merge_alternating(first, wide, np.array([1, 1]), np.array([1, 0])).node.tolist() == [0, 9, 1]
