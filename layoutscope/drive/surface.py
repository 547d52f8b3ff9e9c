"""The surface of a rotating disk: where each sector lies, how the arm gets there, when it comes under the head.

Input: tables that `geometry` builds. Twin of ``native/source/surface.h``, which does the same in C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SECTOR_BYTES: Final = 512
TURN: Final = 1 << 32
MASK: Final = TURN - 1
MOST_THINK_S: Final = 30 * 86400
"""Of all reads together: 64 bits count turns for about half a year."""

# Columns of Surface.runs.
LBN, CYLINDER, HEAD, SECTOR, ANGLE, TRACK_BEGIN, TRACK_END, TRACK_SECTORS = range(8)


class Surface(NamedTuple):
    """Where the sectors lie and what the drive's electronics do; ticks are 1/2**32 revolution."""

    # consecutive logical sectors on consecutive physical ones of one track: first sector, cylinder, head, ticks of a
    # sector, angle of the first sector, first and last + 1 sector of its track, sectors that the track holds. The last
    # row closes the table.
    runs: NDArray[np.int64]
    guess: NDArray[np.int64]  # the run of every `1 << guess_shift`-th sector, from `runs[0, LBN]`
    guess_shift: int
    seek: NDArray[np.int64]  # ticks by distance in cylinders; 0 at distance 0
    head_switch: int  # ticks of another head
    bus_sector: int  # ticks of a sector from the buffer to the host
    # read_miss, read_hit: ticks of overhead of a read from the medium (before the arm moves), of one that the buffer
    # serves
    read_miss: int
    read_hit: int
    start_anywhere: int  # 1: of what it wants from a track the drive begins with whichever sector comes first
    segment_sectors: int  # size of a buffer segment; 0: no buffer
    # what a look-ahead that fills its segment leaves behind the last read; -1: it ends with the track
    behind_sectors: int
    # which reads may wait for the look-ahead: `NEVER`, `NEXT_SECTOR` those that begin with the very sector that it
    # reads next, `WINDOW` those that it reaches within a turn
    join: int


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
    """Return how long the arm takes from one run's track to another's."""
    runs = surface.runs
    ticks = surface.seek[abs(runs[origin, CYLINDER] - runs[target, CYLINDER])]
    # The other head has to find its track while the arm is on its way; only where the arm is quicker does it count.
    if runs[origin, HEAD] != runs[target, HEAD] and ticks < surface.head_switch:
        return surface.head_switch
    return int(ticks)


def wait_ticks(surface: Surface, run: int, lbn: int, now: int) -> int:
    """Return how long it takes until a sector comes under the head."""
    runs = surface.runs
    # The disk turns as many ticks a turn as a word of 32 bits has values: the clock's low word is where it stands, and
    # a wait is a difference that wraps by itself.
    angle = runs[run, ANGLE] + (lbn - runs[run, LBN]) * runs[run, SECTOR]
    return int((angle - now) & MASK)


def read_on(
    surface: Surface,  # holds the sectors
    run: int,
    lbn: int,
    stop: int,
    now: int,
) -> tuple[int, int]:
    """Read sectors, the first of which comes under the head now."""
    runs = surface.runs
    while stop > runs[run + 1, LBN]:
        now += (runs[run + 1, LBN] - lbn) * runs[run, SECTOR]
        lbn = runs[run + 1, LBN]
        now += move_ticks(surface, run, run + 1)
        run += 1
        now += wait_ticks(surface, run, lbn, now)
    return int(now + (stop - lbn) * runs[run, SECTOR]), run


def read_anywhere(surface: Surface, run: int, lbn: int, stop: int, now: int) -> tuple[int, int, int]:
    """Read sectors, of each track what comes under the head first, from now.

    A head that comes down amid the wanted sectors of a track has them all after one turn.
    """
    runs = surface.runs
    begin = -1
    while True:
        sector = runs[run, SECTOR]
        end = min(stop, runs[run + 1, LBN])
        wait = wait_ticks(surface, run, lbn, now)
        behind = -(-(TURN - wait) // sector)
        # Zero-latency reads: the buffer takes sectors in any order, so that a track that is wanted whole takes one turn
        # from wherever the head comes down (Ruemmler and Wilkes, 1994).
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
