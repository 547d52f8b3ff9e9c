"""Simulated time and range of a drive, and samples of long traces."""

from __future__ import annotations

import numpy as np
import pytest

from layoutscope import read_layouts
from layoutscope.drive import load_profile, service, simulate
from layoutscope.drive.simulation import SAMPLE_READS, STRETCHES, WARM_UP, Part, draw_seconds, evenly_spaced, serve_draw
from layoutscope.drive.uncertain import UNSAID, Host, interval_of, median_draw, quantiles, uncertain
from layoutscope.walk import trace as walked
from tests.unit.drive.test_draws import MAC, NAMES, known, scattered
from tests.unit.drive.toys import disk, trace

AGED = (
    "hfsplus-20000-c20",
    "apfs-20000-c20",
    "hfsplus-200000-c20",
    pytest.param("apfs-200000-c20", marks=pytest.mark.slow),
)
DRIVES = ("generic-5400-2.5", "generic-7200", "wd-mybook-duo-2tb")
NEAR = 0.08
"""How far inside the full range an end may be if a sample is served; docs/intervals.md has the measurements."""


def in_sequence(reads):
    """Return reads of 8 KiB one after another."""
    made = trace(0)
    return type(made).from_reads(np.arange(reads) * 8192, np.full(reads, 8192), think_us=100.0)


def in_two_parts(reads):
    """Return reads that are sequential in their first half and random in the second."""
    rng = np.random.default_rng(5)
    half = reads // 2
    offset = np.concatenate([np.arange(half) * 4096, rng.integers(0, 1 << 20, reads - half) * 4096])
    made = trace(0)
    return type(made).from_reads(offset, np.full(reads, 4096), think_us=50.0)


def whole(reads, profile, host):
    """Serve all reads in every draw, whatever their number."""
    unknown = uncertain(profile, host)
    return np.array([serve_draw(Part(reads, profile), unknown, number, {}).seconds for number in range(64)])


@pytest.mark.parametrize("reads", [1000, SAMPLE_READS + 5000])
@pytest.mark.parametrize("name", NAMES)
def test_the_time_is_the_median_of_the_simulations(name, reads):
    """It is one of the draws, half take less and half more; its causes and the times of its reads add up to it."""
    served, profile = scattered(reads), load_profile(name)
    found = simulate(served, profile, MAC)
    draws = np.array(found.draws_s)
    assert found.seconds == draws[median_draw(draws)]
    assert (draws < found.seconds).sum() == 31
    assert sum(found.causes_s.values()) == pytest.approx(found.seconds)
    assert found.reads_ms.service_ms.sum() / 1000 == pytest.approx(found.service_s)
    assert found.host_s == pytest.approx(served.host_us / 1e6 * found.host_factor)
    assert found.seconds_low <= quantiles(draws)[0] <= found.seconds <= quantiles(draws)[-1] <= found.seconds_high
    assert found.nominal_s == service(served, profile).seconds


def test_simulations_are_repeatable_and_draw_no_known_figure():
    """Nothing known is drawn, and answers repeat."""
    # If all figures are measured, little is drawn; the host of a recording takes the recorded time.
    reads = scattered(300, span=disk().capacity_bytes)
    loose, tight = (simulate(reads, drive, UNSAID) for drive in (disk(), known(disk())))
    assert tight.seconds_high / tight.seconds_low < loose.seconds_high / loose.seconds_low
    assert tight.host_factor == loose.host_factor == 1
    assert simulate(reads, disk(), MAC).host_factor != 1
    # The result does not depend on the time or on earlier calls.
    reads = scattered(500)
    one, other = (simulate(reads, "generic-7200", MAC) for _ in range(2))
    assert one.draws_s == other.draws_s
    # A time between two draws would have no causes.
    assert median_draw(np.array([4.0, 1.0, 3.0, 2.0])) == 3
    assert median_draw(np.array([4.0, 1.0, 3.0])) == 2
    assert interval_of(np.array([4.0, 1.0, 3.0, 2.0]), {}).median_s == 2


@pytest.mark.full
@pytest.mark.parametrize("image", AGED)
def test_samples_of_aged_volumes_tell_their_ranges(reference_image, image):
    """For aged volumes, each end is at most a few per cent inside that of all reads, and the middle is near its own."""
    *_, layout = read_layouts(reference_image(f"aged/{image}.img"))
    for host in ("macos", "linux"):
        reads, said = walked(layout, host=host), Host(host)
        for profile in map(load_profile, DRIVES):
            found, all_s = simulate(reads, profile, said), whole(reads, profile, said)
            full = interval_of(all_s, {})
            assert found.seconds_low <= full.low_s * (1 + NEAR), profile.name
            assert found.seconds_high >= full.high_s * (1 - NEAR), profile.name
            assert full.quarter_s * (1 - NEAR) <= found.seconds <= full.three_quarters_s * (1 + NEAR), profile.name


def test_what_stretches_do_not_tell_makes_the_interval_wider():
    """Uniform reads have the range of the whole trace; if halves differ, the range is wider than that of the draws."""
    profile = load_profile("generic-7200")
    wider = []
    for reads in (scattered(4 * SAMPLE_READS), in_two_parts(4 * SAMPLE_READS)):
        found, full = simulate(reads, profile, MAC), interval_of(whole(reads, profile, MAC), {})
        assert found.seconds_low <= full.low_s * 1.02
        assert found.seconds_high >= full.high_s * 0.98
        wider.append(found.seconds_high / found.seconds_low / full.ratio)
    assert 1 <= wider[0] < 1.15
    assert wider[1] > wider[0]


def test_long_traces_are_sampled_and_short_ones_served_whole():
    """Short traces are served whole, long ones in stretches."""
    # A trace no longer than a sample is served whole, without estimates.
    reads, profile = in_sequence(1000), load_profile("generic-7200")
    assert draw_seconds(Part(reads, profile), uncertain(profile, MAC)).seconds == pytest.approx(
        whole(reads, profile, MAC)
    )
    # Four stretches of equal length cover start and end, and most reads of each count.
    reads = in_sequence(5 * SAMPLE_READS)
    part = reads[evenly_spaced(len(reads), SAMPLE_READS, STRETCHES)]
    assert len(part) == SAMPLE_READS
    assert part.image_offset[0] == reads.image_offset[0]
    assert part.image_offset[-1] == reads.image_offset[-1]
    assert WARM_UP * STRETCHES < SAMPLE_READS / 4
