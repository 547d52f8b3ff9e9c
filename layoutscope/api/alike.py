"""A prediction for a volume like that: the same files in another order, at another age, anywhere on the drive."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.analysis.width import PLACEMENT
from layoutscope.api.workloads import host_of, said_of, walk
from layoutscope.drive import service
from layoutscope.drive.draws import ALIGNED_BYTES, drawn_seconds
from layoutscope.drive.interval import VOLUME, interval_of
from layoutscope.drive.priors import num_draws
from layoutscope.drive.uncertain import START, uncertain
from layoutscope.errors import UsageError, did_you_mean
from layoutscope.walk.orders import ORDERS

if TYPE_CHECKING:
    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import DriveProfile
    from layoutscope.drive.interval import Interval
    from layoutscope.options import WorkRequest
    from layoutscope.results.predict import DriveCase
    from layoutscope.tables import VolumeLayout

UNKNOWN: Final = "unknown"
"""The placement of a volume like that."""

PLACEMENTS: Final = ("known", UNKNOWN)


def check_placement(placement: str, work: WorkRequest, *, is_one_order: bool) -> None:
    """Hold what is asked of the placement to what can be said."""
    if placement not in PLACEMENTS:
        hint = did_you_mean(placement, PLACEMENTS)
        raise UsageError(f"no placement {placement!r}{hint}; there are {', '.join(PLACEMENTS)}")
    if placement == UNKNOWN and (not is_one_order or ORDERS[work.order].needs or work.start is not None):
        raise UsageError("a volume like that is predicted for one order that goes over the whole volume")


class VolumesAlike:
    """Volumes like one that is known, walked."""

    def __init__(self, layout: VolumeLayout, work: WorkRequest) -> None:
        from layoutscope.analysis.aged import volumes_alike

        self._layout, self._host = layout, said_of(host_of(work))
        self._volumes = volumes_alike(layout, work.host)
        self._walks = [walk(volume.layout, work).reads for volume in self._volumes]

    def added(self, case: DriveCase, reads: AccessTrace, profile: DriveProfile) -> DriveCase:
        """Add to a prediction what a volume like that takes."""
        return replace(case, volume=self._interval(profile), halves_s=self._halves(reads, profile))

    def _interval(self, profile: DriveProfile) -> Interval:
        """Draw drives like that, and in turn the volumes, each anywhere on its drive."""
        unknown = uncertain(profile, self._host, knows_offset=False)
        number = np.arange(num_draws())
        taken = number % len(self._walks)
        seconds = np.zeros(num_draws())
        for volume, reads in enumerate(self._walks):
            mine = number[taken == volume]
            seconds[mine] = drawn_seconds(reads, profile, unknown, numbers=mine)
        placed = {
            "creation": (PLACEMENT, np.array([volume.creation for volume in self._volumes])[taken]),
            "age": (PLACEMENT, np.array([volume.age for volume in self._volumes])[taken]),
        }
        return interval_of(seconds, {**unknown.columns(), **placed, START: (START, unknown.angle)}, VOLUME)

    def _halves(self, reads: AccessTrace, profile: DriveProfile) -> tuple[float, ...]:
        """Serve reads with the volume at the start of the drive and in the middle; empty where it does not fit."""
        half = profile.capacity_bytes // 2 // ALIGNED_BYTES * ALIGNED_BYTES
        if profile.geometry == "none" or self._layout.facts.size_bytes > half:
            return ()
        begins = -self._layout.facts.image_offset
        return tuple(service(reads, profile, start_offset_bytes=begins + at, phases=1).seconds for at in (0, half))
