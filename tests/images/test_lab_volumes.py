"""Volumes with unusual content, filled and listed by real drivers during the tests; skips without a lab."""

from __future__ import annotations

import io
import json
import unicodedata

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from layoutscope.cli.application import app
from layoutscope.zstd import zstd
from tests.layouts import FIND_LETTERS

FILL = """#!/usr/bin/python3
import os, socket
os.chdir("/mnt")
def touch(path, size=0):
    with open(path, "wb") as file:
        file.truncate(size) if size > 1 << 20 else file.write(bytes(size))
for path in ("links/a/b", "links/c", "names", "special", "gone", "empty", "hash"):
    os.makedirs(path)
for number in range(40):
    touch(f"links/a/{number}", number * 700)
    for copy in range(number % 4):
        os.link(f"links/a/{number}", f"links/{'c' if copy else 'a/b'}/{number}-{copy}")
    if number % 7 == 0:
        os.unlink(f"links/a/{number}")
os.symlink("../links/a/1", "special/symlink")
os.symlink("x" * 1000, "special/long")
os.mkfifo("special/fifo")
os.mknod("special/char", 0o20600, os.makedev(5, 44))
os.mknod("special/block", 0o60600, os.makedev(8, 17))
socket.socket(socket.AF_UNIX).bind("special/socket")
path = "deep"
for level in range(60):
    os.mkdir(path)
    touch(f"{path}/file", level * 100)
    path += f"/{level}"
names = ["e\\u0301", "\\u00fc", "\\ud55c\\uae00", "\\U0001f600", "a" * 255, " b", "c ", "d:e", "=f", "\\u212b"]
names += ["back\\\\slash", "\\ufb01", "\\u1e9b\\u0323", "\\x1b[31m", "\\u0130", "\\u03c3\\u03c2", "[red]"]
for number, name in enumerate(names):
    touch(f"names/{name}", number)
for number in range(2000):
    touch(f"gone/a-name-that-fills-leaves-which-will-be-empty-{number:05}")
os.sync()
for number in range(2000):
    if number % 500:
        os.unlink(f"gone/a-name-that-fills-leaves-which-will-be-empty-{number:05}")
for name in ("54e0c1e43c953dc-1322", "d8d55199b052eb-3683"):
    touch(f"hash/{name}")
for number in range(40):
    touch(f"names/attribute{number}")
    os.setxattr(f"names/attribute{number}", "osx.com.example", bytes(10 * number + 1))
"""
"""Content that ordinary files lack; the two names in ``hash`` have one hash on APFS, and different lengths."""

VOLUMES = {
    "hfsplus": ("hfsplus", "--template", "512M"),
    "hfsx": ("hfsplus", "--template", "1G-hfsx"),
    "apfs": ("apfs", "--size", "400M"),
    "apfs-case-sensitive": ("apfs", "--size", "400M", "--mkfs", "-s", "--driver", "stock"),
}
EXTRA = {"apfs": ["--host-property", "apfs_looks_up_dstream=no"], "hfsplus": []}
"""The lab's APFS driver is 0.3.0, which does not look data streams up."""


@pytest.fixture(scope="module", params=VOLUMES)
def volume(request, lab, tmp_path_factory):
    """Return the image of a filled volume, its file system, and the driver's listing: inode, kind, links, size."""
    folder = tmp_path_factory.mktemp(request.param)
    folder.chmod(0o777)
    image, script = folder / "disk.img", folder / "fill.py"
    lab("make", *VOLUMES[request.param], "-o", str(image), "--files", "400", "--cycles", "2", "--seed", "31")
    script.write_text(FILL)
    lab("run", str(image), "--", f"python3 {script}")
    lab("run", str(image), "--ro", "--share", str(folder), "--", "$LAB_TOOLS/walk find /mnt > /share/find.tsv")
    lines = (folder / "find.tsv").read_text("utf-8", "surrogateescape").split("\n")[:-1]
    rows = [line.split("\t") for line in lines]
    listed = {unicodedata.normalize("NFD", row[5]): (row[0], row[1], row[2], row[3]) for row in rows if row[5]}
    return image, VOLUMES[request.param][0], listed


def ran(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


def listing(image):
    """Return the exported table in the driver's form: inode, kind, links, size."""
    lines = ran("export", image, "--table", "entries", "--format", "jsonl").splitlines()
    entries = [json.loads(line) for line in lines]
    folders = {row["file_id"]: row for row in entries if row["kind"] == "directory"}

    def path(row):
        names = [row["name"]]
        while row["parent_id"] in folders and row["parent_id"] != "2":
            row = folders[row["parent_id"]]
            names.append(row["name"])
        return unicodedata.normalize("NFD", "/".join(reversed(names)))

    inside = [row for row in entries if row["parent_id"] != "1"]
    found = {path(row): row for row in inside}
    return {
        name: (str(row["file_id"]), FIND_LETTERS[row["kind"]], str(row["link_count"]), str(row["size_bytes"]))
        for name, row in found.items()
        if not name.startswith(("\0", ".HFS+ Private Directory Data\r"))
    }


@pytest.mark.slow
def test_listing_is_that_of_the_driver(volume):
    """Paths, inodes, kinds and links of all, and sizes of files, equal those of the mounted volume."""
    image, _, expected = volume
    found = listing(image)
    assert len(expected) > 700
    assert {name: row[:3] for name, row in found.items()} == {name: row[:3] for name, row in expected.items()}
    sizes = {name: row[3] for name, row in expected.items() if row[1] == "f"}
    assert {name: found[name][3] for name in sizes} == sizes


@pytest.mark.slow
def test_sound_volume_is_called_clean(volume):
    """A volume that a driver wrote has no contradictions, and both decoders read it alike."""
    image, _, _ = volume
    assert b"clean" in ran("check", image)
    assert b"agree on every row" in ran("verify", image)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["stat", "names", "copy"])
def test_trace_is_that_of_the_driver(lab, volume, order):
    """The CSV of the command line equals the driver's reads, in order."""
    image, filesystem, _ = volume
    prefix = image.with_suffix(".traced")
    lab("trace", str(image), "-o", str(prefix), order)
    data = zstd.decompress(prefix.with_suffix(".traced.trace.zst").read_bytes())
    words = [] if order == "stat" else ["--order", order]
    table = pl.read_csv(io.BytesIO(ran("trace", image, *words, *EXTRA[filesystem])))
    real = np.frombuffer(data, np.uint64).reshape(-1, 2)
    assert table.select("image_offset", "length_bytes").to_numpy().tolist() == real.tolist()
