"""Predictions as text, as JSON, and as input of ncdu."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from layoutscope.report.escape import escape_text
from layoutscope.report.json.scan import prediction_document, walk_document
from layoutscope.report.text.grid import plain_table
from layoutscope.report.text.scan import image_line, prediction_notes, prediction_table, print_parts
from layoutscope.units import format_bytes, format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from layoutscope.results.predict import DriveCase, PredictResult, VolumeCase

SCHEMA: Final = "layoutscope.predict/1"


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


def predict_document(result: PredictResult) -> dict[str, Any]:
    """Build the document of a prediction; parts that a scan has too look alike."""
    return {
        "schema": SCHEMA,
        "image": result.image.name,
        "volumes": [
            {
                "volume": volume.volume,
                "coverage": volume.coverage,
                "errors": volume.num_errors,
                "walk": walk_document(volume.walk),
                "host_cpu_s": volume.host_time.cpu_s,
                "host_wall_s": volume.host_time.wall_s,
                "drives": [_drive_document(case) for case in volume.drives],
            }
            for volume in result.volumes
        ],
    }


def _drive_document(case: DriveCase) -> dict[str, Any]:
    changes = [case.bound, *case.what_ifs] if case.bound is not None else case.what_ifs
    return {
        **prediction_document(case.prediction),
        "headroom": case.headroom,
        "what_ifs": [{"name": item.name, "because": item.because, "seconds": item.seconds} for item in changes if item],
        "directories": [
            {
                "directory_id": str(cost.directory_id),
                "path": cost.path,
                "reads": cost.reads,
                "seconds": cost.seconds,
            }
            for cost in case.directories
        ],
    }


def predict_json(result: PredictResult) -> str:
    """Write the document of a prediction as JSON text; ASCII."""
    return json.dumps(predict_document(result), indent=2, allow_nan=False)
