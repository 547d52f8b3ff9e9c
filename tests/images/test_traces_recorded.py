"""Predicted reads compared with recorded ones for which the reference images have no traces.

``recorded/`` holds what ``lab trace IMAGE …`` of ``../shared/lab`` recorded on reference images, below Linux 6.1's
hfsplus and linux-apfs-rw 0.3.0. The ``git-status`` ones are of ``git --git-dir=ELSEWHERE --work-tree=/mnt status``
(git 2.39) with every file in the index, ``core.preloadIndex`` off or, for ``-threads``, on: two threads and more.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np
import pytest

import layoutscope
from layoutscope.walk import Work, host_profile, random_records, trace
from layoutscope.zstd import zstd

RECORDED = Path(__file__).with_name("recorded")

ROOT_ID = 2

HOST = host_profile("linux", apfs_looks_up_dstream=False)
"""linux-apfs-rw 0.3.0 does not look data streams up."""

WALKS = [
    ("apm-hfsplus.img", "stat"),
    ("apm-hfsplus.img", "names"),
    ("apm-hfsplus.img", "copy"),
    ("hybrid-hfsplus.iso", "copy"),
    ("hfsplus-journaled-pop.img", "copy"),
    ("apfs-snap.img", "copy"),
]
GIT = ["hfsplus-4k", "apfs-ci"]


def recorded(name):
    """Return the reads of a recorded trace: rows of offset and length."""
    data = (RECORDED / f"{name}.trace.zst").read_bytes()
    return np.frombuffer(zstd.decompress(data), "u8").reshape(-1, 2)


def rows(reads):
    return np.stack([reads.image_offset, reads.length_bytes], axis=1)


def layout_of(path):
    """Return the one volume with files of an image."""
    return next(layout for layout in layoutscope.read_layouts(path) if not layout.entries.is_empty())


def index_of(layout):
    """List the content of git's index for a volume: files and symlinks, composed, by the bytes of their paths."""
    columns = ("parent_id", "file_id", "kind", "name")
    entries = [row for row in layout.entries.select(columns).rows() if not row[3].startswith("\0")]
    folders = {number: (parent, name) for parent, number, kind, name in entries if kind == "directory" and parent != 1}

    def path(parent, name):
        return name if parent == ROOT_ID else path(*folders[parent]) + "/" + name

    listed = [
        path(row[0], row[3]) for row in entries if row[2] in ("file", "symlink") and row[0] in {ROOT_ID, *folders}
    ]
    if layout.facts.filesystem == "hfsplus":
        listed = [unicodedata.normalize("NFC", name) for name in listed]
    return sorted(listed, key=str.encode)


def git_status(layout, host=HOST):
    """Return the reads of ``git status``: an lstat of each path, then a mostly cached listing of each directory."""
    looked_up = rows(trace(layout, order="paths", host=host, work=Work(paths=index_of(layout))))
    listed = rows(trace(layout, order="names", host=HOST))
    return np.concatenate([looked_up, listed[~np.isin(listed[:, 0], looked_up[:, 0])]])


@pytest.mark.parametrize(("image", "order"), WALKS)
def test_walk_reads_what_the_driver_read(reference_image, image, order):
    """An Apple partition map, a hybrid, a journal and snapshots: request by request."""
    layout = layout_of(reference_image(f"driver/{image}"))
    predicted = trace(layout, order="fts" if order == "stat" else order, host=HOST)
    assert rows(predicted).tolist() == recorded(f"{image.rsplit('.', 1)[0]}-{order}").tolist()


@pytest.mark.parametrize("name", GIT)
def test_git_status_reads_what_the_driver_read(reference_image, name):
    """With one thread every request of git comes in its place."""
    layout = layout_of(reference_image(f"driver/{name}.img"))
    assert git_status(layout).tolist() == recorded(f"{name}-git-status").tolist()


def test_git_status_with_threads_reads_the_same_in_another_order(reference_image):
    """The order of four threads differs between runs: the requests are the predicted ones."""
    layout = layout_of(reference_image("driver/hfsplus-4k.img"))
    predicted = git_status(layout, host_profile(HOST, threads=4))
    assert sorted(predicted.tolist()) == sorted(recorded("hfsplus-4k-git-status-threads").tolist())


def test_long_random_records_are_read_as_the_driver_did(reference_image):
    """100 records of 1,000,000 bytes of a fragmented file: windows beyond the usual one, queues that fill up."""
    layout = layout_of(reference_image("driver/apfs-frag.img"))
    folder = layout.entries.filter(layout.entries["name"] == "large")["file_id"].item()
    own = layout.entries.filter((layout.entries["parent_id"] == folder) & (layout.entries["name"] == "0.bin"))
    records = random_records(own["size_bytes"].item(), 100, 1_000_000, seed=1)
    predicted = trace(
        layout,
        order="read",
        host=HOST,
        work=Work(file_id=own["file_id"].item(), records=records, record_bytes=1_000_000),
    )
    assert rows(predicted).tolist() == recorded("apfs-frag-read-long").tolist()
