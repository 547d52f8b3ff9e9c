"""Results of ``compare`` and ``series``: metrics and predictions per volume, what moved, and an explanation.

The difference of two times is decomposed twice: by cause (seek, rotation …), and by reads. For n reads of a kind that
take c seconds each, the difference is (mean c) x (difference of n) plus (mean n) x (difference of c): more reads, or
slower ones (Kitagawa, JASA 50, 1955). On drives with an arm, sequential reads are counted separately. The cause of more
reads elsewhere is the factor that grew most: entries, nodes per entry, or the share of nodes that do not start where
the previous one ended.
"""

from __future__ import annotations

from itertools import pairwise
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from msgspec.structs import astuple, replace

from layoutscope.display import Displayed, Struct
from layoutscope.drive.uncertain import paired_ratio, two_digits
from layoutscope.errors import UsageError
from layoutscope.metrics.files import ENUMERATION_SCORE, first_touches
from layoutscope.metrics.scatter import live_nodes, main_tree
from layoutscope.results import Shown
from layoutscope.structs.arrays import is_head, order_of, ranges
from layoutscope.tables import LIVE_STATES, Column, Values
from layoutscope.tables.columns import Rows
from layoutscope.units import format_bytes, format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.drive.uncertain import PairedRatio
    from layoutscope.frames import pl
    from layoutscope.results.scan import Prediction, ScanResult, VolumeScan
    from layoutscope.structs.arrays import I64, Mask
    from layoutscope.tables import VolumeLayout

    _FileExtents = tuple[NDArray[np.uint64], I64, I64, I64]


class MetricRow(Displayed, Struct, frozen=True):
    """One metric of all sides; in `values`, None means that a side lacks it."""

    name: str
    title: str
    unit: str
    subject: str
    values: tuple[float | None, ...]


class Reads(Displayed, Struct, frozen=True):
    """Reads of one kind in a walk."""

    count: int  # number of reads
    seconds: float  # sum of their service times
    distance_bytes: float = 0.0  # median distance from the end of the previous read; 0 without one


class Cost(Displayed, Struct, frozen=True):
    """The cost of the enumeration of one side on one drive."""

    seconds: float  # predicted time
    seconds_low: float  # lower end of its 90 % range, as in a scan
    seconds_high: float  # upper end of that range
    causes_s: tuple[tuple[str, float], ...]  # seconds by cause, which sum to `seconds`
    rotates: bool  # whether the drive has an arm
    entries: int  # files and directories that are enumerated
    nodes: int  # nodes that the walk touches
    # share of the nodes that start where the previous one ended: the enumeration layout score, 0 without a value
    sequence_share: float
    in_sequence: Reads  # reads that start where the previous one ended
    elsewhere: Reads  # the other reads; both kinds and the host's time sum to `seconds`
    # seconds per simulation of the drive and the host; the simulations of two sides correspond one to one
    draws_s: tuple[float, ...] = ()


class TimeRow(Displayed, Struct, frozen=True):
    """The cost of the enumeration of each side on one drive; None if it could not be predicted."""

    drive: str
    costs: tuple[Cost | None, ...]

    @property
    def seconds(self) -> tuple[float | None, ...]:
        """Predicted seconds of each side."""
        return tuple(None if cost is None else cost.seconds for cost in self.costs)

    def ratio(self, side: int, first: int = 0) -> PairedRatio | None:
        """Return the ratio of the times of two sides; None if either is unknown."""
        cost, base = self.costs[side], self.costs[first]
        return None if cost is None or base is None else paired_ratio(cost.draws_s, base.draws_s)

    @property
    def ratios(self) -> tuple[PairedRatio | None, ...]:
        """The ratios of all other sides to the first."""
        return tuple(self.ratio(side) for side in range(1, len(self.costs)))


class ChangeRow(Displayed, Struct, frozen=True):
    """Changes of one kind of objects between two states."""

    what: str  # name of a tree, ``entries`` or ``file data``
    stayed: int  # number with the same address in the volume
    moved: int  # number with another address
    appeared: int  # number only in the later state
    went: int  # number only in the earlier state
    moved_by_bytes: float | None = None  # median distance of the moved ones; None if there is no single distance


NODE_STAYED, NODE_MOVED, NODE_APPEARED, NODE_WENT = range(4)
CHANGE_WORDS: Final = ("stayed", "moved", "appeared", "went")
"""Changes of an object that has an address in one state, the other, or both."""


class NodeChanges(Displayed, Struct, frozen=True):
    """Changes of the nodes between two states, in the order of trees and numbers."""

    tree: Values  # as in the table of nodes
    node_id: NDArray[np.uint64]  # as in the table of nodes, shape (n,)
    level: Values  # as in the table of nodes
    earlier_offset: Values  # in bytes from the start of the volume
    later_offset: Values  # in bytes from the start of the volume
    change: NDArray[np.uint8]  # index into :data:`CHANGE_WORDS`, shape (n,)

    def __len__(self) -> int:
        return len(self.change)

    def take(self, chosen: NDArray[np.bool_]) -> NodeChanges:
        """Return the selected nodes."""
        columns = (self.tree, self.level, self.earlier_offset, self.later_offset)
        tree, level, earlier, later = (column.take(chosen) for column in columns)
        return NodeChanges(tree, self.node_id[chosen], level, earlier, later, self.change[chosen])

    def rows(self) -> Rows:
        """Return the changes as rows, with words for codes."""
        data = {
            "tree": [self.tree.words[code] for code in self.tree.data.tolist()],
            "node_id": self.node_id,
            "level": self.level.to_list(),
            "change": [CHANGE_WORDS[code] for code in self.change.tolist()],
            "earlier_offset": self.earlier_offset.to_list(),
            "later_offset": self.later_offset.to_list(),
        }
        return Rows.under(CHANGED_NODES, data)


CHANGED_NODES: Final = (
    Column("tree", "String", "", "which B-tree"),
    Column("node_id", "UInt64", "", "number by which its file system finds it"),
    Column("level", "UInt8", "", "depth from the leaves"),
    Column("change", "String", "", "stayed, moved, appeared or went"),
    Column("earlier_offset", "Int64", "bytes", "place in the earlier state, from the start of the volume"),
    Column("later_offset", "Int64", "bytes", "place in the later one"),
)
"""Columns of a table of nodes that did not stay."""


class Changes(Displayed, Struct, frozen=True):
    """Changes between two states of one volume, by node number, oid, CNID or inode number."""

    rows: tuple[ChangeRow, ...]  # the enumerated tree, the other trees, entries, data of files
    followed: NodeChanges  # nodes that did not stay

    def __eq__(self, other: object) -> bool:
        return self.rows == other.rows if isinstance(other, Changes) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.rows)

    @property
    def nodes(self) -> pl.DataFrame:
        """The nodes that did not stay, one per row, with the columns of :data:`CHANGED_NODES`."""
        return self.followed.rows().frame


class Comparison(Shown, Struct, frozen=True):
    """A comparison of volumes."""

    frames: ClassVar = ("frame",)

    names: tuple[str, ...]  # the sides
    metrics: tuple[MetricRow, ...]  # metrics of the walk, the enumerated trees, metadata, files and free space
    times: tuple[TimeRow, ...]  # predictions
    # from each side to the next; None if the two are not states of the same volume
    changes: tuple[Changes | None, ...]
    verdict: str  # main explanation of the difference between the first and the last side
    # share of the known metadata of each image that could be read, 0 to 1; None if unknown
    coverages: tuple[float | None, ...]
    hosts: tuple[str | None, ...]  # host profile that enumerates each side; None if nothing can be walked
    scans: tuple[ScanResult, ...] = ()  # the scan of each side, which equality ignores

    def __eq__(self, other: object) -> bool:
        return astuple(self)[:-1] == astuple(other)[:-1] if isinstance(other, Comparison) else NotImplemented

    def __hash__(self) -> int:
        return hash(astuple(self)[:-1])

    @property
    def frame(self) -> pl.DataFrame:
        """Metrics and predicted times, one row per side, with the difference from the first side."""
        return self._frame("comparison")


def side_letters(count: int) -> list[str]:
    """Name the sides: A to Z, then AA, AB and so on.

    Examples
    --------
    >>> side_letters(28)[-3:]
    ['Z', 'AA', 'AB']
    """
    alphabet = [chr(ord("A") + number) for number in range(26)]
    return [(alphabet[number // 26 - 1] if number >= 26 else "") + alphabet[number % 26] for number in range(count)]


def ratio(values: Sequence[float | None]) -> float | None:
    """Divide the last value by the first; None if the first is 0 or either is unknown."""
    first, last = values[0], values[-1]
    return last / first if first and last is not None else None


def ratios(values: Sequence[float | None]) -> list[float | None]:
    """Divide each later value by the first."""
    return [ratio((values[0], value)) for value in values[1:]]


class Series(Shown, Struct, frozen=True):
    """A series of layouts, volume by volume."""

    by: str  # sort key: ``order``, ``xid`` or ``time``
    places: tuple[str, ...]  # place of each layout in that order, as text
    volumes: tuple[str, ...]  # unique name of each layout's volume, which identifies its curve
    found: Comparison  # metrics and times, one side per layout

    @property
    def frame(self) -> pl.DataFrame:
        """Rows like those of `Comparison.frame`, one per layout and metric."""
        return self.found.frame

    @property
    def curves(self) -> dict[str, list[int]]:
        """Numbers of the layouts of each volume, in order."""
        return {
            name: [n for n, other in enumerate(self.volumes) if other == name] for name in dict.fromkeys(self.volumes)
        }


NONE: Final = -1
"""Row number of an object that one of the two states lacks."""


def compare_layouts(earlier: VolumeLayout, later: VolumeLayout) -> Changes | None:
    """Follow nodes, entries and data from one state to another; None unless both are states of one volume.

    Images of one volume share its identifier; so do copies that diverged.
    """
    if not earlier.facts.uuid or earlier.facts.uuid != later.facts.uuid:
        return None
    nodes, main, rows = join_nodes(earlier, later), main_tree(later), []
    present = nodes.tree.numbered()[1]
    for tree in (main, *(name for name in sorted(present) if name != main)):
        own = nodes.take(nodes.tree.equals(tree))
        moved = own.take(own.change == NODE_MOVED)
        distance = np.abs(moved.later_offset.data - moved.earlier_offset.data)
        stayed, moved_nodes, appeared, went = np.bincount(own.change, minlength=len(CHANGE_WORDS)).tolist()
        moved_by = float(np.median(distance)) if len(distance) else None
        rows.append(ChangeRow(f"nodes of {tree}", stayed, moved_nodes, appeared, went, moved_by))
    # An entry has moved if another directory lists it now.
    (before, first), (now, second) = map(_parents, (earlier, later))
    _, joined = _join((before,), (now,))
    counts = _count_changes(joined, lambda one, other: first[one] == second[other])
    rows.append(ChangeRow("files and directories", *counts))
    # A file with data on disk has moved if its extents differ.
    files = [_data(layout) for layout in (earlier, later)]
    _, joined = _join((files[0][0],), (files[1][0],))
    counts = _count_changes(joined, lambda one, other: _have_same_extents(files, one, other))
    rows.append(ChangeRow("files' data", *counts))
    return Changes(tuple(rows), nodes.take(nodes.change != NODE_STAYED))


def list_changed_nodes(comparison: Comparison) -> Rows:
    """Combine the nodes that did not stay into one table, with the letters of the sides."""
    sides = (
        Column("earlier", "String", "", "side that is the earlier state"),
        Column("later", "String", "", "the other"),
    )
    rows: list[tuple[object, ...]] = []
    columns: tuple[Column, ...] = ()
    for letters, change in zip(pairwise(side_letters(len(comparison.names))), comparison.changes, strict=True):
        if change is not None:
            own = change.followed.rows()
            columns = (*sides, *own.columns)
            rows += ((*letters, *row) for row in zip(*own.part(slice(None)).values(), strict=True))
    if not columns:
        raise UsageError("no two of these are states of one volume, so that no nodes can be followed")
    return Rows.listed(columns, rows)


def join_nodes(earlier: VolumeLayout, later: VolumeLayout) -> NodeChanges:
    """Join the nodes in use of two states, and classify their changes, in the order of trees and numbers."""
    used = [live_nodes(layout) for layout in (earlier, later)]
    tables = [nodes.take(nodes["state"].is_in(LIVE_STATES)) for nodes in used]
    words = sorted({word for table in tables for word in table["tree"].words})
    trees = [map_codes(table["tree"], words) for table in tables]
    numbers = [table["node_id"].data for table in tables]
    (tree, number), (before, now) = _join((trees[0], numbers[0]), (trees[1], numbers[1]))
    sides = [
        (
            _take_known(table["image_offset"], rows).signed() - layout.facts.image_offset,
            _take_known(table["device"], rows).signed(),
        )
        for table, rows, layout in zip(tables, (before, now), (earlier, later), strict=True)
    ]
    is_same = (sides[0][0] == sides[1][0]) & (sides[0][1] == sides[1][1])
    change = np.where(
        now == NONE, NODE_WENT, np.where(before == NONE, NODE_APPEARED, np.where(is_same, NODE_STAYED, NODE_MOVED))
    )
    levels = [_take_known(table["level"], rows) for table, rows in zip(tables, (before, now), strict=True)]
    level = np.where(levels[1].is_known, levels[1].data, levels[0].data)
    return NodeChanges(
        Values(tree, None, words),
        number.astype(np.uint64),
        Values(level, levels[0].is_known | levels[1].is_known),
        Values(sides[0][0], before != NONE),
        Values(sides[1][0], now != NONE),
        change.astype(np.uint8),
    )


def map_codes(column: Values, words: list[str]) -> I64:
    """Return the codes of a column as positions in a longer list of words."""
    places = np.array([words.index(word) for word in column.words] or [0], np.int64)
    codes: I64 = places[column.data]
    return codes


def _take_known(column: Values, rows: I64) -> Values:
    """Return the values of some rows, unknown for missing rows."""
    if not len(column):
        return Values(np.zeros(len(rows), column.data.dtype), np.zeros(len(rows), np.bool_))
    selected = column.take(np.maximum(rows, 0))
    return Values(selected.data, selected.is_known & (rows != NONE))


def _join(
    first: Sequence[NDArray[np.integer[Any]]], second: Sequence[NDArray[np.integer[Any]]]
) -> tuple[list[NDArray[np.integer[Any]]], tuple[I64, I64]]:
    """Join two sets of rows by keys; return the distinct keys, ascending, and the first row per set, or `NONE`."""
    (one, other), keys = _number_groups(first, second)
    return keys, (_first_rows(one, len(keys[0])), _first_rows(other, len(keys[0])))


def match_rows(own: Sequence[NDArray[np.integer[Any]]], others: Sequence[NDArray[np.integer[Any]]]) -> I64:
    """Return, for each row of a set, the first row of another set with the same keys, or :data:`NONE`."""
    (mine, theirs), keys = _number_groups(own, others)
    return _first_rows(theirs, len(keys[0]))[mine]


def _number_groups(
    first: Sequence[NDArray[np.integer[Any]]], second: Sequence[NDArray[np.integer[Any]]]
) -> tuple[tuple[I64, I64], list[NDArray[np.integer[Any]]]]:
    """Number the distinct keys of two sets in ascending order; return the number of each row, and the keys."""
    keys = [np.concatenate(pair) for pair in zip(first, second, strict=True)]
    order = np.lexsort(keys[::-1])
    keys = [key[order] for key in keys]
    begins = is_head(*keys)
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(begins) - 1
    return (group[: len(first[0])], group[len(first[0]) :]), [key[begins] for key in keys]


def _first_rows(group: I64, num_groups: int) -> I64:
    rows = np.full(num_groups, NONE, np.int64)
    # The last of several assignments to one place wins, so the reversed order keeps the first row.
    rows[group[::-1]] = np.arange(len(group) - 1, -1, -1)
    return rows


def _parents(layout: VolumeLayout) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return all files, and the smallest directory number that lists each."""
    entries = layout.columns("entries")
    number, parent = entries["file_id"].data, entries["parent_id"].data
    order = np.lexsort((parent, number))
    first = order[is_head(number[order])]
    return number[first], parent[first]


def _count_changes(rows: tuple[I64, I64], is_same: Callable[[I64, I64], Mask]) -> tuple[int, int, int, int]:
    """Count the changes of joined rows; `is_same` compares the rows that are in both states."""
    before, now = rows
    both = (before != NONE) & (now != NONE)
    stayed = int(np.count_nonzero(is_same(before[both], now[both])))
    appeared, went = int(np.count_nonzero(before == NONE)), int(np.count_nonzero(now == NONE))
    return stayed, int(both.sum()) - stayed, appeared, went


def _data(layout: VolumeLayout) -> _FileExtents:
    """Return the files with data, the first extent and number of extents of each, and the extents as rows of four."""
    extents = layout.columns("extents")
    extents = extents.take(extents["fork"].equals("data") & extents["image_offset"].is_known)
    number, start = extents["file_id"].data, extents["image_offset"].signed() - layout.facts.image_offset
    others = [extents[name].signed() for name in ("logical_offset", "length_bytes", "device")]
    order = np.lexsort((*others, start, number))
    first = np.flatnonzero(is_head(number[order]))
    counts = np.diff(np.append(first, len(order)))
    return number[order][first], first, counts, np.stack([start, *others], axis=1)[order]


def _have_same_extents(states: Sequence[_FileExtents], one: I64, other: I64) -> Mask:
    """Mark the files with the same extents in two states."""
    (_, first_starts, first_counts, first_extents), (_, second_starts, second_counts, second_extents) = states
    same: Mask = first_counts[one] == second_counts[other]
    candidates = np.flatnonzero(same)
    counts = first_counts[one[candidates]]
    rows = ranges(first_starts[one[candidates]], counts), ranges(second_starts[other[candidates]], counts)
    differs = (first_extents[rows[0]] != second_extents[rows[1]]).any(axis=1)
    owner = np.repeat(np.arange(len(candidates)), counts)
    same[candidates] = np.bincount(owner, differs, minlength=len(candidates)) == 0
    return same


MAIN: Final = "enumerated tree"
"""Common subject of the main trees of different file systems."""

SUBJECTS: Final = ("walk", MAIN, "metadata", "files", "free space")
"""Subjects that are compared, in display order."""


def compare_scans(results: Sequence[ScanResult], inputs: Sequence[str] = ()) -> Comparison:
    """Compare existing scans; sides are named by their inputs, or else by their images."""
    volumes = [result.volume for result in results]
    names = _name_sides(results, volumes, inputs or [result.image.name for result in results])
    predicted = [{item.drive: item for item in volume.predictions} for volume in volumes]
    times = []
    for drive in dict.fromkeys(name for table in predicted for name in table):
        costs = (
            measure_cost(volume, table[drive]) if drive in table else None
            for volume, table in zip(volumes, predicted, strict=True)
        )
        times.append(TimeRow(drive, tuple(costs)))
    row, letters = find_explained_row(times), side_letters(len(names))
    verdict = "" if row is None else explain(row.drive, get_end_costs(row), (letters[0], letters[-1]))
    changes = tuple(compare_layouts(one.layout, other.layout) for one, other in pairwise(volumes))
    hosts = tuple(None if item.walk is None else item.walk.host for item in volumes)
    metrics, coverages = tuple(_compare_metrics(results, volumes)), tuple(result.coverage for result in results)
    return Comparison(names, metrics, tuple(times), changes, verdict, coverages, hosts, tuple(results))


def _name_sides(results: Sequence[ScanResult], volumes: Sequence[VolumeScan], inputs: Sequence[str]) -> tuple[str, ...]:
    """Name the sides; sides of one image include the names of their volumes."""
    names = []
    for result, volume, input_name in zip(results, volumes, inputs, strict=True):
        facts = volume.layout.facts
        view = "" if facts.view == "live" else f", {facts.view}"
        name, image = Path(input_name).name, Path(result.image.name).name
        # A capture records the name of its image, which other captures of that disk share.
        modified = facts.details.get("modified (UTC)") if name != image and not view else None
        state = f", state of {modified} UTC" if modified else ""
        names.append(f"{name if name == image else f'{name} ({image})'}, {facts.variant}{view}{state}")
    own = [item.layout.facts.name for item in volumes]
    if len(set(names)) == len(set(zip(names, own, strict=True))):
        return tuple(names)
    return tuple(f"{name}, {volume!r}" for name, volume in zip(names, own, strict=True))


def _compare_metrics(results: Sequence[ScanResult], volumes: Sequence[VolumeScan]) -> Iterator[MetricRow]:
    """Yield the metrics that at least one side has, by subject, in the order of the first side."""
    tables: list[dict[tuple[str, str], MetricRow]] = []
    for result, volume in zip(results, volumes, strict=True):
        place, main = volume.layout.facts.image_offset, main_tree(volume.layout)
        found = [*(volume.walk.metrics if volume.walk is not None else ()), *volume.metrics]
        # The free space is that of the container.
        containers = (other for other in result.containers if other.layout.facts.image_offset == place)
        found += [metric for other in containers for metric in other.metrics if metric.subject == "free space"]
        entries = len(volume.layout.columns("entries"))
        rows = [MetricRow("entries", "Entries", "entries", "walk", (entries,))]
        if (walk := volume.walk) is not None:
            each = 1000 * walk.reads / entries if entries else None
            rows.append(MetricRow("reads", "Reads", "reads", "walk", (walk.reads,)))
            rows.append(MetricRow("reads-per-1000-entries", "Reads per 1,000 entries", "reads", "walk", (each,)))
            rows.append(MetricRow("read-bytes", "Bytes read", "bytes", "walk", (walk.read_bytes,)))
        for metric in found:
            subject = MAIN if metric.subject == main else metric.subject
            rows.append(MetricRow(metric.name, metric.definition.title, metric.unit, subject, (metric.value,)))
        tables.append({(row.name, row.subject): row for row in rows if row.subject in SUBJECTS})
    keys = {key: row for table in tables for key, row in table.items()}
    for key in sorted(keys, key=lambda key: SUBJECTS.index(key[1])):
        values = tuple(table[key].values[0] if key in table else None for table in tables)
        if any(value is not None for value in values):
            yield replace(keys[key], values=values)


def measure_cost(volume: VolumeScan, prediction: Prediction) -> Cost:
    """Return the cost of an enumeration: its nodes, its reads that start where the previous one ended, and the others.

    The first read is among the others.
    """
    num_nodes, score = 0, None
    in_sequence = elsewhere = Reads(0, 0.0)
    if volume.walk is not None:
        trace = volume.walk.trace
        score = next((metric.value for metric in volume.walk.metrics if metric.name == ENUMERATION_SCORE.name), None)
        nodes = live_nodes(volume.layout)
        nodes = nodes.take(order_of(nodes["image_offset"].data))
        start, size = (nodes[name].data for name in ("image_offset", "size_bytes"))
        num_nodes = len(first_touches(trace.image_offset, start, start + size))
        gap = np.abs(trace.image_offset[1:] - (trace.image_offset + trace.length_bytes)[:-1])
        follows = np.append(np.zeros(min(len(trace), 1), np.bool_), gap == 0)
        median_gap = float(np.median(gap[gap > 0])) if (gap > 0).any() else 0.0
        in_sequence = Reads(int(follows.sum()), float(prediction.service_s[follows].sum()))
        elsewhere = Reads(int((~follows).sum()), float(prediction.service_s[~follows].sum()), median_gap)
    return Cost(
        prediction.seconds,
        prediction.seconds_low,
        prediction.seconds_high,
        prediction.causes_s,
        prediction.rotates,
        len(volume.layout.columns("entries")),
        num_nodes,
        score or 0.0,
        in_sequence,
        elsewhere,
        prediction.draws_s,
    )


SAME: Final = 0.005
"""Times count as the same if they differ by less than this share of the longer one."""

WHOLE: Final = 0.05
"""A part counts as the whole difference if it exceeds it by at most this share."""

CAUSE_WORDS: Final = {
    "seek": "moving the arm",
    "rotation": "waiting for the platter to turn (rotation)",
    "transfer": "transfer",
    "overhead": "overhead (commands, and waiting for the look-ahead)",
    "host": "time of the computer",
}
"""Causes in words."""

KIND_WORDS: Final = {
    "reads": "reads",
    "reads-in-sequence": "reads in sequence",
    "reads-elsewhere": "reads that do not start where the last one ended",
}
"""Kinds of reads in words."""


def growth_by_cause(fast: Cost, slow: Cost) -> dict[str, float]:
    """Decompose the difference into seconds by cause."""
    before, after = dict(fast.causes_s), dict(slow.causes_s)
    return {name: after.get(name, 0.0) - before.get(name, 0.0) for name in {**before, **after}}


def growth_by_reads(fast: Cost, slow: Cost) -> dict[str, float]:
    """Decompose the difference into seconds by more reads, slower reads, and the host.

    For example, twice as many reads that take twice as long add 30 s: 15 s for the number, and 15 s for the length.

    >>> from layoutscope.results.compare import Cost, Reads
    >>> def side(count, seconds):
    ...     return Cost(seconds, seconds, seconds, (), True, 9, 9, 0.0, Reads(0, 0.0), Reads(count, seconds))
    >>> sides = side(10, 10.0), side(20, 40.0)
    >>> {name: seconds for name, seconds in growth_by_reads(*sides).items() if seconds}
    {'more-reads-elsewhere': 15.0, 'slower-reads-elsewhere': 15.0}
    """
    seconds_by_term: dict[str, float] = {}
    for kind in ("reads-in-sequence", "reads-elsewhere"):
        before, after = _select_kind(fast, kind), _select_kind(slow, kind)
        earlier, later = _mean_seconds(before, after), _mean_seconds(after, before)
        seconds_by_term[f"more-{kind}"] = (after.count - before.count) * (earlier + later) / 2
        seconds_by_term[f"slower-{kind}"] = (later - earlier) * (after.count + before.count) / 2
    return {**seconds_by_term, "host": growth_by_cause(fast, slow).get("host", 0.0)}


def _mean_seconds(reads: Reads, other: Reads) -> float:
    """Return the mean seconds per read, by default of the other side if there are no reads."""
    chosen = reads if reads.count else other
    return chosen.seconds / chosen.count if chosen.count else 0.0


def explain(drive: str, costs: tuple[Cost, Cost], letters: tuple[str, str]) -> str:
    """Explain most of the difference between two sides in one sentence."""
    (fast, fast_letter), (slow, slow_letter) = sorted(
        zip(costs, letters, strict=True), key=lambda side: side[0].seconds
    )
    difference = slow.seconds - fast.seconds
    times = f"{format_seconds(slow.seconds)} against {format_seconds(fast.seconds)}"
    ratio = paired_ratio(slow.draws_s, fast.draws_s)
    if difference <= SAME * slow.seconds or (ratio is not None and ratio.is_one):
        return f"On {drive}, {letters[0]} and {letters[1]} take equally long: {times}."
    if ratio is not None and ratio.is_open:
        relation = f"{slow_letter} takes {ratio.words} as long as {fast_letter}"
        return f"On {drive}, {relation} ({times}): which takes longer is open."
    longer = f"{slow_letter} takes longer than {fast_letter}"
    if fast.seconds:
        factor = f"{two_digits(slow.seconds / fast.seconds)} times" if ratio is None else ratio.words
        longer = f"{slow_letter} takes {factor} as long as {fast_letter}"
    cause, seconds = max(growth_by_cause(fast, slow).items(), key=lambda item: item[1])
    because = f"{_describe_part(seconds, difference)} {CAUSE_WORDS.get(cause, cause) if slow.rotates else cause}"
    terms = growth_by_reads(fast, slow)
    if not slow.rotates and not fast.rotates:
        # Without an arm, the start of a read does not matter.
        both = {
            f"{word}-reads": terms[f"{word}-reads-in-sequence"] + terms[f"{word}-reads-elsewhere"]
            for word in ("more", "slower")
        }
        terms = {**both, "host": terms["host"]}
    name, seconds = max(terms.items(), key=lambda item: item[1])
    share = _describe_part(seconds, difference).removesuffix(" is").replace("the difference", "it")
    reads = f"{share} comes from {_describe_reason(name, fast, slow)}"
    return f"On {drive}, {longer} ({times}): {because}; {reads}."


def _describe_part(seconds: float, more: float) -> str:
    """Describe a share of a difference; if it exceeds the whole, mention the compensation by other causes."""
    if seconds <= more * (1 + WHOLE):
        return f"{format_share(min(seconds / more, 1.0))} of the difference is"
    return f"{format_seconds(seconds)} more, of which other causes take back {format_seconds(seconds - more)}, is"


def _describe_reason(name: str, fast: Cost, slow: Cost) -> str:
    if name == "host":
        return f"the computer{_describe_entries(fast, slow)}"
    word, _, kind = name.partition("-")
    before, after = _select_kind(fast, kind), _select_kind(slow, kind)
    text = KIND_WORDS[kind]
    if word == "slower":
        means = f"{_format_mean(after)} against {_format_mean(before)}"
        distance = ""
        if after.distance_bytes > before.distance_bytes:
            far, near = format_bytes(after.distance_bytes), format_bytes(before.distance_bytes)
            distance = f", over a median distance of {far} against {near}"
        return f"slower {text}: {means} each{distance}"
    return f"more {text}: {after.count:,} against {before.count:,}{_describe_factor(fast, slow, kind)}"


def _select_kind(cost: Cost, kind: str) -> Reads:
    if kind == "reads-in-sequence":
        return cost.in_sequence
    return cost.elsewhere if kind == "reads-elsewhere" else sum_all_reads(cost)


def sum_all_reads(cost: Cost) -> Reads:
    """Sum all reads of a walk."""
    kinds = (cost.in_sequence, cost.elsewhere)
    return Reads(sum(kind.count for kind in kinds), sum(kind.seconds for kind in kinds))


def _format_mean(reads: Reads) -> str:
    return format_seconds(reads.seconds / reads.count) if reads.count else "none"


def _describe_factor(fast: Cost, slow: Cost, kind: str) -> str:
    """Describe the factor of the number of reads that grew most."""
    before, after = _factors(fast, kind), _factors(slow, kind)
    growth = {name: log(after[name] / before[name]) if before[name] > 0 and after[name] > 0 else 0.0 for name in before}
    name = max(growth, key=lambda item: growth[item])
    if growth[name] <= 0:
        return ""
    if name == "entries":
        return _describe_entries(fast, slow)
    if name == "per-entry":
        what = "nodes" if kind == "reads-elsewhere" else "requests"
        per = [f"{1000 * _factors(cost, kind)['per-entry']:,.0f}" for cost in (slow, fast)]
        return f", as {per[0]} {what} per 1,000 entries are read against {per[1]}"
    shares = [format_share(cost.sequence_share) for cost in (slow, fast)]
    return f", as {shares[0]} of its nodes are read in sequence against {shares[1]}"


def _factors(cost: Cost, kind: str) -> dict[str, float]:
    """Return the factors whose product is the number of reads of a kind, approximately for reads elsewhere."""
    entries = max(cost.entries, 1)
    if kind == "reads-elsewhere":
        return {"entries": entries, "per-entry": cost.nodes / entries, "share": 1 - cost.sequence_share}
    return {"entries": entries, "per-entry": _select_kind(cost, kind).count / entries}


def _describe_entries(fast: Cost, slow: Cost) -> str:
    return "" if fast.entries == slow.entries else f", for {slow.entries:,} entries against {fast.entries:,}"


def find_explained_row(times: Sequence[TimeRow]) -> TimeRow | None:
    """Return the first drive on which both the first and the last side have a prediction."""
    return next((row for row in times if None not in (row.costs[0], row.costs[-1])), None)


def get_end_costs(row: TimeRow) -> tuple[Cost, Cost]:
    """Return the costs of the first and the last side, both of which must exist."""
    first, last = row.costs[0], row.costs[-1]
    if first is None or last is None:
        raise ValueError(f"{row.drive}: no prediction of both ends")
    return first, last
