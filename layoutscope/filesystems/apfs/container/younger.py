"""Traces of a transaction after the one that is read: it was committed, and is lost.

Apple File System Reference, Container (Mounting). A checkpoint is committed by its superblock, which is written last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.container.checkpoint import DescriptorArea


@frozen
class Younger:
    """A transaction that was committed after the one that is read: its number, where that is seen, and how."""

    xid: int
    paddr: int
    why: str


def find_younger(area: DescriptorArea, xid: int, copy_xid: int) -> Younger | None:
    """Find the youngest transaction that was committed after the one that is read, and cannot be."""
    kinds = grammar.ApfsObject.ObjectType
    newer = area.xid > np.uint64(xid)
    is_superblock = area.claimed == int(kinds.nx_superblock)
    # The number in a damaged block may be damaged itself; a ring holds no more transactions than it has blocks.
    damaged = is_superblock & (area.kind == 0) & (area.xid <= np.uint64(min(xid + len(area.xid), 2**64 - 1)))
    found: list[Younger] = []
    for rows, why in (
        (newer & is_superblock & (area.kind != 0), "a part of its checkpoint is damaged"),
        (newer & damaged, "its superblock is damaged"),
        (newer & _lacks_superblock(area), "its superblock is missing"),
    ):
        found += [Younger(int(area.xid[row]), int(area.paddr[row]), why) for row in np.flatnonzero(rows).tolist()]
    found += [Younger(copy_xid, 0, "of its superblock only the copy in block 0 is left")] if copy_xid > xid else []
    return max(found, key=lambda item: item.xid, default=None)


def _lacks_superblock(area: DescriptorArea) -> NDArray[np.bool_]:
    """Tell which maps were not followed by a superblock although something was written there.

    A superblock is written after its maps. Where its place still holds a sound block of a former round through the
    ring, the transaction was never finished: that is what a crash leaves, and nothing is lost. In the first round all
    places from there to the ring's end were never written.
    """
    is_map = area.kind == int(grammar.ApfsObject.ObjectType.checkpoint_map)
    is_rest_blank = np.logical_and.accumulate(area.is_blank[::-1])[::-1]
    # The descriptor area is a ring: behind its last block comes its first.
    behind = np.roll(np.arange(len(area.kind)), -1)
    result: NDArray[np.bool_] = is_map & (area.kind[behind] == 0) & ~is_rest_blank[behind]
    return result
