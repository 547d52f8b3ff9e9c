"""A drive's profile from its calibration: tracks, seeks, overheads, buffer, queue.

What a drive does by itself, such as reading ahead, shows in no single time. Of the settings that the drive model has,
those are taken by which it gives the times that were seen.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.access.trace import AccessTrace
from layoutscope.drive.calibration.rotation import Tracks, fitted_tracks, measured_turn
from layoutscope.drive.calibration.seeks import SeekCurve, fitted_curve
from layoutscope.drive.profile import DriveProfile, Figure
from layoutscope.drive.simulation import service
from layoutscope.drive.surface import SECTOR_BYTES
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from layoutscope.drive.calibration.log import ReadLog

    F64 = NDArray[np.float64]

ZONES: Final = 46
"""Zones of a profile; between places that were measured tracks are taken to shrink evenly."""
SEEKS: Final = 32
MOST_CYLINDERS: Final = 4e6
SEGMENTS: Final = (1, 2, 3, 4, 8, 16, 32, 64, 128)
"""Numbers of buffer segments among which the reads choose; the last stands for more."""
SEGMENT_SECTORS: Final = (128, 256, 512, 1024, 2048, 4096, 8192)
JOINS: Final = ("never", "next-sector", "window")
FINER: Final = (1.0, 0.7, 0.78, 0.85, 0.92, 1.1, 1.2, 1.3, 1.45)
"""Sizes of segments around the best of the powers of two."""

SOURCE: Final = "measured with layoutscope drives measure"


@frozen
class Disk:
    """What the clock told of a disk.

    Attributes
    ----------
    turn_ms : float
        Of a turn.
    tracks : Tracks
        At places.
    curve : SeekCurve
        Overhead and seek by distance.
    """

    turn_ms: float
    tracks: Tracks
    curve: SeekCurve


def numbered(tracks: Tracks, offset: NDArray[np.int64], capacity: int) -> F64:
    """Return the number of the track, with fractions, that holds each offset.

    Parameters
    ----------
    tracks : Tracks
        What tracks hold at some places.
    offset : (n,) int64 array
        Bytes.
    capacity : int
        Of the drive.
    """
    grid = np.linspace(0, capacity, 2001)
    per_byte = 1 / np.interp(grid, tracks.offset, tracks.track_bytes)
    count = np.concatenate([[0], np.cumsum((per_byte[1:] + per_byte[:-1]) / 2 * np.diff(grid))])
    return np.asarray(np.interp(offset, grid, count))


def moves(log: ReadLog, tracks: Tracks, turn_ms: float) -> tuple[F64, F64]:
    """Return how many tracks each read of the pairs is from the one before, and what it took without its transfer.

    Parameters
    ----------
    log : ReadLog
        With the pairs.
    tracks : Tracks
        What tracks hold at some places.
    turn_ms : float
        Of a turn.

    Returns
    -------
    distance, times_ms : (n - 1,) float64 arrays
    """
    part = log.of("pairs", "edge")
    number = numbered(tracks, part.offset, log.capacity_bytes)
    transfer = part.length / np.interp(part.offset, tracks.offset, tracks.track_bytes) * turn_ms
    return np.abs(np.diff(number)), (part.ms - transfer)[1:]


def fitted_disk(log: ReadLog) -> Disk:
    """Fit turn, tracks and seeks to a log.

    Raises
    ------
    UsageError
        If its reads do not tell them.
    """
    turn = measured_turn(log)
    tracks = fitted_tracks(log, turn)
    return Disk(turn, tracks, fitted_curve(*moves(log, tracks, turn), turn))


def disk_figures(log: ReadLog, disk: Disk) -> dict[str, Any]:
    """Return the figures of a profile but for the buffer."""
    tracks = disk.tracks
    total = float(numbered(tracks, np.array([log.capacity_bytes]), log.capacity_bytes)[0])
    heads = int(np.ceil(total / MOST_CYLINDERS))
    starts = np.linspace(0, log.capacity_bytes, ZONES + 1)[:-1]
    middles = starts + log.capacity_bytes / ZONES / 2
    sectors = np.maximum(np.rint(np.interp(middles, tracks.offset, tracks.track_bytes) / SECTOR_BYTES), 1)
    skew = float(_circular_median(tracks.skew_turns))
    zones, first_lbn, first_cylinder = [], 0, 0
    for start, held in zip([*(starts / SECTOR_BYTES).tolist()[1:], None], sectors.tolist(), strict=True):
        zones.append([first_lbn, first_cylinder, int(held)])
        if start is not None:
            cylinders = max(int((start - first_lbn) / held / heads), 1)
            first_cylinder += cylinders
            first_lbn += cylinders * heads * int(held)
    distances = np.unique(np.rint(np.geomspace(1, total / heads - 1, SEEKS)))
    positioning = np.maximum.accumulate(np.maximum(disk.curve.at(distances * heads), 0.01))
    return {
        "capacity_bytes": log.capacity_bytes,
        "rpm": 60_000 / disk.turn_ms,
        "heads": heads,
        "band_cylinders": 0,
        "zones": zones,
        "track_skew_turns": skew,
        "seek_distance_cylinders": [int(distance) for distance in distances],
        "seek_ms": positioning.tolist(),
        "read_miss_ms": 0.0,
        **hit_figures(log),
    }


def _circular_median(turns: F64) -> float:
    """Return the share of a turn that has the others nearest around it."""
    apart = np.abs((turns[:, None] - turns[None, :] + 0.5) % 1 - 0.5)
    return float(turns[int(np.argmin(apart.sum(axis=1)))] % 1)


def hit_figures(log: ReadLog) -> dict[str, float]:
    """Return overhead and rate of reads from the buffer, by two sizes."""
    small, large = (log.of(step) for step in ("hits", "hits-large"))
    if not len(small) or not len(large):
        return {}
    times = [float(np.percentile(part.ms, 25)) for part in (small, large)]
    sizes = [float(part.length[0]) for part in (small, large)]
    per_byte = max((times[1] - times[0]) / (sizes[1] - sizes[0]), 0.0)
    found = {"read_hit_ms": max(times[0] - sizes[0] * per_byte, 0.0)}
    return found | ({"interface_mb_s": 1 / per_byte / 1000} if per_byte > 1e-7 else {})


def buffer_settings(figures: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what a drive may do with its buffer, the settings of the drive model."""
    track = figures["zones"][0][2]
    reaches = [("none", 0), *(("track", size) for size in (128, track, 2 * track))]
    reaches += [("segment", size) for size in SEGMENT_SECTORS]
    for share, (ahead, size), join in product((0.0, 0.5, 1.0), reaches, JOINS):
        yield {"look_ahead": ahead, "join": join, "segment_sectors": size, **overheads(figures, share)}


def overheads(figures: dict[str, Any], share: float) -> dict[str, Any]:
    """Divide the shortest positioning into overhead and seek; other seeks are shorter by the same overhead."""
    miss = share * figures["seek_ms"][0]
    return {"read_miss_ms": miss, "seek_ms": [max(time - miss, 0.0) for time in figures["seek_ms"]]}


def disk_profile(log: ReadLog, name: str, disk: Disk) -> DriveProfile:
    """Make the profile of a disk.

    Parameters
    ----------
    log : ReadLog
        With the steps of a disk.
    name : str
        Of the profile.
    disk : Disk
        From `fitted_disk`.
    """
    figures = disk_figures(log, disk)
    near = log.of("before", "skips", "late", "hits", "hits-large", "stream")
    chosen = most_alike(near, figures | {"segments": 4}, buffer_settings(figures))
    finer = ({"segment_sectors": int(chosen["segment_sectors"] * share)} for share in FINER)
    chosen |= most_alike(near, figures | {"segments": 4} | chosen, finer)
    split = (overheads(figures, share) for share in np.linspace(0, 1, 17).tolist())
    chosen |= most_alike(near, figures | {"segments": 4} | chosen, split)
    counts = ({"segments": count} for count in SEGMENTS)
    chosen |= most_alike(log.of("before", "between", "again"), figures | chosen, counts)
    return profile_of(name, "hdd", figures | chosen)


def most_alike(seen: ReadLog, figures: dict[str, Any], settings: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the settings by which the model's times are most like those seen; the first where no read tells.

    Parameters
    ----------
    seen : ReadLog
        Reads, in order and without gaps.
    figures : dict
        What else is known of the drive.
    settings : iterable of dict
        Figures to choose among.
    """
    tried = list(settings)
    if not len(seen):
        return tried[0]
    reads = replay_of(seen)
    misfits = [
        unlike(seen, service(reads, profile_of("tried", "hdd", figures | setting), phases=1).reads_ms.service_ms)
        for setting in tried
    ]
    return tried[int(np.argmin(misfits))]


def unlike(log: ReadLog, modelled: F64) -> float:
    """Return how much times differ from those seen: the mean distance of their logarithms, in groups of like reads.

    A group is a step and a distance.
    """
    told = ~np.isin(log.step, ("before", "between"))
    skip = np.diff(log.offset, prepend=log.offset[:1])
    skip = np.frexp(skip * np.isin(log.step, ("skips", "late")))[1]
    # Those that came back are told apart by how many reads lie between.
    since = np.arange(len(log)) - np.maximum.accumulate(np.where(log.step == "before", np.arange(len(log)), 0))
    kinds = np.stack([np.unique(log.step, return_inverse=True)[1], skip, since * (log.step == "again")])[:, told]
    groups = np.unique(kinds, axis=1, return_inverse=True)[1].ravel()
    seen, expected = (np.log(values[told] + 0.01) for values in (log.ms, modelled))
    # Sorted within their group: at which angle the disk stood at each read is not known to the model.
    first, second = (values[np.lexsort((values, groups))] for values in (seen, expected))
    return float(np.abs(first - second).mean())


def replay_of(log: ReadLog) -> AccessTrace:
    """Return the reads of a log, with the time that passed between them."""
    think = np.maximum(log.at_ns[1:] - (log.at_ns + log.ns)[:-1], 0) / 1000
    reads = AccessTrace.from_reads(log.offset, log.length)
    return replace(reads, think_us=np.append(0.0, think))


def profile_of(name: str, kind: str, figures: dict[str, Any]) -> DriveProfile:
    """Make a profile of measured figures.

    Parameters
    ----------
    name, kind : str
        Of the profile.
    figures : dict
        Values by the names of `profile.FIGURES`.
    """
    known = {key: Figure(value, "measured", SOURCE) for key, value in figures.items()}
    return DriveProfile(name, name, kind, known, Path())
