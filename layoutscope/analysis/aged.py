"""The curve of a volume that ages: several draws of what happens to it, each measured and walked after some cycles."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.aging.layouts import build_aged_layout
from layoutscope.aging.volume import FullError, model_errors
from layoutscope.aging.volume import workload as workload_of
from layoutscope.drive.uncertain import drawn, priors, quantiles
from layoutscope.errors import UsageError
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics import measure
from layoutscope.metrics.space import select_own_nodes
from layoutscope.progress import phase
from layoutscope.results.forecast import Churn, ForecastMetric, ForecastPoint, ForecastRange, ForecastTime
from layoutscope.walk.whatif import what_if

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.aging.volume import AgingVolume, CycleKind
    from layoutscope.metrics import Definition
    from layoutscope.tables import VolumeLayout

MAX_STEPS: Final = 40
"""Steps that are followed; of more cycles, several are one step."""
MAX_SHARE: Final = 0.5
"""Share of the files that one step may be about."""
SECONDS: Final = "seconds"
"""What times are called among the numbers of which it is known by how much the model was off."""
POINTS: Final = 4
TAIL: Final = 0.05
"""Share of drives that is left out at either end."""


class Steps(NamedTuple):
    """How cycles are followed."""

    cycles_a_step: int  # cycles of one step
    steps: int  # how many steps there are
    at: tuple[int, ...]  # after which of them the volume is looked at


def planned(cycles: int, share: float) -> Steps:
    """Steps how cycles are followed: no more than :data:`MAX_STEPS` steps, none with more than half of the files.

    >>> planned(20, 0.05), planned(400, 0.05), planned(10_000, 0.05)
    (Steps(cycles_a_step=1, steps=20, at=(0, 5, 10, 15, 20)), \
Steps(cycles_a_step=10, steps=40, at=(0, 10, 20, 30, 40)), Steps(cycles_a_step=10, steps=40, at=(0, 10, 20, 30, 40)))
    >>> planned(0, 0.05).at
    (0,)
    """
    each = min(math.ceil(cycles / MAX_STEPS), max(int(MAX_SHARE / share), 1)) if cycles else 1
    steps = min(cycles // each, MAX_STEPS)
    return Steps(each, steps, tuple(sorted({round(steps * part / POINTS) for part in range(POINTS + 1)})))


class Drawn(NamedTuple):
    """One draw of a volume after some cycles: its layout's numbers, and seconds on drives as named and like them."""

    files: int
    nodes: int
    reads: int
    profiles: tuple[str, ...]
    seconds: tuple[float, ...]
    drives: tuple[NDArray[np.float64], ...]
    metrics: tuple[Any, ...]


class Alike(NamedTuple):
    """A volume like one that is known: the order in which its files came, its age in cycles, its layout."""

    creation: str
    age: int
    layout: VolumeLayout


VOLUMES: Final = 8
DRAWN_VOLUMES: Final = 16
"""Volumes that are made, the first of those that are drawn."""
AGED_SHARE: Final = 0.05
"""Of the files that a cycle replaces, as the age of a volume in use is meant."""
LAID_OUT: Final = {"hash": "walk-order", "alphabetical": "packed", "numbered": "packed"}
"""How nodes of new volumes lie, by the order in which their files came: as they are walked, or by their keys."""


def volumes_alike(layout: VolumeLayout, host: str) -> list[Alike]:
    """Make volumes with the files of one that is known, laid out in other orders and aged by other cycles."""
    prior = priors()["placement"]
    names = [str(word) for word in drawn("placement.creation", prior["creation"], DRAWN_VOLUMES)[:VOLUMES]]
    ages = [int(age) for age in drawn("placement.age", prior["age"], DRAWN_VOLUMES)[:VOLUMES]]
    made: dict[tuple[str, int], VolumeLayout] = {}
    wanted = {way: {age for name, age in zip(names, ages, strict=True) if LAID_OUT[name] == way} for way in NEW}
    steps = sum(max(each, default=0) for each in wanted.values())
    with phase("ageing volumes like that", max(steps, 1), unit="steps") as under_way:
        for way, at in wanted.items():
            new = what_if(way, layout, host).layout
            volume, rng = readable(new, host).copy(), np.random.default_rng(1)
            for cycle in range(max(at, default=-1) + 1):
                if cycle:
                    try:
                        volume.age(
                            workload_of("replace"), max(round(AGED_SHARE * volume.entries.is_file.sum()), 1), rng
                        )
                    except FullError:
                        # What no longer fits stays as old as it became.
                        made |= {(way, age): build_aged_layout(new, volume) for age in at if age >= cycle}
                        break
                    under_way.advance()
                if cycle in at:
                    made[way, cycle] = build_aged_layout(new, volume) if cycle else new
    return [Alike(name, age, made[LAID_OUT[name], age]) for name, age in zip(names, ages, strict=True)]


NEW: Final = tuple(dict.fromkeys(LAID_OUT.values()))


class Asked(NamedTuple):
    """What is asked: a workload, to which share of the files, how often drawn, how long snapshots are kept, by whom."""

    workload: CycleKind
    share: float
    seeds: int
    keep_snapshots: int
    host: str


def readable(layout: VolumeLayout, host: str) -> AgingVolume:
    """Make a volume that can age of a layout, by the driver of a host."""
    # A file system that another package adds may have no model of what its driver writes.
    make = getattr(filesystem_of(layout), "aging", None)
    name = layout.facts.name
    if make is None:
        raise UsageError(f"{name}: how {layout.facts.variant} places what it is given is not known here")
    volume: AgingVolume | None = make(layout, host)
    if volume is None:
        raise UsageError(f"{name}: no forecast of a volume whose tree was not read, or lies on two devices")
    if not volume.entries.is_file.any():
        raise UsageError(f"{name}: no forecast of a volume without files: nothing would change")
    return volume


def followed(
    layout: VolumeLayout, begin: AgingVolume, asked: Asked, plan: Steps, look: Callable[[VolumeLayout, int], Drawn]
) -> tuple[tuple[ForecastPoint, ...], tuple[str, ...]]:
    """Follow a volume through its cycles, once for each draw."""
    drawn: dict[int, list[Drawn]] = {step: [] for step in plan.at}
    notes: list[str] = []
    with phase("following the cycles", asked.seeds * max(plan.steps, 1), unit="steps") as under_way:
        for seed in range(asked.seeds):
            rng = np.random.default_rng([1, seed])
            volume = begin.copy()
            volume.policy = begin.policy.drawn((2 * seed + 1) / asked.seeds - 1 if asked.seeds > 1 else 0.0)
            volume.keep_cycles = asked.keep_snapshots
            # As it is, the volume is the same in all draws.
            drawn[0].append(look(layout, seed))
            for step in range(1, plan.steps + 1):
                wanted = asked.share * plan.cycles_a_step * int(volume.entries.is_file.sum())
                try:
                    volume.age(asked.workload, max(round(wanted), 1), rng)
                except FullError as error:
                    notes.append(f"After cycle {(step - 1) * plan.cycles_a_step:,} of a draw {error}.")
                    break
                under_way.advance()
                if not volume.entries.is_file.any():
                    notes.append(f"After cycle {step * plan.cycles_a_step:,} no file is left.")
                    break
                if step in drawn:
                    drawn[step].append(look(build_aged_layout(layout, volume), seed))
    errors = model_errors(layout.facts.filesystem, asked.host)
    points = tuple(
        _point(step * plan.cycles_a_step, found, errors if step else {}) for step, found in drawn.items() if found
    )
    return points, tuple(dict.fromkeys(notes))


def measured_layout(layout: VolumeLayout) -> tuple[int, int, tuple[Any, ...]]:
    """Count the files of a layout and the leaves that an enumeration reads, and measure it."""
    nodes = select_own_nodes(layout, filesystem_of(layout).traits.main_tree)
    files = int(layout.columns("entries")["kind"].equals("file").sum())
    return files, int((nodes["level"].filled(1) == 0).sum()), measure(layout)


def _point(cycle: int, drawn: Sequence[Drawn], errors: Mapping[tuple[str, str], float]) -> ForecastPoint:
    files, nodes, reads = (_range([getattr(item, name) for item in drawn]) for name in ("files", "nodes", "reads"))
    return ForecastPoint(cycle, files, nodes, reads, _times(drawn, errors), _metrics(drawn, errors))


def _times(drawn: Sequence[Drawn], errors: Mapping[tuple[str, str], float]) -> tuple[ForecastTime, ...]:
    found, error = [], errors.get((SECONDS, ""), 0.0)
    for number, name in enumerate(drawn[0].profiles):
        named = _range([item.seconds[number] for item in drawn])
        low, high = quantiles(np.concatenate([item.drives[number] for item in drawn]), (TAIL, 1 - TAIL)).tolist()
        # The drive that is named is one of those like it: it can be quicker than nearly all that are drawn.
        ends = _widened(min(low, named.low), max(high, named.high), error)
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
        wide = _widened(found.low, found.high, errors[key]) if found is not None and key in errors else (None, None)
        made.append(ForecastMetric(key[0], key[1], about[key].title, about[key].unit, found, *wide))
    return tuple(made)


def _widened(low: float, high: float, share: float) -> tuple[float, float]:
    """Return a range that is wider by a share of its ends."""
    return low - share * abs(low), high + share * abs(high)


def _range(values: Sequence[float]) -> ForecastRange:
    return ForecastRange(float(np.median(values)), float(min(values)), float(max(values)))


def churn_of(layouts: Sequence[VolumeLayout]) -> Churn:
    """Find out how much of a volume is new from each of its images to the next."""
    if len({(layout.facts.filesystem, layout.facts.uuid) for layout in layouts}) > 1:
        raise UsageError("the images are of different volumes; a forecast takes states of one, the oldest first")
    ids = [_file_ids(layout) for layout in layouts]
    pairs = list(pairwise(ids))
    replaced = tuple(float((~np.isin(later, before)).mean()) if len(later) else 0.0 for before, later in pairs)
    rewritten = tuple(_rewritten(before, later) for before, later in pairwise(layouts))
    return Churn(replaced, rewritten, float(np.mean(replaced[:-1])) if len(replaced) > 1 else None)


def _file_ids(layout: VolumeLayout) -> NDArray[np.uint64]:
    table = layout.columns("entries")
    found: NDArray[np.uint64] = np.unique(table["file_id"].data[table["kind"].equals("file")])
    return found


def _rewritten(before: VolumeLayout, later: VolumeLayout) -> float | None:
    nodes = select_own_nodes(later, filesystem_of(later).traits.main_tree)
    xids = nodes["xid"].signed()[nodes["level"].filled(1) == 0]
    if not len(xids) or not nodes["xid"].is_known.any():
        return None
    return float((xids > int(before.columns("nodes")["xid"].signed().max(initial=0))).mean())
