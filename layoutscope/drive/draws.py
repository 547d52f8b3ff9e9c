"""A prediction as a distribution: the same reads on many drives like the one that is named.

The reads are worked out once. Geometries are laid out once for several draws, as that is what takes long; seeks,
overhead, buses, the computer and the angle at the start differ in all. Long traces are served in samples, whose ratio
to the same sample on the drive as named is what the whole is scaled by. A scan has less time, and serves fewer reads of
long traces: what those do not tell of the whole is seen by how far they differ among themselves, and makes its interval
wider.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.drive.interval import LAYOUT, Interval, interval_of
from layoutscope.drive.members import split
from layoutscope.drive.priors import num_draws
from layoutscope.drive.profile import fusion_set
from layoutscope.drive.simulation import lay_out, serve, service
from layoutscope.drive.surface import TURN
from layoutscope.drive.uncertain import GEOMETRIES, HOST, MODEL, START, T_95, drawn_drive, uncertain
from layoutscope.progress import each

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive.profile import DriveProfile
    from layoutscope.drive.result import ServiceResult
    from layoutscope.drive.simulation import Placed
    from layoutscope.drive.uncertain import Host, Uncertain

    F64 = NDArray[np.float64]

ALIGNED_BYTES: Final = 4096
"""Volumes begin at multiples of this."""
SAMPLE_READS: Final = 1 << 16
SAMPLES: Final = 32
"""Of longer traces so many reads are served, in so many stretches at even distances: see :func:`sampled`."""
QUICK_READS: Final = 1 << 13
QUICK_STRETCHES: Final = 4
"""Of longer traces so many reads are served, in so many stretches: few and long, as many reads fill a buffer."""
WARM_UP: Final = 256
"""Reads at the start of each stretch that do not count: there the buffer lacks what the reads before had left in it."""


def drawn_interval(
    trace: AccessTrace, profile: DriveProfile, unknown: Uncertain, *, start_offset_bytes: int = 0
) -> Interval:
    """Predict between which times a drive like that takes for a trace."""
    seconds = drawn_seconds(trace, profile, unknown, start_offset_bytes=start_offset_bytes)
    return interval_of(seconds, {**unknown.columns(), START: (START, unknown.angle)}, LAYOUT)


def drawn_seconds(
    trace: AccessTrace,
    profile: DriveProfile,
    unknown: Uncertain,
    *,
    start_offset_bytes: int = 0,
    numbers: NDArray[np.int64] | None = None,
) -> F64:
    """Serve a trace once for each draw.

    Seconds, the host's among them; of the draws that were asked for.
    """
    numbers = np.arange(num_draws()) if numbers is None else numbers
    sample = sampled(trace)
    host_s = trace.host_us / 1e6 * unknown.of(HOST)
    scale = 1.0
    if len(sample) < len(trace):
        known, part = (_served_as_named(reads, profile, start_offset_bytes).sum() for reads in (trace, sample))
        scale = known / max(part, 1e-9)
    seconds = np.zeros(num_draws())
    # No drive takes any time for no reads: the many small volumes of a disk are read as they are mounted.
    wanted = numbers if len(sample) else numbers[:0]
    for number, service_ms in _served_by_draws(
        sample, profile, unknown, start_offset_bytes=start_offset_bytes, numbers=wanted
    ):
        seconds[number] = service_ms.sum() / 1000
    return np.asarray((seconds * scale * unknown.of(MODEL) + host_s)[numbers])


def quick_service(
    trace: AccessTrace, profile: DriveProfile, host: Host, *, start_offset_bytes: int = 0, knows_offset: bool = True
) -> ServiceResult:
    """Predict how long a drive takes for a trace, and between which times drives like it take."""
    result = service(trace, profile, start_offset_bytes=start_offset_bytes, phases=1)
    unknown = uncertain(profile, host, knows_offset=knows_offset)
    if len(trace) <= QUICK_READS:
        likely = drawn_seconds(trace, profile, unknown, start_offset_bytes=start_offset_bytes)
    else:
        drive_s = result.service_s * _ratios(trace, profile, unknown, start_offset_bytes)
        likely = drive_s * unknown.of(MODEL) + result.host_s * unknown.of(HOST)
    found = interval_of(likely, {}).reaching(result.seconds)
    return replace(result, seconds_low=found.low_s, seconds_high=found.high_s, draws_s=tuple(likely.tolist()))


def _ratios(trace: AccessTrace, profile: DriveProfile, unknown: Uncertain, start_offset_bytes: int) -> F64:
    """Say how many times as long as the named drive each drawn one takes, apart by what the sample leaves open."""
    sample = evenly_taken(trace, QUICK_READS, QUICK_STRETCHES)
    own = _counted(_served_as_named(sample, profile, start_offset_bytes))
    drawn = np.zeros((num_draws(), QUICK_STRETCHES))
    for number, service_ms in _served_by_draws(sample, profile, unknown, start_offset_bytes=start_offset_bytes):
        drawn[number] = _counted(service_ms)
    ratio = drawn.sum(axis=1) / max(own.sum(), 1e-12)
    # The error of a ratio of two sums over a sample of clusters (Cochran, "Sampling techniques", 1977, chapter 6).
    off = drawn - ratio[:, None] * own
    left = 1 - (QUICK_READS - QUICK_STRETCHES * WARM_UP) / len(trace)
    error = np.sqrt(left * QUICK_STRETCHES / (QUICK_STRETCHES - 1) * np.square(off).sum(axis=1))
    error *= T_95[QUICK_STRETCHES - 1] / np.maximum(drawn.sum(axis=1), 1e-12)
    return np.asarray(ratio * np.exp(np.where(ratio < np.median(ratio), -error, error)))


def _counted(service_ms: F64) -> F64:
    """Sum up the reads of each stretch behind its warm-up, in seconds."""
    return np.asarray(service_ms.reshape(QUICK_STRETCHES, -1)[:, WARM_UP:].sum(axis=1) / 1000)


def _served_by_draws(
    trace: AccessTrace,
    profile: DriveProfile,
    unknown: Uncertain,
    *,
    start_offset_bytes: int = 0,
    numbers: NDArray[np.int64] | None = None,
) -> Iterator[tuple[int, F64]]:
    """Yield the number of each draw, by geometry, and the milliseconds that its drive takes for each read."""
    profile = _for_devices(profile, trace)
    wanted = range(num_draws()) if numbers is None else numbers.tolist()
    shared = GEOMETRIES if unknown.varies_geometry else 1
    for first in each(range(shared), f"drawing drives like {profile.name}"):
        mine = [number for number in wanted if number % shared == first]
        if mine:
            drive = drawn_drive(profile, unknown, first)
            work = _placed(trace, drive, _start(trace, drive, unknown, first, start_offset_bytes))
            for number in mine:
                yield number, serve(_varied(work, unknown, number), round(unknown.angle[number] * TURN)).service_ms


def _served_as_named(trace: AccessTrace, profile: DriveProfile, start_offset_bytes: int = 0) -> F64:
    """Return the milliseconds of each read on the drive as it is named, served as on those that are drawn."""
    return serve(_placed(trace, _for_devices(profile, trace), start_offset_bytes), 0).service_ms


def _for_devices(profile: DriveProfile, trace: AccessTrace) -> DriveProfile:
    """Return two drives of a kind where a trace reads both images of a Fusion set."""
    is_of_two = profile.kind != "fusion" and bool(trace.device.any())
    return fusion_set(profile, profile, profile.name) if is_of_two else profile


def is_sampled(trace: AccessTrace, profile: DriveProfile) -> bool:
    """Whether a part of a trace stands for it where it is served many times, changed each time.

    Flash has no arm whose way must be followed: all of its reads are served at once, and as wherever it is predicted.
    """
    return profile.geometry != "none" and len(trace) > SAMPLE_READS


def sampled(trace: AccessTrace) -> AccessTrace:
    """Return a trace itself, or of a long one `SAMPLES` stretches at even distances.

    This is the one rule for all that is served many times: draws, what-ifs of a verdict, and remedies. The reads of a
    sample, counted, are scaled by what the whole of the unchanged trace takes, so that both err alike.

    Of changed walks of a verdict on volumes of 200,000 files a sample is off from the whole by 0.3 % of the unchanged
    walk on average, and by 1.6 % at most (``tests/bench/test_samples.py``).
    """
    return trace if len(trace) <= SAMPLE_READS else evenly_taken(trace, SAMPLE_READS, SAMPLES)


def evenly_taken(trace: AccessTrace, reads: int, count: int) -> AccessTrace:
    """Take stretches of a trace at even distances, the first from its start, the last to its end."""
    long = reads // count
    starts = np.linspace(0, len(trace) - long, count).astype(np.int64)
    return trace[(starts[:, None] + np.arange(long)).ravel()]


def _placed(trace: AccessTrace, drive: DriveProfile, start_offset_bytes: int) -> Placed:
    device = trace.device
    if drive.kind != "fusion" and device.any():
        device = np.zeros_like(device)
    parts = split(drive, trace.image_offset + start_offset_bytes, trace.length_bytes, device)
    return lay_out(drive, parts, trace.think_us, starts_outside=False)


def _start(trace: AccessTrace, drive: DriveProfile, unknown: Uncertain, number: int, start_offset_bytes: int) -> int:
    """Return where the image begins on a drive: where it is known to, or anywhere that it fits."""
    if unknown.offset is None:
        return start_offset_bytes
    return max(int(unknown.offset[number] * _room(trace, drive)), 0) // ALIGNED_BYTES * ALIGNED_BYTES


def _room(trace: AccessTrace, drive: DriveProfile) -> int:
    """Return how far from its start the last read leaves a drive free; of a Fusion set, the drive that leaves least."""
    end = trace.image_offset + trace.length_bytes
    if drive.kind != "fusion":
        return drive.capacity_bytes - int(end.max(initial=0))
    return min(
        member.capacity_bytes - int(end[trace.device == number].max(initial=0))
        for number, member in enumerate(drive.members)
    )


def _varied(work: Placed, unknown: Uncertain, number: int) -> Placed:
    """Change what needs no other geometry: seeks, overhead, the bus, the computer."""
    if work.surface is None:
        return work
    surface = work.surface
    shortest = surface.seek[1:2]
    seek = surface.seek.copy()
    # Settling on a track is in every seek; what is drawn is how long the arm takes beyond it.
    seek[1:] = shortest + (seek[1:] - shortest) * unknown.of("seek")[number]
    overhead = unknown.of("overhead")[number]
    changed = surface._replace(
        seek=seek,
        read_miss=round(surface.read_miss * overhead),
        read_hit=round(surface.read_hit * overhead),
        bus_sector=round(surface.bus_sector / unknown.of("interface")[number]),
    )
    think = np.rint(work.think * unknown.of(HOST)[number]).astype(np.int64)
    return replace(work, surface=changed, think=think)
