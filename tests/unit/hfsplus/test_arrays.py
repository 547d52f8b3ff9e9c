from __future__ import annotations

import numpy as np

from layoutscope.filesystems.hfsplus.arrays import LARGEST, distinct, find, heads, owners, ragged, signed


def test_ragged_concatenates_ranges():
    """Ranges from 5 of two numbers, from 9 of none and from 2 of three come one after the other."""
    assert ragged(np.array([5, 9, 2]), np.array([2, 0, 3])).tolist() == [5, 6, 2, 3, 4]
    assert ragged(np.array([], np.int64), np.array([], np.int64)).tolist() == []


def test_owners_name_whose_item_it_is():
    """Two items of the first, none of the second, one of the third."""
    assert owners(np.array([2, 0, 1])).tolist() == [0, 0, 2]


def test_find_gives_the_first_place_in_any_order():
    """Numbers need not be sorted; a missing one is at -1."""
    assert find(np.array([7, 3, 7, 5]), np.array([5, 7, 4])).tolist() == [3, 0, -1]
    assert find(np.array([1, 4, 4, 9]), np.array([4, 9, 10])).tolist() == [1, 3, -1]
    assert find(np.array([], np.int64), np.array([1])).tolist() == [-1]


def test_heads_are_where_values_change():
    """Places 0, 2 and 3 start a run; distinct values are those of the runs after sorting."""
    assert heads(np.array([4, 4, 2, 9])).tolist() == [0, 2, 3]
    assert distinct(np.array([9, 4, 2, 4])).tolist() == [2, 4, 9]


def test_impossible_sizes_become_the_largest():
    """A 64-bit size with its highest bit set does not become negative."""
    assert signed(np.array([2**63, 5], np.uint64)).tolist() == [LARGEST, 5]
