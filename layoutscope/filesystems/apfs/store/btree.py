"""APFS B-trees, read level by level in whole arrays.

Apple File System Reference, B-Trees. Input: a root's identifier and, for virtual trees, an object map. Output: the
nodes of each level in key order, and where their records are. A level's blocks are fetched in address order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.store import toc
from layoutscope.filesystems.apfs.store.hashes import hash_size
from layoutscope.filesystems.apfs.store.places import Places, low_keys, object_of
from layoutscope.filesystems.apfs.store.verify import Expected, NodeCheck, check_nodes
from layoutscope.findings import Finding
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import (
    BTREE_INFO,
    CHILD_VAL,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.source import TreeSource
    from layoutscope.image import Workspace

BATCH_NODES: Final = 1024
MAX_LEVELS: Final = 16
INFO_FIELDS: Final = (
    BTREE_INFO.fixed.node_size,
    BTREE_INFO.fixed.key_size,
    BTREE_INFO.fixed.val_size,
    BTREE_INFO.fixed.is_hashed,
    BTREE_INFO.fixed.is_noheader,
    BTREE_INFO.num_keys,
    BTREE_INFO.num_nodes,
    BTREE_INFO.longest_key,
)


@dataclass(frozen=True, slots=True)
class NodeBatch:
    """Nodes that were read together, with their contents.

    Attributes
    ----------
    level : int
        0 at the leaf.
    first : int
        Position of the first of them among all nodes of the tree.
    places : Places
        Where they are.
    head : dict of arrays
        Fields of their heads.
    check : NodeCheck
        How each was verified.
    buffer : (n_bytes,) uint8 array
        Their bytes, one after the other.
    slots : Slots
        Records of the sound ones; ``node`` counts within this batch.
    keys : (n_records,) uint64 array
        Order of each record's key as a number, see :func:`layoutscope.filesystems.apfs.store.places.low_keys`.
    size_bytes : int
        Size of each.
    shape : TreeShape
        What the root says of the tree.
    num_after : int
        How many nodes of its level come after this batch.
    """

    level: int
    first: int
    places: Places
    head: dict[str, NDArray[Any]]
    check: NodeCheck
    buffer: NDArray[np.uint8]
    slots: toc.Slots
    keys: NDArray[np.uint64]
    size_bytes: int
    shape: TreeShape
    num_after: int = 0

    @property
    def to_come(self) -> float:
        """How many times as many nodes come after this batch in its level."""
        return self.num_after / len(self.places)

    @property
    def node(self) -> NDArray[np.int64]:
        """Position among all nodes of the tree of each record's node."""
        return self.slots.node + self.first


@dataclass(frozen=True, slots=True)
class TreeShape:
    """What a root says of its tree: sizes in bytes, level, and the type of hash of its children (0 for none)."""

    sizes: toc.FixedSizes
    node_size: int
    level: int
    hash_type: int
    is_noheader: bool
    num_keys: int
    num_nodes: int
    longest_key: int
    paddr: int


def read_shape(source: TreeSource, root: Places) -> TreeShape:
    """Read the tree information at the end of a root.

    Raises
    ------
    FormatError
        If the block is no root, or contradicts what led to it.
    """
    size = int(root.size_bytes[0])
    if size <= 0 or size % source.blocks.block_size:
        where = source.blocks.at(int(root.paddr[0]))
        raise FormatError(f"impossible size of {size} bytes", structure=f"{source.tree} tree, root", image_offset=where)
    data = _fetch(source, root, size)
    start = np.array([data.size - BTREE_INFO.width], np.int64)
    info = {
        name.removeprefix("fixed."): values
        for name, values in source.decoder.columns(BTREE_INFO, data, start, INFO_FIELDS).items()
    }
    head = toc.heads(source.decoder, data, np.zeros(1, np.int64))
    level, node_size = int(head["level"][0]), int(info["node_size"][0])
    address, device = source.blocks.place(int(root.paddr[0]))
    problem = ""
    if not bool(head["is_root"][0]):
        problem = "node is no root"
    elif level >= MAX_LEVELS:
        problem = f"tree of {level + 1} levels"
    elif node_size != size:
        problem = f"node size {node_size} differs from the object's {size}"
    if problem:
        error = FormatError(problem, structure=f"{source.tree} tree, root", image_offset=address)
        error.device = device
        raise error
    hash_type = source.hash_type if bool(info["is_hashed"][0]) else 0
    child = CHILD_VAL.width + hash_size(hash_type)
    sizes = toc.FixedSizes(int(info["key_size"][0]), int(info["val_size"][0]), child)
    return TreeShape(
        sizes,
        size,
        level,
        hash_type,
        is_noheader=bool(info["is_noheader"][0]),
        num_keys=int(info["num_keys"][0]),
        num_nodes=int(info["num_nodes"][0]),
        longest_key=int(info["longest_key"][0]),
        paddr=int(root.paddr[0]),
    )


def with_root_hash(source: TreeSource, root: Places, shape: TreeShape) -> Places:
    """Give the root the hash that the volume's seal holds of it."""
    if not shape.hash_type or not source.root_hash:
        return root
    return replace(root, child_hash=np.frombuffer(source.root_hash, np.uint8)[None, :])


def _fetch(
    source: TreeSource, places: Places, size_bytes: int, workspace: Workspace | None = None
) -> NDArray[np.uint8]:
    """Read and decrypt nodes into one buffer."""
    data = source.blocks.read(places.paddr, size_bytes, workspace)
    if source.cipher is not None and places.is_encrypted.any():
        data = source.cipher.decrypt_objects(data, places.paddr, places.is_encrypted)
    return data.reshape(-1)


def read_batch(
    source: TreeSource,
    places: Places,
    first: int,
    level: int,
    shape: TreeShape,
    findings: list[Finding],
    workspace: Workspace | None = None,
) -> NodeBatch:
    """Read, verify and take apart nodes of one level; `first` is the position of the first of them."""
    size_bytes = shape.node_size
    buffer = _fetch(source, places, size_bytes, workspace)
    starts = np.arange(len(places), dtype=np.int64) * size_bytes
    head = toc.heads(source.decoder, buffer, starts)
    expected = Expected(
        source.tree, level, source.subtype, source.max_xid, shape.hash_type, shape.is_noheader, _storage(source)
    )
    check = check_nodes(expected, source.blocks, places, head, buffer.reshape(-1, size_bytes), findings)
    usable = {"num_keys": np.where(check.is_sound, head["num_keys"], 0)}
    slots, torn = toc.slots(source.decoder, buffer, starts, head | usable, size_bytes, shape.sizes)
    findings.extend(_torn_node(source, places, number) for number in np.flatnonzero(torn & check.is_sound).tolist())
    check = replace(check, is_sound=check.is_sound & ~torn)
    keys = low_keys(source, buffer, slots.key_start)
    return NodeBatch(level, first, places, head, check, buffer, slots, keys, size_bytes, shape)


def _storage(source: TreeSource) -> int:
    """Return how the nodes of a tree must be stored."""
    kinds = grammar.ApfsObject.Storage
    if source.view is not None:
        return int(kinds.virtual)
    return int(kinds.physical if source.ephemerals is None else kinds.ephemeral)


def _torn_node(source: TreeSource, places: Places, number: int) -> Finding:
    where, device = source.blocks.place(int(places.paddr[number]))
    message = "a record's table entry, key or value leaves the node; its records were left out"
    name = f"{source.tree} tree, node {places.node_id[number]}"
    return Finding("node-invalid", "error", name, where, message, device=device)


def children_of(
    source: TreeSource, batch: NodeBatch
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint8]]:
    """Decode the records of a batch of index nodes: the node's position in it, the child, its low key and its hash."""
    sizes = batch.shape.sizes
    rows = np.flatnonzero(batch.slots.val_len >= sizes.child)
    slots, low = batch.slots.take(rows), batch.keys[rows]
    oids = source.decoder.column(CHILD_VAL, batch.buffer, slots.val_start, CHILD_VAL.oid)
    hashes = _child_hashes(batch.buffer, slots.val_start, sizes.child - CHILD_VAL.width)
    if batch.shape.hash_type:
        # Sealed volumes: children are counted from the root's identifier.
        oids = oids + np.uint64(source.root_oid)
    return slots.node, oids, low, hashes


def _child_hashes(buffer: NDArray[np.uint8], val_start: NDArray[np.int64], hash_size: int) -> NDArray[np.uint8]:
    if not hash_size:
        return np.empty((len(val_start), 0), np.uint8)
    first = val_start[:, None] + CHILD_VAL.width
    hashes: NDArray[np.uint8] = buffer[first + np.arange(hash_size)]
    return hashes


def batch_columns(source: TreeSource, batch: NodeBatch) -> dict[str, NDArray[Any]]:
    """Turn one batch into columns; ``key_rank`` follows in :func:`join`."""
    places, head, count = batch.places, batch.head, len(batch.places)
    bounds = np.searchsorted(batch.slots.node, np.arange(count + 1))
    first_key, last_key = _end_keys(source, batch, bounds)
    lengths = np.append(0, np.cumsum(batch.slots.key_len + batch.slots.val_len, dtype=np.int64))
    has_header = head["hdr.xid"] != 0
    return {
        "node_id": places.node_id,
        "xid": np.where(has_header, head["hdr.xid"], places.xid),
        "paddr": places.paddr,
        "size_bytes": np.full(count, batch.size_bytes, np.int64),
        "level": np.full(count, batch.level, np.uint8),
        "num_records": np.where(batch.check.is_sound, head["num_keys"], 0).astype(np.uint32),
        "used_bytes": np.diff(lengths[bounds]).astype(np.uint32),
        "free_bytes": _free_bytes(head).astype(np.uint32),
        "parent": places.parent,
        "omap_leaf": places.omap_leaf,
        "low_key": places.low_key,
        "first_key_id": first_key,
        "last_key_id": last_key,
        "valid": batch.check.valid,
    }


def _free_bytes(head: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    names = ("free_space.len", "key_free_list.len", "val_free_list.len")
    total = sum(head[name].astype(np.int64) for name in names)
    return np.asarray(total, np.int64)


def _end_keys(
    source: TreeSource, batch: NodeBatch, bounds: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Leading number of the first and the last key of each node, 0 in empty ones; `bounds` are of its records."""
    first, stop = bounds[:-1], bounds[1:]
    filled = np.flatnonzero(stop > first)
    out = np.zeros((2, len(first)), np.uint64)
    out[0, filled], out[1, filled] = batch.keys[first[filled]], batch.keys[stop[filled] - 1]
    if source.key_field == "obj_id":
        out = object_of(out)
    return out[0], out[1]
