from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.arrays import intervals

RUNS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=8)


def as_set(runs) -> set[int]:
    """Return the blocks that runs hold."""
    return {block for start, length in runs for block in range(start, start + length)}


def as_runs(pairs) -> np.ndarray:
    """Make a set of runs from pairs."""
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return intervals.runs_of(table[:, 0], table[:, 1])


@given(RUNS)
def test_runs_hold_the_blocks_of_their_parts_and_do_not_touch(pairs):
    """Overlapping and touching runs are joined; no block is lost or added."""
    runs = as_runs(pairs)
    assert as_set(runs.tolist()) == as_set(pairs)
    assert (runs[1:, 0] > runs[:-1].sum(axis=1)).all()
    assert intervals.total(runs) == len(as_set(pairs))


@given(RUNS, RUNS)
def test_set_operations_are_those_of_sets(one, two):
    """Union, difference and intersection of runs are those of the sets of their blocks."""
    first, second = as_runs(one), as_runs(two)
    assert as_set(intervals.union([first, second]).tolist()) == as_set(one) | as_set(two)
    assert as_set(intervals.subtract(first, second).tolist()) == as_set(one) - as_set(two)
    assert as_set(intervals.intersect(first, second).tolist()) == as_set(one) & as_set(two)


@given(st.integers(0, 2**32), st.sampled_from([2**14, 2**17, 2**40]), st.sampled_from([0, -5]))
def test_many_numbers_are_sorted_as_few_are(seed, limit, least):
    """Twelve thousand numbers, with repetitions, in the order of numpy's stable sort: of one, two and three digits."""
    values = np.random.default_rng(seed).integers(least, limit, 12_000)
    assert (intervals.order_of(values) == np.argsort(values, kind="stable")).all()


def test_runs_of_blocks_as_arithmetic_on_paper():
    """Blocks 0-4, 3-6 and 6-8 are one run, 10-12 another; of 20 blocks 9 and 13-19 are left."""
    claimed = intervals.runs_of(np.array([3, 10, 0, 6]), np.array([4, 3, 5, 3]))
    assert claimed.tolist() == [[0, 9], [10, 3]]
    assert intervals.subtract(np.array([[0, 20]]), claimed).tolist() == [[9, 1], [13, 7]]
    assert intervals.intersect(claimed, np.array([[8, 3], [15, 2]])).tolist() == [[8, 1], [10, 1]]
