"""Disks with a single block table: Apple sparse images, Parallels and VirtualBox disks."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from fixtures.wrappers import parallels, parallels_description, sparse_image, units_of, vdi
from layoutscope.errors import FormatError, ImageError, UnsupportedError
from layoutscope.image import MemorySource, open_image
from layoutscope.image.opening import unwrap

MIB, KIB = 1024**2, 1024


def noise(size: int, seed: int = 1) -> bytes:
    return np.random.default_rng(seed).integers(1, 256, size, np.uint8).tobytes()


DISK = noise(2 * MIB) + bytes(3 * MIB) + noise(MIB, 2) + bytes(MIB) + noise(512, 3)
"""Blocks of 1 MiB: 0, 1 and 5 are stored, and 7, which is cut."""

WRITERS = {
    "sparseimage": sparse_image,
    "sparseimage, last band first": lambda disk, unit=MIB: sparse_image(disk, unit, reverse=True),
    "Parallels": parallels,
    "Parallels, older": lambda disk, unit=MIB: parallels(disk, unit, short=True),
    "vdi": vdi,
    "vdi with bytes before each block": lambda disk, unit=MIB: vdi(disk, unit, extra=512),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("unit", [64 * KIB, MIB])
def test_the_disk_reads_back(write, unit):
    """Zero blocks are holes, and reads of any length cross blocks wherever they are in the file."""
    source = unwrap(MemorySource(write(DISK, unit)))
    assert source.size_bytes == len(DISK)
    assert source.read(0, len(DISK)) == DISK
    for start, length in ((MIB - 7, 20), (2 * MIB - 1, 3 * MIB + 2), (len(DISK) - 1, 1), (6 * MIB, MIB)):
        assert source.read(start, length) == DISK[start : start + length]
    stored = units_of(DISK, unit)
    held = [number for number in range(-(-len(DISK) // unit)) if number not in stored]
    holes = sum(length for _, length in source.holes.tolist())
    assert holes == len(held) * unit
    assert source.findings == ()


def test_a_sparse_image_of_many_bands():
    """After 1,008 bands there are tables of 1,010, each before its bands; 3,000 bands need three tables."""
    disk = b"".join(struct.pack(">I", number + 1) * 128 for number in range(3000))
    for reverse in (False, True):
        source = unwrap(MemorySource(sparse_image(disk, 512, size=4 * MIB, reverse=reverse, gap=512)))
        assert source.size_bytes == 4 * MIB
        assert source.read(0, len(disk)) == disk
        assert source.holes.tolist() == [[len(disk), 4 * MIB - len(disk)]]
        assert source.findings == ()
    # If both counts agree in 32 bits, the longer one is right.
    size = 2**41 + 2**21
    source = unwrap(MemorySource(sparse_image(DISK, size=size)))
    assert source.size_bytes == size
    assert source.read(0, len(DISK)) == DISK


INDEX_FIELD = 20


@pytest.mark.parametrize(
    ("target", "code", "message"),
    [
        (0, "container-invalid", "lead in a loop"),
        (512, "container-invalid", "sprs"),
        (2**40, "image-incomplete", "is not within the file"),
    ],
)
def test_tables_of_a_sparse_image_that_lead_nowhere(target, code, message):
    """Areas that earlier tables name are read; the rest is unread, because the lost table may name it."""
    disk = noise(1010 * 512)
    image = bytearray(sparse_image(disk, 512, size=MIB))
    second = struct.unpack_from(">Q", image, INDEX_FIELD)[0]
    # The first table leads to the second one, which leads to the target.
    struct.pack_into(">Q", image, second + 12, target or second)
    source = unwrap(MemorySource(bytes(image)))
    assert source.read(0, len(disk)) == disk
    (finding,) = source.findings
    assert (finding.code, finding.level) == (code, "error")
    if message != "sprs":
        assert message in finding.message
    assert source.unread_ranges().tolist() == [[len(disk), MIB - len(disk)]]


@pytest.mark.parametrize("write", [sparse_image, parallels, vdi])
def test_a_file_that_is_cut(write):
    """Data after the end of the file is unread; one finding names the byte where it ends."""
    image = write(DISK)
    whole = unwrap(MemorySource(image))
    cut = len(image) - MIB - 700
    source = unwrap(MemorySource(image[:cut]))
    (finding,) = source.findings
    assert (finding.code, finding.level, finding.image_offset) == ("image-incomplete", "error", cut)
    assert f"{cut:,}" in finding.message
    unread = source.unread_ranges()
    assert unread.sum(axis=0)[1] <= MIB + 700
    assert len(unread)
    known = np.ones(len(DISK), bool)
    for start, length in unread.tolist():
        known[start : start + length] = False
    target = bytearray(len(DISK))
    source.read_into(0, memoryview(target))
    assert (np.frombuffer(target, np.uint8)[known] == np.frombuffer(DISK, np.uint8)[known]).all()
    assert not np.frombuffer(target, np.uint8)[~known].any()
    assert whole.unread_ranges().tolist() == []


def test_two_names_for_one_block_are_both_unread():
    """One of them is wrong, and nothing shows which; a block inside the table itself is also wrong."""
    image = bytearray(parallels(DISK))
    entries = list(struct.unpack_from("<8I", image, 64))
    entries[1] = entries[0]
    struct.pack_into("<8I", image, 64, *entries)
    source = unwrap(MemorySource(bytes(image)))
    assert source.unread_ranges().tolist() == [[0, 2 * MIB]]
    assert [(item.code, item.level) for item in source.findings] == [("container-invalid", "error")]
    short = bytearray(parallels(DISK, short=True))
    struct.pack_into("<I", short, 64 + 4 * 5, 0)
    struct.pack_into("<I", short, 64 + 4 * 1, 0)
    assert unwrap(MemorySource(bytes(short))).findings == ()
    # Parallels flags a disk that is being written to.
    (finding,) = unwrap(MemorySource(parallels(DISK, in_use=True))).findings
    assert (finding.code, finding.level) == ("container-invalid", "warning")
    # They are not a disk without the parent file.
    with pytest.raises(UnsupportedError, match=r"differences.*VBoxManage"):
        unwrap(MemorySource(vdi(DISK, kind=4)))


@pytest.mark.parametrize(
    "image",
    [
        sparse_image(DISK)[:64],
        sparse_image(DISK)[:8] + bytes(56) + sparse_image(DISK)[64:],
        parallels(DISK)[:66],
        parallels(DISK)[:28] + bytes(4) + parallels(DISK)[32:],
        vdi(DISK)[:100],
        vdi(DISK)[:340] + b"\xff" * 4 + vdi(DISK)[344:],
    ],
    ids=["no table", "no sizes", "half a table", "blocks of nothing", "half a header", "a table behind the end"],
)
def test_headers_that_cannot_be(image):
    """One line names the structure and its place."""
    with pytest.raises(FormatError, match=r"(sparse image|Parallels disk|VirtualBox disk) at byte"):
        unwrap(MemorySource(image))


@pytest.mark.parametrize("form", ["parallels", "vdi"])
@pytest.mark.parametrize("options", [[], ["-S", "0"]], ids=["sparse", "all stored"])
def test_disks_of_qemu(tmp_path, convert, form, options):
    """Data written by QEMU reads back unchanged."""
    (tmp_path / "raw").write_bytes(DISK)
    convert(tmp_path / "raw", tmp_path / "a", form, *options)
    with open_image(tmp_path / "a") as source:
        assert source.read(0, len(DISK)) == DISK
        assert source.findings == ()


def folder(path, storages, **options):
    path.mkdir()
    (path / "DiskDescriptor.xml").write_text(parallels_description(storages, **options))
    return path


def test_a_folder_of_parallels(tmp_path):
    """The descriptor names the files and their order; its own list may be in another order."""
    path = folder(tmp_path / "a.hdd", [(8192, 14337, ["second &amp; last.hds"]), (0, 8192, ["C:\\x\\first.hds"])])
    (path / "first.hds").write_bytes(parallels(DISK[: 4 * MIB]))
    (path / "second & last.hds").write_bytes(DISK[4 * MIB :])
    with open_image(path) as source:
        assert source.read(0, len(DISK)) == DISK
        assert source.holes.tolist()[0] == [2 * MIB, 2 * MIB]
    (path / "first.hds").write_bytes(parallels(DISK[: 4 * MIB])[: -MIB - 512])
    with open_image(path) as source:
        assert [item.code for item in source.findings] == ["image-incomplete"]
        assert source.read(4 * MIB, MIB) == DISK[4 * MIB : 5 * MIB]
        assert source.unread_ranges().sum(axis=0)[1] == MIB + 512
    (path / "second & last.hds").unlink()
    with pytest.raises(ImageError, match=r"second & last\.hds: no such file"):
        open_image(path)


def test_folders_of_parallels_that_are_refused(tmp_path):
    """Snapshots and encryption are refused by name, and so is a descriptor without files."""
    path = folder(tmp_path / "a.hdd", [(0, 2048, ["a.hds", "b.hds"])])
    with pytest.raises(UnsupportedError, match=r"2 states.*prl_disk_tool"):
        open_image(path)
    path = folder(tmp_path / "b.hdd", [(0, 2048, ["a.hds"])], engine="{5c16a3a4-0000-0000-0000-000000000000}")
    with pytest.raises(UnsupportedError, match="is encrypted"):
        open_image(path)
    path = folder(tmp_path / "c.hdd", [(0, 2048, [])])
    with pytest.raises(ImageError, match="names no file"):
        open_image(path)


@pytest.mark.parametrize("lost", [512, 3 * MIB + 512, 4 * MIB, -4])
def test_a_short_or_long_file_of_a_folder_shifts_nothing(tmp_path, lost):
    """The next part begins at the sector given in the descriptor; missing data counts as never read.

    Data beyond its part of the disk is ignored, with a warning; the last part may be longer.
    """
    path = folder(tmp_path / "a.hdd", [(0, 8192, ["first.hds"]), (8192, 14337, ["last.hds"])])
    (path / "first.hds").write_bytes(DISK[: 4 * MIB - max(lost, 0)] + b"m" * -lost)
    (path / "last.hds").write_bytes(DISK[4 * MIB :])
    told = ("image-incomplete", "error") if lost > 0 else ("container-invalid", "warning")
    with open_image(path) as source:
        kept = 4 * MIB - max(lost, 0)
        assert source.size_bytes == len(DISK) == 14337 * 512
        assert source.read(0, kept) + source.read(4 * MIB, len(DISK) - 4 * MIB) == DISK[:kept] + DISK[4 * MIB :]
        assert source.unread_ranges().tolist() == [[kept, lost]] * (lost > 0)
        assert [(item.code, item.level) for item in source.findings] == [told]


@pytest.mark.parametrize("spans", [[(0, 100), (101, 200)], [(1, 100), (100, 200)], [(0, 100), (99, 200)]])
def test_parts_that_do_not_follow_one_another_are_refused(tmp_path, spans):
    """A gap, a late start, and an overlap are refused."""
    path = folder(tmp_path / "a.hdd", [(first, last, [f"{first}.hds"]) for first, last in spans])
    for first, last in spans:
        (path / f"{first}.hds").write_bytes(bytes((last - first) * 512))
    with pytest.raises(ImageError, match="do not follow one another from sector 0 on"):
        open_image(path)
