"""Drive profiles as text: a list of several, or one with the source of every number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from layoutscope.report.escape import escape_text
from layoutscope.report.text.console import plain_table, print_parts
from layoutscope.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, RenderableType

    from layoutscope.results.drives import DriveFacts


def print_drives(drives: Sequence[DriveFacts], console: Console) -> None:
    """Print a list of several drives; of one all numbers with their sources."""
    print_parts(_one(drives[0]) if len(drives) == 1 else _many(drives), console)


def _many(drives: Sequence[DriveFacts]) -> Iterator[RenderableType]:
    columns = [("Drive", False), ("Random 4K", True), ("p99", True), ("MB/s", True), ("What it is", False)]
    rows = [
        (
            item.profile.name,
            format_seconds(item.random_ms[0] / 1000),
            format_seconds(item.random_ms[2] / 1000),
            f"{item.sequential_mb_s:,.0f}",
            escape_text(item.profile.title),
        )
        for item in drives
    ]
    yield plain_table("Drive profiles", columns, rows)


def _one(item: DriveFacts) -> Iterator[RenderableType]:
    profile = item.profile
    yield Text(f"{profile.name}: {escape_text(profile.title)}", style="bold")
    yield Text(f"{profile.kind}, {format_bytes(profile.capacity_bytes)}, geometry: {profile.geometry}")
    if profile.note:
        yield Text(escape_text(profile.note))
    median, p90, p99 = (format_seconds(value / 1000) for value in item.random_ms)
    yield Text(f"random reads of 4 KiB, one at a time: median {median}, p90 {p90}, p99 {p99}")
    yield Text(f"sequential reads at its start: {item.sequential_mb_s:,.0f} MB/s")
    columns = [("Figure", False), ("Value", False), ("Kind", False), ("Source", False)]
    rows = [(name, _short(each.value), each.kind, escape_text(each.source)) for name, each in profile.figures.items()]
    yield plain_table("Figures", columns, rows)
    for member in profile.members:
        yield Text(f"member: {member.name}")


def _short(value: object) -> str:
    text = escape_text(f"{value:,}" if isinstance(value, int) else str(value))
    return text if len(text) <= 32 else f"{text[:29]}..."
