"""Extents of files and of streamed attributes: the table ``extents``.

Apple File System Reference, Data Streams. Extents stand in the file-system tree under the data stream's identifier (in
sealed volumes in a tree of their own); the extent-reference tree counts who uses a run of blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from layoutscope.arrays.lookup import Index, is_strictly_ascending
from layoutscope.arrays.ragged import ordinals, owners, ranges
from layoutscope.filesystems.apfs.volume.parts import ORPHAN, streams
from layoutscope.tables import NULL_OFFSET, Table, build_table
from layoutscope.tables.schema import FLAG_ENCRYPTED, FLAG_PAST_END, FLAG_SHARED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.blocks import Blocks
    from layoutscope.filesystems.apfs.store.fsrecords import Columns
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts


def extents_table(parts: VolumeParts, first_row: int) -> Table:
    """Make the table of extents."""
    extents, owners, blocks = parts.file_extents(), streams(parts.fs.records), parts.state.store.blocks
    if not len(extents["obj_id"]):
        return build_table("extents", {})
    owned = _owned(owners.index, extents["obj_id"])
    known = owned.is_known
    stream_id, paddr = extents["obj_id"][owned.extent], extents["paddr"][owned.extent]
    # Block 0 holds the superblock; an extent there stands for a hole.
    is_hole = paddr == 0
    # As numbers with a sign they are the same bytes.
    logical, length = (extents[name][owned.extent].view(np.int64) for name in ("logical_addr", "len_extent"))
    flags = (_is_shared(paddr, parts.extentref.records.get("extent")) | owned.has_others) * np.uint8(FLAG_SHARED)
    if not parts.state.superblock.is_unencrypted:
        flags |= np.uint8(FLAG_ENCRYPTED)
    flags[is_hole] = 0
    flags[known & (logical >= owned.of(owners.size_bytes, 0))] |= FLAG_PAST_END
    columns = {
        "volume": parts.state.number,
        "file_id": stream_id if owners.are_files and known.all() else owned.of(owners.file_id, stream_id),
        "fork": (owned.of(owners.fork, ORPHAN), owners.forks),
        "node_row": extents["node"][owned.extent].astype(np.uint32) + np.uint32(first_row),
        "flags": flags,
    }
    if len(blocks.dirty):
        piece = _where_newest(blocks, paddr, length)
        columns |= {name: columns[name][piece.extent] for name in ("file_id", "node_row", "flags")}
        columns["fork"] = (columns["fork"][0][piece.extent], owners.forks)
        logical, is_hole = logical[piece.extent] + piece.distance, is_hole[piece.extent]
        paddr, length = piece.paddr, piece.length
    device, offset = blocks.located(paddr)
    offset[is_hole] = NULL_OFFSET
    columns |= {"device": device, "logical_offset": logical, "image_offset": offset, "length_bytes": length}
    # What is the same of all takes no memory.
    columns |= {name: 0 for name in ("device", "flags") if not columns[name].any()}
    return build_table("extents", columns)


class _Newest(NamedTuple):
    """Pieces of extents, each on one device: of which extent, how far from its start, where, and how long."""

    extent: NDArray[np.int64]
    distance: NDArray[np.int64]
    paddr: NDArray[np.uint64]
    length: NDArray[np.int64]


def _where_newest(blocks: Blocks, paddr: NDArray[np.uint64], length: NDArray[np.int64]) -> _Newest:
    """Cut extents where the cache of a Fusion set holds newer bytes of them than the second device."""
    size, dirty = blocks.block_size, blocks.dirty
    stop = paddr + (-(-length // size)).astype(np.uint64)
    # Runs are disjoint and ascending, so that what an extent crosses is one stretch of them.
    first = np.searchsorted(dirty.stop, paddr, side="right")
    last = np.searchsorted(dirty.start, stop, side="left")
    rows = np.repeat(np.arange(len(paddr)), 2 * np.maximum(last - first, 0))
    crossed = ranges(first, np.maximum(last - first, 0))
    borders = np.stack([dirty.start[crossed], dirty.stop[crossed]], axis=1).reshape(-1)
    is_within = (borders > paddr[rows]) & (borders < stop[rows])
    extent = np.concatenate([np.arange(len(paddr)), rows[is_within]])
    start = np.concatenate([paddr, borders[is_within]])
    # Where one run ends and the next begins at the same block, the border between them counts once.
    extent, start = np.unique(np.stack([extent.astype(np.uint64), start], axis=1), axis=0).T
    row = extent.astype(np.int64)
    distance = (start - paddr[row]).astype(np.int64) * size
    is_last = np.append(row[1:] != row[:-1], True)
    end = np.where(is_last, length[row], np.append(distance[1:], 0))
    return _Newest(row, distance, dirty.newest(start), end - distance)


class _Owned(NamedTuple):
    """Extents with their owners, one row an extent and file; clones can have one and the same stream."""

    extent: NDArray[np.int64] | slice
    owner: NDArray[np.int64]
    is_known: NDArray[np.bool_]
    has_others: NDArray[np.bool_]

    def of(self, values: NDArray[Any], otherwise: NDArray[Any] | int) -> NDArray[Any]:
        """Gather a value of the owners; another one where there is none."""
        if self.is_known.all():
            found: NDArray[Any] = values[self.owner]
            return found
        if not len(values):
            return np.broadcast_to(np.asarray(otherwise, values.dtype), len(self.owner))
        return np.where(self.is_known, values[self.owner], np.asarray(otherwise, values.dtype))


def _owned(streams: Index, wanted: NDArray[np.uint64]) -> _Owned:
    """Give each extent to all owners of its stream, the extents of an owner together."""
    first, is_known = streams.find(wanted)
    if is_strictly_ascending(streams.keys):
        return _Owned(slice(None), first, is_known, np.zeros(len(wanted), bool))
    number = np.where(is_known, np.searchsorted(streams.keys, wanted, side="right") - first, 0)
    times = np.maximum(number, 1)
    extent, turn = owners(times), ordinals(times)
    if (times > 1).any():
        order = np.lexsort((extent, turn, wanted[extent]))
        extent, turn = extent[order], turn[order]
    is_known = number[extent] > 0
    return _Owned(extent, np.where(is_known, first[extent] + turn, 0), is_known, number[extent] > 1)


def _is_shared(paddr: NDArray[np.uint64], physical: Columns) -> NDArray[np.bool_]:
    """Tell which addresses lie in a run of blocks that has several users."""
    if not len(physical["obj_id"]) or int(physical["refcnt"].max()) <= 1:
        return np.zeros(len(paddr), bool)
    spot = np.maximum(np.searchsorted(physical["obj_id"], paddr, side="right") - 1, 0)
    inside = (paddr >= physical["obj_id"][spot]) & (paddr < physical["obj_id"][spot] + physical["num_blocks"][spot])
    result: NDArray[np.bool_] = inside & (physical["refcnt"][spot] > 1)
    return result
