"""Tree levels that grow write by write, in C and in Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.aging import trees
from layoutscope.aging.trees import BALANCED, GROW_LEVEL, HALF_OF_RECORDS, RecordWrites, SplitRule
from layoutscope.structs.native import RefusedError
from tests.unit.native.fences import EVIL, EXAMPLES, Fenced, spoil
from tests.unit.native.reference.growth import plain_grown

RULES = st.builds(
    SplitRule,
    st.integers(30, 200),
    st.one_of(st.just(BALANCED), st.just(HALF_OF_RECORDS), st.integers(0, 120)),
    st.integers(0, 3),
    st.booleans(),
)


@st.composite
def writes(draw) -> RecordWrites:
    """Return writes of every record once, in some order, and then of some again, as for inodes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, again = draw(st.integers(1, 60)), draw(st.integers(0, 40))
    order = rng.permutation(count) if draw(st.booleans()) else np.arange(count)
    longer = rng.integers(0, 10, again)
    return RecordWrites(
        np.concatenate([order, rng.integers(0, count, again)]),
        np.concatenate([rng.integers(1, 40, count), longer]),
        np.concatenate([np.zeros(count, np.int64), rng.integers(0, 20, again)]),
        np.arange(count + again),
        np.sort(rng.integers(-1, 5, count + again)),
    )


def work_space(num_records: int, most: int, width: int, num_takes: int) -> list[np.ndarray]:
    """Return the kernel's output arrays, as `grow_level` makes them, still unset."""
    long, short = (np.full(most, 7, kind) for kind in (np.int64, np.int32))
    return [
        *np.full((2, num_records), 7), np.full(most * width, 7, np.int32), short, short, short, long, long, long, long,
        np.full(num_takes, 7, np.int32), *np.full((2, num_takes), 7), np.full(1, 7),
    ]  # fmt: skip


def same(ours: trees.GrownLevel, theirs: trees.GrownLevel) -> bool:
    """Return whether all columns are equal."""
    pairs = zip(ours, theirs, strict=True)
    return all(np.array_equal(mine, other) and mine.dtype == other.dtype for mine, other in pairs)


@EXAMPLES
@given(written=writes(), rule=RULES)
def test_the_same_grows(written, rule):
    """Nodes, split times and the blocks of transactions are equal.

    With a node per record and room for all records in each, the kernel itself gives the result of Python.
    """
    twin = plain_grown(written, rule)
    assert same(trees.grow_level(written, rule), twin)
    count = int(written.record.max()) + 1
    fenced = Fenced(*written, *work_space(count, count + 1, count, 3 * len(written.record) + count + 1))
    found = GROW_LEVEL.attempt(*fenced.copies[:5], *rule, *fenced.copies[5:])
    assert fenced.hold()
    assert fenced.unchanged(*range(5))
    assert (found, fenced.copies[6].tolist()) == (len(twin.born), twin.node.tolist())
    assert fenced.copies[-1].tolist() == [len(twin.taken_by)]


@EXAMPLES
@given(data=st.data(), rule=RULES, numbers=st.lists(EVIL, min_size=4, max_size=4))
def test_hostile_tables_are_refused_or_give_the_same(data, rule, numbers):
    """With any number replaced and any end cut off, nothing outside is touched; accepted input gives right results."""
    sound = data.draw(writes())
    count = int(sound.record.max()) + 1
    space = work_space(count, data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9)), data.draw(st.integers(0, 99)))
    given = spoil(data.draw, [*sound, *space])
    if data.draw(st.booleans()):
        numbers = list(rule)
    fenced = Fenced(*given)
    found = GROW_LEVEL.attempt(*fenced.copies[:5], *numbers, *fenced.copies[5:])
    assert fenced.hold()
    assert fenced.unchanged(*range(5))
    if found is not None and len(given[0]):
        twin = plain_grown(RecordWrites(*given[:5]), SplitRule(*numbers))
        assert (found, fenced.copies[6].tolist()) == (len(twin.born), twin.node.tolist())


def test_a_level_of_nearly_empty_nodes_gets_more_room():
    """One record of a full node stays, so there are ten times as many nodes as their bytes need."""
    none, count = np.zeros(300, np.int64), 300
    written = RecordWrites(np.arange(count), np.ones(count, np.int64), none, np.arange(count), none)
    rule = SplitRule(40, room_bytes=0, stays_at_cut=True)
    ours, theirs = trees.grow_level(written, rule), plain_grown(written, rule)
    assert len(ours.born) > 4 * count // 40 + 2
    assert same(ours, theirs)


@pytest.mark.parametrize("spoilt", ["a record that never gets a size", "a record that is not written"])
def test_records_without_a_size_are_an_error(spoilt):
    """No driver writes a level with such records."""
    record = np.array([0, 1, 3, 2]) if spoilt.endswith("size") else np.array([0, 1, 3, 3])
    more = np.array([10, 10, 10, 0 if spoilt.endswith("size") else 10])
    written = RecordWrites(record, more, np.zeros(4, np.int64), np.arange(4), np.zeros(4, np.int64))
    with pytest.raises(RefusedError, match="grow_level"):
        trees.grow_level(written, SplitRule(20, stays_at_cut=True))
