"""Inodes against themselves: flags against extended fields, kind of file, and numbers; and what is noted of each.

Apple File System Reference, File-System Objects and Extended Fields. What contradicts within one record is found
where its leaf is read; names, holes and flags are noted there, and compared when all records are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.ragged import ordinals
from layoutscope.filesystems.apfs.check.extended_fields import FIELD, last_byte
from layoutscope.filesystems.apfs.check.subject import InodeNotes
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import DSTREAM, INODE_VAL_FIXED, J_KEY, SPARSE_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.extended_fields import Extended
    from layoutscope.filesystems.apfs.check.rows import CheckedRows

INODE: Final = INODE_VAL_FIXED
FLAG: Final = grammar.ApfsInode.InodeFlag
_FORMAT: Final = grammar.ApfsInode.ModeFormat
_CLONED: Final = int(FLAG.was_cloned | FLAG.was_ever_cloned)
_HAS_PURGEABLE_FLAGS: Final = 0x0200_0000
"""A flag that the reference does not know; apfsck and macOS do."""
_DEVICES: Final = (int(_FORMAT.char_device), int(_FORMAT.block_device))
_UNASSIGNED: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_ANNOUNCED: Final = (
    (int(FLAG.maintain_dir_stats), int(FIELD.dir_stats_key), "statistics of the directory"),
    (int(FLAG.is_sparse), int(FIELD.sparse_bytes), "a count of sparse bytes"),
    (_HAS_PURGEABLE_FLAGS, int(FIELD.purgeable_flags), "flags of what may be purged"),
)
"""Flags that say that an inode has an extended field."""
_EXCLUDED: Final = (
    (int(FLAG.has_rsrc_fork), int(FLAG.no_rsrc_fork), "it has a resource fork, and has none"),
    (int(FLAG.pinned_to_main), int(FLAG.pinned_to_tier2), "it is pinned to both devices"),
)
"""Flags that exclude each other."""
_MULTIPLIER: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
_ROUNDS: Final = 1 << 16
"""Names whose bytes are spread out at once."""


def text_sums(data: NDArray[np.uint8], start: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a number for each of many texts that is the same for the same bytes; 0 for none.

    >>> one, two, other = text_sums(np.frombuffer(b"abcabcabd", np.uint8), np.array([0, 3, 6]), np.array([3, 3, 3]))
    >>> bool(one == two), bool(one == other)
    (True, False)
    """
    found = np.zeros(len(start), np.uint64)
    powers = np.multiply.accumulate(np.full(int(length.max(initial=0)) + 1, _MULTIPLIER, np.uint64))
    for first in range(0, len(start), _ROUNDS):
        rows = slice(first, first + _ROUNDS)
        counts, step = length[rows], ordinals(length[rows])
        values = data[np.repeat(start[rows], counts) + step].astype(np.uint64) + np.uint64(1)
        values *= powers[step]
        some = np.flatnonzero(counts > 0)
        begins = np.cumsum(counts)[some] - counts[some]
        if len(some):
            found[first + some] = np.add.reduceat(values, begins)
    return found


def check_inodes(rows: CheckedRows, fields: Extended | None, notes: InodeNotes | None, *, is_plain: bool) -> None:
    """Compare flags, kind and numbers of inodes with their extended fields."""
    found = {name: rows.column("val", INODE, name) for name in (INODE.internal_flags, INODE.mode, INODE.private_id)}
    flags, form = found[INODE.internal_flags], found[INODE.mode] & 0xF000
    number = rows.column("key", J_KEY, J_KEY.obj_id)
    kinds = np.zeros(len(rows.row), np.uint32)
    if fields is not None:
        place = np.searchsorted(rows.row, fields.rows.row)[fields.owner]
        np.bitwise_or.at(kinds, place, np.uint32(1) << (fields.kind & 31).astype(np.uint32))
    _check_flags(rows, flags, kinds)
    has = {kind: kinds >> np.uint32(kind) & np.uint32(1) != 0 for kind in map(int, FIELD)}
    wrong = np.isin(form, _DEVICES) != has[int(FIELD.rdev)]
    rows.report(wrong, "val", "inode: a device's number is there without a device, or a device without it")
    wrong = has[int(FIELD.dstream)] & (form != int(_FORMAT.file))
    rows.report(wrong, "val", "inode: it has a data stream, but is no regular file")
    wrong = (found[INODE.private_id] != number) & (flags & _CLONED == 0)
    sides = (number, found[INODE.private_id])
    rows.report(wrong, "val", "inode: it has the stream of another, but is no clone", sides, INODE.private_id)
    sparse, name = np.zeros(len(rows.row), np.uint64), np.zeros(len(rows.row), np.uint64)
    if fields is not None:
        _check_streams(rows, fields, place, flags, is_plain=is_plain)
        sparse, name = _noted(rows, fields, place)
    if notes is not None:
        for column, values in zip(InodeNotes.__slots__, (number, flags, kinds, sparse, name), strict=True):
            getattr(notes, column).append(values)


def _check_flags(rows: CheckedRows, flags: NDArray[np.uint64], kinds: NDArray[np.uint32]) -> None:
    at = INODE.internal_flags
    for flag, kind, what in _ANNOUNCED:
        wrong = (flags & flag != 0) != (kinds >> np.uint32(kind) & np.uint32(1) != 0)
        rows.report(wrong, "val", f"inode: flags and extended fields disagree about {what}", field=at)
    for one, other, message in _EXCLUDED:
        rows.report((flags & one != 0) & (flags & other != 0), "val", f"inode: {message}", field=at)
    wrong = (flags & int(FLAG.dir_stats_origin) != 0) & (flags & int(FLAG.maintain_dir_stats) == 0)
    rows.report(wrong, "val", "inode: statistics begin here that it does not keep", field=at)


def _check_streams(
    rows: CheckedRows, fields: Extended, place: NDArray[np.int64], flags: NDArray[np.uint64], *, is_plain: bool
) -> None:
    """A stream has a key of its own only in an encrypted volume; what was cloned may wait for one."""
    chosen = fields.of_kind(int(FIELD.dstream))
    chosen = chosen[fields.length[chosen] >= DSTREAM.width]
    decoder = rows.batch.tree.source.decoder
    key = decoder.column(DSTREAM, rows.batch.buffer, fields.start[chosen], DSTREAM.default_crypto_id)
    is_clone = flags[place[chosen]] & int(FLAG.was_cloned) != 0
    wrong = np.zeros(len(rows.row), bool)
    wrong[place[chosen[(key == _UNASSIGNED) & ~is_clone]]] = True
    if is_plain:
        wrong[place[chosen[(key != 0) & (key != _UNASSIGNED)]]] = True
    rows.report(wrong, "val", "inode: its stream has a key that it cannot have")


def _noted(
    rows: CheckedRows, fields: Extended, place: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Read bytes in holes, and sums of names, which end with a zero byte."""
    buffer, decoder = rows.batch.buffer, rows.batch.tree.source.decoder
    sparse, name = np.zeros(len(rows.row), np.uint64), np.zeros(len(rows.row), np.uint64)
    chosen = fields.of_kind(int(FIELD.sparse_bytes))
    chosen = chosen[fields.length[chosen] >= SPARSE_BYTES.width]
    sparse[place[chosen]] = decoder.column(SPARSE_BYTES, buffer, fields.start[chosen], SPARSE_BYTES.num_bytes)
    chosen = fields.of_kind(int(FIELD.entry_name))
    chosen = chosen[fields.length[chosen] > 0]
    ends = last_byte(fields, chosen) == 0
    wrong = np.zeros(len(rows.row), bool)
    wrong[place[chosen[~ends]]] = True
    rows.report(wrong, "val", "inode: its name does not end with a zero byte")
    chosen = chosen[ends]
    name[place[chosen]] = text_sums(buffer, fields.start[chosen], fields.length[chosen] - 1)
    return sparse, name
