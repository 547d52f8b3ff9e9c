"""Service time of an access trace on a drive, with its causes.

Service time = seek + rotational latency + transfer + overhead (Ruemmler & Wilkes 1994). One read is outstanding; the
next arrives when the one before is complete and its think time is over. The drive reads ahead in between.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.drive import hdd
from layoutscope.drive.geometry import build_surface, num_segments, turn_ms, with_buffer_of
from layoutscope.drive.loops import new_drives, serve_in_order, serve_queue
from layoutscope.drive.members import Parts, single_drives, split
from layoutscope.drive.priors import num_draws
from layoutscope.drive.profile import fusion_set, load_profile
from layoutscope.drive.result import ReadTimes, ServiceResult, summarise
from layoutscope.drive.surface import MOST_THINK_S, SECTOR_BYTES, TURN
from layoutscope.drive.uncertain import GEOMETRIES, UNSAID, drawn_drive, uncertain
from layoutscope.errors import UsageError
from layoutscope.frozen import frozen
from layoutscope.progress import each

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive.loops import ServedPieces
    from layoutscope.drive.profile import DriveProfile
    from layoutscope.drive.surface import Surface

DRAWN_ANGLES: Final = (3_653_403_231, 2_735_729_615)
"""What ``numpy.random.default_rng(0)`` draws first; to load it takes longer than a simulation of a small scan."""

BUFFER: Final = frozenset({"buffer", "join", "look_ahead"})
"""Inputs that decide what the buffer serves."""
SAMPLE_PIECES: Final = 2048
STRETCHES: Final = 16
"""To judge other buffers so many pieces are served, in so many stretches."""


def service(
    trace: AccessTrace,
    profile: DriveProfile | str | os.PathLike[str],
    *,
    start_offset_bytes: int = 0,
    phases: int = 3,
    queue_depth: int = 1,
) -> ServiceResult:
    """Predict how long a drive takes for a trace, and why.

    Parameters
    ----------
    trace : AccessTrace
        The reads, with the host's think times.
    profile : DriveProfile, str or path
        What `load_profile` returns or takes. Where the trace reads both images of a Fusion set, two drives: such a
        set's own, else two of this kind.
    start_offset_bytes : int, bytes, default 0
        Where the image starts on the drive: 0 for a whole disk, else the start of the partition.
    phases : int, count, default 3
        How many start angles are tried. The first is 0, the others are drawn; the result is that of the first.
    queue_depth : int, count, default 1
        Reads that are outstanding. More than one: think times do not count, a disk picks the nearest among those of
        its window, flash serves some side by side.

    Returns
    -------
    ServiceResult

    Raises
    ------
    UsageError
        If the trace does not fit the drive, or the profile lacks a figure.

    Examples
    --------
    >>> import numpy as np
    >>> import layoutscope
    >>> from layoutscope.access.trace import AccessTrace
    >>> reads = AccessTrace.from_reads(np.array([0, 10**9]), np.array([4096, 4096]))
    >>> layoutscope.service(reads, "generic-7200").seeks
    1
    """
    if isinstance(profile, str | os.PathLike):
        profile = load_profile(os.fspath(profile))
    if profile.kind != "fusion" and trace.device.any():
        # Two images are two drives, each with an arm of its own: of one kind, where no other is named.
        profile = fusion_set(profile, profile, profile.name)
    offset = trace.image_offset + start_offset_bytes
    parts = split(profile, offset, trace.length_bytes, trace.device)
    if queue_depth > 1:
        # With several reads outstanding the host's time passes beside the drive's.
        trace = replace(trace, think_us=np.zeros(len(trace)), after_us=0.0)
    work = lay_out(profile, parts, trace.think_us, queue_depth)
    runs = [serve(work, angle) for angle in each(start_angles(phases), f"simulating {profile.name}")]
    # Who asks for one angle asks for a time, not for an interval.
    return summarise(profile, trace, runs, _other_buffers(work, profile) if phases > 1 else ())


def _other_buffers(work: Placed, profile: DriveProfile) -> tuple[float, ...]:
    """Say by how much the disk's time differs with the buffers that are drawn for it; nothing where its own is known.

    What a look-ahead catches depends on the reads alone: a few stretches of them are served again, on the same tracks.
    """
    unknown = uncertain(profile, UNSAID)
    surface = work.surface
    if surface is None or work.queue_depth > 1 or BUFFER.isdisjoint((*unknown.choice, *unknown.factor)):
        return ()
    taken = np.arange(len(work.pieces))
    if len(taken) > SAMPLE_PIECES:
        starts = np.arange(STRETCHES)[:, None] * (len(taken) // STRETCHES)
        taken = (starts + np.arange(SAMPLE_PIECES // STRETCHES)).ravel()
    sample = replace(work, pieces=work.pieces[taken])
    own = max(_ticks(sample, surface, profile), 1.0)
    drawn = (drawn_drive(profile, unknown, number) for number in range(GEOMETRIES))
    return tuple(np.resize([_ticks(sample, surface, drive) / own for drive in drawn], num_draws()).tolist())


def _ticks(work: Placed, tracks: Surface, profile: DriveProfile) -> float:
    """Serve pieces on tracks that are laid out, with the buffer of a drive."""
    disk = next(drive for drive in single_drives(profile) if drive.kind == "hdd")
    times, _ = _run_disks(work, disk, with_buffer_of(tracks, disk), 0)
    return float(times[:, hdd.SERVICE].sum())


def start_angles(phases: int) -> list[int]:
    """Return the start angles in ticks: 0, then drawn ones, always the same."""
    # Nobody knows at which angle a disk stood when the trace began, and a chain of dependent reads carries that on: the
    # spread over angles is a part of the prediction's interval.
    drawn = max(phases - 1, 0)
    if drawn <= len(DRAWN_ANGLES):
        return [0, *DRAWN_ANGLES[:drawn]]
    return [0, *np.random.default_rng(0).integers(0, TURN, drawn).tolist()]


@frozen
class Placed:
    """The pieces of the reads laid out on the drives: all that does not depend on the start angle."""

    parts: Parts  # the pieces
    num_reads: int  # reads that they are pieces of
    # flash_ms, flash_transfer_ms: what pieces on flash take, 0 for the others
    flash_ms: NDArray[np.float64]
    flash_transfer_ms: NDArray[np.float64]
    disk: DriveProfile | None  # what all rotating members are; None where there is only flash
    # num_drives, num_disks: members, and those of them that rotate
    num_drives: int
    num_disks: int
    pieces: NDArray[np.int64]  # as `loops.serve_in_order` takes them
    think: NDArray[np.int64]  # ticks before each read
    surface: Surface | None  # the part of the disk that the pieces lie in
    queue_depth: int  # reads that are outstanding


def lay_out(
    profile: DriveProfile,
    parts: Parts,
    think_us: NDArray[np.float64],
    queue_depth: int = 1,
    *,
    starts_outside: bool = True,
) -> Placed:
    """Lay the pieces of the reads out on the drives."""
    if not abs(think_us).sum() <= MOST_THINK_S * 1e6:
        longest = int(abs(think_us).argmax())
        raise UsageError(
            f"the reads stretch over more than {MOST_THINK_S // 86400} days, which none that belong together do: "
            f"read {longest + 1} comes {think_us[longest] / 1e6:.3g} s after the one before"
        )
    drives = single_drives(profile)
    flash, moved = _flash_parts(drives, parts, queue_depth)
    rotating = [k for k, drive in enumerate(drives) if drive.kind == "hdd"]
    if not rotating:
        nothing = np.empty((0, 5), np.int64)
        return Placed(
            parts, len(think_us), flash, moved, None, len(drives), 0, nothing, nothing[:, 0], None, queue_depth
        )
    disk = drives[rotating[0]]
    if any(drives[k].figures != disk.figures for k in rotating):
        raise UsageError(f"drive profile {profile.name}: the rotating members must be of one kind")
    per_ms = TURN / turn_ms(disk)
    number = np.full(len(drives), -1, np.int64)
    number[rotating] = np.arange(len(rotating))
    pieces = _sector_parts(parts, number[parts.member], np.rint(flash * per_ms).astype(np.int64))
    think = np.rint(think_us * per_ms / 1000).astype(np.int64)
    surface = touched_surface(disk, pieces, starts_outside=starts_outside)
    num_drives, num_disks = len(drives), len(rotating)
    return Placed(parts, len(think), flash, moved, disk, num_drives, num_disks, pieces, think, surface, queue_depth)


def serve(work: Placed, angle: int) -> ReadTimes:
    """Run the pieces of the reads from a start angle, one read after another or several at a time."""
    if work.disk is None or work.surface is None:
        nothing = np.zeros((len(work.flash_ms), 5))
        return _by_read(work, work.flash_ms, nothing, np.zeros(len(nothing), np.uint8))
    run = _run_queue if work.queue_depth > 1 else _run_disks
    times, outcomes = run(work, work.disk, work.surface, angle)
    milliseconds = times / (TURN / turn_ms(work.disk))
    milliseconds[:, hdd.TRAVEL] = times[:, hdd.TRAVEL]
    return _by_read(work, milliseconds[:, hdd.SERVICE], milliseconds, outcomes)


def _flash_parts(
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


def _sector_parts(parts: Parts, drive: NDArray[np.int64], flash: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the pieces as `loops.serve_in_order` takes them, in whole sectors."""
    stop = -(-(parts.offset + parts.length_bytes) // SECTOR_BYTES)
    return np.stack([parts.read, drive, parts.offset // SECTOR_BYTES, stop, flash], axis=1)


def _run_disks(work: Placed, disk: DriveProfile, surface: Surface, angle: int) -> ServedPieces:
    """Run one read after another."""
    drives = new_drives(surface, work.num_disks, num_segments(disk, surface.segment_sectors))
    return serve_in_order(drives, work.pieces, work.think, angle)


def _run_queue(work: Placed, disk: DriveProfile, surface: Surface, angle: int) -> ServedPieces:
    """Run the reads of one drive with a queue."""
    if work.num_drives > 1:
        raise UsageError("a queue is modelled for single drives and for flash only")
    window = min(int(disk.number("queue_window", 1)), work.queue_depth)
    return serve_queue(new_drives(surface, 1, num_segments(disk, surface.segment_sectors)), work.pieces, window, angle)


def touched_surface(disk: DriveProfile, pieces: NDArray[np.int64], *, starts_outside: bool = True) -> Surface:
    """Lay out the part of the disk that the pieces lie in, and where the arm comes from."""
    on_disk = pieces[pieces[:, 1] >= 0]
    first = 0 if starts_outside or not len(on_disk) else int(on_disk[:, 2].min())
    return build_surface(disk, first, int(on_disk[:, 3].max(initial=1)))


def _by_read(
    work: Placed, service_ms: NDArray[np.float64], times: NDArray[np.float64], outcomes: NDArray[np.uint8]
) -> ReadTimes:
    """Give each read the times of its slowest piece."""
    slowest: NDArray[np.int64] | slice = slice(None)
    if len(work.parts.read) != work.num_reads or (np.diff(work.parts.read) != 1).any():
        slowest = slowest_parts(service_ms, work.parts.read)
    if len(service_ms[slowest]) != work.num_reads:
        raise UsageError("the trace has reads on a device that the drive set lacks")
    return ReadTimes(
        service_ms=service_ms[slowest],
        seek_ms=times[slowest, hdd.SEEK],
        rotation_ms=times[slowest, hdd.LATENCY],
        transfer_ms=times[slowest, hdd.TRANSFER] + work.flash_transfer_ms[slowest],
        cylinders=times[slowest, hdd.TRAVEL].astype(np.int64),
        outcome=outcomes[slowest],
    )


def slowest_parts(service_ms: NDArray[np.float64], read: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the row of the slowest piece of each read."""
    order = np.lexsort((service_ms, read))
    if not len(order):
        return order
    return order[np.flatnonzero(np.append(np.diff(read[order]), 1))]


def flash_ms(
    profile: DriveProfile, length_bytes: NDArray[np.int64], queue_depth: int = 1
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the latency of single reads of flash: it follows from the size alone, wherever they lie.

    Milliseconds in all, and the share that the bandwidth explains.
    """
    sizes = np.array(profile.numbers("latency_bytes"), np.float64)
    latency = np.array(profile.numbers("latency_us"), np.float64)
    bandwidth = profile.number("bandwidth_mb_s")
    beyond = np.maximum(length_bytes - sizes[-1], 0) / bandwidth
    service = (np.interp(length_bytes, sizes, latency) + beyond) / 1000
    transfer = length_bytes / bandwidth / 1000
    side_by_side = min(queue_depth, max(profile.number("parallel_reads", 1), 1))
    service = np.maximum(service / side_by_side, np.minimum(transfer, service))
    return service, np.minimum(transfer, service)
