from __future__ import annotations

import polars as pl

from layoutscope.metrics.files import fork_fragments
from layoutscope.tables import Table


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
    found = fork_fragments(Table.of("extents", extents), 4096)
    assert found.file_id.tolist() == [16, 17]
    assert found.blocks.tolist() == [2, 2]
    assert found.fragments.tolist() == [1, 2]
