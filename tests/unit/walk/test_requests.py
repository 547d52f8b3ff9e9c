from __future__ import annotations

import numpy as np
import pytest

from layoutscope.tables import build_table
from layoutscope.walk import host_profile
from layoutscope.walk.orders import model_of
from layoutscope.walk.visits import requests


def pieces(layout, row, host="linux"):
    made = requests(model_of(layout, host_profile(host)))
    place, _ = made.of(made.unit[[row]])
    return list(zip(made.image_offset[place].tolist(), made.length_bytes[place].tolist(), strict=True))


@pytest.fixture
def split_node(plan):
    """Return an 8 KiB node in two pieces: 512 bytes at 0x10200, the rest at 0x50000."""
    made = plan("hfsplus")
    made.node("catalog", 0, 0x10200, size=8192)

    offsets, lengths = np.array([0x10200, 0x50000]), np.array([512, 7680])
    columns = {"node_row": np.zeros(2, np.uint32), "device": 0, "image_offset": offsets, "length_bytes": lengths}
    return made.layout().changed(node_fragments=build_table("node_fragments", columns))


def test_split_node_is_cut_at_its_pages(split_node):
    """The first page is 512 bytes at one place and 3584 at the other; the second page is the next 4096 bytes."""
    assert pieces(split_node, 0) == [(0x10200, 512), (0x50000, 3584), (0x50E00, 4096)]
    # One request for each piece.
    assert pieces(split_node, 0, "macos") == [(0x10200, 512), (0x50000, 7680)]


def test_small_nodes_share_a_page(plan):
    """Eight nodes of 512 bytes share a page of 4 KiB on Linux; macOS reads each alone."""
    made = plan("hfsplus")
    for row in range(8):
        made.node("catalog", 0, 0x10000 + 512 * row, size=512, rank=row)
    assert pieces(made.layout(), 3) == [(0x10000, 4096)]
    assert pieces(made.layout(), 3, "macos") == [(0x10600, 512)]
