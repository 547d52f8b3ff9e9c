from __future__ import annotations

import numpy as np
import pytest

from layoutscope.walk import Work, host_profile, trace
from layoutscope.walk.cache import select_spared
from layoutscope.walk.directories import entries_on_paths, share_still_cached
from layoutscope.walk.host import property_values
from layoutscope.walk.orders import ORDERS, model_of
from tests.cases import for_each
from tests.unit.walk.conftest import rows_read


def causes(result) -> list[str]:
    return [result.causes[code] for code in result.cause]


@for_each(
    "order, work, expected",
    [
        # After the listing, each entry's thread leaf is read: a's (3), b's (4), then x's in a (5). The mount has read
        # header, root node and root records, rows 0 to 2.
        ("fts", {}, [3, 4, 5]),
        ("fts", {"warm": True}, []),
        # Leaves 4 and 5 hold threads of files, which are not needed.
        ("fts", {"stat": False}, [3]),
        # The path to a is looked up first (its thread on 3), then x's thread (5); b is not read.
        ("fts", {"start_directory_id": 16}, [3, 5]),
        ("names", {}, [3]),
        # The thread of b comes first, then a's and x's; a second use of a costs nothing.
        ("paths", {"paths": ["b", "a/x", "a"]}, [4, 3, 5]),
        # Leaves come in key order; leaf 2 is cached.
        ("catalog", {}, [3, 4, 5]),
    ],
)
def test_leaves_that_linux_reads_of_hfsplus(hfs_plan, order, work, expected):
    assert rows_read(trace(hfs_plan.layout(), order=order, work=Work(**work))) == expected


def test_counts_and_loops_of_damaged_directories(hfs_plan):
    """A directory that contains its own ancestor is walked once; with a valence of 1, the listing ends before b."""
    hfs_plan.entry(16, 16, "again", leaf=3, thread=3, kind="directory", valence=1)
    assert rows_read(trace(hfs_plan.layout())) == [3, 4, 5]
    hfs_plan.entries[0]["valence"] = 1
    assert rows_read(trace(hfs_plan.layout())) == [3, 5]


def test_nodes_are_read_as_each_system_reads_them(hfs_plan):
    """Linux reads pages, macOS whole nodes."""
    # A node of 8 KiB takes two contiguous requests of 4 KiB.
    result = trace(hfs_plan.layout())
    assert result.length_bytes.tolist() == [4096] * 6
    assert result.image_offset.tolist() == [0x30000, 0x31000, 0x40000, 0x41000, 0x50000, 0x51000]
    # Only leaf 3 with a's entries remains to be read, in one request.
    result = trace(hfs_plan.layout(), host="macos")
    assert (result.image_offset.tolist(), result.length_bytes.tolist()) == ([0x30000], [8192])
    # On macOS each of the three leaves costs its 10 us once.
    assert trace(hfs_plan.layout(), order="catalog", host="macos").host_us == pytest.approx(30)


def test_apfs_lists_backwards_and_stats_in_that_order(apfs_plan):
    """File b comes before a: inode leaf 5, b's data stream on 7 after omap leaf 2, then x's inode on 6."""
    result = trace(apfs_plan.layout())
    assert rows_read(result) == [5, 2, 7, 6]
    assert causes(result) == ["inode", "omap", "dstream", "inode"]
    # Without the search for data-stream records, leaf 7 is never read.
    host = host_profile("linux", apfs_looks_up_dstream=False)
    assert rows_read(trace(apfs_plan.layout(), host=host)) == [5, 2, 6]


def test_index_nodes_and_maps_come_before_their_leaf(plan):
    """Index node 4 is found via omap leaf 1, leaf 5 via omap leaf 2: 1, 4, 2, 5 in this order."""
    made = plan("apfs")
    made.node("omap", 1, 0)
    made.node("omap", 0, 0x10000, parent=0)
    made.node("omap", 0, 0x20000, parent=0)
    made.node("fs", 2, 0x30000)
    made.node("fs", 1, 0x40000, parent=3, mapper=1)
    made.node("fs", 0, 0x50000, parent=4, mapper=2)
    made.entry(2, 20, "f", leaf=5)
    result = trace(made.layout())
    assert rows_read(result) == [1, 4, 2, 5]
    assert causes(result) == ["omap", "index", "omap", "list"]


TWO_LEVELS = [(1, None), *[(0, 0)] * 4]
THREE_LEVELS = [(2, None), (1, 0), (1, 0), (0, 1), (0, 2), (0, 2)]
LONG_NAMES = [f"{number:0232}" for number in range(200)]


@for_each(
    "tree, names, leaf_of, order, expected, why",
    [
        # The chain leads to leaf 4 without the index node 2 above it, which the second name's look-up reads.
        (THREE_LEVELS, "ab", lambda at: (3 + at, 3 + at), "fts", [4, 2], ["next", "index"]),
        # Of 1,400 24-byte entries, 1,363 fit into 32 KiB less 48; their stat reads (2) come before leaf 3.
        (
            TWO_LEVELS,
            [f"{number:04}" for number in range(1400)],
            lambda at: (1 if at <= 1363 else 3, 2 if at < 1363 else 4),
            *("fts", [2, 3, 4], None),
        ),
        # Names of 232 bytes take 256 each: 127 fit, and leaf 3 with the rest is listed after their stat reads.
        (TWO_LEVELS, LONG_NAMES, lambda at: (1 if at <= 127 else 3, 2 if at < 127 else 4), "fts", [2, 3, 4], None),
        # The second buffer begins with a search via index node 2 to leaf 4 for the entry that did not fit.
        (
            THREE_LEVELS,
            LONG_NAMES,
            lambda at: (3 if at < 100 else 4 if at < 128 else 5, 3),
            *("names", [4, 2, 5], ["next", "index", "next"]),
        ),
    ],
)
def test_listings_of_hfsplus_go_on_by_chain_and_search(plan, tree, names, leaf_of, order, expected, why):
    """The first leaf lists the root; each name has the leaves of its entry and of its thread."""
    made = plan("hfsplus")
    for row, (level, parent) in enumerate(tree):
        made.node("catalog", level, row * 0x10000, parent=parent, rank=[above for above, _ in tree[:row]].count(level))
    first = [level for level, _ in tree].index(0)
    made.entry(*(1, 2, "root"), leaf=first, thread=first, kind="directory", valence=len(names), listing_node_row=first)
    for number, name in enumerate(names):
        leaf, thread = leaf_of(number)
        made.entry(2, 16 + number, name, leaf=leaf, thread=thread)
    made.case_sensitive = True
    result = trace(made.layout(), order=order)
    assert rows_read(result) == expected
    assert why is None or causes(result) == why


def test_paths_compare_names_as_the_volume_does(hfs_plan):
    """A case-folding volume finds A/X, a case-sensitive one does not."""
    assert rows_read(trace(hfs_plan.layout(), order="paths", work=Work(paths=["A/X"]))) == [3, 5]
    hfs_plan.case_sensitive = True
    assert rows_read(trace(hfs_plan.layout(), order="paths", work=Work(paths=["A/X"]))) == []


NORMALIZED = ("normalization-insensitive",)


@pytest.mark.parametrize(
    ("name", "stored", "finds"),
    [
        # Volumes that find it: HFS+, HFSX with case, APFS without and with case, APFS of the first developer versions.
        ("Cafe", "cafe", "hfs+ apfs"),
        ("\u00e9", "e\u0301", "hfs+ hfsx apfs apfs-case"),
        ("\u00c9", "e\u0301", "hfs+ apfs"),
        ("e\u0301", "e\u0301", "hfs+ hfsx apfs apfs-case apfs-bytes"),
        # TN1150 folds no Kazakh letter missing from its table; Unicode does.
        ("\u04e8", "\u04e9", "apfs"),
        # An ohm sign decomposes to a Greek letter in Unicode but not in HFS+, whose table folds no sign.
        ("\u2126", "\u03a9", "apfs apfs-case"),
        ("STRASSE", "stra\u00dfe", "apfs"),
        # HFS+ ignores a joiner in comparisons.
        ("a\u200db", "ab", "hfs+"),
        ("\u212bngstrom", "a\u030angstrom", "apfs"),
    ],
)
def test_paths_are_found_as_each_file_system_compares_names(plan, name, stored, finds):
    """Each file system and volume kind has its own rules for case and for letters with marks."""
    kinds = {
        "hfs+": ("hfsplus", False, ()),
        "hfsx": ("hfsplus", True, ()),
        "apfs": ("apfs", False, NORMALIZED),
        "apfs-case": ("apfs", True, NORMALIZED),
        "apfs-bytes": ("apfs", True, ()),
    }
    found = []
    for kind, (filesystem, case_sensitive, features) in kinds.items():
        made = plan(filesystem)
        made.case_sensitive, made.features = case_sensitive, features
        made.node({"hfsplus": "catalog", "apfs": "fs"}[filesystem], 0, 0)
        made.entry(1, 2, "root", leaf=0, thread=0, kind="directory")
        made.entry(2, 16, stored, leaf=0, thread=0)
        model = model_of(made.layout(), host_profile("linux"))
        if (entries_on_paths(model, [name]) >= 0).all():
            found.append(kind)
    assert " ".join(found) == finds


@pytest.mark.parametrize("order", ["catalog", "searchfs"])
def test_a_search_reads_no_leaf_of_another_state(apfs_plan, order):
    """A leaf of a snapshot only, and an unreferenced one, are not part of the tree."""
    before = rows_read(trace(apfs_plan.layout(), order=order))
    for state in ("snapshot", "stale"):
        apfs_plan.node("fs", 0, 0x900000, state=state)
    assert rows_read(trace(apfs_plan.layout(), order=order)) == before


def test_searchfs_reads_all_nodes_in_chunks(plan):
    """Ten contiguous nodes of 8 KiB are read as 32, 32 and 16 KiB; each node costs 10 us."""
    made = plan("hfsplus")
    for row in range(10):
        made.node("catalog", 0, 0x10000 + row * 8192, size=8192, rank=row)
    result = trace(made.layout(), order="searchfs", host="macos")
    assert result.length_bytes.tolist() == [32768, 32768, 16384]
    assert result.image_offset.tolist() == [0x10000, 0x18000, 0x20000]
    assert result.think_us.tolist() == [40, 40, 20]


def test_second_pass_reads_again_what_the_cache_could_not_keep(hfs_plan):
    """A cache of one node, and none for names, keeps nothing, so two passes read twice as much as one."""
    host = host_profile("linux", cache_bytes=8192, name_cache_entries=0)
    once, twice = (len(trace(hfs_plan.layout(), host=host, work=Work(passes=passes))) for passes in (1, 2))
    assert twice >= 2 * once > 6


@pytest.mark.parametrize("order", ["ls", "backup", "archive", "copy", "du"])
def test_a_second_pass_reads_what_a_limited_cache_has_lost(hfs_plan, order):
    """Room for one node keeps nothing of the first pass, room for all keeps everything; names are not cached here."""
    layout = hfs_plan.layout()
    once = trace(layout, order=order)
    for size, passes in ((8192, 2), (2**30, 1)):
        host = host_profile("linux", cache_bytes=size, name_cache_entries=0)
        twice = trace(layout, order=order, host=host, work=Work(passes=2))
        warm = trace(layout, order=order, host=host, work=Work(warm=True))
        assert (len(set(warm.image_offset.tolist())) > 0) == (passes == 2)
        alone = trace(layout, order=order, host=host)
        assert len(twice) == len(alone) + len(warm)
        assert set(alone.image_offset.tolist()) >= set(once.image_offset.tolist())


def test_a_cache_that_drops_at_random_keeps_a_share(hfs_plan):
    """Some nodes that an LRU cache loses before the second pass are kept; without a limit, all are."""
    layout, small = hfs_plan.layout(), host_profile("linux", cache_bytes=3 * 8192, name_cache_entries=0)
    reads = [
        len(trace(layout, host=host_profile(small, cache_keeps=keeps), work=Work(passes=40)))
        for keeps in (0.0, 0.5, 1.0)
    ]
    assert reads[0] > reads[1] > reads[2] > len(trace(layout))


def test_the_share_that_is_kept_is_that_of_random_replacement():
    """For a list read repeatedly, a cache simulated with random victims keeps the computed share.

    1,000 nodes of one size, ten times; the first time nothing is there.
    """
    count, times = 1000, 10
    again = np.tile(np.arange(count, dtype=np.int32), times)
    for room in (250, 500, 800):
        generator = np.random.default_rng(1)
        place = np.full(count, -1)
        slots: list[int] = []
        hits = 0
        for node in again.tolist():
            if place[node] >= 0:
                hits += 1
                continue
            if len(slots) < room:
                place[node] = len(slots)
                slots.append(node)
                continue
            victim = int(generator.integers(room))
            place[slots[victim]] = -1
            slots[victim], place[node] = node, victim
        expected = select_spared(again, np.full(count, 4096), 4096 * room, 1.0).sum()
        assert expected == pytest.approx(hits, rel=0.05)
        assert select_spared(again, np.full(count, 4096), 4096 * room, 0.0).sum() == 0


def test_cached_names_need_no_leaf(hfs_plan):
    """With room for the three names, the second pass reads only listings: the leaves of root (2) and a (3)."""
    layout = hfs_plan.layout()
    hosts = {room: host_profile("linux", cache_bytes=8192, name_cache_entries=room) for room in (2, 3)}
    reads = {room: trace(layout, host=host, work=Work(warm=True)) for room, host in hosts.items()}
    assert {row for row in rows_read(reads[3]) if row > 1} == {2, 3}
    assert {row for row in rows_read(reads[2]) if row > 1} == {2, 3, 4, 5}


@pytest.mark.parametrize("room", [2, 3])
def test_cached_names_cost_their_system_call_alone(apfs_plan, room):
    """a, x and b cost 15 us each; with room for two names, 7 us and two searches of 6 us more each."""
    host = host_profile("macos", name_cache_entries=room, name_cache_keeps=0.0)
    result = trace(apfs_plan.layout(), order="paths", host=host, work=Work(paths=["a/x", "b"], warm=True))
    assert len(result) == 0
    assert result.after_us == pytest.approx(3 * 15 + (3 * (7 + 2 * 6) if room < 3 else 0))


def test_cached_names_save_their_search_and_its_lock(apfs_plan):
    # A cache that drops names at random saves 19 us per kept name; twice as many names as room leave a fifth.
    layout = apfs_plan.layout()
    took = []
    for keeps in (0.0, 1.0):
        host = host_profile("macos", name_cache_entries=2, name_cache_keeps=keeps)
        took.append(trace(layout, order="paths", host=host, work=Work(paths=["a/x", "b"], warm=True)).after_us)
    assert (took[0] - took[1]) / 19 in (1, 2)
    share = share_still_cached(200, 100)
    assert share == pytest.approx(np.exp(-2 * (1 - share)))
    assert 0.2 < share < 0.21
    assert share_still_cached(101, 100) > 0.95
    assert share_still_cached(10**9, 100) < 1e-6
    # Four contending threads take 3 times as long for searches, but not for hits of the name cache.
    paths = ["a/x", "b"]
    cold, warm = (
        trace(
            apfs_plan.layout(), order="paths", host=host_profile("macos", threads=4), work=Work(paths=paths, warm=warm)
        )
        for warm in (False, True)
    )
    nodes = len(cold) * 30
    assert cold.host_us == pytest.approx(3 * (3 * (15 + 7) + 3 * 2 * 6 + nodes))
    assert warm.host_us == pytest.approx(3 * 15)


@for_each(
    "options, error, words",
    [
        # Neither a warm start nor a second pass is modelled for orders that are done once.
        *(
            ({"order": order, "work": Work(**work)}, ValueError, "done once")
            for order in ("fsck", "searchfs")
            for work in ({"warm": True}, {"passes": 2})
        ),
        ({"order": "sideways"}, KeyError, "sideways"),
        ({"order": "paths"}, ValueError, "paths"),
        ({"order": "read"}, ValueError, "file"),
    ],
)
def test_orders_that_are_refused(hfs_plan, options, error, words):
    with pytest.raises(error, match=words):
        trace(hfs_plan.layout(), **options)


@pytest.mark.parametrize("name", ["hfs_plan", "apfs_plan"])
def test_reads_fall_as_the_cache_grows(request, name):
    """With LRU, a larger cache never reads more; one that never fills has the reads and times of an unlimited one."""
    layout = request.getfixturevalue(name).layout()
    sizes = [2**13, 2**14, 2**15, 2**16, 2**20, 2**30]
    limited = [trace(layout, host=host_profile("linux", cache_bytes=size)) for size in sizes]
    counts = [len(each) for each in limited]
    assert counts == sorted(counts, reverse=True)
    free = trace(layout)
    assert np.array_equal(free.image_offset, limited[-1].image_offset)
    assert np.array_equal(free.cause, limited[-1].cause)
    assert (free.think_us.sum(), free.after_us) == pytest.approx((limited[-1].think_us.sum(), limited[-1].after_us))


def test_host_time_is_that_of_the_entries(hfs_plan):
    """Three entries cost 8 us each, and the last one, x, is looked up by name before the last read."""
    assert trace(hfs_plan.layout()).think_us.sum() == pytest.approx(3 * 8)
    # Warm, three entries at 8 us are 24 us; for names only, 3 us and the look-up of one directory, 7 us.
    assert trace(hfs_plan.layout(), work=Work(warm=True)).after_us == pytest.approx(24)
    assert trace(hfs_plan.layout(), order="names", work=Work(warm=True)).after_us == pytest.approx(10)
    # Threads of a and b are charged to the root (2), x's to a (16).
    assert trace(hfs_plan.layout()).directory_id.tolist() == [2, 2, 2, 2, 16, 16]
    # A warm pass with a small cache costs as much as the cold one: 24 us in all, before and after its reads.
    host = host_profile("linux", cache_bytes=8192, name_cache_entries=0)
    for warm in (False, True):
        assert trace(hfs_plan.layout(), host=host, work=Work(warm=warm)).host_us == pytest.approx(24)


def test_empty_volume_has_nothing_to_read(plan):
    """A volume without entries has an empty trace for every walk."""
    made = plan("hfsplus")
    made.node("catalog", 0, 0)
    made.entry(1, 2, "root", leaf=0, thread=0, kind="directory", valence=0, listing_node_row=0)
    for order in ("fts", "readdir-stat", "bulk", "names", "catalog", "copy", "find", "ls", "archive", "git-status"):
        assert len(trace(made.layout(), order=order)) == 0


def test_loops_of_nodes_are_left_out(plan):
    """Nodes that locate each other, a node that is its own parent, and levels beyond any tree lead nowhere."""
    made = plan("apfs")
    made.node("omap", 0, 0x10000, mapper=2)
    made.node("omap", 1, 0x20000, parent=1)
    made.node("fs", 0, 0x30000, parent=5, mapper=0)
    made.node("fs", 0, 0x40000, parent=4, mapper=0, rank=1)
    made.node("fs", 30, 0x50000)
    made.node("fs", 31, 0x60000)
    made.node("fs", 0, 0x70000, parent=4, mapper=0, rank=2)
    made.entry(1, 2, "root", leaf=3, kind="directory", listing_node_row=3)
    nodes = model_of(made.layout(), host_profile("linux")).nodes
    assert nodes.parent.tolist() == [-1, -1, -1, 4, -1, -1, 4]
    assert nodes.mapper.tolist() == [-1, -1, -1, 0, -1, -1, 0]
    # The mount has read the roots and the leaf with the root directory.
    assert trace(made.layout(), order="catalog").image_offset.tolist() == [0x70000]


def test_each_way_to_attributes_has_its_cost(hfs_plan, apfs_plan):
    """Warm, macOS: a listing of 2 directories with 3 entries and one stat, and stats of the 3 alone.

    HFS+ 2 x 4 + 3 x (2 + 2) + 15 us, APFS 2 x 6 + 3 x (2 + 5) + 15 us; a stat is 15 us on both. Linux, which has no
    listing with attributes, pays 1 + 7 us an entry either way.
    """
    warm, paths = Work(warm=True), Work(warm=True, paths=["a/x", "b"])
    for plan, listed_us in ((hfs_plan, 35), (apfs_plan, 48)):
        assert trace(plan.layout(), host="macos", work=warm).host_us == pytest.approx(listed_us)
        assert trace(plan.layout(), order="paths", host="macos", work=paths).host_us == pytest.approx(3 * 15)
        for order in ("fts", "bulk"):
            assert trace(plan.layout(), order=order, host="linux", work=warm).host_us == pytest.approx(3 * 8)


def test_backward_listing_ends_in_the_leaf_before_the_directory(apfs_plan):
    """Leaf 6 begins with a's only record, so the listing of a ends in leaf 5 before it."""
    apfs_plan.entries[3] |= {"entry_node_row": 6, "inode_node_row": 7}
    apfs_plan.entries[1] |= {"inode_node_row": 4, "listing_end_node_row": 5}
    result = trace(apfs_plan.layout(), order="names")
    assert rows_read(result) == [2, 6, 5]


def test_threads_take_slices_of_the_list_in_step(hfs_plan):
    """Two threads have the lists [b, b] and [a/x, a]: b (4) by the first, then a (3) and x (5) by the second."""
    host = host_profile("linux", threads=2)
    result = trace(hfs_plan.layout(), order="paths", host=host, work=Work(paths=["b", "b", "a/x", "a"]))
    assert rows_read(result) == [4, 3, 5]
    assert result.issuer.tolist() == [0, 0, 1, 1, 1, 1]


def test_nodes_of_hfsplus_have_room_of_their_own_on_macos(hfs_plan):
    """If 128 MiB do not hold all nodes, a second listing reads again; Linux keeps them while memory lasts."""
    layout = hfs_plan.layout()
    twice = Work(passes=2)
    assert property_values(host_profile("macos"))["hfs_node_cache_bytes"] == 128 << 20
    assert property_values(host_profile("linux"))["hfs_node_cache_bytes"] is None
    once, again = (len(trace(layout, host="macos", work=work)) for work in (Work(), twice))
    assert once == again
    small = host_profile("macos", hfs_node_cache_bytes=8192)
    assert len(trace(layout, host=small, work=twice)) > len(trace(layout, host=small))
    assert len(trace(layout, host=host_profile(small, cache_bytes=4096))) >= len(trace(layout, host=small))


@pytest.mark.parametrize("order", [name for name, order in ORDERS.items() if not order.needs])
@pytest.mark.parametrize("host", ["linux", "macos"])
def test_every_order_walks_a_volume_without_entries(apfs_plan, order, host):
    """A new APFS volume has no entries besides those that are not in the table; its nodes alone are read."""
    apfs_plan.entries, apfs_plan.extents = [], []
    reads = trace(apfs_plan.layout(), order=order, host=host)
    assert set(reads.image_offset.tolist()) <= {node["image_offset"] for node in apfs_plan.nodes}
