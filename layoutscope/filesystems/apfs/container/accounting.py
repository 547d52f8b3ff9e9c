"""Accounting of a container's blocks: what the bitmaps call used against what structures claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from layoutscope.filesystems.apfs.store import intervals
from layoutscope.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.blocks import Blocks
    from layoutscope.filesystems.apfs.store.nodes import TreeNodes


MAX_LISTED: Final = 100


@dataclass(frozen=True, slots=True)
class Account:
    """Blocks of a container, as sets of runs.

    Attributes
    ----------
    num_blocks : int
        All blocks.
    free : (n, 2) int64 array
        Free in the bitmaps.
    claimed : (n, 2) int64 array
        Used by a node, a region or data.
    unclaimed : (n, 2) int64 array
        Used in the bitmaps and claimed by nothing that was read.
    disputed : (n, 2) int64 array
        Claimed, but free in the bitmaps.
    """

    num_blocks: int
    free: NDArray[np.int64]
    claimed: NDArray[np.int64]
    unclaimed: NDArray[np.int64]
    disputed: NDArray[np.int64]

    def details(self) -> dict[str, str | int | float | bool]:
        """Numbers for a report, in blocks."""
        free = intervals.total(self.free)
        return {
            "blocks": self.num_blocks,
            "used blocks": self.num_blocks - free,
            "free blocks": free,
            "claimed blocks": intervals.total(self.claimed),
            "unclaimed blocks": intervals.total(self.unclaimed),
            "claimed but free blocks": intervals.total(self.disputed),
        }


def node_runs(trees: Sequence[TreeNodes], block_size: int) -> NDArray[np.int64]:
    """Blocks of the nodes of trees."""
    parts = [intervals.runs_of(nodes.paddr, nodes.size_bytes // block_size) for nodes in trees if len(nodes)]
    return intervals.union(parts)


def balance(
    devices: NDArray[np.int64],
    free: NDArray[np.int64],
    claims: Sequence[NDArray[np.int64]],
    blocks: Blocks,
    findings: list[Finding],
) -> Account:
    """Compare claims with the bitmaps.

    Parameters
    ----------
    devices : (n, 2) int64 array
        Blocks of each device.
    free : (n, 2) int64 array
        Free runs.
    claims : sequence of (n, 2) int64 arrays
        Sets of claimed blocks, which may overlap.
    blocks : Blocks
        For addresses.
    findings : list of Finding
        Collects claimed blocks that are free.
    """
    free = intervals.intersect(free, devices)
    claimed = intervals.intersect(intervals.union(claims), devices)
    used = intervals.subtract(devices, free)
    disputed = intervals.intersect(claimed, free)
    for start, length in disputed[:MAX_LISTED].tolist():
        message = f"{length} blocks from block {start} are used, but free in the bitmaps"
        where, device = blocks.place(start)
        findings.append(Finding("block-claimed-free", "warning", "space manager", where, message, device=device))
    if len(disputed) > MAX_LISTED:
        message = f"{len(disputed) - MAX_LISTED} further runs of blocks are used, but free in the bitmaps"
        findings.append(Finding("block-claimed-free", "warning", "space manager", None, message))
    return Account(intervals.total(devices), free, claimed, intervals.subtract(used, claimed), disputed)
