"""The calibration of a drive from its first read to its profile: the steps in order, and when it is enough.

What is predicted of a drive is known as well as its figures are. They are drawn again from reads that are drawn again
from those that were made (the bootstrap), until the predicted walk, or without one that of reads all over the drive, is
known within a tenth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.drive.calibration.assemble import (
    Disk,
    buffered,
    disk_profile,
    fit_disk,
    fit_tracks,
    fit_turn_ms,
    hit_figures,
    longest_step_ms,
    moves,
    profile_of,
    refit_curve,
    replay_of,
    rough_tracks,
    track_numbers,
)
from layoutscope.drive.calibration.plan import DEPTHS, FLASH_DEPTHS, SEED, SMALL, Calibration
from layoutscope.drive.profile import Spread
from layoutscope.drive.simulation import service
from layoutscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.drive.calibration.assemble import SeekCurve
    from layoutscope.drive.calibration.plan import ReadLog
    from layoutscope.drive.profile import DriveProfile

ROUND: Final = 480
ROUNDS: Final = 8
"""Reads of pairs in a round, and rounds at most."""
FEWEST_ROUNDS: Final = 6
DRAWS: Final = 32
KNOWN: Final = 0.10
"""Half of the 90 % interval of the walk, or of reads all over the drive, as a share, at which it is enough."""
NORMAL_95: Final = 1.645
HELD_BACK_ERROR: Final = {"uniform": 0.03, "walk": 0.10}
"""How far the reads that were held back may be off on the average: anywhere, and of a walk."""


class HeldBack(Struct, frozen=True):
    """Reads that nothing was fitted to, beside what is predicted of them."""

    step: str  # `uniform` or `walk`
    reads: int
    # seen_ms, predicted_ms: means
    seen_ms: float
    predicted_ms: float

    @property
    def ratio(self) -> float:
        """Return seen over predicted."""
        return self.seen_ms / self.predicted_ms


class Calibrated(Struct, frozen=True):
    """A drive that was measured."""

    profile: DriveProfile  # with its spread
    log: ReadLog  # all reads
    known: float  # half of the 90 % interval of the walk, or without one of reads all over the drive, as a share
    held_back: tuple[HeldBack, ...]  # what speaks for the profile, or against it
    # tracks, residual_ms: distances of the pairs, and what each took less positioning and half a turn; empty on flash
    tracks: NDArray[np.float64]
    residual_ms: NDArray[np.float64]


def calibrate(plan: Calibration, name: str, walk: Sequence[tuple[int, int]] = ()) -> Calibrated:
    """Measure a drive."""
    if plan.is_flash():
        plan.sizes()
        plan.rates()
        plan.deep(FLASH_DEPTHS)
        plan.walk(walk)
        return judged(plan.log, name)
    plan.turn()
    turn = fit_turn_ms(plan.log)
    plan.rates()
    plan.tracks(rough_tracks(plan.log, turn))
    tracks = fit_tracks(plan.log, turn)
    plan.hits()
    plan.streams()
    plan.skips()
    plan.behind()
    for number in range(ROUNDS):
        plan.pairs(ROUND, float(tracks.track_bytes.min()) / 2)
        if number + 1 >= FEWEST_ROUNDS and is_known(plan.log, walk):
            break
    plan.uniform()
    plan.back()
    plan.deep(DEPTHS)
    plan.walk(walk)
    return judged(plan.log, name)


def judged(log: ReadLog, name: str) -> Calibrated:
    """Make the profile of a log, of `calibrate` or the kit for Macs, and hold it against what was held back."""
    if len(log.of("sizes")):
        return _flash(log, name)
    disk = fit_disk(log)
    profile = disk_profile(log, name, disk)
    curves = bootstrap_curves(log, disk)
    figures, draws = redrawn(log, curves, longest_step_ms(log, disk), profile)
    covariance = np.cov(np.log(np.maximum(draws, 1e-9)).T)
    spread = Spread(figures, tuple(tuple(row) for row in covariance.tolist()))
    distance, times = moves(log, disk.tracks, disk.turn_ms)
    held = [_compare_uniform(log, disk)] if len(log.of("uniform")) else []
    return Calibrated(
        profile=_fit_queue_window(log, replace(profile, spread=spread)),
        log=log,
        known=mean_half_range(curves, disk.turn_ms, moves_of(log, disk, _list_walked(log))),
        held_back=tuple(held) + _compare_walk(log, profile),
        tracks=distance,
        residual_ms=times - disk.curve.at(distance) - disk.turn_ms / 2,
    )


def is_known(log: ReadLog, walk: Sequence[tuple[int, int]]) -> bool:
    """Tell whether what is predicted of a walk, or without one of reads all over the drive, is known well enough."""
    disk = fit_disk(log)
    return mean_half_range(bootstrap_curves(log, disk), disk.turn_ms, moves_of(log, disk, walk)) < KNOWN


def bootstrap_curves(log: ReadLog, disk: Disk) -> list[SeekCurve]:
    """Fit the curve to pairs that are drawn again from those that were read (the bootstrap)."""
    distance, times = moves(log, disk.tracks, disk.turn_ms)
    random = np.random.default_rng(SEED)
    draws = (random.integers(0, len(times), len(times)) for _ in range(DRAWS))
    return [refit_curve(disk.curve, distance[drawn], times[drawn], disk.turn_ms) for drawn in draws]


def mean_half_range(curves: Sequence[SeekCurve], turn_ms: float, tracks: NDArray[np.float64]) -> float:
    """Return half of the 90 % interval of the mean of reads at some distances, as a share."""
    means = [float(curve.at(tracks).mean()) + turn_ms / 2 for curve in curves]
    return float(NORMAL_95 * np.std(means) / np.mean(means))


def moves_of(log: ReadLog, disk: Disk, walk: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """Return how far the reads of a walk move the arm, in tracks; where they do not, reads all over the drive."""
    reads = np.array(walk, np.int64).reshape(-1, 2)
    jumps = reads[1:, 0] != reads[:-1].sum(axis=1)
    number = track_numbers(disk.tracks, reads[:, 0], log.capacity_bytes)
    if jumps.any():
        return np.asarray(np.abs(np.diff(number))[jumps])
    offsets = np.random.default_rng(SEED).integers(0, log.capacity_bytes, 2000)
    return np.abs(np.diff(track_numbers(disk.tracks, offsets, log.capacity_bytes)))


def _list_walked(log: ReadLog) -> list[tuple[int, int]]:
    part = log.of("walk")
    return list(zip(part.offset.tolist(), part.length.tolist(), strict=True))


def redrawn(
    log: ReadLog, curves: Sequence[SeekCurve], step_ms: float, profile: DriveProfile
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Return the names of the figures that reads were fitted to, and their values by reads drawn again."""
    places = np.array(profile.numbers("seek_distance_cylinders")) * profile.number("heads")
    miss = profile.number("read_miss_ms")
    hits = buffered(log)
    rows = []
    random = np.random.default_rng(SEED)
    for curve in curves:
        again = hit_figures(hits.where(random.integers(0, max(len(hits), 1), len(hits))))
        seeks = np.maximum.accumulate(np.maximum(curve.at(places) - miss, 0.01))
        seeks[0] = min(seeks[0], max(step_ms, 0.01))
        rows.append([60_000 / _turn_again(log, random), again.get("read_hit_ms", 1.0), *seeks.tolist()])
    names = ("rpm", "read_hit_ms", *(f"seek_ms[{k}]" for k in range(len(places))))
    return names, np.array(rows)


def _turn_again(log: ReadLog, random: np.random.Generator) -> float:
    """Return the turn of reads whose ends are jittered by as much as they were seen to be."""
    steps = np.diff(log.of("turn").done_ms)
    jitter = float(np.median(np.abs(steps - np.median(steps))))
    late = np.rint(random.normal(0, jitter, len(log)) * 1e6).astype(np.int64)
    return fit_turn_ms(replace(log, ns=log.ns + late))


def _compare_uniform(log: ReadLog, disk: Disk) -> HeldBack:
    """Compare reads anywhere with the curve, half a turn and the transfer."""
    part = log.of("uniform")
    number = track_numbers(disk.tracks, part.offset, log.capacity_bytes)
    transfer = part.length / np.interp(part.offset, disk.tracks.offset, disk.tracks.track_bytes) * disk.turn_ms
    expected = disk.curve.at(np.abs(np.diff(number))) + disk.turn_ms / 2 + transfer[1:]
    return HeldBack("uniform", len(expected), float(part.ms[1:].mean()), float(expected.mean()))


def _compare_walk(log: ReadLog, profile: DriveProfile) -> tuple[HeldBack, ...]:
    """Compare the walk of an image with what the drive model makes of it."""
    part = log.of("walk")
    if not len(part):
        return ()
    expected = service(replay_of(part), profile, phases=1).reads_ms.service_ms
    return (HeldBack("walk", len(part), float(part.ms.mean()), float(expected.mean())),)


def _fit_queue_window(log: ReadLog, profile: DriveProfile) -> DriveProfile:
    """Say among how many commands the drive chooses: as many as make many reads at once that much quicker."""
    deep, alone = log.of(f"depth{DEPTHS[-1]}"), log.of("uniform")
    if not len(deep) or not len(alone):
        return profile
    quicker = float(alone.ms.mean()) / (float(deep.ms[0]) / (int(deep.length[0]) / SMALL))
    # Of n places the nearest is met after about 1/n of the stroke and of the turn; seeks of such distances take longer
    # than their share, so that a drive that is quicker by a quarter chooses among two, by a half among four.
    window = int(2 ** np.clip(np.rint((quicker - 1) * 4), 0, 5))
    return replace(profile, figures={**profile.figures, **profile_of("", "hdd", {"queue_window": window}).figures})


def _flash(log: ReadLog, name: str) -> Calibrated:
    """Make the profile of flash: latencies by size, the rate, and how many reads proceed side by side."""
    sizes = np.unique(log.of("sizes").length)
    groups = [log.where((log.step == "sizes") & (log.length == size)).ms * 1000 for size in sizes]
    rates = log.of("rates")
    figures: dict[str, Any] = {
        "capacity_bytes": log.capacity_bytes,
        "latency_bytes": sizes.tolist(),
        "latency_us": np.maximum.accumulate([float(np.mean(group)) for group in groups]).tolist(),
    }
    if not len(rates):
        raise UsageError("the log has no streams, which tell the rate of flash")
    figures["bandwidth_mb_s"] = float(rates.length.sum() / rates.ns.sum() * 1000)
    together = [log.where(log.step == f"depth{depth}") for depth in FLASH_DEPTHS]
    taken = [float(part.ms[0]) for part in together if len(part)]
    figures["parallel_reads"] = max(int(np.rint(taken[0] / min(taken))), 1) if taken else 1
    random = np.random.default_rng(SEED)
    draws = np.array([[random.choice(group, len(group)).mean() for group in groups] for _ in range(DRAWS)])
    covariance = np.atleast_2d(np.cov(np.log(draws).T))
    names = tuple(f"latency_us[{k}]" for k in range(len(sizes)))
    profile = profile_of(name, "ssd", figures)
    profile = replace(profile, spread=Spread(names, tuple(tuple(row) for row in covariance.tolist())))
    error = float(NORMAL_95 * np.sqrt(covariance[0, 0]))
    nothing = np.empty(0)
    return Calibrated(profile, log, error, _compare_walk(log, profile), nothing, nothing)
