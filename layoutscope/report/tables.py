"""Tables as CSV, Parquet and JSON lines.

CSV holds no bytes and no lists: raw names are hexadecimal, as they stand on the disk; what a spreadsheet would run is
guarded by an apostrophe, and what a terminal would act on is made visible. In JSON lines 64-bit ids are strings, since
many readers keep only 53 bits of a number.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

from layoutscope.frames import pl
from layoutscope.report import UNSAFE, escape_text
from layoutscope.tables import TABLES
from layoutscope.tables.frames import parquet
from layoutscope.tables.schema import REFERENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from layoutscope.tables import VolumeLayout

FORMULA: Final = r"^\s*[=+\-@\t\r\u{FF1D}\u{FF0B}\u{FF0D}\u{FF20}]"
"""How text starts that spreadsheets take for a formula (OWASP, CSV injection): also behind white space, which some
leave out, and in full width, which those of East Asia take for the same."""

SLICE_ROWS: Final = 65_536
"""Rows that are turned into text at once."""


def joined_table(layouts: Sequence[VolumeLayout], name: str) -> pl.DataFrame:
    """Put the same table of several layouts into one, with rows and references to rows numbered through.

    Parameters
    ----------
    layouts : sequence of VolumeLayout
        At least one.
    name : str
        Which table.
    """
    frames, first_row, first_node = [], 0, 0
    for layout in layouts:
        frame = layout.table(name)
        shifts = {column.name: first_node for column in TABLES[name] if column.unit == REFERENCE}
        shifts |= {"row": first_row} if "row" in frame.columns else {}
        frames.append(frame.with_columns((pl.col(column) + shift).cast(pl.UInt32) for column, shift in shifts.items()))
        first_row += frame.height
        first_node += layout.nodes.height
    return pl.concat(frames)


def write_table(frame: pl.DataFrame, file: IO[bytes], file_format: str) -> None:
    """Write a table.

    Parameters
    ----------
    frame : DataFrame
        From :func:`joined_table`.
    file : binary file
        Where to.
    file_format : str
        Key of :data:`FORMATS`.
    """
    FORMATS[file_format](frame, file)


def write_csv(frame: pl.DataFrame, file: IO[bytes]) -> None:
    """Write CSV: UTF-8, names guarded, raw bytes as hexadecimal, times as ISO 8601."""
    columns = [_csv_column(name, dtype) for name, dtype in frame.schema.items()]
    file.write((",".join(frame.columns) + "\n").encode())
    for part in frame.iter_slices(SLICE_ROWS):
        visible = part.with_columns(_visible(part[name]) for name, dtype in frame.schema.items() if _is_text(dtype))
        text = visible.select(columns).write_csv(include_header=False, datetime_format="%Y-%m-%dT%H:%M:%S%.6fZ")
        file.write(text.encode())


def _is_text(dtype: pl.DataType) -> bool:
    return dtype in (pl.String, pl.Categorical)


def _visible(column: pl.Series) -> pl.Series:
    """Escape the few texts that have unsafe characters; line ends within quotes are CSV's own affair."""
    text = column.cast(pl.String)
    rows = text.str.contains(f"[{UNSAFE}]").fill_null(value=False).arg_true()
    return (
        text.scatter(rows, ["\n".join(map(escape_text, item.split("\n"))) for item in text.gather(rows)])
        if len(rows)
        else column
    )


def _csv_column(name: str, dtype: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if dtype == pl.Binary:
        return column.bin.encode("hex")
    if _is_text(dtype):
        return guard_formula(column.cast(pl.String)).alias(name)
    return column


def guard_formula(text: pl.Expr) -> pl.Expr:
    """Put an apostrophe before what a spreadsheet would run.

    Examples
    --------
    >>> pl.select(guard_formula(pl.lit(pl.Series(["=1+1", "a=1"])))).to_series().to_list()
    ["'=1+1", 'a=1']
    """
    return pl.when(text.str.contains(FORMULA)).then(pl.lit("'") + text).otherwise(text)


def write_parquet(frame: pl.DataFrame, file: IO[bytes]) -> None:
    """Write Parquet with the types of the tables."""
    file.write(parquet(frame))


def write_jsonl(frame: pl.DataFrame, file: IO[bytes]) -> None:
    """Write one JSON object a line."""
    columns = [_json_column(name, dtype) for name, dtype in frame.schema.items()]
    for part in frame.iter_slices(SLICE_ROWS):
        # Line ends separate the objects; JSON escapes those in names itself.
        lines = part.select(columns).write_ndjson().split("\n")
        file.write("\n".join(lines if all(map(str.isascii, lines)) else map(escape_text, lines)).encode())


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
