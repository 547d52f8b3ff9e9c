"""Object maps: the addresses of a container's or volume's virtual objects.

Apple File System Reference, Object Maps. A map is a physical tree of (oid, xid) -> address. A view of it contains, for
each object, the newest version up to a given transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.display import Struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.nodes import NodeRows


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
