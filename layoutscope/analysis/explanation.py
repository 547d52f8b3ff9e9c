"""What makes one enumeration take longer than another, in one sentence that arithmetic can check.

The difference is taken apart twice: by cause (seek, rotation …), and by reads. Reads of a kind whose number is n and
that take c seconds each differ by (mean c) x (difference of n) and by (mean n) x (difference of c): by more of them,
or by slower ones (Kitagawa, JASA 50, 1955). On drives with an arm, reads in sequence are told apart from the others.
What stands behind more reads elsewhere is the factor that grew most: entries, nodes for each entry, or the share of
nodes that do not start where the last one ended.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from layoutscope.access.entries import Paths
from layoutscope.analysis.counterfactual import CAUSES, ReadsOfNodes, seconds_of, walked
from layoutscope.analysis.frames import cost_of_directories, read_seconds, with_paths
from layoutscope.arrays.ragged import owners, ranges
from layoutscope.drive import hdd
from layoutscope.drive.simulation import is_sampled
from layoutscope.filesystems.registry import filesystem_of, filesystems
from layoutscope.frames import pl
from layoutscope.metrics.space import live_nodes
from layoutscope.results.compare import Reads
from layoutscope.results.recorded import HostTimes, MeasuredTimes, OutcomeTimes
from layoutscope.results.verdict import HELPS_FROM, NAMED_FROM, WORTH_S, Cause, Placement, Verdict, Why, Yardstick
from layoutscope.tables.frames import WalkCosts, build_frame
from layoutscope.tables.schema import FLAG_PRIVATE
from layoutscope.units import format_bytes, format_count, format_ratio, format_seconds, format_share
from layoutscope.walk import trace
from layoutscope.walk.whatif import what_if

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import DriveProfile, ServiceResult
    from layoutscope.drive.recordings import Recorded
    from layoutscope.results.compare import Cost, TimeRow
    from layoutscope.results.scan import Prediction, VolumeScan, WalkFacts
    from layoutscope.results.verdict import Remedy
    from layoutscope.tables import Table, VolumeLayout

    Tried = Callable[[ReadsOfNodes, DriveProfile], tuple[Remedy, ...]]

SAME: Final = 0.005
"""Times that differ by less than this share of the longer one are called the same."""

WHOLE: Final = 0.05
"""A part that exceeds the difference by up to this share of it is the whole difference."""

CAUSE_WORDS: Final = {
    "seek": "moving the arm",
    "rotation": "waiting for the platter to turn (rotation)",
    "transfer": "transfer",
    "overhead": "overhead (commands, and waiting for the look-ahead)",
    "host": "time of the computer",
}
"""Causes as a sentence tells them."""


KIND_WORDS: Final = {
    "reads": "reads",
    "reads-in-sequence": "reads in sequence",
    "reads-elsewhere": "reads that do not start where the last one ended",
}
"""Kinds of reads, likewise."""


def growth_by_cause(fast: Cost, slow: Cost) -> dict[str, float]:
    """Seconds of the difference by cause; they sum up to it."""
    before, after = dict(fast.causes_s), dict(slow.causes_s)
    return {name: after.get(name, 0.0) - before.get(name, 0.0) for name in {**before, **after}}


def growth_by_reads(fast: Cost, slow: Cost) -> dict[str, float]:
    """Seconds of the difference by more reads, slower reads, and the host; they sum up to it.

    Twice as many reads that take twice as long: 30 s more, 15 of them for the number, 15 for the length.

    >>> from layoutscope.results.compare import Cost, Reads
    >>> def side(count, seconds):
    ...     return Cost(seconds, seconds, seconds, (), True, 9, 9, 0.0, Reads(0, 0.0), Reads(count, seconds))
    >>> sides = side(10, 10.0), side(20, 40.0)
    >>> {name: seconds for name, seconds in growth_by_reads(*sides).items() if seconds}
    {'more-reads-elsewhere': 15.0, 'slower-reads-elsewhere': 15.0}
    """
    found: dict[str, float] = {}
    for kind, before, after in _kinds(fast, slow):
        earlier, later = _each(before, after), _each(after, before)
        found[f"more-{kind}"] = (after.count - before.count) * (earlier + later) / 2
        found[f"slower-{kind}"] = (later - earlier) * (after.count + before.count) / 2
    return {**found, "host": growth_by_cause(fast, slow).get("host", 0.0)}


def _kinds(fast: Cost, slow: Cost) -> list[tuple[str, Reads, Reads]]:
    return [
        ("reads-in-sequence", fast.in_sequence, slow.in_sequence),
        ("reads-elsewhere", fast.elsewhere, slow.elsewhere),
    ]


def _each(reads: Reads, other: Reads) -> float:
    """Return the seconds of one read; where a side has none of a kind, those of the other side."""
    chosen = reads if reads.count else other
    return chosen.seconds / chosen.count if chosen.count else 0.0


def explain(drive: str, costs: tuple[Cost, Cost], letters: tuple[str, str]) -> str:
    """Say in one sentence what explains most of the difference of two sides."""
    (fast, swift), (slow, late) = sorted(zip(costs, letters, strict=True), key=lambda side: side[0].seconds)
    more = slow.seconds - fast.seconds
    times = f"{format_seconds(slow.seconds)} against {format_seconds(fast.seconds)}"
    if more <= SAME * slow.seconds:
        return f"On {drive}, {letters[0]} and {letters[1]} take equally long: {times}."
    factor = f"{format_ratio(slow.seconds / fast.seconds)} times as long as" if fast.seconds else "longer than"
    longer = f"{late} takes {factor} {swift}"
    doubt = ", though not on every drive like that" if is_open(fast, slow) else ""
    return f"On {drive}, {longer} ({times}{doubt}): {_cause(fast, slow, more)}; {_reads(fast, slow, more)}."


def is_open(fast: Cost, slow: Cost) -> bool:
    """Tell whether the slower side is not the slower one in more than one of twenty draws.

    Both sides are on the same drive, whatever that is: where one is slower on each that is drawn, it does not matter
    that their intervals overlap.
    """
    turned = [one >= other for one, other in zip(fast.draws_s, slow.draws_s, strict=False)]
    return sum(turned) > len(turned) * OPEN_SHARE


OPEN_SHARE: Final = 0.05


def _cause(fast: Cost, slow: Cost, more: float) -> str:
    name, seconds = max(growth_by_cause(fast, slow).items(), key=lambda item: item[1])
    words = CAUSE_WORDS.get(name, name) if slow.rotates else name
    return f"{_part(seconds, more)} {words}"


def _part(seconds: float, more: float) -> str:
    """Tell the share of a difference, or what others take back of a part that is larger than the whole."""
    if seconds <= more * (1 + WHOLE):
        return f"{format_share(min(seconds / more, 1.0))} of the difference is"
    return f"{format_seconds(seconds)} more, of which other causes take back {format_seconds(seconds - more)}, is"


def _reads(fast: Cost, slow: Cost, more: float) -> str:
    terms = growth_by_reads(fast, slow)
    if not slow.rotates and not fast.rotates:
        terms = _together(terms)
    name, seconds = max(terms.items(), key=lambda item: item[1])
    share = _part(seconds, more).removesuffix(" is").replace("the difference", "it")
    return f"{share} comes from {_reason(name, fast, slow)}"


def _together(terms: dict[str, float]) -> dict[str, float]:
    """Add up both kinds of reads: without an arm it makes no difference where a read starts."""
    kinds = ("reads-in-sequence", "reads-elsewhere")
    return {
        **{f"{word}-reads": sum(terms[f"{word}-{kind}"] for kind in kinds) for word in ("more", "slower")},
        "host": terms["host"],
    }


def _reason(name: str, fast: Cost, slow: Cost) -> str:
    if name == "host":
        return f"the computer{_entries(fast, slow)}"
    word, _, kind = name.partition("-")
    before, after = _chosen(fast, kind), _chosen(slow, kind)
    text = KIND_WORDS[kind]
    if word == "slower":
        return f"slower {text}: {_ms(after)} against {_ms(before)} each{_distance(before, after)}"
    return f"more {text}: {after.count:,} against {before.count:,}{_behind(fast, slow, kind)}"


def _chosen(cost: Cost, kind: str) -> Reads:
    if kind == "reads-in-sequence":
        return cost.in_sequence
    return cost.elsewhere if kind == "reads-elsewhere" else all_reads(cost)


def all_reads(cost: Cost) -> Reads:
    """Add up the reads of a walk."""
    kinds = (cost.in_sequence, cost.elsewhere)
    return Reads(sum(kind.count for kind in kinds), sum(kind.seconds for kind in kinds))


def _ms(reads: Reads) -> str:
    return format_seconds(reads.seconds / reads.count) if reads.count else "none"


def _distance(before: Reads, after: Reads) -> str:
    """Name the distance where it grew as the cost did."""
    if after.distance_bytes <= before.distance_bytes:
        return ""
    far, near = format_bytes(after.distance_bytes), format_bytes(before.distance_bytes)
    return f", over a median distance of {far} against {near}"


def _behind(fast: Cost, slow: Cost, kind: str) -> str:
    """Name the factor of the number of reads that grew most."""
    before, after = _factors(fast, kind), _factors(slow, kind)
    growth = {name: _log_ratio(before[name], after[name]) for name in before}
    name = max(growth, key=lambda item: growth[item])
    if growth[name] <= 0:
        return ""
    if name == "entries":
        return _entries(fast, slow)
    if name == "per-entry":
        what = "nodes" if kind == "reads-elsewhere" else "requests"
        per = [f"{1000 * _factors(cost, kind)['per-entry']:,.0f}" for cost in (slow, fast)]
        return f", as {per[0]} {what} per 1,000 entries are read against {per[1]}"
    shares = [format_share(cost.sequence_share) for cost in (slow, fast)]
    return f", as {shares[0]} of its nodes are read in sequence against {shares[1]}"


def _factors(cost: Cost, kind: str) -> dict[str, float]:
    """Return the factors whose product is the number of reads of a kind; of reads elsewhere nearly so."""
    entries = max(cost.entries, 1)
    if kind == "reads-elsewhere":
        return {"entries": entries, "per-entry": cost.nodes / entries, "share": 1 - cost.sequence_share}
    return {"entries": entries, "per-entry": _chosen(cost, kind).count / entries}


def _log_ratio(before: float, after: float) -> float:
    return log(after / before) if before > 0 and after > 0 else 0.0


def _entries(fast: Cost, slow: Cost) -> str:
    return "" if fast.entries == slow.entries else f", for {slow.entries:,} entries against {fast.entries:,}"


def explained_row(times: Sequence[TimeRow]) -> TimeRow | None:
    """Return the first drive on which both the first and the last side have a prediction."""
    return next((row for row in times if None not in (row.costs[0], row.costs[-1])), None)


def costs_of_ends(row: TimeRow) -> tuple[Cost, Cost]:
    """Return the costs of the first and the last side, which there must be."""
    first, last = row.costs[0], row.costs[-1]
    if first is None or last is None:
        raise ValueError(f"{row.drive}: no prediction of both ends")
    return first, last


WHY: Final = {
    Why.STAT: "each file is looked up once more for its attributes (stat)",
    Why.ORDER: "nodes are visited in another order than they lie in",
    Why.DISTANCE: "other data lie between the nodes",
    Why.MAPS: "maps are read to learn where nodes lie",
    Why.FILL: "leaves are partly empty: full ones would be fewer",
    Why.REQUESTS: "nodes are read page by page, not whole",
}
"""Causes as a table tells them, behind the share of the time that each of them alone would save."""

SHORT: Final = {
    Why.STAT: "stat of each file",
    Why.ORDER: "nodes out of order",
    Why.DISTANCE: "data between nodes",
    Why.MAPS: "reading maps",
    Why.FILL: "half-empty leaves",
    Why.REQUESTS: "reading by pages",
}
"""Causes where several volumes share the screen."""

DRIVES: Final = {
    "generic-5400-2.5": "notebook disk (5400 rpm)",
    "generic-7200": "desktop disk (7200 rpm)",
    "sata-ssd": "SATA SSD",
}
"""The usual drives in words; others by their names."""


def besides(layout: VolumeLayout) -> str:
    """Count what a volume has besides what it counts as files and folders: snapshots, and other names of any kind."""
    facts = layout.facts
    names = int(((layout.columns("entries")["flags"].filled(0) & FLAG_PRIVATE) == 0).sum())
    # The root directory is an entry, and no folder in it.
    others = names - 1 - facts.num_files - facts.num_directories if layout.coverage == 1 else 0
    told = [f"{format_count(others, 'other name')} (hard links, symbolic links, devices)"] if others > 0 else []
    kept = facts.details.get("snapshots", 0) if facts.view == "live" else 0
    return " and ".join([*told, *([format_count(kept, "snapshot")] if isinstance(kept, int) and kept else [])])


def drive_words(name: str) -> str:
    """Say what a drive is."""
    return DRIVES.get(name, name)


def interval(item: Prediction) -> str:
    """Say between which times a prediction lies; nothing where it is exact."""
    low, high = format_seconds(item.seconds_low), format_seconds(item.seconds_high)
    return "" if low == high else f"{low} to {high}"


def quick(item: Prediction) -> str:
    """Say of a short time whether it is short on most drives like that."""
    if item.seconds_high < WORTH_S:
        return "Under a second: there is little to be gained."
    if not item.is_mostly_from(WORTH_S):
        return "Under a second, most likely: there is little to be gained."
    return "Under a second on the first drive, but more on most drives like it: see plan."


def story(volume: VolumeScan) -> tuple[str, ...]:
    """Tell the verdict of a volume in sentences: time, causes, how nodes lie, what would help and what would not."""
    return tuple(_sentences(volume))


def _sentences(volume: VolumeScan) -> Iterator[str]:
    verdict = volume.verdict
    if verdict is None or volume.walk is None:
        return
    yield _cost(verdict, volume)
    if verdict.yardsticks:
        yield f"{elsewhere(verdict)}."
    if verdict.named_causes:
        told = "; ".join(f"{format_share(cause.share)}: {WHY[cause.name]}" for cause in verdict.named_causes)
        yield f"Why, and what each alone would save: {told}."
    if verdict.placement is not None:
        yield lie(verdict.placement)
    if verdict.helpful:
        yield f"What would help: {_listed(verdict.helpful)}."
    if verdict.unsure:
        yield f"What would help on some such drives: {_listed(verdict.unsure)}."
    if verdict.useless:
        how = little(verdict).lower().replace("under", "would save under")
        yield f"What {how}: {_listed(verdict.useless)}."


def _cost(verdict: Verdict, volume: VolumeScan) -> str:
    reads, first = volume.walk.reads if volume.walk else 0, volume.predictions[0]
    what = f"Listing {'every file' if is_all_read(volume.layout) else 'what was read of it'}"
    if not reads:
        if not is_all_read(volume.layout):
            return "No time can be given: the metadata that lists the files was not read."
        return f"{what} reads nothing more: mounting has read it all."
    between = f" ({interval(first)})" if interval(first) else ""
    return (
        f"{what} takes about {format_seconds(verdict.seconds)}{between} on a {drive_words(verdict.drive)}, "
        f"with {format_count(reads, 'read')}{'; ' + yardstick(verdict) if verdict.is_worth_a_word else ''}."
    )


def is_all_read(layout: VolumeLayout) -> bool:
    """Tell whether all of a volume was read, as far as anything tells, and nothing of it or its container is wrong."""
    return layout.coverage == 1 and not (layout.container or layout).num_errors


def yardstick(verdict: Verdict) -> str:
    """Say what a time is to be held against: 1,000 entries, and the same nodes packed.

    Of a walk of a few reads neither means anything: where its first read finds the disk turned, decides.
    """
    packed = format_seconds(verdict.packed_seconds)
    return f"{format_seconds(verdict.seconds_per_1000)} per 1,000 entries; packed in key order {packed}"


def elsewhere(verdict: Verdict) -> str:
    """Say what the same files would take on other file systems; nothing where that is not modelled."""
    return "; ".join(
        f"{item.filesystem} with the same files: about {format_seconds(item.seconds)} "
        f"({format_seconds(item.seconds_low)} to {format_seconds(item.seconds_high)})"
        for item in verdict.yardsticks
    )


def why(verdict: Verdict) -> str:
    """Head the causes that are named, or say that none is, and whether only for nodes that lie close already."""
    if verdict.named_causes:
        return "Why: the share of that time that would be saved if it were not so, each alone"
    if any(cause.share >= NAMED_FROM for cause in verdict.causes):
        return "Why: of what was tried, nodes without any gap alone would save a tenth of it"
    return "Why: no single cause that was tried carries a tenth of it"


def little(verdict: Verdict) -> str:
    """Say of the remedies that do not help whether some save a little all the same."""
    now = format_seconds(verdict.seconds)
    is_none = all(item.share <= 0 or format_seconds(item.seconds) == now for item in verdict.useless)
    return "Would not" if is_none else f"Under {HELPS_FROM * 100:.0f} %"


def _listed(chosen: Sequence[Remedy]) -> str:
    return "; ".join(f"{item.title}, {format_seconds(item.seconds)}" for item in chosen)


def lie(found: Placement) -> str:
    """Say how the nodes of a walk lie."""
    span, share = format_bytes(found.span_bytes), format_share(found.volume_share)
    numbers = f"the middle 98 % of them fill {format_share(found.density)} of {span}, {share} of the volume"
    if found.is_close:
        return f"Its nodes lie close together: {numbers}."
    if found.is_near:
        return f"Its nodes lie with gaps between them, which cost little: {numbers}."
    where = "all over the volume" if found.is_all_over else "apart"
    return f"Its nodes lie {where}: {numbers}."


def most(items: Sequence[str], room: int, noun: str = "") -> str:
    """Join as many items as there is room for, and count the others.

    >>> most(["one", "two", "three"], 12)
    'one, 2 more'
    >>> most(["one", "twenty-seven", "three"], 18, "drive")
    'one, 2 more drives'
    """
    for count in range(len(items), 0, -1):
        left = len(items) - count
        others = f" {noun}{'s' * (left > 1)}" if noun else ""
        text = ", ".join([*items[:count], *([f"{left} more{others}"] if left else [])])
        if len(text) <= room:
            return text
    return f"{len(items)} of them"


DEVICE_BIT: Final = 56
"""Addresses of the second device of a set are told from those of the first by a bit that no address has."""

RECORDS: Final = ("entry_node_row", "inode_node_row", "thread_node_row", "xattr_node_row", "dstream_node_row")
"""Columns of entries that name nodes with records of the entry."""


def costs_of(layout: VolumeLayout, reads: AccessTrace, prediction: Prediction, order: str) -> WalkCosts:
    """Charge a walk to whom it belongs."""
    seconds = read_seconds(reads, prediction.service_s)
    shares = _shares(layout, reads, seconds)
    records = _records(layout)
    nodes = _nodes(layout, shares, records, prediction.seconds)
    files = _files(layout, shares, records, nodes, prediction.seconds)
    directories = build_frame("directory_costs", cost_of_directories(Paths(layout), reads, seconds))
    return WalkCosts(prediction.drive, order, prediction.seconds, nodes, files, directories)


class _Pieces(NamedTuple):
    """Runs of bytes that belong to somebody; arrays of shape (n,), in address order.

    `owner` is a row of the table of nodes, or, where `is_data`, a place in the table of extents.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    owner: NDArray[np.int64]
    is_data: NDArray[np.bool_]


class _Shares(NamedTuple):
    """Parts of reads: which piece each brings, and the seconds that this costs; arrays of shape (n,)."""

    owner: NDArray[np.int64]
    is_data: NDArray[np.bool_]
    seconds: NDArray[np.float64]


def _pieces(layout: VolumeLayout) -> _Pieces:
    nodes, fragments, extents = live_nodes(layout), layout.columns("node_fragments"), layout.columns("extents")
    row, owner = nodes["row"].data, fragments["node_row"].data
    whole, split = nodes.take(~np.isin(row, owner)), fragments.take(np.isin(owner, row))
    # Where trees lie in files of their own, these have extents and no entries; their nodes are counted as nodes.
    is_file = np.isin(extents["file_id"].data, layout.columns("entries")["file_id"].data)
    places = np.flatnonzero(extents["image_offset"].is_known & is_file)
    data = extents.take(places)
    parts = [
        (*_edges(whole, "size_bytes"), whole["row"].data.astype(np.int64), np.zeros(len(whole), np.bool_)),
        (*_edges(split, "length_bytes"), split["node_row"].data.astype(np.int64), np.zeros(len(split), np.bool_)),
        (*_edges(data, "length_bytes"), places, np.ones(len(data), np.bool_)),
    ]
    start, stop, whose, is_data = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(start, kind="stable")
    return _Pieces(start[order], stop[order], whose[order], is_data[order])


def _edges(table: Table, length: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    start = _address(table["image_offset"].signed(), table["device"].filled(0))
    return start, start + table[length].signed()


def _address(offset: NDArray[np.int64], device: NDArray[Any]) -> NDArray[np.int64]:
    found: NDArray[np.int64] = offset + (device.astype(np.int64) << DEVICE_BIT)
    return found


def _shares(layout: VolumeLayout, reads: AccessTrace, seconds: NDArray[np.float64]) -> _Shares:
    """Share each read among the pieces in it, by their bytes."""
    pieces = _pieces(layout)
    start = _address(reads.image_offset, reads.device)
    stop = start + reads.length_bytes
    # Pieces of a sound volume do not overlap; of a damaged one a long piece may reach over later ones, of which the
    # furthest end so far knows.
    first = np.searchsorted(np.maximum.accumulate(pieces.stop), start, "right")
    counts = np.maximum(np.searchsorted(pieces.start, stop, "left") - first, 0)
    read, piece = owners(counts), ranges(first, counts)
    held = np.minimum(stop[read], pieces.stop[piece]) - np.maximum(start[read], pieces.start[piece])
    read, piece, held = (values[held > 0] for values in (read, piece, held))
    total = np.bincount(read, held, minlength=len(reads))
    return _Shares(pieces.owner[piece], pieces.is_data[piece], seconds[read] * held / total[read])


def _records(layout: VolumeLayout) -> pl.DataFrame:
    """List which entry has records in which node, each pair once: ``node_row, entry``."""
    entries = layout.entries.select(pl.col("row").alias("entry"), *RECORDS)
    pairs = entries.unpivot(list(RECORDS), index="entry", value_name="node_row").drop_nulls("node_row")
    return pairs.select("node_row", "entry").unique()


def _nodes(layout: VolumeLayout, shares: _Shares, records: pl.DataFrame, seconds: float) -> pl.DataFrame:
    """Sum the shares of nodes up; what no node is charged with is the last row."""
    charged = pl.DataFrame({"row": shares.owner[~shares.is_data], "seconds": shares.seconds[~shares.is_data]})
    costs = charged.group_by("row").agg(pl.len().alias("reads"), pl.col("seconds").sum()).cast({"row": pl.UInt32})
    files = records.group_by("node_row").agg(pl.len().alias("files"))
    about = layout.nodes.select("row", "tree", "node_id", "level", "image_offset")
    found = costs.join(about, on="row", how="left").join(files, left_on="row", right_on="node_row", how="left")
    found = found.with_columns(pl.col("files").fill_null(0)).sort("seconds", "row", descending=[True, False])
    return _with_rest("node_costs", found, seconds)


def _files(
    layout: VolumeLayout, shares: _Shares, records: pl.DataFrame, nodes: pl.DataFrame, seconds: float
) -> pl.DataFrame:
    """Share what nodes cost among the entries in them, and charge files with the reads of their data."""
    costs = nodes.select(node_row="row", each=pl.col("seconds") / pl.col("files"))
    charged = records.join(costs, on="node_row").group_by("entry")
    by_entry = charged.agg(pl.len().alias("nodes"), pl.col("each").sum().alias("seconds"))
    about = with_paths(layout).select("row", "file_id", "path", "kind")
    named = by_entry.join(about, left_on="entry", right_on="row", how="left")
    owner = layout.extents["file_id"].gather(shares.owner[shares.is_data])
    data = pl.DataFrame({"file_id": owner, "data": shares.seconds[shares.is_data]}).group_by("file_id").sum()
    # Hard links are several entries of one file: the first has its data.
    first = about.unique("file_id", keep="first").select("file_id", entry="row")
    with_data = data.join(first, on="file_id", how="left")
    found = named.join(with_data.drop_nulls("entry").select("entry", "data"), on="entry", how="left")
    alone = with_data.join(by_entry.select("entry"), on="entry", how="anti").join(
        about.drop("file_id"), left_on="entry", right_on="row", how="left"
    )
    found = found.with_columns(pl.col("seconds") + pl.col("data").fill_null(0.0))
    alone = alone.with_columns(nodes=pl.lit(0), seconds="data")
    columns = ["file_id", "path", "kind", "nodes", "seconds"]
    both = pl.concat([part.select(columns).cast({"nodes": pl.UInt32, "kind": pl.String}) for part in (found, alone)])
    return _with_rest("file_costs", both.sort("seconds", "file_id", descending=[True, False]), seconds)


def _with_rest(name: str, found: pl.DataFrame, seconds: float) -> pl.DataFrame:
    """Add a row of what nobody in particular is charged with, so that the sum is the whole."""
    rest = seconds - float(found["seconds"].sum())
    last = pl.DataFrame({column: [rest if column == "seconds" else None] for column in found.columns}, found.schema)
    # Sums of many shares differ from the whole by rounding.
    both = pl.concat([found, last]) if abs(rest) > 1e-9 * max(seconds, 1.0) else found
    return build_frame(name, {column: both[column] for column in both.columns})


OUTCOMES: Final = {
    hdd.MISS: "from the medium",
    hdd.PART_HIT: "in part from the buffer",
    hdd.WHOLE_HIT: "from the buffer",
}


def measured_times(reads: Recorded, served: ServiceResult) -> MeasuredTimes:
    """Set the recorded times of reads beside those of a drive that serves the same ones."""
    taken_ms = (reads.done_us - reads.issued_us) / 1000
    predicted_ms, outcome = served.reads_ms.service_ms, served.reads_ms.outcome
    # What several reads took that were under way together is no one's time.
    alone = ~reads.overlaps()
    outcomes = [
        OutcomeTimes(words, int(rows.sum()), _middle(taken_ms[rows]), _middle(predicted_ms[rows]))
        for code, words in OUTCOMES.items()
        if (rows := alone & (outcome == code)).any()
    ]
    return MeasuredTimes(served.drive, tuple(outcomes), reads.busy_us() / 1e6, served.service_s)


def _middle(times_ms: NDArray[np.float64]) -> tuple[float, float]:
    """Return median and 90th percentile."""
    middle, high = np.quantile(times_ms, [0.5, 0.9])
    return float(middle), float(high)


def host_times(reads: Recorded, predicted: AccessTrace, entries: int | None) -> HostTimes:
    """Set the time between recorded reads beside the host time of a prediction."""
    return HostTimes(float(reads.gaps_us().sum()), float(predicted.think_us[1:].sum()), entries)


SPAN_ENDS: Final = (0.01, 0.99)
"""Shares of the bytes before which a span begins and ends: a single stray node makes no span."""


MODELLED_ENTRIES: Final = (10_000, 500_000)
"""Volumes of 22,000 and of 222,000 entries were held against their like: nothing is said of much smaller or larger."""

PACKED: Final = "packed"
"""The what-if that a volume is compared with; `predict` prints the same number."""

MODELLED_HOST: Final = "linux"
"""Whose driver filled those volumes."""

MODEL_ERROR: Final = 0.25
"""By how much a remade volume may miss a real one: by 23 % at most on three drives, on four pairs whose fill it has."""


def judge(
    layout: VolumeLayout,
    walk: WalkFacts | None,
    predictions: Sequence[Prediction],
    profiles: Sequence[DriveProfile],
    remedied: Tried | None = None,
) -> Verdict | None:
    """Draw the conclusions from a walk.

    None where nothing is walked, or on no drive.
    """
    if walk is None or not predictions:
        return None
    first = predictions[0]
    profile = next(item for item in profiles if item.name == first.drive)
    entries = len(layout.columns("entries"))
    plain = Verdict(first.drive, first.seconds, first.seconds, 1000 * first.seconds / max(entries, 1), (), (), None)
    if not len(walk.trace):
        return plain
    reads = walked(layout, walk.trace)
    # Of long walks a part is served, changed and unchanged alike, so that both err alike.
    scale = first.seconds / seconds_of(walk.trace, profile) if is_sampled(walk.trace, profile) else 1.0
    runs = {change: scale * seconds_of(change(reads), profile) for change in CAUSES.values()}
    packed = what_if(PACKED, layout, walk.host).layout
    causes = [Cause(name, runs[change], _saved(first.seconds, runs[change])) for name, change in CAUSES.items()]
    return replace(
        plain,
        packed_seconds=scale * seconds_of(trace(packed, order=walk.order, host=walk.host), profile),
        causes=tuple(sorted(causes, key=lambda cause: -cause.share)),
        remedies=() if remedied is None else remedied(reads, profile),
        placement=placement(reads, _saved(first.seconds, runs[CAUSES[Why.DISTANCE]])) if first.rotates else None,
        yardsticks=tuple(_yardsticks(layout, walk, profile)) if plain.is_worth_a_word else (),
    )


def _yardsticks(layout: VolumeLayout, walk: WalkFacts, profile: DriveProfile) -> Iterator[Yardstick]:
    """List the same files on other file systems, within what that was held against real volumes for."""
    entries = len(layout.columns("entries"))
    if layout.coverage != 1 or not MODELLED_ENTRIES[0] <= entries <= MODELLED_ENTRIES[1] or walk.host != MODELLED_HOST:
        return
    own = filesystem_of(layout)
    for other in filesystems():
        # Where every node has a place of its own, how long it takes depends on the order in which it was filled.
        is_comparable = other.name != own.name and not other.traits.maps_every_node
        made = other.remade(layout) if is_comparable else None
        if made is not None:
            seconds = seconds_of(trace(made, order=walk.order, host=walk.host), profile)
            low, high = (seconds * (1 + sign * MODEL_ERROR) for sign in (-1, 1))
            yield Yardstick(other.traits.label, seconds, low, high)


def _saved(before: float, after: float) -> float:
    return 1 - after / before if before else 0.0


def placement(reads: ReadsOfNodes, saved_by_nearness: float) -> Placement | None:
    """Say how far apart the nodes of a walk lie, by their span and by what the drive's arm makes of it."""
    nodes = reads.nodes
    order = reads.used[nodes.device[reads.used] == 0]
    if len(order) < 2:
        return None
    start, size = nodes.image_offset[order], nodes.size_bytes[order]
    low, high = np.searchsorted(np.cumsum(size), np.array(SPAN_ENDS) * size.sum())
    span = int(start[high] + size[high] - start[low])
    return Placement(
        span_bytes=span,
        volume_share=min(span / max(reads.layout.facts.size_bytes, 1), 1.0),
        density=min(int(size[low : high + 1].sum()) / span, 1.0),
        saved_by_nearness=saved_by_nearness,
    )
