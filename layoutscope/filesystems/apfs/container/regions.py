"""Regions: metadata that is no tree node, each with its type and owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.arrays import intervals
from layoutscope.ondisk import grammar

MAX_BLOCKS: Final = 2**44
"""No device is larger: 2**56 bytes in the smallest blocks."""

Details = dict[str, "str | int | float | bool"]
"""Numbers and words for reports."""

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.nodes import NodeRows
    from layoutscope.filesystems.apfs.store.source import Store


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


def inside(regions: Sequence[Region], store: Store) -> list[Region]:
    """Leave out regions that no device can hold: their addresses are damage."""
    kept, mark = [], store.blocks.tier2_mark
    for item in regions:
        plain = item.paddr - mark if item.paddr >= mark else item.paddr
        if plain >= 0 and item.num_blocks > 0 and plain + item.num_blocks <= MAX_BLOCKS:
            kept.append(item)
        else:
            message = f"impossible address: block {item.paddr}, {item.num_blocks} blocks"
            store.log.at(item.type).add("structure-invalid", "error", message)
    return kept


def as_runs(regions: Sequence[Region]) -> NDArray[np.int64]:
    """Return the blocks of regions as a set."""
    table = np.array([(item.paddr, item.num_blocks) for item in regions], np.int64).reshape(-1, 2)
    return intervals.runs_of(table[:, 0], table[:, 1])


def from_runs(
    region_type: str,
    owner: str,
    runs: NDArray[np.int64],  # first block and number of blocks of each
) -> list[Region]:
    """Make one region of each run."""
    return [Region(region_type, owner, start, length) for start, length in runs.tolist()]


def rest(
    region_type: str,
    owner: str,
    runs: NDArray[np.int64],  # first block and number of blocks of each
    taken: NDArray[np.int64],  # blocks of others
) -> list[Region]:
    """Make regions of what others leave of some runs."""
    return from_runs(region_type, owner, intervals.subtract(runs, taken))


def node_runs(trees: Sequence[NodeRows], block_size: int) -> NDArray[np.int64]:
    """Blocks of the nodes of trees."""
    parts = [intervals.runs_of(nodes.paddr, nodes.size_bytes // block_size) for nodes in trees if len(nodes)]
    return intervals.union(parts)
