"""APFS B-trees, read level by level in whole arrays.

Apple File System Reference, B-Trees. Input: a root's identifier and, for virtual trees, an object map. Output: the
nodes of each level in key order, and where their records are. A level's blocks are fetched in address order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.store import toc
from layoutscope.filesystems.apfs.store.nodes import DAMAGED, SOUND, UNKNOWN_LEVEL, UNREAD, NodeRows, rows_of
from layoutscope.filesystems.apfs.store.source import Places, locate_nodes, low_keys, object_of
from layoutscope.filesystems.apfs.store.sweep import LARGEST_NODE
from layoutscope.filesystems.apfs.store.verify import Expected, NodeCheck, check_nodes, hash_size
from layoutscope.frozen import frozen
from layoutscope.ondisk.records import BTREE_INFO, CHILD_VAL, J_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.source import TreeSource
    from layoutscope.findings import FindingLog
    from layoutscope.image import Workspace
    from layoutscope.recordtypes import RecordColumn, RecordType

BATCH_NODES: Final = 1024
MAX_LEVELS: Final = 16
TORN: Final = "a record's table entry, key or value leaves the node; its records were left out"
STRAY: Final = "the record's key or value leaves the node; it was left out"
INFO_FIELDS: Final = (
    BTREE_INFO.fixed.len_node,
    BTREE_INFO.fixed.len_key,
    BTREE_INFO.fixed.len_val,
    BTREE_INFO.fixed.is_hashed,
    BTREE_INFO.fixed.is_noheader,
    BTREE_INFO.num_keys,
    BTREE_INFO.num_nodes,
    BTREE_INFO.longest_key,
)


@frozen
class ReadNodes:
    """Nodes that were read together, with their contents."""

    tree: OpenTree  # of which they are
    level: int  # 0 at the leaf
    first: int  # position of the first of them among all nodes of the tree
    places: Places  # where they are
    head: dict[str, NDArray[Any]]  # fields of their heads
    check: NodeCheck  # how each was verified
    buffer: NDArray[np.uint8]  # their bytes, one after the other
    slots: toc.Slots  # records of the sound ones; `node` counts within this batch
    keys: NDArray[np.uint64]  # order of each record's key as a number, see `low_keys`
    num_after: int = 0  # how many nodes of its level come after this batch

    @property
    def size_bytes(self) -> int:
        """Size of each node."""
        return self.tree.shape.sizes.node

    @property
    def to_come(self) -> float:
        """How many times as many nodes come after this batch in its level."""
        return self.num_after / len(self.places)

    @property
    def node(self) -> NDArray[np.int64]:
        """Position among all nodes of the tree of each record's node."""
        return self.slots.node + self.first

    def columns(
        self, part: Literal["key", "val"], record_type: RecordType, fields: Sequence[RecordColumn]
    ) -> dict[str, NDArray[Any]]:
        """Decode fields of the keys or values of all records, which are of one type."""
        starts = self.slots.key_start if part == "key" else self.slots.val_start
        return self.tree.source.decoder.columns(record_type, self.buffer, starts, fields)

    def column(self, part: Literal["key", "val"], record_type: RecordType, field: RecordColumn) -> NDArray[Any]:
        """Decode one field of the keys or values of all records."""
        return self.columns(part, record_type, (field,))[field]

    def at(
        self, node: int, position: int | None = None, *, name: str = "", log: FindingLog | None = None
    ) -> FindingLog:
        """Bind a log to a node, or to a byte of it."""
        source, node_id = self.tree.source, self.places.node_id[node]
        plus = 0 if position is None else position - node * self.size_bytes
        structure = f"{source.tree} tree, {name or f'node {node_id}'}"
        return (log or source.store.log).at(structure, int(self.places.paddr[node]), plus=plus)


@frozen
class TreeShape:
    """What a root says of its tree: sizes in bytes, level, whether its children are hashed, and how (0: unknown)."""

    sizes: toc.Sizes
    level: int
    is_hashed: bool
    hash_type: int
    is_noheader: bool
    num_keys: int
    num_nodes: int
    longest_key: int
    paddr: int


@frozen
class OpenTree:
    """A tree whose root was read: how to read it, and what the root says of it."""

    source: TreeSource
    shape: TreeShape


def read_root(source: TreeSource) -> tuple[OpenTree, Places] | None:
    """Find and read the root of a tree; None, and a finding, if it cannot be used."""
    root = locate_nodes(source, np.array([source.root_oid], np.uint64))
    if not len(root):
        return None
    try:
        shape = None if root.is_unread[0] else read_shape(source, root)
    except FormatError as error:
        source.store.log.survive(error, code="tree-unreadable")
        shape = None
    if shape is None:
        source.store.lost.append(_lost_root(source, root))
        return None
    if shape.hash_type and source.root_hash:
        root = replace(root, child_hash=np.frombuffer(source.root_hash, np.uint8)[None, :])
    return OpenTree(source, shape), root


def _lost_root(source: TreeSource, root: Places) -> NodeRows:
    """Make a row of a root that cannot be used: what led to it tells its address, its size and its transaction."""
    size, block = int(root.size_bytes[0]), source.blocks.block_size
    is_possible = size > 0 and size % block == 0 and size <= LARGEST_NODE
    known = {
        "node_id": root.node_id,
        "xid": root.xid,
        "paddr": root.paddr,
        "size_bytes": np.array([size if is_possible else block]),
        "level": np.array([UNKNOWN_LEVEL]),
        "omap_leaf": root.omap_leaf,
        "condition": np.where(root.is_unread, UNREAD, DAMAGED),
    }
    return rows_of(source.tree, known)


def read_shape(source: TreeSource, root: Places) -> TreeShape:
    """Read the tree information at the end of a root."""
    size = int(root.size_bytes[0])
    if size <= 0 or size % source.blocks.block_size:
        where = source.blocks.at(int(root.paddr[0]))
        raise FormatError(
            f"impossible size of {size} bytes",
            structure=f"{source.tree} tree, node {source.root_oid}",
            image_offset=where,
        )
    data = _fetch(source, root, size)
    # The tree information stands at the very end of the root, behind the values.
    start = np.array([data.size - BTREE_INFO.width], np.int64)
    info = {
        name.removeprefix("fixed."): values
        for name, values in source.decoder.columns(BTREE_INFO, data, start, INFO_FIELDS).items()
    }
    head = toc.node_heads(source.decoder, data, np.zeros(1, np.int64))
    level, node_size = int(head["level"][0]), int(info["len_node"][0])
    address = source.blocks.at(int(root.paddr[0]))
    problem = ""
    if not bool(head["is_root"][0]):
        problem = "node is no root"
    elif level >= MAX_LEVELS:
        problem = f"tree of {level + 1} levels"
    elif node_size != size:
        problem = f"node size {node_size} differs from the object's {size}"
    if problem:
        with source.blocks.concerning(int(root.paddr[0])):
            raise FormatError(problem, structure=f"{source.tree} tree, node {source.root_oid}", image_offset=address)
    # The root alone says what its tree is like: it can be read without the seal, unverified.
    is_hashed = bool(info["is_hashed"][0])
    hash_type = source.hash_type if is_hashed else 0
    child = CHILD_VAL.width + hash_size(hash_type)
    sizes = toc.Sizes(size, int(info["len_key"][0]), int(info["len_val"][0]), child)
    return TreeShape(
        sizes,
        level,
        is_hashed,
        hash_type,
        is_noheader=bool(info["is_noheader"][0]),
        num_keys=int(info["num_keys"][0]),
        num_nodes=int(info["num_nodes"][0]),
        longest_key=int(info["longest_key"][0]),
        paddr=int(root.paddr[0]),
    )


def _fetch(
    source: TreeSource, places: Places, size_bytes: int, workspace: Workspace | None = None
) -> NDArray[np.uint8]:
    """Read and decrypt nodes into one buffer; of nodes that cannot be read it has zeros."""
    if places.is_unread.any():
        whole = np.zeros((len(places), size_bytes), np.uint8)
        there = np.flatnonzero(~places.is_unread)
        whole[there] = _fetch(source, places.take(there), size_bytes).reshape(-1, size_bytes)
        return whole.reshape(-1)
    data = source.blocks.read(places.paddr, size_bytes, workspace)
    if source.cipher is not None and places.is_encrypted.any():
        data = source.cipher.decrypt_objects(data, places.paddr, places.is_encrypted)
    return data.reshape(-1)


def read_batch(tree: OpenTree, places: Places, level: int, first: int, workspace: Workspace | None = None) -> ReadNodes:
    """Read, verify and take apart nodes of one level."""
    source, shape = tree.source, tree.shape
    buffer = _fetch(source, places, shape.sizes.node, workspace)
    starts = np.arange(len(places), dtype=np.int64) * shape.sizes.node
    head = toc.node_heads(source.decoder, buffer, starts)
    expected = Expected(level, shape.hash_type, shape.is_noheader)
    check = check_nodes(source, expected, places, head, buffer.reshape(-1, shape.sizes.node))
    usable = {"num_keys": np.where(check.is_sound, head["num_keys"], 0)}
    found = toc.slots(source.decoder, buffer, starts, head | usable, shape.sizes)
    check = _with_torn(source, places, check, found)
    keys = low_keys(source, buffer, found.slots.key_start)
    return ReadNodes(tree, level, first, places, head, check, buffer, found.slots, keys)


def _with_torn(source: TreeSource, places: Places, check: NodeCheck, found: toc.Located) -> NodeCheck:
    """Say which nodes and records lie outside of themselves; such a node does not count as read."""
    torn = found.torn & check.is_sound
    for number in np.flatnonzero(torn).tolist():
        log = source.at_node(int(places.node_id[number]), int(places.paddr[number]))
        log.add("node-invalid", "error", TORN)
    node = found.strays.node
    if not len(node) and not torn.any():
        return check
    size = int(places.size_bytes[0])
    for at, number, start in zip(*(column.tolist() for column in found.strays), strict=True):
        name = f"{source.tree} tree, record {number} of node {places.node_id[at]}"
        log = source.store.log.at(name, int(places.paddr[at]), plus=start - at * size)
        log.add("record-invalid", "error", STRAY)
    valid = np.where(torn, 0, check.valid).astype(np.uint8)
    valid[node] = 0
    damaged = check.is_damaged | torn
    damaged[node] = True
    return replace(check, valid=valid, is_sound=check.is_sound & ~torn, is_damaged=damaged)


def children_of(
    batch: ReadNodes,
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint8]]:
    """Decode the records of a batch of index nodes: the node's position in it, the child, its low key and its hash."""
    source, shape = batch.tree.source, batch.tree.shape
    sizes = shape.sizes
    rows = np.flatnonzero(batch.slots.val_len >= sizes.child)
    slots, low = batch.slots.take(rows), batch.keys[rows]
    oids = source.decoder.columns(CHILD_VAL, batch.buffer, slots.val_start, (CHILD_VAL.oid,))["oid"]
    hashes = _child_hashes(batch.buffer, slots.val_start, sizes.child - CHILD_VAL.width)
    if shape.is_hashed:
        # Sealed volumes: children are counted from the root's identifier.
        oids = oids + np.uint64(source.root_oid)
    return slots.node, oids, low, hashes


def _child_hashes(buffer: NDArray[np.uint8], val_start: NDArray[np.int64], hash_size: int) -> NDArray[np.uint8]:
    if not hash_size:
        return np.empty((len(val_start), 0), np.uint8)
    first = val_start[:, None] + CHILD_VAL.width
    hashes: NDArray[np.uint8] = buffer[first + np.arange(hash_size)]
    return hashes


def as_rows(batch: ReadNodes) -> NodeRows:
    """Turn nodes as they were read into rows; ``key_rank`` follows when the batches of a tree are joined."""
    places, head, count = batch.places, batch.head, len(batch.places)
    bounds = np.searchsorted(batch.slots.node, np.arange(count + 1))
    first_key, last_key = _end_keys(batch, bounds)
    lengths = np.append(0, np.cumsum(batch.slots.key_len + batch.slots.val_len, dtype=np.int64))
    # Nodes of sealed volumes have no header; the object map alone knows their transaction.
    has_header = (head["hdr.xid"] != 0) & batch.check.is_sound
    known = {
        "node_id": places.node_id,
        "xid": np.where(has_header, head["hdr.xid"], places.xid),
        "paddr": places.paddr,
        "size_bytes": np.full(count, batch.size_bytes, np.int64),
        "level": np.full(count, batch.level, np.uint8),
        "num_records": np.where(batch.check.is_sound, head["num_keys"], 0),
        "used_bytes": np.diff(lengths[bounds]),
        "free_bytes": _free_bytes(head),
        "parent": places.parent,
        "omap_leaf": places.omap_leaf,
        "low_key": places.low_key,
        "first_key_id": first_key,
        "last_key_id": last_key,
        "valid": batch.check.valid,
        "condition": np.where(places.is_unread, UNREAD, np.where(batch.check.is_damaged, DAMAGED, SOUND)),
    }
    return rows_of(batch.tree.source.tree, known)


def _free_bytes(head: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    names = ("free_space.len_data", "key_free_list.len_data", "val_free_list.len_data")
    total = sum(head[name].astype(np.int64) for name in names)
    return np.asarray(total, np.int64)


def _end_keys(batch: ReadNodes, bounds: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Leading number of the first and the last key of each node, 0 in empty ones; `bounds` are of its records."""
    first, stop = bounds[:-1], bounds[1:]
    filled = np.flatnonzero(stop > first)
    out = np.zeros((2, len(first)), np.uint64)
    out[0, filled], out[1, filled] = batch.keys[first[filled]], batch.keys[stop[filled] - 1]
    if batch.tree.source.kind.key_type is J_KEY:
        out = object_of(out)
    return out[0], out[1]
