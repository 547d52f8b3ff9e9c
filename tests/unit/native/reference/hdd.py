"""A rotating disk in Python, function by function as in ``structs/source/hdd.c``: the oracle of its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from layoutscope.drive.hdd import (
    ACTIVE,
    ANGLE,
    BEGIN,
    CLOCK,
    CYLINDER,
    END,
    FREE,
    HEAD,
    LATENCY,
    LBN,
    LIMIT,
    MASK,
    MISS,
    MOVED,
    NEVER,
    NEXT,
    NEXT_SECTOR,
    PART_HIT,
    READY,
    RUN,
    SECTOR,
    SEEK,
    SERVICE,
    TRACK_BEGIN,
    TRACK_END,
    TRACK_SECTORS,
    TRANSFER,
    TRAVEL,
    TURN,
    USED,
    WHOLE_HIT,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.drive.hdd import Surface


def run_at(surface: Surface, lbn: int, near: int) -> int:
    """Return the run that holds a sector."""
    runs = surface.runs
    if runs[near, LBN] <= lbn < runs[near + 1, LBN]:
        return near
    run = surface.guess[(lbn - runs[0, LBN]) >> surface.guess_shift]
    while runs[run + 1, LBN] <= lbn:
        run += 1
    return int(run)


def move_ticks(surface: Surface, origin: int, target: int) -> int:
    """Return how long the arm takes from one run's track to another."""
    runs = surface.runs
    ticks = surface.seek[abs(runs[origin, CYLINDER] - runs[target, CYLINDER])]
    # The other head has to settle on its track while the arm moves, so it counts only if the arm is quicker.
    if runs[origin, HEAD] != runs[target, HEAD] and ticks < surface.head_switch:
        return surface.head_switch
    return int(ticks)


def wait_ticks(surface: Surface, run: int, lbn: int, now: int) -> int:
    """Return the time until a sector is under the head."""
    runs = surface.runs
    # A turn has as many ticks as a 32-bit word has values: the clock's low word is the disk's angle, and a wait is a
    # difference that wraps by itself.
    angle = runs[run, ANGLE] + (lbn - runs[run, LBN]) * runs[run, SECTOR]
    return int((angle - now) & MASK)


def read_on(
    surface: Surface,  # holds the sectors
    run: int,
    lbn: int,
    stop: int,
    now: int,
) -> tuple[int, int]:
    """Read sectors, the first of which is under the head now."""
    runs = surface.runs
    while stop > runs[run + 1, LBN]:
        now += (runs[run + 1, LBN] - lbn) * runs[run, SECTOR]
        lbn = runs[run + 1, LBN]
        now += move_ticks(surface, run, run + 1)
        run += 1
        now += wait_ticks(surface, run, lbn, now)
    return int(now + (stop - lbn) * runs[run, SECTOR]), run


def read_anywhere(surface: Surface, run: int, lbn: int, stop: int, now: int) -> tuple[int, int, int]:
    """Read sectors in any order per track, starting now with the one under the head.

    A head that comes down amid the wanted sectors of a track has them all after one turn.
    """
    runs = surface.runs
    begin = -1
    while True:
        sector = runs[run, SECTOR]
        end = min(stop, runs[run + 1, LBN])
        wait = wait_ticks(surface, run, lbn, now)
        behind = -(-(TURN - wait) // sector)
        # Zero-latency reads: the buffer takes sectors in any order, so a whole track takes one turn from wherever the
        # head arrives (Ruemmler and Wilkes, 1994).
        if wait > 0 and behind < end - lbn:
            start = now + wait - TURN + behind * sector
            done = start + TURN
        else:
            start = now + wait
            done = start + (end - lbn) * sector
        if begin < 0:
            begin = start
        if end == stop:
            return int(begin), int(done), run
        lbn = end
        now = done + move_ticks(surface, run, run + 1)
        run += 1


class Drive(NamedTuple):
    """State of a working drive: its figures, its arm, its buffer segments."""

    surface: Surface
    arm: NDArray[np.int64]
    segments: NDArray[np.int64]


def aim(drive: Drive, now: int) -> None:
    """Move the look-ahead to its next sector."""
    surface, arm, _ = drive
    run = run_at(surface, arm[NEXT], arm[RUN])
    arm[MOVED] = now + move_ticks(surface, arm[RUN], run)
    arm[READY] = arm[MOVED] + wait_ticks(surface, run, arm[NEXT], arm[MOVED])
    arm[RUN] = run


def look_ahead(drive: Drive, now: int) -> None:
    """Let the drive read ahead until the present time."""
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
    """Record the sectors read into the active segment; the oldest sectors are dropped."""
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
    """Stop the look-ahead for a read that it cannot serve.

    A sector under the head is passed to its end, and so is the first after a wait; a move is finished.
    """
    surface, arm, _ = drive
    # The electronics see a command at once; the arm sees it at rest and between two sectors.
    arm[FREE] = max(arm[FREE], now)
    if arm[NEXT] < arm[LIMIT]:
        arm[FREE] = arm[MOVED] if arm[MOVED] > now else arm[READY] + surface.runs[arm[RUN], SECTOR]
    keep(drive)
    arm[LIMIT] = arm[NEXT]


def fill(drive: Drive, segment: int) -> None:
    """Make a segment the active one, before anything is read into it."""
    _, arm, segments = drive
    arm[ACTIVE] = segment
    arm[NEXT] = segments[segment, END]
    arm[LIMIT] = arm[NEXT]


def reaches(drive: Drive, lbn: int) -> bool:
    """Return whether a read may wait until the look-ahead reaches its first sector."""
    surface, arm, _ = drive
    ahead = lbn - arm[NEXT]
    if surface.join == NEVER or lbn >= arm[LIMIT]:
        return bool(ahead < 0)
    if surface.join == NEXT_SECTOR:
        return bool(ahead <= 0)
    return bool(ahead < surface.runs[arm[RUN], TRACK_SECTORS])


def find_segment(drive: Drive, lbn: int, stop: int) -> int:
    """Return the segment that holds or will soon hold the first sector of a read, or -1.

    The best segment holds the whole read; among equals, it is the one used last, which is the active one.
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
    """Start the look-ahead at the end of a read from the medium."""
    surface, arm, _ = drive
    arm[NEXT] = stop
    arm[LIMIT] = stop
    keep(drive)
    if surface.segment_sectors > 0:
        set_limit(drive, stop)
        if arm[NEXT] < arm[LIMIT]:
            aim(drive, now)


def keep_arrivals(drive: Drive, run: int, lbn: int, there: int) -> None:
    """Record the sectors that pass under the head before a wanted sector of its track as the start of the segment."""
    surface, arm, segments = drive
    passed = wait_ticks(surface, run, lbn, there) // surface.runs[run, SECTOR]
    first = max(lbn - passed, surface.runs[run, TRACK_BEGIN])
    segments[arm[ACTIVE], BEGIN] = min(segments[arm[ACTIVE], BEGIN], first)


def read_medium(drive: Drive, lbn: int, stop: int, times: NDArray[np.int64]) -> int:
    """Read from the medium into the active segment."""
    surface, arm, _ = drive
    run = run_at(surface, lbn, arm[RUN])
    times[SEEK] = move_ticks(surface, arm[RUN], run)
    times[TRAVEL] = abs(surface.runs[arm[RUN], CYLINDER] - surface.runs[run, CYLINDER])
    there = arm[FREE] + surface.read_miss + times[SEEK]
    if surface.on_arrival and arm[ACTIVE] >= 0:
        keep_arrivals(drive, run, lbn, there)
    if surface.start_anywhere:
        begin, end, last = read_anywhere(surface, run, lbn, stop, there)
    else:
        begin = there + wait_ticks(surface, run, lbn, there)
        end, last = read_on(surface, run, lbn, stop, begin)
    times[LATENCY] = begin - there
    times[TRANSFER] = end - begin
    arm[RUN] = last
    go_on(drive, stop, end)
    # A sector goes to the host when the buffer has all of it: the interface lags one sector behind the medium, or, if
    # it is slower, by the accumulated difference.
    first_in_buffer = begin + surface.runs[run, SECTOR]
    return int(max(end + surface.bus_sector, first_in_buffer + (stop - lbn) * surface.bus_sector))


def read_part(
    drive: Drive,
    segment: int,
    stop: int,
    now: int,
    times: NDArray[np.int64],  # set if the medium must be read again
) -> int:
    """Serve a read that begins in a segment and ends after it."""
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
            # Drives drop the least recently used segment, whatever it holds; one that is being filled was used last.
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
    """Return the time until a read can begin."""
    surface, arm, _ = drive
    if surface.segment_sectors > 0 and find_segment(drive, lbn, stop) >= 0:
        return surface.read_hit
    run = run_at(surface, lbn, arm[RUN])
    there = max(now, arm[FREE]) + surface.read_miss + move_ticks(surface, arm[RUN], run)
    return int(there + wait_ticks(surface, run, lbn, there) - now)


class Drives(NamedTuple):
    """Drives of one kind: figures of each, (n_drives, 8) arms, (n_drives, n_segments, 3) segments."""

    surface: Surface
    arms: NDArray[np.int64]
    segments: NDArray[np.int64]


class ServedPieces(NamedTuple):
    """Results of read pieces: (n, 5) ticks and cylinders of each, and (n,) how the buffer served it."""

    times: NDArray[np.int64]
    outcomes: NDArray[np.uint8]


def closed_loop(
    drives: Drives, parts: NDArray[np.int64], think: NDArray[np.int64], now: int, served: ServedPieces
) -> None:
    """Serve reads one at a time; the twin of ``closed_loop`` in ``structs/source/hdd.c``."""
    read = -1
    done = now
    for k in range(parts.shape[0]):
        if parts[k, 0] != read:
            read = parts[k, 0]
            now = done + think[read]
            done = now
        if parts[k, 1] < 0:
            served.times[k, SERVICE] = parts[k, 4]
        else:
            one = drive_of(drives, parts[k, 1])
            served.outcomes[k] = serve_read(one, parts[k, 2], parts[k, 3], now, served.times[k])
        done = max(done, now + served.times[k, SERVICE])


def queued_loop(
    drives: Drives, parts: NDArray[np.int64], waiting: NDArray[np.int64], now: int, served: ServedPieces
) -> None:
    """Serve reads queued at the first drive; the twin of ``queued_loop`` in ``structs/source/hdd.c``."""
    drive = drive_of(drives, 0)
    coming = waiting.shape[0]
    waiting[:] = np.arange(coming)
    for _ in range(parts.shape[0]):
        # 256 turns: longer than any seek with its rotational wait.
        best, soonest = 0, MASK << 8
        for k in range(waiting.shape[0]):
            if waiting[k] < parts.shape[0]:
                part = parts[waiting[k]]
                cost = approach(drive, part[2], part[3], now)
                if cost < soonest:
                    soonest = cost
                    best = k
        read = waiting[best]
        served.outcomes[read] = serve_read(drive, parts[read, 2], parts[read, 3], now, served.times[read])
        now += served.times[read, SERVICE]
        for k in range(best, waiting.shape[0] - 1):
            waiting[k] = waiting[k + 1]
        waiting[-1] = coming
        coming += 1


def drive_of(drives: Drives, number: int) -> Drive:
    """Return one of several drives."""
    return Drive(drives.surface, drives.arms[number], drives.segments[number])
