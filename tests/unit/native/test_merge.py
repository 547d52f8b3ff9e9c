"""Touches interleaved in C and by their places."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.access.trace import MERGE_RUNS, Touches, merge_alternating
from tests.unit.native.fences import EVIL, EXAMPLES, Fenced, spoil
from tests.unit.native.reference.metrics import plain_merged

COUNTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8)


def numbered(count: int, first: int) -> Touches:
    """Return touches that all differ."""
    numbers = np.arange(first, first + count)
    return Touches(
        numbers.astype(np.int32), numbers.astype(np.uint8), numbers.astype(np.uint64) << 40, numbers.astype(np.float32)
    )


@EXAMPLES
@given(groups=COUNTS)
def test_the_same_order(groups):
    """The order is equal group by group in all columns; nothing is lost, and the kernel did not refuse."""
    counts = np.array(groups, np.int64).reshape(-1, 2)
    ones, others = counts.T
    first, second = numbered(int(ones.sum()), 0), numbered(int(others.sum()), 100)
    found, twin = (lay_out(first, second, ones, others) for lay_out in (merge_alternating, plain_merged))
    for name in Touches.__struct_fields__:
        assert getattr(found, name).tolist() == getattr(twin, name).tolist()
        assert getattr(found, name).dtype == getattr(twin, name).dtype
    whole = np.empty(len(first) + len(second), np.int32)
    numbers = [np.ascontiguousarray(each) for each in (ones, others)]
    assert MERGE_RUNS.attempt(*numbers, np.array([4]), [first.node], [second.node], [whole]) == len(whole)
    assert whole.tolist() == twin.node.tolist()


@EXAMPLES
@given(data=st.data(), groups=COUNTS)
def test_counts_that_do_not_add_up_are_refused(data, groups):
    """For any counts and widths, nothing is written outside the result."""
    counts = np.array(groups, np.int64).reshape(-1, 2)
    sizes = counts.sum(axis=0)
    arrays = [counts[:, 0].copy(), counts[:, 1].copy(), np.array([8])]
    tables = [np.full(size, 7) for size in (*sizes.tolist(), sizes.sum())]
    fenced = Fenced(*spoil(data.draw, [*arrays, *tables]))
    ones, others, widths, first, second, whole = fenced.copies
    width = data.draw(st.one_of(st.just(8), EVIL))
    widths[:] = width
    found = MERGE_RUNS.attempt(ones, others, widths, [first], [second], [whole])
    assert fenced.hold()
    assert fenced.unchanged(0, 1, 3, 4)
    if found is not None:
        firsts, seconds = sum(ones.tolist()), sum(others.tolist())
        assert [firsts * width, seconds * width] == [first.nbytes, second.nbytes]
        assert (found, found * width) == (firsts + seconds, whole.nbytes)


def test_tables_of_another_width_are_cast():
    """A column wider than its counterpart is cast to that width."""
    first, second = numbered(2, 0), numbered(1, 9)
    wide = Touches(second.node.astype(np.int64), second.cause, second.directory_id, second.host_us)
    assert merge_alternating(first, wide, np.array([1, 1]), np.array([1, 0])).node.tolist() == [0, 9, 1]
