"""Accounting of a container's blocks: what the bitmaps call used against what structures claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays import intervals
from layoutscope.filesystems.apfs.container.regions import MAX_BLOCKS, Details, as_runs, node_runs
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.container.parts import ContainerParts
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts
    from layoutscope.findings import FindingLog


MAX_LISTED: Final = 100


@frozen
class Account:
    """Blocks of a container, as sets of runs."""

    num_blocks: int  # all blocks
    free: NDArray[np.int64]  # free in the bitmaps
    claimed: NDArray[np.int64]  # used by a node, a region or data
    unclaimed: NDArray[np.int64]  # used in the bitmaps and claimed by nothing that was read
    disputed: NDArray[np.int64]  # claimed, but free in the bitmaps

    def details(self) -> Details:
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


def balance(
    devices: NDArray[np.int64],  # blocks of each device
    free: NDArray[np.int64],
    claims: Sequence[NDArray[np.int64]],
    log: FindingLog,
) -> Account:
    """Compare claims with the bitmaps."""
    free = intervals.intersect(free, devices)
    claimed = intervals.intersect(intervals.union(claims), devices)
    used = intervals.subtract(devices, free)
    disputed = intervals.intersect(claimed, free)
    for start, length in disputed[:MAX_LISTED].tolist():
        message = f"{length} blocks from block {start} are used, but free in the bitmaps"
        log.at("space manager", start).add("block-claimed-free", "warning", message)
    if len(disputed) > MAX_LISTED:
        message = f"{len(disputed) - MAX_LISTED} further runs of blocks are used, but free in the bitmaps"
        log.at("space manager").add("block-claimed-free", "warning", message)
    return Account(intervals.total(devices), free, claimed, intervals.subtract(used, claimed), disputed)


NO_RUNS = np.empty((0, 2), np.int64)


def devices(container: Container) -> NDArray[np.int64]:
    """Blocks of each device of a container."""
    runs = [[0, min(container.device_blocks[0], MAX_BLOCKS)]]
    return np.array(runs, np.int64)


def account(container: Container, parts: ContainerParts, volumes: list[VolumeParts]) -> Account:
    """Compare everything that is claimed with the bitmaps."""
    block_size = container.blocks.block_size
    claims = [node_runs([*parts.trees, *parts.lost], block_size), as_runs(parts.regions)]
    claims += [volume.claimed(block_size) for volume in volumes]
    _report_data_in_metadata(container, parts, volumes)
    # Blocks in the free queues are still used in the bitmaps, so that nothing overwrites what earlier checkpoints hold.
    free = parts.space.free if parts.space else NO_RUNS
    whole = _all_devices(container, parts)
    return balance(whole, free, claims, container.log)


def _report_data_in_metadata(container: Container, parts: ContainerParts, volumes: list[VolumeParts]) -> None:
    """Blocks of file data that a node or region claims as well."""
    block_size = container.blocks.block_size
    metadata = [node_runs(parts.trees, block_size), as_runs(parts.regions)]
    data = []
    for volume in volumes:
        claims = volume.claims(block_size)
        metadata += claims[:2]
        data += claims[2:]
    for start, length in intervals.intersect(intervals.union(metadata), intervals.union(data))[:MAX_LISTED].tolist():
        message = f"{length} blocks from block {start} are claimed by metadata and by data"
        container.log.at("space manager", start).add("block-claimed-twice", "warning", message)


def _all_devices(container: Container, parts: ContainerParts) -> NDArray[np.int64]:
    runs = devices(container)
    if parts.space is None or not parts.space.header.devices[1].num_blocks:
        return runs
    # Blocks of the second device are numbered from its mark on, far behind those of the main device.
    second = [[container.blocks.tier2_mark, min(parts.space.header.devices[1].num_blocks, MAX_BLOCKS)]]
    return np.concatenate([runs, np.array(second, np.int64)])
