"""Trees of file-system records, extent references and snapshot metadata: their records as columns by type.

Apple File System Reference, File-System Objects. Each record is checked against the shape of its type: a key or value
whose length contradicts its own length fields is damage, a type without a shape is unknown; both are findings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from layoutscope.arrays.growing import GrowingColumn
from layoutscope.arrays.lookup import Index, index_of
from layoutscope.filesystems.apfs.store.btree import as_rows
from layoutscope.filesystems.apfs.store.names import Names
from layoutscope.filesystems.apfs.store.nodes import NodeRows, join
from layoutscope.filesystems.apfs.store.shapes import HASHED_DREC, SHAPES, RecordShape
from layoutscope.filesystems.apfs.store.source import object_of, type_of
from layoutscope.filesystems.apfs.store.walk import index_records, read_levels
from layoutscope.filesystems.apfs.store.xfields import ITEMS
from layoutscope.frozen import frozen
from layoutscope.image import Workspace
from layoutscope.ondisk import grammar
from layoutscope.ondisk.decoder import BULK
from layoutscope.ondisk.leafplan import NO_LEAF, ItemCase, Kind, Leaf, LeafBatch, LeafPlan, Text
from layoutscope.ondisk.leaves import LeafTables, Texts
from layoutscope.ondisk.records import (
    DECMPFS_HEADER,
    DSTREAM,
    FEXT_KEY,
    FEXT_VAL,
    J_KEY,
    SIBLING_ID,
    XATTR_DSTREAM,
    XATTR_VAL,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.btree import ReadNodes
    from layoutscope.filesystems.apfs.store.source import TreeSource
    from layoutscope.filesystems.apfs.store.walk import Pool
    from layoutscope.recordtypes import RecordColumn, RecordType

Columns = dict[str, Any]
T = TypeVar("T")

NARROW: Final[dict[str, type[np.generic]]] = {
    "node": np.int32,
    "key_at": np.uint16,
    "val_at": np.uint16,
    "format": np.uint16,
    "entry_type": np.uint8,
    "kind": np.uint8,
    "name_hash": np.uint32,
}
"""Types of columns whose values take fewer bits than the fields that they come from."""

_FOR_CHECKS: Final = ("key_at", "val_at", "parent_id", "alloced_size", "name_hash", "owning_obj_id", "has_owner")
"""Columns of records that no table is made of."""

_FIELDS: Final = grammar.ApfsXfields
# An inode without the extended field for a stream has no data of its own: directories, and compressed files.
_CASES: Final = {
    "inode": {
        int(_FIELDS.InodeField.dstream): ItemCase(
            DSTREAM, {"has_dstream": 1, "data_size": DSTREAM.len_stream, "alloced_size": DSTREAM.len_alloced}
        )
    },
    "dir_rec": {int(_FIELDS.DrecField.sibling_id): ItemCase(SIBLING_ID, {"sibling_id": SIBLING_ID.sibling_id})},
}
"""The extended fields that the tables need, by record type; zero where a record has none."""

_FEXT: Final = RecordShape(FEXT_KEY, FEXT_VAL, (FEXT_VAL.len_extent, FEXT_VAL.paddr), (FEXT_KEY.logical_addr,))
_OBJECTS: Final = {J_KEY: "obj_id", FEXT_KEY: "private_id"}
COMPRESSED: Final = b"com.apple.decmpfs"


@dataclass(slots=True)
class RecordTables:
    """Decoded records of one tree."""

    # columns by record type; each table is in key order and has `obj_id` and `node`, the position of the record's leaf
    # among the tree's nodes
    tables: dict[str, Columns] = field(default_factory=dict)
    # num_records, num_decoded: records that were seen, and those that were understood
    num_records: int = 0
    num_decoded: int = 0

    _known: dict[tuple[str, ...], Any] = field(default_factory=dict)

    def get(self, name: str) -> Columns:
        """Return the table of a record type, without rows if there are no such records."""
        return self.tables.get(name) or {"obj_id": np.empty(0, np.uint64), "node": np.empty(0, np.int64)}

    def index(self, name: str) -> Index:
        """Prepare the objects of a table for look-ups; once, as several checks and tables ask for it."""
        return self.remembered(("index", name), lambda: index_of(self.get(name)["obj_id"]))

    def find(self, name: str, among: str, column: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Find the objects that a column of one table names in another: see :meth:`Index.find`; once, as well.

        Row in the second table, some row where there is none; and whether there is one.
        """
        return self.remembered((name, among, column), lambda: self.index(among).find(self.get(name)[column]))

    def remembered(self, key: tuple[str, ...], make: Callable[[], T]) -> T:
        """Return what was made under this key, or make it; for what follows from the tables alone."""
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found

    def let_go(self) -> None:
        """Let the columns go that the checks alone ask for: what is said of a field there names its place."""
        for table in self.tables.values():
            for name in _FOR_CHECKS:
                table.pop(name, None)

    def count(self, name: str) -> int:
        """Return how many records of a type there are."""
        return len(self.get(name)["obj_id"])


@cache
def records_plan(*, hashed_names: bool) -> LeafPlan:
    """Say what the records of a tree become, by the shapes of their types."""
    shapes = SHAPES | ({"dir_rec": HASHED_DREC} if hashed_names else {})
    leaves = [_leaf(number, name, shapes[name]) for number, name in _numbers().items()]
    return _plan(leaves, Kind("key", J_KEY, J_KEY.record_type))


@cache
def fext_plan() -> LeafPlan:
    """Say what the extents of a sealed volume become: the same as those of other volumes."""
    return _plan([_leaf(0, "file_extent", _FEXT)], None)


def _plan(leaves: list[Leaf], kind: Kind | None) -> LeafPlan:
    return LeafPlan({leaf.table: _types(leaf) for leaf in leaves}, leaves, kind, ITEMS)


def _leaf(number: int, name: str, shape: RecordShape) -> Leaf:
    """Turn the shape of a type of records into a leaf of a plan."""
    obj_id = shape.key_type.column(_OBJECTS.get(shape.key_type, "hdr.obj_id"))
    tail = shape.val_tail
    texts = {"name": Text("key", shape.key_tail)} if shape.key_tail else {}
    if tail and tail.endswith("len_name"):
        texts["name"] = Text("val", tail)
    return Leaf(
        number,
        name,
        shape.key_type,
        shape.val_type,
        {column.removeprefix("fixed."): column for column in shape.fields},
        {"obj_id": obj_id, **{column.removeprefix("fixed."): column for column in shape.key_fields}},
        texts,
        checked=(Text("val", tail),) if tail and not tail.endswith("len_name") else (),
        cases=_CASES.get(name, {}),
        is_parsed_whole=not shape.has_xfields,
    )


def _types(leaf: Leaf) -> dict[str, Any]:
    """Types of the columns that a leaf fills: those of the fields, unless fewer bits do."""
    columns: dict[str, Any] = {name: NARROW[name] for name in ("node", "key_at", "val_at")}
    parts: list[tuple[RecordType, Mapping[str, RecordColumn | int]]]
    parts = [(leaf.val_type, leaf.columns), (leaf.key_type, leaf.key_columns)]
    parts += [(case.record_type, case.columns) for case in leaf.cases.values()]
    for record_type, wanted in parts:
        for name, column in wanted.items():
            columns[name] = NARROW.get(name) or (np.bool_ if isinstance(column, int) else _type_of(record_type, column))
    return columns | dict.fromkeys(leaf.texts, "utf-8")


def no_records(name: str) -> Columns:
    """Return all columns of a table of records, none of them text, without rows."""
    types = _types(_leaf(0, name, SHAPES[name]))
    return {column: np.empty(0, kind) for column, kind in types.items() if kind != "utf-8"}


def _type_of(record_type: RecordType, column: RecordColumn) -> type[np.generic]:
    none = BULK.column(record_type, np.zeros(record_type.width, np.uint8), np.empty(0, np.int64), column)
    return none.dtype.type


class RecordReader:
    """Reads the records of a tree, leaf by leaf, straight into the columns of its tables."""

    def __init__(self, plan: LeafPlan) -> None:
        self._leaves = LeafTables(plan)
        self._num_records = self._num_decoded = 0
        self._seen: set[str] = set()
        self._attributes = {
            "stream_id": GrowingColumn(np.uint64),
            "stream_size": GrowingColumn(np.uint64),
            "expanded_size": GrowingColumn(np.int64),
        }

    def add(self, batch: ReadNodes) -> None:
        """Decode the records of a batch of leaves; those that are not understood are findings."""
        slots, leaves, plan = batch.slots, self._leaves, self._leaves.plan
        numbers = np.arange(batch.first, batch.first + len(batch.places), dtype=np.int64)
        places = (slots.node, slots.key_start, slots.key_len, slots.val_start, slots.val_len)
        first_attribute = _length_of(leaves, "xattr")
        records = LeafBatch(batch.buffer, batch.size_bytes, numbers, *places)
        found = leaves.add(batch.tree.source.decoder, records, batch.to_come)
        attributes = np.flatnonzero(found.leaf == _position(plan, "xattr"))
        if len(attributes):
            self._add_attributes(batch, slots.val_start[attributes] + XATTR_VAL.width, first_attribute)
        wrong = np.flatnonzero((found.leaf == NO_LEAF) | found.is_damaged)
        self._num_records += len(slots)
        self._num_decoded += len(slots) - len(wrong)
        if len(wrong):
            self._report(batch, wrong)

    def _add_attributes(self, batch: ReadNodes, start: NDArray[np.int64], first_byte: int) -> None:
        """Add data streams of extended attributes, and the size that a compressed file declares.

        `start` is where the data of each new attribute starts, `first_byte` where their names do in the table's.
        """
        decoder, buffer, count = batch.tree.source.decoder, batch.buffer, len(start)
        table = self._leaves.table("xattr")
        # Behind the fixed part of its value, an attribute has its data, or the number and sizes of a stream with them.
        is_stream, length = table["is_stream"][-count:], table["len_xdata"][-count:]
        stream_id, stream_size = np.zeros((2, count), np.uint64)
        rows = np.flatnonzero(is_stream & (length >= XATTR_DSTREAM.width))
        fields = (XATTR_DSTREAM.xattr_obj_id, XATTR_DSTREAM.dstream.len_stream)
        found = decoder.columns(XATTR_DSTREAM, buffer, start[rows], fields)
        stream_id[rows], stream_size[rows] = found["xattr_obj_id"], found["dstream.len_stream"]
        # Files compressed by macOS say their true size in an attribute, as on HFS+.
        expanded = np.full(count, -1, np.int64)
        names = Names(table["name"].data[first_byte:], table["name"].length[-count:])
        rows = np.flatnonzero(~is_stream & (length >= DECMPFS_HEADER.width) & names.equal_to(COMPRESSED))
        size = decoder.column(DECMPFS_HEADER, buffer, start[rows], DECMPFS_HEADER.len_uncompressed)
        expanded[rows] = size.astype(np.int64)
        for name, values in (("stream_id", stream_id), ("stream_size", stream_size), ("expanded_size", expanded)):
            self._attributes[name].add(values, batch.to_come)

    def _report(self, batch: ReadNodes, rows: NDArray[np.int64]) -> None:
        """Say which records are of no known type, or contradict their own lengths."""
        is_typed = self._leaves.plan.kind is not None
        keys = batch.keys[rows]
        obj_ids, kinds = (object_of(keys), type_of(keys)) if is_typed else (keys, np.zeros(len(keys), np.uint8))
        names = {leaf.kind: leaf.table for leaf in self._leaves.plan.leaves}
        columns = (batch.slots.node[rows], batch.slots.key_start[rows], kinds, obj_ids)
        for node, start, kind, obj in zip(*(column.tolist() for column in columns), strict=True):
            message = "record of an unknown type" if kind not in names else "record contradicts its own lengths"
            log = batch.at(node, start, name=f"record of object {obj}")
            log.add("record-invalid", "error", message, found=f"type {kind}")
            self._seen |= {names[kind]} if kind in names else set()

    def finish(self) -> RecordTables:
        """Show all records as tables, one for each type of which there are any."""
        leaves = self._leaves
        tables = {}
        for name in leaves.plan.tables:
            if leaves.count(name) or name in self._seen:
                columns = leaves.table(name)
                if name == "xattr":
                    columns |= {key: column.values for key, column in self._attributes.items()}
                tables[name] = {key: Names(*each) if isinstance(each, Texts) else each for key, each in columns.items()}
        return RecordTables(tables, self._num_records, self._num_decoded)


@cache
def _position(plan: LeafPlan, table: str) -> int:
    """Place of a table's records among the leaves of a plan; -1 if it has none."""
    return next((number for number, leaf in enumerate(plan.leaves) if leaf.table == table), -1)


def _length_of(leaves: LeafTables, table: str) -> int:
    """Bytes of the names in a table; 0 if there is no such table."""
    return len(leaves.table(table)["name"].data) if table in leaves.plan.tables else 0


@cache
def _numbers() -> dict[int, str]:
    """Names of the record types that have a shape, by their number."""
    return {int(grammar.ApfsRecord.RecordType[name]): name for name in SHAPES}


@frozen
class RecordTree:
    """Nodes and decoded records."""

    nodes: NodeRows
    records: RecordTables = field(default_factory=RecordTables)


def read_record_tree(source: TreeSource, *, hashed_names: bool = False, pool: Pool | None = None) -> RecordTree:
    """Read a tree of file-system records, or of a sealed volume's extents, batch by batch: only columns are kept."""
    parts, children = [], []
    plan = fext_plan() if source.kind.key_type is FEXT_KEY else records_plan(hashed_names=hashed_names)
    records = RecordReader(plan)
    for batch in read_levels(source, Workspace()):
        parts.append(as_rows(batch))
        if not batch.level:
            records.add(batch)
        elif pool is not None:
            children.append(index_records(batch, batch.first))
    if pool is not None:
        pool.add(parts, children)
    return RecordTree(join(source.tree, parts), records.finish())
