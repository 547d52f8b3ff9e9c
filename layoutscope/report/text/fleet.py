"""Folders of many images as text: a batch, its page, what a query gives and can ask for; and the cache of images."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.text import Text

from layoutscope.report import escape_text
from layoutscope.report.text.console import heads, make_printer, plain_table, print_parts
from layoutscope.results.fleet import STATUSES, FleetResult, QueryResult, ReportResult, ViewList
from layoutscope.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rich.console import Console, RenderableType

    _Kept = tuple[str, Path, int, int, float]
    """Name, place, length, what it takes on the disk, and when it was used last."""


NAMED_SOURCES: Final = 10
"""So many sources that are not complete are named."""


@make_printer
def print_fleet(result: FleetResult) -> Iterator[RenderableType]:
    """Print what became of a batch."""
    what = format_count(len(result.sources), "source")
    yield Text(f"{escape_text(result.folder)}: {what} in {format_seconds(result.seconds)}", style="bold")
    if result.kept:
        yield Text(f"{result.kept:,} of them unchanged since an earlier run")
    counted = [(status, f"{result.counts[status]:,}") for status in STATUSES if result.counts[status]]
    yield plain_table("Results", heads("Status", ">Sources"), counted)
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
    """Print the rows that a query gives, with as many of their columns as the terminal is wide."""
    frame = result.frame
    rows = [[cell_text(value) for value in row] for row in frame.head(SHOWN_ROWS).rows()]
    columns = [(escape_text(name), str(kind).startswith(NUMBERS)) for name, kind in frame.schema.items()]
    widths = [max(map(cell_len, cells)) for cells in zip([name for name, _ in columns], *rows, strict=True)]
    ends = [*accumulate(each + GAP for each in widths)]
    fit = max(sum(end - GAP <= console.width for end in ends), 1)
    title = format_count(frame.height, "row")
    if fit < len(columns):
        title += f", {len(columns)} columns ({fit} shown; -o FILE.csv has all)"
    shown = [[Text(cell) for cell in row[:fit]] for row in rows]
    parts: list[RenderableType] = [plain_table(title, columns[:fit], shown, gap=GAP)]
    if frame.height > SHOWN_ROWS:
        more = f"and {frame.height - SHOWN_ROWS:,} more rows; -o FILE.csv or --format csv writes all of them"
        parts.append(Text(more))
    print_parts(parts, console)


GAP: Final = 2
"""Blanks between columns."""


def cell_text(value: Any) -> str:
    r"""Write a value for people: numbers with six digits at most after the first, nothing where there is none.

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


@make_printer
def print_views(result: ViewList) -> Iterator[RenderableType]:
    """Print the views that a query can ask for, with their columns."""
    for name, columns in result.views.items():
        rows = [(column.name, column.kind, column.unit, column.doc) for column in columns]
        yield plain_table(name, heads("Column", "Type", "Unit", "What it is"), rows)
        yield Text("")


@make_printer
def print_report(result: ReportResult) -> Iterator[RenderableType]:
    """Print the first sentences of the page of a batch."""
    yield Text(escape_text(result.headline))


def cache_text(
    folder: Path | None,  # where; None where nothing is kept
    limit_bytes: int,
    images: Sequence[_Kept],
    *,
    freed: int | None,  # bytes that removing them gave back; None where they are only shown
    as_json: bool,
) -> str:
    """Describe the kept or the removed images."""
    if as_json:
        listed = [
            {"name": name, "size_bytes": size, "stored_bytes": stored, "used": _format_used(used)}
            for name, _, size, stored, used in images
        ]
        about = {"folder": None if folder is None else str(folder), "limit_bytes": limit_bytes, "freed_bytes": freed}
        return json.dumps({"schema": "layoutscope.cache/1", **about, "images": listed}, indent=2)
    if folder is None:
        return "The cache is off: LAYOUTSCOPE_CACHE is empty."
    number = format_count(len(images), "image")
    if freed is not None:
        return f"{escape_text(str(folder))}: {number} removed, {format_bytes(freed)} freed"
    stored = format_bytes(sum(item[3] for item in images))
    lines = [f"{escape_text(str(folder))}: {number}, {stored} of at most {format_bytes(limit_bytes)}"]
    for name, _, size, held, used in images:
        sizes = f"{format_bytes(held)} ({format_bytes(size)} with holes)"
        lines.append(f"  {escape_text(name)}: {sizes}, used {_format_used(used)} UTC")
    return "\n".join(lines)


def _format_used(used: float) -> str:
    return datetime.fromtimestamp(used, UTC).strftime("%Y-%m-%d %H:%M:%S")
