"""A prediction as text: times, causes, bound, what-ifs and the dearest directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from layoutscope.report.escape import escape_text
from layoutscope.report.text.console import plain_table, print_parts
from layoutscope.report.text.predictions import prediction_notes, prediction_table
from layoutscope.report.text.scan import image_line
from layoutscope.units import format_bytes, format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from layoutscope.results.predict import DriveCase, PredictResult, VolumeCase


def print_prediction(result: PredictResult, console: Console) -> None:
    """Print times, causes, bound, what-ifs and the dearest directories."""
    print_parts(_parts(result), console)


def _parts(result: PredictResult) -> Iterator[RenderableType]:
    yield image_line(result.image)
    for volume in result.volumes:
        yield Text()
        yield from _volume(volume)


def _volume(volume: VolumeCase) -> Iterator[RenderableType]:
    yield Text(escape_text(volume.volume), style="bold cyan")
    if volume.coverage < 1 or volume.num_errors:
        told = f"{format_share(volume.coverage)} of the known metadata was read, with {volume.num_errors:,} errors"
        yield Text(f"{told}: what is missing is not walked, and takes longer than is told here", style="bold red")
    walk = volume.walk
    yield Text(f"{walk.order} as on {walk.host}: {walk.reads:,} reads, {format_bytes(walk.read_bytes)}")
    for metric in walk.metrics:
        if metric.name in ("enumeration-layout-score", "request-layout-score") and metric.value is not None:
            yield Text(f"{metric.definition.title}: {format_share(metric.value)} of {metric.denominator}")
    yield _host_line(volume)
    predictions = [case.prediction for case in volume.drives]
    if predictions:
        yield prediction_table(predictions, f"{walk.order}: predicted times, and the share of each cause")
        yield from prediction_notes(predictions)
    for case in volume.drives:
        yield Text()
        yield from _case(case)


def _host_line(volume: VolumeCase) -> Text:
    """Tell processor and wall time of the host apart: on flash this is most of the time."""
    time = volume.host_time
    return Text(f"Host: {format_seconds(time.cpu_s)} of processor time, {format_seconds(time.wall_s)} on the clock")


def _case(case: DriveCase) -> Iterator[RenderableType]:
    item = case.prediction
    yield Text(f"On {item.drive} ({item.title}): {format_seconds(item.seconds)}", style="bold")
    if item.rotates:
        travel = f"{format_bytes(item.head_travel_bytes)}, {item.head_travel_strokes:,.1f} strokes"
        yield Text(f"  {item.seeks:,} reads move the arm; head travel {travel}")
    if case.bound is not None and case.headroom is not None:
        packed = format_seconds(case.bound.seconds)
        yield Text(f"  bound {packed}: {case.bound.because}; headroom {format_share(case.headroom)}")
    for change in case.what_ifs:
        saved = f"would take {format_seconds(change.seconds)} instead of {format_seconds(item.seconds)}"
        yield Text(f"  {change.name}: {saved}, because {change.because}")
    if case.directories:
        yield _directories(case)


def _directories(case: DriveCase) -> RenderableType:
    columns = [("Directory", False), ("Reads", True), ("Time", True), ("Share", True)]
    total = case.prediction.seconds or 1.0
    rows = [
        (escape_text(cost.path), f"{cost.reads:,}", format_seconds(cost.seconds), format_share(cost.seconds / total))
        for cost in case.directories
    ]
    return plain_table(f"Dearest directories on {case.prediction.drive}", columns, rows)
