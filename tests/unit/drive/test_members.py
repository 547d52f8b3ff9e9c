"""Stripes, concatenations, Fusion sets, flash."""

from __future__ import annotations

import numpy as np
import pytest

from layoutscope.access.trace import AccessTrace
from layoutscope.drive import load_profile, service
from layoutscope.drive.geometry import split
from layoutscope.drive.simulation import flash_ms
from layoutscope.errors import UsageError
from tests.unit.drive.toys import TRACK, disk, drive_set, flash, trace

KIB = 1024


def parts(profile, *reads):
    """Return (read, member, offset, length) of the pieces of some reads."""
    offset, length = (np.array(column, np.int64) for column in zip(*reads, strict=True))
    found = split(profile, offset, length, np.zeros(len(offset), np.uint8))
    return list(zip(*(column.tolist() for column in found), strict=True))


def test_stripes_deal_chunks_and_concatenations_continue():
    # Chunk 2 of two drives is the second chunk of drive 0; a read across a chunk boundary has two pieces.
    stripe = drive_set("stripe", flash(), flash(), chunk_bytes=64 * KIB)
    assert parts(stripe, (0, 4096), (64 * KIB, 4096), (128 * KIB, 4096), (62 * KIB, 4096)) == [
        (0, 0, 0, 4096),
        (1, 1, 0, 4096),
        (2, 0, 64 * KIB, 4096),
        (3, 0, 62 * KIB, 2048),
        (3, 1, 0, 2048),
    ]
    # 128 KiB over eight drives in chunks of 16 KiB takes as long as 16 KiB on one.
    stripe = drive_set("stripe", *[flash()] * 8, chunk_bytes=16 * KIB)
    reads = AccessTrace.from_reads(np.array([0]), np.array([128 * KIB]))
    one = service(AccessTrace.from_reads(np.array([0]), np.array([16 * KIB])), flash())
    assert service(reads, stripe).service_s == pytest.approx(one.service_s)
    # A read across the end of the first drive continues at the start of the second.
    both = drive_set("concat", flash(capacity_bytes=1 << 20), flash())
    assert parts(both, ((1 << 20) - 2048, 4096), (3 << 20, 512)) == [
        (0, 0, (1 << 20) - 2048, 2048),
        (0, 1, 0, 2048),
        (1, 1, 2 << 20, 512),
    ]


def test_a_fusion_set_follows_the_device_of_each_read():
    """Reads of device 0 go to the flash, reads of device 1 to the disk."""
    fusion = drive_set("fusion", flash(), disk())
    reads = trace(0, 50_000)
    reads.device[:] = [0, 1]
    result = service(reads, fusion.with_cache("off"))
    assert result.reads_ms.service_ms[0] == pytest.approx(0.1, abs=1e-3)
    # The disk starts at angle 0.01 (0.1 ms of 10): 0.6 ms with overhead, 5.99 ms of seek, sector 0 comes at 10 ms.
    assert result.reads_ms.service_ms[1] == pytest.approx(10 - 0.1 + 0.8, abs=1e-2)


def test_each_disk_of_a_set_has_an_arm():
    """Reads that alternate between two disks seek once."""
    # Reads that alternate between two distant places seek each time on one disk, but never on two.
    reads = trace(*[0, 100 * 100 + 50_00] * 20)
    assert service(reads, disk().with_cache("off")).seeks == 39
    reads.device[1::2] = 1
    assert service(reads, disk().with_cache("off")).seeks == 1
    # Two disks have two arms: reads that alternate between distant places on each disk seek only once.
    stripe = drive_set("stripe", disk(), disk(), chunk_bytes=100 * TRACK)
    reads = trace(*[0, 100 * 100 + 50_00] * 20)
    assert service(reads, stripe.with_cache("off")).seeks == 1
    assert service(reads, disk().with_cache("off")).seeks == 39
    # Two kinds of disk in one set are refused.
    with pytest.raises(UsageError, match="one kind"):
        service(trace(0), drive_set("stripe", disk(), disk(rpm=7200), chunk_bytes=4096))


def test_two_kinds_of_drives_serve_a_fusion_set(tmp_path):
    """Three reads of 100 us are on the main device, one of 400 us is on the second; then the devices are swapped."""
    for name, latency in (("quick", 100), ("slow", 400)):
        text = f"""
            kind = "ssd"
            [sources]
            made = "made up"
            [figures]
            capacity_bytes = {{ value = 1000000, kind = "assumed", source = "made" }}
            latency_bytes = {{ value = [4096], kind = "assumed", source = "made" }}
            latency_us = {{ value = [{latency}], kind = "assumed", source = "made" }}
            bandwidth_mb_s = {{ value = 100, kind = "assumed", source = "made" }}
            parallel_reads = {{ value = 1, kind = "assumed", source = "made" }}
        """
        (tmp_path / f"{name}.toml").write_text(text)
    both = load_profile(f"main={tmp_path}/quick.toml,second={tmp_path}/slow.toml")
    turned = load_profile(f"second={tmp_path}/quick.toml,main={tmp_path}/slow.toml")
    reads = trace(0, 8, 16, 0)
    reads.device[3] = 1
    assert [member.name for member in both.members] == ["quick", "slow"]
    assert service(reads, both).service_s == pytest.approx((3 * 100 + 400) * 1e-6)
    assert service(reads, turned).service_s == pytest.approx((3 * 400 + 100) * 1e-6)


@pytest.mark.parametrize("name", ["main=sata-ssd", "second=sata-ssd", "main=sata-ssd,second=sata-ssd,third=sata-ssd"])
def test_a_fusion_set_is_named_by_both_drives(name):
    """One drive alone, or a third one, is refused with the correct syntax."""
    with pytest.raises(UsageError, match="main=PROFILE,second=PROFILE"):
        load_profile(name)


@pytest.mark.parametrize("members", [1, 2])
def test_reads_beyond_the_end_are_refused(members):
    """If a trace does not fit its drive, the error states both sizes."""
    drive = disk() if members == 1 else drive_set("stripe", disk(), disk(), chunk_bytes=4096)
    with pytest.raises(UsageError, match="51,200,000" if members == 1 else "102,400,000"):
        service(trace(members * 100_000), drive)


def test_flash_latency_by_size():
    """100 us at 4 KiB, 120 at 8, 110 between; beyond that 100 MB/s: 12,288 bytes are 40.96 us more."""
    found, transfer = flash_ms(flash(), np.array([512, 4096, 6144, 8192, 12288]))
    assert (found * 1000).tolist() == pytest.approx([100, 100, 110, 120, 160.96])
    assert transfer[1] * 1000 == pytest.approx(40.96)
    # The second and fourth of five reads are sequential: 30 us instead of 100.
    drive, reads = flash(sequential_us=[30, 40]), trace(0, 8, 24, 32, 0)
    assert service(reads, drive).service_s == pytest.approx((3 * 100 + 2 * 30) * 1e-6)
    assert service(reads, flash()).service_s == pytest.approx(5 * 100 * 1e-6)
    # Four reads in parallel take a quarter of the time, but never exceed the bandwidth.
    found, _ = flash_ms(flash(), np.array([1024, 8192]), queue_depth=32)
    assert (found * 1000).tolist() == pytest.approx([25, 81.92])
    # No order of addresses gives an SSD a seek.
    result = service(trace(90_000, 0, 50_000), flash())
    assert (result.seeks, result.seek_s, result.rotation_s, result.head_travel_bytes) == (0, 0.0, 0.0, 0)
    assert result.service_s == pytest.approx(0.0003)
