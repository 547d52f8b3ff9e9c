"""``trace``: the reads of a workload, and files of them; ``replay``: what drives make of somebody's real reads.

A recording names a block of a device in units of that device: 512 bytes on most disks, 4,096 in a container that
volumes share, counted from the start of a partition, a container, or the disk. So every unit and every start of a
volume is tried, and that pair is taken which puts most reads of metadata on nodes; a wrong one puts hardly any there.
"""

from __future__ import annotations

import re
from itertools import islice, product
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeAlias

import numpy as np
from msgspec.structs import replace

from layoutscope.access.trace import place_of
from layoutscope.api.keywords import profiles_of, takes
from layoutscope.api.outputs import file_form, open_output
from layoutscope.api.reading import make_request, only_volume, open_volumes
from layoutscope.api.workloads import check_workload, entries_of, fits, host_of, refuse_unused, walk, walk_on, work_of
from layoutscope.drive import hdd, service, simulate
from layoutscope.drive.recordings import (
    BELOW,
    CHUNK,
    FILE_SYSTEM,
    Place,
    Recorded,
    blkparse_lines,
    check_reads,
    csv_text,
    fio_lines,
    load_trace,
)
from layoutscope.drive.uncertain import UNSAID, Host
from layoutscope.errors import UsageError, did_you_mean
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.options import ReplayOptions, TraceOptions, fill, leave_out
from layoutscope.results.recorded import HostTimes, MeasuredTimes, OutcomeTimes, PlacedDevice, Recording, ReplayResult
from layoutscope.results.scan import Prediction, knows_offset
from layoutscope.units import format_share
from layoutscope.walk.orders import model_of
from layoutscope.walk.score import score

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Unpack

    from numpy.typing import NDArray

    from layoutscope.access.driver import Model
    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import DriveProfile, ServiceResult
    from layoutscope.options import Workload
    from layoutscope.tables import Table, VolumeLayout
    from layoutscope.walk.score import Score

FORMATS: Final = ("csv", "fio", "blkparse")
"""Forms in which traces are written."""

LINES_AT_ONCE: Final = 65_536


@takes(TraceOptions)
def trace(
    path: str | os.PathLike[str], *, workload: Workload | None = None, **options: Unpack[TraceOptions]
) -> AccessTrace:
    """Work out the reads of a workload on the one volume of an image that was chosen.

    Raises
    ------
    UsageError
        If the workload is not possible, or several volumes could be walked.

    Examples
    --------
    >>> import layoutscope
    >>> reads = layoutscope.trace("fixtures/images/hfsplus-scattered.img.zst", order="catalog")
    >>> len(reads), set(reads.length_bytes.tolist())
    (209, {8192})
    """
    work = check_workload(work_of(options, workload))
    refuse_unused(work)
    with open_volumes(path, make_request(options, path)) as image:
        return walk(only_volume(image.layouts), work).reads


def write_trace(
    reads: AccessTrace,
    target: str | os.PathLike[str] | IO[bytes],
    *,
    file_format: str | None = None,
    disk: str = "/dev/sdX",
    force: bool = False,
) -> None:
    """Write a trace.

    Parameters
    ----------
    reads : AccessTrace
        From :func:`trace`.
    target : path or binary file
        The file to write.
    file_format : {'csv', 'fio', 'blkparse'}, optional
        A table; an iolog of fio, version 3; the text of blkparse. By default from the target's name, else a table.
    disk : str
        Of an iolog: the disk that it is replayed on.
    force : bool
        Whether an existing file is overwritten.

    Raises
    ------
    UsageError
        If the format is unknown or another than the target ends in, or the file exists.

    Examples
    --------
    >>> import layoutscope
    >>> layoutscope.write_trace(layoutscope.trace("fixtures/images/hfsplus-scattered.img.zst"), "walk.csv")
    """
    form = file_form(target, file_format, FORMATS, "csv")
    with open_output(target, force=force, holds=f"{len(reads):,} reads") as file:
        if form == "csv":
            file.write(csv_text(reads).encode())
            return
        lines = iter(fio_lines(reads, file=disk) if form == "fio" else blkparse_lines(reads))
        while part := list(islice(lines, LINES_AT_ONCE)):
            file.write("".join(f"{line}\n" for line in part).encode())


LARGEST_UNIT: Final = 1 << 20
"""Unit of a block number."""


@takes(ReplayOptions)
def replay(
    trace: str | os.PathLike[str], *, workload: Workload | None = None, **options: Unpack[ReplayOptions]
) -> ReplayResult:
    """Compute the service time of a trace, and compare a prediction with it.

    Parameters
    ----------
    trace : path
        CSV, an iolog of fio, the text of blkparse, ``fs_usage``, iosnoop or biosnoop, or pairs of 64-bit numbers;
        compressed too. Recordings by a tool of macOS are compared with ``host="macos"`` unless a host is given.

    Raises
    ------
    UsageError
        If the trace cannot be read, or something is unknown.

    Examples
    --------
    >>> import layoutscope
    >>> image = "fixtures/images/hfsplus-scattered.img.zst"
    >>> layoutscope.write_trace(layoutscope.trace(image), "recorded.csv")
    >>> found = layoutscope.replay("recorded.csv", drives="generic-7200", against=image)
    >>> abs(found.times[0].seconds - found.expected[0].seconds) < 0.001
    True
    """
    asked, given = fill(ReplayOptions, options), work_of(options, workload)
    against, unit, is_host_given = asked["against"], asked["trace_unit"], given.get("host") is not None
    work = check_workload(given if is_host_given else leave_out(given, ["host"]))
    refuse_unused(work)
    told = load_trace(Path(trace), form=asked["form"])
    if unit is not None and not 0 < unit <= LARGEST_UNIT:
        raise UsageError(f"a block of a disk has 1 to {LARGEST_UNIT:,} bytes, not {unit:,}")
    asked["trace_devices"] = [name.removeprefix("/dev/") for name in asked["trace_devices"] or ()]
    if isinstance(told, Recorded) and not is_host_given:
        work["host"] = told.host
    layout = None
    if against is not None:
        with open_volumes(against, make_request(options, against)) as image:
            layout = only_volume(image.layouts)
    real = real_reads(trace, told, asked, layout)
    reads, profiles, think_us = real[0], profiles_of(asked["drives"]), asked["think_us"]
    if asked["drives"] is None:
        profiles = [profile for profile in profiles if fits(profile, reads, asked["start_offset_bytes"])]
    if think_us is not None:
        reads.think_us[:] = think_us
        reads.think_us[:1] = 0
    return serve_recording(str(trace), real, profiles, asked, layout, work)


Real: TypeAlias = "tuple[AccessTrace, Recorded | None, Recording | None]"
"""Somebody's reads as drives serve them; of a recording by blocks also as recorded, and what became of the rest."""


def serve_recording(
    name: str,
    real: Real,
    profiles: Sequence[DriveProfile],
    asked: ReplayOptions,
    layout: VolumeLayout | None,
    work: Workload,
    *,
    draws: bool = False,  # whether what is not known of the host is drawn for the prediction, as ``predict`` does
) -> ReplayResult:
    """Serve reads, and compare the prediction for an image with them."""
    reads, used, recording = real
    how = {"start_offset_bytes": asked["start_offset_bytes"], "queue_depth": asked["queue_depth"]}

    def serve(trace: AccessTrace, host: Host = UNSAID, *, knows_offset: bool = True) -> tuple[Prediction, ...]:
        drives = [(each, each.with_cache(asked["buffer"])) for each in profiles]
        return tuple(
            Prediction.of(simulate(trace, drive, host, knows_offset=knows_offset, **how), profile)
            for profile, drive in drives
        )

    timed = used if used is not None and used.is_timed else None
    measured: tuple[MeasuredTimes, ...] = ()
    if timed is not None:
        # The measured drive is the nominal one.
        served = (service(reads, each.with_cache(asked["buffer"]), **how) for each in profiles)
        measured = tuple(compare_times(timed, each) for each in served)
    read_bytes = int(reads.length_bytes.sum())
    result = ReplayResult(name, len(reads), read_bytes, serve(reads), recording=recording, measured=measured)
    if layout is None:
        return result
    model, predicted, agreement, driver = predict_best(reads, layout, work)
    paced, think_us = predicted, asked["think_us"]
    if think_us is not None or not reads.think_us.any():
        # The prediction has the host time of the trace where that is one for all. While the host works the disk turns,
        # so that the same reads at another pace are served in other times.
        pace = np.full(len(predicted), think_us or 0.0)
        pace[:1] = reads.think_us[:1]
        paced = replace(predicted, think_us=pace, after_us=0.0)
    host = None
    if timed is not None:
        modelled_us = float(predicted.think_us[1:].sum())
        host = HostTimes(float(timed.gaps_us().sum()), modelled_us, entries_of(model, work))
    knows = not draws or knows_offset(layout, asked["start_offset_bytes"])
    expected = serve(paced, Host.of(model.host) if draws else UNSAID, knows_offset=knows)
    return replace(result, expected=expected, agreement=agreement, host=host, driver=driver)


EXACT: Final = 0.999
"""Share of steps from which on no other version of a driver is tried."""


def predict_best(real: AccessTrace, layout: VolumeLayout, work: Workload) -> tuple[Model, AccessTrace, Score, str]:
    """Predict as the usual driver reads, or as a version that misses half as many steps; and name that version."""

    def predict(work: Workload) -> tuple[Model, AccessTrace, Score]:
        model = model_of(layout, host_of(work, layout))
        predicted = walk_on(model, work).reads
        return model, predicted, score(real, predicted, layout)

    best, name, given = predict(work), "", work["host_properties"] or {}
    for host, version, properties in filesystem_of(layout).traits.driver_versions:
        share = best[2].pair_share
        if share >= EXACT or host != best[0].host.name or properties.keys() & given.keys():
            continue
        other = predict({**work, "host_properties": {**given, **properties}})
        # If a trace meets neither, a few more steps add no information.
        if 1 - other[2].pair_share <= (1 - share) / 2:
            said = (
                f"{key}={('no', 'yes')[value] if isinstance(value, bool) else value}"
                for key, value in properties.items()
            )
            best, name = other, f"{version} ({', '.join(said)})"
    return *best, name


def real_reads(
    path: str | os.PathLike[str], told: AccessTrace | Recorded, asked: ReplayOptions, layout: VolumeLayout | None
) -> Real:
    """Find the addresses of a recording's reads; any other trace has them."""
    devices, processes = asked["trace_devices"] or (), asked["trace_processes"] or ()
    if not isinstance(told, Recorded):
        if asked["trace_unit"] is not None or asked["trace_at"] is not None or devices or processes:
            raise UsageError("unit, start, device and process apply only to a recording by blocks")
        check_reads(Path(path), told)
        return told, None, None
    for kind, names, there in (("device", devices, told.devices), ("process", processes, told.processes)):
        unknown = [name for name in names if name not in there]
        if unknown:
            hint = did_you_mean(unknown[0], there)
            raise UsageError(f"{path}: no read of {kind} {unknown[0]!r}{hint}. Choose from: {', '.join(there)}")
    used, recording = place(told, asked, layout)
    if not len(used):
        raise UsageError(f"{path}: no reads of these devices and processes")
    reads = used.trace([item.place for item in recording.placed])
    check_reads(Path(path), reads)
    return reads, used, recording


OUTCOMES: Final = {
    hdd.MISS: "from the medium",
    hdd.PART_HIT: "in part from the buffer",
    hdd.WHOLE_HIT: "from the buffer",
}


def compare_times(reads: Recorded, served: ServiceResult) -> MeasuredTimes:
    """Set the recorded times of reads beside those of a drive that serves the same ones."""
    taken_ms = (reads.done_us - reads.issued_us) / 1000
    predicted_ms, outcome = served.reads_ms.service_ms, served.reads_ms.outcome
    # Overlapping reads share their time, so it cannot be assigned to one of them.
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


UNITS: Final = (512, 4096, 2048, 1024)
"""Blocks of disks, the likeliest first."""

USUAL_UNIT: Final = 512

ENOUGH: Final = 0.5
"""Share of a device's reads on nodes from which the device is taken to be that of the image."""

SURE: Final = 0.95
"""Share of the reads of metadata on nodes below which the unit, the start or the image must be wrong."""


class Spans:
    """What is stored where on the images of a volume: the rows of tables, each with the column of its length."""

    def __init__(self, *tables: tuple[Table, str]) -> None:
        device = np.concatenate([table["device"].filled(0) for table, _ in tables])
        start = np.concatenate([table["image_offset"].signed() for table, _ in tables])
        length_bytes = np.concatenate([table[length].signed() for table, length in tables])
        known = (start >= 0) & (length_bytes > 0)
        first = place_of(device[known], start[known])
        order = np.argsort(first, kind="stable")
        self._start = first[order]
        # The end of what reaches furthest so far: a short piece may be within a long one.
        self._end = np.maximum.accumulate((first + length_bytes[known])[order]) if len(order) else first

    def hold(self, offset: NDArray[np.int64], image: NDArray[np.uint8] | int) -> NDArray[np.bool_]:
        """Mark the places that are within one."""
        if not len(self._start):
            return np.zeros(len(offset), bool)
        key = place_of(image, offset)
        place = np.searchsorted(self._start, key, side="right") - 1
        inside: NDArray[np.bool_] = (offset >= 0) & (place >= 0) & (key < self._end[np.maximum(place, 0)])
        return inside

    def count(self, blocks: NDArray[np.int64], place: Place) -> int:
        """Count the blocks of a device at some place that are within one."""
        return int(self.hold(blocks * place.unit_bytes + place.image_offset, place.image_device).sum())


def locate_walked_nodes(layout: VolumeLayout) -> Spans:
    """Return where the nodes of the trees are that enumerations read."""
    nodes = layout.columns("nodes")
    codes, trees = nodes["tree"].numbered()
    walked = np.isin(trees, filesystem_of(layout).traits.walked_trees)[codes]
    return Spans((nodes.take(walked), "size_bytes"), (layout.columns("node_fragments"), "length_bytes"))


def place_device(
    reads: Recorded, device: str, layout: VolumeLayout, nodes: Spans, unit: int | None, at: int | None
) -> PlacedDevice:
    """Place a device by its reads of metadata, or by all if the recording does not mark them."""
    rows = reads.select_devices([device])
    metadata_rows = rows & reads.is_metadata
    blocks = reads.block[metadata_rows if metadata_rows.any() else rows]
    images = np.unique(layout.columns("nodes")["device"].filled(0)).tolist() or [0]
    units = (unit,) if unit else tuple(dict.fromkeys((*UNITS, layout.facts.block_size_bytes)))
    starts = (at,) if at is not None else tuple(dict.fromkeys((0, layout.facts.image_offset)))
    places = [Place(device, size, start, image) for image, size, start in product(images, units, starts)]
    found = [PlacedDevice(place, int(rows.sum()), len(blocks), nodes.count(blocks, place)) for place in places]
    # Among equals the first is taken: a disk's blocks are more likely 512 bytes, counted from the image's start.
    return max(found, key=lambda item: item.on_nodes)


def disk_of(device: str) -> str:
    """Return the disk that a device of macOS is a part of: ``disk3`` of ``disk3s1s1``."""
    found = re.match(r"disk\d+", device)
    return found[0] if found else device


def place(
    reads: Recorded,
    asked: ReplayOptions,
    # the volume that was read; without it the device with most reads is taken, and nothing is tried
    layout: VolumeLayout | None = None,
) -> tuple[Recorded, Recording]:
    """Find where the reads of a recording are, and which of them are compared with a prediction."""
    own = reads[reads.select_devices(asked["trace_devices"])] if asked["trace_devices"] else reads
    layer = FILE_SYSTEM if (own.layer == FILE_SYSTEM).any() else CHUNK
    told = reads[reads.layer == layer]
    placed = _place_devices(own[own.layer == layer], asked, layout)
    known = told.select_devices([item.place.device for item in placed])
    mine, processes = _processes(told[known], asked["trace_processes"] or (), layout, placed)
    used, others = told[known][mine], told[known][~mine]
    recording = Recording(
        form=reads.form,
        lines=reads.lines,
        placed=placed,
        used=len(used),
        foreign=_counts(told[~known].device, told.devices),
        twice=int((reads.layer == (CHUNK if layer == FILE_SYSTEM else FILE_SYSTEM)).sum()),
        background=int((reads.layer == BELOW).sum()),
        others=_counts(others.process, others.processes),
        processes=processes,
        overlapping=int(used.overlaps().sum()),
        is_timed=used.is_timed,
        problem=_problem(told, placed, layout),
        is_tried=layout is not None,
    )
    return used, recording


def _place_devices(reads: Recorded, asked: ReplayOptions, layout: VolumeLayout | None) -> tuple[PlacedDevice, ...]:
    """Place the devices of the image."""
    counts = np.bincount(reads.device, minlength=len(reads.devices))
    names = [reads.devices[code] for code in np.argsort(-counts, kind="stable") if counts[code]]
    if not names:
        return ()
    if layout is None:
        there = Place(names[0], asked["trace_unit"] or reads.unit_bytes or USUAL_UNIT, asked["trace_at"] or 0)
        chosen = [replace(there, device=name) for name in names] if asked["trace_devices"] else [there]
        return tuple(PlacedDevice(each, int(reads.select_devices([each.device]).sum()), 0, 0) for each in chosen)
    nodes, unit = locate_walked_nodes(layout), asked["trace_unit"] or reads.unit_bytes
    told = reads.is_metadata if reads.is_metadata.any() else np.ones(len(reads), bool)
    found = [
        place_device(reads, name, layout, nodes, unit, asked["trace_at"])
        for name in names
        if (told & reads.select_devices([name])).any()
    ]
    best = max(found, key=lambda item: item.on_nodes)
    kept = [item for item in found if item is best or asked["trace_devices"] or item.share >= ENOUGH]
    rest = [name for name in names if name not in {item.place.device for item in found}]
    if not rest:
        return tuple(kept)
    # Volumes of one container share its blocks: a device without such reads is placed as another one of the same disk.
    tables = [(layout.columns(name), "length_bytes") for name in ("node_fragments", "regions", "extents")]
    anything = Spans((layout.columns("nodes"), "size_bytes"), *tables)
    alike = []
    for name, item in product(rest, kept):
        if disk_of(name) == disk_of(item.place.device):
            place = replace(item.place, device=name)
            blocks = reads.block[reads.select_devices([name])]
            alike.append(PlacedDevice(place, len(blocks), len(blocks), anything.count(blocks, place), is_alike=True))
    return (*kept, *(item for item in alike if item.share >= ENOUGH))


def _processes(
    reads: Recorded, named: Sequence[str], layout: VolumeLayout | None, placed: Sequence[PlacedDevice]
) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """Mark the reads of the program that walks: the one named, else that with most reads of nodes."""
    if named:
        return reads.select_processes(named), tuple(named)
    if layout is None or len(np.unique(reads.process)) < 2:
        return np.ones(len(reads), bool), tuple(reads.processes[code] for code in np.unique(reads.process))
    offset, image, _ = reads.offsets([item.place for item in placed])
    on_nodes = locate_walked_nodes(layout).hold(offset, image)
    counts = np.bincount(reads.process[on_nodes], minlength=len(reads.processes))
    walker = int(counts.argmax())
    return reads.process == walker, (reads.processes[walker],)


def _counts(codes: NDArray[np.uint32], names: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Count reads by a name, most first."""
    counts = np.bincount(codes, minlength=len(names))
    return tuple((names[code], int(counts[code])) for code in np.argsort(-counts, kind="stable") if counts[code])


def _problem(reads: Recorded, placed: Sequence[PlacedDevice], layout: VolumeLayout | None) -> str:
    """Describe what must be wrong if too few reads of metadata are on nodes."""
    if layout is None or not placed:
        return ""
    tried, on_nodes = (
        sum(getattr(item, name) for item in placed if not item.is_alike) for name in ("tried", "on_nodes")
    )
    if on_nodes >= SURE * tried:
        return ""
    share = f"only {format_share(on_nodes / tried)} of {tried:,} reads are on nodes of the walked trees"
    device = placed[0].place.device
    free = place_device(reads, device, layout, locate_walked_nodes(layout), reads.unit_bytes, None)
    if free.on_nodes > placed[0].on_nodes:
        there = free.place
        return (
            f"{share}: blocks of {there.unit_bytes:,} bytes from byte {there.image_offset:,} of the image put "
            f"{format_share(free.share)} there, so that the unit or the start that was given is wrong"
        )
    return (
        f"{share}, whatever the unit and the start among those tried: the image is of another disk, begins elsewhere "
        "on it (--trace-at), or has changed since"
    )
