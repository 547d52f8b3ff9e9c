"""Service time of an access trace on a drive, with its causes.

Service time = seek + rotational latency + transfer + overhead (Ruemmler & Wilkes 1994). One read is outstanding; the
next arrives when the one before is complete and its think time is over. The drive reads ahead in between.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.drive import hdd
from layoutscope.drive.flash import flash_ms
from layoutscope.drive.geometry import SECTOR_BYTES, build_surface, num_segments, turn_ms
from layoutscope.drive.members import Parts, leaves, split
from layoutscope.drive.result import ReadTimes, ServiceResult, summarise
from layoutscope.drive.surface import TURN
from layoutscope.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.drive.profile import DriveProfile
    from layoutscope.drive.surface import Surface
    from layoutscope.walk.trace import AccessTrace

COMPILE_FROM: Final = 200_000
"""Work from which loading the compiled loop pays: reads, each with its scan of the buffer's segments; it is done once
for each start phase."""
STEP_WORK: Final = 8


def service(
    trace: AccessTrace,
    profile: DriveProfile,
    *,
    start_offset_bytes: int = 0,
    seed: int = 0,
    phases: int = 3,
    cache: str = "own",
    queue_depth: int = 1,
) -> ServiceResult:
    """Predict how long a drive takes for a trace, and why.

    Parameters
    ----------
    trace : AccessTrace
        The reads, with the host's think times.
    profile : DriveProfile
        From `load_profile`.
    start_offset_bytes : int
        Where the image starts on the drive: 0 for a whole disk, else the start of the partition.
    seed : int
        Of the start phases.
    phases : int
        How many start angles are tried. The first is 0, the others are drawn; the result is that of the first, its
        interval spans all.
    cache : str
        ``own``, ``off``, ``join`` or ``no-join``, see `DriveProfile.with_cache`.
    queue_depth : int
        Reads that are outstanding. More than one: think times do not count, a disk picks the nearest among those of
        its window, flash serves some side by side.

    Returns
    -------
    ServiceResult

    Raises
    ------
    UsageError
        If the trace does not fit the drive, or the profile lacks a figure.
    """
    drive = profile.with_cache(cache)
    offset = trace.image_offset + start_offset_bytes
    parts = split(drive, offset, trace.length_bytes, trace.device)
    if queue_depth > 1:
        trace = replace(trace, think_us=np.zeros(len(trace)))
    angles = start_angles(seed, phases)
    runs = [serve_parts(drive, parts, trace.think_us, angle, queue_depth) for angle in angles]
    return summarise(drive, trace, runs)


def start_angles(seed: int, phases: int) -> list[int]:
    """Return the start angles in ticks: 0, then seeded ones."""
    drawn = np.random.default_rng(seed).integers(0, TURN, max(phases - 1, 0))
    return [0, *(int(angle) for angle in drawn)]


def serve_parts(
    profile: DriveProfile, parts: Parts, think_us: NDArray[np.float64], angle: int, queue_depth: int
) -> ReadTimes:
    """Run the pieces of the reads, one read after another."""
    drives = leaves(profile)
    flash, moved = flash_parts(drives, parts, queue_depth)
    rotating = [k for k, drive in enumerate(drives) if drive.kind == "hdd"]
    if not rotating:
        return by_read(flash, np.zeros((len(flash), 5)), moved, np.zeros(len(flash), np.uint8), parts, len(think_us))
    disk = drives[rotating[0]]
    if any(drives[k].figures != disk.figures for k in rotating):
        raise UsageError(f"drive profile {profile.name}: the rotating members must be of one kind")
    per_ms = TURN / turn_ms(disk)
    number = np.full(len(drives), -1, np.int64)
    number[rotating] = np.arange(len(rotating))
    pieces = sector_parts(parts, number[parts.member], np.rint(flash * per_ms).astype(np.int64))
    if queue_depth > 1:
        times, outcomes = run_queue(disk, pieces, queue_depth, angle, len(drives))
    else:
        think = np.rint(think_us * per_ms / 1000).astype(np.int64)
        times, outcomes = run_disks(disk, len(rotating), pieces, think, angle)
    milliseconds = times / per_ms
    milliseconds[:, hdd.TRAVEL] = times[:, hdd.TRAVEL]
    return by_read(milliseconds[:, hdd.SERVICE], milliseconds, moved, outcomes, parts, len(think_us))


def flash_parts(
    drives: list[DriveProfile], parts: Parts, queue_depth: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return service and transfer milliseconds of the pieces on flash, 0 for the others."""
    service_ms = np.zeros(len(parts.read))
    transfer_ms = np.zeros(len(parts.read))
    for k, drive in enumerate(drives):
        if drive.kind == "ssd":
            chosen = parts.member == k
            service_ms[chosen], transfer_ms[chosen] = flash_ms(drive, parts.length_bytes[chosen], queue_depth)
    return service_ms, transfer_ms


def sector_parts(parts: Parts, drive: NDArray[np.int64], flash: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the pieces as `hdd.closed_loop` takes them, in whole sectors."""
    stop = -(-(parts.offset + parts.length_bytes) // SECTOR_BYTES)
    return np.stack([parts.read, drive, parts.offset // SECTOR_BYTES, stop, flash], axis=1)


def run_disks(
    disk: DriveProfile, num_drives: int, pieces: NDArray[np.int64], think: NDArray[np.int64], angle: int
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Run the closed loop, compiled where it is long."""
    times, outcomes = np.zeros((len(pieces), 5), np.int64), np.zeros(len(pieces), np.uint8)
    loop = hdd.compiled(hdd.closed_loop) if is_long(disk, len(pieces)) else hdd.closed_loop
    surface = touched_surface(disk, pieces)
    loop(surface, *hdd.new_arms(surface, num_drives, num_segments(disk)), pieces, think, angle, times, outcomes)
    return times, outcomes


def run_queue(
    disk: DriveProfile, pieces: NDArray[np.int64], queue_depth: int, angle: int, num_drives: int
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Run the loop of one drive with a queue."""
    if num_drives > 1:
        raise UsageError("a queue is modelled for single drives and for flash only")
    window = min(int(disk.number("queue_window", 1)), queue_depth)
    times, outcomes = np.zeros((len(pieces), 5), np.int64), np.zeros(len(pieces), np.uint8)
    loop = hdd.compiled(hdd.queued_loop) if is_long(disk, len(pieces) * window) else hdd.queued_loop
    surface = touched_surface(disk, pieces)
    state = hdd.new_arms(surface, 1, num_segments(disk))
    loop(surface, *state, pieces, np.zeros(window, np.int64), angle, times, outcomes)
    return times, outcomes


def is_long(disk: DriveProfile, steps: int) -> bool:
    """Tell whether a loop is long enough to be compiled, or another one has been already."""
    return hdd.compiled.cache_info().currsize > 0 or steps * (STEP_WORK + num_segments(disk)) > COMPILE_FROM


def touched_surface(disk: DriveProfile, pieces: NDArray[np.int64]) -> Surface:
    """Lay out the part of the disk that the pieces lie in."""
    on_disk = pieces[pieces[:, 1] >= 0]
    return build_surface(disk, int(on_disk[:, 2].min(initial=0)), int(on_disk[:, 3].max(initial=1)))


def by_read(
    service_ms: NDArray[np.float64],
    times: NDArray[np.float64],
    flash_transfer_ms: NDArray[np.float64],
    outcomes: NDArray[np.uint8],
    parts: Parts,
    num_reads: int,
) -> ReadTimes:
    """Give each read the times of its slowest piece."""
    slowest: NDArray[np.int64] | slice = slice(None)
    if len(parts.read) != num_reads or (np.diff(parts.read) != 1).any():
        slowest = slowest_parts(service_ms, parts.read)
    if len(service_ms[slowest]) != num_reads:
        raise UsageError("the trace has reads on a device that the drive set lacks")
    return ReadTimes(
        service_ms=service_ms[slowest],
        seek_ms=times[slowest, hdd.SEEK],
        rotation_ms=times[slowest, hdd.LATENCY],
        transfer_ms=times[slowest, hdd.TRANSFER] + flash_transfer_ms[slowest],
        cylinders=times[slowest, hdd.TRAVEL].astype(np.int64),
        outcome=outcomes[slowest],
    )


def slowest_parts(service_ms: NDArray[np.float64], read: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the row of the slowest piece of each read."""
    order = np.lexsort((service_ms, read))
    return order[np.flatnonzero(np.append(np.diff(read[order]), 1))]
