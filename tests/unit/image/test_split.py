from __future__ import annotations

import os

import numpy as np
import pytest

from layoutscope.errors import ImageError, UnreadError
from layoutscope.image import open_image
from tests.cases import for_each

DATA = bytes(1024) + np.random.default_rng(3).integers(0, 256, 9_000, np.uint8).tobytes()


def write_parts(folder, suffixes, size=1024):
    parts = [DATA[start : start + size] for start in range(0, len(suffixes) * size, size)]
    for suffix, part in zip(suffixes, parts, strict=True):
        (folder / f"disk.{suffix}").write_bytes(part)
    return b"".join(parts)


@for_each("suffixes", ["001 002 003", "000 001 002", "01 02", "0001 0002", "aa ab ac", "aaa aab"])
def test_parts_are_joined(tmp_path, suffixes):
    """Reads cross from one part to the next; a later part names the first one, and the last part may be shorter."""
    first, *others = suffixes = suffixes.split()
    data = write_parts(tmp_path, suffixes)[:-1014]
    (tmp_path / f"disk.{suffixes[-1]}").write_bytes(data[-10:])
    with open_image(tmp_path / f"disk.{first}") as source:
        assert source.size_bytes == len(data)
        before = source.counter.bytes
        assert source.read(1000, 34) == data[1000:1034]
        assert source.counter.bytes - before + source.counter.hole_bytes >= 34
        assert source.read(0, len(data)) == data
    for later in others if first != "000" else ():  # a set may begin with 001 as well
        with pytest.raises(ImageError, match=rf"Open disk\.{first}"):
            open_image(tmp_path / f"disk.{later}")


def test_sets_that_have_no_end_or_no_start(tmp_path):
    """Suffixes go on after az, and a set begins with its first part."""
    # The suffix after az is ba, so all 28 parts are found.
    letters = "abcdefghijklmnopqrstuvwxyz"
    suffixes = ["a" + letter for letter in letters] + ["ba", "bb"]
    for suffix in suffixes:
        (tmp_path / f"disk.{suffix}").write_bytes(bytes(512))
    with open_image(tmp_path / "disk.aa") as source:
        assert source.size_bytes == 28 * 512
    # Parts two and three without part one are not an image.
    write_parts(tmp_path, ["002", "003"])
    with pytest.raises(ImageError, match=r"disk\.001, is missing"):
        open_image(tmp_path / "disk.002")
    # If more parts are missing than present, nothing is opened.
    (tmp_path / "disk.003").unlink()
    write_parts(tmp_path, ["001", "002", "007"])
    with pytest.raises(ImageError, match=r"disk\.003 of the split image is missing, and many more are"):
        open_image(tmp_path / "disk.001")
    # disk.img and disk.map are two files, not two parts.
    (tmp_path / "disk.img").write_bytes(bytes(100))
    (tmp_path / "disk.map").write_bytes(bytes(50))
    with open_image(tmp_path / "disk.img") as source:
        assert source.size_bytes == 100


@for_each("missing", [["002"], ["002", "003"]])
def test_a_missing_part_is_named(tmp_path, missing):
    """Its data is unread, and later parts are at the positions that their numbers give."""
    data = write_parts(tmp_path, ["001", "002", "003", "004", "005"])
    for suffix in missing:
        (tmp_path / f"disk.{suffix}").unlink()
    with open_image(tmp_path / "disk.001") as source:
        behind = 1024 * (1 + len(missing))
        assert source.size_bytes == len(data)
        assert source.unread_ranges().tolist() == [[1024, behind - 1024]]
        assert source.read(0, 1024) == data[:1024]
        assert source.read(behind, len(data) - behind) == data[behind:]
        target = bytearray(len(data))
        source.read_into(0, memoryview(target))
        assert target == data[:1024] + bytes(behind - 1024) + data[behind:]
        with pytest.raises(UnreadError):
            source.read(1000, 100)
        (finding,) = source.findings
        assert (finding.code, finding.level) == ("image-incomplete", "error")
        assert "part disk.002 is missing" in finding.message


def test_a_short_part_in_between_is_read_in_part(tmp_path):
    """A truncated part does not shift later parts; a part that is too long is refused."""
    data = write_parts(tmp_path, ["001", "002", "003"])
    (tmp_path / "disk.002").write_bytes(data[1024:1029])
    with open_image(tmp_path / "disk.001") as source:
        assert source.read(0, 1029) == data[:1029]
        assert source.read(2048, 1024) == data[2048:]
        assert source.unread_ranges().tolist() == [[1029, 1019]]
        (finding,) = source.findings
        assert "part disk.002 ends at byte 5 of 1,024" in finding.message
    (tmp_path / "disk.002").write_bytes(bytes(1025))
    with pytest.raises(ImageError, match=r"disk\.002: this part has 1,025 bytes, the first has 1,024"):
        open_image(tmp_path / "disk.001")


def test_a_part_that_is_no_file_is_named(tmp_path):
    """A pipe with a part's name is neither waited for nor skipped; a folder with such a name is not a part."""
    write_parts(tmp_path, ["001", "002"])
    (tmp_path / "disk.002").unlink()
    os.mkfifo(tmp_path / "disk.002")
    with pytest.raises(ImageError, match=r"disk\.002: has the name of a part of .*, and is not a file"):
        open_image(tmp_path / "disk.001")
    (tmp_path / "disk.002").unlink()
    (tmp_path / "disk.002").mkdir()
    with open_image(tmp_path / "disk.001") as source:  # a single numbered file is a raw image
        assert source.size_bytes == 1024
