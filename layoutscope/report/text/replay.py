"""A replay as text: times of a trace, and how a prediction meets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from layoutscope.report.escape import escape_text
from layoutscope.report.text.console import plain_table, print_parts
from layoutscope.report.text.predictions import prediction_table
from layoutscope.units import format_bytes, format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from layoutscope.results.replay import ReplayResult
    from layoutscope.results.scan import Prediction
    from layoutscope.walk.score import Score


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
