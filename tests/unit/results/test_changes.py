"""Nodes that stayed, moved, appeared or disappeared between two states of a volume."""

from __future__ import annotations

import polars as pl
import pytest

from layoutscope.results.compare import compare_layouts, join_nodes
from tests.layouts import NODE, data, entries, layout, leaves


def state(nodes, files=(), runs=(), **changes):
    return layout(nodes=nodes, entries=entries(*files), extents=data(*runs) if runs else None, **changes)


def test_nodes_are_followed_by_their_number():
    """Node 1 stays, node 2 moves by three blocks, node 3 disappears and node 4 appears."""
    earlier = state(leaves(10, 11, 12))
    later = state(leaves(10, 14, 20, node_id=[1, 2, 4]))
    found = {row["node_id"]: row["change"] for row in join_nodes(earlier, later).rows().frame.iter_rows(named=True)}
    assert found == {1: "stayed", 2: "moved", 3: "went", 4: "appeared"}
    row = compare_layouts(earlier, later).rows[0]
    assert (row.stayed, row.moved, row.appeared, row.went) == (1, 1, 1, 1)
    assert row.moved_by_bytes == 3 * NODE
    # Addresses count from the start of the volume: a volume copied to another partition did not move.
    earlier = state(leaves(10, 11))
    later = state(leaves(110, 111), image_offset=100 * NODE)
    assert set(join_nodes(earlier, later).rows().frame["change"]) == {"stayed"}


def test_files_and_nodes_that_did_not_stay():
    """Files are followed by number, and moved nodes are listed."""
    # File 5 moves to another directory, the data of file 6 to another place; file 7 is new.
    earlier = state(leaves(10), [(2, 5, "a", "file", 0), (2, 6, "b", "file", 0)], [(5, 50, 1), (6, 60, 1)])
    later = state(
        leaves(10),
        [(3, 5, "a", "file", 0), (2, 6, "b", "file", 0), (2, 7, "c", "file", 0)],
        [(5, 50, 1), (6, 70, 1), (7, 80, 1)],
    )
    rows = {row.what: (row.stayed, row.moved, row.appeared, row.went) for row in compare_layouts(earlier, later).rows}
    assert rows["files and directories"] == (1, 1, 1, 0)
    assert rows["files' data"] == (1, 1, 1, 0)
    # Its addresses are those in both states.
    changes = compare_layouts(state(leaves(10, 11)), state(leaves(10, 14)))
    assert changes.nodes.select("tree", "node_id", "change", "earlier_offset", "later_offset").rows() == [
        ("catalog", 2, "moved", 11 * NODE, 14 * NODE)
    ]
    assert changes.nodes.schema["earlier_offset"] == pl.Int64


@pytest.mark.parametrize("uuid", ["", "00000000-0000-0000-0000-000000000002"])
def test_other_volumes_are_not_followed(uuid):
    """Without a common identifier, no movement is reported."""
    assert compare_layouts(state(leaves(10)), state(leaves(11), uuid=uuid)) is None
