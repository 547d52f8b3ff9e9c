from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from layoutscope.filesystems.apfs.btree import Pool, read_nodes, read_omap, walk_tree
from layoutscope.filesystems.apfs.contents import stretches
from layoutscope.filesystems.apfs.nodes import rows_of
from layoutscope.filesystems.apfs.omap import view_at
from layoutscope.filesystems.apfs.source import TreeSource, locate_nodes
from layoutscope.image.passes import read_alone, read_together
from tests.unit.apfs.toys import BLOCK, child, mapping, node, store_of

ROOT = [child(10, 3, 2), child(20, 4, 3)]


@pytest.fixture
def store():
    """Return a tree of a root and two leaves in blocks 1 to 3."""
    leaves = {2: [mapping(10, 3, 90)], 3: [mapping(20, 4, 92)]}
    blocks = {1: node(1, ROOT, level=1, root=(2, 3))} | {oid: node(oid, records) for oid, records in leaves.items()}
    return store_of(blocks)


def test_nodes_that_are_known_are_not_read_again(store):
    """The first state reads three nodes and the root twice, the second only the root; both see the same tree."""
    source, pool, counter = TreeSource(store, "omap", 1, 7), Pool(), store.blocks.sources[0].counter
    first = read_alone(walk_tree(source, pool=pool))
    assert counter.bytes == 4 * BLOCK
    second = read_alone(walk_tree(source, pool=pool))
    assert counter.bytes == 5 * BLOCK
    whole, _ = read_nodes(source)
    for column in ("paddr", "level", "parent", "key_rank", "num_records", "first_key_id", "last_key_id"):
        expected = getattr(whole, column).tolist()
        assert getattr(first, column).tolist() == getattr(second, column).tolist() == expected
    # Index records come in their order, each with the node that holds it.
    pool = Pool()
    read_alone(walk_tree(TreeSource(store, "omap", 1, 7), pool=pool))
    owner, record = pool.find_children(np.array([0]))
    assert (owner.tolist(), record["oid"].tolist()) == ([0, 0], [2, 3])
    # A leaf with a wrong checksum gives one finding, although two states lead to it.
    torn = node(3, [mapping(20, 4, 92)])[:-1] + b"\1"
    broken = store_of({1: node(1, ROOT, level=1, root=(2, 3)), 2: node(2, [mapping(10, 3, 90)]), 3: torn})
    source, pool = TreeSource(broken, "omap", 1, 7), Pool()
    read_alone(walk_tree(source, pool=pool))
    read_alone(walk_tree(source, pool=pool))
    assert [item.structure for item in broken.log.findings] == ["omap tree, node 3"]
    # At transaction 3 the object of transaction 4 does not exist yet.
    omap = read_omap(store, "omap", 1, 7)
    found = view_at(omap, 3).find(np.array([10, 20], np.uint64))
    assert (found < 0).tolist() == [False, True]
    assert int(omap.paddr[found[0]]) == 90


def test_rows_of_a_tree_of_three_levels():
    """Root 1 leads to nodes 4 and 5, and these to leaves 2 and 3 (rows 0 to 4); another state leads only to node 5."""
    blocks = {
        1: node(1, [child(10, 3, 4), child(20, 4, 5)], level=2, root=(2, 5)),
        4: node(4, [child(10, 3, 2)], level=1),
        5: node(5, [child(20, 4, 3)], level=1),
        2: node(2, [mapping(10, 3, 90)]),
        3: node(3, [mapping(20, 4, 92)]),
        6: node(6, [child(20, 4, 5)], level=2, root=(1, 3)),
    }
    pool, store = Pool(), store_of(blocks)
    found = read_alone(walk_tree(TreeSource(store, "omap", 1, 7), pool=pool))
    assert (found.paddr.tolist(), found.parent.tolist()) == ([1, 4, 5, 2, 3], [-1, 0, 0, 1, 2])
    owner, record = pool.find_children(np.array([2, 0]))
    assert (owner.tolist(), record["oid"].tolist()) == ([0, 1, 1], [3, 4, 5])
    other = read_alone(walk_tree(TreeSource(store, "omap", 6, 7), pool=pool))
    assert (other.paddr.tolist(), other.parent.tolist(), len(pool)) == ([6, 5, 3], [-1, 0, 1], 6)
    assert store.log.findings == []
    places = locate_nodes(TreeSource(store, "omap", 1, 7), np.array([3, 1, 6, 5], np.uint64))
    assert [pool.find(places, level).tolist() for level in (0, 1, 2, 3)] == [
        [4, -1, -1, -1], [-1, -1, -1, 2], [-1, 0, 5, -1], [-1] * 4,
    ]  # fmt: skip
    assert Pool().find(places, 0).tolist() == [-1] * 4


@pytest.mark.parametrize(("keys", "nodes", "sides"), [(2, 3, []), (3, 3, [("2", "3")]), (2, 4, [("3", "4")])])
def test_what_the_root_counts_is_compared_with_all_nodes_of_its_state(keys, nodes, sides):
    """The second of two states reads only its root; a finding that occurs in both is reported once."""
    blocks = {oid: node(oid, records) for oid, records in ((2, [mapping(10, 3, 90)]), (3, [mapping(20, 4, 92)]))}
    store, pool = store_of({1: node(1, ROOT, level=1, root=(keys, nodes)), **blocks}), Pool()
    for _ in range(2):
        read_alone(walk_tree(TreeSource(store, "omap", 1, 7), pool=pool))
    assert [(item.expected, item.found) for item in store.log.findings] == sides


def test_memory_for_the_nodes_that_states_request_is_small():
    """Every state of a volume requests all of its nodes: a row has 17 bytes, a tuple in a set would have 150."""
    count, pool = 10_000, Pool()
    numbers = np.arange(count, dtype=np.uint64)
    places = rows_of("fs", {"paddr": numbers, "node_id": numbers})
    tracemalloc.start()
    try:
        is_new = [pool.request(places, 0), pool.request(places, 0), pool.request(places, 1)]
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [int(mask.sum()) for mask in is_new] == [count, 0, count]
    assert kept_bytes < 2 * 30 * count


def test_states_that_share_nodes():
    """States wait for shared nodes, and report those with two numbers."""
    # Roots of level 2 are read first: the second state of level 1 waits for what the first one requested.
    blocks = {
        1: node(1, [child(10, 3, 4)], level=2, root=(2, 4)),
        4: node(4, ROOT, level=1),
        2: node(2, [mapping(10, 3, 90)]),
        3: node(3, [mapping(20, 4, 92)]),
        5: node(5, ROOT, level=1, root=(2, 3)),
    }
    store, pool = store_of(blocks), Pool()
    trees = [walk_tree(TreeSource(store, "omap", root, 7), pool=pool) for root in (1, 5, 5)]
    assert [found.paddr.tolist() for found in read_together(trees)] == [[1, 4, 2, 3], [5, 2, 3], [5, 2, 3]]
    assert store.log.findings == []
    # The second state calls leaf 2 node 9: it reads the block again, reports it, and both states end.
    blocks = {
        1: node(1, ROOT, level=1, root=(2, 3)),
        2: node(2, [mapping(10, 3, 90)]),
        3: node(3, [mapping(20, 4, 92)]),
        5: node(5, [child(10, 3, 9), child(20, 4, 3)], level=1, root=(2, 3)),
    }
    store, pool, addresses = store_of(blocks), Pool(), {1: 1, 2: 2, 3: 3, 5: 5, 9: 2}
    sources = [TreeSource(store, "omap", root, 7, ephemerals=addresses) for root in (1, 5)]
    found = read_together([walk_tree(source, pool=pool) for source in sources])
    assert [rows.node_id.tolist() for rows in found] == [[1, 2, 3], [5, 9, 3]]
    assert "omap tree, node 9" in [item.structure for item in store.log.findings]


def test_stretches_of_blocks_are_rounded_up_and_holes_left_out():
    """Sizes of 1, 4096 and 4097 bytes; block 0 marks a hole."""
    extents = {
        "paddr": np.array([7, 0, 9, 20], np.uint64),
        "len_extent": np.array([1, 8192, 4096, 4097], np.uint64),
    }
    first, length = stretches(extents, 4096)
    assert (first.tolist(), length.tolist()) == ([7, 9, 20], [1, 1, 2])
