"""What images show of how they were written is used and not drawn."""

from __future__ import annotations

import pytest

from layoutscope import read_layouts, scan
from layoutscope.drive import load_profile
from layoutscope.drive.uncertain import DRIVE, HOST, MODEL, OFFSET, Host, uncertain
from layoutscope.metrics.history import AS_LISTED, BY_NAME, FOLDERS_FIRST, infer_creation_order
from layoutscope.remedies.case import EMPTIER, Case
from layoutscope.remedies.changes import copied_by_level, copied_in_walk_order
from layoutscope.results.explanation import describe_history
from layoutscope.walk.host import host_profile

LISTED = "Its files were created in the order in which folders are listed"
NAMED = "Its files were created in the order of their names"
AFTER = "Its files were created after all folders"
REUSED = "the last transactions wrote about 1,000 files each; freed blocks are used again."
IMAGES = {
    # Files that macOS copied to an APFS volume, which lists by hash.
    "apple/sparkle_apfs_lzma_aux.raw": (AS_LISTED, f"{LISTED}; its leaves were written in 2 streams; the last "),
    "driver/apfs-ci.img": (BY_NAME, f"{NAMED}; its leaves were written in 2 streams; the last transactions wrote "),
    "driver/apfs-empty.img": ("", "Its leaves were written in 1 stream."),
    "driver/hfsx-cs.img": (BY_NAME, f"{NAMED}."),
    "aged/hfsplus-20000-c20.img": (FOLDERS_FIRST, f"{AFTER}."),
    "aged/apfs-20000-c00.img": (FOLDERS_FIRST, f"{AFTER}; its leaves were written in 2 streams; the last "),
    # 20 rounds of changes: leaves that were changed again belong to the later ones.
    "aged/apfs-20000-c20.img": (FOLDERS_FIRST, f"{AFTER}; its leaves were written in 12 streams; {REUSED}"),
    "apple/goapfsv2_hfs-basic.raw": ("", ""),
}  # fmt: skip


def volume(path):
    return next(item for item in read_layouts(path) if len(item.columns("entries")))


@pytest.mark.parametrize("name", IMAGES)
def test_a_sentence_says_how_a_volume_was_written(reference_image, name):
    """The order of files, streams and transactions; no claim that the image does not show."""
    order, sentence = IMAGES[name]
    (found,) = (item for item in scan(reference_image(name), drives=()).parts if item.walk is not None)
    assert infer_creation_order(found.layout) == order
    assert describe_history(found).startswith(sentence)
    assert bool(describe_history(found)) == bool(sentence)


@pytest.mark.parametrize("name", ["generic-5400-2.5", "wd-mybook-duo-2tb", "sata-ssd", "st2000dm006"])
def test_nothing_that_an_image_shows_is_drawn_for_it(name):
    """Order of creation, aging, fill and snapshots come from the image; drive, computer and offset are drawn."""
    for host, knows_offset in (("macos", True), ("linux", False)):
        unknown = uncertain(load_profile(name), Host(host), knows_offset=knows_offset)
        groups = {group for group, _ in unknown.columns().values()}
        assert groups <= {DRIVE, MODEL, HOST, *([] if knows_offset else [OFFSET])}


def test_a_copy_by_the_same_system_is_at_least_as_full_as_now(reference_image):
    """When macOS filled the volume leaves were 0.85 full and in order; for Linux the volume shows nothing."""
    layout = volume(reference_image("apple/sparkle_apfs_lzma_aux.raw"))
    case = Case(layout, load_profile("generic-7200"), "fts", host_profile("macos"))
    for copy in (copied_in_walk_order, copied_by_level):
        made = copy(case)
        assert made.parts[0].times < 0.85
        assert all(part.times == 1 for parts in made.alternatives for part in parts)
    unknown = layout.changed(facts=volume("fixtures/images/apfs-scattered.img.zst").facts)
    made = copied_in_walk_order(case.with_layout(unknown))
    assert [part.times for parts in (made.parts, *made.alternatives) for part in parts] == [1, EMPTIER]
