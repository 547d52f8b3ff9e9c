"""Three drives of a published simulator, measured as if they were devices, and recorded workloads on the result."""

from __future__ import annotations

import pytest

from layoutscope.drive import load_profile, service
from layoutscope.drive.calibration.fitting import LONGEST_S
from tests.validation import reference
from tests.validation.calibration import (
    BEFORE,
    CURVE_LATE,
    CURVE_MUST,
    DISKSIM,
    DRIVES,
    JITTERS_MS,
    KEEPING,
    WALK_MUST,
    WALKS,
    judge,
)
from tests.validation.disksim import Witness

pytestmark = pytest.mark.full

SAVED = reference.load("calibration")
UNSTABLE = "apfs-20000-c20-stat"
LARGE_APFS = [walk for walk in WALKS if walk.startswith("apfs-200000")]


def test_what_is_saved_is_as_close_as_the_page_says():
    """Every drive with each clock and over all workloads, within a minute.

    APFS with 200,000 files, which moves the arm, is within 2 %; the curves are within 3 %, but a clock that is late by
    20 us adds that to the shortest seeks. With an exact clock every workload on drives of data sheets is within 1 %;
    the worst were off by 4 to 57 % (`BEFORE`).
    """
    keys = [(row["drive"], row["jitter_us"]) for row in SAVED]
    assert keys == [(drive, round(jitter * 1000)) for jitter in JITTERS_MS for drive in DRIVES]
    for row in SAVED:
        assert set(row["walks"]) == set(WALKS)
        assert max(abs(row["walks"][walk]) for walk in LARGE_APFS) < WALK_MUST, row["drive"]
        assert row["known"] < 0.05
        assert row["seconds"] < LONGEST_S
        assert row["curve"] < (CURVE_LATE if row["jitter_us"] else CURVE_MUST), row["drive"]
        if row["drive"] in BEFORE and not row["jitter_us"]:
            for system, before in zip(("apfs", "hfsplus"), BEFORE[row["drive"]], strict=True):
                worst = max(abs(row["walks"][walk]) for walk in WALKS if walk.startswith(system))
                assert worst < min(0.01, before)


def test_why_one_walk_is_far_off(shared):
    """The workload of a volume that just fits the buffer: a track-to-track seek shorter by 1 % saves 43 %.

    On a drive that does not buffer its track on arrival, or with ten times as many files, the effect is negligible.
    """
    (worst,) = (row for row in SAVED if row["walks"][UNSTABLE] < -0.2)
    assert (worst["drive"], worst["jitter_us"]) == (KEEPING, 20)
    witness, drive = Witness(shared), load_profile("generic-7200")
    for walk, on_arrival, change in (
        (UNSTABLE, "track", -0.432),
        (UNSTABLE, "none", 0.001),
        (LARGE_APFS[0], "track", 0.009),
        (LARGE_APFS[1], "track", 0.001),
    ):
        reads = witness.trace("generic-7200", walk)
        given = drive.with_figures(on_arrival=on_arrival)
        shorter = given.with_figures(track_to_track_ms=0.99 * drive.number("track_to_track_ms"))
        before, after = (service(reads, each).service_s for each in (given, shorter))
        assert after / before - 1 == pytest.approx(change, abs=5e-4), (walk, on_arrival)


@pytest.mark.images
@pytest.mark.parametrize("name", [DISKSIM[0], *(pytest.param(name, marks=pytest.mark.slow) for name in DISKSIM[1:])])
def test_what_is_saved_comes_out_again(name, shared):
    """A new measurement gives the curve and workload errors in the docs; reads are drawn with a fixed seed."""
    again = judge(Witness(shared), name, 0.0)
    (row,) = (row for row in SAVED if (row["drive"], row["jitter_us"]) == (name, 0))
    assert again["walks"] == pytest.approx(row["walks"], abs=0.005)
    assert again["curve"] == pytest.approx(row["curve"], abs=0.005)
    assert again["reads"] == row["reads"]
