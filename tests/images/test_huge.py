"""A small volume on a disk of many terabytes that is nearly all holes."""

from __future__ import annotations

import shutil

import pytest

from layoutscope import scan

TIB = 1024**4


@pytest.fixture
def huge(reference_image, tmp_path):
    """Return 15 TiB with a volume in the last TiB; skips if the system cannot store such a file."""
    path = tmp_path / "huge.img"
    small = reference_image("driver/hfsplus-4k.img")
    try:
        with path.open("wb") as file, small.open("rb") as volume:
            file.truncate(15 * TIB)
            file.seek(14 * TIB)
            shutil.copyfileobj(volume, file)
    except OSError:
        pytest.skip("the file system allows no file of 15 TiB")
    return path, small


def test_a_small_volume_on_a_huge_disk_is_read_as_if_alone(huge):
    """Only the volume is read: the bytes of the volume's own image, and a few at the ends."""
    path, small = huge
    alone = scan(small, drives=())
    found = scan(path, volume_at=14 * TIB, drives=())
    assert found.image.read_bytes < alone.image.read_bytes + 1024**2
    assert found.parts[0].layout.entries.height == alone.parts[0].layout.entries.height
