"""Plans and forecasts as text.

A plan shows what would help, how to do it and what it takes; what would not, and why. A forecast shows times and nodes
after some cycles, and what it assumes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from rich.text import Text

from layoutscope.report import escape_text
from layoutscope.report.text.console import coverage_words, heads, item_table, make_printer, plain_table, wrap_text
from layoutscope.results.plan import FEW_READS, HARDWARE, VOLUME, PlanResult
from layoutscope.results.verdict import HELPS_FROM, WORTH_S
from layoutscope.units import NOTHING, format_count, format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from layoutscope.results.plan import ForecastResult, Pace, PlannedRemedy, VolumePlan


MAX_TOLD: Final = 5
"""Number of remedies whose steps, risks and assumptions are shown by default."""


@make_printer
def print_plan(result: PlanResult) -> Iterator[RenderableType]:
    """Print a plan, volume by volume."""
    yield Text(escape_text(result.image.name), style="bold")
    for volume in result.volumes:
        yield Text()
        yield from _volume(volume, shows_all=result.shows_all)
    if (found := result.emitted) is not None:
        windows = "" if found.windows == 1 else f", sorted in {found.windows:,} windows of the listing"
        yield Text(f"{escape_text(found.path)}: {found.files:,} files in disk order{windows}", style="bold")
        (_, own), *others = found.seconds
        told = "".join(f", {format_seconds(seconds)} in {name} order" for name, seconds in others)
        yield from wrap_text(f"Looking up and reading all files: {format_seconds(own)} in this order{told}")
        yield from wrap_text(
            "Use the list to read the contents of files, as tar and rsync do. It helps stat alone little."
        )
        for each in found.missing:
            yield from wrap_text(each.sentence, style="yellow")
    for reason in result.untold:
        yield Text(escape_text(reason), style="yellow")
    if not result.volumes and not result.untold:
        yield Text("No volume found to plan for.")


def _volume(volume: VolumePlan, *, shows_all: bool) -> Iterator[RenderableType]:
    yield Text(escape_text(volume.volume), style="bold cyan")
    if lost := coverage_words(volume.coverage, volume.num_errors):
        yield Text(f"{lost}The plan covers only what was read.", style="bold red")
    found = volume.interval
    between = f"{format_seconds(found.low_s)} to {format_seconds(found.high_s)}"
    work = f"{volume.order} as on {volume.host}, nothing cached, on {volume.drive} ({volume.title})"
    yield from wrap_text(f"{work}: {format_seconds(volume.seconds)} ({between}), {format_count(volume.reads, 'read')}")
    if found.high_s < WORTH_S:
        yield Text("Under a second: nothing to improve.", style="bold")
    notes = [line for sentence in volume.unknown for line in wrap_text(f"Note: {sentence}")]
    # Warnings that limit the value of the table are shown above it.
    if volume.reads < FEW_READS:
        yield from notes
    yield from _helpful(volume, MAX_TOLD if not shows_all else len(volume.remedies))
    useless, inapplicable = volume.useless, volume.inapplicable
    if useless and not shows_all:
        told = "; ".join(f"{item.words.title} ({format_seconds(item.seconds)})" for item in useless)
        yield from wrap_text(f"Does not help here (saves under {format_share(HELPS_FROM)}): {told}")
    if shows_all and useless:
        yield item_table(
            f"Does not help here (saves under {format_share(HELPS_FROM)})",
            useless,
            (">Time after", lambda item: format_seconds(item.seconds)),
            (">Saves", lambda item: _format_signed(item.saved_s)),
            ("What", lambda item: item.words.title),
        )
    if shows_all and inapplicable:
        title, why = ("What", lambda item: item.words.title), ("Why not", lambda item: item.why_not)
        yield item_table("Does not apply", inapplicable, title, why)
    if volume.reads >= FEW_READS:
        yield from notes


def _helpful(volume: VolumePlan, most: int) -> Iterator[RenderableType]:
    helpful = volume.helpful
    if not helpful:
        if volume.reads:
            yield Text("None of the remedies tried helps here.", style="bold")
        return
    yield item_table(
        "Remedies, largest saving first",
        helpful,
        (">Time after", lambda item: format_seconds(item.seconds)),
        (">Saves", lambda item: format_share(item.share)),
        (">90 % range", _format_saving),
        (">One-time cost", _effort),
        ("What", lambda item: item.words.title + ("" if item.is_sure else " (not on every such drive)")),
    )
    if volume.pair is not None:
        titles = {item.words.name: item.words.title for item in volume.remedies}
        first, second = map(titles.__getitem__, volume.pair.names)
        took = f"{format_seconds(volume.pair.seconds)}, {format_share(volume.pair.share)} less"
        yield from wrap_text(f"Both together, without another drive: {first}, then {second}: {took}", style="bold")
    for item in helpful[:most]:
        yield from _describe_remedy(item, volume.pace)


def _format_saving(item: PlannedRemedy) -> str:
    if item.saved is None:
        return NOTHING
    return f"{_format_signed(item.saved.low_s)} to {_format_signed(item.saved.high_s)}"


def _format_signed(seconds: float) -> str:
    return format_seconds(seconds) if seconds >= 0 else f"-{format_seconds(-seconds)}"


def _effort(item: PlannedRemedy) -> str:
    if item.effort_s is None:
        return NOTHING
    return format_seconds(item.effort_s) if item.effort_s else "nothing"


def lasting(item: PlannedRemedy, pace: Pace | None) -> str:
    """Describe how long a remedy lasts, as far as that was forecast."""
    if item.words.kind != VOLUME:
        return "as long as the drive is used" if item.words.kind == HARDWARE else "as long as the program is used"
    if pace is None:
        return "until the volume has aged again (--lasts 10 forecasts over 10 cycles when that is)"
    told = f"{pace.cycles:,} cycles, each of which replaces {format_share(pace.share)} of the files"
    cycles = pace.lasts(item)
    if cycles is None:
        return f"unknown: {told}, do not make this volume slower; fresh volumes age faster"
    slower = f"{format_seconds(pace.per_cycle_s)} a cycle over the next {told}"
    return f"{cycles:,.0f} cycles at most, at {slower}; fresh volumes age faster"


def _describe_remedy(item: PlannedRemedy, pace: Pace | None) -> Iterator[RenderableType]:
    words = item.words
    yield Text(f"{words.name}: {words.title}", style="bold")
    for system, command in words.ways:
        yield from wrap_text(f"  {system}: {command}")
    pays = item.pays_after
    if pays is not None and pays > 0:
        yield from wrap_text(f"  pays off after {format_count(math.ceil(pays), 'run')}")
    yield from wrap_text(f"  lasts: {lasting(item, pace)}")
    yield from wrap_text(f"  risk: {words.risk}; side effects: {words.side_effects}")
    yield from wrap_text(f"  assumes: {words.assumes}", style="dim")


FORECAST_METRICS: Final = ("next-leaf-adjacent", "leaf-fill", "file-layout-score")
"""Metrics of the table, of the first subject that has them; JSON has all."""


@make_printer
def print_forecast(result: ForecastResult) -> Iterator[RenderableType]:
    """Print a forecast."""
    yield Text(f"{escape_text(result.image)}: {result.filesystem} {escape_text(result.volume)!r}", style="bold")
    cycle = f"A cycle {result.does}: {format_share(result.share)} of the files"
    yield Text(f"{cycle}, by the driver of {result.host}; {format_count(result.seeds, 'simulation')}")
    if result.churn is not None:
        churn = result.churn
        yield Text(f"New files from image to image: {', '.join(map(format_share, churn.replaced))}")
        told = [format_share(share) for share in churn.rewritten if share is not None]
        if told:
            yield Text(f"Leaves written from image to image: {', '.join(told)}")
        if churn.expected is not None:
            expected, was = format_share(churn.expected), format_share(churn.replaced[-1])
            yield Text(f"The earlier images predict {expected} for the last one; it was {was}.")
    for number, drive in enumerate(result.points[0].times):
        columns = heads(">Cycles", ">Listing time", ">Range (layout)", ">Range (layout and drive)")
        rows = []
        for point in result.points:
            time = point.times[number]
            by_layout = f"{format_seconds(time.seconds.low)} to {format_seconds(time.seconds.high)}"
            by_both = f"{format_seconds(time.low_s)} to {format_seconds(time.high_s)}"
            rows.append((f"{point.cycle:,}", format_seconds(time.seconds.value), by_layout, by_both))
        yield plain_table(f"Listing on {escape_text(drive.profile)}", columns, rows)
    titles = {metric.name: metric.title for metric in reversed(result.points[0].metrics)}
    columns = [*heads(">After", ">Files", ">Leaves"), *((titles.get(name, name), True) for name in FORECAST_METRICS)]
    layouts = []
    for point in result.points:
        cells = [f"{point.cycle:,}", f"{point.files.value:,.0f}", f"{point.nodes.value:,.0f}"]
        for name in FORECAST_METRICS:
            found = next((metric.found for metric in point.metrics if metric.name == name), None)
            cells.append(NOTHING if found is None else format_share(found.value))
        layouts.append(cells)
    yield plain_table("Layout", columns, layouts)
    for note in result.notes:
        yield Text(note, style="dim")
