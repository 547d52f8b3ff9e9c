"""Reads on rotating disks, one after another or from a queue: served by the native core, or by `hdd` in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.drive.hdd import ACTIVE, BEGIN, RUN, SERVICE, Drive, approach, serve_read
from layoutscope.drive.surface import CYLINDER, MASK, Surface
from layoutscope.native import Kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    I64 = NDArray[np.int64]


class Drives(NamedTuple):
    """Drives of one kind at work: what each is, (n_drives, 8) arms, (n_drives, n_segments, 3) segments."""

    surface: Surface
    arms: NDArray[np.int64]
    segments: NDArray[np.int64]


class ServedPieces(NamedTuple):
    """What became of pieces of reads: (n, 5) ticks and cylinders of each, and (n,) what the buffer had of it."""

    times: NDArray[np.int64]
    outcomes: NDArray[np.uint8]


CLOSED_LOOP: Final = Kernel("closed_loop", "llllLLllnLB")
QUEUED_LOOP: Final = Kernel("queued_loop", "llllLLlLnLB")


def serve_in_order(drives: Drives, parts: NDArray[np.int64], think: NDArray[np.int64], now: int) -> ServedPieces:
    """Serve reads one at a time; each arrives `think` ticks after the one before was complete."""
    return _run(CLOSED_LOOP, closed_loop, drives, (parts, think), now)


def serve_queue(drives: Drives, parts: NDArray[np.int64], window: int, now: int) -> ServedPieces:
    """Serve reads that queue up at the first drive; it takes the one that can begin first among the oldest."""
    return _run(QUEUED_LOOP, queued_loop, drives, (parts, np.zeros(window, np.int64)), now)


def _run(kernel: Kernel, loop: Callable[..., None], drives: Drives, reads: tuple[I64, I64], now: int) -> ServedPieces:
    """Run a kernel, or the loop that it is the twin of."""
    surface = drives.surface
    figures = np.array([surface.guess_shift, *surface[4:]], np.int64)
    served, working = _unserved(len(reads[0])), _copied(drives)
    tables = surface.runs, surface.guess, surface.seek, figures
    if kernel(*tables, working.arms, working.segments, *reads, now, *served) is None:
        served = _unserved(len(reads[0]))
        loop(_copied(drives), *reads, now, served)
    return served


def _unserved(count: int) -> ServedPieces:
    return ServedPieces(np.zeros((count, 5), np.int64), np.zeros(count, np.uint8))


def _copied(drives: Drives) -> Drives:
    return Drives(drives.surface, drives.arms.copy(), drives.segments.copy())


def closed_loop(
    drives: Drives, parts: NDArray[np.int64], think: NDArray[np.int64], now: int, served: ServedPieces
) -> None:
    """Serve reads one at a time; the twin of ``closed_loop`` in ``native/source/hdd.c``."""
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
    """Serve reads that queue up at the first drive; the twin of ``queued_loop`` in ``native/source/hdd.c``."""
    drive = drive_of(drives, 0)
    coming = waiting.shape[0]
    waiting[:] = np.arange(coming)
    for _ in range(parts.shape[0]):
        # 256 turns: longer than any seek with its wait.
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


def new_drives(surface: Surface, count: int, num_segments: int) -> Drives:
    """Return drives that stand at their outermost track with empty buffers."""
    arms = np.zeros((count, 8), np.int64)
    arms[:, RUN] = np.argmin(surface.runs[:-1, CYLINDER])
    arms[:, ACTIVE] = -1
    segments = np.zeros((count, num_segments, 3), np.int64)
    segments[:, :, BEGIN] = 1
    return Drives(surface, arms, segments)
