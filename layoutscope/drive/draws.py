"""A prediction as a distribution: the same reads on many drives like the one that is named.

The reads are worked out once. Geometries are laid out once for several draws, as that is what takes long; seeks,
overhead, buses, the computer and the angle at the start differ in all. Long traces are served in samples, whose ratio
to the same sample on the drive as named is what the whole is scaled by.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.drive.interval import LAYOUT, Interval, interval_of
from layoutscope.drive.members import split
from layoutscope.drive.priors import num_draws
from layoutscope.drive.profile import fusion_set
from layoutscope.drive.simulation import lay_out, serve
from layoutscope.drive.surface import TURN
from layoutscope.drive.uncertain import GEOMETRIES, HOST, MODEL, START, drawn_drive
from layoutscope.progress import each

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive.profile import DriveProfile
    from layoutscope.drive.simulation import Placed
    from layoutscope.drive.uncertain import Uncertain

    F64 = NDArray[np.float64]

ALIGNED_BYTES: Final = 4096
"""Volumes begin at multiples of this."""
SAMPLE_READS: Final = 1 << 16
SAMPLES: Final = 32
"""Of longer traces so many reads are served, in so many stretches at even distances: see :func:`sampled`."""


def drawn_interval(
    trace: AccessTrace, profile: DriveProfile, unknown: Uncertain, *, start_offset_bytes: int = 0
) -> Interval:
    """Predict between which times a drive like that takes for a trace.

    Parameters
    ----------
    trace : AccessTrace
        The reads, with the host's think times.
    profile : DriveProfile
        The drive as it is named.
    unknown : Uncertain
        What is not known of it, and of the host.
    start_offset_bytes : int
        Where the image starts on the drive, if that is known.
    """
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

    Parameters
    ----------
    trace, profile, unknown, start_offset_bytes
        As for :func:`drawn_interval`.
    numbers : int64 array, optional
        Which draws; all without.

    Returns
    -------
    (n_draws,) float64 array
        Seconds, the host's among them; of the draws that were asked for.
    """
    numbers = np.arange(num_draws()) if numbers is None else numbers
    if profile.kind != "fusion" and trace.device.any():
        profile = fusion_set(profile, profile, profile.name)
    sample = sampled(trace)
    host_s = trace.host_us / 1e6 * unknown.of(HOST)
    scale = 1.0
    if len(sample) < len(trace):
        known = _placed(trace, profile, start_offset_bytes)
        part = _placed(sample, profile, start_offset_bytes)
        scale = _drive_s(known, 0) / max(_drive_s(part, 0), 1e-12)
    seconds = np.zeros(num_draws())
    shared = GEOMETRIES if unknown.varies_geometry else 1
    for first in each(range(shared), f"drawing drives like {profile.name}"):
        mine = [number for number in numbers.tolist() if number % shared == first]
        if mine:
            drive = drawn_drive(profile, unknown, first)
            work = _placed(sample, drive, _start(sample, drive, unknown, first, start_offset_bytes))
            for number in mine:
                seconds[number] = _drive_s(_varied(work, unknown, number), round(unknown.angle[number] * TURN))
    return np.asarray((seconds * scale * unknown.of(MODEL) + host_s)[numbers])


def is_sampled(trace: AccessTrace, profile: DriveProfile) -> bool:
    """Whether a part of a trace stands for it where it is served many times, changed each time.

    Flash has no arm whose way must be followed: all of its reads are served at once, and as wherever it is predicted.

    Parameters
    ----------
    trace : AccessTrace
        The reads.
    profile : DriveProfile
        The drive.
    """
    return profile.geometry != "none" and len(trace) > SAMPLE_READS


def sampled(trace: AccessTrace) -> AccessTrace:
    """Return a trace itself, or of a long one `SAMPLES` stretches at even distances.

    This is the one rule for all that is served many times: draws, what-ifs of a verdict, and remedies. The reads of a
    sample, counted, are scaled by what the whole of the unchanged trace takes, so that both err alike.

    Notes
    -----
    Of changed walks of a verdict on volumes of 200,000 files a sample is off from the whole by 0.3 % of the unchanged
    walk on average, and by 1.6 % at most (``tests/bench/test_samples.py``).
    """
    if len(trace) <= SAMPLE_READS:
        return trace
    long = SAMPLE_READS // SAMPLES
    starts = np.linspace(0, len(trace) - long, SAMPLES).astype(np.int64)
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


def _drive_s(work: Placed, angle: int) -> float:
    return float(serve(work, angle).service_ms.sum()) / 1000
