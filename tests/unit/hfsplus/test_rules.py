from __future__ import annotations

import numpy as np

from layoutscope.checks.hfsplus.scan import are_outside, overflow_blocks
from layoutscope.filesystems.hfsplus.catalog import find_orphaned_threads
from layoutscope.filesystems.hfsplus.contents import count_entries_by_parent


def numbers(*values):
    return np.array(values, np.int64)


def test_entries_are_counted_in_any_order_of_their_parents():
    """Folder 2 has three entries, 16 has one, 17 has none; those of 99 are not counted."""
    for parents in (numbers(2, 2, 2, 16, 99), numbers(16, 2, 99, 2, 2)):
        assert count_entries_by_parent(parents, numbers(17, 2, 16)).tolist() == [0, 3, 1]
    assert count_entries_by_parent(numbers(), numbers(2)).tolist() == [0]
    # Neither of two threads of file 17 is an orphan, although it leads only to the first; that of 30 is.
    assert find_orphaned_threads(numbers(17, 30, 17, 16), numbers(16, 17), numbers(3, 0)).tolist() == [1]
    assert find_orphaned_threads(numbers(17), numbers(16, 17), numbers(-1, 0)).tolist() == []


def test_overflow_blocks_are_added_and_extents_end_with_the_volume():
    # File 17 has records of 3 + 5 and of 2 blocks, 10 in total; a record of file 5 belongs to no file.
    counts = np.zeros((3, 8), np.int64)
    counts[0, :2], counts[1, 0], counts[2, 0] = (3, 5), 2, 100
    assert overflow_blocks(numbers(16, 17), numbers(17, 17, 5), counts).tolist() == [0, 10]
    # Of 100 blocks, 90 to 99 are inside, 91 to 100 are not; an unused extent at 500 is ignored.
    assert are_outside(numbers(90, 91, 500), numbers(10, 10, 0), 100).tolist() == [False, True, False]
    # As 32-bit numbers, as decoded, the sum of start and count would wrap around to 4.
    start, count = np.array([2**32 - 1, 5], np.uint32), np.array([5, 2**32 - 1], np.uint32)
    assert are_outside(start, count, 100).tolist() == [True, True]
    assert are_outside(start[:1], np.array([1], np.uint32), 2**32 - 1).tolist() == [True]
