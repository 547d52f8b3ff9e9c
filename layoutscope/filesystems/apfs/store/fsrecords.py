"""Trees of file-system records, extent references and snapshot metadata: their records as columns by type.

Apple File System Reference, File-System Objects. Each record is checked against the shape of its type: a key or value
whose length contradicts its own length fields is damage, a type without a shape is unknown; both are findings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np

from layoutscope.arrays.growing import GrowingColumn
from layoutscope.arrays.lookup import Index, index_of
from layoutscope.filesystems.apfs.store.btree import as_rows
from layoutscope.filesystems.apfs.store.names import GrowingNames, Names, gather_names
from layoutscope.filesystems.apfs.store.nodes import NodeRows, join
from layoutscope.filesystems.apfs.store.shapes import HASHED_DREC, SHAPES
from layoutscope.filesystems.apfs.store.source import object_of, type_of
from layoutscope.filesystems.apfs.store.walk import index_records, read_levels
from layoutscope.filesystems.apfs.store.xfields import extended_fields
from layoutscope.image import Workspace
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import DECMPFS_HEADER, DSTREAM, SIBLING_ID, XATTR_DSTREAM, XATTR_VAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.btree import ReadNodes
    from layoutscope.filesystems.apfs.store.shapes import Shape
    from layoutscope.filesystems.apfs.store.source import TreeSource
    from layoutscope.filesystems.apfs.store.toc import Slots
    from layoutscope.filesystems.apfs.store.walk import Pool
    from layoutscope.filesystems.apfs.store.xfields import ExtendedFields
    from layoutscope.ondisk.decoder import Decoder
    from layoutscope.recordtypes import Column, RecordType

Columns = dict[str, Any]
T = TypeVar("T")


NARROW: Final[dict[str, type]] = {
    "node": np.int32,
    "format": np.uint16,
    "entry_type": np.uint8,
    "kind": np.uint8,
    "name_hash": np.uint32,
}
"""Types of columns whose values take fewer bits than the fields that they come from."""


@dataclass(slots=True)
class RecordTables:
    """Decoded records of one tree.

    Attributes
    ----------
    tables : dict
        Columns by record type; each table is in key order and has ``obj_id`` and ``node``, the position of the
        record's leaf among the tree's nodes.
    num_records, num_decoded : int
        Records that were seen, and those that were understood.
    """

    tables: dict[str, Columns] = field(default_factory=dict)
    num_records: int = 0
    num_decoded: int = 0

    _grown: dict[str, dict[str, GrowingColumn | GrowingNames]] = field(default_factory=dict)
    _known: dict[tuple[str, ...], Any] = field(default_factory=dict)

    def add(self, found: dict[str, Columns], num_records: int, num_decoded: int, to_come: float = 0.0) -> None:
        """Add the records of a batch of leaves; :meth:`finish` shows them.

        Parameters
        ----------
        found : dict
            Columns by record type, as of :func:`decode_batch`.
        num_records, num_decoded : int
            Records of the batch, and those of them that were understood.
        to_come : float
            How many times as many records are likely to follow; room for them is reserved.
        """
        self.num_records += num_records
        self.num_decoded += num_decoded
        for name, table in found.items():
            grown = self._grown.setdefault(name, {})
            for key, values in table.items():
                if key not in grown:
                    grown[key] = GrowingNames() if isinstance(values, Names) else GrowingColumn(NARROW.get(key))
                grown[key].add(values, to_come)

    def finish(self) -> RecordTables:
        """Show all records that were added as tables."""
        for name, grown in self._grown.items():
            self.tables[name] = {key: column.values for key, column in grown.items()}
        return self

    def get(self, name: str) -> Columns:
        """Return the table of a record type, without rows if there are no such records."""
        return self.tables.get(name) or {"obj_id": np.empty(0, np.uint64), "node": np.empty(0, np.int64)}

    def index(self, name: str) -> Index:
        """Prepare the objects of a table for look-ups; once, as several checks and tables ask for it."""
        return self.remembered(("index", name), lambda: index_of(self.get(name)["obj_id"]))

    def find(self, name: str, among: str, column: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Find the objects that a column of one table names in another: see :meth:`Index.find`; once, as well.

        Parameters
        ----------
        name : str
            Record type whose column names objects, such as ``dir_rec``; n records.
        among : str
            Record type in which they are looked for by ``obj_id``, such as ``inode``.
        column : str
            The column of the first, such as ``file_id``.

        Returns
        -------
        (n,) int64 array, (n,) bool array
            Row in the second table, some row where there is none; and whether there is one.
        """
        return self.remembered((name, among, column), lambda: self.index(among).find(self.get(name)[column]))

    def remembered(self, key: tuple[str, ...], make: Callable[[], T]) -> T:
        """Return what was made under this key, or make it; for what follows from the tables alone."""
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found

    def count(self, name: str) -> int:
        """Return how many records of a type there are."""
        return len(self.get(name)["obj_id"])


def decode_batch(batch: ReadNodes, *, hashed_names: bool) -> tuple[dict[str, Columns], int]:
    """Decode the records of one batch of leaves; those that are not understood are findings.

    Parameters
    ----------
    batch : ReadNodes
        Leaves.
    hashed_names : bool
        Whether directory keys carry a hash of the name.

    Returns
    -------
    dict
        Columns by record type.
    int
        Number of records decoded.
    """
    obj_id, kinds = object_of(batch.keys), type_of(batch.keys)
    present = set(np.flatnonzero(np.bincount(kinds)).tolist())
    tables: dict[str, Columns] = {}
    understood: list[NDArray[np.int64]] = []
    for number, name in _numbers().items():
        if number not in present:
            continue
        shape = SHAPES[name]
        form = HASHED_DREC if hashed_names and name == "dir_rec" else shape
        rows, slots = _fitting(form, batch, np.flatnonzero(kinds == number))
        table, damaged = _decode(batch, slots, name, form)
        understood.append(np.delete(rows, damaged) if len(damaged) else rows)
        tables[name] = {"obj_id": obj_id[rows], "node": slots.node + batch.first, **_places(batch, slots), **table}
    num_decoded = sum(map(len, understood))
    if num_decoded < len(kinds):
        others = np.setdiff1d(np.arange(len(kinds)), np.concatenate([np.empty(0, np.int64), *understood]))
        _report_unknown(batch, others)
    return tables, num_decoded


def _places(batch: ReadNodes, slots: Slots) -> Columns:
    """Where key and value of records start, in bytes from the start of their node."""
    origin = slots.node * batch.size_bytes
    return {
        "key_at": (slots.key_start - origin).astype(np.uint16),
        "val_at": (slots.val_start - origin).astype(np.uint16),
    }


class _Tail(NamedTuple):
    """What follows the fixed prefixes of keys or values: the field with its length, where they start and how long."""

    record_type: RecordType
    length_field: Column
    start: NDArray[np.int64]
    length: NDArray[np.int32]


def _fitting(shape: Shape, batch: ReadNodes, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], Slots]:
    """Keep the records that have the lengths that their shape asks for."""
    slots, decoder = batch.slots.take(rows), batch.tree.source.decoder
    ok = (slots.key_len >= shape.key_type.width) & (slots.val_len >= shape.val_type.width)
    if shape.key_tail:
        tail = _Tail(shape.key_type, shape.key_tail, slots.key_start, slots.key_len)
        ok &= _tail_fits(decoder, batch.buffer, tail, ok)
    if shape.val_tail:
        tail = _Tail(shape.val_type, shape.val_tail, slots.val_start, slots.val_len)
        ok &= _tail_fits(decoder, batch.buffer, tail, ok)
    return (rows, slots) if ok.all() else (rows[ok], slots.take(ok))


def _tail_fits(decoder: Decoder, buffer: NDArray[np.uint8], tail: _Tail, ok: NDArray[np.bool_]) -> NDArray[np.bool_]:
    rows = slice(None) if ok.all() else np.flatnonzero(ok)
    declared = decoder.column(tail.record_type, buffer, tail.start[rows], tail.length_field).astype(np.int32)
    result = ok.copy()
    result[rows] = declared <= tail.length[rows] - tail.record_type.width
    return result


def _decode(batch: ReadNodes, slots: Slots, name: str, shape: Shape) -> tuple[Columns, NDArray[np.int64]]:
    """Decode records of one type; also tell which were not understood wholly."""
    decoder, buffer = batch.tree.source.decoder, batch.buffer
    table: Columns = decoder.columns(
        shape.val_type, buffer, slots.val_start, shape.fields, None if shape.has_xfields else slots.val_len
    )
    tail = (shape.key_tail,) if shape.key_tail else ()
    table |= decoder.columns(shape.key_type, buffer, slots.key_start, (*shape.key_fields, *tail), slots.key_len)
    table = {key.removeprefix("fixed."): values for key, values in table.items()}
    damaged = np.empty(0, np.int64)
    if shape.key_tail:
        first = slots.key_start + shape.key_type.width
        table["name"] = gather_names(buffer, first, table.pop(shape.key_tail).astype(np.int64))
    elif shape.val_tail and shape.val_tail.endswith("len_name"):
        length = decoder.column(shape.val_type, buffer, slots.val_start, shape.val_tail).astype(np.int64)
        table["name"] = gather_names(buffer, slots.val_start + shape.val_type.width, length)
    if shape.has_xfields:
        size = shape.val_type.width
        fields = extended_fields(decoder, buffer, slots.val_start + size, slots.val_len - size)
        table |= _field_columns(batch, len(slots), name, fields)
        damaged = fields.damaged
    if name == "xattr":
        table |= _attribute_columns(batch, slots, table)
    return table, damaged


def _field_columns(batch: ReadNodes, count: int, name: str, fields: ExtendedFields) -> Columns:
    """Pick the extended fields that the tables need; zero where a record has none."""
    kinds, decoder, buffer = grammar.ApfsXfields, batch.tree.source.decoder, batch.buffer
    if name == "dir_rec":
        rows, start = fields.of_type(int(kinds.DrecField.sibling_id), SIBLING_ID.width)
        siblings = decoder.column(SIBLING_ID, buffer, start, SIBLING_ID.sibling_id)
        return {"sibling_id": _spread(siblings, rows, count)}
    rows, start = fields.of_type(int(kinds.InodeField.dstream), DSTREAM.width)
    found = decoder.columns(DSTREAM, buffer, start, (DSTREAM.len_stream, DSTREAM.len_alloced))
    return {
        "has_dstream": _spread(np.ones(len(rows), bool), rows, count),
        "data_size": _spread(found["len_stream"], rows, count),
        "alloced_size": _spread(found["len_alloced"], rows, count),
    }


def _spread(values: NDArray[Any], rows: NDArray[np.int64], count: int) -> NDArray[Any]:
    """Put values into their rows among zeros."""
    column = np.zeros(count, values.dtype)
    column[rows] = values
    return column


def _attribute_columns(batch: ReadNodes, slots: Slots, table: Columns) -> Columns:
    """Data streams of extended attributes, and the size that a compressed file declares."""
    decoder, buffer = batch.tree.source.decoder, batch.buffer
    start = slots.val_start + XATTR_VAL.width
    stream_id, stream_size = np.zeros(len(slots), np.uint64), np.zeros(len(slots), np.uint64)
    rows = np.flatnonzero(table["is_stream"] & (table["len_xdata"] >= XATTR_DSTREAM.width))
    names = (XATTR_DSTREAM.xattr_obj_id, XATTR_DSTREAM.dstream.len_stream)
    found = decoder.columns(XATTR_DSTREAM, buffer, start[rows], names)
    stream_id[rows], stream_size[rows] = found["xattr_obj_id"], found["dstream.len_stream"]
    # Files compressed by macOS say their true size in an attribute, as on HFS+.
    expanded = np.full(len(slots), -1, np.int64)
    is_header = ~table["is_stream"] & (table["len_xdata"] >= DECMPFS_HEADER.width)
    is_header &= table["name"].equal_to(b"com.apple.decmpfs")
    rows = np.flatnonzero(is_header)
    size = decoder.column(DECMPFS_HEADER, buffer, start[rows], DECMPFS_HEADER.len_uncompressed)
    expanded[rows] = size.astype(np.int64)
    return {"stream_id": stream_id, "stream_size": stream_size, "expanded_size": expanded}


def _report_unknown(batch: ReadNodes, rows: NDArray[np.int64]) -> None:
    owner, obj_ids, kinds = batch.slots.node[rows], object_of(batch.keys[rows]), type_of(batch.keys[rows])
    starts = batch.slots.key_start[rows].tolist()
    for node, start, kind, obj in zip(owner.tolist(), starts, kinds.tolist(), obj_ids.tolist(), strict=True):
        message = "record of an unknown type" if kind not in _numbers() else "record contradicts its own lengths"
        log = batch.at(node, start, name=f"record of object {obj}")
        log.add("record-invalid", "error", message, found=f"type {kind}")


@cache
def _numbers() -> dict[int, str]:
    """Names of the record types that have a shape, by their number."""
    return {int(grammar.ApfsRecord.RecordType[name]): name for name in SHAPES}


@dataclass(frozen=True, slots=True)
class Tree:
    """Nodes and decoded records."""

    nodes: NodeRows
    records: RecordTables = field(default_factory=RecordTables)


def read_record_tree(source: TreeSource, *, hashed_names: bool = False, pool: Pool | None = None) -> Tree:
    """Read a tree of file-system records, batch by batch: nothing but columns is kept.

    Parameters
    ----------
    source : TreeSource
        The tree.
    hashed_names : bool
        Whether directory keys carry a hash of the name.
    pool : Pool, optional
        Keeps what other states of the volume share with this one.
    """
    parts, children, records = [], [], RecordTables()
    for batch in read_levels(source, Workspace()):
        parts.append(as_rows(batch))
        if batch.level:
            children += [index_records(batch, batch.first)] if pool is not None else []
            continue
        found, num_decoded = decode_batch(batch, hashed_names=hashed_names)
        records.add(found, len(batch.slots), num_decoded, batch.to_come)
    if pool is not None:
        pool.add(parts, children)
    return Tree(join(source.tree, parts), records.finish())
