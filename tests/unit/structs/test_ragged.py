from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.structs.arrays import heads, is_head, lengths_of, ordinals, owners, ranges, ranks_of, starts_of

COUNTS = np.array([2, 0, 3, 1])
"""Four owners; the second has no items."""


def test_items_know_their_owner_and_their_number():
    """Six items: two of owner 0, three of owner 2, one of owner 3."""
    assert starts_of(COUNTS).tolist() == [0, 2, 2, 5]
    assert owners(COUNTS).tolist() == [0, 0, 2, 2, 2, 3]
    assert ordinals(COUNTS).tolist() == [0, 1, 0, 1, 2, 0]
    # From 5 two numbers, from 9 none, from 2 three, from 7 one.
    assert ranges(np.array([5, 9, 2, 7]), COUNTS).tolist() == [5, 6, 2, 3, 4, 7]
    # Zero counts give empty results.
    none = np.array([], np.int64)
    for found in (starts_of(none), owners(none), ordinals(none), ranges(none, none), heads(none), lengths_of(none, 0)):
        assert found.tolist() == []
    # Three owners have 200 items each, counted in bytes.
    assert starts_of(np.array([200, 200, 200], np.uint8)).tolist() == [0, 200, 400]
    # In 4 4 4 2 and 7 7 8 8, rows 0, 2 and 3 start runs, which have 2, 1 and 1 rows.
    keys = np.array([4, 4, 4, 2]), np.array([7, 7, 8, 8])
    assert is_head(*keys).tolist() == [True, False, True, True]
    assert heads(*keys).tolist() == [0, 2, 3]
    assert lengths_of(heads(*keys), 4).tolist() == [2, 1, 1]
    # A run of the same number that begins again counts from 0.
    assert ranks_of(np.array([7, 7, 5, 7])).tolist() == [0, 1, 0, 0]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=20))
def test_runs_are_the_concatenated_ranges(runs):
    """The result equals that of a loop over the runs."""
    start = np.array([first for first, _ in runs], np.int64)
    count = np.array([length for _, length in runs], np.int64)
    assert ranges(start, count).tolist() == [first + i for first, length in runs for i in range(length)]
