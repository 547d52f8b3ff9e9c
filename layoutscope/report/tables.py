"""Tables as CSV, Parquet and JSON lines.

CSV has no bytes and no lists, so raw names are hexadecimal. An apostrophe guards formulas for spreadsheets, and
characters that a terminal would act on are escaped. In JSON lines, 64-bit ids are strings, because many readers keep
only 53 bits of a number.
"""

from __future__ import annotations

import json
import re
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.report import UNSAFE, escape_text
from layoutscope.structs.arrays import I64, U8, copy_pieces, starts_of
from layoutscope.tables import TABLES, Table, Values, stack_tables
from layoutscope.tables.columns import AnyColumn, TextColumn, listed
from layoutscope.tables.frames import parquet
from layoutscope.tables.schema import REFERENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from layoutscope.tables import VolumeLayout
    from layoutscope.tables.columns import Rows

FORMULA: Final = re.compile("\\s*[=+\\-@\t\r\uff1d\uff0b\uff0d\uff20]")
"""Start of a text that spreadsheets take for a formula (OWASP, CSV injection), also after white space, which some
ignore, and in full width, which East Asian ones accept."""

SLICE_ROWS: Final = 16_384
"""Number of rows that are converted to text at a time."""


def join_tables(layouts: Sequence[VolumeLayout], name: str) -> Table:
    """Concatenate a table of several layouts, and renumber rows and references to rows."""
    tables, first_row, first_node = [], 0, 0
    for layout in layouts:
        table = layout.columns(name)
        shifts = {column.name: first_node for column in TABLES[name] if column.unit == REFERENCE}
        shifts |= {"row": first_row} if any(column.name == "row" for column in TABLES[name]) else {}
        first_row += len(table)
        first_node += len(layout.columns("nodes"))
        for column, shift in shifts.items():
            own = table[column]
            table = table.changed(column, Values(own.data + np.uint32(shift), own.known)) if shift else table
        tables.append(table)
    return stack_tables(tables)


def write_table(rows: Rows, file: IO[bytes], file_format: str) -> None:
    """Write a table."""
    FORMATS[file_format](rows, file)


def write_csv(rows: Rows, file: IO[bytes]) -> None:
    """Write CSV: UTF-8, names guarded, raw bytes as hexadecimal, times as ISO 8601."""
    # The user chooses the names of the columns of a query.
    file.write((",".join(_quote_csv(column.name) for column in rows.columns) + "\n").encode())
    for first in range(0, len(rows), SLICE_ROWS):
        values = rows.columns_of(slice(first, first + SLICE_ROWS))
        columns = [_format_column(values[column.name], column.kind) for column in rows.columns]
        lengths = np.sum([cells.lengths for cells in columns], axis=0) + len(columns)
        place = starts_of(lengths)
        text = np.full(int(lengths.sum()), ord(","), np.uint8)
        for cells in columns:
            copy_pieces(cells.data, cells.starts, cells.lengths, place, text)
            place += cells.lengths + 1
        text[place - 1] = ord("\n")
        file.write(text.data)


class Cells(NamedTuple):
    """The texts of a column in some rows of a CSV file, in UTF-8."""

    data: U8
    starts: I64  # offset of the text of each row in `data`, shape (n_rows,)
    lengths: I64  # shape (n_rows,)

    @classmethod
    def of(cls, texts: Sequence[str]) -> Cells:
        """Concatenate texts."""
        raw = [text.encode() for text in texts]
        lengths = np.fromiter(map(len, raw), np.int64, len(raw))
        return cls(np.frombuffer(b"".join(raw), np.uint8), starts_of(lengths), lengths)

    def where(self, known: NDArray[np.bool_] | None) -> Cells:
        """Empty the rows that are not known."""
        return self if known is None else self._replace(lengths=np.where(known, self.lengths, 0))

    def take(self, rows: NDArray[Any]) -> Cells:
        """Return the texts of some rows."""
        return Cells(self.data, self.starts[rows], self.lengths[rows])


def _format_column(column: AnyColumn | Sequence[Any] | NDArray[Any], kind: str) -> Cells:
    """Format a column: arrays as a whole, lists value by value."""
    if isinstance(column, TextColumn):
        if kind != "Binary":
            return _format_texts(column)
        raw, starts, lengths = column.pieces()
        return Cells(_HEXADECIMAL[raw].view(np.uint8), 2 * starts, 2 * lengths).where(column.known)
    if isinstance(column, Values) and kind == "Categorical":
        words = Cells.of([_quote_csv(word) for word in column.words or ("",)])
        return words.take(column.filled(0)).where(column.known)
    if isinstance(column, Values) and kind == "time":
        return _format_times(column)
    data = column.data if isinstance(column, Values) else column
    if kind not in _CSV and isinstance(data, np.ndarray) and data.dtype.kind in "iu":
        return _format_integers(data).where(column.known if isinstance(column, Values) else None)
    form = _CSV.get(kind, _CSV[""])
    return Cells.of([form(value) for value in listed(column, kind)])


_GROUP: Final = 10_000
_DIGITS: Final = (
    (np.arange(_GROUP)[:, None] // (1000, 100, 10, 1) % 10 + ord("0")).astype(np.uint8).view(np.uint32)[:, 0]
)
"""The four digits of each number below 10,000, as bytes."""

_POWERS: Final = 10 ** np.arange(1, 20, dtype=np.uint64)


def _format_integers(values: NDArray[np.integer[Any]]) -> Cells:
    """Format integers, with up to 20 digits and a sign."""
    is_negative = values < 0
    # The absolute value of the smallest number overflows its type, but is right as an unsigned number.
    rest = (np.abs(values.astype(np.int64)) if values.dtype.kind == "i" else values).astype(np.uint64)
    lengths = np.searchsorted(_POWERS, rest, side="right") + 1 + is_negative
    groups = np.empty((len(values), 6), np.uint32)
    for place in range(5, 0, -1):
        quotient = rest // np.uint64(_GROUP)
        groups[:, place] = _DIGITS[(rest - quotient * np.uint64(_GROUP)).astype(np.int64)]
        rest = quotient
        if not rest.any():
            break
    data = groups.view(np.uint8).reshape(-1)
    starts = np.arange(1, len(values) + 1) * 24 - lengths
    data[starts[is_negative]] = ord("-")
    return Cells(data, starts, lengths)


def _format_times(column: Values) -> Cells:
    """Format times in microseconds since 1970; empty beyond the range of `datetime`."""
    is_there = (column.data >= _FIRST_US) & (column.data <= _LAST_US)
    shown = np.where(is_there, column.data, 0).astype("M8[us]")
    text = np.datetime_as_string(shown, unit="us", timezone="UTC").astype("S27")
    starts = np.arange(len(text)) * 27
    cells = Cells(text.view(np.uint8), starts, np.full(len(text), 27))
    return cells.where(is_there if column.known is None else is_there & column.known)


_FIRST_US, _LAST_US = np.array(["0001-01-01", "9999-12-31T23:59:59.999999"], "M8[us]").astype(np.int64).tolist()

_HEXADECIMAL: Final = np.array([f"{byte:02x}".encode() for byte in range(256)], "S2").view(np.uint16)


_IS_PLAIN: Final = np.isin(np.arange(256), [code for code in range(0x20, 0x7F) if chr(code) not in '",'])
_BEGINS_PLAIN: Final = _IS_PLAIN & ~np.isin(np.arange(256), [*map(ord, " =+-@")])


def _format_texts(column: TextColumn) -> Cells:
    """Copy plain texts as they are stored, and format those that need a guard, quotes or escapes one by one."""
    data, starts, lengths = column.pieces()
    num_odd = np.concatenate([[0], np.cumsum(~_IS_PLAIN[data])])
    is_plain = (lengths > 0) & (num_odd[starts + lengths] == num_odd[starts])
    is_plain[is_plain] = _BEGINS_PLAIN[data[starts[is_plain]]]
    is_odd = ~is_plain if column.known is None else ~is_plain & column.known
    odd = np.flatnonzero(is_odd)
    if len(odd):
        others = Cells.of([_quote_csv(text) for text in column.take(odd).to_list()])
        starts[odd], lengths[odd] = others.starts + len(data), others.lengths
        data = np.concatenate([data, others.data])
    return Cells(data, starts, lengths).where(column.known)


def write_jsonl(rows: Rows, file: IO[bytes]) -> None:
    """Write one JSON object per line."""
    keys = [f"{json.dumps(column.name)}:" for column in rows.columns]

    def line(values: Sequence[str]) -> str:
        text = "{" + ",".join(key + value for key, value in zip(keys, values, strict=True)) + "}"
        # JSON escapes line ends itself; other characters that a terminal would act on are escaped here.
        return text if text.isascii() and text.isprintable() else escape_text(text)

    for first in range(0, len(rows), SLICE_ROWS):
        part = rows.part(slice(first, first + SLICE_ROWS))
        texts = [list(map(_JSON.get(column.kind, _JSON[""]), part[column.name])) for column in rows.columns]
        file.write("".join(line(values) + "\n" for values in zip(*texts, strict=True)).encode())


def guard_formula(text: str) -> str:
    """Put an apostrophe before a formula.

    >>> guard_formula("=1+1"), guard_formula("a=1")
    ("'=1+1", 'a=1')
    """
    return f"'{text}" if FORMULA.match(text) else text


def _quote_csv(text: str | None) -> str:
    """Format a text for CSV: line ends stay within quotes, and an empty text differs from a missing one."""
    if text is None:
        return ""
    shown = text
    if not text.isascii() or not text.isprintable():
        shown = "\n".join(map(escape_text, text.split("\n"))) if _UNSAFE.search(text) else text
    shown = guard_formula(shown)
    return '"' + shown.replace('"', '""') + '"' if not shown or _QUOTED.search(shown) else shown


_UNSAFE: Final = re.compile(f"[{UNSAFE}]")
_QUOTED: Final = re.compile('[",\n\r]')


def format_number(number: float) -> str:
    """Format a number with the fewest digits that preserve it, and an exponent for very small or large ones.

    >>> format_number(3.3e-05), format_number(7e-06), format_number(1e16), format_number(4.0)
    ('0.000033', '7e-6', '1e16', '4.0')
    """
    text = repr(float(number))
    digits, _, exponent = text.partition("e")
    if not exponent:
        return text
    if int(exponent) == _LAST_PLAIN:
        sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
        return f"{sign}0.0000{digits.replace('.', '')}"
    return f"{digits}e{int(exponent)}"


_LAST_PLAIN: Final = -5
"""Exponent of the smallest numbers that are written without an exponent."""


def _format_json_time(time: datetime) -> str:
    return time.isoformat(
        timespec="auto" if time.microsecond % 1000 else "milliseconds" if time.microsecond else "seconds"
    )


def _replace_missing(missing: str, form: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a formatter with a replacement for missing values."""
    return lambda value: missing if value is None else form(value)


_CSV: Final[dict[str, Callable[[Any], str]]] = {
    "": _replace_missing("", str),
    "String": _quote_csv,
    "Categorical": _quote_csv,
    "Binary": _replace_missing("", bytes.hex),
    "Boolean": _replace_missing("", lambda is_so: str(is_so).lower()),
    "Float64": _replace_missing("", format_number),
    "time": _replace_missing("", lambda time: f"{time.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"),
}

_JSON: Final[dict[str, Callable[[Any], str]]] = {
    "": _replace_missing("null", str),
    "String": lambda text: json.dumps(text, ensure_ascii=False),
    "Categorical": lambda text: json.dumps(text, ensure_ascii=False),
    "Binary": _replace_missing("null", lambda raw: f'"{raw.hex()}"'),
    "Boolean": _replace_missing("null", lambda is_so: str(is_so).lower()),
    "Float64": _replace_missing("null", format_number),
    "UInt64": _replace_missing("null", lambda number: f'"{number}"'),
    "time": _replace_missing("null", lambda time: f'"{_format_json_time(time)}"'),
}


def write_parquet(rows: Rows, file: IO[bytes]) -> None:
    """Write Parquet with the types of the tables."""
    file.write(parquet(rows.frame))


FORMATS: Final[dict[str, Callable[[Rows, IO[bytes]], None]]] = {
    "csv": write_csv,
    "parquet": write_parquet,
    "jsonl": write_jsonl,
}
"""Writers by the name of their format."""
