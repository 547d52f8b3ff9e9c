"""Object maps: the addresses of a container's or volume's virtual objects.

Apple File System Reference, Object Maps. A map is a physical tree of (oid, xid) -> address, size and flags. A view
contains, for each object, the newest version up to a given transaction. The object's own header repeats number and
transaction. If a node is lost, no tree leads to the nodes below it. The map still does, so damage of those nodes is
found nevertheless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.display import Struct
from layoutscope.filesystems.apfs.nodes import NodeRows, node_heads
from layoutscope.filesystems.apfs.sweep import MAX_LEVELS
from layoutscope.structs import grammar
from layoutscope.structs.arrays import Rows, match
from layoutscope.structs.checksum import fletcher64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.blocks import Blocks
    from layoutscope.findings import FindingLog


NEWEST: Final = 2**64 - 1
"""No transaction is younger than this one."""


class ObjectMap(Struct, frozen=True):
    """All mappings of one object map, in key order (oid, then xid); one row per mapping."""

    nodes: NodeRows  # nodes of its tree
    # oid, xid, paddr: object, first transaction for which the mapping is valid, and first block
    oid: NDArray[np.uint64]
    xid: NDArray[np.uint64]
    paddr: NDArray[np.uint64]
    size_bytes: NDArray[np.int64]  # size of the object
    # is_deleted, is_encrypted, is_noheader: flags
    is_deleted: NDArray[np.bool_]
    is_encrypted: NDArray[np.bool_]
    is_noheader: NDArray[np.bool_]
    leaf: NDArray[np.int64]  # position of the mapping's leaf in `nodes`

    def __len__(self) -> int:
        return len(self.oid)


class OmapView(Struct, frozen=True):
    """An object map as of one transaction."""

    omap: ObjectMap  # the map
    oid: NDArray[np.uint64]  # objects that exist in this view, ascending
    row: NDArray[np.int64]  # their mappings, as positions in `omap`

    def find(self, oids: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the positions of the objects' mappings in `omap`; -1 for missing objects."""
        if not len(self.oid):
            return np.full(len(oids), -1)
        spot = np.minimum(np.searchsorted(self.oid, oids), len(self.oid) - 1)
        return np.where(self.oid[spot] == oids, self.row[spot], -1)

    def find_one(self, oid: int) -> int | None:
        """Return the position of an object's mapping in `omap`; None if the object is missing."""
        spot = int(np.searchsorted(self.oid, np.uint64(oid)))
        return int(self.row[spot]) if spot < len(self.oid) and int(self.oid[spot]) == oid else None


def view_at(omap: ObjectMap, xid: int) -> OmapView:
    """Select the newest mapping of each object up to a transaction, without deleted objects."""
    # Mappings never change: each transaction that moves an object adds one, and snapshots retain the older ones.
    row = np.flatnonzero(omap.xid <= np.uint64(xid))
    oid = omap.oid[row]
    is_last = np.ones(len(row), bool)
    is_last[:-1] = oid[1:] != oid[:-1]
    row = row[is_last & ~omap.is_deleted[row]]
    return OmapView(omap, omap.oid[row], row)


BATCH_BYTES: Final = 1 << 24


class Mapped(Rows, frozen=True):
    """The objects that the entries of an object map name; one row per address, ascending."""

    paddr: NDArray[np.uint64]
    # oid, xid: from the headers of the objects
    oid: NDArray[np.uint64]
    xid: NDArray[np.uint64]
    # stored, computed: their checksums
    stored: NDArray[np.uint64]
    computed: NDArray[np.uint64]
    size_bytes: NDArray[np.int64]  # their sizes; the map's value for objects that no tree leads to
    is_virtual: NDArray[np.bool_]  # whether the object is located through a map
    is_node: NDArray[np.bool_]  # whether it may be a B-tree node; False only if it has neither header nor checksum

    def of(self, paddr: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the rows of some addresses, and which objects are known and match their checksum."""
        row, is_known = match(self.paddr, paddr)
        is_sound = is_known.copy()
        is_sound[is_known] = (self.stored == self.computed)[row[is_known]]
        return row, is_sound


def read_mapped(omap: ObjectMap, blocks: Blocks, known: Sequence[NodeRows] = (), key: bytes | None = None) -> Mapped:
    """Read the objects of an object map, except nodes that were already read and are sound.

    Encrypted objects without a key are skipped, and so are objects that are unreadable or outside of the image.
    """
    sound = [tree.take(np.flatnonzero(tree.valid)) for tree in known]
    none, no_flags = np.empty(0, np.uint64), np.empty(0, bool)
    parts = [Mapped(none, none, none, none, none, np.empty(0, np.int64), no_flags, no_flags)]
    for tree in sound:
        zeros, yes = np.zeros(len(tree), np.uint64), np.ones(len(tree), bool)
        parts.append(Mapped(tree.paddr, tree.node_id, tree.xid, zeros, zeros, tree.size_bytes, yes, yes))
    seen = np.concatenate([part.paddr for part in parts])
    is_open = ~omap.is_encrypted if key is None else np.ones(len(omap), bool)
    is_sized = (omap.size_bytes > 0) & (omap.size_bytes % blocks.block_size == 0)
    chosen = ~omap.is_deleted & is_open & is_sized & ~np.isin(omap.paddr, seen)
    for size in np.unique(omap.size_bytes[chosen]).tolist():
        rows = np.flatnonzero(chosen & (omap.size_bytes == size))
        rows = rows[blocks.readable(omap.paddr[rows], size)]
        step = max(1, BATCH_BYTES // size)
        parts += [_read_states(omap, blocks, rows[at : at + step], size, key) for at in range(0, len(rows), step)]
    found = Mapped.join(parts)
    return found.take(np.unique(found.paddr, return_index=True)[1])


def _read_states(omap: ObjectMap, blocks: Blocks, rows: NDArray[np.int64], size: int, key: bytes | None) -> Mapped:
    paddr = omap.paddr[rows]
    data = blocks.read(paddr, size)
    if key is not None and omap.is_encrypted[rows].any():
        data = blocks.decrypt(key, data, paddr, omap.is_encrypted[rows])
    head = node_heads(data.reshape(-1), np.arange(len(rows), dtype=np.int64) * size)
    bare, nothing = omap.is_noheader[rows], np.zeros(len(rows), np.uint64)
    stored, computed = head["hdr.cksum"].astype(np.uint64), fletcher64(data)
    used = sum(head[name].astype(np.int64) for name in _AREAS)
    is_node = (head["level"] < MAX_LEVELS) & (used <= size) & (head["table_space.len_data"] > 0)
    return Mapped(
        paddr,
        np.where(bare, omap.oid[rows], head["hdr.oid"]),
        np.where(bare, omap.xid[rows], head["hdr.xid"]),
        np.where(bare, nothing, stored),
        np.where(bare, nothing, computed),
        omap.size_bytes[rows],
        bare | (head["hdr.storage"] == int(grammar.ApfsObject.Storage.virtual)),
        ~bare | is_node,
    )


_AREAS: Final = ("table_space.ofs_data", "table_space.len_data", "free_space.ofs_data", "free_space.len_data")


def are_misled(omap: ObjectMap, mapped: Mapped) -> NDArray[np.bool_]:
    """Return which entries of a map lead to an intact object with another number, at that object's own address.

    An address belongs to an object if another entry maps the object there, if it equals the object's number, or if the
    object is virtual and no entry names it. Otherwise the object is a copy that was written to the wrong address. Then
    the block is damaged, not the entry.
    """
    row, is_sound = mapped.of(omap.paddr)
    other = np.flatnonzero(is_sound & ~omap.is_deleted)
    other = other[mapped.oid[row[other]] != omap.oid[other]]
    result = np.zeros(len(omap), bool)
    for entry in other.tolist():
        oid, paddr = mapped.oid[row[entry]], omap.paddr[entry]
        found = omap.paddr[omap.oid == oid]
        is_unnamed = not len(found) and bool(mapped.is_virtual[row[entry]])
        result[entry] = is_unnamed or oid == paddr or bool((found == paddr).any())
    return result


def report_damaged_objects(
    omap: ObjectMap, mapped: Mapped, misled: NDArray[np.bool_], kind: str, log: FindingLog
) -> NDArray[np.int64]:
    """Report once each object of a map that is damaged or differs from its entry; return these entries."""
    row, is_known = match(mapped.paddr, omap.paddr)
    rows = np.flatnonzero(is_known & ~omap.is_deleted & ~misled)
    row = row[rows]
    broken = mapped.stored[row] != mapped.computed[row]
    other = (mapped.oid[row] != omap.oid[rows]) & ~broken
    older = (mapped.xid[row] != omap.xid[rows]) & ~broken & ~other
    none = ~mapped.is_node[row]
    another = "node is of another transaction than the object map says"
    damaged: NDArray[np.int64] = rows[broken | other | older | none]
    for wrong, code, message, expected, found in (
        (broken, "checksum-mismatch", "checksum differs", mapped.computed[row], mapped.stored[row]),
        (other, "node-invalid", "object is not the node that was looked for", omap.oid[rows], mapped.oid[row]),
        (older, "node-invalid", another, omap.xid[rows], mapped.xid[row]),
        (none, "node-invalid", "no tree leads to it, and it is not a B-tree node", None, None),
    ):  # fmt: skip
        for place in np.flatnonzero(wrong).tolist():
            entry = rows[place]
            bound = log.at(f"{kind} {omap.oid[entry]}", int(omap.paddr[entry]))
            sides = ("", "") if expected is None or found is None else (expected[place], found[place])
            if not any(item.code == code and item.image_offset == bound.image_offset for item in log.findings):
                bound.add(code, "error", message, expected=sides[0], found=sides[1])
    return damaged
