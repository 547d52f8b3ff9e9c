from __future__ import annotations

import numpy as np
import pytest

from layoutscope.errors import ImageError
from layoutscope.image import MemorySource
from layoutscope.image.failing import RescuedSource
from layoutscope.partition import choose, find_volumes
from tests.unit.partition.builders import HFS, Disk, apfs, apm, gpt_disk, gpt_entry, hfs_plus, search, wrapper

MIB = 1024**2


@pytest.mark.parametrize(("signature", "label"), [(b"H+", "HFS+"), (b"HX", "HFSX")])
def test_a_bare_hfs_plus_volume(signature, label):
    """A volume header at byte 1024 of an image without a map."""
    disk = Disk(MIB)
    hfs_plus(disk, 0, MIB, signature)
    (found,) = search(disk).candidates
    assert (found.kind, found.label, found.image_offset, found.size_bytes) == ("hfsplus", label, 0, MIB)
    assert (found.stack, found.partition) == ((label,), None)


def test_a_bare_container():
    """The magic NXSB at byte 32."""
    disk = Disk(MIB)
    apfs(disk, 0)
    assert [(item.kind, item.stack) for item in search(disk).candidates] == [("apfs", ("APFS",))]


def test_a_lost_volume_header_is_replaced_by_its_copy():
    """Zeros over the start leave the alternate header 1024 bytes before the end."""
    disk = Disk(MIB)
    hfs_plus(disk, 0, MIB)
    disk.put(0, bytes(4096))
    found = search(disk)
    assert [(item.kind, item.image_offset) for item in found.candidates] == [("hfsplus", 0)]
    assert [(item.code, item.level, item.image_offset) for item in found.findings] == [
        ("volume-header-lost", "error", 1024)
    ]


@pytest.mark.parametrize("in_partition", [True, False])
def test_a_copy_does_not_outlive_another_file_system(in_partition):
    """A stick formatted from HFS+ to exFAT keeps the copy at its end, but holds exFAT."""
    disk = gpt_disk(4 * MIB, [gpt_entry("EBD0A0A2-B9E5-4433-87C0-68B6B72699C7", 2048, 4095)])
    disk = disk if in_partition else Disk(MIB)
    start = MIB if in_partition else 0
    hfs_plus(disk, start, MIB)
    disk.put(start, b"\xeb\x76\x90EXFAT   ".ljust(510, b"\0") + b"\x55\xaa").put(start + 1024, bytes(512))
    found = search(disk)
    assert [item.kind for item in found.candidates] == ["exfat"]
    assert found.findings == ()


def lost_map(start: int, *, has_header: bool) -> Disk:
    """Return 2 MiB without a map; a volume of 250 blocks of 4 KiB begins at a given byte and ends with them."""
    disk = Disk(2 * MIB)
    header = (b"H+\0\4".ljust(40, b"\0") + (4096).to_bytes(4, "big") + (250).to_bytes(4, "big")).ljust(512, b"\0")
    disk.put(-1024, header)
    return disk.put(start + 1024, header) if has_header else disk


@pytest.mark.parametrize("spare", [0, 512, 3584])
def test_a_volume_behind_a_lost_map_begins_where_its_header_is(spare):
    """The copy at the end gives its length to within a block: up to 7 sectors may follow the last one."""
    start = 2 * MIB - 250 * 4096 - spare
    found = search(lost_map(start, has_header=True))
    (volume,) = found.candidates
    assert (volume.image_offset, volume.size_bytes) == (start, 250 * 4096 + spare)
    assert volume.stack == (f"byte {start}", "HFS+")
    assert [(item.code, item.level, item.image_offset) for item in found.findings] == [
        ("volume-unpartitioned", "info", start)
    ]


def test_a_copy_that_claims_huge_blocks_leads_to_the_start():
    """HFS+ has no blocks of 2 MiB: such a copy gives no length, and the volume is assumed to fill the disk."""
    disk = lost_map(0, has_header=False)
    disk.put(-1024 + 40, (2 * MIB).to_bytes(4, "big") + (0).to_bytes(4, "big"))
    assert [item.image_offset for item in search(disk).candidates] == [0]


def test_a_volume_behind_a_lost_map_whose_header_is_lost_too():
    """It is assumed to begin with the blocks that end with the disk, not at byte 0, which nothing confirms."""
    start = 2 * MIB - 250 * 4096
    found = search(lost_map(start, has_header=False))
    assert [item.image_offset for item in found.candidates] == [start]
    assert [(item.code, item.image_offset) for item in found.findings] == [
        ("volume-header-lost", start + 1024),
        ("start-uncertain", start),
        ("volume-unpartitioned", start),
    ]


def wrapped(embedded: bytes = b"H+") -> Disk:
    """Return a wrapper in an APM partition at 32 KiB.

    Its allocation blocks of 4 KiB count from its sector 20 on; the volume is in 100 of them from block 3 on.
    """
    disk = Disk(MIB)
    apm(disk, [("Apple", "Apple_partition_map", 1, 2), ("disk", "Apple_HFS", 64, 1900)])
    disk.put(32_768 + 1024, wrapper("Untitled", 4096, 20, 3, 100, embedded))
    return disk


START = 32_768 + 20 * 512 + 3 * 4096


def test_a_wrapped_volume_is_found():
    """The embedded volume starts at partition + 20 sectors + 3 blocks and is 100 blocks long."""
    disk = wrapped()
    hfs_plus(disk, START, 100 * 4096)
    found = search(disk)
    (volume,) = found.candidates
    assert (volume.kind, volume.image_offset, volume.size_bytes) == ("hfsplus", START, 409_600)
    assert volume.stack == ("APM", "partition 2", "HFS wrapper", "HFS+")
    assert ("hfs-wrapper", 32_768 + 1024) in [(item.type, item.image_offset) for item in found.regions]
    assert found.findings == ()


def test_a_wrapper_around_nothing_is_told():
    """A missing header of the embedded volume is a finding at its byte."""
    found = search(wrapped())
    assert [(item.code, item.image_offset) for item in found.findings] == [("volume-header-lost", START + 1024)]


def test_a_wrapper_that_leads_out_of_the_image_is_told():
    """An embedded volume past the end has no bytes, and gives a finding."""
    disk = wrapped()
    disk.put(32_768 + 1024, wrapper("Untitled", 2**31, 20, 65_535, 65_535))
    found = search(disk)
    assert "volume-header-lost" in [item.code for item in found.findings]
    assert found.candidates[0].size_bytes == 0


def test_classic_hfs_is_named():
    """A wrapper's signature without an embedded volume means classic HFS."""
    (found,) = search(wrapped(b"\0\0")).candidates
    assert (found.kind, found.label, found.name) == ("hfs", "HFS", "disk")
    assert not found.is_readable


def ext(compatible: int, incompatible: int) -> Disk:
    """Return an ext superblock: magic at 56, feature words at 92 and 96."""
    disk = Disk(MIB).put(1024 + 56, b"\x53\xef")
    return disk.put(1024 + 92, compatible.to_bytes(4, "little") + incompatible.to_bytes(4, "little"))


@pytest.mark.parametrize(
    ("disk", "label"),
    [
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
        (Disk(MIB), "unknown"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_file_systems_are_named(disk, label):
    """Each is recognised by its own magic at its own place."""
    (found,) = search(disk).candidates
    assert found.label == label
    assert not found.is_readable


def test_tiny_images_hold_nothing():
    """An image of one byte to a few sectors has no volume and gives no error."""
    for size in (1, 31, 35, 511, 512, 1023, 1026, 1100, 4095, 8192):
        assert [item.kind for item in search(Disk(size)).candidates] == ["unknown"]


def test_an_unread_start_is_told():
    """If the first sectors were never read, the copy of the header identifies the volume."""
    disk = Disk(MIB)
    hfs_plus(disk, 0, MIB)
    source = RescuedSource(MemorySource(bytes(disk.data)), np.array([[0, 4096]]))
    found = find_volumes(source)
    assert [item.kind for item in found.candidates] == ["hfsplus"]
    assert [(item.code, item.image_offset) for item in found.findings] == [
        ("unread-area", 0),
        ("volume-header-lost", 1024),
    ]


def test_nothing_is_claimed_about_unread_sectors():
    """With both headers unread, the volume is unknown, although the file still holds them."""
    disk = Disk(MIB)
    hfs_plus(disk, 0, MIB)
    source = RescuedSource(MemorySource(bytes(disk.data)), np.array([[1024, 512], [MIB - 1024, 512]]))
    found = find_volumes(source)
    assert [item.kind for item in found.candidates] == ["unknown"]
    assert [(item.code, item.image_offset) for item in found.findings] == [("unread-area", 1024)]


def test_a_gpt_whose_header_is_unread_is_replaced():
    """A bad sector at the primary header leads to the backup."""
    disk = gpt_disk(4 * MIB, [gpt_entry(HFS, 2048, 4095)])
    hfs_plus(disk, MIB, MIB)
    source = RescuedSource(MemorySource(bytes(disk.data)), np.array([[512, 512]]))
    found = find_volumes(source)
    assert [item.image_offset for item in found.readable] == [MIB]
    assert [item.code for item in found.findings] == ["gpt-primary-damaged"]


def test_a_start_that_is_unread_is_told_where_nothing_is_found():
    """The address says why a volume may not have been found there; a fully read disk has no such message."""
    source = MemorySource(bytes(MIB), "disk")
    holed = RescuedSource(source, np.array([[1024, 512]]))
    with pytest.raises(ImageError, match="volume found; byte 1,024 and what follows could not be read"):
        choose(holed, find_volumes(holed))
    with pytest.raises(ImageError, match=r"volume found; every sector of the image was searched\. --volume"):
        choose(source, find_volumes(source))
