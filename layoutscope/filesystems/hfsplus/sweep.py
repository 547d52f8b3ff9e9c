"""Finding B-tree nodes by searching the whole volume, without using its header or trees.

TN1150, "B-Trees". A node is recognised by its descriptor, by a table of ascending offsets at its end, and by its first
key, which also identifies the tree. Nodes start at multiples of 512 bytes. Old copies of nodes, those in the journal,
and nodes of volumes within files are found like all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.hfsplus import tree
from layoutscope.filesystems.hfsplus.attributes import RECORD_SIZES as ATTRIBUTE_SIZES
from layoutscope.filesystems.hfsplus.btree import pieces_of
from layoutscope.filesystems.hfsplus.catalog import RECORD_SIZES as CATALOG_SIZES
from layoutscope.filesystems.hfsplus.forks import ForkPieces, locate, read_parts
from layoutscope.filesystems.hfsplus.journal import read_copies
from layoutscope.filesystems.hfsplus.nodes import (
    DESCRIPTOR,
    DESCRIPTOR_BYTES,
    FORMS,
    INDEX,
    LEAF,
    LENGTH_BYTES,
    OFFSET_BYTES,
    POINTER_BYTES,
    ReadNodes,
    decode_nodes,
    locate_records,
)
from layoutscope.filesystems.hfsplus.volume import shift_error
from layoutscope.progress import phase
from layoutscope.structs import arrays, grammar
from layoutscope.structs.arrays import I64, U8, Columns, Mask, Rows, concatenate, distinct, ranges
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.records import (
    ATTRIBUTE_KEY,
    ATTRIBUTE_RECORD_TYPE,
    CATALOG_KEY,
    CATALOG_RECORD_TYPE,
    EXTENT_KEY,
    EXTENT_LEAF_RECORD,
    POINTER_RECORD,
    RECORD_OFFSET,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.filesystems.hfsplus.btree import TreeFile
    from layoutscope.filesystems.hfsplus.catalog import Catalog
    from layoutscope.filesystems.hfsplus.journal import Journal
    from layoutscope.filesystems.hfsplus.tree import Tree
    from layoutscope.filesystems.hfsplus.volume import Volume
    from layoutscope.image.source import Source
    from layoutscope.structs.recordtypes import RecordType


CHUNK_BYTES: Final = 8 * 1024**2
STEP_BYTES: Final = 512

TREES: Final = ("catalog", "attributes", "extents-overflow")
_LIMITS: Final = grammar.HfsplusBtree.NodeSizeLimit
NODE_SIZES: Final = tuple(
    int(_LIMITS.minimum) << shift for shift in range((int(_LIMITS.maximum) // int(_LIMITS.minimum)).bit_length())
)
_COLUMNS: Final = ("volume_offset", "node_size", "tree", "height", "num_records", "f_link", "b_link")


class Swept(Rows, frozen=True):
    """Nodes that were found, in address order."""

    # volume_offset, node_size: location of each node, and its size in bytes
    volume_offset: I64
    node_size: I64
    tree: I64  # index of its tree in `TREES`
    # height, num_records, f_link, b_link: from its descriptor
    height: I64
    num_records: I64
    f_link: I64
    b_link: I64


def sweep(volume: Volume) -> Swept:
    """Examine every sector of a volume once; holes and unread areas are skipped."""
    parts = [_nodes_in(buffer, length, at) for at, length, buffer in chunks(volume)]
    return _concatenate_swept(parts)


def nodes_in(buffer: U8, length: int) -> Swept:
    """Find the nodes that start in the first bytes of a buffer."""
    return _concatenate_swept([_nodes_in(buffer, length, 0)])


def _concatenate_swept(parts: list[Columns]) -> Swept:
    none = np.empty(0, np.int64)
    found = concatenate([part for part in parts if len(part["tree"])], dict.fromkeys(_COLUMNS, none))
    return Swept(**{name: found[name] for name in _COLUMNS})


def chunks(volume: Volume) -> Iterator[tuple[int, int, U8]]:
    """Yield parts of the volume, each followed by enough bytes for a node that starts in it."""
    source, size = volume.source, min(volume.size_bytes, volume.source.size_bytes)
    with phase("looking at every sector for nodes", size) as looked_at:
        for first, count in _list_stored_chunks(source, size).tolist():
            for at in range(first * CHUNK_BYTES, min((first + count) * CHUNK_BYTES, size), CHUNK_BYTES):
                looked_at.at(at)
                length = min(CHUNK_BYTES, size - at)
                buffer = np.zeros(min(length + int(_LIMITS.maximum), size - at), np.uint8)
                try:
                    source.read_into(at, buffer.data)
                except FormatError as error:
                    volume.log.survive(shift_error(error, -source.origin))
                    continue
                yield at, length, buffer


def _list_stored_chunks(source: Source, size: int) -> I64:
    """List the runs of chunks that contain stored data, shape (n, 2): first and count.

    A sparse file may claim any size at no cost, so the work must depend on the stored data.
    """
    holes = source.holes
    source.counter.hole_bytes += arrays.total(holes)
    skipped = np.concatenate([holes, source.unread_ranges()])
    stop = skipped.sum(axis=1)
    first = -(-skipped[:, 0] // CHUNK_BYTES)
    # The last chunk ends with the volume, which may end anywhere in it.
    last = np.where(stop >= size, -(-size // CHUNK_BYTES), stop // CHUNK_BYTES)
    every = np.array([[0, -(-size // CHUNK_BYTES)]], np.int64)
    return arrays.subtract(every, arrays.runs_of(first, np.maximum(last - first, 0)))


def _nodes_in(buffer: U8, length: int, volume_offset: int) -> Columns:
    """Find the nodes that start in the first `length` bytes of a buffer."""
    starts = np.arange(0, max(0, min(length, len(buffer) - NODE_SIZES[0] + 1)), STEP_BYTES, dtype=np.int64)
    names = (DESCRIPTOR.kind, DESCRIPTOR.height, DESCRIPTOR.reserved, DESCRIPTOR.num_records)
    fields = decode_columns(DESCRIPTOR, buffer, starts, names)
    kind, height, reserved, num_records = (fields[name].astype(np.int64) for name in names)
    # The kind of an index node is 0, so empty sectors would look like one without the height: leaves have 1, index
    # nodes more (TN1150). Header and map nodes (height 0) hold no keys to recognise them by, and are not searched for.
    likely = ((kind == LEAF) & (height == 1)) | ((kind == INDEX) & (height > 1) & (height <= tree.MAX_HEIGHT))
    starts = starts[likely & (reserved == 0) & (num_records > 0)]
    parts = []
    # The header node, which gives the node size, may itself be lost. The smallest size that fits is right: a node of
    # 4 KiB that is followed by another ends in an offset table; at twice the size, its end is its neighbour's table.
    for size in NODE_SIZES:
        part = _keep_sized_nodes(buffer, starts[starts + size <= len(buffer)], size)
        starts = np.setdiff1d(starts, part["volume_offset"], assume_unique=True)
        parts.append(part)
    found = concatenate(parts, {})
    found["volume_offset"] = found["volume_offset"] + volume_offset
    order = np.argsort(found["volume_offset"], kind="stable")
    return {name: values[order] for name, values in found.items()}


def _keep_sized_nodes(buffer: U8, starts: I64, size: int) -> Columns:
    """Keep the places that hold a node of this size, with its descriptor."""
    counts = decode_column(DESCRIPTOR, buffer, starts, DESCRIPTOR.num_records).astype(np.int64)
    starts = starts[_ends_in_table(buffer, starts, counts, size)]
    data = buffer[ranges(starts, np.full(len(starts), size, np.int64))]
    nodes = decode_nodes(data, size, starts)
    tree = _trees(nodes)
    kept = tree >= 0
    columns = {name: getattr(nodes, name)[kept] for name in ("height", "num_records", "f_link", "b_link")}
    size_column = np.full(int(kept.sum()), size, np.int64)
    return {"volume_offset": starts[kept], "node_size": size_column, "tree": tree[kept], **columns}


def _ends_in_table(buffer: U8, starts: I64, counts: I64, size: int) -> Mask:
    """Mark places where the last bytes are the offset of a first record, and the free space has a possible start."""
    # The table grows backwards from the end of the node. Its last entry is record 0, right after the descriptor; its
    # first entry is the free space after all records.
    limit = size - OFFSET_BYTES * (counts + 1)
    fits = limit > DESCRIPTOR_BYTES
    first = _offset(buffer, starts + size - OFFSET_BYTES)
    free = _offset(buffer, starts + np.where(fits, limit, 0))
    found: Mask = fits & (first == DESCRIPTOR_BYTES) & (free > DESCRIPTOR_BYTES) & (free <= limit)
    return found


def _offset(buffer: U8, places: I64) -> I64:
    return decode_column(RECORD_OFFSET, buffer, places, RECORD_OFFSET.ofs_record).astype(np.int64)


def _trees(nodes: ReadNodes) -> I64:
    """Recognise the tree of each node by its first record; -1 if it is not a node."""
    tree = np.full(len(nodes.number), -1, np.int64)
    records = locate_records(nodes, None)
    found = np.bincount(records.node, minlength=len(tree))
    whole = ~records.damaged & (found == nodes.num_records)
    heads = np.flatnonzero(whole[records.node] & (records.slot == 0))
    node, key, data, stop = (getattr(records, name)[heads] for name in ("node", "key", "data", "stop"))
    first = _First(nodes.buffer, key, data, stop, nodes.kind[node] == LEAF)
    for place, tells in enumerate((_is_catalog, _is_attributes, _is_overflow)):
        tree[node[tells(first) & (tree[node] < 0)]] = place
    return tree


class _First(NamedTuple):
    """The first record of each node: start of its key, start of its data, and its end in the buffer."""

    buffer: U8
    key: I64
    data: I64
    stop: I64
    is_leaf: Mask

    def is_named(self, key_type: RecordType) -> Mask:
        """Mark the keys whose length is that of their fixed part and their name."""
        inside = self.key + key_type.width <= len(self.buffer)
        fields = (key_type.column("len_key"), key_type.column("num_name_units"))
        found = decode_columns(key_type, self.buffer, np.where(inside, self.key, 0), fields)
        length, name = (found[field].astype(np.int64) for field in fields)
        named: Mask = inside & (length == key_type.width - LENGTH_BYTES + 2 * name)
        return named

    def is_typed(self, start: RecordType, sizes: dict[int, int]) -> Mask:
        """Mark leaf records with a type of the tree and its length; index records must be pointers."""
        inside = self.data + start.width <= self.stop
        place = np.where(inside, self.data, 0)
        kind = decode_column(start, self.buffer, place, start.column("record_type")).astype(np.int64)
        known = np.zeros(len(self.data), np.bool_)
        for number, size in sizes.items():
            known |= inside & (kind == number) & (self.data + size <= self.stop)
        found: Mask = np.where(self.is_leaf, known, self.data + POINTER_BYTES == self.stop)
        return found


def _is_catalog(first: _First) -> Mask:
    return first.is_named(CATALOG_KEY) & first.is_typed(CATALOG_RECORD_TYPE, CATALOG_SIZES)


def _is_attributes(first: _First) -> Mask:
    return first.is_named(ATTRIBUTE_KEY) & first.is_typed(ATTRIBUTE_RECORD_TYPE, ATTRIBUTE_SIZES)


def _is_overflow(first: _First) -> Mask:
    inside = first.key + EXTENT_KEY.width <= len(first.buffer)
    place = np.where(inside, first.key, 0)
    length = decode_column(EXTENT_KEY, first.buffer, place, EXTENT_KEY.len_key).astype(np.int64)
    need = np.where(first.is_leaf, EXTENT_LEAF_RECORD.width, EXTENT_KEY.width + POINTER_BYTES)
    found: Mask = inside & (length == EXTENT_KEY.width - LENGTH_BYTES) & (first.stop - first.key == need)
    return found


MAX_LOSSES: Final = 100
MAX_FOLDERS: Final = 10
_LOST_COLUMNS: Final = ("level", "ident", "child", "at", "node")
_NOUNS: Final = {"catalog": "folder", "hot-files": "temperature"}


def report_losses(volume: Volume, tree: Tree, catalog: Catalog) -> None:
    """Report every pointer whose node was not reached, with the range of missing keys."""
    if not len(tree.reach.missing) and not len(tree.reach.misled):
        return
    rows = _pointers(volume, tree)
    child = rows["child"]
    inside = (child > 0) & (child < tree.file.num_nodes)
    place = np.where(inside, child, 0)
    reached = inside & (tree.nodes.key_rank[place] >= 0)
    # A rebuilt tree has leaves without a parent: their pointers are broken, but nothing is missing.
    lost = np.flatnonzero(~reached)
    for row in lost[:MAX_LOSSES].tolist():
        _report(volume, tree, catalog, rows, row)


def _pointers(volume: Volume, tree: Tree) -> Columns:
    """Read the records of all reached index nodes, each level in key order."""
    table, file = tree.nodes, tree.file
    reached = np.flatnonzero((table.key_rank >= 0) & (table.kind == INDEX))
    order = np.lexsort((table.key_rank[reached], table.height[reached]))
    numbers = reached[order]
    form = FORMS[file.tree]
    fixed = None if file.header.has_variable_index_keys else int(file.header.len_key_max)
    parts = []
    for number in numbers.tolist():
        one = np.array([number], np.int64)
        buffer = read_parts(volume, pieces_of(volume, file.fork, file.node_size_bytes, one))
        records = locate_records(decode_nodes(buffer, file.node_size_bytes, one), fixed)
        whole = records.data - records.key >= form.fixed_length + 2
        key, data = records.key[whole], records.data[whole]
        ident = decode_column(form.key_type, buffer, key, form.ident)
        child = decode_column(POINTER_RECORD, buffer, data, POINTER_RECORD.child_node)
        parts.append(
            {
                "level": np.full(len(key), int(table.height[number]) - 1, np.int64),
                "ident": ident.astype(np.int64),
                "child": child.astype(np.int64),
                "at": data + number * file.node_size_bytes,
                "node": np.full(len(key), number, np.int64),
            }
        )
    return concatenate(parts, dict.fromkeys(_LOST_COLUMNS, np.empty(0, np.int64)))


def _report(volume: Volume, tree: Tree, catalog: Catalog, rows: Columns, row: int) -> None:
    first, noun = int(rows["ident"][row]), _NOUNS.get(tree.file.tree, "file")
    after = row + 1
    ends = after < len(rows["level"]) and rows["level"][after] == rows["level"][row]
    until = f"up to {noun} {rows['ident'][after]}" if ends else "to the end"
    last = int(rows["ident"][after]) if ends else np.iinfo(np.int64).max
    pieces = locate(volume, tree.file.fork, rows["at"][row : row + 1], np.ones(1, np.int64))
    at = int(pieces.volume_offset[0]) if len(pieces.part) else None
    known = _folders(catalog, first, last) if tree.file.tree == "catalog" else ""
    volume.log.at(f"{tree.file.tree} node {rows['child'][row]}", at).add(
        "subtree-missing",
        "error",
        f"node {rows['child'][row]} cannot be reached: records from {noun} {first} {until} are missing{known}",
    )


def _folders(catalog: Catalog, first: int, last: int) -> str:
    """List the known folders whose entries may be among the missing records."""
    entries = catalog.entries
    ids: I64 = distinct(
        entries["file_id"][entries["is_folder"] & (entries["file_id"] >= first) & (entries["file_id"] <= last)]
    )
    if not len(ids):
        return ""
    more = f" and {len(ids) - MAX_FOLDERS:,} more" if len(ids) > MAX_FOLDERS else ""
    return f"; of known folders this concerns {', '.join(map(str, ids[:MAX_FOLDERS].tolist()))}{more}"


UNKNOWN: Final = -1
MAX_COMPARED: Final = 10_000
"""Limit on nodes compared with the journal; a damaged volume with repeated content would have more."""


def read_write_ages(volume: Volume, journal: Journal | None, file: TreeFile, numbers: I64) -> I64:
    """Return the journal write that each node comes from; the journal is read only for two or more nodes.

    Writes are numbered from the oldest; -1 for nodes that differ from the journal's last write to their place.
    """
    if len(numbers) < 2:
        return np.full(len(numbers), UNKNOWN, np.int64)
    ages = np.full(len(numbers), UNKNOWN, np.int64)
    copies = read_copies(volume, journal) if journal is not None else None
    if copies is None:
        return ages
    target, length = copies.volume_offset, copies.length_bytes
    pieces = pieces_of(volume, file.fork, file.node_size_bytes, numbers[:MAX_COMPARED])
    rows = zip(pieces.part.tolist(), pieces.volume_offset.tolist(), pieces.length_bytes.tolist(), strict=True)
    for place, at, size in rows:
        covers = np.flatnonzero((target <= at) & (at < target + length))
        if not len(covers):
            continue
        # A node comes from a write if its bytes equal those of the write, as far as the write extends.
        write = int(covers[-1])
        inside = at - int(target[write])
        known = min(size, int(length[write]) - inside)
        first = int(copies.data_start[write]) + inside
        piece = ForkPieces(*(np.array([value], np.int64) for value in (0, at, known)))
        if (read_parts(volume, piece) == copies.data[first : first + known]).all():
            ages[place] = max(int(ages[place]), write)
    return ages
