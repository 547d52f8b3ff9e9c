"""Records inside B-tree nodes: the table of contents of many nodes at once.

Apple File System Reference, B-Trees, btree_node_phys_t. Keys are counted from the end of the table of contents
upwards, values from the end of the node downwards (in a root, from the tree information there).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.frozen import frozen
from layoutscope.native.library import Kernel
from layoutscope.ondisk import grammar
from layoutscope.ondisk.decoder import Bulk
from layoutscope.ondisk.records import BTREE_INFO, BTREE_NODE, KVLOC, KVOFF

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.ondisk.decoder import Decoder

HEAD_FIELDS: Final = (
    BTREE_NODE.hdr.cksum,
    BTREE_NODE.hdr.oid,
    BTREE_NODE.hdr.xid,
    BTREE_NODE.hdr.type,
    BTREE_NODE.hdr.subtype,
    BTREE_NODE.hdr.storage,
    BTREE_NODE.flags,
    BTREE_NODE.level,
    BTREE_NODE.num_keys,
    BTREE_NODE.is_root,
    BTREE_NODE.is_leaf,
    BTREE_NODE.is_fixed,
    BTREE_NODE.table_space.ofs_data,
    BTREE_NODE.table_space.len_data,
    BTREE_NODE.free_space.ofs_data,
    BTREE_NODE.free_space.len_data,
    BTREE_NODE.key_free_list.len_data,
    BTREE_NODE.val_free_list.len_data,
)

LOCATE_SLOTS: Final = Kernel("locate_slots", "bnnnnnblllLLILIB")

MAX_LENGTH: Final = 2**30
"""Larger sizes count as this one, which no node holds, so that sums of two fit 32 bits."""


@frozen
class Slots:
    """Records of many nodes, in key order; one row a record."""

    node: NDArray[np.int64]  # position of the node among those given
    # key_start, val_start: in bytes from the beginning of the buffer
    key_start: NDArray[np.int64]
    # key_len, val_len: in bytes. A ghost has a value of length 0.
    key_len: NDArray[np.int32]
    val_start: NDArray[np.int64]
    val_len: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.node)

    def take(self, chosen: NDArray[Any]) -> Slots:
        """Return some of the records."""
        return Slots(
            self.node[chosen],
            self.key_start[chosen],
            self.key_len[chosen],
            self.val_start[chosen],
            self.val_len[chosen],
        )


class Strays(NamedTuple):
    """Records of leaves that lie outside of their node, and were left out; arrays of one length."""

    node: NDArray[np.int64]  # position of the node among those given
    number: NDArray[np.int64]  # of the record in its node
    entry_start: NDArray[np.int64]  # its entry in the table of contents, in bytes from the beginning of the buffer


@frozen
class Located:
    """What the tables of contents of many nodes lead to."""

    slots: Slots  # records that can be used
    # nodes of which nothing can: the table leaves the node, or records of an index node or most of a leaf's do
    torn: NDArray[np.bool_]
    strays: Strays  # single records of leaves that cannot be used while the others can


@frozen
class Sizes:
    """Sizes of a tree's nodes, and of keys and values where its nodes do not say, in bytes."""

    node: int
    key: int = 0
    val: int = 0
    child: int = 8


def node_heads(decoder: Decoder, buffer: NDArray[np.uint8], starts: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Decode the heads of many nodes."""
    return decoder.columns(BTREE_NODE, buffer, starts, HEAD_FIELDS)


def slots(
    decoder: Decoder,
    buffer: NDArray[np.uint8],
    starts: NDArray[np.int64],
    head: dict[str, NDArray[Any]],
    sizes: Sizes,
) -> Located:
    """Locate every record of many nodes."""
    found = _natively(buffer, starts, head, sizes) if isinstance(decoder, Bulk) else None
    return found or plain_slots(decoder, buffer, starts, head, sizes)


def _natively(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], head: dict[str, NDArray[Any]], sizes: Sizes
) -> Located | None:
    """Locate records by the kernel; None if it does not run, or a record is not where it can be."""
    count = len(starts)
    if not np.array_equal(starts, np.arange(count) * sizes.node):
        return None
    flags = head["is_root"] + head["is_leaf"] * np.uint8(2) + head["is_fixed"] * np.uint8(4)
    counts = head["num_keys"].astype(np.int64)
    room = int(np.minimum(counts, sizes.node // KVOFF.width).sum())
    node, key_start, val_start = (np.empty(room, np.int64) for _ in range(3))
    key_len, val_len = (np.empty(room, np.int32) for _ in range(2))
    torn = np.empty(count, np.bool_)
    found = LOCATE_SLOTS(
        buffer, sizes.node, BTREE_INFO.width, sizes.key, sizes.val, sizes.child, flags, counts,
        BTREE_NODE.width + head["table_space.ofs_data"].astype(np.int64),
        head["table_space.len_data"].astype(np.int64), node, key_start, key_len, val_start, val_len,
        torn.view(np.uint8),
    )  # fmt: skip
    if found is None:
        return None
    located = Slots(node[:found], key_start[:found], key_len[:found], val_start[:found], val_len[:found])
    return Located(located, torn, _NO_STRAYS)


def plain_slots(
    decoder: Decoder,
    buffer: NDArray[np.uint8],
    starts: NDArray[np.int64],
    head: dict[str, NDArray[Any]],
    sizes: Sizes,
) -> Located:
    """Locate records in numpy, through a decoder."""
    # Keys are counted from the end of the table of contents upwards, values from the end of the node downwards: only so
    # can a node grow from both sides. In a root, the tree information stands behind the values.
    table = starts + BTREE_NODE.width + head["table_space.ofs_data"]
    keys: NDArray[np.int64] = table + head["table_space.len_data"]
    info = BTREE_INFO.width
    values_end: NDArray[np.int64] = starts + sizes.node - np.where(head["is_root"], info, 0)
    entry = np.where(head["is_fixed"], KVOFF.width, KVLOC.width)
    counts = head["num_keys"].astype(np.int64)
    torn = (counts * entry > head["table_space.len_data"]) | (keys > values_end)
    counts = np.where(torn, 0, counts)
    node = np.repeat(np.arange(len(starts)), counts)
    # Row i of a node has its entry i entries after the node's table; `before` counts the rows of the nodes before it.
    before = np.cumsum(counts) - counts
    spots = np.repeat(table - before * entry, counts) + np.arange(len(node)) * np.repeat(entry, counts)
    val_len = np.where(head["is_leaf"], min(sizes.val, MAX_LENGTH), sizes.child).astype(np.int32)
    found = _entries(decoder, buffer, spots, head["is_fixed"][node], _Fixed(sizes.key, val_len[node]))
    room = np.repeat(np.minimum(values_end - keys, MAX_LENGTH).astype(np.int32), counts)
    # A value starts as far before the end as its offset says, and may not be longer than that.
    outside = (found.key_start + found.key_len > room) | (found.val_start > room)
    outside |= (found.val_len > found.val_start) | (found.key_len < sizes.key)
    key_start: NDArray[np.int64] = np.repeat(keys, counts) + found.key_start
    val_start: NDArray[np.int64] = np.repeat(values_end, counts) - found.val_start
    located = Slots(node, key_start, found.key_len, val_start, found.val_len)
    if not outside.any():
        return Located(located, torn, _NO_STRAYS)
    num_outside = np.bincount(node[outside], minlength=len(starts))
    # A child that an index node does not name any more takes its whole subtree along, which is looked for where the
    # node is lost. Where most records of a leaf are outside, its table is not what it was, and leads anywhere.
    torn |= (num_outside > 0) & ~(head["is_leaf"] & (2 * num_outside < counts))
    rows = np.flatnonzero(outside & ~torn[node])
    strays = Strays(node[rows], rows - before[node[rows]], spots[rows])
    return Located(located.take(~outside & ~torn[node]), torn, strays)


_NO_STRAYS: Final = Strays(*(np.empty(0, np.int64) for _ in range(3)))


class _Entries(NamedTuple):
    """Table entries as they are stored: starts within the key and the value area, lengths; in 32 bits."""

    key_start: NDArray[np.int32]
    key_len: NDArray[np.int32]
    val_start: NDArray[np.int32]
    val_len: NDArray[np.int32]


def _entries(
    decoder: Decoder, buffer: NDArray[np.uint8], spots: NDArray[np.int64], is_fixed: NDArray[np.bool_], sizes: _Fixed
) -> _Entries:
    """Decode table entries, of fixed sizes or with lengths; ghosts have an empty value at 0."""
    if not is_fixed.any():
        return _varying(decoder, buffer, spots)
    if is_fixed.all():
        return _fixed(decoder, buffer, spots, sizes)
    # A damaged node can be of another kind than the rest of its tree.
    out = np.empty((4, len(spots)), np.int32)
    rows = np.flatnonzero(is_fixed)
    out[:, rows] = _fixed(decoder, buffer, spots[rows], _Fixed(sizes.key, sizes.val[rows]))
    rows = np.flatnonzero(~is_fixed)
    out[:, rows] = _varying(decoder, buffer, spots[rows])
    return _Entries(*out)


class _Fixed(NamedTuple):
    """Lengths that table entries do not say: that of all keys, and those of the values."""

    key: int
    val: NDArray[np.int32]


def _varying(decoder: Decoder, buffer: NDArray[np.uint8], spots: NDArray[np.int64]) -> _Entries:
    fields = (KVLOC.key.ofs_data, KVLOC.key.len_data, KVLOC.val.ofs_data, KVLOC.val.len_data)
    found = decoder.columns(KVLOC, buffer, spots, fields)
    return _without_ghosts(_Entries(*(found[name].astype(np.int32) for name in fields)))


def _fixed(decoder: Decoder, buffer: NDArray[np.uint8], spots: NDArray[np.int64], sizes: _Fixed) -> _Entries:
    found = decoder.columns(KVOFF, buffer, spots, (KVOFF.ofs_key, KVOFF.ofs_val))
    key_start, val_start = found["ofs_key"].astype(np.int32), found["ofs_val"].astype(np.int32)
    key_len = np.full(len(spots), min(sizes.key, MAX_LENGTH), np.int32)
    return _without_ghosts(_Entries(key_start, key_len, val_start, sizes.val.copy()))


def _without_ghosts(found: _Entries) -> _Entries:
    """Give ghosts, keys whose value does not exist, an empty value."""
    # A ghost says that its value does not exist by a start of 0xffff: free queues leave out runs of one block so.
    ghost = found.val_start == int(grammar.ApfsBtree.Location.invalid)
    if ghost.any():
        found.val_start[ghost] = found.val_len[ghost] = 0
    return found
