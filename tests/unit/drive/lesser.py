"""Well-known disks reduced to less information, to see what the rest is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from layoutscope.drive.geometry import read_listed_zones
from layoutscope.drive.profile import from_datasheet
from layoutscope.drive.seeks import seek_curve

if TYPE_CHECKING:
    from layoutscope.drive.geometry import Zones
    from layoutscope.drive.profile import DriveProfile


def without_map(profile: DriveProfile) -> DriveProfile:
    """Keep the zones, but remove the map of all sectors."""
    return profile.with_figures(map_file=None)


def as_datasheet(profile: DriveProfile) -> DriveProfile:
    """Keep only datasheet figures: rotation, three seek times, two rates, buffer size."""
    curve = seek_curve(profile, int(profile.number("cylinders")))
    outer, inner = edge_rates(read_listed_zones(profile), profile.turn_ms)
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


LESS = {"map": lambda profile: profile, "zones": without_map, "datasheet": as_datasheet}
"""Profiles by how much of the geometry is known."""


def edge_rates(zones: Zones, turn: float) -> tuple[float, float]:
    """Return the sustained rates of the outermost and the innermost zone in 10^6 bytes per second.

    A track takes a turn and the skew to the next one.
    """
    switches = zones.heads if zones.band_cylinders == 0 else zones.band_cylinders
    other = zones.cylinder_skew if zones.band_cylinders == 0 else zones.head_skew
    usual = zones.head_skew if zones.band_cylinders == 0 else zones.cylinder_skew
    turns = 1 + usual + (other - usual) / switches
    rates = zones.sectors * 512 / (turns * turn * 1000)
    return float(rates[0]), float(rates[-1])


def pair_weights(cylinders: int):
    """Return the share of each distance among all ordered pairs of different cylinders.

    The definition of the average seek in the makers' manuals.
    """
    weights = np.arange(cylinders, 0, -1, dtype=np.float64)
    weights[0] = 0
    return weights / max(weights.sum(), 1.0)


def mean_seek_ms(curve) -> float:
    """Return the mean of a curve over all ordered pairs of different cylinders."""
    return float(pair_weights(len(curve)) @ curve)
