"""A sequence of layouts: every metric and the predicted times over it, as a table, as JSON and as a chart."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from layoutscope.report.comparison import comparison_document
from layoutscope.report.escape import escape_text
from layoutscope.report.figures import format_value
from layoutscope.report.grid import plain_table
from layoutscope.report.shown import Shown
from layoutscope.report.text import print_parts
from layoutscope.units import format_seconds

if TYPE_CHECKING:
    from rich.console import Console

    from layoutscope.report.comparison import Comparison

SCHEMA: Final = "layoutscope.series/1"

SHOWN: Final = (
    ("enumeration-layout-score", "walk", "Score"),
    ("next-leaf-adjacent", "enumerated tree", "Next leaf"),
    ("key-order-inversions", "enumerated tree", "Inversions"),
    ("leaf-fill", "enumerated tree", "Fill"),
    ("clump-largest-share", "metadata", "Clump"),
)
"""Metrics of the table: name, subject and heading."""


@dataclass(frozen=True, slots=True)
class Series(Shown):
    """Layouts in order.

    Attributes
    ----------
    by : str
        What they are ordered by: ``order``, ``xid`` or ``time``.
    places : tuple of str
        Place of each in that order, as text.
    found : Comparison
        Metrics and times, one side a layout.
    """

    by: str
    places: tuple[str, ...]
    found: Comparison


def print_series(series: Series, console: Console) -> None:
    """Print a row a layout: predicted times, then the metrics that tell the story."""
    found = series.found
    rows = {(row.name, row.subject): row for row in found.metrics}
    shown = [(heading, rows[name, subject]) for name, subject, heading in SHOWN if (name, subject) in rows]
    columns = [("Layout", False), (series.by.capitalize(), True), *((row.drive, True) for row in found.times)]
    columns += [(heading, True) for heading, _ in shown]
    table = [
        (
            escape_text(name),
            series.places[number],
            *("-" if (seconds := row.seconds[number]) is None else format_seconds(seconds) for row in found.times),
            *(format_value(row.values[number], row.unit) for _, row in shown),
        )
        for number, name in enumerate(found.names)
    ]
    print_parts(iter([plain_table("Series", columns, table, gap=1)]), console)


def series_document(series: Series) -> dict[str, Any]:
    """Build the document of a series: that of a comparison, with the places."""
    return {**comparison_document(series.found), "schema": SCHEMA, "by": series.by, "places": list(series.places)}


def series_json(series: Series) -> str:
    """Write the document of a series as JSON text."""
    return json.dumps(series_document(series), indent=2, allow_nan=False)


def series_page(series: Series) -> str:
    """Draw the predicted times and every share over the sequence, as one offline page."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(2, 1, shared_xaxes=True, subplot_titles=("Predicted enumeration", "Shares"))
    places = list(series.places)
    for row in series.found.times:
        figure.add_trace(go.Scatter(x=places, y=row.seconds, name=row.drive, mode="lines+markers"), 1, 1)
    for metric in series.found.metrics:
        if metric.unit == "share":
            name = f"{metric.title} ({metric.subject})"
            figure.add_trace(go.Scatter(x=places, y=metric.values, name=name, mode="lines+markers"), 2, 1)
    figure.update_yaxes(title_text="s", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(range=[0, 1], row=2, col=1)
    figure.update_xaxes(type="category", title_text=series.by, row=2, col=1)
    return str(figure.to_html(include_plotlyjs=True, full_html=True))
