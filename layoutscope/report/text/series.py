"""A sequence of layouts: every metric and the predicted times over it, as a table and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from layoutscope.report.escape import escape_text
from layoutscope.report.text.compare import comparison_document, metric_title
from layoutscope.report.text.grid import plain_table
from layoutscope.report.text.scan import print_parts
from layoutscope.results.compare import side_letters
from layoutscope.results.shown import Shown
from layoutscope.units import NOTHING, format_plain, format_ratio, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, RenderableType

    from layoutscope.results.compare import Comparison

SCHEMA: Final = "layoutscope.series/1"

TITLE_COLUMNS: Final = 30
"""Width of the column of metrics' titles."""

VALUE_COLUMNS: Final = 9
"""Width of a column of values, with the gap."""


@dataclass(frozen=True, slots=True)
class Series(Shown):
    """Layouts in order, volume by volume.

    Attributes
    ----------
    by : str
        What they are ordered by: ``order``, ``xid`` or ``time``.
    places : tuple of str
        Place of each in that order, as text.
    volumes : tuple of str
        The volume of each: its curve, by a name that tells it from the others.
    found : Comparison
        Metrics and times, one side a layout.
    """

    by: str
    places: tuple[str, ...]
    volumes: tuple[str, ...]
    found: Comparison

    @property
    def curves(self) -> dict[str, list[int]]:
        """Numbers of the layouts of each volume, in order."""
        return {
            name: [n for n, other in enumerate(self.volumes) if other == name] for name in dict.fromkeys(self.volumes)
        }


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


def series_document(series: Series) -> dict[str, Any]:
    """Build the document of a series: that of a comparison, with the places and the volumes."""
    return {
        **comparison_document(series.found),
        "schema": SCHEMA,
        "by": series.by,
        "places": list(series.places),
        "volumes": list(series.volumes),
    }


def series_json(series: Series) -> str:
    """Write the document of a series as JSON text."""
    return json.dumps(series_document(series), indent=2, allow_nan=False)
