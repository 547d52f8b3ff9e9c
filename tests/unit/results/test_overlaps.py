"""Overlapping volumes: each is reported with both addresses, and reading all of them is bounded."""

from __future__ import annotations

import struct

import pytest

from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render
from layoutscope import scan
from layoutscope.api import reading
from tests.unit.partition.builders import HFS, gpt_disk, gpt_entry

BLOCK = 4096
SECTORS = BLOCK // 512
START = 64
"""Block of the first volume, after the entries of the table."""
HEADER = 1024
FORKS = (112, 192, 272, 352, 432)
"""Forks of special files in a volume header; their extents are 16 bytes further on (TN1150, Volume Header)."""


@pytest.fixture(scope="module")
def volume():
    """Return the bytes of a volume."""
    return bytes(render(SCENARIOS["populated"])[0].to_bytearray())


def overlapping(volume, count):
    """Write headers one block apart, each for a volume with the same special files, and a partition for each."""
    num_blocks = len(volume) // BLOCK
    blocks = count + num_blocks
    last = (START + blocks) * SECTORS - 1
    entries = [gpt_entry(HFS, (START + number) * SECTORS, last) for number in range(count)]
    disk = gpt_disk((2 * START + blocks) * BLOCK, entries)
    disk.put((START + count) * BLOCK, volume)
    for number in range(count):
        header = bytearray(volume[HEADER : HEADER + 512])
        struct.pack_into(">I", header, 44, blocks - number)
        for place in range(FORKS[0] + 16, FORKS[-1] + 80, 8):
            start, length = struct.unpack_from(">II", header, place)
            if (place - FORKS[0]) % 80 >= 16 and length:
                struct.pack_into(">I", header, place, start + count - number)
        disk.put((START + number) * BLOCK + HEADER, bytes(header))
    return bytes(disk.data)


def overlaps_of(found):
    """Return level, place and message of the findings about overlapping volumes."""
    return [(item.level, item.image_offset, item.message) for item in found.findings if item.code == "volumes-overlap"]


def test_volumes_that_overlap_are_reported_with_both_addresses(volume, tmp_path):
    """A few are all read; a warning for each but the first says which one it overlaps."""
    (tmp_path / "disk.img").write_bytes(overlapping(volume, 3))
    found = scan(tmp_path / "disk.img", drives=())
    starts = [(START + number) * BLOCK for number in range(3)]
    stop = (START + 3) * BLOCK + len(volume)
    assert [item.layout.facts.image_offset for item in found.volumes] == starts
    words = f"overlaps the volume at byte {starts[0]:,}, which ends at {stop:,}"
    assert overlaps_of(found) == [("warning", start, words) for start in starts[1:]]


def test_the_work_for_overlapping_volumes_has_a_bound(volume, tmp_path, monkeypatch):
    """They may have as much metadata as the others: besides one that overlaps none, one is read, but no third."""
    (tmp_path / "one.img").write_bytes(overlapping(volume, 1))
    one = scan(tmp_path / "one.img", drives=()).image.read_bytes
    monkeypatch.setattr(reading, "FREE_BYTES", 0)
    (tmp_path / "disk.img").write_bytes(overlapping(volume, 40))
    found = scan(tmp_path / "disk.img", drives=())
    assert len(found.volumes) == 2
    told = overlaps_of(found)
    assert [level for level, _, _ in told] == ["warning"] + ["error"] * 38
    assert "it was not read, since others that overlap had" in told[-1][2]
    assert found.exit_code == 3
    # Finding volumes takes some blocks per partition.
    assert found.image.read_bytes < 3 * one + 40 * 16 * BLOCK


def test_what_overlaps_is_swept_no_more_than_the_image_is_long(volume, tmp_path):
    """Of 40 volumes over the same bytes, a sweep covers the length of the image; the rest are read without one."""
    data = overlapping(volume, 40)
    (tmp_path / "disk.img").write_bytes(data)
    plain, swept = (scan(tmp_path / "disk.img", drives=(), sweep=sweep) for sweep in (False, True))
    assert len(swept.volumes) == len(plain.volumes) == 40
    assert swept.image.read_bytes - plain.image.read_bytes < 2 * len(data)
    left = [message for _, _, message in overlaps_of(swept) if "it was not swept" in message]
    assert len(left) == 39


def test_volumes_one_behind_the_other_are_all_swept(volume, tmp_path):
    """They do not overlap, so there is no message and no omission."""
    size = len(volume) // 512
    starts = [START * SECTORS + number * size for number in range(3)]
    disk = gpt_disk((3 * size + 2 * START * SECTORS) * 512, [gpt_entry(HFS, at, at + size - 1) for at in starts])
    for start in starts:
        disk.put(start * 512, volume)
    (tmp_path / "disk.img").write_bytes(bytes(disk.data))
    plain, swept = (scan(tmp_path / "disk.img", drives=(), sweep=sweep) for sweep in (False, True))
    assert overlaps_of(swept) == overlaps_of(plain) == []
    assert swept.image.read_bytes - plain.image.read_bytes >= 3 * len(volume) * 0.9


def test_partitions_that_hold_nothing_are_not_swept_again_and_again(volume, tmp_path):
    """Each has the type of HFS+ but no volume start, and would be searched to the end of the disk."""
    data = bytearray(overlapping(volume, 40))
    start = (START + 1) * BLOCK
    data[start : -START * BLOCK] = bytes(len(data) - start - START * BLOCK)
    (tmp_path / "disk.img").write_bytes(data)
    found = scan(tmp_path / "disk.img", drives=(), sweep=True)
    assert found.image.read_bytes < 4 * len(data)
