from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.structs.arrays import (
    dense_codes,
    distinct,
    find,
    first_places,
    index_of,
    is_among,
    is_ascending,
    is_strictly_ascending,
    last_at_most,
    match,
)


def u64(*values: int):
    """Make an array of numbers in disk format."""
    return np.array(values, np.uint64)


@pytest.mark.parametrize("factor", [1, 1000])
def test_keys_are_found_where_they_are_dense_and_where_they_are_not(factor):
    """Of 2, 3 and 5 (or a thousand times that), 5 is the third; 1, 4 and 9 are missing."""
    spot, found = match(u64(2, 3, 5) * np.uint64(factor), u64(5, 1, 4, 9, 2) * np.uint64(factor))
    assert found.tolist() == [True, False, False, False, True]
    assert spot[found].tolist() == [2, 0]
    # Three records of object 7 begin at the second row.
    keys = u64(6, 7, 7, 7, 8) * np.uint64(factor)
    assert index_of(keys).find(keys)[0].tolist() == [0, 1, 1, 1, 4]


def test_keys_that_are_not_there():
    """A key outside the range is not found, nor is any in an empty table."""
    # Zero is below the least key and 2**64 - 1 above the greatest; neither wraps into the table.
    assert match(u64(10, 11), u64(0, 9, 12, 2**64 - 1))[1].tolist() == [False] * 4
    # Two look-ups in an empty table.
    assert match(u64(), u64(1, 2))[1].tolist() == [False, False]


@pytest.mark.parametrize("wanted", [[5, 10, 10, 15, 20, 25, 30], [30, 5, 25, 10, 20, 15, 10]])
def test_the_last_bound_is_found_for_keys_in_order_and_in_none(wanted):
    """With bounds 10, 20, 20, smaller keys have no bound, and ties go to the last of equal ones."""
    expected = {5: -1, 10: 0, 15: 0, 20: 2, 25: 2, 30: 2}
    assert last_at_most(u64(10, 20, 20), u64(*wanted)).tolist() == [expected[key] for key in wanted]


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
@pytest.mark.parametrize("factor", [1, 1000])
def test_keys_in_no_order_are_found_where_they_first_stand(kind, factor):
    """In 7 3 7 5, the first 7 is at 0, and 5 is at 3; 4 is missing."""
    keys, wanted = (np.array(values, kind) * kind(factor) for values in ([7, 3, 7, 5], [5, 7, 4, 3]))
    assert find(keys, wanted).tolist() == [3, 0, -1, 1]


def test_numbers_below_zero_are_found_too():
    """Signed keys are -2 to 1; numbers below and above are missing."""
    assert find(np.array([1, -2, 0]), np.array([-2, -3, 0, 1, 2, -(2**63), 2**63 - 1])).tolist() == [
        1,
        -1,
        2,
        0,
        -1,
        -1,
        -1,
    ]
    # Keys of 32 bits have no table, so they are searched.
    assert find(np.array([9, 4], np.uint32), np.array([4, 5, 9], np.uint32)).tolist() == [1, -1, 0]


def test_order_and_distinct_values():
    """Order with and without repetition, and distinct values."""
    # 1 2 2 ascends, but not strictly; 1 2 does both; 2 1 does neither.
    assert [is_ascending(u64(*values)) for values in ((1, 2, 2), (1, 2), (2, 1), ())] == [True, True, False, True]
    assert [is_strictly_ascending(u64(*values)) for values in ((1, 2, 2), (1, 2))] == [False, True]
    # 9 4 2 4 has three distinct values.
    assert distinct(np.array([9, 4, 2, 4])).tolist() == [2, 4, 9]
    # Close numbers take a table, numbers up to 2**60 a sort; 3 is in neither set.
    for known in (u64(1, 2, 4), u64(1, 2, 4, 2**60)):
        assert is_among(u64(1, 3, 4), known).tolist() == [True, False, True]
    assert is_among(u64(1), u64()).tolist() == [False]


IDS = st.lists(st.sampled_from([0, 1, 2, 5, 2**40, 2**63]), max_size=30)


@given(IDS, IDS)
def test_codes_are_equal_where_the_numbers_are(first, second):
    (one, other), bound = dense_codes(np.array(first, np.uint64), np.array(second, np.uint64))
    pairs = list(zip([*first, *second], [*one.tolist(), *other.tolist()], strict=True))
    assert all((a == b) == (x == y) for a, x in pairs for b, y in pairs)
    assert all(0 <= code < bound for _, code in pairs)


@given(st.lists(st.integers(0, 9), max_size=30))
def test_first_places_are_where_values_are_new(values):
    """The result equals that of a loop with a set."""
    seen: set[int] = set()
    wanted = [place for place, value in enumerate(values) if not (value in seen or seen.add(value))]
    assert first_places(np.array(values, np.int64), 10).tolist() == wanted
