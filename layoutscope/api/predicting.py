"""What an enumeration costs: walks and drives brought together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.errors import UsageError
from layoutscope.metrics import measure_trace
from layoutscope.report.result import Prediction, WalkFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.drive import DriveProfile, ServiceResult
    from layoutscope.tables import VolumeLayout
    from layoutscope.walk.trace import AccessTrace

DEFAULT_DRIVES: Final = ("generic-5400-2.5", "generic-7200", "sata-ssd")
"""Drives that a scan predicts for unless told otherwise."""

ORDER: Final = "fts"
"""The order of the enumeration under study."""


def predict_enumeration(
    layout: VolumeLayout, profiles: Sequence[DriveProfile], *, host: str, may_skip: bool
) -> tuple[WalkFacts | None, tuple[Prediction, ...]]:
    """Walk a layout and serve the walk on each drive; nothing where there is nothing to walk.

    Parameters
    ----------
    layout : VolumeLayout
        What is walked.
    profiles : sequence of DriveProfile
        The drives.
    host : str
        Name of the host profile.
    may_skip : bool
        Whether a drive that is too small for the image is left out instead of being an error.

    Raises
    ------
    UsageError
        If there is no such host, or the image does not fit on a drive.
    """
    if layout.entries.is_empty():
        return None, ()
    from layoutscope.walk.host import HOSTS
    from layoutscope.walk.orders import trace

    if host not in HOSTS:
        raise UsageError(f"no host {host!r}; there are {', '.join(HOSTS)}")
    reads = trace(layout, order=ORDER, host=host)
    facts = WalkFacts(ORDER, host, len(reads), int(reads.length_bytes.sum()), measure_trace(reads, layout), reads)
    results = (_predict(reads, profile, may_skip=may_skip) for profile in profiles)
    return facts, tuple(result for result in results if result is not None)


def _predict(reads: AccessTrace, profile: DriveProfile, *, may_skip: bool) -> Prediction | None:
    from layoutscope.drive import service

    if may_skip and len(reads) and int((reads.image_offset + reads.length_bytes).max()) > profile.capacity_bytes:
        return None
    return prediction(service(reads, profile), profile)


def prediction(result: ServiceResult, profile: DriveProfile) -> Prediction:
    """Turn the service time of a trace into what reports show."""
    return Prediction(
        drive=result.drive,
        title=profile.title,
        rotates=profile.geometry != "none",
        seconds=result.seconds,
        seconds_low=result.seconds_low,
        seconds_high=result.seconds_high,
        causes_s=tuple(result.causes_s.items()),
        seeks=result.seeks,
        head_travel_bytes=result.head_travel_bytes,
        head_travel_strokes=result.head_travel_strokes,
        service_s=result.reads_ms.service_ms / 1000,
        note=profile.note,
    )
