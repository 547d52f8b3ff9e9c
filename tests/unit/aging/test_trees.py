"""Trees that change or are filled, checked by hand arithmetic: nodes of 40 bytes, records of 10 bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from layoutscope.aging.trees import (
    BALANCED,
    FIRST,
    NAME,
    NOWHERE,
    AgingTree,
    Edits,
    NodeRule,
    Records,
    RecordWrites,
    SplitRule,
    TreeLevel,
    apply_edits,
    grow_level,
    grow_tree,
    key_of,
    new_level,
    split_full,
)
from layoutscope.aging.volume import FreeBlocks, FullError
from tests.cases import for_each
from tests.unit.native.reference.growth import cut

RULE = NodeRule(40)
NONE = np.empty(0, np.int64)
NO_RECORDS = Records(NONE, NONE, NONE)


def level(*bounds):
    """Make a level of nodes at blocks 100, 101 and so on."""
    count = np.arange(len(bounds))
    return TreeLevel(np.array([FIRST, *bounds[1:]]), 10 + count, 100 + count, np.zeros(len(bounds), np.int64))


def tree(keys, *levels):
    """Make a tree of records of ten bytes."""
    return AgingTree(np.array(keys, np.int64), np.full(len(keys), 10), levels, RULE, RULE, 10)


def inserted(*keys):
    """Insert records, one per turn."""
    key = np.array(keys)
    return Edits(Records(key, np.full(len(key), 10), np.arange(len(key))), NO_RECORDS, NO_RECORDS)


def deleted(*keys):
    """Delete records, one per turn."""
    return Edits(NO_RECORDS, Records(np.array(keys), np.zeros(len(keys), np.int64), np.arange(len(keys))), NO_RECORDS)


def test_a_full_leaf_splits_in_the_middle():
    """Four records fill a leaf; after a fifth, two stay and three move to a new leaf."""
    made, touched, freed = apply_edits(tree([1, 3, 5, 7], level(0)), inserted(4), np.zeros(1, np.int64))
    assert made.key.tolist() == [1, 3, 4, 5, 7]
    assert [len(item) for item in made.levels] == [2, 1]
    assert made.fill(0)[1].tolist() == [2, 3]
    # Both leaves and the new root are written.
    assert sorted(touched.node.tolist()) == [0, 1, 2]
    assert freed.tolist() == []
    # The second of two leaves loses its only record: one leaf remains, and the tree loses its root.
    begin = tree([1, 9], level(0, 9), TreeLevel(np.array([FIRST]), *(np.array([n]) for n in (20, 200, 0))))
    made, _, freed = apply_edits(begin, deleted(9), np.zeros(1, np.int64))
    assert [len(item) for item in made.levels] == [1]
    assert freed.tolist() == [101, 200]
    # Four insertions into two leaves in two transactions write each leaf in both transactions.
    begin = tree([0, 10], level(0, 10), TreeLevel(np.array([FIRST]), *(np.array([n]) for n in (20, 200, 0))))
    _, touched, _ = apply_edits(begin, inserted(1, 11, 2, 12), np.array([0, 0, 1, 1]))
    # The root is the third of all nodes.
    assert sorted(zip(*(column.tolist() for column in touched), strict=True)) == [
        (0, 0), (0, 2), (1, 1), (1, 3), (2, 0), (2, 2),
    ]  # fmt: skip


def replaced(*keys):
    """Delete records and insert them again, one per turn."""
    key, turn = np.array(keys), np.arange(len(keys))
    return Edits(Records(key, np.full(len(key), 10), turn), Records(key, np.zeros_like(key), turn), NO_RECORDS)


def two_leaves(*keys):
    """Make a tree of leaves that begin at 0 and at 10, under a root."""
    return tree(keys, level(0, 10), TreeLevel(np.array([FIRST]), *(np.array([n]) for n in (20, 200, 0))))


@pytest.mark.parametrize(
    ("keys", "counts", "begin"),
    [
        ((10,), [2, 2], 11),  # the first record of a leaf is re-inserted into the previous leaf
        ((10, 11), [3, 1], 12),  # so is the next one, which has become the first
        ((11, 10), [2, 2], 11),  # a record that is re-inserted while the first one exists stays
        ((11,), [1, 3], 10),
        ((10, 11, 12), [4], None),  # the leaf becomes empty
    ],
)
def test_the_first_record_of_a_leaf_comes_back_into_the_one_before(keys, counts, begin):
    """A leaf starts at its first record; a smaller key goes to the previous leaf, whichever leaf held it before."""
    made, touched, freed = apply_edits(two_leaves(1, 10, 11, 12), replaced(*keys), np.zeros(len(keys), np.int64))
    assert made.fill(0)[1].tolist() == counts
    assert made.levels[0].bound[1:].tolist() == ([] if begin is None else [begin])
    assert freed.tolist() == ([101, 200] if begin is None else [])
    if len(counts) > 1:
        # The leaf that lost its first record is written as well.
        assert {node for node in touched.node.tolist() if node < len(counts)} == ({1} if begin == 10 else {0, 1})


def test_less_stays_left_of_a_split_where_the_driver_counts_offsets():
    """Half of an 80-byte node is four 10-byte records; one byte less per each of eight records leaves three."""
    bound, key, size = np.array([0]), np.arange(9), np.full(9, 10)
    assert split_full(bound, key, size, NodeRule(80)).tolist() == [0, 4]
    assert split_full(bound, key, size, NodeRule(80, less_per_record=2)).tolist() == [0, 3]


BALANCING = NodeRule(40, balances=True)


def balanced(*keys):
    """Make a tree of balanced leaves that begin at 0 and at 10."""
    return replace(two_leaves(*keys), leaf=BALANCING, index=BALANCING)


def passing(key, *gone):
    """Insert a record that is deleted at once, and delete others after it."""
    one = np.array([0])
    deleted = Records(np.array(gone, np.int64), one[: len(gone)], one[: len(gone)])
    return Edits(NO_RECORDS, deleted, Records(np.array([key]), np.array([10]), one))


@for_each(
    "begin, edits, counts, idents, bounds",
    [
        # With one record in the first leaf and five in the second, both end with three; no leaf is new.
        (balanced(1, 10, 11, 12, 13), inserted(14), [3, 3], [10, 11], [12]),
        # Two full leaves get a ninth record: the second leaf keeps its number and the last two of its five records.
        (balanced(1, 2, 3, 4, 10, 11, 12, 13), inserted(14), [4, 3, 2], [10, NOWHERE, 11], [10, 13]),
        # Before the first leaf is none: the new leaf becomes the first one and holds the smallest records.
        (balanced(1, 2, 3, 4, 10), inserted(5), [3, 2, 1], [NOWHERE, 10, 11], [4, 10]),
        # A name that passes overfills a leaf of four: two records move to a leaf of two, or three to a new leaf.
        (balanced(1, 2, 10, 12, 13, 14), passing(11), [3, 3], [10, 11], None),
        (balanced(1, 2, 3, 4, 10, 12, 13, 14), passing(11), [4, 2, 2], [10, NOWHERE, 11], None),
        # Without balance, a leaf with room for four records stays split after a fifth that is deleted at once.
        (tree([1, 3, 5, 7], level(0)), passing(2), [1, 3], [10, NOWHERE], None),
        # It is split even if one of its records is deleted in the same cycle: the name is inserted first.
        (tree([1, 3, 5, 7], level(0)), passing(2, 7), [1, 2], [10, NOWHERE], None),
        (tree([1, 5, 7], level(0)), passing(2, 7), [2], [10], None),
    ],
)  # fmt: skip
def test_where_records_go_when_a_leaf_is_full(begin, edits, counts, idents, bounds):
    """The root stays, and only leaves without a number are new."""
    made, touched, freed = apply_edits(begin, edits, np.zeros(1, np.int64))
    assert (made.fill(0)[1].tolist(), made.levels[0].ident.tolist(), freed.tolist()) == (counts, idents, [])
    assert bounds is None or made.levels[0].bound[1:].tolist() == bounds
    assert made.list_new_nodes(touched)[:1].tolist() == [at for at, ident in enumerate(idents) if ident == NOWHERE][:1]


def test_a_node_above_begins_with_its_first_new_leaf():
    """Temporary names split once, and index nodes begin with their first leaf."""
    # The old record makes room for the new one; two successive temporary names split a leaf only once.
    names = np.array([12, 14])
    turn = np.arange(2)
    passes = Records(np.array([11, 11]), np.array([10, 10]), turn)
    twice = Edits(Records(names, np.full(2, 10), turn), Records(names, np.zeros_like(names), turn), passes)
    made, touched, _ = apply_edits(balanced(1, 2, 3, 4, 10, 12, 13, 14), twice, np.zeros(2, np.int64))
    assert (made.key.tolist(), made.fill(0)[1].tolist()) == ([1, 2, 3, 4, 10, 12, 13, 14], [4, 2, 2])
    assert made.list_new_nodes(touched).tolist() == [1]
    # An index node's start changes when records leave its first leaf, but not when a new leaf is added there.
    above = [TreeLevel(np.array([FIRST, 10]), *(np.arange(2) for _ in range(3))), level(0)]
    both = replace(balanced(1, 10, 11, 12, 13), levels=(level(0, 10), *above))
    made, _, _ = apply_edits(both, inserted(14), np.zeros(1, np.int64))
    assert [item.bound[1:].tolist() for item in made.levels] == [[12], [12], []]
    both = replace(balanced(1, 2, 3, 4, 10, 11, 12, 13), levels=(level(0, 10), *above))
    made, _, _ = apply_edits(both, inserted(14), np.zeros(1, np.int64))
    assert [item.bound[1:].tolist() for item in made.levels] == [[10, 13], [10], []]


@pytest.mark.parametrize("batches", [1, 30])
def test_growing_at_the_end_gives_as_many_leaves_as_the_driver_makes(batches):
    """The result is the same whether records are inserted one by one or in one batch."""
    rng = np.random.default_rng(3)
    size = rng.integers(3, 15, 3000)
    made = replace(tree([], new_level()), leaf=NodeRule(100, balances=True), index=NodeRule(100, balances=True))
    for part in np.array_split(np.arange(3000), batches):
        edits = inserted(*part.tolist())
        edits = edits._replace(inserted=edits.inserted._replace(size=size[part]))
        made, _, _ = apply_edits(made, edits, np.zeros(len(part), np.int64))
    assert made.fill(0)[0].max() <= 100
    exact = grow_level(writes(range(3000), more=size), SplitRule(100, BALANCED))
    assert len(made.levels[0]) == len(exact.born)


def test_records_of_index_nodes_are_shorter_where_a_key_has_no_name():
    """Only one of the two keys contains a name."""
    keys = np.array([key_of(np.array(5), 0), key_of(np.array(5), NAME)])
    both = replace(two_leaves(1, 10), short_index_bytes=4)
    assert both.index_sizes(keys).tolist() == [4, 10]
    assert two_leaves(1, 10).index_sizes(keys).tolist() == [10, 10]


def test_a_new_leaf_is_written_when_the_one_before_was_full():
    """The second of four insertions overfills a leaf of three records; later records go to the new leaf."""
    made, touched, _ = apply_edits(tree([1, 2, 3], level(0)), inserted(9, 8, 7, 6), np.arange(4))
    assert made.fill(0)[1].tolist() == [2, 2, 3]
    pairs = set(zip(*(column.tolist() for column in touched), strict=True))
    assert (1, 0) not in pairs
    assert {(0, 0), (0, 1), (1, 1)} <= pairs


def test_space_is_taken_and_given_back():
    """Space is taken in order, and blocks are free once."""
    # Only two blocks are free after block 8; the third comes from the front. A trial takes none of them.
    space = FreeBlocks(np.array([2, 9]), np.array([2, 2]))
    assert space.take(3, is_try=True).tolist() == [2, 3, 9]
    assert space.num_free == 4
    assert space.take(3, after=8).tolist() == [9, 10, 2]
    assert [part.tolist() for part in space.runs()] == [[3], [1]]
    with pytest.raises(FullError, match="2 blocks are written, and 1 are free"):
        space.take(2)
    # Blocks outside the tracked space are ignored, and so are blocks that snapshots hold.
    space = FreeBlocks(np.array([5]), np.array([100]))
    taken = space.take(4)
    assert taken.tolist() == [5, 6, 7, 8]
    space.pin(taken[1:2])
    space.give_back(np.array([5, 5, 6, 7, -1, 1 << 40, 50]))
    assert [part.tolist() for part in space.runs()] == [[5, 7, 9], [1, 1, 96]]
    assert (space.num_free, space.num_pinned, space.num_free_from(50)) == (98, 1, 55)
    assert space.take(2).tolist() == [5, 7]


HALF = SplitRule(40, stays_at_cut=True)


def writes(record, more=10, lost=0, batch=0):
    """Return successive writes."""
    columns = np.broadcast_arrays(np.asarray(record), more, lost, np.arange(len(record)), batch)
    return RecordWrites(*(column.astype(np.int64) for column in columns))


def leaves(made):
    return np.bincount(made.node).tolist()


@for_each(
    "order, rule, expected",
    [
        (range(10), HALF, [2, 2, 2, 4]),  # each full node leaves half of its records behind and gets no more
        (range(9, -1, -1), HALF, [4, 2, 2, 2]),  # the new node takes the upper half, and the first gets the next ones
        ([0, 9, 1, 8, 2, 7, 3, 6, 4, 5], HALF, [2, 4, 2, 2]),  # nodes that were split get further records
        ([0, 1, 3, 4, 2], HALF, [3, 2]),  # between the second and the third of four
        ([0, 1, 3, 4, 2], SplitRule(40), [2, 3]),
    ],
)
def test_where_records_go_when_their_node_is_full(order, rule, expected):
    assert leaves(grow_level(writes(order), rule)) == expected


def test_records_at_the_cut():
    """Balanced nodes fill up, and a record at the cut begins its node."""
    # Three of five 10-byte records go to a new node before the full one, which then takes one more record.
    # The ninth finds no room so: another new node between both gets three.
    made = grow_level(writes(range(9)), SplitRule(40, BALANCED))
    assert leaves(made) == [4, 3, 2]
    assert made.born.tolist() == [4, 8, 0]
    assert set(leaves(grow_level(writes(range(40)), SplitRule(40, BALANCED)))[:-2]) == {4}
    # Later searches find it there: a record after it is stored in the same node.
    rule = SplitRule(40)
    made = grow_level(writes([0, 1, 4, 5, 2, 3]), rule)
    assert made.node.tolist() == [0, 0, 1, 1, 1, 1]
    assert made.first.tolist() == [0, 2]


@for_each("room, less, place, stays", [(25, 0, 4, 3), (25, 0, 0, 2), (25, 2, 4, 3), (23, 2, 4, 2)])
def test_a_share_of_the_room_stays_with_the_record_that_goes_beyond_it(room, less, place, stays):
    """The third record passes byte 25 of 40; it moves if the next record is inserted before the cut.

    With 2-byte offsets for four records, three records of 8 bytes remain below 25 - 8 bytes.
    """
    assert cut(SplitRule(40, room, less), [10, 10, 10, 10], place) == stays


def test_what_grows_leaves_room_in_pieces_until_its_node_is_split():
    """Three records that grow by two bytes fit into 40 bytes, unless each leaves its old ten bytes unused."""
    filled, longer = writes([0, 1, 2]), writes([0, 1, 2], more=2)
    both = RecordWrites(*(np.concatenate(pair) for pair in zip(filled, longer, strict=True)))
    assert leaves(grow_level(both, HALF)) == [3]
    assert leaves(grow_level(both._replace(lost=np.array([0, 0, 0, 10, 10, 10])), HALF)) == [2, 1]


def test_levels_grow_as_their_nodes_are_split_off():
    """The first node exists at the start; a node that the second transaction does not change keeps its block."""
    made = grow_level(writes([0, 1, 2, 3, 4, 5], batch=[0, 0, 0, 0, 0, 1]), HALF)
    assert list(zip(made.taken_by.tolist(), made.taken_at.tolist(), made.taken_in.tolist(), strict=True)) == [
        (0, 0, 0), (1, 4, 0), (1, 5, 1),
    ]  # fmt: skip
    # Nine leaves are below half-full index nodes of four records each (the last one is fuller), below a root.
    levels = grow_tree(writes(range(20)), (HALF, HALF), np.full(20, 10))
    assert [leaves(level) for level in levels] == [[2] * 8 + [4], [2, 2, 2, 3], [4]]
    assert levels[1].born.tolist() == sorted(levels[1].born.tolist())


def test_every_record_lies_in_one_node_and_nodes_are_never_too_full():
    """Records of all sizes are inserted in random order by both rules; nodes are in key order."""
    rng = np.random.default_rng(7)
    order, size = rng.permutation(2000), rng.integers(3, 15, 2000)
    for rule in (SplitRule(100, stays_at_cut=True), SplitRule(100, room_bytes=50)):
        made = grow_level(writes(order, more=size[order]), rule)
        assert (np.diff(made.node) >= 0).all()
        assert np.bincount(made.node, size).max() <= 100
        assert (np.diff(made.first) > 0).all()
