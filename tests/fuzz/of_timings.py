"""Logs of timed reads that profiles are fitted to: those of a disk and of flash."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tests.fuzz.base import Base, base_of

if TYPE_CHECKING:
    from pathlib import Path


@cache
def bases() -> tuple[Base, ...]:
    """Measure two drive models with a simulated clock."""
    from layoutscope.api.measure import measure_drive
    from layoutscope.drive import load_profile
    from tests.unit.drive.fakes import FakeDrive
    from tests.unit.drive.lesser import without_map
    from tests.unit.drive.toys import flash

    drives = {"disk": without_map(load_profile("cheetah9lp")), "flash": flash()}
    walk = [(k * 40_960, 4096) for k in range(50)]
    found = {name: measure_drive(FakeDrive(drive), "mine", walk) for name, drive in drives.items()}
    return tuple(base_of(name, each.log.text().encode(), is_text=True) for name, each in found.items())


def run(path: Path, base: Base) -> int:
    """Fit a profile to a log."""
    from layoutscope.api.measure import fit_log
    from layoutscope.errors import UsageError

    try:
        fit_log(path, "mine")
    except UsageError:
        return 0 if path.read_bytes() == base.whole() else 1
    return 0
