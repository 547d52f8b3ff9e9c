"""Trees that change or are filled, checked by hand arithmetic: nodes of 40 bytes, records of 10 bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from layoutscope.aging.trees import (
    BALANCED,
    FIRST,
    HALF_OF_RECORDS,
    NAME,
    NOWHERE,
    AgingTree,
    NodeRule,
    TreeLevel,
    apply_edits,
    grow_level,
    grow_tree,
    key_of,
    new_level,
    split_full,
)
from layoutscope.aging.volume import FreeBlocks, FullError
from tests.unit.native.reference.growth import cut

RULE = NodeRule(40)
NONE = np.empty(0, np.int64)
NO_RECORDS = NONE, NONE, NONE


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
    return (key, np.full(len(key), 10), np.arange(len(key))), (NONE, NONE), NO_RECORDS


def deleted(*keys):
    """Delete records, one per turn."""
    return NO_RECORDS, (np.array(keys), np.arange(len(keys))), NO_RECORDS


def test_a_full_leaf_splits_in_the_middle():
    """Four records fill a leaf; after a fifth, two stay and three move to a new leaf."""
    made, touched, freed = apply_edits(tree([1, 3, 5, 7], level(0)), inserted(4), np.zeros(1, np.int64))
    assert made.key.tolist() == [1, 3, 4, 5, 7]
    assert [len(item) for item in made.levels] == [2, 1]
    assert made.fill(0)[1].tolist() == [2, 3]
    # Both leaves and the new root are written.
    assert sorted(touched[0].tolist()) == [0, 1, 2]
    assert freed.tolist() == []


def test_an_empty_leaf_goes_and_its_block_with_it():
    """The second of two leaves loses its only record: one leaf remains, and the root is no longer needed."""
    begin = tree([1, 9], level(0, 9), TreeLevel(np.array([FIRST]), *(np.array([n]) for n in (20, 200, 0))))
    made, _, freed = apply_edits(begin, deleted(9), np.zeros(1, np.int64))
    assert [len(item) for item in made.levels] == [1]
    assert freed.tolist() == [101, 200]


def test_a_node_is_written_once_a_transaction():
    """Four insertions into two leaves in two transactions write each leaf in both transactions."""
    begin = tree([0, 10], level(0, 10), TreeLevel(np.array([FIRST]), *(np.array([n]) for n in (20, 200, 0))))
    _, touched, _ = apply_edits(begin, inserted(1, 11, 2, 12), np.array([0, 0, 1, 1]))
    # The root is the third of all nodes.
    assert sorted(zip(*(column.tolist() for column in touched), strict=True)) == [
        (0, 0), (0, 2), (1, 1), (1, 3), (2, 0), (2, 2),
    ]  # fmt: skip


def test_a_name_that_passes_splits_a_leaf_and_is_gone():
    """A leaf with room for four records gets a fifth that is deleted at once; the leaf stays split."""
    passing = NO_RECORDS, (NONE, NONE), (np.array([2]), np.array([10]), np.array([0]))
    made, _, _ = apply_edits(tree([1, 3, 5, 7], level(0)), passing, np.zeros(1, np.int64))
    assert made.key.tolist() == [1, 3, 5, 7]
    assert made.fill(0)[1].tolist() == [1, 3]


def replaced(*keys):
    """Delete records and insert them again, one per turn."""
    key, turn = np.array(keys), np.arange(len(keys))
    return (key, np.full(len(key), 10), turn), (key, turn), NO_RECORDS


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
        assert {node for node in touched[0].tolist() if node < len(counts)} == ({1} if begin == 10 else {0, 1})


def test_a_name_that_passes_meets_what_was_there_before():
    """A full leaf splits even if one of its records is deleted in the same cycle: the name is inserted first."""
    passing = NO_RECORDS, (np.array([7]), np.array([0])), (np.array([2]), np.array([10]), np.array([0]))
    made, _, _ = apply_edits(tree([1, 3, 5, 7], level(0)), passing, np.zeros(1, np.int64))
    assert made.fill(0)[1].tolist() == [1, 2]
    made, _, _ = apply_edits(tree([1, 5, 7], level(0)), passing, np.zeros(1, np.int64))
    assert made.fill(0)[1].tolist() == [2]


def test_less_stays_left_of_a_split_where_the_driver_counts_offsets():
    """Half of an 80-byte node is four 10-byte records; one byte less per each of eight records leaves three."""
    bound, key, size = np.array([0]), np.arange(9), np.full(9, 10)
    assert split_full(bound, key, size, NodeRule(80)).tolist() == [0, 4]
    assert split_full(bound, key, size, NodeRule(80, less_per_record=2)).tolist() == [0, 3]


BALANCING = NodeRule(40, balances=True)


def balanced(*keys):
    """Make a tree of balanced leaves that begin at 0 and at 10."""
    return replace(two_leaves(*keys), leaf=BALANCING, index=BALANCING)


def test_what_is_too_much_for_a_leaf_goes_to_the_one_before():
    """With one record in the first leaf and five in the second, both end with three; no leaf is new, the root stays."""
    made, touched, freed = apply_edits(balanced(1, 10, 11, 12, 13), inserted(14), np.zeros(1, np.int64))
    assert made.fill(0)[1].tolist() == [3, 3]
    assert made.levels[0].bound[1:].tolist() == [12]
    assert [level.ident.tolist() for level in made.levels] == [[10, 11], [20]]
    assert freed.tolist() == []
    assert made.list_new_nodes(touched).tolist() == []


def test_what_finds_no_room_there_goes_to_a_new_leaf_in_between():
    """Two full leaves get a ninth record: the second leaf keeps its number and the last two of its five records."""
    made, touched, freed = apply_edits(balanced(1, 2, 3, 4, 10, 11, 12, 13), inserted(14), np.zeros(1, np.int64))
    assert made.fill(0)[1].tolist() == [4, 3, 2]
    assert made.levels[0].ident.tolist() == [10, NOWHERE, 11]
    assert made.levels[0].bound[1:].tolist() == [10, 13]
    assert made.list_new_nodes(touched).tolist() == [1]
    assert freed.tolist() == []


def test_the_first_leaf_has_none_before_it():
    """The new leaf becomes the first one and holds the smallest records."""
    made, _, _ = apply_edits(balanced(1, 2, 3, 4, 10), inserted(5), np.zeros(1, np.int64))
    assert made.fill(0)[1].tolist() == [3, 2, 1]
    assert made.levels[0].ident.tolist() == [NOWHERE, 10, 11]
    assert made.levels[0].bound.tolist() == [FIRST, 4, 10]
    assert made.levels[1].bound.tolist() == [FIRST]


def test_a_name_that_passes_splits_a_leaf_only_where_the_one_before_is_full():
    """A fifth record overfills a leaf of four: two records move to a leaf of two, or three move to a new leaf."""
    passing = NO_RECORDS, (NONE, NONE), (np.array([11]), np.array([10]), np.array([0]))
    made, _, _ = apply_edits(balanced(1, 2, 10, 12, 13, 14), passing, np.zeros(1, np.int64))
    assert (made.key.tolist(), made.fill(0)[1].tolist()) == ([1, 2, 10, 12, 13, 14], [3, 3])
    made, _, _ = apply_edits(balanced(1, 2, 3, 4, 10, 12, 13, 14), passing, np.zeros(1, np.int64))
    assert (made.key.tolist(), made.fill(0)[1].tolist()) == ([1, 2, 3, 4, 10, 12, 13, 14], [4, 2, 2])


def test_a_name_that_passes_is_there_while_its_file_gets_the_old_name():
    """The old record makes room for the new one; two successive temporary names split a leaf only once."""
    names = np.array([12, 14])
    turn = np.arange(2)
    twice = (names, np.full(2, 10), turn), (names, turn), (*np.array([[11, 11], [10, 10], [0, 1]]),)
    made, touched, _ = apply_edits(balanced(1, 2, 3, 4, 10, 12, 13, 14), twice, np.zeros(2, np.int64))
    assert (made.key.tolist(), made.fill(0)[1].tolist()) == ([1, 2, 3, 4, 10, 12, 13, 14], [4, 2, 2])
    assert made.list_new_nodes(touched).tolist() == [1]


def test_a_node_above_begins_with_its_first_new_leaf():
    """An index node's start changes when records leave its first leaf, but not when a new leaf is added there."""
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
        (key, _, turn), *others = inserted(*part.tolist())
        made, _, _ = apply_edits(made, ((key, size[part], turn), *others), np.zeros(len(part), np.int64))
    assert made.fill(0)[0].max() <= 100
    exact = grow_level(writes(range(3000), more=size), (100, BALANCED, 0, 0))
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
    leaves = touched.level == 0
    pairs = set(zip(touched.node[leaves].tolist(), touched.turn[leaves].tolist(), strict=True))
    assert (1, 0) not in pairs
    assert {(0, 0), (0, 1), (1, 1)} <= pairs


def test_space_that_is_looked_for_stays_free():
    """A trial allocation finds blocks but does not take them."""
    space = FreeBlocks(np.array([2, 9]), np.array([2, 2]))
    assert space.take(3, is_try=True).tolist() == [2, 3, 9]
    assert space.num_free == 4
    assert space.take(3).tolist() == [2, 3, 9]


def test_blocks_that_are_not_followed_are_not_given_back():
    """Blocks outside the tracked space are ignored; a block that is given back twice is freed once."""
    space = FreeBlocks(np.array([5]), np.array([100]))
    taken = space.take(3)
    space.give_back(np.array([taken[0], taken[0], -1, 1 << 40, 50]))
    assert space.num_free == 98
    assert space.take(2).tolist() == [5, 8]


def test_blocks_that_snapshots_hold_are_never_free_again():
    """One of three blocks that are given back is pinned."""
    space = FreeBlocks(np.array([5]), np.array([100]))
    taken = space.take(3)
    space.pin(taken[1:2])
    space.give_back(taken)
    assert space.num_pinned == 1
    assert space.num_free == 99
    assert space.take(2).tolist() == [5, 7]


def test_space_is_taken_from_a_block_on_and_then_from_the_first():
    """Only two blocks are free after block 8; the third comes from the front."""
    space = FreeBlocks(np.array([2, 9]), np.array([2, 2]))
    assert space.take(3, after=8).tolist() == [9, 10, 2]
    assert [part.tolist() for part in space.runs()] == [[3], [1]]
    with pytest.raises(FullError, match="2 blocks are written, and 1 are free"):
        space.take(2)


def test_space_behind_all_that_was_used_is_one_run():
    """Two of a hundred free blocks are taken, and one of them is given back."""
    space = FreeBlocks(np.array([5]), np.array([100]))
    assert space.take(2).tolist() == [5, 6]
    space.give_back(np.array([5]))
    assert [part.tolist() for part in space.runs()] == [[5, 7], [1, 98]]
    assert space.num_free == 99
    assert space.num_free_from(50) == 55


HALF = 40, HALF_OF_RECORDS, 0, 1


def writes(record, more=10, lost=0, batch=0):
    """Return successive writes."""
    columns = np.broadcast_arrays(np.asarray(record), more, lost, np.arange(len(record)), batch)
    return tuple(column.astype(np.int64) for column in columns)


def leaves(made):
    return np.bincount(made.node).tolist()


def test_what_is_filled_at_its_end_stays_half_full():
    """Each full node leaves half of its records behind and gets no more."""
    assert leaves(grow_level(writes(range(10)), HALF)) == [2, 2, 2, 4]


def test_what_is_filled_at_its_begin_stays_as_full_as_what_is_split_off():
    """The new node takes the upper half; the next records go to the first node."""
    assert leaves(grow_level(writes(range(9, -1, -1)), HALF)) == [4, 2, 2, 2]


def test_what_is_filled_in_its_middle_fills_up_again():
    """Two records are at the ends and the others between them, so nodes that were split get further records."""
    assert leaves(grow_level(writes([0, 9, 1, 8, 2, 7, 3, 6, 4, 5]), HALF)) == [2, 4, 2, 2]


def test_what_is_filled_at_its_end_is_full_if_nodes_are_balanced():
    """Three of five 10-byte records go to a new node before the full one, which then takes one more record.

    The ninth finds no room so: another new node between both gets three.
    """
    made = grow_level(writes(range(9)), (40, BALANCED, 0, 0))
    assert leaves(made) == [4, 3, 2]
    assert made.born.tolist() == [4, 8, 0]
    assert set(leaves(grow_level(writes(range(40)), (40, BALANCED, 0, 0)))[:-2]) == {4}


def test_a_record_at_the_cut_stays_or_goes_as_the_rule_says():
    """A record is inserted between the second and the third of four records."""
    order = [0, 1, 3, 4, 2]
    assert leaves(grow_level(writes(order), HALF)) == [3, 2]
    assert leaves(grow_level(writes(order), (40, HALF_OF_RECORDS, 0, 0))) == [2, 3]


def test_a_record_that_goes_to_the_cut_is_the_first_of_its_node():
    """Later searches find it there: a record after it is stored in the same node."""
    rule = (40, HALF_OF_RECORDS, 0, 0)
    made = grow_level(writes([0, 1, 4, 5, 2, 3]), rule)
    assert made.node.tolist() == [0, 0, 1, 1, 1, 1]
    assert made.first.tolist() == [0, 2]


@pytest.mark.parametrize(("place", "stays"), [(4, 3), (0, 2)])
def test_a_share_of_the_room_stays_with_the_record_that_goes_beyond_it(place, stays):
    """The third record passes byte 25 of 40; it moves if the next record is inserted before the cut."""
    assert cut((40, 25, 0, 0), [10, 10, 10, 10], place) == stays


def test_each_record_of_a_full_node_makes_the_room_less():
    """With 2-byte offsets for four records, three records of 8 bytes remain below 25 - 8 bytes."""
    assert cut((40, 25, 2, 0), [10, 10, 10, 10], 4) == 3
    assert cut((40, 23, 2, 0), [10, 10, 10, 10], 4) == 2


def test_what_grows_leaves_room_in_pieces_until_its_node_is_split():
    """Three records that grow by two bytes fit into 40 bytes, unless each leaves its old ten bytes unused."""
    filled, longer = writes([0, 1, 2]), writes([0, 1, 2], more=2)
    both = [np.concatenate(pair) for pair in zip(filled, longer, strict=True)]
    assert leaves(grow_level(both, HALF)) == [3]
    both[2] = np.array([0, 0, 0, 10, 10, 10])
    assert leaves(grow_level(both, HALF)) == [2, 1]


def test_a_node_gets_a_block_when_it_is_split_off_and_in_each_transaction_that_changes_it():
    """The first node exists at the start; a node that the second transaction does not change keeps its block."""
    made = grow_level(writes([0, 1, 2, 3, 4, 5], batch=[0, 0, 0, 0, 0, 1]), HALF)
    assert list(zip(made.taken_by.tolist(), made.taken_at.tolist(), made.taken_in.tolist(), strict=True)) == [
        (0, 0, 0), (1, 4, 0), (1, 5, 1),
    ]  # fmt: skip


def test_levels_grow_as_their_nodes_are_split_off():
    """Nine leaves are below half-full index nodes of four records each (the last one is fuller), below a root."""
    levels = grow_tree(writes(range(20)), (HALF, HALF), np.full(20, 10))
    assert [leaves(level) for level in levels] == [[2] * 8 + [4], [2, 2, 2, 3], [4]]
    assert levels[1].born.tolist() == sorted(levels[1].born.tolist())


def test_every_record_lies_in_one_node_and_nodes_are_never_too_full():
    """Records of all sizes are inserted in random order by both rules; nodes are in key order."""
    rng = np.random.default_rng(7)
    order, size = rng.permutation(2000), rng.integers(3, 15, 2000)
    for rule in ((100, HALF_OF_RECORDS, 0, 1), (100, 50, 0, 0)):
        made = grow_level(writes(order, more=size[order]), rule)
        assert (np.diff(made.node) >= 0).all()
        assert np.bincount(made.node, size).max() <= 100
        assert (np.diff(made.first) > 0).all()
