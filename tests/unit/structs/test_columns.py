from __future__ import annotations

import numpy as np

from layoutscope.structs.arrays import LARGEST, concatenate, signed


def test_batches_are_joined_column_by_column():
    """Two batches of two and one rows; without a batch, the given empty value is returned."""
    parts = [{"id": np.array([1, 2])}, {"id": np.array([3])}]
    assert concatenate(parts, {})["id"].tolist() == [1, 2, 3]
    assert concatenate([], {"id": np.array([], np.uint8)})["id"].dtype == np.uint8
    # A 64-bit size with its highest bit set does not become negative.
    assert signed(np.array([2**63, 5], np.uint64)).tolist() == [LARGEST, 5]
