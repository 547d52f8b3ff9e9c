from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutscope.structs import arrays
from layoutscope.structs.arrays import order_of

RUNS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=8)


def as_set(runs) -> set[int]:
    """Return the blocks in the runs."""
    return {block for start, length in runs for block in range(start, start + length)}


def to_runs(pairs) -> np.ndarray:
    """Make a set of runs from pairs."""
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return arrays.runs_of(table[:, 0], table[:, 1])


@given(RUNS)
def test_runs_hold_the_blocks_of_their_parts_and_do_not_touch(pairs):
    """Overlapping and contiguous runs are joined; no block is lost or added."""
    runs = to_runs(pairs)
    assert as_set(runs.tolist()) == as_set(pairs)
    assert (runs[1:, 0] > runs[:-1].sum(axis=1)).all()
    assert arrays.total(runs) == len(as_set(pairs))


@given(RUNS, RUNS)
def test_set_operations_are_those_of_sets(one, two):
    """Union, difference and intersection of runs equal those of the block sets."""
    first, second = to_runs(one), to_runs(two)
    assert as_set(arrays.union([first, second]).tolist()) == as_set(one) | as_set(two)
    assert as_set(arrays.subtract(first, second).tolist()) == as_set(one) - as_set(two)
    assert as_set(arrays.intersect(first, second).tolist()) == as_set(one) & as_set(two)


@given(st.integers(0, 2**32), st.sampled_from([2**14, 2**17, 2**40]), st.sampled_from([0, -5]))
def test_many_numbers_are_sorted_as_few_are(seed, limit, least):
    """Twelve thousand numbers with repetitions have numpy's stable order, for one, two and three digits."""
    values = np.random.default_rng(seed).integers(least, limit, 12_000)
    assert (order_of(values) == np.argsort(values, kind="stable")).all()


def test_runs_of_blocks_as_arithmetic_on_paper():
    """Blocks 0-4, 3-6 and 6-8 are one run, 10-12 another; of 20 blocks, 9 and 13-19 remain."""
    claimed = arrays.runs_of(np.array([3, 10, 0, 6]), np.array([4, 3, 5, 3]))
    assert claimed.tolist() == [[0, 9], [10, 3]]
    assert arrays.subtract(np.array([[0, 20]]), claimed).tolist() == [[9, 1], [13, 7]]
    assert arrays.intersect(claimed, np.array([[8, 3], [15, 2]])).tolist() == [[8, 1], [10, 1]]


# Bitmaps


@given(st.lists(st.binary(min_size=4, max_size=4), min_size=1, max_size=4), st.data())
def test_free_runs_are_the_clear_bits(rows, data):
    """Runs hold exactly the valid clear bits, lowest bit of each byte first, each run of maximum length."""
    counts = [data.draw(st.integers(0, 32)) for _ in rows]
    row, first, length = arrays.clear_runs(
        np.frombuffer(b"".join(rows), np.uint8).reshape(-1, 4), np.array(counts), "little"
    )
    found = {(int(r), b) for r, f, n in zip(row, first, length, strict=True) for b in range(f, f + n)}
    wanted = {
        (number, bit)
        for number, (raw, count) in enumerate(zip(rows, counts, strict=True))
        for bit in range(count)
        if not raw[bit // 8] >> bit % 8 & 1
    }
    assert found == wanted
    ends = set(zip(row.tolist(), (first + length).tolist(), strict=True))
    assert not ends & set(zip(row.tolist(), first.tolist(), strict=True))


def test_bitmaps_at_their_limits():
    """No bitmaps, full ones and empty ones."""
    # Neither zero rows nor rows of zero bytes have runs.
    for bitmaps in (np.empty((0, 4096), np.uint8), np.empty((2, 0), np.uint8)):
        found = arrays.clear_runs(bitmaps, np.zeros(len(bitmaps), np.int64), "little")
        assert [part.tolist() for part in found] == [[], [], []]
    # A bitmap of ones has no run, one of zeros has a single run as long as its chunk.
    row, first, length = arrays.clear_runs(np.array([[255] * 8, [0] * 8], np.uint8), np.array([64, 50]), "little")
    assert (row.tolist(), first.tolist(), length.tolist()) == ([1], [0], [50])


def counted_runs(bits):
    """Return the runs of zeros, counted one by one."""
    found, start = [], None
    for place, bit in enumerate([*bits, 1]):
        if not bit and start is None:
            start = place
        if bit and start is not None:
            found.append((start, place - start))
            start = None
    return found


def free(bits, total):
    bitmap = np.packbits(np.array(bits, np.uint8))
    _, starts, counts = arrays.clear_runs(bitmap[None], np.array([total]), "big")
    return list(zip(starts.tolist(), counts.tolist(), strict=True))


@pytest.mark.parametrize("total", [0, 1, 7, 8, 63, 64, 65, 200])
@pytest.mark.parametrize("bit", [0, 1])
def test_uniform_bitmaps(total, bit):
    """If all is free there is one run, if all is used there are none, for any size."""
    assert free([bit] * total, total) == ([(0, total)] if total and not bit else [])


@given(st.lists(st.sampled_from([(0, 1), (1, 1), (0, 64), (1, 64), (0, 200), (1, 7)]), max_size=20))
@settings(max_examples=200)
def test_runs_equal_those_counted_bit_by_bit(pieces):
    """Runs that cross bytes and words are found once."""
    bits = [bit for bit, count in pieces for _ in range(count)]
    assert free(bits, len(bits)) == counted_runs(bits)


def test_bits_and_blocks_that_do_not_count():
    """Only blocks with a bit count."""
    # The bitmap has room for more blocks than the volume has.
    assert free([1, 0, 0, 1, 0, 0, 0, 0], 6) == [(1, 2), (4, 2)]
    # A bitmap that ends early gives no information about later blocks.
    assert free([1] * 7 + [0], 32) == [(7, 1)]
