"""What is read one after the other where no program chooses: by a mount, or by a pass of a checker.

A file system says it in steps; :mod:`layoutscope.walk.steps` makes a trace of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.tables import VolumeLayout


@frozen
class FixedPlaces:
    """Places that are read as they lie, each with one request; arrays of shape (n,)."""

    kind: str  # what lies there: a type of regions, or a tree
    device: NDArray[np.uint8]  # image of a Fusion set
    # image_offset, length_bytes: the places
    image_offset: NDArray[np.int64]
    length_bytes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.image_offset)

    def cut(self, largest: int) -> FixedPlaces:
        """Cut places into requests of at most so many bytes, each place from its own start."""
        count = -(-self.length_bytes // largest)
        source = np.repeat(np.arange(len(self)), count)
        nth = np.arange(len(source)) - np.repeat(np.cumsum(count) - count, count)
        length = np.minimum(self.length_bytes[source] - nth * largest, largest)
        return FixedPlaces(self.kind, self.device[source], self.image_offset[source] + nth * largest, length)

    def chosen(self, places: NDArray[np.bool_] | NDArray[np.int64] | slice) -> FixedPlaces:
        """Return some of them."""
        return FixedPlaces(self.kind, self.device[places], self.image_offset[places], self.length_bytes[places])


@frozen
class Searched:
    """Nodes that searches end in; what leads to each is read first, and nothing twice."""

    node: NDArray[np.int32]  # nodes of a `NodeTable`, -1 for none
    cause: str  # of `CAUSES`


MountStep = FixedPlaces | Searched


@frozen
class CheckerReads:
    """Reads that are made as they stand; arrays of shape (n,)."""

    kinds: tuple[str, ...]  # trees and types of regions
    kind: NDArray[np.uint8]  # index into `kinds`: what is read
    # image_offset, length_bytes: the reads
    image_offset: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    device: NDArray[np.uint8]  # image of a Fusion set


def fixed_place(kind: str, image_offset: int, length_bytes: int) -> FixedPlaces:
    """Make a step of one place."""
    return FixedPlaces(kind, np.zeros(1, np.uint8), np.array([image_offset]), np.array([length_bytes]))


def regions_of(layout: VolumeLayout | None, kind: str, wanted: Callable[[str], bool] | None = None) -> FixedPlaces:
    """Find the regions of one type, in the order of their addresses; none where there is no layout."""
    if layout is None:
        none = np.empty(0, np.int64)
        return FixedPlaces(kind, none.astype(np.uint8), none, none)
    table = layout.columns("regions")
    chosen = np.flatnonzero(table["type"].equals(kind))
    if wanted is not None:
        owners = table.texts("owner").take(chosen).to_list()
        chosen = chosen[[wanted(owner or "") for owner in owners]] if len(chosen) else chosen
    order = np.lexsort((table["image_offset"].data[chosen], table["device"].filled(0)[chosen]))
    chosen = chosen[order]
    return FixedPlaces(
        kind,
        table["device"].filled(0)[chosen].astype(np.uint8),
        table["image_offset"].data[chosen],
        table["length_bytes"].data[chosen],
    )
