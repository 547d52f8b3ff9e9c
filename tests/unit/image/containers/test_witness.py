"""Expert Witness images: whole, with missing segments, cut and damaged."""

from __future__ import annotations

import os
import struct
import subprocess

import numpy as np
import pytest

from fixtures.wrappers import expert_witness
from layoutscope.errors import FormatError, ImageError, UnreadError
from layoutscope.image import MemorySource, open_image
from layoutscope.image.containers.witness import find_segments
from layoutscope.image.failing import FailingSource
from layoutscope.image.opening import unwrap

MIB, CHUNK = 1024**2, 32768


def noise(size: int, seed: int = 1) -> bytes:
    return np.random.default_rng(seed).integers(1, 256, size, np.uint8).tobytes()


DISK = noise(5 * CHUNK) + b"\x05" * (4 * CHUNK) + noise(3 * CHUNK + 512, 2)
"""13 chunks, the last one of a single sector; four of them are compressed."""


def write(tmp_path, files, *, missing=()):
    for number, data in enumerate(files, 1):
        if number not in missing:
            (tmp_path / f"a.E{number:02}").write_bytes(data)
    return tmp_path / "a.E01"


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    "options",
    [{}, {"per_segment": 3}, {"with_base": False}, {"small": True}, {"per_table": 4}, {"chunk_sectors": 8}],
    ids=str,
)
def test_the_disk_reads_back(tmp_path, packed, options):
    """Segments, several tables, offsets with and without base, and sizes in the form of SMART."""
    path = write(tmp_path, expert_witness(DISK, packed=packed, **options))
    with open_image(path) as source:
        assert source.size_bytes == len(DISK)
        assert source.read(0, len(DISK)) == DISK
        assert source.read(CHUNK - 9, 4 * CHUNK) == DISK[CHUNK - 9 : 5 * CHUNK - 9]
        assert source.findings == ()
        assert source.holes.tolist() == []


@pytest.mark.parametrize("compression", ["none", "fast", "empty-block"])
def test_images_of_ewfacquire(tmp_path, peer, compression):
    """The program of libewf writes these images, in segments of its minimum size."""
    disk = noise(3 * MIB) + bytes(MIB) + noise(MIB, 4)
    (tmp_path / "raw").write_bytes(disk)
    command = [peer("ewfacquire"), "-u", "-q", "-c", compression, "-S", str(2 * MIB), "-t", tmp_path / "a"]
    subprocess.run([*command, tmp_path / "raw"], check=True, capture_output=True)
    assert (tmp_path / "a.E02").exists()
    with open_image(tmp_path / "a.E01") as source:
        assert source.read(0, len(disk)) == disk
        assert source.findings == ()


@pytest.mark.parametrize(
    ("missing", "unread", "named"),
    [
        ((2,), [[3 * CHUNK, 3 * CHUNK]], "1 segment is missing: a.E02;"),
        ((3, 4), [[6 * CHUNK, 6 * CHUNK]], "2 segments are missing: a.E03, a.E04;"),
        # Segment 3 is between two gaps, so its chunk numbers are unknown.
        ((2, 4), [[3 * CHUNK, 9 * CHUNK]], "2 segments are missing: a.E02, a.E04;"),
        ((5,), [[12 * CHUNK, 512]], "1 segment is missing: a.E05;"),
        ((4, 5), [[9 * CHUNK, 3 * CHUNK + 512]], "1 segment is missing: a.E04;"),
    ],
)
def test_a_segment_that_is_missing(tmp_path, missing, unread, named):
    """One finding names it; chunks of other segments are in their places, and those of the missing one are unread."""
    path = write(tmp_path, expert_witness(DISK, per_segment=3), missing=missing)
    with open_image(path) as source:
        (finding,) = source.findings
        assert (finding.code, finding.level) == ("image-incomplete", "error")
        assert named in finding.message
        assert source.unread_ranges().tolist() == unread
        start, length = unread[0]
        assert source.read(0, start) == DISK[:start]
        assert source.read(start + length, len(DISK) - start - length) == DISK[start + length :]
        with pytest.raises(UnreadError):
            source.read(start - 1, 2)


@pytest.mark.parametrize("packed", [True, False])
def test_an_image_that_is_cut(packed):
    """The tables are after the cut: chunks before it are identified by checksum, and the finding names the byte."""
    (image,) = expert_witness(DISK, packed=packed)
    cut = image.index(DISK[2 * CHUNK : 3 * CHUNK]) + 100
    source = unwrap(MemorySource(image[:cut], "cut.E01"))
    (finding,) = source.findings
    assert (finding.code, finding.level) == ("image-incomplete", "error")
    assert f"cut.E01 ends at byte {cut:,}" in finding.message
    assert source.read(0, 2 * CHUNK) == DISK[: 2 * CHUNK]
    assert source.unread_ranges().tolist() == [[2 * CHUNK, len(DISK) - 2 * CHUNK]]


def test_a_damaged_table_has_a_copy():
    """If both are damaged, chunks are identified by their checksums."""
    (image,) = expert_witness(DISK, per_table=100)
    table, copy = (image.index(name.ljust(16, b"\0")) + 76 + 24 for name in (b"table", b"table2"))
    one = bytearray(image)
    one[table] ^= 1
    both = bytearray(one)
    both[copy] ^= 1
    for data in (one, both):
        source = unwrap(MemorySource(bytes(data), "a.E01"))
        assert source.read(0, 12 * CHUNK) == DISK[: 12 * CHUNK]
    assert unwrap(MemorySource(bytes(one))).findings == ()


@pytest.mark.parametrize("chunk", [1, 6])
def test_a_damaged_chunk_counts_as_not_read(chunk):
    """The checksum detects it, compressed or not; the finding appears on reading, and its neighbours are sound."""
    image = bytearray(expert_witness(DISK)[0])
    table = image.index(b"table".ljust(16, b"\0")) + 76
    base = struct.unpack_from("<Q", image, table + 8)[0]
    place = struct.unpack_from("<I", image, table + 24 + 4 * chunk)[0] & 0x7FFFFFFF
    image[base + place + 50] ^= 0x55
    source = FailingSource(unwrap(MemorySource(bytes(image), "a.E01")))
    assert source.findings == ()
    target = bytearray(len(DISK))
    source.read_into(0, memoryview(target))
    start = chunk * CHUNK
    assert target == DISK[:start] + bytes(CHUNK) + DISK[start + CHUNK :]
    assert source.unread_ranges().tolist() == [[start, CHUNK]]
    (finding,) = source.findings
    assert (finding.code, finding.level, finding.image_offset) == ("checksum-mismatch", "error", start)
    assert f"byte {base + place:,} of a.E01" in finding.message
    with pytest.raises(UnreadError):
        source.read(start, 512)


def test_damaged_chunks_and_far_places():
    """Damage gives no zeros, and places have more than 31 bits."""
    # It fails like all later reads; before it, the damage is not known.
    image = bytearray(expert_witness(DISK)[0])
    image[image.index(b"sectors".ljust(16, b"\0")) + 76 + 50] ^= 0x55
    source = FailingSource(unwrap(MemorySource(bytes(image), "a.E01")))
    with pytest.raises(UnreadError):
        source.read(0, 512)
    assert source.read(CHUNK, 512) == DISK[CHUNK : CHUNK + 512]
    # There the highest bit is part of the offset: entries decrease once, and no later chunk is compressed.
    from layoutscope.image.containers.witness import _decode_entries

    places = [0x7FFF0000, 0x80000000 | 0x7FFF8004, 0x80000008, 0x80008010]
    offset, length, packed = _decode_entries(struct.pack("<4I", *places), 0, 0x80010018)
    assert offset.tolist() == [0x7FFF0000, 0x7FFF8004, 0x80000008, 0x80008010]
    assert length.tolist() == [0x8004, 0x8004, 0x8008, 0x8008]
    assert packed.tolist() == [False, True, False, False]


def test_what_is_not_the_first_segment(tmp_path):
    """For another segment alone, the message says which one to open; a file of another image is named."""
    files = expert_witness(DISK, per_segment=3)
    with pytest.raises(ImageError, match=r"is segment 2 of an Expert Witness image\. Open the first one\."):
        unwrap(MemorySource(files[1]))
    path = write(tmp_path, [files[0], files[2], *files[2:]])
    with open_image(path) as source:
        (finding,) = source.findings
        assert "a.E02 is not segment 2 of the image" in finding.message
        assert source.unread_ranges().tolist() == [[3 * CHUNK, 3 * CHUNK]]


def test_sizes_that_cannot_be():
    """Chunks of size zero, and a disk larger than any."""
    (image,) = expert_witness(DISK)
    at = image.index(b"volume".ljust(16, b"\0")) + 76
    for place, value in ((8, 0), (12, 2**31), (20, 2**30)):
        changed = bytearray(image)
        struct.pack_into("<I", changed, at + place, value)
        with pytest.raises(FormatError, match="is impossible"):
            unwrap(MemorySource(bytes(changed)))
    with pytest.raises(ImageError, match="does not give the size"):
        unwrap(MemorySource(image[:13]))


def test_segments_are_those_that_are_there(tmp_path):
    """E01 to E99, then EAA; a gap is skipped."""
    names = [f"a.E{number:02}" for number in range(1, 100)] + ["a.EAA", "a.EAB", "a.EAD", "a.FAA"]
    for name in names:
        (tmp_path / name).touch()
    assert [path.name for path in find_segments(tmp_path / "a.E01").values()] == names
    (tmp_path / "b.e01").touch()
    (tmp_path / "b.e02").touch()
    assert [path.name for path in find_segments(tmp_path / "b.e01").values()] == ["b.e01", "b.e02"]
    assert find_segments(tmp_path / "b.E02") == {1: tmp_path / "b.E02"}


def test_a_pipe_among_the_segments_is_not_waited_for(tmp_path):
    """A foreign pipe next to an image is named."""
    write(tmp_path, expert_witness(DISK))
    os.mkfifo(tmp_path / "a.E02")
    with pytest.raises(ImageError, match=r"a.E02: is a pipe"):
        open_image(tmp_path / "a.E01")
