"""A rotating disk, one read after another: arm, rotation, look-ahead and buffer segments.

Input: a `Surface` (where each sector lies, how long the arm takes) and reads as logical sectors. Times are
integers, in ticks of 1/2**32 revolution, so that an angle is ``ticks & MASK`` and reading straight on is exact.

The functions are plain Python; `compiled` hands the same functions to numba. They use arrays, integers and
named tuples only.

References
----------
.. [1] C. Ruemmler, J. Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994.
.. [2] J. Bucy, J. Schindler, S. Schlosser, G. Ganger, "The DiskSim Simulation Environment 4.0", CMU-PDL-08-101.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

TURN = 1 << 32
MASK = TURN - 1

# Columns of Surface.runs.
LBN, CYLINDER, HEAD, SECTOR, ANGLE, TRACK_BEGIN, TRACK_END, TRACK_SECTORS = range(8)
# Columns of an arm's state.
RUN, NEXT, READY, MOVED, LIMIT, ACTIVE, CLOCK, FREE = range(8)
# Columns of a buffer segment.
BEGIN, END, USED = range(3)
# Columns of the times of a read.
SEEK, LATENCY, TRANSFER, SERVICE, TRAVEL = range(5)
# What the buffer had.
MISS, PART_HIT, WHOLE_HIT = range(3)

NEVER, NEXT_SECTOR, WINDOW = range(3)


class Surface(NamedTuple):
    """Where the sectors lie and what the drive's electronics do; ticks are 1/2**32 revolution.

    Attributes
    ----------
    runs : (n_runs + 1, 8) int64 array
        Consecutive logical sectors on consecutive physical ones of one track: first sector, cylinder, head, ticks of
        a sector, angle of the first sector, first and last + 1 sector of its track, sectors that the track holds.
        The last row closes the table.
    guess : int64 array
        The run of every ``1 << guess_shift``-th sector, from ``runs[0, LBN]``.
    guess_shift : int
    seek : int64 array
        Ticks by distance in cylinders; 0 at distance 0.
    head_switch : int
        Ticks of another head.
    bus_sector : int
        Ticks of a sector from the buffer to the host.
    read_miss, read_hit : int
        Ticks of overhead of a read from the medium (before the arm moves), of one that the buffer serves.
    segment_sectors : int
        Size of a buffer segment; 0: no buffer.
    behind_sectors : int
        What a look-ahead that fills its segment leaves behind the last read; -1: it ends with the track.
    join : int
        Which reads may wait for the look-ahead: `NEVER`, `NEXT_SECTOR` those that begin with the very sector
        that it reads next, `WINDOW` those that it reaches within a turn.
    """

    runs: NDArray[np.int64]
    guess: NDArray[np.int64]
    guess_shift: int
    seek: NDArray[np.int64]
    head_switch: int
    bus_sector: int
    read_miss: int
    read_hit: int
    segment_sectors: int
    behind_sectors: int
    join: int


def run_at(surface: Surface, lbn: int, near: int) -> int:
    """Return the run that holds a sector; `near` is tried first."""
    runs = surface.runs
    if runs[near, LBN] <= lbn < runs[near + 1, LBN]:
        return near
    run = surface.guess[(lbn - runs[0, LBN]) >> surface.guess_shift]
    while runs[run + 1, LBN] <= lbn:
        run += 1
    return int(run)


def move_ticks(surface: Surface, origin: int, target: int) -> int:
    """Return how long the arm takes from one run's track to another's."""
    runs = surface.runs
    ticks = surface.seek[abs(runs[origin, CYLINDER] - runs[target, CYLINDER])]
    if runs[origin, HEAD] != runs[target, HEAD] and ticks < surface.head_switch:
        return surface.head_switch
    return int(ticks)


def wait_ticks(surface: Surface, run: int, lbn: int, now: int) -> int:
    """Return how long it takes until a sector comes under the head."""
    runs = surface.runs
    angle = runs[run, ANGLE] + (lbn - runs[run, LBN]) * runs[run, SECTOR]
    return int((angle - now) & MASK)


def read_on(surface: Surface, run: int, lbn: int, stop: int, now: int) -> tuple[int, int]:
    """Read sectors `lbn` to `stop`, the first of which comes under the head now.

    Returns
    -------
    ticks, run : int
        The end of the last sector, and the run that holds it.
    """
    runs = surface.runs
    while stop > runs[run + 1, LBN]:
        now += (runs[run + 1, LBN] - lbn) * runs[run, SECTOR]
        lbn = runs[run + 1, LBN]
        now += move_ticks(surface, run, run + 1)
        run += 1
        now += wait_ticks(surface, run, lbn, now)
    return int(now + (stop - lbn) * runs[run, SECTOR]), run


def aim(surface: Surface, arm: NDArray[np.int64], now: int) -> None:
    """Send the look-ahead to its next sector."""
    run = run_at(surface, arm[NEXT], arm[RUN])
    arm[MOVED] = now + move_ticks(surface, arm[RUN], run)
    arm[READY] = arm[MOVED] + wait_ticks(surface, run, arm[NEXT], arm[MOVED])
    arm[RUN] = run


def look_ahead(surface: Surface, arm: NDArray[np.int64], now: int) -> None:
    """Let the drive read ahead until now."""
    runs = surface.runs
    while arm[NEXT] < arm[LIMIT] and arm[READY] < now:
        sector = runs[arm[RUN], SECTOR]
        left = min(runs[arm[RUN] + 1, LBN], arm[LIMIT]) - arm[NEXT]
        done = min((now - arm[READY]) // sector, left)
        arm[NEXT] += done
        arm[READY] += done * sector
        if done < left:
            return
        if arm[NEXT] < arm[LIMIT]:
            aim(surface, arm, arm[READY])


def keep(surface: Surface, arm: NDArray[np.int64], segments: NDArray[np.int64]) -> None:
    """Note in the active segment what has been read into it; the oldest sectors give way."""
    if arm[ACTIVE] >= 0:
        segments[arm[ACTIVE], END] = arm[NEXT]
        segments[arm[ACTIVE], BEGIN] = max(segments[arm[ACTIVE], BEGIN], arm[NEXT] - surface.segment_sectors)


def set_limit(surface: Surface, arm: NDArray[np.int64], segments: NDArray[np.int64], stop: int) -> None:
    """Set where the look-ahead ends, after a read that ended before the sector `stop`.

    Until the segment is full; or at the end of the track that holds the next sector, and, if the segment's data begin
    before that track, as many sectors further as the track of the read has.
    """
    runs = surface.runs
    last = runs[-1, LBN]
    limit = stop + surface.segment_sectors - surface.behind_sectors
    if surface.behind_sectors < 0 and stop < last:
        run = run_at(surface, stop, arm[RUN])
        limit = runs[run, TRACK_END]
        if segments[arm[ACTIVE], BEGIN] < runs[run, TRACK_BEGIN]:
            limit += runs[run_at(surface, stop - 1, run), TRACK_SECTORS]
    arm[LIMIT] = max(arm[LIMIT], min(limit, last))


def give_up(surface: Surface, arm: NDArray[np.int64], segments: NDArray[np.int64], now: int) -> None:
    """Break off the look-ahead, for a read that it cannot serve.

    A sector under the head is passed to its end, and so is the first after a wait; a move is finished.
    """
    arm[FREE] = max(arm[FREE], now)
    if arm[NEXT] < arm[LIMIT]:
        arm[FREE] = arm[MOVED] if arm[MOVED] > now else arm[READY] + surface.runs[arm[RUN], SECTOR]
    keep(surface, arm, segments)
    arm[LIMIT] = arm[NEXT]


def fill(arm: NDArray[np.int64], segments: NDArray[np.int64], segment: int) -> None:
    """Make a segment the active one; nothing is being read into it yet."""
    arm[ACTIVE] = segment
    arm[NEXT] = segments[segment, END]
    arm[LIMIT] = arm[NEXT]


def reaches(surface: Surface, arm: NDArray[np.int64], lbn: int) -> bool:
    """Tell whether a read may wait for the running look-ahead to come to its first sector."""
    ahead = lbn - arm[NEXT]
    if surface.join == NEVER or lbn >= arm[LIMIT]:
        return bool(ahead < 0)
    if surface.join == NEXT_SECTOR:
        return bool(ahead <= 0)
    return bool(ahead < surface.runs[arm[RUN], TRACK_SECTORS])


def find_segment(surface: Surface, arm: NDArray[np.int64], segments: NDArray[np.int64], lbn: int, stop: int) -> int:
    """Return the segment that holds the first sector of a read or soon will; best one that holds it whole; else -1."""
    active = arm[ACTIVE]
    if active >= 0 and segments[active, BEGIN] <= lbn and reaches(surface, arm, lbn):
        return int(active)
    found = -1
    for k in range(segments.shape[0]):
        if segments[k, BEGIN] <= lbn < segments[k, END]:
            if stop <= segments[k, END]:
                return k
            found = k
    return found


def oldest_segment(segments: NDArray[np.int64]) -> int:
    """Return the least recently used segment."""
    best = 0
    for k in range(1, segments.shape[0]):
        if segments[k, USED] < segments[best, USED]:
            best = k
    return best


def go_on(surface: Surface, arm: NDArray[np.int64], segments: NDArray[np.int64], stop: int, now: int) -> None:
    """Start the look-ahead where a read from the medium ended."""
    arm[NEXT] = stop
    arm[LIMIT] = stop
    keep(surface, arm, segments)
    if surface.segment_sectors > 0:
        set_limit(surface, arm, segments, stop)
        if arm[NEXT] < arm[LIMIT]:
            aim(surface, arm, now)


def read_medium(
    surface: Surface,
    arm: NDArray[np.int64],
    segments: NDArray[np.int64],
    lbn: int,
    stop: int,
    times: NDArray[np.int64],
) -> int:
    """Read from the medium into the active segment; return when that is complete."""
    run = run_at(surface, lbn, arm[RUN])
    times[SEEK] = move_ticks(surface, arm[RUN], run)
    times[TRAVEL] = abs(surface.runs[arm[RUN], CYLINDER] - surface.runs[run, CYLINDER])
    there = arm[FREE] + surface.read_miss + times[SEEK]
    times[LATENCY] = wait_ticks(surface, run, lbn, there)
    begin = there + times[LATENCY]
    end, last = read_on(surface, run, lbn, stop, begin)
    times[TRANSFER] = end - begin
    arm[RUN] = last
    go_on(surface, arm, segments, stop, end)
    return int(max(end, begin + (stop - lbn) * surface.bus_sector))


def read_part(
    surface: Surface,
    arm: NDArray[np.int64],
    segments: NDArray[np.int64],
    segment: int,
    stop: int,
    now: int,
    times: NDArray[np.int64],
) -> int:
    """Serve a read that begins in a segment and ends beyond it; return when its last sector is there."""
    if segment == arm[ACTIVE] and arm[NEXT] < arm[LIMIT]:
        arrived, arm[RUN] = read_on(surface, arm[RUN], arm[NEXT], stop, arm[READY])
        go_on(surface, arm, segments, stop, arrived)
        return int(arrived)
    give_up(surface, arm, segments, now)
    fill(arm, segments, segment)
    return read_medium(surface, arm, segments, arm[NEXT], stop, times)


def serve(
    surface: Surface,
    arm: NDArray[np.int64],
    segments: NDArray[np.int64],
    lbn: int,
    stop: int,
    now: int,
    times: NDArray[np.int64],
) -> int:
    """Serve one read that arrives now; fill in its times and return what the buffer had of it."""
    look_ahead(surface, arm, now)
    keep(surface, arm, segments)
    segment = find_segment(surface, arm, segments, lbn, stop) if surface.segment_sectors > 0 else -1
    if segment < 0:
        give_up(surface, arm, segments, now)
        if surface.segment_sectors > 0:
            segment = oldest_segment(segments)
            arm[ACTIVE] = segment
            segments[segment, BEGIN] = lbn
        done = read_medium(surface, arm, segments, lbn, stop, times)
        outcome = MISS
    else:
        done = now + surface.read_hit + (stop - lbn) * surface.bus_sector
        outcome = WHOLE_HIT
        if stop > segments[segment, END]:
            done = max(done, read_part(surface, arm, segments, segment, stop, now, times))
            outcome = PART_HIT
        elif segment != arm[ACTIVE]:
            give_up(surface, arm, segments, now)
            fill(arm, segments, segment)
        elif arm[NEXT] < arm[LIMIT]:
            set_limit(surface, arm, segments, stop)
    if segment >= 0:
        arm[CLOCK] += 1
        segments[segment, USED] = arm[CLOCK]
    times[SERVICE] = done - now
    return outcome


def closed_loop(
    surface: Surface,
    arms: NDArray[np.int64],
    segments: NDArray[np.int64],
    parts: NDArray[np.int64],
    think: NDArray[np.int64],
    now: int,
    times: NDArray[np.int64],
    outcomes: NDArray[np.uint8],
) -> int:
    """Serve reads one at a time; each arrives `think` ticks after the one before was complete.

    Parameters
    ----------
    surface : Surface
        Of each of the drives.
    arms : (n_drives, 8) int64 array
        State of the drives, from `new_arms`.
    segments : (n_drives, n_segments, 3) int64 array
        Their buffers.
    parts : (n_parts, 5) int64 array
        Pieces of reads on one drive each, in order: number of the read, drive, first sector, last sector + 1, ticks
        of a piece that no rotating disk serves. The pieces of a read run side by side.
    think : (n_reads,) int64 array
        Ticks before each read.
    now : int
        The start; its low 32 bits are the angle.
    times : (n_parts, 5) int64 array, zeros
        Filled with seek, latency, transfer, service ticks and cylinders of each piece.
    outcomes : (n_parts,) uint8 array
        Filled with what the buffer had.

    Returns
    -------
    int
        When the last read is complete.
    """
    read = -1
    done = now
    for k in range(parts.shape[0]):
        if parts[k, 0] != read:
            read = parts[k, 0]
            now = done + think[read]
            done = now
        drive = parts[k, 1]
        if drive < 0:
            times[k, SERVICE] = parts[k, 4]
        else:
            outcomes[k] = serve(surface, arms[drive], segments[drive], parts[k, 2], parts[k, 3], now, times[k])
        done = max(done, now + times[k, SERVICE])
    return int(done)


def approach(
    surface: Surface, arm: NDArray[np.int64], segments: NDArray[np.int64], lbn: int, stop: int, now: int
) -> int:
    """Return how long it takes until a read can begin."""
    if surface.segment_sectors > 0 and find_segment(surface, arm, segments, lbn, stop) >= 0:
        return surface.read_hit
    run = run_at(surface, lbn, arm[RUN])
    there = max(now, arm[FREE]) + surface.read_miss + move_ticks(surface, arm[RUN], run)
    return int(there + wait_ticks(surface, run, lbn, there) - now)


def queued_loop(
    surface: Surface,
    arms: NDArray[np.int64],
    segments: NDArray[np.int64],
    parts: NDArray[np.int64],
    waiting: NDArray[np.int64],
    now: int,
    times: NDArray[np.int64],
    outcomes: NDArray[np.uint8],
) -> int:
    """Serve reads that queue up at one drive; it takes the one that can begin first among the oldest.

    Parameters
    ----------
    surface, arms, segments, parts, now, times, outcomes
        As in `closed_loop`; a read's service time runs from the completion of the one served before it.
    waiting : (window,) int64 array
        Work space; its size is how many of the oldest commands the drive looks at.

    Returns
    -------
    int
        When the last read is complete.
    """
    coming = waiting.shape[0]
    waiting[:] = np.arange(coming)
    for _ in range(parts.shape[0]):
        best = 0
        soonest = MASK << 8
        for k in range(waiting.shape[0]):
            if waiting[k] < parts.shape[0]:
                part = parts[waiting[k]]
                cost = approach(surface, arms[0], segments[0], part[2], part[3], now)
                if cost < soonest:
                    soonest = cost
                    best = k
        read = waiting[best]
        outcomes[read] = serve(surface, arms[0], segments[0], parts[read, 2], parts[read, 3], now, times[read])
        now += times[read, SERVICE]
        for k in range(best, waiting.shape[0] - 1):
            waiting[k] = waiting[k + 1]
        waiting[-1] = coming
        coming += 1
    return int(now)


def new_arms(drives: int, num_segments: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the state of drives that stand at their first track with empty buffers."""
    arms = np.zeros((drives, 8), np.int64)
    arms[:, ACTIVE] = -1
    segments = np.zeros((drives, num_segments, 3), np.int64)
    segments[:, :, BEGIN] = 1
    return arms, segments


HELPERS = (
    run_at, move_ticks, wait_ticks, read_on, aim, look_ahead, keep, set_limit, give_up, fill, reaches, find_segment,
    oldest_segment, go_on, read_medium, read_part, serve, approach,
)  # fmt: skip


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of this module compiled by numba, from its on-disk cache where that has been done before."""
    from numba import njit
    from numba.extending import register_jitable

    for helper in HELPERS:
        register_jitable(helper)
    return njit(cache=True)(function)
