"""The time that the arm of a disk takes, by distance: from a table, or from three published times.

References
----------
.. [1] C. Ruemmler, J. Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.drive.profile import DriveProfile


MEAN_LINE: Final = 1 / 3
MEAN_ROOT: Final = 8 / 15
"""Means of x and of its square root over all pairs of places; x is their distance as a share of the stroke."""


def seek_curve(profile: DriveProfile, cylinders: int, reach: int | None = None) -> NDArray[np.float64]:
    """Return the seek time in milliseconds by distance in cylinders, up to the given reach; 0 at distance 0."""
    reach = cylinders if reach is None else reach
    if "seek_ms" not in profile:
        shortest, mean = profile.number("track_to_track_ms"), profile.number("average_seek_ms")
        # With a pure square root, the mean over all pairs of cylinders is 8/15 of the way from the shortest to the
        # longest.
        return _fit_seek_curve(
            shortest, mean, profile.number("full_stroke_ms", shortest + (mean - shortest) * 15 / 8), cylinders, reach
        )
    known = np.array(profile.numbers("seek_distance_cylinders"), np.float64)
    curve = table_curve(np.arange(reach, dtype=np.float64), known, np.array(profile.numbers("seek_ms"), np.float64))
    curve[0] = 0
    return curve


@lru_cache(maxsize=8)
def _fit_seek_curve(
    shortest_ms: float, mean_ms: float, longest_ms: float, cylinders: int, reach: int
) -> NDArray[np.float64]:
    curve = three_point_curve(np.arange(reach, dtype=np.float64), shortest_ms, mean_ms, longest_ms, cylinders - 1)
    curve[0] = 0
    curve.setflags(write=False)
    return curve


def table_curve(
    distance: NDArray[np.float64], known: NDArray[np.float64], times_ms: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Interpolate a table linearly; the line through the last two points is extended."""
    curve = np.interp(distance, known, times_ms)
    # A measured or extracted table ends before the full stroke. The time of long seeks is a straight line, because the
    # arm moves at its greatest speed.
    slope = (times_ms[-1] - times_ms[-2]) / (known[-1] - known[-2])
    beyond = distance > known[-1]
    curve[beyond] = times_ms[-1] + (distance[beyond] - known[-1]) * slope
    return curve


def three_point_curve(
    distance: NDArray[np.float64], shortest_ms: float, mean_ms: float, longest_ms: float, stroke: float
) -> NDArray[np.float64]:
    """Fit a curve to the shortest and the longest seek and to the mean over all pairs of cylinders.

    ``shortest + a*sqrt(x) + b*x``, where x is the share of the stroke: the arm accelerates, then coasts. If the mean is
    longer than even a pure square root allows, a power below one half is used instead.
    """
    beyond = np.maximum(distance - 1, 0)
    # The shortest seek is mostly settling time, which every seek includes. So the curve starts with it at one cylinder
    # and rises from there (Ruemmler and Wilkes, 1994).
    share = beyond / max(stroke - 1, 1.0)
    rise = longest_ms - shortest_ms
    mean = min(max((mean_ms - shortest_ms) / max(rise, 1e-9), MEAN_LINE), 1.0)
    if mean > MEAN_ROOT:
        power = (np.sqrt(1 + 8 / mean) - 3) / 2
        return np.asarray(shortest_ms + rise * share**power)
    root = (mean - MEAN_LINE) / (MEAN_ROOT - MEAN_LINE)
    return np.asarray(shortest_ms + rise * (root * np.sqrt(share) + (1 - root) * share))
