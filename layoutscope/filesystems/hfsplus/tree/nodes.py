"""Nodes of B-trees, as they are read and as rows, and where their records lie.

TN1150, "B-Trees", Node Structure and Keyed Records. Input: whole nodes, many at once. Output: where each record's key
and data lie. What contradicts the format is left out and named.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.ragged import heads, lengths_of, ordinals, owners
from layoutscope.frozen import frozen
from layoutscope.native import Kernel
from layoutscope.ondisk import grammar
from layoutscope.ondisk.decoder import Bulk
from layoutscope.ondisk.leafplan import LeafBatch
from layoutscope.ondisk.records import KEY_HEADER, NODE_DESCRIPTOR, POINTER_RECORD, RECORD_OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.arrays.columns import I64, U8, Mask
    from layoutscope.ondisk.decoder import Decoder

DESCRIPTOR: Final = NODE_DESCRIPTOR
DESCRIPTOR_BYTES: Final = DESCRIPTOR.width
OFFSET_BYTES: Final = RECORD_OFFSET.width
LENGTH_BYTES: Final = KEY_HEADER.width
POINTER_BYTES: Final = POINTER_RECORD.width

LEAF: Final = int(grammar.HfsplusBtree.NodeKind.leaf)
INDEX: Final = int(grammar.HfsplusBtree.NodeKind.index)
HEADER: Final = int(grammar.HfsplusBtree.NodeKind.header)
MAP: Final = int(grammar.HfsplusBtree.NodeKind.map)


@frozen
class ReadNodes:
    """Some nodes of one tree as they were read: their bytes, and their descriptors."""

    buffer: U8  # whole nodes, one after the other
    node_size_bytes: int
    number: I64  # node numbers
    # f_link, b_link, kind, height, num_records: fields of the descriptors
    f_link: I64
    b_link: I64
    kind: I64
    height: I64
    num_records: I64
    to_come: float = 0.0  # how many times as many nodes of the tree are likely to follow

    @property
    def start(self) -> I64:
        """Where each node starts in the buffer."""
        return np.arange(len(self.number), dtype=np.int64) * self.node_size_bytes


UNKNOWN_KIND: Final = 99
"""Kind of a node that was not decoded."""


@frozen
class NodeRows:
    """All nodes of a tree as rows, by node number; -1 (kind: ``UNKNOWN_KIND``) where a node was not decoded."""

    # f_link, b_link, kind, height, num_records, free_offset, first_key_id, last_key_id: from the nodes
    f_link: I64
    b_link: I64
    kind: I64
    height: I64
    num_records: I64
    free_offset: I64
    first_key_id: I64
    last_key_id: I64
    damaged: Mask  # nodes with records that were left out
    is_inferred: Mask  # nodes that belong to the tree by their keys or links alone, or because its header was made up
    parent: I64  # node number of the parent; -1 at the root and at what was not reached
    key_rank: I64  # place among the nodes of the same level; -1 where the node was not reached

    @classmethod
    def blank(cls, num_nodes: int) -> NodeRows:
        """Make rows of nodes of which none was decoded."""
        columns: dict[str, Any] = {each.name: np.full(num_nodes, -1, np.int64) for each in fields(cls)}
        columns["kind"][:] = UNKNOWN_KIND
        columns |= {name: np.zeros(num_nodes, np.bool_) for name in ("damaged", "is_inferred")}
        return cls(**columns)

    def put(self, records: RecordBatch, id_of: Callable[[I64], I64]) -> None:
        """Write the rows of nodes that were read; `id_of` tells of places of keys what these start with."""
        nodes = records.nodes
        for name in ("f_link", "b_link", "kind", "height", "num_records"):
            getattr(self, name)[nodes.number] = getattr(nodes, name)
        self.free_offset[nodes.number] = records.free_offset
        self.damaged[nodes.number] = records.damaged
        first = heads(records.node)
        last = first + lengths_of(first, len(records.node)) - 1
        keyed = nodes.number[records.node[first]]
        self.first_key_id[keyed], self.last_key_id[keyed] = id_of(records.key[first]), id_of(records.key[last])


@frozen
class RecordBatch:
    """Records of leaf or index nodes, in node order."""

    nodes: ReadNodes  # the nodes they lie in
    node: I64  # place of each record's node in the batch
    slot: I64  # number of the record in its node
    # key, data, stop: where the key, what follows it and the end of the record lie, in bytes from the start of the
    # buffer
    key: I64
    data: I64
    stop: I64
    free_offset: I64  # start of the free space, in bytes from the start of each node; -1 where it cannot be told
    damaged: Mask  # nodes with records that were left out

    def of(self, chosen: Mask) -> tuple[I64, I64, I64, I64]:
        """Node numbers, keys, data and stops of the chosen records."""
        return self.nodes.number[self.node[chosen]], self.key[chosen], self.data[chosen], self.stop[chosen]

    def in_leaves(self, leaf: Mask) -> LeafBatch:
        """Return the records that stand in leaves, in the form that tables are made from."""
        places = (self.node, self.key, self.data, self.stop)
        node, key, data, stop = places if leaf.all() else (values[leaf] for values in places)
        nodes = self.nodes
        return LeafBatch(nodes.buffer, nodes.node_size_bytes, nodes.number, node, key, data - key, data, stop - data)


@frozen
class Bounds:
    """Offset tables of some nodes."""

    # keyed, is_overfull: leaf and index nodes; those that claim more records than they have room for
    keyed: Mask
    # counts, limit: records that are looked at, and where the offset table starts, in bytes from the start of the node
    counts: I64
    limit: I64
    is_overfull: Mask
    # node, slot: place of each record's node in the batch, and its number in the node
    node: I64
    slot: I64
    # first, stop: where each record starts and ends, in bytes from the start of its node, sound or not
    first: I64
    stop: I64
    is_sound: Mask  # records that can lie there


def decode_nodes(decoder: Decoder, buffer: U8, node_size_bytes: int, numbers: I64, to_come: float = 0.0) -> ReadNodes:
    """Decode the descriptors of whole nodes."""
    starts = np.arange(len(numbers), dtype=np.int64) * node_size_bytes
    names = (
        DESCRIPTOR.f_link,
        DESCRIPTOR.b_link,
        DESCRIPTOR.kind,
        DESCRIPTOR.height,
        DESCRIPTOR.num_records,
    )
    found = decoder.columns(DESCRIPTOR, buffer, starts, names)
    f_link, b_link, kind, height, num_records = (found[name].astype(np.int64) for name in names)
    return ReadNodes(buffer, node_size_bytes, numbers, f_link, b_link, kind, height, num_records, to_come)


LOCATE_RECORDS: Final = Kernel("locate_records", "bnnnnnblLLLLLLB")


def locate_records(
    decoder: Decoder,
    nodes: ReadNodes,
    fixed_index_key_bytes: int | None,
    # room that a key must have, its length field and padding included; records with less are left out
    least_key_bytes: int = 0,
) -> RecordBatch:
    """Locate every record of every leaf and index node."""
    found = _natively(nodes, fixed_index_key_bytes, least_key_bytes) if isinstance(decoder, Bulk) else None
    return found or plain_locate(decoder, nodes, fixed_index_key_bytes, least_key_bytes)


def _natively(nodes: ReadNodes, fixed_index_key_bytes: int | None, least_key_bytes: int) -> RecordBatch | None:
    """Locate records by the kernel; None if it does not run."""
    size, count = nodes.node_size_bytes, len(nodes.number)
    kinds = (nodes.kind == LEAF) * np.uint8(1) + (nodes.kind == INDEX) * np.uint8(2)
    room = int(np.clip(nodes.num_records, 0, size // OFFSET_BYTES)[kinds > 0].sum())
    node, slot, key, data, stop = (np.empty(room, np.int64) for _ in range(5))
    free, damaged = np.empty(count, np.int64), np.empty(count, np.bool_)
    fixed = -1 if fixed_index_key_bytes is None else fixed_index_key_bytes
    numbers = (size, DESCRIPTOR_BYTES, POINTER_BYTES, fixed, least_key_bytes)
    places = (node, slot, key, data, stop)
    found = LOCATE_RECORDS(nodes.buffer, *numbers, kinds, nodes.num_records, *places, free, damaged.view(np.uint8))
    if found is None:
        return None
    node, slot, key, data, stop = (values[:found] for values in places)
    return RecordBatch(nodes, node, slot, key, data, stop, free, damaged)


def plain_locate(
    decoder: Decoder, nodes: ReadNodes, fixed_index_key_bytes: int | None, least_key_bytes: int = 0
) -> RecordBatch:
    """Locate records in numpy, through a decoder."""
    found = record_bounds(decoder, nodes)
    node, keyed, damaged = found.node, found.keyed, found.is_overfull.copy()
    stop: I64 = nodes.start[node] + found.stop
    key, data = _keys(decoder, nodes, found, fixed_index_key_bytes)
    is_sound = found.is_sound & (data + np.where(nodes.kind == INDEX, POINTER_BYTES, 0)[node] <= stop)
    is_sound &= data - key >= least_key_bytes
    free = _free_offset(decoder, nodes, found.counts, keyed, found.limit)
    damaged[node[~is_sound]] = True
    node, slot, key, data, stop = (values[is_sound] for values in (node, found.slot, key, data, stop))
    return RecordBatch(nodes, node, slot, key, data, stop, free, damaged)


def record_bounds(decoder: Decoder, nodes: ReadNodes) -> Bounds:
    """Read the offset tables of leaf and index nodes; other kinds have no keyed records and are passed over."""
    keyed = (nodes.kind == LEAF) | (nodes.kind == INDEX)
    # The offset of the free space stands behind those of the records: one entry more than these.
    table_space = (nodes.node_size_bytes - DESCRIPTOR_BYTES) // OFFSET_BYTES - 1
    counts = np.where(keyed, np.clip(nodes.num_records, 0, table_space), 0)
    first, stop = _bounds(decoder, nodes, counts, keyed)
    node = owners(counts)
    slot = ordinals(counts)
    limit = nodes.node_size_bytes - OFFSET_BYTES * (counts + 1)
    is_overfull = (nodes.num_records > table_space) & keyed
    return Bounds(keyed, counts, limit, is_overfull, node, slot, first, stop, _sound(first, stop, limit[node]))


def _bounds(decoder: Decoder, nodes: ReadNodes, counts: I64, keyed: Mask) -> tuple[I64, I64]:
    """Read the offset tables, which grow from the node's end towards its start; one entry more than records."""
    entries = np.where(keyed, counts + 1, 0)
    node = owners(entries)
    slot = ordinals(entries)
    place = nodes.start[node] + nodes.node_size_bytes - OFFSET_BYTES * (slot + 1)
    offsets = decoder.column(RECORD_OFFSET, nodes.buffer, place, RECORD_OFFSET.ofs_record)
    wide = offsets.astype(np.int64)
    is_last = slot == counts[node]
    return wide[~is_last], wide[1:][~is_last[:-1]]


def _sound(first: I64, stop: I64, limit: I64) -> Mask:
    """Records lie behind the descriptor, before the offset table, and start at even offsets."""
    # Keys and data take an even number of bytes each, so that an odd offset is none (TN1150, Keyed Records).
    sound: Mask = (first >= DESCRIPTOR_BYTES) & (first + LENGTH_BYTES <= stop) & (stop <= limit) & (first % 2 == 0)
    return sound


def _keys(decoder: Decoder, nodes: ReadNodes, found: Bounds, fixed_index_key_bytes: int | None) -> tuple[I64, I64]:
    """Find where each key ends; data start at an even offset."""
    key: I64 = nodes.start[found.node] + np.where(found.is_sound, found.first, DESCRIPTOR_BYTES)
    length = decoder.column(KEY_HEADER, nodes.buffer, key, KEY_HEADER.len_key)
    wide = length.astype(np.int64)
    # In index nodes without variable keys each takes the room of the longest, whatever its length field says.
    if fixed_index_key_bytes is not None:
        wide = np.where((nodes.kind == INDEX)[found.node], fixed_index_key_bytes, wide)
    return key, key + LENGTH_BYTES + wide + wide % 2


def _free_offset(decoder: Decoder, nodes: ReadNodes, counts: I64, keyed: Mask, limit: I64) -> I64:
    """Start of the free space: the entry of the offset table behind those of the records."""
    place = nodes.start + nodes.node_size_bytes - OFFSET_BYTES * (counts + 1)
    offsets = decoder.column(RECORD_OFFSET, nodes.buffer, place, RECORD_OFFSET.ofs_record)
    free = offsets.astype(np.int64)
    return np.where(keyed & (free >= DESCRIPTOR_BYTES) & (free <= limit), free, -1)
