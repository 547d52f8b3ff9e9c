"""Metrics as tables: the ones that tell the story, or all of them with their definitions and sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from layoutscope.metrics.pieces import main_tree
from layoutscope.report.escape import escape_text
from layoutscope.report.figures import format_metric, format_value
from layoutscope.report.grid import plain_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from layoutscope.metrics import Metric
    from layoutscope.report.result import VolumeScan

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
        yield f"  {metric.definition.title}", format_metric(metric), metric.denominator


def explained_metrics(volume: VolumeScan) -> RenderableType:
    """Show every metric of every subject with its parts, definition and source."""
    walked = volume.walk.metrics if volume.walk is not None else ()
    columns = [("Metric", False), ("Of", False), ("Value", True), ("Definition", False)]
    return plain_table("Metrics", columns, [_explained(metric) for metric in (*volume.metrics, *walked)])


def _explained(metric: Metric) -> tuple[str, str, str, str]:
    text = f"{metric.text} Per: {metric.denominator}. Source: {metric.citation}."
    note = f" {metric.note}." if metric.note else ""
    return metric.definition.title, escape_text(metric.subject), _with_parts(metric), text + note


def _with_parts(metric: Metric) -> str:
    lines = [f"{label}: {_part(metric, label, value)}" for label, value in metric.parts]
    return "\n".join([format_metric(metric), *lines])


def _part(metric: Metric, label: str, value: float) -> str:
    """Show percentiles in the metric's unit; bins of histograms are counts, those of free space bytes."""
    if label == "zone bytes" or metric.name == "free-extents":
        return format_value(value, "bytes")
    is_bin = label.startswith("from ") or metric.name == "fragments-per-file"
    return format_value(value, "" if is_bin else metric.unit).strip()
