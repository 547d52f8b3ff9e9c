"""Nodes of B-trees, as read and as rows, and the locations of their records.

TN1150, "B-Trees", Node Structure and Keyed Records. The input is whole nodes, many at once. The output is the location
of each record's key and data. Records that contradict the format are skipped, and their nodes are marked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import field

from layoutscope.display import Struct
from layoutscope.structs import grammar, records
from layoutscope.structs.arrays import GrowingTable, heads, lengths_of, ordinals, owners
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.leaves import LeafBatch
from layoutscope.structs.native import Kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from layoutscope.structs.arrays import I64, U8, Mask
    from layoutscope.structs.recordtypes import RecordColumn, RecordType


DESCRIPTOR: Final = records.NODE_DESCRIPTOR
DESCRIPTOR_BYTES: Final = DESCRIPTOR.width
OFFSET: Final = records.RECORD_OFFSET
OFFSET_BYTES: Final = OFFSET.width
LENGTH_BYTES: Final = records.KEY_HEADER.width
POINTER: Final = records.POINTER_RECORD
POINTER_BYTES: Final = POINTER.width

LEAF: Final = int(grammar.HfsplusBtree.NodeKind.leaf)
INDEX: Final = int(grammar.HfsplusBtree.NodeKind.index)
HEADER: Final = int(grammar.HfsplusBtree.NodeKind.header)
MAP: Final = int(grammar.HfsplusBtree.NodeKind.map)


class ReadNodes(Struct, frozen=True):
    """Nodes of one tree as read: their bytes and their descriptors."""

    buffer: U8  # whole nodes, contiguous
    node_size_bytes: int
    number: I64  # node numbers
    # f_link, b_link, kind, height, num_records: fields of the descriptors
    f_link: I64
    b_link: I64
    kind: I64
    height: I64
    num_records: I64
    to_come: float = 0.0  # expected number of further nodes of the tree, as a multiple of these

    @property
    def start(self) -> I64:
        """Start of each node in the buffer."""
        return np.arange(len(self.number), dtype=np.int64) * self.node_size_bytes


UNKNOWN_KIND: Final = 99
"""Kind of a node that was not decoded."""


class NodeRows(Struct, frozen=True):
    """All nodes of a tree as rows, by node number; -1 (kind: ``UNKNOWN_KIND``) for nodes that were not decoded."""

    # f_link, b_link, kind, height, num_records, free_offset, first_key_id, last_key_id: from the nodes
    f_link: I64
    b_link: I64
    kind: I64
    height: I64
    num_records: I64
    free_offset: I64
    first_key_id: I64
    last_key_id: I64
    damaged: Mask  # nodes with skipped records
    is_inferred: Mask  # nodes assigned to the tree only by keys or links, or by an inferred header
    parent: I64  # node number of the parent; -1 for the root and for unreached nodes
    key_rank: I64  # position among the nodes of the same level; -1 if the node was not reached
    # records of index nodes: `node, child, ident`, the first field of the key, and `at`, the offset of the pointer in
    # the tree's file
    pointers: GrowingTable

    @classmethod
    def blank(cls, num_nodes: int) -> NodeRows:
        """Make rows of nodes that are not yet decoded."""
        columns: dict[str, Any] = {name: np.full(num_nodes, -1, np.int64) for name in cls.__struct_fields__}
        columns["kind"][:] = UNKNOWN_KIND
        columns |= {name: np.zeros(num_nodes, np.bool_) for name in ("damaged", "is_inferred")}
        columns["pointers"] = GrowingTable(dict.fromkeys(("node", "child", "ident", "at"), np.int64))
        return cls(**columns)

    def put(self, batch: RecordBatch, form: RecordForm) -> None:
        """Write the rows of decoded nodes, and the records of index nodes."""
        nodes, buffer = batch.nodes, batch.nodes.buffer
        for name in ("f_link", "b_link", "kind", "height", "num_records"):
            getattr(self, name)[nodes.number] = getattr(nodes, name)
        self.free_offset[nodes.number] = batch.free_offset
        self.damaged[nodes.number] = batch.damaged
        first = heads(batch.node)
        last = first + lengths_of(first, len(batch.node)) - 1
        keyed = nodes.number[batch.node[first]]
        for column, rows in ((self.first_key_id, first), (self.last_key_id, last)):
            column[keyed] = decode_column(form.key_type, buffer, batch.key[rows], form.ident)
        is_index = (nodes.kind == INDEX)[batch.node]
        if is_index.any():
            number, key, data, _ = batch.of(is_index)
            pointers = {
                "node": number,
                "child": decode_column(POINTER, buffer, data, POINTER.child_node),
                "ident": decode_column(form.key_type, buffer, key, form.ident),
                "at": data + (number - batch.node[is_index]) * nodes.node_size_bytes,
            }
            self.pointers.add({name: values.astype(np.int64) for name, values in pointers.items()})


class RecordBatch(Struct, frozen=True):
    """Records of leaf or index nodes, in node order."""

    nodes: ReadNodes  # their nodes
    node: I64  # index of each record's node in the batch
    slot: I64  # number of the record in its node
    # key, data, stop: start of the key, start of the data after it, and end of the record, in bytes from the start of
    # the buffer
    key: I64
    data: I64
    stop: I64
    free_offset: I64  # start of the free space, in bytes from the start of each node; -1 if unknown
    damaged: Mask  # nodes with skipped records

    def of(self, chosen: Mask) -> tuple[I64, I64, I64, I64]:
        """Return node numbers, keys, data and stops of the chosen records."""
        return self.nodes.number[self.node[chosen]], self.key[chosen], self.data[chosen], self.stop[chosen]

    def in_leaves(self, leaf: Mask) -> LeafBatch:
        """Return the records in leaves, in the form from which tables are made."""
        places = (self.node, self.key, self.data, self.stop)
        node, key, data, stop = places if leaf.all() else (values[leaf] for values in places)
        nodes = self.nodes
        return LeafBatch(nodes.buffer, nodes.node_size_bytes, nodes.number, node, key, data - key, data, stop - data)


class Bounds(Struct, frozen=True):
    """Offset tables of some nodes."""

    is_overfull: Mask  # leaf and index nodes that claim more records than fit
    # counts, limit: records that are examined, and the start of the offset table, in bytes from the start of the node
    counts: I64
    limit: I64
    # node, slot: index of each record's node in the batch, and the record's number in the node
    node: I64
    slot: I64
    # first, stop: start and end of each record, in bytes from the start of its node, whether sound or not
    first: I64
    stop: I64
    is_sound: Mask  # records whose bounds are possible


def decode_nodes(buffer: U8, node_size_bytes: int, numbers: I64, to_come: float = 0.0) -> ReadNodes:
    """Decode the descriptors of whole nodes."""
    starts = np.arange(len(numbers), dtype=np.int64) * node_size_bytes
    names = (DESCRIPTOR.f_link, DESCRIPTOR.b_link, DESCRIPTOR.kind, DESCRIPTOR.height, DESCRIPTOR.num_records)
    found = decode_columns(DESCRIPTOR, buffer, starts, names)
    f_link, b_link, kind, height, num_records = (found[name].astype(np.int64) for name in names)
    return ReadNodes(buffer, node_size_bytes, numbers, f_link, b_link, kind, height, num_records, to_come)


LOCATE_RECORDS: Final = Kernel("locate_records", "bnnnnnblLLLLLLB")


def locate_records(
    nodes: ReadNodes,
    fixed_index_key_bytes: int | None,
    # minimum size of a key, including its length field and padding; records with shorter keys are skipped
    least_key_bytes: int = 0,
) -> RecordBatch:
    """Locate every record of every leaf and index node."""
    size, count = nodes.node_size_bytes, len(nodes.number)
    kinds = (nodes.kind == LEAF).view(np.uint8) + (nodes.kind == INDEX) * np.uint8(2)
    room = int(np.minimum(nodes.num_records, size // OFFSET_BYTES)[kinds > 0].sum())
    node, slot, key, data, stop = (np.empty(room, np.int64) for _ in range(5))
    free, damaged = np.empty(count, np.int64), np.empty(count, np.bool_)
    fixed = -1 if fixed_index_key_bytes is None else fixed_index_key_bytes
    numbers = (size, DESCRIPTOR_BYTES, POINTER_BYTES, fixed, least_key_bytes)
    places = (node, slot, key, data, stop)
    found = LOCATE_RECORDS(nodes.buffer, *numbers, kinds, nodes.num_records, *places, free, damaged.view(np.uint8))
    node, slot, key, data, stop = (values[:found] for values in places)
    return RecordBatch(nodes, node, slot, key, data, stop, free, damaged)


def record_bounds(nodes: ReadNodes) -> Bounds:
    """Read the offset tables of leaf and index nodes; other kinds have no keyed records and are skipped."""
    keyed = (nodes.kind == LEAF) | (nodes.kind == INDEX)
    # The table grows from the node's end towards its start. The offset of the free space follows those of the records,
    # so there is one more entry than records.
    table_space = (nodes.node_size_bytes - DESCRIPTOR_BYTES) // OFFSET_BYTES - 1
    counts = np.where(keyed, np.minimum(nodes.num_records, table_space), 0)
    entry_node, entry = owners(counts + 1), ordinals(counts + 1)
    place = nodes.start[entry_node] + nodes.node_size_bytes - OFFSET_BYTES * (entry + 1)
    offsets = decode_column(OFFSET, nodes.buffer, place, OFFSET.ofs_record).astype(np.int64)
    is_record = entry != counts[entry_node]
    first, stop = offsets[is_record], offsets[1:][is_record[:-1]]
    node = entry_node[is_record]
    limit = nodes.node_size_bytes - OFFSET_BYTES * (counts + 1)
    # Keys and data each take an even number of bytes, so an odd offset is invalid (TN1150, Keyed Records).
    is_sound = (first >= DESCRIPTOR_BYTES) & (first + LENGTH_BYTES <= stop) & (stop <= limit[node]) & (first % 2 == 0)
    is_overfull = (nodes.num_records > table_space) & keyed
    return Bounds(is_overfull, counts, limit, node, entry[is_record], first, stop, is_sound)


_LIMIT = grammar.HfsplusBtree.KeyLengthLimit


class RecordForm(Struct, frozen=True):
    """The structure of a tree's records."""

    key_type: RecordType  # fields of a key before the name
    ident: RecordColumn  # the field that is compared first
    tail: tuple[RecordColumn, ...]  # numbers that are compared after the name, or instead of it
    max_length: int | None  # longest key without its length field; None if the tree's header decides
    has_name: bool = False  # whether the key ends with a name
    # if leaf records have several types: these by their number, and the start of a record's data, which has the number
    values: Mapping[int, RecordType] = field(default_factory=dict)
    start: RecordType = records.KEY_HEADER
    leaf: RecordType | None = None  # leaf records with their keys, if all have the same type and length

    @property
    def fixed_length(self) -> int:
        """Length of a key without a name, as in its length field."""
        return self.key_type.width - LENGTH_BYTES

    def types_of(self, buffer: U8, data: I64, stop: I64) -> I64:
        """Return the type of each leaf record's data; 0 if it is unknown, or the record is too short for it."""
        has_start = data + self.start.width <= stop
        number = decode_column(self.start, buffer, np.where(has_start, data, 0), self.start.column("record_type"))
        wide, types = number.astype(np.int64), np.zeros(len(data), np.int64)
        for known, record_type in self.values.items():
            types[has_start & (wide == known) & (data + record_type.width <= stop)] = known
        return types


_CATALOG, _ATTRIBUTE = grammar.HfsplusCatalog.RecordType, grammar.HfsplusAttributes.RecordType

FORMS: Final = {
    "catalog": RecordForm(
        records.CATALOG_KEY,
        records.CATALOG_KEY.parent_id,
        (),
        int(_LIMIT.catalog),
        has_name=True,
        values={
            int(_CATALOG.folder): records.CATALOG_FOLDER,
            int(_CATALOG.file): records.CATALOG_FILE,
            int(_CATALOG.folder_thread): records.CATALOG_THREAD,
            int(_CATALOG.file_thread): records.CATALOG_THREAD,
        },
        start=records.CATALOG_RECORD_TYPE,
    ),
    "attributes": RecordForm(
        records.ATTRIBUTE_KEY,
        records.ATTRIBUTE_KEY.file_id,
        (records.ATTRIBUTE_KEY.start_block,),
        int(_LIMIT.attributes),
        has_name=True,
        values={
            int(_ATTRIBUTE.inline_data): records.ATTRIBUTE_INLINE_DATA,
            int(_ATTRIBUTE.fork_data): records.ATTRIBUTE_FORK_DATA,
            int(_ATTRIBUTE.extents): records.ATTRIBUTE_EXTENTS,
        },
        start=records.ATTRIBUTE_RECORD_TYPE,
    ),
    "extents-overflow": RecordForm(
        records.EXTENT_KEY,
        records.EXTENT_KEY.file_id,
        (records.EXTENT_KEY.fork_type, records.EXTENT_KEY.start_block),
        int(_LIMIT.extents_overflow),
        leaf=records.EXTENT_LEAF_RECORD,
    ),
    "hot-files": RecordForm(
        records.HOT_FILE_KEY,
        records.HOT_FILE_KEY.temperature,
        (records.HOT_FILE_KEY.file_id, records.HOT_FILE_KEY.fork_type),
        None,
        leaf=records.HOT_FILE_LEAF_RECORD,
    ),
}
"""Structure of records by tree."""
