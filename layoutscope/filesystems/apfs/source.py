"""Inputs for reading a container and its trees, and the addresses of a level's nodes before they are read.

Apple File System Reference, B-Trees and Object Maps. Nodes that cannot be located are findings, and are skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import field
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.nodes import KINDS, SOUND, TYPE_BITS, UNKNOWN_LEVEL, UNREAD, rows_of
from layoutscope.structs import records
from layoutscope.structs.native import Kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.blocks import Blocks
    from layoutscope.filesystems.apfs.nodes import NodeRows
    from layoutscope.filesystems.apfs.omap import ObjectMap, OmapView
    from layoutscope.findings import FindingLog
    from layoutscope.structs.recordtypes import RecordType


LEADING_NUMBERS: Final = Kernel("leading_numbers", "bnnnlL")


class Store(Struct, frozen=True):
    """The blocks that structures are read from, and the log for findings about them."""

    blocks: Blocks  # blocks of the container
    log: FindingLog  # log whose addresses are block numbers
    # roots that were located but cannot be used, one each: the contents of their trees are unknown
    lost: list[NodeRows] = field(default_factory=list)

    @classmethod
    def over(cls, blocks: Blocks, log: FindingLog) -> Store:
        """Make a store with a log whose addresses are block numbers."""
        return cls(blocks, replace(log, locate=blocks.place))

    def apart(self) -> Store:
        """Return the same store with a separate log, to collect the findings of one volume, or to drop them."""
        return replace(self, log=self.log.branch(), lost=[])

    def absorb(self, apart: Store) -> None:
        """Take over the findings and lost nodes of a separate store, without repetitions."""
        known = set(self.log.findings)
        self.log.extend([item for item in apart.log.findings if item not in known])
        self.lost.extend(apart.lost)


class TreeSource(Struct, frozen=True):
    """Inputs for reading one tree.

    A tree is physical by default: its nodes are identified by their addresses.
    """

    store: Store  # blocks to read from, and the log
    tree: str  # name in the tables, key of `KINDS`
    root_oid: int  # identifier of the root; its address if the tree is physical
    max_xid: int  # no node of a sound tree is younger
    view: OmapView | None = None  # of a virtual tree: locates its nodes
    # of an ephemeral tree: the block of each object in the checkpoint
    ephemerals: Mapping[int, int] | None = None
    root_size_bytes: int = 0  # size of the root if the object map does not give it; the block size if 0
    key: bytes | None = None  # decrypts nodes whose object-map entry says that they are encrypted
    hash_type: int = 0  # of sealed volumes: hash type of children; 0 if that is unknown, and nothing is verified
    root_hash: bytes = b""  # of sealed volumes: expected hash of the root

    @property
    def blocks(self) -> Blocks:
        """The blocks of the container."""
        return self.store.blocks

    @property
    def key_type(self) -> RecordType:
        """Type of the fixed part of its keys, whose first field sorts them."""
        return KINDS[self.tree][0]

    @property
    def subtype(self) -> int:
        """Object type of its contents; 0 for any."""
        return int(KINDS[self.tree][2])

    def apart(self) -> TreeSource:
        """Return the same tree with a separate log."""
        return replace(self, store=self.store.apart())

    def at_node(self, node_id: int, paddr: int | None) -> FindingLog:
        """Bind the log to a node."""
        return self.store.log.at(f"{self.tree} tree, node {node_id}", paddr)


class OpenTree(Struct, frozen=True):
    """A tree whose root was read, with the properties that the root declares."""

    source: TreeSource
    node_bytes: int  # size of each node
    entry_bytes: tuple[int, int, int]  # sizes of keys and values, see :func:`nodes.slots`
    level: int  # of the root
    is_hashed: bool = False  # whether index nodes hold the hashes of their children
    hash_type: int = 0  # 0 if that is unknown
    is_noheader: bool = False
    num_keys: int = 0
    num_nodes: int = 0
    longest_key: int = 0
    paddr: int = 0  # of the root

    @property
    def has_headers(self) -> bool:
        """Whether nodes have headers; those without are verified by the hashes in their parents."""
        return not (self.is_hashed or self.is_noheader)


def mapped_nodes(
    tree: str, omap: ObjectMap, rows: NDArray[np.int64], condition: NDArray[np.integer[Any]] | int = SOUND
) -> NodeRows:
    """Make rows of nodes that an object map locates; their contents and their places in a tree are unknown."""
    known = {
        "node_id": omap.oid[rows],
        "xid": omap.xid[rows],
        "paddr": omap.paddr[rows],
        "size_bytes": omap.size_bytes[rows],
        "level": np.full(len(rows), UNKNOWN_LEVEL),
        "omap_leaf": omap.leaf[rows],
        "condition": np.broadcast_to(condition, len(rows)),
        "is_encrypted": omap.is_encrypted[rows],
    }
    return rows_of(tree, known)


def low_keys(source: TreeSource, buffer: NDArray[np.uint8], key_start: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return sort numbers of keys: object and record type in the file-system trees, the leading field elsewhere."""
    key_type = source.key_type
    field = key_type.fields()[0]
    # On disk the record type is in the upper four bits of the object number, but keys sort by object number first.
    turn = TYPE_BITS if key_type is records.J_KEY else 0
    numbers = np.empty(len(key_start), np.int64)
    if LEADING_NUMBERS.attempt(buffer, key_type.width, field.offset, turn, key_start, numbers) is None:
        raise FormatError("a key ends past its node", structure=f"{source.tree} tree", image_offset=None)
    return numbers.view(field.native)


def locate_nodes(
    source: TreeSource,
    oids: NDArray[np.uint64],
    # position of each node's parent in the tree, low key and hash that the parent stores for it; None for a root
    origin: tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint8]] | None = None,
) -> NodeRows:
    """Find the addresses of nodes; report unreadable ones, and skip those outside of the container."""
    view, ephemerals, blocks = source.view, source.ephemerals, source.blocks
    if view is not None:
        row = view.find(oids)
        is_known = row >= 0
        places = mapped_nodes(source.tree, view.omap, row[is_known])
    else:
        # A physical object is identified by its address; the checkpoint's maps give the address of an ephemeral object.
        is_known, found, paddr = np.ones(len(oids), np.bool_), oids, oids
        if ephemerals is not None:
            is_known = np.array([oid in ephemerals for oid in oids.tolist()], np.bool_)
            found = oids[is_known]
            paddr = np.array([ephemerals[oid] for oid in found.tolist()], np.uint64)
        size = np.full(len(found), source.root_size_bytes or blocks.block_size)
        level = np.full(len(found), UNKNOWN_LEVEL)
        places = rows_of(source.tree, {"node_id": found, "paddr": paddr, "size_bytes": size, "level": level})
    for node_id in oids[~is_known].tolist():
        source.at_node(node_id, None).add("node-missing", "error", "no map knows this node")
    if origin is not None:
        parent, low_key, child_hash = (column[is_known] for column in origin)
        places = replace(places, parent=parent, low_key=low_key, child_hash=child_hash)
    largest = int(places.size_bytes.max(initial=blocks.block_size))
    outside = ~blocks.readable(places.paddr, largest)
    present = blocks.present(places.paddr, int(places.size_bytes.max(initial=0)))
    for number in np.flatnonzero(outside).tolist():
        log = source.at_node(int(places.node_id[number]), int(places.paddr[number]))
        code, message = ("node-missing", "the node's address is outside the image")
        if present[number]:
            code, message = ("unread-area", "the node is in an area that could not be read; its records are missing")
        elif log.device >= len(blocks.sources):
            message = "the node is on the device whose image was not given"
        log.add(code, "error", message)
    places = replace(places, condition=np.where(outside, UNREAD, SOUND).astype(np.uint8))
    return places.take(~outside | blocks.claimed(places.paddr, largest))


def drop_repeated_names(source: TreeSource, places: NodeRows) -> NodeRows:
    """Skip nodes that a level names twice: a tree with a loop or with joined branches is damaged."""
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
