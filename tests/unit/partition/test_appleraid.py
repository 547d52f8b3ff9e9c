"""Members of AppleRAID sets, recognised by their headers: a mirror is read, others are refused by name."""

from __future__ import annotations

import pytest

from layoutscope.errors import UnsupportedError
from layoutscope.image import MemorySource
from layoutscope.partition import choose, find_volumes
from tests.cases import for_each
from tests.unit.partition.builders import (
    HFS,
    Disk,
    apm,
    former_raid_header,
    gpt_disk,
    gpt_entry,
    hfs_plus,
    raid_header,
    search,
)

MIB = 1024**2
RAID = "52414944-0000-11AA-AA11-00306543ECAC"
RAID_OFFLINE = "52414944-5F4F-11AA-AA11-00306543ECAC"
MEMBERS = ["AAAA-1", "BBBB-2"]


def member(level: str, number: int, *, kind: str = RAID, volume: int = MIB) -> Disk:
    """Return a GPT with a member in sectors 2048 to 4111: a volume followed by the header."""
    disk = gpt_disk(4 * MIB, [gpt_entry(kind, 2048, 4111)])
    if number == 0 or level == "Mirror":
        hfs_plus(disk, MIB, volume)
    return disk.put(2 * MIB + 4096, raid_header(level, MEMBERS, MEMBERS[number], "D &amp; E"))


def refused(disk: Disk) -> UnsupportedError:
    with pytest.raises(UnsupportedError) as caught:
        choose(MemorySource(bytes(disk.data), "disk"), search(disk))
    return caught.value


def former(level: int, number: int) -> Disk:
    """Return an Apple map with a member of before 10.4, whose header is at its start."""
    disk = Disk(4 * MIB).put(MIB, former_raid_header(level, number))
    return apm(disk, [("Apple", "Apple_partition_map", 1, 3), ("RAID", "Apple_RAID", 2048, 4096)])


@for_each(
    "disk, start, stack",
    [
        # Every member of a mirror has the whole volume from its first block on.
        *((member("Mirror", number, kind=kind), MIB, ("GPT", "partition 1", "AppleRAID mirror", "HFS+"))
          for number in (0, 1) for kind in (RAID, RAID_OFFLINE)),
        # Before 10.4, the volume is 4,096 bytes after the start of the partition.
        (hfs_plus(former(1, 0), MIB + 4096, MIB), MIB + 4096, ("APM", "partition 2", "AppleRAID mirror", "HFS+")),
        # A concatenation of one member is complete.
        (hfs_plus(gpt_disk(4 * MIB, [gpt_entry(RAID, 2048, 4111)]), MIB, MIB).put(
            2 * MIB + 4096, raid_header("Concat", MEMBERS[:1], MEMBERS[0])),
         MIB, ("GPT", "partition 1", "AppleRAID concat", "HFS+")),
        # A header in a partition of type HFS+ means nothing.
        (member("Stripe", 0, kind=HFS), MIB, ("GPT", "partition 1", "HFS+")),
    ],
)  # fmt: skip
def test_members_are_read_and_name_their_layer(disk, start, stack):
    found = search(disk)
    assert [(item.image_offset, item.stack) for item in found.readable] == [(start, stack)]
    assert found.findings == ()


@for_each(
    "disk, kind, about",
    [
        # With a single whole unit of 4,096 bytes, a header in the last unit would be at the start as well.
        *((Disk(size).put(0, former_raid_header(0, 1)), "AppleRAID stripe", "member 2 of 2 of set 'Data'")
          for size in (4096, 8191, 8192)),
        (former(0, 1), "AppleRAID stripe", "member 2 of 2 of set 'Data'"),
        (former(0x100, 1), "AppleRAID concat", "member 2 of 2 of set 'Data'"),
        # The header states its 4,096 bytes.
        (Disk(MIB).put(0, former_raid_header(0, 1)).put(16, (4097).to_bytes(4, "big")), "unknown", ""),
    ],
)  # fmt: skip
def test_sets_of_before_10_4_are_named(disk, kind, about):
    (found,) = search(disk).candidates
    assert (found.label, found.about, found.is_readable) == (kind, about, False)


@pytest.mark.parametrize(("level", "number"), [("Stripe", 0), ("Stripe", 1), ("Concat", 1), ("LVG", 0)])
def test_what_lies_on_several_members_is_named(level, number):
    """A stripe begins like a volume but has half of it: no damage is reported, and nothing is read."""
    error = refused(member(level, number, volume=2 * MIB))
    assert error.code == "apple-raid"
    assert f"AppleRAID {level.lower()} (1.01 MiB): member {number + 1} of 2 of set 'D & E'" in str(error)
    assert "diskutil appleRAID list" in error.advice


def test_the_first_member_of_a_concatenation_is_read_as_far_as_it_goes():
    """Its addresses are right; an error says that the rest is on other members."""
    found = search(member("Concat", 0, volume=2 * MIB))
    assert [item.image_offset for item in found.readable] == [MIB]
    (finding,) = (item for item in found.findings if item.code == "image-incomplete")
    assert (finding.level, finding.image_offset) == ("error", MIB)
    assert "member 1 of 2" in finding.message


def test_members_alone_and_unread():
    """Headers are found without a map; what is unread or before them does not count."""
    # The header is searched for without a map as well.
    disk = Disk(MIB + 4096).put(-4096, raid_header("Stripe", MEMBERS, MEMBERS[0]))
    hfs_plus(disk, 0, MIB)
    assert "holds AppleRAID stripe (1.00 MiB): member 1 of 2" in str(refused(disk))
    mirror = Disk(MIB + 4096).put(-4096, raid_header("Mirror", MEMBERS, MEMBERS[1]))
    hfs_plus(mirror, 0, MIB)
    assert [item.stack for item in search(mirror).readable] == [("AppleRAID mirror", "HFS+")]
    # Its level is unknown, so nothing is read from it.
    import numpy as np

    from layoutscope.image.failing import RescuedSource

    disk = member("Mirror", 0)
    source = RescuedSource(MemorySource(bytes(disk.data), "disk"), np.array([[2 * MIB + 4096 + 512, 512]]))
    assert [item.kind for item in find_volumes(source, depth="maps").candidates] == ["appleraid"]
    # The 64 bytes before the header have a property list, which may belong to a file of the volume.
    disk = member("Stripe", 0, volume=2 * MIB)
    other = b"<key>AppleRAID-SetName</key><string>Other</string>"
    disk.put(2 * MIB + 4096 - len(other), other)
    assert "member 1 of 2 of set 'D & E'" in str(refused(disk))


@pytest.mark.parametrize("level", ["Stripe", "Concat"])
def test_a_member_that_its_set_does_not_list_has_no_number(level):
    """It begins with its partition and has all of its 1,056,768 bytes."""
    disk = gpt_disk(4 * MIB, [gpt_entry(RAID, 2048, 4111)])
    hfs_plus(disk, MIB, MIB)
    disk.put(2 * MIB + 4096, raid_header(level, MEMBERS, "CCCC-3"))
    (found,) = search(disk).candidates
    assert (found.kind, found.image_offset, found.size_bytes) == ("appleraid", MIB, MIB + 8192)
    assert found.about == "a member of set 'Data'"
