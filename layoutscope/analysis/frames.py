"""Results as frames: what a result holds in objects and arrays, as rows with documented columns."""

from __future__ import annotations

import unicodedata
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.access.entries import ROOT_ID, Paths, path_component
from layoutscope.errors import UsageError
from layoutscope.filesystems.contract import NO_TIME
from layoutscope.frames import pl
from layoutscope.results.compare import ratio, side_letters
from layoutscope.results.inspect import Owner
from layoutscope.tables.columns import Rows, time_of
from layoutscope.tables.frames import FRAMES
from layoutscope.walk.directories import components_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.filesystems.contract import InodeStats, Row
    from layoutscope.findings import Finding
    from layoutscope.metrics import Metric
    from layoutscope.results.check import CheckResult
    from layoutscope.results.compare import Comparison
    from layoutscope.results.plan import PlanResult, VolumePlan
    from layoutscope.results.predict import OrderCase, PredictResult, VolumeCase
    from layoutscope.results.scan import Prediction, ScanResult, WalkFacts
    from layoutscope.tables import Table, VolumeLayout


_SIZES: Final = {"nodes": "size_bytes", "regions": "length_bytes", "extents": "length_bytes", "free": "length_bytes"}
_WORDS: Final = {"nodes": "node", "regions": "region", "extents": "file data", "free": "free space"}
_MOST_PATHS: Final = 8
_NODE_FACTS: Final = (
    *("tree", "node_id", "kind", "level", "num_records", "used_bytes"),
    *("free_bytes", "xid", "key_rank", "state", "valid", "condition"),
)


def resolve(layout: VolumeLayout, path: str) -> int | None:
    """Find the id of the file at a path from the root; None where there is none.

    A name that no path can hold is found as paths spell it. Names are compared as they are; where none matches exactly,
    without regard to composition, as a terminal may compose what the volume keeps decomposed, and to case where the
    volume does so.
    """
    file_id = ROOT_ID
    for name in components_of(path):
        child = _child(layout, file_id, name)
        if child is None:
            return None
        file_id = child
    return file_id


def _child(layout: VolumeLayout, parent_id: int, name: str) -> int | None:
    entries = layout.columns("entries")
    inside = entries.take(entries["parent_id"].data == parent_id)
    ids, names = inside.listed("file_id"), [path_component(own or "") for own in inside.listed("name")]
    found = [number for own, number in zip(names, ids, strict=True) if own == name]
    if not found:
        folds = not layout.facts.case_sensitive
        wanted = _compared(name, folds=folds)
        found = [number for own, number in zip(names, ids, strict=True) if _compared(own, folds=folds) == wanted]
    return int(found[0]) if found else None


def _compared(name: str, *, folds: bool) -> str:
    """Name as it is compared when it is not spelled exactly: decomposed, of one case."""
    plain = unicodedata.normalize("NFD", name)
    return unicodedata.normalize("NFD", plain.casefold()) if folds else plain


def paths_of(layout: VolumeLayout, file_id: int) -> list[str]:
    """List the paths of a file; several with hard links, none where nothing names it."""
    if file_id == ROOT_ID:
        return ["/"]
    paths, rows = Paths(layout), _of_file(layout, "entries", file_id).rows()
    return [paths.entry(file_id, row["parent_id"], row["name"]).text for row in rows]


def _of_file(layout: VolumeLayout, table: str, file_id: int) -> Table:
    """Rows of a table that are about a file."""
    found = layout.columns(table)
    return found.take(found["file_id"].data == file_id)


def needed_id(layouts: tuple[VolumeLayout, ...], path: str) -> list[tuple[VolumeLayout, int]]:
    """Find a path on every volume that has it."""
    volumes = [layout for layout in layouts if layout.facts.volume is not None]
    found = [(layout, file_id) for layout in volumes if (file_id := resolve(layout, path)) is not None]
    if not found:
        raise UsageError(f"no file at {path!r}")
    return found


def owners_at(layout: VolumeLayout, at: int) -> list[tuple[str, Row]]:
    """List the rows of all tables that cover a byte, as table and row."""
    nodes, fragments = layout.columns("nodes"), layout.columns("node_fragments")
    pieces = _covering(fragments, "length_bytes", at)
    split = nodes.take(np.isin(nodes["row"].data, pieces["node_row"].data))
    whole = _covering(nodes, "size_bytes", at)
    whole = whole.take(~np.isin(whole["row"].data, fragments["node_row"].data))
    found = [("nodes", row) for table in (whole, split) for row in table.rows()]
    for name in ("regions", "extents", "free"):
        found += [(name, row) for row in _covering(layout.columns(name), _SIZES[name], at).rows()]
    return found


def _covering(table: Table, size: str, at: int) -> Table:
    start = table["image_offset"]
    return table.take(start.is_known & (start.data <= at) & (at < start.data + table[size].data))


def row_owner(layout: VolumeLayout, table: str, row: Row, at: int | None) -> Owner:
    """Say what a row is."""
    describe = {"nodes": _node_facts, "regions": _region_facts, "extents": _extent_facts, "free": _free_facts}[table]
    facts = describe(layout, row)
    if at is not None:
        facts.append((f"byte of this {_WORDS[table]}", f"{at - row['image_offset']:,}"))
    return Owner(volume_name(layout), _WORDS[table], row["image_offset"], row[_SIZES[table]], tuple(facts))


def volume_name(layout: VolumeLayout) -> str:
    """Name a volume by its layers and its own name."""
    own = f' "{layout.facts.name}"' if layout.facts.name else ""
    return " > ".join(layout.facts.stack) + own


def volume_names(layouts: Sequence[VolumeLayout], chosen: Sequence[VolumeLayout] | None = None) -> tuple[str, ...]:
    """Name the volumes of one image so that rows about one are no other's.

    A container may hold several volumes of one name, and one without a name is called like its container: their numbers
    tell these apart.
    """
    times = Counter(map(volume_name, layouts))
    told = [(volume_name(layout), layout.facts.volume) for layout in (layouts if chosen is None else chosen)]
    return tuple(
        f"{name} (volume {number})" if times[name] > 1 and number is not None else name for name, number in told
    )


def _node_facts(layout: VolumeLayout, row: Row) -> list[tuple[str, str]]:
    facts = [(name.replace("_", " "), str(row[name])) for name in _NODE_FACTS if row[name] is not None]
    for name in ("parent_row", "locator_row"):
        if row[name] is not None:
            nodes = layout.columns("nodes")
            (other,) = nodes.take(nodes["row"].data == row[name]).rows()
            facts.append((name.removesuffix("_row").replace("_", " "), f"{other['tree']}:{other['node_id']}"))
    return facts


def _region_facts(_layout: VolumeLayout, row: Row) -> list[tuple[str, str]]:
    return [("type", str(row["type"])), ("owner", row["owner"] or "-")]


def _free_facts(_layout: VolumeLayout, _row: Row) -> list[tuple[str, str]]:
    return []


def _extent_facts(layout: VolumeLayout, row: Row) -> list[tuple[str, str]]:
    facts = [
        ("file", str(row["file_id"])),
        ("fork", str(row["fork"])),
        ("from byte of the fork", f"{row['logical_offset']:,}"),
    ]
    return facts + _path_facts(layout, row["file_id"])


def _path_facts(layout: VolumeLayout, file_id: int) -> list[tuple[str, str]]:
    return [("path", path) for path in paths_of(layout, file_id)[:_MOST_PATHS]]


def file_owner(layout: VolumeLayout, file_id: int) -> Owner:
    """Say what a file is: its names, sizes, extents and the nodes with its records."""
    entry = _of_file(layout, "entries", file_id).take(slice(1)).rows()
    names = ("kind", "size_bytes", "link_count", "parent_id", "create_time", "modify_time")
    row = entry[0] if entry else {}
    facts = [("file", str(file_id)), *_path_facts(layout, file_id)]
    facts += [(name.replace("_", " "), str(row[name])) for name in names if row.get(name) is not None]
    extents = _of_file(layout, "extents", file_id)
    extents = extents.take(extents["image_offset"].is_known)
    facts += [
        (f"extent of {item['fork']}", f"byte {item['image_offset']:,}, {item['length_bytes']:,} bytes")
        for item in extents.take(slice(64)).rows()
    ]
    what = str(row.get("kind", "directory" if file_id == ROOT_ID else "file"))
    first = int(extents["image_offset"].data[0]) if len(extents) else None
    return Owner(volume_name(layout), what, first, int(extents["length_bytes"].data.sum()), tuple(facts))


def metrics_rows(result: ScanResult) -> Rows:
    """Return every metric of every volume, those of its walk behind those of its tables."""
    return Rows.listed(FRAMES["metrics"], _metric_rows(result))


def _metric_rows(result: ScanResult) -> Iterator[tuple[Any, ...]]:
    names = volume_names([volume.layout for volume in result.volumes])
    for name, volume in zip(names, result.volumes, strict=True):
        walked: tuple[Metric, ...] = () if volume.walk is None else volume.walk.metrics
        for item in (*volume.metrics, *walked):
            what = (item.name, item.definition.title, item.value, item.unit, item.denominator)
            yield (name, item.subject, *what)


def times_rows(result: ScanResult | PredictResult) -> Rows:
    """Return every predicted time, of all orders where these were asked for."""
    return Rows.listed(FRAMES["times"], _time_rows(result))


def _time_rows(result: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the times of walks, of a scan or of a prediction, then those of all orders."""
    is_scan = all(hasattr(volume, "predictions") for volume in result.volumes)
    volumes = result.volumes
    names = volume_names([each.layout for each in volumes]) if is_scan else [each.volume for each in volumes]
    for name, volume in zip(names, volumes, strict=True):
        if volume.walk is not None:
            drives = volume.predictions if is_scan else [case.prediction for case in volume.drives]
            yield from _times((name, volume.walk.order, volume.walk.host), drives, volume.walk)
    for case in getattr(result, "orders", ()):
        for order in case.orders:
            yield from _times((case.volume, order.order, case.host), order.times, order)


def _times(
    what: tuple[str, ...], drives: Iterable[Prediction], walk: WalkFacts | OrderCase
) -> Iterator[tuple[Any, ...]]:
    for item in drives:
        interval = (item.seconds, item.seconds_low, item.seconds_high)
        yield (*what, item.drive, *interval, walk.reads, walk.read_bytes)


def remedies_rows(result: PlanResult) -> Rows:
    """Return every remedy that was tried, volume by volume, the best first."""
    return Rows.listed(FRAMES["remedies"], (row for volume in result.volumes for row in _remedy_rows(volume)))


def _remedy_rows(volume: VolumePlan) -> Iterator[tuple[Any, ...]]:
    about = (volume.volume, volume.order, volume.host, volume.drive)
    for item in volume.remedies:
        then, saved = item.interval, item.saved
        times: tuple[float | None, ...] = (None,) * 7
        if then is not None and saved is not None:
            ends = (item.seconds, then.low_s, then.high_s, item.saved_s, saved.low_s, saved.high_s, item.share)
            times = ends
        yield (*about, item.words.name, item.words.kind, *times, item.effort_s, item.helps, item.why_not)


def read_seconds(reads: AccessTrace, service_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what each read takes with the host's work before it, shape (n_reads,); all of them are the walk's time."""
    return service_s + host_seconds(reads)


def host_seconds(reads: AccessTrace) -> NDArray[np.float64]:
    """Return the host's time before each read, shape (n_reads,); what it does behind the last is the last one's."""
    found: NDArray[np.float64] = reads.think_us / 1e6
    found[-1:] += reads.after_us / 1e6
    return found


def cost_of_directories(paths: Paths, reads: AccessTrace, seconds: NDArray[np.float64]) -> dict[str, Any]:
    """Charge reads to the directories that caused them, the most expensive first."""
    ids, place, counts = np.unique(reads.directory_id, return_inverse=True, return_counts=True)
    total = np.bincount(place, seconds, minlength=len(ids))
    order = np.argsort(-total, kind="stable")
    return {
        "directory_id": ids[order],
        "path": [directory_name(paths, number) for number in ids[order].tolist()],
        "reads": counts[order],
        "seconds": total[order],
    }


def directory_name(paths: Paths, number: int) -> str:
    """Name the directory that caused reads; 0 stands for reads that none caused."""
    return paths.folder(number).text if number else "(no directory)"


def directories_rows(result: PredictResult) -> Rows:
    """Return what every directory costs, on each volume and drive."""
    return _stacked("directories", (_directories(case) for case in result.volumes))


def _directories(case: VolumeCase) -> Iterator[dict[str, Any]]:
    reads = case.walk.trace
    if case.layout is None:
        return
    paths = Paths(case.layout)
    for drive in case.drives:
        made = cost_of_directories(paths, reads, read_seconds(reads, drive.prediction.service_s))
        yield _labelled(case, drive.prediction.drive, made, len(made["path"]))


def reads_rows(result: PredictResult) -> Rows:
    """Return every read in order, with its times on each drive."""
    return _stacked("reads", (_reads(case) for case in result.volumes))


def _reads(case: VolumeCase) -> Iterator[dict[str, Any]]:
    trace = case.walk.trace
    plain = {
        "read": np.arange(len(trace)),
        **{name: getattr(trace, name) for name in ("device", "image_offset", "length_bytes", "directory_id", "issuer")},
        "cause": np.array(trace.causes, object)[trace.cause],
        "tree": np.array(trace.trees, object)[trace.tree],
        "host_s": host_seconds(trace),
    }
    for drive in case.drives:
        made = plain | {"service_s": drive.prediction.service_s}
        yield _labelled(case, drive.prediction.drive, made, len(trace))


def _labelled(case: VolumeCase, drive: str, made: dict[str, Any], height: int) -> dict[str, Any]:
    return {**made, "volume": [case.volume] * height, "drive": [drive] * height}


def _stacked(name: str, parts: Iterable[Iterable[dict[str, Any]]]) -> Rows:
    found = [columns for part in parts for columns in part]
    if not found:
        return Rows.listed(FRAMES[name], ())
    return Rows.under(FRAMES[name], {key: _end_to_end([columns[key] for columns in found]) for key in found[0]})


def _end_to_end(parts: Sequence[Any]) -> Any:
    """Put arrays or lists of one column one behind the other."""
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else list(chain.from_iterable(parts))


def comparison_rows(result: Comparison) -> Rows:
    """Return metrics and predicted times of all sides, one row a side, with the difference to the first."""
    return Rows.listed(FRAMES["comparison"], _comparison_rows(result))


def _comparison_rows(result: Comparison) -> Iterator[tuple[Any, ...]]:
    sides = list(zip(side_letters(len(result.names)), result.names, strict=True))
    told = [((row.subject, row.name, row.title), row.unit, row.values) for row in result.metrics]
    told += [((row.drive, "seconds", "Predicted time"), "s", row.seconds) for row in result.times]
    for what, unit, values in told:
        first = values[0]
        for side, value in zip(sides, values, strict=True):
            difference = None if value is None or first is None else value - first
            yield (*side, *what, value, unit, first, difference, ratio((first, value)))


def faults_rows(result: CheckResult) -> Rows:
    """Return every finding of a check, those outside of the volumes first."""
    found = [("", each) for each in result.findings]
    found += [(item.volume, each) for item in result.volumes for each in item.findings]
    names = [column.name for column in FRAMES["faults"][1:-1]]
    rows = ((volume, *(getattr(each, name) for name in names), _cause(each)) for volume, each in found)
    return Rows.listed(FRAMES["faults"], rows)


def _cause(finding: Finding) -> str:
    cause = finding.cause
    if cause is None:
        return f"one of {len(finding.causes)} causes" if finding.causes else ""
    where = "" if cause.image_offset is None else f" at byte {cause.image_offset}"
    return f"{cause.code}: {cause.structure}{where}"


STATS: Final = ("mode", "user_id", "group_id")
TIMES: Final = ("access_time", "change_time")
"""Columns that inodes add to those of the table of entries."""

PERMISSIONS: Final = 0o7777
"""The bits of a mode that are no type (POSIX, sys/stat.h)."""


def with_paths(layout: VolumeLayout) -> pl.DataFrame:
    """Return the entries as a frame with a column ``path``."""
    paths, named = Paths(layout), layout.columns("entries")
    rows = zip(*map(named.listed, NAMED), strict=True)
    return layout.entries.with_columns(pl.Series("path", (paths.entry(*row).text for row in rows), dtype=pl.String))


NAMED: Final = ("file_id", "parent_id", "name")
"""Columns of entries that paths are made of."""


def listed_files(
    layout: VolumeLayout,
    stats: InodeStats | None,  # of its inodes; None where these were not read
) -> Iterator[dict[str, Any]]:
    """Yield the rows of entries with their paths and what their inodes say; None where that is not known."""
    paths, entries = Paths(layout), layout.columns("entries")
    inodes = {} if stats is None else dict(zip(*_first_of_each(stats.file_id), strict=True))
    nothing: dict[str, Any] = dict.fromkeys((*STATS, *TIMES))
    for first in range(0, len(entries), BATCH_ROWS):
        for row in entries.take(slice(first, first + BATCH_ROWS)).rows():
            inode = inodes.get(row["file_id"])
            told = nothing if stats is None or inode is None else _told(stats, inode)
            yield {**row, "path": paths.entry(*(row[name] for name in NAMED)).text, **told}


BATCH_ROWS: Final = 16_384
"""Entries that are made rows of at once."""


def _first_of_each(file_id: NDArray[np.uint64]) -> tuple[list[int], list[int]]:
    ids, first = np.unique(file_id, return_index=True)
    return ids.tolist(), first.tolist()


def _told(stats: InodeStats, inode: int) -> dict[str, Any]:
    """Return what an inode says; without a mode nothing was ever written to its owner either."""
    has_mode = stats.mode[inode] != 0
    found = {name: int(getattr(stats, name)[inode]) if has_mode else None for name in STATS}
    times = (int(stats.access_us[inode]), int(stats.change_us[inode]))
    return {**found, **{name: None if us == NO_TIME else time_of(us) for name, us in zip(TIMES, times, strict=True)}}
