"""Sets of runs, first places and reads with their paths, in C and in numpy."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.access.trace import CODE, Touches
from layoutscope.metrics import files
from layoutscope.structs import arrays
from layoutscope.structs.arrays import FIRST_PLACES, first_places
from layoutscope.walk import cache
from tests.unit.native.fences import EVIL, EXAMPLES, Fenced, is_same, spoil
from tests.unit.native.reference.arrays import plain_combine, plain_join

NUMBERS = st.lists(st.integers(0, 40), max_size=60)


def a_set(draw) -> np.ndarray:
    """Return a set of runs with gaps; some touch, some are empty, and some are before the first block."""
    steps = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=20))
    ends = np.cumsum([gap + length for gap, length in steps]) - draw(st.sampled_from([0, 9]))
    lengths = np.array([length for _, length in steps], np.int64)
    return np.stack([ends - lengths, lengths], axis=1).astype(np.int64).reshape(-1, 2)


@EXAMPLES
@given(runs=st.lists(st.tuples(st.integers(0, 100), st.integers(-2, 30)), max_size=40))
def test_joined_runs_are_the_blocks_of_all(runs):
    """Each block occurs once, in runs that do not touch; blocks are counted one by one."""
    first, count = np.array(runs, np.int64).reshape(-1, 2).T
    blocks = {block for start, length in runs for block in range(start, start + length)}
    found = arrays.runs_of(first, count)
    assert [block for start, length in found.tolist() for block in range(start, start + length)] == sorted(blocks)
    assert (found[1:, 0] > found[:-1].sum(axis=1)).all()


@EXAMPLES
@given(data=st.data(), wanted=EVIL, room=st.none() | st.integers(0, 90))
def test_sets_are_combined_as_by_sweeping(data, wanted, room):
    """Blocks of one set only, or of both. Any numbers are refused or give the same, within the output."""
    given_sets = [a_set(data.draw), a_set(data.draw)]
    spoilt = spoil(data.draw, given_sets)
    needed = 2 * sum(map(len, given_sets))
    room = needed if room is None else room
    fenced = Fenced(*spoilt, np.zeros(room, np.int64))
    runs, other, found = fenced.copies
    wanted = data.draw(st.sampled_from([1, 2, 3, wanted]))
    count = arrays.COMBINE_RUNS.attempt(runs, other, wanted, found)
    assert fenced.hold()
    assert fenced.unchanged(0, 1)
    if is_same(given_sets, spoilt) and wanted in (1, 2, 3) and room >= needed:
        assert count is not None
    if count is not None:
        theirs = plain_combine(runs.reshape(-1, 2), other.reshape(-1, 2), wanted)
        assert found[: 2 * count].tolist() == theirs.ravel().tolist()
    count = arrays.JOIN_RUNS.attempt(runs, other, found)
    assert fenced.hold()
    if count is not None:
        theirs = plain_join(runs.ravel(), other.ravel()) if len(runs) else np.empty(0, np.int64)
        assert found[: 2 * count].tolist() == theirs.ravel().tolist()


@EXAMPLES
@given(data=st.data(), codes=NUMBERS, bound=st.integers(0, 41), room=st.integers(0, 60))
def test_first_places_come_in_order(data, codes, bound, room):
    """A number without a mark, or more first places than there is room for, is refused."""
    fenced = Fenced(*spoil(data.draw, [np.array(codes, np.int64)]), np.zeros(bound, np.uint8), np.zeros(room, np.int64))
    given_codes = fenced.copies[0].tolist()
    expected = [k for k, code in enumerate(given_codes) if code not in given_codes[:k]]
    count = FIRST_PLACES.attempt(*fenced.copies)
    assert fenced.hold()
    is_sound = all(0 <= code < bound for code in given_codes) and len(expected) <= room
    assert count == (len(expected) if is_sound else None)
    assert not is_sound or fenced.copies[2][:count].tolist() == expected
    places = [k for k, code in enumerate(codes) if code not in codes[:k]]
    assert first_places(np.array(codes, np.int32), 41).tolist() == places


@st.composite
def volumes(draw, *, with_loops: bool) -> tuple[Touches, SimpleNamespace, int]:
    """Return touches, a volume with paths, and the bound of numbers; paths may be loops, as on damaged volumes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, more = draw(st.integers(1, 25)), draw(st.integers(0, 4))
    above = np.full(count, count) if with_loops else np.arange(count)
    parent, mapper = (
        np.where(rng.random(count) < 0.7, rng.integers(0, 2**30, count) % np.maximum(above, 1), -1).astype(np.int32)
        for _ in range(2)
    )
    if not with_loops:
        parent[0] = mapper[0] = -1
    length = draw(st.integers(0, 40))
    causes = np.array([CODE[name] for name in ("next", "name", "index", "omap")], np.uint8)
    touches = Touches(
        rng.integers(-1, count + more, length).astype(np.int32), rng.choice(causes, length),
        rng.integers(0, 99, length).astype(np.uint64), rng.random(length).astype(np.float32),
    )  # fmt: skip
    driver = SimpleNamespace(leaves_are_chained=draw(st.booleans()), locator_cause="omap")
    nodes = type("Nodes", (SimpleNamespace,), {"__len__": lambda self: len(self.parent)})(parent=parent, mapper=mapper)
    return touches, SimpleNamespace(nodes=nodes, driver=driver), count + more


def columns(reads: Touches) -> list:
    """Return all columns as lists."""
    return [getattr(reads, name).tolist() for name in ("node", "cause", "directory_id", "host_us")]


@EXAMPLES
@given(with_loops=st.booleans(), data=st.data())
def test_the_same_is_read_once(with_loops, data):
    """Every read with its path, in order, and the touch that it belongs to; the kernel refuses only loops."""
    touches, model, size = given_volume = data.draw(volumes(with_loops=with_loops))
    found = cache.read_lacking(cache.empty_cache(model, size), touches, model)
    assert found is not None or with_loops
    if found is None:
        return
    theirs, their_origin = cache.read_once_laid_out(*given_volume)
    assert columns(found[0]) == columns(theirs)
    assert found[1].tolist() == their_origin.tolist()


@EXAMPLES
@given(data=st.data(), index=EVIL, mapped=EVIL)
def test_hostile_ways_lead_nowhere(data, index, mapped):
    """With any number replaced and any end cut off, nothing outside is touched."""
    touches, model, size = data.draw(volumes(with_loops=True))
    alone = np.zeros(len(touches.node), np.uint8)
    given_arrays = [touches.node, alone, touches.cause, model.nodes.parent, model.nodes.mapper]
    spoilt = spoil(data.draw, given_arrays)
    work = spoil(data.draw, [np.zeros(2 * size, np.uint8), np.zeros(size, np.uint8)])
    room = data.draw(st.integers(0, size))
    answers = [np.zeros(room, np.int32), np.zeros(room, np.uint8), np.zeros(room, np.int64)]
    fenced = Fenced(*spoilt, *work, *answers)
    codes = [data.draw(st.sampled_from([3, code])) for code in (index, mapped)]
    cache.READ_ONCE.attempt(*fenced.copies[:5], *codes, *fenced.copies[5:])
    assert fenced.hold()
    assert fenced.unchanged(*range(5))


@EXAMPLES
@given(data=st.data(), values=NUMBERS, room=st.integers(0, 60))
def test_any_numbers_are_counted_in_their_buffers(data, values, room):
    """Numbers of any size, also repeated; a buffer of another length is refused."""
    fenced = Fenced(*spoil(data.draw, [np.array(values, np.int64), np.zeros(room, np.int64)]))
    given_values, scratch = fenced.copies
    numbers = given_values.tolist()
    found = files.COUNT_INVERSIONS.attempt(given_values, scratch)
    assert fenced.hold()
    assert (found is None) == (len(numbers) != len(scratch))
    expected = sum(numbers[k] > later for k in range(len(numbers)) for later in numbers[k + 1 :])
    assert found in (None, expected)


@EXAMPLES
@given(
    data=st.data(), room=st.integers(0, 60),
    values=st.lists(
        st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5) | st.integers(0, 2**21).map(lambda k: k << 12)
    ),
)  # fmt: skip
def test_numbers_are_ordered_as_numpy_does(data, values, room):
    """Equal numbers keep their order, and negative ones come first; a buffer of another length is refused."""
    sizes = [np.zeros(data.draw(st.sampled_from([len(values), room])), np.int64) for _ in range(2)]
    fenced = Fenced(*spoil(data.draw, [np.array(values, np.int64), *sizes]))
    given_values, found, scratch = fenced.copies
    expected = np.argsort(given_values, kind="stable").tolist()
    count = arrays.ORDER_NUMBERS.attempt(given_values, found, scratch)
    assert fenced.hold()
    assert fenced.unchanged(0)
    assert (count is None) == (len({len(given_values), len(found), len(scratch)}) > 1)
    assert count is None or found.tolist() == expected
    assert arrays.order_of(given_values).tolist() == expected
