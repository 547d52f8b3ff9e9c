"""``predict``: what a workload costs on drives, why, and what would change it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.access.entries import Paths
from layoutscope.api.keywords import check_choice, profiles_of, takes
from layoutscope.api.outputs import check_output, open_output
from layoutscope.api.reading import make_request, open_volumes, walkable
from layoutscope.api.workloads import (
    ALL,
    check_workload,
    choose_host,
    host_of,
    over_orders,
    refuse_unused,
    walk,
    walk_on,
    work_of,
)
from layoutscope.drive.simulation import Unknowns, simulate_on
from layoutscope.drive.uncertain import LAYOUT, START, Host, interval_of, is_measured
from layoutscope.errors import UsageError
from layoutscope.metrics import measure_trace
from layoutscope.options import Predict, PredictOptions, fill, leave_out
from layoutscope.remedies.case import Case
from layoutscope.remedies.changes import LAYOUTS, WHAT_IFS
from layoutscope.remedies.planning import Trial
from layoutscope.results.frames import costs_by_directory, directory_name, read_seconds
from layoutscope.results.locked import make_several_volumes_error
from layoutscope.results.predict import Alternative, DirectoryCost, DriveCase, PredictResult, VolumeCase
from layoutscope.results.scan import Prediction, WalkFacts, volume_name, volume_names
from layoutscope.walk.orders import ORDERS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import DriveProfile
    from layoutscope.results.scan import HostFrom
    from layoutscope.tables import VolumeLayout

PACKED: Final = "packed"
"""The what-if that is shown in any case."""

UNKNOWN: Final = "unknown"
"""The placement of a volume like that."""

PLACEMENTS: Final = ("known", UNKNOWN)

AS_IT_IS: Final = "as-it-is"
"""The layout that nothing is changed of, among those that are tried."""


@takes(PredictOptions)
def predict(
    path: str | os.PathLike[str], *, workload: Predict | None = None, **options: Unpack[PredictOptions]
) -> PredictResult:
    """Predict what a workload costs.

    Parameters
    ----------
    workload : Predict, optional
        The keywords from ``order`` to ``top`` together, for those who keep them in a dictionary. The order ``all``
        stands for every one of them, in one table.

    Raises
    ------
    UsageError
        If a drive, order, host, path or what-if is unknown.

    Examples
    --------
    >>> import layoutscope
    >>> image = "fixtures/images/hfsplus-scattered.img.zst"
    >>> walked = layoutscope.predict(image, drives="generic-7200")
    >>> listed = layoutscope.predict(image, drives="generic-7200", order="names")
    >>> listed.times["seconds"][0] < walked.times["seconds"][0]
    True
    >>> walked.directories["path"][0]
    '/Users/jo'
    """
    given = work_of(options, workload, Predict)
    is_over_orders = given.get("order") == ALL
    work = check_workload(leave_out(given, ["order"]) if is_over_orders else given, Predict)
    if not is_over_orders:
        refuse_unused(work)
    if isinstance(work["what_ifs"], str):
        work["what_ifs"] = (work["what_ifs"],)
    asked = fill(PredictOptions, options)
    drives, ncdu, force = asked["drives"], asked["ncdu"], asked["force"]
    if is_over_orders and (work["what_ifs"] or ncdu is not None):
        raise UsageError("what-ifs and costs of directories need one order, not all")
    placement = work["placement"]
    check_choice("placement", placement, PLACEMENTS)
    if placement == UNKNOWN and (is_over_orders or ORDERS[work["order"]].needs or work["start"] is not None):
        raise UsageError("placement 'unknown' needs one order that covers the whole volume")
    for name in work["what_ifs"]:
        check_choice("what-if", name, WHAT_IFS)
    profiles = profiles_of(drives)
    if not profiles and not is_over_orders:
        raise UsageError("a prediction needs a drive: drives is empty. Name at least one.")
    if ncdu is not None:
        check_output(Path(ncdu), force=force, reads=[path] if isinstance(path, str | os.PathLike) else ())
    with open_volumes(path, make_request(options, path)) as image:
        walked = walkable(image.layouts, image.about.name)
        called = volume_names(image.layouts, walked)
        if is_over_orders:
            each = (over_orders(layout, profiles, work) for layout in walked)
            orders = tuple(replace(case, volume=name) for case, name in zip(each, called, strict=True))
            return PredictResult(image.about, (), orders)
        if ncdu is not None and len(walked) > 1:
            raise make_several_volumes_error(walked, image.about.name)
        named = drives is not None
        cases = (_volume(layout, profiles, work, drive_was_named=named) for layout in walked)
        volumes = tuple(replace(case, volume=name) for case, name in zip(cases, called, strict=True))
        if ncdu is not None:
            _write_ncdu(walked[0], volumes[0], ncdu, force=force)
        return PredictResult(image.about, volumes)


def _volume(
    layout: VolumeLayout, profiles: Sequence[DriveProfile], work: Predict, *, drive_was_named: bool
) -> VolumeCase:
    walked = walk(layout, work)
    reads = walked.reads
    case = Case(
        layout,
        profiles[0],
        work["order"],
        host_of(work, layout),
        work["start_offset_bytes"],
        lambda model: walk_on(model, work).reads,
    )
    case.reads = reads
    cases = tuple(
        replace(_drive(case.with_drive(profile), work), drive_was_named=drive_was_named) for profile in profiles
    )
    if work["placement"] == UNKNOWN:
        from layoutscope.api.forecast import add_volumes_alike

        cases = tuple(add_volumes_alike(layout, work, reads, zip(cases, profiles, strict=True)))
    facts = walk_facts(layout, reads, work["order"], choose_host(layout, work["host"]))
    return VolumeCase(
        volume_name(layout),
        facts,
        walked.host_time,
        cases,
        layout.coverage,
        layout.num_errors,
        layout,
        walked.least_written,
        walked.missing,
    )


def _drive(case: Case, work: Predict) -> DriveCase:
    layout, reads, profile = case.layout, case.reads, case.drive
    unknowns, part = Unknowns(Host.of(case.host)), case.part(reads)
    result = simulate_on(part, unknowns)
    unknown, _ = unknowns.of(part)
    drawn = {**unknown.columns(), START: (START, unknown.angle)}
    interval = interval_of(np.array(result.draws_s), drawn, LAYOUT, result.sampling_error)
    predicted = Prediction.of(result, profile, interval)
    trial = Trial(case, predicted, unknowns)
    asked = tuple(_alternative(trial, name) for name in dict.fromkeys(work["what_ifs"]) if name != PACKED)
    layouts = [_alternative(trial, name) for name in LAYOUTS]
    as_it_is = Alternative(AS_IT_IS, "the nodes are where they are", result.seconds)
    tried = [as_it_is, *(each for each in layouts if each.is_applicable)]
    seconds = read_seconds(reads, result.reads_ms.service_ms / 1000, result.host_factor)
    ids, counts, costs = costs_by_directory(reads, seconds)
    directories: tuple[DirectoryCost, ...] = ()
    if ids.any():  # else no directory caused a read
        paths, top = Paths(layout), work["top"]
        rows = zip(ids[:top].tolist(), counts[:top].tolist(), costs[:top].tolist(), strict=True)
        directories = tuple(DirectoryCost(number, directory_name(paths, number), *cost) for number, *cost in rows)
    return DriveCase(
        predicted,
        _alternative(trial, PACKED),
        asked,
        directories,
        best=min(tried, key=lambda item: item.seconds),
        tried=len(tried),
        is_measured=is_measured(profile),
    )


def _alternative(trial: Trial, name: str) -> Alternative:
    """Predict the time of the work with one change."""
    found = trial.made(name)
    return Alternative(name, WHAT_IFS[name], trial.seconds(name), found if isinstance(found, str) else "")


def _write_ncdu(layout: VolumeLayout, case: VolumeCase, path: str | os.PathLike[str], *, force: bool) -> None:
    """Write the cost of every directory on the first drive for ``ncdu -f``, in milliseconds."""
    from layoutscope.report.profiles import ncdu_text

    reads, first = case.walk.trace, case.drives[0].prediction
    with open_output(path, force=force) as file:
        ids, _, seconds = costs_by_directory(reads, read_seconds(reads, first.service_s, first.host_factor))
        costs = dict(zip(ids.tolist(), (seconds * 1000).tolist(), strict=True))
        for text in ncdu_text(layout, costs):
            file.write(text.encode())


def walk_facts(layout: VolumeLayout, reads: AccessTrace, order: str, chosen: tuple[str, HostFrom]) -> WalkFacts:
    """Sum up a walk."""
    host, host_from = chosen
    return WalkFacts(
        order=order,
        host=host,
        host_from=host_from,
        reads=len(reads),
        read_bytes=int(reads.length_bytes.sum()),
        metrics=measure_trace(reads, layout),
        trace=reads,
    )
