"""A recording of a real disk as text: what was used of it, where its blocks are, and its times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from layoutscope.report import escape_text
from layoutscope.report.text.console import plain_table
from layoutscope.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from layoutscope.results.recorded import HostTimes, MeasuredTimes, PlacedDevice, Recording

NAMED: Final = 6
"""Devices and processes that are named; the rest is counted."""


def recording_lines(found: Recording) -> Iterator[Text]:
    """Yield what became of a recording, what is wrong with it first."""
    if found.problem:
        yield Text(f"{found.problem[0].upper()}{found.problem[1:]}", style="bold red")
    yield Text(f"{found.form}: {'; '.join(_counted(found))}")
    if found.lines.first_unparsed:
        several = "the first is" if found.lines.unparsed > 1 else "it is"
        yield Text(f"  cut or damaged: {found.lines.unparsed:,} lines; {several} line {found.lines.first_unparsed:,}")
    if found.lines.lost:
        yield Text(
            f"  the recorder says {found.lines.lost:,} times that it lost events: reads are missing", style="red"
        )
    for item in found.placed:
        yield Text(f"  {_placed(item, is_tried=found.is_tried)}")
    if found.foreign:
        yield Text(f"  other disks, left out: {_named(found.foreign)}")
    if found.others:
        yield Text(f"  other programs, left out: {_named(found.others)}")
    if not found.is_timed:
        yield Text("  it does not tell when each read was asked for and complete: no times are held against it")
    elif found.overlapping:
        yield Text(f"  {found.overlapping:,} reads were under way together with another one")


def _counted(found: Recording) -> Iterator[str]:
    """Yield the counts of lines that are not nothing."""
    whose = f" by {escape_text(', '.join(found.processes))}" if any(found.processes) else ""
    yield f"{found.used:,} reads used{whose}"
    counts = (
        (found.foreign_reads, "of other disks"),
        (sum(count for _, count in found.others), "of other programs"),
        (found.twice, "told twice by CoreStorage"),
        (found.background, "of CoreStorage itself"),
        (found.lines.writes, "writes"),
        (found.lines.failed, "failed"),
        (found.lines.unparsed, "cut or damaged"),
        (found.lines.other, "other lines"),
    )
    for count, words in counts:
        if count:
            yield f"{count:,} {words}"


def _placed(item: PlacedDevice, *, is_tried: bool) -> str:
    """Say where a device's blocks are, and how that is known."""
    there = item.place
    name = escape_text(there.device) or "the disk"
    second = " of the second image" if there.image_device else ""
    text = (
        f"{name}: {item.reads:,} reads, blocks of {there.unit_bytes:,} bytes from byte {there.image_offset:,}{second}"
    )
    if not is_tried:
        return f"{text}; taken so, since there is no image to try it on"
    where = "on what the volume holds" if item.is_alike else "on nodes"
    return f"{text}; {item.on_nodes:,} of {item.tried:,} lie {where}"


def _named(counts: Sequence[tuple[str, int]]) -> str:
    """Name the first of some counts, and say how many more there are."""
    named = [f"{escape_text(name) or 'without a name'} {count:,}" for name, count in counts[:NAMED]]
    more = counts[NAMED:]
    return ", ".join([*named, *([f"{len(more):,} more {sum(count for _, count in more):,}"] if more else [])])


def measured_table(measured: MeasuredTimes) -> RenderableType:
    """Show recorded times beside those of a drive."""
    columns = [
        ("Reads", False),
        ("Number", True),
        ("Measured", True),
        ("p90", True),
        ("Predicted", True),
        ("p90", True),
    ]
    rows = [
        (
            item.outcome,
            f"{item.reads:,}",
            *(format_seconds(ms / 1000) for ms in (*item.measured_ms, *item.predicted_ms)),
        )
        for item in measured.outcomes
    ]
    total = f"{format_seconds(measured.measured_s)} measured, {format_seconds(measured.predicted_s)} predicted"
    ratio = "" if measured.ratio is None else f": {measured.ratio:.3f} times"
    return plain_table(f"Times of the recorded reads beside {measured.drive}; {total}{ratio}", columns, rows, gap=1)


def host_line(host: HostTimes) -> Text:
    """Set the host's time between reads beside that of the model."""
    each = host.each_us()
    measured, model = format_seconds(host.measured_us / 1e6), format_seconds(host.model_us / 1e6)
    words = f"Host between reads: {measured} measured, {model} by the model"
    if each is not None:
        words += f"; {each[0]:.1f} and {each[1]:.1f} us for each of {host.entries:,} entries"
    return Text(words)
