"""Results: sums, ranges, shares, queues; and a drive that was measured."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from layoutscope.access.trace import AccessTrace
from layoutscope.drive import load_profile, service
from layoutscope.drive.hdd import TURN
from layoutscope.drive.simulation import place_reads, serve, service_percentiles, slowest_parts
from layoutscope.drive.uncertain import model_error
from layoutscope.errors import UsageError
from tests.unit.drive.toys import disk, drive_set, flash, trace

RANDOM = tuple(np.random.default_rng(1).integers(0, 99_000, 300))


def test_causes_add_up():
    """Seek, rotation, transfer and overhead add up to the service time, and with the host's share to all seconds."""
    result = service(trace(*RANDOM, think_ms=1.5), disk())
    assert sum(result.causes_s.values()) == pytest.approx(result.seconds)
    assert result.host_s == pytest.approx(299 * 0.0015)
    assert result.service_s == pytest.approx(result.reads_ms.service_ms.sum() / 1000)
    assert result.whole_hit + result.part_hit + result.miss == pytest.approx(1)
    # From sector 8 to 1000 and from 1008 back to 500: 992 + 508 sectors; cylinders 10 and 5 are 15 of 1000 strokes.
    result = service(trace(0, 1000, 500), disk().with_cache("off"))
    assert result.head_travel_bytes == (992 + 508) * 512
    assert result.head_travel_strokes * 1000 == pytest.approx(15, rel=0.01)
    assert result.seeks == 2
    # There are no reads and no waits.
    result = service(trace(), disk())
    assert (result.seconds, result.reads, result.miss) == (0.0, 0, 0.0)


def test_a_summary_has_percentiles_and_the_model_error():
    """Its keys are those of a simulator's table."""
    # Keys that mean the same as a column of a simulator's table have that column's name.
    summary = service(trace(0, 50_000), disk().with_cache("off")).summary()
    assert list(summary) == [
        "n", "total_s", "service_s", "mean_ms", "median_ms", "p90_ms", "p99_ms", "max_ms", "seek_ms", "latency_ms",
        "xfer_ms", "rest_ms", "whole_hit", "part_hit", "miss", "arm_moved",
    ]  # fmt: skip
    # As in test_closed_forms: 10.8 and 10.0 ms, 9.5 and 2.71 ms of rotation, 0.5 ms of overhead each.
    assert summary["mean_ms"] == pytest.approx(10.4, abs=1e-3)
    assert summary["latency_ms"] == pytest.approx((9.5 + 2.71) / 2, abs=1e-3)
    assert summary["rest_ms"] == pytest.approx(0.5, abs=1e-3)
    assert summary["arm_moved"] == 0.5
    # For 1 to 200, the median is 100.5, nine tenths are below 181, 99 % below 199.
    found = service_percentiles(np.arange(1.0, 201.0))
    assert found == {"median_ms": 100.5, "p90_ms": 181.0, "p99_ms": 199.0, "max_ms": 200.0}
    # The note has the factor for drives with known zones; less knowledge gives a larger one, flash gives no note.
    result = service(trace(*RANDOM), disk())
    assert f"{model_error('zones'):.3g}" in result.knowledge
    assert 1 < model_error("map") < model_error("zones")
    assert "simulator" not in service(trace(0, 8), flash()).knowledge
    # Three pieces belong to one read and one to another; no pieces give no result.
    nothing = np.empty(0, np.int64)
    assert slowest_parts(nothing.astype(float), nothing).tolist() == []
    assert slowest_parts(np.array([1.0, 3.0, 2.0, 5.0]), np.array([0, 0, 0, 1])).tolist() == [1, 3]


def test_a_drive_picks_from_its_queue():
    """Each read is served once. Sets have no queue."""
    # For reads far, near, far, near, a drive with a window of four serves those of each side together.
    reads = trace(0, 90_000, 100, 90_100, 200, 90_200)
    one = service(reads, disk(queue_window=4).with_cache("off"), queue_depth=1)
    four = service(reads, disk(queue_window=4).with_cache("off"), queue_depth=32)
    assert one.head_travel_strokes > 4
    assert four.head_travel_strokes < 2
    assert four.service_s < one.service_s
    # The times of the queued reads add up to the time from start to end.
    result = service(trace(*RANDOM), disk(queue_window=8), queue_depth=8)
    assert (result.reads_ms.service_ms > 0).all()
    alone = service(trace(*RANDOM), disk(queue_window=1), queue_depth=8)
    assert alone.service_s == pytest.approx(service(trace(*RANDOM), disk()).service_s)
    # The error says that a queue in front of several disks is not modelled.
    with pytest.raises(UsageError, match="queue"):
        service(trace(0), drive_set("stripe", disk(), disk(), chunk_bytes=4096), queue_depth=2)
    # Four reads in parallel take a quarter of the time.
    assert service(trace(*range(0, 800, 8)), flash(bandwidth_mb_s=1000), queue_depth=4).service_s == pytest.approx(
        0.1 * 100 / 4 / 1000
    )


@pytest.fixture(scope="module")
def random_reads():
    """Return 20,000 reads of 4 KiB over the whole measured drive."""
    places = load_profile("st2000dm006").capacity_bytes // 4096
    offsets = np.random.default_rng(1).integers(0, places, 20_000) * 4096
    return AccessTrace.from_reads(offsets, np.full(20_000, 4096))


class TestMeasuredDrive:
    """Seagate ST2000DM006: fitted to one measured figure, compared with two others."""

    def test_random_median_as_fitted(self, random_reads):
        """The median of single random reads is within the measured 17.2 to 17.8 ms."""
        result = service(random_reads, load_profile("st2000dm006"))
        assert 17.2 <= result.summary()["median_ms"] <= 17.8

    def test_random_rate_with_a_queue(self, random_reads):
        """At queue depth 32, 94 requests per second were measured; the model, not fitted to this, is within 15 %."""
        result = service(random_reads, load_profile("st2000dm006"), queue_depth=32)
        assert 20_000 / result.service_s == pytest.approx(94, rel=0.15)

    def test_sequential_rate(self):
        """Sequential reads at the start were measured at 143 MB/s; the model is within 5 %."""
        reads = AccessTrace.from_reads(np.arange(8192) * 131_072, np.full(8192, 131_072))
        result = service(reads, load_profile("st2000dm006"))
        assert 8192 * 131_072 / result.service_s / 1e6 == pytest.approx(143, rel=0.05)


def test_raw_reads_of_a_measured_nvme():
    """The 2017 Apple drive reads 4 KiB pieces at 66.7 MB/s and 1 MiB ones at 1,349, as dd did, except the first."""
    profile = load_profile("apple-ap0256j-2017")
    for size, rate in ((4096, 66.7), (1 << 20, 1349)):
        reads = AccessTrace.from_reads(np.arange(1000) * size, np.full(1000, size))
        assert 1000 * size / service(reads, profile).service_s / 1e6 == pytest.approx(rate, rel=0.003)


@pytest.mark.parametrize("devices", [[7, 7, 7], [0, 7, 0]], ids=["all", "one"])
def test_reads_on_a_device_that_a_set_lacks_are_told_as_such(devices):
    """Either all reads are on that device or one among others; reads on the first device are served."""
    profile = drive_set("fusion", flash(), disk())
    reads = trace(0, 100, 200)
    assert len(service(reads, profile).reads_ms.service_ms) == 3
    with pytest.raises(UsageError, match="on a device that the drive set lacks"):
        service(replace(reads, device=np.array(devices, reads.device.dtype)), profile)


@pytest.mark.parametrize("name", ["generic-5400-2.5", "generic-7200", "st2000dm006", "cheetah15k5"])
def test_reads_on_a_part_that_others_laid_out_take_as_long_as_on_their_own(name):
    """Arm positions and buffer contents do not depend on what surrounds the reads."""
    rng, profile, known = np.random.default_rng(5), load_profile(name), []
    place_reads(AccessTrace.from_reads(np.array([10**9, 9 * 10**9]), np.array([4096, 4096])), profile, laid_out=known)
    for _ in range(20):
        low, high = np.sort(rng.integers(2 * 10**5, 2 * 10**6, 2)) * 4096
        reads = AccessTrace.from_reads(rng.integers(low, high + 1, 50) // 4096 * 4096, np.full(50, 16384))
        angle = int(rng.integers(TURN))
        own, shared = (serve(place_reads(reads, profile, laid_out=part), angle) for part in (None, known))
        assert own.service_ms.tolist() == shared.service_ms.tolist()
        assert own.cylinders.tolist() == shared.cylinders.tolist()
    # The map of a whole disk is too large to keep.
    assert len(known) == (profile.geometry != "map")
