"""Records of a volume against each other, beyond what a scan compares: hard links, streams, directories.

Apple File System Reference, File-System Objects, Sibling Map Keys and Data Streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from msgspec import field
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.filesystems.apfs.btree import decode_children, level_of_disorder, read_levels
from layoutscope.filesystems.apfs.check.extents import snapshot_sources
from layoutscope.filesystems.apfs.check.inodes import FLAG, check_extended, check_inodes
from layoutscope.filesystems.apfs.check.names import IN_KEYS, check_names, check_texts
from layoutscope.filesystems.apfs.check.nodes import TreeNodes
from layoutscope.filesystems.apfs.check.objects import OBSERVED, REFERENCE, RESERVED, UNKNOWN
from layoutscope.filesystems.apfs.check.subject import (
    INVALID,
    MAX_CASES,
    CheckedRows,
    InodeNotes,
    container_sources,
    traits_of,
    volume_sources,
)
from layoutscope.filesystems.apfs.fsrecords import SHAPES
from layoutscope.filesystems.apfs.source import low_keys
from layoutscope.structs import grammar, records
from layoutscope.structs.arrays import Index, index_of, match
from layoutscope.structs.bulk import decode_column
from layoutscope.structs.fieldrules import (
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
from layoutscope.structs.records import (
    BTREE_NODE,
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

    from layoutscope.filesystems.apfs.btree import ReadNodes
    from layoutscope.filesystems.apfs.check.subject import RowTraits, Subject
    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.filesystems.apfs.fsrecords import Columns, RecordShape
    from layoutscope.filesystems.apfs.source import TreeSource
    from layoutscope.filesystems.apfs.volume import Volume
    from layoutscope.findings import FindingLog, Level
    from layoutscope.structs.recordtypes import RecordColumn, RecordType


MAX_DEPTH: Final = 64
"""Steps of doubling length: more than any chain of directories needs."""


def check_entries(subject: Subject) -> None:
    """Every directory entry leads to an inode."""
    for parts in subject.whole:
        inodes, drecs = parts.fs.records.get("inode"), parts.fs.records.get("dir_rec")
        if "file_id" in drecs:
            wrong = ~match(inodes["obj_id"], drecs["file_id"])[1]
            report, field, found = subject.records(parts), "val.drec_val_fixed.file_id", drecs["file_id"]
            message, what = "its inode does not exist", "entry of directory"
            report.cases(wrong, drecs, what, "inode-missing", message, field, level="error", found=found)


def check_sibling_links(subject: Subject) -> None:
    """Every hard link's record has its counterpart by its own number, and directory entries name links that exist."""
    for parts in subject.whole:
        records, report = parts.fs.records, subject.records(parts)
        links, maps, drecs = records.get("sibling_link"), records.get("sibling_map"), records.get("dir_rec")
        known = np.sort(links["sibling_id"]) if "sibling_id" in links else np.empty(0, np.uint64)
        code = "record-differs"
        if "sibling_id" in links:
            wrong = ~match(maps["obj_id"], links["sibling_id"])[1]
            field, message = "key.sibling_key.sibling_id", "no record leads from its number to its inode"
            # Pre-releases of macOS 10.13 wrote none of these records.
            level: Level = "warning" if len(maps["obj_id"]) else "info"
            report.cases(wrong, links, "hard link of inode", code, message, field, level=level)
        if "sibling_id" in drecs:
            wrong = (drecs["sibling_id"] != 0) & ~match(known, drecs["sibling_id"])[1]
            message, field = "it names a hard link that does not exist", "val.drec_val_fixed.file_id"
            report.cases(wrong, drecs, "entry of directory", code, message, field, found=drecs["sibling_id"])


def check_stream_sizes(subject: Subject) -> None:
    """Streams are no longer than their extents, and as long as those say that they are allocated."""
    for parts in subject.whole:
        inodes, extents = parts.fs.records.get("inode"), parts.file_extents()
        if "has_dstream" not in inodes or parts.state.superblock.is_sealed:
            continue
        # Extents are filed under the number of their stream, which need not be that of the inode (reference,
        # private_id).
        numbers, ends = _ends(extents)
        spot, found = match(numbers, inodes["private_id"])
        allocated = np.where(found, ends[spot], 0) if len(ends) else np.zeros(len(found), np.uint64)
        has, room, code = inodes["has_dstream"], inodes["alloced_size"], "count-differs"
        report, field = subject.records(parts), "val.inode_val_fixed.private_id"
        message = "its extents hold other bytes than its stream allocates"
        report.cases(has & (room != allocated), inodes, "inode", code, message, field, expected=room, found=allocated)
        message, size = "its stream is longer than what it allocates", inodes["data_size"]
        # A file whose contents a file provider took away keeps its size, and allocates nothing.
        wrong = has & (size > room) & ~inodes["is_dataless"]
        report.cases(wrong, inodes, "inode", code, message, field, expected=room, found=size)


def _ends(extents: Columns) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Where the last extent of each stream ends, in bytes."""
    if not len(extents["obj_id"]):
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    last = np.flatnonzero(extents["obj_id"] != np.append(extents["obj_id"][1:], np.uint64(0)))
    ends = extents["logical_addr"] + extents["len_extent"]
    return extents["obj_id"][last], ends[last]


def check_directories(subject: Subject) -> None:
    """Every directory leads up to the root: none is its own ancestor."""
    numbers = grammar.ApfsInode.InodeNumber
    for parts in subject.whole:
        inodes = parts.fs.records.get("inode")
        if "format" not in inodes:
            continue
        rows = np.flatnonzero(inodes["format"] == int(grammar.ApfsInode.ModeFormat.directory))
        own, parent = inodes["obj_id"][rows], inodes["parent_id"][rows]
        up, known = match(own, parent)
        top = len(own)
        step = np.append(np.where(known, up, top), top)
        for _ in range(MAX_DEPTH):
            if (step == top).all():
                break
            step = step[step]
        wrong = np.zeros(len(inodes["obj_id"]), bool)
        wrong[rows[step[:-1] != top]] = True
        field, message = "val.inode_val_fixed.parent_id", "it lies in a directory that lies in it"
        report = subject.records(parts)
        report.cases(wrong, inodes, "directory", "record-differs", message, field)
        _check_root(subject, parts, int(numbers.root_dir))


def _check_root(subject: Subject, parts: VolumeParts, root: int) -> None:
    inodes = parts.fs.records.get("inode")
    if not match(inodes["obj_id"], np.array([root], np.uint64))[1][0]:
        log = subject.log.at(f"inode {root}", parts.state.paddr)
        log.add("record-differs", "error", "there is no root directory")


def check_lost_inodes(subject: Subject) -> None:
    """Records belong to an inode: none is left of a file that is gone."""
    for parts in subject.whole:
        records, report = parts.fs.records, subject.records(parts)
        inodes = records.get("inode")["obj_id"]
        for kind, key in (("xattr", "xattr_key"), ("dir_rec", "drec_key"), ("sibling_link", "sibling_key")):
            table = records.get(kind)
            # Directory 1 has the entries of the root and of the private directory, but no inode of its own.
            wrong = ~match(inodes, table["obj_id"])[1] & (
                table["obj_id"] != int(grammar.ApfsInode.InodeNumber.root_dir_parent)
            )
            message = "the inode that it belongs to does not exist"
            report.cases(wrong, table, f"{kind} of inode", "record-differs", message, f"key.{key}.hdr")
        attributes = records.get("xattr")
        streams = records.get("dstream_id")["obj_id"]
        if "stream_id" in attributes:
            streams = np.sort(np.concatenate([streams, attributes["stream_id"]]))
        extents = parts.file_extents()
        wrong = ~match(streams, extents["obj_id"])[1]
        message, field = "the stream that it belongs to does not exist", "key.file_extent_key.hdr"
        # On a sealed volume they lie in a tree of their own.
        subject.extents(parts).cases(wrong, extents, "extent of data stream", "record-differs", message, field)


INODE, EXTENT, SNAPSHOT = INODE_VAL_FIXED, FILE_EXTENT_VAL, SNAP_METADATA_VAL.fixed
_NAMES: Final = {int(kind): kind.name for kind in grammar.ApfsRecord.RecordType}
KEY_STATE: Final = CRYPTO_VAL.fixed
_CRYPTO_VERSION: Final = 5
_CLASSES: Final = (0, 1, 2, 3, 4, 6, 14)
_PHYSICAL_TREE: Final = 0x40000002
_NAME_LENGTH: Final = 0x3FF
"""The part of a hashed directory key's number that is the length of the name."""


class _Facts(Struct, frozen=True):
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


def _list_field_rules(*rows: Any, of: str) -> tuple[FieldRule[_Facts], ...]:
    return rules(INVALID, f"{REFERENCE}, {of}; {OBSERVED}", *rows, level="warning")


_INODE_FLAGS: Final = sum(int(flag) for flag in FLAG if flag != FLAG.flag_unused) | 0x0200_0000
"""The highest one is not in the reference; apfsck knows it, and macOS sets it with flags of what may be purged."""
_FIRST_NUMBER: Final = np.uint64(grammar.ApfsInode.InodeNumber.min_user)
_NO_OWNER: Final = 0xFFFF_FFFF_FFFF_FFFF
_UPDATE: Final = int(grammar.ApfsExtents.PhysExtKind.update)

VALUE_RULES: Final[dict[str, tuple[RecordType, tuple[FieldRule[_Facts], ...]]]] = {
    "inode": (
        INODE,
        _list_field_rules(
            (INODE.pad1, ZERO, RESERVED),
            (INODE.default_protection_class, one_of(*_CLASSES), "no class of protection"),
            (INODE.internal_flags, only_bits(_INODE_FLAGS), UNKNOWN),
            (INODE.len_uncompressed, _Facts.no_size, "a size that the flags do not announce"),
            of="j_inode_val_t",
        ),
    ),
    "dir_rec": (DREC_VAL_FIXED, _list_field_rules((DREC_VAL_FIXED.flags, only_bits(0xF), UNKNOWN), of="j_drec_val_t")),
    "file_extent": (
        EXTENT,
        _list_field_rules(
            (EXTENT.len_and_flags, only_bits((1 << 57) - 1), UNKNOWN),
            (EXTENT.crypto_id, _Facts.no_key, "a key in a volume that is not encrypted"),
            of="j_file_extent_val_t",
        ),
    ),
    "xattr": (
        XATTR_VAL,
        _list_field_rules(
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
        _list_field_rules(
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
        _list_field_rules(
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
        _list_field_rules(
            (FILE_INFO_VAL.fixed.num_hashed_blocks, NOT_ZERO, "a hash of no blocks"),
            (FILE_INFO_VAL.fixed.len_hash, NOT_ZERO, "no hash"),
            of="j_file_data_hash_val_t",
        ),
    ),
    "snap_metadata": (
        SNAP_METADATA_VAL,
        _list_field_rules(
            (SNAPSHOT.extentref_tree_type, equals(_PHYSICAL_TREE), "another type or storage than that of its tree"),
            (SNAPSHOT.flags, only_bits(3), UNKNOWN),
            (SNAPSHOT.inum, NOT_ZERO, "no number"),
            of="j_snap_metadata_val_t",
        ),
    ),
}
"""Rules of values by the kind of record."""

FIXED_RULES: Final[dict[str, tuple[str, RecordType, tuple[FieldRule[_Facts], ...]]]] = {
    "omap": ("val", OMAP_VAL, _list_field_rules((OMAP_VAL.flags, only_bits(0x1F), UNKNOWN), of="omap_val_t")),
    "container-omap": ("val", OMAP_VAL, _list_field_rules((OMAP_VAL.flags, only_bits(0x1F), UNKNOWN), of="omap_val_t")),
    "omap-snapshots": (
        "val",
        OMAP_SNAPSHOT,
        _list_field_rules(
            (OMAP_SNAPSHOT.flags, only_bits(3), UNKNOWN),
            (OMAP_SNAPSHOT.pad, ZERO, RESERVED),
            (OMAP_SNAPSHOT.oid, ZERO, RESERVED),
            of="omap_snapshot_t",
        ),
    ),
    "spaceman": (
        "key",
        FREE_QUEUE_KEY,
        _list_field_rules(
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
        _apply_rules(CheckedRows(subject, batch, np.arange(len(slots))), part, kind, declared, facts)
    elif source.kind.key_type is J_KEY:
        kinds = batch.column("key", J_KEY, J_KEY.record_type)
        for kind in np.unique(kinds).tolist():
            rows = CheckedRows(subject, batch, np.flatnonzero(kinds == kind))
            _check_kind(rows, _NAMES.get(kind, ""), facts)


def _apply_rules(
    rows: CheckedRows, part: str, kind: RecordType, declared: tuple[FieldRule[_Facts], ...], facts: _Facts
) -> None:
    structures = Structures(kind, rows.batch.buffer, rows.starts(part))
    check_fields(structures, declared, facts, rows.at(part), MAX_CASES)


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
        _apply_rules(rows, "val", *VALUE_RULES[name], facts)


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


UNORDERED: Final = "keys-unordered"
RECORD: Final = grammar.ApfsRecord.RecordType
SECOND: Final = {
    "omap": records.OMAP_KEY.xid,
    "container-omap": records.OMAP_KEY.xid,
    "spaceman": records.FREE_QUEUE_KEY.paddr,
    "fext": records.FEXT_KEY.logical_addr,
}
"""The field that decides where the leading one is the same, in trees of one kind of record."""

NUMBERED: Final[dict[str, tuple[RecordType, RecordColumn]]] = {
    "file_extent": (records.FILE_EXTENT_KEY, records.FILE_EXTENT_KEY.logical_addr),
    "sibling_link": (records.SIBLING_KEY, records.SIBLING_KEY.sibling_id),
    "file_info": (records.FILE_INFO_KEY, records.FILE_INFO_KEY.lba),
}
"""The same for records of volumes."""

NAMED: Final = {"xattr": records.XATTR_KEY, "snap_name": records.SNAP_NAME_KEY, "dir_rec": records.DREC_KEY}
"""Records whose keys end with a name."""


class WholeKeys(NamedTuple):
    """Keys of consecutive records: two numbers that sort as the tree does, where the rest is, and each one's address.

    `name` is the place of the name in the buffer, `stop` where the key ends; equal where there is none. `child` is the
    node that an index record leads to.
    """

    lead: NDArray[np.uint64]
    second: NDArray[np.uint64]
    name: NDArray[np.int64]
    stop: NDArray[np.int64]
    image_offset: NDArray[np.int64]
    child: NDArray[np.uint64]


class BoundedLevel(Struct):
    """Keys of one level of a tree: those of the level above with the nodes that they lead to, and what was seen."""

    above: WholeKeys | None = None
    children: Index = field(default_factory=lambda: index_of(np.empty(0, np.uint64)))
    own: list[WholeKeys] = field(default_factory=list)
    number: int = -1
    last: tuple[int, int, bytes] | None = None

    def enter(self, number: int) -> None:
        """Go down to a level."""
        if number != self.number:
            if self.own:
                self.above = WholeKeys(*(np.concatenate(column) for column in zip(*self.own, strict=True)))
                self.children = index_of(self.above.child)
            self.own, self.number, self.last = [], number, None


def check_container_keys(subject: Subject) -> None:
    """Compare all keys of the container's own trees."""
    for source in container_sources(subject):
        check_tree(subject, source)


def check_keys(subject: Subject) -> None:
    """Compare all keys of a volume's trees."""
    for parts in subject.volumes:
        for source in volume_sources(subject, parts):
            check_tree(
                subject, source, parts.state, notes=_notes(subject, parts, parts.view) if source.tree == "fs" else None
            )
        # States of a volume share most of their leaves; each is looked at once.
        known = parts.fs.nodes.paddr
        for view, state, source in snapshot_sources(subject, parts):
            check_tree(subject, source, state, known=known, notes=_notes(subject, parts, view))
            known = np.union1d(known, parts.views[view].paddr)


def _notes(subject: Subject, parts: VolumeParts, view: str) -> InodeNotes:
    return subject.inodes.setdefault((parts.state.number, view), InodeNotes())


def check_tree(
    # the container under check; its log is told which keys are out of order and which nodes are empty
    subject: Subject,
    source: TreeSource,
    state: Volume | None = None,
    known: NDArray[np.uint64] | None = None,
    notes: InodeNotes | None = None,
) -> None:
    """Compare the keys of one tree, level by level."""
    traits = traits_of(state)
    level, nodes = BoundedLevel(), TreeNodes(subject)
    for batch in read_levels(source, known=known):
        level.enter(batch.level)
        keys = whole_keys(batch, hashed_names=traits.hashed_names)
        _check_order(subject, batch, keys, level)
        _check_bounds(subject, batch, keys, level)
        _check_empty(subject, batch)
        nodes.add(batch)
        check_records(subject, batch, traits, notes)
        if batch.level:
            level.own.append(keys)
        if len(keys.lead):
            level.last = _whole(batch.buffer, keys, -1)
    nodes.close()


def whole_keys(batch: ReadNodes, *, hashed_names: bool) -> WholeKeys:
    """Decode the keys of a batch of nodes."""
    source, slots = batch.tree.source, batch.slots
    # Whole keys do not sort by their bytes: numbers are little-endian, and the type of a record stands above its
    # object's number in one field, but counts after it (reference, j_key_t).
    lead = low_keys(source, batch.buffer, slots.key_start)
    second, name = np.zeros(len(slots), np.uint64), slots.key_start + slots.key_len
    if source.kind.key_type is records.J_KEY:
        _volume_keys(batch, second, name, hashed_names=hashed_names)
    elif source.tree in SECOND:
        second = batch.column("key", source.kind.key_type, SECOND[source.tree])
    within = slots.key_start - slots.node * batch.size_bytes
    where = source.blocks.image_offset(batch.places.paddr[slots.node]) + within
    child = np.zeros(len(slots), np.uint64)
    if batch.level:
        child[slots.val_len >= batch.tree.shape.sizes.child] = decode_children(batch)[1]
    return WholeKeys(lead, second, name, slots.key_start + slots.key_len, where, child)


def _volume_keys(batch: ReadNodes, second: NDArray[np.uint64], name: NDArray[np.int64], *, hashed_names: bool) -> None:
    """Fill in what follows object and type in keys of file-system records."""
    slots = batch.slots
    kinds = batch.column("key", records.J_KEY, records.J_KEY.record_type)
    forms = dict(NUMBERED)
    if hashed_names:
        # The length in the lower bits does not count, neither for linux-apfs-rw nor for apfsck.
        forms["dir_rec"] = (records.DREC_HASHED_KEY, records.DREC_HASHED_KEY.name_hash)
    for record, (key_type, column) in forms.items():
        rows = _choose_kind(kinds, slots.key_len, record, key_type)
        second[rows] = decode_column(key_type, batch.buffer, slots.key_start[rows], column)
    for record, plain in NAMED.items():
        form = records.DREC_HASHED_KEY if record in forms else plain
        rows = _choose_kind(kinds, slots.key_len, record, form)
        name[rows] = slots.key_start[rows] + form.width


def _choose_kind(
    kinds: NDArray[np.uint64], length: NDArray[np.int32], record: str, key_type: RecordType
) -> NDArray[np.int64]:
    return np.flatnonzero((kinds == int(RECORD[record])) & (length >= key_type.width))


def _whole(buffer: NDArray[np.uint8], keys: WholeKeys, row: int) -> tuple[int, int, bytes]:
    name = buffer[int(keys.name[row]) : int(keys.stop[row])].tobytes()
    return int(keys.lead[row]), int(keys.second[row]), name


def _check_order(subject: Subject, batch: ReadNodes, keys: WholeKeys, level: BoundedLevel) -> None:
    """Each key comes after the one before it."""
    if not len(keys.lead):
        return
    before, after = (keys.lead[:-1], keys.second[:-1]), (keys.lead[1:], keys.second[1:])
    same = (before[0] == after[0]) & (before[1] == after[1])
    wrong = (after[0] < before[0]) | ((after[0] == before[0]) & (after[1] < before[1]))
    pairs = [(row + 1, _whole(batch.buffer, keys, row), _whole(batch.buffer, keys, row + 1)) for row in _rows(same)]
    if level.last is not None:
        pairs.insert(0, (0, level.last, _whole(batch.buffer, keys, 0)))
    rows = sorted(
        {row + 1 for row in _rows(wrong)} | {row for row, *both in pairs if _falls(batch.tree.source.tree, *both)}
    )
    for row in rows[:MAX_CASES]:
        _locate_key(subject, batch, row).add(
            UNORDERED, level_of_disorder(batch.tree.source.tree), "key is out of order"
        )
    ties = [row for row, one, other in pairs if one[:2] == other[:2] and other[2] < one[2] and row not in rows]
    for row in ties[:MAX_CASES]:
        message = "of names with one hash, this one stands after one with greater bytes"
        _locate_key(subject, batch, row).add(UNORDERED, "info", message)


def _rows(chosen: NDArray[np.bool_]) -> list[int]:
    return np.flatnonzero(chosen).tolist()


def _falls(tree: str, one: tuple[int, int, bytes], other: tuple[int, int, bytes]) -> bool:
    """Tell whether a key is not after the one before it.

    Names of one hash may stand in any order: apfsck asks for that of their bytes, while linux-apfs-rw leaves them as
    they were created and finds them by the hash alone. What macOS does is not documented.
    """
    is_hashed = one[1] != 0 or tree not in {"fs", "snapmeta"}
    return other == one if is_hashed and other[:2] == one[:2] else other <= one


def _check_bounds(subject: Subject, batch: ReadNodes, keys: WholeKeys, level: BoundedLevel) -> None:
    """The first key of a node is not before the key that leads to it."""
    if level.above is None:
        return
    lead, second, where = level.above.lead, level.above.second, level.above.image_offset
    firsts = np.flatnonzero(np.diff(batch.slots.node, prepend=-1) != 0)
    node = batch.slots.node[firsts]
    entry, known = level.children.find(batch.places.node_id[node])
    known &= lead[entry] == batch.places.low_key[node]
    firsts, node, entry = firsts[known], node[known], entry[known]
    wrong = (keys.lead[firsts] < lead[entry]) | (
        (keys.lead[firsts] == lead[entry]) & (keys.second[firsts] < second[entry])
    )
    # Drivers keep the keys of an index exact (apfsck asks for that), though a search needs no more than a bound.
    other = ~wrong & ((keys.lead[firsts] != lead[entry]) | (keys.second[firsts] != second[entry]))
    for chosen, how_bad, message in (
        (wrong, level_of_disorder(batch.tree.source.tree), "the key that leads to it is after its first key"),
        (other, "warning", "the key that leads to it is not its first key"),
    ):
        for number, row in zip(node[chosen].tolist(), entry[chosen].tolist(), strict=True):
            log = batch.at(number, log=subject.log)
            # The finding is about the node; the key that may be wrong stands in its parent.
            at = log.at_byte(log.structure, int(where[row]), log.device)
            at.add(UNORDERED, how_bad, message)


def _check_empty(subject: Subject, batch: ReadNodes) -> None:
    """No node but a root is empty: a driver gives it back."""
    wrong = batch.check.is_sound & (batch.head["num_keys"] == 0) & (batch.places.parent >= 0)
    for number in np.flatnonzero(wrong)[:MAX_CASES].tolist():
        at = number * batch.size_bytes + BTREE_NODE.num_keys.offset
        log = batch.at(number, at, log=subject.log)
        log.add("node-header-differs", "error", "a node that is no root is empty")


def _locate_key(subject: Subject, batch: ReadNodes, row: int) -> FindingLog:
    return batch.at(int(batch.slots.node[row]), int(batch.slots.key_start[row]), log=subject.log)
