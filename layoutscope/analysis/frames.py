"""Results as frames: what a result holds in objects and arrays, as rows with documented columns."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.access.paths import Paths
from layoutscope.analysis.owners import volume_names
from layoutscope.results.compare import ratio, side_letters
from layoutscope.tables.frames import FRAMES
from layoutscope.tables.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.findings import Finding
    from layoutscope.metrics import Metric
    from layoutscope.results.check import CheckResult
    from layoutscope.results.compare import Comparison
    from layoutscope.results.plan import PlanResult, VolumePlan
    from layoutscope.results.predict import OrderCase, PredictResult, VolumeCase
    from layoutscope.results.scan import Prediction, ScanResult, WalkFacts


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
