"""Where the data of files lie: extents of all files of a workload on one axis.

The files are laid end to end in the order in which they are read; a *position* is a place on this axis, in bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays.lookup import order_of
from layoutscope.arrays.ragged import ranges, starts_of
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.model import Model
    from layoutscope.tables import Table

PAGE_BYTES = 4096


@frozen
class FileMap:
    """Extents of files; arrays of shape (n_extents,) in ascending position."""

    base: NDArray[np.int64]  # position at which each file begins
    is_packed: NDArray[np.bool_]  # whether it is compressed, so that another fork is read, and at once
    file: NDArray[np.int64]  # place of each extent's file
    # start, stop: positions of the extents
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    image_offset: NDArray[np.int64]  # where they lie, -1 for holes
    device: NDArray[np.uint8]  # image of a Fusion set
    node: NDArray[np.int32]  # leaf in which the host must look the extent up, -1 where the inode has it


@frozen
class FilePieces:
    """Parts of windows that lie in one extent; arrays of shape (n_pieces,)."""

    window: NDArray[np.int64]  # the window it is part of
    # image_offset, length_bytes: where it lies, -1 for holes, and its length
    image_offset: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    device: NDArray[np.uint8]  # image of a Fusion set
    node: NDArray[np.int32]  # leaf to look it up in, or -1

    def __len__(self) -> int:
        return len(self.window)


def file_map(model: Model, entries: NDArray[np.int64]) -> FileMap:
    """Lay the data forks of some files end to end."""
    ids = model.entries.file_id[entries]
    packed = model.entries.is_compressed[entries] & model.driver.reads_compressed
    table, file = _extents_of(model, ids, packed)
    logical = table["logical_offset"].data
    length = np.minimum(table["length_bytes"].data, model.layout.facts.size_bytes)
    size = _sizes(model, entries, packed, file, logical + length)
    base = starts_of(size)
    start = base[file] + logical
    stop = base[file] + np.minimum(logical + length, size[file])
    order = order_of(start)
    order = order[stop[order] > start[order]]
    return FileMap(
        base,
        packed,
        file[order],
        start[order],
        stop[order],
        table["image_offset"].signed()[order],
        table["device"].filled(0)[order],
        _looked_up(model, table)[order],
    )


def _extents_of(model: Model, ids: NDArray[np.uint64], packed: NDArray[np.bool_]) -> tuple[Table, NDArray[np.int64]]:
    """Extents of the forks that are read, and the places of their files; compressed data lie in the resource fork."""
    extents = model.layout.columns("extents")
    if not len(ids):
        return extents.take(slice(0)), np.empty(0, np.int64)
    by_id = np.argsort(ids)
    found = extents["file_id"].data
    place = by_id[np.minimum(np.searchsorted(ids[by_id], found), len(ids) - 1)]
    is_resource = extents["fork"].equals("resource")
    kept = (ids[place] == found) & (is_resource == packed[place]) & (is_resource | extents["fork"].equals("data"))
    return extents.take(kept), place[kept]


def _sizes(
    model: Model,
    entries: NDArray[np.int64],
    packed: NDArray[np.bool_],
    file: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Room of each file on the axis: up to its last block or page, but not behind its last extent."""
    # Read-ahead stops at the file's last page: blocks that were allocated beyond it are never read.
    unit = min(PAGE_BYTES, model.layout.facts.block_size_bytes or PAGE_BYTES)
    last = np.zeros(len(entries), np.int64)
    np.maximum.at(last, file, ends)
    listed = -(-np.minimum(model.entries.size_bytes[entries], last) // unit) * unit
    return np.where(packed, last, np.minimum(listed, last))


def _looked_up(model: Model, table: Table) -> NDArray[np.int32]:
    """Leaves in which extents must be looked up: not those that stand beside the inode."""
    node = model.nodes.nodes_of(table["node_row"])
    if model.driver.inode_holds_extents:
        node[(node >= 0) & (model.nodes.tree[node] == model.main_tree_code)] = -1
    return node


def pieces(files: FileMap, start: NDArray[np.int64], stop: NDArray[np.int64]) -> FilePieces:
    """Cut windows, given by their positions, into what lies in one extent."""
    first = np.searchsorted(files.stop, start, side="right")
    count = np.maximum(np.searchsorted(files.start, stop, side="left") - first, 0)
    extent = ranges(first, count)
    window = np.repeat(np.arange(len(start)), count)
    begin = np.maximum(files.start[extent], start[window])
    end = np.minimum(files.stop[extent], stop[window])
    offset = files.image_offset[extent]
    offset = np.where(offset >= 0, offset + begin - files.start[extent], -1)
    return FilePieces(window, offset, end - begin, files.device[extent], files.node[extent])
