from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutscope.errors import LayoutscopeError
from layoutscope.image import MemorySource
from layoutscope.partition import choose, find_volumes
from tests.unit.partition.builders import APFS, HFS, Disk, apm, gpt_disk, gpt_entry, hfs_plus, mbr, wrapper

MIB = 1024**2


def gpt_image() -> bytes:
    disk = gpt_disk(256 * 1024, [gpt_entry(HFS, 64, 200), gpt_entry(APFS, 201, 400)]).put(0, mbr((0xEE, 1, 511)))
    hfs_plus(disk, 64 * 512, 137 * 512)
    return bytes(disk.data)


def mbr_image() -> bytes:
    disk = (
        Disk(256 * 1024)
        .put(0, mbr((0xAF, 63, 100), (0x05, 200, 300)))
        .put(200 * 512, mbr((0xAF, 1, 50), (0x05, 60, 100)))
    )
    hfs_plus(disk, 63 * 512, 51_200)
    return bytes(disk.put(260 * 512, mbr((0xAF, 1, 50))).data)


def apm_image() -> bytes:
    disk = Disk(256 * 1024)
    apm(disk, [("Apple", "Apple_partition_map", 1, 3), ("a", "Apple_HFS", 64, 200), ("b", "Apple_HFS", 300, 100)])
    return bytes(disk.put(64 * 512 + 1024, wrapper("x", 512, 4, 2, 100)).data)


IMAGES = {"gpt": gpt_image(), "mbr": mbr_image(), "apm": apm_image()}
BYTES = st.binary(min_size=1, max_size=8) | st.sampled_from([b"\xff" * 4, b"\xff" * 8, bytes(8), b"\x7f" + b"\xff" * 7])


def survives(data: bytes) -> None:
    source = MemorySource(data, "mutated")
    found = find_volumes(source)
    for candidate in found.candidates:
        assert 0 <= candidate.size_bytes <= len(data)
    for region in found.regions:
        assert 0 <= region.image_offset <= region.image_offset + region.length_bytes <= len(data)
    for finding in found.findings:
        assert 0 <= (finding.image_offset or 0) < 2**63
    try:
        choose(source, found)
    except LayoutscopeError as error:
        assert "\n" not in str(error)  # noqa: PT017  (either outcome is right, but never another error)


@settings(max_examples=300)
@given(
    st.sampled_from(list(IMAGES)),
    st.lists(st.tuples(st.integers(0, 40_000), BYTES), min_size=1, max_size=6),
    st.integers(0, 256 * 1024),
)
def test_mutated_maps_end_in_findings(name, changes, cut):
    """For any bytes written into a map and any end of the image, the search ends with volumes and findings."""
    data = bytearray(IMAGES[name])
    for place, change in changes:
        data[place : place + len(change)] = change
    survives(bytes(data[: len(data) - cut]))


@settings(max_examples=200)
@given(
    st.binary(max_size=5000),
    st.sampled_from([b"", b"EFI PART", b"ER", b"PM", b"\x55\xaa", b"BD", b"H+", b"NXSB"]),
    st.integers(0, 4200),
)
def test_random_bytes_end_in_findings(data, magic, place):
    """No bytes crash the search, with any magic at any place."""
    disk = bytearray(data)
    disk[place : place + len(magic)] = magic
    survives(bytes(disk))


def test_a_full_table_of_partitions_takes_few_reads():
    entries = [gpt_entry(HFS, 3000 + n, 3000 + n) for n in range(128)]
    disk = gpt_disk(4 * MIB, entries)
    source = MemorySource(bytes(disk.data))
    assert len(find_volumes(source).candidates) == 128
    assert source.counter.reads < 10 * 128


@pytest.mark.parametrize("size", [1 << 60, (1 << 63) - 1])
def test_addresses_near_the_limit_do_not_overflow(size):
    """Sectors whose byte addresses exceed 64 bits count as outside the image."""
    disk = gpt_disk(MIB, [gpt_entry(HFS, size // 512, (1 << 64) - 1), gpt_entry(HFS, (1 << 64) - 2, (1 << 64) - 1)])
    found = find_volumes(MemorySource(bytes(disk.data)))
    assert [item.code for item in found.findings] == ["partition-outside"] * 2
