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


def test_a_missing_file(tmp_path):
    """One line has the path and the reason."""
    assert message(tmp_path / "none") == f"{tmp_path / 'none'}: no such file"


def test_a_directory(tmp_path):
    """A folder is not mistaken for an image."""
    assert message(tmp_path) == f"{tmp_path}: is a directory, not an image"


def test_an_empty_file(tmp_path):
    """An empty file is not an image."""
    (tmp_path / "empty").touch()
    assert message(tmp_path / "empty").endswith("empty: is empty")


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


def test_a_pipe(tmp_path):
    """A path that is neither file nor disk is not waited for."""
    os.mkfifo(tmp_path / "pipe")
    assert message(tmp_path / "pipe").endswith("is neither a file nor a disk")


def test_a_path_through_a_file(tmp_path):
    """A file used as a folder gives one line too."""
    (tmp_path / "file").touch()
    assert "not a directory" in message(tmp_path / "file" / "image")


def test_a_path_with_a_null():
    """An impossible name does not give a traceback."""
    assert "null" in message("a\0b")


@pytest.mark.parametrize("text", ["hello\n", "caf\u00e9 \u4e2d\n" * 1000, "key: value\n" * 2000])
def test_a_text_file(tmp_path, text):
    """A text is recognised, long or short, in any script, even if a character is cut at 4096 bytes."""
    (tmp_path / "image.img").write_text(text, encoding="utf-8")
    assert message(tmp_path / "image.img").endswith("is a text file, not a disk image")


def test_bytes_are_no_text():
    """Control characters and broken UTF-8 make no text."""
    assert not is_text(b"abc\x00")
    assert not is_text(b"abc\x01")
    assert not is_text(b"\xff\xfe")


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
    """A git LFS pointer has its own refusal."""
    (tmp_path / "image.raw").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(UnsupportedError, match="git lfs pull") as caught:
        open_image(tmp_path / "image.raw")
    assert caught.value.code == "lfs-pointer"


def test_a_damaged_sparse_bundle(tmp_path):
    """A folder of bands with an empty property list is named."""
    (tmp_path / "bands").mkdir()
    (tmp_path / "Info.plist").touch()
    assert message(tmp_path).endswith("its Info.plist is not that of a sparse bundle")


def test_a_second_image_is_opened(tmp_path):
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
