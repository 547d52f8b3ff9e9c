"""Orders that go through a tree as a whole: leaf by leaf in the order of its keys, or node by node by their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.access.touches import CAUSES, CODE, touches
from layoutscope.access.trace import AccessTrace
from layoutscope.walk.assemble import requests

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.model import Model
    from layoutscope.access.touches import Touches


def leaves(model: Model) -> Touches:
    """Touch every leaf of the main tree in key order, as ``searchfs`` is taken to where it does not go by numbers."""
    ordered = model.nodes.leaves(model.main_tree_code).astype(np.int32)
    cause = np.full(len(ordered), CODE["next"], np.uint8)
    cause[:1] = CODE["scan"]
    return touches(ordered, cause, np.zeros(len(ordered), np.uint64))


def all_nodes(model: Model) -> AccessTrace:
    """Read the catalog node by node in the order of node numbers, several at once where they touch.

    Apple's ``BTScanNextRecord``: links between nodes are ignored.
    """
    made = requests(model)
    node = np.flatnonzero(model.nodes.tree == model.main_tree_code)
    node = node[np.argsort(model.nodes.node_id[node], kind="stable")]
    units = made.unit[node]
    place, _ = made.of(units[np.sort(np.unique(units, return_index=True)[1])])
    begins = _chunks(made.image_offset[place], made.length_bytes[place], model.host.scan_read_bytes)
    first = np.flatnonzero(begins)
    n = len(first)
    length_bytes = np.add.reduceat(made.length_bytes[place], first) if n else np.empty(0, np.int64)
    nodes_each = length_bytes / model.nodes.size_bytes[node].max(initial=1)
    return AccessTrace(
        device=made.device[place][first],
        image_offset=made.image_offset[place][first],
        length_bytes=length_bytes,
        cause=np.full(n, CODE["scan"], np.uint8),
        tree=np.full(n, max(model.main_tree_code, 0), np.uint8),
        directory_id=np.zeros(n, np.uint64),
        issuer=np.zeros(n, np.uint16),
        think_us=model.costs.node_us * nodes_each,
        causes=CAUSES,
        trees=(*model.nodes.trees, "data"),
    )


def _chunks(offset: NDArray[np.int64], length: NDArray[np.int64], largest: int) -> NDArray[np.bool_]:
    """Mark where requests begin when neighbours are joined up to `largest` bytes."""
    begins = np.ones(len(offset), bool)
    begins[1:] = offset[1:] != offset[:-1] + length[:-1]
    run = np.cumsum(begins) - 1
    within = offset - offset[begins][run] if len(offset) else offset
    chunk = within // largest
    begins[1:] |= (chunk[1:] != chunk[:-1]) & (run[1:] == run[:-1])
    return begins
