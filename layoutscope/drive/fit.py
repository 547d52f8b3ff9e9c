"""Profiles from published or measured numbers: a data sheet, fio's JSON, the figures of ioping and dd."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from layoutscope.drive.geometry import turn_ms
from layoutscope.drive.profile import DriveProfile, Figure, Spread
from layoutscope.errors import UsageError
from layoutscope.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Mapping

OVERHEAD_MS: Final = 0.15
"""Command overhead if nothing is known; measured drives have 0.07 to 0.28 ms."""


LEAST_COVERED: Final = 0.05
"""Least share of a drive for which random reads represent all of it: errors grow by the root of its inverse."""
INNER_PART: Final = 0.7
"""From this share of the drive on, a sequential rate counts as that of the inner edge."""


def from_datasheet(name: str, *, title: str = "", source: str = "datasheet", **figures: float) -> DriveProfile:
    """Make the profile of a disk from its data sheet, with assumed values for figures that data sheets lack."""
    needed = ("capacity_bytes", "rpm", "track_to_track_ms", "average_seek_ms", "outer_mb_s", "inner_mb_s")
    missing = [figure for figure in needed if figure not in figures]
    if missing:
        raise UsageError(f"a datasheet profile needs {', '.join(missing)}")
    assumed: dict[str, Any] = {
        "read_miss_ms": OVERHEAD_MS,
        "read_hit_ms": OVERHEAD_MS,
        "buffer_bytes": 8 << 20,
        "look_ahead": "segment",
        "on_arrival": "none",
        "join": "window",
    }
    known = {key: Figure(value, "assumed", "no datasheet says this") for key, value in assumed.items()}
    known |= {key: Figure(value, "datasheet", source) for key, value in figures.items()}
    return DriveProfile(name, title or name, "hdd", known, Path())


def from_fio(report: Mapping[str, Any], base: DriveProfile, *, name: str = "fitted") -> DriveProfile:
    """Fit a profile to the report of ``fio --output-format=json``.

    Uses the jobs whose options describe their reads: random reads at queue depth 1, whose median fits the average seek
    of a disk or the latency of flash; and sequential reads, whose rate fits the outer rate or the bandwidth.
    """
    fitted = replace(base, name=name, title=f"{base.title}, fitted with fio")
    options = dict(report.get("global options", {}))
    num_fitted = 0
    for job in report.get("jobs", []):
        what = options | job.get("job options", {})
        read = job.get("read", {})
        # fio's own default is a depth of 1. With deeper queues, the drive chooses the nearest of several reads, so
        # their latency says nothing about a single seek.
        if what.get("rw") == "randread" and int(what.get("iodepth", 1)) == 1:
            # These options bound the part of the drive that a job reads from; without them, it is all of it.
            covered = [_part(what[key], fitted.capacity_bytes) for key in ("size", "filesize") if what.get(key)]
            length = parse_size(str(what.get("bs", "4k")))
            # Completion latency excludes the host's cost of submission, which is not a property of the drive.
            latency = read.get("clat_ns") or read.get("lat_ns") or {}
            median_ns = latency.get("percentile", {}).get("50.000000", latency.get("mean"))
            if not median_ns:
                raise UsageError("the fio report has no read latency")
            fitted = fit_latency(
                fitted, float(median_ns) / 1e6, length, range_bytes=min(covered, default=None), source="fio JSON"
            )
            count, deviation = float(latency.get("N", 0)), float(latency.get("stddev", 0)) / 1e6
            if fitted.kind == "hdd" and count >= 2 and deviation > 0:
                # The error of the average seek is the standard error of the mean of the reads.
                error = min(deviation / count**0.5 / fitted.number("average_seek_ms"), 1.0)
                fitted = replace(fitted, spread=Spread(("average_seek_ms",), ((error**2,),)))
            num_fitted += 1
        elif what.get("rw") == "read" and read.get("bw_bytes"):
            at = _part(what.get("offset", "0"), fitted.capacity_bytes) / fitted.capacity_bytes
            fitted = fit_rate(fitted, float(read["bw_bytes"]) / 1e6, at=at, source="fio JSON")
            num_fitted += 1
    if not num_fitted:
        raise UsageError("the fio report has neither random reads at queue depth 1 nor sequential reads")
    return fitted


def _part(text: object, capacity_bytes: int) -> int:
    """Parse a fio size, which may be a share of the drive."""
    word = str(text)
    if not word.endswith("%"):
        return parse_size(word)
    try:
        return int(float(word[:-1]) / 100 * capacity_bytes)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{word!r} is not a share of a drive") from error


def fit_latency(
    profile: DriveProfile,
    random_ms: float,
    length_bytes: int = 4096,
    *,
    range_bytes: int | None = None,
    source: str,
) -> DriveProfile:
    """Fit a profile to the latency of single random reads, as ioping and fio measure it.

    Disk: mean seek = latency - half a revolution - overhead, which assumes the other figures of the profile. If the
    reads covered only part of the drive, the seek is scaled: seek time above the track-to-track time rises with the
    square root of the distance. Flash: the latency of that read size.
    """
    if profile.kind == "ssd":
        return _fit_profile(profile, source, latency_bytes=[length_bytes], latency_us=[random_ms * 1000])
    overhead = profile.number("read_miss_ms", OVERHEAD_MS)
    # When the arm has settled, a sector at a random place is half a revolution away on average.
    seek = random_ms - turn_ms(profile) / 2 - overhead
    shortest = profile.number("track_to_track_ms", 0.0)
    if seek <= shortest:
        raise UsageError(f"a random read of {random_ms:g} ms leaves no time for a seek at this rotation speed")
    covered = min((range_bytes or profile.capacity_bytes) / profile.capacity_bytes, 1.0)
    if covered < LEAST_COVERED:
        raise UsageError(
            f"the random reads covered {covered:.2%} of the drive, which says nothing of its seeks; "
            f"read from at least {LEAST_COVERED:.0%} of it, such as with size=100% on the device itself"
        )
    seek = shortest + (seek - shortest) / covered**0.5
    # A full stroke that belongs to another average would bend the curve; without it, it follows from the other two.
    return _fit_profile(profile, source, average_seek_ms=seek, full_stroke_ms=None)


def fit_rate(profile: DriveProfile, rate_mb_s: float, *, at: float = 0.0, source: str) -> DriveProfile:
    """Fit a profile to a sequential rate, as dd measures it, in 10^6 bytes a second.

    The inner rate keeps its ratio to the outer rate, and rates in between are assumed to fall linearly. A rate measured
    in the inner part counts as the inner rate.
    """
    if profile.kind == "ssd":
        return _fit_profile(profile, source, bandwidth_mb_s=rate_mb_s)
    if at >= INNER_PART:
        return _fit_profile(profile, source, inner_mb_s=min(rate_mb_s, profile.number("outer_mb_s")))
    ratio = profile.number("inner_mb_s") / profile.number("outer_mb_s")
    outer = rate_mb_s / (1 - (1 - ratio) * at)
    return _fit_profile(profile, source, outer_mb_s=outer, inner_mb_s=ratio * outer)


def _fit_profile(profile: DriveProfile, source: str, **values: Any) -> DriveProfile:
    figures = {key: figure for key, figure in profile.figures.items() if key not in values}
    figures |= {key: Figure(value, "fitted", source) for key, value in values.items() if value is not None}
    return replace(profile, figures=figures)


def profile_text(profile: DriveProfile) -> str:
    """Return a profile as the TOML text that `load_profile` reads."""
    lines = [f"name = {_toml(profile.title)}", f"kind = {_toml(profile.kind)}"]
    if profile.take_for:
        lines.append(f"take_for = {_toml(profile.take_for)}")
    if profile.models:
        lines.append(f"models = {_toml(list(profile.models))}")
    if profile.members:
        lines.append(f"members = {_toml([member.name for member in profile.members])}")
    if profile.note:
        lines.append(f"note = {_toml(profile.note)}")
    lines += ["", "[figures]"]
    lines += [
        f"{key} = {{ value = {_toml(figure.value)}, kind = {_toml(figure.kind)}, source = {_toml(figure.source)} }}"
        for key, figure in profile.figures.items()
    ]
    if profile.spread is not None:
        rows = (f"  {_toml([float(f'{item:.3g}') for item in row])}," for row in profile.spread.covariance)
        lines += ["", "[spread]", f"figures = {_toml(list(profile.spread.figures))}", "covariance = [", *rows, "]"]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    """Return a string, a number or a list of these as TOML; their JSON is also valid TOML."""
    return json.dumps(value, ensure_ascii=False)
