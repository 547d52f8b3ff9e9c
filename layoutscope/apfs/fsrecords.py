"""Records of the file-system, extent-reference and snapshot-metadata trees, as columns by type.

Apple File System Reference, File-System Objects. Each record is checked against the shape of its type: a key or value
whose length contradicts its own length fields is damage, a type without a shape is unknown; both are findings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.apfs.names import Names, gather_names, join_names
from layoutscope.findings import Finding
from layoutscope.ondisk import bulk, grammar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from layoutscope.apfs.btree import NodeBatch, TreeSource
    from layoutscope.apfs.toc import Slots
    from layoutscope.apfs.xfields import ExtendedFields

Columns = dict[str, Any]


class Shape(NamedTuple):
    """How a record of one type is built: types of key and value, the fields that give the length of what follows."""

    key_type: str
    val_type: str
    fields: tuple[str, ...]
    key_fields: tuple[str, ...] = ()
    key_tail: str = ""
    val_tail: str = ""
    has_xfields: bool = False


INODE_FIELDS: Final = (
    "parent_id",
    "private_id",
    "create_time",
    "mod_time",
    "internal_flags",
    "num_children_or_links",
    "bsd_flags",
    "mode",
    "format",
    "uncompressed_size",
    "has_uncompressed_size",
    "is_compressed",
    "was_cloned",
)

SHAPES: Final[dict[str, Shape]] = {
    "snap_metadata": Shape(
        "j_key",
        "snap_metadata_val",
        ("fixed.extentref_tree_oid", "fixed.sblock_oid", "fixed.create_time", "fixed.inum", "fixed.flags"),
        val_tail="fixed.name_len",
    ),
    "extent": Shape("j_key", "phys_ext_val", ("num_blocks", "kind", "owning_obj_id", "has_owner", "refcnt")),
    "inode": Shape("j_key", "inode_val_fixed", INODE_FIELDS, has_xfields=True),
    "xattr": Shape(
        "xattr_key",
        "xattr_val",
        ("fixed.is_stream", "fixed.is_embedded", "fixed.xdata_len"),
        key_tail="name_len",
        val_tail="fixed.xdata_len",
    ),
    "sibling_link": Shape(
        "sibling_key", "sibling_val", ("fixed.parent_id",), ("sibling_id",), val_tail="fixed.name_len"
    ),
    "dstream_id": Shape("j_key", "dstream_id_val", ("refcnt",)),
    "crypto_state": Shape("j_key", "crypto_val", ("fixed.persistent_class",), val_tail="fixed.key_len"),
    "file_extent": Shape(
        "file_extent_key", "file_extent_val", ("length_bytes", "paddr", "crypto_id"), ("logical_addr",)
    ),
    "dir_rec": Shape("drec_key", "drec_val_fixed", ("file_id", "entry_type"), key_tail="name_len", has_xfields=True),
    "dir_stats": Shape("j_key", "dir_stats_val", ("num_children",)),
    "snap_name": Shape("snap_name_key", "snap_name_val", ("snap_xid",), key_tail="name_len"),
    "sibling_map": Shape("j_key", "sibling_map_val", ("file_id",)),
    "file_info": Shape("file_info_key", "file_info_val", ("fixed.hashed_len",), ("lba",), val_tail="fixed.hash_size"),
}
"""By the name of the grammar's ``record_type``."""

HASHED_DREC: Final = SHAPES["dir_rec"]._replace(key_type="drec_hashed_key", key_fields=("name_hash",))


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

    def get(self, name: str) -> Columns:
        """Return the table of a record type, without rows if there are no such records."""
        return self.tables.get(name) or {"obj_id": np.empty(0, np.uint64), "node": np.empty(0, np.int64)}

    def count(self, name: str) -> int:
        """Return how many records of a type there are."""
        return len(self.get(name)["obj_id"])


def _full(name: str) -> str:
    return f"apfs_fsrecords.{name}"


def decode_batch(
    source: TreeSource, batch: NodeBatch, findings: list[Finding], *, hashed_names: bool
) -> tuple[dict[str, Columns], int]:
    """Decode the records of one batch of leaves.

    Parameters
    ----------
    source : TreeSource
        The tree.
    batch : NodeBatch
        Leaves.
    findings : list of Finding
        Collects records that are not understood.
    hashed_names : bool
        Whether directory keys carry a hash of the name.

    Returns
    -------
    dict
        Columns by record type.
    int
        Number of records decoded.
    """
    slots = batch.slots
    keys = source.decoder.columns(_full("j_key"), batch.buffer, slots.key_start, ("obj_id", "record_type"))
    known = np.zeros(len(slots), bool)
    tables: dict[str, Columns] = {}
    for name, shape in SHAPES.items():
        number = int(grammar.ApfsFsrecords.RecordType[name])
        rows = np.flatnonzero(keys["record_type"] == number)
        if not len(rows):
            continue
        form = HASHED_DREC if hashed_names and name == "dir_rec" else shape
        rows = rows[_fits(form, batch.buffer, slots.take(rows))]
        table, sound = _decode(source, batch, slots.take(rows), name, form)
        known[rows[sound]] = True
        tables[name] = {"obj_id": keys["obj_id"][rows], "node": batch.node[rows], **_places(batch, rows), **table}
    _report_unknown(source, batch, np.flatnonzero(~known), findings)
    return tables, int(known.sum())


def _places(batch: NodeBatch, rows: NDArray[np.int64]) -> Columns:
    """Where key and value of records start, in bytes from the start of their node."""
    slots, origin = batch.slots, batch.slots.node[rows] * batch.size_bytes
    return {
        "key_at": (slots.key_start[rows] - origin).astype(np.uint16),
        "val_at": (slots.val_start[rows] - origin).astype(np.uint16),
    }


def _fits(shape: Shape, buffer: NDArray[np.uint8], slots: Slots) -> NDArray[np.bool_]:
    """Tell which records have the lengths that their shape asks for."""
    key_type, val_type = _full(shape.key_type), _full(shape.val_type)
    ok = (slots.key_len >= bulk.size(key_type)) & (slots.val_len >= bulk.size(val_type))
    if shape.key_tail:
        ok &= _tail_fits(key_type, shape.key_tail, buffer, slots.key_start, slots.key_len, ok)
    if shape.val_tail:
        ok &= _tail_fits(val_type, shape.val_tail, buffer, slots.val_start, slots.val_len, ok)
    return ok


def _tail_fits(
    type_name: str,
    length_field: str,
    buffer: NDArray[np.uint8],
    start: NDArray[np.int64],
    length: NDArray[np.int64],
    ok: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    rows = np.flatnonzero(ok)
    tail = bulk.records(type_name, buffer, start[rows])[length_field].astype(np.int64)
    result = ok.copy()
    result[rows] = bulk.size(type_name) + tail <= length[rows]
    return result


def _decode(
    source: TreeSource, batch: NodeBatch, slots: Slots, name: str, shape: Shape
) -> tuple[Columns, NDArray[np.bool_]]:
    """Decode records of one type; also tell which were understood wholly."""
    decoder, buffer = source.decoder, batch.buffer
    table: Columns = decoder.columns(
        _full(shape.val_type), buffer, slots.val_start, shape.fields, None if shape.has_xfields else slots.val_len
    )
    table |= decoder.columns(_full(shape.key_type), buffer, slots.key_start, shape.key_fields, slots.key_len)
    table = {key.removeprefix("fixed."): values for key, values in table.items()}
    sound = np.ones(len(slots), bool)
    if shape.key_tail:
        table["name"] = _names(buffer, slots.key_start, _full(shape.key_type), shape.key_tail)
    elif shape.val_tail.endswith("name_len"):
        table["name"] = _names(buffer, slots.val_start, _full(shape.val_type), shape.val_tail)
    if shape.has_xfields:
        size = bulk.size(_full(shape.val_type))
        fields = decoder.extended_fields(buffer, slots.val_start + size, slots.val_len - size)
        table |= _field_columns(source, buffer, len(slots), name, fields)
        sound[fields.damaged] = False
    if name == "xattr":
        table |= _attribute_columns(source, buffer, slots, table)
    return table, sound


def _names(buffer: NDArray[np.uint8], start: NDArray[np.int64], type_name: str, length_field: str) -> Names:
    length = bulk.records(type_name, buffer, start)[length_field].astype(np.int64)
    return gather_names(buffer, start + bulk.size(type_name), length)


def _field_columns(
    source: TreeSource, buffer: NDArray[np.uint8], count: int, name: str, fields: ExtendedFields
) -> Columns:
    """Pick the extended fields that the tables need."""
    kinds = grammar.ApfsFsrecords
    if name == "dir_rec":
        wanted = [("sibling_id", int(kinds.DrecField.sibling_id), "sibling_id", "sibling_id")]
    else:
        wanted = [
            ("data_size", int(kinds.InodeField.dstream), "dstream", "size_bytes"),
            ("alloced_size", int(kinds.InodeField.dstream), "dstream", "alloced_size"),
            ("sparse_bytes", int(kinds.InodeField.sparse_bytes), "sparse_bytes", "num_bytes"),
        ]
    columns: Columns = {}
    for column, field_type, type_name, value in wanted:
        record, start = fields.of_type(field_type, bulk.size(_full(type_name)))
        columns[column] = np.zeros(count, np.uint64)
        columns[column][record] = source.decoder.columns(_full(type_name), buffer, start, (value,))[value]
        if column == "data_size":
            columns["has_dstream"] = np.zeros(count, bool)
            columns["has_dstream"][record] = True
    return columns


def _attribute_columns(source: TreeSource, buffer: NDArray[np.uint8], slots: Slots, table: Columns) -> Columns:
    """Data streams of extended attributes, and the size that a compressed file declares."""
    start = slots.val_start + bulk.size(_full("xattr_val"))
    stream_id, stream_size = np.zeros(len(slots), np.uint64), np.zeros(len(slots), np.uint64)
    rows = np.flatnonzero(table["is_stream"] & (table["xdata_len"] >= bulk.size(_full("xattr_dstream"))))
    names = ("xattr_obj_id", "dstream.size_bytes")
    found = source.decoder.columns(_full("xattr_dstream"), buffer, start[rows], names)
    stream_id[rows], stream_size[rows] = found["xattr_obj_id"], found["dstream.size_bytes"]
    # Files compressed by macOS say their true size in an attribute, as on HFS+.
    header = "hfsplus_attributes.decmpfs_header"
    expanded = np.full(len(slots), -1, np.int64)
    is_header = ~table["is_stream"] & (table["xdata_len"] >= bulk.size(header))
    is_header &= table["name"].equal_to(b"com.apple.decmpfs")
    rows = np.flatnonzero(is_header)
    expanded[rows] = bulk.records(header, buffer, start[rows])["uncompressed_size"].astype(np.int64)
    return {"stream_id": stream_id, "stream_size": stream_size, "expanded_size": expanded}


def _report_unknown(source: TreeSource, batch: NodeBatch, rows: NDArray[np.int64], findings: list[Finding]) -> None:
    if not len(rows):
        return
    keys = source.decoder.columns(_full("j_key"), batch.buffer, batch.slots.key_start[rows], ("obj_id", "record_type"))
    owner = batch.slots.node[rows]
    within = batch.slots.key_start[rows] - owner * batch.size_bytes
    offsets = source.blocks.image_offset(batch.places.paddr[owner]) + within
    for where, kind, obj in zip(offsets.tolist(), keys["record_type"].tolist(), keys["obj_id"].tolist(), strict=True):
        name = f"{source.tree} tree, record of object {obj}"
        message = "record of an unknown type" if _is_unknown(kind) else "record contradicts its own lengths"
        findings.append(Finding("record-invalid", "error", name, where, message, found=f"type {kind}"))


def _is_unknown(kind: int) -> bool:
    return all(int(grammar.ApfsFsrecords.RecordType[name]) != kind for name in SHAPES)


def join_tables(parts: Iterable[dict[str, Columns]]) -> dict[str, Columns]:
    """Put the tables of several batches together."""
    collected: dict[str, list[Columns]] = {}
    for part in parts:
        for name, table in part.items():
            collected.setdefault(name, []).append(table)
    return {name: _concatenate(tables) for name, tables in collected.items()}


def _concatenate(tables: list[Columns]) -> Columns:
    if len(tables) == 1:
        return tables[0]
    return {
        key: join_names([table[key] for table in tables])
        if isinstance(tables[0][key], Names)
        else np.concatenate([table[key] for table in tables])
        for key in tables[0]
    }
