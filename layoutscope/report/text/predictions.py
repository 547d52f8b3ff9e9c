"""Predicted times on drives as a table, which scans, predictions and replays share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from layoutscope.report.text.console import plain_table
from layoutscope.units import NOTHING, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from layoutscope.results.scan import Prediction

MINUTES_FROM, HOURS_FROM = 120, 7200
"""Seconds from which intervals are told in minutes."""


def prediction_table(
    predictions: Sequence[Prediction], title: str = "Predicted enumeration, and the share of each cause"
) -> RenderableType:
    """Show predicted times with the shares of their causes; no seeks where there is no arm."""
    names = [name for name, _ in predictions[0].causes_s]
    columns = [("Drive", False), ("Time", True), ("Interval", True), *((name.capitalize(), True) for name in names)]
    rows = [(item.drive, format_seconds(item.seconds), _interval(item), *_causes(item)) for item in predictions]
    return plain_table(title, columns, rows, gap=1)


def _interval(item: Prediction) -> str:
    if item.seconds_high >= HOURS_FROM:
        return f"{item.seconds_low / 3600:.1f}-{item.seconds_high / 3600:.1f} h"
    if item.seconds_high >= MINUTES_FROM:
        return f"{item.seconds_low / 60:.1f}-{item.seconds_high / 60:.1f} min"
    low, high = format_seconds(item.seconds_low), format_seconds(item.seconds_high)
    unit = high.rpartition(" ")[2]
    return NOTHING if low == high else f"{low.removesuffix(f' {unit}')}-{high}"


def _causes(item: Prediction) -> Iterator[str]:
    for name, seconds in item.causes_s:
        has_none = name in ("seek", "rotation") and not item.rotates
        yield NOTHING if has_none or not item.seconds else f"{seconds / item.seconds:.0%}"


def prediction_notes(predictions: Sequence[Prediction]) -> Iterator[Text]:
    """Yield what limits the predictions."""
    for item in predictions:
        if item.note:
            yield Text(f"{item.drive}: {item.note}", style="dim")
