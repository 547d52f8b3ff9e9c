from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from layoutscope.errors import ImageError, UnreadError
from layoutscope.image import open_image
from layoutscope.image.failing import read_map

MAP = """# Mapfile. Created by GNU ddrescue version 1.27
# Command line: ddrescue /dev/sdb disk.img disk.map
# current_pos  current_status  current_pass
0x00001200     ?               1
#      pos        size  status
0x00000000  0x00001000  +
0x00001000  0x00000200  -
0x00001200  0x00000E00  ?
0x00002000  0x00000800  +
0x00002800  0x00000200  /
0x00002A00  0x00000200  *
0x00002C00  0x00000400  +
"""
UNREAD = [[0x1000, 0x1000], [0x2800, 0x400], [0x3000, 0x1000]]


@pytest.fixture
def rescued(tmp_path):
    """Return an image of 16 KiB of 0x55 whose map has bad areas and ends at 12 KiB."""
    (tmp_path / "disk.img").write_bytes(b"\xd5" * 0x4000)
    (tmp_path / "disk.map").write_text(MAP)
    with open_image(tmp_path / "disk.img", map_file=tmp_path / "disk.map") as source:
        yield source


def test_everything_not_finished_is_unread(rescued):
    """Bad, trimmed, untried and unmapped areas are joined; a read up to them succeeds, another names the first byte."""
    assert rescued.unread_ranges().tolist() == UNREAD
    assert rescued.read(0x0F00, 0x100) == b"\xd5" * 0x100
    assert rescued.read(0x2000, 0x800) == b"\xd5" * 0x800
    with pytest.raises(UnreadError) as caught:
        rescued.read(0x0F00, 0x200)
    assert caught.value.image_offset == 0x1000
    # Bulk reads continue: unread bytes are zeros whatever the file holds there, and the extents are marked.
    starts, lengths = np.array([0x2000, 0x0FF0, 0x2700]), np.array([0x100, 0x20, 0x400])
    found = rescued.read_extents(starts, lengths).tobytes()
    assert found == b"\xd5" * 0x100 + b"\xd5" * 0x10 + bytes(0x10) + b"\xd5" * 0x100 + bytes(0x300)
    assert rescued.touches_unread(starts, lengths).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a ddrescue map file"),
        ("# only comments\n", "not a ddrescue map file"),
        ("0x0 ?\n0x0 0x100\n", "line 2"),
        ("0x0 ?\nzero 0x100 +\n", "line 2"),
        ("0x0 ?\n0x0 0x100 !\n", "line 2"),
        ("0x0 ?\n0x0 0x7fffffffffffffff +\n0x1 0x7fffffffffffffff +\n", "line 3"),
    ],
)
def test_a_broken_map_names_its_line(tmp_path, text, message):
    """A file that is not a map is an error with the line number."""
    (tmp_path / "disk.img").write_bytes(b"\xd5" * 512)
    (tmp_path / "disk.map").write_text(text)
    with pytest.raises(ImageError, match=message):
        open_image(tmp_path / "disk.img", map_file=tmp_path / "disk.map")


def test_a_missing_map_is_an_error(tmp_path):
    """A requested map that does not exist is not ignored."""
    (tmp_path / "disk.img").write_bytes(b"\xd5" * 512)
    with pytest.raises(ImageError, match="no such file"):
        open_image(tmp_path / "disk.img", map_file=tmp_path / "disk.map")


def test_unread_end_of_an_image_hides_nothing_else(tmp_path):
    """A disk image's trailer cannot be detected there, but the rest of the disk can be read."""
    from layoutscope.image import open_image

    image, rescue = tmp_path / "disk.img", tmp_path / "disk.map"
    image.write_bytes(b"\1" * 4096)
    rescue.write_text("0 + 1\n0x0 0xE00 +\n0xE00 0x200 -\n")
    with open_image(image, map_file=rescue) as source:
        assert source.read(0, 0xE00) == b"\1" * 0xE00


@pytest.mark.parametrize(("length", "is_refused"), [(0x3000, False), (0x2FFF, True)])
def test_a_map_that_has_more_than_its_image_is_refused(tmp_path, length, is_refused):
    """The map covers other areas, as if a partition was rescued to a file, or the image is cut."""
    (tmp_path / "disk.img").write_bytes(b"\xd5" * length)
    (tmp_path / "disk.map").write_text(MAP)
    if is_refused:
        with pytest.raises(ImageError, match="up to 12,288 read, and the image ends at 12,287"):
            open_image(tmp_path / "disk.img", map_file=tmp_path / "disk.map")
    else:
        open_image(tmp_path / "disk.img", map_file=tmp_path / "disk.map").close()


def test_a_long_map_takes_little_memory(tmp_path):
    """A line of 26 bytes takes 75 as a text of its own, and each finished area 120; its words would take 300."""
    path, count = tmp_path / "disk.map", 20_000
    areas = (f"0x{512 * number:08X}  0x00000200  {'+-'[number % 2]}\n" for number in range(count))
    path.write_text("0x0 + 1\n" + "".join(areas))
    tracemalloc.start()
    unread = read_map(path, 512 * count)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(unread), int(unread[:, 1].sum())) == (count // 2, 256 * count)
    assert peak < 300 * count
