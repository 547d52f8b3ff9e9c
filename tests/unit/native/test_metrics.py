"""Metrics in C and in numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.metrics import scatter
from layoutscope.metrics.scatter import Pieces
from tests.unit.native.fences import EVIL, EXAMPLES, Fenced, is_same, spoil
from tests.unit.native.reference.metrics import plain_apart, plain_merged_pieces

STRETCHES = st.lists(st.tuples(st.integers(0, 300), st.integers(-3, 30)), max_size=40)


@EXAMPLES
@given(data=st.data(), stretches=STRETCHES, gap=st.integers(0, 20), evil=st.none() | EVIL)
def test_pieces_are_joined(data, stretches, gap, evil):
    """Pieces may overlap, or end before they begin; any numbers and short room are refused or stay in their buffers."""
    starts, lengths = np.array(sorted(stretches), np.int64).reshape(-1, 2).T
    given_pieces = Pieces(starts.copy(), starts + lengths)
    expected = plain_merged_pieces(given_pieces, gap)
    assert np.stack(scatter.merge_pieces(given_pieces, gap), axis=1).tolist() == expected
    room = [np.zeros(data.draw(st.sampled_from([len(starts), 3])), np.int64) for _ in range(2)]
    arrays = [*given_pieces, *room]
    fenced = Fenced(*spoil(data.draw, arrays))
    start, stop, *joined = fenced.copies
    found = scatter.JOIN_PIECES.attempt(start, stop, gap if evil is None else evil, *joined)
    assert fenced.hold()
    assert fenced.unchanged(0, 1)
    is_fitting = len(start) == len(stop) == len(joined[0]) == len(joined[1])
    assert found is None or is_fitting
    if is_same(arrays, fenced.originals) and evil is None:
        assert found == (len(expected) if is_fitting else None)


@st.composite
def volumes(draw) -> tuple:
    """Return extents and entries of files, and nodes: files without extents, extents of no file, several of both."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    num_extents, num_entries, num_nodes = (draw(st.integers(low, 25)) for low in (0, 0, 1))
    start, node_start = (rng.integers(0, 10_000, count) for count in (num_extents, num_nodes))
    extents = (
        rng.integers(0, 20, num_extents).astype(np.uint64), rng.random(num_extents) < 0.8, start,
        rng.integers(0, 500, num_extents),
    )  # fmt: skip
    entries = (
        rng.integers(0, 20, num_entries).astype(np.uint64), rng.random(num_entries) < 0.8,
        rng.integers(0, num_nodes, num_entries).astype(np.uint32),
    )  # fmt: skip
    return extents, entries, rng.permutation(num_nodes).astype(np.int32), node_start, node_start + 4096


def flat(given_volume: tuple) -> list[np.ndarray]:
    """Return the buffers of a volume in the kernel's order."""
    extents, entries, *nodes = given_volume
    columns = [scatter._to_kernel_column(each) for each in (*extents, *entries)]
    room = min(len(extents[0]), len(entries[0]))
    return [*columns, np.full(20, -1, np.int32), *nodes, np.zeros(room, np.int64)]


@EXAMPLES
@given(data=st.data(), given_volume=volumes())
def test_distances_to_data_are_the_same(data, given_volume):
    """Distances are in the order of the extents, with each file once; hostile numbers touch nothing outside."""
    expected = plain_apart(*given_volume)
    assert scatter.apart_from_inodes(*given_volume).tolist() == expected
    assert scatter.APART_FROM_INODES.attempt(*flat(given_volume)) == len(expected)
    fenced = Fenced(*spoil(data.draw, flat(given_volume)))
    scatter.APART_FROM_INODES.attempt(*fenced.copies)
    assert fenced.hold()
    assert fenced.unchanged(*range(7), 8, 9, 10)


def test_files_with_numbers_far_apart_are_found_too():
    """A table of all numbers would be too large, or a row is unknown."""
    extents = np.array([2**60, 5], np.uint64), np.array([True, True]), np.array([1000, 0]), np.array([10, 10])
    entries = np.array([5, 2**60], np.uint64), np.array([True, True]), np.array([0, 1], np.uint32)
    nodes = np.array([0, 1], np.int32), np.array([100, 200]), np.array([150, 250])
    assert scatter.apart_from_inodes(extents, entries, *nodes).tolist() == [750, 90]
