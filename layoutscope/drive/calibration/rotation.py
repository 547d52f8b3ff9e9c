"""The turn of a disk and its tracks, from when reads were complete: the clock tells the angle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import UsageError
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.drive.calibration.log import ReadLog

    F64 = NDArray[np.float64]

SWEEP_FEWEST: Final = 8
SKEWS: Final = 64
"""Skews that are tried, shares of a turn."""
LEAST_REACH: Final = 0.001
LEAST_MS: Final = 1e-6
"""Of a stream: a clock's tick."""
MARGIN: Final = 8.0
"""Around the size of a track by equal steps, how far others are tried: a share, and so many of its errors."""
NEAR: Final = 0.02
"""Of a turn, how far steps may differ that are called equal."""


@frozen
class Tracks:
    """Tracks at places of a disk; arrays have shape (n_places,)."""

    offset: NDArray[np.float64]  # where, in bytes
    track_bytes: NDArray[np.float64]  # what a track holds
    skew_turns: NDArray[np.float64]  # turns between the end of a track and the start of the next
    error: NDArray[np.float64]  # by how much angles miss those of such tracks, root mean square, in turns


def measured_turn(log: ReadLog) -> float:
    """Return the milliseconds of a turn.

    Each read of a step lies lower than the one before it by a stride, and is complete a turn later, less what that
    stride takes to pass. Two strides tell the two apart.
    """
    strides, periods = [], []
    for name in ("turn", "turn-wide"):
        part = log.of(name)
        steps = np.diff(part.done_ms)[2:]
        if len(steps) < 10:
            raise UsageError("the log has too few reads that tell the turn of the disk")
        middle = float(np.median(steps))
        regular = np.abs(steps - middle) < NEAR * middle
        if regular.sum() < len(steps) / 2:
            raise UsageError("the reads have no rhythm of a turning disk; is something else reading it?")
        strides.append(float(np.median(-np.diff(part.offset))))
        periods.append(_period(part.done_ms[2:], regular))
    per_byte = (periods[0] - periods[1]) / (strides[1] - strides[0])
    return periods[0] + strides[0] * per_byte


def _period(done_ms: F64, regular: NDArray[np.bool_]) -> float:
    """Return the step between reads, by one slope for all rows of them of which none crosses a track."""
    row = np.cumsum(~np.concatenate([[True], regular]))
    count = np.bincount(row)
    place, time = (
        values - (np.bincount(row, values) / np.maximum(count, 1))[row]
        for values in (np.arange(len(row), dtype=np.float64), done_ms)
    )
    return float(place @ time / (place @ place))


def stream_rates(log: ReadLog) -> F64:
    """Return the bytes a millisecond that came where streams were read, place by place."""
    part = log.of("rates")
    if not len(part):
        return np.empty(0)
    starts = np.flatnonzero(np.diff(part.offset, prepend=-(1 << 62)) != np.concatenate([[0], part.length[:-1]]))
    rates = []
    for first, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(part)], strict=True):
        # The first read has to find its place.
        taken = part.done_ms[stop - 1] - part.done_ms[first]
        rates.append(max(float(part.length[first + 1 : stop].sum()), 1.0) / max(taken, LEAST_MS))
    return np.array(rates)


def rough_tracks(log: ReadLog, turn_ms: float) -> F64:
    """Return about what a track holds where streams were read: what comes in a turn, and a skew of a tenth more."""
    return stream_rates(log) * turn_ms * 1.1


def fitted_tracks(log: ReadLog, turn_ms: float) -> Tracks:
    """Return what tracks hold and how they are skewed, at each place where some were read downwards."""
    part = log.of("tracks")
    if not len(part):
        raise UsageError("the log has no reads that tell the tracks of the disk")
    ends = np.append(np.flatnonzero(np.diff(part.offset) > 0), len(part) - 1)
    rows = []
    first = 0
    for last in ends.tolist():
        one = part.where(np.arange(first, last + 1))
        first = last + 1
        if len(one) < SWEEP_FEWEST:
            raise UsageError("the log has too few reads that tell the tracks of the disk")
        angle = one.done_ms / turn_ms % 1
        rows.append((float(one.offset.mean()), *one_place(one.offset + one.length, angle)))
    columns = np.array(rows).T
    return Tracks(*columns)


def one_place(ends: NDArray[np.int64], angle: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return what a track holds, its skew, and how well angles fit, of reads that each end a share of a turn lower."""
    stride = float(-np.diff(ends).mean())
    steps = -np.diff(angle) % 1
    # Most steps stay on a track, and turn by the same share; the others have the skew in addition.
    ordered = np.sort(np.concatenate([steps, steps + 1]))
    width = len(steps) // 2
    first = int(np.argmin(ordered[width:] - ordered[:-width]))
    equal = ordered[first : first + width + 1]
    share = float(equal.mean()) % 1
    # Where the clock is exact the equal steps tell the track; where it jitters, all angles together tell it better.
    reach = LEAST_REACH + MARGIN * float(equal.std()) / share / np.sqrt(width)
    best = (np.inf, 0.0, 0.0, 0.0)
    for rough in stride / share * np.linspace(1 - reach, 1 + reach, 33):
        best = min(best, _best_skew(ends, angle, float(rough)))
    return _straightened(ends, angle, best)


def _best_skew(ends: NDArray[np.int64], angle: F64, size: float) -> tuple[float, float, float, float]:
    """Return how badly tracks of a size fit at best, the size, the skew with which they do, and where one begins."""
    begins = (np.arange(24) / 24) * size
    crossed = np.floor((ends - begins[:, None]) / size)
    crossed -= crossed.min()
    skews = (np.arange(SKEWS) / SKEWS)[:, None, None]
    left = angle - ends / size - skews * crossed
    misfit = 1 - np.abs(np.exp(2j * np.pi * left).mean(axis=-1))
    at = np.unravel_index(int(np.argmin(misfit)), misfit.shape)
    return float(misfit[at]), size, float(at[0] / SKEWS), float(begins[at[1]])


def _straightened(
    ends: NDArray[np.int64], angle: F64, best: tuple[float, float, float, float]
) -> tuple[float, float, float]:
    """Return size and skew between the steps of which they were tried, by the line through what these leave."""
    misfit, size, skew, begin = best
    crossed = np.floor((ends - begin) / size)
    left = angle - ends / size - skew * crossed
    centre = np.angle(np.exp(2j * np.pi * left).mean()) / (2 * np.pi)
    left = (left - centre + 0.5) % 1 - 0.5
    table = np.stack([np.ones(len(ends)), ends - ends.mean(), crossed - crossed.mean()], axis=1)
    change, *_ = np.linalg.lstsq(table, left, rcond=None)
    # Where zones meet there is no line; then what was tried stays.
    if (np.abs(left) < NEAR).all():
        misfit = 1 - float(np.abs(np.exp(2j * np.pi * (left - table @ change)).mean()))
        size, skew = 1 / (1 / size + float(change[1])), (skew + float(change[2])) % 1
    return size, skew, float(np.sqrt(-2 * np.log(max(1 - misfit, 1e-12))) / (2 * np.pi))
