"""A batch as text: how many sources ended how, and why those that are not complete are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from layoutscope.report import escape_text
from layoutscope.report.text.console import plain_table, print_parts
from layoutscope.results.fleet import STATUSES, FleetResult
from layoutscope.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

NAMED_SOURCES: Final = 10
"""So many sources that are not complete are named."""


def print_fleet(result: FleetResult, console: Console) -> None:
    """Print what became of a batch."""
    print_parts(_fleet(result), console)


def _fleet(result: FleetResult) -> Iterator[RenderableType]:
    number = len(result.sources)
    what = "1 source" if number == 1 else f"{number:,} sources"
    yield Text(f"{escape_text(result.folder)}: {what} in {format_seconds(result.seconds)}", style="bold")
    if result.kept:
        yield Text(f"{result.kept:,} of them read before, and unchanged")
    counted = [(status, f"{result.counts[status]:,}") for status in STATUSES if result.counts[status]]
    yield plain_table("How they ended", [("Status", False), ("Sources", True)], counted, gap=2)
    others = sorted(
        (item for item in result.sources if item.status != "complete"),
        key=lambda item: STATUSES[::-1].index(item.status),
    )
    for item in others[:NAMED_SOURCES]:
        yield Text(
            f"{item.status}: {escape_text(item.path)}: {escape_text(item.message.removeprefix(item.path + ': '))}"
        )
    if len(others) > NAMED_SOURCES:
        yield Text(f"and {len(others) - NAMED_SOURCES:,} more; batch.parquet has all of them")


PRINTERS: Final = {FleetResult: print_fleet}
"""Printers of these results, by their kind."""
