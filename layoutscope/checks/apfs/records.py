"""Comparison of a volume's records with each other, beyond that of a scan: hard links, streams, directories.

Apple File System Reference, File-System Objects, Sibling Map Keys and Data Streams.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.checks.apfs.btree import TreeNodes
from layoutscope.checks.apfs.extents import list_snapshot_sources
from layoutscope.checks.apfs.inodes import FLAG, check_extended, check_inodes
from layoutscope.checks.apfs.names import KEY_NAMES, check_names, check_texts
from layoutscope.checks.apfs.objects import OTHER_TYPE, PAST, PHYSICAL_TREE, RESERVED, UNKNOWN, expect_past
from layoutscope.checks.apfs.subject import INVALID, CheckedRows, list_container_sources, list_volume_sources
from layoutscope.checks.fieldrules import NOT_ZERO, ZERO, Want, check_fields, one_of, only_bits, rules
from layoutscope.filesystems.apfs.btree import decode_children, level_of_disorder, read_levels
from layoutscope.filesystems.apfs.fsrecords import SHAPES
from layoutscope.filesystems.apfs.source import low_keys
from layoutscope.findings import MAX_CASES
from layoutscope.structs import grammar, records
from layoutscope.structs.arrays import Index, index_of, match
from layoutscope.structs.bulk import decode_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.checks.apfs.subject import Notes, Subject
    from layoutscope.checks.fieldrules import FieldRule
    from layoutscope.filesystems.apfs.btree import ReadNodes
    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.filesystems.apfs.fsrecords import Columns
    from layoutscope.filesystems.apfs.source import TreeSource
    from layoutscope.filesystems.apfs.volume import Volume
    from layoutscope.findings import FindingLog, Level
    from layoutscope.structs.grammar import ApfsVolume
    from layoutscope.structs.recordtypes import RecordColumn, RecordType

    Superblock = ApfsVolume.ApfsSuperblock


MAX_DEPTH: Final = 64
"""Steps of doubling length, more than any chain of directories needs."""


def check_entries(subject: Subject, parts: VolumeParts) -> None:
    """Check that every directory entry leads to an inode."""
    inodes, drecs = parts.fs.records.get("inode"), parts.fs.records.get("dir_rec")
    if "file_id" in drecs:
        add, found = subject.records(parts).for_table(drecs, "entry of directory", "inode-missing"), drecs["file_id"]
        wrong, field = ~match(inodes["obj_id"], found)[1], "val.drec_val_fixed.file_id"
        add(wrong, "its inode does not exist", field, level="error", found=found)


def check_sibling_links(subject: Subject, parts: VolumeParts) -> None:
    """Check that each hard link has both of its records, and that directory entries name existing links."""
    records, report = parts.fs.records, subject.records(parts)
    links, maps, drecs = records.get("sibling_link"), records.get("sibling_map"), records.get("dir_rec")
    known = np.sort(links["sibling_id"]) if "sibling_id" in links else np.empty(0, np.uint64)
    if "sibling_id" in links:
        wrong = ~match(maps["obj_id"], links["sibling_id"])[1]
        message = "no record leads from its number to its inode"
        # Pre-releases of macOS 10.13 wrote none of these records.
        level: Level = "warning" if len(maps["obj_id"]) else "info"
        report.for_table(links, "hard link of inode")(wrong, message, "key.sibling_key.sibling_id", level=level)
    if "sibling_id" in drecs:
        found = drecs["sibling_id"]
        wrong = (found != 0) & ~match(known, found)[1]
        message, field = "it names a hard link that does not exist", "val.drec_val_fixed.file_id"
        report.for_table(drecs, "entry of directory")(wrong, message, field, found=found)


def check_stream_sizes(subject: Subject, parts: VolumeParts) -> None:
    """Check that streams are not longer than their extents, and that the allocated sizes match."""
    inodes, extents = parts.fs.records.get("inode"), parts.file_extents()
    if "has_dstream" not in inodes or parts.state.superblock.is_sealed:
        return
    # The key of extents is the number of their stream, which may differ from the inode's (reference, private_id).
    numbers, ends = _find_stream_ends(extents)
    spot, found = match(numbers, inodes["private_id"])
    allocated = np.where(found, ends[spot], 0) if len(ends) else np.zeros(len(found), np.uint64)
    has, room, size = inodes["has_dstream"], inodes["alloced_size"], inodes["data_size"]
    add, field = subject.records(parts).for_table(inodes, "inode", "count-differs"), "val.inode_val_fixed.private_id"
    message = "its extents hold other bytes than its stream allocates"
    add(has & (room != allocated), message, field, expected=room, found=allocated)
    # A file whose contents a file provider evicted keeps its size and allocates nothing.
    wrong = has & (size > room) & ~inodes["is_dataless"]
    add(wrong, "its stream is longer than what it allocates", field, expected=room, found=size)


def _find_stream_ends(extents: Columns) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return each stream's number and where its last extent ends, in bytes."""
    if not len(extents["obj_id"]):
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    last = np.flatnonzero(extents["obj_id"] != np.append(extents["obj_id"][1:], np.uint64(0)))
    ends = extents["logical_addr"] + extents["len_extent"]
    return extents["obj_id"][last], ends[last]


def check_directories(subject: Subject, parts: VolumeParts) -> None:
    """Check that there is a root directory, and that no directory is its own ancestor."""
    inodes = parts.fs.records.get("inode")
    if "format" not in inodes:
        return
    rows = np.flatnonzero(inodes["format"] == int(grammar.ApfsInode.ModeFormat.directory))
    up, known = match(inodes["obj_id"][rows], inodes["parent_id"][rows])
    top = len(rows)
    step = np.append(np.where(known, up, top), top)
    for _ in range(MAX_DEPTH):
        if (step == top).all():
            break
        step = step[step]
    wrong = np.zeros(len(inodes["obj_id"]), bool)
    wrong[rows[step[:-1] != top]] = True
    add = subject.records(parts).for_table(inodes, "directory")
    add(wrong, "it is in a directory that is in it", "val.inode_val_fixed.parent_id")
    root = int(grammar.ApfsInode.InodeNumber.root_dir)
    if not match(inodes["obj_id"], np.array([root], np.uint64))[1][0]:
        log = subject.log.at(f"inode {root}", parts.state.paddr)
        log.add("record-differs", "error", "there is no root directory")


def check_lost_inodes(subject: Subject, parts: VolumeParts) -> None:
    """Check that records belong to an existing inode: none may remain of a deleted file."""
    records, report = parts.fs.records, subject.records(parts)
    inodes = records.get("inode")["obj_id"]
    for kind, key in (("xattr", "xattr_key"), ("dir_rec", "drec_key"), ("sibling_link", "sibling_key")):
        table = records.get(kind)
        # Directory 1 has entries for the root and the private directory, but no inode.
        is_top = table["obj_id"] == int(grammar.ApfsInode.InodeNumber.root_dir_parent)
        wrong = ~match(inodes, table["obj_id"])[1] & ~is_top
        report.for_table(table, f"{kind} of inode")(
            wrong, "the inode that it belongs to does not exist", f"key.{key}.hdr"
        )
    attributes, extents = records.get("xattr"), parts.file_extents()
    streams = records.get("dstream_id")["obj_id"]
    if "stream_id" in attributes:
        streams = np.sort(np.concatenate([streams, attributes["stream_id"]]))
    add, wrong = (
        subject.extents(parts).for_table(extents, "extent of data stream"),
        ~match(streams, extents["obj_id"])[1],
    )
    add(wrong, "the stream that it belongs to does not exist", "key.file_extent_key.hdr")


INODE, EXTENT, ATTRIBUTE = records.INODE_VAL_FIXED, records.FILE_EXTENT_VAL, records.XATTR_VAL.fixed
SNAPSHOT, KEY_STATE, HASHES = records.SNAP_METADATA_VAL.fixed, records.CRYPTO_VAL.fixed, records.FILE_INFO_VAL.fixed
REFERENCE, ENTRY, HASHED_KEY = records.PHYS_EXT_VAL, records.DREC_VAL_FIXED, records.DREC_HASHED_KEY
LISTED, QUEUE_KEY = records.OMAP_SNAPSHOT, records.FREE_QUEUE_KEY
_NAMES: Final = {int(kind): kind.name for kind in grammar.ApfsRecord.RecordType}
_CRYPTO_VERSION: Final = 5
_CLASSES: Final = (0, 1, 2, 3, 4, 6, 14)
_NAME_LENGTH: Final = 0x3FF
"""The bits of a hashed directory key that are the length of the name."""
_INODE_FLAGS: Final = sum(int(flag) for flag in FLAG if flag != FLAG.flag_unused) | 0x0200_0000
"""The highest bit is not in the reference; apfsck knows it, and macOS sets it together with purgeable flags."""
_FIRST_NUMBER: Final = np.uint64(grammar.ApfsInode.InodeNumber.min_user)
_NO_OWNER: Final = 0xFFFF_FFFF_FFFF_FFFF
_UPDATE: Final = int(grammar.ApfsExtents.PhysExtKind.update)

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
        INVALID,
        (
            ATTRIBUTE.flags,
            Want(lambda found: np.isin(found & 3, (1, 2)) & (found & 0xFFE8 == 0), "a stream, or embedded"),
            "not either in a stream or embedded, or bits that have no meaning",
        ),
    ),
    "extent": rules(
        INVALID,
        (REFERENCE.len_and_kind, Want(lambda found: np.isin(found >> 60, (1, 2)), "1 or 2"), "no such kind"),
        (
            REFERENCE.len_and_kind,
            Want(lambda found: found & ((1 << 60) - 1) != 0, "one block at least"),
            "an extent without blocks",
        ),
        (REFERENCE.refcnt, NOT_ZERO, "nothing refers to it: it should be gone"),
    ),
    "crypto_state": rules(
        INVALID,
        (KEY_STATE.refcnt, NOT_ZERO, "nothing refers to it: it should be gone"),
        # For the state of software encryption, macOS writes no version.
        (KEY_STATE.major_version, one_of(0, _CRYPTO_VERSION), "the only version"),
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


def make_value_rules(rows: CheckedRows, name: str, volume: Superblock | None) -> tuple[FieldRule, ...]:
    """Return the rules of values of one kind, including those that need another field of the record, or the volume."""
    own = VALUE_RULES.get(name, ())
    if name == "inode":
        has_size = rows.column("val", INODE, INODE.has_uncompressed_size).astype(bool)
        want = Want(lambda found: (found == 0) | has_size, "0 without the flag for it")
        return (*own, *rules(INVALID, (INODE.len_uncompressed, want, "a size that the flags do not announce")))
    if name == "file_extent" and is_plain(volume):
        return (*own, *rules(INVALID, (EXTENT.crypto_id, ZERO, "a key in a volume that is not encrypted")))
    if name == "extent":
        # A reference to new blocks names their first owner; a change of an older reference names none.
        is_update = rows.column("val", REFERENCE, REFERENCE.kind) == _UPDATE
        stop = np.uint64(0 if volume is None else volume.next_obj_id)
        want = Want(
            lambda found: np.where(is_update, found == _NO_OWNER, (found >= _FIRST_NUMBER) & (found < stop)),
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
    """Return the rules of keys or values in trees with one kind of record, by tree.

    Reference, omap_val_t, omap_snapshot_t and spaceman_free_queue_key_t; apfsck.
    """
    return {
        "omap": _MAPPED,
        "container-omap": _MAPPED,
        "omap-snapshots": (
            "val",
            LISTED,
            rules(
                INVALID,
                (LISTED.flags, only_bits(3), UNKNOWN),
                (LISTED.pad, ZERO, RESERVED),
                (LISTED.oid, ZERO, RESERVED),
            ),
        ),
        "spaceman": ("key", QUEUE_KEY, rules(INVALID, (QUEUE_KEY.xid, expect_past(xid), PAST))),
    }


def check_records(subject: Subject, batch: ReadNodes, volume: Superblock | None, notes: Notes | None = None) -> None:
    """Check the records of a batch by the rules of their fields."""
    source, slots = batch.tree.source, batch.slots
    if not len(slots):
        return
    fixed = make_tree_rules(subject.container.xid).get(source.tree)
    if fixed is not None and not batch.level:
        part, kind, declared = fixed
        _apply_rules(CheckedRows(subject, batch, np.arange(len(slots))), part, kind, declared)
    elif source.kind.key_type is records.J_KEY:
        kinds = batch.column("key", records.J_KEY, records.J_KEY.record_type)
        for kind in np.unique(kinds).tolist():
            rows = CheckedRows(subject, batch, np.flatnonzero(kinds == kind))
            _check_kind(rows, _NAMES.get(kind, ""), volume, notes)


def _apply_rules(rows: CheckedRows, part: str, kind: RecordType, declared: tuple[FieldRule, ...]) -> None:
    check_fields(kind, rows.batch.buffer, rows.starts(part), declared, rows.at(part))


def _check_kind(rows: CheckedRows, name: str, volume: Superblock | None, notes: Notes | None) -> None:
    shape = SHAPES.get(name)
    if shape is None:
        return
    is_hashed = name == "dir_rec" and volume is not None and volume.has_hashed_names
    key_type = HASHED_KEY if is_hashed else shape.key_type
    long_enough = rows.lengths("key") >= key_type.width
    if not rows.batch.level:
        long_enough &= rows.lengths("val") >= shape.val_type.width
    rows = rows.take(long_enough)
    if not len(rows.row):
        return
    _check_length(rows, "key", name, key_type, shape.key_tail)
    if name in KEY_NAMES:
        check_names(rows, name, key_type, volume)
    if rows.batch.level:
        return
    fields = None
    if shape.has_xfields:
        fields = check_extended(rows, name, shape.val_type.width)
    else:
        _check_length(rows, "val", name, shape.val_type, shape.val_tail)
        check_texts(rows, name)
    if name == "inode":
        check_inodes(rows, fields, notes, is_plain=is_plain(volume))
    _apply_rules(rows, "val", shape.val_type, make_value_rules(rows, name, volume))


def _check_length(rows: CheckedRows, part: str, name: str, kind: RecordType, tail: RecordColumn | None) -> None:
    """Check that a key or value is as long as its fixed part and the variable part that one of its fields gives."""
    expected = np.full(len(rows.row), kind.width, np.int64)
    if kind is HASHED_KEY:
        expected += rows.column(part, kind, HASHED_KEY.len_name_and_hash).astype(np.int64) & _NAME_LENGTH
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
"""The second field by which keys are sorted, in trees with one kind of record."""

NUMBERED: Final[dict[str, tuple[RecordType, RecordColumn]]] = {
    "file_extent": (records.FILE_EXTENT_KEY, records.FILE_EXTENT_KEY.logical_addr),
    "sibling_link": (records.SIBLING_KEY, records.SIBLING_KEY.sibling_id),
    "file_info": (records.FILE_INFO_KEY, records.FILE_INFO_KEY.lba),
}
"""The second field by which keys are sorted, in records of volumes."""

NAMED: Final = {"xattr": records.XATTR_KEY, "snap_name": records.SNAP_NAME_KEY, "dir_rec": records.DREC_KEY}
"""Records whose keys end with a name."""


class DecodedKeys(NamedTuple):
    """Keys of consecutive records: two numbers that sort as the tree does, the position of the name, and the address.

    `name` is where the name begins in the buffer, `stop` where the key ends; both are equal if there is no name.
    `child` is the node that an index record leads to.
    """

    lead: NDArray[np.uint64]
    second: NDArray[np.uint64]
    name: NDArray[np.int64]
    stop: NDArray[np.int64]
    image_offset: NDArray[np.int64]
    child: NDArray[np.uint64]


def check_container_keys(subject: Subject) -> None:
    """Compare all keys of the container's own trees."""
    for source in list_container_sources(subject):
        check_tree(subject, source)


def check_keys(subject: Subject, parts: VolumeParts) -> None:
    """Compare all keys of a volume's trees."""

    def notes(view: str) -> Notes:
        return subject.inodes.setdefault((parts.state.number, view), {})

    for source in list_volume_sources(subject, parts):
        check_tree(subject, source, parts.state, notes=notes(parts.view) if source.tree == "fs" else None)
    # States of a volume share most of their leaves, which are checked once.
    known = parts.fs.nodes.paddr
    for view, state, source in list_snapshot_sources(subject, parts):
        check_tree(subject, source, state, known=known, notes=notes(view))
        known = np.union1d(known, parts.views[view].paddr)


def check_tree(
    # the container under check; its log records which keys are out of order and which nodes are empty
    subject: Subject,
    source: TreeSource,
    state: Volume | None = None,
    known: NDArray[np.uint64] | None = None,
    notes: Notes | None = None,
) -> None:
    """Compare the keys of one tree, level by level."""
    volume = None if state is None else state.superblock
    nodes = TreeNodes(subject)
    above: tuple[DecodedKeys, Index] | None = None
    for _, batches in groupby(read_levels(source, known=known), key=lambda batch: batch.level):
        own: list[DecodedKeys] = []
        last: tuple[int, int, bytes] | None = None
        for batch in batches:
            keys = decode_keys(batch, hashed_names=volume is not None and bool(volume.has_hashed_names))
            _check_order(subject, batch, keys, last)
            if above is not None:
                _check_bounds(subject, batch, keys, *above)
            _check_empty(subject, batch)
            nodes.add(batch)
            check_records(subject, batch, volume, notes)
            own += [keys] if batch.level else []
            last = _get_key(batch.buffer, keys, -1) if len(keys.lead) else last
        if own:
            whole = DecodedKeys(*(np.concatenate(column) for column in zip(*own, strict=True)))
            above = whole, index_of(whole.child)
    nodes.close()


def decode_keys(batch: ReadNodes, *, hashed_names: bool) -> DecodedKeys:
    """Decode the keys of a batch of nodes."""
    source, slots = batch.tree.source, batch.slots
    # Keys do not sort by their bytes: numbers are little-endian, and the record type is in the high bits of the object
    # number, but sorts after it (reference, j_key_t).
    lead = low_keys(source, batch.buffer, slots.key_start)
    second, name = np.zeros(len(slots), np.uint64), slots.key_start + slots.key_len
    if source.kind.key_type is records.J_KEY:
        _decode_volume_keys(batch, second, name, hashed_names=hashed_names)
    elif source.tree in SECOND:
        second = batch.column("key", source.kind.key_type, SECOND[source.tree])
    within = slots.key_start - slots.node * batch.size_bytes
    where = source.blocks.image_offset(batch.places.paddr[slots.node]) + within
    child = np.zeros(len(slots), np.uint64)
    if batch.level:
        child[slots.val_len >= batch.tree.shape.sizes.child] = decode_children(batch)[1]
    return DecodedKeys(lead, second, name, slots.key_start + slots.key_len, where, child)


def _decode_volume_keys(
    batch: ReadNodes, second: NDArray[np.uint64], name: NDArray[np.int64], *, hashed_names: bool
) -> None:
    """Fill in the parts after object number and type in keys of file-system records."""
    slots = batch.slots
    kinds = batch.column("key", records.J_KEY, records.J_KEY.record_type)
    forms = dict(NUMBERED)
    if hashed_names:
        # Neither linux-apfs-rw nor apfsck compares the length in the lower bits.
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


def _get_key(buffer: NDArray[np.uint8], keys: DecodedKeys, row: int) -> tuple[int, int, bytes]:
    name = buffer[int(keys.name[row]) : int(keys.stop[row])].tobytes()
    return int(keys.lead[row]), int(keys.second[row]), name


def _check_order(subject: Subject, batch: ReadNodes, keys: DecodedKeys, last: tuple[int, int, bytes] | None) -> None:
    """Check that the keys are in order."""
    if not len(keys.lead):
        return
    before, after = (keys.lead[:-1], keys.second[:-1]), (keys.lead[1:], keys.second[1:])
    same = (before[0] == after[0]) & (before[1] == after[1])
    wrong = (after[0] < before[0]) | ((after[0] == before[0]) & (after[1] < before[1]))
    pairs = [(row + 1, _get_key(batch.buffer, keys, row), _get_key(batch.buffer, keys, row + 1)) for row in _rows(same)]
    if last is not None:
        pairs.insert(0, (0, last, _get_key(batch.buffer, keys, 0)))
    rows = sorted(
        {row + 1 for row in _rows(wrong)}
        | {row for row, *both in pairs if _is_unordered(batch.tree.source.tree, *both)}
    )
    for row in rows[:MAX_CASES]:
        _locate_key(subject, batch, row).add(
            UNORDERED, level_of_disorder(batch.tree.source.tree), "key is out of order"
        )
    ties = [
        row for row, earlier, later in pairs if earlier[:2] == later[:2] and later[2] < earlier[2] and row not in rows
    ]
    for row in ties[:MAX_CASES]:
        message = "of names with one hash, this one is after one with greater bytes"
        _locate_key(subject, batch, row).add(UNORDERED, "info", message)


def _rows(chosen: NDArray[np.bool_]) -> list[int]:
    return np.flatnonzero(chosen).tolist()


def _is_unordered(tree: str, before: tuple[int, int, bytes], after: tuple[int, int, bytes]) -> bool:
    """Return whether a key does not sort after the one before it.

    Names with one hash may be in any order: apfsck demands that of their bytes, while linux-apfs-rw leaves them in the
    order of creation and searches by the hash alone. The behaviour of macOS is not documented.
    """
    is_hashed = before[1] != 0 or tree not in {"fs", "snapmeta"}
    return after == before if is_hashed and after[:2] == before[:2] else after <= before


def _check_bounds(subject: Subject, batch: ReadNodes, keys: DecodedKeys, above: DecodedKeys, children: Index) -> None:
    """Check that the first key of a node is not before the key that leads to it."""
    lead, second, where = above.lead, above.second, above.image_offset
    firsts = np.flatnonzero(np.diff(batch.slots.node, prepend=-1) != 0)
    node = batch.slots.node[firsts]
    entry, known = children.find(batch.places.node_id[node])
    known &= lead[entry] == batch.places.low_key[node]
    firsts, node, entry = firsts[known], node[known], entry[known]
    wrong = (keys.lead[firsts] < lead[entry]) | (
        (keys.lead[firsts] == lead[entry]) & (keys.second[firsts] < second[entry])
    )
    # Drivers keep the keys of an index exact (apfsck demands that), though a search needs only a lower bound.
    other = ~wrong & ((keys.lead[firsts] != lead[entry]) | (keys.second[firsts] != second[entry]))
    for chosen, how_bad, message in (
        (wrong, level_of_disorder(batch.tree.source.tree), "the key that leads to it is after its first key"),
        (other, "warning", "the key that leads to it is not its first key"),
    ):
        for number, row in zip(node[chosen].tolist(), entry[chosen].tolist(), strict=True):
            log = batch.at(number, log=subject.log)
            # The finding is about the node; the key that may be wrong is in its parent.
            at = log.at_byte(log.structure, int(where[row]), log.device)
            at.add(UNORDERED, how_bad, message)


def _check_empty(subject: Subject, batch: ReadNodes) -> None:
    """Check that no node except a root is empty: drivers free such nodes."""
    wrong = batch.check.is_sound & (batch.head["num_keys"] == 0) & (batch.places.parent >= 0)
    for number in np.flatnonzero(wrong)[:MAX_CASES].tolist():
        at = number * batch.size_bytes + records.BTREE_NODE.num_keys.offset
        log = batch.at(number, at, log=subject.log)
        log.add("node-header-differs", "error", "a node that is not a root is empty")


def _locate_key(subject: Subject, batch: ReadNodes, row: int) -> FindingLog:
    return batch.at(int(batch.slots.node[row]), int(batch.slots.key_start[row]), log=subject.log)
