from __future__ import annotations

import pytest

from tests.unit.partition.builders import (
    APFS,
    CORE_STORAGE,
    HFS,
    LINUX,
    Disk,
    apfs,
    gpt_disk,
    gpt_entry,
    hfs_plus,
    mbr,
    search,
)

MIB = 1024**2


def codes(found) -> list[str]:
    return [finding.code for finding in found.findings]


@pytest.fixture
def disk():
    """Return 4 MiB: HFS+ in sectors 2048 to 4095, APFS in 4096 to 8000."""
    disk = gpt_disk(4 * MIB, [gpt_entry(HFS, 2048, 4095, "Macintosh HD"), gpt_entry(APFS, 4096, 8000, "Donn\u00e9es")])
    hfs_plus(disk, MIB, MIB)
    apfs(disk, 2 * MIB)
    return disk


def test_volumes_of_a_gpt(disk):
    """Both partitions are found by content, with number, name, size and stack, and without findings."""
    found = search(disk)
    assert [
        (item.kind, item.image_offset, item.size_bytes, item.partition, item.name, item.stack)
        for item in found.candidates
    ] == [
        ("hfsplus", MIB, MIB, 1, "Macintosh HD", ("GPT", "partition 1", "HFS+")),
        ("apfs", 2 * MIB, (8000 - 4096 + 1) * 512, 2, "Donn\u00e9es", ("GPT", "partition 2", "APFS")),
    ]
    assert found.findings == ()
    assert found.schemes == ("GPT",)


def test_both_copies_are_regions(disk):
    """Headers and entries of both copies are where the specification puts them: 128 entries of 128 bytes."""
    end = 4 * MIB
    assert [(item.type, item.image_offset, item.length_bytes, item.owner) for item in search(disk).regions] == [
        ("gpt-header", 512, 512, "primary"),
        ("gpt-entries", 1024, 16384, "primary"),
        ("gpt-entries", end - 512 - 16384, 16384, "backup"),
        ("gpt-header", end - 512, 512, "backup"),
    ]


def test_sectors_of_4096_bytes():
    """A header at byte 4096 means sectors of that size: sector 16 is at byte 65,536."""
    disk = gpt_disk(4 * MIB, [gpt_entry(HFS, 16, 271)], sector=4096)
    hfs_plus(disk, 65_536, MIB)
    found = search(disk)
    assert [(item.kind, item.image_offset, item.size_bytes) for item in found.candidates] == [("hfsplus", 65_536, MIB)]
    assert found.findings == ()


def test_entries_may_be_larger():
    """Entries of 256 bytes have 128 unused bytes each."""
    disk = gpt_disk(4 * MIB, [gpt_entry(LINUX, 100, 200), gpt_entry(HFS, 2048, 4095)], entry_size=256)
    hfs_plus(disk, MIB, MIB)
    assert [item.partition for item in search(disk).readable] == [2]


@pytest.mark.parametrize(
    ("place", "structure", "address"),
    [
        (512 + 24, "GPT header", 512),  # MyLBA: the header's checksum fails
        (512 + 16, "GPT header", 512),  # the checksum itself
        (512 + 12, "GPT header", 512 + 12),  # HeaderSize out of range
        (1024 + 200, "GPT entries", 1024),  # an entry: the array's checksum fails
    ],
)
def test_a_damaged_primary_leads_to_the_backup(disk, place, structure, address):
    """One changed byte gives a finding with the address of the failed check; the volumes are found all the same."""
    disk.data[place + 1] ^= 0xFF
    found = search(disk)
    assert [item.image_offset for item in found.readable] == [MIB, 2 * MIB]
    (finding,) = found.findings
    assert (finding.code, finding.level, finding.structure, finding.image_offset) == (
        "gpt-primary-damaged", "warning", structure, address,
    )  # fmt: skip


def test_a_primary_that_is_gone_is_replaced(disk):
    """Zeros over the first 34 sectors leave only the backup at the end."""
    disk.put(0, bytes(34 * 512))
    found = search(disk)
    assert [item.image_offset for item in found.readable] == [MIB, 2 * MIB]
    assert codes(found) == ["gpt-primary-damaged"]


def test_both_copies_damaged_leave_what_can_be_read(disk):
    """Without a whole copy, the damaged primary is used, and the finding is an error."""
    disk.data[1024 + 60] ^= 0xFF
    disk.data[-512 + 16] ^= 0xFF
    found = search(disk)
    assert [item.image_offset for item in found.readable] == [MIB, 2 * MIB]
    assert [(item.code, item.level) for item in found.findings] == [("gpt-primary-damaged", "error")]


def test_a_damaged_backup_is_told(disk):
    """The primary is used; the backup's damage is a warning."""
    disk.data[-512 + 24] ^= 0xFF
    found = search(disk)
    assert len(found.readable) == 2
    assert [(item.code, item.level, item.image_offset) for item in found.findings] == [
        ("gpt-backup-damaged", "warning", 4 * MIB - 512)
    ]


def test_an_image_that_is_cut_off_is_told(disk):
    """Without the last MiB, the backup is missing and the second partition, which ends at 4,096,512, is cut."""
    del disk.data[3 * MIB :]
    found = search(disk)
    assert sorted(codes(found)) == ["gpt-backup-missing", "partition-truncated"]
    assert found.candidates[1].size_bytes == MIB


def test_copies_that_differ_are_told(disk):
    """A whole backup with other partitions means that a tool wrote only one copy."""
    other = gpt_disk(4 * MIB, [gpt_entry(HFS, 2048, 4000)])
    disk.data[-17408:] = other.data[-17408:]
    assert codes(search(disk)) == ["gpt-copies-differ"]


def test_a_partition_outside_the_image():
    """A start past the end is a finding at the entry; the others are found."""
    disk = gpt_disk(4 * MIB, [gpt_entry(HFS, 2048, 4095), gpt_entry(HFS, 1 << 40, 1 << 41), gpt_entry(HFS, 90, 80)])
    hfs_plus(disk, MIB, MIB)
    found = search(disk)
    assert [item.partition for item in found.candidates] == [1]
    assert [(item.code, item.image_offset) for item in found.findings] == [
        ("partition-outside", 1024 + 128), ("partition-outside", 1024 + 256),
    ]  # fmt: skip


def test_partitions_that_overlap():
    """Two partitions that share sectors are reported, and both are found."""
    disk = gpt_disk(4 * MIB, [gpt_entry(HFS, 2048, 4095), gpt_entry(HFS, 4000, 6000)])
    hfs_plus(disk, MIB, MIB)
    hfs_plus(disk, 4000 * 512, 2001 * 512)
    found = search(disk)
    assert len(found.readable) == 2
    assert [(item.code, item.image_offset) for item in found.findings] == [("partition-overlap", 4000 * 512)]


def test_a_type_that_is_not_kept_is_told():
    """A partition of Apple's type with nothing in it is still probed, with a finding."""
    found = search(gpt_disk(4 * MIB, [gpt_entry(APFS, 2048, 4095)]))
    assert [(item.kind, item.label) for item in found.candidates] == [("apfs", "APFS")]
    assert [(item.code, item.level, item.image_offset) for item in found.findings] == [
        ("partition-content", "error", MIB)
    ]


NTFS_BOOT = b"\xeb\x52\x90NTFS    ".ljust(510, b"\0") + b"\x55\xaa"


@pytest.mark.parametrize(("kind", "held"), [(APFS, "NTFS"), (HFS, "NTFS"), (CORE_STORAGE, "NTFS"), (HFS, "APFS")])
def test_what_a_type_does_not_promise_is_told(kind, held):
    """The actual content is named next to the type, and all of it is read."""
    disk = gpt_disk(4 * MIB, [gpt_entry(kind, 2048, 4095), gpt_entry(HFS, 4096, 8000)])
    hfs_plus(disk, 2 * MIB, 3905 * 512)
    disk.put(MIB, NTFS_BOOT) if held == "NTFS" else apfs(disk, MIB)
    (finding,) = search(disk).findings
    assert (finding.code, finding.level, finding.image_offset) == ("partition-content", "warning", MIB)
    assert finding.message.endswith(f"but holds {held}")


@pytest.mark.parametrize("kind", [LINUX, "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"])
def test_a_type_that_promises_nothing_of_ours_is_not_judged(kind):
    """Basic data can hold anything: NTFS as well as HFS+."""
    for put in (lambda disk: disk.put(MIB, NTFS_BOOT), lambda disk: hfs_plus(disk, MIB, MIB)):
        disk = gpt_disk(4 * MIB, [gpt_entry(kind, 2048, 4095)])
        put(disk)
        assert search(disk).findings == ()


def test_classic_hfs_and_a_boot_record_keep_their_promise():
    """HFS has the type of HFS+; a boot record has one byte for both Apple file systems."""
    disk = gpt_disk(4 * MIB, [gpt_entry(HFS, 2048, 4095)])
    disk.put(MIB + 1024, b"BD")
    assert search(disk).findings == ()
    disk = Disk(4 * MIB).put(0, mbr((0xAF, 2048, 2048)))
    apfs(disk, MIB)
    assert [(item.kind, item.stack[0]) for item in search(disk).candidates] == [("apfs", "MBR")]
    assert search(disk).findings == ()


def test_core_storage_is_named():
    """A CoreStorage partition is recognised by its type."""
    disk = gpt_disk(4 * MIB, [gpt_entry(CORE_STORAGE, 2048, 4095)])
    disk.put(MIB + 8, bytes([1, 0, 0x10, 0])).put(MIB + 88, b"CS")
    found = search(disk)
    assert [(item.kind, item.stack) for item in found.candidates] == [
        ("corestorage", ("GPT", "partition 1", "CoreStorage"))
    ]
    assert found.readable == ()


def test_a_giant_array_is_not_read(disk):
    """A count of 2^32 - 1 entries is refused at its field; the backup is used."""
    disk.put(512 + 80, b"\xff\xff\xff\xff")
    found = search(disk)
    assert [(item.code, item.image_offset) for item in found.findings] == [("gpt-primary-damaged", 512 + 80)]
    assert len(found.readable) == 2


def test_a_damaged_count_of_no_entries(disk):
    """A header that claims no entries has a wrong checksum; without a backup, its volumes are found by search."""
    disk.put(512 + 80, bytes(4)).put(-512, bytes(512))
    found = search(disk)
    assert [item.image_offset for item in found.candidates] == [MIB]
    assert [(item.code, item.level) for item in found.findings] == [
        ("gpt-primary-damaged", "error"),
        ("volume-unpartitioned", "warning"),
    ]


def test_a_protective_record_is_no_partition(disk):
    """Type 0xEE over the whole disk is a region, not a partition."""
    disk.put(0, mbr((0xEE, 1, 8191)))
    found = search(disk)
    assert [item.scheme for item in found.partitions] == ["GPT", "GPT"]
    assert found.schemes == ("GPT",)
    assert ("mbr", 0) in [(item.type, item.image_offset) for item in found.regions]


def test_a_hybrid_record_adds_nothing_twice(disk):
    """Boot Camp disks list the same partitions in the MBR: each volume counts once, under the GPT."""
    disk.put(0, mbr((0xEE, 1, 2047), (0xAF, 2048, 2048)))
    found = search(disk)
    assert [item.stack[0] for item in found.candidates] == ["GPT", "GPT"]


def test_a_hybrid_record_out_of_step_is_no_damage():
    """The record has HFS+ in sector 4096 and past the end; the table leads to the volume in sector 2048."""
    disk = gpt_disk(4 * MIB, [gpt_entry(HFS, 2048, 4095)])
    disk.put(0, mbr((0xAF, 4096, 8192), (0xEE, 1, 2047)))
    hfs_plus(disk, MIB, MIB)
    found = search(disk)
    assert [item.image_offset for item in found.readable] == [MIB]
    told = {(item.code, item.level, item.image_offset) for item in found.findings}
    assert told == {("partition-truncated", "warning", 2 * MIB), ("partition-content", "warning", 2 * MIB)}
    assert not any("cut off" in item.message for item in found.findings)
