"""Nodes of B-trees, as they are read and as rows, and where their records are.

TN1150, "B-Trees", Node Structure and Keyed Records. Input: whole nodes, many at once. Output: where each record's key
and data are. What contradicts the format is left out and named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.display import Struct
from layoutscope.filesystems.hfsplus import names
from layoutscope.filesystems.hfsplus.names import case_table, fold_names
from layoutscope.structs import grammar
from layoutscope.structs.arrays import heads, lengths_of, ordinals, owners, starts_of
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.leaves import LeafBatch
from layoutscope.structs.native import Kernel
from layoutscope.structs.records import (
    ATTRIBUTE_KEY,
    ATTRIBUTE_RECORD_TYPE,
    CATALOG_KEY,
    CATALOG_RECORD_TYPE,
    EXTENT_KEY,
    HOT_FILE_KEY,
    KEY_HEADER,
    NODE_DESCRIPTOR,
    POINTER_RECORD,
    RECORD_OFFSET,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from layoutscope.structs.arrays import I64, U8, Mask
    from layoutscope.structs.recordtypes import RecordColumn, RecordType


DESCRIPTOR: Final = NODE_DESCRIPTOR
DESCRIPTOR_BYTES: Final = DESCRIPTOR.width
OFFSET_BYTES: Final = RECORD_OFFSET.width
LENGTH_BYTES: Final = KEY_HEADER.width
POINTER_BYTES: Final = POINTER_RECORD.width

LEAF: Final = int(grammar.HfsplusBtree.NodeKind.leaf)
INDEX: Final = int(grammar.HfsplusBtree.NodeKind.index)
HEADER: Final = int(grammar.HfsplusBtree.NodeKind.header)
MAP: Final = int(grammar.HfsplusBtree.NodeKind.map)


class ReadNodes(Struct, frozen=True):
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


class NodeRows(Struct, frozen=True):
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
        columns: dict[str, Any] = {name: np.full(num_nodes, -1, np.int64) for name in cls.__struct_fields__}
        columns["kind"][:] = UNKNOWN_KIND
        columns |= {name: np.zeros(num_nodes, np.bool_) for name in ("damaged", "is_inferred")}
        return cls(**columns)

    def put(self, records: RecordBatch, id_of: Callable[[I64], I64]) -> None:
        """Write the rows of nodes that were read; `id_of` returns what keys at some places start with."""
        nodes = records.nodes
        for name in ("f_link", "b_link", "kind", "height", "num_records"):
            getattr(self, name)[nodes.number] = getattr(nodes, name)
        self.free_offset[nodes.number] = records.free_offset
        self.damaged[nodes.number] = records.damaged
        first = heads(records.node)
        last = first + lengths_of(first, len(records.node)) - 1
        keyed = nodes.number[records.node[first]]
        self.first_key_id[keyed], self.last_key_id[keyed] = id_of(records.key[first]), id_of(records.key[last])


class RecordBatch(Struct, frozen=True):
    """Records of leaf or index nodes, in node order."""

    nodes: ReadNodes  # their nodes
    node: I64  # place of each record's node in the batch
    slot: I64  # number of the record in its node
    # key, data, stop: place of the key, of the data after it and of the record's end, in bytes from the start of the
    # buffer
    key: I64
    data: I64
    stop: I64
    free_offset: I64  # start of the free space, in bytes from the start of each node; -1 where it is unknown
    damaged: Mask  # nodes with records that were left out

    def of(self, chosen: Mask) -> tuple[I64, I64, I64, I64]:
        """Node numbers, keys, data and stops of the chosen records."""
        return self.nodes.number[self.node[chosen]], self.key[chosen], self.data[chosen], self.stop[chosen]

    def in_leaves(self, leaf: Mask) -> LeafBatch:
        """Return the records in leaves, in the form that tables are made from."""
        places = (self.node, self.key, self.data, self.stop)
        node, key, data, stop = places if leaf.all() else (values[leaf] for values in places)
        nodes = self.nodes
        return LeafBatch(nodes.buffer, nodes.node_size_bytes, nodes.number, node, key, data - key, data, stop - data)


class Bounds(Struct, frozen=True):
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
    is_sound: Mask  # records that fit there


def decode_nodes(buffer: U8, node_size_bytes: int, numbers: I64, to_come: float = 0.0) -> ReadNodes:
    """Decode the descriptors of whole nodes."""
    starts = np.arange(len(numbers), dtype=np.int64) * node_size_bytes
    names = (
        DESCRIPTOR.f_link,
        DESCRIPTOR.b_link,
        DESCRIPTOR.kind,
        DESCRIPTOR.height,
        DESCRIPTOR.num_records,
    )
    found = decode_columns(DESCRIPTOR, buffer, starts, names)
    f_link, b_link, kind, height, num_records = (found[name].astype(np.int64) for name in names)
    return ReadNodes(buffer, node_size_bytes, numbers, f_link, b_link, kind, height, num_records, to_come)


LOCATE_RECORDS: Final = Kernel("locate_records", "bnnnnnblLLLLLLB")


def locate_records(
    nodes: ReadNodes,
    fixed_index_key_bytes: int | None,
    # room that a key must have, its length field and padding included; records with less are left out
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
    """Read the offset tables of leaf and index nodes; other kinds have no keyed records and are passed over."""
    keyed = (nodes.kind == LEAF) | (nodes.kind == INDEX)
    # The offset of the free space follows those of the records: one entry more than these.
    table_space = (nodes.node_size_bytes - DESCRIPTOR_BYTES) // OFFSET_BYTES - 1
    counts = np.where(keyed, np.minimum(nodes.num_records, table_space), 0)
    first, stop = _bounds(nodes, counts)
    node = owners(counts)
    slot = ordinals(counts)
    limit = nodes.node_size_bytes - OFFSET_BYTES * (counts + 1)
    is_overfull = (nodes.num_records > table_space) & keyed
    return Bounds(keyed, counts, limit, is_overfull, node, slot, first, stop, _sound(first, stop, limit[node]))


def _bounds(nodes: ReadNodes, counts: I64) -> tuple[I64, I64]:
    """Read the offset tables, which grow from the node's end towards its start; one entry more than records."""
    entries = counts + 1
    node = owners(entries)
    slot = ordinals(entries)
    place = nodes.start[node] + nodes.node_size_bytes - OFFSET_BYTES * (slot + 1)
    offsets = decode_column(RECORD_OFFSET, nodes.buffer, place, RECORD_OFFSET.ofs_record)
    wide = offsets.astype(np.int64)
    is_last = slot == counts[node]
    return wide[~is_last], wide[1:][~is_last[:-1]]


def _sound(first: I64, stop: I64, limit: I64) -> Mask:
    """Records are between the descriptor and the offset table, and start at even offsets."""
    # Keys and data take an even number of bytes each, so that an odd offset is none (TN1150, Keyed Records).
    sound: Mask = (first >= DESCRIPTOR_BYTES) & (first + LENGTH_BYTES <= stop) & (stop <= limit) & (first % 2 == 0)
    return sound


_LIMIT = grammar.HfsplusBtree.KeyLengthLimit
_UNIT_BITS: Final = 16
_UNIT_MASK: Final = (1 << _UNIT_BITS) - 1
_WORD_UNITS: Final = 4
_PAIRS_AT_ONCE: Final = 1 << 16
_MASKS: Final = np.array([0, *(~0 << shift & (1 << 64) - 1 for shift in (48, 32, 16, 0))], np.uint64)
"""Return the part of a word that so many units fill."""


MISPLACED_NAMES: Final = Kernel("misplaced_names", "lblibliiB")


class KeyForm(Struct, frozen=True):
    """What a tree's keys are made of."""

    key_type: RecordType  # what precedes the name
    ident: RecordColumn  # the field that comes first in the order
    tail: tuple[RecordColumn, ...]  # numbers that come after the name, or in its place
    max_length: int | None  # longest key without its length field; None where the tree's header decides
    has_name: bool  # whether the key ends with a name
    record_types: RecordType | None = None  # what a leaf record's data start with; None where records have no type

    @property
    def fixed_length(self) -> int:
        """Length of a key without a name, as its length field has it."""
        return self.key_type.width - LENGTH_BYTES


FORMS: Final = {
    "catalog": KeyForm(
        CATALOG_KEY,
        CATALOG_KEY.parent_id,
        (),
        int(_LIMIT.catalog),
        has_name=True,
        record_types=CATALOG_RECORD_TYPE,
    ),
    "attributes": KeyForm(
        ATTRIBUTE_KEY,
        ATTRIBUTE_KEY.file_id,
        (ATTRIBUTE_KEY.start_block,),
        int(_LIMIT.attributes),
        has_name=True,
        record_types=ATTRIBUTE_RECORD_TYPE,
    ),
    "extents-overflow": KeyForm(
        EXTENT_KEY,
        EXTENT_KEY.file_id,
        (EXTENT_KEY.fork_type, EXTENT_KEY.start_block),
        int(_LIMIT.extents_overflow),
        has_name=False,
    ),
    "hot-files": KeyForm(
        HOT_FILE_KEY, HOT_FILE_KEY.temperature, (HOT_FILE_KEY.file_id, HOT_FILE_KEY.fork_type), None, has_name=False
    ),
}
"""Keys by tree."""


class Keys(Struct, frozen=True):
    """Keys of records."""

    ident: I64  # what comes first in the order
    units: NDArray[np.uint16]  # what comes second, one key after the other
    # start, count: where each key's units are
    start: I64
    count: I64

    def not_after(self, before: I64, after: I64) -> Mask:
        """Return for each pair of rows whether the second key fails to come after the first."""
        padded = np.append(self.units, np.zeros(_WORD_UNITS, np.uint16))
        wrong = np.empty(len(before), np.bool_)
        for start in range(0, len(before), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            wrong[part] = self._not_after(padded, before[part], after[part])
        return wrong

    def _not_after(self, padded: NDArray[np.uint16], before: I64, after: I64) -> Mask:
        # A name comes before those that it begins, so where all words are equal the lengths decide.
        wrong: Mask = self.count[before] >= self.count[after]

        def decide(rows: I64, first: NDArray[Any], second: NDArray[Any]) -> I64:
            """Decide the rows that differ; return the others."""
            wrong[rows[first > second]] = True
            wrong[rows[first < second]] = False
            left: I64 = rows[first == second]
            return left

        rows = decide(np.arange(len(before)), self.ident[before], self.ident[after])
        for depth in range(0, int(self.count[after].max(initial=0)), _WORD_UNITS):
            words = (_words(padded, self.start[at], self.count[at], depth) for at in (before[rows], after[rows]))
            rows = decide(rows, *words)
        return wrong


def misplaced(ident: I64, kept: names.KeptNames, *, is_folded: bool) -> Mask:
    """Say which keys do not come after the key before them."""
    wrong = np.empty(len(ident), np.bool_)
    table = case_table().astype(np.int32) if is_folded else np.empty(0, np.int32)
    MISPLACED_NAMES(ident, *kept.placed(), table, wrong.view(np.uint8))
    return wrong


def read_keys(
    form: KeyForm,
    buffer: U8,
    key: I64,  # where each key starts, at its length field; even, in bytes from the start of the buffer
) -> Keys:
    """Read keys that are wholly in a buffer."""
    length = (form.key_type.column("num_name_units"),) if form.has_name else ()
    columns = decode_columns(form.key_type, buffer, key, (form.ident, *form.tail, *length))
    found = {name: values.astype(np.int64) for name, values in columns.items()}
    counts = found["num_name_units"] if form.has_name else np.zeros(len(key), np.int64)
    units = names.gather(buffer, key + form.key_type.width, counts)
    if form.tail:
        units, counts = _append_tails(units, counts, [found[name] for name in form.tail], has_name=form.has_name)
    return Keys(found[form.ident], units, starts_of(counts), counts)


def _append_tails(
    units: NDArray[np.uint16], counts: I64, tail: Sequence[I64], *, has_name: bool
) -> tuple[NDArray[np.uint16], I64]:
    """Append numbers to names; names end with a unit that comes before all others."""
    # Fork and first block follow the number: an attribute or fork in many extents has a record for every eight.
    words = [part for value in tail for part in (value >> _UNIT_BITS, value & _UNIT_MASK)]
    if has_name:
        # A name comes before all that begin with it, so what ends it must be less than any unit: all move up by one.
        # U+FFFF, which would leave 16 bits, is not a character.
        units = np.minimum(units, np.uint16(_UNIT_MASK - 1)) + np.uint16(1)
        words.insert(0, np.zeros(len(counts), np.int64))
    longer = counts + len(words)
    ends = np.cumsum(longer)
    joined = np.empty(int(longer.sum()), np.uint16)
    is_name = np.ones(len(joined), np.bool_)
    for place, word in enumerate(words):
        at = ends - len(words) + place
        joined[at] = word
        is_name[at] = False
    joined[is_name] = units
    return joined, longer


def join_keys(parts: Sequence[Keys]) -> Keys:
    """Join keys of several batches."""
    none = np.empty(0, np.int64)
    counts = np.concatenate([none, *(part.count for part in parts)])
    return Keys(
        np.concatenate([none, *(part.ident for part in parts)]),
        np.concatenate([np.empty(0, np.uint16), *(part.units for part in parts)]),
        starts_of(counts),
        counts,
    )


def fold_case(keys: Keys) -> Keys:
    """Fold the names of keys, as on volumes that ignore case."""
    return Keys(keys.ident, *fold_names(keys.units, keys.start, keys.count))


def _words(padded: NDArray[np.uint16], starts: I64, lengths: I64, depth: int) -> NDArray[np.uint64]:
    """Take four units of each name, from a depth on, as a number that compares as they do."""
    at = np.minimum(starts + depth, len(padded) - _WORD_UNITS)
    words = np.zeros(len(at), np.uint64)
    for place in range(_WORD_UNITS):
        words = words << np.uint64(_UNIT_BITS) | padded[at + place]
    return words & _MASKS[np.clip(lengths - depth, 0, _WORD_UNITS)]
