"""Cold reads of real programs through Linux's drivers, request by request.

The traces of the aged volumes were recorded by linux-apfs-rw 0.3.0 and Linux 6.1's hfsplus, with coreutils 9.1, rsync
3.5.0, findutils 4.9.0, git 2.39.5 (its own files elsewhere, one thread) and tar 1.34. The other traces are recorded
again where the lab is available.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import layoutscope
from layoutscope.image import RawFile
from layoutscope.report.json import result_json
from layoutscope.walk import host_profile, trace
from layoutscope.zstd import zstd
from tests.apfs import read_layouts
from tests.hfsplus import read_layout

TRACES = Path(__file__).parent / "traces"
PROGRAMS = {
    "du": "du -s .",
    "rsync": "rsync -an . /tmp/none/",
    "find": "find .",
    "ls": "ls -lR .",
    # With the null device as output it would read no data.
    "tar": ["sh", "-c", "tar cf - . | cat > /dev/null"],
}
ORDERS = {"du": "du", "rsync": "backup", "find": "find", "ls": "ls", "tar": "archive", "git": "git-status"}
READ_BY_TAR = {
    ("hfsplus", "c00"): (28_463, "dfa9c7deb3b012b91a28732cee5785c0"),
    ("hfsplus", "c20"): (39_101, "e4dccf575f23b26522e360b956364645"),
    ("apfs", "c00"): (27_112, "6436af6fb3e6f5d0b51066d88f7d79b4"),
    ("apfs", "c20"): (40_733, "72e88ab1832e29908c8c32549ff2d994"),
}
"""Number of recorded reads, and the beginning of the SHA-256 of their offsets and lengths: the traces are large."""
# This driver does not look up a file's data stream when it creates an inode.
HOST = host_profile("linux", apfs_looks_up_dstream=False)

ODD = """#!/usr/bin/python3
import os, random
os.chdir("/mnt")
r = random.Random(5)
os.mkdir("big")
order = list(range(COUNT)); r.shuffle(order)
for n in order:
    path = f"big/entry number {n:06}"
    if n % 240 == 0:
        os.mkdir(path); open(path + "/inner", "w").close()
    else:
        open(path, "w").close()
for d in ("a", "a-b", "a b", "a.c", "aa", "A2", "é", "e", "z"):
    os.mkdir(d)
    for n in range(300):
        open(f"{d}/{n}", "w").close()
        if n % 3 == 0: os.symlink(f"../big/entry {n}", f"{d}/link {n}")
        if n % 5 == 0: os.link(f"{d}/{n}", f"a/hard {d} {n}")
    for sub in ("sub-x", "sub", "sub x"):
        os.mkdir(f"{d}/{sub}"); open(f"{d}/{sub}/f", "w").close()
os.sync()
"""
"""Links, names whose order changes with a trailing slash, two-character letters, and a large directory."""


def layout_of(path):
    """Return the tables of an image's volume."""
    source = RawFile(path)
    if path.name.startswith("hfs"):
        return read_layout(source)
    return next(layout for layout in read_layouts(source) if layout.facts.volume is not None)


def requests_in(path):
    """Return offsets and lengths of a trace's reads."""
    with path.open("rb") as file:
        data = zstd.decompress(file.read())
    return np.frombuffer(data, np.uint64).reshape(-1, 2).astype(np.int64)


def predicted(layout, program):
    """Return offsets and lengths of the predicted reads."""
    made = trace(layout, order=ORDERS[program], host=HOST)
    return np.stack([made.image_offset, made.length_bytes], axis=1)


@pytest.mark.parametrize("program", ["du", "rsync"])
@pytest.mark.parametrize("age", ["c00", "c20"])
@pytest.mark.parametrize("filesystem", ["hfsplus", "apfs"])
def test_programs_read_what_is_predicted(reference_image, filesystem, age, program):
    """20,000 files, fresh and after 20 cycles."""
    name = f"{filesystem}-20000-{age}"
    layout = layout_of(reference_image(f"aged/{name}.img"))
    real = requests_in(TRACES / f"{name}-{program}.trace.zst")
    assert np.array_equal(real, predicted(layout, program))
    # Another order reads the same blocks.
    other = trace(layout, order="readdir-stat", host=HOST).image_offset
    assert set(other.tolist()) == set(real[:, 0].tolist())
    # HFS+ lists names in the order in which rsync sorts these.
    assert np.array_equal(other, real[:, 0]) == (filesystem == "hfsplus" and program == "rsync")


def printed(result):
    """Return the fields to show of a result."""
    console = Console(file=io.StringIO(), width=200)
    console.print(result)
    return console.file.getvalue()


def test_the_version_of_the_driver_is_found_by_trial(reference_image, shared):
    """0.3.0 looks up no data streams: reported for its traces, not for 0.3.20, nor if the property is given."""
    image = reference_image("aged/apfs-20000-c20.img")
    younger, older = shared / "images/traces/apfs-20000-c20-stat.trace.zst", TRACES / "apfs-20000-c20-du.trace.zst"
    found = layoutscope.replay(older, against=image, drives="generic-7200", order="du")
    assert found.driver == "linux-apfs-rw 0.3.0 (apfs_looks_up_dstream=no)"
    assert (found.agreement.block_share, found.agreement.extra_share, found.agreement.pair_share) == (1, 0, 1)
    assert "Predicted as linux-apfs-rw 0.3.0 (apfs_looks_up_dstream=no) reads" in printed(found)
    assert json.loads(result_json(found))["driver"] == found.driver
    usual = layoutscope.replay(younger, against=image, drives="generic-7200", order="fts")
    assert (usual.driver, usual.agreement.pair_share) == ("", 1)
    assert "Predicted as" not in printed(usual)
    given = layoutscope.replay(
        older, against=image, drives="generic-7200", order="du", host_properties={"apfs_looks_up_dstream": "yes"}
    )
    assert given.driver == ""
    assert given.agreement.pair_share < 0.95


@pytest.mark.parametrize("age", ["c00", "c20"])
@pytest.mark.parametrize("filesystem", ["hfsplus", "apfs"])
def test_find_ls_and_tar_read_what_is_predicted(reference_image, filesystem, age):
    """Find reads less than du, ls the same as rsync if no name has a character below the slash, tar all data."""
    name = f"{filesystem}-20000-{age}"
    layout = layout_of(reference_image(f"aged/{name}.img"))
    found = predicted(layout, "find")
    assert np.array_equal(requests_in(TRACES / f"{name}-find.trace.zst"), found)
    assert set(found[:, 0].tolist()) < set(predicted(layout, "du")[:, 0].tolist())
    assert np.array_equal(requests_in(TRACES / f"{name}-rsync.trace.zst"), predicted(layout, "ls"))
    archived = predicted(layout, "tar")
    digest = hashlib.sha256(archived.astype("<i8").tobytes()).hexdigest()
    assert (len(archived), digest[:32]) == READ_BY_TAR[filesystem, age]


@pytest.mark.parametrize("filesystem", ["hfsplus", "apfs"])
def test_git_status_reads_what_is_predicted(reference_image, filesystem):
    """All files in byte order of their paths; other listed data are in the same leaves."""
    name = f"{filesystem}-20000-c20"
    layout = layout_of(reference_image(f"aged/{name}.img"))
    real = requests_in(TRACES / f"{name}-git.trace.zst")
    assert np.array_equal(real, predicted(layout, "git"))
    # ls reads the same blocks in another order: all of a directory before its subdirectories.
    listed = predicted(layout, "ls")
    assert not np.array_equal(real, listed)
    assert set(real[:, 0].tolist()) == set(listed[:, 0].tolist())


@pytest.mark.slow
@pytest.mark.parametrize("count", [12_000, 110_000])
@pytest.mark.parametrize("filesystem", ["hfsplus", "apfs"])
def test_large_directories_links_and_names(lab, tmp_path, filesystem, count):
    """Above 10,000 entries du uses inode order, above 100,000 in two parts; rsync reads link targets."""
    commands = {name: given.split() if isinstance(given, str) else given for name, given in PROGRAMS.items()}
    for name in (*PROGRAMS, "sh"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    image, fill = tmp_path / f"{filesystem}.img", tmp_path / "fill.py"
    fill.write_text(ODD.replace("COUNT", str(count)))
    size = ("--size", "2G") if filesystem == "apfs" else ("--template", "8G")
    lab("make", filesystem, "-o", str(image), "--files", "50", "--cycles", "0", "--seed", "3", *size)
    lab("run", str(image), "--", f"python3 {fill}")
    layout = layout_of(image)
    for program, command in commands.items():
        lab("trace", str(image), "-o", str(tmp_path / program), "exec", *command)
        assert np.array_equal(requests_in(tmp_path / f"{program}.trace.zst"), predicted(layout, program))
