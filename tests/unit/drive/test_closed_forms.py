"""Service times with closed-form values, on a disk with round numbers (see toys.py)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutscope.access.trace import AccessTrace
from layoutscope.drive import load_profile, service
from layoutscope.drive.seeks import seek_curve
from tests.unit.drive.lesser import mean_seek_ms
from tests.unit.drive.toys import SECTOR, TRACK, disk, trace


def times(profile, reads, **options):
    """Return service, seek, rotation and transfer of each read, in milliseconds."""
    result = service(reads, profile, **options)
    each = result.reads_ms
    return np.stack([each.service_ms, each.seek_ms, each.rotation_ms, each.transfer_ms], axis=1)


def test_one_seek():
    """A read 500 cylinders away costs overhead, seek, the wait for its sector, and its sectors."""
    # First read: 0.5 ms overhead, no seek, sector 0 comes again at 10 ms, 8 sectors: done at 10.8.
    # Second: track 500 begins at angle 100.0, so at 0. 10.8 + 0.5 + (1 + 4.99) = 17.29; sector 0 comes at 20.
    found = times(disk().with_cache("off"), trace(0, 50_000))
    assert found[0] == pytest.approx([10.8, 0, 9.5, 0.8], abs=1e-3)
    assert found[1] == pytest.approx([0.5 + 5.99 + 2.71 + 0.8, 5.99, 2.71, 0.8], abs=1e-3)
    # The longest seek takes the last time of the table.
    found = times(disk().with_cache("off"), trace(0, 99_900))
    assert found[1, 1] == pytest.approx(10.98, abs=1e-3)


@pytest.mark.parametrize("count", [8, 128])
def test_sequential_reads_stream_at_the_zones_rate(count):
    """Sequential reads take a turn plus the skew per track, whatever the read size."""
    reads = trace(*range(0, 12_800, count), count=count)
    result = service(reads, disk())
    tracks = 12_800 / 100
    assert result.service_s == pytest.approx(tracks * 0.012 + 0.010, rel=0.005)
    assert result.part_hit > 0.98


def test_sequential_reads_without_buffer_lose_a_turn_each():
    """Without look-ahead a turn each; whole tracks take one turn."""
    # Without look-ahead, the next sector has just passed when the next read starts.
    result = service(trace(*range(0, 80, 8)), disk().with_cache("off"))
    # Overhead 0.5 ms after the end: the next sector is 9.5 ms away.
    assert result.reads_ms.rotation_ms[1:] == pytest.approx(9.5, abs=1e-3)
    # A whole track takes one turn from any angle, to within a sector.
    found = times(disk(start_anywhere=1, read_miss_ms=0.523).with_cache("off"), trace(0, 300, count=100))
    assert found[1, 2] < 0.1
    assert found[1, 3] == pytest.approx(10.0, abs=1e-3)
    # Sequential reads are slower where tracks hold fewer sectors.
    zoned = disk(zones=[[0, 0, 100], [50_000, 500, 50]], capacity_bytes=75_000 * SECTOR)
    reads = trace(*range(0, 8000, 8))
    outer = service(reads, zoned)
    inner = service(reads, zoned, start_offset_bytes=500 * TRACK)
    assert inner.service_s == pytest.approx(2 * outer.service_s, rel=0.02)


def test_uniform_random_reads_average_seek_and_half_a_turn():
    """Mean seek + half a turn + transfer + overhead, within 2 %."""
    sectors = np.random.default_rng(3).integers(0, 12_499, 30_000) * 8
    result = service(trace(*sectors), disk().with_cache("off"))
    # The mean distance of two of 1000 cylinders is 333.3; equal cylinders (1 in 1000) cost no seek.
    seek = 0.999 * (1 + 0.01 * (333.3 / 0.999 - 1))
    # Multiples of 8 have 25 places in a track of 100; one, 96, straddles two tracks, which are 2 ms of skew apart.
    crossing = 2 / 25
    assert result.service_s / len(sectors) * 1000 == pytest.approx(seek + 5 + 0.8 + 0.5 + crossing, rel=0.02)
    assert result.summary()["seek_ms"] == pytest.approx(seek, rel=0.02)
    assert result.summary()["latency_ms"] == pytest.approx(5, rel=0.02)


@pytest.mark.parametrize("name", ["generic-5400-3.5", "generic-7200", "st2000dm006"])
def test_generic_drives_average_what_their_datasheet_says(name):
    """Random reads in one zone average the seek of their distances, half a turn, transfer and overhead within 2 %."""
    profile = load_profile(name)
    span = 20 << 30
    offsets = np.random.default_rng(5).integers(0, span // 4096, 20_000) * 4096
    result = service(AccessTrace.from_reads(offsets, np.full(20_000, 4096)), profile.with_cache("off"))
    turn = 60_000 / profile.number("rpm")
    transfer = 4096 / profile.number("outer_mb_s") / 1000
    overhead = profile.number("read_miss_ms")
    # Distances in cylinders follow from the number of tracks between: bytes / (rate x turn) / heads.
    tracks = span / (profile.number("outer_mb_s") * 1000 * turn) / profile.number("heads")
    curve = seek_curve(profile, 400_000)
    assert mean_seek_ms(curve[: int(tracks)]) < profile.number("average_seek_ms")
    seek = result.summary()["seek_ms"]
    assert result.service_s / 20.0 == pytest.approx(seek + turn / 2 + transfer + overhead, rel=0.02)


@pytest.mark.parametrize("think_ms", [0.0, 1.0, 2.5, 6.0])
@pytest.mark.parametrize("gap", [0, 1, 20, 40])
def test_a_forward_skip_within_the_look_ahead_waits_for_the_media(gap, think_ms):
    """It costs max(0, (gap + length) / media rate - time since the last read), never a turn."""
    found = times(disk(), trace(0, 8 + gap, think_ms=think_ms))
    assert found[1, 0] == pytest.approx(max(0.0, (gap + 8) * 0.1 - think_ms), abs=1e-3)


def test_what_the_buffer_serves():
    """Hits cost their overhead and the interface, other reads the medium."""
    # A gap longer than a turn, or than the look-ahead, is read from the medium.
    found = service(trace(0, 8 + 60), disk())
    assert found.reads_ms.outcome.tolist() == [0, 0]
    # A read that the buffer holds costs the hit overhead.
    found = times(disk(read_hit_ms=0.3), trace(0, 0))
    assert found[1] == pytest.approx([0.3, 0, 0, 0], abs=1e-6)
    # Eight sectors at 4.096 MB/s take a millisecond.
    found = times(disk(interface_mb_s=4.096), trace(0, 0))
    assert found[1, 0] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(("on_arrival", "sector", "taken"), [("none", 10, 8.0), ("track", 10, 0.3), ("track", 0, 7.0)])
def test_what_passes_under_the_head_before_a_wanted_sector(on_arrival, sector, taken):
    """The head arrives after 0.5 ms at sector 5 and passes 5 to 29 before it reads 30 to 37, which ends at 3.8 ms.

    Of what it passed, a read takes 0.3 ms if it was kept. If not, sector 10 comes again at 11 ms. Sector 0 had passed
    before the head was there, and comes again at 10 ms. Eight sectors take 0.8 ms.
    """
    found = times(disk(on_arrival=on_arrival, read_hit_ms=0.3), trace(30, sector))
    assert found[1, 0] == pytest.approx(taken, abs=1e-3)


@settings(max_examples=20)
@given(seed=st.integers(0, 1000))
def test_faster_drives_and_larger_buffers(seed):
    """Neither makes random or repeated reads slower."""
    # The total time of random reads decreases at a higher rotation speed and with shorter seeks.
    sectors = np.random.default_rng(seed).integers(0, 99_000, 400)
    slow = service(trace(*sectors), disk().with_cache("off"))
    turning = service(trace(*sectors), disk(rpm=12_000).with_cache("off"))
    assert turning.rotation_s < slow.rotation_s
    assert turning.transfer_s < slow.transfer_s
    sectors = np.random.default_rng(seed).integers(0, 12, 300) * 1000
    hits = [service(trace(*sectors), disk(segments=n)).whole_hit for n in (1, 4, 16)]
    assert hits == sorted(hits)
    assert hits[2] > 0.9
