"""Rules of the fields of records, whatever else they agree with: lengths, flags, reserved bytes, extended fields.

Apple File System Reference, File-System Objects, Extended Fields, Object Maps and Snapshot Metadata. Reading needs keys
and values to be long enough; here they are as long as they say themselves, and no longer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.filesystems.apfs.check.extended_fields import check_extended
from layoutscope.filesystems.apfs.check.inode_fields import FLAG, check_inodes
from layoutscope.filesystems.apfs.check.name_fields import IN_KEYS, check_names, check_texts
from layoutscope.filesystems.apfs.check.object_fields import OBSERVED, REFERENCE, RESERVED, UNKNOWN
from layoutscope.filesystems.apfs.check.rows import INVALID, CheckedRows, RowTraits
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
    CRYPTO_VAL,
    DREC_HASHED_KEY,
    DREC_VAL_FIXED,
    FILE_EXTENT_VAL,
    FILE_INFO_VAL,
    FREE_QUEUE_KEY,
    INODE_VAL_FIXED,
    J_KEY,
    OMAP_SNAPSHOT,
    OMAP_VAL,
    PHYS_EXT_VAL,
    SNAP_METADATA_VAL,
    XATTR_VAL,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.rows import RowTraits
    from layoutscope.filesystems.apfs.check.subject import InodeNotes, Subject
    from layoutscope.filesystems.apfs.store.btree import ReadNodes
    from layoutscope.filesystems.apfs.store.shapes import RecordShape
    from layoutscope.recordtypes import RecordColumn, RecordType

INODE, EXTENT, SNAPSHOT = INODE_VAL_FIXED, FILE_EXTENT_VAL, SNAP_METADATA_VAL.fixed
_NAMES: Final = {int(kind): kind.name for kind in grammar.ApfsRecord.RecordType}
KEY_STATE: Final = CRYPTO_VAL.fixed
_CRYPTO_VERSION: Final = 5
_CLASSES: Final = (0, 1, 2, 3, 4, 6, 14)
_PHYSICAL_TREE: Final = 0x40000002
_NAME_LENGTH: Final = 0x3FF
"""The part of a hashed directory key's number that is the length of the name."""


@frozen
class _Facts:
    """What is known of the records of a batch."""

    xid: int
    traits: RowTraits
    notes: InodeNotes | None = None
    has_size: NDArray[np.bool_] | None = None
    is_update: NDArray[np.bool_] | None = None

    def no_size(self) -> Want | None:
        has_size = self.has_size
        return None if has_size is None else Want(lambda found: (found == 0) | has_size, "0 without the flag for it")

    def no_key(self) -> Want | None:
        return ZERO if self.traits.is_plain else None

    def owner(self) -> Want | None:
        """New blocks name their first owner; a change of references to older ones names none."""
        is_update = self.is_update
        return (
            None
            if is_update is None
            else Want(
                lambda found: ((found == _NO_OWNER) == is_update) & ((found == _NO_OWNER) | self._is_number(found)),
                "of new blocks alone a number that was given",
            )
        )

    def _is_number(self, found: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Tell which are numbers of objects that the volume gave."""
        return (found >= _FIRST_NUMBER) & (found < np.uint64(self.traits.next_number))

    def past(self) -> Want:
        return Want(lambda found: (found > 0) & (found <= self.xid), f"1 to {self.xid}")


def _declared(*rows: Any, of: str) -> tuple[FieldRule[_Facts], ...]:
    return rules(INVALID, f"{REFERENCE}, {of}; {OBSERVED}", *rows, level="warning")


_INODE_FLAGS: Final = sum(int(flag) for flag in FLAG if flag != FLAG.flag_unused) | 0x0200_0000
"""The highest one is not in the reference; apfsck knows it, and macOS sets it with flags of what may be purged."""
_FIRST_NUMBER: Final = np.uint64(grammar.ApfsInode.InodeNumber.min_user)
_NO_OWNER: Final = 0xFFFF_FFFF_FFFF_FFFF
_UPDATE: Final = int(grammar.ApfsExtents.PhysExtKind.update)

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
            (PHYS_EXT_VAL.owning_obj_id, _Facts.owner, "an owner of no new blocks, or new blocks without one"),
            (PHYS_EXT_VAL.refcnt, NOT_ZERO, "nothing refers to it: it should be gone"),
            of="j_phys_ext_val_t",
        ),
    ),
    "crypto_state": (
        CRYPTO_VAL,
        _declared(
            (KEY_STATE.refcnt, NOT_ZERO, "nothing refers to it: it should be gone"),
            # Of the state that stands for software encryption, macOS writes no version.
            (KEY_STATE.major_version, one_of(0, _CRYPTO_VERSION), "the only version"),
            (KEY_STATE.minor_version, ZERO, "the only version"),
            (KEY_STATE.cpflags, ZERO, UNKNOWN),
            (KEY_STATE.persistent_class, one_of(*_CLASSES), "no class of protection"),
            of="j_crypto_val_t, wrapped_crypto_state_t",
        ),
    ),
    "file_info": (
        FILE_INFO_VAL,
        _declared(
            (FILE_INFO_VAL.fixed.num_hashed_blocks, NOT_ZERO, "a hash of no blocks"),
            (FILE_INFO_VAL.fixed.len_hash, NOT_ZERO, "no hash"),
            of="j_file_data_hash_val_t",
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


def check_records(subject: Subject, batch: ReadNodes, traits: RowTraits, notes: InodeNotes | None = None) -> None:
    """Hold the records of a batch against the rules of their fields."""
    source, slots = batch.tree.source, batch.slots
    if not len(slots):
        return
    facts = _Facts(subject.container.xid, traits, notes)
    if source.tree in FIXED_RULES and not batch.level:
        part, kind, declared = FIXED_RULES[source.tree]
        _hold(CheckedRows(subject, batch, np.arange(len(slots))), part, kind, declared, facts)
    elif source.kind.key_type is J_KEY:
        kinds = batch.column("key", J_KEY, J_KEY.record_type)
        for kind in np.unique(kinds).tolist():
            rows = CheckedRows(subject, batch, np.flatnonzero(kinds == kind))
            _check_kind(rows, _NAMES.get(kind, ""), facts)


def _hold(
    rows: CheckedRows, part: str, kind: RecordType, declared: tuple[FieldRule[_Facts], ...], facts: _Facts
) -> None:
    structures = Structures(kind, rows.batch.buffer, rows.starts(part), rows.batch.tree.source.decoder)
    check_fields(structures, declared, facts, rows.at(part), MOST_CASES)


def _check_kind(rows: CheckedRows, name: str, facts: _Facts) -> None:
    shape = SHAPES.get(name)
    if shape is None:
        return
    key_type = DREC_HASHED_KEY if name == "dir_rec" and facts.traits.hashed_names else shape.key_type
    long_enough = rows.lengths("key") >= key_type.width
    if not rows.batch.level:
        long_enough &= rows.lengths("val") >= shape.val_type.width
    rows = rows.take(long_enough)
    if not len(rows.row):
        return
    _check_length(rows, "key", name, key_type, shape.key_tail)
    if name in IN_KEYS:
        check_names(rows, name, key_type, facts.traits)
    if not rows.batch.level:
        _check_value(rows, name, shape, facts)


def _check_value(rows: CheckedRows, name: str, shape: RecordShape, facts: _Facts) -> None:
    fields = None
    if shape.has_xfields:
        fields = check_extended(rows, name, shape.val_type.width)
    else:
        _check_length(rows, "val", name, shape.val_type, shape.val_tail)
        check_texts(rows, name)
    if name == "inode":
        has_size = rows.column("val", INODE, INODE.has_uncompressed_size)
        facts = replace(facts, has_size=has_size.astype(bool))
        check_inodes(rows, fields, facts.notes, is_plain=facts.traits.is_plain)
    elif name == "extent":
        facts = replace(facts, is_update=rows.column("val", PHYS_EXT_VAL, PHYS_EXT_VAL.kind) == _UPDATE)
    if name in VALUE_RULES:
        _hold(rows, "val", *VALUE_RULES[name], facts)


def _check_length(rows: CheckedRows, part: str, name: str, kind: RecordType, tail: RecordColumn | None) -> None:
    """A key or value is as long as its fixed part, and what one of its fields says that follows."""
    expected = np.full(len(rows.row), kind.width, np.int64)
    if kind is DREC_HASHED_KEY:
        expected += rows.column(part, kind, DREC_HASHED_KEY.len_name_and_hash).astype(np.int64) & _NAME_LENGTH
    elif tail is not None:
        expected += rows.column(part, kind, tail).astype(np.int64)
    found = rows.lengths(part)
    what = "key" if part == "key" else "value"
    rows.report(found != expected, part, f"{name}: its {what} has another length than it says", (expected, found))
