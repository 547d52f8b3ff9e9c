"""The quick interval: of few reads that of the draws, of many no narrower, though a part of them is served."""

from __future__ import annotations

import numpy as np
import pytest

from layoutscope import read_layouts
from layoutscope.drive import load_profile, service
from layoutscope.drive.simulation import (
    QUICK_READS,
    QUICK_STRETCHES,
    WARM_UP,
    draw_interval,
    on_host,
    quick_service,
    take_evenly,
)
from layoutscope.drive.uncertain import Host, interval_of, quantiles, uncertain
from layoutscope.walk import trace as walked
from tests.unit.drive.test_draws import MAC, NAMES, scattered
from tests.unit.drive.toys import trace

AGED = (
    "hfsplus-20000-c20",
    "apfs-20000-c20",
    "hfsplus-200000-c20",
    pytest.param("apfs-200000-c20", marks=pytest.mark.slow),
)
DRIVES = ("generic-5400-2.5", "generic-7200", "wd-mybook-duo-2tb")
NEAR = 0.08
"""How far inside of the draws' an end may lie where a part is served; docs/intervals.md says what was measured."""


def in_sequence(reads):
    """Return reads of 8 KiB one after another."""
    made = trace(0)
    return type(made).from_reads(np.arange(reads) * 8192, np.full(reads, 8192), think_us=100.0)


def in_two_parts(reads):
    """Return reads that follow one another in their first half, and jump about in the second."""
    rng = np.random.default_rng(5)
    half = reads // 2
    offset = np.concatenate([np.arange(half) * 4096, rng.integers(0, 1 << 20, reads - half) * 4096])
    made = trace(0)
    return type(made).from_reads(offset, np.full(reads, 4096), think_us=50.0)


@pytest.mark.parametrize("name", NAMES)
def test_few_reads_are_served_as_for_the_full_interval(name):
    """Both ends are those of the draws to the last digit, where the causes of one run would not tell them."""
    profile, reads = load_profile(name), in_sequence(1000)
    for knows in (True, False):
        full = draw_interval(reads, profile, uncertain(profile, MAC, knows_offset=knows))
        quick = quick_service(reads, profile, MAC, knows_offset=knows)
        held = full.reaching(quick.seconds)
        assert (quick.seconds_low, quick.seconds_high) == pytest.approx((held.low_s, held.high_s), rel=1e-9)


def test_scaled_causes_would_not_tell_it():
    """Of reads in a row a time is no sum of causes: other drives lose turns that the named one does not."""
    profile, reads = load_profile("generic-7200"), in_sequence(1000)
    full = draw_interval(reads, profile, uncertain(profile, MAC))
    scaled = on_host(service(reads, profile), profile, MAC)
    assert max(abs(scaled.seconds_low / full.low_s - 1), abs(scaled.seconds_high / full.high_s - 1)) > 0.1


@pytest.mark.parametrize("image", AGED)
def test_quick_intervals_of_aged_volumes_are_as_wide(reference_image, image):
    """Aged catalogs and trees: never narrower than the draws of all reads, each end at most a few per cent inside."""
    *_, layout = read_layouts(reference_image(f"aged/{image}.img"))
    for host in ("macos", "linux"):
        reads, said = walked(layout, host=host), Host(host)
        for profile in map(load_profile, DRIVES):
            quick = quick_service(reads, profile, said)
            full = draw_interval(reads, profile, uncertain(profile, said)).reaching(quick.seconds)
            assert quick.seconds_high / quick.seconds_low >= full.ratio * (1 - 1e-9), profile.name
            assert quick.seconds_low <= full.low_s * (1 + NEAR)
            assert quick.seconds_high >= full.high_s * (1 - NEAR)


def test_what_stretches_do_not_tell_makes_the_interval_wider():
    """Reads that are alike all along have the interval of the sample; where halves differ it is wider than of draws."""
    profile = load_profile("generic-7200")
    unknown = uncertain(profile, MAC)
    wider = []
    for reads in (scattered(4 * QUICK_READS), in_two_parts(4 * QUICK_READS)):
        quick = quick_service(reads, profile, MAC)
        full = draw_interval(reads, profile, unknown).reaching(quick.seconds)
        assert quick.seconds_low <= full.low_s * 1.02
        assert quick.seconds_high >= full.high_s * 0.98
        wider.append(quick.seconds_high / quick.seconds_low / full.ratio)
    assert 1 <= wider[0] < 1.15
    assert wider[1] > wider[0]


def test_a_sample_has_reads_that_count_from_start_to_end():
    """Four stretches of one length, the first from the start, the last to the end; most of each counts."""
    reads = in_sequence(5 * QUICK_READS)
    part = take_evenly(reads, QUICK_READS, QUICK_STRETCHES)
    assert len(part) == QUICK_READS
    assert part.image_offset[0] == reads.image_offset[0]
    assert part.image_offset[-1] == reads.image_offset[-1]
    assert WARM_UP * QUICK_STRETCHES < QUICK_READS / 4


@pytest.mark.parametrize("count", [1, 2, 5, 64])
def test_quantiles_are_those_of_numpy(count):
    """In straight lines between the draws."""
    seconds = np.random.default_rng(count).uniform(1, 9, count)
    shares = (0, 0.05, 0.25, 0.5, 0.95, 1)
    assert quantiles(seconds, shares) == pytest.approx(np.quantile(seconds, shares))
    assert interval_of(seconds, {}).median_s == pytest.approx(np.median(seconds))
