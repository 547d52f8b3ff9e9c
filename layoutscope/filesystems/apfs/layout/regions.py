"""Tables of regions and of free space."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.tables import Table, build_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.container.regions import Region
    from layoutscope.filesystems.apfs.store.blocks import Blocks


def regions_table(
    regions: Sequence[Region],
    blocks: Blocks,
    volume: int | None,  # number of the volume on the image; None for the container's own
) -> Table:
    """Make the table of regions, in address order."""
    if not regions:
        return build_table("regions", {})
    ordered = sorted(regions, key=lambda item: item.paddr)
    paddr = np.array([item.paddr for item in ordered], np.uint64)
    return build_table(
        "regions",
        {
            "device": blocks.split(paddr)[0],
            "volume": volume,
            "type": [item.type for item in ordered],
            "owner": [item.owner for item in ordered],
            "image_offset": blocks.image_offset(paddr),
            "length_bytes": np.array([item.num_blocks for item in ordered], np.int64) * blocks.block_size,
        },
    )


def free_table(
    runs: NDArray[np.int64],  # first block and number of blocks of each; disjoint and ascending
    blocks: Blocks,
    volume: int | None,  # number of the volume on the image; None for the container's own
) -> Table:
    """Make the table of free runs, in address order."""
    if not len(runs):
        return build_table("free", {})
    paddr = runs[:, 0].astype(np.uint64)
    return build_table(
        "free",
        {
            "device": blocks.split(paddr)[0],
            "volume": volume,
            "image_offset": blocks.image_offset(paddr),
            "length_bytes": runs[:, 1] * blocks.block_size,
        },
    )
