"""B-trees as arrays: which records each node holds, where full nodes are cut, which go.

A level is the ascending array of its nodes' first keys; a node holds the keys from its own to the next. Records are
keys and sizes, never objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.aging.records import NAME, record_kind_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

NOWHERE: Final = -1
"""Block of a node that was not written yet, and id of one that has none."""
FIRST: Final = -(1 << 62)
"""First key of the first node of every level: it holds whatever comes before the others."""


@dataclass(frozen=True)
class NodeRule:
    """How the nodes of a level fill."""

    capacity_bytes: int  # room for records
    keep_share: float = 0.5  # share of it that stays behind, left of a split
    # neighbours that fit together into this share of it are merged; 0 where only empty nodes go
    merge_share: float = 0.0
    less_per_record: int = 0  # bytes by which what stays behind is less for each record of the full node
    by_count: bool = False  # whether the share is one of the records, not of the room

    def kept(self, load: I64, count: I64) -> I64:
        """Return the bytes that full nodes of such loads and counts of records keep in a split."""
        per_full = np.rint(count * self.less_per_record * self.capacity_bytes / np.maximum(load, 1))
        stays: I64 = np.maximum(self.keep_share * self.capacity_bytes - per_full, 1).astype(np.int64)
        return stays


@dataclass(frozen=True)
class TreeLevel:
    """Nodes of one level in key order; arrays of shape (n_nodes,)."""

    bound: I64  # first keys
    ident: I64  # object ids or node numbers, `NOWHERE` for new ones
    block: I64  # where they lie, `NOWHERE` for new ones
    xid: I64  # transaction that wrote them

    def __len__(self) -> int:
        return len(self.bound)

    def rebound(self, bound: I64) -> TreeLevel:
        """Return the level with other nodes; those of a first key that was there stay what they were."""
        old = np.minimum(np.searchsorted(self.bound, bound), len(self) - 1)
        same = self.bound[old] == bound
        kept = [np.where(same, values[old], NOWHERE) for values in (self.ident, self.block, self.xid)]
        return TreeLevel(bound, *kept)

    def node_of(self, key: I64) -> I64:
        """Return the nodes that hold keys, as places in the level."""
        place: I64 = np.searchsorted(self.bound, key, side="right") - 1
        return place

    def gone(self, bound: I64) -> NDArray[np.bool_]:
        """Mark the nodes that a changed level has no more."""
        missing: NDArray[np.bool_] = ~np.isin(self.bound, bound, assume_unique=True)
        return missing


@dataclass(frozen=True)
class AgingTree:
    """A tree."""

    # key, size: records in key order, and the bytes that each takes
    key: I64
    size: I64
    levels: tuple[TreeLevel, ...]  # from the leaves up to the root
    # leaf, index: how nodes fill
    leaf: NodeRule
    index: NodeRule
    # index_bytes, short_index_bytes: what a record of an index node takes, and one whose key has no name
    index_bytes: int
    short_index_bytes: int = 0

    @property
    def newest(self) -> int:
        """The last transaction that wrote one of its nodes."""
        return max(int(level.xid.max(initial=0)) for level in self.levels)

    def leaf_of(self, key: I64) -> I64:
        """Return the leaves that hold keys, as places in the lowest level."""
        return self.levels[0].node_of(key)

    def index_sizes(self, key: I64) -> I64:
        """Return what the records of nodes take in those above them, by their first keys."""
        named = record_kind_of(key) == NAME
        return np.where(named | (self.short_index_bytes == 0), self.index_bytes, self.short_index_bytes)

    def loads(self) -> I64:
        """Return the bytes that each leaf holds."""
        return loads(self.levels[0].bound, self.key, self.size)

    def counts(self) -> I64:
        """Return how many records each leaf holds."""
        return np.diff(np.searchsorted(self.key, self.levels[0].bound), append=len(self.key))


def loads(
    bound: I64,  # first keys of the nodes, ascending
    key: I64,
    size: I64,
) -> I64:
    """Return the bytes that each node holds."""
    total = np.concatenate([[0], np.cumsum(size)])
    first = np.searchsorted(key, bound)
    loaded: I64 = total[np.append(first[1:], len(key))] - total[first]
    return loaded


def split_full(
    bound: I64,  # first keys of the nodes, ascending
    key: I64,
    size: I64,
    rule: NodeRule,
) -> I64:
    """Split the nodes whose records no longer fit, and return the first keys of all nodes.

    A node that is filled at its end splits again and again, and leaves nodes behind that hold `keep_share` of their
    room; one that is filled all over splits once. Both are cuts of the records in key order.

    >>> split_full(np.array([0]), np.arange(10), np.full(10, 10), NodeRule(40)).tolist()
    [0, 2, 4, 6]
    """
    load = loads(bound, key, size)
    full = np.flatnonzero(load > rule.capacity_bytes)
    if not len(full):
        return bound
    total = np.concatenate([[0], np.cumsum(size)])
    first = np.searchsorted(key, bound)
    piece = rule.kept(load[full], np.diff(first, append=len(key))[full])
    cuts = np.ceil((load[full] - rule.capacity_bytes) / piece).astype(np.int64)
    node = np.repeat(full, cuts)
    number = np.arange(len(node)) - np.repeat(np.cumsum(cuts) - cuts, cuts) + 1
    if rule.by_count:
        fit = np.diff(first, append=len(key))[full] * rule.capacity_bytes // load[full]
        cut = first[node] + number * np.repeat(np.maximum(np.ceil(fit * rule.keep_share), 1).astype(np.int64), cuts)
    else:
        target = total[first[node]] + number * np.repeat(piece, cuts)
        cut = np.searchsorted(total, target)
        # Where the last record that stays need not go beyond the share, it is left out when that is nearer.
        cut -= (rule.less_per_record == 0) & (total[cut] - target > target - total[np.maximum(cut - 1, 0)])
    return np.union1d(bound, key[np.minimum(cut, len(key) - 1)])


def without_empty(
    bound: I64,  # first keys of the nodes, ascending
    key: I64,
    size: I64,
    rule: NodeRule,
) -> I64:
    """Drop nodes that hold nothing, and merge neighbours where the rule says so; the first node stays.

    >>> without_empty(np.array([0, 4, 8]), np.array([1, 9]), np.array([5, 5]), NodeRule(40)).tolist()
    [0, 8]
    >>> without_empty(np.array([0, 4, 8]), np.array([1, 5, 9]), np.full(3, 5), NodeRule(40, 0.5, 0.5)).tolist()
    [0, 8]
    """
    kept = loads(bound, key, size) > 0
    kept[0] = True
    bound = bound[kept]
    if rule.merge_share and len(bound) > 1:
        load = loads(bound, key, size)
        fits = load[:-1] + load[1:] <= rule.merge_share * rule.capacity_bytes
        begins = fits & ~np.concatenate([[False], fits[:-1]])
        since = np.arange(len(fits)) - np.maximum.accumulate(np.where(begins, np.arange(len(fits)), 0))
        bound = np.delete(bound, np.flatnonzero(fits & (since % 2 == 0)) + 1)
    return bound


def new_level() -> TreeLevel:
    """Return a level of one node that holds every key, and was not written yet."""
    nowhere = np.full(1, NOWHERE)
    return TreeLevel(np.full(1, FIRST), nowhere, nowhere, nowhere)
