"""Records inside B-tree nodes: the table of contents of many nodes at once.

Apple File System Reference, B-Trees, btree_node_phys_t. Keys are counted from the end of the table of contents
upwards, values from the end of the node downwards (in a root, from the tree information there).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.ondisk import bulk, grammar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.apfs.decoding import Decoder

HEAD_FIELDS = (
    "hdr.cksum",
    "hdr.oid",
    "hdr.xid",
    "hdr.type",
    "hdr.subtype",
    "hdr.storage",
    "flags",
    "level",
    "num_keys",
    "is_root",
    "is_leaf",
    "is_fixed",
    "table_space.start",
    "table_space.len",
    "free_space.start",
    "free_space.len",
    "key_free_list.len",
    "val_free_list.len",
)


@dataclass(frozen=True, slots=True)
class Slots:
    """Records of many nodes, in key order; one row a record.

    Attributes
    ----------
    node : (n,) int64 array
        Position of the node among those given.
    key_start, key_len, val_start, val_len : (n,) int64 arrays
        In bytes; starts from the beginning of the buffer. A ghost has a value of length 0.
    """

    node: NDArray[np.int64]
    key_start: NDArray[np.int64]
    key_len: NDArray[np.int64]
    val_start: NDArray[np.int64]
    val_len: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.node)

    def take(self, chosen: NDArray[Any]) -> Slots:
        """Return some of the records."""
        return Slots(
            self.node[chosen],
            self.key_start[chosen],
            self.key_len[chosen],
            self.val_start[chosen],
            self.val_len[chosen],
        )


@dataclass(frozen=True, slots=True)
class FixedSizes:
    """Sizes of keys and values in a tree whose nodes do not say, in bytes."""

    key: int = 0
    val: int = 0
    child: int = 8


def heads(decoder: Decoder, buffer: NDArray[np.uint8], starts: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Decode the heads of many nodes; (n,) arrays by field name."""
    return decoder.columns("apfs_btree.btree_node", buffer, starts, HEAD_FIELDS)


def slots(
    decoder: Decoder,
    buffer: NDArray[np.uint8],
    starts: NDArray[np.int64],
    head: dict[str, NDArray[Any]],
    size_bytes: int,
    sizes: FixedSizes,
) -> tuple[Slots, NDArray[np.bool_]]:
    """Locate every record of many nodes.

    Parameters
    ----------
    decoder : Decoder
        Bulk or grammar.
    buffer : (n_bytes,) uint8 array
        Whole nodes.
    starts : (n,) int64 array
        Where each node starts in the buffer.
    head : dict
        From :func:`heads`.
    size_bytes : int
        Size of a node.
    sizes : FixedSizes
        For nodes with entries of fixed size.

    Returns
    -------
    Slots
        Records of the nodes that are sound.
    (n,) bool array
        Which nodes are not: a table, key or value that leaves its node.
    """
    table = starts + bulk.size("apfs_btree.btree_node") + head["table_space.start"]
    keys = table + head["table_space.len"]
    info = bulk.size("apfs_btree.btree_info")
    values_end = starts + size_bytes - np.where(head["is_root"], info, 0)
    entry = np.where(head["is_fixed"], bulk.size("apfs_btree.kvoff"), bulk.size("apfs_btree.kvloc"))
    counts = head["num_keys"].astype(np.int64)
    torn = (counts * entry > head["table_space.len"]) | (keys > values_end)
    counts = np.where(torn, 0, counts)
    node = np.repeat(np.arange(len(starts)), counts)
    slot = np.arange(len(node)) - np.repeat(np.cumsum(counts) - counts, counts)
    found = _entries(decoder, buffer, head, (table + 0)[node] + slot * entry[node], node, sizes)
    located = _anchored(found, keys[node], values_end[node])
    outside = (located.key_start + located.key_len > values_end[node]) | (located.val_start < keys[node])
    outside |= (located.val_start + located.val_len > values_end[node]) | (located.key_len < sizes.key)
    torn[node[outside]] = True
    return located.take(~torn[node]), torn


def _entries(
    decoder: Decoder,
    buffer: NDArray[np.uint8],
    head: dict[str, NDArray[Any]],
    entry_start: NDArray[np.int64],
    node: NDArray[np.int64],
    sizes: FixedSizes,
) -> Slots:
    """Decode table entries; starts as stored, values of ghosts at -1."""
    fixed = head["is_fixed"][node]
    out = np.empty((4, len(node)), np.int64)
    chosen = np.flatnonzero(~fixed)
    varying = decoder.columns(
        "apfs_btree.kvloc", buffer, entry_start[chosen], ("key.start", "key.len", "val.start", "val.len")
    )
    out[:, chosen] = [varying["key.start"], varying["key.len"], varying["val.start"], varying["val.len"]]
    chosen = np.flatnonzero(fixed)
    plain = decoder.columns("apfs_btree.kvoff", buffer, entry_start[chosen], ("key_start", "val_start"))
    val_len = np.where(head["is_leaf"][node[chosen]], sizes.val, sizes.child)
    out[:, chosen] = [plain["key_start"], np.full(len(chosen), sizes.key), plain["val_start"], val_len]
    ghost = out[2] == int(grammar.ApfsBtree.Location.invalid)
    out[2:, ghost] = 0
    return Slots(node, *out)


def _anchored(found: Slots, keys: NDArray[np.int64], values_end: NDArray[np.int64]) -> Slots:
    """Turn starts within key and value area into starts in the buffer."""
    return Slots(found.node, keys + found.key_start, found.key_len, values_end - found.val_start, found.val_len)
