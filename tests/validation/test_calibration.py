"""Three drives of a published simulator, measured as if they were devices, and recorded walks on what came out."""

from __future__ import annotations

import pytest

from layoutscope.api.measure import measured
from layoutscope.drive import load_profile, service
from tests.unit.drive.fakes import FakeDrive
from tests.validation.disksim import Witness

pytestmark = pytest.mark.images

WALKS = ("apfs-200000-c00-stat", "apfs-200000-c20-stat", "hfsplus-200000-c00-stat", "hfsplus-200000-c20-stat")
SCATTERED = 0.03
IN_SEQUENCE = 0.12
"""How far walks may be off, as docs/drives.md says: most reads of APFS move the arm, nine of ten of HFS+ continue."""


@pytest.mark.parametrize("name", ["cheetah15k5", "cheetah9lp", "atlas10k5"])
def test_walks_on_a_measured_drive(name, shared):
    """What was measured of a drive gives its walks' service times; so does what was held back."""
    drive = load_profile(name)
    found = measured(FakeDrive(drive), "measured", [])
    (uniform,) = found.held_back
    assert uniform.ratio == pytest.approx(1, abs=0.03)
    assert found.known < 0.05
    for walk in WALKS:
        reads = Witness(shared).trace(name, walk)
        true, told = (service(reads, profile, phases=1).service_s for profile in (drive, found.profile))
        assert told / true == pytest.approx(1, abs=SCATTERED if walk.startswith("apfs") else IN_SEQUENCE), walk
