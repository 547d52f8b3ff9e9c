"""Metrics as tables: the ones that tell the story, or all of them with their definitions and sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from layoutscope.metrics.pieces import main_tree
from layoutscope.report.escape import escape_text
from layoutscope.report.text.console import plain_table
from layoutscope.units import format_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from layoutscope.metrics import Metric
    from layoutscope.results.scan import VolumeScan

VOLUME_WIDE: Final = ("metadata", "files", "free space")
"""Subjects that are shown of every volume, besides the enumerated tree."""


def main_metrics(volume: VolumeScan) -> RenderableType:
    """Show the metrics of the volume and of the enumerated tree: value, unit and denominator."""
    columns = [("Metric", False), ("Value", True), ("Per", False)]
    return plain_table("Metrics (--explain shows their definitions)", columns, _main_rows(volume))


def _main_rows(volume: VolumeScan) -> Iterator[tuple[str | Text, ...]]:
    is_container = volume.layout.facts.volume is None
    wanted = ("free space",) if is_container else (*VOLUME_WIDE, main_tree(volume.layout))
    last = ""
    for metric in volume.metrics:
        if metric.subject not in wanted or metric.value is None:
            continue
        if metric.subject != last:
            yield (Text(metric.subject, style="italic"),)
        last = metric.subject
        yield f"  {metric.definition.title}", format_value(metric.value, metric.unit), metric.denominator


def explained_metrics(volume: VolumeScan) -> Group:
    """Show every metric of every subject with its parts, definition and source."""
    walked = volume.walk.metrics if volume.walk is not None else ()
    found = [metric for metric in (*volume.metrics, *walked) if metric.value is not None or metric.note]
    return Group(Text("Metrics", style="bold"), *(part for metric in found for part in _explained(metric)))


def _explained(metric: Metric) -> Iterator[RenderableType]:
    head = f"{metric.definition.title} ({escape_text(metric.subject)}): {format_value(metric.value, metric.unit)}"
    yield Text(head, style="bold")
    text = f"{metric.text} Per: {metric.denominator}. Source: {metric.citation}."
    yield Padding(Text(f"{text} {metric.note}." if metric.note else text), (0, 0, 0, 2))
    if metric.parts:
        parts = "; ".join(f"{label}: {_part(metric, label, value)}" for label, value in metric.parts)
        yield Padding(Text(parts, style="dim"), (0, 0, 0, 2))


def _part(metric: Metric, label: str, value: float) -> str:
    """Show percentiles in the metric's unit; bins of histograms are counts, those of free space bytes."""
    if label == "zone bytes" or metric.name == "free-extents":
        return format_value(value, "bytes")
    is_bin = label.startswith("from ") or metric.name == "fragments-per-file"
    return format_value(value, "" if is_bin else metric.unit).strip()
