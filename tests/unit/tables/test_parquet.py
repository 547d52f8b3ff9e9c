"""Metadata of Parquet files is read as polars reads it, and checked against the file."""

from __future__ import annotations

import polars as pl
import pytest

from layoutscope.tables.parquet import MAGIC, read_claims

FRAME = pl.DataFrame({"number": range(5000), "word": [f"word {n % 7}" for n in range(5000)], "none": [None] * 5000})


@pytest.fixture
def table(tmp_path):
    """Return a table in two row groups."""
    FRAME.write_parquet(tmp_path / "a.parquet", row_group_size=3000, compression="zstd")
    return tmp_path / "a.parquet"


def footer(table):
    """Return where the footer starts and stops in the file."""
    size = table.stat().st_size
    return size - 8 - int(table.read_bytes()[-8:-4][::-1].hex(), 16), size - 8


@pytest.mark.parametrize("compression", ["zstd", "uncompressed", "snappy"])
def test_rows_and_bytes(tmp_path, compression):
    """Rows are those of the frame; uncompressed bytes are at least what the distinct words and numbers take."""
    FRAME.write_parquet(tmp_path / "a", row_group_size=3000, compression=compression)
    rows, unpacked_bytes = read_claims(tmp_path / "a")
    assert rows == FRAME.height
    assert 5000 * 8 < unpacked_bytes < 5000 * 40
    if compression == "uncompressed":
        assert unpacked_bytes < (tmp_path / "a").stat().st_size


def test_a_table_without_rows(tmp_path):
    """No row group, or empty ones, give no rows."""
    FRAME.clear().write_parquet(tmp_path / "a")
    assert read_claims(tmp_path / "a")[0] == 0


@pytest.mark.parametrize(
    "data", [b"", b"PAR1", bytes(100), b"PAR1" + b"\xff" * 4 + b"PAR1", b"PAR1" + bytes(4) + b"PAR1"]
)
def test_what_is_no_table(tmp_path, data):
    """A file that is too short, without magic, or with an oversized or empty footer is refused."""
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(ValueError, match=r"is not a Parquet|too short|end early"):
        read_claims(tmp_path / "a")


def test_every_byte_of_the_footer_may_be_wrong(table):
    """If any byte is set to the maximum, the metadata is refused, or the row count is still right."""
    sound = table.read_bytes()
    refused = 0
    for place in range(*footer(table)):
        table.write_bytes(sound[:place] + b"\xff" + sound[place + 1 :])
        try:
            assert read_claims(table)[0] == FRAME.height
        except ValueError:
            refused += 1
    assert refused > 20


def test_files_that_nest_or_claim_too_much(table):
    """Both are one error."""
    # Nested structures are read to a depth that no valid file has.
    start, stop = footer(table)
    sound = table.read_bytes()
    table.write_bytes(sound[:start] + b"\x1c" * (stop - start) + sound[stop:])
    with pytest.raises(ValueError, match="too deeply"):
        read_claims(table)
    # A list of 2**60 values is refused before memory is allocated for it.
    start, stop = footer(table)
    sound = table.read_bytes()
    head = b"\x19\xfc" + b"\xff" * 8 + b"\x0f"
    table.write_bytes(sound[:start] + head + bytes(stop - start - len(head)) + sound[stop:])
    with pytest.raises(ValueError, match="longer than its headers"):
        read_claims(table)
    assert sound.startswith(MAGIC)
