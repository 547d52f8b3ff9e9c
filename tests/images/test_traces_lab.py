"""Predictions compared with drivers at run time, on images without stored traces; skips without a lab."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from layoutscope.image import RawFile
from layoutscope.walk import AccessTrace, Work, host_profile, trace
from layoutscope.zstd import zstd
from tests.apfs import read_layouts
from tests.hfsplus import read_layout
from tests.validation.remedies import Aged, Lab, proven

HOST = host_profile("linux", apfs_looks_up_dstream=False)
"""The lab's APFS driver is 0.3.0, which does not look data streams up."""

FILL = """#!/usr/bin/python3
import os
os.chdir("/mnt")
os.makedirs("big/zz-dir"); os.makedirs("attributes"); os.makedirs("deep/a/b/c")
for number in range(2500):
    open(f"big/\\u00e9{number:04}\\ud55c\\uae00", "w").close()
for number in range(200):
    os.link(f"big/\\u00e9{number:04}\\ud55c\\uae00", f"deep/a/link{number}")
    os.mkdir(f"attributes/{number:03}")
    for size in (3000, 1500):
        try:
            os.setxattr(f"attributes/{number:03}", f"osx.{size}", b"x" * size)
        except OSError:
            pass
    for name in range(12):
        open(f"attributes/{number:03}/a-name-of-some-length-{name}", "w").close()
with open("deep/a/b/c/data", "wb") as file:
    file.write(os.urandom(1500000))
os.mkdir("sparse")
for number in range(40):
    with open(f"sparse/{number}", "wb", buffering=0) as file:
        for step in range(60):
            file.seek((step * 7919 + number * 31) % 400 * 4096)
            file.write(os.urandom(4096 * (1 + step % 3)))
os.sync()
"""
"""More names than a buffer holds, decomposed on disk; hard links; attributes between a directory and its entries;
files with holes (zeros on HFS+), written out of order."""


@pytest.fixture(scope="module", params=["hfsplus", "apfs"])
def volume(request, lab, tmp_path_factory):
    """Return the path of a filled volume and its layout."""
    folder = tmp_path_factory.mktemp(request.param)
    image, script = folder / f"{request.param}.img", folder / "fill.py"
    size = ("--template", "512M") if request.param == "hfsplus" else ("--size", "512M")
    lab("make", request.param, "-o", str(image), *size, "--files", "300", "--cycles", "0", "--seed", "5")
    script.write_text(FILL)
    lab("run", str(image), "--", f"python3 {script}")
    if request.param == "hfsplus":
        return image, read_layout(RawFile(image))
    return image, next(layout for layout in read_layouts(RawFile(image)) if layout.facts.volume is not None)


def real(lab, image, *workload) -> AccessTrace:
    prefix = image.with_suffix(".traced")
    lab("trace", str(image), "-o", str(prefix), *workload)
    data = zstd.decompress(Path(f"{prefix}.trace.zst").read_bytes())
    pairs = np.frombuffer(data, np.uint64).reshape(-1, 2).astype(np.int64)
    return AccessTrace.from_reads(pairs[:, 0], pairs[:, 1])


def number_of(layout, *names) -> int:
    number = 2
    for name in names:
        entries = layout.entries
        number = entries.filter((entries["parent_id"] == number) & (entries["name"] == name))["file_id"].item()
    return number


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stat", "nostat", "names", "copy"])
def test_driver_reads_what_is_predicted(lab, volume, kind):
    """Every request of a listing of large directories, hard links and attributes is predicted, in order."""
    image, layout = volume
    there = real(lab, image, kind)
    here = trace(
        layout, order=kind if kind in ("names", "copy") else "fts", host=HOST, work=Work(stat=kind != "nostat")
    )
    assert len(there) > 100
    assert np.array_equal(there.image_offset, here.image_offset)
    assert np.array_equal(there.length_bytes, here.length_bytes)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stat", "names"])
def test_walk_from_a_directory_reads_what_is_predicted(lab, volume, kind):
    """The path to the directory and everything below it, nothing else."""
    image, layout = volume
    there = real(lab, image, kind, "/deep/a")
    order = "names" if kind == "names" else "fts"
    here = trace(layout, order=order, host=HOST, work=Work(start_directory_id=number_of(layout, "deep", "a")))
    assert np.array_equal(there.image_offset, here.image_offset)


@pytest.mark.slow
def test_records_longer_than_the_window_are_read_as_predicted(lab, volume):
    """Random records of 200,000 bytes: the read-ahead windows grow with them."""
    image, layout = volume
    there = real(lab, image, "read", "deep/a/b/c/data", "random:6:200000:9")
    lines = Path(f"{image.with_suffix('.traced')}.offsets.tsv").read_text().splitlines()
    records = np.array([int(line.split("\t")[1]) for line in lines])
    number = number_of(layout, "deep", "a", "b", "c", "data")
    here = trace(layout, order="read", host=HOST, work=Work(file_id=number, records=records, record_bytes=200000))
    assert np.array_equal(there.image_offset, here.image_offset)
    assert np.array_equal(there.length_bytes, here.length_bytes)


@pytest.mark.slow
def test_names_that_the_kernel_keeps_are_not_searched_again(lab, volume):
    """With pages dropped, but not names, a second pass reads only what listings need, and no inodes.

    On HFS+ it reads nothing: the driver caches its nodes until the volume is unmounted.
    """
    image, layout = volume
    walk = "$LAB_TOOLS/walk stat /mnt"
    twice = real(lab, image, "exec", f"{walk}; echo 1 > /proc/sys/vm/drop_caches; {walk}").image_offset
    first = trace(layout, host=HOST).image_offset
    assert np.array_equal(twice[: len(first)], first)
    again = set(twice[len(first) :].tolist())
    if layout.facts.filesystem == "hfsplus":
        assert not again
        return
    listed = set(trace(layout, host=host_profile(HOST, cache_bytes=4096), work=Work(warm=True)).image_offset.tolist())
    assert 10 < len(again) < len(first) / 2
    assert again <= listed


READ_ALIKE = ("names-only", "stat-by-inode", "stat-all-by-inode", "remembered-walk", "block-copy", "files-by-place")


@pytest.mark.slow
@pytest.mark.parametrize("filesystem", ["apfs", "hfsplus"])
def test_remedies_do_what_the_plan_says(lab, tmp_path, filesystem):
    """Aged volumes of 2,000 files: the reads equal the plan's block for block; a copy saves as much."""
    aged = Aged(Lab(lab, tmp_path), filesystem, 2_000)
    for name in READ_ALIKE:
        (row,) = proven(aged, name)
        assert (row["blocks"], row["extra"], row["pairs"]) == (1.0, 0.0, 1.0), name
        assert row["reads"] == row["predicted_reads"], name
    (row,) = proven(aged, "copied-in-walk-order")
    on_disk = next(found for found in row["times"] if found["drive"] == "generic-5400-2.5")
    # On such a small HFS+ catalog hundredths of a second matter.
    little = 0.05 * on_disk["before_s"]
    assert on_disk["low_s"] - little <= on_disk["saved_s"] <= on_disk["high_s"] + little
