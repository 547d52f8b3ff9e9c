"""References for the kernels of metrics, piece by piece: the oracles of their tests."""

from __future__ import annotations

from layoutscope.metrics.scatter import Pieces, edge_distance


def plain_merged_pieces(pieces: Pieces, gap_bytes: int) -> list[list[int]]:
    """Join pieces; among overlapping ones, as on damaged volumes, the last to start need not be the last to end."""
    joined: list[list[int]] = []
    for start, stop in zip(*(each.tolist() for each in pieces), strict=True):
        if joined and start - joined[-1][1] <= gap_bytes:
            joined[-1][1] = max(joined[-1][1], stop)
        else:
            joined.append([start, stop])
    return joined


def plain_apart(extents, entries, place, node_start, node_stop) -> list[int]:
    """Compute the distance of each file's first extent from the leaf of its inode, each file once."""
    leaf_of = {file: leaf for file, is_file, leaf in zip(*(each.tolist() for each in entries), strict=True) if is_file}
    apart, seen = [], set()
    for file, is_first, start, length in zip(*(each.tolist() for each in extents), strict=True):
        if is_first and file not in seen and file in leaf_of:
            node = place[leaf_of[file]]
            apart.append(int(edge_distance(start, start + length, node_start[node], node_stop[node])))
        seen |= {file} if is_first else set()
    return apart
