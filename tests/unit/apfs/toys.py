"""Trees of a few nodes of 512 bytes, laid out by hand after the Apple File System Reference.

A node is its header (32 bytes of object, 24 of B-tree node), the table of contents, keys, free space, and values that
end at the end of the node, or in a root before its 40 bytes of tree information.
"""

from __future__ import annotations

import struct

import numpy as np

from fixtures.apfs.checksum import with_checksum
from layoutscope.filesystems.apfs.blocks import Blocks
from layoutscope.filesystems.apfs.nodes import join
from layoutscope.filesystems.apfs.omap import ObjectMap
from layoutscope.filesystems.apfs.source import Store
from layoutscope.findings import FindingLog
from layoutscope.image.source import MemorySource

BLOCK = 512
HEAD = 56
INFO = 40
BTREE, BTREE_NODE = 2, 3
OMAP = 11
PHYSICAL = 0x40000000
ROOT, LEAF, FIXED = 1, 2, 4

Records = list[tuple[bytes, bytes]]


def node(oid: int, records: Records, *, level: int = 0, root: tuple[int, int] | None = None, xid: int = 7) -> bytes:
    """Lay out a physical node of an object map with entries of fixed size; its number `oid` is its block.

    Keys have 16 bytes, values 16, or 8 in an index node; `root` is how many keys and nodes a root counts.
    """
    flags = FIXED | (ROOT if root else 0) | (0 if level else LEAF)
    table, keys, values = b"", b"", b""
    for key, value in records:
        values = value + values
        table += struct.pack("<HH", len(keys), len(values))
        keys += key
    size = BLOCK - HEAD - (INFO if root else 0)
    free = size - len(table) - len(keys) - len(values)
    head = struct.pack("<QQII", oid, xid, (BTREE if root else BTREE_NODE) | PHYSICAL, OMAP)
    head += struct.pack("<HHIHHHH", flags, level, len(records), 0, len(table), len(keys), free)
    head += struct.pack("<HHHH", 0xFFFF, 0, 0xFFFF, 0)
    info = struct.pack("<IIIIIIQQ", 0, BLOCK, 16, 16, 16, 16, *root) if root else b""
    return with_checksum(bytes(8) + head + table + keys + bytes(free) + values + info)


def record_root(oid: int, subtype: int, records: Records) -> bytes:
    """Lay out a tree of one physical node, root and leaf, whose entries say their lengths."""
    longest = [max((len(side) for side in sides), default=0) for sides in zip(*records, strict=True)] or [0, 0]
    return record_node(oid, subtype, records, info=(*longest, len(records), 1))


def record_node(
    oid: int, subtype: int, records: Records, *, level: int = 0, info: tuple[int, int, int, int] | None = None
) -> bytes:
    """Lay out one of several such nodes; `info` of a root is the longest key and value, and the key and node counts."""
    table, keys, values = b"", b"", b""
    for key, value in records:
        values = value + values
        table += struct.pack("<HHHH", len(keys), len(key), len(values), len(value))
        keys += key
    free = BLOCK - HEAD - (INFO if info else 0) - len(table) - len(keys) - len(values)
    flags = (ROOT if info else 0) | (0 if level else LEAF)
    head = struct.pack("<QQII", oid, 7, (BTREE if info else BTREE_NODE) | PHYSICAL, subtype)
    head += struct.pack("<HHIHHHH", flags, level, len(records), 0, len(table), len(keys), free)
    head += struct.pack("<HHHH", 0xFFFF, 0, 0xFFFF, 0)
    tail = struct.pack("<IIIIIIQQ", 0, BLOCK, 0, 0, *info) if info else b""
    return with_checksum(bytes(8) + head + table + keys + bytes(free) + values + tail)


def mapping(oid: int, xid: int, paddr: int, *, flags: int = 0) -> tuple[bytes, bytes]:
    """Return an object map's entry for an object of one block."""
    return struct.pack("<QQ", oid, xid), struct.pack("<IIQ", flags, BLOCK, paddr)


def child(oid: int, xid: int, node_oid: int) -> tuple[bytes, bytes]:
    """Return the entry of an index node that leads to another node."""
    return struct.pack("<QQ", oid, xid), struct.pack("<Q", node_oid)


def store_of(blocks: dict[int, bytes]) -> Store:
    """Return a container from its blocks by address, with zeros elsewhere."""
    image = bytearray((max(blocks) + 1) * BLOCK)
    for paddr, block in blocks.items():
        image[paddr * BLOCK : (paddr + 1) * BLOCK] = block
    sources = (MemorySource(bytes(image)),)
    return Store.over(Blocks(sources, (0,), BLOCK), FindingLog())


PHYSICAL_AT = 24 + 3
"""The upper bits of an object's type say how it is stored; none of them is set in a virtual one."""


def virtual(oid: int, *, xid: int = 7, level: int = 0) -> bytes:
    """Return a sound virtual node with one record."""
    data = bytearray(node(oid, [mapping(1, 1, 1)], level=level, xid=xid))
    data[PHYSICAL_AT] = 0
    return with_checksum(bytes(data))


def object_map(*rows: tuple[int, int, int], **flags: list[bool]) -> ObjectMap:
    """Return a map of (oid, xid, paddr) of objects of one block; `flags` apply to all rows."""
    oid, xid, paddr = (np.array(column, np.uint64) for column in zip(*rows, strict=True))
    count = len(rows)
    size = np.array(flags.pop("size", [BLOCK] * count), np.int64)
    deleted, encrypted, bare = (np.array(flags.get(name, [False] * count)) for name in ("deleted", "encrypted", "bare"))
    return ObjectMap(join("omap", []), oid, xid, paddr, size, deleted, encrypted, bare, np.arange(count))
