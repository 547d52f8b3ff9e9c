"""Volumes outside partitions: found behind a deleted entry, while empty space gives no finding."""

from __future__ import annotations

import pytest

from fixtures.hfsplus.plan import Tree, VolumePlan
from fixtures.hfsplus.scenarios import folders
from fixtures.hfsplus.writer import render
from layoutscope import check, scan
from layoutscope.image import MemorySource
from layoutscope.partition.search import find_volumes, find_volumes_in_gaps
from layoutscope.report.text.scan import screen_lines
from tests.cases import for_each
from tests.unit.partition.builders import (
    APFS,
    HFS,
    LINUX,
    Disk,
    apfs,
    findings_of,
    gpt_disk,
    gpt_entry,
    hfs_plus,
    mbr,
    search,
)

MIB = 1024**2
VOLUME = VolumePlan(total_blocks=256)
"""A volume of a MiB."""


def gaps(disk: Disk) -> list[tuple[str, int, int]]:
    """Return kind, start and space of each volume outside partitions."""
    found = find_volumes_in_gaps(MemorySource(bytes(disk.data)), search(disk))
    return [(item.kind, item.image_offset, item.size_bytes) for item in found]


def two_partitions(second: bytes | None) -> Disk:
    """Return 4 MiB: HFS+ in sectors 2048 to 4095, with or without an entry after it."""
    disk = gpt_disk(4 * MIB, [gpt_entry(HFS, 2048, 4095), *([second] if second else [])])
    hfs_plus(disk, MIB, MIB)
    return disk


@pytest.mark.parametrize(
    ("disk", "expected"),
    [
        # A container at sector 4096 has no entry; its space extends to the backup's entries.
        (apfs(two_partitions(None), 2 * MIB), [("apfs", 2 * MIB, 2 * MIB - 512 - 16_384)]),
        # The first sector after the entries, and the first whole 4 KiB after them, are examined.
        (apfs(two_partitions(None), 34 * 512), [("apfs", 34 * 512, MIB - 34 * 512)]),
        (apfs(two_partitions(None), 40 * 512), [("apfs", 40 * 512, MIB - 40 * 512)]),
        (two_partitions(None), []),
        # A container at sector 4096 belongs to a partition there, whatever its type.
        (apfs(two_partitions(gpt_entry(APFS, 4096, 8000)), 2 * MIB), []),
        (apfs(two_partitions(gpt_entry(LINUX, 4096, 8000)), 2 * MIB), []),
        (apfs(Disk(4 * MIB).put(0, mbr((0xAF, 2048, 2048), (0x83, 4096, 4095))), 2 * MIB), []),
        # Without a map there is no gap: a container at 1 MiB may be a file's content.
        (apfs(hfs_plus(Disk(4 * MIB), 0, 4 * MIB), MIB), []),
    ],
)
def test_volumes_outside_of_partitions(disk, expected):
    assert gaps(disk) == expected


@pytest.mark.parametrize(("before_end", "is_found"), [(1536, True), (1024, False)])
def test_a_volume_in_the_first_mib_of_a_gap(before_end, is_found):
    """Its header, the third of its sectors, is the last sector that is examined, or is after it."""
    disk = gpt_disk(6 * MIB, [gpt_entry(HFS, 2048, 4095)])
    hfs_plus(disk, MIB, MIB)
    start = 3 * MIB - before_end
    hfs_plus(disk, start, MIB)
    assert gaps(disk) == [("hfsplus", start, 6 * MIB - 512 - 16_384 - start)] * is_found


@pytest.mark.parametrize(("hole", "expected"), [(63, 1), (64, 0)])
def test_a_map_full_of_holes_is_looked_at_in_part(hole, expected):
    """The first 64 of 100 holes of 4 KiB, each after a partition of that size, are examined."""
    disk = gpt_disk(
        2 * MIB, [gpt_entry(LINUX, 34, 39), *(gpt_entry(LINUX, 48 + 16 * k, 55 + 16 * k) for k in range(100))]
    )
    apfs(disk.put(0, mbr((0xEE, 1, 4095))), (40 + 16 * hole) * 512)
    assert len(gaps(disk)) == expected


def written(path, volume: bytes, *, gap_bytes: int = 2 * MIB, spoil: bytes = b""):
    """Write a disk with a volume in a partition, and a copy of it after the partition."""
    last = 2 * MIB // 512 - 1
    disk = gpt_disk(2 * MIB + gap_bytes, [gpt_entry(HFS, 2048, last)])
    disk.put(MIB, volume).put(2 * MIB, (volume + bytes(MIB))[: gap_bytes - 33 * 512])
    if spoil:
        disk.put(2 * MIB + 1024 + 40, spoil)
    path.write_bytes(disk.data)
    return path


@pytest.fixture(scope="module")
def volume() -> bytes:
    """Return a volume of 1 MiB."""
    return bytes(render(VOLUME)[0].to_bytearray())


def test_check_and_scan_report_where_the_volume_is(tmp_path, volume):
    """The second volume is named with its size and the option that reads it; it is not damage.

    The first screen has a line about it, except for a volume that was requested.
    """
    path = written(tmp_path / "disk.img", volume)
    for found in (check(path), scan(path, drives=())):
        (finding,) = found.findings
        assert (finding.code, finding.level, finding.image_offset) == ("volume-unpartitioned", "info", 2 * MIB)
        assert "HFS+ of 1.00 MiB" in finding.message
        assert f"--volume-at {2 * MIB}" in finding.message
        assert found.exit_code == 0
    screen = " ".join(line.plain.strip() for line in screen_lines(found))
    assert "Outside of the partitions: at byte 2,097,152: HFS+ of 1.00 MiB begins here" in screen
    assert "Outside of the partitions" not in " ".join(map(str, screen_lines(scan(path, drives=(), volume_at=2 * MIB))))
    assert len(check(path, volume_at=2 * MIB).volumes) == 1


def test_check_says_nothing_of_what_cannot_be_read_or_is_larger(tmp_path, volume):
    """A header with a block size of zero leads nowhere; a volume larger than the gap is an older one."""
    assert findings_of(check(written(tmp_path / "no.img", volume, spoil=bytes(4)))) == []
    assert findings_of(check(written(tmp_path / "larger.img", volume, gap_bytes=MIB))) == []


GAP = 2 * MIB + 63 * 512


def after_a_partition(volume, start: int, *entries: tuple[int, int, int]) -> Disk:
    """Return 5 MiB with one volume in sector 2048, in a partition of type AF unless others are given, and another."""
    return Disk(5 * MIB).put(0, mbr(*(entries or [(0xAF, 2048, 2048)]))).put(MIB, volume).put(start, volume)


@for_each(
    "place, expected",
    [
        # After the unreferenced record of a logical partition, within the first MiB of the gap.
        *((lambda one, at=2 * MIB + sector * 512: after_a_partition(one, at), 2 * MIB + sector * 512)
          for sector in (63, 1000, 2045)),
        # The record of the first logical partition of an extended one whose type is lost is in sector 4096.
        (lambda one: after_a_partition(one, GAP, (0xAF, 2048, 2048), (0x7E, 4096, 6144)).put(
            2 * MIB, mbr((0xAF, 63, 2048))), GAP),
        # One volume is found at the start of a partition of another type, and an older one after it.
        *((lambda one, kind=kind: after_a_partition(one, GAP, (kind, 2048, 8192)), GAP)
          for kind in (0xE6, 0x07, 0x83)),
        # The gap at the end is shorter than the volume only because the image is cut.
        *((lambda one, cut=cut: cut_off(after_a_partition(one, GAP), 2 * MIB - 63 * 512 + cut), GAP)
          for cut in (512, 4096, MIB // 2)),
        # The disk lost its first sectors with the map; the first volume begins the image and ends before the other.
        (lambda one: Disk(3 * MIB).put(0, one).put(MIB + 4096, one), MIB + 4096),
        (lambda one: Disk(2 * MIB).put(0, one), None),
        # A volume that fills its partition of a lost type: its second header is its own, not that of another volume.
        (lambda one: Disk(5 * MIB).put(0, mbr((0xE6, 2048, 2048))).put(MIB, one), None),
        # A protective entry remains if a disk is copied to a smaller one and its GPT is rewritten.
        (lambda one: gpt_disk(4 * MIB, [gpt_entry(HFS, 2048, 4095)]).put(
            MIB, one).put(0, mbr((0xEE, 1, 16_383))), None),
    ],
)  # fmt: skip
def test_volumes_in_gaps_are_found_by_a_scan(tmp_path, volume, place, expected):
    """Only the first volume is read; its own structures say where it ends."""
    path = tmp_path / "disk.img"
    path.write_bytes(place(volume).data)
    found = scan(path, drives=())
    assert findings_of(found) == [("volume-unpartitioned", "info", expected)] * (expected is not None)
    assert len(found.volumes) == 1


def cut_off(disk: Disk, end_bytes: int) -> Disk:
    """Return a disk without its last bytes."""
    del disk.data[-end_bytes:]
    return disk


def test_gaps_end_with_the_disk_and_with_partitions(volume):
    """Volumes have the space of their gap, and no more."""
    # It begins 63 sectors after the partition, and the gap ends with the disk of 5 MiB.
    assert gaps(after_a_partition(volume, GAP)) == [("hfsplus", GAP, 3 * MIB - 63 * 512)]
    # A volume in the middle of a gap is found, but not one that extends into a partition.
    disk = gpt_disk(8 * MIB, [gpt_entry(HFS, 2048, 4095), gpt_entry(LINUX, 12288, 14335)])
    disk.put(MIB, volume).put(3 * MIB + 512, volume).put(5 * MIB + 512, volume)
    source = MemorySource(bytes(disk.data))
    found = find_volumes(source, depth="everywhere")
    assert [(item.image_offset, item.partition) for item in found.readable] == [(MIB, 1), (3 * MIB + 512, None)]
    assert [(item.code, item.image_offset) for item in found.findings] == [("volume-unpartitioned", 3 * MIB + 512)]
    assert [item.image_offset for item in find_volumes(source).readable] == [MIB]
    # Nothing is reported about a volume that is left out: this one has no header, and its copy is after the partition.
    disk = gpt_disk(8 * MIB, [gpt_entry(HFS, 2048, 4095), gpt_entry(LINUX, 11264, 11271)])
    disk.put(MIB, volume).put(5 * MIB, volume).put(5 * MIB + 1024, bytes(512))
    found = find_volumes(MemorySource(bytes(disk.data)), depth="everywhere")
    assert ([item.image_offset for item in found.readable], found.findings) == ([MIB], ())


@pytest.mark.parametrize("off", [-9, -8, -1, 1, 2, 7, 8, 63])
def test_a_volume_beside_the_sector_that_an_entry_names(tmp_path, off):
    """The entry has the right length, but its start is some sectors off, so no address is taken from it.

    Another volume ends with the image, whose second header is no copy of the one that the entry names.
    """
    small = render(VolumePlan(block_size=512, total_blocks=600, root=folders(2, 4), catalog=Tree(512)))[
        0
    ].to_bytearray()
    starts = 2048 * 512, 4000 * 512
    rows = (0xAF, 2048 + off, 600), (0xAF, 4000, 600)
    disk = Disk(4600 * 512).put(0, mbr(*rows))
    for start in starts:
        disk.put(start, small)
    path = tmp_path / "disk.img"
    path.write_bytes(disk.data)
    for run in scan, check:
        found = run(path)
        assert [item.layout.facts.image_offset for item in scan(path, drives=()).volumes] == [starts[1]]
        codes = [(item.code, item.image_offset) for item in found.findings if item.code != "structure-invalid"]
        assert codes == [("partition-content", starts[0] + off * 512), ("volume-unpartitioned", starts[0])]
        assert found.exit_code == 3


def test_a_volume_in_a_gap_is_not_read(tmp_path, volume):
    """Its own structures confirm it: a volume of 3 files and one of 300 cost the same bytes."""
    read = set()
    for files in (1, 100):
        other = render(VolumePlan(root=folders(3, files, 100), total_blocks=512))[0].to_bytearray()
        path = tmp_path / f"{files}.img"
        disk = Disk(5 * MIB).put(0, mbr((0xAF, 2048, 2048))).put(MIB, volume).put(2 * MIB, other)
        path.write_bytes(disk.data)
        found = scan(path, drives=())
        assert findings_of(found) == [("volume-unpartitioned", "info", 2 * MIB)]
        read.add(found.image.read_bytes)
    assert len(read) == 1


@pytest.mark.parametrize(("sectors", "is_cut"), [(16_383, True), (10_239, False), (0xFFFF_FFFF, False)])
def test_a_protective_entry_beyond_the_end_tells_of_a_cut_image(tmp_path, volume, sectors, is_cut):
    """No volume is damaged, and the lost map is unknown: 16,384 sectors are 8 MiB, of which 5 are present."""
    path = tmp_path / "disk.img"
    path.write_bytes(Disk(5 * MIB).put(0, mbr((0xEE, 1, sectors))).put(MIB, volume).data)
    found = [item for item in scan(path, drives=()).findings if item.code == "partition-truncated"]
    said = "partition 1 ends at 8,388,608, the image ends at byte 5,242,880: the image is cut off"
    assert [(item.level, item.message) for item in found] == ([("warning", said)] if is_cut else [])
