from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys

import pytest

from layoutscope.errors import ImageError
from layoutscope.image import open_image, raw
from layoutscope.image.raw import pread_into


@pytest.mark.parametrize(
    ("start", "length", "whole"),
    [(0, 512, (0, 512)), (1, 1, (0, 512)), (511, 2, (0, 1024)), (512, 512, (512, 1024)), (1000, 0, (512, 1024))],
)
def test_reads_are_widened_to_sectors(start, length, whole):
    """A raw device accepts only whole sectors of 512 bytes."""
    assert raw.aligned(start, length, 512) == whole


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """Return a device of 64 sectors of 4096 bytes that accepts nothing but whole sectors."""
    path = tmp_path / "rdisk9"
    path.write_bytes(bytes(range(256)) * 1024)
    monkeypatch.setattr(raw, "_ask_for_size", lambda _: (64 * 4096, 4096))

    def whole_sectors_only(descriptor, image_offset, target):
        if image_offset % 4096 or len(target) % 4096:
            raise OSError(22, "Invalid argument")
        return pread_into(descriptor, image_offset, target)

    monkeypatch.setattr("layoutscope.image.raw.pread_into", whole_sectors_only)
    with raw.Device(path) as source:
        yield source


def test_a_device_reads_what_is_asked(disk):
    """The caller gets only the requested bytes, within sectors and across them."""
    assert disk.read(4000, 200) == bytes(value % 256 for value in range(4000, 4200))
    assert disk.read(64 * 4096 - 3, 3) == bytes([253, 254, 255])
    assert disk.read(8192, 4096) == bytes(range(256)) * 16


def test_darwin_is_asked_for_blocks(monkeypatch):
    """On macOS the size is the block count times the block size."""
    answers = {raw.DARWIN_BLOCK_SIZE: 4096, raw.DARWIN_BLOCK_COUNT: 250_000_000}

    def ioctl(_descriptor, request, answer, _mutate):
        answer[0] = answers[request]

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert raw._ask_for_size(0) == (1_024_000_000_000, 4096)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the devices are Linux's")
def test_a_device_without_a_size_is_no_disk():
    """/dev/zero has no end and is refused in one line."""
    with pytest.raises(ImageError, match="is not a disk"):
        open_image("/dev/zero")


@pytest.mark.parametrize(("platform", "advice"), [("darwin", "Full Disk Access"), ("linux", "sudo")])
def test_a_denied_device_says_what_to_do(tmp_path, monkeypatch, platform, advice):
    """The advice is specific to the platform."""

    def deny(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.open", deny)
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(ImageError, match=advice):
        raw.Device(tmp_path / "disk")


@pytest.fixture
def loop_device(tmp_path):
    """Return a loop device over 1 MiB of counting bytes; skip if the system does not allow one."""
    path = tmp_path / "disk"
    path.write_bytes(bytes(range(256)) * 4096)
    if shutil.which("losetup") is None:
        pytest.skip("losetup is not installed")
    made = subprocess.run(["losetup", "-r", "-f", "--show", path], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip("loop devices are not allowed here")
    yield made.stdout.strip()
    subprocess.run(["losetup", "-d", made.stdout.strip()], check=True)


def test_a_block_device_of_linux(loop_device):
    """A real block device has a size and a sector size, and can be read from within a sector."""
    with open_image(loop_device) as source:
        assert (source.size_bytes, source.sector_size_bytes) == (1 << 20, 512)
        assert source.read(1001, 3) == bytes([1001 % 256, 1002 % 256, 1003 % 256])
