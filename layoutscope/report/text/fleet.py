"""A batch as text: how many sources ended how, and why; what a query gives, and what it can ask for."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from layoutscope.report import escape_text
from layoutscope.report.text.console import plain_table, print_parts
from layoutscope.results.fleet import STATUSES, FleetResult, QueryResult, ReportResult, ViewList
from layoutscope.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

NAMED_SOURCES: Final = 10
"""So many sources that are not complete are named."""


def print_fleet(result: FleetResult, console: Console) -> None:
    """Print what became of a batch."""
    print_parts(_fleet(result), console)


def _fleet(result: FleetResult) -> Iterator[RenderableType]:
    number = len(result.sources)
    what = "1 source" if number == 1 else f"{number:,} sources"
    yield Text(f"{escape_text(result.folder)}: {what} in {format_seconds(result.seconds)}", style="bold")
    if result.kept:
        yield Text(f"{result.kept:,} of them read before, and unchanged")
    counted = [(status, f"{result.counts[status]:,}") for status in STATUSES if result.counts[status]]
    yield plain_table("How they ended", [("Status", False), ("Sources", True)], counted, gap=2)
    others = sorted(
        (item for item in result.sources if item.status != "complete"),
        key=lambda item: STATUSES[::-1].index(item.status),
    )
    for item in others[:NAMED_SOURCES]:
        yield Text(
            f"{item.status}: {escape_text(item.path)}: {escape_text(item.message.removeprefix(item.path + ': '))}"
        )
    if len(others) > NAMED_SOURCES:
        yield Text(f"and {len(others) - NAMED_SOURCES:,} more; batch.parquet has all of them")


SHOWN_ROWS: Final = 200
"""A terminal is shown so many; files get all."""

NUMBERS: Final = ("Int", "UInt", "Float", "Decimal")


def print_answer(result: QueryResult, console: Console) -> None:
    """Print the rows that a query gives."""
    print_parts(_answer(result), console)


def _answer(result: QueryResult) -> Iterator[RenderableType]:
    frame = result.frame
    number = "1 row" if frame.height == 1 else f"{frame.height:,} rows"
    columns = [(escape_text(name), str(kind).startswith(NUMBERS)) for name, kind in frame.schema.items()]
    rows = [[Text(cell_text(value)) for value in row] for row in frame.head(SHOWN_ROWS).rows()]
    yield plain_table(number, columns, rows, gap=2)
    if frame.height > SHOWN_ROWS:
        yield Text(f"and {frame.height - SHOWN_ROWS:,} more rows; -o FILE.csv or --format csv writes all of them")


def cell_text(value: Any) -> str:
    r"""Write a value for people: numbers with six digits at most behind the first, nothing where there is none.

    >>> cell_text(0.123456789), cell_text(None), cell_text(b"\x01"), cell_text(12345678)
    ('0.123457', '', '01', '12345678')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    return escape_text(str(value))


def markdown(result: QueryResult) -> str:
    """Write the rows as a table in Markdown; what its readers would act on is escaped."""
    frame = result.frame
    kinds = ["---:" if str(kind).startswith(NUMBERS) else "---" for kind in frame.schema.values()]
    rows = [
        [_cell(name) for name in frame.columns],
        kinds,
        *([_cell(cell_text(value)) for value in row] for row in frame.rows()),
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


_MARKS: Final = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>|~&!#"})


def _cell(text: str) -> str:
    """Escape a cell; names such as ``key_rank`` are left as they are, within a word the line means nothing."""
    escaped = escape_text(text).translate(_MARKS)
    return escaped.replace("\\_", "_") if text.replace("_", "").isalnum() and not text.startswith("_") else escaped


def print_views(result: ViewList, console: Console) -> None:
    """Print the views that a query can ask for, with their columns."""
    print_parts(_views(result), console)


def _views(result: ViewList) -> Iterator[RenderableType]:
    for view in result.views:
        rows = [(column.name, column.kind, column.unit, column.doc) for column in view.columns]
        yield plain_table(view.name, [("Column", False), ("Type", False), ("Unit", False), ("What it is", False)], rows)
        yield Text("")


def print_report(result: ReportResult, console: Console) -> None:
    """Print what a page over a batch says first."""
    print_parts(iter([Text(escape_text(result.headline))]), console)
