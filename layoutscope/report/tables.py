"""Tables as CSV, Parquet and JSON lines.

CSV holds no bytes and no lists: raw names are hexadecimal, as they stand on the disk; what a spreadsheet would run is
guarded by an apostrophe, and what a terminal would act on is made visible. In JSON lines 64-bit ids are strings, since
many readers keep only 53 bits of a number.
"""

from __future__ import annotations

import json
import re
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.report import UNSAFE, escape_text
from layoutscope.tables import TABLES, Table, Values, stacked
from layoutscope.tables.frames import parquet
from layoutscope.tables.schema import REFERENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

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
    return stacked(tables)


def _shifted(column: Values, shift: int) -> Values:
    return Values(column.data + np.uint32(shift), column.known)


def write_table(rows: Rows, file: IO[bytes], file_format: str) -> None:
    """Write a table."""
    FORMATS[file_format](rows, file)


def write_csv(rows: Rows, file: IO[bytes]) -> None:
    """Write CSV: UTF-8, names guarded, raw bytes as hexadecimal, times as ISO 8601."""
    # Columns of a query are named by whoever asks.
    file.write((",".join(_csv_text(column.name) for column in rows.columns) + "\n").encode())
    _write_lines(rows, file, _CSV, ",".join)


def write_jsonl(rows: Rows, file: IO[bytes]) -> None:
    """Write one JSON object a line."""
    keys = [f"{json.dumps(column.name)}:" for column in rows.columns]

    def line(values: Sequence[str]) -> str:
        text = "{" + ",".join(key + value for key, value in zip(keys, values, strict=True)) + "}"
        # JSON escapes line ends in names itself; what else a terminal would act on is made visible.
        return text if text.isascii() and text.isprintable() else escape_text(text)

    _write_lines(rows, file, _JSON, line)


def _write_lines(
    rows: Rows, file: IO[bytes], forms: dict[str, Callable[[Any], str]], line: Callable[[Sequence[str]], str]
) -> None:
    """Write a line a row, each value in the form of its column's type."""
    for first in range(0, len(rows), SLICE_ROWS):
        part = rows.part(slice(first, first + SLICE_ROWS))
        texts = [list(map(forms.get(column.kind, forms[""]), part[column.name])) for column in rows.columns]
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
