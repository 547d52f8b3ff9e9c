"""A drive's profile from its calibration: tracks, seeks, overheads, buffer, queue, and the accuracy of each.

Some actions of the drive, such as read-ahead, do not show in any single time. The fit chooses the settings of the drive
model that best reproduce the observed times. To find the accuracy of the figures, it fits them again to reads that are
resampled from the measured ones (the bootstrap). A short measurement, or one of disks that act as one drive, gives only
some figures; the others are those of the most similar class of drives.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.access.trace import AccessTrace
from layoutscope.display import Struct
from layoutscope.drive.calibration.plan import (
    ACROSS,
    ARM_PLACES,
    ARRIVAL,
    DEPTH,
    FEWEST_TURNS,
    FLASH_DEPTHS,
    LADDER,
    LARGE,
    PLACES,
    QUICK,
    REPEATED,
    SEED,
    SMALL,
    STREAMS,
    SWEPT_TRACKS,
    Calibration,
    keeps_streams,
    quick_ms,
)
from layoutscope.drive.geometry import outer_track_sectors
from layoutscope.drive.hdd import SECTOR_BYTES, TURN
from layoutscope.drive.profile import DriveProfile, Figure, Spread, fit_latency, fit_rate, list_profiles, load_profile
from layoutscope.drive.simulation import place_reads, serve, service
from layoutscope.errors import UsageError
from layoutscope.units import format_share

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.drive.calibration.plan import ReadLog

    F64 = NDArray[np.float64]

SWEEP_FEWEST: Final = 8
SKEWS: Final = 64
"""Number of skews that are tried, evenly spaced over a revolution."""
LEAST_REACH: Final = 0.001
LEAST_MS: Final = 1e-6
"""Resolution of a stream's times: one clock tick."""
MARGIN: Final = 8.0
"""Range around the track size from equal steps in which other sizes are tried: a share, and this many of its errors."""
SHORTEST_TURN_MS, LONGEST_TURN_MS = 3.5, 17.0
"""From above 15,000 to 3,600 revolutions per minute."""
ALIKE: Final = 0.8
"""Required similarity of the angles of reads of one place, as the length of their mean direction."""
NEAR: Final = 0.02
"""Share of a revolution by which equal steps may differ."""


class Tracks(Struct, frozen=True):
    """Rotation, and tracks at places of a disk; arrays have shape (n_places,)."""

    turn_ms: float  # time of a revolution
    offset: NDArray[np.float64]  # of the places, in bytes
    track_bytes: NDArray[np.float64]  # size of a track
    skew_turns: NDArray[np.float64]  # revolutions between the end of a track and the start of the next
    error: NDArray[np.float64]  # deviation of angles from those of such tracks, root mean square, in revolutions


def fit_turn_ms(log: ReadLog) -> float:
    """Return the time of a revolution in milliseconds.

    Each read of a step is one stride below the previous read. It completes a revolution later, minus the time in which
    the stride passes. Two different strides allow both times to be computed.
    """
    if "turn-wide" not in log.step:
        return fit_whole_turns(log.of("turn"))
    strides, periods = [], []
    for name in ("turn", "turn-wide"):
        part = log.of(name)
        steps = np.diff(part.done_ms)[2:]
        if len(steps) < 10:
            raise UsageError("the log has too few reads to measure the rotation of the disk")
        middle = float(np.median(steps))
        regular = np.abs(steps - middle) < NEAR * middle
        if regular.sum() < len(steps) / 2:
            raise UsageError("the reads show no rotation. Stop other programs that read the disk.")
        strides.append(float(np.median(-np.diff(part.offset))))
        # The period is one slope for all rows of reads that do not cross a track.
        row = np.cumsum(~np.concatenate([[True], regular]))
        count = np.maximum(np.bincount(row), 1)
        place, time = (
            values - (np.bincount(row, values) / count)[row]
            for values in (np.arange(len(row), dtype=np.float64), part.done_ms[2:])
        )
        periods.append(float(place @ time / (place @ place)))
    per_byte = (periods[0] - periods[1]) / (strides[1] - strides[0])
    return periods[0] + strides[0] * per_byte


def fit_whole_turns(log: ReadLog) -> float:
    """Return the revolution time from the intervals between two reads of a place, which are multiples of it."""
    half = len(log) // 2
    if half < FEWEST_TURNS:
        raise UsageError("the log has too few reads to measure the rotation of the disk")
    first, last = log.take(np.arange(half)), log.take(np.arange(half, 2 * half)[::-1])
    from_medium = last.ms > float(np.median(first.ms)) / QUICK
    between = ((last.at_ns + last.ns - first.at_ns - first.ns) / 1e6)[from_medium]
    # The number of frequencies to try is the number of revolutions in the longest time.
    if len(between) < FEWEST_TURNS or between.max() > 1000 * LONGEST_S:
        raise UsageError("the log has too few reads to measure the rotation of the disk")
    # The step between the tried frequencies is a tenth of a revolution over the longest time.
    tried = np.arange(1 / LONGEST_TURN_MS, 1 / SHORTEST_TURN_MS, 0.1 / float(between.max()))
    alike = np.array([np.abs(np.exp(2j * np.pi * frequency * between).mean()) for frequency in tried])
    if alike.max() < ALIKE:
        raise UsageError("the reads show no rotation. Stop other programs that read the disk.")
    # Half a revolution and other fractions fit equally well: the longest period is the revolution.
    near = np.flatnonzero(alike > ALIKE * alike.max())
    peak = near[near < near[0] + 20]
    turn = 1 / float(tried[peak[np.argmax(alike[peak])]])
    for _ in range(3):
        turns = np.rint(between / turn)
        regular = np.abs(between / turn - turns) < 2 * NEAR
        turn = float(turns[regular] @ between[regular] / (turns[regular] @ turns[regular]))
    return turn


def stream_rates(log: ReadLog) -> F64:
    """Return the rate of each stream in bytes per millisecond, place by place."""
    part = log.of("rates")
    if not len(part):
        return np.empty(0)
    starts = np.flatnonzero(np.diff(part.offset, prepend=-(1 << 62)) != np.concatenate([[0], part.length[:-1]]))
    rates = []
    for first, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(part)], strict=True):
        # The first read includes a seek.
        taken = part.done_ms[stop - 1] - part.done_ms[first]
        rates.append(max(float(part.length[first + 1 : stop].sum()), 1.0) / max(taken, LEAST_MS))
    return np.array(rates)


def fit_tracks(log: ReadLog, turn_ms: float) -> Tracks:
    """Return the size and skew of tracks at each place where some were read downwards."""
    part = log.of("tracks")
    if not len(part):
        raise UsageError("the log has no reads to measure the tracks of the disk")
    if ARRIVAL in log.step:
        upwards = np.sort(part.offset)
        place = np.searchsorted(upwards[1:][np.diff(upwards) > LARGE], part.offset, side="right")
        part = part.take(np.lexsort((-part.offset, place)))
    ends = np.append(np.flatnonzero(np.diff(part.offset) > 0), len(part) - 1)
    rows = []
    first = 0
    for last in ends.tolist():
        one = part.take(np.arange(first, last + 1))
        first = last + 1
        if len(one) < SWEEP_FEWEST:
            raise UsageError("the log has too few reads to measure the tracks of the disk")
        angle = one.done_ms / turn_ms % 1
        rows.append((float(one.offset.mean()), *one_place(one.offset + one.length, angle)))
    columns = np.array(rows).T
    return Tracks(turn_ms, *columns)


def one_place(ends: NDArray[np.int64], angle: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return track size, skew and error from reads that each end a share of a revolution below the previous read."""
    stride = float(-np.diff(ends).mean())
    steps = -np.diff(angle) % 1
    # Most steps stay on a track, and turn by the same share; the others add the skew.
    ordered = np.sort(np.concatenate([steps, steps + 1]))
    width = len(steps) // 2
    first = int(np.argmin(ordered[width:] - ordered[:-width]))
    equal = ordered[first : first + width + 1]
    share = float(equal.mean()) % 1
    # With an exact clock, the equal steps give the track size; with jitter, all angles together are more accurate.
    reach = LEAST_REACH + MARGIN * float(equal.std()) / share / np.sqrt(width)
    best = (np.inf, 0.0, 0.0, 0.0)
    for rough in stride / share * np.linspace(1 - reach, 1 + reach, 33):
        best = min(best, _best_skew(ends, angle, float(rough)))
    misfit, size, skew, begin = best
    crossed = np.floor((ends - begin) / size)
    left = angle - ends / size - skew * crossed
    centre = np.angle(np.exp(2j * np.pi * left).mean()) / (2 * np.pi)
    left = (left - centre + 0.5) % 1 - 0.5
    # Between the steps of this search, a line through the residuals gives size and skew. Where zones meet, no line
    # fits, so the values of the search stay.
    table = np.stack([np.ones(len(ends)), ends - ends.mean(), crossed - crossed.mean()], axis=1)
    change, *_ = np.linalg.lstsq(table, left, rcond=None)
    if (np.abs(left) < NEAR).all():
        misfit = 1 - float(np.abs(np.exp(2j * np.pi * (left - table @ change)).mean()))
        size, skew = 1 / (1 / size + float(change[1])), (skew + float(change[2])) % 1
    return size, skew, float(np.sqrt(-2 * np.log(max(1 - misfit, 1e-12))) / (2 * np.pi))


def _best_skew(ends: NDArray[np.int64], angle: F64, size: float) -> tuple[float, float, float, float]:
    """Return the least misfit of tracks of a size, the size, the best skew, and where a track begins."""
    begins = (np.arange(24) / 24) * size
    crossed = np.floor((ends - begins[:, None]) / size)
    crossed -= crossed.min()
    left = angle - ends / size - (np.arange(SKEWS) / SKEWS)[:, None, None] * crossed
    misfit = 1 - np.abs(np.exp(2j * np.pi * left).mean(axis=-1))
    at = np.unravel_index(int(np.argmin(misfit)), misfit.shape)
    return float(misfit[at]), size, float(at[0] / SKEWS), float(begins[at[1]])


SOFT: Final = (0.01, 0.02, 0.04)
"""Softness of the edges in revolutions; the likelihood chooses one."""
KNEES: Final = (0.02, 0.05, 0.1, 0.2, 0.35)
"""Shares of the stroke at which the arm may reach its greatest speed; the likelihood chooses one."""
STRAY_SHARE: Final = 0.05
STRAY_TURNS: Final = 4.0
"""Share of reads that lose a revolution, cross a track, or were disturbed, and the spread of their times."""
BENDS: Final = 16
BEND_SHARE: Final = 0.06
"""Number of places at which the curve may deviate from the formula, and the expected deviation (assumed)."""
FEWEST: Final = 100
TRIES: Final = 60


class SeekCurve(Struct, frozen=True):
    """Overhead and seek by distance: ``a + b sqrt(d) + c log(d)`` up to the knee, beyond it linear in `d`."""

    # milliseconds of the constant, the square root, the logarithm and the line beyond the knee, and the deviations of
    # the curve from that formula at `bends`
    weights: F64
    knee: float  # tracks
    bends: F64  # tracks
    soft: float  # softness of the edges of the wait, in turns
    likelihood: float  # logarithm of the likelihood of the reads

    def at(self, tracks: F64) -> F64:
        """Return milliseconds by distance in tracks."""
        return np.asarray(terms(tracks, self.knee, self.bends) @ self.weights)


def terms(tracks: F64, knee: float, bends: F64) -> F64:
    """Return the terms of the curve."""
    near = np.clip(tracks, 1, knee)
    beyond = np.maximum(tracks - knee, 0) / knee
    formula = [np.ones_like(near), np.sqrt(near / knee), np.log(near / knee), beyond]
    hats = [np.interp(np.sqrt(tracks), np.sqrt(bends), row) for row in np.eye(len(bends))]
    return np.stack([*formula, *hats], axis=1)


def fit_curve(tracks: F64, times_ms: F64, turn_ms: float) -> SeekCurve:
    """Fit the curve."""
    if len(tracks) < FEWEST:
        raise UsageError(f"{len(tracks)} reads at known distances are too few for a seek curve; {FEWEST} are needed")
    stroke = float(tracks.max())
    plain = [
        refit_curve(SeekCurve(np.zeros(4), stroke * knee, np.empty(0), soft, 0.0), tracks, times_ms, turn_ms)
        for knee in KNEES
        for soft in SOFT
    ]
    best = max(plain, key=lambda curve: curve.likelihood)
    bends = np.geomspace(1, stroke, BENDS)
    with_bends = replace(best, bends=bends, weights=np.append(best.weights, np.zeros(BENDS)))
    return refit_curve(with_bends, tracks, times_ms, turn_ms)


def refit_curve(start: SeekCurve, tracks: F64, times_ms: F64, turn_ms: float) -> SeekCurve:
    """Find the curve of maximum likelihood: Newton's steps, each halved until the likelihood rises."""
    basis = terms(tracks, start.knee, start.bends)
    # Each weight of a bend is pulled to zero, relative to the curve there.
    formula = terms(start.bends, start.knee, np.empty(0)) @ start.weights[:4]
    believed = np.append(np.zeros(4), 1 / (BEND_SHARE * np.maximum(formula, 0.1)) ** 2)
    weights = start.weights
    if not weights.any():
        weights = np.asarray(np.linalg.lstsq(basis, times_ms - turn_ms / 2, rcond=None)[0], np.float64)
    scale = turn_ms * start.soft

    def judge_log(tried: F64) -> tuple[float, F64, F64]:
        value, slope, bend = _likelihood(times_ms - basis @ tried, turn_ms, scale)
        return value - float(believed @ tried**2) / 2, slope, bend

    value, slope, bend = judge_log(weights)
    for _ in range(TRIES):
        matrix = (basis * bend[:, None]).T @ basis + np.diag(believed + 1e-6)
        step = np.linalg.solve(matrix, basis.T @ slope - believed * weights)
        for _ in range(30):
            tried = judge_log(weights + step)
            if tried[0] >= value:
                break
            step /= 2
        else:
            break
        gained = tried[0] - value
        weights = weights + step
        value, slope, bend = tried
        if gained < 1e-6:
            break
    return replace(start, weights=weights, likelihood=value)


def _likelihood(waits: F64, turn_ms: float, scale: float) -> tuple[float, F64, F64]:
    """Return the log-likelihood of waits, its slope with respect to the curve, and its curvature.

    A wait is uniform from 0 to a revolution, plus an error of logistic distribution; a few are outliers.
    """
    low, high = (1 / (1 + np.exp(-np.clip(each / scale, -500, 500))) for each in (waits, waits - turn_ms))
    share = (1 - STRAY_SHARE) / turn_ms
    chance = share * (low - high) + STRAY_SHARE / STRAY_TURNS / turn_ms
    steep_low, steep_high = low * (1 - low) / scale, high * (1 - high) / scale
    slope = -share * (steep_low - steep_high) / chance
    second = share * (steep_low * (1 - 2 * low) - steep_high * (1 - 2 * high)) / scale / chance
    return float(np.log(chance).sum()), slope, np.maximum(slope**2 - second, 0)


ZONES: Final = 63
"""Number of zones of a profile; tracks are assumed to shrink evenly between the measured places."""
SEEKS: Final = 32
MAX_CYLINDERS: Final = 4e6
LEAST_TRACKS: Final = 20.0
"""Least distance between reads that shows a seek, outside the pairs: beyond the read-ahead."""
UNKNOWN_SEGMENTS: Final = 4
"""Segments of a buffer if no read shows their number (assumed)."""
SEGMENT_SECTORS: Final = tuple(round(128 * 2 ** (k / 2)) for k in range(13))
"""Sizes of segments that are tried first, besides one and two tracks: two per octave."""
AHEADS: Final = ("none", "track", "segment")
"""Ways to read ahead."""
JOINS: Final = ("next-sector", "never", "window")
FINER: Final = tuple([2 ** (k / parts) for k in sorted(range(-8, 9), key=abs)] for parts in (24, 240))
"""Sizes tried around the best one: a third of an octave each way, then a tenth of that: there are many peaks."""
CHANCE: Final = 0.002
"""Difference below which settings count as equally likely, because angles are random; the more usual one is taken."""
CLEAR_TURNS: Final = 0.1
"""Share of a revolution by which a stream's time per track may differ from its skew if no revolution is lost."""
ANGLES: Final = 4
"""Number of start angles from which buffer settings are tried, because rotational latency is random."""
STEP_SHARE: Final = 0.98
"""Largest share of the skew that a seek by one track takes if streams lose no revolution (assumed)."""
SURE: Final = 0.03
"""Share of a revolution within which tracks must fit at places whose skew is used."""

SOURCE: Final = "measured with layoutscope drives measure"


def track_numbers(tracks: Tracks, offset: NDArray[np.int64], capacity: int) -> F64:
    """Return the number of the track, with fractions, that contains each offset."""
    grid = np.linspace(0, capacity, 2001)
    per_byte = 1 / np.interp(grid, tracks.offset, tracks.track_bytes)
    count = np.concatenate([[0], np.cumsum((per_byte[1:] + per_byte[:-1]) / 2 * np.diff(grid))])
    return np.asarray(np.interp(offset, grid, count))


def moves(log: ReadLog, tracks: Tracks) -> tuple[F64, F64]:
    """Return the distance in tracks of each read that needs a seek, and its time without the transfer."""
    number = track_numbers(tracks, log.offset, log.capacity_bytes)
    ends = track_numbers(tracks, log.offset + log.length, log.capacity_bytes)
    # A read that follows the previous read needs no move: the drive has read ahead until then.
    distance = np.abs(np.append(0, number[1:] - ends[:-1]))
    told = np.isin(log.step, ("pairs", "edge")) | ((log.step == "before") & (distance > LEAST_TRACKS))
    told[:1] = False
    transfer = log.length / np.interp(log.offset, tracks.offset, tracks.track_bytes) * tracks.turn_ms
    return distance[told], (log.ms - transfer)[told]


def fit_disk(log: ReadLog) -> tuple[Tracks, SeekCurve]:
    """Fit turn, tracks and seeks to a log."""
    tracks = fit_tracks(log, fit_turn_ms(log))
    return tracks, fit_curve(*moves(log, tracks), tracks.turn_ms)


def longest_step_ms(log: ReadLog, tracks: Tracks) -> float:
    """Return an upper limit of the track-to-track seek time; infinite if no stream shows it.

    If a stream takes no more than a revolution and the skew per track, the arm arrived before the skew had passed.
    """
    rates = stream_rates(log)
    if len(rates) != len(tracks.track_bytes):
        return np.inf
    turns = tracks.track_bytes / rates / tracks.turn_ms
    skews = tracks.skew_turns % 1
    loses_none = (np.abs(turns - 1 - skews) < CLEAR_TURNS) & (tracks.error < SURE)
    return float(skews[loses_none].min() * tracks.turn_ms * STEP_SHARE) if loses_none.any() else np.inf


def select_buffered(log: ReadLog) -> ReadLog:
    """Return reads that the buffer served whole: repeated reads or, in logs without them, reads of what was ahead."""
    step = "again" if "again" in log.step else "hits"
    found = log.of(step)
    return found.take(found.ms <= quick_ms(log, step))


def hit_figures(hits: ReadLog) -> dict[str, float]:
    """Return overhead and rate of reads from the buffer, by their sizes.

    The computer's delay has an exponential distribution; the estimate is the shortest time minus its bias.
    """
    sizes = np.unique(hits.length)
    if not len(sizes):
        return {}
    groups = [hits.ms[hits.length == size] for size in sizes]
    times = np.array([ms.min() - (ms.mean() - ms.min()) / max(len(ms) - 1, 1) for ms in groups])
    far = sizes - sizes.mean()
    per_byte = max(float(far @ times / max(float(far @ far), 1.0)), 0.0)
    found = {"read_hit_ms": max(float(times.mean() - sizes.mean() * per_byte), 0.0)}
    return found | ({"interface_mb_s": 1 / per_byte / 1000} if per_byte > 1e-7 else {})


def late_ms(log: ReadLog, count: int) -> F64:
    """Draw delays of the computer, from the excess of buffer reads over the time that the drive takes for them.

    For each angle, there are as many as there are reads.
    """
    hits = select_buffered(log)
    if not len(hits):
        return np.zeros((ANGLES, count))
    found = hit_figures(hits)
    taken = found["read_hit_ms"] + hits.length / 1000 / found.get("interface_mb_s", np.inf)
    return np.random.default_rng(SEED).choice(np.maximum(hits.ms - taken, 0), (ANGLES, count))


def overheads(figures: dict[str, Any], share: float, step_ms: float) -> dict[str, Any]:
    """Divide the shortest positioning time into overhead and seek; other seeks are reduced by the same overhead."""
    miss = share * figures["seek_ms"][0]
    seeks = [max(time - miss, 0.0) for time in figures["seek_ms"]]
    return {"read_miss_ms": miss, "seek_ms": [min(seeks[0], step_ms), *seeks[1:]]}


def count_segments(log: ReadLog) -> int:
    """Return the number of buffer segments: the number of earlier reads still in the buffer, from the last one back.

    If that disagrees with the number of streams that the drive keeps up with, the streams decide.
    """
    kept, lost = count_streams(log)
    back = log.of("back")
    if not len(back):
        return kept or UNKNOWN_SEGMENTS
    held = np.where(back.ms <= quick_ms(log), 1, -1)
    count = max(int(np.argmax(np.cumsum(held))) + 1, 1)
    return count if not kept or kept <= count < lost else kept


def count_streams(log: ReadLog) -> tuple[int, float]:
    """Return the most streams that the drive kept up with (0 if none), and the fewest that it did not, or infinity."""
    # A log may come from another source, with steps of any name.
    numbers = [step.removeprefix("streams") for step in np.unique(log.step).tolist() if step.startswith("streams")]
    counts = [int(number) for number in numbers if number.isdecimal()]
    is_kept = {count: keeps_streams(log, count) for count in counts}
    lost = min((count for count in counts if not is_kept[count]), default=np.inf)
    return max((count for count in counts if is_kept[count]), default=0), lost


def disk_figures(log: ReadLog, tracks: Tracks, curve: SeekCurve) -> dict[str, Any]:
    """Return the figures of a profile except those of the buffer."""
    total = float(track_numbers(tracks, np.array([log.capacity_bytes]), log.capacity_bytes)[0])
    heads = int(np.ceil(total / MAX_CYLINDERS))
    starts = np.linspace(0, log.capacity_bytes, ZONES + 1)[:-1]
    middles = starts + log.capacity_bytes / ZONES / 2
    sectors = np.maximum(np.rint(np.interp(middles, tracks.offset, tracks.track_bytes) / SECTOR_BYTES), 1)
    sure = np.flatnonzero(tracks.error < max(SURE, float(tracks.error.min()) * 1.01))
    nearest = sure[np.abs(tracks.offset[sure][:, None] - middles).argmin(axis=0)]
    skews = tracks.skew_turns[nearest] % 1 * sectors
    zones: list[list[float]] = []
    first_lbn, first_cylinder = 0, 0
    ends = [*(starts / SECTOR_BYTES).tolist()[1:], None]
    for start, held, skew in zip(ends, sectors.tolist(), skews.tolist(), strict=True):
        zones.append([first_lbn, first_cylinder, int(held), skew, skew])
        if start is not None:
            cylinders = max(int((start - first_lbn) / held / heads), 1)
            first_cylinder += cylinders
            first_lbn += cylinders * heads * int(held)
    distances = np.unique(np.rint(np.geomspace(1, total / heads - 1, SEEKS)))
    positioning = np.maximum.accumulate(np.maximum(curve.at(distances * heads), 0.01))
    return {
        "capacity_bytes": log.capacity_bytes,
        "rpm": 60_000 / tracks.turn_ms,
        "heads": heads,
        "band_cylinders": 0,
        "zones": zones,
        "seek_distance_cylinders": [int(distance) for distance in distances],
        "seek_ms": positioning.tolist(),
        "read_miss_ms": 0.0,
        **hit_figures(select_buffered(log)),
    }


def disk_profile(log: ReadLog, name: str, tracks: Tracks, curve: SeekCurve) -> DriveProfile:
    """Make the profile of a disk."""
    figures = disk_figures(log, tracks, curve)
    near = log.of("before", "skips", "late", "hits", "again", "stream", "paced", "behind")
    late = late_ms(log, len(near))
    known = figures | {"segments": count_segments(log), "on_arrival": "track" if ARRIVAL in log.step else "none"}
    step_ms, track = longest_step_ms(log, tracks), figures["zones"][0][2]
    halves = overheads(known, 0.5, step_ms)
    finest = []
    # Between the sizes that are tried first, all ways to read ahead fit similarly: each is compared at its best size.
    for ahead in AHEADS:
        sizes = (0,) if ahead == "none" else (track, 2 * track, *SEGMENT_SECTORS)
        settings = [
            {"look_ahead": ahead, "join": join, "segment_sectors": size, **halves}
            for size, join in product(sizes, JOINS)
        ]
        best = most_alike(near, late, known, settings)
        for finer in FINER:
            settings = [best | {"segment_sectors": round(best["segment_sectors"] * share)} for share in finer]
            best = most_alike(near, late, known, settings)
        finest.append(best)
    chosen = most_alike(near, late, known, finest)
    # Most drives have the same overhead for commands that the buffer serves and for others.
    usual = known.get("read_hit_ms", 0.0)
    splits = [overheads(known, share, step_ms) for share in np.linspace(0, 1, 17).tolist()]
    splits.sort(key=lambda split: abs(split["read_miss_ms"] - usual))
    chosen |= most_alike(near, late, known | chosen, [{"join": join, **split} for join in JOINS for split in splits])
    return profile_of(name, "hdd", known | chosen)


def most_alike(seen: ReadLog, late: F64, figures: dict[str, Any], settings: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the settings whose modelled times are most like the observed ones, the first of equally good ones."""
    if not len(seen):
        return settings[0]
    misfits = [
        measure_misfit(seen, serve_log_ms(seen, late, profile_of("tried", "hdd", figures | setting)))
        for setting in settings
    ]
    return settings[int(np.argmax(np.array(misfits) <= min(misfits) + CHANCE))]


def serve_log_ms(log: ReadLog, late: F64, profile: DriveProfile) -> F64:
    """Serve the reads of a log on a drive, from several angles, with the computer's delays."""
    placed = place_reads(replay_of(log), profile)
    waits = np.rint(np.roll(late, 1, axis=1) * (TURN / profile.turn_ms)).astype(np.int64)
    return late + np.stack(
        [serve(replace(placed, think=placed.think + waits[k]), k * TURN // ANGLES).service_ms for k in range(ANGLES)]
    )


def measure_misfit(log: ReadLog, modelled: F64) -> float:
    """Return the difference of modelled and observed times: the mean distance of logarithms, by groups of like reads.

    A group has one step, size and distance. Within a group, times are compared by rank, because the model does not know
    the angle of the disk at each read.
    """
    told = log.step != "before"
    skip = np.diff(log.offset, prepend=log.offset[:1])
    skip = np.frexp(skip * np.isin(log.step, ("skips", "late", "behind")))[1]
    kinds = np.stack([np.unique(log.step, return_inverse=True)[1], skip, log.length])[:, told]
    groups = np.unique(kinds, axis=1, return_inverse=True)[1].ravel()
    seen, expected = (np.log(values[..., told] + 0.01) for values in (log.ms, modelled))
    apart = 0.0
    for group in range(int(groups.max()) + 1):
        mine = np.flatnonzero(groups == group)
        ranked = np.sort(expected[:, mine].ravel()).reshape(len(mine), -1)
        apart += float(np.abs(np.sort(seen[mine])[:, None] - ranked).mean(axis=1).sum())
    return apart / len(groups)


def replay_of(log: ReadLog) -> AccessTrace:
    """Return the reads of a log, with the times between them."""
    think = np.maximum(log.at_ns[1:] - (log.at_ns + log.ns)[:-1], 0) / 1000
    reads = AccessTrace.from_reads(log.offset, log.length)
    return replace(reads, think_us=np.append(0.0, think))


def profile_of(name: str, kind: str, figures: dict[str, Any]) -> DriveProfile:
    """Make a profile of measured figures."""
    known = {key: Figure(value, "measured", SOURCE) for key, value in figures.items()}
    return DriveProfile(name, name, kind, known, Path())


LONGEST_S: Final = 60.0
"""Maximum time of a measurement."""
ROUND: Final = 240
FEWEST_ROUNDS, ROUNDS = 4, 12
"""Reads of pairs per round, and the least and greatest number of rounds."""
UNIFORM: Final = 400
DRAWS: Final = 32
NORMAL_95: Final = 1.645
HELD_BACK_ERROR: Final = {"uniform": 0.03, "walk": 0.10}
"""Allowed mean error of the held-back reads: random reads, and those of a walk."""


class Calibrated(Struct, frozen=True):
    """The results of a measured drive."""

    profile: DriveProfile  # with its spread
    log: ReadLog  # all reads
    known: float  # half of the 90 % range of the walk (without a walk, of reads all over the drive), as a share
    # mean time of reads that were not used for the fit, as a multiple of the predicted one, by step: `uniform`, `walk`
    held_back: dict[str, float]
    # tracks, residual_ms: distances of the pairs, and their times minus positioning and half a turn; empty on flash
    tracks: NDArray[np.float64]
    residual_ms: NDArray[np.float64]


SHORT_LADDER, SHORT_REPEATED, SHORT_UNIFORM = 30, 120, 120
"""Reads of a short measurement: per stride that measures the revolution; of places that are read twice; at random."""
SHORT_HITS, SHORT_STREAMS, SHORT_RATES = 6, 16, 3
"""Places for reads from the buffer, the most streams, and places at which rates are measured."""


def calibrate(
    plan: Calibration, name: str, walk: Sequence[tuple[int, int]] = (), *, is_short: bool = False
) -> Calibrated:
    """Measure a drive within a minute, or its main figures within some seconds."""
    if plan.is_flash():
        plan.sizes()
        plan.rates()
        plan.deep(FLASH_DEPTHS)
        plan.walk(walk)
        return judge_log(plan.log, name)
    if not is_short:
        plan.arms()
    _, free, pairs = count_arms(plan.log)
    is_set = free > SET_SHARE * pairs
    # The disks of a set have different angles: only the times between reads of one place are whole revolutions.
    keeps_track = not is_set and plan.ladder(SHORT_LADDER if is_short else LADDER)
    held = plan.repeat(SHORT_REPEATED if is_short else REPEATED) if keeps_track or is_set else 0
    # Another read of a track does not reach the medium if the buffer still contains the track.
    if is_short or is_set or held >= PLACES * SWEPT_TRACKS:
        plan.hits(SHORT_HITS)
        plan.interleaved(SHORT_STREAMS if is_short else STREAMS)
        plan.rates(SHORT_RATES)
        plan.uniform(SHORT_UNIFORM if is_short else UNIFORM)
        plan.back()
        return judge_log(plan.log, name)
    turn = fit_turn_ms(plan.log)
    plan.rates()
    # The bytes that a stream reads per revolution, plus a tenth for the skew.
    plan.tracks(stream_rates(plan.log) * turn * 1.1, in_turn=keeps_track)
    tracks = fit_tracks(plan.log, turn)
    plan.hits()
    plan.streams()
    plan.interleaved()
    plan.skips()
    plan.behind()
    # The pairs get the rest of the minute, minus the time of the later steps, most of whose reads are at random places.
    anywhere_s = float(plan.log.of("kind").ns.mean()) / 1e9
    until_s = LONGEST_S - (UNIFORM + 100 + len(walk)) * anywhere_s
    for number in range(ROUNDS):
        began_s = plan.seconds
        # A track that the drive keeps is not read from the medium again.
        plan.pairs(ROUND, float(tracks.track_bytes.min()) * (2 if keeps_track else 0.5))
        if number + 1 >= FEWEST_ROUNDS and 2 * plan.seconds - began_s > until_s:
            break
    plan.uniform(UNIFORM)
    plan.back()
    plan.deep((DEPTH,))
    plan.walk(walk)
    return judge_log(plan.log, name)


def judge_log(log: ReadLog, name: str) -> Calibrated:
    """Make the profile from a log, of `calibrate` or the kit for Macs, and check it with the held-back reads."""
    if len(log.of("sizes")):
        return _flash(log, name)
    if not len(log.of("tracks")):
        return _like_class(log, name)
    tracks, curve = fit_disk(log)
    profile = disk_profile(log, name, tracks, curve)
    curves = bootstrap_curves(log, tracks, curve)
    spread = _make_spread(*redraw_figures(log, curves, longest_step_ms(log, tracks), profile))
    distance, times = moves(log, tracks)
    walked = log.of("walk")
    walk = list(zip(walked.offset.tolist(), walked.length.tolist(), strict=True))
    return Calibrated(
        profile=_fit_queue_window(log, replace(profile, spread=spread)),
        log=log,
        known=mean_half_range(curves, tracks.turn_ms, moves_of(log, tracks, walk)),
        held_back=_compare_uniform(log, tracks, curve) | _compare_walk(log, profile),
        tracks=distance,
        residual_ms=times - curve.at(distance) - tracks.turn_ms / 2,
    )


def _make_spread(figures: tuple[str, ...], draws: F64) -> Spread:
    """Make the spread of some figures from draws of them, one per row."""
    covariance = np.atleast_2d(np.cov(np.log(np.maximum(draws, 1e-9)).T))
    return Spread(figures, tuple(tuple(row) for row in covariance.tolist()))


def bootstrap_curves(log: ReadLog, tracks: Tracks, curve: SeekCurve) -> list[SeekCurve]:
    """Fit the curve to pairs resampled from the measured ones (the bootstrap)."""
    distance, times = moves(log, tracks)
    random = np.random.default_rng(SEED)
    draws = (random.integers(0, len(times), len(times)) for _ in range(DRAWS))
    return [refit_curve(curve, distance[drawn], times[drawn], tracks.turn_ms) for drawn in draws]


def mean_half_range(curves: Sequence[SeekCurve], turn_ms: float, tracks: NDArray[np.float64]) -> float:
    """Return half of the 90 % range of the mean time of reads at some distances, as a share."""
    means = [float(curve.at(tracks).mean()) + turn_ms / 2 for curve in curves]
    return float(NORMAL_95 * np.std(means) / np.mean(means))


def moves_of(log: ReadLog, tracks: Tracks, walk: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """Return the seek distances in tracks of the reads of a walk or, if it has none, of reads all over the drive."""
    reads = np.array(walk, np.int64).reshape(-1, 2)
    jumps = reads[1:, 0] != reads[:-1].sum(axis=1)
    number = track_numbers(tracks, reads[:, 0], log.capacity_bytes)
    if jumps.any():
        return np.asarray(np.abs(np.diff(number))[jumps])
    offsets = np.random.default_rng(SEED).integers(0, log.capacity_bytes, 2000)
    return np.abs(np.diff(track_numbers(tracks, offsets, log.capacity_bytes)))


def redraw_figures(
    log: ReadLog, curves: Sequence[SeekCurve], step_ms: float, profile: DriveProfile
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Return the names of the fitted figures, and their values from resampled reads."""
    places = np.array(profile.numbers("seek_distance_cylinders")) * profile.number("heads")
    miss = profile.number("read_miss_ms")
    hits = select_buffered(log)
    rows = []
    random = np.random.default_rng(SEED)
    for curve in curves:
        again = hit_figures(hits.take(random.integers(0, max(len(hits), 1), len(hits))))
        seeks = np.maximum.accumulate(np.maximum(curve.at(places) - miss, 0.01))
        seeks[0] = min(seeks[0], max(step_ms, 0.01))
        rows.append([60_000 / _turn_again(log, random), again.get("read_hit_ms", 1.0), *seeks.tolist()])
    names = ("rpm", "read_hit_ms", *(f"seek_ms[{k}]" for k in range(len(places))))
    return names, np.array(rows)


def _turn_again(log: ReadLog, random: np.random.Generator) -> float:
    """Return the revolution time from reads whose ends have additional jitter of the observed size."""
    if "turn-wide" not in log.step:
        turn = log.of("turn")
        drawn = random.integers(0, len(turn) // 2, len(turn) // 2)
        return fit_whole_turns(turn.take(np.append(drawn, len(turn) - 1 - drawn[::-1])))
    steps = np.diff(log.of("turn").done_ms)
    jitter = float(np.median(np.abs(steps - np.median(steps))))
    late = np.rint(random.normal(0, jitter, len(log)) * 1e6).astype(np.int64)
    return fit_turn_ms(replace(log, ns=log.ns + late))


def _compare_uniform(log: ReadLog, tracks: Tracks, curve: SeekCurve) -> dict[str, float]:
    """Compare random reads with the sum of curve, half a revolution and transfer."""
    part = log.of("uniform")
    if not len(part):
        return {}
    number = track_numbers(tracks, part.offset, log.capacity_bytes)
    transfer = part.length / np.interp(part.offset, tracks.offset, tracks.track_bytes) * tracks.turn_ms
    expected = curve.at(np.abs(np.diff(number))) + tracks.turn_ms / 2 + transfer[1:]
    return {"uniform": float(part.ms[1:].mean()) / float(expected.mean())}


def _compare_walk(log: ReadLog, profile: DriveProfile) -> dict[str, float]:
    """Compare the measured walk of an image with the drive model."""
    part = log.of("walk")
    if not len(part):
        return {}
    expected = service(replay_of(part), profile).reads_ms.service_ms
    return {"walk": float(part.ms.mean()) / float(expected.mean())}


def _fit_queue_window(log: ReadLog, profile: DriveProfile) -> DriveProfile:
    """Set the number of commands among which the drive chooses, from the speed-up of many outstanding reads."""
    deep, alone = log.of(f"depth{DEPTH}"), log.of("uniform")
    if not len(deep) or not len(alone):
        return profile
    quicker = float(alone.ms.mean()) / (float(deep.ms[0]) / (int(deep.length[0]) / SMALL))
    # The nearest of n places is about 1/n of the stroke and of the revolution away. Seeks of such distances take longer
    # than their share, so a drive that is faster by a quarter chooses among two, by a half among four.
    window = int(2 ** np.clip(np.rint((quicker - 1) * 4), 0, 5))
    return profile.with_figures("measured", SOURCE, queue_window=window)


ONE, UNTOLD, UNTRIED = "one disk, or a mirror that reads from one of its disks", "unclear", ""
STRIPE, MIRROR = "a stripe of two disks", "a mirror that shares its reads, or a stripe of more than two disks"
"""Possible descriptions of a drive."""
AT_ONCE: Final = 2.2
"""Time of two concurrent reads far from each other, in units of a read after one nearby. With an arm for each, it is
about 1.4; with one arm, it is 4, and at least 2.4."""
IN_TURN: Final = 3.7
"""Time of a read after a distant one plus that of two concurrent reads, in the same unit. With an arm for each, it is
1 + 1.4, or 1 + 2 if the bus handles one command at a time; with one arm, it is 2 + 4."""
SET_SHARE: Final = 0.2
"""Share of pairs above which a drive is not measured as a single disk."""


def count_arms(log: ReadLog) -> tuple[str, int, int]:
    """Return a description of the drive, the number of distant pairs with one arm for each place, and of all pairs.

    On a single disk, no pair has two arms. On a mirror that shares its reads, all have. On a stripe of two disks, about
    half have: those whose chunks are on different disks. On a concatenation, only those that straddle its border have.
    """
    close, apart, together = (log.of(step).ms for step in ("close", "apart", "together"))
    pairs = len(ARM_PLACES)
    if (len(close), len(apart), len(together)) != (3 * pairs, 6 * pairs, 3 * pairs):
        return UNTRIED, 0, 0
    # The first reads at a place move the arms there.
    near_ms = float(close.reshape(pairs, 3)[:, 1:].mean())
    in_turn = apart.reshape(pairs, 6)[:, 2:].mean(axis=1) / near_ms
    at_once = together.reshape(pairs, 3)[:, 1:].mean(axis=1) / near_ms
    is_free = (at_once < AT_ONCE) | (in_turn + at_once < IN_TURN)
    is_across = np.array(ARM_PLACES) == ACROSS
    share = float(is_free[~is_across].mean())
    kinds = ((ONE, 0, 1 / 8), (STRIPE, 1 / 5, 4 / 5), (MIRROR, 7 / 8, 1))
    kind = next((kind for kind, low, high in kinds if low <= share <= high), UNTOLD)
    if kind == ONE and is_free[is_across].all():
        kind = UNTOLD
    return kind, int(is_free.sum()), pairs


LEAST_ERROR: Final = 1e-4
"""Least error that is reported, because no clock is more accurate."""


def describe(log: ReadLog, profile: DriveProfile) -> Iterator[str]:
    """Describe in sentences what the reads reveal about a disk, and the accuracy of its figures."""
    if profile.kind != "hdd":
        return
    known: dict[str, str] = {}
    if profile.spread is not None:
        errors = np.maximum(NORMAL_95 * np.sqrt(np.diag(np.array(profile.spread.covariance))), LEAST_ERROR).tolist()
        known = {
            name: f" within {format_share(error)}" for name, error in zip(profile.spread.figures, errors, strict=True)
        }
    yield f"Rotation: {profile.number('rpm'):,.0f} rpm{known.get('rpm', ', which is assumed: no rhythm was found')}."
    yield f"Overhead of a command: {profile.number('read_hit_ms', 0.0):.3f} ms{known.get('read_hit_ms', '')}."
    if profile.figures["on_arrival"].kind == "measured":
        yield f"On-arrival read-ahead: {profile.text('on_arrival', 'none')}."
    kept, lost = count_streams(log)
    if kept:
        count = count_segments(log)
        more = " or more" if count == kept and not np.isfinite(lost) else ""
        yield f"Streams that are read ahead at once: {count}{more}."
    kind, free, pairs = count_arms(log)
    if kind != UNTRIED:
        looks = "Cannot distinguish one disk from a stripe or a mirror" if kind == UNTOLD else f"Looks like {kind}"
        yield f"{looks}: of {pairs} pairs of distant places, {free} were read without a seek between them."


def _like_class(log: ReadLog, name: str) -> Calibrated:
    """Make a profile from the most similar class of disks, with the figures that the reads reveal."""
    rates, random, hits = stream_rates(log) / 1000, log.of("kind", "uniform").ms, select_buffered(log)
    if len(rates) < 2 or len(random) < 2 or not len(hits):
        raise UsageError("the log has too few streams, reads anywhere or reads from the buffer")
    try:
        turn = fit_turn_ms(log)
    except UsageError:
        # On a mirror whose disks alternate, the time between two reads of a place is not a whole number of revolutions.
        turn = None

    def differs(base: DriveProfile) -> float:
        mean_ms = base.number("average_seek_ms") + base.turn_ms / 2 + base.number("read_miss_ms")
        ratios = [
            random.mean() / mean_ms,
            rates[0] / base.number("outer_mb_s"),
            (turn or base.turn_ms) / base.turn_ms,
        ]
        return float(np.abs(np.log(ratios)).sum())

    # A profile that represents many disks.
    classes = [
        profile
        for profile in map(load_profile, list_profiles())
        if profile.geometry == "datasheet" and profile.take_for and not (profile.members or profile.models)
    ]
    base = min(classes, key=differs)
    alike = {key: Figure(each.value, "assumed", f"that of {base.name}") for key, each in base.figures.items()}
    measured: dict[str, Any] = {"capacity_bytes": log.capacity_bytes, **hit_figures(hits)} | (
        {"rpm": 60_000 / turn} if turn else {}
    )
    if {ARRIVAL, "turn-wide"} & set(log.step.tolist()):
        measured["on_arrival"] = "track" if ARRIVAL in log.step else "none"
    measured["read_miss_ms"] = measured["read_hit_ms"]
    known = profile_of(name, "hdd", measured).figures
    profile = DriveProfile(name, f"{name}: most like {base.name}", "hdd", {**alike, **known}, Path())
    profile = fit_rate(fit_rate(profile, float(rates[0]), source=SOURCE), float(rates[-1]), at=1.0, source=SOURCE)
    profile = fit_latency(profile, float(random.mean()), SMALL, source=SOURCE)
    if np.isfinite(count_streams(log)[1]):
        buffer = count_segments(log) * outer_track_sectors(profile) * SECTOR_BYTES
        profile = replace(profile, figures={**profile.figures, "buffer_bytes": Figure(buffer, "fitted", SOURCE)})
    drawn, rows = np.random.default_rng(SEED), []
    for _ in range(DRAWS):
        again = hit_figures(hits.take(drawn.integers(0, len(hits), len(hits))))["read_hit_ms"]
        seek = drawn.choice(random, len(random)).mean() - profile.turn_ms / 2 - again
        rows.append([60_000 / _turn_again(log, drawn) if turn else 1.0, again, max(seek, 0.01)])
    figures = ("rpm", "read_hit_ms", "average_seek_ms")[0 if turn else 1 :]
    error = float(NORMAL_95 * random.std() / np.sqrt(len(random)) / random.mean())
    spread = _make_spread(figures, np.array(rows)[:, -len(figures) :])
    nothing = np.empty(0)
    return Calibrated(replace(profile, spread=spread), log, error, {}, nothing, nothing)


def _flash(log: ReadLog, name: str) -> Calibrated:
    """Make the profile of flash: latencies by size, the rate, and the number of parallel reads."""
    sizes = np.unique(log.of("sizes").length)
    groups = [log.take((log.step == "sizes") & (log.length == size)).ms * 1000 for size in sizes]
    rates = log.of("rates")
    figures: dict[str, Any] = {
        "capacity_bytes": log.capacity_bytes,
        "latency_bytes": sizes.tolist(),
        "latency_us": np.maximum.accumulate([float(np.mean(group)) for group in groups]).tolist(),
    }
    if not len(rates):
        raise UsageError("the log has no streams, which give the rate of flash")
    figures["bandwidth_mb_s"] = float(rates.length.sum() / rates.ns.sum() * 1000)
    together = [log.take(log.step == f"depth{depth}") for depth in FLASH_DEPTHS]
    taken = [float(part.ms[0]) for part in together if len(part)]
    figures["parallel_reads"] = max(int(np.rint(taken[0] / min(taken))), 1) if taken else 1
    random = np.random.default_rng(SEED)
    draws = np.array([[random.choice(group, len(group)).mean() for group in groups] for _ in range(DRAWS)])
    spread = _make_spread(tuple(f"latency_us[{k}]" for k in range(len(sizes))), draws)
    profile = replace(profile_of(name, "ssd", figures), spread=spread)
    error = float(NORMAL_95 * np.sqrt(spread.covariance[0][0]))
    nothing = np.empty(0)
    return Calibrated(profile, log, error, _compare_walk(log, profile), nothing, nothing)
