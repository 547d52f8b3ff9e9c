"""Record locations in APFS nodes, in numpy: the oracle of the kernel's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from layoutscope.filesystems.apfs.nodes import MAX_LENGTH, Slots
from layoutscope.filesystems.apfs.source import order_key
from layoutscope.structs import grammar
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.records import BTREE_INFO, BTREE_NODE, J_KEY, KVLOC, KVOFF

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.structs.recordtypes import Field, RecordType


def plain_slots(
    buffer: NDArray[np.uint8],
    starts: NDArray[np.int64],
    head: dict[str, NDArray[Any]],
    node_bytes: int,
    entry_bytes: tuple[int, int, int],
) -> tuple[Slots, NDArray[np.bool_], tuple[NDArray[np.int64], ...]]:
    """Locate records in numpy."""
    # Keys are counted upwards from the end of the table of contents, values downwards from the end of the node: this
    # lets a node grow from both sides. In a root, the tree information follows the values.
    table = starts + BTREE_NODE.width + head["table_space.ofs_data"]
    keys: NDArray[np.int64] = table + head["table_space.len_data"]
    info = BTREE_INFO.width
    key_bytes, val_bytes, child_bytes = entry_bytes
    values_end: NDArray[np.int64] = starts + node_bytes - np.where(head["is_root"], info, 0)
    entry = np.where(head["is_fixed"], KVOFF.width, KVLOC.width)
    counts = head["num_keys"].astype(np.int64)
    torn = (counts * entry > head["table_space.len_data"]) | (keys > values_end)
    counts = np.where(torn, 0, counts)
    node = np.repeat(np.arange(len(starts)), counts)
    # Row i of a node has its entry i entries into the node's table; `before` counts the rows of earlier nodes.
    before = np.cumsum(counts) - counts
    spots = np.repeat(table - before * entry, counts) + np.arange(len(node)) * np.repeat(entry, counts)
    val_len = np.where(head["is_leaf"], min(val_bytes, MAX_LENGTH), child_bytes).astype(np.int32)
    found = _entries(buffer, spots, head["is_fixed"][node], _Fixed(key_bytes, val_len[node]))
    room = np.repeat(np.minimum(values_end - keys, MAX_LENGTH).astype(np.int32), counts)
    # A value starts its offset before the end, and may not be longer than that.
    outside = (found.key_start + found.key_len > room) | (found.val_start > room)
    outside |= (found.val_len > found.val_start) | (found.key_len < key_bytes)
    key_start: NDArray[np.int64] = np.repeat(keys, counts) + found.key_start
    val_start: NDArray[np.int64] = np.repeat(values_end, counts) - found.val_start
    located = Slots(node, key_start, found.key_len, val_start, found.val_len)
    if not outside.any():
        return located, torn, (np.empty(0, np.int64),) * 3
    num_outside = np.bincount(node[outside], minlength=len(starts))
    # A child that an index node no longer names is lost with its subtree, which is searched for where the node is
    # lost. If most records of a leaf are outside, its table is corrupt, and no entry can be trusted.
    torn |= (num_outside > 0) & ~(head["is_leaf"] & (2 * num_outside < counts))
    rows = np.flatnonzero(outside & ~torn[node])
    strays = node[rows], rows - before[node[rows]], spots[rows]
    return located.take(~outside & ~torn[node]), torn, strays


class _Entries(NamedTuple):
    """Table entries as stored: starts within the key and the value area, lengths; in 32 bits."""

    key_start: NDArray[np.int32]
    key_len: NDArray[np.int32]
    val_start: NDArray[np.int32]
    val_len: NDArray[np.int32]


def _entries(
    buffer: NDArray[np.uint8], spots: NDArray[np.int64], is_fixed: NDArray[np.bool_], sizes: _Fixed
) -> _Entries:
    """Decode table entries, with fixed sizes or with lengths; ghosts have an empty value at 0."""
    if not is_fixed.any():
        return _varying(buffer, spots)
    if is_fixed.all():
        return _fixed(buffer, spots, sizes)
    # A damaged node can have another entry format than the rest of its tree.
    out = np.empty((4, len(spots)), np.int32)
    rows = np.flatnonzero(is_fixed)
    out[:, rows] = _fixed(buffer, spots[rows], _Fixed(sizes.key, sizes.val[rows]))
    rows = np.flatnonzero(~is_fixed)
    out[:, rows] = _varying(buffer, spots[rows])
    return _Entries(*out)


class _Fixed(NamedTuple):
    """Lengths that table entries omit: that of all keys, and those of the values."""

    key: int
    val: NDArray[np.int32]


def _varying(buffer: NDArray[np.uint8], spots: NDArray[np.int64]) -> _Entries:
    fields = (KVLOC.key.ofs_data, KVLOC.key.len_data, KVLOC.val.ofs_data, KVLOC.val.len_data)
    found = decode_columns(KVLOC, buffer, spots, fields)
    return _without_ghosts(_Entries(*(found[name].astype(np.int32) for name in fields)))


def _fixed(buffer: NDArray[np.uint8], spots: NDArray[np.int64], sizes: _Fixed) -> _Entries:
    found = decode_columns(KVOFF, buffer, spots, (KVOFF.ofs_key, KVOFF.ofs_val))
    key_start, val_start = found["ofs_key"].astype(np.int32), found["ofs_val"].astype(np.int32)
    key_len = np.full(len(spots), min(sizes.key, MAX_LENGTH), np.int32)
    return _without_ghosts(_Entries(key_start, key_len, val_start, sizes.val.copy()))


def _without_ghosts(found: _Entries) -> _Entries:
    """Give ghosts, keys whose value does not exist, an empty value."""
    # A start of 0xffff marks a ghost, whose value does not exist: free queues omit the length of one-block runs so.
    ghost = found.val_start == int(grammar.ApfsBtree.Location.invalid)
    if ghost.any():
        found.val_start[ghost] = found.val_len[ghost] = 0
    return found


def decoded_order(
    key_type: RecordType,
    field: Field | None,  # the one that sorts keys; None if object and record type do
    buffer: NDArray[np.uint8],
    key_start: NDArray[np.int64],
) -> NDArray[np.uint64]:
    """Decode the order of keys in numpy."""
    if field is not None:
        return decode_column(key_type, buffer, key_start, field)
    # On disk, the record type is in the upper four bits of the object's number, but the object is compared first.
    parts = decode_columns(J_KEY, buffer, key_start, (J_KEY.obj_id, J_KEY.record_type))
    return order_key(parts["obj_id"], parts["record_type"])
