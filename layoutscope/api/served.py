"""What work on a volume takes on a drive, and between which times: quickly, as a scan and tables of many need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.drive.draws import quick_service
from layoutscope.results.scan import Prediction

if TYPE_CHECKING:
    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import DriveProfile
    from layoutscope.drive.uncertain import Host
    from layoutscope.tables import VolumeLayout


def quick_prediction(
    layout: VolumeLayout, reads: AccessTrace, profile: DriveProfile, host: Host, start_offset_bytes: int = 0
) -> Prediction:
    """Serve what work reads on a drive, and on those that are drawn."""
    knows = knows_offset(layout, start_offset_bytes)
    result = quick_service(reads, profile, host, start_offset_bytes=start_offset_bytes, knows_offset=knows)
    return Prediction.of(result, profile)


def knows_offset(layout: VolumeLayout, start_offset_bytes: int) -> bool:
    """Tell whether a volume's place on its drive is known: from a partition map around it, or as stated."""
    return layout.facts.image_offset > 0 or start_offset_bytes > 0
