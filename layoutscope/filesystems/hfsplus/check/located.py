"""The records of one B-tree, each with its place on the volume, and what is wrong inside nodes.

TN1150, "B-Trees". Unlike a scan, which only wants what a record says, a check must be able to point at the byte: places
are bytes from the start of the tree's file until they are reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.columns import I64, U8, Columns, Mask, concatenate
from layoutscope.arrays.growing import GrowingColumn, GrowingTable
from layoutscope.arrays.ragged import heads, starts_of
from layoutscope.filesystems.hfsplus.records.attributes import RECORD_SIZES as ATTRIBUTE_SIZES
from layoutscope.filesystems.hfsplus.records.catalog import RECORD_SIZES as CATALOG_SIZES
from layoutscope.filesystems.hfsplus.tree.btree import BATCH_BYTES, pieces_of
from layoutscope.filesystems.hfsplus.tree.keys import FORMS, KeyForm, Keys, read_keys, without_case
from layoutscope.filesystems.hfsplus.tree.nodes import (
    DESCRIPTOR,
    DESCRIPTOR_BYTES,
    INDEX,
    LENGTH_BYTES,
    OFFSET_BYTES,
    POINTER_BYTES,
    Bounds,
    ReadNodes,
    decode_nodes,
    record_bounds,
)
from layoutscope.filesystems.hfsplus.tree.tree import Tree, is_case_sensitive
from layoutscope.filesystems.hfsplus.volume.fork import locate, read_parts
from layoutscope.frozen import frozen
from layoutscope.ondisk.records import KEY_HEADER, POINTER_RECORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from layoutscope.filesystems.hfsplus.volume.volume import Volume
    from layoutscope.findings import FindingLog
    from layoutscope.ondisk.decoder import Decoder

ROW_COLUMNS: Final = ("node", "level", "key", "key_length", "data", "stop", "child")
FLAW_COLUMNS: Final = ("at", "node", "kind")
OFFSET_FLAW, COUNT_FLAW, KEY_FLAW, NAME_FLAW = range(4)


@frozen
class Batch:
    """Sound records of some nodes, with the bytes they lie in."""

    buffer: U8  # the nodes
    shift: I64  # what leads from a place in the buffer to one in the tree's file
    rows: Columns  # `ROW_COLUMNS`; places in the tree's file
    keys: Keys  # their keys, with the cases of the names
    to_come: float  # how many times as many nodes of the level follow

    def at(self, name: str, chosen: Mask) -> I64:
        """Places in the buffer."""
        return self.rows[name][chosen] - self.shift[chosen]


@frozen
class TreeRecords:
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
            batch = _sound_records(volume, tree, nodes, (level, to_come), flaws)
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
        without_case(stored) if is_folded else stored,
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
        yield decode_nodes(volume.decoder, buffer, size, chosen), (len(numbers) - start - len(chosen)) / len(chosen)


def _sound_records(
    volume: Volume, tree: Tree, nodes: ReadNodes, where: tuple[int, float], flaws: list[Columns]
) -> Batch:
    """Locate the records of nodes; what cannot be one is kept among the flaws."""
    form, (level, to_come) = FORMS[tree.file.tree], where
    bounds = record_bounds(volume.decoder, nodes)
    shift = nodes.number * nodes.node_size_bytes - nodes.start
    flaws.append(_offset_flaws(volume, form, nodes, bounds, shift))
    sound = bounds.is_sound
    node = bounds.node[sound]
    key = nodes.start[node] + bounds.first[sound]
    stop = nodes.start[node] + bounds.stop[sound]
    length = volume.decoder.column(KEY_HEADER, nodes.buffer, key, KEY_HEADER.len_key)
    key_length = length.astype(np.int64)
    # The length in a key is what is used of it. In index nodes a key may have the room of the longest all the same, as
    # the attributes in the tree's header say; and data start at even offsets (TN1150, "Keyed Records").
    stored = key_length
    if level and not tree.file.header.has_variable_index_keys:
        stored = np.full(len(key), int(tree.file.header.len_key_max))
    data = key + LENGTH_BYTES + stored + stored % 2
    records = {"node": node, "key": key, "key_length": key_length, "data": data, "stop": stop}
    flaw = _key_flaws(volume.decoder, form, nodes.buffer, records, level)
    whole = flaw < 0
    at = key + np.where(flaw == NAME_FLAW, _name_field(form), 0) + shift[node]
    flaws.append({"at": at[~whole], "node": nodes.number[node[~whole]], "kind": flaw[~whole]})
    kept = {name: values[whole] for name, values in records.items()}
    keys = read_keys(volume.decoder, form, nodes.buffer, kept["key"])
    return Batch(nodes.buffer, shift[kept["node"]], _rows(volume, nodes, level, shift, kept), keys, to_come)


def _rows(volume: Volume, nodes: ReadNodes, level: int, shift: I64, kept: Columns) -> Columns:
    node = kept["node"]
    child = np.full(len(node), -1, np.int64)
    if level:
        pointers = volume.decoder.column(POINTER_RECORD, nodes.buffer, kept["data"], POINTER_RECORD.child_node)
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


def _offset_flaws(volume: Volume, form: KeyForm, nodes: ReadNodes, bounds: Bounds, shift: I64) -> Columns:
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
    length = volume.decoder.column(KEY_HEADER, nodes.buffer, last, KEY_HEADER.len_key).astype(np.int64)
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


def _key_flaws(decoder: Decoder, form: KeyForm, buffer: U8, records: Columns, level: int) -> I64:
    """Say what is wrong with each key, -1 if nothing is."""
    key, length, data, stop = (records[name] for name in ("key", "key_length", "data", "stop"))
    flaw = np.full(len(key), -1, np.int64)
    limit = form.max_length if form.max_length is not None else form.fixed_length
    need = POINTER_BYTES if level else 0
    bad = (length < form.fixed_length) | (length > limit) | (data + need > stop)
    flaw[bad] = KEY_FLAW
    if form.has_name:
        rows = np.flatnonzero(~bad)
        units = decoder.column(form.key_type, buffer, key[rows], form.key_type.column("num_name_units"))
        differs = form.fixed_length + 2 * units.astype(np.int64) != length[rows]
        rows = rows[differs]
        # A key that ends where its record's data start is as long as it says: then the name's length is wrong.
        fits = data[rows] + need == stop[rows] if level else _has_type(decoder, form, buffer, data[rows], stop[rows])
        flaw[rows] = np.where(fits, NAME_FLAW, KEY_FLAW)
    return flaw


def _has_type(decoder: Decoder, form: KeyForm, buffer: U8, data: I64, stop: I64) -> Mask:
    """Say of each leaf record whether its data start with a type of its tree."""
    known = np.array(sorted(CATALOG_SIZES if form is FORMS["catalog"] else ATTRIBUTE_SIZES), np.int64)
    start = form.record_types
    if start is None:
        return np.zeros(len(data), np.bool_)
    inside: Mask = data + start.width <= stop
    place = np.where(inside, data, 0)
    found = decoder.column(start, buffer, place, start.column("record_type"))
    return inside & np.isin(found.astype(np.int64), known)
