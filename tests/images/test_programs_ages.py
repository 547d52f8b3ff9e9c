"""Real programs and mounts on volumes of other ages, sizes and fills, made and traced here; skips without a lab.

Nothing is stored: every run makes them again from the seeds in this file.
"""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from layoutscope.access.trace import AccessTrace
from layoutscope.walk import Work, host_profile, trace
from layoutscope.walk.score import score
from tests.images.test_mounts import places, without_partition_scan
from tests.images.test_programs import HOST, layout_of, predicted, requests_in

COMMANDS = {"du": "du -s .", "rsync": "rsync -an . /tmp/none/"}

AGES = {
    "hfsplus-cycle-3": ("--files", "20000", "--cycles", "3", "--seed", "31", "--template", "8G", "--order", "created"),
    "apfs-cycle-3": ("--files", "20000", "--cycles", "3", "--seed", "31", "--size", "8G", "--order", "created"),
    "hfsplus-cycle-12": ("--files", "30000", "--cycles", "12", "--seed", "12", "--template", "1T"),
    "apfs-cycle-12": (
        *("--files", "30000", "--cycles", "12", "--seed", "77", "--size", "100G"),
        *("--driver", "stock", "--mkfs", "-s"),
    ),
    "hfsplus-full": ("--files", "3000", "--cycles", "8", "--seed", "5", "--template", "512M"),
    "apfs-full": ("--files", "3000", "--cycles", "8", "--seed", "5", "--size", "350M"),
    "hfsplus-journaled": ("--files", "3000", "--cycles", "5", "--seed", "6", "--template", "512M-journaled"),
    "hfsplus-hfsx": ("--files", "4000", "--cycles", "7", "--seed", "77", "--template", "1G-hfsx"),
}
SIZES = {"hfsplus": ("--template", "8G"), "apfs": ("--size", "4G")}

FOLDERS = """#!/usr/bin/python3
import os, random
os.chdir("/mnt"); r = random.Random(7)
made = {}
for folder, count in (("below", 9990), ("above", 10050), ("far above", 14000), ("few", 40)):
    os.mkdir(folder)
    names = [f"{'x' * r.randrange(1, 40)}{k:05}" for k in range(count)]
    r.shuffle(names)
    for k, name in enumerate(names):
        path = f"{folder}/{name}"
        if k % 700 == 0:
            os.mkdir(path)
            for n in range(5): open(f"{path}/in {n}", "wb").write(bytes(100))
        elif k % 333 == 0:
            os.symlink(f"../few/{name}", path)
        else:
            with open(path, "wb") as file: file.write(bytes(r.choice((0, 10, 5000, 30000))))
    made[folder] = names
os.sync()
for cycle in range(4):
    for folder, names in made.items():
        for k in r.sample(range(len(names)), len(names) // 20):
            path = f"{folder}/{names[k]}"
            if os.path.isdir(path): continue
            os.unlink(path)
            with open(path + "~", "wb") as file: file.write(bytes(r.choice((0, 10, 5000, 30000))))
            os.rename(path + "~", path)
    os.sync()
"""
"""Folders below and above 10,000 entries, from which du uses inode order, aged."""

CRASH = """#!/usr/bin/python3
import os, subprocess
os.chdir("/mnt"); os.mkdir("crash")
for n in range(900):
    open(f"crash/{n}", "wb").write(bytes(n * 40))
    if n == 600: os.sync()
subprocess.run(["busybox", "poweroff", "-n", "-f"])
"""
"""The machine stops while files are written, some of them after the last commit."""


def meets(lab, image, folder):
    """Compare du, rsync and the preceding mounts with the prediction; return the volume."""
    layout = layout_of(image)
    for program, command in COMMANDS.items():
        lab("trace", str(image), "-o", str(folder / program), "exec", *command.split())
        real = requests_in(folder / f"{program}.trace.zst")
        assert len(real) > 100
        assert np.array_equal(real, predicted(layout, program))
        mounted = requests_in(folder / f"{program}.mount.trace.zst")
        reads = trace(layout, order="mount", host=HOST)
        assert np.array_equal(without_partition_scan(mounted), without_partition_scan(places(reads)))
    found = score(AccessTrace.from_reads(mounted[:, 0], mounted[:, 1]), reads, layout)
    assert (found.block_share, found.extra_share, found.pair_share) == (1, 0, 1)
    return layout


@pytest.fixture(autouse=True)
def _programs():
    for name in ("du", "rsync"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")


@pytest.mark.slow
@pytest.mark.parametrize("name", AGES)
def test_du_rsync_and_mounts_at_other_ages(lab, tmp_path, name):
    """After 3 and 12 cycles, full, journaled, binary names: every request in its place."""
    image = tmp_path / f"{name}.img"
    lab("make", name.split("-")[0], "-o", str(image), *AGES[name])
    meets(lab, image, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("filesystem", SIZES)
def test_aged_folders_on_both_sides_of_the_limit(lab, tmp_path, filesystem):
    """9,990, 10,050 and 14,000 entries, including folders, links and replaced files."""
    image, fill = tmp_path / f"{filesystem}.img", tmp_path / "fill.py"
    fill.write_text(FOLDERS)
    made = ("--files", "2000", "--cycles", "1", "--seed", "5")
    lab("make", filesystem, "-o", str(image), *made, *SIZES[filesystem])
    lab("run", str(image), "--", str(fill))
    layout = meets(lab, image, tmp_path)
    # Inode order and listing order read the same blocks in different sequences.
    by_number, as_listed = (trace(layout, order=order, host=HOST).image_offset for order in ("du", "fts"))
    assert set(by_number.tolist()) == set(as_listed.tolist())
    assert not np.array_equal(by_number, as_listed)


@pytest.mark.slow
@pytest.mark.parametrize("filesystem", SIZES)
@pytest.mark.parametrize(("program", "order"), [("ls -lR .", "ls"), ("tar cf - . | cat", "archive")])
def test_a_second_pass_finds_all_in_memory(lab, tmp_path, filesystem, program, order):
    """A repeated pass reads the same as a single one, if everything fits in memory."""
    image = tmp_path / f"{filesystem}.img"
    made = ("--files", "600", "--cycles", "2", "--seed", "6")
    lab("make", filesystem, "-o", str(image), *made, *SIZES[filesystem])
    twice = f"{program} > /dev/null; {program} > /dev/null"
    lab("trace", str(image), "-o", str(tmp_path / "twice"), "exec", "sh", "-c", twice)
    layout = layout_of(image)
    reads = places(trace(layout, order=order, host=HOST, work=Work(passes=2)))
    assert np.array_equal(requests_in(tmp_path / "twice.trace.zst"), reads)
    assert len(trace(layout, order=order, host=HOST, work=Work(warm=True))) == 0
    small = host_profile(HOST, cache_bytes=1 << 16)
    assert len(trace(layout, order=order, host=small, work=Work(passes=2))) > len(reads)


@pytest.mark.slow
@pytest.mark.parametrize("filesystem", SIZES)
def test_mount_after_a_crash(lab, tmp_path, filesystem):
    """Linux's drivers mount a crashed volume as any other: in the last consistent state."""
    image, fill = tmp_path / f"{filesystem}.img", tmp_path / "fill.py"
    fill.write_text(CRASH)
    made = ("--files", "600", "--cycles", "2", "--seed", "6")
    lab("make", filesystem, "-o", str(image), *made, *SIZES[filesystem])
    with pytest.raises(subprocess.CalledProcessError):
        lab("run", str(image), "--", str(fill))
    layout = meets(lab, image, tmp_path)
    if filesystem == "hfsplus":
        assert "unmounted" not in layout.facts.features
    else:
        names = set(layout.entries.filter(layout.entries["name"].is_in([str(n) for n in range(900)]))["name"])
        assert 600 <= len(names) < 900
