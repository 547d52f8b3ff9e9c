from __future__ import annotations

import errno
import os
from types import SimpleNamespace

import pytest

from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from layoutscope import scan
from layoutscope.errors import ImageError, UnsupportedError
from layoutscope.image import open_image, raw
from layoutscope.image.opening import open_images
from layoutscope.image.signatures import SIGNATURES, is_text
from layoutscope.image.source import SECTOR_BYTES
from layoutscope.options import ReadOptions, fill
from tests.cases import for_each


def message(path) -> str:
    with pytest.raises((ImageError, UnsupportedError)) as caught:
        open_image(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path):
    """The message for a denied file says what to do."""
    (tmp_path / "locked").write_bytes(b"x")
    (tmp_path / "locked").chmod(0)
    assert "permission denied" in message(tmp_path / "locked")


def test_permission_denied_is_told_for_root_too(tmp_path, monkeypatch):
    """The system's refusal becomes one line with advice."""
    (tmp_path / "locked").write_bytes(b"x")

    def deny(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", deny)
    assert "permission denied; run as a user who may read it" in message(tmp_path / "locked")


@for_each(
    "make, expected",
    [
        (lambda _: None, ": no such file"),
        (lambda path: path.mkdir(), ": is a directory, not an image"),
        (lambda path: path.touch(), ": is empty"),
        (os.mkfifo, "is neither a file nor a disk"),
        # A text is recognised, long or short, in any script, even if a character is cut at 4096 bytes.
        *(
            (lambda path, text=text: path.write_text(text, encoding="utf-8"), "is a text file, not a disk image")
            for text in ("hello\n", "caf\u00e9 \u4e2d\n" * 1000, "key: value\n" * 2000)
        ),
    ],
)
def test_what_is_no_image_is_named_in_one_line(tmp_path, make, expected):
    """A path that is neither file nor disk is not waited for, and an impossible one gives no traceback."""
    path = tmp_path / "image.img"
    make(path)
    assert message(path).startswith(str(path))
    assert message(path).endswith(expected)
    assert "not a directory" in message(__file__ + "/image")
    assert "null" in message("a\0b")


def test_bytes_are_no_text():
    """Control characters and broken UTF-8 make no text."""
    assert not any(map(is_text, (b"abc\x00", b"abc\x01", b"\xff\xfe")))


NAMED = [signature for signature in SIGNATURES if signature.open is None]
"""Supported formats have tests of their own."""


@for_each("signature", NAMED)
def test_containers_are_named_with_advice(tmp_path, signature):
    """Each container is recognised by its bytes alone; the message says what to do."""
    data = bytearray(b"\x01" * 8192)
    place = signature.offset % 8192
    data[place : place + len(signature.magic)] = signature.magic
    (tmp_path / "image.raw").write_bytes(data)
    with pytest.raises(UnsupportedError) as caught:
        open_image(tmp_path / "image.raw")
    assert caught.value.code == signature.code
    assert signature.name.replace("Apple ", "") in str(caught.value).replace("Apple ", "")
    assert caught.value.advice


def test_an_lfs_pointer(tmp_path):
    (tmp_path / "image.raw").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(UnsupportedError, match="git lfs pull") as caught:
        open_image(tmp_path / "image.raw")
    assert caught.value.code == "lfs-pointer"


def test_images_of_a_set_are_read_by_device_number(tmp_path):
    """Both images of a Fusion set are read by device number."""
    for name, value in (("ssd", b"\x01"), ("hdd", b"\x02")):
        (tmp_path / name).write_bytes(value * 1000)
    with open_images(tmp_path / "ssd", fill(ReadOptions, {"second": tmp_path / "hdd"})) as images:
        assert [image.read(0, 1) for image in images] == [b"\x01", b"\x02"]


def test_a_missing_second_image_is_an_error(tmp_path):
    """Both images of a set must be there."""
    (tmp_path / "ssd").write_bytes(b"\x01" * 1000)
    wanted = fill(ReadOptions, {"second": tmp_path / "hdd"})
    with pytest.raises(ImageError, match="hdd: no such file"), open_images(tmp_path / "ssd", wanted):
        pass


@pytest.mark.parametrize(("sector", "exit_code"), [(0, 0), (2, 3), (-1, 0)])
def test_a_bad_sector_costs_what_it_holds(tmp_path, monkeypatch, sector, exit_code):
    """A disk that fails at a sector with structures around a volume does not stop a scan of the volume.

    An HFS+ volume begins in the third sector. It needs nothing from the first one: a partition map next to a volume
    that fills the image is ignored. The last sector has only what Apple disk images end with.
    """
    path = tmp_path / "disk.img"
    write(SCENARIOS["hard-links"], path)
    bad = range(0, path.stat().st_size, SECTOR_BYTES)[sector]
    sound = scan(path, drives=())

    def read(descriptor, at, target):
        if at < bad + SECTOR_BYTES and bad < at + len(target):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return whole(descriptor, at, target)

    whole = raw.pread_into
    monkeypatch.setattr(raw, "pread_into", read)
    monkeypatch.setattr(raw, "READ_PIECES", SimpleNamespace(attempt=lambda *_: None))
    result = scan(path, drives=())
    assert result.exit_code == exit_code
    assert result.volume.layout.entries.equals(sound.volume.layout.entries)


def test_a_container_that_cannot_be_opened_in_a_file_that_is_cut(tmp_path):
    """The first reason is the file: 100 bytes are missing, including the trailer of the disk image in it."""
    from fixtures.wrappers import apple_single
    from tests.unit.image.containers.test_udif import PLAIN, udif

    whole = apple_single(udif([(PLAIN, b"\1" * 4096)]))
    (tmp_path / "a").write_bytes(whole[:-100])
    assert message(tmp_path / "a").startswith(
        f"{tmp_path / 'a'}: the file ends at byte {len(whole) - 100:,}; 100 bytes"
    )
