"""Record locations in APFS nodes, record by record: the oracle of the kernel's tests."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.filesystems.apfs.nodes import MAX_LENGTH, Slots, order_key
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.records import BTREE_INFO, BTREE_NODE, J_KEY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.structs.recordtypes import Field, RecordType

GHOST = 0xFFFF
"""Start of a value that does not exist: free queues omit the length of one-block runs so."""


def plain_slots(
    buffer: NDArray[np.uint8],
    starts: NDArray[np.int64],
    head: dict[str, NDArray[Any]],
    node_bytes: int,
    entry_bytes: tuple[int, int, int],
) -> tuple[Slots, list[bool], list[list[int]]]:
    """Locate records.

    Keys are counted upwards from the end of the table of contents, values downwards from the end of the node; in a
    root, the tree information follows the values. A value starts its offset before the end, and may not be longer.
    """
    key_bytes, val_bytes, child_bytes = entry_bytes
    rows, strays, torn = [], [], []
    for number, start in enumerate(starts.tolist()):
        about = {name: int(column[number]) for name, column in head.items()}
        table = start + BTREE_NODE.width + about["table_space.ofs_data"]
        keys, end = table + about["table_space.len_data"], start + node_bytes - BTREE_INFO.width * about["is_root"]
        form = "<HH" if about["is_fixed"] else "<HHHH"
        count, width = about["num_keys"], struct.calcsize(form)
        torn.append(count * width > about["table_space.len_data"] or keys > end)
        inside, outside = [], []
        for slot in range(0 if torn[-1] else count):
            entry = struct.unpack_from(form, buffer, table + slot * width)
            if about["is_fixed"]:
                entry = entry[0], key_bytes, entry[1], val_bytes if about["is_leaf"] else child_bytes
            key, key_length, value, val_length = (min(each, MAX_LENGTH) for each in entry)
            if value == GHOST:
                value = val_length = 0
            room = min(end - keys, MAX_LENGTH)
            if key + key_length > room or value > room or val_length > value or key_length < key_bytes:
                outside.append((number, slot, table + slot * width))
            else:
                inside.append((number, keys + key, key_length, end - value, val_length))
        # If most records of a leaf are outside, its table is corrupt, and no entry can be trusted; a child that an
        # index node no longer names is lost with its subtree, which is searched for where the node is lost.
        torn[-1] |= bool(outside) and not (about["is_leaf"] and 2 * len(outside) < count)
        rows += [] if torn[-1] else inside
        strays += [] if torn[-1] else outside
    found = np.array(rows, np.int64).reshape(-1, 5).T
    return Slots(*found), torn, np.array(strays, np.int64).reshape(-1, 3).T.tolist()


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
