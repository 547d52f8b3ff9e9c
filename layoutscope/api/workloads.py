"""Workloads: which order, as which host, from where; and the reads that this makes on a layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np

from layoutscope.access.entries import ROOT_ID
from layoutscope.api.keywords import check_choice
from layoutscope.display import Struct
from layoutscope.drive.simulation import Part, Unknowns, simulate_on
from layoutscope.drive.uncertain import Host
from layoutscope.errors import UsageError, did_you_mean
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.options import Predict, Workload, check_numbers, fill, options_of
from layoutscope.progress import phase
from layoutscope.results.explanation import count_listed
from layoutscope.results.inspect import resolve
from layoutscope.results.predict import OrderCase, OrdersCase
from layoutscope.results.scan import Prediction, knows_offset, volume_name
from layoutscope.walk.data import random_records
from layoutscope.walk.directories import components_of, entries_on_paths, missing_paths
from layoutscope.walk.host import HOSTS, HostTime, host_profile, host_time, set_properties
from layoutscope.walk.orders import ORDERS, Work, model_of, trace_on

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.driver import HostProfile, Model
    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import DriveProfile, ServiceResult
    from layoutscope.results.scan import HostFrom
    from layoutscope.tables import VolumeLayout
    from layoutscope.walk.programs import LeastWritten


@overload
def check_workload(workload: Mapping[str, Any]) -> Workload: ...


@overload
def check_workload(workload: Mapping[str, Any], kind: type[Predict]) -> Predict: ...


def check_workload(workload: Mapping[str, Any], kind: type[Workload] = Workload) -> Workload:
    """Take a workload, as given or as it is without, and refuse before the work what would fail in it."""
    known = options_of(kind)
    for name in workload:
        if name not in known:
            raise TypeError(f"a workload has no {name!r}{did_you_mean(name, known)}. Choose from: {', '.join(known)}")
    work = fill(kind, workload)
    order, host = work["order"], work["host"]
    check_choice("order", order, ORDERS)
    if host is not None:
        check_choice("host", host, HOSTS)
    check_numbers(kind, work)
    if isinstance(work["paths"], str):
        raise UsageError("paths must be a sequence of paths: this is one text")
    refused, missing = _explain_refusal(work)
    if refused:
        told = f"{refused} (keyword {missing})" if missing else refused
        raise UsageError(told, options={f"keyword {missing}": f"--{missing}"})
    host_of(work)
    return work


def refuse_unused(work: Workload) -> None:
    """Refuse an option that the order ignores, because another order was probably meant."""
    said = {
        "paths": ("paths", work["paths"]), "file": ("file", work["file"]), "records": ("records", work["records"]),
        "offsets": ("records", work["offsets"]), "stat=False": ("stat", not work["stat"]),
    }  # fmt: skip
    for keyword, (name, value) in said.items():
        takers = [each.name for each in ORDERS.values() if name == each.needs or name in each.takes]
        if value and work["order"] not in takers:
            options = {f"order={taker!r}": f"--order {taker}" for taker in takers}
            told = f"the order {work['order']} does not look at {keyword}; that goes with {' or '.join(options)}"
            option = "--no-stat" if keyword == "stat=False" else f"--{keyword}"
            raise UsageError(told, options={**options, f"look at {keyword};": f"look at {option};"})


def _explain_refusal(work: Workload) -> tuple[str, str]:
    """Describe why its order cannot do a workload, and which keyword it lacks, if it is that."""
    chosen = ORDERS[work["order"]]
    given = [name for name, value in (("paths", work["paths"]), ("file", work["file"])) if value]
    try:
        chosen.check(given, is_repeated=work["warm"] or work["passes"] > 1)
    except ValueError as error:
        return str(error), chosen.needs if chosen.needs not in given else ""
    return "", ""


def work_of(
    options: Mapping[str, Any], workload: Mapping[str, Any] | None = None, kind: type = Workload
) -> dict[str, Any]:
    """Take what is done on a volume from a verb's keywords, which are given by themselves or as one dictionary."""
    known = options_of(kind)
    plain = {name: value for name, value in options.items() if name in known}
    for name in plain:
        if name in (workload or {}):
            raise TypeError(f"{name!r} is given twice: by itself and in the workload")
    return {**(workload or {}), **plain}


USUAL_HOST: Final = "macos"
"""Default for volumes that do not record who wrote them: most users of both file systems have a Mac."""


def choose_host(layout: VolumeLayout, asked: str | None, why: HostFrom = "asked") -> tuple[str, HostFrom]:
    """Choose the host of a volume, and give the reason: the given one, or the one that wrote it last."""
    if asked is not None:
        return asked, why
    writer = filesystem_of(layout).written_by(layout)
    return (writer, "written-by") if writer else (USUAL_HOST, "unknown")


def host_of(work: Workload, layout: VolumeLayout | None = None) -> HostProfile:
    """Return the host of a workload on a volume."""
    name = (work["host"] or USUAL_HOST) if layout is None else choose_host(layout, work["host"])[0]
    usual = host_profile(name, cache_bytes=work["memory_bytes"], threads=work["threads"] or 1)
    try:
        return set_properties(usual, work["host_properties"] or {})
    except ValueError as error:
        raise UsageError(str(error)) from error


def unknowns_of(work: Workload, layout: VolumeLayout | None = None) -> Unknowns:
    """Return what is not known of drives that serve a workload, by the host of a volume."""
    return Unknowns(Host.of(host_of(work, layout)))


class Walk(Struct, frozen=True):
    """What a workload does."""

    reads: AccessTrace  # the reads. Think times are those of the wall clock: several threads share the work.
    host_time: HostTime  # the host's work in processor and in wall seconds
    # what it cannot but write, which is not in its time; None where it changes nothing
    least_written: LeastWritten | None = None
    # paths of its list that are not on the volume: what exists of the way to them is looked up
    missing: tuple[str, ...] = ()


def walk(layout: VolumeLayout, asked: Workload, host: HostProfile | None = None) -> Walk:
    """Work out the reads of a workload."""
    return walk_on(model_of(layout, host_of(asked, layout) if host is None else host), asked)


def walk_on(model: Model, asked: Workload) -> Walk:
    """Work out the reads of a workload on a model, whose host does it."""
    layout = model.layout
    file_id = None if asked["file"] is None else _require(layout, asked["file"])
    if file_id is not None:
        entries = layout.columns("entries")
        if ((entries["file_id"].data == file_id) & entries["kind"].equals("directory")).any():
            raise UsageError(f"{asked['file']!r} is a directory, which has no contents to read")
    record_bytes = asked["record_bytes"] or options_of(Workload)["record_bytes"].default
    work = Work(
        start_directory_id=ROOT_ID if asked["start"] is None else _require(layout, asked["start"]),
        stat=asked["stat"],
        paths=asked["paths"],
        file_id=file_id,
        records=None if file_id is None else _records(layout, file_id, asked, record_bytes),
        record_bytes=record_bytes,
        warm=asked["warm"],
        passes=asked["passes"],
    )
    order = ORDERS[asked["order"]]
    paths = (asked["paths"] or ()) if order.needs == "paths" else ()
    found = entries_on_paths(model, paths)
    if paths and all(map(components_of, paths)) and (found < 0).all():
        raise UsageError(
            f"of {len(paths):,} paths none is on the volume, nor a folder above it. Paths begin at its root."
        )
    with phase(f"working out the reads of {asked['order']}"):
        reads = trace_on(model, order, work)
        writes = None if order.least_written is None else order.least_written(model, work)
    # What a second of work takes on the wall, done by so many threads on so many processors.
    wall = host_time(1e6, model.host).wall_s
    return Walk(reads.scale_host_time(wall), host_time(reads.host_us, model.host), writes, missing_paths(paths, found))


def _records(layout: VolumeLayout, file_id: int, asked: Workload, record_bytes: int) -> NDArray[np.int64] | None:
    """Offsets of the records that are read; None for the whole file."""
    if asked["offsets"] is not None:
        return np.array(asked["offsets"], np.int64)
    if not asked["records"]:
        return None
    entries = layout.columns("entries")
    size = int(entries["size_bytes"].filled(0)[int(np.argmax(entries["file_id"].data == file_id))])
    if size < record_bytes:
        raise UsageError(f"the file has {size:,} bytes, which is less than a record of {record_bytes:,}")
    return random_records(size, asked["records"], record_bytes, asked["seed"])


def _require(layout: VolumeLayout, path: str) -> int:
    file_id = resolve(layout, path)
    if file_id is None:
        raise UsageError(f"no file at {path!r}")
    return file_id


def serve_walk(
    layout: VolumeLayout, reads: AccessTrace, profile: DriveProfile, unknowns: Unknowns, start_offset_bytes: int = 0
) -> ServiceResult:
    """Simulate the reads of a walk on a volume."""
    knows = knows_offset(layout, start_offset_bytes)
    return simulate_on(Part(reads, profile, start_offset_bytes=start_offset_bytes, knows_offset=knows), unknowns)


def fits(profile: DriveProfile, reads: AccessTrace, start_offset_bytes: int = 0) -> bool:
    """Return whether all reads are within a drive."""
    end = int((reads.image_offset + reads.length_bytes).max(initial=0))
    return start_offset_bytes + end <= profile.capacity_bytes


def prediction(
    layout: VolumeLayout, reads: AccessTrace, profile: DriveProfile, unknowns: Unknowns, start_offset_bytes: int = 0
) -> Prediction:
    """Predict the time of a walk on a volume."""
    return Prediction.of(serve_walk(layout, reads, profile, unknowns, start_offset_bytes), profile)


ALL: Final = "all"
"""In place of an order's name: every one of them."""


def over_orders(
    layout: VolumeLayout,
    profiles: Sequence[DriveProfile],  # the drives; orders are sorted by their time on the first
    work: Predict,
) -> OrdersCase:
    """Predict every order on a volume."""
    model = model_of(layout, host_of(work, layout))
    unknowns = Unknowns(Host.of(model.host))
    cases = [_case(model, profiles, unknowns, {**work, "order": name}) for name in ORDERS]
    cases.sort(key=lambda case: (bool(case.why_not), case.times[0].seconds if case.times else case.reads))
    paths = work["paths"] or ()
    missing = missing_paths(paths, entries_on_paths(model, paths))
    return OrdersCase(volume_name(layout), model.host.name, tuple(cases), layout.coverage, layout.num_errors, missing)


def _case(model: Model, profiles: Sequence[DriveProfile], unknowns: Unknowns, work: Predict) -> OrderCase:
    refused, missing = _explain_refusal(work)
    if refused:
        return OrderCase(work["order"], f"{refused} (--{missing})" if missing else refused)
    reads = walk_on(model, work).reads
    start = work["start_offset_bytes"]
    times = tuple(prediction(model.layout, reads, profile, unknowns, start) for profile in profiles)
    read_bytes = int(reads.length_bytes.sum())
    return OrderCase(work["order"], "", len(reads), read_bytes, entries_of(model, work), times)


def entries_of(model: Model, work: Workload) -> int | None:
    """Count the entries that an order goes through; None where it goes through no number of them."""
    if work["order"] == "paths":
        return len(work["paths"] or ())
    chosen = ORDERS[work["order"]]
    if chosen.needs or not chosen.is_whole or work["start"] is not None:
        return None
    return count_listed(model.layout) * work["passes"]
