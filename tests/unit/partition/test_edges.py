"""Partition maps at their limits: the last byte, sector, entry or place that counts, and the first that does not.

Every number is that of the specification, or a product of the sizes that the test writes.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from layoutscope.filesystems.content import Content
from layoutscope.image import open_image
from layoutscope.partition import find_volumes
from layoutscope.partition.search import find_volumes_in_gaps, report_missing_entry
from tests.cases import for_each
from tests.unit.partition.builders import (
    HFS,
    LINUX,
    Disk,
    apfs,
    apm,
    gpt_disk,
    gpt_entry,
    gpt_header,
    hfs_plus,
    mbr,
    search,
)

MIB = 1024**2


@for_each("entries, expected, findings", [
    ([(100, 100)], [(51_200, 512)], []),  # both name the same sector: one
    ([(101, 100)], [], ["partition-outside"]),  # none
    ([(8191, 8191)], [(4 * MIB - 512, 512)], []),  # the last of the image
    ([(8192, 8192)], [], ["partition-outside"]),  # the first after it
    ([(8190, 8192)], [(4 * MIB - 1024, 1536)], ["partition-truncated"]),
    ([(100, 2**63)], [(51_200, 2**63 - 1 - 51_200)], ["partition-truncated"]),  # more bytes than 63 bits can count
    ([(100, 199), (200, 300)], [(51_200, 51_200), (102_400, 51_712)], []),
    ([(100, 199), (199, 300)], [(51_200, 51_200), (101_888, 52_224)], ["partition-overlap"]),
])  # fmt: skip
def test_a_gpt_entry_names_its_last_sector(entries, expected, findings):
    found = search(gpt_disk(4 * MIB, [gpt_entry(LINUX, *each) for each in entries]))
    assert (places(found), codes(found)) == (expected, findings)


@for_each("disk, place, found", [
    # Sectors 9,000 to 9,001 end before byte 9,002 * 512, beyond the 8,192 sectors of the image.
    (gpt_disk(4 * MIB, [gpt_entry(LINUX, 50, 60), gpt_entry(LINUX, 9000, 9001)]), 1024 + 128, "4,608,000 to 4,609,024"),
    # Blocks 3,000 to 3,009 end before byte 3,010 * 512; the entry is in the second block of the map.
    (apm(Disk(MIB), [("Apple", "Apple_partition_map", 1, 2), ("some", "Apple_UNIX_SVR2", 3000, 10)]), 1024,
     "1,536,000 to 1,541,120"),
])  # fmt: skip
def test_an_entry_outside_is_named_by_its_bytes(disk, place, found):
    (finding,) = search(disk).findings
    assert (finding.image_offset, finding.found) == (place, found)
    assert finding.expected in ("", f"a range before byte {len(disk.data):,}")


def codes(found) -> list[str]:
    return [item.code for item in found.findings]


def places(found) -> list[tuple[int, int]]:
    """Return the start and size of the map's partitions."""
    return [(item.image_offset, item.size_bytes) for item in found.partitions]


@for_each("count, told", [(1024, []), (1025, ["partition-limit"])])
def test_at_most_1024_partitions_of_a_gpt_are_looked_at(count, told):
    """The entries have one sector each from sector 1,000 on, in 257 sectors after the header."""
    array = b"".join(gpt_entry(LINUX, 1000 + n, 1000 + n) for n in range(count))
    disk = Disk(4 * MIB).put(512, gpt_header(array, 1, 8191, 2)).put(1024, array)
    disk.put(-512, gpt_header(array, 8191, 1, 7900)).put(7900 * 512, array)
    found = search(disk)
    assert len(found.partitions) == min(count, 1024)
    assert codes(found) == told


def gpt(entries, *, lba=2, backup=100, size=4 * MIB) -> Disk:
    """Return a disk with a header and its entries at a sector, as far as they fit."""
    return Disk(size).put(512, gpt_header(entries, 1, backup, lba)).put(lba * 512, entries[: size - lba * 512])


ENTRIES = gpt_entry(LINUX, 100, 200).ljust(16_384, b"\0")


@for_each("disk, is_read, told", [
    # 32,768 entries of 128 bytes are read; one more is refused at the count, byte 80 of the header.
    (gpt(ENTRIES.ljust(4 * MIB, b"\0"), backup=10_239, size=5 * MIB), True, ("gpt-backup-damaged", 5 * MIB - 512)),
    (gpt(ENTRIES.ljust(4 * MIB + 128, b"\0"), backup=10_239, size=5 * MIB), False, ("gpt-primary-damaged", 512 + 80)),
    # 128 entries take 32 sectors, which end with the last of 8,192; byte 72 of the header has their start.
    (gpt(ENTRIES, lba=8160), True, ("gpt-backup-damaged", 100 * 512)),
    (gpt(ENTRIES, lba=8161), False, ("gpt-primary-damaged", 512 + 72)),
    # A header of zeros in the last sector is damaged; one beyond it is missing, reported at byte 32 of the header.
    (gpt(ENTRIES, backup=8191), True, ("gpt-backup-damaged", 4 * MIB - 512)),
    (gpt(ENTRIES, backup=8192), True, ("gpt-backup-missing", 512 + 32)),
])  # fmt: skip
def test_entries_and_headers_may_end_with_the_image(disk, is_read, told):
    found = search(disk)
    assert places(found) == [(51_200, 101 * 512)] * is_read
    assert told in [(item.code, item.image_offset) for item in found.findings]


def test_a_backup_where_the_primary_says_serves():
    """A disk of 2 MiB copied to one of 4 MiB has its backup in sector 4,095."""
    small = gpt_disk(2 * MIB, [gpt_entry(LINUX, 100, 200)])
    disk = Disk(4 * MIB).put(0, bytes(small.data))
    assert codes(search(disk)) == []
    disk.data[1024 + 60] ^= 0xFF
    found = search(disk)
    assert [(item.code, item.level) for item in found.findings] == [("gpt-primary-damaged", "warning")]
    assert found.partitions[0].name == ""
    assert [(item.type, item.image_offset, item.owner) for item in found.regions] == [
        ("gpt-header", 512, "primary"),
        ("gpt-entries", 1024, "primary"),
        ("gpt-entries", 2 * MIB - 512 - 16_384, "backup"),
        ("gpt-header", 2 * MIB - 512, "backup"),
    ]


def test_tables_that_are_lost_or_unusable():
    """Headers at the ends of the disk, and one without entries."""
    # The start is lost; the backup is in a 4,096-byte sector at the end, with its entries four sectors before.
    disk = gpt_disk(4 * MIB, [gpt_entry(LINUX, 16, 16)], sector=4096).put(0, bytes(8 * 4096))
    found = search(disk)
    assert places(found) == [(65_536, 4096)]
    (finding,) = found.findings
    assert (finding.code, finding.image_offset) == ("gpt-primary-damaged", 4096)
    # A header whose length the standard does not allow is unusable.
    disk = Disk(MIB).put(512, gpt_header(bytes(128), 1, 2047, 2)).put(512 + 12, b"\xff\xff\xff\xff")
    assert [(item.type, item.image_offset, item.length_bytes) for item in search(disk).regions] == [
        ("gpt-header", 512, 512)
    ]
    # Its header is the second one; the entries would be after the end, as byte 72 of the header says.
    disk = Disk(1024).put(512, gpt_header(bytes(128), 1, 50, 2))
    assert [(item.code, item.image_offset) for item in search(disk).findings] == [("gpt-primary-damaged", 512 + 72)]
    assert search(Disk(1023).put(512, gpt_header(bytes(128), 1, 50, 2)[:511])).findings == ()


@for_each("start, expected", [(2047, [(2047 * 512, 512)]), (2048, [])])
def test_a_boot_record_may_name_the_last_sector(start, expected):
    """It has 2,048 sectors; a first partition keeps the record plausible. An indicator is 00 or 80."""
    disk = Disk(MIB).put(0, mbr((0x83, 100, 10), (0x83, start, 1)))
    found = search(disk)
    assert places(found) == [(51_200, 5120), *expected]
    outside = [(item.code, item.image_offset, item.found) for item in found.findings]
    assert outside == ([] if expected else [("partition-outside", 0, "1,048,576 to 1,049,088")])
    for indicator, is_record in ((0x00, True), (0x80, True), (0x01, False), (0x81, False)):
        assert (search(disk.put(446 + 3 * 16, bytes([indicator]))).schemes == ("MBR",)) == is_record


def test_a_record_needs_a_partition_and_logical_ones_count_from_five():
    # 2,048 sectors in units of 512 and 4,096 bytes; the first unit is within the image only in the first case.
    assert search(Disk(MIB).put(0, mbr((0x83, 2048, 10)))).regions == ()
    assert search(Disk(MIB).put(0, mbr((0x83, 100, 0)))).regions == ()
    found = search(Disk(MIB).put(0, mbr((0x83, 2047, 10))))
    assert [(item.image_offset, item.length_bytes, item.owner) for item in found.regions] == [(0, 512, "master")]
    assert codes(found) == ["partition-truncated"]
    # There are two chains of extended records; the second continues the numbers of the first.
    disk = Disk(4 * MIB).put(0, mbr((0x83, 10, 10), (0x0F, 1000, 500), (0x83, 30, 10), (0x85, 2000, 500)))
    disk.put(1000 * 512, mbr((0x83, 1, 10), (0x05, 100, 10))).put(1100 * 512, mbr((0x83, 2, 10)))
    disk.put(2000 * 512, mbr((0x83, 3, 10), (0, 0, 0), (0x83, 50, 10)))
    assert [(item.number, item.image_offset // 512) for item in search(disk).partitions] == [
        (1, 10),
        (3, 30),
        (5, 1001),
        (6, 1102),
        (7, 2003),
    ]


def apm_disk(first: int, count: int, *, block: int = 512, data_start: int = 0) -> Disk:
    """Return 1 MiB with a partition map; its second entry is a partition given in blocks."""
    disk = Disk(MIB)
    apm(disk, [("Apple", "Apple_partition_map", 1, 2), ("some", "Apple_UNIX_SVR2", first, count)], block)
    return disk.put(2 * block + 80, data_start.to_bytes(4, "big"))


@pytest.mark.parametrize(
    ("disk", "expected", "told"),
    [
        (apm_disk(2047, 1), (2047 * 512, 512), []),
        (apm_disk(2048, 1), None, ["partition-outside"]),
        (apm_disk(511, 1, block=2048), (511 * 2048, 2048), []),
        (apm_disk(100, 10, data_start=9), (100 * 512, 5120), []),  # nothing is recognised after it either
        (apm_disk(100, 10, data_start=10), (100 * 512, 5120), ["partition-content"]),  # nothing would be left of it
        (apm_disk(100, 10, data_start=11), (100 * 512, 5120), ["partition-content"]),
        (apm_disk(2040, 8), (2040 * 512, 4096), []),
        (apm_disk(2040, 9), (2040 * 512, 4608), ["partition-truncated"]),
    ],
)
def test_partitions_of_an_apple_map_at_the_end(disk, expected, told):
    found = search(disk)
    assert places(found)[1:] == ([expected] if expected else [])
    assert codes(found) == told


def test_an_apple_map_of_256_entries():
    """It takes 256 blocks after block 0, on a disk that has them and on one with a hundred; with no count, one block.

    A count of none or of more than 256 entries is a finding.
    """
    for blocks, length in ((2048, 256), (100, 99)):
        disk = Disk(blocks * 512)
        apm(disk, [("free", "Apple_Free", start, 1) for start in range(min(256, blocks - 1))])
        for number in range(1, min(257, blocks)):
            disk.put(number * 512 + 4, (256).to_bytes(4, "big"))
        found = search(disk)
        assert [(item.image_offset, item.length_bytes) for item in found.regions] == [(0, 512), (512, length * 512)]
        assert codes(found) == ([] if blocks == 2048 else ["partition-chain"])
    for count in (0, 257, 2**32 - 1):
        found = search(apm_disk(100, 10).put(512 + 4, count.to_bytes(4, "big")))
        assert "partition-limit" in codes(found)
        assert found.regions[1].length_bytes == 512 or count


def test_overlaps_and_stale_maps():
    """Overlaps name the furthest partition, and stale maps their place."""
    # A large partition contains a small one, and a third one after that begins inside the large one.
    found = search(gpt_disk(MIB, [gpt_entry(LINUX, 100, 999), gpt_entry(LINUX, 200, 299), gpt_entry(LINUX, 500, 1200)]))
    assert [(item.code, item.image_offset, item.message) for item in found.findings] == [
        ("partition-overlap", 102_400, "partition 2 overlaps partition 1, which ends at 512,000"),
        ("partition-overlap", 256_000, "partition 3 overlaps partition 1, which ends at 512,000"),
    ]
    # A container starts at byte 0; an Apple map whose block 0 is overwritten starts at block 1.
    disk = apm_disk(100, 10)
    disk.put(0, bytes(512))
    apfs(disk, 0)
    assert [(item.code, item.structure, item.image_offset) for item in search(disk).findings] == [
        ("stale-partition-map", "APM", 512)
    ]


def sparse_disk(path, size_bytes: int, starts: list[int], disk: Disk | None = None):
    """Write a disk with holes, and HFS+ volumes of 64 KiB at given bytes; return its source."""
    part = Disk(65_536)
    hfs_plus(part, 0, 65_536)
    with path.open("wb") as file:
        file.write(b"" if disk is None else disk.data)
        for start in starts:
            file.seek(start)
            file.write(part.data)
        file.truncate(size_bytes)
    return open_image(path)


@pytest.mark.parametrize(
    ("start", "is_found"),
    [
        (64 * MIB - 65_536 - 512, True),  # within the first 64 MiB
        (64 * MIB, True),  # a whole MiB
        (65 * MIB + 4096, False),
        (409_640 * 512, True),  # after an EFI partition of 200 MiB and a table
        (409_640 * 512 + 4096, False),
        (512 * MIB, True),
        (513 * MIB, False),
        (700 * MIB - 65_536, True),  # within the last MiB
        (700 * MIB - 65_536 - 4096, True),
        (699 * MIB, True),
        (699 * MIB - 65_536, False),
    ],
)
def test_where_a_disk_without_a_map_is_searched(tmp_path, start, is_found):
    """700 MiB: 448 whole MiB from 64 to 512, and the usual start after an EFI partition, are 450 places."""
    source = sparse_disk(tmp_path / "disk.img", 700 * MIB, [start])
    found = find_volumes(source)
    assert [item.image_offset for item in found.readable] == ([start] if is_found else [])
    assert found.searched == "the first 64.0 MiB, 450 likely places and the last 1.00 MiB"
    if start == 64 * MIB:
        assert find_volumes(source, depth="maps").readable == ()
    if not is_found:
        found = find_volumes(source, depth="everywhere")
        assert [item.image_offset for item in found.readable] == [start]
        assert found.searched == "every sector of the image"


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (64 * MIB, "every sector of the image"),
        (64 * MIB + 512, "the first 64.0 MiB and the last 1.00 MiB"),
        (65 * MIB, "the first 64.0 MiB and the last 1.00 MiB"),
        (65 * MIB + 512, "the first 64.0 MiB, 1 likely places and the last 1.00 MiB"),
        (67 * MIB, "the first 64.0 MiB, 2 likely places and the last 1.00 MiB"),
    ],
)
def test_how_much_of_a_small_disk_is_searched(tmp_path, size, words):
    """Whole MiB from 64 to the last one; everything if the disk has at most 64 MiB."""
    assert find_volumes(sparse_disk(tmp_path / "disk.img", size, [])).searched == words


@pytest.mark.parametrize(
    ("start", "entry"),
    [
        (63 * 512, "first sector 63, 128 sectors of 512 bytes (last sector 190)"),
        (MIB, "first sector 2,048, 128 sectors of 512 bytes (last sector 2,175)"),
    ],
)
def test_the_entry_that_is_missing(tmp_path, start, entry):
    """64 KiB are 128 sectors."""
    found = find_volumes(sparse_disk(tmp_path / "disk.img", 2 * MIB, [start]))
    (finding,) = found.findings
    assert (finding.code, finding.level, finding.image_offset) == ("volume-unpartitioned", "info", start)
    assert f"the GPT entry for it: type {HFS}, {entry}" in finding.message
    assert finding.message.startswith("HFS+ of 64.0 KiB begins here, where no partition does; ")


@pytest.mark.parametrize(
    ("start", "size", "words"),
    [
        (8192, 65_536, "first sector 2, 16 sectors of 4,096 bytes (last sector 17)"),
        (8192 + 512, 65_536, "first sector 17, 128 sectors of 512 bytes (last sector 144)"),
        (8192, 65_536 + 512, "first sector 16, 129 sectors of 512 bytes (last sector 144)"),
        (8192, 65_536 + 1, "first sector 16, 129 sectors of 512 bytes (last sector 144)"),
        (8192 + 256, 65_536, "a map could not name it, as it does not begin with a sector"),
    ],
)
def test_the_entry_of_a_volume_on_a_device_of_large_sectors(start, size, words):
    """It counts in sectors of 4,096 bytes if start and size allow, else in 512, rounded up."""
    content = Content("hfsplus", "HFS+", start, size)
    source = SimpleNamespace(sector_size_bytes=4096)
    finding = report_missing_entry(source, content, "GPT", has_map=True)
    assert (finding.level, finding.image_offset) == ("warning", start)
    assert finding.message.endswith(words)


def test_volumes_beside_each_other_are_all_found(tmp_path):
    """The second one begins with the byte after the first."""
    for last in (MIB, 2 * MIB - 65_536):  # the one at the end is found by its copy, before others are searched for
        starts = [63 * 512, 63 * 512 + 65_536, last]
        found = find_volumes(sparse_disk(tmp_path / f"{last}.img", 2 * MIB, starts))
        places = sorted((item.image_offset, item.size_bytes) for item in found.readable)
        assert places == [(start, 65_536) for start in starts]


@pytest.mark.parametrize(("gap", "is_found"), [(128 * MIB, True), (128 * MIB + 512, False), (127 * MIB, False)])
def test_what_disk_utility_left_free_behind_a_partition(tmp_path, gap, is_found):
    """128 MiB are free after the partition, which ends with the first MiB; nothing else is searched that far."""
    disk = Disk(MIB).put(0, mbr((0x83, 64, 1984)))
    source = sparse_disk(tmp_path / "disk.img", 200 * MIB, [MIB + gap], disk)
    found = find_volumes_in_gaps(source, find_volumes(source, depth="maps"))
    assert [item.image_offset for item in found] == ([MIB + gap] if is_found else [])


def test_a_volume_behind_the_first_block_of_its_partition():
    """Its data begins at block 8 of the partition (pmLgDataStart), which begins at block 100 of the disk.

    Where a volume begins with the first block as well, that is the one. Neither has a copy of its header at the end,
    by which it would be found all the same.
    """
    disk = apm_disk(100, 1000, data_start=8)
    for start, size in ((108, 992), (100, 1000)):
        hfs_plus(disk, start * 512, size * 512)
        disk.put(1100 * 512 - 1024, bytes(512))
        found = [(item.partition, item.image_offset, item.size_bytes) for item in search(disk).readable]
        assert found == [(2, start * 512, size * 512)]


@pytest.mark.parametrize(("spare", "codes_of_start"), [(0, []), (512, []), (4096, ["start-uncertain"])])
def test_where_a_map_has_a_volume_its_start_is_not_in_doubt(spare, codes_of_start):
    """A volume of 250 blocks with a lost header ends with its partition; the given bytes precede its blocks.

    Its start is that of the map to within a block; after that, nothing confirms it.
    """
    size = 250 * 4096 + spare
    disk = gpt_disk(4 * MIB, [gpt_entry(HFS, 2048, 2047 + size // 512)])
    part = Disk(size)
    hfs_plus(part, 0, size)
    part.put(size - 1024 + 44, (250).to_bytes(4, "big")).put(0, bytes(4096))
    found = search(disk.put(MIB, bytes(part.data)))
    assert [item.image_offset for item in found.readable] == [MIB + (spare if spare == 4096 else 0)]
    assert codes(found) == ["volume-header-lost", *codes_of_start]
