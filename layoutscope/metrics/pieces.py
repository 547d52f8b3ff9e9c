"""Where metadata lies: runs of bytes in address order.

Input: the tables ``nodes``, ``node_fragments`` and ``regions``. A node in several pieces counts with each piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from layoutscope.filesystems.registry import filesystem_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.tables import VolumeLayout

NOT_METADATA: Final = ("unclaimed", "pending-free", "data")
"""Types of regions about which nobody can say that they hold metadata in use."""


class Pieces(NamedTuple):
    """Runs of bytes.

    Attributes
    ----------
    start, stop : (n,) int64 arrays
        In bytes from the start of the image, ``start < stop``.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]

    @property
    def length(self) -> NDArray[np.int64]:
        """Bytes of each piece, shape (n,)."""
        return self.stop - self.start


def main_tree(layout: VolumeLayout) -> str:
    """Name of the tree that an enumeration of this volume walks."""
    return filesystem_of(layout).traits.main_tree


def live_nodes(layout: VolumeLayout, tree: str | None = None) -> pl.DataFrame:
    """Nodes in use in this view: neither free nor stale; of one tree, or of all."""
    chosen = (pl.col("kind") != "free") & (pl.col("state") != "stale")
    chosen &= pl.col("image_offset").is_not_null()
    if tree is not None:
        chosen &= pl.col("tree") == tree
    return layout.nodes.filter(chosen)


def node_pieces(layout: VolumeLayout, tree: str | None = None) -> Pieces:
    """Pieces of the nodes in use, in address order."""
    nodes = live_nodes(layout, tree).select("row", "image_offset", length_bytes="size_bytes")
    if layout.node_fragments.is_empty():
        return _sorted(nodes)
    whole = nodes.join(layout.node_fragments, left_on="row", right_on="node_row", how="anti")
    split = layout.node_fragments.join(nodes, left_on="node_row", right_on="row", how="semi")
    columns = ["image_offset", "length_bytes"]
    return _sorted(pl.concat([whole.select(columns), split.select(columns)]))


def metadata_pieces(layout: VolumeLayout) -> Pieces:
    """Pieces of all metadata, tree nodes and regions, in address order."""
    nodes = node_pieces(layout)
    regions = layout.regions.filter(~pl.col("type").cast(pl.String).is_in(NOT_METADATA))
    rest = _sorted(regions.select("image_offset", "length_bytes"))
    return _ordered(np.concatenate([nodes.start, rest.start]), np.concatenate([nodes.stop, rest.stop]))


def _sorted(frame: pl.DataFrame) -> Pieces:
    start = frame["image_offset"].to_numpy().astype(np.int64)
    return _ordered(start, start + frame["length_bytes"].to_numpy().astype(np.int64))


def _ordered(start: NDArray[np.int64], stop: NDArray[np.int64]) -> Pieces:
    order = np.argsort(start, kind="stable")
    return Pieces(start[order], stop[order])


def merged(pieces: Pieces, gap_bytes: int) -> Pieces:
    """Join pieces whose gap is at most so many bytes into maximal runs.

    Parameters
    ----------
    pieces : Pieces
        In address order; they may overlap.
    gap_bytes : int
        Largest gap inside a run.

    Returns
    -------
    Pieces
        The runs, in address order.
    """
    if not len(pieces.start):
        return pieces
    reach = np.maximum.accumulate(pieces.stop)
    first = np.concatenate([[True], pieces.start[1:] - reach[:-1] > gap_bytes])
    return Pieces(pieces.start[first], reach[np.append(np.flatnonzero(first)[1:] - 1, len(reach) - 1)])


class NodeEdges(NamedTuple):
    """First and last byte of nodes, whatever lies between their pieces.

    Attributes
    ----------
    start, stop : (n,) int64 arrays
        Where the first piece starts and the last one ends, in bytes from the start of the image.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]


def node_edges(layout: VolumeLayout, nodes: pl.DataFrame) -> NodeEdges:
    """Find where each of some nodes starts and ends, in the order of the frame."""
    start = nodes["image_offset"].to_numpy().astype(np.int64)
    stop = start + nodes["size_bytes"].to_numpy().astype(np.int64)
    if layout.node_fragments.is_empty():
        return NodeEdges(start, stop)
    last = layout.node_fragments.group_by("node_row", maintain_order=True).last()
    ends = last.select(row="node_row", stop=pl.col("image_offset") + pl.col("length_bytes"))
    joined = nodes.select("row").join(ends, on="row", how="left", maintain_order="left")
    return NodeEdges(start, joined["stop"].fill_null(pl.Series(stop)).to_numpy().astype(np.int64))
