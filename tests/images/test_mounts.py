"""Reads of a mount: predicted request by request for Linux's drivers, and by the published source for macOS.

Linux 6.1 hfsplus, linux-apfs-rw 0.3.20 (the aged volumes) and 0.3.0 (the small ones), mounted read-only.
"""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from layoutscope.walk import host_profile, trace
from tests.images.test_programs import TRACES, layout_of, requests_in

AGED = [f"{kind}-20000-{age}" for kind in ("hfsplus", "apfs") for age in ("c00", "c20")]
SMALL = sorted(path.name.split(".")[0] for path in TRACES.glob("*.mount.trace.zst"))


def places(reads):
    """Return offsets and lengths of a predicted trace."""
    return np.stack([reads.image_offset, reads.length_bytes], axis=1)


def without_partition_scan(real):
    """Drop the kernel's reads of block 0 before any driver runs: once or twice, and once more by APFS."""
    first = int(np.flatnonzero(real[:, 0] > 0)[0])
    return real[first:]


@pytest.mark.parametrize("name", AGED)
def test_mounts_of_aged_volumes(reference_image, shared, name):
    """Fresh and after 20 cycles, with 20,000 files."""
    layout = layout_of(reference_image(f"aged/{name}.img"))
    real = requests_in(shared / f"images/traces/{name}-stat.mount.trace.zst")
    reads = places(trace(layout, order="mount"))
    assert np.array_equal(without_partition_scan(real), without_partition_scan(reads))
    # The partition scan reads the first page; the APFS driver reads it again.
    assert (reads[:2, 0] == 0).tolist() == [True, name.startswith("apfs")]
    assert real[0].tolist() == reads[0].tolist() == [0, 4096]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["apfs-200000-c00", "apfs-200000-c20", "hfsplus-200000-c00", "hfsplus-200000-c20"])
def test_mounts_of_large_volumes(reference_image, shared, name):
    """A descriptor area of 280 blocks: one checkpoint is mounted and all are read."""
    layout = layout_of(reference_image(f"aged/{name}.img"))
    real = requests_in(shared / f"images/traces/{name}-stat.mount.trace.zst")
    assert np.array_equal(without_partition_scan(real), without_partition_scan(places(trace(layout, order="mount"))))


@pytest.mark.parametrize("name", SMALL)
def test_mounts_of_small_volumes(reference_image, name):
    """Blocks of 512 bytes, binary names, a journal, snapshots, volumes without a file."""
    layout = layout_of(reference_image(f"driver/{name}.img"))
    real = requests_in(TRACES / f"{name}.mount.trace.zst")
    assert np.array_equal(without_partition_scan(real), without_partition_scan(places(trace(layout, order="mount"))))


def test_macos_reads_the_bitmap_and_the_journal(reference_image):
    """In requests of 1 MiB; the journal's info block and header in sectors."""
    layout = layout_of(reference_image("driver/hfsplus-journaled-pop.img"))
    reads = trace(layout, order="mount", host="macos")
    by_kind = {}
    for offset, length, tree in zip(reads.image_offset.tolist(), reads.length_bytes.tolist(), reads.tree, strict=True):
        by_kind.setdefault(reads.trees[tree], []).append((offset, length))
    regions = {row["type"]: row for row in layout.regions.iter_rows(named=True)}
    assert by_kind["journal-info-block"] == [(regions["journal-info-block"]["image_offset"], 4096)]
    assert by_kind["journal"] == [(regions["journal"]["image_offset"], 4096)]
    bits = layout.facts.details["allocation blocks"]
    assert sum(length for _, length in by_kind["allocation-file"]) == -(-bits // (8 * 4096)) * 4096
    assert by_kind["allocation-file"][0][0] == regions["allocation-file"]["image_offset"]
    order = [reads.trees[tree] for tree in reads.tree.tolist()]
    assert order.index("journal") < order.index("extents-overflow") < order.index("allocation-file")


def test_macos_replays_what_is_pending(reference_image):
    """The ring is read from its start and continues after its header: once to verify it, once to apply it."""
    layout = layout_of(reference_image("driver/hfsplus-journaled-pop.img"))
    ring = layout.regions.filter(layout.regions["type"] == "journal").row(0, named=True)
    start, size = ring["image_offset"], ring["length_bytes"]
    pending = {"journal pending bytes": 5000, "journal pending from byte": size - 1000}
    dirty = layout.changed(facts=replace(layout.facts, details={**layout.facts.details, **pending}))
    clean, replayed = (places(trace(one, order="mount", host="macos")).tolist() for one in (layout, dirty))
    assert [read for read in replayed if read not in clean] == [[start + size - 1000, 1000], [start + 512, 4000]] * 2


def test_macos_reads_the_space_manager_and_may_trim(reference_image):
    """Trimming reads the chunk-info blocks and bitmaps in addition to the reads of the mount."""
    layout = layout_of(reference_image("driver/apfs-ci.img"))
    with_trim = trace(layout, order="mount", host="macos")
    without = trace(layout, order="mount", host=host_profile("macos", apfs_mount_trims=False))
    assert places(with_trim)[: len(without)].tolist() == places(without).tolist()
    kinds = {with_trim.trees[tree] for tree in with_trim.tree[len(without) :].tolist()}
    assert kinds == {"spaceman-cib", "spaceman-bitmap"}
    linux = set(trace(layout, order="mount").image_offset.tolist())
    assert linux < set(without.image_offset.tolist())
    ephemeral = layout.container.regions
    ephemeral = ephemeral.filter((ephemeral["type"] == "checkpoint-data") & (ephemeral["owner"] != "unused"))
    assert set(ephemeral["image_offset"]) <= set(without.image_offset.tolist())


def test_macos_checks_what_was_not_unmounted(reference_image):
    """Without a journal fsck_hfs runs before the mount; Linux, and macOS with a journal, mount without a check."""
    layout = layout_of(reference_image("driver/hfsplus-4k.img"))
    journaled = layout_of(reference_image("driver/hfsplus-journaled-pop.img"))

    def dirty(one):
        rest = tuple(word for word in one.facts.features if word != "unmounted")
        return one.changed(facts=replace(one.facts, features=rest))

    def reads(one, host, order="mount"):
        return places(trace(one, order=order, host=host)).tolist()

    assert "unmounted" in layout.facts.features
    assert reads(dirty(layout), "macos") == reads(layout, "macos", "fsck") + reads(layout, "macos")
    assert reads(dirty(layout), "linux") == reads(layout, "linux")
    assert reads(dirty(journaled), "macos") == reads(journaled, "macos")
