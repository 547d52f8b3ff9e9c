"""Metrics in C and in numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.metrics import scatter
from layoutscope.metrics.scatter import Pieces
from tests.unit.native.fences import EVIL, EXAMPLES, Fenced, spoil
from tests.unit.native.reference.metrics import Firsts, plain_apart, plain_merged_pieces

STRETCHES = st.lists(st.tuples(st.integers(0, 300), st.integers(-3, 30)), max_size=40)


@EXAMPLES
@given(stretches=STRETCHES, gap=st.integers(0, 20))
def test_pieces_are_joined_as_by_columns(stretches, gap):
    """Pieces may overlap, or end before they begin."""
    starts, lengths = np.array(sorted(stretches), np.int64).reshape(-1, 2).T
    given_pieces = Pieces(starts.copy(), starts + lengths)
    found, twin = scatter.merge_pieces(given_pieces, gap), plain_merged_pieces(given_pieces, gap)
    assert [each.tolist() for each in found] == [each.tolist() for each in twin]
    room = [np.empty(len(starts), np.int64) for _ in range(2)]
    assert scatter.JOIN_PIECES.attempt(*given_pieces, gap, *room) == len(twin.start)


@EXAMPLES
@given(data=st.data(), stretches=STRETCHES, gap=EVIL)
def test_hostile_pieces_are_refused_or_stay_in_their_buffers(data, stretches, gap):
    """Pieces have any numbers, and room may be short."""
    starts, lengths = np.array(sorted(stretches), np.int64).reshape(-1, 2).T
    room = [np.zeros(data.draw(st.sampled_from([len(starts), 3])), np.int64) for _ in range(2)]
    fenced = Fenced(*spoil(data.draw, [starts, starts + lengths, *room]))
    start, stop, *joined = fenced.copies
    found = scatter.JOIN_PIECES.attempt(start, stop, gap, *joined)
    assert fenced.hold()
    assert fenced.unchanged(0, 1)
    assert found is None or len(start) == len(stop) == len(joined[0]) == len(joined[1])


@st.composite
def volumes(draw) -> tuple:
    """Return extents and entries of files, and nodes: files without extents, extents of no file, several of both."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    num_extents, num_entries, num_nodes = (draw(st.integers(low, 25)) for low in (0, 0, 1))
    start, node_start = (rng.integers(0, 10_000, count) for count in (num_extents, num_nodes))
    firsts = Firsts(
        rng.integers(0, 20, num_extents).astype(np.uint64), rng.random(num_extents) < 0.8, start,
        rng.integers(0, 500, num_extents), rng.integers(0, 20, num_entries).astype(np.uint64),
        rng.random(num_entries) < 0.8, rng.integers(0, num_nodes, num_entries).astype(np.uint32),
    )  # fmt: skip
    return firsts, rng.permutation(num_nodes).astype(np.int32), node_start, node_start + 4096


def flat(given_volume: tuple) -> list[np.ndarray]:
    """Return the buffers of a volume in the kernel's order."""
    firsts, place, node_start, node_stop = given_volume
    columns = [scatter._to_kernel_column(each) for each in firsts]
    room = min(len(firsts.file_id), len(firsts.entry_file_id))
    return [*columns, np.full(20, -1, np.int32), place, node_start, node_stop, np.zeros(room, np.int64)]


@EXAMPLES
@given(given_volume=volumes())
def test_distances_to_data_are_the_same(given_volume):
    """Distances are in the order of the extents, with each file once."""
    expected = plain_apart(*given_volume).tolist()
    firsts, *nodes = given_volume
    assert scatter.apart_from_inodes(firsts[:4], firsts[4:], *nodes).tolist() == expected
    assert scatter.APART_FROM_INODES.attempt(*flat(given_volume)) == len(expected)


@EXAMPLES
@given(data=st.data(), given_volume=volumes())
def test_hostile_files_lead_nowhere(data, given_volume):
    """With any number replaced and any end cut off, nothing outside is touched."""
    fenced = Fenced(*spoil(data.draw, flat(given_volume)))
    scatter.APART_FROM_INODES.attempt(*fenced.copies)
    assert fenced.hold()
    assert fenced.unchanged(*range(7), 8, 9, 10)


def test_files_with_numbers_far_apart_are_found_too():
    """A table of all numbers would be too large, or a row is unknown."""
    firsts = Firsts(
        np.array([2**60, 5], np.uint64), np.array([True, True]), np.array([1000, 0]), np.array([10, 10]),
        np.array([5, 2**60], np.uint64), np.array([True, True]), np.array([0, 1], np.uint32),
    )  # fmt: skip
    nodes = np.array([0, 1], np.int32), np.array([100, 200]), np.array([150, 250])
    assert scatter.apart_from_inodes(firsts[:4], firsts[4:], *nodes).tolist() == [750, 90]
