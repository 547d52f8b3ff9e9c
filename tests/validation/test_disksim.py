"""The drive model against a published simulator, DiskSim 4.0 (think time 100 us, where its results have no ties)."""

from __future__ import annotations

import pytest

from layoutscope.drive import load_profile, service
from tests.validation.disksim import CHEETAHS, CLOSE, HITS, SPLIT, Witness
from tests.validation.reference import load, rounded
from tests.validation.witnesses import agreement_rows

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def witness(shared):
    """Return DiskSim's results; skips where they are absent."""
    return Witness(shared)


@pytest.fixture(scope="module")
def rows(witness):
    """Run everything that DiskSim ran."""
    return witness.every_row()


def test_every_workload_on_the_cheetahs(rows):
    """Service time within 0.2 %, seek, rotation, transfer within 2 % or 0.02 ms, hits within a point.

    So are they on the Atlas with its buffer off, a drive that begins anywhere in a request, with heads of different
    density. Median, 90th and 99th percentile and maximum are within 0.5 % where no results have ties.
    """
    chosen = [row for row in rows if row.setting != "bus" and (row.drive in CHEETAHS or row.setting == "off")]
    assert len(chosen) >= 2 * 3 * 2 * 20
    for row in chosen:
        where = row.drive, row.setting, row.workload
        assert row.ratio == pytest.approx(1, abs=CLOSE), where
        for key in SPLIT:
            assert row.ours[key] == pytest.approx(row.theirs[key], rel=0.02, abs=0.02), (where, key)
        if row.drive not in CHEETAHS:
            continue
        for key in (*HITS, "miss"):
            assert row.ours[key] == pytest.approx(row.theirs[key], abs=0.01), (where, key)
        assert row.ours["arm_moved"] == pytest.approx(row.theirs["arm_moved"], abs=0.002), where
        assert row.ours["total_s"] == pytest.approx(row.theirs["total_s"], rel=CLOSE), where
        if row.theirs["think_us"] and row.setting in ("off", "join"):
            for key in ("median_ms", "p90_ms", "p99_ms", "max_ms"):
                assert row.ours[key] == pytest.approx(row.theirs[key], rel=0.005), (where, key)


def test_how_many_runs_agree(witness, rows):
    """Of DiskSim's 398 runs 378 agree within 0.2 %; the others involve the bus or the Atlas's look-ahead.

    That look-ahead overruns its own segment of 64 KiB, and the bus of the 9LP is ten times slower than its medium. Both
    rules are DiskSim's and are not modelled.
    """
    agreed = agreement_rows(rows)
    assert [rounded(row) for row in agreed] == load("witnesses")["agreement"]
    assert sum(row["runs"] for row in agreed) == len(witness.results) == 398
    assert {
        f"{row['drive']}, {row['setting']}": (row["runs"] - row["close"], f"{row['largest']:.2%}") for row in agreed
    } == {
        "cheetah15k5, off": (0, "0.01%"),
        "cheetah15k5, own": (0, "0.16%"),
        "cheetah15k5, join": (0, "0.16%"),
        "cheetah9lp, off": (0, "0.01%"),
        "cheetah9lp, own": (0, "0.01%"),
        "cheetah9lp, join": (0, "0.01%"),
        "cheetah9lp, bus": (5, "1.51%"),
        "atlas10k5, off": (0, "0.11%"),
        "atlas10k5, own": (8, "44.67%"),
        "atlas10k5, bus": (7, "34.43%"),
    }


def test_the_run_that_is_farthest_off_waits_two_turns_less(rows):
    """On the Cheetah 15K.5 (3.995 ms per revolution): 8.1 ms of 5.2 s, in a workload of 4,534 reads."""
    wanted = ("cheetah15k5", "join", "hfsplus-20000-c20-stat", 100)
    (row,) = (each for each in rows if (each.drive, each.setting, each.workload, each.theirs["think_us"]) == wanted)
    turns = (row.theirs["service_s"] - row.ours["service_s"]) / (60 / 15_020)
    assert turns == pytest.approx(2, abs=0.05)


def test_a_slow_bus(rows):
    """With the old drive's host adapter, ten times slower than the medium: within 2 %, directory workloads 0.2 %."""
    chosen = [row for row in rows if (row.drive, row.setting) == ("cheetah9lp", "bus") and row.theirs["think_us"]]
    assert chosen
    for row in chosen:
        assert row.ratio == pytest.approx(1, abs=0.002 if row.is_walk else 0.02), row.workload


def test_the_map_is_the_one_that_was_published(witness):
    """The sector maps in the package equal those next to DiskSim's results."""
    for drive in (*CHEETAHS, "atlas10k5"):
        ours = (load_profile(drive).folder / f"{drive}.map.zst").read_bytes()
        assert ours == (witness.images / "disksim" / f"{drive}.map.zst").read_bytes()


@pytest.mark.parametrize("drive", [*CHEETAHS, "atlas10k5"])
def test_the_published_figures_are_taken_as_they_are(witness, drive):
    """The file next to DiskSim's results is a profile, and gives the times of ours."""
    reads = witness.trace(drive, "hfsplus-20000-c20-stat")
    published = load_profile(witness.images / "disksim" / f"{drive}.toml")
    ours = service(reads, load_profile(drive))
    assert published.geometry == "map"
    assert service(reads, published).service_s == pytest.approx(ours.service_s, rel=1e-6)
