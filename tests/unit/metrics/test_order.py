from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutscope.metrics.files import count_inversions, order_metrics, rank_on_disk
from tests.layouts import NODE, layout, leaves


def values(*blocks: int, **changes):
    measured = order_metrics(layout(nodes=leaves(*blocks, **changes)), "catalog")
    return {metric.name: metric.value for metric in measured}


def test_adjacency_and_inversions_distinguish_packed_from_reversed():
    # Four contiguous leaves have no breaks.
    assert values(5, 6, 7, 8) == {
        "next-leaf-adjacent": 1,
        "backward-steps": 0,
        "key-order-inversions": 0,
        "rank-distance": 0,
    }
    # Four leaves in falling order: each step goes back, each pair is inverted, ranks are 3 + 1 + 1 + 3 of 4 x 4.
    assert values(8, 7, 6, 5) == {
        "next-leaf-adjacent": 0,
        "backward-steps": 1,
        "key-order-inversions": 1,
        "rank-distance": 0.5,
    }
    # One of two steps between three leaves has a gap; the order is unchanged.
    assert values(1, 2, 9)["next-leaf-adjacent"] == 0.5
    assert values(1, 2, 9)["key-order-inversions"] == 0
    # Without a second leaf there is nothing to compare.
    assert values(3)["next-leaf-adjacent"] is None
    assert values(3)["key-order-inversions"] is None
    # Rows in any order give the same result, because leaves are sorted by key rank.
    assert values(7, 5, 6, key_rank=[2, 0, 1]) == values(5, 6, 7)
    # Leaves 1 and 2 are contiguous; a snapshot's leaf with keys between theirs is elsewhere.
    assert values(1, 90, 2, key_rank=[0, 1, 1], state=["live", "snapshot", "live"]) == values(1, 2)


def test_a_node_in_pieces_ends_with_its_last_piece():
    """A leaf after the last piece of a straddling leaf is adjacent to it."""
    split = {"node_row": [0, 0], "device": 0, "image_offset": [NODE, 30 * NODE], "length_bytes": NODE // 2}
    measured = order_metrics(
        layout(nodes=leaves(1, 30, image_offset=[NODE, 30 * NODE + NODE // 2]), fragments=split), "catalog"
    )
    assert next(measured).value == 1


@settings(max_examples=200)
@given(st.permutations(list(range(13))))
def test_inversions_equal_the_count_of_all_pairs(permutation):
    brute = sum(a > b for i, a in enumerate(permutation) for b in permutation[i + 1 :])
    assert count_inversions(np.array(permutation)) == brute


@pytest.mark.parametrize("n", [0, 1, 2, 3, 64, 65, 1000])
def test_a_reversed_sequence_inverts_every_pair(n):
    """N falling values have n (n - 1) / 2 inversions, powers of two and others alike."""
    assert count_inversions(np.arange(n)[::-1]) == n * (n - 1) // 2


def test_disk_rank_is_the_place_in_address_order():
    """Addresses 30, 10, 20 have the ranks 2, 0, 1."""
    assert rank_on_disk(np.array([30, 10, 20])).tolist() == [2, 0, 1]
