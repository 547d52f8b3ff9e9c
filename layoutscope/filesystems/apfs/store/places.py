"""Where the nodes of one level of a tree are: identifiers to addresses, before anything is read.

Apple File System Reference, B-Trees and Object Maps. What cannot be located is a finding and left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.ondisk.records import J_KEY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.source import TreeSource

NO_ROW: Final = -1


@dataclass(frozen=True, slots=True)
class Places:
    """Nodes of one level before they are read; arrays of one length, in key order."""

    node_id: NDArray[np.uint64]
    xid: NDArray[np.uint64]
    paddr: NDArray[np.uint64]
    size_bytes: NDArray[np.int64]
    is_encrypted: NDArray[np.bool_]
    omap_leaf: NDArray[np.int64]
    parent: NDArray[np.int64]
    low_key: NDArray[np.uint64]
    child_hash: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.node_id)

    def take(self, chosen: Any) -> Places:
        """Return some of the nodes."""
        return Places(*(getattr(self, name)[chosen] for name in self.__slots__))


def low_keys(source: TreeSource, buffer: NDArray[np.uint8], key_start: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Order of keys as numbers: object and record type in the file-system trees, the leading field elsewhere.

    Parameters
    ----------
    source : TreeSource
        The tree, which says what its keys are.
    buffer : (n_bytes,) uint8 array
        Whole nodes.
    key_start : (n,) int64 array
        Where each key starts in the buffer.

    Returns
    -------
    (n,) uint64 array
        As of :func:`order_key` where keys are of file-system records. Different keys can have the same number.
    """
    key_type, key_field, _ = source.kind
    if key_type is not J_KEY:
        return source.decoder.column(key_type, buffer, key_start, key_field)
    # The disk has the record type in the upper four bits of the object's number, yet the object leads the order.
    parts = source.decoder.columns(J_KEY, buffer, key_start, (J_KEY.obj_id, J_KEY.record_type))
    return order_key(parts["obj_id"], parts["record_type"])


def order_key(obj_id: NDArray[np.uint64], record_type: NDArray[np.uint64] | int) -> NDArray[np.uint64]:
    """Object and record type as one number that sorts as the tree does."""
    return (obj_id << np.uint64(4)) | np.asarray(record_type, np.uint64)


def object_of(order_keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the object in keys of :func:`order_key`."""
    return order_keys >> np.uint64(4)


def type_of(order_keys: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return the record type in keys of :func:`order_key`."""
    return (order_keys & np.uint64(15)).astype(np.uint8)


def locate(
    source: TreeSource,
    oids: NDArray[np.uint64],
    origin: tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint8]] | None = None,
) -> Places:
    """Find the addresses of nodes; those that cannot be read are findings and left out.

    Parameters
    ----------
    source : TreeSource
        The tree.
    oids : (n,) uint64 array
        Identifiers of the nodes, in key order.
    origin : tuple of arrays, optional
        Of each node its parent's position in the tree, the low key and the hash that the parent has of it; a root has
        none.
    """
    parent, low, hashes = origin or (
        np.full(len(oids), NO_ROW, np.int64),
        np.zeros(len(oids), np.uint64),
        np.empty((len(oids), 0), np.uint8),
    )
    block = source.blocks.block_size
    if source.view is None:
        paddr, missing = _direct(source, oids)
        plain = np.zeros(len(oids), bool)
        size = np.full(len(oids), source.root_size_bytes or block, np.int64)
        leaf = np.full(len(oids), NO_ROW, np.int64)
        places = Places(oids, np.zeros(len(oids), np.uint64), paddr, size, plain, leaf, parent, low, hashes)
    else:
        found = source.view.find(oids)
        places = Places(
            oids, found.xid, found.paddr, found.size_bytes, found.is_encrypted, found.omap_leaf, parent, low, hashes
        )
        missing = found.is_missing
    outside = ~source.blocks.readable(places.paddr, int(places.size_bytes.max(initial=block)))
    _report_unlocated(source, places, missing, outside)
    return places.take(~(missing | outside))


def _direct(source: TreeSource, oids: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Addresses of physical nodes, or of ephemeral ones, and which are unknown."""
    if source.ephemerals is None:
        return oids, np.zeros(len(oids), bool)
    known = [source.ephemerals.get(oid) for oid in oids.tolist()]
    paddr = np.array([0 if where is None else where for where in known], np.uint64)
    return paddr, np.array([where is None for where in known], bool)


def _report_unlocated(
    source: TreeSource,
    places: Places,
    missing: NDArray[np.bool_],
    outside: NDArray[np.bool_],
) -> None:
    for node_id in places.node_id[missing].tolist():
        source.at_node(node_id, None).add("node-missing", "error", "no map knows this node")
    present = source.blocks.present(places.paddr, int(places.size_bytes.max(initial=0)))
    for number in np.flatnonzero(outside & ~missing).tolist():
        log = source.at_node(int(places.node_id[number]), int(places.paddr[number]))
        code, message = ("node-missing", "the node's address lies outside the image")
        if present[number]:
            code, message = ("unread-area", "the node lies in an area that was never read; its records are missing")
        elif log.device >= len(source.blocks.sources):
            message = "the node lies on the device whose image was not given"
        log.add(code, "error", message)


def joined(parts: list[Places]) -> Places:
    """Put places of several batches together."""
    return Places(*(np.concatenate([getattr(part, name) for part in parts]) for name in Places.__slots__))


def distinct(source: TreeSource, places: Places) -> Places:
    """Leave out nodes that a level names twice: a tree that loops back or branches together is damaged."""
    ascending = np.sort(places.paddr)
    if (ascending[1:] != ascending[:-1]).all():
        return places
    _, firsts = np.unique(places.paddr, return_index=True)
    keep = np.zeros(len(places), bool)
    keep[firsts] = True
    for number in np.flatnonzero(~keep).tolist():
        log = source.at_node(int(places.node_id[number]), int(places.paddr[number]))
        log.add("node-invalid", "error", "two index entries lead to this node")
    return places.take(keep)
