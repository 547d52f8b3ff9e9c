"""Apple's sparse images of macOS 26, compared with images written in the test and with hand arithmetic."""

from __future__ import annotations

import os
import struct
import subprocess
import sys

import numpy as np
import pytest

import layoutscope
from fixtures.asif import DIRECTORIES, PARTIAL, WHOLE, Plan, asif
from fixtures.hfsplus.plan import VolumePlan
from fixtures.hfsplus.scenarios import folders
from fixtures.hfsplus.writer import write
from layoutscope.errors import FormatError, TruncatedError, UnreadError, UnsupportedError
from layoutscope.image import MemorySource
from layoutscope.image.containers.asif import open_asif
from layoutscope.image.opening import open_image, unwrap
from layoutscope.tables import TABLES

CHUNK, SECTOR = 32768, 512
MEBIBYTE, GIBIBYTE = 1 << 20, 1 << 30
TABLE = 5
"""Chunk of the file that holds the table of `DISK`: after three chunks of data and one of metadata."""


def noise(length: int, seed: int = 1) -> bytes:
    return np.random.default_rng(seed).integers(1, 255, length, dtype=np.uint8).tobytes()


DISK = noise(CHUNK) + bytes(CHUNK) + noise(CHUNK, 2) + noise(CHUNK, 3)


def opened(plan: Plan, **changes: bytes):
    return open_asif(MemorySource(changed(asif(plan), **changes)))


def changed(data: bytes, **changes: bytes) -> bytes:
    """Put other bytes at the places given in the names, after an underscore."""
    image = bytearray(data)
    for name, value in changes.items():
        image[int(name[1:]) : int(name[1:]) + len(value)] = value
    return bytes(image)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_disk_reads_back(swapped):
    """Stored, absent and released chunks, and the space after them, read back with either directory."""
    source = unwrap(MemorySource(asif(Plan(DISK, more_sectors=300_000, unmapped=frozenset({1}), swapped=swapped))))
    assert source.size_bytes == len(DISK) + 300_000 * SECTOR
    assert source.read(0, len(DISK) + 4096) == DISK + bytes(4096)
    assert source.read(CHUNK - 5, CHUNK + 10) == DISK[CHUNK - 5 : 2 * CHUNK + 5]
    assert source.read(source.size_bytes - 1, 1) == b"\0"
    assert source.holes.tolist() == [[CHUNK, CHUNK], [4 * CHUNK, 300_000 * SECTOR]]
    with pytest.raises(TruncatedError):
        source.read(source.size_bytes - 1, 2)


def test_sectors_of_any_state_and_size():
    """The bitmap decides sector by sector."""
    # In a partial chunk the bitmap decides sector by sector, whatever the file holds.
    rng = np.random.default_rng(5)
    sectors = [
        noise(SECTOR, 10 + place) if rng.random() < 0.5 else bytes(SECTOR) for place in range(4 * CHUNK // SECTOR)
    ]
    disk = b"".join(sectors)
    source = opened(Plan(disk, partial=frozenset({0, 2, 3})))
    assert source.read(0, len(disk)) == disk
    for at, length in rng.integers(0, len(disk) // 2, (200, 2)).tolist():
        assert source.read(at, length) == disk[at : at + length]
    # States 2 and 3 have never been observed, so the contents of such a sector are not guessed.
    image = asif(Plan(noise(CHUNK), partial=frozenset({0}), with_metadata=False))
    at = image.index(b"\x55" * (CHUNK // SECTOR // 4))
    source = open_asif(MemorySource(changed(image, **{f"_{at}": b"\x95"})))
    assert source.read(4 * SECTOR, SECTOR) == noise(CHUNK)[4 * SECTOR : 5 * SECTOR]
    with pytest.raises(FormatError) as caught:
        source.read(0, CHUNK)
    assert caught.value.image_offset == at
    # The disk has the sector size of its image, and groups of 16,384 chunks.
    disk = noise(131_072) + bytes(131_072) + noise(131_072, 4)
    source = opened(Plan(disk, len_chunk=262_144, len_sector=4096))
    assert (source.read(0, len(disk)), source.sector_size_bytes) == (disk, 4096)


def test_a_volume_in_an_image_is_the_volume(tmp_path):
    """A scan of the image gives the same result as a scan of the disk inside."""
    write(VolumePlan(root=folders(3, 9, 100)), tmp_path / "raw.img")
    disk = (tmp_path / "raw.img").read_bytes()
    (tmp_path / "disk.img").write_bytes(asif(Plan(disk, partial=frozenset(range(0, 99, 2)))))
    raw, inside = (layoutscope.read_layouts(tmp_path / name)[0] for name in ("raw.img", "disk.img"))
    assert all(raw.table(name).equals(inside.table(name)) for name in TABLES)
    assert layoutscope.verify(tmp_path / "disk.img").exit_code == 0


def test_a_volume_whose_chunks_are_lost_is_damaged(tmp_path):
    """Metadata in an unreadable chunk is missing, and the exit code says so."""
    write(VolumePlan(root=folders(3, 9, 100)), tmp_path / "raw.img")
    layout = layoutscope.read_layouts(tmp_path / "raw.img")[0]
    lost = layout.nodes.filter(tree="catalog", kind="leaf")["image_offset"][0] // CHUNK
    image = asif(Plan((tmp_path / "raw.img").read_bytes()))
    stored = sum(any((tmp_path / "raw.img").read_bytes()[at * CHUNK : (at + 1) * CHUNK]) for at in range(lost + 1))
    place = f"_{reference(image, stored)}"
    (tmp_path / "disk.img").write_bytes(changed(image, **{place: struct.pack(">Q", WHOLE | 2**40)}))
    result = layoutscope.scan(tmp_path / "disk.img", drives=())
    assert result.exit_code == 3
    assert result.coverage is None or result.coverage < 1


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory):
    """An image of 200 GiB with Apple's sizes: chunks of 1 MiB, sectors of 512 bytes.

    N = 4 * 512 = 2,048 chunks in a group, whose references take S = 8 * 2,049 = 16,392 bytes; 63 groups fit into a
    table (63 * 16,392 = 1,032,696), which covers 63 * 2,048 = 129,024 MiB = 126 GiB. The disk needs two tables.
    """
    path = tmp_path_factory.mktemp("asif") / "large.img"
    with path.open("wb") as file:

        def put(at, data):
            file.seek(at)
            file.write(data)

        put(0, b"shdw" + struct.pack(">IIIQQ", 1, 512, 0, 0x200, 0x50000) + bytes(16))
        put(0x30, struct.pack(">QQIHHQ", 200 * GIBIBYTE // 512, 1 << 43, MEBIBYTE, 512, 0, 0))
        put(0x200, struct.pack(">QQQ", 8, 9, 9))  # an older directory
        put(0x50000, struct.pack(">QQQ", 9, 1, 2))
        # Chunk 2,048 + 5 of the disk: group 1, reference 5. It is whole and stored in chunk 3 of the file.
        put(1 * MEBIBYTE + 16_392 + 5 * 8, struct.pack(">Q", 0x4000_0000_0000_0003))
        put(3 * MEBIBYTE, b"second group")
        # The last chunk that table 0 covers: group 62, reference 2,047. The next one is not stored.
        put(1 * MEBIBYTE + 62 * 16_392 + 2047 * 8, struct.pack(">Q", 0x4000_0000_0000_0004))
        put(5 * MEBIBYTE - 4, b"last")
        # Chunk 129,024 + 2 * 2,048 + 1 of the disk: table 1, group 2, reference 1. Of it sector 2,047 was written:
        # sector 1 * 2,048 + 2,047 = 4,095 of the group, the last two bits of byte 1,023 of the bitmap in chunk 6.
        put(2 * MEBIBYTE + 2 * 16_392 + 1 * 8, struct.pack(">Q", 0xC000_0000_0000_0005))
        put(2 * MEBIBYTE + 2 * 16_392 + 2048 * 8, struct.pack(">Q", 6))
        put(5 * MEBIBYTE, b"x" * MEBIBYTE)
        put(6 * MEBIBYTE + 1023, b"\x40")
        file.truncate(7 * MEBIBYTE)
    return path


def test_addresses_are_those_of_arithmetic_by_hand(by_hand):
    """Directory, tables, groups, references and bitmap are found at the offsets that the format defines."""
    with open_image(by_hand) as source:
        assert source.size_bytes == 200 * GIBIBYTE
        assert source.read((2048 + 5) * MEBIBYTE - 2, 16) == b"\0\0second group\0\0"
        assert source.read(126 * GIBIBYTE - 4, 8) == b"last" + bytes(4)
        at = (129_024 + 2 * 2048 + 2) * MEBIBYTE
        assert source.read(at - 1024, 1030) == bytes(512) + b"x" * 512 + bytes(6)
        assert source.read(at - MEBIBYTE, 4096) == bytes(4096)
        stored = [(126 * 1024 - 1) * MEBIBYTE, 2053 * MEBIBYTE, at - MEBIBYTE]
        holes = {start for start, _ in source.holes.tolist()}
        assert holes == {0, *(start + MEBIBYTE for start in stored)}


def reference(image: bytes, chunk: int) -> int:
    """Find the offset of the reference to a chunk of the file."""
    return image.index(struct.pack(">Q", WHOLE | chunk))


@pytest.mark.parametrize(
    "entry",
    [WHOLE | 999, WHOLE | 2**54, WHOLE, WHOLE | 1, WHOLE | TABLE, PARTIAL | 3, 3, 0x8000_0000_0000_0003],
    ids=["outside", "far outside", "the header", "twice", "the table", "no bitmap", "absent", "unmapped"],
)
def test_impossible_references_are_never_read(entry):
    """What they cover counts as never read, and the rest of the disk is read."""
    image = asif(Plan(DISK))
    source = open_asif(MemorySource(changed(image, **{f"_{reference(image, 3)}": struct.pack(">Q", entry)})))
    lost = [3] if entry != WHOLE | 1 else [0, 3]
    assert source.unread_ranges().tolist() == [[number * CHUNK, CHUNK] for number in lost]
    assert source.read(2 * CHUNK, CHUNK) == DISK[2 * CHUNK : 3 * CHUNK]
    with pytest.raises(UnreadError):
        source.read(3 * CHUNK + 5, 1)


@pytest.mark.parametrize("entry", [999, 2**63, 2**64 - 1], ids=["outside", "far outside", "farthest"])
def test_a_lost_table_is_never_read(entry):
    """What it would cover counts as never read: 2,048 chunks, but no more than the disk has."""
    image = asif(Plan(DISK, more_sectors=200_000))
    source = open_asif(MemorySource(changed(image, **{f"_{DIRECTORIES[0] + 8}": struct.pack(">Q", entry)})))
    assert source.unread_ranges().tolist() == [[0, 2048 * CHUNK]]
    assert source.read(2048 * CHUNK, 10) == bytes(10)


def test_tables_and_files_that_are_lost():
    """Lost data counts as never read and gives a finding."""
    # Nothing shows which of them the chunk belongs to.
    image = asif(Plan(DISK, more_sectors=200_000))
    table = image[DIRECTORIES[0] + 8 : DIRECTORIES[0] + 16]
    source = open_asif(MemorySource(changed(image, **{f"_{DIRECTORIES[0] + 16}": table})))
    assert source.unread_ranges().tolist() == [[0, source.size_bytes]]
    # In a truncated copy, everything after the end of the file counts as never read.
    image = asif(Plan(DISK, with_metadata=False))
    order = [image[at : at + CHUNK] for at in range(0, len(image), CHUNK)]
    first = order[0].replace(struct.pack(">QQ", 7, 4), struct.pack(">QQ", 7, 1))
    table = b"".join(
        struct.pack(">Q", WHOLE | (int.from_bytes(order[4][at : at + 8], "big") & 7) + 1) if any(order[4][at : at + 8])
        else bytes(8)
        for at in range(0, CHUNK, 8)
    )  # fmt: skip
    moved = b"".join((first, table, *order[1:4]))
    assert open_asif(MemorySource(moved)).read(0, len(DISK)) == DISK
    source = open_asif(MemorySource(moved[: -CHUNK - 1]))
    assert source.unread_ranges().tolist() == [[2 * CHUNK, 2 * CHUNK]]
    assert source.read(0, 2 * CHUNK) == DISK[: 2 * CHUNK]
    # A scan that does not need these chunks still ends with an error, because the file has no chunk 999.
    image = asif(Plan(DISK))
    source = open_asif(MemorySource(changed(image, **{f"_{reference(image, 3)}": struct.pack(">Q", WHOLE | 999)})))
    (finding,) = source.findings
    assert (finding.code, finding.level) == ("container-invalid", "error")
    assert f"which ends at byte {len(image):,}, has none; 32.0 KiB of the disk" in finding.message
    assert f"the first at byte {3 * CHUNK:,} of it" in finding.message
    assert open_asif(MemorySource(image)).findings == ()


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0x10, struct.pack(">QQ", 2**63, 2**64 - 1)),
        (0x30, struct.pack(">Q", 0)),
        (0x30, struct.pack(">Q", 2**62)),
        (0x30, struct.pack(">QQ", 2**62, 2**63)),
        (0x30, struct.pack(">QQ", 2**40, 2**40)),
        (0x40, struct.pack(">I", 0)),
        (0x40, struct.pack(">I", 512)),
        (0x40, struct.pack(">I", 32769)),
        (0x44, struct.pack(">H", 0)),
        (0x44, struct.pack(">H", 500)),
    ],
)
def test_impossible_headers_are_errors(at, value):
    """Directories outside the file, and sizes that the format excludes, are refused."""
    with pytest.raises(FormatError):
        opened(Plan(DISK), **{f"_{at}": value})


@pytest.mark.parametrize(("at", "value"), [(4, struct.pack(">I", 2)), (0x46, struct.pack(">H", 1))])
def test_other_versions_are_named(at, value):
    """An unknown version and a segmented image are refused by name."""
    with pytest.raises(UnsupportedError):
        opened(Plan(DISK), **{f"_{at}": value})


OTHER_READER = """
import sys
from dissect.hypervisor.disk.asif import ASIF
image = ASIF(open(sys.argv[1], "rb"))
assert image.internal_metadata == {"stable uuid": "0" * 32}
stream = image.open()
sys.stdout.buffer.write(stream.read(int(sys.argv[2])))
"""
"""dissect.hypervisor, run as a separate program; ``DISSECT_PYTHON`` names a Python that has it."""


@pytest.mark.parametrize("more", [0, 200_000])
@pytest.mark.parametrize("swapped", [False, True])
def test_another_reader_sees_the_same(tmp_path, more, swapped):
    """Another reader finds the metadata of written images, and both read the same disk."""
    python = os.environ.get("DISSECT_PYTHON", sys.executable)
    if subprocess.run(
        [python, "-c", "import dissect.hypervisor.disk.asif"], capture_output=True, check=False
    ).returncode:
        pytest.skip("dissect.hypervisor is not installed")
    # It ignores the bitmap; the chunk that is partial here is whole except for its state.
    plan = Plan(DISK, more_sectors=more, partial=frozenset({3}), unmapped=frozenset({1}), swapped=swapped)
    path = tmp_path / "disk.asif"
    path.write_bytes(asif(plan))
    theirs = subprocess.run([python, "-c", OTHER_READER, path, str(len(DISK) + 5000)], capture_output=True, check=True)
    with open_image(path) as source:
        assert theirs.stdout[: source.size_bytes] == source.read(0, min(source.size_bytes, len(DISK) + 5000))
