"""Trees of file-system records, extent references and snapshot metadata: records as columns, one table per type.

Apple File System Reference, File-System Objects. Each record is checked against the shape of its type. A key or value
whose length contradicts its own length fields is damaged; a type without a shape is unknown. Both are findings.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import numpy as np
from msgspec import field

from layoutscope.display import Struct
from layoutscope.filesystems.apfs.btree import Ahead, walk_tree
from layoutscope.filesystems.apfs.nodes import NodeRows, object_of, rows_of, type_of
from layoutscope.structs import grammar, records
from layoutscope.structs.arrays import (
    GrowingTable,
    Index,
    concatenate,
    heads,
    index_of,
    is_ascending,
    lengths_of,
    take_ranges,
)
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.leaves import (
    NO_LEAF,
    Leaf,
    LeafBatch,
    LeafPlan,
    LeafTables,
    Text,
    Texts,
)
from layoutscope.tables import TextColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.btree import Pool, ReadNodes
    from layoutscope.filesystems.apfs.source import TreeSource
    from layoutscope.findings import FindingLog
    from layoutscope.image.passes import Reading
    from layoutscope.structs.leaves import ItemCase, Kind
    from layoutscope.structs.recordtypes import RecordColumn, RecordType


def _shape(
    name: str,  # of the grammar's ``record_type``
    key_type: RecordType,
    val_type: RecordType,
    fields: tuple[str, ...],  # of the value
    key_fields: tuple[str, ...] = (),
    *,
    text: Text | None = None,  # the name in the key or value
    checked: tuple[Text, ...] = (),
    cases: Mapping[int, ItemCase] | None = None,
) -> Leaf:
    """Describe a record type: the fixed parts of key and value, and the fields that become columns."""
    obj_id = {records.J_KEY: "obj_id", records.FEXT_KEY: "private_id"}.get(key_type, "hdr.obj_id")
    keys = {"obj_id": key_type.column(obj_id), **_columns(key_type, key_fields)}
    texts, number = {} if text is None else {"name": text}, int(grammar.ApfsRecord.RecordType[name])
    return Leaf(number, name, key_type, val_type, _columns(val_type, fields), keys, texts, checked, cases=cases or {})


def _columns(record_type: RecordType, fields: tuple[str, ...]) -> dict[str, RecordColumn]:
    return {field.removeprefix("fixed."): record_type.column(field) for field in fields}


def _directory_record(key_type: RecordType, *key_fields: str) -> Leaf:
    text = Text("key", key_type.column("len_name"))
    sibling = {int(_FIELDS.DrecField.sibling_id): (records.SIBLING_ID, _columns(records.SIBLING_ID, ("sibling_id",)))}
    fields = ("file_id", "entry_type")
    return _shape("dir_rec", key_type, records.DREC_VAL_FIXED, fields, key_fields, text=text, cases=sibling)


_FIELDS: Final = grammar.ApfsXfields
_STREAM: Final[dict[str, RecordColumn | int]] = {
    "has_dstream": 1,
    "data_size": records.DSTREAM.len_stream,
    "alloced_size": records.DSTREAM.len_alloced,
}

# Columns of extended fields are zero if a record lacks the field. An inode without a stream has no data of its own: for
# example, a directory or compressed file.
SHAPES: Final = {
    shape.table: shape
    for shape in (
        _shape(
            "snap_metadata",
            records.J_KEY,
            records.SNAP_METADATA_VAL,
            ("fixed.extentref_tree_oid", "fixed.sblock_oid", "fixed.create_time", "fixed.inum", "fixed.flags"),
            text=Text("val", records.SNAP_METADATA_VAL.fixed.len_name),
        ),
        _shape(
            "extent",
            records.J_KEY,
            records.PHYS_EXT_VAL,
            ("num_blocks", "kind", "owning_obj_id", "has_owner", "refcnt"),
        ),
        _shape(
            "inode",
            records.J_KEY,
            records.INODE_VAL_FIXED,
            (
                *("parent_id", "private_id", "create_time", "mod_time", "num_children_or_links", "format"),
                *("len_uncompressed", "has_uncompressed_size", "is_compressed", "is_dataless"),
            ),
            cases={int(_FIELDS.InodeField.dstream): (records.DSTREAM, _STREAM)},
        ),
        _shape(
            "xattr",
            records.XATTR_KEY,
            records.XATTR_VAL,
            ("fixed.is_stream", "fixed.is_embedded", "fixed.len_xdata"),
            text=Text("key", records.XATTR_KEY.len_name),
            checked=(Text("val", records.XATTR_VAL.fixed.len_xdata),),
        ),
        _shape(
            "sibling_link",
            records.SIBLING_KEY,
            records.SIBLING_VAL,
            ("fixed.parent_id",),
            ("sibling_id",),
            text=Text("val", records.SIBLING_VAL.fixed.len_name),
        ),
        _shape("dstream_id", records.J_KEY, records.DSTREAM_ID_VAL, ("refcnt",)),
        _shape(
            "crypto_state",
            records.J_KEY,
            records.CRYPTO_VAL,
            ("fixed.persistent_class",),
            checked=(Text("val", records.CRYPTO_VAL.fixed.len_key),),
        ),
        _shape(
            "file_extent", records.FILE_EXTENT_KEY, records.FILE_EXTENT_VAL, ("len_extent", "paddr"), ("logical_addr",)
        ),
        _directory_record(records.DREC_KEY),
        _shape("dir_stats", records.J_KEY, records.DIR_STATS_VAL, ("num_children",)),
        _shape(
            "snap_name",
            records.SNAP_NAME_KEY,
            records.SNAP_NAME_VAL,
            ("snap_xid",),
            text=Text("key", records.SNAP_NAME_KEY.len_name),
        ),
        _shape("sibling_map", records.J_KEY, records.SIBLING_MAP_VAL, ("file_id",)),
        _shape(
            "file_info",
            records.FILE_INFO_KEY,
            records.FILE_INFO_VAL,
            ("fixed.num_hashed_blocks",),
            ("lba",),
            checked=(Text("val", records.FILE_INFO_VAL.fixed.len_hash),),
        ),
    )
}
"""Shapes by the name of the grammar's ``record_type``."""

# Volumes that fold case or normalize names store a hash between parent and name; others sort by the names only.
HASHED_DREC: Final = _directory_record(records.DREC_HASHED_KEY, "name_hash")


def find_tail(shape: Leaf, part: Literal["key", "val"]) -> RecordColumn | None:
    """Return the field with the length of the variable part of a key or value; None if it has none."""
    texts = (*shape.texts.values(), *shape.checked)
    return next((text.length for text in texts if text.part == part), None)


ITEMS: Final = (
    records.XF_BLOB_HEAD,
    records.XF_BLOB_HEAD.num_exts,
    records.X_FIELD,
    (records.X_FIELD.type, records.X_FIELD.len_data, records.X_FIELD.len_padded),
)
"""Layout of the extended fields after the fixed part of a value."""


_CONTINUES, _CONTINUES_MASK = 0x80, 0xC0


def to_text(names: TextColumn) -> TextColumn:
    """Return names as text, in which replacement characters stand for invalid bytes."""
    return names if is_text(names) else TextColumn.of([name.decode(errors="replace") for name in names.raw()])


def is_text(names: TextColumn) -> bool:
    """Return whether every name is valid UTF-8: all bytes together are, and no name begins within a character."""
    if names.is_ascii():
        return True
    data, start, length = names.pieces()
    firsts = data[start[length > 0]]
    return not ((firsts & _CONTINUES_MASK) == _CONTINUES).any() and is_utf8(data.tobytes())


def is_utf8(raw: bytes) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


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
"""Dtypes of columns whose values need fewer bits than their fields on disk."""

_FOR_CHECKS: Final = ("key_at", "val_at", "parent_id", "alloced_size", "name_hash", "owning_obj_id", "has_owner")
"""Columns of records that no table uses."""

_OF_STREAMS: Final = {"stream_id": np.uint64, "stream_size": np.uint64, "expanded_size": np.int64}
"""Columns of attributes that come from their data."""

# The extents of a sealed volume, with the same columns as for other volumes.
_FEXT: Final = _shape("file_extent", records.FEXT_KEY, records.FEXT_VAL, ("len_extent", "paddr"), ("logical_addr",))
COMPRESSED: Final = b"com.apple.decmpfs"


class RecordTree(Struct):
    """The nodes of one tree, and its decoded records."""

    # columns by record type; each table is in key order and has `obj_id` and `node`, the position of the record's leaf
    # among the tree's nodes
    tables: dict[str, Columns] = field(default_factory=dict)
    # num_records, num_decoded: number of records in the tree, and number of valid records of known types
    num_records: int = 0
    num_decoded: int = 0
    nodes: NodeRows = field(default_factory=partial(rows_of, ""))

    _results: dict[tuple[str, ...], Any] = field(default_factory=dict)

    def get(self, name: str) -> Columns:
        """Return the table of a record type; without records, it has all columns but no rows."""
        return self.tables.get(name) or no_records(name)

    def index(self, name: str) -> Index:
        """Return a search index of a table's objects; it is built once, as several checks and tables use it."""
        return self.compute_once(("index", name), lambda: index_of(self.get(name)["obj_id"]))

    def find(self, name: str, among: str, column: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Look up the objects in a column of one table in another table, once per pair, see :meth:`Index.find`.

        Return the row in the second table (any row if there is no match), and whether there is a match.
        """
        return self.compute_once((name, among, column), lambda: self.index(among).find(self.get(name)[column]))

    def compute_once(self, key: tuple[str, ...], make: Callable[[], T]) -> T:
        """Return the cached result for a key, or compute it; only for results that depend solely on the tables."""
        if key not in self._results:
            self._results[key] = make()
        found: T = self._results[key]
        return found

    def drop_check_columns(self) -> None:
        """Drop the columns that only the checks need, to locate fields in their findings."""
        for table in self.tables.values():
            for name in _FOR_CHECKS:
                table.pop(name, None)

    def count(self, name: str) -> int:
        """Return the number of records of a type."""
        return len(self.get(name)["obj_id"])


@cache
def records_plan(*, hashed_names: bool = False, is_fext: bool = False) -> LeafPlan:
    """Return the plan to decode the records of a tree, or the extents of a sealed volume, from their shapes."""
    leaves: tuple[Leaf, ...] = (_FEXT._replace(kind=0),)
    kind: Kind | None = None
    if not is_fext:
        shapes = SHAPES | ({"dir_rec": HASHED_DREC} if hashed_names else {})
        leaves, kind = tuple(shapes.values()), ("key", records.J_KEY, records.J_KEY.record_type)
    return LeafPlan({leaf.table: _types(leaf) for leaf in leaves}, leaves, kind, ITEMS)


def _types(leaf: Leaf) -> dict[str, Any]:
    """Return the dtypes of a leaf's columns: those of the fields, or smaller ones if these suffice."""
    columns: dict[str, Any] = {name: NARROW[name] for name in ("node", "key_at", "val_at")}
    parts: list[tuple[RecordType, Mapping[str, RecordColumn | int]]]
    parts = [(leaf.val_type, leaf.columns), (leaf.key_type, leaf.key_columns)]
    parts += leaf.cases.values()
    for record_type, wanted in parts:
        for name, column in wanted.items():
            kind: Any = np.bool_
            if not isinstance(column, int):
                # The dtype that the field has when it is decoded.
                none = np.zeros(record_type.width, np.uint8), np.empty(0, np.int64)
                kind = decode_column(record_type, *none, column).dtype.type
            columns[name] = NARROW.get(name) or kind
    return columns | dict.fromkeys(leaf.texts, "utf-8")


@cache
def no_records(name: str) -> Columns:
    """Return all columns of a table of records without rows; the caller must not change it."""
    types = _types(SHAPES[name]) | (_OF_STREAMS if name == "xattr" else {})
    no_text = TextColumn(np.empty(0, np.uint8), np.empty(0, np.uint32))
    return {column: no_text if kind == "utf-8" else np.empty(0, kind) for column, kind in types.items()}


class RecordReader:
    """Decodes the records of a tree, leaf by leaf, into the columns of its tables."""

    def __init__(self, plan: LeafPlan) -> None:
        self._leaves = LeafTables(plan)
        self._num_records = self._num_decoded = 0
        self._seen: set[str] = set()
        self._attributes = GrowingTable(_OF_STREAMS)
        # for leaves that were decoded before their tree led to them: position in the tree, by their number
        self._number = np.empty(0, np.int64)

    def add(self, batch: ReadNodes) -> None:
        """Decode the records of a batch of leaves; report invalid and unknown records as findings."""
        if batch.ahead is not None:
            num_records = num_decoded = int(batch.rows.num_records.sum())
            self._number[batch.ahead] = batch.numbers
        else:
            wrong = self._decode(batch, batch.numbers + len(self._number))
            num_records, num_decoded = len(batch.slots), len(batch.slots) - len(wrong)
            self._report(batch, wrong)
        self._num_records += num_records
        self._num_decoded += num_decoded

    def decode_ahead(self, batch: ReadNodes, count: int) -> NDArray[np.int64]:
        """Decode leaves before their tree leads to them; return those with invalid or unknown records.

        `count` is the total number of nodes. Records of leaves that the tree does not reach are dropped.
        """
        if not len(self._number):
            self._number = np.full(count, -1)
        return batch.slots.node[self._decode(batch, batch.numbers)]

    def _decode(self, batch: ReadNodes, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Decode the records of leaves; return the invalid and unknown ones."""
        slots, leaves, plan = batch.slots, self._leaves, self._leaves.plan
        places = (slots.node, slots.key_start, slots.key_len, slots.val_start, slots.val_len)
        leaf, _, is_damaged = leaves.add(LeafBatch(batch.buffer, batch.size_bytes, numbers, *places), batch.to_come)
        attributes = np.flatnonzero(leaf == _position(plan, "xattr"))
        unusable = np.flatnonzero((leaf == NO_LEAF) | is_damaged)
        if not len(attributes):
            return unusable
        # Add the data streams of extended attributes, and the size that a compressed file declares.
        start, buffer, count = slots.val_start[attributes] + records.XATTR_VAL.width, batch.buffer, len(attributes)
        table = self._leaves.table("xattr")
        # After the fixed part, an attribute's value contains its data, or number and sizes of the stream with its data.
        is_stream, length = table["is_stream"][-count:], table["len_xdata"][-count:]
        stream_id, stream_size = np.zeros((2, count), np.uint64)
        rows = np.flatnonzero(is_stream & (length >= records.XATTR_DSTREAM.width))
        fields = (records.XATTR_DSTREAM.xattr_obj_id, records.XATTR_DSTREAM.dstream.len_stream)
        streams = decode_columns(records.XATTR_DSTREAM, buffer, start[rows], fields)
        stream_id[rows], stream_size[rows] = streams["xattr_obj_id"], streams["dstream.len_stream"]
        # Files that macOS compressed store their uncompressed size in an attribute, as on HFS+.
        expanded = np.full(count, -1, np.int64)
        lengths = table["name"].length[-count:]
        names = TextColumn(table["name"].data[-int(lengths.sum()) :], lengths)
        rows = np.flatnonzero(~is_stream & (length >= records.DECMPFS_HEADER.width) & names.equal_to(COMPRESSED))
        size = decode_column(records.DECMPFS_HEADER, buffer, start[rows], records.DECMPFS_HEADER.len_uncompressed)
        expanded[rows] = size.astype(np.int64)
        found = {"stream_id": stream_id, "stream_size": stream_size, "expanded_size": expanded}
        self._attributes.add(found, batch.to_come)
        return unusable

    def _report(self, batch: ReadNodes, rows: NDArray[np.int64]) -> None:
        """Report records of an unknown type, and records that contradict their own lengths."""
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

    def finish(self, nodes: NodeRows) -> RecordTree:
        """Return the tree of some nodes, with all records as tables in key order, one per type that occurs."""
        leaves, tables = self._leaves, {}
        for name in leaves.plan.tables:
            if leaves.count(name) or name in self._seen:
                more = self._attributes.values if name == "xattr" else {}
                columns = self._in_key_order(name, more)
                if len(columns["node"]) or name in self._seen:
                    tables[name] = {
                        key: TextColumn(*each) if isinstance(each, Texts) else each for key, each in columns.items()
                    }
        return RecordTree(tables, self._num_records, self._num_decoded, nodes)

    def _in_key_order(self, name: str, more: Columns) -> Columns:
        """Return the columns of a table, and additional columns of the same rows, sorted by leaf number."""
        columns = self._leaves.table(name) | more
        node, num_ahead = columns["node"], len(self._number)
        if not num_ahead and is_ascending(node):
            return columns
        # Records of one leaf are contiguous and in order, so whole leaves are moved.
        starts = heads(node)
        counts, number = lengths_of(starts, len(node)), node[starts] - num_ahead
        is_ahead = number < 0
        number[is_ahead] = self._number[number[is_ahead] + num_ahead]
        order = np.argsort(number, kind="stable")
        order = order[number[order] >= 0]
        if len(order) < len(starts) or not is_ascending(order):
            del columns, node
            columns = self._leaves.give_up(name, starts[order], counts[order], with_texts=True)
            columns |= {key: take_ranges(values, starts[order], counts[order]) for key, values in more.items()}
        return columns | {"node": np.repeat(number[order].astype(NARROW["node"]), counts[order])}


class RecordsAhead(Ahead):
    """Nodes of a file-system tree, read before it is traversed, with the records of its leaves."""

    def __init__(self, *, hashed_names: bool) -> None:
        self.records = RecordReader(records_plan(hashed_names=hashed_names))
        super().__init__(self.records.decode_ahead)


@cache
def _position(plan: LeafPlan, table: str) -> int:
    """Return the position of a table among the leaves of a plan; -1 if it has none."""
    return next((number for number, leaf in enumerate(plan.leaves) if leaf.table == table), -1)


def walk_record_tree(
    source: TreeSource, *, hashed_names: bool = False, pool: Pool | None = None, ahead: RecordsAhead | None = None
) -> Reading[RecordTree]:
    """Read a tree of file-system records, or of a sealed volume's extents, in batches, and keep only columns.

    All trees except that of files may be absent: then the number of the root is 0, and the tree is empty.
    """
    if not source.root_oid and source.tree != "fs":
        return RecordTree(nodes=rows_of(source.tree))
    plan = records_plan(hashed_names=hashed_names, is_fext=source.tree == "fext")
    reader = RecordReader(plan) if ahead is None else ahead.records

    def take(batch: ReadNodes) -> None:
        if not batch.level:
            reader.add(batch)

    nodes = yield from walk_tree(source, take, pool=pool, ahead=ahead)
    return reader.finish(nodes)


NO_LIMIT: Final = 2**64 - 1
MAX_NAMED: Final = 10
MAX_LISTED: Final = 100


_LOSSES: Final = {name: np.empty(0, np.uint64) for name in ("node_id", "low", "high")} | {
    name: np.empty(0, np.int64) for name in ("level", "at", "device")
}
"""Columns of missing subtrees: topmost node, half-open range of keys as `low_keys` counts, level of the node, and
address of the value of the index record that leads to it."""


def find_losses(batches: Iterable[ReadNodes]) -> tuple[Columns, bool]:
    """List the missing subtrees of a tree from all of its nodes; also return whether its root could be read."""
    losses: list[Columns] = []
    # index records of the level above and of the current one
    above: list[dict[str, NDArray[Any]]] = []
    own: list[dict[str, NDArray[Any]]] = []
    sound: list[NDArray[np.uint64]] = []
    level = -1
    for batch in batches:
        if batch.level != level:
            losses.append(_missing(above, sound, level))
            above, own, sound, level = own, [], [], batch.level
        sound.append(batch.rows.node_id[batch.is_sound])
        if batch.level:
            # The first key of each child's subtree, the child, and the address of its index record.
            source, slots = batch.tree.source, batch.slots
            child = batch.column("val", records.CHILD_VAL, records.CHILD_VAL.oid)
            child = child + np.uint64(source.root_oid) if batch.tree.is_hashed else child
            device, where = source.blocks.locate(batch.rows.paddr[slots.node])
            at = where + (slots.val_start - slots.node * batch.size_bytes) + records.CHILD_VAL.oid.offset
            own.append({"node_id": child, "low": batch.keys.view(np.uint64), "at": at, "device": device})
    losses.append(_missing(above, sound, level))
    if level > 0:
        # The traversal ends early if a whole level is missing.
        losses.append(_missing(own, [], level - 1))
    return concatenate(losses, {}), bool(above) or any(len(part) for part in sound)


def _missing(above: list[dict[str, NDArray[Any]]], sound: list[NDArray[np.uint64]], level: int) -> Columns:
    columns: Columns = concatenate(above, dict(_LOSSES))
    # The subtree of an index record ends where the next record begins; the last one has no known end.
    columns["high"] = np.append(columns["low"], np.uint64(NO_LIMIT))[1:]
    columns["level"] = np.full(len(columns["low"]), level)
    rows = np.flatnonzero(~np.isin(columns["node_id"], np.concatenate([np.empty(0, np.uint64), *sound])))
    return {name: columns[name][rows] for name in _LOSSES}


def _name_entries_in_range(low: int, high: int, drecs: Columns) -> str:
    """Name the files and directories in a number range that remaining directory entries name."""
    inside = (drecs["file_id"] >= np.uint64(low)) & (drecs["file_id"] <= np.uint64(high))
    kind = int(grammar.ApfsInode.ModeFormat.directory) >> 12
    directories = np.unique(drecs["file_id"][inside & (drecs["entry_type"] == kind)])
    others = int(inside.sum()) - len(directories)
    numbers = ", ".join(str(number) for number in directories[:MAX_NAMED].tolist())
    more = " and more" if len(directories) > MAX_NAMED else ""
    numbers = f" ({numbers}{more})" if numbers else ""
    return f"; entries elsewhere name {len(directories)} directories{numbers} and {others} other files there"


def report_losses(losses: Columns, source: TreeSource, tree: RecordTree | None, log: FindingLog) -> None:
    """Report the lost contents of each missing subtree of a tree."""
    # The low bits of the sort number of a record are the number of its type.
    shift, noun = (4, "objects") if source.key_type is records.J_KEY else (0, "keys")
    drecs = tree.get("dir_rec") if tree is not None and source.key_type is records.J_KEY else no_records("dir_rec")
    rows = list(zip(*(losses[name].tolist() for name in ("node_id", "low", "high", "at", "device")), strict=True))
    for node_id, first, stop, at, device in rows[:MAX_LISTED]:
        low, high = first >> shift, stop >> shift
        what = f"{noun} from {low}" + ("" if stop == NO_LIMIT else f" to {high}")
        if len(drecs["file_id"]):
            what += _name_entries_in_range(low, high, drecs)
        name = f"{source.tree} tree, node {node_id}"
        message = f"what it holds is missing: {what}"
        log.at_byte(name, at, device).add("subtree-missing", "error", message)
    if len(rows) > MAX_LISTED:
        *_, at, device = rows[MAX_LISTED]
        message = f"{len(rows) - MAX_LISTED:,} further subtrees are missing"
        log = log.at_byte(f"{source.tree} tree", at, device)
        log.add("subtree-missing", "error", message)
