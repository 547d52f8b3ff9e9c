"""Predicted reads compared with those of real drivers: block traces of Linux's hfsplus and linux-apfs-rw 0.3.20."""

from __future__ import annotations

import numpy as np
import pytest

from layoutscope.image import RawFile
from layoutscope.walk import AccessTrace, Work, host_profile, random_records, score, trace
from tests.apfs import read_layouts
from tests.hfsplus import read_layout
from tests.layouts import file_id

SMALL = [("aged", name) for name in ("hfsplus-20000-c00", "hfsplus-20000-c20", "apfs-20000-c00", "apfs-20000-c20")]
FRAGMENTED = [("driver", "hfsplus-frag"), ("driver", "apfs-frag")]
AGED = SMALL[1::2]
LARGE = [("aged", f"{name}-200000-{age}") for name in ("hfsplus", "apfs") for age in ("c00", "c20")]


@pytest.fixture(scope="module")
def layout_of(reference_image):
    """Return a function that reads an image once."""
    made = {}

    def get(folder, name):
        if name not in made:
            source = RawFile(reference_image(f"{folder}/{name}.img"))
            made[name] = read_layout(source) if name.startswith("hfs") else _volume(read_layouts(source))
        return made[name]

    return get


@pytest.fixture
def real(truth):
    """Return a function from a trace's name to its reads."""

    def get(name):
        pairs = np.frombuffer(truth(f"{name}.trace.zst"), np.uint64).reshape(-1, 2).astype(np.int64)
        return AccessTrace.from_reads(pairs[:, 0], pairs[:, 1])

    return get


def _volume(layouts):
    return next(layout for layout in layouts if layout.facts.volume is not None)


def assert_same_requests(there, here):
    """Assert that both have the same requests, with lengths, in the same order."""
    assert np.array_equal(there.image_offset, here.image_offset)
    assert np.array_equal(there.length_bytes, here.length_bytes)


@pytest.mark.parametrize(("folder", "name"), SMALL + FRAGMENTED)
def test_cold_walk_reads_what_the_driver_read(layout_of, real, folder, name):
    """A cold fts walk with stat is predicted request by request."""
    layout = layout_of(folder, name)
    assert_same_requests(real(f"{name}-stat"), trace(layout))


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "name"), LARGE)
def test_cold_walk_of_a_large_volume_reads_what_the_driver_read(layout_of, real, folder, name):
    """The same at 200,000 files on 1 TiB, and without stat on the aged ones."""
    layout = layout_of(folder, name)
    assert_same_requests(real(f"{name}-stat"), trace(layout))
    if name.endswith("c20"):
        assert_same_requests(real(f"{name}-nostat"), trace(layout, work=Work(stat=False)))


@pytest.mark.parametrize(("folder", "name"), AGED)
def test_listing_of_names_reads_what_the_driver_read(layout_of, real, folder, name):
    """A listing by readdir only is predicted request by request."""
    assert_same_requests(real(f"{name}-names"), trace(layout_of(folder, name), order="names"))


@pytest.mark.parametrize(("folder", "name"), AGED)
def test_list_of_paths_reads_what_the_driver_read(layout_of, real, truth, folder, name):
    """An lstat of every file in the order of git's index is predicted request by request."""
    wanted = truth(f"{name}-paths.list.zst").decode().splitlines()
    assert_same_requests(real(f"{name}-paths"), trace(layout_of(folder, name), order="paths", work=Work(paths=wanted)))


@pytest.mark.parametrize(("folder", "name"), AGED + FRAGMENTED)
def test_copy_reads_what_the_driver_read(layout_of, real, folder, name):
    """A walk that reads every file is predicted request by request: windows, extents, and the queue's order."""
    assert_same_requests(real(f"{name}-copy"), trace(layout_of(folder, name), order="copy"))


@pytest.mark.parametrize(
    ("name", "kind", "path"),
    [
        ("hfsplus-frag", "read-seq", "2.bin"),
        ("apfs-frag", "read-seq", "2.bin"),
        ("apfs-frag", "read-seq-rewritten", "0.bin"),
    ],
)
def test_fragmented_file_is_read_as_the_driver_did(layout_of, real, name, kind, path):
    """A file of hundreds of extents, in and out of order on disk, is predicted request by request."""
    layout = layout_of("driver", name)
    number = file_id(layout, "large", path)
    assert_same_requests(real(f"{name}-{kind}"), trace(layout, order="read", work=Work(file_id=number)))


@pytest.mark.parametrize("name", ["hfsplus-frag", "apfs-frag"])
def test_random_records_are_read_as_the_driver_did(layout_of, real, truth, name):
    """2,000 records of 16 KiB, and the kernel's read-ahead where it detects a stream, request by request."""
    layout = layout_of("driver", name)
    lines = truth(f"{name}-read-random.offsets.tsv.zst").decode().splitlines()
    records = np.array([int(line.split("\t")[1]) for line in lines])
    number = file_id(layout, "large", "2.bin")
    size = layout.entries.filter(layout.entries["file_id"] == number)["size_bytes"].item()
    assert np.array_equal(records, random_records(size, 2000, 16384, seed=1))
    predicted = trace(layout, order="read", work=Work(file_id=number, records=records, record_bytes=16384))
    assert_same_requests(real(f"{name}-read-random"), predicted)


@pytest.mark.parametrize(("folder", "name"), SMALL)
def test_leaves_in_key_order_are_no_prediction(layout_of, real, folder, name):
    """A plain list of all leaves has over 97 % of the blocks but far fewer than 98 % of the pairs."""
    layout = layout_of(folder, name)
    result = score(real(f"{name}-stat"), trace(layout, order="catalog"), layout)
    assert result.block_share > 0.97
    assert result.pair_share < 0.98


def test_score_names_the_trees_that_a_wrong_host_gets_wrong(layout_of, real):
    """Without the search for data-stream records only leaves of the fs tree are missed."""
    layout = layout_of("aged", "apfs-20000-c20")
    host = host_profile("linux", apfs_looks_up_dstream=False)
    result = score(real("apfs-20000-c20-stat"), trace(layout, host=host), layout)
    assert result.pair_share < 1
    assert set(result.missed) <= {"fs leaf", "omap leaf"}


@pytest.mark.parametrize(("folder", "name"), AGED)
def test_nothing_that_the_mount_read_is_predicted(layout_of, real, folder, name):
    """The blocks of the listing and of the mount are disjoint."""
    layout = layout_of(folder, name)
    predicted = set(trace(layout, order="copy").image_offset.tolist())
    assert not predicted & set(real(f"{name}-copy.mount").image_offset.tolist())
