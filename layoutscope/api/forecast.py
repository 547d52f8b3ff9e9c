"""``forecast``: what a volume's layout will be like after some more cycles, and how long an enumeration will take."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.aging.layouts import build_aged_layout
from layoutscope.aging.volume import FullError, describe_workload, list_unaged_parts, model_errors
from layoutscope.api.alike import readable
from layoutscope.api.images import only_volume
from layoutscope.api.keywords import profiles_of, several, takes
from layoutscope.api.outputs import write_page
from layoutscope.api.predict import DEFAULT_DRIVES, fits
from layoutscope.api.reading import make_request, open_volumes
from layoutscope.api.workloads import check_workload, choose_host, host_of, serve_walk, walk
from layoutscope.drive.simulation import Unknowns
from layoutscope.drive.uncertain import Host, num_draws, quantiles
from layoutscope.errors import UsageError
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics import measure
from layoutscope.metrics.space import select_own_nodes
from layoutscope.options import ForecastOptions, fill, options_of
from layoutscope.progress import phase
from layoutscope.report.plots import forecast_page
from layoutscope.results.plan import (
    Churn,
    ForecastMetric,
    ForecastPoint,
    ForecastRange,
    ForecastResult,
    ForecastTime,
)
from layoutscope.walk.host import HOST_WORDS

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from numpy.typing import NDArray

    from layoutscope.aging.volume import AgingVolume
    from layoutscope.drive import DriveProfile
    from layoutscope.metrics import Definition, Metric
    from layoutscope.tables import VolumeLayout


MAX_CYCLES: Final = options_of(ForecastOptions)["cycles"].most or 0
MAX_SEEDS: Final = 64
USUAL_SHARE: Final = 0.05


@takes(ForecastOptions)
def forecast(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    **options: Unpack[ForecastOptions],
) -> ForecastResult:
    """Describe what a volume will be like after some more cycles of work, by a model of how its file system allocates.

    Parameters
    ----------
    paths : path or sequence of path
        An image or capture; or several of one volume, the oldest first, which show how much is replaced from one to the
        next: that is then one cycle.
    **options
        What happens, and how images are read: see :class:`~layoutscope.options.ForecastOptions`.

    Raises
    ------
    UsageError
        If there is no such workload or drive, a number is out of range, or the volume cannot be forecast.
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
    request = fill(ForecastOptions, options)
    cycles, drives = request["cycles"], request["drives"]
    _check_request(request)
    profiles = profiles_of(drives, DEFAULT_DRIVES)
    images = several(paths)
    if not images:
        raise UsageError("a forecast needs an image or a capture")
    layouts = []
    for path in images:
        with open_volumes(path, make_request(options, path)) as image:
            layouts.append(only_volume(image.layouts))
            name = image.about.name
    layout, churn = layouts[-1], churn_of(layouts) if len(layouts) > 1 else None
    host, _ = choose_host(layout, request["host"])
    request["host"], begin = host, readable(layout, host)
    share = request["share"]
    if share is None:
        share = float(np.mean(churn.replaced)) if churn is not None else USUAL_SHARE
    if share <= 0:
        raise UsageError(
            "no file was replaced from the first image to the last: the pace of change is unknown. Give share.",
            options={"share": "--share"},
        )
    if drives is None:
        reads = walk(layout, check_workload({"host": request["host"]})).reads
        profiles = [profile for profile in profiles if fits(profile, reads)]
    cycles_a_step, steps, _ = plan_steps(cycles, share)
    points, left_out = follow_cycles(layout, begin, request, share, profiles)
    return ForecastResult(
        image=name,
        volume=layout.facts.name,
        filesystem=layout.facts.variant,
        host=host,
        workload=request["workload"],
        does=describe_workload(request["workload"]),
        share=share,
        cycles=cycles,
        simulated_cycles=steps * cycles_a_step,
        cycles_a_step=cycles_a_step,
        seeds=request["seeds"],
        points=points,
        notes=(*_notes(layout, begin, cycles_a_step, steps, request), *left_out),
        churn=churn,
    )


def _check_request(request: ForecastOptions) -> None:
    """Refuse a workload, a number or a host that is out of range."""
    cycles, share, seeds, keep = request["cycles"], request["share"], request["seeds"], request["keep_snapshots"]
    describe_workload(request["workload"])
    if not 0 <= cycles <= MAX_CYCLES:
        raise UsageError(f"cycles are 0 to {MAX_CYCLES:,}, not {cycles:,}")
    if share is not None and not 0 < share <= 1:
        raise UsageError(f"share must be more than 0 and at most 1: it is {share}")
    if not 1 <= seeds <= MAX_SEEDS:
        raise UsageError(f"seeds are 1 to {MAX_SEEDS}, not {seeds:,}")
    if keep < 0:
        raise UsageError(f"snapshots are kept for 0 cycles or more, not {keep}")
    check_workload({"host": request["host"]})


def _notes(
    layout: VolumeLayout, begin: AgingVolume, cycles_a_step: int, steps: int, request: ForecastOptions
) -> list[str]:
    """Describe the assumptions, and where the simulated cycles end."""
    narrow = "The layout range is too narrow: the model's error is the same in all simulations."
    assumed = ["The macOS write pattern is an assumption and has not been checked on a Mac."] * (
        request["host"] == "macos"
    )
    writer, whence = choose_host(layout, None)
    if whence == "written-by" and writer != request["host"]:
        now = HOST_WORDS[str(request["host"])]
        assumed.append(
            f"{HOST_WORDS[writer]} wrote this volume, and from here on {now} does: a change of the pace may come from "
            "that alone."
        )
    notes, num_held = [*assumed, narrow, *begin.policy.assumes.values()], begin.space.num_pinned
    if layout.facts.details.get("snapshots"):
        notes.append(f"Snapshots that the volume has hold {num_held:,} blocks of it: these are not free when replaced.")
    notes += list_unaged_parts(layout, begin.entry_bytes)
    if cycles_a_step > 1:
        notes.append(f"{cycles_a_step} cycles are followed as one.")
    done = steps * cycles_a_step
    if done < request["cycles"]:
        notes.append(f"{done:,} of {request['cycles']:,} cycles were simulated; the rest is unknown.")
    return notes


def write_forecast_plot(found: ForecastResult, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write the curves of a forecast as one page that needs no network.

    Parameters
    ----------
    found : ForecastResult
        From :func:`forecast`.
    path : path
        The file to write.
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


MAX_STEPS: Final = 40
"""Steps that are followed; of more cycles, several are one step."""


MAX_SHARE: Final = 0.5
"""Share of the files that one step may be about."""


SECONDS: Final = "seconds"
"""What times are called among the numbers of which it is known by how much the model was off."""


POINTS: Final = 4


TAIL: Final = 0.05
"""Share of drives that is left out at either end."""


def plan_steps(cycles: int, share: float) -> tuple[int, int, tuple[int, ...]]:
    """Return how many cycles one step follows, how many steps there are, and after which the volume is looked at.

    There are at most :data:`MAX_STEPS` steps, and each changes at most half of the files.

    >>> plan_steps(20, 0.05), plan_steps(400, 0.05), plan_steps(0, 0.05)
    ((1, 20, (0, 5, 10, 15, 20)), (10, 40, (0, 10, 20, 30, 40)), (1, 0, (0,)))
    """
    each = min(math.ceil(cycles / MAX_STEPS), max(int(MAX_SHARE / share), 1)) if cycles else 1
    steps = min(cycles // each, MAX_STEPS)
    return each, steps, tuple(sorted({round(steps * part / POINTS) for part in range(POINTS + 1)}))


class Drawn(NamedTuple):
    """One draw of a volume after some cycles."""

    files: int
    nodes: int  # leaves that an enumeration reads
    reads: int
    seconds: dict[str, tuple[float, NDArray[np.float64]]]  # by profile: on the drive as named, and on drives like it
    metrics: tuple[Metric, ...]


def follow_cycles(
    layout: VolumeLayout,
    begin: AgingVolume,
    request: ForecastOptions,
    share: float,
    profiles: Sequence[DriveProfile],
) -> tuple[tuple[ForecastPoint, ...], tuple[str, ...]]:
    """Follow a volume through its cycles in each simulation; return its points, and where it could not go on."""
    cycles_a_step, steps, looked_at = plan_steps(request["cycles"], share)
    work, seeds = request["workload"], request["seeds"]
    drawn: dict[int, list[Drawn]] = {step: [] for step in looked_at}
    notes: list[str] = []
    listing = check_workload({"host": request["host"]})
    unknowns = Unknowns(Host.of(host_of(listing)))

    def look(layout: VolumeLayout, seed: int) -> Drawn:
        """Measure and walk a layout; each draw of what happens has drives of its own."""
        reads = walk(layout, listing).reads
        mine = np.arange(num_draws())[seed % num_draws() :: seeds]
        served = {profile.name: serve_walk(layout, reads, profile, unknowns) for profile in profiles}
        seconds = {name: (found.seconds, np.array(found.draws_s)[mine]) for name, found in served.items()}
        files = int(layout.columns("entries")["kind"].equals("file").sum())
        nodes = select_own_nodes(layout, filesystem_of(layout).traits.main_tree)
        leaves = int((nodes["level"].filled(1) == 0).sum())
        return Drawn(files, leaves, len(reads), seconds, measure(layout))

    with phase("following the cycles", seeds * max(steps, 1), unit="steps") as under_way:
        for seed in range(seeds):
            rng = np.random.default_rng([1, seed])
            volume = begin.copy()
            volume.policy = begin.policy.drawn((2 * seed + 1) / seeds - 1 if seeds > 1 else 0.0)
            volume.keep_cycles = request["keep_snapshots"]
            # As it is, the volume is the same in all simulations.
            drawn[0].append(look(layout, seed))
            for step in range(1, steps + 1):
                wanted = share * cycles_a_step * int(volume.entries.is_file.sum())
                try:
                    volume.age(work, max(round(wanted), 1), rng)
                except FullError as error:
                    notes.append(f"After cycle {(step - 1) * cycles_a_step:,} of a draw {error}.")
                    break
                under_way.advance()
                if not volume.entries.is_file.any():
                    notes.append(f"After cycle {step * cycles_a_step:,} no file is left.")
                    break
                if step in drawn:
                    drawn[step].append(look(build_aged_layout(layout, volume), seed))
    errors = model_errors(layout.facts.filesystem, str(request["host"]))
    points = []
    for step, found in drawn.items():
        if found:
            files, nodes, reads = (
                _range([getattr(item, name) for item in found]) for name in ("files", "nodes", "reads")
            )
            known = errors if step else {}
            points.append(
                ForecastPoint(step * cycles_a_step, files, nodes, reads, _times(found, known), _metrics(found, known))
            )
    return tuple(points), tuple(dict.fromkeys(notes))


def _times(drawn: Sequence[Drawn], errors: Mapping[tuple[str, str], float]) -> tuple[ForecastTime, ...]:
    found, error = [], errors.get((SECONDS, ""), 0.0)
    for name in drawn[0].seconds:
        named = _range([item.seconds[name][0] for item in drawn])
        similar = np.concatenate([item.seconds[name][1] for item in drawn])
        low, high = quantiles(similar, (TAIL, 1 - TAIL)).tolist()
        # The drive that is named is one of those like it: it can be quicker than nearly all that are drawn.
        ends = _widen(min(low, named.low), max(high, named.high), error)
        found.append(ForecastTime(name, named, *ends))
    return tuple(found)


def _metrics(drawn: Sequence[Drawn], errors: Mapping[tuple[str, str], float]) -> tuple[ForecastMetric, ...]:
    by_key: dict[tuple[str, str], list[float]] = {}
    about: dict[tuple[str, str], Definition] = {}
    for item in drawn:
        for metric in item.metrics:
            key = (metric.definition.name, metric.subject)
            about.setdefault(key, metric.definition)
            by_key.setdefault(key, [])
            if metric.value is not None:
                by_key[key].append(float(metric.value))
    made = []
    for key, values in by_key.items():
        found = _range(values) if values else None
        wide = _widen(found.low, found.high, errors[key]) if found is not None and key in errors else (None, None)
        made.append(ForecastMetric(key[0], key[1], about[key].title, about[key].unit, found, *wide))
    return tuple(made)


def _widen(low: float, high: float, share: float) -> tuple[float, float]:
    """Return a range that is wider by a share of its ends."""
    return low - share * abs(low), high + share * abs(high)


def _range(values: Sequence[float]) -> ForecastRange:
    return ForecastRange(float(np.median(values)), float(min(values)), float(max(values)))


def churn_of(layouts: Sequence[VolumeLayout]) -> Churn:
    """Find out how much of a volume is new from each of its images to the next."""
    if len({(layout.facts.filesystem, layout.facts.uuid) for layout in layouts}) > 1:
        raise UsageError("the images are of different volumes; a forecast takes states of one, the oldest first")
    replaced: list[float] = []
    rewritten: list[float | None] = []
    for before, later in pairwise(layouts):
        tables = (layout.columns("entries") for layout in (before, later))
        old, new = (np.unique(table["file_id"].data[table["kind"].equals("file")]) for table in tables)
        replaced.append(float((~np.isin(new, old)).mean()) if len(new) else 0.0)
        nodes = select_own_nodes(later, filesystem_of(later).traits.main_tree)
        xids = nodes["xid"].signed()[nodes["level"].filled(1) == 0]
        last_xid = int(before.columns("nodes")["xid"].signed().max(initial=0))
        is_known = len(xids) and nodes["xid"].is_known.any()
        rewritten.append(float((xids > last_xid).mean()) if is_known else None)
    return Churn(tuple(replaced), tuple(rewritten), float(np.mean(replaced[:-1])) if len(replaced) > 1 else None)
