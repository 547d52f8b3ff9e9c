"""Layouts side by side: metrics and predictions with their ratios, what moved, and what explains the difference."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from layoutscope.report.escape import escape_text
from layoutscope.report.figures import NOTHING, format_share, format_value
from layoutscope.report.grid import plain_table
from layoutscope.report.shown import Shown
from layoutscope.report.text import print_parts
from layoutscope.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, RenderableType

SCHEMA: Final = "layoutscope.compare/1"


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric of all sides; `values` has None where a side lacks it."""

    name: str
    title: str
    unit: str
    subject: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class TimeRow:
    """One drive: predicted seconds of all sides, and their causes."""

    drive: str
    seconds: tuple[float | None, ...]
    causes_s: tuple[tuple[tuple[str, float], ...], ...]


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """Nodes of the enumerated tree between two states, told by node number or oid.

    Attributes
    ----------
    stayed, moved, appeared, went : int
        Same address, another one, only in the later state, only in the earlier.
    """

    stayed: int
    moved: int
    appeared: int
    went: int


@dataclass(frozen=True, slots=True)
class Comparison(Shown):
    """Volumes side by side.

    Attributes
    ----------
    names : tuple of str
        The sides.
    metrics : tuple of MetricRow
        Metrics of the enumerated trees, of metadata, files, free space, and of the walk.
    times : tuple of TimeRow
        Predictions.
    changes : tuple of NodeChanges or None
        From each side to the next; None where the two are not states of the same volume.
    verdict : str
        What explains most of the difference between the first side and the last.
    """

    names: tuple[str, ...]
    metrics: tuple[MetricRow, ...]
    times: tuple[TimeRow, ...]
    changes: tuple[NodeChanges | None, ...]
    verdict: str


def ratio(values: Sequence[float | None]) -> float | None:
    """Return the last value over the first; None where that makes no sense."""
    first, last = values[0], values[-1]
    return last / first if first and last is not None else None


def print_comparison(found: Comparison, console: Console) -> None:
    """Print the verdict, the times, the metrics and what moved."""
    print_parts(_parts(found), console)


def _parts(found: Comparison) -> Iterator[RenderableType]:
    for letter, name in zip(_letters(found), found.names, strict=True):
        yield Text(f"{letter}: {escape_text(name)}")
    if found.verdict:
        yield Text(found.verdict, style="bold")
    sides = [(letter, True) for letter in _letters(found)]
    rows = [(row.drive, *map(_seconds, row.seconds), _ratio(row.seconds)) for row in found.times]
    yield plain_table("Predicted enumeration", [("Drive", False), *sides, ("Ratio", True)], rows)
    rows = [
        (_title(row), *(format_value(value, row.unit) for value in row.values), _ratio(row.values))
        for row in found.metrics
    ]
    yield plain_table("Metrics", [("Metric", False), *sides, ("Ratio", True)], rows)
    for letter, change in zip(_letters(found)[1:], found.changes, strict=True):
        if change is not None:
            counts = (
                f"{change.stayed:,} stayed, {change.moved:,} moved, {change.appeared:,} appeared, {change.went:,} went"
            )
            yield Text(f"Nodes up to {letter}: {counts}")


def _letters(found: Comparison) -> list[str]:
    return [chr(ord("A") + number % 26) for number in range(len(found.names))]


def _title(row: MetricRow) -> str:
    return f"{row.title} ({row.subject})"


def _seconds(value: float | None) -> str:
    return NOTHING if value is None else format_seconds(value)


def _ratio(values: Sequence[float | None]) -> str:
    found = ratio(values)
    return NOTHING if found is None else f"{found:.3g}" if found < 1000 else f"{found:,.0f}"


def explain(times: Sequence[TimeRow], metrics: Sequence[MetricRow]) -> str:
    """Say in one sentence what explains most of the difference between the first side and the last."""
    row = next((item for item in times if None not in (item.seconds[0], item.seconds[-1])), None)
    if row is None:
        return ""
    causes = [dict(causes) for causes in (row.causes_s[0], row.causes_s[-1])]
    growth = {name: causes[1].get(name, 0.0) - causes[0].get(name, 0.0) for name in {**causes[0], **causes[1]}}
    total = sum(growth.values())
    largest = max(growth, key=lambda name: growth[name] if total > 0 else -growth[name])
    share = format_share(min(growth[largest] / total, 1.0)) if total else "nothing"
    longer = f"On {row.drive} the last takes {_ratio(row.seconds)} times as long as the first"
    return f"{longer}; {share} of the difference is {largest}{_order(metrics)}."


def _order(metrics: Sequence[MetricRow]) -> str:
    scores = next((row.values for row in metrics if row.name == "enumeration-layout-score"), None)
    if scores is None or scores[0] is None or scores[-1] is None:
        return ""
    return f", as {format_share(scores[0])} against {format_share(scores[-1])} of the nodes are read in sequence"


def comparison_document(found: Comparison) -> dict[str, Any]:
    """Build the document of a comparison."""
    return {
        "schema": SCHEMA,
        "names": list(found.names),
        "verdict": found.verdict,
        "times": [
            {
                "drive": row.drive,
                "seconds": list(row.seconds),
                "causes_s": [dict(causes) for causes in row.causes_s],
                "ratio": ratio(row.seconds),
            }
            for row in found.times
        ],
        "metrics": [
            {
                "name": row.name,
                "subject": row.subject,
                "unit": row.unit,
                "values": list(row.values),
                "ratio": ratio(row.values),
            }
            for row in found.metrics
        ],
        "changes": [
            None
            if change is None
            else {"stayed": change.stayed, "moved": change.moved, "appeared": change.appeared, "went": change.went}
            for change in found.changes
        ],
    }


def comparison_json(found: Comparison) -> str:
    """Write the document of a comparison as JSON text."""
    return json.dumps(comparison_document(found), indent=2, allow_nan=False)
