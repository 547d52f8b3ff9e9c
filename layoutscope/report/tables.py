"""Tables as CSV, Parquet and JSON lines.

CSV holds no bytes and no lists: raw names are hexadecimal, as they stand on the disk; what a spreadsheet would run is
guarded by an apostrophe, and what a terminal would act on is made visible. In JSON lines 64-bit ids are strings, since
many readers keep only 53 bits of a number.
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
"""How text starts that spreadsheets take for a formula (OWASP, CSV injection): also behind white space, which some
leave out, and in full width, which those of East Asia take for the same."""

SLICE_ROWS: Final = 16_384
"""Rows that are turned into text at once."""


def joined_table(layouts: Sequence[VolumeLayout], name: str) -> Table:
    """Put the same table of several layouts into one, with rows and references to rows numbered through."""
    tables, first_row, first_node = [], 0, 0
    for layout in layouts:
        table = layout.columns(name)
        shifts = {column.name: first_node for column in TABLES[name] if column.unit == REFERENCE}
        shifts |= {"row": first_row} if any(column.name == "row" for column in TABLES[name]) else {}
        first_row += len(table)
        first_node += len(layout.columns("nodes"))
        for column, shift in shifts.items():
            table = table.changed(column, _shifted(table[column], shift)) if shift else table
        tables.append(table)
    return stack_tables(tables)


def _shifted(column: Values, shift: int) -> Values:
    return Values(column.data + np.uint32(shift), column.known)


def write_table(rows: Rows, file: IO[bytes], file_format: str) -> None:
    """Write a table."""
    FORMATS[file_format](rows, file)


def write_csv(rows: Rows, file: IO[bytes]) -> None:
    """Write CSV: UTF-8, names guarded, raw bytes as hexadecimal, times as ISO 8601."""
    # Columns of a query are named by whoever asks.
    file.write((",".join(_csv_text(column.name) for column in rows.columns) + "\n").encode())
    for first in range(0, len(rows), SLICE_ROWS):
        found = rows.columns_of(slice(first, first + SLICE_ROWS))
        columns = [_cells(found[column.name], column.kind) for column in rows.columns]
        lengths = np.sum([cells.lengths for cells in columns], axis=0) + len(columns)
        place = starts_of(lengths)
        text = np.full(int(lengths.sum()), ord(","), np.uint8)
        for cells in columns:
            copy_pieces(cells.data, cells.starts, cells.lengths, place, text)
            place += cells.lengths + 1
        text[place - 1] = ord("\n")
        file.write(text.data)


class Cells(NamedTuple):
    """What a column has in some rows of a CSV, as UTF-8."""

    data: U8
    # starts, lengths: where the text of each row is in it, shape (n_rows,)
    starts: I64
    lengths: I64

    @classmethod
    def of(cls, texts: Sequence[str]) -> Cells:
        """Put texts one after the other."""
        raw = [text.encode() for text in texts]
        lengths = np.fromiter(map(len, raw), np.int64, len(raw))
        return cls(np.frombuffer(b"".join(raw), np.uint8), starts_of(lengths), lengths)

    def where(self, known: NDArray[np.bool_] | None) -> Cells:
        """Leave the other rows empty."""
        return self if known is None else self._replace(lengths=np.where(known, self.lengths, 0))

    def take(self, rows: NDArray[Any]) -> Cells:
        """Return the texts of some rows."""
        return Cells(self.data, self.starts[rows], self.lengths[rows])


def _cells(column: AnyColumn | Sequence[Any] | NDArray[Any], kind: str) -> Cells:
    """Make the texts of a column: arrays at once, lists value by value."""
    if isinstance(column, TextColumn):
        return _hexadecimal(column) if kind == "Binary" else _names(column)
    if isinstance(column, Values) and kind == "Categorical":
        words = Cells.of([_csv_text(word) for word in column.words or ("",)])
        return words.take(column.filled(0)).where(column.known)
    if isinstance(column, Values) and kind == "time":
        return _times(column)
    data = column.data if isinstance(column, Values) else column
    if kind not in _CSV and isinstance(data, np.ndarray) and data.dtype.kind in "iu":
        return _numbers(data).where(column.known if isinstance(column, Values) else None)
    form = _CSV.get(kind, _CSV[""])
    return Cells.of([form(value) for value in listed(column, kind)])


_GROUP: Final = 10_000
_DIGITS: Final = (
    (np.arange(_GROUP)[:, None] // (1000, 100, 10, 1) % 10 + ord("0")).astype(np.uint8).view(np.uint32)[:, 0]
)
"""Four digits at once, as their bytes."""

_POWERS: Final = 10 ** np.arange(1, 20, dtype=np.uint64)


def _numbers(values: NDArray[np.integer[Any]]) -> Cells:
    """Write whole numbers: 20 digits at most, and a sign."""
    is_negative = values < 0
    # The least number has no positive one of its type; as an unsigned one it is right.
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


def _times(column: Values) -> Cells:
    """Write times in microseconds from 1970 on, none where no calendar of Python's reaches."""
    is_there = (column.data >= _FIRST_US) & (column.data <= _LAST_US)
    shown = np.where(is_there, column.data, 0).astype("M8[us]")
    text = np.datetime_as_string(shown, unit="us", timezone="UTC").astype("S27")
    starts = np.arange(len(text)) * 27
    cells = Cells(text.view(np.uint8), starts, np.full(len(text), 27))
    return cells.where(is_there if column.known is None else is_there & column.known)


_FIRST_US, _LAST_US = np.array(["0001-01-01", "9999-12-31T23:59:59.999999"], "M8[us]").astype(np.int64).tolist()

_HEXADECIMAL: Final = np.array([f"{byte:02x}".encode() for byte in range(256)], "S2").view(np.uint16)


def _hexadecimal(column: TextColumn) -> Cells:
    data, starts, lengths = column.pieces()
    return Cells(_HEXADECIMAL[data].view(np.uint8), 2 * starts, 2 * lengths).where(column.known)


_IS_PLAIN: Final = np.isin(np.arange(256), [code for code in range(0x20, 0x7F) if chr(code) not in '",'])
_BEGINS_PLAIN: Final = _IS_PLAIN & ~np.isin(np.arange(256), [*map(ord, " =+-@")])


def _names(column: TextColumn) -> Cells:
    """Write texts as they are stored; those that need a guard, quotes or escapes one by one."""
    data, starts, lengths = column.pieces()
    num_odd = np.concatenate([[0], np.cumsum(~_IS_PLAIN[data])])
    is_plain = (lengths > 0) & (num_odd[starts + lengths] == num_odd[starts])
    is_plain[is_plain] = _BEGINS_PLAIN[data[starts[is_plain]]]
    is_odd = ~is_plain if column.known is None else ~is_plain & column.known
    odd = np.flatnonzero(is_odd)
    if len(odd):
        others = Cells.of([_csv_text(text) for text in column.take(odd).to_list()])
        starts[odd], lengths[odd] = others.starts + len(data), others.lengths
        data = np.concatenate([data, others.data])
    return Cells(data, starts, lengths).where(column.known)


def write_jsonl(rows: Rows, file: IO[bytes]) -> None:
    """Write one JSON object a line."""
    keys = [f"{json.dumps(column.name)}:" for column in rows.columns]

    def line(values: Sequence[str]) -> str:
        text = "{" + ",".join(key + value for key, value in zip(keys, values, strict=True)) + "}"
        # JSON escapes line ends in names itself; what else a terminal would act on is made visible.
        return text if text.isascii() and text.isprintable() else escape_text(text)

    for first in range(0, len(rows), SLICE_ROWS):
        part = rows.part(slice(first, first + SLICE_ROWS))
        texts = [list(map(_JSON.get(column.kind, _JSON[""]), part[column.name])) for column in rows.columns]
        file.write("".join(line(values) + "\n" for values in zip(*texts, strict=True)).encode())


def guard_formula(text: str) -> str:
    """Put an apostrophe before what a spreadsheet would run.

    >>> guard_formula("=1+1"), guard_formula("a=1")
    ("'=1+1", 'a=1')
    """
    return f"'{text}" if FORMULA.match(text) else text


def _csv_text(text: str | None) -> str:
    """Write a text: line ends within quotes are CSV's own affair, an empty text is not the same as none."""
    if text is None:
        return ""
    shown = text
    if not text.isascii() or not text.isprintable():
        shown = "\n".join(map(escape_text, text.split("\n"))) if _UNSAFE.search(text) else text
    shown = guard_formula(shown)
    return '"' + shown.replace('"', '""') + '"' if not shown or _QUOTED.search(shown) else shown


_UNSAFE: Final = re.compile(f"[{UNSAFE}]")
_QUOTED: Final = re.compile('[",\n\r]')


def number_text(number: float) -> str:
    """Write a number with the fewest digits that give it back, small ones with an exponent.

    >>> number_text(3.3e-05), number_text(7e-06), number_text(1e16), number_text(4.0)
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
"""The exponent of the smallest numbers that are written without one."""


def _json_time(time: datetime) -> str:
    return time.isoformat(
        timespec="auto" if time.microsecond % 1000 else "milliseconds" if time.microsecond else "seconds"
    )


def _or(otherwise: str, form: Callable[[Any], str]) -> Callable[[Any], str]:
    """Write a value, or what stands where there is none."""
    return lambda value: otherwise if value is None else form(value)


_CSV: Final[dict[str, Callable[[Any], str]]] = {
    "": _or("", str),
    "String": _csv_text,
    "Categorical": _csv_text,
    "Binary": _or("", bytes.hex),
    "Boolean": _or("", lambda is_so: str(is_so).lower()),
    "Float64": _or("", number_text),
    "time": _or("", lambda time: f"{time.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"),
}

_JSON: Final[dict[str, Callable[[Any], str]]] = {
    "": _or("null", str),
    "String": lambda text: json.dumps(text, ensure_ascii=False),
    "Categorical": lambda text: json.dumps(text, ensure_ascii=False),
    "Binary": _or("null", lambda raw: f'"{raw.hex()}"'),
    "Boolean": _or("null", lambda is_so: str(is_so).lower()),
    "Float64": _or("null", number_text),
    "UInt64": _or("null", lambda number: f'"{number}"'),
    "time": _or("null", lambda time: f'"{_json_time(time)}"'),
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
