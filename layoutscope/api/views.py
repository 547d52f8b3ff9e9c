"""The bytes of volumes behind their tables: for who looks at single structures, and for what no table holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.api.reading import with_options
from layoutscope.filesystems.contract import InodeStats, VolumeRequest
from layoutscope.filesystems.registry import filesystem_of

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


def parts_of_node(layout: VolumeLayout, row: Row) -> list[Piece]:
    """List where the parts of a node lie, in the node's order."""
    fragments = layout.columns("node_fragments")
    parts = fragments.take(fragments["node_row"].data == row["row"])
    found = [(part["image_offset"], part["length_bytes"]) for part in parts.rows()]
    return found or [(row["image_offset"], row["size_bytes"])]


def read_inode_stats(layout: VolumeLayout, view: View) -> InodeStats | None:
    """Read what the inodes of a volume say of owners, modes and times.

    One row an inode record that was found in a leaf with inodes; None where there are none.
    """
    batches = [found for nodes in _leaves(layout, view) if (found := view.inode_stats(nodes)) is not None]
    return InodeStats(*map(np.concatenate, zip(*batches, strict=True))) if batches else None


def _leaves(layout: VolumeLayout, view: View) -> Iterator[NDArray[np.uint8]]:
    """Yield the leaves that hold inodes, so many of one size at once; those that end early are left out."""
    nodes = layout.columns("nodes")
    has_inodes = np.isin(nodes["row"].data, layout.columns("entries")["inode_node_row"].present())
    chosen = nodes.take(has_inodes & ~nodes["kind"].equals("locked"))
    chosen = chosen.take(np.lexsort((chosen["image_offset"].signed(), chosen["device"].filled(0))))
    sizes = chosen["size_bytes"].data
    for size in dict.fromkeys(sizes.tolist()):
        places = np.flatnonzero(sizes == size)
        for first in range(0, len(places), BATCH_NODES):
            part = chosen.take(places[first : first + BATCH_NODES])
            read = (b"".join(view.read(row, piece) for piece in parts_of_node(layout, row)) for row in part.rows())
            whole = b"".join(data for data in read if len(data) == size)
            yield np.frombuffer(whole, np.uint8).reshape(-1, size)
