"""False claims about sizes, counts and depths cost little to read."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fixtures.apfs.checksum import with_checksum
from fixtures.apfs.plan import ContainerPlan, VolumePlan
from fixtures.apfs.scenarios import many
from fixtures.apfs.writer import write
from fixtures.hfsplus.writer import render
from layoutscope import check, scan
from layoutscope.filesystems.hfsplus import forks
from tests.fuzz.of_hfsplus import PLANS

HEADER = 1024
NUM_BLOCKS, ALLOCATION, CATALOG_START = HEADER + 44, HEADER + 112, HEADER + 272 + 16
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sound():
    """Return a volume with blocks of 512 bytes."""
    return bytes(render(PLANS["everything"])[0].to_bytearray())


def sparse(path, data, size_bytes):
    """Write a sparse file; skip if the file system has no sparse files."""
    path.write_bytes(data)
    try:
        os.truncate(path, size_bytes)
    except OSError as error:
        pytest.skip(f"no file of {size_bytes:,} bytes here: {error.strerror}")
    return path


def test_a_sweep_follows_what_is_stored(sound, tmp_path):
    """A 2 TiB volume in a 15 TiB file that stores some KiB: less than a MiB is read."""
    changed = bytearray(sound)
    struct.pack_into(">I", changed, NUM_BLOCKS, 2**32 - 1)
    path = sparse(tmp_path / "a", changed, 15 << 40)
    plain = scan(path, drives=())
    swept = scan(path, drives=(), sweep=True)
    assert swept.image.read_bytes < 2**20
    found = swept.volumes[0].layout.nodes.filter(state="live")
    assert found.height == plain.volumes[0].layout.nodes.height


def test_data_behind_holes_are_swept(sound, tmp_path):
    """A node far away, and in the very last bytes, is read like any other."""
    from layoutscope.filesystems.content import stored_units
    from layoutscope.filesystems.hfsplus.sweep import CHUNK_BYTES
    from layoutscope.image import open_image

    size = 100 * CHUNK_BYTES + 4096
    path = sparse(tmp_path / "a", sound, size)
    with path.open("r+b") as file:
        for place in (50 * CHUNK_BYTES + 4096, size - 4096):
            file.seek(place)
            file.write(b"\1" * 4096)
    with open_image(path) as source:
        assert stored_units(source, size, CHUNK_BYTES).tolist() == [[0, 1], [50, 1], [100, 1]]


MEASURED = """
import sys
from pathlib import Path
from layoutscope import check, scan
scan(sys.argv[1], drives=())
check(sys.argv[1])
print(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")))
"""
"""Prints the peak of this program only: getrusage includes the process that started it, too."""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc")
def test_the_largest_allocation_file_is_not_held_at_once(sound, tmp_path):
    """2**32 - 1 blocks need a bitmap of 512 MiB; a volume whose bitmap is a hole is scanned within 200 MiB."""
    changed = bytearray(sound)
    struct.pack_into(">I", changed, NUM_BLOCKS, 2**32 - 1)
    struct.pack_into(">QIIII", changed, ALLOCATION, 2**29, 512, 2**20, 10**6, 2**20)
    path = sparse(tmp_path / "a", changed, (2**32 - 1) * 512)
    command = [sys.executable, "-c", MEASURED, path]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert int(result.stdout) < 200 * 1024


@pytest.mark.parametrize("stretch", [1, 7, 64])
def test_free_runs_go_on_from_stretch_to_stretch(sound, tmp_path, monkeypatch, stretch):
    """The free blocks do not depend on how much of the allocation file is held at once."""
    (tmp_path / "a").write_bytes(sound)
    whole = scan(tmp_path / "a", drives=()).volumes[0].layout.free
    monkeypatch.setattr(forks, "STRETCH_BYTES", stretch)
    assert scan(tmp_path / "a", drives=()).volumes[0].layout.free.equals(whole)
    assert np.all(whole["length_bytes"].to_numpy() > 0)


@pytest.mark.parametrize(
    ("field", "value", "code"), [(14, b"\xff\xff", "tree-header-differs"), (36, b"\xff" * 4, "tree-size-differs")]
)
def test_a_scan_says_what_a_tree_header_makes_up(sound, tmp_path, field, value, code):
    """A depth of 65,535 and 2**32 - 1 nodes give a warning in the scan, not only in a check."""
    (block,) = struct.unpack_from(">I", sound, HEADER + 40)
    (start,) = struct.unpack_from(">I", sound, CATALOG_START)
    place = start * block + field
    (tmp_path / "a").write_bytes(sound[:place] + value + sound[place + len(value) :])
    found = scan(tmp_path / "a", drives=()).volumes[0].layout.findings
    assert [(row["code"], row["level"]) for row in found.to_dicts()] == [(code, "warning")]


def test_counts_that_no_figure_of_a_scan_uses_are_the_checks(tmp_path):
    """A space manager claims 2**40 chunks: free space counts the existing chunks, and a check reports the claim."""
    path = tmp_path / "a"
    write(ContainerPlan((VolumePlan("Many", many(60)),), block_count=4096), path)
    whole = scan(path, drives=()).parts[0].layout.free
    data = bytearray(path.read_bytes())
    managers = [at for at in range(0, len(data), 4096) if struct.unpack_from("<H", data, at + 24) == (5,)]
    for at in managers:
        struct.pack_into("<Q", data, at + 56, 2**40)
        data[at : at + 4096] = with_checksum(bytes(data[at : at + 4096]))
    path.write_bytes(data)
    result = scan(path, drives=())
    assert managers
    assert result.parts[0].layout.free.equals(whole)
    assert check(path).exit_code == 3
