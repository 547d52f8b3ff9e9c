"""Rules for single records: fixed fields, extended fields, names, flags of inodes.

Apple File System Reference, File-System Objects and Extended Fields. Rules that only apfsck has were confirmed on
volumes made by macOS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from msgspec.structs import replace

from layoutscope.checks.apfs.inodes import FIELD, FLAG, FORMAT, HAS_PURGEABLE_FLAGS
from layoutscope.checks.apfs.namehashes import hash_names, hash_texts
from layoutscope.checks.apfs.objects import OTHER_TYPE, PAST, PHYSICAL_TREE, RESERVED, UNKNOWN, expect_range
from layoutscope.checks.apfs.subject import locate_byte
from layoutscope.checks.engine import Table
from layoutscope.checks.fieldrules import NOT_ZERO, ZERO, Want, check_fields, one_of, only_bits, rules
from layoutscope.display import Struct
from layoutscope.filesystems.apfs.fsrecords import HASHED_DREC, SHAPES, find_tail, is_text, is_utf8
from layoutscope.structs import grammar, records
from layoutscope.structs.arrays import ordinals, owners
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.tables import TextColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.checks.apfs.subject import Notes, Subject
    from layoutscope.checks.fieldrules import FieldRule
    from layoutscope.filesystems.apfs.btree import ReadNodes
    from layoutscope.structs.arrays import I64, U8, Mask
    from layoutscope.structs.grammar import ApfsVolume
    from layoutscope.structs.recordtypes import Field, RecordColumn, RecordType

    Part = Literal["key", "val"]
    Superblock = ApfsVolume.ApfsSuperblock


INVALID: Final = "record-invalid"
INODE, EXTENT, ATTRIBUTE = records.INODE_VAL_FIXED, records.FILE_EXTENT_VAL, records.XATTR_VAL.fixed
SNAPSHOT, KEY_STATE, HASHES = records.SNAP_METADATA_VAL.fixed, records.CRYPTO_VAL.fixed, records.FILE_INFO_VAL.fixed
REFERENCE, ENTRY = records.PHYS_EXT_VAL, records.DREC_VAL_FIXED
LISTED, QUEUE_KEY = records.OMAP_SNAPSHOT, records.FREE_QUEUE_KEY
_NAMES: Final = {int(kind): kind.name for kind in grammar.ApfsRecord.RecordType}
_CLASSES: Final = (0, 1, 2, 3, 4, 6, 14)
_INODE_FLAGS: Final = sum(int(flag) for flag in FLAG if flag != FLAG.flag_unused) | HAS_PURGEABLE_FLAGS
X_FIELD, XF_BLOB_HEAD, DSTREAM = records.X_FIELD, records.XF_BLOB_HEAD, records.DSTREAM
_FIELD_FLAG: Final = grammar.ApfsXfields.FieldFlag
_KNOWN_TYPES: Final = {"inode": range(1, 18), "dir_rec": range(1, 2)}
_USER_AND_SYSTEM: Final = int(_FIELD_FLAG.user_field | _FIELD_FLAG.system_field)
_FIELD_FORMS: Final = {
    ("inode", 4): ((2,), None),
    ("inode", 8): ((0x20,), 40),
    ("inode", 10): ((0x22,), 8),
    ("inode", 13): ((0x28,), 8),
    ("inode", 14): ((0, 0x22), 4),
    ("dir_rec", 1): ((0, 2), 8),
}
"""Flags and size of extended fields by kind of record and type, as macOS and Linux write them."""
_UNASSIGNED: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_XATTR_FLAG: Final = grammar.ApfsXattr.XattrFlag
_MAX_EMBEDDED_BYTES: Final = 3804
"""Longest embedded value of an attribute (reference, XATTR_MAX_EMBEDDED_SIZE)."""

_MAX_NAME_BYTES: Final = 256
_FINDER_BYTES: Final = 32
_ONE_FORM: Final = Want(lambda found: np.isin(found & 3, (1, 2)) & (found & 0xFFE8 == 0), "a stream, or embedded")
_ONE_BLOCK: Final = Want(lambda found: found & ((1 << 60) - 1) != 0, "one block at least")
VALUE_RULES: Final[dict[str, tuple[FieldRule, ...]]] = {
    "inode": rules(
        INVALID,
        (INODE.pad1, ZERO, RESERVED),
        (INODE.default_protection_class, one_of(*_CLASSES), "no class of protection"),
        (INODE.internal_flags, only_bits(_INODE_FLAGS), UNKNOWN),
    ),
    "dir_rec": rules(INVALID, (ENTRY.flags, only_bits(0xF), UNKNOWN)),
    "file_extent": rules(INVALID, (EXTENT.len_and_flags, only_bits((1 << 57) - 1), UNKNOWN)),
    "xattr": rules(
        INVALID, (ATTRIBUTE.flags, _ONE_FORM, "not either in a stream or embedded, or bits that have no meaning")
    ),
    "extent": rules(
        INVALID,
        (REFERENCE.len_and_kind, Want(lambda found: np.isin(found >> 60, (1, 2)), "1 or 2"), "no such kind"),
        (REFERENCE.len_and_kind, _ONE_BLOCK, "an extent without blocks"),
        (REFERENCE.refcnt, NOT_ZERO, "nothing refers to it: it should be gone"),
    ),
    "crypto_state": rules(
        INVALID,
        (KEY_STATE.refcnt, NOT_ZERO, "nothing refers to it: it should be gone"),
        # macOS writes no version for the state of software encryption.
        (KEY_STATE.major_version, one_of(0, 5), "the only version"),
        (KEY_STATE.minor_version, ZERO, "the only version"),
        (KEY_STATE.cpflags, ZERO, UNKNOWN),
        (KEY_STATE.persistent_class, one_of(*_CLASSES), "no class of protection"),
    ),
    "file_info": rules(
        INVALID,
        (HASHES.num_hashed_blocks, NOT_ZERO, "a hash of no blocks"),
        (HASHES.len_hash, NOT_ZERO, "no hash"),
    ),
    "snap_metadata": rules(
        INVALID,
        (SNAPSHOT.extentref_tree_type, PHYSICAL_TREE, OTHER_TYPE),
        (SNAPSHOT.flags, only_bits(3), UNKNOWN),
        (SNAPSHOT.inum, NOT_ZERO, "no number"),
    ),
}
"""Rules of values by kind of record (reference, File-System Objects, Snapshot Metadata; apfsck)."""


def make_value_rules(rows: CheckedRows, volume: Superblock | None) -> tuple[FieldRule, ...]:
    """Return the rules for values of one kind, some of which depend on other fields of the record or on the volume."""
    name, own = rows.name, VALUE_RULES.get(rows.name, ())
    if name == "inode":
        has_size = rows.batch.column("val", INODE, INODE.has_uncompressed_size).astype(bool)
        want = Want(lambda found: (found == 0) | has_size, "0 without the flag for it")
        return (*own, *rules(INVALID, (INODE.len_uncompressed, want, "a size that the flags do not announce")))
    if name == "file_extent" and is_plain(volume):
        return (*own, *rules(INVALID, (EXTENT.crypto_id, ZERO, "a key in a volume that is not encrypted")))
    if name == "extent":
        # A reference to new blocks names their first owner; a change of an older reference names no owner.
        is_update = rows.batch.column("val", REFERENCE, REFERENCE.kind) == int(grammar.ApfsExtents.PhysExtKind.update)
        first, stop = grammar.ApfsInode.InodeNumber.min_user, 0 if volume is None else volume.next_obj_id
        want = Want(
            lambda found: np.where(
                is_update, found == _UNASSIGNED, (found >= np.uint64(first)) & (found < np.uint64(stop))
            ),
            "of new blocks alone a number that was given",
        )
        message = "an owner of no new blocks, or new blocks without one"
        return (*own, *rules(INVALID, (REFERENCE.owning_obj_id, want, message)))
    return own


def is_plain(volume: Superblock | None) -> bool:
    """Return whether a volume is neither encrypted nor sealed."""
    return volume is not None and bool(volume.is_unencrypted and not volume.is_sealed)


_MAPPED: Final = ("val", records.OMAP_VAL, rules(INVALID, (records.OMAP_VAL.flags, only_bits(0x1F), UNKNOWN)))


def make_tree_rules(xid: int) -> dict[str, tuple[str, RecordType, tuple[FieldRule, ...]]]:
    """Return the rules of trees with one kind of record (omap_val_t, omap_snapshot_t, spaceman_free_queue_key_t)."""
    reserved = (LISTED.pad, ZERO, RESERVED), (LISTED.oid, ZERO, RESERVED)
    return {
        "omap": _MAPPED,
        "container-omap": _MAPPED,
        "omap-snapshots": ("val", LISTED, rules(INVALID, (LISTED.flags, only_bits(3), UNKNOWN), *reserved)),
        "spaceman": ("key", QUEUE_KEY, rules(INVALID, (QUEUE_KEY.xid, expect_range(1, xid), PAST))),
    }


class CheckedRows(Struct, frozen=True):
    """Records of one kind in a batch."""

    subject: Subject  # the container under check
    batch: ReadNodes  # nodes of a tree, with these records alone
    name: str = ""  # of the kind, with which messages begin

    def __len__(self) -> int:
        return len(self.batch.slots)

    def starts(self, part: str) -> I64:
        """Return the start positions of keys or values in the batch."""
        starts: I64 = getattr(self.batch.slots, f"{part}_start")
        return starts

    def lengths(self, part: str) -> I64:
        """Return the lengths of keys or values in bytes, from the table of contents."""
        lengths: I64 = getattr(self.batch.slots, f"{part}_len").astype(np.int64)
        return lengths

    def take(self, chosen: Mask) -> CheckedRows:
        """Return some of the records."""
        return replace(self, batch=replace(self.batch, slots=self.batch.slots.take(chosen)))

    def check_fields(self, part: str, kind: RecordType, declared: tuple[FieldRule, ...]) -> None:
        """Check keys or values against the rules of their fields."""
        at = lambda _, byte: locate_byte(self.subject, self.batch, byte)  # noqa: E731
        check_fields(kind, self.batch.buffer, self.starts(part), declared, at)

    def report(
        self, wrong: Mask, part: str, message: str, sides: tuple[Any, Any] = ("", ""), field: Field | None = None
    ) -> None:
        """Report which of the records are wrong."""
        places = self.starts(part) + (0 if field is None else field.offset)
        at = lambda row, path: locate_byte(self.subject, self.batch, int(places[row])).within(path)  # noqa: E731
        expected, found = sides
        message = f"{self.name}: {message}"
        Table(at, INVALID, "warning").report(wrong, message, str(field or ""), expected=expected, found=found)

    def mark(self, places: I64) -> Mask:
        """Mark the records at some positions."""
        chosen = np.zeros(len(self), bool)
        chosen[places] = True
        return chosen


def check_records(subject: Subject, batch: ReadNodes, volume: Superblock | None, notes: Notes | None = None) -> None:
    """Check the records of a batch by the rules of their fields."""
    source, slots = batch.tree.source, batch.slots
    if not len(slots):
        return
    fixed = make_tree_rules(subject.container.xid).get(source.tree)
    if fixed is not None and not batch.level:
        part, kind, declared = fixed
        CheckedRows(subject, batch).check_fields(part, kind, declared)
    elif source.key_type is records.J_KEY:
        kinds = batch.column("key", records.J_KEY, records.J_KEY.record_type)
        for kind in np.unique(kinds).tolist():
            rows = CheckedRows(subject, batch, _NAMES.get(kind, ""))
            _check_kind(rows.take(kinds == kind), volume, notes)


def _check_kind(rows: CheckedRows, volume: Superblock | None, notes: Notes | None) -> None:
    name, shape = rows.name, SHAPES.get(rows.name)
    if shape is None:
        return
    if name == "dir_rec" and volume is not None and volume.has_hashed_names:
        shape = HASHED_DREC
    long_enough = rows.lengths("key") >= shape.key_type.width
    if not rows.batch.level:
        long_enough &= rows.lengths("val") >= shape.val_type.width
    rows = rows.take(long_enough)
    if not len(rows):
        return
    _check_length(rows, "key", shape.key_type, find_tail(shape, "key"))
    if find_tail(shape, "key") is not None:
        check_names(rows, shape.key_type, volume)
    if rows.batch.level:
        return
    if shape.cases:
        fields = check_extended(rows, shape.val_type.width)
        if name == "inode":
            check_inodes(rows, fields, notes, is_plain=is_plain(volume))
    else:
        _check_length(rows, "val", shape.val_type, find_tail(shape, "val"))
        if name in ("sibling_link", "snap_metadata"):
            start = rows.starts("val") + shape.val_type.width
            _check_ends(rows, "val", start, rows.starts("val") + rows.lengths("val"))
        elif name == "xattr":
            _check_attributes(rows)
    rows.check_fields("val", shape.val_type, make_value_rules(rows, volume))


def _check_length(rows: CheckedRows, part: Part, kind: RecordType, tail: RecordColumn | None) -> None:
    """Check that a key or value is as long as its fixed part plus the variable part, whose length a field gives."""
    expected = np.full(len(rows), kind.width, np.int64)
    if tail is not None:
        expected += rows.batch.column(part, kind, tail).astype(np.int64)
    found = rows.lengths(part)
    what = "key" if part == "key" else "value"
    rows.report(found != expected, part, f"its {what} has another length than it says", (expected, found))


class Extended(Struct, frozen=True):
    """Extended fields of records, one row per field."""

    owner: I64  # position of each field's record among those checked
    # kind, flags: as stored
    kind: U8
    flags: U8
    # start, length: position of the data in the batch, and its length in bytes without padding
    start: I64
    length: I64

    def select_kind(self, kind: int, least_bytes: int) -> I64:
        """Return the positions of fields of one type that are not too short."""
        return np.flatnonzero((self.kind == kind) & (self.length >= least_bytes))


def check_extended(every: CheckedRows, width: int) -> Extended:
    """Check the extended fields of records, and return those of records whose lengths are consistent."""
    buffer, size = every.batch.buffer, every.lengths("val") - width
    long_enough = size >= XF_BLOB_HEAD.width
    every.report((size > 0) & ~long_enough, "val", "its extended fields do not fill its value")
    rows, size = every.take(long_enough), size[long_enough]
    start = rows.starts("val") + width
    head = decode_columns(XF_BLOB_HEAD, buffer, start, (XF_BLOB_HEAD.num_exts, XF_BLOB_HEAD.used_data))
    count, used = head["num_exts"].astype(np.int64), head["used_data"].astype(np.int64)
    rows.report(count == 0, "val", "it announces extended fields, and has none")
    front = XF_BLOB_HEAD.width + count * X_FIELD.width
    wrong = front + used != size
    rows.report(wrong, "val", "its extended fields do not fill its value", (size - front, used))
    rows, start, count, used = rows.take(~wrong), start[~wrong], count[~wrong], used[~wrong]
    owner = owners(count)
    spots = start[owner] + XF_BLOB_HEAD.width + ordinals(count) * X_FIELD.width
    found = decode_columns(X_FIELD, buffer, spots, (X_FIELD.type, X_FIELD.flags, X_FIELD.len_data))
    length = found["len_data"].astype(np.int64)
    padded = -(-length // 8) * 8
    total = np.bincount(owner, padded, len(count)).astype(np.int64)
    if len(spots):
        message = "the lengths of its extended fields do not add up to what they use"
        rows.report(total != used, "val", message, (total, used))
    # The data of a record's fields is contiguous, and follows the descriptions of the fields.
    ends = np.append(0, np.cumsum(padded))
    begin = start[owner] + front[~wrong][owner] + ends[:-1] - ends[np.searchsorted(owner, owner)]
    sound = (total == used)[owner]
    place = np.flatnonzero(long_enough)[~wrong][owner]
    _check_types(every, Extended(place, found["type"], found["flags"], begin, length))
    fields = Extended(place[sound], found["type"][sound], found["flags"][sound], begin[sound], length[sound])
    _check_padding(every, fields, padded[sound] - length[sound])
    return fields


def _check_types(rows: CheckedRows, fields: Extended) -> None:
    name, kind, flags, length = rows.name, fields.kind, fields.flags, fields.length
    # The other flags are reserved.
    wrong = ~np.isin(kind, np.array(_KNOWN_TYPES[name])) | (flags & np.uint8(~0x3B & 0xFF) != 0)
    wrong |= flags & np.uint8(_USER_AND_SYSTEM) == _USER_AND_SYSTEM
    for (record, number), (allowed, size) in _FIELD_FORMS.items():
        if record == name:
            here = kind == number
            wrong |= here & ~np.isin(flags, np.array(allowed))
            if size is not None:
                wrong |= here & (length != size)
    message = "an extended field has a type, flags or a size that it cannot have"
    rows.report(rows.mark(fields.owner[wrong]), "val", message)
    order = np.lexsort((kind, fields.owner))
    again = (np.diff(fields.owner[order]) == 0) & (np.diff(kind[order].astype(np.int64)) == 0)
    rows.report(rows.mark(fields.owner[order][1:][again]), "val", "it has two extended fields of one type")


def _check_padding(rows: CheckedRows, fields: Extended, gap: I64) -> None:
    """Check that the padding of fields to eight bytes is zero."""
    chosen = np.flatnonzero(gap > 0)
    item, step = owners(gap[chosen]), ordinals(gap[chosen])
    places = fields.start[chosen][item] + fields.length[chosen][item] + step
    wrong = fields.owner[chosen][item][rows.batch.buffer[places] != 0]
    rows.report(rows.mark(wrong), "val", "the padding of an extended field is not zero")


def check_inodes(rows: CheckedRows, fields: Extended, notes: Notes | None, *, is_plain: bool) -> None:
    """Compare the flags, kind and numbers of inodes with their extended fields."""
    found = rows.batch.columns("val", INODE, (INODE.internal_flags, INODE.mode, INODE.private_id))
    flags, form = found[INODE.internal_flags], found[INODE.mode] & 0xF000
    number = rows.batch.column("key", records.J_KEY, records.J_KEY.obj_id)
    kinds = np.zeros(len(rows), np.uint32)
    np.bitwise_or.at(kinds, fields.owner, np.uint32(1) << (fields.kind & 31).astype(np.uint32))
    at = INODE.internal_flags
    # Flags that imply an extended field.
    for flag, kind, what in (
        (int(FLAG.maintain_dir_stats), int(FIELD.dir_stats_key), "statistics of the directory"),
        (int(FLAG.is_sparse), int(FIELD.sparse_bytes), "a count of sparse bytes"),
        (HAS_PURGEABLE_FLAGS, int(FIELD.purgeable_flags), "flags of what may be purged"),
    ):
        wrong = (flags & flag != 0) != (kinds >> np.uint32(kind) & np.uint32(1) != 0)
        rows.report(wrong, "val", f"flags and extended fields disagree about {what}", field=at)
    for first, second, message in (
        (int(FLAG.has_rsrc_fork), int(FLAG.no_rsrc_fork), "it has a resource fork, and has none"),
        (int(FLAG.pinned_to_main), int(FLAG.pinned_to_tier2), "it is pinned to both devices"),
    ):
        rows.report((flags & first != 0) & (flags & second != 0), "val", message, field=at)
    wrong = (flags & int(FLAG.dir_stats_origin) != 0) & (flags & int(FLAG.maintain_dir_stats) == 0)
    rows.report(wrong, "val", "statistics begin here that it does not keep", field=at)
    has = {kind: kinds >> np.uint32(kind) & np.uint32(1) != 0 for kind in map(int, FIELD)}
    wrong = np.isin(form, (int(FORMAT.char_device), int(FORMAT.block_device))) != has[int(FIELD.rdev)]
    rows.report(wrong, "val", "a device's number is there without a device, or a device without it")
    wrong = has[int(FIELD.dstream)] & (form != int(FORMAT.file))
    rows.report(wrong, "val", "it has a data stream, but is not a regular file")
    wrong = (found[INODE.private_id] != number) & (flags & int(FLAG.was_cloned | FLAG.was_ever_cloned) == 0)
    sides = (number, found[INODE.private_id])
    rows.report(wrong, "val", "it has the stream of another, but is not a clone", sides, INODE.private_id)
    # Streams have keys only in encrypted volumes; a clone may have no key yet.
    chosen = fields.select_kind(int(FIELD.dstream), DSTREAM.width)
    key = decode_column(DSTREAM, rows.batch.buffer, fields.start[chosen], DSTREAM.default_crypto_id)
    is_clone = flags[fields.owner[chosen]] & int(FLAG.was_cloned) != 0
    wrong = (key == _UNASSIGNED) & ~is_clone | is_plain & (key != 0) & (key != _UNASSIGNED)
    rows.report(rows.mark(fields.owner[chosen[wrong]]), "val", "its stream has a key that it cannot have")
    sparse, name = _read_sparse_and_names(rows, fields)
    if notes is not None:
        columns = {"obj_id": number, "flags": flags, "kinds": kinds, "sparse": sparse, "name": name}
        for column, values in columns.items():
            notes.setdefault(column, []).append(values)


def _read_sparse_and_names(rows: CheckedRows, fields: Extended) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the sparse bytes and the hashes of names, and check that names end with a zero byte."""
    buffer = rows.batch.buffer
    sparse, name = np.zeros(len(rows), np.uint64), np.zeros(len(rows), np.uint64)
    hole = records.SPARSE_BYTES
    chosen = fields.select_kind(int(FIELD.sparse_bytes), hole.width)
    sparse[fields.owner[chosen]] = decode_column(hole, buffer, fields.start[chosen], hole.num_bytes)
    chosen = fields.select_kind(int(FIELD.entry_name), 1)
    ends = buffer[fields.start[chosen] + fields.length[chosen] - 1] == 0
    rows.report(rows.mark(fields.owner[chosen[~ends]]), "val", "its name does not end with a zero byte")
    chosen = chosen[ends]
    name[fields.owner[chosen]] = hash_texts(buffer, fields.start[chosen], fields.length[chosen] - 1)
    return sparse, name


def check_names(rows: CheckedRows, kind: RecordType, volume: ApfsVolume.ApfsSuperblock | None) -> None:
    """Check the names in keys of one kind."""
    start, stop = rows.starts("key") + kind.width, rows.starts("key") + rows.lengths("key")
    _check_ends(rows, "key", start, stop)
    if rows.name == "xattr":
        rows.report(stop - start > _MAX_NAME_BYTES, "key", "its name is longer than any may be")
    elif rows.name == "dir_rec" and volume is not None and volume.has_hashed_names and rows.batch.level:
        # Keys of leaves are compared with all names of the volume.
        _check_hashes(rows, start, stop, folded=bool(volume.is_case_insensitive))


def _check_ends(rows: CheckedRows, part: str, start: I64, stop: I64) -> None:
    """Check that the first zero byte of each name is at its end."""
    zeros = np.flatnonzero(rows.batch.buffer == 0)
    spot = np.minimum(np.searchsorted(zeros, start), max(len(zeros) - 1, 0))
    wrong = (stop <= start) | (zeros[spot] != stop - 1 if len(zeros) else np.ones(len(start), bool))
    rows.report(wrong, part, "its name does not end with its first zero byte")


def _check_hashes(rows: CheckedRows, start: I64, stop: I64, *, folded: bool) -> None:
    buffer, length = rows.batch.buffer, np.maximum(stop - start - 1, 0)
    data = [buffer[first : first + size] for first, size in zip(start.tolist(), length.tolist(), strict=True)]
    names = TextColumn(np.concatenate(data), length)
    found, known = hash_names(names, folded=folded)
    stored = rows.batch.column("key", records.DREC_HASHED_KEY, records.DREC_HASHED_KEY.name_hash)
    message = "the hash in an index is not that of its name"
    rows.report(known & (found != stored), "key", message, (found, stored))
    if not is_text(names):
        wrong = np.array([not is_utf8(raw) for raw in names.raw()])
        rows.report(wrong, "key", "a name in an index is not UTF-8")


def _check_attributes(rows: CheckedRows) -> None:
    fields = ATTRIBUTE.flags, ATTRIBUTE.len_xdata
    flags, size = rows.batch.columns("val", records.XATTR_VAL, fields).values()
    is_stream = flags & np.uint16(_XATTR_FLAG.data_stream) != 0
    wrong = is_stream & (size != records.XATTR_DSTREAM.width) | ~is_stream & (size > _MAX_EMBEDDED_BYTES)
    rows.report(wrong, "val", "more data than it may embed, or no stream", field=ATTRIBUTE.len_xdata)
    head = records.XATTR_KEY.width
    start, length = rows.starts("key") + head, rows.lengths("key") - head - 1
    for name, is_system in (
        (b"com.apple.fs.symlink", True),
        (b"com.apple.ResourceFork", False),
        (b"com.apple.system.Security", False),
        (b"com.apple.FinderInfo", False),
        (b"com.apple.decmpfs", False),
    ):
        here = np.flatnonzero(length == len(name))
        here = here[(rows.batch.buffer[start[here][:, None] + np.arange(len(name))] == list(name)).all(axis=1)]
        is_owned = flags & np.uint16(_XATTR_FLAG.file_system_owned) != 0
        wrong = rows.mark(here) & (is_owned != is_system)
        rows.report(wrong, "val", "it belongs to the file system or not, against its name", field=ATTRIBUTE.flags)
        if name == b"com.apple.FinderInfo":
            wrong = rows.mark(here) & ~is_stream & (size != _FINDER_BYTES)
            rows.report(wrong, "val", "information of the Finder has 32 bytes", field=ATTRIBUTE.len_xdata)
