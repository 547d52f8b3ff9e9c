"""HFS+ B-trees: from a fork to nodes, their locations, links and records.

TN1150, "B-Trees". Nodes are read and decoded in batches, in order of node number, which is the volume order within each
extent. The shape of the tree is then computed from arrays (:mod:`layoutscope.filesystems.hfsplus.tree`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import field

from layoutscope.display import Struct
from layoutscope.errors import FormatError, UnreadError
from layoutscope.filesystems.hfsplus.forks import Fork, ForkPieces, locate, locate_byte, read_parts
from layoutscope.filesystems.hfsplus.nodes import (
    DESCRIPTOR,
    DESCRIPTOR_BYTES,
    FORMS,
    HEADER,
    LEAF,
    MAP,
    OFFSET_BYTES,
    decode_nodes,
    locate_records,
)
from layoutscope.filesystems.hfsplus.volume import shift_error
from layoutscope.image import Workspace
from layoutscope.image.passes import phase_of_pass
from layoutscope.structs import grammar
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.records import HEADER_NODE, HEADER_RECORD, RECORD_OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from layoutscope.filesystems.hfsplus.nodes import NodeRows, ReadNodes, RecordBatch
    from layoutscope.filesystems.hfsplus.volume import Volume
    from layoutscope.structs.arrays import I64, U8, Columns, GrowingTable, Mask
    from layoutscope.structs.grammar import HfsplusBtree
    from layoutscope.structs.recordtypes import RecordColumn, RecordType

    # Decodes the marked records of a batch, which are in leaves; this is the only part that differs between trees. Also
    # returns the numbers of leaves with records that contradict the format.
    LeafDecoder = Callable[[RecordBatch, Mask], tuple[Columns, I64]]


BATCH_BYTES: Final = 4 * 1024**2
"""Small enough for the fields of a batch to be gathered from the processor's cache."""

HEADER_NODE_BYTES: Final = HEADER_NODE.width


class TreeFile(Struct, frozen=True):
    """A B-tree's file and header."""

    tree: str  # name as in the tables
    fork: Fork  # all its extents, including overflow extents
    header: HfsplusBtree.HeaderRecord  # the header record
    user_data: bytes  # the header node's second record
    num_nodes: int  # number of nodes in the fork
    used: Mask  # from the bitmaps of the header and map nodes; nodes after their end are unused
    map_nodes: I64  # numbers of the map nodes
    # location of the parts of the map: bytes from the start of the file, and length in bytes
    map_parts: tuple[tuple[int, int], ...]
    readable: Mask  # nodes whose bytes are all on the image
    # nodes at which the chain of map nodes ends because they are not map nodes, or could not be read
    lost_map_nodes: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    is_inferred: bool = False  # whether the header was inferred, because there is none on the volume

    @property
    def node_size_bytes(self) -> int:
        """Size of a node."""
        return int(self.header.len_node)

    @property
    def num_mapped(self) -> int:
        """Number of nodes with a bit in the map."""
        return min(self.num_nodes, 8 * sum(length for _, length in self.map_parts))


def pieces_of(volume: Volume, fork: Fork, node_size_bytes: int, numbers: I64) -> ForkPieces:
    """Return the pieces of nodes, none for one that ends after the last extent; `part` is an index into `numbers`."""
    return locate(volume, fork, numbers * node_size_bytes, np.full(len(numbers), node_size_bytes, np.int64))


def open_tree(volume: Volume, tree: str, fork: Fork) -> TreeFile | None:
    """Read the header node and the map of a tree; return None if it has no blocks or its header is damaged."""
    if not fork.num_blocks:
        return None
    at = int(fork.start_blocks[0]) * volume.block_size_bytes
    try:
        node = _read_header_node(volume, tree, fork, at)
    except FormatError as error:
        volume.log.survive(error, code="tree-header-invalid")
        return None
    size = int(node.header.len_node)
    in_fork = min(fork.logical_size_bytes, fork.num_blocks * volume.block_size_bytes) // size
    log = volume.log.at(f"{tree} B-tree header node", at)
    if not in_fork:
        log.add("tree-header-invalid", "error", "its file is smaller than a node")
        return None
    # A damaged fork may claim more nodes than fit on the image.
    num_nodes = min(in_fork, volume.source.size_bytes // size + 1)
    if int(node.header.num_nodes) != num_nodes:
        log = volume.log.at(f"{tree} B-tree header node", at, plus=HEADER_NODE.header.num_nodes.offset)
        message = "the header counts other nodes than the file holds"
        log.add("tree-size-differs", "warning", message, expected=num_nodes, found=int(node.header.num_nodes))
    pieces = pieces_of(volume, fork, size, np.arange(num_nodes, dtype=np.int64))
    readable = np.ones(num_nodes, np.bool_)
    readable[pieces.part[~volume.is_readable(pieces.volume_offset, pieces.length_bytes)]] = False
    used, map_nodes, map_parts, lost = _read_map(volume, tree, fork, node, readable)
    data = bytes(node.user_data)
    return TreeFile(tree, fork, node.header, data, num_nodes, used, map_nodes, map_parts, readable, lost)


def _read_header_node(volume: Volume, tree: str, fork: Fork, at: int) -> HfsplusBtree.HeaderNode:
    structure = f"{tree} B-tree header node"
    # The node size is stored in the node itself, so the start of the node is read first, from the first extent.
    pieces = locate(volume, fork, np.array([0]), np.array([HEADER_NODE_BYTES]))
    try:
        data = read_parts(volume, pieces).tobytes()
    except UnreadError as error:
        raise shift_error(error, 0, structure) from error
    node = grammar.parse(grammar.HfsplusBtree.HeaderNode, data, structure=structure, image_offset=at)
    limits = grammar.HfsplusBtree.NodeSizeLimit
    size = int(node.header.len_node)
    if not limits.minimum <= size <= limits.maximum or size.bit_count() != 1:
        raise FormatError(
            "impossible node size",
            structure=structure,
            image_offset=at + DESCRIPTOR_BYTES + HEADER_RECORD.len_node.offset,
            expected=f"a power of two from {int(limits.minimum)} to {int(limits.maximum)}",
            found=str(size),
        )
    if int(node.descriptor.kind) != HEADER:
        volume.log.at(structure, at + DESCRIPTOR.kind.offset).add(
            "node-invalid", "error", "node 0 is not a header node", expected=HEADER, found=int(node.descriptor.kind)
        )
    return node


def _read_map(
    volume: Volume, tree: str, fork: Fork, node: HfsplusBtree.HeaderNode, readable: Mask
) -> tuple[Mask, I64, tuple[tuple[int, int], ...], I64]:
    """Read the node bitmap from the header node and the chain of map nodes that follows it."""
    size = int(node.header.len_node)
    parts: list[U8] = []
    visited: list[int] = []
    lost: list[int] = []
    places: list[tuple[int, int]] = []
    # The map starts in the header node's third record and continues in the single record of each map node (TN1150, "Map
    # Nodes").
    number, skip = 0, HEADER_NODE_BYTES
    known_bits = 0
    while known_bits < len(readable):
        if number >= len(readable) or number in visited:
            break
        if not readable[number]:
            lost.append(number)
            break
        visited.append(number)
        data = read_parts(volume, pieces_of(volume, fork, size, np.array([number])))
        batch = decode_nodes(data, size, np.array([number]))
        if number and int(batch.kind[0]) != MAP:
            at = locate_byte(volume, fork, number * size)
            log = volume.log.at(f"{tree} node {number}", at, plus=DESCRIPTOR.kind.offset)
            message, found = "a node in the chain of map nodes is none", int(batch.kind[0])
            log.add("node-invalid", "error", message, expected=MAP, found=found)
            lost.append(number)
            break
        # A map record ends where the free space of its node starts, or at its offset table.
        limit = max(DESCRIPTOR_BYTES, size - OFFSET_BYTES * (int(batch.num_records[0]) + 1))
        free = int(decode_column(RECORD_OFFSET, data, np.array([limit]), RECORD_OFFSET.ofs_record)[0])
        end = max(skip, min(free, limit) if free > DESCRIPTOR_BYTES else limit)
        parts.append(data[skip:end])
        places.append((number * size + skip, end - skip))
        known_bits += 8 * (end - skip)
        number, skip = int(batch.f_link[0]), DESCRIPTOR_BYTES
        if not number:
            break
    bits = np.unpackbits(np.concatenate(parts)) if parts else np.empty(0, np.uint8)
    used = np.zeros(len(readable), np.bool_)
    used[: len(bits)] = bits[: len(readable)].astype(np.bool_)
    # A node that the chain leads to is in use, whatever its own bit says.
    used[lost] = True
    return used, np.array(visited[1:], np.int64), tuple(places), np.array(lost, np.int64)


def read_batches(volume: Volume, file: TreeFile, numbers: I64) -> Iterator[ReadNodes]:
    """Read nodes in batches, in the order given; the buffer of a batch is used again for the next."""
    size = file.node_size_bytes
    step, workspace = BATCH_BYTES // size, Workspace()
    for start in range(0, len(numbers), step):
        chosen = numbers[start : start + step]
        buffer = read_parts(volume, pieces_of(volume, file.fork, size, chosen), workspace)
        yield decode_nodes(buffer, size, chosen, (len(numbers) - start) / len(chosen) - 1)


def decode_tree(
    volume: Volume,
    file: TreeFile,
    numbers: I64,  # ascending numbers of readable nodes
    decode: LeafDecoder,
    nodes: NodeRows,
    records: GrowingTable,
) -> None:
    """Read and decode nodes in batches, in order of node number; rows and decoded leaf records are added."""
    form, header = FORMS[file.tree], file.header
    fixed = None if header.has_variable_index_keys else int(header.len_key_max)
    with phase_of_pass(volume.source, len(numbers) * file.node_size_bytes) as under_way:
        for batch in read_batches(volume, file, numbers):
            # A shorter key cannot hold the fixed part of the tree's keys: the record is skipped, the node is damaged.
            batch_records = locate_records(batch, fixed, form.key_type.width)
            nodes.put(batch_records, form)
            found, bad = decode(batch_records, (batch.kind == LEAF)[batch_records.node])
            records.add(found, batch.to_come)
            nodes.damaged[bad] = True
            under_way.advance(len(batch.buffer))


def decode_fixed(
    record_type: RecordType, fields: tuple[RecordColumn, ...], records: RecordBatch, leaf: Mask
) -> tuple[Columns, I64]:
    """Decode leaf records with a single type and length, such as those of extents and of hot files."""
    whole = leaf & (records.stop - records.key >= record_type.width)
    node, key, _, _ = records.of(whole)
    bad, *_ = records.of(leaf & ~whole)
    found = decode_columns(record_type, records.nodes.buffer, key, fields)
    return {"node": node, **{name: values.astype(np.int64) for name, values in found.items()}}, bad
