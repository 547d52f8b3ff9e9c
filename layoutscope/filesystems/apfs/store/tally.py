"""Key order and counts of a tree while it is read.

Apple File System Reference, B-Trees: keys ascend within a node and from node to node; the root's tree information
counts keys and nodes and knows the longest key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.store.btree import NodeBatch, OpenTree


@dataclass(slots=True)
class Tally:
    """What was counted so far, and the last key of the level that is read.

    Attributes
    ----------
    tree : OpenTree
        The tree, before its nodes are read.
    """

    tree: OpenTree
    num_keys: int = 0
    longest_key: int = 0
    level: int = -1
    last_key: int = 0
    _num_findings: int = field(init=False)

    def __post_init__(self) -> None:
        self._num_findings = len(self.tree.source.store.log.findings)

    def add(self, batch: NodeBatch) -> None:
        """Count a batch and check the order of its keys."""
        if batch.level != self.level:
            self.level, self.last_key = batch.level, 0
        if not len(batch.slots):
            return
        self.longest_key = max(self.longest_key, int(batch.slots.key_len.max()))
        self.num_keys += 0 if batch.level else len(batch.slots)
        self._check_order(batch)
        self.last_key = int(batch.keys[-1])

    def _check_order(self, batch: NodeBatch) -> None:
        keys, node = batch.keys, batch.slots.node
        descends = np.zeros(len(keys), bool)
        descends[0] = int(keys[0]) < self.last_key
        np.less(keys[1:], keys[:-1], out=descends[1:])
        # Records may come before what their parent's entry promises.
        early = keys < batch.places.low_key[node]
        for number in sorted(set(node[descends | early].tolist())):
            batch.at(number).add("keys-unordered", "warning", "keys do not ascend")

    def compare(self, num_nodes: int) -> None:
        """Compare with the tree information; not where something of the tree is missing."""
        source, shape = self.tree.source, self.tree.shape
        if len(source.store.log.findings) > self._num_findings:
            return
        log = source.at_root(shape.paddr)
        for what, found, declared in (("keys", self.num_keys, shape.num_keys), ("nodes", num_nodes, shape.num_nodes)):
            if found != declared:
                message = f"the tree information counts other {what} than the tree holds"
                log.add("count-differs", "warning", message, expected=found, found=declared)
        if self.longest_key > shape.longest_key:
            message = "a key is longer than the tree information says"
            log.add("count-differs", "warning", message, expected=self.longest_key, found=shape.longest_key)
