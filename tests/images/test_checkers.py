"""Reads of checkers: Apple's fsck_hfs (627.40.1, built for Linux) and apfsck 0.2.1, recorded with strace.

Reads of fsck_hfs are as recorded, with `-n -f`. For apfsck, which maps the image block by block, they are the first
mapping of each block. All call their image clean.
"""

from __future__ import annotations

import numpy as np
import pytest

from layoutscope.walk import host_profile, trace
from tests.images.test_mounts import places
from tests.images.test_programs import TRACES, layout_of, requests_in

SMALL = ["hfsx-cs", "hfsplus-journaled-pop", "hfsplus-b512-n4096", "hfsplus-frag"]
APFS = ["apfs-ci", "apfs-empty", "apfs-normsens", "apfs-snap", "apfs-frag", "apfs-20000-c00", "apfs-20000-c20"]


def image_of(name):
    """Folder and file of an image."""
    return f"{'aged' if '000-c' in name else 'driver'}/{name}.img"


@pytest.mark.parametrize("name", [*SMALL, "hfsplus-20000-c00", "hfsplus-20000-c20"])
def test_fsck_hfs_reads_what_is_predicted(reference_image, name):
    """Read for read: fragmented nodes, files of hundreds of extents, a journal, binary names, blocks of 512 bytes."""
    layout = layout_of(reference_image(image_of(name)))
    assert np.array_equal(requests_in(TRACES / f"{name}-fsck.trace.zst"), places(trace(layout, order="fsck")))


@pytest.mark.slow
def test_fsck_hfs_reads_again_what_its_cache_let_go(reference_image):
    """A catalog six times as large as the cache: every leaf is read twice, once for the hierarchy."""
    name = "hfsplus-200000-c20"
    layout = layout_of(reference_image(image_of(name)))
    real, made = requests_in(TRACES / f"{name}-fsck.trace.zst"), places(trace(layout, order="fsck"))
    assert np.array_equal(np.sort(real[:, 0]), np.sort(made[:, 0]))
    following = [set(zip(each[:-1, 0].tolist(), each[1:, 0].tolist(), strict=True)) for each in (real, made)]
    assert len(following[0] & following[1]) > 0.999 * len(following[0])
    at_once = trace(layout, order="fsck", host=host_profile("linux", hfs_fsck_cache_blocks=65_536))
    assert len(at_once) == len(set(at_once.image_offset.tolist())) < 0.8 * len(real)


@pytest.mark.parametrize("name", APFS)
def test_apfsck_reads_what_is_predicted(reference_image, name):
    """Block for block, except the bitmap of the internal pool's ring, which apfsck reads before the others."""
    layout = layout_of(reference_image(image_of(name)))
    reads = trace(layout, order="fsck")
    real, made = requests_in(TRACES / f"{name}-fsck.trace.zst")[:, 0].tolist(), reads.image_offset.tolist()
    assert sorted(real) == sorted(made)
    kinds = [reads.trees[tree] for tree in reads.tree.tolist()]
    ring = [offset for offset, kind in zip(made, kinds, strict=True) if kind == "internal-pool-bitmap"]
    assert made[-len(ring) :] == ring
    first = real[-len(ring)]
    assert real == [*made[: -len(ring)], first, *(offset for offset in ring if offset != first)]


def test_fsck_apfs_reads_each_snapshot_again(reference_image):
    """Blocks that snapshots share are read for each of them, unless they are assumed to be cached."""
    layout = layout_of(reference_image("driver/apfs-snap.img"))
    again = trace(layout, order="fsck", host="macos").image_offset.tolist()
    once = trace(layout, order="fsck", host=host_profile("macos", apfs_fsck_caches=True)).image_offset.tolist()
    assert set(again) == set(once)
    assert len(once) == len(set(once)) < len(again)
    assert set(trace(layout, order="fsck").image_offset.tolist()) < set(once)


def test_the_year_of_fsck_apfs_decides_the_order_alone(reference_image):
    """2017 begins with the tree, 2018 with extent references, later versions with snapshots; all read the same."""
    layout = layout_of(reference_image("driver/apfs-snap.img"))
    begun, read = {}, []
    for year in (2017, 2018, 2019, 2025):
        reads = trace(layout, order="fsck", host=host_profile("macos", apfs_fsck_year=year))
        trees = [reads.trees[tree] for tree in reads.tree.tolist()]
        begun[year] = next(tree for tree in trees if tree in {"fs", "extentref", "snapmeta"})
        read.append((sorted(reads.image_offset.tolist()), trees))
    assert begun == {2017: "fs", 2018: "extentref", 2019: "snapmeta", 2025: "snapmeta"}
    assert all(offsets == read[0][0] for offsets, _ in read)
    assert read[2][1] == read[3][1]


def test_a_check_of_a_file_system_without_one_reads_every_node(reference_image):
    """Once, and nothing else."""
    from layoutscope.access.driver import check_by_nodes
    from layoutscope.walk.orders import model_of

    model = model_of(layout_of(reference_image("driver/hfsx-cs.img")), host_profile("linux"))
    reads = check_by_nodes(model.layout, model.nodes, model.entries)
    assert sorted(offset for each in reads for offset in each.image_offset.tolist()) == sorted(
        model.nodes.image_offset.tolist()
    )
