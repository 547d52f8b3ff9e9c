"""Profiles from published or measured numbers: a datasheet, fio's JSON, the figures of ioping and dd."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from layoutscope.drive.geometry import edge_rates, listed_zones, turn_ms
from layoutscope.drive.profile import DriveProfile, Figure
from layoutscope.drive.seek import mean_seek_ms, seek_curve
from layoutscope.errors import UsageError

OVERHEAD_MS: Final = 0.15
"""Overhead of a command where nothing is known; measured drives have 0.07 to 0.28 ms."""


def from_datasheet(name: str, *, title: str = "", source: str = "datasheet", **figures: float) -> DriveProfile:
    """Make the profile of a disk of which only a datasheet is known.

    Parameters
    ----------
    name, title, source : str
        How it is called, and where the numbers stand.
    **figures : float
        ``capacity_bytes``, ``rpm``, ``track_to_track_ms``, ``average_seek_ms``, ``outer_mb_s``, ``inner_mb_s`` and,
        where known, ``full_stroke_ms``, ``buffer_bytes``, ``heads`` and others of `profile.FIGURES`.

    Raises
    ------
    UsageError
        If one that is needed is missing.
    """
    needed = ("capacity_bytes", "rpm", "track_to_track_ms", "average_seek_ms", "outer_mb_s", "inner_mb_s")
    missing = [figure for figure in needed if figure not in figures]
    if missing:
        raise UsageError(f"a datasheet profile needs {', '.join(missing)}")
    known = {key: Figure(value, "datasheet", source) for key, value in figures.items()}
    return DriveProfile(name, title or name, "hdd", assumed_figures() | known, Path())


def assumed_figures() -> dict[str, Figure]:
    """Return what no datasheet says."""
    values: dict[str, Any] = {
        "read_miss_ms": OVERHEAD_MS,
        "read_hit_ms": OVERHEAD_MS,
        "buffer_bytes": 8 << 20,
        "look_ahead": "segment",
        "join": "window",
    }
    return {key: Figure(value, "assumed", "no datasheet says this") for key, value in values.items()}


def know_less(profile: DriveProfile, geometry: str) -> DriveProfile:
    """Return a well-known disk as one of which less is known, to see what the rest is worth.

    Parameters
    ----------
    profile : DriveProfile
        A disk with a sector map.
    geometry : str
        ``zones``: without the map; ``datasheet``: rotation, three seek times, two rates, buffer size.
    """
    if geometry == "zones":
        return profile.with_figures(map_file=None)
    if geometry != "datasheet":
        raise UsageError(f"unknown level of geometry {geometry!r}; there are zones, datasheet")
    curve = seek_curve(profile, int(profile.number("cylinders")))
    outer, inner = edge_rates(listed_zones(profile), turn_ms(profile))
    sheet = from_datasheet(
        profile.name,
        source="derived from the full profile",
        capacity_bytes=profile.capacity_bytes,
        rpm=profile.number("rpm"),
        track_to_track_ms=float(curve[1]),
        average_seek_ms=mean_seek_ms(curve),
        full_stroke_ms=float(curve[-1]),
        buffer_bytes=profile.number("segments") * profile.number("segment_sectors") * 512,
        outer_mb_s=outer,
        inner_mb_s=inner,
    )
    return replace(sheet, title=profile.title)
