from __future__ import annotations

import numpy as np
import pytest

from layoutscope.access.trace import AccessTrace
from layoutscope.metrics import measure_trace
from layoutscope.metrics.files import first_touches
from layoutscope.metrics.scatter import edge_distance
from tests.layouts import NODE, layout, leaves


def walk(*reads: tuple[int, int], **tables):
    """Compute metrics for a walk's reads ``(offset, length)``."""
    trace = AccessTrace.from_reads(np.array([r[0] for r in reads]), np.array([r[1] for r in reads]))
    return {metric.name: metric.value for metric in measure_trace(trace, layout(**tables))}


def test_a_pass_in_order_scores_1():
    """The score of the nodes does not depend on the size of the requests."""
    # Three contiguous leaves are read in order: every node and request starts where the last one ended.
    measured = walk((NODE, NODE), (2 * NODE, NODE), (3 * NODE, NODE), nodes=leaves(1, 2, 3))
    assert measured["enumeration-layout-score"] == 1
    assert measured["request-layout-score"] == 1
    assert measured["head-travel"] == 0
    # Halving each read of scattered leaves makes requests look sequential; the node score stays 0.
    half = NODE // 2
    reads = [(place + part, half) for place in (NODE, 9 * NODE, 5 * NODE) for part in (0, half)]
    measured = walk(*reads, nodes=leaves(1, 9, 5))
    assert measured["enumeration-layout-score"] == 0
    assert measured["request-layout-score"] == pytest.approx(3 / 5)
    # Reading a leaf again adds no node: 1, 2, then 1 and 3 have the first touches 1, 2, 3.
    measured = walk((NODE, NODE), (2 * NODE, NODE), (NODE, NODE), (3 * NODE, NODE), nodes=leaves(1, 2, 3))
    assert measured["enumeration-layout-score"] == 1
    # Data before, between and after the nodes is not metadata.
    start, stop = np.array([100, 300]), np.array([200, 400])
    assert first_touches(np.array([50, 310, 250, 199, 400]), start, stop).tolist() == [1, 0]
    # Without a second read there is no distance.
    assert walk(nodes=leaves(1))["enumeration-layout-score"] is None
    assert walk((NODE, NODE), nodes=leaves(1))["seek-distance-end"] is None


def test_both_rules_of_seek_distance():
    """Backward by one read of 10 bytes: 20 from the end, 0 from the nearest edge; forward by 5 is 5 in both."""
    start, stop = np.array([100, 90, 105]), np.array([110, 100, 110])
    assert np.abs(start[1:] - stop[:-1]).tolist() == [20, 5]
    assert edge_distance(start[:-1], stop[:-1], start[1:], stop[1:]).tolist() == [0, 5]
    # From the end of block 1 to block 129 of 256 and back: (127 + 129) of 256 blocks are one stroke.
    measured = walk((NODE, NODE), (129 * NODE, NODE), (NODE, NODE), nodes=leaves(1, 129))
    assert measured["head-travel"] == (127 + 129) * NODE
    assert measured["head-travel-strokes"] == 1
