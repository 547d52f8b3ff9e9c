"""Key order and counts of a tree while it is read.

Apple File System Reference, B-Trees: keys ascend within a node and from node to node; the root's tree information
counts keys and nodes and knows the longest key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.findings import Finding

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.store.btree import NodeBatch, TreeShape
    from layoutscope.filesystems.apfs.store.source import TreeSource


@dataclass(slots=True)
class Tally:
    """What was counted so far, and the last key of the level that is read.

    `num_findings` is how many findings there were before the tree.
    """

    num_findings: int
    num_keys: int = 0
    longest_key: int = 0
    level: int = -1
    last_key: int = 0

    def add(self, source: TreeSource, batch: NodeBatch, findings: list[Finding]) -> None:
        """Count a batch and check the order of its keys."""
        if batch.level != self.level:
            self.level, self.last_key = batch.level, 0
        if not len(batch.slots):
            return
        self.longest_key = max(self.longest_key, int(batch.slots.key_len.max()))
        self.num_keys += 0 if batch.level else len(batch.slots)
        self._check_order(source, batch, findings)
        self.last_key = int(batch.keys[-1])

    def _check_order(self, source: TreeSource, batch: NodeBatch, findings: list[Finding]) -> None:
        keys, node = batch.keys, batch.slots.node
        descends = np.zeros(len(keys), bool)
        descends[0] = int(keys[0]) < self.last_key
        np.less(keys[1:], keys[:-1], out=descends[1:])
        # Records may come before what their parent's entry promises.
        early = keys < batch.places.low_key[node]
        for number in sorted(set(node[descends | early].tolist())):
            paddr = batch.places.paddr[number]
            name = f"{source.tree} tree, node {batch.places.node_id[number]}"
            where, device = source.blocks.place(int(paddr))
            findings.append(Finding("keys-unordered", "warning", name, where, "keys do not ascend", device=device))

    def compare(self, source: TreeSource, shape: TreeShape, num_nodes: int, findings: list[Finding]) -> None:
        """Compare with the tree information; not where something of the tree is missing."""
        if len(findings) > self.num_findings:
            return
        (where, device), name = source.blocks.place(shape.paddr), f"{source.tree} tree, root"
        for what, found, declared in (("keys", self.num_keys, shape.num_keys), ("nodes", num_nodes, shape.num_nodes)):
            if found != declared:
                message = f"the tree information counts other {what} than the tree holds"
                findings.append(
                    Finding("count-differs", "warning", name, where, message, str(found), str(declared), device)
                )
        if self.longest_key > shape.longest_key:
            message = "a key is longer than the tree information says"
            sides = str(self.longest_key), str(shape.longest_key)
            findings.append(Finding("count-differs", "warning", name, where, message, *sides, device))
