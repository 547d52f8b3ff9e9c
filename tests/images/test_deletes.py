"""What `rm -rf` reads on HFS+: predicted request by request through Linux 6.1's driver, mounted for writing.

Recorded with coreutils 9.1 on copies of the images. APFS reads more than is predicted: see
`test_apfs_reads_no_less_than_predicted`.
"""

from __future__ import annotations

import numpy as np
import pytest

from layoutscope.walk import trace
from layoutscope.walk.orders import Work
from tests.images.test_checkers import image_of
from tests.images.test_mounts import places
from tests.images.test_programs import HOST, TRACES, layout_of, requests_in


def deleted(layout, name=None):
    """Reads that are predicted for the removal of a directory of the root, or of all that is in the root."""
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
    """Fresh and aged; neighbours of leaves that lose all records; bitmap and overflow tree of files in many pieces."""
    layout = layout_of(reference_image(image_of(name)))
    real = requests_in(TRACES / f"{name}-delete-{directory or 'all'}.trace.zst")
    assert np.array_equal(real, places(deleted(layout, directory)))


def test_each_page_of_the_bitmap_is_read_once(reference_image):
    """And no other page than those with bits of what is freed."""
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


def test_apfs_reads_no_less_than_predicted(reference_image):
    """The driver reads the space manager and the extent references besides; nothing is predicted that is not read."""
    layout = layout_of(reference_image("aged/apfs-20000-c20.img"))
    real = requests_in(TRACES / "apfs-20000-c20-delete-d001.trace.zst")
    made = deleted(layout, "d001").image_offset
    assert set(made.tolist()) < set(real[:, 0].tolist())
    assert len(made) > 0.75 * len(real)


def test_an_extent_outside_of_the_volume_has_no_bits(reference_image):
    """Its file is looked up as the others are, and no page of the bitmap is read for it."""
    layout = layout_of(reference_image("driver/hfsplus-frag.img"))
    far = np.where(np.arange(len(layout.extents)) % 2, layout.extents["image_offset"], 2**50)
    damaged = layout.changed(extents=layout.extents.with_columns(image_offset=far))
    sound, less = (set(deleted(one, "large").image_offset.tolist()) for one in (layout, damaged))
    assert less <= sound
