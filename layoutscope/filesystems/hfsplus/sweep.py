"""Finding B-tree nodes by searching the whole volume, without using its header or trees.

TN1150, "B-Trees". A node is recognised by its descriptor, by a table of ascending offsets at its end, and by its first
key, which also identifies the tree. Nodes start at multiples of 512 bytes. Old copies of nodes, those in the journal,
and nodes of volumes within files are found like all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.errors import FormatError
from layoutscope.filesystems.content import stored_units
from layoutscope.filesystems.hfsplus import tree
from layoutscope.filesystems.hfsplus.btree import pieces_of
from layoutscope.filesystems.hfsplus.forks import ForkPieces, read_parts
from layoutscope.filesystems.hfsplus.journal import read_copies
from layoutscope.filesystems.hfsplus.names import UNIT_BYTES
from layoutscope.filesystems.hfsplus.nodes import (
    DESCRIPTOR,
    DESCRIPTOR_BYTES,
    FORMS,
    INDEX,
    LEAF,
    OFFSET_BYTES,
    POINTER_BYTES,
    ReadNodes,
    decode_nodes,
    locate_records,
)
from layoutscope.filesystems.hfsplus.volume import shift_error
from layoutscope.progress import phase
from layoutscope.structs import grammar
from layoutscope.structs.arrays import I64, U8, Rows, ranges
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.records import RECORD_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.filesystems.hfsplus.btree import TreeFile
    from layoutscope.filesystems.hfsplus.journal import Journal
    from layoutscope.filesystems.hfsplus.volume import Volume


CHUNK_BYTES: Final = 8 * 1024**2
STEP_BYTES: Final = 512

TREES: Final = ("catalog", "attributes", "extents-overflow")
_LIMITS: Final = grammar.HfsplusBtree.NodeSizeLimit
NODE_SIZES: Final = tuple(
    int(_LIMITS.minimum) << shift for shift in range((int(_LIMITS.maximum) // int(_LIMITS.minimum)).bit_length())
)


class Swept(Rows, frozen=True):
    """Nodes that were found, in address order."""

    # volume_offset, node_size: location of each node, and its size in bytes
    volume_offset: I64
    node_size: I64
    tree: I64  # index of its tree in `TREES`
    height: I64


def sweep(volume: Volume) -> Swept:
    """Examine every sector of a volume once; holes and unread areas are skipped."""
    none = np.empty(0, np.int64)
    parts = [nodes_in(buffer, length, at) for at, length, buffer in chunks(volume)]
    return Swept.join([Swept(none, none, none, none), *(part for part in parts if len(part))])


def chunks(volume: Volume) -> Iterator[tuple[int, int, U8]]:
    """Yield parts of the volume, each followed by enough bytes for a node that starts in it."""
    source, size = volume.source, min(volume.size_bytes, volume.source.size_bytes)
    with phase("looking at every sector for nodes", size) as looked_at:
        for first, count in stored_units(source, size, CHUNK_BYTES).tolist():
            for at in range(first * CHUNK_BYTES, min((first + count) * CHUNK_BYTES, size), CHUNK_BYTES):
                looked_at.at(at)
                length = min(CHUNK_BYTES, size - at)
                buffer = np.zeros(min(length + int(_LIMITS.maximum), size - at), np.uint8)
                try:
                    source.read_into(at, buffer.data)
                except FormatError as error:
                    volume.log.survive(shift_error(error, -source.origin))
                    continue
                yield at, length, buffer


def nodes_in(buffer: U8, length: int, volume_offset: int = 0) -> Swept:
    """Find the nodes that start in the first `length` bytes of a buffer."""
    starts = np.arange(0, max(0, min(length, len(buffer) - NODE_SIZES[0] + 1)), STEP_BYTES, dtype=np.int64)
    names = (DESCRIPTOR.kind, DESCRIPTOR.height, DESCRIPTOR.reserved, DESCRIPTOR.num_records)
    fields = decode_columns(DESCRIPTOR, buffer, starts, names)
    kind, height, reserved, num_records = (fields[name].astype(np.int64) for name in names)
    # The kind of an index node is 0, so empty sectors would look like one without the height: leaves have 1, index
    # nodes more (TN1150). Header and map nodes (height 0) hold no keys to recognise them by, and are not searched for.
    likely = ((kind == LEAF) & (height == 1)) | ((kind == INDEX) & (height > 1) & (height <= tree.MAX_HEIGHT))
    starts = starts[likely & (reserved == 0) & (num_records > 0)]
    parts = []
    # The header node, which gives the node size, may itself be lost. The smallest size that fits is right: a node of
    # 4 KiB that is followed by another ends in an offset table; at twice the size, its end is its neighbour's table.
    for size in NODE_SIZES:
        part = _keep_sized_nodes(buffer, starts[starts + size <= len(buffer)], size)
        starts = np.setdiff1d(starts, part.volume_offset, assume_unique=True)
        parts.append(part)
    found = Swept.join(parts)
    found = replace(found, volume_offset=found.volume_offset + volume_offset)
    return found.take(np.argsort(found.volume_offset, kind="stable"))


def _keep_sized_nodes(buffer: U8, starts: I64, size: int) -> Swept:
    """Keep the places that hold a node of this size, with its descriptor."""
    counts = decode_column(DESCRIPTOR, buffer, starts, DESCRIPTOR.num_records).astype(np.int64)
    # The offset table grows backwards from the end of the node. Its last entry is record 0, right after the descriptor;
    # its first entry is the free space after all records.
    limit = size - OFFSET_BYTES * (counts + 1)
    fits = limit > DESCRIPTOR_BYTES
    first, free = (
        decode_column(RECORD_OFFSET, buffer, starts + place, RECORD_OFFSET.ofs_record).astype(np.int64)
        for place in (size - OFFSET_BYTES, np.where(fits, limit, 0))
    )
    starts = starts[fits & (first == DESCRIPTOR_BYTES) & (free > DESCRIPTOR_BYTES) & (free <= limit)]
    data = buffer[ranges(starts, np.full(len(starts), size, np.int64))]
    nodes = decode_nodes(data, size, starts)
    tree = _recognise_trees(nodes)
    kept = tree >= 0
    return Swept(starts[kept], np.full(int(kept.sum()), size, np.int64), tree[kept], nodes.height[kept])


def _recognise_trees(nodes: ReadNodes) -> I64:
    """Recognise the tree of each node by its first record; -1 if it is not a node."""
    tree = np.full(len(nodes.number), -1, np.int64)
    records = locate_records(nodes, None)
    found = np.bincount(records.node, minlength=len(tree))
    whole = ~records.damaged & (found == nodes.num_records)
    heads = np.flatnonzero(whole[records.node] & (records.slot == 0))
    node, key, data, stop = (getattr(records, name)[heads] for name in ("node", "key", "data", "stop"))
    buffer, is_leaf = nodes.buffer, nodes.kind[node] == LEAF
    for place, name in enumerate(TREES):
        form = FORMS[name]
        inside = key + form.key_type.width <= len(buffer)
        fields = [form.key_type.column(field) for field in ("len_key", "num_name_units")[: 1 + form.has_name]]
        length, *units = decode_columns(form.key_type, buffer, np.where(inside, key, 0), fields).values()
        name_bytes = UNIT_BYTES * units[0].astype(np.int64) if units else 0
        # A key consists of its fixed part and its name. The record of a leaf has a type of the tree, and the length of
        # this type; that of an index node is a pointer.
        is_key = inside & (length == form.fixed_length + name_bytes)
        is_whole = form.types_of(buffer, data, stop) > 0 if form.leaf is None else stop - key == form.leaf.width
        is_record = is_key & np.where(is_leaf, is_whole, data + POINTER_BYTES == stop)
        tree[node[is_record & (tree[node] < 0)]] = place
    return tree


UNKNOWN: Final = -1
MAX_COMPARED: Final = 10_000
"""Limit on nodes compared with the journal; a damaged volume with repeated content would have more."""


def read_write_ages(volume: Volume, journal: Journal | None, file: TreeFile, numbers: I64) -> I64:
    """Return the journal write that each node comes from; the journal is read only for two or more nodes.

    Writes are numbered from the oldest; -1 for nodes that differ from the journal's last write to their place.
    """
    ages = np.full(len(numbers), UNKNOWN, np.int64)
    if journal is None or len(numbers) <= 1:
        return ages
    copies, ring = read_copies(volume, journal)
    target, length, start = copies.T
    pieces = pieces_of(volume, file.fork, file.node_size_bytes, numbers[:MAX_COMPARED])
    rows = zip(pieces.part.tolist(), pieces.volume_offset.tolist(), pieces.length_bytes.tolist(), strict=True)
    for place, at, size in rows:
        covers = np.flatnonzero((target <= at) & (at < target + length))
        if not len(covers):
            continue
        # A node comes from a write if its bytes equal those of the write, as far as the write extends.
        write = int(covers[-1])
        inside = at - int(target[write])
        known = min(size, int(length[write]) - inside)
        first = int(start[write]) + inside
        piece = ForkPieces(*(np.array([value], np.int64) for value in (0, at, known)))
        if (read_parts(volume, piece) == ring[first : first + known]).all():
            ages[place] = max(int(ages[place]), write)
    return ages
