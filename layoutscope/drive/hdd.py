"""A rotating disk, one read after another: arm, rotation, look-ahead and buffer segments.

Input: a `Surface` (where each sector lies, how long the arm takes) and reads as logical sectors. Times are
integers, in ticks of 1/2**32 revolution, so that an angle is ``ticks & MASK`` and reading straight on is exact.

Twin of ``native/source/hdd.c``, which does the same in C, function by function; what is changed here is changed there.

References
----------
.. [1] C. Ruemmler, J. Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994.
.. [2] J. Bucy, J. Schindler, S. Schlosser, G. Ganger, "The DiskSim Simulation Environment 4.0", CMU-PDL-08-101.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from layoutscope.drive.surface import (
    CYLINDER,
    LBN,
    SECTOR,
    TRACK_BEGIN,
    TRACK_END,
    TRACK_SECTORS,
    Surface,
    move_ticks,
    read_anywhere,
    read_on,
    run_at,
    wait_ticks,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns of an arm's state: the run under the head, the next sector of the look-ahead, when that sector begins to pass,
# when the arm has come there, the sector at which the look-ahead ends, the segment that it fills (-1: none), a count of
# reads by which segments age, when the arm is free for another read.
RUN, NEXT, READY, MOVED, LIMIT, ACTIVE, CLOCK, FREE = range(8)
# Columns of a buffer segment: first sector, last + 1, and the count when it was last used.
BEGIN, END, USED = range(3)
# Columns of the times of a read.
SEEK, LATENCY, TRANSFER, SERVICE, TRAVEL = range(5)
# What the buffer had.
MISS, PART_HIT, WHOLE_HIT = range(3)

NEVER, NEXT_SECTOR, WINDOW = range(3)


class Drive(NamedTuple):
    """One drive at work: what it is, the state of its arm, its buffer segments."""

    surface: Surface
    arm: NDArray[np.int64]
    segments: NDArray[np.int64]


def aim(drive: Drive, now: int) -> None:
    """Send the look-ahead to its next sector."""
    surface, arm, _ = drive
    run = run_at(surface, arm[NEXT], arm[RUN])
    arm[MOVED] = now + move_ticks(surface, arm[RUN], run)
    arm[READY] = arm[MOVED] + wait_ticks(surface, run, arm[NEXT], arm[MOVED])
    arm[RUN] = run


def look_ahead(drive: Drive, now: int) -> None:
    """Let the drive read ahead until now."""
    surface, arm, _ = drive
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
            aim(drive, arm[READY])


def keep(drive: Drive) -> None:
    """Note in the active segment what has been read into it; the oldest sectors give way."""
    surface, arm, segments = drive
    if arm[ACTIVE] >= 0:
        segments[arm[ACTIVE], END] = arm[NEXT]
        segments[arm[ACTIVE], BEGIN] = max(segments[arm[ACTIVE], BEGIN], arm[NEXT] - surface.segment_sectors)


def set_limit(drive: Drive, stop: int) -> None:
    """Set where the look-ahead ends, after a read that ended before the sector `stop`.

    Until the segment is full; or at the end of the track that holds the next sector, and, if the segment's data begin
    before that track, as many sectors further as the track of the read has.
    """
    surface, arm, segments = drive
    runs = surface.runs
    last = runs[-1, LBN]
    limit = stop + surface.segment_sectors - surface.behind_sectors
    if surface.behind_sectors < 0 and stop < last:
        run = run_at(surface, stop, arm[RUN])
        limit = runs[run, TRACK_END]
        if segments[arm[ACTIVE], BEGIN] < runs[run, TRACK_BEGIN]:
            limit += runs[run_at(surface, stop - 1, run), TRACK_SECTORS]
    arm[LIMIT] = max(arm[LIMIT], min(limit, last))


def give_up(drive: Drive, now: int) -> None:
    """Break off the look-ahead, for a read that it cannot serve.

    A sector under the head is passed to its end, and so is the first after a wait; a move is finished.
    """
    surface, arm, _ = drive
    # The electronics see a command at once, the arm when it is at rest and between two sectors.
    arm[FREE] = max(arm[FREE], now)
    if arm[NEXT] < arm[LIMIT]:
        arm[FREE] = arm[MOVED] if arm[MOVED] > now else arm[READY] + surface.runs[arm[RUN], SECTOR]
    keep(drive)
    arm[LIMIT] = arm[NEXT]


def fill(drive: Drive, segment: int) -> None:
    """Make a segment the active one; nothing is being read into it yet."""
    _, arm, segments = drive
    arm[ACTIVE] = segment
    arm[NEXT] = segments[segment, END]
    arm[LIMIT] = arm[NEXT]


def reaches(drive: Drive, lbn: int) -> bool:
    """Tell whether a read may wait for the running look-ahead to come to its first sector."""
    surface, arm, _ = drive
    ahead = lbn - arm[NEXT]
    if surface.join == NEVER or lbn >= arm[LIMIT]:
        return bool(ahead < 0)
    if surface.join == NEXT_SECTOR:
        return bool(ahead <= 0)
    return bool(ahead < surface.runs[arm[RUN], TRACK_SECTORS])


def find_segment(drive: Drive, lbn: int, stop: int) -> int:
    """Return the segment that holds the first sector of a read or soon will, or -1.

    Best one that holds the read whole; among equals the one used last, which is the active one.
    """
    _, arm, segments = drive
    active = arm[ACTIVE]
    found, whole = -1, False
    if active >= 0 and segments[active, BEGIN] <= lbn and reaches(drive, lbn):
        if stop <= segments[active, END]:
            return int(active)
        found = int(active)
    for k in range(segments.shape[0]):
        if segments[k, BEGIN] <= lbn < segments[k, END]:
            better = stop <= segments[k, END]
            if found < 0 or (better and not whole) or (better == whole and segments[k, USED] > segments[found, USED]):
                found = k
                whole = better
    return found


def oldest_segment(segments: NDArray[np.int64]) -> int:
    """Return the least recently used segment."""
    best = 0
    for k in range(1, segments.shape[0]):
        if segments[k, USED] < segments[best, USED]:
            best = k
    return best


def go_on(drive: Drive, stop: int, now: int) -> None:
    """Start the look-ahead where a read from the medium ended."""
    surface, arm, _ = drive
    arm[NEXT] = stop
    arm[LIMIT] = stop
    keep(drive)
    if surface.segment_sectors > 0:
        set_limit(drive, stop)
        if arm[NEXT] < arm[LIMIT]:
            aim(drive, now)


def read_medium(drive: Drive, lbn: int, stop: int, times: NDArray[np.int64]) -> int:
    """Read from the medium into the active segment."""
    surface, arm, _ = drive
    run = run_at(surface, lbn, arm[RUN])
    times[SEEK] = move_ticks(surface, arm[RUN], run)
    times[TRAVEL] = abs(surface.runs[arm[RUN], CYLINDER] - surface.runs[run, CYLINDER])
    there = arm[FREE] + surface.read_miss + times[SEEK]
    if surface.start_anywhere:
        begin, end, last = read_anywhere(surface, run, lbn, stop, there)
    else:
        begin = there + wait_ticks(surface, run, lbn, there)
        end, last = read_on(surface, run, lbn, stop, begin)
    times[LATENCY] = begin - there
    times[TRANSFER] = end - begin
    arm[RUN] = last
    go_on(drive, stop, end)
    # A sector goes to the host when it is in the buffer whole: the interface lags by one sector behind the medium, or,
    # if it is the slower one, by the difference that has grown.
    first_in_buffer = begin + surface.runs[run, SECTOR]
    return int(max(end + surface.bus_sector, first_in_buffer + (stop - lbn) * surface.bus_sector))


def read_part(
    drive: Drive,
    segment: int,
    stop: int,
    now: int,
    times: NDArray[np.int64],  # filled in where the medium must be read anew
) -> int:
    """Serve a read that begins in a segment and ends beyond it."""
    surface, arm, _ = drive
    if segment == arm[ACTIVE] and arm[NEXT] < arm[LIMIT]:
        arrived, arm[RUN] = read_on(surface, arm[RUN], arm[NEXT], stop, arm[READY])
        go_on(drive, stop, arrived)
        return int(arrived + surface.bus_sector)
    give_up(drive, now)
    fill(drive, segment)
    return read_medium(drive, arm[NEXT], stop, times)


def serve_read(drive: Drive, lbn: int, stop: int, now: int, times: NDArray[np.int64]) -> int:
    """Serve one read."""
    surface, arm, segments = drive
    look_ahead(drive, now)
    keep(drive)
    segment = find_segment(drive, lbn, stop) if surface.segment_sectors > 0 else -1
    if segment < 0:
        give_up(drive, now)
        if surface.segment_sectors > 0:
            # Drives give up the segment used longest ago, whatever it holds; one that is being filled was used last.
            segment = oldest_segment(segments)
            arm[ACTIVE] = segment
            segments[segment, BEGIN] = lbn
        done = read_medium(drive, lbn, stop, times)
        outcome = MISS
    else:
        done = now + surface.read_hit + (stop - lbn) * surface.bus_sector
        outcome = WHOLE_HIT
        if stop > segments[segment, END]:
            done = max(done, read_part(drive, segment, stop, now, times))
            outcome = PART_HIT
        elif segment != arm[ACTIVE]:
            give_up(drive, now)
            fill(drive, segment)
        elif arm[NEXT] < arm[LIMIT]:
            set_limit(drive, stop)
    if segment >= 0:
        arm[CLOCK] += 1
        segments[segment, USED] = arm[CLOCK]
    times[SERVICE] = done - now
    return outcome


def approach(drive: Drive, lbn: int, stop: int, now: int) -> int:
    """Return how long it takes until a read can begin."""
    surface, arm, _ = drive
    if surface.segment_sectors > 0 and find_segment(drive, lbn, stop) >= 0:
        return surface.read_hit
    run = run_at(surface, lbn, arm[RUN])
    there = max(now, arm[FREE]) + surface.read_miss + move_ticks(surface, arm[RUN], run)
    return int(there + wait_ticks(surface, run, lbn, there) - now)
