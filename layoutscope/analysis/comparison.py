"""Volumes side by side: metrics by subject, times taken apart, what moved, and what explains the difference.

Of two states of one volume it is told, too, what happened to what is on it (:mod:`layoutscope.analysis.comparison`).
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from layoutscope.analysis.explanation import costs_of_ends, explain, explained_row
from layoutscope.arrays.lookup import order_of
from layoutscope.arrays.ragged import is_head, ranges
from layoutscope.drive.uncertain import DRIVE, HOST, MODEL, OFFSET, START, VOLUME
from layoutscope.errors import UsageError
from layoutscope.metrics.files import ENUMERATION_SCORE, first_touches
from layoutscope.metrics.space import live_nodes, main_tree
from layoutscope.results.compare import (
    NODE_APPEARED,
    NODE_MOVED,
    NODE_STAYED,
    NODE_WENT,
    ChangeRow,
    Changes,
    Comparison,
    Cost,
    MetricRow,
    NodeChanges,
    Reads,
    TimeRow,
    side_letters,
)
from layoutscope.tables import LIVE_STATES, Column, Values
from layoutscope.tables.columns import Rows
from layoutscope.units import NOTHING, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.arrays.ragged import I64, Mask
    from layoutscope.drive.uncertain import Interval
    from layoutscope.metrics import Metric
    from layoutscope.results.predict import DriveCase
    from layoutscope.results.scan import Prediction, ScanResult, VolumeScan
    from layoutscope.tables import Table, VolumeLayout


NONE: Final = -1
"""The row of what one of the two states lacks."""


def layout_changes(earlier: VolumeLayout, later: VolumeLayout) -> Changes | None:
    """Follow nodes, entries and data from one state to another; None unless both are states of one volume.

    Images of one volume share its identifier; so do copies that went on apart.
    """
    if not earlier.facts.uuid or earlier.facts.uuid != later.facts.uuid:
        return None
    nodes = node_changes(earlier, later)
    rows = (*_tree_rows(nodes, main_tree(later)), _entry_row(earlier, later), _data_row(earlier, later))
    return Changes(rows, nodes.take(nodes.change != NODE_STAYED))


def changed_nodes(found: Comparison) -> Rows:
    """Put the nodes that did not stay into one table, with the letters of the sides."""
    sides = (
        Column("earlier", "String", "", "side that is the earlier state"),
        Column("later", "String", "", "the other"),
    )
    rows: list[tuple[object, ...]] = []
    columns: tuple[Column, ...] = ()
    for letters, change in zip(pairwise(side_letters(len(found.names))), found.changes, strict=True):
        if change is not None:
            own = change.followed.rows()
            columns = (*sides, *own.columns)
            rows += ((*letters, *row) for row in zip(*own.part(slice(None)).values(), strict=True))
    if not columns:
        raise UsageError("no two of these are states of one volume, so that no nodes can be followed")
    return Rows.listed(columns, rows)


def node_changes(earlier: VolumeLayout, later: VolumeLayout) -> NodeChanges:
    """Join the nodes in use of two states, and say of each what happened to it; in the order of trees and numbers."""
    tables = [_in_use(layout) for layout in (earlier, later)]
    words = sorted({word for table in tables for word in table["tree"].words})
    trees = [codes_in(table["tree"], words) for table in tables]
    numbers = [table["node_id"].data for table in tables]
    (tree, number), (before, now) = _joined((trees[0], numbers[0]), (trees[1], numbers[1]))
    sides = [
        (_of(table["image_offset"], rows).signed() - layout.facts.image_offset, _of(table["device"], rows).signed())
        for table, rows, layout in zip(tables, (before, now), (earlier, later), strict=True)
    ]
    is_same = (sides[0][0] == sides[1][0]) & (sides[0][1] == sides[1][1])
    change = np.where(
        now == NONE, NODE_WENT, np.where(before == NONE, NODE_APPEARED, np.where(is_same, NODE_STAYED, NODE_MOVED))
    )
    levels = [_of(table["level"], rows) for table, rows in zip(tables, (before, now), strict=True)]
    level = np.where(levels[1].is_known, levels[1].data, levels[0].data)
    return NodeChanges(
        Values(tree, None, words),
        number.astype(np.uint64),
        Values(level, levels[0].is_known | levels[1].is_known),
        Values(sides[0][0], before != NONE),
        Values(sides[1][0], now != NONE),
        change.astype(np.uint8),
    )


def _in_use(layout: VolumeLayout) -> Table:
    live = live_nodes(layout)
    return live.take(live["state"].is_in(LIVE_STATES))


def codes_in(column: Values, words: list[str]) -> I64:
    """Return the words of a column by their places among others, which are more."""
    places = np.array([words.index(word) for word in column.words] or [0], np.int64)
    found: I64 = places[column.data]
    return found


def _of(column: Values, rows: I64) -> Values:
    """Return the values of some rows, unknown where there is none."""
    if not len(column):
        return Values(np.zeros(len(rows), column.data.dtype), np.zeros(len(rows), np.bool_))
    taken = column.take(np.maximum(rows, 0))
    return Values(taken.data, taken.is_known & (rows != NONE))


def _joined(
    first: Sequence[NDArray[np.integer[Any]]], second: Sequence[NDArray[np.integer[Any]]]
) -> tuple[list[NDArray[np.integer[Any]]], tuple[I64, I64]]:
    """Join two sets of rows by the same keys, of which the first row counts where several have one.

    The different keys, ascending.

    The row of each set that has them, or `NONE`.
    """
    (one, other), keys = _groups(first, second)
    return keys, (_first_rows(one, len(keys[0])), _first_rows(other, len(keys[0])))


def matching(own: Sequence[NDArray[np.integer[Any]]], others: Sequence[NDArray[np.integer[Any]]]) -> I64:
    """Return for each row of a set the first row of another that has the same keys, or :data:`NONE`."""
    (mine, theirs), keys = _groups(own, others)
    return _first_rows(theirs, len(keys[0]))[mine]


def _groups(
    first: Sequence[NDArray[np.integer[Any]]], second: Sequence[NDArray[np.integer[Any]]]
) -> tuple[tuple[I64, I64], list[NDArray[np.integer[Any]]]]:
    """Number the different keys of two sets in ascending order; return the number of each row, and the keys."""
    keys = [np.concatenate(pair) for pair in zip(first, second, strict=True)]
    order = np.lexsort(keys[::-1])
    keys = [key[order] for key in keys]
    begins = is_head(*keys)
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(begins) - 1
    return (group[: len(first[0])], group[len(first[0]) :]), [key[begins] for key in keys]


def _first_rows(group: I64, num_groups: int) -> I64:
    rows = np.full(num_groups, NONE, np.int64)
    # Of several values for one place the last one stays: backwards, that is the first.
    rows[group[::-1]] = np.arange(len(group) - 1, -1, -1)
    return rows


def _tree_rows(nodes: NodeChanges, main: str) -> Iterator[ChangeRow]:
    present = nodes.tree.numbered()[1]
    for tree in (main, *(name for name in sorted(present) if name != main)):
        own = nodes.take(nodes.tree.equals(tree))
        moved = own.take(own.change == NODE_MOVED)
        distance = np.abs(moved.later_offset.data - moved.earlier_offset.data)
        yield ChangeRow(f"nodes of {tree}", *_tally(own.change), float(np.median(distance)) if len(distance) else None)


def _tally(change: NDArray[np.integer[Any]]) -> tuple[int, int, int, int]:
    stayed, moved, appeared, went = np.bincount(change, minlength=4).tolist()
    return stayed, moved, appeared, went


def _entry_row(earlier: VolumeLayout, later: VolumeLayout) -> ChangeRow:
    """Count files and directories; one that another directory lists now has moved."""
    (before, first), (now, second) = map(_parents, (earlier, later))
    _, rows = _joined((before,), (now,))
    return ChangeRow("files and directories", *_told(rows, lambda one, other: first[one] == second[other]))


def _parents(layout: VolumeLayout) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return every file, and the smallest number of a directory that lists it."""
    entries = layout.columns("entries")
    number, parent = entries["file_id"].data, entries["parent_id"].data
    order = np.lexsort((parent, number))
    first = order[is_head(number[order])]
    return number[first], parent[first]


def _told(rows: tuple[I64, I64], is_same: Callable[[I64, I64], Mask]) -> tuple[int, int, int, int]:
    """Count what happened to things that are joined, from whether those in both states are the same."""
    before, now = rows
    both = (before != NONE) & (now != NONE)
    stayed = int(np.count_nonzero(is_same(before[both], now[both])))
    appeared, went = int(np.count_nonzero(before == NONE)), int(np.count_nonzero(now == NONE))
    return stayed, int(both.sum()) - stayed, appeared, went


def _data_row(earlier: VolumeLayout, later: VolumeLayout) -> ChangeRow:
    """Count the files that have data on disk; one whose extents are not the same has moved."""
    first, second = map(_data, (earlier, later))
    _, rows = _joined((first.file_id,), (second.file_id,))
    return ChangeRow("files' data", *_told(rows, lambda one, other: _are_same(first, second, one, other)))


class _Data(NamedTuple):
    """Extents by file: each file, its first extent and how many it has; extents are rows of four numbers, in order."""

    file_id: NDArray[np.uint64]
    first: I64
    num: I64
    extents: I64


def _data(layout: VolumeLayout) -> _Data:
    extents = layout.columns("extents")
    extents = extents.take(extents["fork"].equals("data") & extents["image_offset"].is_known)
    number, start = extents["file_id"].data, extents["image_offset"].signed() - layout.facts.image_offset
    others = [extents[name].signed() for name in ("logical_offset", "length_bytes", "device")]
    order = np.lexsort((*others, start, number))
    first = np.flatnonzero(is_head(number[order]))
    return _Data(
        number[order][first],
        first,
        np.diff(np.append(first, len(order))),
        np.stack([start, *others], axis=1)[order],
    )


def _are_same(first: _Data, second: _Data, one: I64, other: I64) -> Mask:
    """Tell which files of two states have the same extents."""
    same: Mask = first.num[one] == second.num[other]
    kept = np.flatnonzero(same)
    counts = first.num[one[kept]]
    rows = ranges(first.first[one[kept]], counts), ranges(second.first[other[kept]], counts)
    differs = (first.extents[rows[0]] != second.extents[rows[1]]).any(axis=1)
    same[kept] = np.bincount(np.repeat(np.arange(len(kept)), counts), differs, minlength=len(kept)) == 0
    return same


MAIN: Final = "enumerated tree"
"""Subject under which the main trees of different file systems stand side by side."""

SUBJECTS: Final = ("walk", MAIN, "metadata", "files", "free space")
"""Subjects that are compared, in the order in which they are shown."""


def compare_scans(results: Sequence[ScanResult]) -> Comparison:
    """Compare scans that are already there."""
    volumes = [result.volume for result in results]
    names = _names(results, volumes)
    times = tuple(_times(volumes))
    changes = tuple(layout_changes(one.layout, other.layout) for one, other in pairwise(volumes))
    metrics, coverages = tuple(_metrics(results, volumes)), tuple(result.coverage for result in results)
    return Comparison(names, metrics, times, changes, _verdict(times, len(names)), coverages)


def _names(results: Sequence[ScanResult], volumes: Sequence[VolumeScan]) -> tuple[str, ...]:
    """Name the sides, those of one image with the names of their volumes."""
    names = [_name(result, item) for result, item in zip(results, volumes, strict=True)]
    own = [item.layout.facts.name for item in volumes]
    if len(set(names)) == len(set(zip(names, own, strict=True))):
        return tuple(names)
    return tuple(f"{name}, {volume!r}" for name, volume in zip(names, own, strict=True))


def _name(result: ScanResult, volume: VolumeScan) -> str:
    facts = volume.layout.facts
    view = "" if facts.view == "live" else f", {facts.view}"
    return f"{Path(result.image.name).name}, {facts.variant}{view}"


def _verdict(times: Sequence[TimeRow], sides: int) -> str:
    row, letters = explained_row(times), side_letters(sides)
    return "" if row is None else explain(row.drive, costs_of_ends(row), (letters[0], letters[-1]))


def _metrics(results: Sequence[ScanResult], volumes: Sequence[VolumeScan]) -> Iterator[MetricRow]:
    """Yield the metrics that some side has, subject by subject, in the order of the first side."""
    tables = [_by_subject(result, volume) for result, volume in zip(results, volumes, strict=True)]
    keys = {key: row for table in tables for key, row in table.items()}
    for key in sorted(keys, key=lambda key: SUBJECTS.index(key[1])):
        values = tuple(table[key].values[0] if key in table else None for table in tables)
        if any(value is not None for value in values):
            yield replace(keys[key], values=values)


def _by_subject(result: ScanResult, volume: VolumeScan) -> dict[tuple[str, str], MetricRow]:
    rows = [*_counts(volume), *map(_row, _all_metrics(result, volume))]
    main = main_tree(volume.layout)
    renamed = [replace(row, subject=MAIN) if row.subject == main else row for row in rows]
    return {(row.name, row.subject): row for row in renamed if row.subject in SUBJECTS}


def _row(metric: Metric) -> MetricRow:
    return MetricRow(metric.name, metric.definition.title, metric.unit, metric.subject, (metric.value,))


def _all_metrics(result: ScanResult, volume: VolumeScan) -> Iterator[Metric]:
    """Yield the metrics of a volume and its walk, and those of the container that holds its free space."""
    yield from volume.walk.metrics if volume.walk is not None else ()
    yield from volume.metrics
    for other in result.volumes:
        if other.layout.facts.volume is None and other.layout.facts.image_offset == volume.layout.facts.image_offset:
            yield from (metric for metric in other.metrics if metric.subject == "free space")


def _counts(volume: VolumeScan) -> Iterator[MetricRow]:
    """Yield what the other figures must be held against: entries, reads and their bytes."""
    entries = len(volume.layout.columns("entries"))
    yield MetricRow("entries", "Entries", "entries", "walk", (entries,))
    if volume.walk is not None:
        yield MetricRow("reads", "Reads", "reads", "walk", (volume.walk.reads,))
        each = 1000 * volume.walk.reads / entries if entries else None
        yield MetricRow("reads-per-1000-entries", "Reads per 1,000 entries", "reads", "walk", (each,))
        yield MetricRow("read-bytes", "Bytes read", "bytes", "walk", (volume.walk.read_bytes,))


def _times(volumes: Sequence[VolumeScan]) -> Iterator[TimeRow]:
    tables = [{item.drive: item for item in volume.predictions} for volume in volumes]
    for drive in {name: None for table in tables for name in table}:
        costs = tuple(
            _cost(volume, table[drive]) if drive in table else None
            for volume, table in zip(volumes, tables, strict=True)
        )
        yield TimeRow(drive, costs)


def _cost(volume: VolumeScan, found: Prediction) -> Cost:
    return Cost(
        found.seconds,
        found.seconds_low,
        found.seconds_high,
        found.causes_s,
        found.rotates,
        len(volume.layout.columns("entries")),
        *_nodes(volume),
        *_reads(volume, found),
        found.draws_s,
    )


def _nodes(volume: VolumeScan) -> tuple[int, float]:
    """Count the nodes that the walk touches; give the share of them that are read in sequence."""
    if volume.walk is None:
        return 0, 0.0
    score = next((metric.value for metric in volume.walk.metrics if metric.name == ENUMERATION_SCORE.name), None)
    nodes = live_nodes(volume.layout)
    nodes = nodes.take(order_of(nodes["image_offset"].data))
    start, size = (nodes[name].data for name in ("image_offset", "size_bytes"))
    return len(first_touches(volume.walk.trace.image_offset, start, start + size)), score or 0.0


def _reads(volume: VolumeScan, found: Prediction) -> tuple[Reads, Reads]:
    """Add up reads that start where the last one ended, and the others; the first read is one of these."""
    if volume.walk is None:
        return Reads(0, 0.0), Reads(0, 0.0)
    trace = volume.walk.trace
    gap = np.abs(trace.image_offset[1:] - (trace.image_offset + trace.length_bytes)[:-1])
    follows = np.append(np.zeros(min(len(trace), 1), np.bool_), gap == 0)
    far = float(np.median(gap[gap > 0])) if (gap > 0).any() else 0.0
    sums = [float(found.service_s[chosen].sum()) for chosen in (follows, ~follows)]
    return Reads(int(follows.sum()), sums[0]), Reads(int((~follows).sum()), sums[1], far)


NARROW: Final = 1.02
"""Ends whose ratio is less than this lie too close together to ask what parts them."""
NAMED_SHARE: Final = 0.3
"""What contributes less than this share of the width is not named."""

MAX_SHARE: Final = 0.99
"""What contributes more than this is said to make the whole width."""

PLACEMENT: Final = "placement"
"""Group of what is not known of how the nodes of a volume came to lie."""

WORDS: Final = {
    DRIVE: "which drive it is",
    MODEL: "what the model is off on such drives",
    OFFSET: "where on the drive the volume lies",
    HOST: "how fast the computer is",
    START: "the angle at which the disk stands at the start",
    PLACEMENT: "how the nodes came to lie",
}
"""Groups of inputs as a sentence tells them."""

PLACES: Final = {PLACEMENT: "how the nodes lie", OFFSET: "where on the drive"}
"""What of a width is placement."""

HALVES: Final = ("outer", "inner")
"""Of a drive."""


def width(case: DriveCase) -> tuple[str, ...]:
    """Tell between which times a prediction lies, what parts them most, and what would narrow them.

    Of a volume like that, where it was asked for, likewise, with what part is placement.
    """
    told = [found for found in (case.prediction.interval, case.volume) if found is not None]
    return (*(sentence for found in told for sentence in _sentences(case, found)), *_places(case))


def _places(case: DriveCase) -> Iterator[str]:
    """Say what part of a time is how the nodes lie, and what the place on the drive makes of it."""
    if case.volume is not None:
        shares = dict(case.volume.shares)
        parts = [
            f"{words}, {share_words(shares.get(group, 0.0))}"
            for group, words in PLACES.items()
            if group == PLACEMENT or case.prediction.rotates
        ]
        yield f"placement, of the width of a volume like that: {'; '.join(parts)}"
    if len(case.halves_s) == len(HALVES):
        outer, inner = case.halves_s
        part = f"{inner / outer - 1:+.0%}" if outer else NOTHING
        yield (
            f"on the outer half of the drive this layout takes {format_seconds(outer)}, "
            f"on the inner half {format_seconds(inner)} ({part})"
        )


def share_words(share: float) -> str:
    """Tell a share of a width; all of it from where nothing else is worth a word."""
    return "all" if share > MAX_SHARE else f"{100 * share:.0f} %"


def _sentences(case: DriveCase, found: Interval) -> Iterator[str]:
    yield ends(found)
    group, share = found.shares[0] if found.shares else ("", 0.0)
    if found.ratio < NARROW or share < NAMED_SHARE:
        return
    helps = advice(group, case)
    yield f"{share_words(share)} of the width: {WORDS[group]}{'; ' + helps if helps else ''}"


def ends(found: Interval) -> str:
    """Say between which times half of the draws and nine in ten of them lie, and of what."""
    half = f"{format_seconds(found.quarter_s)} to {format_seconds(found.three_quarters_s)}"
    most = f"{format_seconds(found.low_s)} to {format_seconds(found.high_s)}"
    of = "a volume like that" if found.of == VOLUME else "this layout on a drive like that"
    return f"{of}: half of {found.draws} draws take {half}, 90 % of them {most}"


def advice(group: str, case: DriveCase) -> str:
    """Say what would narrow a prediction whose width comes from a group of inputs; nothing where nothing would."""
    if group == DRIVE and not case.is_measured:
        measure = "measure it ('layoutscope drives --help' says how)"
        return measure if case.drive_was_named else f"name yours with --drive, or {measure}"
    return {
        OFFSET: "say it with --start-offset",
        HOST: "say what an entry and a node cost on yours with --host-property",
    }.get(group, "")


def bound(case: DriveCase) -> str:
    """Say what the best of the layouts that were tried would take; nothing where only one was."""
    if case.best is None or case.tried < MIN_TRIED:
        return ""
    time = format_seconds(case.best.seconds)
    if time == format_seconds(case.prediction.seconds):
        return f"none of {case.tried} layouts of its nodes that were tried takes less"
    return f"the best of {case.tried} layouts of its nodes that were tried takes {time}: {case.best.because}"


MIN_TRIED: Final = 2
"""Of one layout there is no best."""
