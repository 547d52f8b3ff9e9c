from __future__ import annotations

import pytest

from tests.unit.partition.builders import Disk, apm, hfs_plus, search

MIB = 1024**2


def disk_with_map(block: int, declared: int | None = None) -> Disk:
    """Return 4 MiB with a map, a driver, and an HFS+ volume of 1 MiB at 1 MiB."""
    disk = Disk(4 * MIB)
    entries = [
        ("Apple", "Apple_partition_map", 1, 3),
        ("Macintosh", "Apple_Driver_ATA", 64, 16),
        ("Tiger", "Apple_HFS", MIB // block, MIB // block),
    ]
    apm(disk, entries, block, declared)
    hfs_plus(disk, MIB, MIB)
    return disk


@pytest.mark.parametrize(
    ("block", "declared"), [(512, None), (2048, None), (1024, None), (512, 2048), (512, 0), (2048, 0), (2048, 512)]
)
def test_maps_of_every_block_size(block, declared):
    """The map is found for any block size, also if block 0 is absent or contradicts it, as on CDs."""
    found = search(disk_with_map(block, declared))
    (volume,) = found.candidates
    assert (volume.kind, volume.image_offset, volume.size_bytes) == ("hfsplus", MIB, MIB)
    assert (volume.stack, volume.name, volume.type_name) == (("APM", "partition 3", "HFS+"), "Tiger", "Apple_HFS")


def test_the_map_is_a_region():
    """Three entries of 2048 bytes from block 1, and the driver descriptor map in block 0."""
    regions = search(disk_with_map(2048)).regions
    assert [(item.type, item.image_offset, item.length_bytes) for item in regions] == [
        ("apm", 0, 512),
        ("apm", 2048, 3 * 2048),
    ]


def test_two_maps_of_different_block_sizes():
    """Hybrid CDs have a map for blocks of 512 bytes and one for 2048; the one that leads to a volume is used."""
    disk = disk_with_map(2048)
    apm(disk, [("Apple", "Apple_partition_map", 1, 2), ("wrong", "Apple_HFS", 1500, 100)], 512, declared=0)
    assert [item.image_offset for item in search(disk).readable] == [MIB]


def test_a_map_that_breaks_off_is_told():
    """A third entry without its signature is a finding at its block; its volume is found by a search."""
    disk = disk_with_map(512)
    disk.put(3 * 512, b"XX")
    found = search(disk)
    assert [(item.code, item.image_offset) for item in found.findings] == [
        ("partition-chain", 3 * 512),
        ("volume-unpartitioned", MIB),
    ]
    assert [item.image_offset for item in found.readable] == [MIB]
    assert [item.number for item in found.partitions] == [1, 2]


@pytest.mark.parametrize("count", [0, 257, 2**32 - 1])
def test_a_senseless_count_is_bounded(count):
    """A map that claims no entries or billions of them gives a finding."""
    disk = disk_with_map(512)
    disk.put(512 + 4, count.to_bytes(4, "big"))
    assert "partition-limit" in [item.code for item in search(disk).findings]


def test_a_partition_outside_the_image():
    """A start past the end is a finding at the entry."""
    disk = Disk(MIB)
    apm(disk, [("Apple", "Apple_partition_map", 1, 2), ("far", "Apple_HFS", 1 << 30, 100)])
    found = search(disk)
    assert [(item.code, item.image_offset) for item in found.findings] == [("partition-outside", 2 * 512)]
    assert found.readable == ()


def test_data_may_begin_behind_the_first_block_of_a_partition():
    """The field pmLgDataStart counts from the partition's first block, and the volume begins there."""
    disk = Disk(4 * MIB)
    apm(disk, [("Apple", "Apple_partition_map", 1, 3), ("late", "Apple_HFS", 1024, 4096)], 512)
    disk.put(2 * 512 + 80, (64).to_bytes(4, "big"))
    hfs_plus(disk, (1024 + 64) * 512, (4096 - 64) * 512)
    (volume,) = search(disk).readable
    assert (volume.image_offset, volume.size_bytes) == ((1024 + 64) * 512, (4096 - 64) * 512)


@pytest.mark.parametrize("skipped", [4096, 2**31, 2**32 - 1])
def test_data_cannot_begin_behind_the_end_of_a_partition(skipped):
    """The partition of 4,096 blocks is read from its first block, and the field is reported."""
    disk = Disk(4 * MIB)
    apm(disk, [("Apple", "Apple_partition_map", 1, 3), ("odd", "Apple_HFS", 1024, 4096)], 512)
    disk.put(2 * 512 + 80, skipped.to_bytes(4, "big"))
    hfs_plus(disk, 1024 * 512, 4096 * 512)
    found = search(disk)
    (volume,) = found.readable
    assert (volume.image_offset, volume.size_bytes) == (1024 * 512, 4096 * 512)
    (finding,) = found.findings
    assert (finding.code, finding.level, finding.image_offset) == ("partition-content", "warning", 2 * 512)
    assert (finding.expected, finding.found) == ("less than 4,096 blocks", f"{skipped:,}")


def test_data_may_begin_with_the_first_block_all_the_same():
    """As on macOS and Linux, a volume in the first block is read, whatever pmLgDataStart says."""
    disk = Disk(4 * MIB)
    apm(disk, [("Apple", "Apple_partition_map", 1, 3), ("early", "Apple_HFS", 1024, 4096)], 512)
    disk.put(2 * 512 + 80, (16).to_bytes(4, "big"))
    hfs_plus(disk, 1024 * 512, 4096 * 512)
    found = search(disk)
    assert [(item.image_offset, item.size_bytes) for item in found.readable] == [(1024 * 512, 4096 * 512)]
    assert found.findings == ()
