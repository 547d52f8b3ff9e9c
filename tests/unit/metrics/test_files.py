from __future__ import annotations

import polars as pl

from layoutscope.metrics.files import fork_fragments
from layoutscope.tables import Table


def test_scattered_extents_of_a_fork_are_put_together():
    """Two files' extents alternate, out of order: file 16 is in one piece at 0 to 8192, file 17 in two."""
    extents = pl.DataFrame(
        {
            "file_id": pl.Series([16, 17, 16, 17], dtype=pl.UInt64),
            "fork": pl.Series(["data"] * 4, dtype=pl.Categorical),
            "logical_offset": [4096, 0, 0, 4096],
            "image_offset": [4096, 16384, 0, 40960],
            "length_bytes": [4096, 4096, 4096, 100],
        }
    )
    file_id, blocks, fragments = fork_fragments(Table.of("extents", extents), 4096)
    assert file_id.tolist() == [16, 17]
    assert blocks.tolist() == [2, 2]
    assert fragments.tolist() == [1, 2]


def test_extents_in_the_order_of_the_table_have_the_same_fragments():
    """Forks of file 16 are in one piece and with a gap; that of file 17 begins with a hole, which does not count."""
    extents = pl.DataFrame(
        {
            "file_id": pl.Series([16, 16, 16, 16, 17, 17], dtype=pl.UInt64),
            "fork": pl.Series(["data", "data", "resource", "resource", "data", "data"], dtype=pl.Categorical),
            "logical_offset": [0, 4096, 0, 4096, 0, 4096],
            "image_offset": [0, 4096, 8192, 16384, None, 40960],
            "length_bytes": [4096, 4096, 4096, 1, 4096, 8192],
        }
    )
    file_id, blocks, fragments = fork_fragments(Table.of("extents", extents), 4096)
    assert file_id.tolist() == [16, 16, 17]
    assert blocks.tolist() == [2, 2, 2]
    assert fragments.tolist() == [1, 2, 1]
    assert len(fork_fragments(Table.of("extents", extents[:0]), 4096)[1]) == 0
