"""Sector maps in profiles: valid ones are laid out, others are an error of the profile."""

from __future__ import annotations

import numpy as np
import pytest

from layoutscope.drive import load_profile, service
from layoutscope.drive.geometry import read_mapped_runs
from layoutscope.drive.hdd import CYLINDER, HEAD, LBN, TRACK_BEGIN, TRACK_END
from layoutscope.errors import UsageError
from layoutscope.walk import AccessTrace
from layoutscope.zstd import zstd

PROFILE = """name = "four tracks"
kind = "hdd"
[figures]
capacity_bytes = { value = 25600, kind = "assumed", source = "test" }
rpm = { value = 6000, kind = "assumed", source = "test" }
cylinders = { value = 2, kind = "assumed", source = "test" }
map_file = { value = "disk.map.zst", kind = "assumed", source = "test" }
seek_distance_cylinders = { value = [1, 2], kind = "assumed", source = "test" }
seek_ms = { value = [1, 2], kind = "assumed", source = "test" }
"""

ROWS = np.array(
    [[10, 10, 20, 10], [0, 0, 1, 0], [0, 1, 0xFFFFFFFF, 1], [0, 10, 0, 0], [20, 20, 20, 20], [0, 0, 7, 0]], np.uint32
)
"""Two runs of 10 sectors on tracks 0/0 and 0/1, one of 20 on 1/0, one of 10 on 1/1; tracks hold 20."""


@pytest.fixture
def disk(tmp_path):
    """Return a function that makes the profile of a disk of 50 sectors with a given file as its map."""
    (tmp_path / "disk.toml").write_text(PROFILE)

    def make(data: bytes | None):
        if data is not None:
            (tmp_path / "disk.map.zst").write_bytes(data)
        return load_profile(tmp_path / "disk.toml")

    return make


def packed(rows) -> bytes:
    return zstd.compress(np.asarray(rows, np.dtype(np.uint32).newbyteorder("<")).tobytes())


def test_runs_lie_where_the_map_says(disk):
    """Sums of the columns: sectors from 0, 10, 20, 40; cylinders 0, 0, 1, 1; heads 0, 1, 0, 1."""
    runs = read_mapped_runs(disk(packed(ROWS)))
    assert runs[:, LBN].tolist() == [0, 10, 20, 40, 50]
    assert runs[:-1, CYLINDER].tolist() == [0, 0, 1, 1]
    assert runs[:-1, HEAD].tolist() == [0, 1, 0, 1]
    assert runs[:-1, [TRACK_BEGIN, TRACK_END]].tolist() == [[0, 10], [10, 20], [20, 40], [40, 50]]


def changed(row, column, value):
    rows = ROWS.copy()
    rows[row, column] = value
    return packed(rows)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, "not a map of sectors"),
        (b"not compressed", "not a map of sectors"),
        (packed(ROWS)[:-4], "not a map of sectors"),
        (packed([]), "0 bytes do not make 6 columns"),
        (packed(range(7)), "28 bytes do not make 6 columns"),
        (changed(0, 1, 0), "a run has no sector"),
        (changed(4, 2, 0), "more than its track"),
        (changed(0, 3, 21), "more than its track"),
        (changed(1, 2, 10**7), "cylinder 10,000,000"),
        (changed(2, 1, 256), "head 256"),
        (changed(0, 2, 19), "ends at byte 25,088"),
    ],
)
def test_what_is_no_map_is_refused(disk, data, reason):
    """A missing, broken, impossible or short map is an error that names the profile."""
    reads = AccessTrace.from_reads(np.array([0]), np.array([512]))
    with pytest.raises(UsageError, match=reason):
        service(reads, disk(data))


@pytest.mark.parametrize("name", ["../disk.map.zst", "/dev/zero", "pipe", "folder"])
def test_only_a_file_beside_the_profile_is_read(disk, tmp_path, name):
    """A foreign profile cannot reference a file elsewhere, and a pipe or folder next to it is not waited for."""
    import os

    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    profile = disk(packed(ROWS))
    with pytest.raises(UsageError, match="not a map of sectors"):
        read_mapped_runs(profile.with_figures(map_file=name))


def test_a_map_without_end_is_not_read(disk, monkeypatch):
    """A file larger than any map is refused by its size, and so is one that decompresses to more."""
    monkeypatch.setattr("layoutscope.drive.geometry.MAX_PACKED_BYTES", 20)
    with pytest.raises(UsageError, match="longer than 20 bytes"):
        read_mapped_runs(disk(packed(ROWS)))
