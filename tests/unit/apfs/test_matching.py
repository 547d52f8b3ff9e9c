from __future__ import annotations

import numpy as np
import pytest

from layoutscope.filesystems.apfs.store.matching import index_of, is_among, last_at_most, match


def u64(*values: int):
    """Make an array of numbers as they stand on disk."""
    return np.array(values, np.uint64)


@pytest.mark.parametrize("factor", [1, 1000])
def test_keys_are_found_where_they_are_dense_and_where_they_are_not(factor):
    """Of 2, 3 and 5 (or a thousand times that), 5 is the third; 1, 4 and 9 are not there."""
    spot, found = match(u64(2, 3, 5) * np.uint64(factor), u64(5, 1, 4, 9, 2) * np.uint64(factor))
    assert found.tolist() == [True, False, False, False, True]
    assert spot[found].tolist() == [2, 0]


@pytest.mark.parametrize("factor", [1, 1000])
def test_the_first_of_equal_keys_is_found(factor):
    """Three records of object 7 begin at the second row."""
    keys = u64(6, 7, 7, 7, 8) * np.uint64(factor)
    assert index_of(keys).find(keys)[0].tolist() == [0, 1, 1, 1, 4]


def test_numbers_around_the_ends_of_the_range_are_not_found():
    """Zero lies below the least key and 2**64 - 1 above the greatest; neither wraps into the table."""
    assert match(u64(10, 11), u64(0, 9, 12, 2**64 - 1))[1].tolist() == [False] * 4


def test_nothing_is_found_among_no_keys():
    """Two look-ups in an empty table."""
    assert match(u64(), u64(1, 2))[1].tolist() == [False, False]


@pytest.mark.parametrize("wanted", [[5, 10, 10, 15, 20, 25, 30], [30, 5, 25, 10, 20, 15, 10]])
def test_the_last_bound_is_found_for_keys_in_order_and_in_none(wanted):
    """Bounds 10, 20, 20: what is below has none, ties go to the last of equal ones."""
    expected = {5: -1, 10: 0, 15: 0, 20: 2, 25: 2, 30: 2}
    assert last_at_most(u64(10, 20, 20), u64(*wanted)).tolist() == [expected[key] for key in wanted]


def test_membership_is_the_same_near_and_far_apart():
    """Neighbours take a table, numbers up to 2**60 a sort; 3 is in neither set."""
    for known in (u64(1, 2, 4), u64(1, 2, 4, 2**60)):
        assert is_among(u64(1, 3, 4), known).tolist() == [True, False, True]
    assert is_among(u64(1), u64()).tolist() == [False]
