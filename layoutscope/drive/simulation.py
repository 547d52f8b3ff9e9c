"""Service time of an access trace on a drive, with its causes.

Service time = seek + rotational latency + transfer + overhead (Ruemmler & Wilkes 1994). One read is outstanding; the
next arrives when the previous read is complete and its think time is over. The drive reads ahead in between.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from msgspec.structs import replace

from layoutscope.display import Displayed, Struct
from layoutscope.drive import hdd
from layoutscope.drive.geometry import find_surface, num_segments, single_drives, split, total_cylinders
from layoutscope.drive.hdd import MAX_THINK_S, SECTOR_BYTES, TURN
from layoutscope.drive.profile import fusion_set, load_profile
from layoutscope.drive.uncertain import (
    GEOMETRIES,
    HOST,
    LAYOUT,
    MODEL,
    T_95,
    UNSAID,
    draw_drive,
    interval_of,
    largest_unknown,
    median_draw,
    model_drives,
    model_error,
    num_draws,
    uncertain,
)
from layoutscope.errors import UsageError
from layoutscope.progress import each

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive.geometry import LaidOut
    from layoutscope.drive.hdd import Surface
    from layoutscope.drive.profile import DriveProfile
    from layoutscope.drive.uncertain import Host, Uncertain

    F64 = NDArray[np.float64]


class ReadTimes(Displayed, Struct, frozen=True):
    """Times of each read; all arrays have shape (n_reads,)."""

    service_ms: NDArray[np.float64]  # service time; what its parts leave is overhead and waiting for the look-ahead
    seek_ms: NDArray[np.float64]  # seek; a read that the buffer served has no parts
    rotation_ms: NDArray[np.float64]  # wait for the first sector
    transfer_ms: NDArray[np.float64]  # transfer
    cylinders: NDArray[np.int64]  # distance of the seek in cylinders
    outcome: NDArray[np.uint8]  # `hdd.MISS`, `hdd.PART_HIT` or `hdd.WHOLE_HIT`


class ServiceResult(Displayed, Struct, frozen=True):
    """Time of a trace on a drive."""

    drive: str  # name of the profile
    geometry: str  # how much of the drive's geometry is known: ``map``, ``zones``, ``datasheet``; ``none`` on flash
    seconds: float  # time from the start until the host has processed the last read: `service_s` + `host_s`
    seconds_low: float  # lower end of the 90 % range of the simulations; equal to `seconds` for the nominal drive
    seconds_high: float  # upper end of that range
    service_s: float  # sum of the service times: `seek_s` + `rotation_s` + `transfer_s` + `overhead_s`
    seek_s: float  # time of seeks
    rotation_s: float  # time of waits for the first sector
    transfer_s: float  # time of transfers
    overhead_s: float  # time of commands and of waits for the look-ahead
    host_s: float  # host time between the reads and after the last one
    reads: int  # number of reads
    seeks: int  # number of reads that moved the arm
    head_travel_bytes: int  # sum of the distances between reads that the buffer did not serve, in bytes of address
    head_travel_strokes: float  # total seek distance in full strokes
    whole_hit: float  # share of reads that the buffer served whole
    part_hit: float  # share of reads that the buffer served in part
    miss: float  # share of reads that the buffer did not serve
    reads_ms: ReadTimes  # times of each read
    nominal_s: float  # time on the nominal drive
    # time of each simulation, of which `seconds` is the median. Those of two traces on one drive are pairs. Empty
    # for a nominal drive
    draws_s: tuple[float, ...] = ()
    # uncertainty from sampling the reads, as the logarithm of a factor; 0 if all reads were served
    sampling_error: float = 0.0
    # host time on the computer of this simulation, as a multiple of the host time in the trace
    host_factor: float = 1.0
    # the drawn figure or setting that by itself explains most of the range, such as `look_ahead`; empty if none
    # was drawn
    largest_unknown: str = ""
    largest_unknown_share: float = 0.0  # its share of the variance of the time's logarithm

    @property
    def knowledge(self) -> str:
        """Describe in a sentence how much of the drive is known, and the accuracy of the model for such drives."""
        if self.geometry == "none":
            return "For flash, the model knows the latencies in the profile, measured or assumed."
        known = {
            "map": "Every sector of this drive is known",
            "zones": "Zones and skews of this drive are known",
            "datasheet": "Only a few figures of this drive are known, not its tracks",
        }[self.geometry]
        return (
            f"{known}: on nine in ten drives known that well, the model is expected to be within a factor of "
            f"{model_error(self.geometry):.3g} of DiskSim, a published simulator (compared on "
            f"{model_drives(self.geometry)} drives)."
        )

    @property
    def causes_s(self) -> dict[str, float]:
        """Seconds by cause, in display order."""
        return {
            "seek": self.seek_s,
            "rotation": self.rotation_s,
            "transfer": self.transfer_s,
            "overhead": self.overhead_s,
            "host": self.host_s,
        }

    def summary(self) -> dict[str, float | int]:
        """Return totals, means and percentiles; milliseconds are means over all reads unless the name says more.

        ``total_s`` includes the think times, ``rest_ms`` is overhead and waiting for the look-ahead, ``arm_moved`` is
        the share of reads that changed the cylinder.
        """
        n = max(self.reads, 1)
        percentiles = service_percentiles(self.reads_ms.service_ms)
        return {
            "n": self.reads,
            "total_s": self.seconds,
            "service_s": self.service_s,
            "mean_ms": self.service_s / n * 1000,
            **percentiles,
            "seek_ms": self.seek_s / n * 1000,
            "latency_ms": self.rotation_s / n * 1000,
            "xfer_ms": self.transfer_s / n * 1000,
            "rest_ms": self.overhead_s / n * 1000,
            "whole_hit": self.whole_hit,
            "part_hit": self.part_hit,
            "miss": self.miss,
            "arm_moved": self.seeks / n,
        }


def service_percentiles(service_ms: NDArray[np.float64]) -> dict[str, float]:
    """Return median, 90th and 99th percentile and maximum of service times.

    The 90th and 99th percentiles are times that occurred, the next at or above the rank.
    """
    if len(service_ms) == 0:
        return dict.fromkeys(("median_ms", "p90_ms", "p99_ms", "max_ms"), 0.0)
    ordered = np.sort(service_ms)
    last = len(ordered) - 1
    median = float((ordered[last // 2] + ordered[(last + 1) // 2]) / 2)
    high = ordered[np.ceil(last * np.array([0.9, 0.99, 1.0])).astype(np.int64)]
    return dict(zip(("median_ms", "p90_ms", "p99_ms", "max_ms"), (median, *high.tolist()), strict=True))


def summarise(profile: DriveProfile, trace: AccessTrace, times: ReadTimes) -> ServiceResult:
    """Sum the times of reads."""
    host_s = trace.host_us / 1e6
    service_s, seek_s, rotation_s, transfer_s = (
        float(values.sum()) / 1000 for values in (times.service_ms, times.seek_ms, times.rotation_ms, times.transfer_ms)
    )
    shares = np.bincount(times.outcome, minlength=3) / max(len(times.outcome), 1)
    # The head travels from the end of each read that the buffer did not serve to the start of the next.
    medium = times.outcome == hdd.MISS
    start = trace.image_offset[medium]
    travel = np.abs(start[1:] - (start + trace.length_bytes[medium])[:-1]).sum()
    seconds = service_s + host_s
    return ServiceResult(
        drive=profile.name,
        geometry=profile.geometry,
        seconds=seconds,
        seconds_low=seconds,
        seconds_high=seconds,
        service_s=service_s,
        seek_s=seek_s,
        rotation_s=rotation_s,
        transfer_s=transfer_s,
        overhead_s=max(service_s - seek_s - rotation_s - transfer_s, 0.0),
        host_s=host_s,
        reads=len(trace),
        seeks=int((times.cylinders != 0).sum()),
        head_travel_bytes=int(travel) if profile.geometry != "none" else 0,
        head_travel_strokes=float(times.cylinders.sum()) / max(total_cylinders(profile), 1),
        reads_ms=times,
        whole_hit=float(shares[hdd.WHOLE_HIT]),
        part_hit=float(shares[hdd.PART_HIT]),
        miss=float(shares[hdd.MISS]),
        nominal_s=seconds,
    )


def service(
    trace: AccessTrace,
    profile: DriveProfile | str | os.PathLike[str],
    *,
    start_offset_bytes: int = 0,
    queue_depth: int = 1,
) -> ServiceResult:
    """Compute how long a drive takes for a trace, and why, taking every figure of its profile as exact.

    :func:`simulate` predicts the time of a drive whose figures are uncertain.

    Parameters
    ----------
    trace : AccessTrace
        The reads, with the host's think times.
    profile : DriveProfile, str or path
        What `load_profile` returns or takes. Where the trace reads both images of a Fusion set, two drives: such a
        set's own, else two of this kind.
    start_offset_bytes : int, bytes, default 0
        Where the image starts on the drive: 0 for a whole disk, else the start of the partition.
    queue_depth : int, count, default 1
        Reads that are outstanding. More than one: think times do not count, a disk picks the nearest among those of
        its window, flash serves some at once.

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
    profile = _split_by_device(profile, trace)
    trace = _overlap_host_time(trace, queue_depth)
    work = place_reads(trace, profile, start_offset_bytes, queue_depth, starts_outside=True)
    return summarise(profile, trace, serve(work, 0))


def _overlap_host_time(trace: AccessTrace, queue_depth: int) -> AccessTrace:
    """Return the reads as a drive receives them: with several outstanding, host time overlaps drive time."""
    return replace(trace, think_us=np.zeros(len(trace)), after_us=0.0) if queue_depth > 1 else trace


class Placed(Struct, frozen=True):
    """The pieces of reads, placed on the drives: everything that does not depend on the start angle."""

    read: NDArray[np.int64]  # the read that each piece belongs to
    num_reads: int  # reads that the pieces belong to
    is_in_one_piece: bool  # whether each read is one piece, in order
    # flash_ms, flash_transfer_ms: times of pieces on flash, 0 for other pieces
    flash_ms: F64
    flash_transfer_ms: F64
    disk: DriveProfile | None  # profile of all rotating members; None if there is only flash
    # num_drives, num_disks: members, and how many of them rotate
    num_drives: int
    num_disks: int
    pieces: NDArray[np.int64]  # in the form of `hdd.serve_pieces`
    think: NDArray[np.int64]  # ticks before each read
    surface: Surface | None  # the part of the disk that contains the pieces
    start_run: int  # run at which the arms start
    queue_depth: int  # number of outstanding reads


def place_reads(
    trace: AccessTrace,
    profile: DriveProfile,
    start_offset_bytes: int = 0,
    queue_depth: int = 1,
    *,
    starts_outside: bool = False,  # whether the arm starts at the outer edge, not at the first read
    laid_out: list[LaidOut] | None = None,  # parts of the disk's surface laid out so far; new ones are added
) -> Placed:
    """Place the pieces of reads on the drives."""
    read, member, offset, length_bytes = split(
        profile, trace.image_offset + start_offset_bytes, trace.length_bytes, trace.device
    )
    think_us = trace.think_us
    if not abs(think_us).sum() <= MAX_THINK_S * 1e6:
        longest = int(abs(think_us).argmax())
        raise UsageError(
            f"the reads stretch over more than {MAX_THINK_S // 86400} days, which none that belong together do: "
            f"read {longest + 1} comes {think_us[longest] / 1e6:.3g} s after the one before"
        )
    drives = single_drives(profile)
    service_ms, transfer_ms = np.zeros((2, len(read)))
    for number, drive in enumerate(drives):
        if drive.kind == "ssd":
            own = member == number
            start, length = offset[own], length_bytes[own]
            follows = np.append(False, start[1:] == (start + length)[:-1])[: len(start)]
            service_ms[own], transfer_ms[own] = flash_ms(drive, length, queue_depth, follows)
    rotating = [number for number, drive in enumerate(drives) if drive.kind == "hdd"]
    disk, surface, start_run = None, None, 0
    pieces, think = np.empty((0, 5), np.int64), np.empty(0, np.int64)
    if rotating:
        disk = drives[rotating[0]]
        if any(drives[number].figures != disk.figures for number in rotating):
            raise UsageError(f"drive profile {profile.name}: the rotating members must be of one kind")
        per_ms = TURN / disk.turn_ms
        number_of = np.full(len(drives), -1, np.int64)
        number_of[rotating] = np.arange(len(rotating))
        first, stop = offset // SECTOR_BYTES, -(-(offset + length_bytes) // SECTOR_BYTES)
        flash = np.rint(service_ms * per_ms).astype(np.int64)
        pieces = np.stack([read, number_of[member], first, stop, flash], axis=1)
        think = np.rint(think_us * per_ms / 1000).astype(np.int64)
        on_disk = pieces[pieces[:, 1] >= 0]
        lowest = 0 if starts_outside or not len(on_disk) else int(on_disk[:, 2].min())
        last = int(on_disk[:, 3].max(initial=1))
        surface, start_run = find_surface(disk, lowest, last, laid_out)
    return Placed(
        read=read,
        num_reads=len(trace),
        is_in_one_piece=len(read) == len(trace) and bool((np.diff(read) == 1).all()),
        flash_ms=service_ms,
        flash_transfer_ms=transfer_ms,
        disk=disk,
        num_drives=len(drives),
        num_disks=len(rotating),
        pieces=pieces,
        think=think,
        surface=surface,
        start_run=start_run,
        queue_depth=queue_depth,
    )


def serve(work: Placed, angle: int) -> ReadTimes:
    """Serve the pieces of the reads from a start angle, one read at a time or several."""
    if work.disk is None or work.surface is None:
        service_ms, num_pieces = work.flash_ms, len(work.flash_ms)
        times, outcomes = np.zeros((num_pieces, 5)), np.zeros(num_pieces, np.uint8)
    elif work.queue_depth > 1 and work.num_drives > 1:
        raise UsageError("a queue is modelled for single drives and for flash only")
    else:
        ticks, outcomes = _serve_disks(work, work.disk, work.surface, angle)
        times = ticks / (TURN / work.disk.turn_ms)
        times[:, hdd.TRAVEL] = ticks[:, hdd.TRAVEL]
        service_ms = times[:, hdd.SERVICE]
    # Each read takes as long as its slowest piece.
    slowest: NDArray[np.int64] | slice = slice(None)
    if not work.is_in_one_piece:
        slowest = slowest_parts(service_ms, work.read)
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


def _service_ms(work: Placed, angle: int) -> F64:
    """Return only the service times, of reads served one at a time if possible."""
    if work.queue_depth > 1 or work.disk is None or work.surface is None or not work.is_in_one_piece:
        return serve(work, angle).service_ms
    times, _ = _serve_disks(work, work.disk, work.surface, angle)
    return np.asarray(times[:, hdd.SERVICE] / (TURN / work.disk.turn_ms))


def _serve_disks(
    work: Placed, disk: DriveProfile, surface: Surface, angle: int
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    window = min(int(disk.number("queue_window", 1)), work.queue_depth) if work.queue_depth > 1 else 0
    segments = num_segments(disk, surface.segment_sectors)
    return hdd.serve_pieces(surface, work.num_disks, segments, work.pieces, work.think, angle, window, work.start_run)


def slowest_parts(service_ms: NDArray[np.float64], read: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the row of the slowest piece of each read."""
    order = np.lexsort((service_ms, read))
    if not len(order):
        return order
    return order[np.flatnonzero(np.append(np.diff(read[order]), 1))]


def flash_ms(
    profile: DriveProfile,
    length_bytes: NDArray[np.int64],
    queue_depth: int = 1,
    follows: NDArray[np.bool_] | bool = False,  # whether a read begins where the previous one ended
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the latency of single reads of flash, by size and by whether they are sequential.

    Total milliseconds, and the part that the bandwidth explains.
    """
    sizes = np.array(profile.numbers("latency_bytes"), np.float64)
    latency = np.interp(length_bytes, sizes, profile.numbers("latency_us"))
    if "sequential_us" in profile:
        latency = np.where(follows, np.interp(length_bytes, sizes, profile.numbers("sequential_us")), latency)
    bandwidth = profile.number("bandwidth_mb_s")
    beyond = np.maximum(length_bytes - sizes[-1], 0) / bandwidth
    service = (latency + beyond) / 1000
    transfer = length_bytes / bandwidth / 1000
    side_by_side = min(queue_depth, max(profile.number("parallel_reads", 1), 1))
    service = np.maximum(service / side_by_side, np.minimum(transfer, service))
    return service, np.minimum(transfer, service)


ALIGNED_BYTES: Final = 4096
"""Volumes begin at multiples of this size."""
SAMPLE_READS: Final = 1 << 13
STRETCHES: Final = 4
"""In longer traces, each simulation serves this many reads in this many stretches: few and long, because it takes many
reads to fill a buffer."""
WARM_UP: Final = 256
"""Reads at the start of each stretch that do not count: the buffer lacks what earlier reads would have left in it."""


DrawnDrives: TypeAlias = "dict[tuple[str, int], tuple[DriveProfile, list[LaidOut]]]"
"""Drawn drives by kind and number, and the parts of their disks that have been laid out."""


class Unknowns:
    """Unknown properties of drives and of a host, drawn once for all traces that they serve."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._drawn: dict[tuple[int, bool], tuple[DriveProfile, Uncertain, DrawnDrives]] = {}

    def of(self, part: Part) -> tuple[Uncertain, DrawnDrives]:
        """Return the draws for the drive of a part, and the drives made from them; callers add to these drives."""
        # The profile is kept, so its identity cannot be reused for another one.
        which = id(part.drive), part.knows_offset
        if which not in self._drawn:
            self._drawn[which] = part.drive, uncertain(part.drive, self.host, knows_offset=part.knows_offset), {}
        _, unknown, drives = self._drawn[which]
        return unknown, drives


class Part(Struct, frozen=True):
    """Reads that one drive serves."""

    reads: AccessTrace  # in sequence
    drive: DriveProfile  # the drive that serves them
    queue_depth: int = 1  # number of outstanding reads
    start_offset_bytes: int = 0  # where the image begins on the drive
    # whether that is known; otherwise :meth:`Unknowns.of` draws it, anywhere on the drive that the image fits
    knows_offset: bool = True
    times: float = 1.0  # duration of the part as a multiple of the time of these reads

    @property
    def received(self) -> AccessTrace:
        """The reads as the drive receives them."""
        return _overlap_host_time(self.reads, self.queue_depth)


class Draws(Struct, frozen=True):
    """The times of a trace in simulations with different draws."""

    seconds: F64  # time of each simulation, including host time
    drive_s: F64  # the drive's part of it
    nominal_s: float  # time on the nominal drive
    sampling_error: float = 0.0  # uncertainty from sampling the reads, as the logarithm of a factor


def draw_seconds(
    part: Part,
    unknown: Uncertain,
    drives: DrawnDrives | None = None,  # drives made from the same draws so far; new ones are added
    numbers: NDArray[np.int64] | None = None,  # numbers of the draws, in this order; by default all of them
) -> Draws:
    """Serve reads, or a sample of many, once for each draw."""
    numbers = np.arange(num_draws()) if numbers is None else numbers
    trace, start, depth = part.received, part.start_offset_bytes, part.queue_depth
    nominal = service(trace, part.drive, start_offset_bytes=start, queue_depth=depth)
    is_sample = len(trace) > SAMPLE_READS
    sample = trace[evenly_spaced(len(trace), SAMPLE_READS, STRETCHES)] if is_sample else trace
    drawn = np.zeros((num_draws(), STRETCHES if is_sample else 1))
    # An empty trace takes no time on any drive: many small volumes of a disk have nothing left to read after a mount.
    wanted = numbers if len(trace) else numbers[:0]
    for number, work in _each_draw(replace(part, reads=sample), unknown, wanted, {} if drives is None else drives):
        service_ms = _service_ms(work, round(unknown.angle[number] * TURN))
        drawn[number] = _sum_by_stretch(service_ms) if is_sample else service_ms.sum() / 1000
    scale, error = 1.0, 0.0
    if is_sample:
        named = place_reads(sample, _split_by_device(part.drive, trace), start, depth)
        own = _sum_by_stretch(serve(named, 0).service_ms)
        scale = nominal.service_s / max(float(own.sum()), 1e-12)
        error = _sampling_error(drawn[wanted], own, len(trace))
    drive_s = drawn.sum(axis=1) * scale * unknown.of(MODEL)
    seconds = drive_s + trace.host_us / 1e6 * unknown.of(HOST)
    return Draws(seconds[numbers], drive_s[numbers], nominal.seconds, error)


def simulate(
    trace: AccessTrace,
    profile: DriveProfile | str | os.PathLike[str],
    host: Host | None = None,
    *,
    start_offset_bytes: int = 0,
    knows_offset: bool = True,
    queue_depth: int = 1,
) -> ServiceResult:
    """Predict how long a drive with uncertain figures takes for a trace, why, and within which range.

    The uncertain figures of drive and host are drawn :func:`~layoutscope.drive.uncertain.num_draws` times, and the
    trace is served with each draw. The result is the median simulation, with its causes and the times of its reads.

    Parameters
    ----------
    trace : AccessTrace
        The reads, with the host's think times.
    profile : DriveProfile, str or path
        What `load_profile` returns or takes.
    host : Host, optional
        The host whose think times these are; their error is drawn too. Without a host they are taken as exact, as
        in a recording.
    start_offset_bytes : int, bytes, default 0
        Where the image starts on the drive: 0 for a whole disk, else the start of the partition.
    knows_offset : bool, default True
        Whether the image is known to start there. Otherwise its place on the drive is drawn.
    queue_depth : int, count, default 1
        Outstanding reads, as in :func:`service`.

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
    >>> found = layoutscope.simulate(reads, "generic-7200")
    >>> found.seconds_low < found.seconds < found.seconds_high
    True
    """
    if isinstance(profile, str | os.PathLike):
        profile = load_profile(os.fspath(profile))
    return simulate_on(Part(trace, profile, queue_depth, start_offset_bytes, knows_offset), Unknowns(host or UNSAID))


def simulate_on(part: Part, unknowns: Unknowns) -> ServiceResult:
    """Predict as :func:`simulate` does, on drives that may have been drawn for other reads."""
    unknown, drives = unknowns.of(part)
    draws = draw_seconds(part, unknown, drives)
    middle, found = median_draw(draws.seconds), interval_of(draws.seconds, {}, LAYOUT, draws.sampling_error)
    result = serve_draw(part, unknown, middle, drives)
    name, share = largest_unknown(draws.seconds, unknown.columns())
    # The time of a long trace comes from a sample; the whole trace shows how that time is spent.
    result = _lasting(result, float(draws.drive_s[middle]))
    return replace(
        result,
        seconds=found.median_s,
        seconds_low=found.low_s,
        seconds_high=found.high_s,
        nominal_s=draws.nominal_s,
        draws_s=tuple(draws.seconds.tolist()),
        sampling_error=draws.sampling_error,
        largest_unknown=name,
        largest_unknown_share=share,
    )


def serve_draw(part: Part, unknown: Uncertain, number: int, drives: DrawnDrives) -> ServiceResult:
    """Serve all reads with one draw of drive and host."""
    trace, factor = part.received, float(unknown.of(HOST)[number])
    if len(trace):
        ((_, work),) = _each_draw(replace(part, reads=trace), unknown, np.array([number]), drives)
        times = serve(work, round(unknown.angle[number] * TURN))
    else:
        times = service(trace, part.drive).reads_ms
    found = replace(summarise(part.drive, trace.scale_host_time(factor), times), host_factor=factor)
    return _lasting(found, found.service_s * float(unknown.of(MODEL)[number]))


def _lasting(result: ServiceResult, service_s: float) -> ServiceResult:
    """Scale the drive's total time, and that of each read, to a given total."""
    factor = service_s / result.service_s if result.service_s else 1.0
    names = ("service_ms", "seek_ms", "rotation_ms", "transfer_ms")
    times = replace(result.reads_ms, **{name: getattr(result.reads_ms, name) * factor for name in names})
    causes = ("seek_s", "rotation_s", "transfer_s", "overhead_s")
    parts = {name: getattr(result, name) * factor for name in causes}
    return replace(result, seconds=service_s + result.host_s, service_s=service_s, reads_ms=times, **parts)


def _sum_by_stretch(service_ms: F64) -> F64:
    """Return the summed times, in seconds, of each stretch's reads after its warm-up."""
    return np.asarray(service_ms.reshape(STRETCHES, -1)[:, WARM_UP:].sum(axis=1) / 1000)


def _sampling_error(drawn: F64, own: F64, num_reads: int) -> float:
    """Return the logarithm of the factor that contains 90 % of the ratios of a drawn drive to the nominal one.

    It is the error of a ratio of two sums over a sample of clusters (Cochran, "Sampling techniques", 1977, chapter 6).
    """
    total = drawn.sum(axis=1, keepdims=True)
    off = drawn - total / max(float(own.sum()), 1e-12) * own
    left = 1 - (SAMPLE_READS - STRETCHES * WARM_UP) / num_reads
    spread = np.sqrt(left * STRETCHES / (STRETCHES - 1) * np.square(off).sum(axis=1))
    return float(np.median(spread / np.maximum(total[:, 0], 1e-12))) * T_95[STRETCHES - 1]


def _each_draw(
    part: Part, unknown: Uncertain, numbers: NDArray[np.int64], drives: DrawnDrives
) -> Iterator[tuple[int, Placed]]:
    """Yield the number of each draw, grouped by geometry, and the reads placed on its drive."""
    profile = _split_by_device(part.drive, part.reads)
    shared = GEOMETRIES if unknown.varies_geometry else 1
    for first in each(range(shared), f"drawing drives like {profile.name}"):
        mine = numbers[numbers % shared == first].tolist()
        if mine:
            place = profile.kind, first  # a set of two such drives is another kind
            if place not in drives:
                drives[place] = draw_drive(profile, unknown, first), []
            drive, laid_out = drives[place]
            start = _start(part, drive, unknown, first)
            work = place_reads(part.reads, drive, start, part.queue_depth, laid_out=laid_out)
            for number in mine:
                yield number, _vary_work(work, unknown, number)


def _split_by_device(profile: DriveProfile, trace: AccessTrace) -> DriveProfile:
    """Return a set of two equal drives if a trace reads both images of a Fusion set: each image has its own arm."""
    is_of_two = profile.kind != "fusion" and bool(trace.device.any())
    return fusion_set(profile, profile, profile.name) if is_of_two else profile


def evenly_spaced(num_rows: int, taken: int, count: int) -> NDArray[np.int64]:
    """Return the rows of evenly spaced stretches, the first from the start, the last up to the end."""
    long = taken // count
    starts = np.linspace(0, num_rows - long, count).astype(np.int64)
    return np.asarray((starts[:, None] + np.arange(long)).ravel())


def _start(part: Part, drive: DriveProfile, unknown: Uncertain, number: int) -> int:
    """Return where the image begins on a drive: at its known offset, or anywhere it fits."""
    if unknown.offset is None:
        return part.start_offset_bytes
    end = part.reads.image_offset + part.reads.length_bytes
    room = drive.capacity_bytes - int(end.max(initial=0))
    if drive.kind == "fusion":
        # Both images of the set move together, as far as the fuller drive allows.
        room = min(
            member.capacity_bytes - int(end[part.reads.device == number].max(initial=0))
            for number, member in enumerate(drive.members)
        )
    return max(int(unknown.offset[number] * room), 0) // ALIGNED_BYTES * ALIGNED_BYTES


def _vary_work(work: Placed, unknown: Uncertain, number: int) -> Placed:
    """Vary what does not change the geometry: seeks, overhead, bus, host."""
    if work.surface is None:
        return work
    surface = work.surface
    shortest = surface.seek[1:2]
    seek = surface.seek.copy()
    # Every seek includes settling on a track; only the time beyond it is varied.
    seek[1:] = shortest + (seek[1:] - shortest) * unknown.of("seek")[number]
    overhead = float(unknown.of("overhead")[number])
    changed = surface._replace(
        seek=seek,
        read_miss=round(surface.read_miss * overhead),
        read_hit=round(surface.read_hit * overhead),
        bus_sector=round(surface.bus_sector / float(unknown.of("interface")[number])),
    )
    think = np.rint(work.think * unknown.of(HOST)[number]).astype(np.int64)
    return replace(work, surface=changed, think=think)
