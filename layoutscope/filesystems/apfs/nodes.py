"""Nodes of one tree as rows, collected from the batches of a traversal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.structs import grammar, records
from layoutscope.structs.arrays import Rows, match, ranks_of
from layoutscope.structs.bulk import decode_columns
from layoutscope.structs.native import Kernel
from layoutscope.structs.records import BTREE_INFO, BTREE_NODE, KVOFF
from layoutscope.tables.schema import CONDITIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.structs.recordtypes import RecordType


SOUND, DAMAGED, UNREAD, LOCKED = range(len(CONDITIONS))

UNKNOWN_LEVEL: Final = 255
"""Level of nodes with unknown contents; null in the tables."""

_TYPES = grammar.ApfsObject.ObjectType
KINDS: Final[dict[str, tuple[RecordType, RecordType | None, _TYPES]]] = {
    "container-omap": (records.OMAP_KEY, records.OMAP_VAL, _TYPES.omap),
    "omap": (records.OMAP_KEY, records.OMAP_VAL, _TYPES.omap),
    "omap-snapshots": (records.OMAP_SNAPSHOT_KEY, records.OMAP_SNAPSHOT, _TYPES.omap_snapshot),
    "fs": (records.J_KEY, None, _TYPES.fstree),
    "extentref": (records.J_KEY, None, _TYPES.blockreftree),
    "snapmeta": (records.J_KEY, None, _TYPES.snapmetatree),
    "fext": (records.FEXT_KEY, records.FEXT_VAL, _TYPES.fext_tree),
    "spaceman": (records.FREE_QUEUE_KEY, records.FREE_QUEUE_VAL, _TYPES.spaceman_free_queue),
    "fusion-middle": (records.FUSION_MT_KEY, records.FUSION_MT_VAL, _TYPES.fusion_middle_tree),
    # The reference has no object type for the contents of checkpoint-area and evict-mapping trees: 0 is not compared.
    "checkpoint-area": (records.OMAP_SNAPSHOT_KEY, records.PRANGE, _TYPES.invalid),
    "gbitmap": (records.GBITMAP_KEY, records.GBITMAP_VAL, _TYPES.gbitmap_tree),
    "evict-mapping": (records.EVICT_MAPPING_KEY, records.EVICT_MAPPING_VAL, _TYPES.invalid),
}
"""Types of the fixed parts of keys and values and of the nodes' contents, by the names of trees in the tables; trees of
file-system records have a type of value for each type of record."""

TYPE_BITS: Final = 4
"""Number of bits for the record type in the sort number of a key."""


def order_key(obj_id: NDArray[np.uint64], record_type: NDArray[np.uint64] | int) -> NDArray[np.uint64]:
    """Combine object and record type into one number that sorts like the tree."""
    return (obj_id << np.uint64(TYPE_BITS)) | np.asarray(record_type, np.uint64)


def object_of(order_keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the object in keys of :func:`order_key`."""
    return order_keys >> np.uint64(TYPE_BITS)


def type_of(order_keys: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return the record type in keys of :func:`order_key`."""
    return (order_keys & np.uint64(15)).astype(np.uint8)


class NodeRows(Rows, frozen=True):
    """Nodes of one tree, root first, then level by level in key order; one row per node.

    Before a node is read, its columns come from its index entry and from the object map.
    """

    tree: str  # name in the tables
    # node_id, xid, paddr: identifier, transaction and first block
    node_id: NDArray[np.uint64]
    xid: NDArray[np.uint64]
    paddr: NDArray[np.uint64]
    size_bytes: NDArray[np.int64]  # size of each node
    level: NDArray[np.uint8]  # 0 for leaves
    # num_records, used_bytes, free_bytes: fill
    num_records: NDArray[np.uint32]
    used_bytes: NDArray[np.uint32]
    free_bytes: NDArray[np.uint32]
    parent: NDArray[np.int64]  # position of the parent in these arrays, -1 at the root
    # position of the object-map leaf that gives the address, among the nodes of the map's tree; -1 if physical
    omap_leaf: NDArray[np.int64]
    key_rank: NDArray[np.uint32]  # position in key order within the level
    low_key: NDArray[np.uint64]  # lower bound of its keys, from the parent (see `order_key`)
    # first_key, last_key: sort numbers of the first and the last key, see `low_keys`; 0 in empty nodes
    first_key: NDArray[np.uint64]
    last_key: NDArray[np.uint64]
    longest_key: NDArray[np.int32]  # in bytes
    valid: NDArray[np.uint8]  # position in `VALID_NAMES`
    # position in `CONDITIONS`; unread nodes have a known address, but no image contains their bytes
    condition: NDArray[np.uint8]
    is_encrypted: NDArray[np.bool_]  # whether the object map says so
    # hash of each node in its parent, shape (n, size); without size if there is none, or after it was verified
    child_hash: NDArray[np.uint8]

    @property
    def leaves(self) -> NDArray[np.int64]:
        """Positions of the leaves, in key order."""
        return np.flatnonzero(self.level == 0)

    @property
    def first_key_id(self) -> NDArray[np.uint64]:
        """Leading number of the first key of each node: an object in trees of file-system records."""
        return self._leading(self.first_key)

    @property
    def last_key_id(self) -> NDArray[np.uint64]:
        """Leading number of the last key of each node."""
        return self._leading(self.last_key)

    def _leading(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        # Nodes that a sweep found may be of an unknown tree.
        return object_of(keys) if self.tree in KINDS and KINDS[self.tree][0] is records.J_KEY else keys


_COLUMNS = NodeRows.__struct_fields__[1:]
_DTYPES = {
    "size_bytes": np.int64,
    "level": np.uint8,
    "num_records": np.uint32,
    "used_bytes": np.uint32,
    "free_bytes": np.uint32,
    "parent": np.int64,
    "omap_leaf": np.int64,
    "key_rank": np.uint32,
    "longest_key": np.int32,
    "valid": np.uint8,
    "condition": np.uint8,
    "is_encrypted": np.bool_,
    "child_hash": np.uint8,
}
_POSITIONS = ("parent", "omap_leaf")


def rows_of(tree: str, known: Mapping[str, NDArray[Any]] | None = None) -> NodeRows:
    """Make rows from known columns of nodes; other positions are -1, other numbers 0."""
    known = known or {}
    count = len(next(iter(known.values()), ()))
    known = {"child_hash": np.empty((count, 0), np.uint8), **known}
    columns: dict[str, NDArray[Any]] = {
        name: np.full(count, -1 if name in _POSITIONS else 0, _DTYPES.get(name, np.uint64))
        if name not in known
        else known[name].astype(_DTYPES.get(name, np.uint64), copy=False)
        for name in _COLUMNS
    }
    return NodeRows(tree, **columns)


def join(tree: str, parts: Sequence[NodeRows]) -> NodeRows:
    """Join the batches of a tree, and rank the nodes within each level."""
    if not parts:
        return rows_of(tree)
    nodes = NodeRows.join(parts)
    return replace(nodes, tree=tree, key_rank=ranks_of(nodes.level))


def find_unusable(nodes: NodeRows) -> list[NodeRows]:
    """Return the nodes of a tree without usable records, detached from the tree; an empty list if there are none."""
    wrong = np.flatnonzero((nodes.condition != SOUND) & (nodes.num_records == 0))
    return [replace(nodes.take(wrong), parent=np.full(len(wrong), -1, np.int64))] if len(wrong) else []


def take_nodes(nodes: NodeRows, chosen: NDArray[np.int64]) -> NodeRows:
    """Return some nodes of a tree; a parent that is not among them becomes unknown."""
    taken = nodes.take(chosen)
    position, is_taken = match(chosen, taken.parent)
    return replace(taken, parent=np.where(is_taken, position, -1))


HEAD_FIELDS: Final = tuple(
    BTREE_NODE.column(name)
    for name in (
        *("hdr.cksum", "hdr.oid", "hdr.xid", "hdr.type", "hdr.subtype", "hdr.storage"),
        *("level", "num_keys", "is_root", "is_leaf", "is_fixed"),
        *("table_space.ofs_data", "table_space.len_data", "free_space.ofs_data", "free_space.len_data"),
        *("key_free_list.len_data", "val_free_list.len_data"),
    )
)

LOCATE_SLOTS: Final = Kernel("locate_slots", "bnnnnnblllLLILIBLLLL")

MAX_LENGTH: Final = 2**30
"""Larger sizes are capped at this one, which no node reaches, so the sum of two fits in 32 bits."""


class Slots(Rows, frozen=True):
    """Records of many nodes, in key order; one row per record."""

    node: NDArray[np.int64]  # position of the node among those given
    # key_start, val_start: in bytes from the beginning of the buffer
    key_start: NDArray[np.int64]
    # key_len, val_len: in bytes. A ghost has a value of length 0.
    key_len: NDArray[np.int32]
    val_start: NDArray[np.int64]
    val_len: NDArray[np.int32]


_NOWHERE, _NO_LENGTHS = np.empty(0, np.int64), np.empty(0, np.int32)
NO_SLOTS: Final = Slots(_NOWHERE, _NOWHERE, _NO_LENGTHS, _NOWHERE, _NO_LENGTHS)


def node_heads(buffer: NDArray[np.uint8], starts: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Decode the headers of many nodes."""
    return decode_columns(BTREE_NODE, buffer, starts, HEAD_FIELDS)


def slots(
    buffer: NDArray[np.uint8],
    head: dict[str, NDArray[Any]],
    node_bytes: int,
    # sizes of keys, of values in leaves, and of values in index nodes, if the nodes do not specify them
    entry_bytes: tuple[int, int, int] = (0, 0, 8),
) -> tuple[Slots, NDArray[np.bool_], tuple[NDArray[np.int64], ...]]:
    """Locate the usable records of consecutive nodes through their tables of contents.

    Return also which nodes are unusable: the table exceeds the node, or so do records of an index node or most records
    of a leaf; and the single unusable records of leaves whose other records are usable: node, number in the node, and
    position of the table entry in the buffer.
    """
    flags = head["is_root"] + head["is_leaf"] * np.uint8(2) + head["is_fixed"] * np.uint8(4)
    counts = np.minimum(head["num_keys"], MAX_LENGTH).astype(np.int64)
    room = int(np.minimum(counts, node_bytes // KVOFF.width).sum())
    node, key_start, val_start = (np.empty(room, np.int64) for _ in range(3))
    key_len, val_len = (np.empty(room, np.int32) for _ in range(2))
    strays = [np.empty(room, np.int64) for _ in range(3)]
    torn, num_strays = np.empty(len(flags), np.bool_), np.empty(1, np.int64)
    found = LOCATE_SLOTS(
        buffer, node_bytes, BTREE_INFO.width, *(min(size, MAX_LENGTH) for size in entry_bytes),
        flags, counts, BTREE_NODE.width + head["table_space.ofs_data"].astype(np.int64),
        head["table_space.len_data"].astype(np.int64), node, key_start, key_len, val_start, val_len,
        torn.view(np.uint8), *strays, num_strays,
    )  # fmt: skip
    located = Slots(node[:found], key_start[:found], key_len[:found], val_start[:found], val_len[:found])
    return located, torn, tuple(column[: num_strays[0]] for column in strays)
