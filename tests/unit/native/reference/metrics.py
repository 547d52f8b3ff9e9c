"""References for the kernels of metrics and traces in numpy: the oracles of their tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from layoutscope.access.trace import interleave_touches
from layoutscope.metrics.scatter import Pieces, edge_distance
from layoutscope.structs.arrays import dense_codes, first_places, ranges, starts_of
from layoutscope.tables import NULL_ROW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.trace import Touches


def plain_merged(
    first: Touches, second: Touches, first_counts: NDArray[np.int64], second_counts: NDArray[np.int64]
) -> Touches:
    """Order touches by their places; the twin of the kernel."""
    together = np.stack([first_counts, second_counts], axis=1)
    # Row by row, the array of lengths has the runs in their merged order.
    start = starts_of(together.ravel()).reshape(together.shape)
    return interleave_touches([first, second], [ranges(start[:, part], together[:, part]) for part in range(2)])


def plain_inversions(permutation: NDArray[np.int64]) -> int:
    """Count inversions in passes over all values; the twin of the kernel.

    One pass for each bit, from the highest: values that agree in the higher bits stand together in their original
    order, and each 0 is passed by the ones before it in its group. A group starts at the place of its smallest value,
    so that every pass is a prefix sum and a scatter: O(n log n) without a loop over elements.
    """
    values = np.asarray(permutation, np.int64)
    total = 0
    for bit in range(max(len(values) - 1, 0).bit_length() - 1, -1, -1):
        ones = (values >> bit) & 1
        group = (values >> (bit + 1)) << (bit + 1)
        before = np.cumsum(ones) - ones
        ones_before = before - before[group]
        total += int(ones_before[ones == 0].sum())
        zeros_before = np.arange(len(values)) - group - ones_before
        place = np.where(ones == 0, group + zeros_before, group + (1 << bit) + ones_before)
        scattered = np.empty_like(values)
        scattered[place] = values
        values = scattered
    return total


def plain_merged_pieces(pieces: Pieces, gap_bytes: int) -> Pieces:
    """Join pieces column by column; the twin of the kernel."""
    if not len(pieces.start):
        return pieces
    # Among overlapping pieces, as on damaged volumes, the last to start need not be the last to end.
    reach = np.maximum.accumulate(pieces.stop)
    first = np.concatenate([[True], pieces.start[1:] - reach[:-1] > gap_bytes])
    return Pieces(pieces.start[first], reach[np.append(np.flatnonzero(first)[1:] - 1, len(reach) - 1)])


class Firsts(NamedTuple):
    """Extents, some of them the first of a file, and entries, some of them files with an inode."""

    # file_id, is_first, start, length_bytes: of extents
    file_id: NDArray[Any]
    is_first: NDArray[np.bool_]
    start: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    # entry_file_id, is_file, leaf: of entries
    entry_file_id: NDArray[Any]
    is_file: NDArray[np.bool_]
    leaf: NDArray[np.uint32]


def plain_apart(
    firsts: Firsts, place: NDArray[np.int32], node_start: NDArray[np.int64], node_stop: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Compute distances column by column; the twin of the kernel."""
    rows, is_file = np.flatnonzero(firsts.is_first), firsts.is_file
    (of_extent, of_file), bound = dense_codes(firsts.file_id[rows], firsts.entry_file_id[is_file])
    leaf_of = np.full(bound, NULL_ROW)
    leaf_of[of_file] = firsts.leaf[is_file]
    first = first_places(of_extent, bound)
    rows, leaf = rows[first], leaf_of[of_extent[first]]
    rows, leaf = rows[leaf != NULL_ROW], leaf[leaf != NULL_ROW]
    start, node = firsts.start[rows], place[leaf]
    return edge_distance(start, start + firsts.length_bytes[rows], node_start[node], node_stop[node])
