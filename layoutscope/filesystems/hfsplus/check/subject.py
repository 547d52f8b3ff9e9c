"""What a check looks at: everything that was read of a volume, and every record of its trees with its place.

TN1150, "Extents Overflow File" and "Hot Files"; records of the catalog and of attributes have modules of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from msgspec import field

from layoutscope.display import Struct
from layoutscope.filesystems.hfsplus import extents, names, rootfiles
from layoutscope.filesystems.hfsplus.attributes import (
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
from layoutscope.filesystems.hfsplus.attributes import RECORD_SIZES as ATTRIBUTE_SIZES
from layoutscope.filesystems.hfsplus.btree import BATCH_BYTES, pieces_of
from layoutscope.filesystems.hfsplus.catalog import FILE, FOLDER, THREAD
from layoutscope.filesystems.hfsplus.catalog import RECORD_SIZES as CATALOG_RECORD_SIZES
from layoutscope.filesystems.hfsplus.catalog import RECORD_SIZES as CATALOG_SIZES
from layoutscope.filesystems.hfsplus.forks import locate, read_parts
from layoutscope.filesystems.hfsplus.nodes import (
    DESCRIPTOR,
    DESCRIPTOR_BYTES,
    FORMS,
    INDEX,
    LENGTH_BYTES,
    OFFSET_BYTES,
    POINTER_BYTES,
    Bounds,
    KeyForm,
    Keys,
    ReadNodes,
    decode_nodes,
    fold_case,
    read_keys,
    record_bounds,
)
from layoutscope.filesystems.hfsplus.tree import Tree, is_case_sensitive
from layoutscope.structs import grammar
from layoutscope.structs.arrays import (
    I64,
    U8,
    Columns,
    GrowingColumn,
    GrowingTable,
    Mask,
    concatenate,
    heads,
    starts_of,
)
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.records import (
    CATALOG_RECORD_TYPE,
    HFSPLUS_VOLUME_EXTENT_DESCRIPTOR,
    KEY_HEADER,
    POINTER_RECORD,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from layoutscope.filesystems.hfsplus.contents import Contents
    from layoutscope.filesystems.hfsplus.volume import Volume
    from layoutscope.findings import FindingLog, Level
    from layoutscope.structs.recordtypes import RecordColumn, RecordType


ROW_COLUMNS: Final = ("node", "level", "key", "key_length", "data", "stop", "child")
FLAW_COLUMNS: Final = ("at", "node", "kind")
OFFSET_FLAW, COUNT_FLAW, KEY_FLAW, NAME_FLAW = range(4)


class Batch(Struct, frozen=True):
    """Sound records of some nodes, with the bytes they lie in."""

    buffer: U8  # the nodes
    shift: I64  # what leads from a place in the buffer to one in the tree's file
    rows: Columns  # `ROW_COLUMNS`; places in the tree's file
    keys: Keys  # their keys, with the cases of the names
    to_come: float  # how many times as many nodes of the level follow

    def at(self, name: str, chosen: Mask) -> I64:
        """Places in the buffer."""
        return self.rows[name][chosen] - self.shift[chosen]


class TreeRecords(Struct, frozen=True):
    """All sound records of a tree, leaves first, each level in the order of its nodes."""

    # volume, tree: where it was read
    volume: Volume
    tree: Tree
    # `node, level` (0 at the leaf), `key, data, stop` in bytes from the start of the tree's file, `key_length` without
    # the length field, `child` (-1 in leaves)
    rows: Columns
    keys: Keys  # their keys, folded where the tree does not tell cases apart
    stored: Keys  # the same with the cases that they have on the disk
    flaws: Columns  # `at, node, kind` of offsets, counts and keys that cannot be

    @property
    def name(self) -> str:
        """Name of the tree."""
        return self.tree.file.tree

    def volume_offset(self, at: int) -> int | None:
        """Turn a place in the tree's file into one on the volume."""
        pieces = locate(self.volume, self.tree.file.fork, np.array([at], np.int64), np.ones(1, np.int64))
        return int(pieces.volume_offset[0]) if len(pieces.part) else None

    def at(self, place: int) -> FindingLog:
        """Bind the log to a place in the tree's file, in bytes; the structure is the node that it lies in."""
        node = place // self.tree.file.node_size_bytes
        return self.volume.log.at(f"{self.name} node {node}", self.volume_offset(place))

    def row(self, part: str, plus: int = 0) -> Callable[[int], FindingLog]:
        """Bind the log to a byte of the key or data of a row."""
        return lambda row: self.at(int(self.rows[part][row]) + plus)

    def path(self, row: int, field: str) -> str:
        """Name a field of a record by its path in its node; ``#`` and a number behind it choose an item of an array."""
        node, first = self.rows["node"], row
        while first and node[first - 1] == node[row]:
            first -= 1
        name, _, item = field.partition("#")
        return f"record {row - first}/{name}[{item}]" if item else f"record {row - first}/{name}"


def read_records(volume: Volume, tree: Tree, leaves: Callable[[Batch], None] | None = None) -> TreeRecords:
    """Read all nodes that the tree reaches, level by level."""
    form = FORMS[tree.file.tree]
    rows = GrowingTable(dict.fromkeys(ROW_COLUMNS, np.int64))
    keys, units = GrowingTable({"ident": np.int64, "count": np.int64}), GrowingColumn(np.uint16)
    flaws: list[Columns] = []
    for level, numbers in _levels(tree):
        for nodes, to_come in _batches(volume, tree, numbers):
            batch = _sound_records(tree, nodes, (level, to_come), flaws)
            rows.add(batch.rows, to_come)
            keys.add({"ident": batch.keys.ident, "count": batch.keys.count}, to_come)
            units.add(batch.keys.units, to_come)
            if leaves is not None and level == 0:
                leaves(batch)
    count = keys.values["count"]
    stored = Keys(keys.values["ident"], units.values, starts_of(count), count)
    # Names of attributes compare unit by unit on every volume (hfs_xattr.c, `hfs_attrkeycompare`): only catalogs fold.
    is_folded = form.has_name and not form.tail and not is_case_sensitive(volume, tree)
    return TreeRecords(
        volume,
        tree,
        rows.values,
        fold_case(stored) if is_folded else stored,
        stored,
        concatenate(flaws, dict.fromkeys(FLAW_COLUMNS, np.empty(0, np.int64))),
    )


def _levels(tree: Tree) -> Iterator[tuple[int, I64]]:
    """Numbers of the nodes of each level, in the order of their keys as the tree has it."""
    yield 0, tree.reach.leaves
    reached = np.flatnonzero((tree.nodes.key_rank >= 0) & (tree.nodes.kind == INDEX))
    for level in sorted(set((tree.nodes.height[reached] - 1).tolist())):
        chosen = reached[tree.nodes.height[reached] - 1 == level]
        yield level, chosen[np.argsort(tree.nodes.key_rank[chosen], kind="stable")]


def _batches(volume: Volume, tree: Tree, numbers: I64) -> Iterator[tuple[ReadNodes, float]]:
    """Read nodes of one level, some at a time; also say how many times as many follow."""
    size = tree.file.node_size_bytes
    step = max(1, BATCH_BYTES // size)
    for start in range(0, len(numbers), step):
        chosen = numbers[start : start + step]
        buffer = read_parts(volume, pieces_of(volume, tree.file.fork, size, chosen))
        yield decode_nodes(buffer, size, chosen), (len(numbers) - start - len(chosen)) / len(chosen)


def _sound_records(tree: Tree, nodes: ReadNodes, where: tuple[int, float], flaws: list[Columns]) -> Batch:
    """Locate the records of nodes; what cannot be one is kept among the flaws."""
    form, (level, to_come) = FORMS[tree.file.tree], where
    bounds = record_bounds(nodes)
    shift = nodes.number * nodes.node_size_bytes - nodes.start
    flaws.append(_offset_flaws(form, nodes, bounds, shift))
    sound = bounds.is_sound
    node = bounds.node[sound]
    key = nodes.start[node] + bounds.first[sound]
    stop = nodes.start[node] + bounds.stop[sound]
    length = decode_column(KEY_HEADER, nodes.buffer, key, KEY_HEADER.len_key)
    key_length = length.astype(np.int64)
    # The length in a key is what is used of it. In index nodes a key may have the room of the longest all the same, as
    # the attributes in the tree's header say; and data start at even offsets (TN1150, "Keyed Records").
    stored = key_length
    if level and not tree.file.header.has_variable_index_keys:
        stored = np.full(len(key), int(tree.file.header.len_key_max))
    data = key + LENGTH_BYTES + stored + stored % 2
    records = {"node": node, "key": key, "key_length": key_length, "data": data, "stop": stop}
    flaw = _key_flaws(form, nodes.buffer, records, level)
    whole = flaw < 0
    at = key + np.where(flaw == NAME_FLAW, _name_field(form), 0) + shift[node]
    flaws.append({"at": at[~whole], "node": nodes.number[node[~whole]], "kind": flaw[~whole]})
    kept = {name: values[whole] for name, values in records.items()}
    keys = read_keys(form, nodes.buffer, kept["key"])
    return Batch(nodes.buffer, shift[kept["node"]], _rows(nodes, level, shift, kept), keys, to_come)


def _rows(nodes: ReadNodes, level: int, shift: I64, kept: Columns) -> Columns:
    node = kept["node"]
    child = np.full(len(node), -1, np.int64)
    if level:
        pointers = decode_column(POINTER_RECORD, nodes.buffer, kept["data"], POINTER_RECORD.child_node)
        child = pointers.astype(np.int64)
    places = {name: kept[name] + shift[node] for name in ("key", "data", "stop")}
    rows = {
        "node": nodes.number[node],
        "level": np.full(len(node), level, np.int64),
        "key_length": kept["key_length"],
        "child": child,
        **places,
    }
    return {name: rows[name] for name in ROW_COLUMNS}


def _offset_flaws(form: KeyForm, nodes: ReadNodes, bounds: Bounds, shift: I64) -> Columns:
    """Find the first entry of each offset table that cannot be.

    The first record follows the descriptor, the others follow one another, and the free space follows the last one.
    """
    node, slot = bounds.node, bounds.slot
    # The offset table grows from the end of the node, and has one entry more than there are records: the free space's.
    bad_start = (slot == 0) & (bounds.first != DESCRIPTOR_BYTES)
    bad_stop = (bounds.stop < bounds.first + LENGTH_BYTES) | (bounds.stop > bounds.limit[node]) | (bounds.stop % 2 != 0)
    entry = np.where(bad_start, 0, slot + 1)
    # A start behind the end, and behind the end of the next record too, is itself what is wrong: it was moved up.
    following = np.append(bounds.stop[1:], 0)
    is_moved = (bounds.stop < bounds.first + LENGTH_BYTES) & (slot > 0) & (bounds.counts[node] > slot + 1)
    entry = np.where(~bad_start & is_moved & (following > bounds.stop) & (bounds.first > following), slot, entry)
    rows = np.flatnonzero(bad_start | bad_stop)
    rows = rows[heads(node[rows])]
    owner = node[rows]
    at = nodes.start[owner] + nodes.node_size_bytes - OFFSET_BYTES * (entry[rows] + 1)
    # With one record too many it is the table's last entry alone that is wrong, and the last record is no record: it
    # starts where the free space does, which is zeros as a rule.
    last = nodes.start[owner] + np.clip(bounds.first[rows], 0, nodes.node_size_bytes - LENGTH_BYTES)
    length = decode_column(KEY_HEADER, nodes.buffer, last, KEY_HEADER.len_key).astype(np.int64)
    has_key = (length >= form.fixed_length) & (length <= (form.max_length or form.fixed_length))
    is_count = (entry[rows] == bounds.counts[owner]) & (bounds.counts[owner] > 1) & ~has_key
    count_at = nodes.start[owner] + DESCRIPTOR.num_records.offset
    at, kind = np.where(is_count, count_at, at), np.where(is_count, COUNT_FLAW, OFFSET_FLAW)
    overfull = np.flatnonzero(bounds.is_overfull)
    kept = ~bounds.is_overfull[owner]
    place = np.concatenate([at[kept], nodes.start[overfull] + DESCRIPTOR.num_records.offset])
    owner = np.concatenate([owner[kept], overfull])
    kinds = np.concatenate([kind[kept], np.full(len(overfull), COUNT_FLAW, np.int64)])
    return {"at": place + shift[owner], "node": nodes.number[owner], "kind": kinds}


def _name_field(form: KeyForm) -> int:
    return form.key_type.offset_of("num_name_units") if form.has_name else 0


def _key_flaws(form: KeyForm, buffer: U8, records: Columns, level: int) -> I64:
    """Say what is wrong with each key, -1 if nothing is."""
    key, length, data, stop = (records[name] for name in ("key", "key_length", "data", "stop"))
    flaw = np.full(len(key), -1, np.int64)
    limit = form.max_length if form.max_length is not None else form.fixed_length
    need = POINTER_BYTES if level else 0
    bad = (length < form.fixed_length) | (length > limit) | (data + need > stop)
    flaw[bad] = KEY_FLAW
    if form.has_name:
        rows = np.flatnonzero(~bad)
        units = decode_column(form.key_type, buffer, key[rows], form.key_type.column("num_name_units"))
        differs = form.fixed_length + 2 * units.astype(np.int64) != length[rows]
        rows = rows[differs]
        # A key that ends where its record's data start is as long as it says: then the name's length is wrong.
        fits = data[rows] + need == stop[rows] if level else _has_type(form, buffer, data[rows], stop[rows])
        flaw[rows] = np.where(fits, NAME_FLAW, KEY_FLAW)
    return flaw


def _has_type(form: KeyForm, buffer: U8, data: I64, stop: I64) -> Mask:
    """Say of each leaf record whether its data start with a type of its tree."""
    known = np.array(sorted(CATALOG_SIZES if form is FORMS["catalog"] else ATTRIBUTE_SIZES), np.int64)
    start = form.record_types
    if start is None:
        return np.zeros(len(data), np.bool_)
    inside: Mask = data + start.width <= stop
    place = np.where(inside, data, 0)
    found = decode_column(start, buffer, place, start.column("record_type"))
    return inside & np.isin(found.astype(np.int64), known)


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
MAX_DIGITS: Final = 10


class AttributeRecords(Struct, frozen=True):
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


class _Collector(Struct):
    parts: list[Columns] = field(default_factory=list)
    names: list[NDArray[np.uint16]] = field(default_factory=list)

    def read(self, batch: Batch) -> None:
        """Read a batch of leaves."""
        everything = np.ones(len(batch.shift), np.bool_)
        key, data, stop = (batch.at(name, everything) for name in ("key", "data", "stop"))
        buffer = batch.buffer
        keys = decode_columns(KEY, buffer, key, (KEY.file_id, KEY.start_block, KEY.num_name_units))
        counts = keys["num_name_units"].astype(np.int64)
        units = names.gather(buffer, key + KEY.width, counts)
        self.names.append(units)
        kind = self._kinds(batch, data, stop)
        columns: Columns = {name: batch.rows[name] for name in ("key", "data", "stop")}
        columns |= {"kind": kind, "count": counts}
        columns |= {name: keys[name].astype(np.int64) for name in ("file_id", "start_block")}
        columns |= self._values(batch, data, kind)
        columns["first_link"] = np.full(len(data), -1, np.int64)
        rows = _find_named(units, counts, FIRST_LINK)
        rows = rows[kind[rows] == TYPES.inline_data]
        columns["first_link"][rows] = _numbers(buffer, data[rows] + INLINE.width, columns["size"][rows], stop[rows])
        columns["is_access_list"] = np.zeros(len(data), np.bool_)
        columns["is_access_list"][_find_named(units, counts, ACCESS_LIST)] = True
        rows = _find_named(units, counts, COMPRESSION_ATTRIBUTE)
        columns |= self._headers(buffer, data, rows[kind[rows] == TYPES.inline_data], stop)
        self.parts.append(columns)

    def _headers(self, buffer: U8, data: I64, rows: I64, stop: I64) -> Columns:
        """Decode the headers of compressed files; one that is shorter is none."""
        rows = rows[data[rows] + INLINE.width + DECMPFS.width <= stop[rows]]
        found = decode_columns(DECMPFS, buffer, data[rows] + INLINE.width, HEADER_FIELDS)
        columns = {}
        for name in HEADER_FIELDS:
            columns[f"decmpfs.{name}"] = np.full(len(data), -1, np.int64)
            # Sizes have 64 bits without a sign: one that does not fit is impossible, and stays so when it is cut.
            wide = np.minimum(found[name].astype(np.uint64), np.uint64(np.iinfo(np.int64).max))
            columns[f"decmpfs.{name}"][rows] = wide.astype(np.int64)
        return columns

    def _kinds(self, batch: Batch, data: I64, stop: I64) -> I64:
        place = np.where(data + TYPE.width <= stop, data, 0)
        found = decode_column(TYPE, batch.buffer, place, TYPE.record_type)
        kind = np.zeros(len(data), np.int64)
        for number, size in RECORD_SIZES.items():
            kind[(found == number) & (data + size <= stop) & (place == data)] = number
        return kind

    def _values(self, batch: Batch, data: I64, kind: I64) -> Columns:
        size, blocks = np.zeros(len(data), np.int64), np.zeros(len(data), np.int64)
        starts, counts = np.zeros((len(data), 8), np.int64), np.zeros((len(data), 8), np.int64)
        inline = kind == TYPES.inline_data
        size[inline] = decode_column(INLINE, batch.buffer, data[inline], INLINE.len_attribute)
        for number, (record_type, fields) in EXTENT_FIELDS.items():
            chosen = kind == number
            found = decode_columns(record_type, batch.buffer, data[chosen], fields)
            starts[chosen], counts[chosen] = found[fields[0]], found[fields[1]]
        chosen = kind == TYPES.fork_data
        fields = (FORK.the_fork.len_logical, FORK.the_fork.num_blocks)
        found = decode_columns(FORK, batch.buffer, data[chosen], fields)
        # Sizes are unsigned on the disk: damage makes ones that no signed number holds.
        size[chosen] = np.minimum(found["the_fork.len_logical"], np.uint64(np.iinfo(np.int64).max)).astype(np.int64)
        blocks[chosen] = found["the_fork.num_blocks"]
        return {"size": size, "blocks": blocks, "starts": starts, "counts": counts}


def _find_named(units: NDArray[np.uint16], counts: I64, name: str) -> I64:
    """Rows whose name is this one."""
    wanted = np.array([ord(letter) for letter in name], np.uint16)
    rows = np.flatnonzero(counts == len(wanted))
    start = starts_of(counts)[rows]
    same: I64 = rows[(units[start[:, None] + np.arange(len(wanted))] == wanted).all(axis=1)]
    return same


def _numbers(buffer: U8, start: I64, size: I64, stop: I64) -> I64:
    """Read decimal numbers that end with their values or with a zero byte; 0 where there is something else."""
    place = start[:, None] + np.arange(MAX_DIGITS + 1)
    inside = (np.arange(MAX_DIGITS + 1) < size[:, None]) & (place < stop[:, None])
    digits = np.where(inside, buffer[np.where(inside, place, 0)], 0).astype(np.int64) - ord("0")
    length = np.argmax(digits == -ord("0"), axis=1)
    own = np.arange(MAX_DIGITS + 1) < length[:, None]
    number = np.zeros(len(start), np.int64)
    for column in range(MAX_DIGITS):
        number = np.where(own[:, column], number * 10 + digits[:, column], number)
    is_number = ((digits >= 0) & (digits <= 9) | ~own).all(axis=1) & (length > 0)
    return np.where(is_number, number, 0)


def read_attributes(volume: Volume, tree: Tree) -> AttributeRecords:
    """Read all attribute records."""
    collector = _Collector()
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


CATALOG_TYPES = grammar.HfsplusCatalog.RecordType

FILE_FIELDS: Final[tuple[RecordColumn, ...]] = (
    FILE.file_id,
    FILE.flags,
    # Of an inode with links this is the CNID of the first of them (`hl_firstLinkID` in hfs_format.h), else it is zero.
    FILE.reserved1,
    FILE.create_date,
    # Of a link in a chain these are the CNIDs of its neighbours: owner and group of the file are those of the inode.
    FILE.permissions.owner_id,
    FILE.permissions.group_id,
    # A union: a link's number of its inode, an inode's count of its links, a device's number (TN1150, HFSPlusBSDInfo).
    FILE.permissions.special,
    FILE.permissions.file_mode,
    FILE.permissions.owner_flags,
    FILE.permissions.file_type,
    FILE.text_encoding,
    FILE.user_info.file_type,
    FILE.user_info.file_creator,
    FILE.user_info.is_alias,
    FILE.has_thread,
    FILE.has_attributes,
    FILE.has_security,
    FILE.has_link_chain,
    FILE.has_expanded_times,
    *(
        field
        for fork in (FILE.data_fork, FILE.resource_fork)
        for field in (fork.len_logical, fork.num_blocks, fork.extents.start_block, fork.extents.num_blocks)
    ),
)
FOLDER_FIELDS: Final[tuple[RecordColumn, ...]] = (
    FOLDER.folder_id,
    FOLDER.create_date,
    FOLDER.has_expanded_times,
    FOLDER.flags,
    FOLDER.valence,
    FOLDER.num_folders,
    FOLDER.permissions.special,
    FOLDER.permissions.file_mode,
    FOLDER.permissions.owner_flags,
    FOLDER.user_info.finder_flags,
    FOLDER.text_encoding,
    FOLDER.has_attributes,
    FOLDER.has_security,
    FOLDER.has_folder_count,
    FOLDER.has_link_chain,
)
THREAD_FIELDS: Final[tuple[RecordColumn, ...]] = (THREAD.parent_id, THREAD.num_name_units)


Kind = Literal["files", "folders"]


class CatalogRecords(Struct, frozen=True):
    """Catalog records in key order."""

    located: TreeRecords  # of the whole tree
    kind: I64  # type of every leaf record; 0 where it is none that exists, or too short
    excess: Mask  # files and folders that are longer than their type says
    parent_id: I64  # from the key of every leaf record; the file's own ID in threads
    # units, start, count: names in the keys of leaf records, as stored
    units: NDArray[np.uint16]
    start: I64
    count: I64
    # files, folders, threads: their fields, and `row`, the place among the leaf records
    files: Columns
    folders: Columns
    threads: Columns
    # thread_units, thread_start: names in threads; their lengths are `threads["num_name_units"]`, -1 where a name
    # leaves its record
    thread_units: NDArray[np.uint16]
    thread_start: I64

    def field(self, row: int, name: str) -> FindingLog:
        """Bind the log to a field of a record's data; ``#`` and a number behind the name choose an item of an array."""
        kind = int(self.kind[row])
        record_type = {int(CATALOG_TYPES.folder): FOLDER, int(CATALOG_TYPES.file): FILE}.get(kind, THREAD)
        log = self.located.at(int(self.located.rows["data"][row]) + field_offset(record_type, name))
        return log.within(self.located.path(row, name))

    def at(self, kind: Kind, field: str) -> Callable[[int], FindingLog]:
        """Bind the log to a field of a file or folder by its place among them."""
        rows = self.files["row"] if kind == "files" else self.folders["row"]
        return lambda place: self.field(rows[place], field)

    def own_id(self) -> Callable[[int], FindingLog]:
        """Bind the log to the CNID of a file or folder by its place among the entries."""
        rows, _, is_folder = self.entries()
        return lambda place: self.field(rows[place], "folder_id" if is_folder[place] else "file_id")

    def entries(self) -> tuple[I64, I64, Mask]:
        """Rows, own IDs and whether it is a folder, of files and folders in key order."""
        rows = np.concatenate([self.files["row"], self.folders["row"]])
        ids = np.concatenate([self.files["file_id"], self.folders["folder_id"]]).astype(np.int64)
        is_folder = np.concatenate(
            [np.zeros(len(self.files["row"]), np.bool_), np.ones(len(self.folders["row"]), np.bool_)]
        )
        order = np.argsort(rows, kind="stable")
        return rows[order], ids[order], is_folder[order]

    def name(self, row: int) -> str:
        """Name in the key of a record, for messages."""
        return names.shown(self.units[self.start[row] : self.start[row] + self.count[row]])


def field_offset(record_type: RecordType, path: str) -> int:
    """Where a field starts in its record; ``extents.start_block#3`` is in the fourth extent."""
    name, _, number = path.partition("#")
    start = record_type.offset_of(name)
    return start + int(number or 0) * HFSPLUS_VOLUME_EXTENT_DESCRIPTOR.width


_PARTS: Final = {
    "files": (FILE, FILE_FIELDS, (CATALOG_TYPES.file,)),
    "folders": (FOLDER, FOLDER_FIELDS, (CATALOG_TYPES.folder,)),
    "threads": (THREAD, THREAD_FIELDS, (CATALOG_TYPES.folder_thread, CATALOG_TYPES.file_thread)),
}


class _CatalogCollector(Struct):
    """Collects what the leaves of the catalog hold."""

    num_rows: int = 0
    rows: GrowingTable = field(default_factory=lambda: GrowingTable({"kind": np.int64, "excess": np.bool_}))
    thread_names: GrowingColumn = field(default_factory=lambda: GrowingColumn(np.uint16))
    parts: dict[str, GrowingTable] = field(default_factory=lambda: {name: GrowingTable() for name in _PARTS})

    def read(self, batch: Batch) -> None:
        """Read a batch of leaves."""
        everything = np.ones(len(batch.shift), np.bool_)
        data, stop = (batch.at(name, everything) for name in ("data", "stop"))
        kind, excess = self._kinds(batch, data, stop)
        self.rows.add({"kind": kind, "excess": excess}, batch.to_come)
        for part, (record_type, fields, types) in _PARTS.items():
            chosen = np.flatnonzero(np.isin(kind, [int(item) for item in types]))
            found = decode_columns(record_type, batch.buffer, data[chosen], fields)
            found = {"row": self.num_rows + chosen, **found}
            if part == "threads":
                found["num_name_units"] = self._thread_names(batch, data[chosen], stop[chosen], found["num_name_units"])
            self.parts[part].add(found, batch.to_come)
        self.num_rows += len(kind)

    def _kinds(self, batch: Batch, data: I64, stop: I64) -> tuple[I64, Mask]:
        type_bytes = CATALOG_RECORD_TYPE.width
        place = np.where(data + type_bytes <= stop, data, 0)
        found = decode_column(CATALOG_RECORD_TYPE, batch.buffer, place, CATALOG_RECORD_TYPE.record_type).astype(
            np.int64
        )
        kind, excess = np.zeros(len(data), np.int64), np.zeros(len(data), np.bool_)
        for number, size in CATALOG_RECORD_SIZES.items():
            fits = (found == number) & (data + size <= stop) & (place == data)
            kind[fits] = number
            # Threads end with a name of any length, and so have nothing that could be in excess.
            if number in (CATALOG_TYPES.folder, CATALOG_TYPES.file):
                excess |= fits & (data + size < stop)
        return kind, excess

    def _thread_names(self, batch: Batch, data: I64, stop: I64, lengths: NDArray[np.uint16]) -> I64:
        start = data + THREAD.width
        wide = lengths.astype(np.int64)
        fits = start + names.UNIT_BYTES * wide <= stop
        self.thread_names.add(names.gather(batch.buffer, start, np.where(fits, wide, 0)), batch.to_come)
        return np.where(fits, wide, -1)


def read_catalog(volume: Volume, tree: Tree) -> CatalogRecords:
    """Read all catalog records again, with all fields that a check compares."""
    collector = _CatalogCollector()
    located = read_records(volume, tree, collector.read)
    rows, stored = collector.rows.values, located.stored
    parts = {
        part: collector.parts[part].values or _nothing(record_type, fields)
        for part, (record_type, fields, _) in _PARTS.items()
    }
    threads = parts["threads"]
    threads["num_name_units"] = threads["num_name_units"].astype(np.int64)
    # Leaves come first, so that names of index records stand behind those of theirs.
    leaves = slice(len(rows["kind"]))
    return CatalogRecords(
        located,
        rows["kind"],
        rows["excess"],
        stored.ident[leaves],
        stored.units,
        stored.start[leaves],
        stored.count[leaves],
        parts["files"],
        parts["folders"],
        threads,
        collector.thread_names.values,
        starts_of(np.maximum(threads["num_name_units"], 0)),
    )


def _nothing(record_type: RecordType, fields: tuple[RecordColumn, ...]) -> Columns:
    """Return the columns of no record at all."""
    blank = np.zeros(record_type.width, np.uint8)
    none = np.empty(0, np.int64)
    return {"row": none, **decode_columns(record_type, blank, none, fields)}


EXTENT_RECORD: Final = extents.LEAF_RECORD
HOT_FILE_RECORD: Final = rootfiles.LEAF_RECORD
OVERFLOW_FIELDS: Final = extents.OVERFLOW_FIELDS


class OverflowRecords(Struct, frozen=True):
    """Extents-overflow records in key order."""

    located: TreeRecords  # of the whole tree
    at: I64  # where each record's key starts, in the tree's file
    is_whole: Mask  # leaf records with all their extents; the others are left out of the columns
    # fork_type, file_id, start_block: the keys
    fork_type: I64
    file_id: I64
    start_block: I64
    # starts, counts: the extents
    starts: I64
    counts: I64

    def field(self, row: int, path: str) -> FindingLog:
        """Bind the log to a field of a record; ``#`` and a number behind the name choose an extent."""
        name, _, number = path.partition("#")
        step = HFSPLUS_VOLUME_EXTENT_DESCRIPTOR.width * int(number or 0)
        at = int(self.at[row]) + EXTENT_RECORD.offset_of(name) + step
        # Leaf records come first, each with its key's place; short ones are left out of the columns.
        place = int(np.flatnonzero(self.located.rows["key"] == self.at[row])[0])
        return self.located.at(at).within(self.located.path(place, path))


class _Reader(Struct):
    """Reads leaf records of one type and length; those that are too short are told while the tree is read."""

    record_type: RecordType
    fields: tuple[RecordColumn, ...]
    wholes: list[Mask] = field(default_factory=list)
    parts: list[Columns] = field(default_factory=list)

    def read(self, batch: Batch) -> None:
        """Read a batch of leaves."""
        is_whole = batch.rows["stop"] - batch.rows["key"] >= self.record_type.width
        key = batch.at("key", is_whole)
        found = decode_columns(self.record_type, batch.buffer, key, self.fields)
        wide = {name: values.astype(np.int64) for name, values in found.items()}
        self.wholes.append(is_whole)
        self.parts.append({"at": batch.rows["key"][is_whole], **wide})


def read_overflow(volume: Volume, tree: Tree) -> OverflowRecords:
    """Read all extents-overflow records."""
    collector = _Reader(EXTENT_RECORD, OVERFLOW_FIELDS)
    located = read_records(volume, tree, collector.read)
    none, eight = np.empty(0, np.int64), np.empty((0, 8), np.int64)
    rows = concatenate(
        collector.parts,
        {"at": none, **dict.fromkeys(OVERFLOW_FIELDS[:3], none), **dict.fromkeys(OVERFLOW_FIELDS[3:], eight)},
    )
    is_whole = np.concatenate([np.empty(0, np.bool_), *collector.wholes])
    return OverflowRecords(located, rows["at"], is_whole, *(rows[name] for name in OVERFLOW_FIELDS))


HOT_FILE_FIELDS: Final = (
    HOT_FILE_RECORD.key.file_id,
    HOT_FILE_RECORD.key.fork_type,
    HOT_FILE_RECORD.key.temperature,
    HOT_FILE_RECORD.key.is_thread,
    HOT_FILE_RECORD.data,
)
_HOT_FILE_COLUMNS: Final = (*HOT_FILE_FIELDS, "at")
_FORK_BITS: Final = 8


class HotFileRecords(Struct, frozen=True):
    """Leaf records of the hot-file B-tree."""

    located: TreeRecords  # of the whole tree
    # files, threads: records by temperature, and thread records: the fields of the grammar's record, `at` in bytes from
    # the start of the tree's file, and `fork`, one number for a file's fork
    files: Columns
    threads: Columns

    def field(self, record_at: int, path: str) -> FindingLog:
        """Bind the log to a field of a record."""
        place = int(np.flatnonzero(self.located.rows["key"] == record_at)[0])
        return self.located.at(record_at + HOT_FILE_RECORD.offset_of(path)).within(self.located.path(place, path))


def read_hot_file_records(volume: Volume, tree: Tree) -> HotFileRecords:
    """Read all records of the tree."""
    collector = _Reader(HOT_FILE_RECORD, HOT_FILE_FIELDS)
    located = read_records(volume, tree, collector.read)
    rows = concatenate(collector.parts, dict.fromkeys(_HOT_FILE_COLUMNS, np.empty(0, np.int64)))
    # The fork is one byte on disk: none of its bits for data, all of them for resources.
    rows["fork"] = rows["key.file_id"] << _FORK_BITS | rows["key.fork_type"]
    is_thread = rows["key.is_thread"] != 0
    return HotFileRecords(located, _rows_of(rows, ~is_thread), _rows_of(rows, is_thread))


def _rows_of(rows: Columns, chosen: Mask) -> Columns:
    return {name: values[chosen] for name, values in rows.items()}


MAX_CASES: Final = 100
"""So many cases of one kind are listed, each with its address; the others are counted."""


class Subject(Struct, frozen=True):
    """A volume under check."""

    volume: Volume  # the volume, which collects findings
    contents: Contents  # what a scan reads of it
    trees: dict[str, TreeRecords]  # every tree by its name
    # catalog, attributes, overflow, hot_files: the records of these trees; None where the tree is absent or lost
    catalog: CatalogRecords | None
    attributes: AttributeRecords | None
    overflow: OverflowRecords | None
    hot_files: HotFileRecords | None = None
    known: dict[str, Any] = field(default_factory=dict)  # what one check worked out for others

    def cases(self, code: str, rows: I64, noun: str) -> Iterator[int]:
        """Yield the first cases of a kind, and report how many more there are."""
        yield from rows[:MAX_CASES].tolist()
        if len(rows) > MAX_CASES:
            message = f"{len(rows) - MAX_CASES:,} further cases of the same kind"
            self.volume.log.at(noun).add(code, "warning", message)

    def report(
        self,
        code: str,
        message: str | Callable[[int], str],
        rows: I64,
        noun: str,  # what the rows are, in words
        at: Callable[[int], FindingLog],  # binds the log to what is wrong in a row
        *,
        # expected, found: one for all rows, an array with one a row, or a function that makes it
        expected: object = "",
        found: object = "",
        level: Level = "error",
    ) -> None:
        """Report rows that break a rule: the first ones each at its place, and how many more there are."""
        for row in self.cases(code, rows, noun):
            words, wanted, stored = (_value_of(each, row) for each in (message, expected, found))
            at(row).add(code, level, words, expected=wanted, found=stored)


def _value_of(values: Any, row: int) -> Any:
    """Take what holds for a row from what is the same for all, or an array, or worked out for each."""
    return values(row) if callable(values) else values[row] if isinstance(values, np.ndarray) else values


def read_subject(volume: Volume, contents: Contents) -> Subject:
    """Read all trees of a volume record by record."""
    files = contents.trees
    catalog = read_catalog(volume, files["catalog"]) if "catalog" in files else None
    attributes = read_attributes(volume, files["attributes"]) if "attributes" in files else None
    overflow = read_overflow(volume, files["extents-overflow"]) if "extents-overflow" in files else None
    hot_files = read_hot_file_records(volume, files["hot-files"]) if "hot-files" in files else None
    read = (catalog, attributes, overflow, hot_files)
    trees = {part.located.name: part.located for part in read if part is not None}
    return Subject(volume, contents, trees, catalog, attributes, overflow, hot_files)
