"""The seek curve of a disk, from single reads whose rotational wait is integrated out.

A read takes overhead and seek, then a wait that is anything from nothing to a whole turn, then its transfer. So the
time of positioning lies at most a turn below each time that was seen. The curve is that with the greatest likelihood of
all reads at once; the edges of the wait are soft by what tracks and hosts vary.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.errors import UsageError
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    F64 = NDArray[np.float64]

SOFT: Final = (0.01, 0.02, 0.04)
"""Softness of the edges, in turns, among which the likelihood chooses."""
KNEES: Final = (0.02, 0.05, 0.1, 0.2, 0.35)
"""Shares of the stroke at which the arm may reach its greatest speed; the likelihood chooses."""
STRAY_SHARE: Final = 0.05
STRAY_TURNS: Final = 4.0
"""Of reads that lose a turn, cross a track, or were disturbed, and how far their times spread."""
BENDS: Final = 16
BEND_SHARE: Final = 0.06
"""Places at which the curve may leave the formula, and by how much it is believed to do so (assumed)."""
FEWEST: Final = 100
TRIES: Final = 60


@frozen
class SeekCurve:
    """Overhead and seek by distance: ``a + b sqrt(d) + c log(d)`` up to the knee, beyond it linear in `d`."""

    # milliseconds of the constant, of the root, of the logarithm, of the line beyond the knee, and of what the curve
    # leaves that formula by at `bends`
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


def fitted_curve(tracks: F64, times_ms: F64, turn_ms: float) -> SeekCurve:
    """Fit the curve."""
    if len(tracks) < FEWEST:
        raise UsageError(f"{len(tracks)} reads at known distances are too few for a seek curve; {FEWEST} are needed")
    stroke = float(tracks.max())
    reads = Timed(tracks, times_ms, turn_ms)
    plain = [
        _most_likely(reads, SeekCurve(np.zeros(4), stroke * knee, np.empty(0), soft, 0.0))
        for knee in KNEES
        for soft in SOFT
    ]
    best = max(plain, key=lambda curve: curve.likelihood)
    bends = np.geomspace(1, stroke, BENDS)
    return _most_likely(reads, replace(best, bends=bends, weights=np.append(best.weights, np.zeros(BENDS))))


def refitted(curve: SeekCurve, tracks: F64, times_ms: F64, turn_ms: float) -> SeekCurve:
    """Fit the curve to other reads of the same drive."""
    return _most_likely(Timed(tracks, times_ms, turn_ms), curve)


class Timed(NamedTuple):
    """Reads at distances."""

    tracks: F64
    times_ms: F64
    turn_ms: float


def _most_likely(reads: Timed, start: SeekCurve) -> SeekCurve:
    """Climb to the curve of the greatest likelihood: Newton's steps, each halved until it leads upwards."""
    basis = terms(reads.tracks, start.knee, start.bends)
    believed = _prior(start)
    weights = start.weights
    if not weights.any():
        weights = np.asarray(np.linalg.lstsq(basis, reads.times_ms - reads.turn_ms / 2, rcond=None)[0], np.float64)
    scale = reads.turn_ms * start.soft

    def judged(tried: F64) -> tuple[float, F64, F64]:
        value, slope, bend = _likelihood(reads.times_ms - basis @ tried, reads.turn_ms, scale)
        return value - float(believed @ tried**2) / 2, slope, bend

    value, slope, bend = judged(weights)
    for _ in range(TRIES):
        matrix = (basis * bend[:, None]).T @ basis + np.diag(believed + 1e-6)
        step = np.linalg.solve(matrix, basis.T @ slope - believed * weights)
        for _ in range(30):
            tried = judged(weights + step)
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


def _prior(curve: SeekCurve) -> F64:
    """Return how strongly each weight is held to zero: those of bends to a share of the curve there."""
    formula = terms(curve.bends, curve.knee, np.empty(0)) @ curve.weights[:4]
    return np.append(np.zeros(4), 1 / (BEND_SHARE * np.maximum(formula, 0.1)) ** 2)


def _likelihood(waits: F64, turn_ms: float, scale: float) -> tuple[float, F64, F64]:
    """Return the logarithm of the likelihood of waits, its slope by the curve, and its bend.

    A wait is anything from 0 to a turn, and an error of logistic distribution; few are strays.
    """
    low, high = (_logistic(waits / scale), _logistic((waits - turn_ms) / scale))
    share = (1 - STRAY_SHARE) / turn_ms
    chance = share * (low - high) + STRAY_SHARE / STRAY_TURNS / turn_ms
    steep_low, steep_high = low * (1 - low) / scale, high * (1 - high) / scale
    slope = -share * (steep_low - steep_high) / chance
    second = share * (steep_low * (1 - 2 * low) - steep_high * (1 - 2 * high)) / scale / chance
    return float(np.log(chance).sum()), slope, np.maximum(slope**2 - second, 0)


def _logistic(value: F64) -> F64:
    return np.asarray(1 / (1 + np.exp(-np.clip(value, -500, 500))))
