from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.metrics.files import fork_fragments
from layoutscope.metrics.groups import dense_codes, first_of_each, run_heads

IDS = st.lists(st.sampled_from([0, 1, 2, 5, 2**40, 2**63]), max_size=30)


@given(IDS, IDS)
def test_codes_are_equal_where_the_numbers_are(first, second):
    """Two numbers have the same code exactly when they are the same number, in whichever array they stand."""
    (one, other), bound = dense_codes(np.array(first, np.uint64), np.array(second, np.uint64))
    pairs = list(zip([*first, *second], [*one.tolist(), *other.tolist()], strict=True))
    assert all((a == b) == (x == y) for a, x in pairs for b, y in pairs)
    assert all(0 <= code < bound for _, code in pairs)


@given(st.lists(st.integers(0, 5), max_size=20))
def test_the_first_of_each_code_is_marked(codes):
    """Exactly the rows are marked whose code stands in no row before."""
    wanted = [code not in codes[:row] for row, code in enumerate(codes)]
    assert first_of_each(np.array(codes, np.int64), 6).tolist() == wanted


def test_heads_are_where_a_key_changes():
    """Of 1 1 1 2 and a a b b rows 0, 2 and 3 begin something new."""
    assert run_heads(np.array([1, 1, 1, 2]), np.array([7, 7, 8, 8])).tolist() == [0, 2, 3]


def test_scattered_extents_of_a_fork_are_put_together():
    """Extents of two files in turns, out of order: file 16 lies at 0 to 8192 in one piece, file 17 in two."""
    extents = pl.DataFrame(
        {
            "file_id": pl.Series([16, 17, 16, 17], dtype=pl.UInt64),
            "fork": pl.Series(["data"] * 4, dtype=pl.Categorical),
            "logical_offset": [4096, 0, 0, 4096],
            "image_offset": [4096, 16384, 0, 40960],
            "length_bytes": [4096, 4096, 4096, 100],
        }
    )
    found = fork_fragments(extents, 4096).sort("file_id")
    assert found["blocks"].to_list() == [2, 2]
    assert found["fragments"].to_list() == [1, 2]
