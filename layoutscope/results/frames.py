"""Frames of results: rows with documented columns, and the cost of each read, node, file and directory."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.access.entries import Paths
from layoutscope.access.trace import place_of
from layoutscope.filesystems.contract import NO_TIME
from layoutscope.frames import pl
from layoutscope.metrics.scatter import live_nodes, split_nodes
from layoutscope.results.compare import ratio, side_letters
from layoutscope.results.scan import volume_names
from layoutscope.structs.arrays import owners, ranges
from layoutscope.tables.columns import Rows, to_datetime
from layoutscope.tables.frames import FRAMES, WalkCosts, build_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.filesystems.contract import InodeStats
    from layoutscope.metrics import Metric
    from layoutscope.results.check import CheckResult
    from layoutscope.results.compare import Comparison
    from layoutscope.results.plan import PlanResult
    from layoutscope.results.predict import OrderCase, VolumeCase
    from layoutscope.results.scan import Prediction, ScanResult, WalkFacts
    from layoutscope.tables import Table, VolumeLayout

    F64 = NDArray[np.float64]
    I64 = NDArray[np.int64]
    Mask = NDArray[np.bool_]


RECORDS: Final = ("entry_node_row", "inode_node_row", "thread_node_row", "xattr_node_row", "dstream_node_row")
"""Columns of entries that refer to nodes with records of the entry."""


def costs_of(layout: VolumeLayout, reads: AccessTrace, prediction: Prediction, order: str) -> WalkCosts:
    """Charge the time of a walk to nodes, files and directories."""
    seconds = read_seconds(reads, prediction.service_s, prediction.host_factor)
    owner, is_data, shares = _share_reads(layout, reads, seconds)
    # The distinct pairs of nodes and entries with records in them.
    entries = layout.entries.select(pl.col("row").alias("entry"), *RECORDS)
    pairs = entries.unpivot(list(RECORDS), index="entry", value_name="node_row").drop_nulls("node_row")
    records = pairs.select("node_row", "entry").unique()
    nodes = _sum_node_costs(layout, owner[~is_data], shares[~is_data], records, prediction.seconds)
    files = _sum_file_costs(layout, owner[is_data], shares[is_data], records, nodes, prediction.seconds)
    directories = build_frame("directory_costs", _list_directory_costs(Paths(layout), reads, seconds))
    return WalkCosts(prediction.drive, order, prediction.seconds, nodes, files, directories)


def _list_pieces(layout: VolumeLayout) -> tuple[I64, I64, I64, Mask]:
    """List the runs of bytes with an owner, in address order: starts, ends, owners, and whether they are data.

    An owner is a row of the table of nodes or, for data, a position in the table of extents.
    """
    (whole, split), extents = split_nodes(layout, live_nodes(layout)), layout.columns("extents")
    # Files that hold trees have extents but no entries; their nodes count as nodes.
    is_file = np.isin(extents["file_id"].data, layout.columns("entries")["file_id"].data)
    places = np.flatnonzero(extents["image_offset"].is_known & is_file)
    data = extents.take(places)
    parts = [
        (*_get_edges(whole, "size_bytes"), whole["row"].data.astype(np.int64), np.zeros(len(whole), np.bool_)),
        (*_get_edges(split, "length_bytes"), split["node_row"].data.astype(np.int64), np.zeros(len(split), np.bool_)),
        (*_get_edges(data, "length_bytes"), places, np.ones(len(data), np.bool_)),
    ]
    start, stop, whose, is_data = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(start, kind="stable")
    return start[order], stop[order], whose[order], is_data[order]


def _get_edges(table: Table, length: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    start = place_of(table["device"].filled(0), table["image_offset"].signed())
    return start, start + table[length].signed()


def _share_reads(layout: VolumeLayout, reads: AccessTrace, seconds: F64) -> tuple[I64, Mask, F64]:
    """Divide each read among its pieces by bytes; return owners, whether they are data, and seconds."""
    begin, end, owner, is_data = _list_pieces(layout)
    start = place_of(reads.device, reads.image_offset)
    stop = start + reads.length_bytes
    # On a damaged volume, a long piece may overlap later ones, so the search uses the running maximum of the ends.
    first = np.searchsorted(np.maximum.accumulate(end), start, "right")
    counts = np.maximum(np.searchsorted(begin, stop, "left") - first, 0)
    read, piece = owners(counts), ranges(first, counts)
    overlap = np.minimum(stop[read], end[piece]) - np.maximum(start[read], begin[piece])
    read, piece, overlap = (values[overlap > 0] for values in (read, piece, overlap))
    total = np.bincount(read, overlap, minlength=len(reads))
    return owner[piece], is_data[piece], seconds[read] * overlap / total[read]


def _sum_node_costs(
    layout: VolumeLayout, rows: I64, shares: F64, records: pl.DataFrame, seconds: float
) -> pl.DataFrame:
    """Sum the shares of each node; the last row has the rest."""
    charged = pl.DataFrame({"row": rows, "seconds": shares})
    costs = charged.group_by("row").agg(pl.len().alias("reads"), pl.col("seconds").sum()).cast({"row": pl.UInt32})
    files = records.group_by("node_row").agg(pl.len().alias("files"))
    node_columns = layout.nodes.select("row", "tree", "node_id", "level", "image_offset")
    rows_with_files = costs.join(node_columns, on="row", how="left").join(
        files, left_on="row", right_on="node_row", how="left"
    )
    rows_with_files = rows_with_files.with_columns(pl.col("files").fill_null(0)).sort(
        "seconds", "row", descending=[True, False]
    )
    return _add_rest("node_costs", rows_with_files, seconds)


def _sum_file_costs(
    layout: VolumeLayout, extents: I64, shares: F64, records: pl.DataFrame, nodes: pl.DataFrame, seconds: float
) -> pl.DataFrame:
    """Divide the cost of nodes among their entries, and charge files with the reads of their data."""
    costs = nodes.select(node_row="row", each=pl.col("seconds") / pl.col("files"))
    charged = records.join(costs, on="node_row").group_by("entry")
    by_entry = charged.agg(pl.len().alias("nodes"), pl.col("each").sum().alias("seconds"))
    entry_columns = with_paths(layout).select("row", "file_id", "path", "kind")
    named = by_entry.join(entry_columns, left_on="entry", right_on="row", how="left")
    owner = layout.extents["file_id"].gather(extents)
    data = pl.DataFrame({"file_id": owner, "data": shares}).group_by("file_id").sum()
    # Hard links are several entries of one file; its data is charged to the first.
    first = entry_columns.unique("file_id", keep="first").select("file_id", entry="row")
    with_data = data.join(first, on="file_id", how="left")
    with_nodes = named.join(with_data.drop_nulls("entry").select("entry", "data"), on="entry", how="left")
    data_only = with_data.join(by_entry.select("entry"), on="entry", how="anti").join(
        entry_columns.drop("file_id"), left_on="entry", right_on="row", how="left"
    )
    with_nodes = with_nodes.with_columns(pl.col("seconds") + pl.col("data").fill_null(0.0))
    data_only = data_only.with_columns(nodes=pl.lit(0), seconds="data")
    columns = ["file_id", "path", "kind", "nodes", "seconds"]
    combined = pl.concat(
        [part.select(columns).cast({"nodes": pl.UInt32, "kind": pl.String}) for part in (with_nodes, data_only)]
    )
    return _add_rest("file_costs", combined.sort("seconds", "file_id", descending=[True, False]), seconds)


def _add_rest(name: str, charged: pl.DataFrame, seconds: float) -> pl.DataFrame:
    """Add a row for the uncharged rest, so the rows sum to the whole."""
    rest = seconds - float(charged["seconds"].sum())
    last = pl.DataFrame({column: [rest if column == "seconds" else None] for column in charged.columns}, charged.schema)
    # Sums of many shares differ from the whole by rounding errors.
    complete = pl.concat([charged, last]) if abs(rest) > 1e-9 * max(seconds, 1.0) else charged
    return build_frame(name, {column: complete[column] for column in complete.columns})


def rows_of(name: str, result: Any) -> Rows:
    """Return the rows of one of the frames of a result, by its name."""
    rows = _MAKERS[name](result)
    return rows if isinstance(rows, Rows) else Rows.listed(FRAMES[name], rows)


def _metric_rows(result: ScanResult) -> Iterator[tuple[Any, ...]]:
    """Yield the metrics of all volumes, those of tables before those of walks."""
    names = volume_names([volume.layout for volume in result.parts])
    for name, volume in zip(names, result.parts, strict=True):
        walked: tuple[Metric, ...] = () if volume.walk is None else volume.walk.metrics
        for item in (*volume.metrics, *walked):
            what = (item.name, item.definition.title, item.value, item.unit, item.denominator)
            yield (name, item.subject, *what)


def _time_rows(result: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the times of the walks of a scan or prediction, then those of all orders."""
    is_scan = hasattr(result, "parts")
    volumes = result.parts if is_scan else result.volumes
    names = volume_names([each.layout for each in volumes]) if is_scan else [each.volume for each in volumes]
    for name, volume in zip(names, volumes, strict=True):
        if volume.walk is not None:
            drives = volume.predictions if is_scan else [case.prediction for case in volume.drives]
            yield from _make_time_rows((name, volume.walk.order, volume.walk.host), drives, volume.walk)
    for case in getattr(result, "orders", ()):
        for order in case.orders:
            yield from _make_time_rows((case.volume, order.order, case.host), order.times, order)


def _make_time_rows(
    what: tuple[str, ...], drives: Iterable[Prediction], walk: WalkFacts | OrderCase
) -> Iterator[tuple[Any, ...]]:
    for item in drives:
        interval = (item.seconds, item.seconds_low, item.seconds_high)
        yield (*what, item.drive, *interval, walk.reads, walk.read_bytes)


def _remedy_rows(result: PlanResult) -> Iterator[tuple[Any, ...]]:
    """Yield the evaluated remedies by volume, the best first."""
    for volume in result.volumes:
        about = (volume.volume, volume.order, volume.host, volume.drive)
        for item in volume.remedies:
            interval, saved = item.interval, item.saved
            times: tuple[float | None, ...] = (None,) * 7
            if interval is not None and saved is not None:
                times = (item.seconds, interval.low_s, interval.high_s)
                times += (item.saved_s, saved.low_s, saved.high_s, item.share)
            yield (*about, item.words.name, item.words.kind, *times, item.effort_s, item.helps, item.why_not)


def read_seconds(reads: AccessTrace, service_s: NDArray[np.float64], host_factor: float) -> NDArray[np.float64]:
    """Return the time of each read with the host's work before it, shape (n_reads,); they sum to the walk's time."""
    return service_s + host_seconds(reads, host_factor)


def host_seconds(reads: AccessTrace, host_factor: float) -> NDArray[np.float64]:
    """Return the host's time before each read, shape (n_reads,); the last read includes the time after it."""
    seconds: NDArray[np.float64] = reads.think_us * host_factor / 1e6
    seconds[-1:] += reads.after_us * host_factor / 1e6
    return seconds


def costs_by_directory(reads: AccessTrace, seconds: F64) -> tuple[NDArray[np.uint64], I64, F64]:
    """Sum the cost of reads by the directory that caused them, the most expensive first: ids, reads and seconds."""
    ids, place, counts = np.unique(reads.directory_id, return_inverse=True, return_counts=True)
    total = np.bincount(place, seconds, minlength=len(ids)).astype(np.float64)
    order = np.argsort(-total, kind="stable")
    return ids[order], counts[order], total[order]


def _list_directory_costs(paths: Paths, reads: AccessTrace, seconds: F64) -> dict[str, Any]:
    """Return the columns of the costs of all directories."""
    ids, counts, costs = costs_by_directory(reads, seconds)
    names = [directory_name(paths, number) for number in ids.tolist()]
    return {"directory_id": ids, "path": names, "reads": counts, "seconds": costs}


def directory_name(paths: Paths, number: int) -> str:
    """Name the directory that caused reads; 0 means no directory."""
    return paths.folder(number).text if number else "(no directory)"


def _list_directories(case: VolumeCase) -> Iterator[dict[str, Any]]:
    """Yield the costs of the directories, drive by drive."""
    reads = case.walk.trace
    if case.layout is None:
        return
    paths = Paths(case.layout)
    for drive in case.drives:
        prediction = drive.prediction
        seconds = read_seconds(reads, prediction.service_s, prediction.host_factor)
        costs = _list_directory_costs(paths, reads, seconds)
        yield _add_labels(case, prediction.drive, costs, len(costs["path"]))


def _list_reads(case: VolumeCase) -> Iterator[dict[str, Any]]:
    """Yield the reads in order, with their times, drive by drive."""
    trace = case.walk.trace
    of_reads = {
        "read": np.arange(len(trace)),
        **{name: getattr(trace, name) for name in ("device", "image_offset", "length_bytes", "directory_id", "issuer")},
        "cause": np.array(trace.causes, object)[trace.cause],
        "tree": np.array(trace.trees, object)[trace.tree],
    }
    for drive in case.drives:
        columns = of_reads | {
            "service_s": drive.prediction.service_s,
            "host_s": host_seconds(trace, drive.prediction.host_factor),
        }
        yield _add_labels(case, drive.prediction.drive, columns, len(trace))


def _add_labels(case: VolumeCase, drive: str, columns: dict[str, Any], height: int) -> dict[str, Any]:
    return {**columns, "volume": [case.volume] * height, "drive": [drive] * height}


def _concatenate_cases(name: str, parts: Iterable[Iterable[dict[str, Any]]]) -> Rows:
    found = [columns for part in parts for columns in part]
    if not found:
        return Rows.listed(FRAMES[name], ())
    whole: dict[str, Any] = {}
    for key, first in found[0].items():
        own = [columns[key] for columns in found]
        whole[key] = np.concatenate(own) if isinstance(first, np.ndarray) else list(chain.from_iterable(own))
    return Rows.under(FRAMES[name], whole)


def _comparison_rows(result: Comparison) -> Iterator[tuple[Any, ...]]:
    """Yield metrics and predicted times, one row per side, with the difference from the first side."""
    sides = list(zip(side_letters(len(result.names)), result.names, strict=True))
    measurements = [((row.subject, row.name, row.title), row.unit, row.values) for row in result.metrics]
    measurements += [((row.drive, "seconds", "Predicted time"), "s", row.seconds) for row in result.times]
    for what, unit, values in measurements:
        first = values[0]
        for side, value in zip(sides, values, strict=True):
            difference = None if value is None or first is None else value - first
            yield (*side, *what, value, unit, first, difference, ratio((first, value)))


def _fault_rows(result: CheckResult) -> Iterator[tuple[Any, ...]]:
    """Yield the findings of a check, those outside the volumes first."""
    names = [column.name for column in FRAMES["faults"][1:-1]]
    for volume, each in result.located():
        why, cause = f"one of {len(each.causes)} causes" if each.causes else "", each.cause
        if cause is not None:
            where = "" if cause.image_offset is None else f" at byte {cause.image_offset}"
            why = f"{cause.code}: {cause.structure}{where}"
        yield (volume, *(getattr(each, name) for name in names), why)


_MAKERS: Final[dict[str, Callable[[Any], Rows | Iterator[tuple[Any, ...]]]]] = {
    "metrics": _metric_rows,
    "times": _time_rows,
    "remedies": _remedy_rows,
    "directories": lambda result: _concatenate_cases("directories", map(_list_directories, result.volumes)),
    "reads": lambda result: _concatenate_cases("reads", map(_list_reads, result.volumes)),
    "comparison": _comparison_rows,
    "faults": _fault_rows,
}
"""Functions that make the rows of each frame."""

STATS: Final = ("mode", "user_id", "group_id")

TIMES: Final = ("access_time", "change_time")
"""Columns from inodes, in addition to those of the table of entries."""

PERMISSIONS: Final = 0o7777
"""The bits of a mode that are not the type (POSIX, sys/stat.h)."""


def with_paths(layout: VolumeLayout) -> pl.DataFrame:
    """Return the entries as a frame with a column ``path``."""
    paths, named = Paths(layout), layout.columns("entries")
    rows = zip(*map(named.listed, NAMED), strict=True)
    return layout.entries.with_columns(pl.Series("path", (paths.entry(*row).text for row in rows), dtype=pl.String))


NAMED: Final = ("file_id", "parent_id", "name")
"""Columns of entries from which paths are made."""


def list_file_rows(
    layout: VolumeLayout,
    stats: InodeStats | None,  # of its inodes; None if they were not read
) -> Iterator[dict[str, Any]]:
    """Yield the rows of entries with their paths and the fields of their inodes, None if unknown."""
    paths, entries = Paths(layout), layout.columns("entries")
    inodes: dict[int, int] = {}
    if stats is not None:
        ids, place = np.unique(stats.file_id, return_index=True)
        inodes = dict(zip(ids.tolist(), place.tolist(), strict=True))
    for first in range(0, len(entries), BATCH_ROWS):
        for row in entries.take(slice(first, first + BATCH_ROWS)).rows():
            fields = _list_inode_fields(stats, inodes.get(row["file_id"]))
            yield {**row, "path": paths.entry(*(row[name] for name in NAMED)).text, **fields}


BATCH_ROWS: Final = 16_384
"""Number of entries that are converted to rows at a time."""


def _list_inode_fields(stats: InodeStats | None, inode: int | None) -> dict[str, Any]:
    """Return the fields of the inode in a row, None if unknown."""
    fields: dict[str, Any] = dict.fromkeys((*STATS, *TIMES))
    if stats is None or inode is None:
        return fields
    if stats.mode[inode]:  # without a mode, an inode's owner was never set either
        fields |= {name: int(getattr(stats, name)[inode]) for name in STATS}
    for name, us in zip(TIMES, (stats.access_us[inode], stats.change_us[inode]), strict=True):
        fields[name] = None if us == NO_TIME else to_datetime(int(us))
    return fields
