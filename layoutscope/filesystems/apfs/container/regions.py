"""Regions: metadata that is no tree node, each with its type and owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from layoutscope.filesystems.apfs.store import intervals
from layoutscope.findings import Finding
from layoutscope.ondisk import grammar
from layoutscope.tables import build_table

MAX_BLOCKS: Final = 2**44
"""No device is larger: 2**56 bytes in the smallest blocks."""

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.blocks import Blocks


class Region(NamedTuple):
    """A run of blocks of one type."""

    type: str
    owner: str
    paddr: int
    num_blocks: int = 1


def type_name(kind: int) -> str:
    """Return the name of an object type, for regions."""
    try:
        return grammar.ApfsObject.ObjectType(kind).name.replace("_", "-")
    except ValueError:
        return f"type {kind:#x}"


def inside(regions: Sequence[Region], blocks: Blocks, findings: list[Finding]) -> list[Region]:
    """Leave out regions that no device can hold: their addresses are damage."""
    kept = []
    for item in regions:
        plain = item.paddr - blocks.tier2_mark if item.paddr >= blocks.tier2_mark else item.paddr
        if plain >= 0 and item.num_blocks > 0 and plain + item.num_blocks <= MAX_BLOCKS:
            kept.append(item)
        else:
            message = f"impossible address: block {item.paddr}, {item.num_blocks} blocks"
            findings.append(Finding("structure-invalid", "error", item.type, None, message))
    return kept


def as_runs(regions: Sequence[Region]) -> NDArray[np.int64]:
    """Return the blocks of regions as a set."""
    table = np.array([(item.paddr, item.num_blocks) for item in regions], np.int64).reshape(-1, 2)
    return intervals.runs_of(table[:, 0], table[:, 1])


def from_runs(region_type: str, owner: str, runs: NDArray[np.int64]) -> list[Region]:
    """Make one region of each run."""
    return [Region(region_type, owner, start, length) for start, length in runs.tolist()]


def rest(region_type: str, owner: str, runs: NDArray[np.int64], taken: NDArray[np.int64]) -> list[Region]:
    """Make regions of what others leave of some runs."""
    return from_runs(region_type, owner, intervals.subtract(runs, taken))


def regions_table(regions: Sequence[Region], blocks: Blocks, volume: int | None) -> pl.DataFrame:
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
            "type": pl.Series([item.type for item in ordered], dtype=pl.String),
            "owner": pl.Series([item.owner for item in ordered], dtype=pl.String),
            "image_offset": blocks.image_offset(paddr),
            "length_bytes": np.array([item.num_blocks for item in ordered], np.int64) * blocks.block_size,
        },
    )


def free_table(runs: NDArray[np.int64], blocks: Blocks, volume: int | None) -> pl.DataFrame:
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
