"""Attribute records: each has an owner, fits into its record, and its groups of extents follow one another.

TN1150, "Attributes File"; records of values that stand in the tree follow the system's hfs_format.h.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.columns import I64, U8, Columns, Mask, concatenate
from layoutscope.arrays.ragged import starts_of
from layoutscope.filesystems.hfsplus.check.located import Batch, TreeRecords, read_records
from layoutscope.filesystems.hfsplus.records.attributes import (
    COMPRESSION_ATTRIBUTE,
    DECMPFS,
    EXTENT_FIELDS,
    EXTENTS,
    FORK,
    INLINE,
    KEY,
    RECORD_SIZES,
    TYPE,
)
from layoutscope.filesystems.hfsplus.tree import names
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import HFSPLUS_VOLUME_EXTENT_DESCRIPTOR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.hfsplus.tree.tree import Tree
    from layoutscope.filesystems.hfsplus.volume.volume import Volume
    from layoutscope.findings import FindingLog
    from layoutscope.recordtypes import RecordType

TYPES = grammar.HfsplusAttributes.RecordType
RECORD_TYPES: Final[dict[int, RecordType]] = {
    int(TYPES.inline_data): INLINE,
    int(TYPES.fork_data): FORK,
    int(TYPES.extents): EXTENTS,
}
FIRST_LINK: Final = "com.apple.system.hfs.firstlink"
"""The attribute of a folder with hard links that names the first of them, as digits and a zero byte."""

ACCESS_LIST: Final = "com.apple.system.Security"
"""The attribute that holds an access list (kauth.h, KAUTH_FILESEC_XATTR)."""

HEADER_FIELDS: Final = (DECMPFS.compression_magic, DECMPFS.compression_type, DECMPFS.len_uncompressed)
"""What of the header of a compressed file is held against its forks."""

# CNIDs have 32 bits, so that 4294967295 is the largest.
MOST_DIGITS: Final = 10


@frozen
class AttributeRecords:
    """Attribute records in key order."""

    located: TreeRecords  # of the whole tree
    # key, data, stop: places of every leaf record, in the tree's file
    key: I64
    data: I64
    stop: I64
    kind: I64  # its type; 0 where it is none that exists, or too short
    # file_id, start_block: from the keys
    file_id: I64
    start_block: I64
    # units, start, count: names
    units: NDArray[np.uint16]
    start: I64
    count: I64
    # size, blocks: inline: bytes of the value. Fork: its logical size and total blocks. 0 otherwise.
    size: I64
    blocks: I64
    first_link: I64  # number in an attribute of this name; 0 where it is none, -1 in other attributes
    # starts, counts: extents; zeros in inline records
    starts: I64
    counts: I64
    is_access_list: Mask  # whether it is the attribute of an access list
    decmpfs: Columns  # fields of the header that makes a file a compressed one; -1 in other attributes

    def field(self, row: int, path: str) -> FindingLog:
        """Bind the log to a field of a record's data; of its key where the path starts with ``key.``."""
        if path.startswith("key."):
            at = int(self.key[row]) + KEY.offset_of(path.removeprefix("key."))
        else:
            name, _, number = path.partition("#")
            record_type = RECORD_TYPES.get(int(self.kind[row]), TYPE)
            step = HFSPLUS_VOLUME_EXTENT_DESCRIPTOR.width * int(number or 0)
            at = int(self.data[row]) + record_type.offset_of(name) + step
        return self.located.at(at).within(self.located.path(row, path))


@dataclass(slots=True)
class _Collector:
    volume: Volume
    parts: list[Columns] = field(default_factory=list)
    names: list[NDArray[np.uint16]] = field(default_factory=list)

    def read(self, batch: Batch) -> None:
        """Read a batch of leaves."""
        everything = np.ones(len(batch.shift), np.bool_)
        key, data, stop = (batch.at(name, everything) for name in ("key", "data", "stop"))
        decoder, buffer = self.volume.decoder, batch.buffer
        keys = decoder.columns(KEY, buffer, key, (KEY.file_id, KEY.start_block, KEY.num_name_units))
        counts = keys["num_name_units"].astype(np.int64)
        units = names.gather(buffer, key + KEY.width, counts)
        self.names.append(units)
        kind = self._kinds(batch, data, stop)
        columns: Columns = {name: batch.rows[name] for name in ("key", "data", "stop")}
        columns |= {"kind": kind, "count": counts}
        columns |= {name: keys[name].astype(np.int64) for name in ("file_id", "start_block")}
        columns |= self._values(batch, data, kind)
        columns["first_link"] = np.full(len(data), -1, np.int64)
        rows = _named(units, counts, FIRST_LINK)
        rows = rows[kind[rows] == TYPES.inline_data]
        columns["first_link"][rows] = _numbers(buffer, data[rows] + INLINE.width, columns["size"][rows], stop[rows])
        columns["is_access_list"] = np.zeros(len(data), np.bool_)
        columns["is_access_list"][_named(units, counts, ACCESS_LIST)] = True
        rows = _named(units, counts, COMPRESSION_ATTRIBUTE)
        columns |= self._headers(buffer, data, rows[kind[rows] == TYPES.inline_data], stop)
        self.parts.append(columns)

    def _headers(self, buffer: U8, data: I64, rows: I64, stop: I64) -> Columns:
        """Decode the headers of compressed files; one that is shorter is none."""
        rows = rows[data[rows] + INLINE.width + DECMPFS.width <= stop[rows]]
        found = self.volume.decoder.columns(DECMPFS, buffer, data[rows] + INLINE.width, HEADER_FIELDS)
        columns = {}
        for name in HEADER_FIELDS:
            columns[f"decmpfs.{name}"] = np.full(len(data), -1, np.int64)
            # Sizes have 64 bits without a sign: one that does not fit is impossible, and stays so when it is cut.
            wide = np.minimum(found[name].astype(np.uint64), np.uint64(np.iinfo(np.int64).max))
            columns[f"decmpfs.{name}"][rows] = wide.astype(np.int64)
        return columns

    def _kinds(self, batch: Batch, data: I64, stop: I64) -> I64:
        place = np.where(data + TYPE.width <= stop, data, 0)
        found = self.volume.decoder.column(TYPE, batch.buffer, place, TYPE.record_type)
        kind = np.zeros(len(data), np.int64)
        for number, size in RECORD_SIZES.items():
            kind[(found == number) & (data + size <= stop) & (place == data)] = number
        return kind

    def _values(self, batch: Batch, data: I64, kind: I64) -> Columns:
        decoder = self.volume.decoder
        size, blocks = np.zeros(len(data), np.int64), np.zeros(len(data), np.int64)
        starts, counts = np.zeros((len(data), 8), np.int64), np.zeros((len(data), 8), np.int64)
        inline = kind == TYPES.inline_data
        size[inline] = decoder.column(INLINE, batch.buffer, data[inline], INLINE.len_attribute)
        for number, (record_type, fields) in EXTENT_FIELDS.items():
            chosen = kind == number
            found = decoder.columns(record_type, batch.buffer, data[chosen], fields)
            starts[chosen], counts[chosen] = found[fields[0]], found[fields[1]]
        chosen = kind == TYPES.fork_data
        fields = (FORK.the_fork.len_logical, FORK.the_fork.num_blocks)
        found = decoder.columns(FORK, batch.buffer, data[chosen], fields)
        # Sizes are unsigned on the disk: damage makes ones that no signed number holds.
        size[chosen] = np.minimum(found["the_fork.len_logical"], np.uint64(np.iinfo(np.int64).max)).astype(np.int64)
        blocks[chosen] = found["the_fork.num_blocks"]
        return {"size": size, "blocks": blocks, "starts": starts, "counts": counts}


def _named(units: NDArray[np.uint16], counts: I64, name: str) -> I64:
    """Rows whose name is this one."""
    wanted = np.array([ord(letter) for letter in name], np.uint16)
    rows = np.flatnonzero(counts == len(wanted))
    start = starts_of(counts)[rows]
    same: I64 = rows[(units[start[:, None] + np.arange(len(wanted))] == wanted).all(axis=1)]
    return same


def _numbers(buffer: U8, start: I64, size: I64, stop: I64) -> I64:
    """Read decimal numbers that end with their values or with a zero byte; 0 where there is something else."""
    place = start[:, None] + np.arange(MOST_DIGITS + 1)
    inside = (np.arange(MOST_DIGITS + 1) < size[:, None]) & (place < stop[:, None])
    digits = np.where(inside, buffer[np.where(inside, place, 0)], 0).astype(np.int64) - ord("0")
    length = np.argmax(digits == -ord("0"), axis=1)
    own = np.arange(MOST_DIGITS + 1) < length[:, None]
    number = np.zeros(len(start), np.int64)
    for column in range(MOST_DIGITS):
        number = np.where(own[:, column], number * 10 + digits[:, column], number)
    is_number = ((digits >= 0) & (digits <= 9) | ~own).all(axis=1) & (length > 0)
    return np.where(is_number, number, 0)


def read_attributes(volume: Volume, tree: Tree) -> AttributeRecords:
    """Read all attribute records."""
    collector = _Collector(volume)
    located = read_records(volume, tree, collector.read)
    none, eight = np.empty(0, np.int64), np.empty((0, 8), np.int64)
    plain = ("key", "data", "stop", "kind", "count", "file_id", "start_block", "size", "blocks", "first_link")
    nothing: Columns = {**dict.fromkeys(plain, none), "starts": eight, "counts": eight}
    nothing |= {f"decmpfs.{name}": none for name in HEADER_FIELDS}
    rows = concatenate(collector.parts, {**nothing, "is_access_list": none.astype(np.bool_)})
    units = np.concatenate([np.empty(0, np.uint16), *collector.names])
    start = starts_of(rows["count"])
    decmpfs = {str(name): rows.pop(f"decmpfs.{name}") for name in HEADER_FIELDS}
    return AttributeRecords(located, units=units, start=start, decmpfs=decmpfs, **rows)
