"""A container that is being made smaller: where the blocks behind its future end go.

Apple File System Reference, Container, nx_evict_mapping_tree_oid and nx_blocked_out_prange.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.filesystems.apfs.store.source import TreeSource
from layoutscope.filesystems.apfs.store.walk import read_nodes
from layoutscope.ondisk.records import EVICT_MAPPING_KEY, EVICT_MAPPING_VAL

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.store.btree import NodeBatch
    from layoutscope.filesystems.apfs.store.nodes import TreeNodes

Details = dict[str, "str | int | float | bool"]


def read_evictions(container: Container) -> tuple[list[TreeNodes], Details]:
    """Read the tree of blocks that move: its nodes, and numbers for a report; mostly there is none."""
    superblock, details = container.superblock, Details()
    if superblock.blocked_out.num_blocks:
        run = superblock.blocked_out
        details["blocked-out blocks"] = f"{run.num_blocks:,} from block {run.start_paddr:,}"
    oid = superblock.evict_mapping_tree_oid
    if not oid:
        return [], details
    nodes, leaves = read_nodes(TreeSource(container.store, "evict-mapping", oid, container.xid))
    details["blocks to be moved"] = sum(_moved(container, batch) for batch in leaves)
    return [nodes], details


def _moved(container: Container, batch: NodeBatch) -> int:
    """Count the blocks of a batch of leaves that move; a run that leaves the container is a finding."""
    slots = batch.slots
    keys = batch.columns("key", EVICT_MAPPING_KEY, (EVICT_MAPPING_KEY.paddr,))
    found = batch.columns("val", EVICT_MAPPING_VAL, (EVICT_MAPPING_VAL.dst_paddr, EVICT_MAPPING_VAL.num_blocks))
    limit = np.uint64(container.device_blocks[0])
    length = np.minimum(found["num_blocks"], limit + np.uint64(1))
    outside = keys["paddr"] + length > limit
    outside |= (found["dst_paddr"] < 0) | (found["dst_paddr"].astype(np.uint64) + length > limit)
    for row in np.flatnonzero(outside).tolist():
        at = int(slots.val_start[row]) + EVICT_MAPPING_VAL.dst_paddr.offset
        message = f"blocks from {keys['paddr'][row]} move to where no blocks are"
        batch.at(int(slots.node[row]), at).add("record-invalid", "warning", message)
    return int(length[~outside].sum())
