"""Volumes in partition maps and on disks without one, and findings about the maps."""

from __future__ import annotations

import numpy as np
import pytest

from layoutscope.errors import ImageError
from layoutscope.image import MemorySource
from layoutscope.image.failing import RescuedSource
from layoutscope.partition import choose, find_volumes
from tests.cases import for_each
from tests.unit.partition.builders import (
    APFS,
    CORE_STORAGE,
    HFS,
    LINUX,
    Disk,
    apfs,
    apm,
    findings_of,
    gpt_disk,
    gpt_entry,
    hfs_plus,
    mbr,
    search,
    volumes,
    wrapper,
)

MIB = 1024**2
BASIC_DATA = "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"
FIRST, SECOND = (MIB, MIB), (2 * MIB, (8000 - 4096 + 1) * 512)


def two_partitions() -> Disk:
    """Return 4 MiB with a GPT: HFS+ in sectors 2048 to 4095, APFS in 4096 to 8000."""
    entries = [gpt_entry(HFS, 2048, 4095, "Macintosh HD"), gpt_entry(APFS, 4096, 8000, "Donn\u00e9es")]
    return apfs(hfs_plus(gpt_disk(4 * MIB, entries), MIB, MIB), 2 * MIB)


def test_volumes_of_a_gpt():
    """Both partitions are found by content; headers and entries of both copies are where the specification puts them.

    The entries are 128 of 128 bytes.
    """
    found = search(two_partitions())
    assert [
        (item.kind, item.image_offset, item.size_bytes, item.partition, item.stack) for item in found.candidates
    ] == [
        ("hfsplus", *FIRST, 1, ("GPT", "partition 1", "HFS+")),
        ("apfs", *SECOND, 2, ("GPT", "partition 2", "APFS")),
    ]
    assert [item.name for item in found.partitions] == ["Macintosh HD", "Donn\u00e9es"]
    assert [(item.type, item.image_offset, item.length_bytes, item.owner) for item in found.regions] == [
        ("gpt-header", 512, 512, "primary"),
        ("gpt-entries", 1024, 16384, "primary"),
        ("gpt-entries", 4 * MIB - 512 - 16384, 16384, "backup"),
        ("gpt-header", 4 * MIB - 512, 512, "backup"),
    ]
    assert (found.findings, found.schemes) == ((), ("GPT",))


def primary(place: int, level: str = "warning") -> tuple[str, str, int]:
    return "gpt-primary-damaged", level, place


@for_each(
    "change, expected, findings",
    [
        (lambda disk: disk.flip(512 + 25), [FIRST, SECOND], [primary(512)]),  # MyLBA: the header's checksum fails
        (lambda disk: disk.flip(512 + 17), [FIRST, SECOND], [primary(512)]),  # the checksum itself
        (lambda disk: disk.flip(512 + 13), [FIRST, SECOND], [primary(512 + 12)]),  # HeaderSize out of range
        (lambda disk: disk.flip(1024 + 201), [FIRST, SECOND], [primary(1024)]),  # the checksum of the entries fails
        (lambda disk: disk.put(0, bytes(34 * 512)), [FIRST, SECOND], [primary(512)]),  # only the backup is left
        (lambda disk: disk.flip(1024 + 60, -512 + 16), [FIRST, SECOND], [primary(1024, "error")]),  # neither is whole
        (lambda disk: disk.flip(-512 + 24), [FIRST, SECOND], [("gpt-backup-damaged", "warning", 4 * MIB - 512)]),
        (  # a tool wrote only one copy
            lambda disk: disk.put(-17408, bytes(gpt_disk(4 * MIB, [gpt_entry(HFS, 2048, 4000)]).data[-17408:])),
            [FIRST, SECOND], [("gpt-copies-differ", "warning", 4 * MIB - 512 - 16384)],
        ),
        (  # a count of no entries, and no backup: the volumes are found by a search
            lambda disk: disk.put(512 + 80, bytes(4)).put(-512, bytes(512)).put(2 * MIB, bytes(512)),
            [FIRST], [primary(512, "error"), ("volume-unpartitioned", "warning", MIB)],
        ),
        (lambda disk: disk.put(0, mbr((0xEE, 1, 8191))), [FIRST, SECOND], []),
        (lambda disk: disk.put(0, mbr((0xEE, 1, 2047), (0xAF, 2048, 2048))), [FIRST, SECOND], []),
        (  # a hybrid record out of step: HFS+ in sector 4096 and past the end
            lambda disk: disk.put(0, mbr((0xAF, 4096, 8192), (0xEE, 1, 2047))), [FIRST, SECOND],
            [("partition-truncated", "warning", 2 * MIB)],
        ),
    ],
)  # fmt: skip
def test_copies_of_a_gpt_and_the_record_before_it(change, expected, findings):
    """The finding has the address of the failed check. Partitions in both maps count once, under the GPT."""
    found = search(change(two_partitions()))
    assert (volumes(found), findings_of(found)) == (expected, findings)
    assert {item.stack[0] for item in found.candidates} == {"GPT"} or len(expected) == 1
    assert not any("cut off" in item.message for item in found.findings)


def test_cut_images_and_protective_records():
    """A missing end is a finding; a protective record is not a partition."""
    # Without the last MiB, the backup is missing and the second partition, which ends at 4,096,512, is cut.
    disk = two_partitions()
    del disk.data[3 * MIB :]
    found = search(disk)
    assert sorted(item.code for item in found.findings) == ["gpt-backup-missing", "partition-truncated"]
    assert found.candidates[1].size_bytes == MIB
    found = search(two_partitions().put(0, mbr((0xEE, 1, 8191))))
    assert ([item.scheme for item in found.partitions], found.schemes) == (["GPT", "GPT"], ("GPT",))
    assert ("mbr", 0) in [(item.type, item.image_offset) for item in found.regions]


def one_partition(kind: str) -> Disk:
    """Return 4 MiB with a partition of a type in sectors 2048 to 4095."""
    return gpt_disk(4 * MIB, [gpt_entry(kind, 2048, 4095)])


NTFS_BOOT = b"\xeb\x52\x90NTFS    ".ljust(510, b"\0") + b"\x55\xaa"


@for_each(
    "disk, held, level",
    [
        (one_partition(APFS), "nothing", "error"),
        (one_partition(APFS).put(MIB, NTFS_BOOT), "NTFS", "warning"),
        (one_partition(HFS).put(MIB, NTFS_BOOT), "NTFS", "warning"),
        (one_partition(CORE_STORAGE).put(MIB, NTFS_BOOT), "NTFS", "warning"),
        (apfs(one_partition(HFS), MIB), "APFS", "warning"),
        (one_partition(LINUX).put(MIB, NTFS_BOOT), "", ""),  # basic data and Linux may hold anything
        (hfs_plus(one_partition(LINUX), MIB, MIB), "", ""),
        (one_partition(BASIC_DATA).put(MIB, NTFS_BOOT), "", ""),
        (hfs_plus(one_partition(BASIC_DATA), MIB, MIB), "", ""),
        (one_partition(HFS).put(MIB + 1024, b"BD"), "", ""),  # classic HFS has the type of HFS+
        (apfs(Disk(4 * MIB).put(0, mbr((0xAF, 2048, 2048))), MIB), "", ""),  # one byte for both Apple file systems
    ],
)
def test_what_the_type_of_a_partition_promises(disk, held, level):
    """The actual content is named next to the type, and a partition of Apple's type with nothing in it is probed."""
    found = search(disk)
    assert findings_of(found) == [("partition-content", level, MIB)] * bool(level)
    assert all(item.message.endswith(f"but holds {held}") for item in found.findings) or held == "nothing"
    assert len(found.candidates) == 1


def with_map(block: int, declared: int | None = None) -> Disk:
    """Return 4 MiB with an Apple map, a driver, and an HFS+ volume of 1 MiB at 1 MiB."""
    entries = [
        ("Apple", "Apple_partition_map", 1, 3),
        ("Macintosh", "Apple_Driver_ATA", 64, 16),
        ("Tiger", "Apple_HFS", MIB // block, MIB // block),
    ]
    return hfs_plus(apm(Disk(4 * MIB), entries, block, declared), MIB, MIB)


@for_each(
    "block, declared",
    [(512, None), (2048, None), (1024, None), (512, 2048), (512, 0), (2048, 0), (2048, 512)],
)
def test_apple_maps_of_every_block_size(block, declared):
    """The map is found for any block size, also if block 0 is absent or contradicts it, as on CDs."""
    found = search(with_map(block, declared))
    (volume,) = found.candidates
    assert (volume.kind, volume.image_offset, volume.size_bytes) == ("hfsplus", MIB, MIB)
    assert volume.stack == ("APM", "partition 3", "HFS+")
    assert (found.partitions[-1].name, found.partitions[-1].type_name) == ("Tiger", "Apple_HFS")
    regions = [(item.type, item.image_offset, item.length_bytes) for item in found.regions]
    assert regions == [("apm", 0, 512)] * (declared != 0) + [("apm", block, 3 * block)]


def test_apple_maps_that_contradict_themselves():
    """The map that leads to a volume is used, as far as it goes."""
    # Hybrid CDs have a map for blocks of 512 bytes and one for 2048; the one that leads to a volume is used.
    wrong = [("Apple", "Apple_partition_map", 1, 2), ("wrong", "Apple_HFS", 1500, 100)]
    assert volumes(search(apm(with_map(2048), wrong, 512, declared=0))) == [(MIB, MIB)]
    # A third entry without its signature is a finding at its block; its volume is found by a search.
    found = search(with_map(512).put(3 * 512, b"XX"))
    assert [item[::2] for item in findings_of(found)] == [("partition-chain", 3 * 512), ("volume-unpartitioned", MIB)]
    assert volumes(found) == [(MIB, MIB)]
    assert [item.number for item in found.partitions] == [1, 2]


@for_each("skipped", [4096, 2**31, 2**32 - 1])
def test_data_cannot_begin_after_the_end_of_a_partition(skipped):
    """The partition of 4,096 blocks is read from its first block, and the field (pmLgDataStart) is reported."""
    disk = apm(Disk(4 * MIB), [("Apple", "Apple_partition_map", 1, 3), ("odd", "Apple_HFS", 1024, 4096)], 512)
    found = search(hfs_plus(disk.put(2 * 512 + 80, skipped.to_bytes(4, "big")), 1024 * 512, 4096 * 512))
    assert volumes(found) == [(1024 * 512, 4096 * 512)]
    (finding,) = found.findings
    assert findings_of(found) == [("partition-content", "warning", 2 * 512)]
    assert (finding.expected, finding.found) == ("less than 4,096 blocks", f"{skipped:,}")


def test_types_and_chains_of_boot_records():
    """Type AF is HFS+, and extended records are followed up to a limit."""
    # The partition of type 0xAF is at sector 63, which no block size divides.
    searched = search(hfs_plus(Disk(2 * MIB).put(0, mbr((0xAF, 63, 2048))), 63 * 512, MIB))
    (found,) = searched.candidates
    assert (found.kind, found.image_offset, found.size_bytes) == ("hfsplus", 63 * 512, MIB)
    assert (found.stack, searched.partitions[0].type_name) == (("MBR", "partition 1", "HFS+"), "apple_hfs")
    # Logical partitions count from 5; starts are relative to their record, links to the extended partition.
    found = search(extended_disk())
    assert [(item.partition, item.image_offset, item.label) for item in found.readable] == [
        (5, 1063 * 512, "HFS+"),
        (6, 3263 * 512, "HFSX"),
    ]
    assert [item.image_offset for item in found.regions] == [0, 1000 * 512, 3200 * 512]
    # A chain with a record on every sector ends after 128.
    disk = Disk(4 * MIB).put(0, mbr((0x05, 1, 8000)))
    for lba in range(1, 8000):
        disk.put(lba * 512, mbr((0x83, 1, 1), (0x05, lba, 1)))
    found = search(disk)
    assert len(found.partitions) == 128
    assert "partition-chain" in [item.code for item in found.findings]


@for_each("disk, expected", [
    (hfs_plus(Disk(4 * MIB).put(0, mbr((0xAF, 64, 256))), 64 * 4096, MIB), (64 * 4096, MIB)),
    # Sector 512 counts in units of 2,048 bytes; units of 4,096 would end with the copy of the header, too.
    (hfs_plus(Disk(4 * MIB).put(0, mbr((0xAF, MIB // 1024, MIB // 1024))), MIB, MIB), (MIB, MIB)),
    (hfs_plus(Disk(4 * MIB).put(0, mbr((0xAF, MIB // 2048, MIB // 2048))), MIB, MIB), (MIB, MIB)),
    (hfs_plus(gpt_disk(4 * MIB, [gpt_entry(HFS, 16, 271)], sector=4096), 16 * 4096, MIB), (16 * 4096, MIB)),
    # Entries of 256 bytes have 128 unused bytes each.
    (hfs_plus(gpt_disk(4 * MIB, [gpt_entry(LINUX, 100, 200), gpt_entry(HFS, 2048, 4095)], entry_size=256), MIB, MIB),
     (MIB, MIB)),
])  # fmt: skip
def test_units_and_entries_of_other_sizes(disk, expected):
    """The content at 1,024, 2,048 or 4,096 times the address gives the sector size, as does the place of the header."""
    found = search(disk)
    assert (volumes(found), found.findings) == ([expected], ())


def extended_disk() -> Disk:
    """Return an extended partition at sector 1000 with volumes at 1063 and, via the next record at 3200, at 3263."""
    disk = Disk(4 * MIB).put(0, mbr((0x0B, 100, 200), (0x05, 1000, 6000)))
    disk.put(1000 * 512, mbr((0xAF, 63, 2000), (0x05, 2200, 2100))).put(3200 * 512, mbr((0xAF, 63, 2000)))
    return hfs_plus(hfs_plus(disk, 1063 * 512, 2000 * 512), 3263 * 512, 2000 * 512, b"HX")


@for_each("disk, num_volumes, place", [
    # A link to the first record or to itself.
    (extended_disk().put(3200 * 512, mbr((0xAF, 63, 2000), (0x05, 0, 2100))), 2, 1000 * 512),
    (extended_disk().put(3200 * 512, mbr((0xAF, 63, 2000), (0x05, 2200, 2100))), 2, 3200 * 512),
    # A link to a sector without the signature, or past the end.
    (hfs_plus(Disk(2 * MIB).put(0, mbr((0xAF, 100, 1500), (0x05, 2000, 100))), 100 * 512, 1500 * 512), 1,
     2000 * 512 + 510),
    (hfs_plus(Disk(2 * MIB).put(0, mbr((0xAF, 100, 1500), (0x05, 1 << 31, 100))), 100 * 512, 1500 * 512), 1, 1 << 40),
])  # fmt: skip
def test_chains_of_extended_records_end(disk, num_volumes, place):
    """A link that leads nowhere new is a finding with its address; the volumes are kept."""
    found = search(disk)
    assert len(found.readable) == num_volumes
    assert [item[::2] for item in findings_of(found)] == [("partition-chain", place)]


@for_each("disk, size, findings", [
    (Disk(2 * MIB).put(0, mbr((0xAF, 63, 2048), (0xAF, 1 << 20, 2048))), MIB, ["partition-outside"]),
    # 2 MiB are 4,096 sectors; the extended partition begins in sector 2,050. Its record names no cut partition.
    (Disk(2 * MIB).put(0, mbr((0xAF, 63, 1985), (0x05, 2050, 2047))).put(2050 * 512, mbr((0, 0, 0))), 1985 * 512,
     ["partition-truncated"]),
    (Disk(2 * MIB).put(0, mbr((0xAF, 63, 1985), (0x05, 2050, 2046))).put(2050 * 512, mbr((0, 0, 0))), 1985 * 512, []),
])  # fmt: skip
def test_a_boot_record_of_a_cut_image(disk, size, findings):
    found = search(hfs_plus(disk, 63 * 512, size))
    assert volumes(found) == [(63 * 512, size)]
    assert [item.code for item in found.findings] == findings
    assert all(item.image_offset == 2050 * 512 for item in found.findings if item.code == "partition-truncated")


def ext(compatible: int, incompatible: int) -> Disk:
    """Return an ext superblock: magic at 56, feature words at 92 and 96."""
    disk = Disk(MIB).put(1024 + 56, b"\x53\xef")
    return disk.put(1024 + 92, compatible.to_bytes(4, "little") + incompatible.to_bytes(4, "little"))


def boot_sector(oem: bytes, place: int, text: bytes) -> Disk:
    """Return a boot sector of FAT or NTFS: it ends like a boot record, but has code in place of the entries."""
    disk = Disk(MIB).put(0, b"\xeb\x52\x90" + oem).put(place, text).put(440, b"Disk error. Press any key" * 2)
    return disk.put(510, b"\x55\xaa")


@for_each("disk, label", [
    (one_partition(CORE_STORAGE).put(MIB + 8, bytes([1, 0, 0x10, 0])).put(MIB + 88, b"CS"), "CoreStorage"),
    (ext(0, 0), "ext2"),
    (ext(4, 2), "ext3"),
    (ext(4, 0x42), "ext4"),
    (Disk(MIB).put(0, b"XFSB"), "XFS"),
    (Disk(MIB).put(0, b"LUKS\xba\xbe"), "LUKS"),
    (Disk(MIB).put(0, b"hsqs"), "squashfs"),
    (Disk(MIB).put(512, b"LABELONE"), "Linux LVM"),
    (Disk(MIB).put(65_600, b"_BHRfS_M"), "btrfs"),
    (Disk(MIB).put(32_769, b"CD001"), "ISO 9660"),
    (Disk(MIB).put(8, bytes([1, 0, 0x10, 0])).put(88, b"CS"), "CoreStorage"),
    (boot_sector(b"NTFS    ", 54, b""), "NTFS"),
    (boot_sector(b"mkfs.fat", 82, b"FAT32   "), "FAT32"),
    (boot_sector(b"EXFAT   ", 54, b""), "exFAT"),
    (boot_sector(b"MSDOS5.0", 54, b"FAT16   "), "FAT16"),
    # Tiny images have no volume and give no error.
    *((Disk(size), "unknown") for size in (1, 31, 35, 511, 512, 1023, 1026, 1100, 4095, 8192, MIB)),
])  # fmt: skip
def test_other_file_systems_are_named(disk, label):
    """Each is recognised by its own magic at its own place."""
    (found,) = search(disk).candidates
    assert (found.label, found.stack[-1], found.is_readable) == (label, label, False)
    assert len(found.stack) == (1 if found.partition is None else 3)


def without_headers(start: int) -> Disk:
    """Return a partition of HFS+ that was formatted as exFAT, in a map or not: the copy of its header is left."""
    disk = hfs_plus(gpt_disk(4 * MIB, [gpt_entry(BASIC_DATA, 2048, 4095)]) if start else Disk(MIB), start, MIB)
    return disk.put(start, b"\xeb\x76\x90EXFAT   ".ljust(510, b"\0") + b"\x55\xaa").put(start + 1024, bytes(512))


@for_each("disk, stacks, findings", [
    (hfs_plus(Disk(MIB), 0, MIB), [("HFS+",)], []),
    (hfs_plus(Disk(MIB), 0, MIB, b"HX"), [("HFSX",)], []),
    (apfs(Disk(MIB), 0), [("APFS",)], []),
    (hfs_plus(Disk(MIB), 0, MIB).put(0, bytes(4096)), [("HFS+",)], [("volume-header-lost", "error", 1024)]),
    (without_headers(0), [("exFAT",)], []),
    (without_headers(MIB), [("GPT", "partition 1", "exFAT")], []),
    # A container from byte 0 with remains of an MBR.
    (apfs(Disk(2 * MIB).put(0, mbr((0x83, 100, 2000))), 0), [("APFS",)], [("stale-partition-map", "info", 0)]),
])  # fmt: skip
def test_volumes_without_a_map(disk, stacks, findings):
    """The volume begins the image and fills it; what another file system left does not count."""
    found = search(disk)
    assert ([item.stack for item in found.candidates], findings_of(found)) == (stacks, findings)
    if found.readable:
        assert (volumes(found), found.candidates[0].partition) == ([(0, len(disk.data))], None)


def test_a_volume_that_lost_map_and_header():
    """It is assumed to begin with the 250 blocks that end with the disk, not at byte 0, which nothing confirms."""
    start = 2 * MIB - 250 * 4096
    header = (b"H+\0\4".ljust(40, b"\0") + (4096).to_bytes(4, "big") + (250).to_bytes(4, "big")).ljust(512, b"\0")
    found = search(Disk(2 * MIB).put(-1024, header))
    assert [item.image_offset for item in found.candidates] == [start]
    assert [item[::2] for item in findings_of(found)] == [
        ("volume-header-lost", start + 1024), ("start-uncertain", start), ("volume-unpartitioned", start),
    ]  # fmt: skip


def wrapped(*place: int, embedded: bytes = b"H+") -> Disk:
    """Return a wrapper in an APM partition at 32 KiB.

    Its allocation blocks of 4 KiB count from its sector 20 on; the volume is in 100 of them from block 3 on.
    """
    disk = apm(Disk(MIB), [("Apple", "Apple_partition_map", 1, 2), ("disk", "Apple_HFS", 64, 1900)])
    return disk.put(32_768 + 1024, wrapper("Untitled", *(place or (4096, 20, 3, 100)), embedded))


START = 32_768 + 20 * 512 + 3 * 4096


def test_wrapped_volumes():
    """The embedded volume starts at partition + 20 sectors + 3 blocks and is 100 blocks long.

    A missing header is a finding at its byte; a volume past the end has no bytes. Without an embedded volume, the
    wrapper's signature means classic HFS.
    """
    found = search(hfs_plus(wrapped(), START, 100 * 4096))
    assert (volumes(found), found.findings) == ([(START, 409_600)], ())
    assert found.candidates[0].stack == ("APM", "partition 2", "HFS wrapper", "HFS+")
    assert ("hfs-wrapper", 32_768 + 1024) in [(item.type, item.image_offset) for item in found.regions]
    assert [item[::2] for item in findings_of(search(wrapped()))] == [("volume-header-lost", START + 1024)]
    found = search(wrapped(2**31, 20, 65_535, 65_535))
    assert "volume-header-lost" in [item.code for item in found.findings]
    assert found.candidates[0].size_bytes == 0
    (found,) = search(wrapped(embedded=b"\0\0")).candidates
    assert (found.kind, found.label, found.is_readable) == ("hfs", "HFS", False)


@for_each("disk, unread, kinds, findings", [
    (hfs_plus(Disk(MIB), 0, MIB), [[0, 4096]], ["hfsplus"], [("unread-area", 0), ("volume-header-lost", 1024)]),
    # With both headers unread, the volume is unknown, although the file still holds them.
    (hfs_plus(Disk(MIB), 0, MIB), [[1024, 512], [MIB - 1024, 512]], ["unknown"], [("unread-area", 1024)]),
    (hfs_plus(one_partition(HFS), MIB, MIB), [[512, 512]], ["hfsplus"], [("gpt-primary-damaged", 512)]),
])  # fmt: skip
def test_sectors_that_were_never_read(disk, unread, kinds, findings):
    """Copies replace headers that were not read."""
    found = find_volumes(RescuedSource(MemorySource(bytes(disk.data)), np.array(unread)))
    assert [item.kind for item in found.candidates] == kinds
    assert [item[::2] for item in findings_of(found)] == findings


def test_a_start_that_is_unread_is_named_where_nothing_is_found():
    """The address says why a volume may not have been found there; a fully read disk has no such message."""
    source = MemorySource(bytes(MIB), "disk")
    holed = RescuedSource(source, np.array([[1024, 512]]))
    with pytest.raises(ImageError, match="volume found; byte 1,024 and what follows could not be read"):
        choose(holed, find_volumes(holed))
    with pytest.raises(ImageError, match=r"volume found; every sector of the image was searched\. --volume"):
        choose(source, find_volumes(source))
