"""Tables as CSV, Parquet and JSON lines.

CSV holds no bytes and no lists: raw names are hexadecimal; what a spreadsheet would run is guarded by an apostrophe.
In JSON lines 64-bit ids are strings, since many readers keep only 53 bits of a number.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FORMULA: Final = r"^[=+\-@\t\r]"
"""First characters that spreadsheets take for a formula."""


def write_table(frames: Sequence[pl.DataFrame], file: IO[bytes], file_format: str) -> None:
    """Write the frames one below the other.

    Parameters
    ----------
    frames : sequence of DataFrame
        The same table of several volumes.
    file : binary file
        Where to.
    file_format : str
        Key of :data:`FORMATS`.
    """
    FORMATS[file_format](joined(frames), file)


def joined(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Put the same table of several volumes into one."""
    return pl.concat(frames, how="vertical_relaxed") if len(frames) > 1 else frames[0]


def write_csv(frame: pl.DataFrame, file: IO[bytes]) -> None:
    """Write CSV: UTF-8, names guarded, raw bytes as hexadecimal, times as ISO 8601."""
    columns = [_csv_column(name, dtype) for name, dtype in frame.schema.items()]
    frame.select(columns).write_csv(file, datetime_format="%Y-%m-%dT%H:%M:%S%.6fZ")


def _csv_column(name: str, dtype: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if dtype == pl.Binary:
        return column.bin.encode("hex")
    if dtype in (pl.String, pl.Categorical):
        text = column.cast(pl.String)
        return pl.when(text.str.contains(FORMULA)).then(pl.lit("'") + text).otherwise(text).alias(name)
    return column


def write_parquet(frame: pl.DataFrame, file: IO[bytes]) -> None:
    """Write Parquet with the types of the tables."""
    frame.write_parquet(file, compression="zstd", statistics=True)


def write_jsonl(frame: pl.DataFrame, file: IO[bytes]) -> None:
    """Write one JSON object a line."""
    columns: list[Any] = [_json_column(name, dtype) for name, dtype in frame.schema.items()]
    frame.select(columns).write_ndjson(file)


def _json_column(name: str, dtype: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if dtype == pl.UInt64:
        return column.cast(pl.String)
    return column.bin.encode("hex") if dtype == pl.Binary else column


FORMATS: Final[dict[str, Callable[[pl.DataFrame, IO[bytes]], None]]] = {
    "csv": write_csv,
    "parquet": write_parquet,
    "jsonl": write_jsonl,
}
"""Writers by the name of their format."""
