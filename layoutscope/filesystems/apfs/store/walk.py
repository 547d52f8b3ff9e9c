"""Whole trees, read from the root down: their key order and counts, and the nodes that states of a volume share.

Apple File System Reference, B-Trees and Snapshot Metadata. A level's blocks are fetched in address order. Keys ascend
within a node and from node to node; the root's tree information counts keys and nodes and knows the longest key.

A snapshot's tree differs from the live one in the nodes written since; all others are the same blocks, and
not read again. An index node that two states share can lead to different children: it names them by their numbers, and
each state's object map finds them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from layoutscope.arrays.growing import GrowingColumn
from layoutscope.arrays.ragged import owners, ranges
from layoutscope.filesystems.apfs.store.btree import BATCH_NODES, ReadNodes, as_rows, children_of, read_batch, read_root
from layoutscope.filesystems.apfs.store.nodes import NodeRows, join
from layoutscope.filesystems.apfs.store.omap import ObjectMap
from layoutscope.filesystems.apfs.store.source import Places, TreeSource, joined_places, locate_nodes, named_once
from layoutscope.image import Workspace
from layoutscope.ondisk.records import OMAP_KEY, OMAP_VAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.btree import OpenTree, ReadNodes
    from layoutscope.filesystems.apfs.store.source import Places, Store


def read_levels(
    source: TreeSource, workspace: Workspace | None = None, *, known: NDArray[np.uint64] | None = None
) -> Iterator[ReadNodes]:
    """Read a tree from the root down; nodes that cannot be used are findings, and left out or yield no records."""
    opened = read_root(source)
    if opened is None:
        return
    tree, places = opened
    tally, first, base = Tally(tree), 0, 0
    above = np.empty(0, np.uint64)
    for level in range(tree.shape.level, -1, -1):
        children: list[Places] = []
        if known is not None and not level and len(above):
            is_new = ~np.isin(above, known)
            places = places.take(~np.isin(places.paddr, known) | is_new[places.parent - base])
        above, base = places.paddr, first
        for start in range(0, len(places), BATCH_NODES):
            some = places.take(slice(start, start + BATCH_NODES))
            batch = read_batch(tree, some, level, first, workspace)
            batch = replace(batch, num_after=len(places) - start - len(some))
            first += len(batch.places)
            tally.add(batch)
            yield batch
            if level:
                children.append(_children(batch))
        if not level:
            if known is None:
                tally.compare(first)
            return
        places = named_once(source, joined_places(children))
        if not len(places):
            return


def _children(batch: ReadNodes) -> Places:
    """Locate the children of a batch of index nodes, in key order."""
    node, oids, low, hashes = children_of(batch)
    return locate_nodes(batch.tree.source, oids, (node + batch.first, low, hashes))


def read_nodes(source: TreeSource) -> tuple[NodeRows, list[ReadNodes]]:
    """Read a whole tree and keep its leaves' batches; for trees that are small."""
    batches = list(read_levels(source))
    nodes = join(source.tree, [as_rows(batch) for batch in batches])
    return nodes, [batch for batch in batches if batch.level == 0]


_VALUE_FIELDS = (OMAP_VAL.paddr, OMAP_VAL.len_object, OMAP_VAL.is_deleted, OMAP_VAL.is_encrypted, OMAP_VAL.is_noheader)


_DTYPES = {
    "oid": np.uint64,
    "xid": np.uint64,
    "paddr": np.uint64,
    "size_bytes": np.int64,
    "is_deleted": np.bool_,
    "is_encrypted": np.bool_,
    "is_noheader": np.bool_,
    "leaf": np.int64,
}


def read_omap(store: Store, tree: Literal["container-omap", "omap"], tree_oid: int, max_xid: int) -> ObjectMap:
    """Read an object map's tree."""
    parts, columns = [], {name: GrowingColumn(dtype) for name, dtype in _DTYPES.items()}
    for batch in read_levels(TreeSource(store, tree, tree_oid, max_xid), Workspace()):
        parts.append(as_rows(batch))
        for name, values in _mappings(batch).items() if not batch.level else ():
            columns[name].add(values, batch.to_come)
    return ObjectMap(join(tree, parts), **{name: column.values for name, column in columns.items()})


def _mappings(batch: ReadNodes) -> dict[str, NDArray[Any]]:
    """Decode the mappings in one batch of leaves."""
    keys = batch.columns("key", OMAP_KEY, (OMAP_KEY.oid, OMAP_KEY.xid))
    values = batch.columns("val", OMAP_VAL, _VALUE_FIELDS)
    return {"size_bytes": values.pop(OMAP_VAL.len_object), **keys, **values, "leaf": batch.node}


@dataclass(slots=True)
class Tally:
    """What was counted so far, and the last key of the level that is read."""

    tree: OpenTree  # the tree, before its nodes are read
    num_keys: int = 0
    longest_key: int = 0
    level: int = -1
    last_key: int = 0
    _num_findings: int = field(init=False)

    def __post_init__(self) -> None:
        self._num_findings = len(self.tree.source.store.log.findings)

    def add(self, batch: ReadNodes) -> None:
        """Count a batch and check the order of its keys."""
        if batch.level != self.level:
            self.level, self.last_key = batch.level, 0
        if not len(batch.slots):
            return
        self.longest_key = max(self.longest_key, int(batch.slots.key_len.max()))
        # The tree information counts the keys of leaves alone, yet the longest key of all levels.
        self.num_keys += 0 if batch.level else len(batch.slots)
        self._check_order(batch)
        self.last_key = int(batch.keys[-1])

    def _check_order(self, batch: ReadNodes) -> None:
        keys, node = batch.keys, batch.slots.node
        descends = np.zeros(len(keys), bool)
        descends[0] = int(keys[0]) < self.last_key
        # Equal numbers are in order: two names of one directory, say, differ in what the number leaves out.
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
        log = source.at_node(source.root_oid, shape.paddr)
        for what, found, declared in (("keys", self.num_keys, shape.num_keys), ("nodes", num_nodes, shape.num_nodes)):
            if found < declared:
                message = (
                    f"{declared - found:,} {what} are missing: the tree information counts more than the tree holds"
                )
                log.add("count-differs", "error", message, expected=found, found=declared)
            elif found > declared:
                message = f"the tree information counts fewer {what} than the tree holds"
                log.add("count-differs", "warning", message, expected=found, found=declared)
        if self.longest_key > shape.longest_key:
            message = "a key is longer than the tree information says"
            log.add("count-differs", "warning", message, expected=self.longest_key, found=shape.longest_key)


_CHILD_COLUMNS = ("node", "oid", "low_key", "hash")


@dataclass(slots=True)
class Pool:
    """Nodes that were read of one volume's states, and what the index nodes among them name."""

    nodes: NodeRows | None = None  # in the order of reading; of several trees, so that ranks and parents mean nothing
    # one row an index record, in the order of its node: `node` is that node's row, `oid`, `low_key` and `hash` are of
    # the child
    children: dict[str, NDArray[Any]] = field(default_factory=dict)
    order: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # rows by address

    def __len__(self) -> int:
        return len(self.order)

    def add(self, parts: list[NodeRows], children: list[dict[str, NDArray[Any]]]) -> None:
        """Add nodes and their children."""
        if parts:
            self.nodes = join(parts[0].tree, parts if self.nodes is None else [self.nodes, *parts])
            self.order = np.argsort(self.nodes.paddr, kind="stable")
        self.children = _stacked([self.children, *children])

    def find(self, places: Places, level: int) -> NDArray[np.int64]:
        """Rows of nodes by address, number and level; -1 for those that were not read."""
        if self.nodes is None or not len(self):
            return np.full(len(places), -1, np.int64)
        known = self.nodes.paddr[self.order]
        row = self.order[np.minimum(np.searchsorted(known, places.paddr), len(known) - 1)]
        same = (self.nodes.paddr[row] == places.paddr) & (self.nodes.node_id[row] == places.node_id)
        return np.where(same & (self.nodes.level[row] == level), row, -1)

    def named_by(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Records of some index nodes, in their order: the node's position among those given, the record's row."""
        nodes = self.children["node"]
        first = np.searchsorted(nodes, rows, side="left")
        counts = np.searchsorted(nodes, rows, side="right") - first
        return owners(counts), ranges(first, counts)


def _stacked(parts: list[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    filled = [part for part in parts if part]
    return {name: np.concatenate([part[name] for part in filled]) for name in filled[0]} if filled else {}


def index_records(batch: ReadNodes, first_row: int) -> dict[str, NDArray[Any]]:
    """Give what a batch of index nodes names, for a pool in which its first node has a given row."""
    owner, oid, low_key, child_hash = children_of(batch)
    return dict(zip(_CHILD_COLUMNS, (owner + first_row, oid, low_key, child_hash), strict=True))


def read_shared(source: TreeSource, pool: Pool) -> NodeRows:
    """Read the nodes of one state's tree; only those that the pool does not have are fetched, and put into it.

    What was found in another state already is not written down once more.
    """
    apart, log = source.apart(), source.store.log
    nodes = _read_pooled(apart, pool)
    known = set(log.findings)
    log.extend([item for item in apart.store.log.findings if item not in known])
    source.store.lost.extend(apart.store.lost)
    return nodes


def _read_pooled(source: TreeSource, pool: Pool) -> NodeRows:
    opened = read_root(source)
    if opened is None:
        return join(source.tree, [])
    tree, places = opened
    tally, parts, base = Tally(tree), list[NodeRows](), 0
    for level in range(tree.shape.level, -1, -1):
        _fetch_new(tally, pool, places, level)
        rows = pool.find(places, level)
        if pool.nodes is not None:
            here = pool.nodes.take(rows)
            parts.append(replace(here, parent=places.parent, omap_leaf=places.omap_leaf, low_key=places.low_key))
        if level:
            places = _children_in(source, pool, rows, base)
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
        parts.append(as_rows(batch))
        if level:
            children.append(index_records(batch, row))
        row += len(batch.places)
    if parts:
        pool.add(parts, children)


def _children_in(source: TreeSource, pool: Pool, rows: NDArray[np.int64], base: int) -> Places:
    """Locate, as of this state, the children of index nodes, in key order."""
    owner, record = pool.named_by(rows)
    columns = {name: values[record] for name, values in pool.children.items()}
    return named_once(source, locate_nodes(source, columns["oid"], (owner + base, columns["low_key"], columns["hash"])))
