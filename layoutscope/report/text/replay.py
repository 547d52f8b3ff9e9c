"""Replays of real traces as text and JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from layoutscope.report.escape import escape_text
from layoutscope.report.json.scan import prediction_document
from layoutscope.report.text.grid import plain_table
from layoutscope.report.text.scan import prediction_table, print_parts
from layoutscope.results.shown import Shown
from layoutscope.units import format_bytes, format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from layoutscope.results.scan import Prediction
    from layoutscope.walk.score import Score

SCHEMA: Final = "layoutscope.replay/1"


@dataclass(frozen=True, slots=True)
class ReplayResult(Shown):
    """A real trace on drives, beside the prediction for the image it was taken from.

    Attributes
    ----------
    trace : str
        Its file.
    reads, read_bytes : int
        What it reads.
    times : tuple of Prediction
        Service time of the trace on each drive.
    expected : tuple of Prediction
        The prediction for the image, on the same drives; empty without an image.
    agreement : Score or None
        How well the predicted reads meet the real ones.
    """

    trace: str
    reads: int
    read_bytes: int
    times: tuple[Prediction, ...]
    expected: tuple[Prediction, ...] = ()
    agreement: Score | None = None


def print_replay(result: ReplayResult, console: Console) -> None:
    """Print the times of a trace, and how a prediction meets it."""
    print_parts(_parts(result), console)


def _parts(result: ReplayResult) -> Iterator[RenderableType]:
    yield Text(f"{escape_text(result.trace)}: {result.reads:,} reads, {format_bytes(result.read_bytes)}", style="bold")
    if result.times:
        yield prediction_table(result.times, "The trace on drives, and the share of each cause")
    if result.agreement is None:
        return
    yield from _agreement(result.agreement)
    yield _side_by_side(result)


def _agreement(found: Score) -> Iterator[RenderableType]:
    predicted = f"{format_share(found.block_share)} of {found.real_blocks:,} real blocks were predicted"
    yield Text(f"{predicted}, {format_share(found.extra_share)} more in vain (blocks of {found.block_bytes:,} bytes)")
    yield Text(
        f"{format_share(found.pair_share)} of {found.real_pairs:,} real steps from block to block were predicted"
    )
    for title, blocks in (("not predicted", found.missed), ("predicted in vain", found.extra)):
        if blocks:
            yield Text(f"  {title}: " + ", ".join(f"{count:,} {name}" for name, count in blocks.items()))


def _side_by_side(result: ReplayResult) -> RenderableType:
    columns = [("Drive", False), ("Real trace", True), ("Predicted", True), ("Predicted / real", True)]
    rows = [
        (real.drive, format_seconds(served(real)), format_seconds(served(made)), f"{served(made) / served(real):.3f}")
        for real, made in zip(result.times, result.expected, strict=True)
        if served(real)
    ]
    return plain_table("Service time of both on the same drives, without the host's", columns, rows)


def served(item: Prediction) -> float:
    """Return the seconds of the drive alone; a trace may not tell those of its host."""
    return sum(seconds for name, seconds in item.causes_s if name != "host")


def replay_document(result: ReplayResult) -> dict[str, Any]:
    """Build the document of a replay."""
    found = result.agreement
    return {
        "schema": SCHEMA,
        "trace": result.trace,
        "reads": result.reads,
        "read_bytes": result.read_bytes,
        "times": [prediction_document(item) | dict(item.summary) for item in result.times],
        "expected": [prediction_document(item) | dict(item.summary) for item in result.expected],
        "agreement": None
        if found is None
        else {
            "block_bytes": found.block_bytes,
            "real_blocks": found.real_blocks,
            "predicted_blocks": found.predicted_blocks,
            "block_share": found.block_share,
            "extra_share": found.extra_share,
            "pair_share": found.pair_share,
            "missed": dict(found.missed),
            "extra": dict(found.extra),
        },
    }


def replay_json(result: ReplayResult) -> str:
    """Write the document of a replay as JSON text."""
    return json.dumps(replay_document(result), indent=2, allow_nan=False)
