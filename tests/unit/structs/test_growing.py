from __future__ import annotations

import numpy as np
import pytest

from layoutscope.structs.arrays import GrowingColumn


def test_values_come_back_in_the_order_of_the_batches():
    """The second of three batches exceeds the capacity that the first one announced."""
    column = GrowingColumn()
    for first, stop in ((0, 10), (10, 40), (40, 41)):
        column.add(np.arange(first, stop), to_come=0.5)
    assert len(column) == 41
    assert column.values.tolist() == list(range(41))
    # Sixteen bits stay sixteen, and 64-bit numbers are narrowed if 32 bits were requested.
    plain, narrow = GrowingColumn(), GrowingColumn(np.int32)
    plain.add(np.array([1], np.uint16))
    narrow.add(np.array([2**31 - 1], np.int64))
    assert plain.values.dtype == np.uint16
    assert narrow.values.dtype == np.int32
    assert narrow.values.tolist() == [2**31 - 1]
    # A column without batches has its type and no rows.
    assert GrowingColumn(np.uint8).values.dtype == np.uint8
    assert len(GrowingColumn().values) == 0


@pytest.mark.parametrize("to_come", [0.0, 3.0])
def test_zeros_and_numbers_of_a_row_come_back_as_they_were_added(to_come):
    """Zeros are not written: the memory is zero, even where an older buffer had numbers."""
    batches = [np.zeros((2, 3), np.uint32), np.array([[1, 0, 2], [3, 0, 0]], np.uint32), np.zeros((9, 3), np.uint32)]
    column, single = GrowingColumn(), GrowingColumn()
    for batch in batches:
        column.add(batch, to_come)
        single.add(batch[:, 2], to_come)
    expected = np.concatenate(batches)
    assert column.values.dtype == np.uint32
    assert column.values.tolist() == expected.tolist()
    assert single.values.tolist() == expected[:, 2].tolist()
