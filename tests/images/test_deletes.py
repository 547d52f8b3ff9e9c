"""Reads of `rm -rf`: predicted request by request for Linux's drivers, mounted for writing.

Recorded with coreutils 9.1 on copies of the images, with Linux 6.1's hfsplus and linux-apfs-rw 0.3.0. For APFS a few
bitmaps are not predicted, because they depend on where the next block is allocated.
"""

from __future__ import annotations

import numpy as np
import pytest

import layoutscope
from layoutscope.walk import trace
from layoutscope.walk.orders import ORDERS, Work, model_of
from layoutscope.walk.programs import least_written
from layoutscope.walk.score import bytes_by_owner
from tests.images.test_checkers import image_of
from tests.images.test_mounts import places
from tests.images.test_programs import HOST, TRACES, layout_of, printed, requests_in


def deleted(layout, name=None):
    """Return the predicted reads for removing a directory of the root, or everything in the root."""
    inside = layout.entries.filter((layout.entries["parent_id"] == 2) & (layout.entries["name"] == (name or "")))
    start = inside["file_id"][0] if name else 2
    return trace(layout, order="delete", host=HOST, work=Work(start_directory_id=start))


@pytest.mark.parametrize(
    ("name", "directory"),
    [
        ("hfsplus-20000-c00", "d001"),
        ("hfsplus-20000-c20", "d000"),
        ("hfsplus-20000-c20", "d001"),
        ("hfsplus-20000-c20", None),
        ("hfsplus-frag", "large"),
    ],
)
def test_rm_reads_what_is_predicted(reference_image, name, directory):
    """Fresh and aged; siblings of leaves that lose all records; bitmap and overflow tree of fragmented files."""
    layout = layout_of(reference_image(image_of(name)))
    real = requests_in(TRACES / f"{name}-delete-{directory or 'all'}.trace.zst")
    assert np.array_equal(real, places(deleted(layout, directory)))


def test_each_page_of_the_bitmap_is_read_once(reference_image):
    """No pages are read except those with bits of freed blocks."""
    layout = layout_of(reference_image("driver/hfsplus-frag.img"))
    reads = deleted(layout, "large")
    kinds = np.array(reads.trees)[reads.tree]
    bitmap = reads.image_offset[kinds == "allocation-file"]
    (file,) = layout.regions.filter(layout.regions["type"] == "allocation-file").iter_rows(named=True)
    inside = layout.entries.filter(layout.entries["kind"] == "directory").filter(
        layout.entries.filter(layout.entries["kind"] == "directory")["name"] == "large"
    )["file_id"][0]
    files = set(layout.entries.filter(layout.entries["parent_id"] == inside)["file_id"])
    pages = set()
    for row in layout.extents.filter(layout.extents["file_id"].is_in(files)).iter_rows(named=True):
        begin, end = row["image_offset"], row["image_offset"] + row["length_bytes"] - 1
        pages |= set(range(begin // 2**27, end // 2**27 + 1))
    assert sorted((bitmap - file["image_offset"]) // 4096) == sorted(pages)


def test_apfs_reads_all_that_is_predicted_and_a_few_bitmaps(reference_image):
    """Every node of every tree is in order; of 2,243 blocks the six that are not predicted are not nodes."""
    layout = layout_of(reference_image("aged/apfs-20000-c20.img"))
    real = requests_in(TRACES / "apfs-20000-c20-delete-d001.trace.zst")
    made = deleted(layout, "d001")
    missed = np.setdiff1d(real[:, 0], made.image_offset)
    kept = real[~np.isin(real[:, 0], missed)]
    assert np.array_equal(kept, places(made))
    assert (len(real), len(missed)) == (2243, 6)
    kinds = bytes_by_owner(missed, layout.container)
    assert kinds == {"spaceman-bitmap": 5, "internal-pool-bitmap": 1}
    # Listings use only some of the trees: here extents are looked up by their addresses, too.
    assert np.count_nonzero(np.array(made.trees)[made.tree] == "extentref") > 400


@pytest.mark.parametrize("name", ["hfsplus-20000-c20", "apfs-20000-c20"])
def test_what_a_removal_cannot_but_write(reference_image, name):
    """Leaves with names of the folder and others; if nothing is left, only pages of the bitmap."""
    layout = layout_of(reference_image(image_of(name)))
    model = model_of(layout, HOST)
    entries = layout.entries
    inside = entries.filter((entries["parent_id"] == 2) & (entries["name"] == "d001"))["file_id"][0]
    some, everything = least_written(model, inside), least_written(model, 2)
    size = layout.facts.block_size_bytes
    assert 0 < some.pieces <= some.written_bytes // size
    below = set(entries.filter(entries["parent_id"] == inside)["entry_node_row"])
    beside = set(entries.filter(entries["parent_id"] != inside)["entry_node_row"])
    assert some.pieces >= len(below & beside - {None})
    assert everything.pieces < some.pieces
    order = ORDERS["delete"]
    assert order.least_written is not None
    assert [each.name for each in ORDERS.values() if each.least_written] == ["delete"]


def test_what_is_written_is_told_of_removals_alone(reference_image):
    """A listing writes nothing."""
    image = reference_image("driver/hfsplus-frag.img")
    told = {
        order: printed(layoutscope.predict(image, drives="generic-7200", order=order)) for order in ("delete", "fts")
    }
    assert "Writes are not included in the times: at least" in told["delete"]
    assert "What it writes" not in told["fts"]


def test_an_extent_outside_of_the_volume_has_no_bits(reference_image):
    """Its file is looked up like the others, and no bitmap page is read for it."""
    layout = layout_of(reference_image("driver/hfsplus-frag.img"))
    far = np.where(np.arange(len(layout.extents)) % 2, layout.extents["image_offset"], 2**50)
    damaged = layout.changed(extents=layout.extents.with_columns(image_offset=far))
    sound, less = (set(deleted(one, "large").image_offset.tolist()) for one in (layout, damaged))
    assert less <= sound
