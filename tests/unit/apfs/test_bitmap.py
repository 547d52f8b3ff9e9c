from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.filesystems.apfs.store.bitmap import free_runs


@given(st.lists(st.binary(min_size=4, max_size=4), min_size=1, max_size=4), st.data())
def test_free_runs_are_the_clear_bits(rows, data):
    """Runs hold exactly the clear bits that count, lowest bit of each byte first, each run as long as it can be."""
    counts = [data.draw(st.integers(0, 32)) for _ in rows]
    row, first, length = free_runs(np.frombuffer(b"".join(rows), np.uint8).reshape(-1, 4), np.array(counts))
    found = {(int(r), b) for r, f, n in zip(row, first, length, strict=True) for b in range(f, f + n)}
    wanted = {
        (number, bit)
        for number, (raw, count) in enumerate(zip(rows, counts, strict=True))
        for bit in range(count)
        if not raw[bit // 8] >> bit % 8 & 1
    }
    assert found == wanted
    ends = set(zip(row.tolist(), (first + length).tolist(), strict=True))
    assert not ends & set(zip(row.tolist(), first.tolist(), strict=True))


def test_a_full_and_an_empty_bitmap():
    """A bitmap of ones has no run, one of zeros has a single run as long as its chunk."""
    row, first, length = free_runs(np.array([[255] * 8, [0] * 8], np.uint8), np.array([64, 50]))
    assert (row.tolist(), first.tolist(), length.tolist()) == ([1], [0], [50])
