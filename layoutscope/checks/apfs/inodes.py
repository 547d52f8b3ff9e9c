"""Check of inodes against other records: names, holes, attributes, clones, directory statistics, numbers.

Apple File System Reference, File-System Objects; rules from apfsck alone were confirmed on volumes made by macOS.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.display import Struct
from layoutscope.filesystems.apfs.contents import DECLARED, inodes_by_kind, is_converted, is_deleted, times_listed
from layoutscope.filesystems.apfs.spaceman import to_runs
from layoutscope.filesystems.apfs.verify import object_header, report_damaged
from layoutscope.structs import arrays, grammar, records
from layoutscope.structs.arrays import index_of, is_strictly_ascending, match, ordinals, owners
from layoutscope.structs.bulk import decode_column, decode_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.checks.apfs.subject import CheckedRows, Notes, Report, Subject
    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.filesystems.apfs.fsrecords import Columns
    from layoutscope.filesystems.apfs.spaceman import Space
    from layoutscope.findings import Level


X_FIELD, XF_BLOB_HEAD, DSTREAM = records.X_FIELD, records.XF_BLOB_HEAD, records.DSTREAM
FIELD: Final = grammar.ApfsXfields.InodeField
_FLAG: Final = grammar.ApfsXfields.FieldFlag
_KNOWN_TYPES: Final = {"inode": range(1, 18), "dir_rec": range(1, 2)}
_EXTENDED_FLAGS: Final = 0x3B
"""All flags except the reserved ones."""
_USER_AND_SYSTEM: Final = int(_FLAG.user_field | _FLAG.system_field)
_FIELD_FORMS: Final = {
    ("inode", 4): ((2,), None),
    ("inode", 8): ((0x20,), 40),
    ("inode", 10): ((0x22,), 8),
    ("inode", 13): ((0x28,), 8),
    ("inode", 14): ((0, 0x22), 4),
    ("dir_rec", 1): ((0, 2), 8),
}
"""Flags and size of extended fields by kind of record and type, as macOS and Linux write them."""


class Extended(Struct, frozen=True):
    """Extended fields of records, one row per field."""

    rows: CheckedRows  # records whose fields could be separated
    owner: NDArray[np.int64]  # position of each field's record in `rows`
    # kind, flags: as stored
    kind: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    # start, length: position of the data in the batch, and its bytes without padding
    start: NDArray[np.int64]
    length: NDArray[np.int64]

    def select_kind(self, kind: int) -> NDArray[np.int64]:
        """Return the positions of fields of one type."""
        return np.flatnonzero(self.kind == kind)


def check_extended(rows: CheckedRows, name: str, width: int) -> Extended | None:
    """Check the extended fields of records.

    Returns the fields of records whose lengths are consistent, or None if there are no fields.
    """
    batch, size = rows.batch, rows.lengths("val") - width
    long_enough = size >= XF_BLOB_HEAD.width
    rows.report((size > 0) & ~long_enough, "val", f"{name}: its extended fields do not fill its value")
    rows, size = rows.take(long_enough), size[long_enough]
    if not len(size):
        return None
    start = rows.starts("val") + width
    head = decode_columns(XF_BLOB_HEAD, batch.buffer, start, (XF_BLOB_HEAD.num_exts, XF_BLOB_HEAD.used_data))
    count, used = head["num_exts"].astype(np.int64), head["used_data"].astype(np.int64)
    rows.report(count == 0, "val", f"{name}: it announces extended fields, and has none")
    front = XF_BLOB_HEAD.width + count * X_FIELD.width
    wrong = front + used != size
    rows.report(wrong, "val", f"{name}: its extended fields do not fill its value", (size - front, used))
    rows, start, count, used = rows.take(~wrong), start[~wrong], count[~wrong], used[~wrong]
    owner = owners(count)
    spots = start[owner] + XF_BLOB_HEAD.width + ordinals(count) * X_FIELD.width
    if not len(spots):
        return None
    found = decode_columns(X_FIELD, batch.buffer, spots, (X_FIELD.type, X_FIELD.flags, X_FIELD.len_data))
    length = found["len_data"].astype(np.int64)
    padded = -(-length // 8) * 8
    total = np.bincount(owner, padded, len(count)).astype(np.int64)
    message = f"{name}: the lengths of its extended fields do not add up to what they use"
    rows.report(total != used, "val", message, (total, used))
    # The data of a record's fields follow one another, after the descriptions of the fields.
    ends = np.append(0, np.cumsum(padded))
    begin = start[owner] + front[~wrong][owner] + ends[:-1] - ends[np.searchsorted(owner, owner)]
    sound = (total == used)[owner]
    _check_types(Extended(rows, owner, found["type"], found["flags"], begin, length), name)
    fields = Extended(rows, owner[sound], found["type"][sound], found["flags"][sound], begin[sound], length[sound])
    _check_padding(fields, name, padded[sound] - length[sound])
    return fields


def _check_types(fields: Extended, name: str) -> None:
    kind, flags, length = fields.kind, fields.flags, fields.length
    wrong = ~np.isin(kind, np.array(_KNOWN_TYPES[name])) | (flags & np.uint8(~_EXTENDED_FLAGS & 0xFF) != 0)
    wrong |= flags & np.uint8(_USER_AND_SYSTEM) == _USER_AND_SYSTEM
    for (record, number), (allowed, size) in _FIELD_FORMS.items():
        if record == name:
            here = kind == number
            wrong |= here & ~np.isin(flags, np.array(allowed))
            if size is not None:
                wrong |= here & (length != size)
    broken = np.bincount(fields.owner, wrong, len(fields.rows.row)) > 0
    message = f"{name}: an extended field has a type, flags or a size that it cannot have"
    fields.rows.report(broken, "val", message)
    order = np.lexsort((kind, fields.owner))
    again = (np.diff(fields.owner[order]) == 0) & (np.diff(kind[order].astype(np.int64)) == 0)
    twice = fields.rows.mark(fields.owner[order][1:][again])
    fields.rows.report(twice, "val", f"{name}: it has two extended fields of one type")


def _check_padding(fields: Extended, name: str, gap: NDArray[np.int64]) -> None:
    """Check that the padding of fields to eight bytes is zero."""
    chosen = np.flatnonzero(gap > 0)
    item, step = owners(gap[chosen]), ordinals(gap[chosen])
    places = fields.start[chosen][item] + fields.length[chosen][item] + step
    wrong = fields.rows.mark(fields.owner[chosen][item][fields.rows.batch.buffer[places] != 0])
    fields.rows.report(wrong, "val", f"{name}: the padding of an extended field is not zero")


def get_last_bytes(fields: Extended, chosen: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the last byte of each chosen field's data; none of the fields may be empty."""
    last: NDArray[np.uint8] = fields.rows.batch.buffer[fields.start[chosen] + fields.length[chosen] - 1]
    return last


INODE: Final = records.INODE_VAL_FIXED
FLAG: Final = grammar.ApfsInode.InodeFlag
_FORMAT: Final = grammar.ApfsInode.ModeFormat
_CLONED: Final = int(FLAG.was_cloned | FLAG.was_ever_cloned)
_HAS_PURGEABLE_FLAGS: Final = 0x0200_0000
"""A flag that is not in the reference; apfsck and macOS use it."""
_DEVICES: Final = (int(_FORMAT.char_device), int(_FORMAT.block_device))
_UNASSIGNED: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_FLAGGED_FIELDS: Final = (
    (int(FLAG.maintain_dir_stats), int(FIELD.dir_stats_key), "statistics of the directory"),
    (int(FLAG.is_sparse), int(FIELD.sparse_bytes), "a count of sparse bytes"),
    (_HAS_PURGEABLE_FLAGS, int(FIELD.purgeable_flags), "flags of what may be purged"),
)
"""Inode flags that announce an extended field."""
_EXCLUSIVE_FLAGS: Final = (
    (int(FLAG.has_rsrc_fork), int(FLAG.no_rsrc_fork), "it has a resource fork, and has none"),
    (int(FLAG.pinned_to_main), int(FLAG.pinned_to_tier2), "it is pinned to both devices"),
)
"""Flags that exclude each other."""
_MULTIPLIER: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
_ROUNDS: Final = 1 << 16
"""Number of names hashed at once."""


def hash_texts(data: NDArray[np.uint8], start: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a number for each text that is equal for equal bytes, and 0 for empty texts.

    >>> one, two, other = hash_texts(np.frombuffer(b"abcabcabd", np.uint8), np.array([0, 3, 6]), np.array([3, 3, 3]))
    >>> bool(one == two), bool(one == other)
    (True, False)
    """
    sums = np.zeros(len(start), np.uint64)
    powers = np.multiply.accumulate(np.full(int(length.max(initial=0)) + 1, _MULTIPLIER, np.uint64))
    for first in range(0, len(start), _ROUNDS):
        rows = slice(first, first + _ROUNDS)
        counts, step = length[rows], ordinals(length[rows])
        values = data[np.repeat(start[rows], counts) + step].astype(np.uint64) + np.uint64(1)
        values *= powers[step]
        some = np.flatnonzero(counts > 0)
        begins = np.cumsum(counts)[some] - counts[some]
        if len(some):
            sums[first + some] = np.add.reduceat(values, begins)
    return sums


def check_inodes(rows: CheckedRows, fields: Extended | None, notes: Notes | None, *, is_plain: bool) -> None:
    """Compare the flags, kind and numbers of inodes with their extended fields."""
    found = {name: rows.column("val", INODE, name) for name in (INODE.internal_flags, INODE.mode, INODE.private_id)}
    flags, form = found[INODE.internal_flags], found[INODE.mode] & 0xF000
    number = rows.column("key", records.J_KEY, records.J_KEY.obj_id)
    kinds = np.zeros(len(rows.row), np.uint32)
    if fields is not None:
        place = np.searchsorted(rows.row, fields.rows.row)[fields.owner]
        np.bitwise_or.at(kinds, place, np.uint32(1) << (fields.kind & 31).astype(np.uint32))
    _check_flags(rows, flags, kinds)
    has = {kind: kinds >> np.uint32(kind) & np.uint32(1) != 0 for kind in map(int, FIELD)}
    wrong = np.isin(form, _DEVICES) != has[int(FIELD.rdev)]
    rows.report(wrong, "val", "inode: a device's number is there without a device, or a device without it")
    wrong = has[int(FIELD.dstream)] & (form != int(_FORMAT.file))
    rows.report(wrong, "val", "inode: it has a data stream, but is not a regular file")
    wrong = (found[INODE.private_id] != number) & (flags & _CLONED == 0)
    sides = (number, found[INODE.private_id])
    rows.report(wrong, "val", "inode: it has the stream of another, but is not a clone", sides, INODE.private_id)
    sparse, name = np.zeros(len(rows.row), np.uint64), np.zeros(len(rows.row), np.uint64)
    if fields is not None:
        _check_streams(rows, fields, place, flags, is_plain=is_plain)
        sparse, name = _read_sparse_and_names(rows, fields, place)
    if notes is not None:
        columns = {"obj_id": number, "flags": flags, "kinds": kinds, "sparse": sparse, "name": name}
        for column, values in columns.items():
            notes.setdefault(column, []).append(values)


def _check_flags(rows: CheckedRows, flags: NDArray[np.uint64], kinds: NDArray[np.uint32]) -> None:
    at = INODE.internal_flags
    for flag, kind, what in _FLAGGED_FIELDS:
        wrong = (flags & flag != 0) != (kinds >> np.uint32(kind) & np.uint32(1) != 0)
        rows.report(wrong, "val", f"inode: flags and extended fields disagree about {what}", field=at)
    for first, second, message in _EXCLUSIVE_FLAGS:
        rows.report((flags & first != 0) & (flags & second != 0), "val", f"inode: {message}", field=at)
    wrong = (flags & int(FLAG.dir_stats_origin) != 0) & (flags & int(FLAG.maintain_dir_stats) == 0)
    rows.report(wrong, "val", "inode: statistics begin here that it does not keep", field=at)


def _check_streams(
    rows: CheckedRows, fields: Extended, place: NDArray[np.int64], flags: NDArray[np.uint64], *, is_plain: bool
) -> None:
    """Check that streams have keys only in encrypted volumes; a clone may have no key yet."""
    chosen = fields.select_kind(int(FIELD.dstream))
    chosen = chosen[fields.length[chosen] >= DSTREAM.width]
    key = decode_column(DSTREAM, rows.batch.buffer, fields.start[chosen], DSTREAM.default_crypto_id)
    is_clone = flags[place[chosen]] & int(FLAG.was_cloned) != 0
    wrong = (key == _UNASSIGNED) & ~is_clone | is_plain & (key != 0) & (key != _UNASSIGNED)
    rows.report(rows.mark(place[chosen[wrong]]), "val", "inode: its stream has a key that it cannot have")


def _read_sparse_and_names(
    rows: CheckedRows, fields: Extended, place: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the sparse bytes and the hashes of names, and check that names end with a zero byte."""
    buffer = rows.batch.buffer
    sparse, name = np.zeros(len(rows.row), np.uint64), np.zeros(len(rows.row), np.uint64)
    chosen = fields.select_kind(int(FIELD.sparse_bytes))
    chosen = chosen[fields.length[chosen] >= records.SPARSE_BYTES.width]
    sparse[place[chosen]] = decode_column(
        records.SPARSE_BYTES, buffer, fields.start[chosen], records.SPARSE_BYTES.num_bytes
    )
    chosen = fields.select_kind(int(FIELD.entry_name))
    chosen = chosen[fields.length[chosen] > 0]
    ends = get_last_bytes(fields, chosen) == 0
    rows.report(rows.mark(place[chosen[~ends]]), "val", "inode: its name does not end with a zero byte")
    chosen = chosen[ends]
    name[place[chosen]] = hash_texts(buffer, fields.start[chosen], fields.length[chosen] - 1)
    return sparse, name


_NUMBER: Final = grammar.ApfsInode.InodeNumber
_FEATURE: Final = grammar.ApfsVolume.VolumeFeature
_FLAGS: Final = "val.inode_val_fixed.internal_flags"
_PARENT: Final = "val.inode_val_fixed.parent_id"
_STREAM: Final = "val.inode_val_fixed.private_id"
_FLAGGED_ATTRIBUTES: Final = (
    (int(FLAG.has_rsrc_fork), b"com.apple.ResourceFork", "a resource fork"),
    (int(FLAG.has_security_ea), b"com.apple.system.Security", "a list of access rights"),
)
"""Inode flags that announce an attribute."""


def check_inode_notes(subject: Subject, parts: VolumeParts) -> None:
    """Compare the noted properties of inodes with entries, attributes, extents and streams."""
    batches, inodes = subject.inodes.get((parts.state.number, parts.view)), parts.fs.records.get("inode")
    if not batches or "format" not in inodes:
        return
    notes = {name: np.concatenate(values) for name, values in batches.items()}
    spot, known = match(inodes["obj_id"], notes["obj_id"])
    rows, notes = spot[known], {name: values[known] for name, values in notes.items()}
    checks = _InodeChecks(parts, inodes, rows, notes, subject.records(parts))
    checks.check_names()
    checks.check_attributes()
    checks.check_purgeable()
    checks.check_holes()
    checks.check_clones()
    _check_numbers(parts, subject.records(parts))


class _InodeChecks:
    """Checks of the inodes of a state, with their noted properties row by row."""

    def __init__(
        self, parts: VolumeParts, inodes: Columns, rows: NDArray[np.int64], notes: dict[str, Any], report: Report
    ) -> None:
        self.parts, self.inodes, self.rows, self.notes, self.report = parts, inodes, rows, notes, report
        self.is_deleted = is_deleted(inodes)[rows]

    def cases(self, wrong: NDArray[np.bool_], message: str, field: str, level: Level = "warning") -> None:
        """Report noted inodes."""
        chosen = np.zeros(len(self.inodes["obj_id"]), bool)
        chosen[self.rows[wrong]] = True
        self.report.for_table(self.inodes, "inode")(chosen, message, field, level=level)

    def check_names(self) -> None:
        """Check that the name in an inode is that of an entry in its parent directory."""
        drecs, sums = self.parts.fs.records.get("dir_rec"), self.notes["name"]
        if "name" not in drecs:
            return
        spot, found = self.parts.fs.records.find("dir_rec", "inode", "file_id")
        place = np.full(len(self.inodes["obj_id"]), -1, np.int64)
        place[self.rows] = np.arange(len(self.rows))
        entries = np.flatnonzero(found & (self.inodes["parent_id"][spot] == drecs["obj_id"]) & (place[spot] >= 0))
        names = drecs["name"]
        own = hash_texts(names.data, names.start[entries], names.length[entries].astype(np.int64))
        here = place[spot[entries]]
        same, listed = np.zeros(len(sums), bool), np.zeros(len(sums), bool)
        same[here[own == sums[here]]] = True
        listed[here] = True
        wrong = listed & ~same & ~self.is_deleted
        self.cases(wrong & (sums != 0), "the name in it is not that of its entry", _PARENT)
        self.cases(wrong & (sums == 0), "it does not have the name of its entry", _PARENT)

    def _have_attribute(self, name: bytes) -> NDArray[np.bool_]:
        """Mark the inodes that have an attribute."""
        xattrs = self.parts.fs.records.get("xattr")
        if "name" not in xattrs:
            return np.zeros(len(self.rows), bool)
        owners = xattrs["obj_id"][xattrs["name"].equal_to(name)]
        return index_of(owners).find(self.inodes["obj_id"][self.rows])[1]

    def check_attributes(self) -> None:
        """Check that flags, compression and kind of an inode match its attributes."""
        flags, kinds = self.notes["flags"], self.notes["kinds"]
        # Pre-releases of macOS 10.13 did not set these flags; their volumes have no maps of hard links.
        is_early = not int(self.parts.state.superblock.features) & int(_FEATURE.hardlink_map_records)
        for flag, name, what in _FLAGGED_ATTRIBUTES:
            wrong = (flags & flag != 0) != self._have_attribute(name)
            message = f"its flags and its attributes disagree about {what}"
            self.cases(wrong, message, _FLAGS, "info" if is_early else "warning")
        has_info = kinds >> np.uint32(FIELD.finder_info) & np.uint32(1) != 0
        wrong = (flags & int(FLAG.has_finder_info) != 0) != (has_info | self._have_attribute(b"com.apple.FinderInfo"))
        self.cases(wrong, "its flags and its attributes disagree about information of the Finder", _FLAGS)
        is_compressed = self.inodes["is_compressed"][self.rows].astype(bool)
        wrong = is_compressed != self._have_attribute(b"com.apple.decmpfs")
        message = "it is called compressed and has no header of compression, or the other way round"
        self.cases(wrong, message, "val.inode_val_fixed.bsd_flags")
        is_link = self.inodes["format"][self.rows] == int(_FORMAT.symlink)
        wrong = is_link != self._have_attribute(b"com.apple.fs.symlink")
        self.cases(wrong, "it is a symbolic link without a target, or has one and is none", "val.inode_val_fixed.mode")

    def check_purgeable(self) -> None:
        """Check that exactly the purgeable inodes have an entry in the purgeable directory."""
        drecs = self.parts.fs.records.get("dir_rec")
        if "file_id" not in drecs:
            return
        listed = drecs["file_id"][drecs["obj_id"] == np.uint64(_NUMBER.purgeable_dir)]
        has_entry = index_of(listed).find(self.inodes["obj_id"][self.rows])[1]
        wrong = (self.notes["flags"] & int(FLAG.is_purgeable) != 0) != has_entry
        self.cases(wrong, "its flags and the directory of what may be purged disagree", _FLAGS)

    def check_holes(self) -> None:
        """Check that each inode counts the bytes of its stream that are in holes."""
        extents = self.parts.file_extents()
        if "paddr" not in extents:
            return
        empty = np.flatnonzero(extents["paddr"] == 0)
        streams = index_of(self.inodes["private_id"][self.rows])
        found = np.zeros(len(self.rows), np.uint64)
        spot, known = streams.find(extents["obj_id"][empty])
        np.add.at(found, spot[known], extents["len_extent"][empty][known].astype(np.uint64))
        # Clones share a stream; the first one is found.
        found = found[streams.find(self.inodes["private_id"][self.rows])[0]]
        wrong = (found != self.notes["sparse"]) & ~self.is_deleted
        self.cases(wrong, "it counts other sparse bytes than its holes have", _STREAM)

    def check_clones(self) -> None:
        """Check that an inode that shares its stream is marked as cloned."""
        streams = self.parts.fs.records.get("dstream_id")
        if "refcnt" not in streams:
            return
        spot, known = self.parts.fs.records.find("inode", "dstream_id", "private_id")
        shared = known & (streams["refcnt"][spot] > 1) if len(streams["refcnt"]) else known
        cloned = self.notes["flags"] & int(FLAG.was_cloned | FLAG.was_ever_cloned) != 0
        self.cases(shared[self.rows] & ~cloned, "its stream has other users, but it was never cloned", _FLAGS)


def _check_numbers(parts: VolumeParts, report: Report) -> None:
    """Check the numbers of inodes and hard links: both are from one sequence, whose first numbers are reserved."""
    records, stop = parts.fs.records, np.uint64(parts.state.superblock.next_obj_id)
    inodes, links = records.get("inode"), records.get("sibling_link")
    first = np.uint64(_NUMBER.min_user)
    known = np.array([int(_NUMBER.root_dir), int(_NUMBER.private_dir), int(_NUMBER.snap_dir)], np.uint64)
    wrong = (inodes["obj_id"] < first) & ~np.isin(inodes["obj_id"], known)
    report.for_table(inodes, "inode")(wrong, "its number is reserved", "key.j_key.obj_id_and_type")
    if "sibling_id" in links:
        number = links["sibling_id"]
        wrong = (number < first) | (number >= stop) | records.index("inode").find(number)[1]
        message, field = "its number is reserved, free, or that of an inode", "key.sibling_key.sibling_id"
        report.for_table(links, "hard link of inode")(wrong, message, field, found=number)


NUM_CHILDREN = "val.inode_val_fixed.num_children_or_links"
ENTRY_TYPE_SHIFT = 12
"""The type of a directory record is the format bits of a mode, shifted as by ``IFTODT`` of POSIX."""


def check_counts(_: Subject, parts: VolumeParts) -> None:
    """Compare the superblock's counts with the inodes and with the blocks that the volume uses."""
    superblock, inodes = parts.state.superblock, parts.fs.records.get("inode")
    if "format" not in inodes:
        return
    for what, found in inodes_by_kind(inodes).items():
        _compare(parts, f"counts other {what} than the volume holds", found, DECLARED[what], is_loss_error=True)
    if parts.view == "live":
        # The copy of the superblock in a snapshot has the counts of the snapshot's time.
        snapshots = len(parts.snapshots)
        _compare(parts, "counts other snapshots than the volume holds", snapshots, "num_snapshots", is_loss_error=True)
        # Superblocks and key bag belong to the container.
        foreign = to_runs([item for item in parts.regions if item.type in ("volume-superblock", "volume-keybag")])
        used = arrays.total(arrays.subtract(parts.claimed(parts.state.store.blocks.block_size), foreign))
        _compare(parts, "counts other blocks than the volume uses", used, "num_alloced_blocks")
    last = int(inodes["obj_id"].max(initial=0))
    if last >= superblock.next_obj_id:
        _compare(parts, "gives a next object number that is taken", last + 1, "next_obj_id")


def _compare(parts: VolumeParts, message: str, found: int, field: str, *, is_loss_error: bool = False) -> None:
    """Compare a count of the superblock; if a higher count means that something is missing, that is an error."""
    declared = getattr(parts.state.superblock, field)
    if found != declared:
        is_lost = is_loss_error and declared > found
        message = f"{message}: {declared - found:,} are missing" if is_lost else message
        log = parts.state.at_superblock(field)
        log.add("count-differs", "error" if is_lost else "warning", message, expected=found, found=declared)


def check_links(subject: Subject, parts: VolumeParts) -> None:
    """Compare inodes with the directory records and sibling records that lead to them."""
    records, report = parts.fs.records, subject.records(parts)
    inodes, drecs = records.get("inode"), records.get("dir_rec")
    if "format" not in inodes or "file_id" not in drecs:
        return
    add, kinds = report.for_table(inodes, "inode"), grammar.ApfsInode.ModeFormat
    known = np.isin(inodes["format"], np.array([int(kind) for kind in kinds], np.uint16))
    add(~known, "its mode is of no kind", "val.inode_val_fixed.mode")
    spot, found = records.find("dir_rec", "inode", "file_id")
    target = spot if found.all() else spot[found]
    _check_link_counts(parts, report, inodes, drecs, np.bincount(target, minlength=len(inodes["obj_id"])))
    parents = drecs["obj_id"] if target is spot else drecs["obj_id"][found]
    wrong = ~_is_listed(target, parents, inodes["parent_id"]) & ~is_deleted(inodes)
    # The root and the private directory are in directory 1, which has entries but no inode (reference,
    # ROOT_DIR_PARENT).
    is_top, parents = inodes["parent_id"] == int(_NUMBER.root_dir_parent), inodes["parent_id"]
    add(wrong & ~is_top, "the directory that it names does not list it", _PARENT, found=parents)
    add(wrong & is_top, "the entry that names it is missing", _PARENT, level="error", found=parents)
    wrong = found & (drecs["entry_type"] != inodes["format"][spot] >> ENTRY_TYPE_SHIFT)
    message, field = "entry and inode are of different kinds", "val.drec_val_fixed.flags"
    report.for_table(drecs, "entry of directory")(wrong, message, field)
    _check_siblings(parts, report, inodes, drecs)


def _check_link_counts(
    parts: VolumeParts,
    report: Report,
    inodes: Columns,
    drecs: Columns,
    links: NDArray[np.int64],  # entries that name each inode
) -> None:
    """Check that directories count their entries, and other inodes their links; a higher count means lost entries."""
    is_directory = inodes["format"] == int(grammar.ApfsInode.ModeFormat.directory)
    entries, counts = times_listed(inodes["obj_id"], drecs["obj_id"]), inodes["num_children_or_links"]
    # hfs_convert leaves wrong counts that no later change corrects.
    is_moot = is_converted(parts)
    lost, odd = ("info", "info") if is_moot else ("error", "warning")
    missing = "" if is_moot else "entries of it are missing: "
    add = partial(report.for_table(inodes, "directory", "count-differs"), expected=entries, found=counts)
    add(is_directory & (entries < counts), f"{missing}it counts more than it has", NUM_CHILDREN, level=lost)
    add(is_directory & (entries > counts), "it counts fewer entries than it has", NUM_CHILDREN, level=odd)
    add = partial(report.for_table(inodes, "inode", "count-differs"), expected=links, found=counts)
    message = "entries that name it are missing: it counts more links than lead to it"
    add(~is_directory & (links < counts), message, NUM_CHILDREN, level="error")
    wrong = ~is_directory & (links > counts) & ~is_deleted(inodes)
    add(wrong, "it counts fewer links than lead to it", NUM_CHILDREN)


def _is_listed(place: NDArray[np.int64], parent: NDArray[np.uint64], parents: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Mark the inodes that have an entry in their parent directory.

    `place` and `parent` are the inode and the directory of each entry, `parents` the parent that each inode names.
    """
    listed = np.zeros(len(parents), bool)
    listed[place[parent == parents[place]]] = True
    return listed


def _count_references(numbers: NDArray[np.uint64], names: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Count the references to each number; numbers ascend."""
    spot, found = match(numbers, names)
    return np.bincount(spot[found], minlength=len(numbers))


def _number_pairs(numbers: NDArray[np.uint64], first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.int64]:
    """Return one number for each pair of inode numbers; negative if one of them does not exist."""
    first_row, has_first = match(numbers, first)
    second_row, has_second = match(numbers, second)
    return np.where(has_first & has_second, first_row * len(numbers) + second_row, -1)


def _find_linked_entries(parts: VolumeParts) -> NDArray[np.int64]:
    """Return the rows of entries that lead to an inode with hard link records."""
    records = parts.fs.records
    own, known = records.find("sibling_link", "inode", "obj_id")
    spot, found = records.find("dir_rec", "inode", "file_id")
    is_linked = np.zeros(records.count("inode"), bool)
    is_linked[own[known]] = True
    return np.flatnonzero(found & is_linked[spot])


def _check_siblings(parts: VolumeParts, report: Report, inodes: Columns, drecs: Columns) -> None:
    """Check that the two records of each hard link, by inode and by link number, agree."""
    records = parts.fs.records
    links, maps = records.get("sibling_link"), records.get("sibling_map")
    if "parent_id" in links:
        rows = _find_linked_entries(parts)
        pairs = _number_pairs(inodes["obj_id"], drecs["file_id"][rows], drecs["obj_id"][rows])
        wrong = ~match(
            np.sort(pairs[pairs >= 0]), _number_pairs(inodes["obj_id"], links["obj_id"], links["parent_id"])
        )[1]
        message, field = "its directory does not list it", "val.sibling_val.fixed.parent_id"
        report.for_table(links, "hard link of inode")(wrong, message, field)
        _check_linked_names(report, links, drecs)
    if "file_id" not in maps or "sibling_id" not in links:
        return
    order = np.argsort(links["sibling_id"], kind="stable")
    spot, found = match(links["sibling_id"][order], maps["obj_id"])
    wrong = ~found | (links["obj_id"][order][spot] != maps["file_id"])
    message, field = "its inode does not know it", "val.sibling_map_val.file_id"
    report.for_table(maps, "hard link")(wrong, message, field, found=maps["file_id"])


def _check_linked_names(report: Report, links: Columns, drecs: Columns) -> None:
    """Check that each hard link has the same name in its directory and in its sibling record."""
    rows = np.flatnonzero(drecs["sibling_id"]) if "sibling_id" in drecs else np.empty(0, np.int64)
    if not len(rows) or "name" not in links:
        return
    order = np.argsort(links["sibling_id"], kind="stable")
    spot, found = match(links["sibling_id"][order], drecs["sibling_id"][rows])
    rows, link = rows[found], order[spot[found]]
    names, link_names = drecs["name"].text().take(rows).raw(), links["name"].text().take(link).raw()
    wrong = np.zeros(len(drecs["obj_id"]), bool)
    wrong[rows] = [name != link_name for name, link_name in zip(names, link_names, strict=True)]
    add = report.for_table(drecs, "entry of directory")
    add(wrong, "its hard link has another name", "key.drec_key.hdr", level="error")


def check_attributes(subject: Subject, parts: VolumeParts) -> None:
    """Check that each attribute is either embedded or has a stream."""
    xattrs = parts.fs.records.get("xattr")
    if "is_embedded" in xattrs:
        wrong = xattrs["is_embedded"] == xattrs["is_stream"]
        message, field = "it is not either embedded or streamed", "val.xattr_val.fixed.flags"
        subject.records(parts).for_table(xattrs, "attribute of")(wrong, message, field)


def check_identity(subject: Subject, parts: VolumeParts) -> None:
    """Compare the superblock with its slot in the container and with its own flags."""
    state = parts.state
    superblock, blocks = state.superblock, state.store.blocks
    roles = [int(role) for role in grammar.ApfsVolume.VolumeRole]
    encrypted = int(state.omap.is_encrypted.sum()) if superblock.is_unencrypted else 0
    odd = int((state.omap.size_bytes[~state.omap.is_deleted] % blocks.block_size != 0).sum())
    empty = int((state.omap.size_bytes[~state.omap.is_deleted] == 0).sum())
    role = superblock.role if superblock.role in roles else "a known role"
    for message, expected, found, field in (
        ("is in another slot", subject.slots[state.number], superblock.fs_index, "fs_index"),
        ("is younger than its container", state.xid, max(superblock.hdr.xid, state.xid), "hdr.xid"),
        ("has an unknown role", role, superblock.role, "role"),
        ("is not encrypted, but its object map says encrypted", 0, encrypted, "fs_flags"),
        ("has an object map with impossible sizes", 0, odd + empty, "omap_oid"),
    ):
        if expected != found:
            state.at_superblock(field).add("superblock-differs", "warning", message, expected=expected, found=found)


def check_streams(subject: Subject, parts: VolumeParts) -> None:
    """Compare data streams with the inodes and attributes that own them."""
    records, report = parts.fs.records, subject.records(parts)
    inodes, xattrs, streams = records.get("inode"), records.get("xattr"), records.get("dstream_id")
    if "has_dstream" not in inodes:
        return
    owners = inodes["private_id"][inodes["has_dstream"]]
    others = xattrs["stream_id"][xattrs["stream_id"] != 0] if "stream_id" in xattrs else owners[:0]
    if not len(others) and _is_one_to_one(owners, streams):
        return
    owners = np.concatenate([owners, others])
    if "refcnt" in streams:
        users = _count_references(streams["obj_id"], owners)
        wrong = users != streams["refcnt"].astype(np.int64)
        add, field = report.for_table(streams, "data stream", "count-differs"), "val.dstream_id_val.refcnt"
        add(wrong, "it counts other users than it has", field, expected=users, found=streams["refcnt"])
    lacking = inodes["has_dstream"] & ~records.find("inode", "dstream_id", "private_id")[1]
    report.for_table(inodes, "inode")(lacking, "its data stream does not exist", _STREAM, found=inodes["private_id"])


def _is_one_to_one(owners: NDArray[np.uint64], streams: Columns) -> bool:
    """Return whether each stream has exactly one owner and a reference count of 1, and each owner a stream."""
    is_same = is_strictly_ascending(owners) and np.array_equal(owners, streams["obj_id"])
    return bool(is_same and "refcnt" in streams and (streams["refcnt"] == 1).all())


def check_numbers(subject: Subject) -> None:
    """Check that the next transaction and object numbers are free."""
    container = subject.reporting
    superblock, code = container.superblock, "superblock-differs"
    if superblock.next_xid <= container.xid:
        log, expected = container.at_superblock("next_xid"), f"more than {container.xid}"
        message = "the next transaction is not younger than this one"
        log.add(code, "warning", message, expected=expected, found=superblock.next_xid)
    # Ephemeral and virtual objects are numbered in one sequence; the number of a physical object is its address.
    highest = max([*container.checkpoint.ephemerals, int(container.omap.oid.max(initial=0))])
    if superblock.next_oid <= highest:
        log, expected = container.at_superblock("next_oid"), f"more than {highest}"
        log.add(code, "warning", "the next object number is taken", expected=expected, found=superblock.next_oid)


def check_maps(subject: Subject) -> None:
    """Check that mappings have the types of their objects, and that only the last map is marked as last."""
    container = subject.reporting
    blocks, paddrs = container.blocks, np.array(container.checkpoint.map_paddrs, np.uint64)
    if len(paddrs):
        data = blocks.read(paddrs, blocks.block_size).reshape(-1)
        starts = np.arange(len(paddrs), dtype=np.int64) * blocks.block_size
        heads = decode_columns(records.CHECKPOINT_MAP_HEAD, data, starts, (records.CHECKPOINT_MAP_HEAD.is_last,))
        if heads["is_last"].tolist() != [0] * (len(paddrs) - 1) + [1]:
            message = "the checkpoint's last map, and no other, must be marked as the last"
            container.log.at("checkpoint map", int(paddrs[-1])).add("checkpoint-invalid", "warning", message)
    for item in container.checkpoint.ephemerals.values():
        head = object_header(blocks.read_object(item.paddr, blocks.block_size), blocks.at(item.paddr))
        expected, found = (item.type, item.subtype), (int(head.type), int(head.subtype))
        if found != expected:
            log = container.log.at(f"ephemeral object {item.oid}", item.paddr)
            message = "the checkpoint map says another type"
            log.add("checkpoint-invalid", "warning", message, expected=expected, found=found)


def check_newer(subject: Subject) -> None:
    """Report a newer checkpoint than the one that was read: it is lost."""
    container = subject.reporting
    newer = container.younger
    if newer is not None:
        message = f"transaction {newer.xid} cannot be read: {newer.why}; {container.xid} is shown"
        log = container.log.at("checkpoint", newer.paddr)
        log.add("checkpoint-invalid", "error", message, expected=newer.xid, found=container.xid)


def check_queue_counts(subject: Subject, space: Space) -> None:
    """Check that free queues have as many blocks as they count, all of them inside the container."""
    container = subject.reporting
    log, code = container.log.at("space manager"), "spaceman-invalid"
    for number, queue in enumerate(space.header.free_queues):
        found = space.queued.get(number, 0)
        if found != queue.num_blocks:
            message = f"free queue {number} counts other blocks than it holds"
            log.add(code, "warning", message, expected=found, found=queue.num_blocks)
    limit = container.device_blocks[0]
    for item in space.pending:
        if item.paddr < container.blocks.tier2_mark and item.paddr + item.num_blocks > limit:
            log.add(code, "warning", f"block {item.paddr} waits to become free, but is outside")


def check_space_blocks(subject: Subject) -> None:
    """Check the checksums of chunk-info blocks and of the blocks with their addresses."""
    container = subject.container
    regions = [item for item in subject.parts.regions if item.type in ("spaceman-cib", "spaceman-cab")]
    paddrs = np.array([item.paddr for item in regions], np.uint64)
    readable = container.blocks.readable(paddrs, container.blocks.block_size)
    report_damaged(container.store, paddrs[readable], ["chunk information"] * int(readable.sum()))
