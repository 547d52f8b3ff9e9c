"""A forecast as text: times and nodes after some cycles, and what is assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from layoutscope.report import escape_text
from layoutscope.report.text.console import plain_table, print_parts
from layoutscope.units import NOTHING, format_count, format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from layoutscope.results.forecast import Churn, ForecastPoint, ForecastResult, ForecastTime

SHOWN: Final = ("next-leaf-adjacent", "leaf-fill", "file-layout-score")
"""Metrics of the table, of the first subject that has them; JSON has all."""


def print_forecast(result: ForecastResult, console: Console) -> None:
    """Print a forecast."""
    print_parts(_parts(result), console)


def _parts(result: ForecastResult) -> Iterator[RenderableType]:
    yield Text(f"{escape_text(result.image)}: {result.filesystem} {escape_text(result.volume)!r}", style="bold")
    cycle = f"A cycle {result.does}: {format_share(result.share)} of the files"
    yield Text(f"{cycle}, by the driver of {result.host}; {format_count(result.seeds, 'draw')}")
    if result.churn is not None:
        yield from _churn(result.churn)
    for number in range(len(result.points[0].times)):
        title = f"Enumeration on {escape_text(result.points[0].times[number].profile)}"
        columns = [("After", True), ("Seconds", True), ("by the layout", True), ("by the drive, too", True)]
        rows = [(f"{point.cycle:,}", *_time(point.times[number])) for point in result.points]
        yield plain_table(title, columns, rows)
    names = [_title(result.points[0], name) for name in SHOWN]
    columns = [("After", True), ("Files", True), ("Leaves", True), *((name, True) for name in names)]
    yield plain_table("Layout", columns, [_layout(point) for point in result.points])
    for note in result.notes:
        yield Text(note, style="dim")


def _time(time: ForecastTime) -> tuple[str, ...]:
    seconds = time.seconds
    by_layout = f"{format_seconds(seconds.low)} to {format_seconds(seconds.high)}"
    return format_seconds(seconds.value), by_layout, f"{format_seconds(time.low_s)} to {format_seconds(time.high_s)}"


def _title(point: ForecastPoint, name: str) -> str:
    return next((metric.title for metric in point.metrics if metric.name == name), name)


def _layout(point: ForecastPoint) -> tuple[str, ...]:
    cells = [f"{point.cycle:,}", f"{point.files.value:,.0f}", f"{point.nodes.value:,.0f}"]
    for name in SHOWN:
        found = next((metric.found for metric in point.metrics if metric.name == name), None)
        cells.append(NOTHING if found is None else format_share(found.value))
    return tuple(cells)


def _churn(churn: Churn) -> Iterator[Text]:
    steps = ", ".join(format_share(share) for share in churn.replaced)
    yield Text(f"New files from image to image: {steps}")
    told = [format_share(share) for share in churn.rewritten if share is not None]
    if told:
        yield Text(f"Leaves written from image to image: {', '.join(told)}")
    if churn.expected is not None:
        expected, was = format_share(churn.expected), format_share(churn.replaced[-1])
        yield Text(f"For the last of them the others say {expected}; it was {was}.")
