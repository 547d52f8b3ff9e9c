"""Rules of the fields of records, whatever else they agree with: lengths, flags, reserved bytes, extended fields.

Apple File System Reference, File-System Objects, Extended Fields, Object Maps and Snapshot Metadata. Reading needs keys
and values to be long enough; here they are as long as they say themselves, and no longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.ragged import ordinals, owners
from layoutscope.filesystems.apfs.check.object_fields import OBSERVED, REFERENCE, RESERVED, UNKNOWN
from layoutscope.filesystems.apfs.check.subject import MOST_CASES
from layoutscope.filesystems.apfs.store.shapes import SHAPES
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar
from layoutscope.ondisk.fieldrules import (
    NOT_ZERO,
    ZERO,
    FieldRule,
    Structures,
    Want,
    check_fields,
    equals,
    one_of,
    only_bits,
    rules,
)
from layoutscope.ondisk.records import (
    DREC_HASHED_KEY,
    DREC_VAL_FIXED,
    FILE_EXTENT_VAL,
    FREE_QUEUE_KEY,
    INODE_VAL_FIXED,
    J_KEY,
    OMAP_SNAPSHOT,
    OMAP_VAL,
    PHYS_EXT_VAL,
    SNAP_METADATA_VAL,
    X_FIELD,
    XATTR_VAL,
    XF_BLOB_HEAD,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.store.btree import ReadNodes
    from layoutscope.filesystems.apfs.store.shapes import RecordShape
    from layoutscope.findings import FindingLog
    from layoutscope.recordtypes import Column, RecordType

INVALID: Final = "record-invalid"
INODE, EXTENT, SNAPSHOT = INODE_VAL_FIXED, FILE_EXTENT_VAL, SNAP_METADATA_VAL.fixed
_NAMES: Final = {int(kind): kind.name for kind in grammar.ApfsRecord.RecordType}
_CLASSES: Final = (0, 1, 2, 3, 4, 6, 14)
_PHYSICAL_TREE: Final = 0x40000002
_NAME_LENGTH: Final = 0x3FF
"""The part of a hashed directory key's number that is the length of the name."""


@frozen
class _Facts:
    """What is known of the records of a batch."""

    xid: int
    is_plain: bool
    has_size: NDArray[np.bool_] | None = None

    def no_size(self) -> Want | None:
        has_size = self.has_size
        return None if has_size is None else Want(lambda found: (found == 0) | has_size, "0 without the flag for it")

    def no_key(self) -> Want | None:
        return ZERO if self.is_plain else None

    def past(self) -> Want:
        return Want(lambda found: (found > 0) & (found <= self.xid), f"1 to {self.xid}")


def _declared(*rows: Any, of: str) -> tuple[FieldRule[_Facts], ...]:
    return rules(INVALID, f"{REFERENCE}, {of}; {OBSERVED}", *rows, level="warning")


_INODE_FLAGS: Final = sum(int(flag) for flag in grammar.ApfsInode.InodeFlag)

VALUE_RULES: Final[dict[str, tuple[RecordType, tuple[FieldRule[_Facts], ...]]]] = {
    "inode": (
        INODE,
        _declared(
            (INODE.pad1, ZERO, RESERVED),
            (INODE.default_protection_class, one_of(*_CLASSES), "no class of protection"),
            (INODE.internal_flags, only_bits(_INODE_FLAGS), UNKNOWN),
            (INODE.len_uncompressed, _Facts.no_size, "a size that the flags do not announce"),
            of="j_inode_val_t",
        ),
    ),
    "dir_rec": (DREC_VAL_FIXED, _declared((DREC_VAL_FIXED.flags, only_bits(0xF), UNKNOWN), of="j_drec_val_t")),
    "file_extent": (
        EXTENT,
        _declared(
            (EXTENT.len_and_flags, only_bits((1 << 57) - 1), UNKNOWN),
            (EXTENT.crypto_id, _Facts.no_key, "a key in a volume that is not encrypted"),
            of="j_file_extent_val_t",
        ),
    ),
    "xattr": (
        XATTR_VAL,
        _declared(
            (
                XATTR_VAL.fixed.flags,
                Want(lambda found: np.isin(found & 3, (1, 2)) & (found & 0xFFE8 == 0), "a stream, or embedded"),
                "not either in a stream or embedded, or bits that have no meaning",
            ),
            of="j_xattr_val_t",
        ),
    ),
    "extent": (
        PHYS_EXT_VAL,
        _declared(
            (PHYS_EXT_VAL.len_and_kind, Want(lambda found: np.isin(found >> 60, (1, 2)), "1 or 2"), "no such kind"),
            (
                PHYS_EXT_VAL.len_and_kind,
                Want(lambda found: found & ((1 << 60) - 1) != 0, "one block at least"),
                "an extent without blocks",
            ),
            of="j_phys_ext_val_t",
        ),
    ),
    "snap_metadata": (
        SNAP_METADATA_VAL,
        _declared(
            (SNAPSHOT.extentref_tree_type, equals(_PHYSICAL_TREE), "another type or storage than that of its tree"),
            (SNAPSHOT.flags, only_bits(3), UNKNOWN),
            (SNAPSHOT.inum, NOT_ZERO, "no number"),
            of="j_snap_metadata_val_t",
        ),
    ),
}
"""Rules of values by the kind of record."""

FIXED_RULES: Final[dict[str, tuple[str, RecordType, tuple[FieldRule[_Facts], ...]]]] = {
    "omap": ("val", OMAP_VAL, _declared((OMAP_VAL.flags, only_bits(0x1F), UNKNOWN), of="omap_val_t")),
    "container-omap": ("val", OMAP_VAL, _declared((OMAP_VAL.flags, only_bits(0x1F), UNKNOWN), of="omap_val_t")),
    "omap-snapshots": (
        "val",
        OMAP_SNAPSHOT,
        _declared(
            (OMAP_SNAPSHOT.flags, only_bits(3), UNKNOWN),
            (OMAP_SNAPSHOT.pad, ZERO, RESERVED),
            (OMAP_SNAPSHOT.oid, ZERO, RESERVED),
            of="omap_snapshot_t",
        ),
    ),
    "spaceman": (
        "key",
        FREE_QUEUE_KEY,
        _declared(
            (FREE_QUEUE_KEY.xid, _Facts.past, "not a transaction of this container's past"),
            of="spaceman_free_queue_key_t",
        ),
    ),
}
"""Rules of keys or values in trees of one kind of record."""


def check_records(subject: Subject, batch: ReadNodes, *, is_plain: bool, hashed_names: bool) -> None:
    """Hold the records of a batch against the rules of their fields.

    Parameters
    ----------
    subject : Subject
        The container under check.
    batch : ReadNodes
        Nodes of any tree.
    is_plain : bool
        Whether the volume is neither encrypted nor sealed.
    hashed_names : bool
        Whether directory keys carry a hash of the name.
    """
    source, slots = batch.tree.source, batch.slots
    if not len(slots):
        return
    facts = _Facts(subject.container.xid, is_plain)
    if source.tree in FIXED_RULES and not batch.level:
        part, kind, declared = FIXED_RULES[source.tree]
        _hold(_Rows(subject, batch, np.arange(len(slots))), part, kind, declared, facts)
    elif source.kind.key_type is J_KEY:
        kinds = batch.column("key", J_KEY, J_KEY.record_type)
        for kind in np.unique(kinds).tolist():
            rows = _Rows(subject, batch, np.flatnonzero(kinds == kind))
            _check_kind(rows, _NAMES.get(kind, ""), facts, hashed_names=hashed_names)


@frozen
class _Rows:
    """Records of one kind in a batch."""

    subject: Subject
    batch: ReadNodes
    row: NDArray[np.int64]

    def starts(self, part: str) -> NDArray[np.int64]:
        found: NDArray[np.int64] = getattr(self.batch.slots, f"{part}_start")[self.row]
        return found

    def lengths(self, part: str) -> NDArray[np.int64]:
        found: NDArray[np.int64] = getattr(self.batch.slots, f"{part}_len")[self.row].astype(np.int64)
        return found

    def take(self, chosen: NDArray[np.bool_]) -> _Rows:
        return _Rows(self.subject, self.batch, self.row[chosen])

    def at(self, part: str) -> Callable[[int, int], FindingLog]:
        """Bind the log to a byte of a key or value."""
        starts, node = self.starts(part), self.batch.slots.node[self.row]
        return lambda number, plus: self.batch.at(int(node[number]), int(starts[number]) + plus, log=self.subject.log)

    def report(self, wrong: NDArray[np.bool_], part: str, message: str, sides: tuple[Any, Any] | None = None) -> None:
        at = self.at(part)
        for number in np.flatnonzero(wrong)[:MOST_CASES].tolist():
            expected, found = ("", "") if sides is None else (sides[0][number], sides[1][number])
            at(number, 0).add(INVALID, "warning", message, expected=expected, found=found)

    def column(self, part: str, record_type: RecordType, field: Any) -> NDArray[Any]:
        decoder = self.batch.tree.source.decoder
        found: NDArray[Any] = decoder.column(record_type, self.batch.buffer, self.starts(part), field)
        return found


def _hold(rows: _Rows, part: str, kind: RecordType, declared: tuple[FieldRule[_Facts], ...], facts: _Facts) -> None:
    structures = Structures(kind, rows.batch.buffer, rows.starts(part), rows.batch.tree.source.decoder)
    check_fields(structures, declared, facts, rows.at(part), MOST_CASES)


def _check_kind(rows: _Rows, name: str, facts: _Facts, *, hashed_names: bool) -> None:
    shape = SHAPES.get(name)
    if shape is None:
        return
    key_type = DREC_HASHED_KEY if name == "dir_rec" and hashed_names else shape.key_type
    long_enough = rows.lengths("key") >= key_type.width
    if not rows.batch.level:
        long_enough &= rows.lengths("val") >= shape.val_type.width
    rows = rows.take(long_enough)
    if not len(rows.row):
        return
    _check_length(rows, "key", name, key_type, shape.key_tail)
    if not rows.batch.level:
        _check_value(rows, name, shape, facts)


def _check_value(rows: _Rows, name: str, shape: RecordShape, facts: _Facts) -> None:
    if shape.has_xfields:
        _check_xfields(rows, name, shape.val_type.width)
    else:
        _check_length(rows, "val", name, shape.val_type, shape.val_tail)
    if name in VALUE_RULES:
        if name == "inode":
            has_size = rows.column("val", INODE, INODE.has_uncompressed_size)
            facts = _Facts(facts.xid, facts.is_plain, has_size.astype(bool))
        _hold(rows, "val", *VALUE_RULES[name], facts)


def _check_length(rows: _Rows, part: str, name: str, kind: RecordType, tail: Column | None) -> None:
    """A key or value is as long as its fixed part, and what one of its fields says that follows."""
    expected = np.full(len(rows.row), kind.width, np.int64)
    if kind is DREC_HASHED_KEY:
        expected += rows.column(part, kind, DREC_HASHED_KEY.len_name_and_hash).astype(np.int64) & _NAME_LENGTH
    elif tail is not None:
        expected += rows.column(part, kind, tail).astype(np.int64)
    found = rows.lengths(part)
    what = "key" if part == "key" else "value"
    rows.report(found != expected, part, f"{name}: its {what} has another length than it says", (expected, found))


_KNOWN_TYPES: Final = {"inode": range(1, 18), "dir_rec": range(1, 2)}
_XFIELD_FLAGS: Final = 0x3B
"""All but the reserved ones."""
_XFIELDS: Final = {
    ("inode", 4): ((2,), None),
    ("inode", 8): ((0x20,), 40),
    ("inode", 10): ((0x22,), 8),
    ("inode", 13): ((0x28,), 8),
    ("inode", 14): ((0, 0x22), 4),
    ("dir_rec", 1): ((0, 2), 8),
}
"""Flags and size of extended fields by the kind of record and their type, as macOS and Linux write them."""


def _check_xfields(rows: _Rows, name: str, width: int) -> None:
    """Extended fields fill the rest of the value, padded with zeros, each with the flags and the size of its type."""
    batch, size = rows.batch, rows.lengths("val") - width
    some = size > 0
    rows = rows.take(some)
    start, size = rows.starts("val") + width, size[some]
    short = size < XF_BLOB_HEAD.width
    rows, start, size = rows.take(~short), start[~short], size[~short]
    if not len(size):
        return
    decoder = batch.tree.source.decoder
    head = decoder.columns(XF_BLOB_HEAD, batch.buffer, start, (XF_BLOB_HEAD.num_exts, XF_BLOB_HEAD.used_data))
    count, used = head["num_exts"].astype(np.int64), head["used_data"].astype(np.int64)
    front = XF_BLOB_HEAD.width + count * X_FIELD.width
    wrong = front + used != size
    message = f"{name}: its extended fields do not fill its value"
    rows.report(wrong, "val", message, (size - front, used))
    rows, start, count, used = rows.take(~wrong), start[~wrong], count[~wrong], used[~wrong]
    owner = owners(count)
    spots = start[owner] + XF_BLOB_HEAD.width + ordinals(count) * X_FIELD.width
    if not len(spots):
        return
    found = decoder.columns(X_FIELD, batch.buffer, spots, (X_FIELD.type, X_FIELD.flags, X_FIELD.len_data))
    length = found["len_data"].astype(np.int64)
    padded = -(-length // 8) * 8
    total = np.bincount(owner, padded, len(count)).astype(np.int64)
    message = f"{name}: the lengths of its extended fields do not add up to what they use"
    rows.report(total != used, "val", message, (total, used))
    _check_types(rows, name, owner, found, length)
    begin = start + XF_BLOB_HEAD.width + count * X_FIELD.width
    _check_padding(rows, name, owner, _Data(begin, length, padded, total == used))


def _check_types(
    rows: _Rows, name: str, owner: NDArray[np.int64], found: dict[str, NDArray[Any]], length: NDArray[np.int64]
) -> None:
    kind, flags = found["type"], found["flags"]
    wrong = ~np.isin(kind, np.array(_KNOWN_TYPES[name])) | (flags & np.uint8(~_XFIELD_FLAGS & 0xFF) != 0)
    for (record, number), (allowed, size) in _XFIELDS.items():
        if record == name:
            here = kind == number
            wrong |= here & ~np.isin(flags, np.array(allowed))
            if size is not None:
                wrong |= here & (length != size)
    broken = np.bincount(owner, wrong, len(rows.row)) > 0
    rows.report(broken, "val", f"{name}: an extended field has a type, flags or a size that it cannot have")


@frozen
class _Data:
    """Data of extended fields: where those of each record begin, and lengths of each field, plain and padded."""

    start: NDArray[np.int64]
    length: NDArray[np.int64]
    padded: NDArray[np.int64]
    is_sound: NDArray[np.bool_]


def _check_padding(rows: _Rows, name: str, owner: NDArray[np.int64], data: _Data) -> None:
    """What fills a field up to eight bytes is zero."""
    # Data stand one after the other; those of one record begin behind its headers.
    ends = np.append(0, np.cumsum(data.padded))
    first = np.searchsorted(owner, np.arange(len(rows.row)))
    begin = data.start[owner] + ends[:-1] - ends[first][owner]
    gap = data.padded - data.length
    chosen = np.flatnonzero(data.is_sound[owner] & (gap > 0))
    item, step = owners(gap[chosen]), ordinals(gap[chosen])
    places = begin[chosen][item] + data.length[chosen][item] + step
    wrong = np.zeros(len(rows.row), bool)
    wrong[owner[chosen][item][rows.batch.buffer[places] != 0]] = True
    rows.report(wrong, "val", f"{name}: the padding of an extended field is not zero")
