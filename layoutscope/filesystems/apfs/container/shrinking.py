"""A container that is being made smaller: where the blocks behind its future end go.

Apple File System Reference, Container, nx_evict_mapping_tree_oid and nx_blocked_out_prange.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.filesystems.apfs.store.source import TreeSource, lead_type
from layoutscope.filesystems.apfs.store.walk import read_nodes
from layoutscope.findings import Finding
from layoutscope.ondisk.records import EVICT_MAPPING_KEY, EVICT_MAPPING_VAL

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.store.btree import NodeBatch
    from layoutscope.filesystems.apfs.store.nodes import TreeNodes

Details = dict[str, "str | int | float | bool"]


def read_evictions(container: Container, findings: list[Finding]) -> tuple[list[TreeNodes], Details]:
    """Read the tree of blocks that move: its nodes, and numbers for a report; mostly there is none."""
    superblock, details = container.superblock, Details()
    if superblock.blocked_out.num_blocks:
        run = superblock.blocked_out
        details["blocked-out blocks"] = f"{run.num_blocks:,} from block {run.start_paddr:,}"
    oid = superblock.evict_mapping_tree_oid
    if not oid:
        return [], details
    tree = "evict-mapping"
    source = TreeSource(tree, container.blocks, container.decoder, oid, None, *lead_type(tree), container.xid)
    nodes, leaves = read_nodes(source, findings)
    details["blocks to be moved"] = sum(_moved(container, batch, findings) for batch in leaves)
    return [nodes], details


def _moved(container: Container, batch: NodeBatch, findings: list[Finding]) -> int:
    """Count the blocks of a batch of leaves that move; a run that leaves the container is a finding."""
    blocks, slots = container.blocks, batch.slots
    keys = container.decoder.columns(EVICT_MAPPING_KEY, batch.buffer, slots.key_start, (EVICT_MAPPING_KEY.paddr,))
    names = (EVICT_MAPPING_VAL.dst_paddr, EVICT_MAPPING_VAL.num_blocks)
    found = container.decoder.columns(EVICT_MAPPING_VAL, batch.buffer, slots.val_start, names)
    limit = np.uint64(container.superblock.block_count)
    length = np.minimum(found["num_blocks"], limit + np.uint64(1))
    outside = keys["paddr"] + length > limit
    outside |= (found["dst_paddr"] < 0) | (found["dst_paddr"].astype(np.uint64) + length > limit)
    for row in np.flatnonzero(outside).tolist():
        node = int(slots.node[row])
        where, device = blocks.place(int(batch.places.paddr[node]))
        where += int(slots.val_start[row]) - node * batch.size_bytes + EVICT_MAPPING_VAL.dst_paddr.offset
        message = f"blocks from {keys['paddr'][row]} move to where no blocks are"
        name = f"evict-mapping tree, node {batch.places.node_id[node]}"
        findings.append(Finding("record-invalid", "warning", name, where, message, device=device))
    return int(length[~outside].sum())
