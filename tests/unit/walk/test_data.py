from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from layoutscope.errors import UsageError
from layoutscope.walk import Work, host_profile, random_records, trace
from layoutscope.walk.readahead import FileMap, ReadAhead, send, sequential_windows
from tests.cases import for_each

KIB = 1024


def reads(result) -> list[tuple[int, int]]:
    return list(zip(result.image_offset.tolist(), result.length_bytes.tolist(), strict=True))


def sent(offsets, lengths, windows, *, waiting=(), holds_last=False, **more):
    """Send requests; those at the positions in `waiting` are metadata."""
    waits = np.isin(np.arange(len(offsets)), waiting)
    arrays = (np.array(numbers) for numbers in (offsets, lengths, windows))
    source, skipped_bytes, length_bytes = send(*arrays, waits, holds_last=holds_last, **more)
    starts = np.array(offsets)[source] + skipped_bytes
    return list(zip(starts.tolist(), length_bytes.tolist(), strict=True))


@pytest.fixture
def hfs_file(hfs_plan):
    """Return the plan of hfs_plan with a file b of 300 KiB in one extent."""
    hfs_plan.entries[2]["size_bytes"] = 300 * KIB
    hfs_plan.extent(17, 0, 0x1000000, 320 * KIB)
    return hfs_plan


def test_file_is_read_in_windows_of_128_kib(hfs_file):
    """300 KiB are two windows of 128 KiB and one of 44 KiB; space allocated after the end is not read."""
    result = reads(trace(hfs_file.layout(), order="read", work=Work(file_id=17)))
    assert result[-3:] == [(0x1000000, 128 * KIB), (0x1020000, 128 * KIB), (0x1040000, 44 * KIB)]
    # The thread record of b is on leaf 4, which is read in two pages before the data.
    result = trace(hfs_file.layout(), order="read", work=Work(file_id=17))
    assert result.image_offset[:2].tolist() == [0x40000, 0x41000]
    assert [result.trees[code] for code in result.tree] == ["catalog"] * 2 + ["data"] * 3
    # With windows of 1 MiB the 300 KiB are one request.
    result = trace(hfs_file.layout(), order="read", host=host_profile("macos"), work=Work(file_id=17))
    assert reads(result) == [(0x1000000, 300 * KIB)]
    # Two records of 16 KiB far apart are two requests of 16 KiB.
    records = np.array([64 * KIB, 240 * KIB])
    result = trace(hfs_file.layout(), order="read", work=Work(file_id=17, records=records, record_bytes=16 * KIB))
    assert reads(result)[2:] == [(0x1010000, 16 * KIB), (0x103C000, 16 * KIB)]
    # A number that no directory lists is an error of usage.
    with pytest.raises(UsageError, match="999"):
        trace(hfs_file.layout(), order="read", work=Work(file_id=999))


def test_holes_are_not_read(hfs_plan):
    """The middle extent is a hole: 64 KiB before it and 64 KiB after it are read."""
    hfs_plan.entries[2]["size_bytes"] = 192 * KIB
    hfs_plan.extent(17, 0, 0x1000000, 64 * KIB)
    hfs_plan.extent(17, 64 * KIB, None, 64 * KIB)
    hfs_plan.extent(17, 128 * KIB, 0x2000000, 64 * KIB)
    assert reads(trace(hfs_plan.layout(), order="read", work=Work(file_id=17)))[2:] == [
        (0x1000000, 65536),
        (0x2000000, 65536),
    ]


def test_overflow_extent_is_looked_up_before_it_is_read(hfs_plan):
    """An extent whose record is in the overflow tree is read after that tree's leaf."""
    leaf = hfs_plan.node("extents-overflow", 0, 0x60000)
    hfs_plan.entries[2]["size_bytes"] = 256 * KIB
    hfs_plan.extent(17, 0, 0x1000000, 128 * KIB, node=2)
    hfs_plan.extent(17, 128 * KIB, 0x2000000, 128 * KIB, node=leaf)
    result = reads(trace(hfs_plan.layout(), order="read", work=Work(file_id=17)))
    assert result[2:] == [(0x1000000, 131072), (0x60000, 4096), (0x2000000, 131072)]


def test_files_in_the_turn_of_a_copy(hfs_file):
    """Files are read in the order of the walk, each once."""
    # Attributes of the root's entries are read (3, 4), then a is walked with its x (5), then b is read, as in fts.
    result = trace(hfs_file.layout(), order="copy")
    assert (result.image_offset[::2] // 0x10000).tolist()[:3] == [3, 4, 5]
    assert reads(result)[6:] == [(0x1000000, 128 * KIB), (0x1020000, 128 * KIB), (0x1040000, 44 * KIB)]
    # Another name of the same file finds its data in the cache.
    once = len(trace(hfs_file.layout(), order="copy"))
    hfs_file.entry(16, 17, "link", leaf=3, inode=2, thread=4, size_bytes=300 * KIB)
    hfs_file.entries[1]["valence"] = 2
    assert len(trace(hfs_file.layout(), order="copy")) == once


@pytest.mark.parametrize("order", ["copy", "archive"])
def test_data_that_a_cache_has_lost_are_read_again(hfs_file, order):
    """For a file of 300 KiB, a cache of 64 KiB keeps nothing, one of 1 MiB keeps all for the second pass."""
    layout = hfs_file.layout()
    for room, times in ((64, 2), (1024, 1)):
        result = trace(layout, order=order, host=host_profile("linux", cache_bytes=room * KIB), work=Work(passes=2))
        data = [length for offset, length in reads(result) if offset >= 0x1000000]
        assert sum(data) == times * 300 * KIB


def test_copy_of_empty_files_is_the_walk_alone(hfs_plan):
    """If no file has data, copy reads the same as fts, in any order."""
    assert sorted(reads(trace(hfs_plan.layout(), order="copy"))) == sorted(reads(trace(hfs_plan.layout(), order="fts")))


@pytest.fixture
def two_files():
    """The first file has 5 pages from 0; the second has one page at 5, a hole of 2**40 pages, and another page."""
    page = 4096
    start = np.array([0, 5 * page, (5 + 2**40) * page])
    stop = np.array([5 * page, (5 + 2**40) * page, (6 + 2**40) * page])
    offset = np.array([0x100000, -1, 0x200000])
    none = np.full(3, -1, np.int32)
    file = np.array([0, 1, 1])
    return FileMap(np.array([0, 5 * page]), np.zeros(2, bool), file, start, stop, offset, np.zeros(3, np.uint8), none)


def test_sequential_windows_end_with_the_file(two_files):
    """Windows of 2 pages: 2, 2 and 1 for the first file; for the hole, the first window, then that of the last page."""
    file, start, stop = sequential_windows(two_files, 2 * 4096)
    assert file.tolist() == [0, 0, 0, 1, 1]
    assert (start // 4096).tolist() == [0, 2, 4, 5, 5 + 2**40]
    assert (stop[:3] // 4096).tolist() == [2, 4, 5]


def test_compressed_apfs_file_is_read_from_its_other_fork(apfs_plan):
    """A compressed file of 1 MB has a resource fork of 12 KiB, which is read with one request."""
    apfs_plan.entries[2] |= {"size_bytes": 1000000, "flags": 2}
    apfs_plan.extent(17, 0, 0x900000, 12288)
    apfs_plan.extents[0]["fork"] = "resource"
    result = trace(apfs_plan.layout(), order="copy")
    is_data = result.tree == result.trees.index("data")
    assert (result.image_offset[is_data].tolist(), result.length_bytes[is_data].tolist()) == ([0x900000], [12288])


@for_each(
    "pages, options, steps, expected",
    [
        # Steps of 128 KiB from the start give windows of 32 pages, each requested at the previous one's mark.
        (100, {}, [(0, 32), (32, 32)], [(0, 32), (32, 64), (64, 96)]),
        # A read without cached pages before it fetches its 4 pages.
        (1000, {}, [(400, 4)], [(400, 404)]),
        # Without detection, successive reads never fetch more than the record.
        (1000, {"detects_streams": False}, [(400, 4), (404, 4), (408, 4)], [(400, 404), (404, 408), (408, 412)]),
    ],
)
def test_windows_that_a_reader_gets(pages, options, steps, expected):
    state = ReadAhead(pages * 4096, 32, **options)
    for page, count in steps:
        state.read(page * 4096, count * 4096)
    assert state.windows == expected


def test_read_behind_enough_cached_pages_is_taken_for_a_stream():
    """Eight cached pages before a read of 4 are a history of 8: the window is 8 + 4 pages."""
    state = ReadAhead(1000 * 4096, 32)
    for page in (400, 404):
        state.read(page * 4096, 4 * 4096)
        state.read(700 * 4096, 4096)
    state.windows.clear()
    state.previous_page = 0
    state.cached.update(range(400, 408))
    state.read(408 * 4096, 4 * 4096)
    assert state.windows == [(408, 420)]


@for_each(
    "offsets, lengths, windows, more, expected",
    [
        # A window with ascending pieces keeps its order; pieces that touch on disk are one request.
        ([100, 200, 300], [50, 100, 10], [0, 0, 0], {}, [(100, 50), (200, 110)]),
        # Contiguous pieces of different windows stay two requests.
        ([100, 200], [100, 100], [0, 1], {}, [(100, 100), (200, 100)]),
        # From the oldest upwards (500, 700), then from the oldest that remains (100, 300).
        ([500, 100, 700, 300], [10] * 4, [0] * 4, {}, [(500, 10), (700, 10), (100, 10), (300, 10)]),
        # A piece that ends where the previous one begins joins it, and one that begins where an older one ends.
        ([100, 210, 200], [10, 10, 10], [0, 0, 0], {}, [(100, 10), (200, 20)]),
        ([100, 300, 110], [10, 10, 10], [0, 0, 0], {}, [(100, 20), (300, 10)]),
        # On HFS+, both pieces before the node at 200 are sent with it in queue order; the third goes later.
        ([300, 100, 200, 50], [10] * 4, [0] * 4, {"waiting": [2]}, [(300, 10), (100, 10), (200, 10), (50, 10)]),
        # On APFS, the piece before the node waits for the next one, which continues it.
        ([300, 100, 200, 110], [10] * 4, [0] * 4, {"waiting": [2], "holds_last": True},
         [(300, 10), (200, 10), (100, 20)]),
        # A hole at the end is looked up at 900: 500 and 900 go upwards, then 100; the piece at 300 is held.
        ([500, 100, 300, 900], [10] * 4, [0] * 4, {"waiting": [3], "holds_last": True},
         [(500, 10), (900, 10), (100, 10), (300, 10)]),
        # After 32 pieces from 5,000 up, a node at 5,500 comes last; after 31, it is sent in order.
        ([5000, *range(6000, 9100, 100), 5500], [10] * 33, [0] * 33, {"waiting": [32]},
         [(offset, 10) for offset in (5000, *range(6000, 9100, 100), 5500)]),
        ([5000, *range(6000, 9000, 100), 5500], [10] * 32, [0] * 32, {"waiting": [31]},
         [(offset, 10) for offset in (5000, 5500, *range(6000, 9000, 100))]),
        # Two contiguous pieces of 100 bytes become 80, 80 and 40 with a maximum request of 80 bytes.
        ([100, 200], [100, 100], [0, 0], {"largest_bytes": 80}, [(100, 80), (180, 80), (260, 40)]),
        # Without a queue, the order of the file is kept.
        ([500, 100], [10, 10], [0, 0], {"sorts": False}, [(500, 10), (100, 10)]),
    ],
)  # fmt: skip
def test_pieces_of_a_window_are_sent_in_the_order_of_the_queue(offsets, lengths, windows, more, expected):
    assert sent(offsets, lengths, windows, **more) == expected


def test_windows_at_their_limits():
    """Records, windows and queues at their limits."""
    # A file of 10.5 records gives ten offsets; one shorter than a record gives none.
    drawn = random_records(10 * 4096 + 2048, 500, 4096, seed=7)
    assert set(drawn.tolist()) == {4096 * place for place in range(10)}
    with pytest.raises(ValueError, match="no record"):
        random_records(100, 1, 4096, seed=7)
    # A read of 49 pages from the start has a window of 49 pages, and at its mark another of 49.
    state = ReadAhead(1000 * 4096, 32, optimal_pages=320)
    state.read(0, 49 * 4096)
    assert state.windows == [(0, 49), (49, 98)]
    # After 32 others from 5,000 up, a piece at 5,500 comes last; after 31, it is sent in order.
    offsets = [5000, *range(6000, 9100, 100)]
    assert len(offsets) == 32
    later = [*offsets, 5500]
    assert [offset for offset, _ in sent(later, [10] * 33, [0] * 33)] == later
    fewer = [*offsets[:-1], 5500]
    assert [offset for offset, _ in sent(fewer, [10] * 32, [0] * 32)] == sorted(fewer)
    # Linux 6.1, get_next_ra_size: below 1/16 of the limit times 4, up to half of it times 2, then the limit.
    # Of 64 pages a sixteenth is 4, so windows of 4 double at once: 4, 8, 16, 32. Of 128 pages it is 8: 4, 16, 32,
    # 64.
    assert windows_up_to(64) == [4, 8, 16, 32]
    assert windows_up_to(128) == [4, 16, 32, 64]


def test_file_ends_with_its_last_block(plan):
    """On blocks of 512 bytes a file of 700 bytes is read as 1,024 bytes of its 4 KiB."""
    made = plan("hfsplus")
    made.node("catalog", 0, 0)
    made.entry(1, 2, "root", leaf=0, thread=0, kind="directory", valence=1, listing_node_row=0)
    made.entry(2, 16, "f", leaf=0, thread=0, size_bytes=700)
    made.extent(16, 0, 0x20000, 4096)
    layout = made.layout()
    small = layout.changed(facts=replace(layout.facts, block_size_bytes=512))
    assert reads(trace(small, order="copy")) == [(0x20000, 1024)]
    assert reads(trace(layout, order="copy")) == [(0x20000, 4096)]


def test_hole_whose_record_lies_in_another_leaf_is_looked_up_in_its_window(plan):
    """APFS, one window: pieces at 0x900000 and 0x500000, then a hole recorded in a leaf above both.

    The look-up sends the first piece, then the leaf; the second piece, still held then, comes last.
    """
    made = plan("apfs")
    made.node("omap", 0, 0)
    made.node("fs", 1, 0x10000)
    leaf = [made.node("fs", 0, 0xA00000 + place * 0x10000, parent=1, mapper=0, rank=place) for place in range(2)]
    made.entry(2, 16, "f", leaf=leaf[0], inode=leaf[0], size_bytes=16384)
    made.extent(16, 0, 0x900000, 4096, node=leaf[0])
    made.extent(16, 4096, 0x500000, 4096, node=leaf[0])
    made.extent(16, 8192, None, 8192, node=leaf[1])
    offsets = trace(made.layout(), order="read", work=Work(file_id=16)).image_offset.tolist()
    assert offsets == [0xA00000, 0x900000, 0xA10000, 0x500000]


def test_overflow_page_that_the_mount_has_read_is_not_read_again(plan):
    """With nodes of 2 KiB, the overflow tree's leaf shares a page with its header node, which the mount has read."""
    made = plan("hfsplus")
    made.node("catalog", 0, 0)
    made.node("extents-overflow", 0, 0x10000, size=2048, kind="header")
    leaf = made.node("extents-overflow", 0, 0x10800, size=2048)
    made.nodes[1]["node_id"], made.nodes[2]["node_id"] = 0, 1
    made.entry(1, 2, "root", leaf=0, thread=0, kind="directory", valence=1, listing_node_row=0)
    made.entry(2, 16, "f", leaf=0, thread=0, size_bytes=4096)
    made.extent(16, 0, 0x20000, 4096, node=leaf)
    assert reads(trace(made.layout(), order="copy")) == [(0x20000, 4096)]


def windows_up_to(limit: int) -> list[int]:
    """Return the window sizes below the limit for a reader of one page at a time from the start."""
    state = ReadAhead(4 * limit * 4096, limit)
    for page in range(2 * limit):
        state.read(page * 4096, 4096)
    sizes = [stop - start for start, stop in state.windows]
    return [size for size in sizes if size < limit]
