from __future__ import annotations

import pytest

from tests.unit.partition.builders import Disk, apfs, hfs_plus, mbr, search

MIB = 1024**2


def test_type_af_is_hfs_plus():
    """The partition of type 0xAF is at sector 63, which no block size divides."""
    disk = Disk(2 * MIB).put(0, mbr((0xAF, 63, 2048)))
    hfs_plus(disk, 63 * 512, MIB)
    (found,) = search(disk).candidates
    assert (found.kind, found.image_offset, found.size_bytes) == ("hfsplus", 63 * 512, MIB)
    assert (found.stack, found.type_name) == (("MBR", "partition 1", "HFS+"), "apple_hfs")


def test_sectors_of_4096_bytes_are_recognised():
    """If the content is at 4096 times the address, that is the sector size."""
    disk = Disk(4 * MIB).put(0, mbr((0xAF, 64, 256)))
    hfs_plus(disk, 64 * 4096, MIB)
    assert [item.image_offset for item in search(disk).readable] == [64 * 4096]


@pytest.mark.parametrize("unit", [1024, 2048])
def test_rare_units_are_tried_where_the_usual_ones_lead_nowhere(unit):
    """Sector 512 counts in units of 2,048 bytes; the volume's header copy is where units of 4,096 would end, too."""
    disk = Disk(4 * MIB).put(0, mbr((0xAF, MIB // unit, MIB // unit)))
    hfs_plus(disk, MIB, MIB)
    found = search(disk)
    assert [(item.image_offset, item.size_bytes) for item in found.readable] == [(MIB, MIB)]
    assert found.findings == ()


def extended_disk() -> Disk:
    """Return an extended partition at sector 1000 with volumes at 1063 and, via the next record at 3200, at 3263."""
    disk = Disk(4 * MIB).put(0, mbr((0x0B, 100, 200), (0x05, 1000, 6000)))
    disk.put(1000 * 512, mbr((0xAF, 63, 2000), (0x05, 2200, 2100)))
    disk.put(3200 * 512, mbr((0xAF, 63, 2000)))
    hfs_plus(disk, 1063 * 512, 2000 * 512)
    hfs_plus(disk, 3263 * 512, 2000 * 512, b"HX")
    return disk


def test_extended_partitions_are_followed():
    """Logical partitions count from 5; starts are relative to their record, links to the extended partition."""
    found = search(extended_disk())
    assert [(item.partition, item.image_offset, item.label) for item in found.readable] == [
        (5, 1063 * 512, "HFS+"),
        (6, 3263 * 512, "HFSX"),
    ]
    assert [item.image_offset for item in found.regions] == [0, 1000 * 512, 3200 * 512]


@pytest.mark.parametrize("target", [0, 2200])
def test_a_loop_of_extended_records_ends(target):
    """A link to the first record or to itself is a finding; the volumes are kept."""
    disk = extended_disk()
    disk.put(3200 * 512, mbr((0xAF, 63, 2000), (0x05, target, 2100)))
    found = search(disk)
    assert len(found.readable) == 2
    assert [(item.code, item.image_offset) for item in found.findings] == [("partition-chain", (1000 + target) * 512)]


def test_a_long_chain_is_bounded():
    """A chain with a record on every sector ends after 128."""
    disk = Disk(4 * MIB).put(0, mbr((0x05, 1, 8000)))
    for lba in range(1, 8000):
        disk.put(lba * 512, mbr((0x83, 1, 1), (0x05, lba, 1)))
    found = search(disk)
    assert len(found.partitions) == 128
    assert "partition-chain" in [item.code for item in found.findings]


@pytest.mark.parametrize(("lba", "address"), [(2000, 2000 * 512 + 510), (1 << 31, 1 << 40)])
def test_a_chain_into_nothing_is_told(lba, address):
    """A link to a sector without the signature, or past the end, is a finding with its address."""
    disk = Disk(2 * MIB).put(0, mbr((0xAF, 100, 1500), (0x05, lba, 100)))
    hfs_plus(disk, 100 * 512, 1500 * 512)
    found = search(disk)
    assert [(item.code, item.image_offset) for item in found.findings] == [("partition-chain", address)]
    assert len(found.readable) == 1


def test_a_partition_past_the_end_of_a_cut_image():
    """If the image is cut before the second partition, the first is still found."""
    disk = Disk(2 * MIB).put(0, mbr((0xAF, 63, 2048), (0xAF, 1 << 20, 2048)))
    hfs_plus(disk, 63 * 512, MIB)
    found = search(disk)
    assert [item.partition for item in found.readable] == [1]
    assert [item.code for item in found.findings] == ["partition-outside"]


@pytest.mark.parametrize(("sectors", "is_cut"), [(2047, True), (2046, False)])
def test_an_extended_partition_past_the_end_of_a_cut_image(sectors, is_cut):
    """2 MiB are 4,096 sectors; the entry begins in sector 2,050. Its record names no cut partition."""
    disk = Disk(2 * MIB).put(0, mbr((0xAF, 63, 1985), (0x05, 2050, sectors))).put(2050 * 512, mbr((0, 0, 0)))
    hfs_plus(disk, 63 * 512, 1985 * 512)
    found = [(item.code, item.level, item.image_offset) for item in search(disk).findings]
    assert found == [("partition-truncated", "warning", 2050 * 512)] * is_cut


@pytest.mark.parametrize(
    ("oem", "place", "text", "label"),
    [
        (b"NTFS    ", 54, b"", "NTFS"),
        (b"mkfs.fat", 82, b"FAT32   ", "FAT32"),
        (b"EXFAT   ", 54, b"", "exFAT"),
        (b"MSDOS5.0", 54, b"FAT16   ", "FAT16"),
    ],
)
def test_a_boot_sector_is_no_partition_table(oem, place, text, label):
    """Boot sectors of FAT and NTFS end like a boot record, but have code in place of the entries."""
    disk = Disk(MIB).put(0, b"\xeb\x52\x90" + oem).put(place, text).put(440, b"Disk error. Press any key" * 2)
    disk.put(510, b"\x55\xaa")
    found = search(disk)
    assert [(item.label, item.stack) for item in found.candidates] == [(label, (label,))]


def test_a_volume_that_fills_the_image_beats_an_old_record():
    """An APFS container from byte 0 with remains of an MBR is a bare container, with an info finding."""
    disk = Disk(2 * MIB).put(0, mbr((0x83, 100, 2000)))
    apfs(disk, 0)
    found = search(disk)
    assert [(item.kind, item.stack) for item in found.candidates] == [("apfs", ("APFS",))]
    assert [(item.code, item.level) for item in found.findings] == [("stale-partition-map", "info")]
