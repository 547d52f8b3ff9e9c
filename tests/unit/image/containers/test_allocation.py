"""What containers store: holes are what the tables say, and areas that are not stored are not read."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from layoutscope import scan
from layoutscope.errors import FormatError, ImageError
from layoutscope.image import open_image
from layoutscope.image.containers.foreign import open_qcow
from layoutscope.image.containers.placed import MAX_TABLE_BYTES, StoredSource, make_pieces
from layoutscope.image.source import MemorySource, Source
from layoutscope.structs.arrays import total

MIB = 1024**2
UNITS = {"qcow2": 64 << 10, "vhdx": 8 * MIB, "vpc": 2 * MIB, "vmdk": 64 << 10}
"""Allocation unit of QEMU for a disk of this size."""


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """Return 100 MiB; the first MiB, a part in the middle and the last MiB are noise."""
    path = tmp_path_factory.mktemp("disk") / "disk.img"
    noise = np.random.default_rng(7).integers(1, 256, MIB, np.uint8).tobytes()
    with path.open("wb") as file:
        for place in (0, 49 * MIB + 4096, 99 * MIB):
            file.seek(place)
            file.write(noise)
    return path


FORMS = [
    ("qcow2", ()),
    ("qcow2", ("-c",)),
    ("qcow2", ("-o", "cluster_size=4096,compat=0.10")),
    ("vhdx", ()),
    ("vhdx", ("-o", "block_size=1048576")),
    ("vpc", ()),
    ("vmdk", ()),
    ("vmdk", ("-o", "subformat=streamOptimized")),
    ("vmdk", ("-o", "subformat=monolithicFlat")),
    ("vmdk", ("-o", "subformat=twoGbMaxExtentSparse")),
]


@pytest.mark.parametrize(
    ("form", "options"), FORMS, ids=lambda item: "-".join(item) if isinstance(item, tuple) else item
)
def test_holes_are_what_was_not_stored(disk, tmp_path, convert, form, options):
    """A hole contains only zeros, and at most a unit around the noise counts as stored."""
    data = disk.read_bytes()
    with open_image(convert(disk, tmp_path / "a.img", form, *options)) as source:
        holes = source.holes
        assert all(not any(data[start : start + length]) for start, length in holes.tolist())
        assert source.size_bytes - total(holes) <= 3 * MIB + 6 * UNITS[form]
        assert total(holes) >= 70 * MIB


def qcow(size: int, tables: int, *, ofs_tables: int = 65536) -> bytes:
    return struct.pack(">4sIQIIQIIQ", b"QFI\xfb", 3, 0, 0, 16, size, 0, tables, ofs_tables)


def opened(image: bytes) -> Source:
    return open_qcow(MemorySource(image, "a.qcow2"))


@pytest.mark.parametrize("place", [131072, 2**40])
def test_a_second_table_that_is_lost_costs_what_it_covers(place):
    """Both entries of a qcow2's first table name one second table, or one names a table outside the file."""
    entries = struct.pack(">2Q", 131072, place).ljust(65536, b"\0")
    image = qcow(2**30, 2).ljust(65536, b"\0") + entries + struct.pack(">Q", 196608).ljust(131072, b"\0")
    source = opened(image)
    covered = 2**29
    wanted = [[0, 2**30]] if place == 131072 else [[covered, covered]]
    assert source.unread_ranges().tolist() == wanted
    (finding,) = source.findings
    assert finding.code == ("container-invalid" if place == 131072 else "image-incomplete")
    assert opened(image[:65544] + bytes(8) + image[65552:]).unread_ranges().tolist() == []


def test_disks_and_tables_without_end_are_refused():
    """A disk of exbibytes is refused, and so is a first table longer than the limit."""
    with pytest.raises(FormatError, match="is impossible"):
        opened(qcow(2**62, MAX_TABLE_BYTES // 8 + 1).ljust(65536, b"\0"))
    with pytest.raises(FormatError, match="the table of blocks is not within the file"):
        opened(qcow(2**60, 2**31).ljust(65536, b"\0"))
    # 4,096 bytes per file byte are the maximum.
    for more in (0, 1):
        pieces = make_pieces(np.array([0]), np.array([4096 * 512 + more]), np.array([0]))
        source = StoredSource([MemorySource(bytes(512), "a")], 2**30, pieces, what="disk")
        if more:
            with pytest.raises(ImageError, match=r"a: claims to store .* in 512"):
                _ = source.holes
        else:
            assert total(source.holes) == 2**30 - 4096 * 512
    # The first table of a qcow2 is after the end of its file, or is shorter than its disk needs.
    image = qcow(4 * MIB, 1).ljust(65536 + 8, b"\0")
    assert opened(image).holes.tolist() == [[0, 4 * MIB]]
    with pytest.raises(FormatError, match="the table of blocks is not within the file"):
        opened(image[:65536])
    with pytest.raises(FormatError, match="its first table is shorter than the disk"):
        opened(qcow(2**30, 1).ljust(65536 + 8, b"\0"))


@pytest.mark.parametrize("form", ["qcow2", "vhdx"])
def test_a_sweep_of_a_disk_that_nobody_wrote_ends(tmp_path, convert, form):
    """Up to 8 TiB take a few MB of tables, with a volume header at the start; only stored areas are examined."""
    from fixtures.hfsplus.plan import VolumePlan
    from fixtures.hfsplus.writer import render

    disk = tmp_path / "disk.img"
    data = bytearray(render(VolumePlan())[0].to_bytearray())
    data[1024:1026] = data[-1024:-1022] = b"xx"
    disk.write_bytes(data)
    with disk.open("r+b") as file:
        file.truncate((8 << 40) - 2**34)
    image = convert(disk, tmp_path / "a.img", form)
    found = scan(image, drives=(), sweep=True)
    assert found.image.read_bytes < 2**28
    assert found.image.hole_bytes > 2**40


@pytest.mark.parametrize("entry", [8, 0x1FE, 131072 + 512, 1 << 56, 1 << 63 | 196608 | 2])
def test_references_that_a_qcow_cannot_have_are_not_read(entry):
    """Bits 1 to 8 and 56 to 61 are reserved, and a cluster of 64 KiB begins at a multiple of 64 KiB."""
    image = qcow(2**20, 1).ljust(65536, b"\0") + struct.pack(">Q", 1 << 63 | 131072).ljust(65536, b"\0")
    odd = opened(image + struct.pack(">3Q", 0, 1 << 63 | 196608, entry).ljust(131072, b"\0"))
    assert odd.unread_ranges().tolist() == [[131072, 65536]]
    assert "where no block can be" in odd.findings[0].message
    for sound in (0, 1, 196608, 1 << 63 | 196608):
        source = opened(image + struct.pack(">2Q", 0, sound).ljust(131072, b"\0"))
        assert source.unread_ranges().tolist() == []
