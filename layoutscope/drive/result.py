"""What a drive needed for a trace: seconds, their interval, their causes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.display import Displayed
from layoutscope.drive import hdd
from layoutscope.drive.interval import interval_of
from layoutscope.drive.priors import num_draws
from layoutscope.drive.uncertain import HOST, MODEL, UNSAID, model_drives, model_error, uncertain
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive.profile import DriveProfile
    from layoutscope.drive.uncertain import Host, Uncertain


@frozen
class ReadTimes(Displayed):
    """Times of each read; all arrays have shape (n_reads,).

    Attributes
    ----------
    service_ms, seek_ms, rotation_ms, transfer_ms : float64 arrays
        Service time and its parts; what is left is overhead and waiting for the look-ahead. A read that the buffer
        served has no parts.
    cylinders : int64 array
        How far the arm moved.
    outcome : uint8 array
        `hdd.MISS`, `hdd.PART_HIT` or `hdd.WHOLE_HIT`.
    """

    service_ms: NDArray[np.float64]
    seek_ms: NDArray[np.float64]
    rotation_ms: NDArray[np.float64]
    transfer_ms: NDArray[np.float64]
    cylinders: NDArray[np.int64]
    outcome: NDArray[np.uint8]


@frozen
class ServiceResult(Displayed):
    """Time of a trace on a drive.

    Attributes
    ----------
    drive : str
        Name of the profile.
    geometry : str
        What is known of the drive: ``map``, ``zones``, ``datasheet``; ``none`` on flash.
    seconds : float
        From the start to the end of the last read and of what the host does behind it: `service_s` + `host_s`.
    seconds_low, seconds_high : float
        Between which times nine in ten draws of what is not known of the drive and the host lie
        (:func:`scaled_seconds`); they reach to `seconds` where that lies outside.
    service_s : float
        Sum of the service times: `seek_s` + `rotation_s` + `transfer_s` + `overhead_s`.
    seek_s, rotation_s, transfer_s : float
        Moves of the arm, waits for the first sector, reading.
    overhead_s : float
        Commands, and waiting for the look-ahead.
    host_s : float
        Host time between the reads and behind the last one.
    reads, seeks : int
        Reads; those that moved the arm.
    head_travel_bytes : int
        Sum of the distances between reads that the buffer did not serve, in bytes of address.
    head_travel_strokes : float
        Way of the arm in full strokes.
    whole_hit, part_hit, miss : float
        Shares of reads that the buffer had whole, in part, not at all.
    phases_s : tuple of float
        Seconds for each start phase.
    reads_ms : ReadTimes
        Each read, for the first start phase.
    draws_s : tuple of float
        Seconds of each draw; those of two traces on one drive belong together one by one.
    buffers : tuple of float
        By how much the drive's time differs with the buffer of each draw; empty where the drive's own is known.
    """

    drive: str
    geometry: str
    seconds: float
    seconds_low: float
    seconds_high: float
    service_s: float
    seek_s: float
    rotation_s: float
    transfer_s: float
    overhead_s: float
    host_s: float
    reads: int
    seeks: int
    head_travel_bytes: int
    head_travel_strokes: float
    whole_hit: float
    part_hit: float
    miss: float
    phases_s: tuple[float, ...]
    reads_ms: ReadTimes
    draws_s: tuple[float, ...] = ()
    buffers: tuple[float, ...] = ()

    @property
    def knowledge(self) -> str:
        """Say in a sentence what is known of the drive, and how well the model tells such drives."""
        if self.geometry == "none":
            return "Of flash the model knows the latencies in the profile, measured or assumed."
        known = {
            "map": "Every sector of this drive is known",
            "zones": "Zones and skews of this drive are known",
            "datasheet": "Of this drive a few figures are known, not its tracks",
        }[self.geometry]
        return (
            f"{known}: on nine in ten drives known that well, the model is expected to be within a factor of "
            f"{model_error(self.geometry):.3g} of DiskSim, a published simulator (held against it on "
            f"{model_drives(self.geometry)} drives)."
        )

    @property
    def causes_s(self) -> dict[str, float]:
        """Seconds by cause, in the order in which they are told."""
        return {
            "seek": self.seek_s,
            "rotation": self.rotation_s,
            "transfer": self.transfer_s,
            "overhead": self.overhead_s,
            "host": self.host_s,
        }

    def summary(self) -> dict[str, float | int]:
        """Return totals, means and percentiles; milliseconds are means over all reads unless the name says more.

        ``total_s`` contains the think times, ``rest_ms`` is overhead and waiting for the look-ahead, ``arm_moved`` the
        share of reads that changed the cylinder.
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

    The percentiles are times that occurred, the next at or above the rank.
    """
    if len(service_ms) == 0:
        return dict.fromkeys(("median_ms", "p90_ms", "p99_ms", "max_ms"), 0.0)
    ordered = np.sort(service_ms)
    last = len(ordered) - 1
    median = float((ordered[last // 2] + ordered[(last + 1) // 2]) / 2)
    high = ordered[np.ceil(last * np.array([0.9, 0.99, 1.0])).astype(np.int64)]
    return dict(zip(("median_ms", "p90_ms", "p99_ms", "max_ms"), (median, *high.tolist()), strict=True))


def summarise(
    profile: DriveProfile, trace: AccessTrace, runs: Sequence[ReadTimes], buffers: tuple[float, ...] = ()
) -> ServiceResult:
    """Sum up the runs over the start phases.

    Parameters
    ----------
    profile : DriveProfile
        The drive.
    trace : AccessTrace
        The reads.
    runs : sequence of ReadTimes
        One for each start phase: the first is the result, all make the interval, with what is not known.
    buffers : tuple of float
        As of :class:`ServiceResult`.
    """
    times = runs[0]
    host_s = trace.host_us / 1e6
    served_s = tuple(float(run.service_ms.sum()) / 1000 for run in runs)
    service_s, seek_s, rotation_s, transfer_s = (
        float(values.sum()) / 1000 for values in (times.service_ms, times.seek_ms, times.rotation_ms, times.transfer_ms)
    )
    overhead_s = max(service_s - seek_s - rotation_s - transfer_s, 0.0)
    shares = hit_shares(times.outcome)
    result = ServiceResult(
        drive=profile.name,
        geometry=profile.geometry,
        seconds=served_s[0] + host_s,
        seconds_low=served_s[0] + host_s,
        seconds_high=served_s[0] + host_s,
        service_s=service_s,
        seek_s=seek_s,
        rotation_s=rotation_s,
        transfer_s=transfer_s,
        overhead_s=overhead_s,
        host_s=host_s,
        reads=len(trace),
        seeks=int((times.cylinders != 0).sum()),
        head_travel_bytes=head_travel_bytes(trace, times.outcome) if profile.geometry != "none" else 0,
        head_travel_strokes=strokes(profile, times.cylinders),
        phases_s=tuple(seconds + host_s for seconds in served_s),
        reads_ms=times,
        whole_hit=shares["whole_hit"],
        part_hit=shares["part_hit"],
        miss=shares["miss"],
        buffers=buffers,
    )
    return on_host(result, profile, UNSAID)


def on_host(result: ServiceResult, profile: DriveProfile, host: Host) -> ServiceResult:
    """Draw the interval of a time anew, with what is not known of the host whose work the trace is.

    Parameters
    ----------
    result : ServiceResult
        The time of a trace.
    profile : DriveProfile
        The drive that it was served on.
    host : Host
        Whose drivers take the time between the reads.
    """
    served_s = [seconds - result.host_s for seconds in result.phases_s]
    likely = scaled_seconds(result.causes_s, served_s, profile, uncertain(profile, host), result.buffers)
    found = interval_of(likely, {}).reaching(result.seconds)
    return replace(result, seconds_low=found.low_s, seconds_high=found.high_s, draws_s=tuple(likely.tolist()))


def scaled_seconds(
    causes_s: Mapping[str, float],
    phases: Sequence[float],
    profile: DriveProfile,
    unknown: Uncertain,
    buffers: Sequence[float] = (),
) -> NDArray[np.float64]:
    """Scale the causes of a time by what is not known: where its difference to another time matters.

    To first order a slower arm makes the seeks longer and nothing else. What another buffer would do is no factor on a
    cause: a sample of the reads is served with each that is drawn. `layoutscope.drive.draws` serves the reads once for
    each draw and knows better; this takes a few milliseconds, which the many changed walks of a plan can afford.

    Parameters
    ----------
    causes_s : mapping of str to float
        Seconds by cause: ``seek``, ``rotation``, ``transfer``, ``overhead``, ``host``.
    phases : sequence of float
        Seconds of the drive for each start angle, the first being that of the causes.
    profile : DriveProfile
        The drive or set as it is named.
    unknown : Uncertain
        What is not known of it, and of the host.
    buffers : sequence of float
        By how much the drive's time differs with the buffer of each draw; empty where the buffer is known.

    Returns
    -------
    (n_draws,) float64 array
    """
    seconds = np.zeros(num_draws())
    for cause, factor in cause_factors(profile, unknown).items():
        seconds += causes_s[cause] * factor
    seconds *= np.array(buffers) if buffers else 1.0
    started = np.resize(np.array(phases) / max(phases[0], 1e-12), num_draws())
    return np.asarray(seconds * started * unknown.of(MODEL) + causes_s["host"] * unknown.of(HOST))


def cause_factors(profile: DriveProfile, unknown: Uncertain) -> dict[str, NDArray[np.float64]]:
    """Return by how much each cause of a drive's time differs, draw by draw."""
    if profile.geometry == "none":
        latency = unknown.of("flash_latency")
        return {
            "seek": np.ones(num_draws()),
            "rotation": np.ones(num_draws()),
            "transfer": 1 / unknown.of("flash_rate"),
            "overhead": latency,
        }
    turn = np.ones(num_draws())
    if "rpm" in unknown.choice:
        rotating = profile if not profile.members else next(m for m in profile.members if m.geometry != "none")
        turn = rotating.number("rpm") / unknown.choice["rpm"].astype(np.float64)
    return {
        "seek": unknown.of("seek"),
        "rotation": turn,
        "transfer": 1 / unknown.of("rate"),
        "overhead": unknown.of("overhead"),
    }


def hit_shares(outcome: NDArray[np.uint8]) -> dict[str, float]:
    """Return the shares of reads by what the buffer had of them."""
    counts = np.bincount(outcome, minlength=3) / max(len(outcome), 1)
    return {
        "whole_hit": float(counts[hdd.WHOLE_HIT]),
        "part_hit": float(counts[hdd.PART_HIT]),
        "miss": float(counts[hdd.MISS]),
    }


def head_travel_bytes(trace: AccessTrace, outcome: NDArray[np.uint8]) -> int:
    """Sum the distances from the end of one read that the buffer did not serve to the start of the next."""
    medium = outcome == hdd.MISS
    start = trace.image_offset[medium]
    end = start + trace.length_bytes[medium]
    return int(np.abs(start[1:] - end[:-1]).sum())


def strokes(profile: DriveProfile, cylinders: NDArray[np.int64]) -> float:
    """Return the way of the arm in full strokes."""
    from layoutscope.drive.geometry import total_cylinders

    return float(cylinders.sum()) / max(total_cylinders(profile), 1)
