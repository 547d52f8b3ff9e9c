"""Search a whole container for APFS nodes, independent of its maps and trees.

Apple File System Reference, Objects and B-Trees. A node is a block-aligned object with a node's type and a matching
checksum. Its header gives number, transaction and tree. Nodes that have no header (sealed volumes) or are encrypted
cannot be found this way. Old copies remain until their blocks are reused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.filesystems.content import stored_units
from layoutscope.image.source import Workspace
from layoutscope.progress import phase
from layoutscope.structs import arrays, grammar
from layoutscope.structs.arrays import Rows
from layoutscope.structs.bulk import decode_columns
from layoutscope.structs.checksum import fletcher64
from layoutscope.structs.records import BTREE_NODE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.blocks import Blocks
    from layoutscope.image.source import Source


PART_BYTES: Final = 8 * 1024**2
"""Number of bytes examined together: one stretch of the disk, or many short ones."""

LARGEST_NODE: Final = 65536
MAX_LEVELS: Final = 16
HEAD: Final = BTREE_NODE
KINDS: Final = grammar.ApfsObject.ObjectType
TREES: Final = {
    int(KINDS.omap): "omap",
    int(KINDS.fstree): "fs",
    int(KINDS.blockreftree): "extentref",
    int(KINDS.snapmetatree): "snapmeta",
    int(KINDS.omap_snapshot): "omap-snapshots",
    int(KINDS.spaceman_free_queue): "spaceman",
    int(KINDS.fext_tree): "fext",
}
"""Trees by the object type of their contents; other nodes belong to tree ``other``."""

EVERYWHERE: Final = np.array([[0, 2**44]], np.int64)
"""No device has more blocks: addresses end before the mark of the second device, whatever the block size."""

SINGLE: Final = (KINDS.nx_superblock, KINDS.fs, KINDS.omap)
"""Objects to search for besides nodes."""

FIELDS: Final = tuple(
    map(HEAD.column, ("hdr.oid", "hdr.xid", "hdr.type", "hdr.subtype", "hdr.cksum", "level", "num_keys", "hdr.storage"))
)


class Swept(Rows, frozen=True):
    """Objects that were found, in address order; arrays of one length."""

    # paddr, oid, xid: address, number and transaction
    paddr: NDArray[np.uint64]
    oid: NDArray[np.uint64]
    xid: NDArray[np.uint64]
    # kind, subtype: object types of the object and of its contents
    kind: NDArray[np.int64]
    subtype: NDArray[np.int64]
    # level, num_records: of nodes
    level: NDArray[np.int64]
    num_records: NDArray[np.int64]
    size_bytes: NDArray[np.int64]

    @property
    def is_node(self) -> NDArray[np.bool_]:
        """Whether each object is a node."""
        result: NDArray[np.bool_] = np.isin(self.kind, [int(KINDS.btree), int(KINDS.btree_node)])
        return result

    def nodes(self, tree: str) -> Swept:
        """Return the nodes of one kind of tree."""
        subtypes = [number for number, name in TREES.items() if name == tree]
        return self.take(self.is_node & np.isin(self.subtype, subtypes))

    def newest(self, max_xid: int) -> Swept:
        """Keep the youngest copy of each number up to a transaction."""
        rows = np.flatnonzero(self.xid <= np.uint64(max_xid))
        rows = rows[np.lexsort((self.xid[rows], self.oid[rows]))]
        last = np.append(self.oid[rows][1:] != self.oid[rows][:-1], True) if len(rows) else np.empty(0, bool)
        return self.take(rows[last])


def sweep(blocks: Blocks, within: NDArray[np.int64] | None = None) -> Swept:
    """Examine blocks once, each as every type it may be; holes and areas that were never read are skipped.

    A damaged block that begins like a node is also tried as a larger node, up to 64 KiB.
    """
    parts = []
    for number, source in enumerate(blocks.sources):
        if source is not None:
            # The runs on the device, counted from its own start.
            start = np.array([blocks.tier2_mark if number else 0, 0], np.int64)
            wanted = EVERYWHERE if within is None else arrays.intersect(within - start, EVERYWHERE)
            found = _parts(source, blocks.block_size, wanted)
            parts += [_objects_in(data, place, blocks, number) for place, data in found]
    numbers, none = np.empty(0, np.uint64), np.empty(0, np.int64)
    return Swept.join([Swept(numbers, numbers, numbers, none, none, none, none, none), *parts])


def _parts(
    source: Source, block_size: int, within: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
    """Yield the numbers and contents of a device's stored and wanted blocks, in parts."""
    whole_bytes = source.size_bytes // block_size * block_size
    stretches = arrays.intersect(stored_units(source, whole_bytes, block_size), within)
    step = max(PART_BYTES // block_size, 1)
    workspace = Workspace()
    with phase("looking at every block for nodes", arrays.total(stretches) * block_size) as looked_at:
        for start, count in _cut_and_gather(stretches, step):
            if len(start) == 1:
                # Long reads are not cached: the sweep reads everything only once.
                data = workspace.bytes(int(count[0]) * block_size)
                source.read_into(int(start[0]) * block_size, data.data)
            else:
                data = source.read_extents(start * block_size, count * block_size, workspace)
            yield arrays.ranges(start, count), data.reshape(-1, block_size)
            looked_at.advance(len(data))


def _cut_and_gather(stretches: NDArray[np.int64], most: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Split long stretches and merge short ones into parts of at most `most` blocks; yield starts and counts.

    A sparse image may store each node separately, and the overhead per part exceeds the time to examine a node.
    """
    pieces = -(-stretches[:, 1] // most)
    nth = arrays.ranges(np.zeros(len(pieces), np.int64), pieces)
    start = np.repeat(stretches[:, 0], pieces) + nth * most
    count = np.minimum(np.repeat(stretches.sum(axis=1), pieces) - start, most)
    end = np.cumsum(count)
    at = 0
    while at < len(count):
        stop = int(np.searchsorted(end, (end[at - 1] if at else 0) + most, side="right"))
        yield start[at:stop], count[at:stop]
        at = stop


def _objects_in(data: NDArray[np.uint8], place: NDArray[np.int64], blocks: Blocks, device: int) -> Swept:
    """Find nodes, superblocks and headers of object maps in blocks of a device."""
    starts = np.arange(len(data), dtype=np.int64) * blocks.block_size
    flat = data.reshape(-1)
    head = decode_columns(HEAD, flat, starts, (HEAD.hdr.type, HEAD.level, HEAD.hdr.xid))
    kind, level, xid = head["hdr.type"].astype(np.int64), head["level"], head["hdr.xid"]
    is_node = np.isin(kind, [int(KINDS.btree), int(KINDS.btree_node)]) & (level < MAX_LEVELS)
    rows = np.flatnonzero((is_node | np.isin(kind, [int(item) for item in SINGLE])) & (xid > 0))
    columns = decode_columns(HEAD, flat, starts[rows], FIELDS)
    mark = blocks.tier2_mark if device else 0
    paddr = (place[rows] + mark).astype(np.uint64)
    # The checksum covers the whole object, however many blocks it has, except its own eight bytes.
    size = np.where(fletcher64(data[rows]) == columns["hdr.cksum"], blocks.block_size, 0)
    larger = 2 * blocks.block_size
    # The header does not give the size of a node, so a wrong checksum may belong to a larger one.
    while larger <= LARGEST_NODE:
        _try_size(blocks, paddr, columns["hdr.cksum"], size, larger)
        larger *= 2
    found = Swept(
        paddr,
        columns["hdr.oid"],
        columns["hdr.xid"],
        columns["hdr.type"].astype(np.int64),
        columns["hdr.subtype"].astype(np.int64),
        columns["level"].astype(np.int64),
        columns["num_keys"].astype(np.int64),
        size.astype(np.int64),
    )
    return found.take(size > 0)


def _try_size(
    blocks: Blocks, paddr: NDArray[np.uint64], stored: NDArray[np.uint64], size: NDArray[np.int64], larger: int
) -> None:
    """Verify damaged blocks as objects of several blocks."""
    rows = np.flatnonzero(size == 0)
    if len(rows):
        rows = rows[blocks.readable(paddr[rows], larger)]
    if len(rows):
        sound = rows[fletcher64(blocks.read(paddr[rows], larger)) == stored[rows]]
        size[sound] = larger
