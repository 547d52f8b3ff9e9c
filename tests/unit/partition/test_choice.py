from __future__ import annotations

import pytest

from layoutscope.errors import ImageError, UnsupportedError, UsageError
from layoutscope.image import MemorySource
from layoutscope.partition import choose, find_volumes, select_name
from tests.cases import for_each
from tests.unit.partition.builders import CORE_STORAGE, HFS, LINUX, Disk, gpt_disk, gpt_entry, hfs_plus

MIB = 1024**2


NAMES = ["Macintosh HD", "Data", "Preboot", "1", "Same", "SAME"]


@pytest.fixture
def source():
    """Return HFS+ volumes in partitions 1 and 3, ext4 in 2, and an HFS+ volume at 3 MiB that is in no map."""
    disk = gpt_disk(6 * MIB, [gpt_entry(HFS, 2048, 3000), gpt_entry(LINUX, 3001, 4000), gpt_entry(HFS, 4096, 6000)])
    hfs_plus(disk, MIB, 953 * 512)
    disk.put(3001 * 512 + 1024 + 56, b"\x53\xef")
    hfs_plus(disk, 2 * MIB, 1905 * 512)
    hfs_plus(disk, 3 * MIB + 512 * 1024, MIB)
    return MemorySource(bytes(disk.data), "disk.img")


def offsets(source, **wish):
    return [item.image_offset for item in choose(source, find_volumes(source), **wish)]


def test_volumes_are_chosen_by_number_or_place(source):
    """Without a choice, both HFS+ partitions; with a byte, also a volume that is in no map."""
    assert offsets(source) == [MIB, 2 * MIB]
    assert offsets(source, partition=3) == [2 * MIB]
    assert offsets(source, volume_at=2 * MIB) == [2 * MIB]
    (found,) = choose(source, find_volumes(source), volume_at=3 * MIB + 512 * 1024)
    assert found.stack == (f"byte {3 * MIB + 512 * 1024}", "HFS+")


@for_each(
    "wish, message",
    [
        ({"partition": 4}, "there are partitions 1, 2, 3"),
        ({"volume_at": 5 * MIB}, "no volume starts at byte 5,242,880"),
        ({"volume_at": 6 * MIB - 1}, "no volume starts at"),
        ({"volume_at": 6 * MIB}, "outside the image"),
        ({"volume_at": -1}, "outside the image"),
        ({"volume_at": 0}, "no volume starts at byte 0"),
    ],
)
def test_a_wrong_number_or_byte_is_named(source, wish, message):
    """It is a usage error in one line."""
    with pytest.raises(UsageError, match=message):
        offsets(source, **wish)


def test_what_is_not_read_or_searched_is_named(source):
    """Other file systems are named, and not searched."""
    # A request for the ext2 partition names its file system.
    with pytest.raises(UnsupportedError, match="GPT > partition 2 > ext2") as caught:
        offsets(source, partition=2)
    assert caught.value.code == "foreign-file-system"
    # An image filled by XFS, and one with only the last header of HFS+, are not searched; zeros are.
    copy = Disk(MIB)
    hfs_plus(copy, 0, MIB)
    copy.put(1024, bytes(512))
    for disk, words in ((Disk(MIB).put(0, b"XFSB"), ""), (copy, ""), (Disk(MIB), "every sector of the image")):
        assert find_volumes(MemorySource(bytes(disk.data))).searched == words


@pytest.mark.parametrize(
    ("disk", "code"),
    [
        (gpt_disk(2 * MIB, [gpt_entry(CORE_STORAGE, 100, 200)]), "core-storage"),
        (Disk(MIB).put(1024, b"BD"), "classic-hfs"),
        (Disk(MIB).put(0, b"XFSB"), "foreign-file-system"),
    ],
)
def test_each_refusal_has_its_code(disk, code):
    """CoreStorage, classic HFS and other file systems have different codes."""
    with pytest.raises(UnsupportedError) as caught:
        offsets(MemorySource(bytes(disk.data), "disk.img"))
    assert caught.value.code == code
    assert "\n" not in str(caught.value)


def test_zeros_hold_no_volume():
    """The one-line error says that every sector was searched, if it was."""
    source = MemorySource(bytes(MIB), "disk.img")
    words = r"volume found; every sector of the image was searched\. --volume-at BYTES .* --sweep "
    with pytest.raises(ImageError, match=rf"disk\.img: no HFS\+ or APFS {words}"):
        offsets(source)
    with pytest.raises(ImageError, match=r"volume found\. --volume-at BYTES .* --sweep searches every sector"):
        choose(source, find_volumes(source, depth="maps"))


@for_each(
    "names, wanted, expected",
    [
        *((NAMES, wanted, index) for wanted, index in (("Data", 1), ("macintosh hd", 0), ("3", 2), ("1", 3))),
        *((NAMES, wanted, f"'{wanted}'") for wanted in ("same", "0", "x")),
        (["Data", "Other"], "2", 1),
        (["Data", "Other"], "3", r"no volume '3'.*Choose from: 1 'Data', 2 'Other'"),
        (["Data", "data"], "DATA", r"2 volumes are named 'DATA'\. Choose by number, 1 to 2"),
    ],
)
def test_volumes_by_name_or_number(names, wanted, expected):
    """A name takes precedence over a number: the fourth volume is called 1; ambiguous and unknown names are errors."""
    if isinstance(expected, int):
        assert select_name(names, wanted) == expected
    else:
        with pytest.raises(UsageError, match=expected):
            select_name(names, wanted)
