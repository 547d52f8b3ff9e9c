"""Keys in one form, and the order in which they stand."""

from __future__ import annotations

import numpy as np

from layoutscope.filesystems.hfsplus.nodes import FORMS, Keys, _with_tail


def numbers(*values):
    return np.array(values, np.int64)


def test_keys_of_named_trees_sort_by_name_before_number():
    """Attribute 'a' with block 9 comes before 'a' with block 10 and before 'ab' with block 0."""
    units = np.frombuffer("aaab".encode("utf-16-le"), np.uint16)
    joined, counts = _with_tail(units, numbers(1, 1, 2), [numbers(9, 10, 0)], has_name=True)
    starts = np.cumsum(counts) - counts
    same = np.zeros(3, np.int64)
    keys = Keys(same, joined, starts, counts)
    assert not keys.not_after(numbers(0, 1), numbers(1, 2)).any()
    assert keys.not_after(numbers(1, 2), numbers(0, 1)).all()


def test_equal_keys_are_not_after_one_another():
    """A key does not come after itself, and a prefix comes before what it begins."""
    units = np.frombuffer("abcdeabcdef".encode("utf-16-le"), np.uint16)
    starts, counts, same = numbers(0, 5), numbers(5, 6), np.zeros(2, np.int64)
    keys = Keys(same, units, starts, counts)
    assert keys.not_after(numbers(0, 1), numbers(0, 0)).tolist() == [True, True]
    assert keys.not_after(numbers(0), numbers(1)).tolist() == [False]


def test_longest_keys_follow_from_the_longest_names():
    """TN1150: 255 units in the catalog, 127 in attributes; two bytes a unit and what stands before the name."""
    assert FORMS["catalog"].max_length == FORMS["catalog"].fixed_length + 2 * 255 == 516
    assert FORMS["attributes"].max_length == FORMS["attributes"].fixed_length + 2 * 127 == 266
    assert FORMS["extents-overflow"].max_length == FORMS["extents-overflow"].fixed_length == 10
