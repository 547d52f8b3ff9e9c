"""Locked volumes: what the object map tells of a tree that cannot be decrypted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.filesystems.apfs.store.nodes import TreeNodes

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.volume.volume import Volume

UNKNOWN_LEVEL: Final = 255
"""Level of nodes whose contents are not known; null in the tables."""


def locked_nodes(state: Volume) -> TreeNodes:
    """List the encrypted nodes of a state by identifier: addresses and sizes are known, nothing else.

    Parameters
    ----------
    state : Volume
        A state of a locked volume.
    """
    omap = state.omap
    row = state.view.row[omap.is_encrypted[state.view.row]]
    count = len(row)
    numbers, small = np.zeros(count, np.uint64), np.zeros(count, np.uint32)
    return TreeNodes(
        tree="fs",
        node_id=omap.oid[row],
        xid=omap.xid[row],
        paddr=omap.paddr[row],
        size_bytes=omap.size_bytes[row],
        level=np.full(count, UNKNOWN_LEVEL, np.uint8),
        num_records=small,
        used_bytes=small,
        free_bytes=small,
        parent=np.full(count, -1, np.int64),
        omap_leaf=omap.leaf[row],
        key_rank=small,
        low_key=numbers,
        first_key_id=numbers,
        last_key_id=numbers,
        valid=np.zeros(count, np.uint8),
    )
