"""Each remedy changes only what it claims, and says where it does not apply."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from layoutscope import read_layouts
from layoutscope.access.trace import AccessTrace
from layoutscope.drive import load_profile, service
from layoutscope.remedies import case as effort
from layoutscope.remedies import changes
from layoutscope.remedies.case import Case, Changed, words_of
from layoutscope.remedies.planning import list_remedies
from layoutscope.results.plan import HARDWARE, SOFTWARE, VOLUME
from layoutscope.walk.host import host_profile
from tests.layouts import NODE, data, entries, layout, leaves

DISK = load_profile("generic-7200")
FLASH = load_profile("sata-ssd")


def volume(name):
    return next(item for item in read_layouts(f"fixtures/images/{name}.img.zst") if item.entries.height)


@pytest.fixture(scope="module")
def layouts():
    return {name: volume(f"{name}-scattered") for name in ("apfs", "hfsplus")}


def case_of(made, order="fts", host="linux", drive=DISK, start=0):
    return Case(made, drive, order, host_profile(host), start)


def places(reads):
    return sorted(zip(reads.image_offset.tolist(), reads.length_bytes.tolist(), strict=True))


def reads_of(found):
    assert isinstance(found, Changed), found
    return found.parts[0].reads


def small(**changes):
    """A folder of two files: names in one leaf, inodes in two more, after an index node."""
    rows = entries((2, 20, "b", "file", 2), (2, 21, "a", "file", 1))
    nodes = leaves(9, 5, 7, 1, level=[0, 0, 0, 1], kind=["leaf"] * 3 + ["index"], parent_row=[3, 3, 3, None])
    return layout(nodes=nodes, entries={**rows, "entry_node_row": [0, 0]} | changes)


def test_every_remedy_says_what_is_to_be_known():
    """Its name is unique, it has instructions and a system, and no text is empty."""
    words = [*map(words_of, list_remedies())]
    assert len({item.name for item in words}) == len({item.title for item in words}) == len(words)
    for item in words:
        assert item.kind in (SOFTWARE, VOLUME, HARDWARE)
        assert item.ways
        assert all(system and command for system, command in item.ways)
        assert item.risk
        assert item.side_effects
        assert item.assumes
        assert item.source


@pytest.mark.parametrize("name", ["apfs", "hfsplus"])
@pytest.mark.parametrize(
    "treatment",
    [changes.stat_by_inode, changes.stat_all_by_inode, changes.one_sweep, changes.more_in_flight, changes.block_copy],
)
def test_another_order_reads_the_same(layouts, name, treatment):
    """Nothing is left out or read twice: the same bytes come in another order."""
    case = case_of(layouts[name])
    assert places(reads_of(treatment(case))) == places(case.reads)


def test_sweeps_and_lists_in_the_order_of_the_disk():
    """Sweeps, lists and look-ups in their orders."""
    # Nodes that lead to leaves come first, then the leaves by address, for any order of the walk.
    case = case_of(small())
    case.reads = AccessTrace.from_reads(np.array([1, 9, 5, 7]) * NODE, np.full(4, NODE))
    assert (reads_of(changes.one_sweep(case)).image_offset // NODE).tolist() == [1, 5, 7, 9]
    # A gap of 16 blocks (64 KiB) is read over, one of 17 is not; a stale node is not read.
    tree = ["extents-overflow", *["catalog"] * 5]
    nodes = leaves(9000, 62, 45, 40, 80, 81, tree=tree, state=["live"] * 5 + ["stale"])
    case = case_of(layout(nodes=nodes, entries=entries((2, 20, "b", "file", 1)), filesystem="hfsplus"))
    reads = reads_of(changes.list_from_disk(case))
    found = [
        (start // NODE, length // NODE) for start, length in zip(reads.image_offset, reads.length_bytes, strict=True)
    ]
    assert found == [(9000, 1), (40, 23), (80, 1)]
    assert reads.host_us == pytest.approx(case.reads.host_us)
    # The walk looks up b before a; sorted by number, the leaf of 20 comes before that of 21.
    rows = entries((2, 21, "a", "file", 1), (2, 20, "b", "file", 2))
    made = layout(nodes=leaves(9, 5, 7), entries={**rows, "entry_node_row": [0, 0]}, filesystem="hfsplus")
    case = case_of(made)
    assert (case.reads.image_offset // NODE).tolist()[-2:] == [5, 7]
    assert (reads_of(changes.stat_by_inode(case)).image_offset // NODE).tolist()[-2:] == [7, 5]


def test_names_alone_need_fewer_reads(layouts):
    """Without stat, the walk reads less; work about contents, sums of sizes or changes needs more than names."""
    case = case_of(layouts["apfs"])
    assert len(reads_of(changes.names_only(case))) < len(case.reads)
    for order, is_of_use in (("fts", True), ("ls", True), ("du", False), ("git-status", False), ("copy", False)):
        assert isinstance(changes.names_only(case_of(layouts["apfs"], order)), Changed) == is_of_use


def test_walks_that_need_fewer_reads(layouts):
    """What is remembered or comes at once is not read."""
    # One directory of twenty is read: some reads remain, but fewer than in a walk.
    case = case_of(layouts["hfsplus"])
    assert 0 < len(reads_of(changes.remembered_walk(case))) < len(case.reads)
    assert changes.remembered_walk(case_of(small())) == "with 1 directory there is little to leave out"
    # A snapshot does not change, so there is nothing to check; the live state does.
    live = layouts["apfs"]
    kept = live.changed(facts=replace(live.facts, view="snapshot kept"))
    assert changes.remembered_walk(case_of(kept)) == "an older state does not change"
    assert isinstance(changes.remembered_walk(case_of(live)), Changed)
    # Linux has no getattrlistbulk.
    assert changes.attributes_at_once(case_of(layouts["apfs"])) == "linux has no such call"
    assert isinstance(changes.attributes_at_once(case_of(layouts["apfs"], host="macos")), Changed)
    # A node of two pages is one request; a node of one page already is.
    nodes = leaves(0, 2, size_bytes=2 * NODE)
    rows = entries((2, 20, "a", "file", 1))
    case = case_of(layout(nodes=nodes, entries={**rows, "entry_node_row": [0]}))
    assert len(reads_of(changes.larger_requests(case))) == len(case.reads) // 2
    assert "one request already" in changes.larger_requests(case_of(small()))
    # With eight threads on four processors, the computer's time is a quarter, which is a lower bound.
    case = case_of(layouts["apfs"])
    assert changes.more_in_flight(case).least_s == pytest.approx(case.reads.host_us / 4e6)
    pair = load_profile("wd-mybook-duo-2tb")
    assert "single drives" in changes.more_in_flight(case_of(layouts["apfs"], drive=pair))


def three_files():
    """Files 20, 21, 22 with data at blocks 90, 30 and 60."""
    rows = entries(*((2, 20 + k, f"f{k}", "file", 0) for k in range(3)), size_bytes=NODE)
    return layout(nodes=leaves(1), entries=rows, extents=data((20, 90, 1), (21, 30, 1), (22, 60, 1)))


def test_files_are_read_where_the_next_one_lies():
    """In walk order 90, 30, 60; by place 30, 60, 90, each once, after the metadata."""
    case = case_of(three_files(), "copy")
    found = reads_of(changes.files_by_place(case))
    assert places(found) == places(case.reads)
    assert [block for block in (found.image_offset // NODE).tolist() if block >= 30] == [30, 60, 90]
    assert changes.files_by_place(case_of(three_files())) == "a listing reads no contents of files"
    # The second extent follows the first; holes stay; whole files and listings are unaffected.
    rows = entries((2, 20, "a", "file", 0), size_bytes=3 * NODE)
    made = layout(nodes=leaves(1), entries=rows, extents=data((20, 90, 1), (20, -1, 1), (20, 30, 1)))
    found = changes.files_defragmented(case_of(made, "copy"))
    assert found.case.layout.extents["image_offset"].to_list() == [90 * NODE, None, 92 * NODE]
    assert changes.files_defragmented(case_of(three_files(), "copy")) == "every file is already in one piece"
    assert "a listing reads none" in changes.files_defragmented(case_of(made))


@pytest.mark.parametrize(
    ("treatment", "name", "order", "why"),
    [
        (changes.condensed, "hfsplus", "fts", "place of their own"),
        (changes.condensed, "apfs", "copy", "not modelled"),
        (changes.catalog_rebuilt, "apfs", "fts", "no catalog"),
        (changes.catalog_rebuilt, "hfsplus", "archive", "not modelled"),
        (changes.metadata_zone_free, "apfs", "fts", "no such zone"),
        (changes.metadata_zone_free, "hfsplus", "fts", "journaled volumes of 10 GiB and more alone"),
        (changes.snapshots_removed, "hfsplus", "fts", "held by snapshots only"),
        (changes.on_other_file_system("apfs"), "apfs", "fts", "has that file system already"),
        (changes.on_other_file_system("hfsplus"), "apfs", "copy", "not modelled"),
        (changes.copied_in_walk_order, "hfsplus", "copy", "not modelled"),
        (changes.stat_by_inode, "hfsplus", "copy", "more than names"),
        (changes.outer_half, "hfsplus", "fts", "already in the outer half"),
    ],
)
def test_a_remedy_that_does_not_apply_says_why(layouts, treatment, name, order, why):
    """Reasons are the wrong file system, the wrong work, or a volume that is already in this state."""
    assert why in treatment(case_of(layouts[name], order))


@pytest.mark.parametrize(
    "treatment", [changes.condensed, changes.copied_in_walk_order, changes.on_other_file_system("hfsplus")]
)
def test_no_copy_is_planned_of_what_was_not_read(layouts, treatment):
    """If a volume was read in part, the contents of a copy are unknown."""
    whole = layouts["apfs"]
    facts = replace(whole.facts, metadata_read_bytes=whole.facts.metadata_known_bytes // 2)
    assert isinstance(treatment(case_of(whole)), Changed)
    assert "could not be read" in treatment(case_of(whole.changed(facts=facts)))


def test_small_volumes_and_those_without_a_journal_have_no_metadata_zone(layouts):
    """Apple's hfs creates one from 10 GiB on, with a journal, but not for a byte less or without a journal."""
    facts = replace(layouts["hfsplus"].facts, size_bytes=10 * 2**30, features=("journaled",))
    tried = {
        (size, features): changes.metadata_zone_free(
            case_of(layouts["hfsplus"].changed(facts=replace(facts, size_bytes=size, features=features)))
        )
        for size in (10 * 2**30, 10 * 2**30 - 1)
        for features in (("journaled",), ())
    }
    assert [key for key, found in tried.items() if isinstance(found, Changed)] == [(10 * 2**30, ("journaled",))]


def test_a_whole_tree_is_read_as_searchfs_does_where_there_is_one(layouts):
    """On a Mac, HFS+ is read by node number; on Linux, and on APFS, by key."""
    for name, host, order in (
        ("hfsplus", "macos", "searchfs"),
        ("hfsplus", "linux", "catalog"),
        ("apfs", "macos", "catalog"),
    ):
        case = case_of(layouts[name], host=host)
        found, wanted = reads_of(changes.tree_in_key_order(case)), case.walk(order)
        assert found.image_offset.tolist() == wanted.image_offset.tolist()
    by_number = reads_of(changes.tree_in_key_order(case_of(layouts["hfsplus"], host="macos")))
    assert (
        by_number.image_offset.tolist()
        != case_of(layouts["hfsplus"], host="macos").walk("catalog").image_offset.tolist()
    )


def test_the_outer_half_is_for_volumes_in_the_inner_one():
    """A small volume in the inner half moves to the start; one larger than half a drive does not."""
    inner = case_of(small(), start=DISK.capacity_bytes - 2**30)
    assert changes.outer_half(inner).parts[0].start_offset_bytes == 0
    large = layout(nodes=leaves(1), entries=entries((2, 20, "a", "file", 0)), size_bytes=DISK.capacity_bytes)
    assert "larger than half" in changes.outer_half(case_of(large))
    assert "on flash" in changes.outer_half(case_of(small(), drive=FLASH))


@pytest.mark.parametrize("treatment", [changes.other_disk, changes.solid_state, changes.metadata_on_flash])
def test_nothing_is_bought_that_is_there(treatment):
    """On flash, no disk, flash or Fusion Drive would help; on a 3.5-inch disk, another one is no different."""
    assert isinstance(treatment(case_of(small(), drive=FLASH)), str)
    assert changes.other_disk(case_of(small())) == "the drive is one already"


def test_flash_stripes_and_copies_serve_the_same_reads():
    # Every read is served once, and those of nodes are served by flash.
    case = case_of(three_files(), "copy")
    flash, disk = changes.metadata_on_flash(case).parts
    assert (flash.drive.name, disk.drive.name) == ("sata-ssd", "generic-7200")
    assert (disk.reads.image_offset // NODE).tolist() == [90, 30, 60]
    assert len(flash.reads) + len(disk.reads) == len(case.reads)
    # Twice the capacity, in pieces of 64 KiB; a set cannot be doubled again.
    made = changes.striped(case_of(small())).parts[0].drive
    assert (made.kind, made.capacity_bytes) == ("stripe", 2 * DISK.capacity_bytes)
    assert "a set already" in changes.striped(case_of(small(), drive=made))
    # Flash with one latency: the listing, three files of one block, and their bytes and the nodes' at its rate.
    case = case_of(three_files(), drive=FLASH)
    listing = service(case.reads, FLASH).seconds
    three = service(AccessTrace.from_reads(np.array([90, 30, 60]) * NODE, np.full(3, NODE)), FLASH).seconds
    written = 4 * NODE / effort.stream_rate(FLASH)
    assert effort.copying_s(case) == pytest.approx(listing + three + written)


def test_changes_of_host_zone_and_layout_change_what_they_say(layouts):
    """The cache doubles, the volume moves outwards, and walks read no maps."""
    # 1 MiB becomes 2 MiB; an unlimited cache stays so.
    limited = Case(layouts["hfsplus"], DISK, "fts", host_profile("linux", cache_bytes=2**20))
    assert changes.double_cache(limited).case.host.cache_bytes == 2**21
    assert changes.double_cache(case_of(layouts["hfsplus"])) == "the memory for metadata is unlimited"
    # The space before the volume in its image does not matter; a volume already at the start does not move.
    made = layouts["hfsplus"]
    (part,) = changes.outer_zone(case_of(made, start=2**30)).parts
    assert (part.start_offset_bytes, part.knows_offset) == (-made.facts.image_offset, True)
    assert isinstance(changes.outer_zone(case_of(made, start=-made.facts.image_offset)), str)
    # HFS+ without overflow extents reads no map; an APFS walk without its object map needs fewer reads.
    assert isinstance(changes.without_maps(case_of(small())), str)
    case = case_of(layouts["apfs"])
    assert 0 < len(reads_of(changes.without_maps(case))) < len(case.reads)
    # The reads of a packed volume on one drive are the same object on another.
    case = case_of(layouts["apfs"])
    again = changes.packed(case.with_drive(FLASH))
    assert again.parts[0].reads is changes.packed(case).parts[0].reads
    assert again.parts[0].drive is FLASH
