"""Record locations in HFS+ nodes, in numpy: the oracle of the kernel's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.filesystems.hfsplus.nodes import (
    DESCRIPTOR_BYTES,
    INDEX,
    LEAF,
    LENGTH_BYTES,
    OFFSET_BYTES,
    POINTER_BYTES,
    RecordBatch,
    record_bounds,
)
from layoutscope.structs.bulk import decode_column
from layoutscope.structs.records import KEY_HEADER, RECORD_OFFSET

if TYPE_CHECKING:
    from layoutscope.filesystems.hfsplus.nodes import Bounds, ReadNodes
    from layoutscope.structs.arrays import I64, Mask


def plain_locate(nodes: ReadNodes, fixed_index_key_bytes: int | None, least_key_bytes: int = 0) -> RecordBatch:
    """Locate records in numpy."""
    found = record_bounds(nodes)
    node, keyed, damaged = found.node, (nodes.kind == LEAF) | (nodes.kind == INDEX), found.is_overfull.copy()
    stop: I64 = nodes.start[node] + found.stop
    key, data = _keys(nodes, found, fixed_index_key_bytes)
    is_sound = found.is_sound & (data + np.where(nodes.kind == INDEX, POINTER_BYTES, 0)[node] <= stop)
    is_sound &= data - key >= least_key_bytes
    free = _free_offset(nodes, found.counts, keyed, found.limit)
    damaged[node[~is_sound]] = True
    node, slot, key, data, stop = (values[is_sound] for values in (node, found.slot, key, data, stop))
    return RecordBatch(nodes, node, slot, key, data, stop, free, damaged)


def _keys(nodes: ReadNodes, found: Bounds, fixed_index_key_bytes: int | None) -> tuple[I64, I64]:
    """Return where each key ends; data starts at an even offset."""
    key: I64 = nodes.start[found.node] + np.where(found.is_sound, found.first, DESCRIPTOR_BYTES)
    length = decode_column(KEY_HEADER, nodes.buffer, key, KEY_HEADER.len_key)
    wide = length.astype(np.int64)
    # In index nodes without variable keys, each key takes the maximum length, whatever its length field says.
    if fixed_index_key_bytes is not None:
        wide = np.where((nodes.kind == INDEX)[found.node], fixed_index_key_bytes, wide)
    return key, key + LENGTH_BYTES + wide + wide % 2


def _free_offset(nodes: ReadNodes, counts: I64, keyed: Mask, limit: I64) -> I64:
    """Return the start of the free space: the offset after those of the records."""
    place = nodes.start + nodes.node_size_bytes - OFFSET_BYTES * (counts + 1)
    offsets = decode_column(RECORD_OFFSET, nodes.buffer, place, RECORD_OFFSET.ofs_record)
    free = offsets.astype(np.int64)
    return np.where(keyed & (free >= DESCRIPTOR_BYTES) & (free <= limit), free, -1)
