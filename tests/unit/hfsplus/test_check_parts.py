"""The arithmetic behind the check: runs of blocks, keys in one form, and which of two keys is to blame."""

from __future__ import annotations

import numpy as np
import pytest

from layoutscope.filesystems.hfsplus.check.space import _common, _complement, _merged
from layoutscope.filesystems.hfsplus.tree.keyorder import not_after
from layoutscope.filesystems.hfsplus.tree.keys import FORMS, _with_tail


def numbers(*values):
    return np.array(values, np.int64)


def runs(pair):
    return list(zip(*(part.tolist() for part in pair), strict=True))


def test_runs_that_touch_or_overlap_are_joined():
    """Blocks 0-4, 3-6 and 6-8 are one run, 10-12 another; a run inside a longer one adds nothing."""
    assert runs(_merged(numbers(0, 1, 3, 6, 10), numbers(5, 2, 6, 8, 12))) == [(0, 8), (10, 12)]


def test_complement_is_what_lies_between():
    """Of 20 blocks without 0-4 and 8-12, 5-7 and 12-19 are left."""
    assert runs(_complement(numbers(0, 8), numbers(5, 12), 20)) == [(5, 8), (12, 20)]
    assert runs(_complement(numbers(), numbers(), 3)) == [(0, 3)]
    assert runs(_complement(numbers(0), numbers(9), 3)) == []


def test_common_parts_of_two_lists_of_runs():
    """0-9 and 20-29 share 5-9, 20-21 and 28-29 with 5-21 and 28-40."""
    found = _common(numbers(0, 20), numbers(10, 30), numbers(5, 28), numbers(22, 41))
    assert runs(found) == [(5, 10), (20, 22), (28, 30)]


@pytest.mark.parametrize("seed", range(5))
def test_common_and_complement_agree_with_a_map_of_blocks(seed):
    """Random runs of 200 blocks, against one bit a block."""
    rng = np.random.default_rng(seed)
    bits = rng.random((2, 200)) < 0.5

    def of(row):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(np.int8), [0]])))
        return edges[::2], edges[1::2]

    def back(pair):
        row = np.zeros(200, np.bool_)
        for start, stop in runs(pair):
            row[start:stop] = True
        return row

    one, other = of(bits[0]), of(bits[1])
    assert (back(_common(*one, *other)) == (bits[0] & bits[1])).all()
    assert (back(_complement(*one, 200)) == ~bits[0]).all()


def test_keys_of_named_trees_sort_by_name_before_number():
    """Attribute 'a' with block 9 comes before 'a' with block 10 and before 'ab' with block 0."""
    units = np.frombuffer("aaab".encode("utf-16-le"), np.uint16)
    joined, counts = _with_tail(units, numbers(1, 1, 2), [numbers(9, 10, 0)], has_name=True)
    starts = np.cumsum(counts) - counts
    same = np.zeros(3, np.int64)
    assert not not_after(same, joined, starts, counts, numbers(0, 1), numbers(1, 2)).any()
    assert not_after(same, joined, starts, counts, numbers(1, 2), numbers(0, 1)).all()


def test_equal_keys_are_not_after_one_another():
    """A key does not come after itself, and a prefix comes before what it begins."""
    units = np.frombuffer("abcdeabcdef".encode("utf-16-le"), np.uint16)
    starts, counts, same = numbers(0, 5), numbers(5, 6), np.zeros(2, np.int64)
    assert not_after(same, units, starts, counts, numbers(0, 1), numbers(0, 0)).tolist() == [True, True]
    assert not_after(same, units, starts, counts, numbers(0), numbers(1)).tolist() == [False]


def test_longest_keys_follow_from_the_longest_names():
    """TN1150: 255 units in the catalog, 127 in attributes; two bytes a unit and what stands before the name."""
    assert FORMS["catalog"].max_length == FORMS["catalog"].fixed_length + 2 * 255 == 516
    assert FORMS["attributes"].max_length == FORMS["attributes"].fixed_length + 2 * 127 == 266
    assert FORMS["extents-overflow"].max_length == FORMS["extents-overflow"].fixed_length == 10
