"""A series as text: predicted times and every metric over it."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from rich.text import Text

from layoutscope.report.escape import escape_text
from layoutscope.report.text.compare import metric_title
from layoutscope.report.text.console import plain_table, print_parts
from layoutscope.results.compare import side_letters
from layoutscope.units import NOTHING, format_plain, format_ratio, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, RenderableType

    from layoutscope.results.series import Series


TITLE_COLUMNS: Final = 30
"""Width of the column of metrics' titles."""

VALUE_COLUMNS: Final = 9
"""Width of a column of values, with the gap."""


def print_series(series: Series, console: Console) -> None:
    """Print the layouts with their predicted times, and every metric over them."""
    print_parts(_parts(series, console.width), console)


def _parts(series: Series, width: int) -> Iterator[RenderableType]:
    letters = side_letters(len(series.places))
    for letter, name in zip(letters, series.found.names, strict=True):
        yield Text(f"{letter}: {escape_text(name)}")
    for title, numbers in series.curves.items():
        shown = f"Predicted enumeration, {escape_text(title)}" if len(series.curves) > 1 else "Predicted enumeration"
        yield _times(series, letters, numbers, shown)
    step = max((width - TITLE_COLUMNS) // VALUE_COLUMNS, 2)
    for start in range(0, len(letters), step):
        yield _metrics(series, letters, range(start, min(start + step, len(letters))))


def _times(series: Series, letters: Sequence[str], numbers: Sequence[int], title: str) -> RenderableType:
    """Show a row a layout: the time on each drive, and how many times the first one that is."""
    columns = [("", False), (series.by.capitalize(), True)]
    for row in series.found.times:
        columns += [(row.drive, True), ("x", True)]
    rows = [(letters[number], series.places[number], *_grown(series, number, numbers[0])) for number in numbers]
    return plain_table(title, columns, rows, gap=2 if len(series.found.times) < 3 else 1)


def _grown(series: Series, number: int, first: int) -> Iterator[str]:
    for row in series.found.times:
        now, then = row.seconds[number], row.seconds[first]
        yield NOTHING if now is None else format_seconds(now)
        yield format_ratio(now / then if then and now is not None else None)


def _metrics(series: Series, letters: Sequence[str], numbers: Sequence[int]) -> RenderableType:
    rows: list[tuple[str | Text, ...]] = []
    for subject, group in groupby(series.found.metrics, key=lambda row: row.subject):
        rows.append((Text(subject, style="italic"),))
        rows += [
            (f"  {metric_title(row)}", *(format_plain(row.values[number], row.unit) for number in numbers))
            for row in group
        ]
    return plain_table("Metrics", [("Metric", False), *((letters[number], True) for number in numbers)], rows, gap=1)
