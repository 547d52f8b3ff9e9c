"""The bytes of volumes behind their tables: for who looks at single structures, and for what no table holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.api.reading import with_options
from layoutscope.filesystems.contract import InodeStats, VolumeRequest
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.frames import pl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from layoutscope.api.images import Opened
    from layoutscope.filesystems.contract import Piece, Row, View
    from layoutscope.options import ReadRequest
    from layoutscope.tables import VolumeLayout

    ViewOf = Callable[[VolumeLayout], View]

BATCH_NODES: Final = 4096
"""Leaves that are decoded at once."""


def views_of(image: Opened, request: ReadRequest) -> ViewOf:
    """Return what gives the bytes of a volume; each volume is unlocked once."""
    known: dict[tuple[int, int | None], View] = {}

    def view(layout: VolumeLayout) -> View:
        key = (layout.facts.image_offset, layout.facts.volume)
        if key not in known:
            chosen, where = filesystem_of(layout), layout.facts.image_offset
            place = VolumeRequest(image.bytes().main, where, image.spaces.get(where))
            known[key] = chosen.view(with_options(place, image.bytes(), chosen, request), layout)
        return known[key]

    return view


def node_pieces(layout: VolumeLayout, row: Row) -> list[Piece]:
    """List where the parts of a node lie, in the node's order."""
    if not len(layout.columns("node_fragments")):
        return [(row["image_offset"], row["size_bytes"])]
    parts = layout.node_fragments.filter(pl.col("node_row") == row["row"]).select("image_offset", "length_bytes")
    return list(parts.iter_rows()) or [(row["image_offset"], row["size_bytes"])]


def inode_stats(layout: VolumeLayout, view: View) -> InodeStats | None:
    """Read what the inodes of a volume say of owners, modes and times.

    Parameters
    ----------
    layout : VolumeLayout
        The volume.
    view : View
        Its bytes.

    Returns
    -------
    InodeStats or None
        One row an inode record that was found in a leaf with inodes; None where there are none.
    """
    batches = [found for nodes in _leaves(layout, view) if (found := view.inode_stats(nodes)) is not None]
    return InodeStats(*map(np.concatenate, zip(*batches, strict=True))) if batches else None


def _leaves(layout: VolumeLayout, view: View) -> Iterator[NDArray[np.uint8]]:
    """Yield the leaves that hold inodes, so many of one size at once; those that end early are left out."""
    rows = layout.entries["inode_node_row"].drop_nulls().unique()
    chosen = layout.nodes.filter(pl.col("row").is_in(rows.implode()) & (pl.col("kind") != "locked"))
    for (size,), leaves in chosen.sort("device", "image_offset").group_by("size_bytes", maintain_order=True):
        for part in leaves.iter_slices(BATCH_NODES):
            read = (
                b"".join(view.read(row, piece) for piece in node_pieces(layout, row))
                for row in part.iter_rows(named=True)
            )
            whole = b"".join(data for data in read if len(data) == size)
            yield np.frombuffer(whole, np.uint8).reshape(-1, int(str(size)))
