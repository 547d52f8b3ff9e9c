"""Extended fields of inodes and directory entries: they fill the value, each with the flags and the size of its type.

Apple File System Reference, Extended Fields. A head, descriptions, then the data of each field, padded to eight bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.ragged import ordinals, owners
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import X_FIELD, XF_BLOB_HEAD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.rows import CheckedRows

FIELD: Final = grammar.ApfsXfields.InodeField
_FLAG: Final = grammar.ApfsXfields.FieldFlag
_KNOWN_TYPES: Final = {"inode": range(1, 18), "dir_rec": range(1, 2)}
_FLAGS: Final = 0x3B
"""All but the reserved ones."""
_OF_BOTH: Final = int(_FLAG.user_field | _FLAG.system_field)
_TYPES: Final = {
    ("inode", 4): ((2,), None),
    ("inode", 8): ((0x20,), 40),
    ("inode", 10): ((0x22,), 8),
    ("inode", 13): ((0x28,), 8),
    ("inode", 14): ((0, 0x22), 4),
    ("dir_rec", 1): ((0, 2), 8),
}
"""Flags and size of extended fields by the kind of record and their type, as macOS and Linux write them."""


@frozen
class Extended:
    """Extended fields of records, one row a field."""

    rows: CheckedRows  # records whose fields could be told apart
    owner: NDArray[np.int64]  # position of each field's record among them
    # kind, flags: as stored
    kind: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    # start, length: place of its data in the batch, and their bytes without the padding
    start: NDArray[np.int64]
    length: NDArray[np.int64]

    def of_kind(self, kind: int) -> NDArray[np.int64]:
        """Which fields are of a type."""
        return np.flatnonzero(self.kind == kind)


def check_extended(rows: CheckedRows, name: str, width: int) -> Extended | None:
    """Hold the extended fields of records against the rules.

    The fields of those records that keep the rules of lengths; None if there are none.
    """
    batch, size = rows.batch, rows.lengths("val") - width
    long_enough = size >= XF_BLOB_HEAD.width
    rows.report((size > 0) & ~long_enough, "val", f"{name}: its extended fields do not fill its value")
    rows, size = rows.take(long_enough), size[long_enough]
    if not len(size):
        return None
    start, decoder = rows.starts("val") + width, batch.tree.source.decoder
    head = decoder.columns(XF_BLOB_HEAD, batch.buffer, start, (XF_BLOB_HEAD.num_exts, XF_BLOB_HEAD.used_data))
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
    found = decoder.columns(X_FIELD, batch.buffer, spots, (X_FIELD.type, X_FIELD.flags, X_FIELD.len_data))
    length = found["len_data"].astype(np.int64)
    padded = -(-length // 8) * 8
    total = np.bincount(owner, padded, len(count)).astype(np.int64)
    message = f"{name}: the lengths of its extended fields do not add up to what they use"
    rows.report(total != used, "val", message, (total, used))
    # Data stand one after the other; those of one record begin behind its descriptions.
    ends = np.append(0, np.cumsum(padded))
    begin = start[owner] + front[~wrong][owner] + ends[:-1] - ends[np.searchsorted(owner, owner)]
    sound = (total == used)[owner]
    kept = Extended(rows, owner[sound], found["type"][sound], found["flags"][sound], begin[sound], length[sound])
    _check_types(Extended(rows, owner, found["type"], found["flags"], begin, length), name)
    _check_padding(kept, name, padded[sound] - length[sound])
    return kept


def _check_types(fields: Extended, name: str) -> None:
    kind, flags, length = fields.kind, fields.flags, fields.length
    wrong = ~np.isin(kind, np.array(_KNOWN_TYPES[name])) | (flags & np.uint8(~_FLAGS & 0xFF) != 0)
    wrong |= flags & np.uint8(_OF_BOTH) == _OF_BOTH
    for (record, number), (allowed, size) in _TYPES.items():
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
    twice = np.zeros(len(fields.rows.row), bool)
    twice[fields.owner[order][1:][again]] = True
    fields.rows.report(twice, "val", f"{name}: it has two extended fields of one type")


def _check_padding(fields: Extended, name: str, gap: NDArray[np.int64]) -> None:
    """What fills a field up to eight bytes is zero."""
    chosen = np.flatnonzero(gap > 0)
    item, step = owners(gap[chosen]), ordinals(gap[chosen])
    places = fields.start[chosen][item] + fields.length[chosen][item] + step
    wrong = np.zeros(len(fields.rows.row), bool)
    wrong[fields.owner[chosen][item][fields.rows.batch.buffer[places] != 0]] = True
    fields.rows.report(wrong, "val", f"{name}: the padding of an extended field is not zero")


def last_byte(fields: Extended, chosen: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the last byte of the data of some fields, none of which is empty."""
    found: NDArray[np.uint8] = fields.rows.batch.buffer[fields.start[chosen] + fields.length[chosen] - 1]
    return found
