"""States of a volume that share nodes: a node that was read for one of them is not read again for another.

Apple File System Reference, Snapshot Metadata. A snapshot's tree differs from the live one in the nodes that were
written since; all others are the same blocks. An index node that two states share can lead to different children: it
names them by their numbers, and each state's object map finds them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.arrays.ragged import owners, ranges
from layoutscope.filesystems.apfs.store.btree import BATCH_NODES, batch_columns, children_of, read_batch, read_root
from layoutscope.filesystems.apfs.store.nodes import TreeNodes, join
from layoutscope.filesystems.apfs.store.places import distinct, locate
from layoutscope.filesystems.apfs.store.tally import Tally

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.btree import NodeBatch
    from layoutscope.filesystems.apfs.store.places import Places
    from layoutscope.filesystems.apfs.store.source import TreeSource

_CHILD_COLUMNS = ("node", "oid", "low_key", "hash")


@dataclass(slots=True)
class Pool:
    """Nodes that were read of one volume's states, and what the index nodes among them name.

    Attributes
    ----------
    columns : dict of arrays
        As of :class:`~layoutscope.filesystems.apfs.store.nodes.TreeNodes`; one row a node, in the order of reading.
    children : dict of arrays
        One row an index record, in the order of its node: ``node`` is that node's row, ``oid``, ``low_key`` and
        ``hash`` are of the child.
    order : (n,) int64 array
        Rows by address.
    """

    columns: dict[str, NDArray[Any]] = field(default_factory=dict)
    children: dict[str, NDArray[Any]] = field(default_factory=dict)
    order: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.order)

    def add(self, parts: list[dict[str, NDArray[Any]]], children: list[dict[str, NDArray[Any]]]) -> None:
        """Add nodes and their children."""
        self.columns = _stacked([self.columns, *parts])
        self.children = _stacked([self.children, *children])
        self.order = np.argsort(self.columns["paddr"], kind="stable") if self.columns else self.order

    def find(self, places: Places, level: int) -> NDArray[np.int64]:
        """Rows of nodes by address, number and level; -1 for those that were not read."""
        if not len(self):
            return np.full(len(places), -1, np.int64)
        known = self.columns["paddr"][self.order]
        row = self.order[np.minimum(np.searchsorted(known, places.paddr), len(known) - 1)]
        same = (self.columns["paddr"][row] == places.paddr) & (self.columns["node_id"][row] == places.node_id)
        return np.where(same & (self.columns["level"][row] == level), row, -1)

    def named_by(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Records of some index nodes, in their order: the node's position among those given, the record's row."""
        nodes = self.children["node"]
        first = np.searchsorted(nodes, rows, side="left")
        counts = np.searchsorted(nodes, rows, side="right") - first
        return owners(counts), ranges(first, counts)


def _stacked(parts: list[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    filled = [part for part in parts if part]
    return {name: np.concatenate([part[name] for part in filled]) for name in filled[0]} if filled else {}


def index_records(batch: NodeBatch, first_row: int) -> dict[str, NDArray[Any]]:
    """Give what a batch of index nodes names, for a pool in which its first node has a given row."""
    owner, oid, low_key, child_hash = children_of(batch)
    return dict(zip(_CHILD_COLUMNS, (owner + first_row, oid, low_key, child_hash), strict=True))


def read_shared(source: TreeSource, pool: Pool) -> TreeNodes:
    """Read the nodes of one state's tree; only those that the pool does not have are fetched, and put into it.

    What was found in another state already is not written down once more.

    Parameters
    ----------
    source : TreeSource
        The tree, with the object map as of this state.
    pool : Pool
        Nodes of other states of the volume.
    """
    apart, log = source.apart(), source.store.log
    nodes = _read(apart, pool)
    known = set(log.findings)
    log.extend([item for item in apart.store.log.findings if item not in known])
    return nodes


def _read(source: TreeSource, pool: Pool) -> TreeNodes:
    opened = read_root(source)
    if opened is None:
        return join(source.tree, [])
    tree, places = opened
    tally, parts, base = Tally(tree), list[dict[str, Any]](), 0
    for level in range(tree.shape.level, -1, -1):
        _fetch_new(tally, pool, places, level)
        rows = pool.find(places, level)
        here = {name: values[rows] for name, values in pool.columns.items()}
        here |= {"parent": places.parent, "omap_leaf": places.omap_leaf, "low_key": places.low_key}
        parts.append(here)
        if level:
            places = _children(source, pool, rows, base)
            base += len(rows)
    nodes = join(source.tree, parts)
    tally.num_keys = int(nodes.num_records[nodes.level == 0].sum())
    if nodes.valid.all():
        tally.compare(len(nodes))
    return nodes


def _fetch_new(tally: Tally, pool: Pool, places: Places, level: int) -> None:
    """Read the nodes of a level that the pool does not have."""
    new = places.take(pool.find(places, level) < 0)
    parts, children, row = [], [], len(pool)
    for start in range(0, len(new), BATCH_NODES):
        batch = read_batch(tally.tree, new.take(slice(start, start + BATCH_NODES)), level, row)
        tally.add(batch)
        parts.append(batch_columns(batch))
        if level:
            children.append(index_records(batch, row))
        row += len(batch.places)
    if parts:
        pool.add(parts, children)


def _children(source: TreeSource, pool: Pool, rows: NDArray[np.int64], base: int) -> Places:
    """Locate, as of this state, the children of index nodes, in key order."""
    owner, record = pool.named_by(rows)
    columns = {name: values[record] for name, values in pool.children.items()}
    return distinct(source, locate(source, columns["oid"], (owner + base, columns["low_key"], columns["hash"])))
