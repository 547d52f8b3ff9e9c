"""Volumes side by side: metrics by subject, times taken apart, what moved, and what explains the difference.

Of two states of one volume it is told, too, what happened to what is on it (:mod:`layoutscope.analysis.changes`).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.analysis.changes import layout_changes
from layoutscope.analysis.explanation import costs_of_ends, explain, explained_row
from layoutscope.arrays.lookup import order_of
from layoutscope.metrics.pieces import live_nodes, main_tree
from layoutscope.metrics.traces import ENUMERATION_SCORE, first_touches
from layoutscope.results.compare import Comparison, Cost, MetricRow, Reads, TimeRow, side_letters

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from layoutscope.metrics import Metric
    from layoutscope.results.scan import Prediction, ScanResult, VolumeScan

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
