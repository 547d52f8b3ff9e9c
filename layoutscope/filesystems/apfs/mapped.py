"""Objects that an object map names, even if no tree leads to them.

Apple File System Reference, Object Maps: an entry is (object, transaction) -> address, size and flags; the object's own
header repeats number and transaction. If a node is lost, no tree leads to the nodes below it. The map still does, so
damage of those nodes is found nevertheless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.filesystems.apfs import nodes
from layoutscope.filesystems.apfs.btree import MAX_LEVELS
from layoutscope.filesystems.apfs.nodes import DAMAGED, NodeRows
from layoutscope.filesystems.apfs.omap import NEWEST, ObjectMap, view_at
from layoutscope.filesystems.apfs.source import places_of, unknown_nodes
from layoutscope.structs import grammar
from layoutscope.structs.arrays import Rows, match
from layoutscope.structs.checksum import fletcher64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.filesystems.apfs.source import Store
    from layoutscope.findings import FindingLog


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


def read_mapped(omap: ObjectMap, store: Store, known: Sequence[NodeRows] = (), key: bytes | None = None) -> Mapped:
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
    block = store.blocks.block_size
    is_sized = (omap.size_bytes > 0) & (omap.size_bytes % block == 0)
    chosen = ~omap.is_deleted & is_open & is_sized & ~np.isin(omap.paddr, seen)
    for size in np.unique(omap.size_bytes[chosen]).tolist():
        rows = np.flatnonzero(chosen & (omap.size_bytes == size))
        rows = rows[store.blocks.readable(omap.paddr[rows], size)]
        step = max(1, BATCH_BYTES // size)
        parts += [_read_states(omap, store, rows[at : at + step], size, key) for at in range(0, len(rows), step)]
    found = Mapped.join(parts)
    return found.take(np.unique(found.paddr, return_index=True)[1])


def _read_states(omap: ObjectMap, store: Store, rows: NDArray[np.int64], size: int, key: bytes | None) -> Mapped:
    paddr = omap.paddr[rows]
    data = store.blocks.read(paddr, size)
    if key is not None and omap.is_encrypted[rows].any():
        data = store.blocks.decrypt(key, data, paddr, omap.is_encrypted[rows])
    head = nodes.node_heads(data.reshape(-1), np.arange(len(rows), dtype=np.int64) * size)
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


def report_unreached(parts: VolumeParts) -> None:
    """Check the objects in the object map of a damaged volume that no tree leads to any more."""
    state = parts.state
    mapped = read_mapped(state.omap, state.store, list(parts.views.values()), parts.key)
    misled = are_misled(state.omap, mapped)
    entries = report_damaged_objects(state.omap, mapped, misled, "fs tree, node", parts.log)
    # A sealed volume's integrity metadata is a virtual object too, but not a node.
    entries = entries[state.omap.oid[entries] != state.superblock.integrity_meta_oid]
    is_live = np.isin(entries, view_at(state.omap, NEWEST).row)
    for lost, rows in ((parts.lost, entries[is_live]), (parts.lost_of_snapshots, entries[~is_live])):
        if len(rows):
            # The trees that would give their levels are lost.
            lost.append(unknown_nodes("fs", places_of(state.omap, rows), np.full(len(rows), DAMAGED)))
