from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutscope.metrics.scatter import (
    Pieces,
    clump_bytes,
    merge_pieces,
    metadata_pieces,
    nearest_neighbour_ratio,
    node_pieces,
    span_bytes,
)
from layoutscope.units import KIB, MIB
from tests.layouts import NODE, layout, leaves


def pieces(*runs: tuple[int, int]) -> Pieces:
    starts = np.array([start for start, _ in runs], np.int64)
    return Pieces(starts, starts + np.array([length for _, length in runs], np.int64))


def test_small_gaps_join_pieces_and_bytes_count_once():
    # Three nodes, two of them contiguous, are two clumps of 200 and 100 bytes.
    held = pieces((0, 100), (100, 100), (201, 100))
    assert clump_bytes(held, 0).tolist() == [200, 100]
    # A gap of exactly the limit joins; its bytes are not counted.
    held = pieces((0, 100), (100 + 64 * KIB, 100))
    assert clump_bytes(held, 64 * KIB).tolist() == [200]
    assert clump_bytes(held, 64 * KIB - 1).tolist() == [100, 100]
    # A node claimed twice does not make the clump larger than the disk area.
    assert clump_bytes(pieces((0, 100), (50, 100), (60, 10)), 0).tolist() == [150]


def test_a_span_leaves_out_the_outer_hundredths():
    """Without metadata there is none."""
    # The middle 98 of 100 contiguous bytes span 98; one far byte at the end is cut off.
    assert span_bytes(pieces((1000, 100))) == pytest.approx(98)
    assert span_bytes(pieces((0, 99), (10**9, 1))) == pytest.approx(98)
    # Without metadata there is no span.
    assert span_bytes(pieces()) is None


def test_the_nearest_neighbour_ratio_grows_from_touching_to_regular():
    """It is 0 for touching nodes, 1 for random ones and 2 for regular ones."""
    # Nodes without gaps are maximally clustered.
    assert nearest_neighbour_ratio(pieces((0, 10), (10, 10), (20, 10)), 1000) == 0
    # Two random points on a line are a third of it apart on average: such a gap has the ratio 1.
    assert nearest_neighbour_ratio(pieces((0, 50), (350, 50)), 1000) == pytest.approx(1)
    # A thousand objects at equal distances have nearly twice the random gap to their neighbour.
    held = Pieces(np.arange(1000) * 100 + 95, np.arange(1000) * 100 + 100)
    assert nearest_neighbour_ratio(held, 100_095) == pytest.approx(2 * 1000 / 1002)
    # The expectation is that of a simulation: points at random have a ratio of 1 within 2 %.
    starts = np.sort(np.random.default_rng(1).integers(0, 10**15, 20_000))
    assert nearest_neighbour_ratio(Pieces(starts, starts + 1), 10**15) == pytest.approx(1, abs=0.02)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 10**6)), min_size=2, max_size=20),
    st.integers(0, 10**12),
)
def test_moving_the_volume_leaves_locality_unchanged(runs, shift):
    """Clumps and span do not depend on the volume's place in the image."""
    held = pieces(*sorted(runs))
    moved = Pieces(held.start + shift, held.stop + shift)
    assert clump_bytes(moved, MIB).tolist() == clump_bytes(held, MIB).tolist()
    assert span_bytes(moved) == pytest.approx(span_bytes(held), abs=0.01)
    assert int(merge_pieces(held, 0).length.sum()) == int(clump_bytes(held, MIB).sum())


def test_a_node_in_two_pieces_lies_in_both():
    """The pieces of a straddling node replace its address and size."""
    held = node_pieces(
        layout(
            nodes=leaves(10, 20),
            fragments={
                "node_row": [1, 1],
                "device": 0,
                "image_offset": [20 * NODE, 90 * NODE],
                "length_bytes": NODE // 2,
            },
        )
    )
    assert held.start.tolist() == [10 * NODE, 20 * NODE, 90 * NODE]
    assert held.length.tolist() == [NODE, NODE // 2, NODE // 2]


def test_unclaimed_blocks_and_free_nodes_are_no_metadata():
    """Only known metadata that is in use counts."""
    regions = {
        "device": 0,
        "volume": 0,
        "type": ["bitmap", "unclaimed", "pending-free"],
        "owner": "",
        "image_offset": [50 * NODE, 60 * NODE, 70 * NODE],
        "length_bytes": NODE,
    }
    held = metadata_pieces(layout(nodes=leaves(10, 20, kind=["leaf", "free"]), regions=regions))
    assert held.start.tolist() == [10 * NODE, 50 * NODE]
