"""Comparisons as text: two or more sides with what explains the difference, and a series of them."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final

from rich.text import Text

from layoutscope.drive.uncertain import two_digits
from layoutscope.report import escape_text
from layoutscope.report.text.console import make_printer, plain_table, print_parts
from layoutscope.results.compare import Comparison, Series, find_explained_row, get_end_costs, ratios, side_letters
from layoutscope.units import NOTHING, format_bytes, format_plain, format_ratio, format_seconds
from layoutscope.walk.host import HOST_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, RenderableType

    from layoutscope.results.compare import Changes, MetricRow, TimeRow

MAX_RATIOS: Final = 3
"""Up to so many sides each has its ratio to the first; with more of them the last one has."""

MAX_SIDES: Final = 4
"""A table of 80 columns has room for this many sides."""

TITLE_COLUMNS: Final = 30
"""Width of the column of metrics' titles."""

VALUE_COLUMNS: Final = 9
"""Width of a column of values, with the gap."""


@make_printer
def print_comparison(found: Comparison) -> Iterator[RenderableType]:
    """Print the sides, the verdict, the times, where they go, the metrics and what moved."""
    letters = side_letters(len(found.names))
    for letter, name in zip(letters, found.names, strict=True):
        yield Text(f"{letter}: {escape_text(name)}")
    hosts = dict.fromkeys(HOST_WORDS[host] for host in found.hosts if host is not None)
    if hosts:
        yield Text(f"Modelled as {' and '.join(hosts)}")
    if found.verdict:
        yield Text(found.verdict, style="bold")
    for chosen in blocks(len(letters)):
        yield _times(found, letters, chosen)
    row = find_explained_row(found.times)
    if row is not None:
        yield _where(row, letters)
    for chosen in blocks(len(letters)):
        yield _metrics(found, letters, chosen)
    for sides, change in zip(pairwise(letters), found.changes, strict=True):
        yield _changes(change, *sides)


def blocks(count: int) -> list[list[int]]:
    """Split sides into blocks that fit beside each other, the first side in each."""
    rest = list(range(1, count))
    step = MAX_SIDES - 1
    return [[0, *rest[start : start + step]] for start in range(0, max(len(rest), 1), step)]


def _columns(letters: Sequence[str], chosen: Sequence[int]) -> list[tuple[str, bool]]:
    named = [letters[number] for number in chosen]
    compared = named[1:] if len(chosen) <= MAX_RATIOS else named[-1:]
    return [*((letter, True) for letter in named), *((f"{letter}/{named[0]}", True) for letter in compared)]


def _times(found: Comparison, letters: Sequence[str], chosen: Sequence[int]) -> RenderableType:
    rows = []
    for row in found.times:
        values = [row.seconds[number] for number in chosen]
        growth = [row.ratio(number, chosen[0]) for number in chosen[1:]]
        times = [NOTHING if value is None else format_seconds(value) for value in values]
        shown = [NOTHING if each is None else two_digits(each.median) for each in growth]
        rows.append((row.drive, *times, *(shown if len(values) <= MAX_RATIOS else shown[-1:])))
    return plain_table("Predicted listing time", [("Drive", False), *_columns(letters, chosen)], rows)


def _where(row: TimeRow, letters: Sequence[str]) -> RenderableType:
    """Take the time on one drive apart, by cause and by reads; each part sums up to the whole."""
    first, last = get_end_costs(row)
    before, after = dict(first.causes_s), dict(last.causes_s)
    parts = [(name.capitalize(), before.get(name, 0.0), after.get(name, 0.0)) for name in {**before, **after}]
    parts = [part for part in parts if part[1:] != (0.0, 0.0)]
    parts.append(("Reads in sequence", first.in_sequence.seconds, last.in_sequence.seconds))
    parts.append(("Reads elsewhere", first.elsewhere.seconds, last.elsewhere.seconds))
    whole = last.seconds - first.seconds
    rows = []
    for name, was, now in parts:
        share = f"{round(100 * (now - was) / whole)} %" if whole else NOTHING
        rows.append((name, format_seconds(was), format_seconds(now), format_difference(now - was), share))
    sides = [(letters[0], True), (letters[-1], True), (f"{letters[-1]} - {letters[0]}", True), ("Share", True)]
    return plain_table(f"Where the time goes on {row.drive}, by cause and by reads", [("", False), *sides], rows)


def format_difference(seconds: float) -> str:
    """Show a difference with its sign.

    >>> format_difference(1.5), format_difference(-0.02), format_difference(0)
    ('+1.50 s', '-20 ms', '0 s')
    """
    if not seconds:
        return "0 s"
    return f"{'+' if seconds > 0 else '-'}{format_seconds(abs(seconds))}"


def _metrics(
    found: Comparison, letters: Sequence[str], chosen: Sequence[int], *, with_ratios: bool = True
) -> RenderableType:
    rows: list[tuple[str | Text, ...]] = []
    for subject, group in groupby(found.metrics, key=lambda row: row.subject):
        rows.append((Text(subject, style="italic"),))
        for row in group:
            values = [row.values[number] for number in chosen]
            growth = ratios(values) if with_ratios else []
            shown = [format_plain(value, row.unit) for value in values]
            shown += map(format_ratio, growth if len(values) <= MAX_RATIOS else growth[-1:])
            rows.append((f"  {metric_title(row)}", *shown))
    columns = _columns(letters, chosen) if with_ratios else [(letters[number], True) for number in chosen]
    return plain_table("Metrics", [("Metric", False), *columns], rows, gap=1)


def metric_title(row: MetricRow) -> str:
    """Name a metric, with the noun that it counts where its title lacks it."""
    has_unit = row.unit in ("share", "bytes", "seconds", "ratio") or row.unit.rstrip("s") in row.title.lower()
    return row.title if has_unit else f"{row.title}, {row.unit}"


def _changes(change: Changes | None, earlier: str, later: str) -> RenderableType:
    if change is None:
        why = "different UUIDs"
        return Text(f"{earlier} and {later} are different volumes ({why}), so moved nodes are not reported.")
    columns = [("", False), *((name, True) for name in ("Stayed", "Moved", "Added", "Removed", "Moved by, median"))]
    rows = [
        (
            row.what,
            *(f"{count:,}" for count in (row.stayed, row.moved, row.appeared, row.went)),
            NOTHING if row.moved_by_bytes is None else format_bytes(row.moved_by_bytes),
        )
        for row in change.rows
    ]
    return plain_table(f"Changes from {earlier} to {later}, by node number, oid or file number", columns, rows)


def print_series(series: Series, console: Console) -> None:
    """Print the layouts with their predicted times, and every metric over them."""
    letters = side_letters(len(series.places))
    parts: list[RenderableType] = [
        Text(f"{letter}: {escape_text(name)}") for letter, name in zip(letters, series.found.names, strict=True)
    ]
    for title, numbers in series.curves.items():
        shown = f"Predicted listing time, {escape_text(title)}" if len(series.curves) > 1 else "Predicted listing time"
        parts.append(_curve(series, letters, numbers, shown))
    step = max((console.width - TITLE_COLUMNS) // VALUE_COLUMNS, 2)
    blocks_of_sides = (range(start, min(start + step, len(letters))) for start in range(0, len(letters), step))
    parts += [_metrics(series.found, letters, numbers, with_ratios=False) for numbers in blocks_of_sides]
    print_parts(parts, console)


_PLACES: Final = {"order": "Order", "xid": "Xid", "time": "Last change (UTC)"}


def _curve(series: Series, letters: Sequence[str], numbers: Sequence[int], title: str) -> RenderableType:
    """Show a row a layout: the time on each drive, and how many times the first one that is."""
    columns = [("", False), (_PLACES[series.by], True)]
    for row in series.found.times:
        columns += [(row.drive, True), ("x", True)]
    rows = []
    for number in numbers:
        cells = [letters[number], series.places[number]]
        for row in series.found.times:
            now, then = row.seconds[number], row.seconds[numbers[0]]
            cells.append(NOTHING if now is None else format_seconds(now))
            cells.append(format_ratio(now / then if then and now is not None else None))
        rows.append(cells)
    return plain_table(title, columns, rows, gap=2 if len(series.found.times) < 3 else 1)
