"""A rotating disk that serves one read after another: arm, rotation, look-ahead and buffer segments.

Input: a `Surface` (where each sector is, how long the arm takes) and reads as logical sectors. Times are
integers, in ticks of 1/2**32 revolution, so that an angle is ``ticks & MASK`` and sequential reading is exact.

``structs/source/hdd.c`` serves the reads; ``tests/unit/native/reference/hdd.py`` does the same function by function.

References
----------
.. [1] C. Ruemmler, J. Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994.
.. [2] J. Bucy, J. Schindler, S. Schlosser, G. Ganger, "The DiskSim Simulation Environment 4.0", CMU-PDL-08-101.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.structs.native import Kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

SECTOR_BYTES: Final = 512
TURN: Final = 1 << 32
MASK: Final = TURN - 1
MAX_THINK_S: Final = 30 * 86400
"""Limit for all reads together: 64 bits count revolutions for about half a year."""

# Columns of Surface.runs.
LBN, CYLINDER, HEAD, SECTOR, ANGLE, TRACK_BEGIN, TRACK_END, TRACK_SECTORS = range(8)


class Surface(NamedTuple):
    """Where the sectors are and what the drive's electronics do; ticks are 1/2**32 revolution."""

    # runs of consecutive logical sectors on consecutive physical sectors of one track: first sector, cylinder, head,
    # ticks per sector, angle of the first sector, first and last + 1 sector of the track, sectors per track; the last
    # row closes the table
    runs: NDArray[np.int64]
    guess: NDArray[np.int64]  # the run of every (`1 << guess_shift`)-th sector, from `runs[0, LBN]`
    guess_shift: int
    seek: NDArray[np.int64]  # ticks by distance in cylinders; 0 at distance 0
    head_switch: int  # ticks of a head switch
    bus_sector: int  # ticks per sector from the buffer to the host
    # read_miss, read_hit: overhead in ticks of a read from the medium (before the arm moves), and of a read that the
    # buffer serves
    read_miss: int
    read_hit: int
    start_anywhere: int  # 1: the drive reads the wanted sectors of a track starting with whichever comes first
    segment_sectors: int  # size of a buffer segment; 0: no buffer
    # sectors before the last read's end that a full segment keeps; -1: the look-ahead ends with the track
    behind_sectors: int
    # which reads may wait for the look-ahead: `NEVER`, `NEXT_SECTOR` (those that begin with the sector that it reads
    # next), `WINDOW` (those that it reaches within a revolution)
    join: int
    # 1: sectors of the track that pass under the head before a wanted sector are kept in the segment ("Read any free
    # blocks" of DiskSim, on-arrival read-ahead of Ruemmler and Wilkes)
    on_arrival: int = 0


# Columns of an arm's state: the run under the head, the next sector of the look-ahead, the time when that sector begins
# to pass, the time when the arm arrived there, the sector at which the look-ahead ends, the segment that it fills (-1:
# none), a count of reads by which segments age, the time when the arm is free for another read.
RUN, NEXT, READY, MOVED, LIMIT, ACTIVE, CLOCK, FREE = range(8)
# Columns of a buffer segment: first sector, last + 1, and the count at its last use.
BEGIN, END, USED = range(3)
# Columns of the times of a read.
SEEK, LATENCY, TRANSFER, SERVICE, TRAVEL = range(5)
# How much of a read the buffer contained.
MISS, PART_HIT, WHOLE_HIT = range(3)

NEVER, NEXT_SECTOR, WINDOW = range(3)


CLOSED_LOOP: Final = Kernel("closed_loop", "llllLLllnLB")
QUEUED_LOOP: Final = Kernel("queued_loop", "llllLLlLnLB")


def serve_pieces(
    surface: Surface,
    num_drives: int,
    num_segments: int,
    # for each piece of a read: the read, the drive (-1 for flash), first sector, last + 1, service ticks on flash
    pieces: I64,
    think: I64,  # ticks from the end of each read to the next one; they do not count in a queue
    now: int,
    # number of queued reads from which the first drive picks the one that can begin first; 0 for one read at a time
    window: int = 0,
    start_run: int | None = None,  # the run at which the arms start; by default the outermost
) -> tuple[I64, NDArray[np.uint8]]:
    """Serve reads on equal drives; return ticks and cylinders of each piece, shape (n, 5), and buffer outcomes."""
    figures = np.array([surface.guess_shift, *surface[4:]], np.int64)
    times, outcomes = np.zeros((len(pieces), 5), np.int64), np.zeros(len(pieces), np.uint8)
    kernel, extra = (QUEUED_LOOP, np.zeros(window, np.int64)) if window else (CLOSED_LOOP, think)
    drives = new_drives(surface, num_drives, num_segments, start_run)
    kernel(surface.runs, surface.guess, surface.seek, figures, *drives, pieces, extra, now, times, outcomes)
    return times, outcomes


def new_drives(surface: Surface, count: int, num_segments: int, start_run: int | None = None) -> tuple[I64, I64]:
    """Return drives of one kind with empty buffers, their arms at the outermost track or another run.

    Their arms, shape (n_drives, 8), and the segments of their buffers, shape (n_drives, n_segments, 3).
    """
    arms = np.zeros((count, 8), np.int64)
    arms[:, RUN] = np.argmin(surface.runs[:-1, CYLINDER]) if start_run is None else start_run
    arms[:, ACTIVE] = -1
    segments = np.zeros((count, num_segments, 3), np.int64)
    segments[:, :, BEGIN] = 1
    return arms, segments
