"""``forecast``: what a volume's layout will be like after some more cycles, and how long an enumeration will take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.aging.volume import list_unaged_parts
from layoutscope.aging.volume import workload as workload_of
from layoutscope.analysis.aged import Asked, Drawn, churn_of, followed, measured_layout, planned, readable
from layoutscope.api.images import only_volume
from layoutscope.api.keywords import profiles_of, several, takes
from layoutscope.api.outputs import write_page
from layoutscope.api.predict import DEFAULT_DRIVES, fits
from layoutscope.api.reading import opened, request_of
from layoutscope.api.workloads import checked, host_of, knows_offset, said_of, walk
from layoutscope.drive import service
from layoutscope.drive.simulation import draw_seconds
from layoutscope.drive.uncertain import num_draws, uncertain
from layoutscope.errors import UsageError
from layoutscope.options import Forecast, ForecastOptions, fill, options_of
from layoutscope.report.plots import forecast_page
from layoutscope.results.forecast import ForecastResult

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Unpack

    from layoutscope.aging.volume import AgingVolume
    from layoutscope.analysis.aged import Steps
    from layoutscope.drive import DriveProfile
    from layoutscope.tables import VolumeLayout

MAX_CYCLES: Final = options_of(Forecast)["cycles"].most or 0
MAX_SEEDS: Final = 64
USUAL_SHARE: Final = 0.05


@takes(ForecastOptions)
def forecast(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    **options: Unpack[ForecastOptions],
) -> ForecastResult:
    """Say what a volume will be like after some more cycles of work, by a model of how its file system allocates.

    Parameters
    ----------
    paths : path or sequence of path
        An image or capture; or several of one volume, the oldest first, which tell how much of it is replaced from one
        to the next: that is then a cycle.
    **options
        What happens, and how images are read: see :class:`~layoutscope.options.ForecastOptions`.

    Raises
    ------
    UsageError
        If there is no such workload or drive, a number is out of range, or the volume is none of which this can be
        said.
    LayoutscopeError
        If an image cannot be read.

    Examples
    --------
    >>> import layoutscope
    >>> image = "fixtures/images/hfsplus-scattered.img.zst"
    >>> found = layoutscope.forecast(image, cycles=4, seeds=2, drives="generic-7200")
    >>> [point.cycle for point in found.points]
    [0, 1, 2, 3, 4]
    """
    request = fill(Forecast, options)
    cycles, drives = request["cycles"], request["drives"]
    _check_request(request)
    profiles = profiles_of(drives, DEFAULT_DRIVES)
    images = several(paths)
    if not images:
        raise UsageError("a forecast needs an image or a capture")
    layouts = []
    for path in images:
        with opened(path, request_of(options, path)) as image:
            layouts.append(only_volume(image.layouts))
            name = image.about.name
    layout, churn = layouts[-1], churn_of(layouts) if len(layouts) > 1 else None
    begin = readable(layout, request["host"])
    share = request["share"]
    if share is None:
        share = float(np.mean(churn.replaced)) if churn is not None else USUAL_SHARE
    if share <= 0:
        raise UsageError(
            "no file was replaced from the first image to the last: there is nothing to go on; say share",
            options={"share": "--share"},
        )
    if drives is None:
        reads = walk(layout, checked({"host": request["host"]})).reads
        profiles = [profile for profile in profiles if fits(profile, reads)]
    chosen = workload_of(request["workload"])
    plan = planned(cycles, share)
    asked = Asked(chosen, share, request["seeds"], request["keep_snapshots"], request["host"])
    points, left_out = followed(layout, begin, asked, plan, _Look(profiles, request).look)
    return ForecastResult(
        image=name,
        volume=layout.facts.name,
        filesystem=layout.facts.variant,
        host=request["host"],
        workload=request["workload"],
        does=chosen.does,
        share=share,
        cycles=cycles,
        simulated_cycles=plan.steps * plan.cycles_a_step,
        cycles_a_step=plan.cycles_a_step,
        seeds=request["seeds"],
        points=points,
        notes=(*_notes(layout, begin, plan, cycles, request["host"]), *left_out),
        churn=churn,
    )


def _check_request(request: Forecast) -> None:
    """Refuse a workload, a number or a host that is out of range."""
    cycles, share, seeds, keep = request["cycles"], request["share"], request["seeds"], request["keep_snapshots"]
    workload_of(request["workload"])
    if not 0 <= cycles <= MAX_CYCLES:
        raise UsageError(f"cycles are 0 to {MAX_CYCLES:,}, not {cycles:,}")
    if share is not None and not 0 < share <= 1:
        raise UsageError(f"the share of the files that a cycle is about is more than 0 and at most 1, not {share}")
    if not 1 <= seeds <= MAX_SEEDS:
        raise UsageError(f"seeds are 1 to {MAX_SEEDS}, not {seeds:,}")
    if keep < 0:
        raise UsageError(f"snapshots are kept for 0 cycles or more, not {keep}")
    checked({"host": request["host"]})


def _notes(layout: VolumeLayout, begin: AgingVolume, plan: Steps, cycles: int, host: str) -> list[str]:
    """Say what is assumed, and where the cycles that are followed end."""
    narrow = "All draws share what the model does not know: the range by the layout is too narrow."
    assumed = ["What macOS writes is assumed, and was compared with no Mac."] * (host == "macos")
    notes, num_held = [*assumed, narrow, *begin.policy.assumes], begin.space.num_pinned
    if layout.facts.details.get("snapshots"):
        notes.append(f"Snapshots that the volume has hold {num_held:,} blocks of it: these are not free when replaced.")
    notes += list_unaged_parts(layout, begin.entry_bytes)
    if plan.cycles_a_step > 1:
        notes.append(f"{plan.cycles_a_step} cycles are followed as one.")
    if plan.steps * plan.cycles_a_step < cycles:
        done = plan.steps * plan.cycles_a_step
        notes.append(f"{done:,} of {cycles:,} cycles were followed; what comes after is not told.")
    return notes


class _Look:
    """Measures and walks layouts."""

    def __init__(self, profiles: Sequence[DriveProfile], request: Forecast) -> None:
        self._profiles, self._seeds = profiles, request["seeds"]
        self._work = checked({"host": request["host"]})

    def look(self, layout: VolumeLayout, seed: int) -> Drawn:
        """Measure and walk a layout; each draw of what happens has drives of its own."""
        reads = walk(layout, self._work).reads
        host = said_of(host_of(self._work))
        mine = np.arange(num_draws())[seed % num_draws() :: self._seeds]
        seconds, drives = [], []
        for profile in self._profiles:
            seconds.append(service(reads, profile, phases=1).seconds)
            unknown = uncertain(profile, host, knows_offset=knows_offset(layout, 0))
            drives.append(draw_seconds(reads, profile, unknown, numbers=mine))
        files, nodes, metrics = measured_layout(layout)
        names = tuple(profile.name for profile in self._profiles)
        return Drawn(files, nodes, len(reads), names, tuple(seconds), tuple(drives), metrics)


def write_forecast_plot(found: ForecastResult, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write the curves of a forecast as one page that needs no network.

    Parameters
    ----------
    found : ForecastResult
        From :func:`forecast`.
    path : path
        Where to.
    force : bool
        Whether an existing file is overwritten.

    Raises
    ------
    UsageError
        If the file exists and `force` is not given.

    Examples
    --------
    >>> import layoutscope
    >>> image = "fixtures/images/hfsplus-scattered.img.zst"
    >>> layoutscope.write_forecast_plot(layoutscope.forecast(image, cycles=1, seeds=1, drives=()), "next.html")
    """
    write_page(path, lambda: forecast_page(found), force=force)
