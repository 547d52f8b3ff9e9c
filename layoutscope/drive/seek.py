"""Seek curves: how long the arm takes by distance in cylinders, from a table or from three published times.

References
----------
.. [1] C. Ruemmler, J. Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

MEAN_LINE: Final = 1 / 3
MEAN_ROOT: Final = 8 / 15
"""Means of x and of its square root over all pairs of places, x the share of the stroke between them."""

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.drive.profile import DriveProfile


def seek_curve(profile: DriveProfile, cylinders: int, reach: int | None = None) -> NDArray[np.float64]:
    """Return the time of a seek by distance.

    Milliseconds by distance in cylinders; 0 at distance 0.
    """
    reach = cylinders if reach is None else reach
    if "seek_ms" not in profile:
        return _fit_times(cylinders, three_points(profile), reach)
    known = np.array(profile.numbers("seek_distance_cylinders"), np.float64)
    curve = table_curve(np.arange(reach, dtype=np.float64), known, np.array(profile.numbers("seek_ms"), np.float64))
    curve[0] = 0
    return curve


def seek_ticks(profile: DriveProfile, cylinders: int, ticks_per_ms: float, reach: int) -> NDArray[np.int64]:
    """Return the time of a seek by distance, in ticks, as far as the arm goes."""
    if "seek_ms" not in profile:
        return _fit_ticks(cylinders, three_points(profile), ticks_per_ms, reach)
    return _round_to_ticks(seek_curve(profile, cylinders, reach), ticks_per_ms)


@lru_cache(maxsize=8)
def _fit_ticks(
    cylinders: int, points: tuple[float, float, float], ticks_per_ms: float, reach: int
) -> NDArray[np.int64]:
    ticks = _round_to_ticks(_fit_times(cylinders, points, reach), ticks_per_ms)
    ticks.setflags(write=False)
    return ticks


def _round_to_ticks(times_ms: NDArray[np.float64], ticks_per_ms: float) -> NDArray[np.int64]:
    return np.rint(times_ms * ticks_per_ms).astype(np.int64)


def _fit_times(cylinders: int, points: tuple[float, float, float], reach: int) -> NDArray[np.float64]:
    curve = three_point_curve(np.arange(reach, dtype=np.float64), *points, cylinders - 1)
    curve[0] = 0
    return curve


def three_points(profile: DriveProfile) -> tuple[float, float, float]:
    """Return track-to-track, average and full-stroke time; where the last is not known, a pure square root gives it.

    With a square root the mean over all pairs of cylinders is 8/15 of the way from shortest to longest.
    """
    shortest, mean = profile.number("track_to_track_ms"), profile.number("average_seek_ms")
    return shortest, mean, profile.number("full_stroke_ms", shortest + (mean - shortest) * 15 / 8)


def table_curve(
    distance: NDArray[np.float64], known: NDArray[np.float64], times_ms: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Interpolate a table in straight lines; the last two points are prolonged."""
    curve = np.interp(distance, known, times_ms)
    # A table that was measured or extracted ends before the full stroke; long seeks are a straight line, as the arm
    # moves at its greatest speed.
    slope = (times_ms[-1] - times_ms[-2]) / (known[-1] - known[-2])
    beyond = distance > known[-1]
    curve[beyond] = times_ms[-1] + (distance[beyond] - known[-1]) * slope
    return curve


def three_point_curve(
    distance: NDArray[np.float64], shortest_ms: float, mean_ms: float, longest_ms: float, stroke: float
) -> NDArray[np.float64]:
    """Fit a curve to the shortest and the longest seek and to the mean over all pairs of cylinders.

    ``shortest + a*sqrt(x) + b*x``, x the share of the stroke: the arm accelerates, then coasts. Where the mean is
    longer than even a pure square root allows, a power below one half takes its place.
    """
    beyond = np.maximum(distance - 1, 0)
    # The shortest seek is mostly the time to settle on a track, which every seek has; so that the curve starts with it
    # at one cylinder and rises from there (Ruemmler and Wilkes, 1994).
    share = beyond / max(stroke - 1, 1.0)
    rise = longest_ms - shortest_ms
    mean = min(max((mean_ms - shortest_ms) / max(rise, 1e-9), MEAN_LINE), 1.0)
    if mean > MEAN_ROOT:
        power = (np.sqrt(1 + 8 / mean) - 3) / 2
        return np.asarray(shortest_ms + rise * share**power)
    root = (mean - MEAN_LINE) / (MEAN_ROOT - MEAN_LINE)
    return np.asarray(shortest_ms + rise * (root * np.sqrt(share) + (1 - root) * share))
