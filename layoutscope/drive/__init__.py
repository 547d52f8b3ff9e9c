"""Service time of an access trace on a drive.

Examples
--------
>>> from layoutscope.drive import list_profiles, load_profile
>>> load_profile("cheetah15k5").number("rpm")
15020.0
"""

from __future__ import annotations

from layoutscope.drive.profile import FIGURES, DriveProfile, Figure, fusion_set, list_profiles, load_profile
from layoutscope.drive.simulation import ReadTimes, ServiceResult, service, simulate

__all__ = [
    "FIGURES",
    "DriveProfile",
    "Figure",
    "ReadTimes",
    "ServiceResult",
    "fusion_set",
    "list_profiles",
    "load_profile",
    "service",
    "simulate",
]
