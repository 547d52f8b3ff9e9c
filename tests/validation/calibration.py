"""Drives of a published simulator and of data sheets, measured as if they were devices: ``results/calibration.json``.

``python -m tests.validation.calibration`` measures each drive model in place of a device, with an exact clock and with
a computer whose reads are late by some microseconds. It compares the fitted profile with the drive itself on the seek
curve and on DiskSim's recorded workloads.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.api.drives import measure_drive
from layoutscope.drive import load_profile, service
from layoutscope.drive.calibration.fitting import SeekCurve, Tracks, fit_disk, track_numbers
from layoutscope.drive.geometry import build_surface
from layoutscope.drive.hdd import SECTOR_BYTES, TURN
from tests.unit.drive.fakes import FakeDrive
from tests.unit.native.reference.hdd import move_ticks, run_at
from tests.validation.disksim import CHEETAHS, Witness
from tests.validation.reference import save

if TYPE_CHECKING:
    from layoutscope.drive.profile import DriveProfile

DISKSIM: Final = (*CHEETAHS, "atlas10k5")
KEEPING: Final = "generic-7200 that keeps its track on arrival"
DRIVES: Final = (*DISKSIM, "generic-7200", KEEPING, "generic-5400-2.5", "st2000dm006")
JITTERS_MS: Final = (0.0, 0.02)
"""Delay of the computer's reads: mean of an exponential distribution."""
WALKS: Final = tuple(
    f"{system}-{files}-stat"
    for system in ("apfs", "hfsplus")
    for files in ("20000-c00", "20000-c20", "200000-c00", "200000-c20")
)
SHORTEST: Final = 100
"""Shortest distance in tracks at which the seek curve is compared. Below it heads and cylinders matter, which reads
cannot distinguish."""
CURVE_MUST, CURVE_LATE, WALK_MUST = 0.03, 0.055, 0.02
"""Allowed error of the curve with an exact clock and with late reads, and of the workloads."""
BEFORE: Final = {
    "generic-7200": (0.077, 0.304),
    KEEPING: (0.171, 0.068),
    "generic-5400-2.5": (0.042, 0.155),
    "st2000dm006": (0.082, 0.568),
}
"""The worst APFS and HFS+ workloads when the ways to read ahead were compared only at coarse segment sizes."""


def curve_error(drive: DriveProfile, tracks: Tracks, curve: SeekCurve) -> float:
    """Return the error of a measured curve of overhead and seeks: root mean square over distances."""
    surface = build_surface(drive, 0, drive.capacity_bytes // SECTOR_BYTES - 1)
    random = np.random.default_rng(3)
    grid = np.linspace(0, drive.capacity_bytes, 20_001)
    number = track_numbers(tracks, grid, drive.capacity_bytes)
    errors = []
    for distance in np.geomspace(SHORTEST, number[-1] * 0.9, 10):
        begins = random.uniform(0, number[-1] - distance, 200)
        places = [np.interp(at, number, grid) // SECTOR_BYTES for at in (begins, begins + distance)]
        runs = [[run_at(surface, int(sector), 0) for sector in column] for column in places]
        ticks = [surface.read_miss + move_ticks(surface, *pair) for pair in zip(*runs, strict=True)]
        true = float(np.mean(ticks)) / (TURN / drive.turn_ms)
        errors.append(float(curve.at(np.array([distance]))[0]) / true - 1)
    return float(np.sqrt(np.mean(np.square(errors))))


def judge(witness: Witness, name: str, jitter_ms: float) -> dict[str, Any]:
    """Measure one of the drives, whose reads come late by some milliseconds, and return its errors."""
    drive = load_profile(name.split(maxsplit=1)[0])
    if name == KEEPING:
        drive = drive.with_figures(on_arrival="track")
    found = measure_drive(FakeDrive(drive, jitter_ms=jitter_ms), "measured", [])
    walks = {}
    for walk in WALKS:
        reads = witness.trace(name, walk)
        true, told = (service(reads, profile).service_s for profile in (drive, found.profile))
        walks[walk] = told / true - 1
    return {
        "drive": name, "jitter_us": round(jitter_ms * 1000), "reads": len(found.log),
        "seconds": float(found.log.ns.sum()) / 1e9, "known": found.known, "uniform": found.held_back["uniform"] - 1,
        "curve": curve_error(drive, *fit_disk(found.log)), "walks": walks,
    }  # fmt: skip


def main() -> None:
    """Measure all of them, and save the results."""
    from tests.conftest import shared_dir

    shared = shared_dir()
    if shared is None:
        sys.exit("the reference images (../shared) are absent")
    witness = Witness(shared)
    save("calibration", [judge(witness, name, jitter_ms) for jitter_ms in JITTERS_MS for name in DRIVES])


if __name__ == "__main__":
    main()
