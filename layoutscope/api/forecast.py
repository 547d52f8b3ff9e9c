"""``forecast``: what a volume's layout will be like after some more cycles, and how long an enumeration will take.

Volumes like a known one, for predictions with an unknown placement, are aged in the same way.
"""

from __future__ import annotations

import dataclasses
import math
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from layoutscope.aging.layouts import build_aged_layout
from layoutscope.aging.volume import FullError, describe_workload, list_unaged_parts, model_errors
from layoutscope.api.keywords import profiles_of, several, takes
from layoutscope.api.outputs import write_page
from layoutscope.api.reading import make_request, only_volume, open_volumes
from layoutscope.api.workloads import check_workload, choose_host, fits, host_of, serve_walk, unknowns_of, walk
from layoutscope.drive import service
from layoutscope.drive.simulation import ALIGNED_BYTES, Part, draw_seconds
from layoutscope.drive.uncertain import START, VOLUME, Host, drawn, interval_of, num_draws, priors, quantiles, uncertain
from layoutscope.errors import UsageError
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics import measure
from layoutscope.metrics.history import (
    AS_LISTED,
    BEHIND,
    BY_NAME,
    FILES_PER_TRANSACTION,
    FOLDERS_FIRST,
    REUSED_BELOW,
    infer_creation_order,
    writing_metrics,
)
from layoutscope.metrics.scatter import select_own_nodes
from layoutscope.options import ForecastOptions, fill
from layoutscope.progress import phase
from layoutscope.remedies.changes import lay_in_read_order, pack_nodes
from layoutscope.report.plots import forecast_page
from layoutscope.results.plan import Churn, ForecastMetric, ForecastPoint, ForecastRange, ForecastResult, ForecastTime
from layoutscope.results.predict import PLACEMENT
from layoutscope.walk.host import HOST_WORDS
from layoutscope.walk.orders import trace

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Unpack

    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.aging.volume import AgingVolume, Policy
    from layoutscope.drive import DriveProfile
    from layoutscope.metrics import Definition, Metric
    from layoutscope.options import Workload
    from layoutscope.results.predict import DriveCase
    from layoutscope.tables import VolumeLayout


USUAL_SHARE: Final = 0.05


@takes(ForecastOptions)
def forecast(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], **options: Unpack[ForecastOptions]
) -> ForecastResult:
    """Describe what a volume will be like after some more cycles of work, by a model of how its file system allocates.

    Parameters
    ----------
    paths : path or sequence of path
        An image or capture; or several of one volume, the oldest first, which show how much is replaced from one to the
        next: that is then one cycle.

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
    cycles, drives, share = request["cycles"], request["drives"], request["share"]
    describe_workload(request["workload"])
    if share is not None and not 0 < share <= 1:
        raise UsageError(f"share must be more than 0 and at most 1: it is {share}")
    check_workload({"host": request["host"]})
    profiles = profiles_of(drives)
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
    layout: VolumeLayout, begin: AgingVolume, request: ForecastOptions, share: float, profiles: Sequence[DriveProfile]
) -> tuple[tuple[ForecastPoint, ...], tuple[str, ...]]:
    """Follow a volume through its cycles in each simulation; return its points, and where it could not go on."""
    cycles_a_step, steps, looked_at = plan_steps(request["cycles"], share)
    work, seeds = request["workload"], request["seeds"]
    draws: dict[int, list[Drawn]] = {step: [] for step in looked_at}
    notes: list[str] = []
    listing = check_workload({"host": request["host"]})
    unknowns = unknowns_of(listing)

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
            draws[0].append(look(layout, seed))
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
                if step in draws:
                    draws[step].append(look(build_aged_layout(layout, volume), seed))
    errors = model_errors(layout.facts.filesystem, str(request["host"]))
    points = []
    for step, found in draws.items():
        if found:
            known = errors if step else {}
            points.append(
                ForecastPoint(
                    cycle=step * cycles_a_step,
                    files=_range([item.files for item in found]),
                    nodes=_range([item.nodes for item in found]),
                    reads=_range([item.reads for item in found]),
                    times=_times(found, known),
                    metrics=_metrics(found, known),
                )
            )
    return tuple(points), tuple(dict.fromkeys(notes))


def _times(draws: Sequence[Drawn], errors: Mapping[tuple[str, str], float]) -> tuple[ForecastTime, ...]:
    found, error = [], errors.get((SECONDS, ""), 0.0)
    for name in draws[0].seconds:
        named = _range([item.seconds[name][0] for item in draws])
        similar = np.concatenate([item.seconds[name][1] for item in draws])
        low, high = quantiles(similar, (TAIL, 1 - TAIL)).tolist()
        # The drive that is named is one of those like it: it can be quicker than nearly all that are drawn.
        ends = _widen(min(low, named.low), max(high, named.high), error)
        found.append(ForecastTime(name, named, *ends))
    return tuple(found)


def _metrics(draws: Sequence[Drawn], errors: Mapping[tuple[str, str], float]) -> tuple[ForecastMetric, ...]:
    by_key: dict[tuple[str, str], list[float]] = {}
    about: dict[tuple[str, str], Definition] = {}
    for metric in chain.from_iterable(item.metrics for item in draws):
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


def readable(layout: VolumeLayout, host: str) -> AgingVolume:
    """Make a volume that can age of a layout, by the driver of a host."""
    # A file system that another package adds may have no model of what its driver writes.
    make = getattr(filesystem_of(layout), "aging", None)
    name = layout.facts.name
    if make is None:
        raise UsageError(f"{name}: how {layout.facts.variant} places new data is not modelled")
    volume: AgingVolume | None = make(layout, host)
    if volume is None:
        raise UsageError(f"{name}: no forecast of a volume whose tree was not read, or is spread over two devices")
    if not volume.entries.is_file.any():
        raise UsageError(f"{name}: no forecast of a volume without files: nothing would change")
    volume.policy = shown_policy(layout, host, volume.policy)
    return volume


def shown_policy(layout: VolumeLayout, host: str, usual: Policy) -> Policy:
    """Replace assumptions about a driver by what its volume shows: transactions, and where they are."""
    if filesystem_of(layout).written_by(layout) != host:
        return usual
    values = {metric.name: metric.value for metric in writing_metrics(layout)}
    files, behind = values.get(FILES_PER_TRANSACTION.name), values.get(BEHIND.name)
    shown: dict[str, Any] = {}
    told = dict(usual.assumes)
    if "files_per_transaction" in told and files:
        low, high = priors()["placement"]["transaction_files"]["range"]
        shown |= {"files_per_transaction": round(min(max(files, low), high)), "length_spread": SHOWN_SPREAD}
        told["files_per_transaction"] = f"A transaction writes about {files:,.0f} files, as the last ones did."
    if "next_fit" in told and behind is not None and behind < REUSED_BELOW:
        shown["next_fit"] = False
        told["next_fit"] = "Freed blocks are used again, as they were on this volume."
    return dataclasses.replace(usual, **shown, assumes=told)


SHOWN_SPREAD: Final = 1.25
"""Factor within which lengths of transactions are drawn that a volume shows."""

VOLUMES: Final = 8

DRAWN_VOLUMES: Final = 16
"""Volumes that are made, the first of those that are drawn."""

AGED_SHARE: Final = 0.05
"""Share of the files that a cycle replaces, as an age for a volume in use."""

LAID_OUT: Final = {AS_LISTED: "walk-order", BY_NAME: "packed", FOLDERS_FIRST: "packed"}
"""Where nodes of new volumes are, by the order in which files were added: in walk order, or by key."""


def volumes_alike(layout: VolumeLayout, host: str) -> list[tuple[str, int, VolumeLayout]]:
    """Make volumes with the files of one that is known: how their files came, their ages in cycles, their layouts.

    Files come as they did on the one that is known, if its numbers show that.
    """
    prior, shown = priors()["placement"], infer_creation_order(layout)
    names = [shown or str(word) for word in drawn("placement.creation", prior["creation"], DRAWN_VOLUMES)[:VOLUMES]]
    ages = [int(age) for age in drawn("placement.age", prior["age"], DRAWN_VOLUMES)[:VOLUMES]]
    made: dict[tuple[str, int], VolumeLayout] = {}
    wanted = {way: {age for name, age in zip(names, ages, strict=True) if LAID_OUT[name] == way} for way in NEW}
    steps = sum(max(each, default=0) for each in wanted.values())
    with phase("ageing volumes like that", max(steps, 1), unit="steps") as under_way:
        for way, at in wanted.items():
            new = pack_nodes(layout) if way == "packed" else lay_in_read_order(layout, trace(layout, host=host))
            volume, rng = readable(new, host).copy(), np.random.default_rng(1)
            for cycle in range(max(at, default=-1) + 1):
                if cycle:
                    try:
                        volume.age("replace", max(round(AGED_SHARE * volume.entries.is_file.sum()), 1), rng)
                    except FullError:
                        # What no longer fits stays as old as it became.
                        made |= {(way, age): build_aged_layout(new, volume) for age in at if age >= cycle}
                        break
                    under_way.advance()
                if cycle in at:
                    made[way, cycle] = build_aged_layout(new, volume) if cycle else new
    return [(name, age, made[LAID_OUT[name], age]) for name, age in zip(names, ages, strict=True)]


NEW: Final = tuple(dict.fromkeys(LAID_OUT.values()))


def add_volumes_alike(
    layout: VolumeLayout, work: Workload, reads: AccessTrace, cases: Iterable[tuple[DriveCase, DriveProfile]]
) -> Iterator[DriveCase]:
    """Add to predictions for drives what the same work on volumes like the known one takes there."""
    host = host_of(work, layout)
    volumes = volumes_alike(layout, host.name)
    walks = [walk(made, work, host).reads for _, _, made in volumes]
    number = np.arange(num_draws())
    taken = number % len(walks)
    placed = {
        "creation": (PLACEMENT, np.array([creation for creation, _, _ in volumes])[taken]),
        "age": (PLACEMENT, np.array([age for _, age, _ in volumes])[taken]),
    }
    for case, profile in cases:
        # Drives like that are drawn, and in turn the volumes, each anywhere on its drive.
        unknown = uncertain(profile, Host.of(host), knows_offset=False)
        seconds = np.zeros(num_draws())
        for volume, walked in enumerate(walks):
            mine = number[taken == volume]
            seconds[mine] = draw_seconds(Part(walked, profile), unknown, numbers=mine).seconds
        inputs = {**unknown.columns(), **placed, START: (START, unknown.angle)}
        # The volume itself is served at the start of the drive and in the middle, if it fits.
        half = profile.capacity_bytes // 2 // ALIGNED_BYTES * ALIGNED_BYTES
        halves_s: tuple[float, ...] = ()
        if profile.geometry != "none" and layout.facts.size_bytes <= half:
            begins = -layout.facts.image_offset
            halves_s = tuple(service(reads, profile, start_offset_bytes=begins + at).seconds for at in (0, half))
        yield replace(case, volume=interval_of(seconds, inputs, VOLUME), halves_s=halves_s)
