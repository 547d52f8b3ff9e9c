"""Regions: metadata that is no tree node; and free space.

TN1150, "HFS Plus Volume Structure": boot blocks, volume header and its copy, reserved areas, allocation and startup
file, journal, bad blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.filesystems.hfsplus.records.catalog import DATA_FORK
from layoutscope.filesystems.hfsplus.records.overflow import extend_fork
from layoutscope.filesystems.hfsplus.volume.fork import Fork
from layoutscope.filesystems.hfsplus.volume.volume import END_BYTES, HEADER_BYTES, HEADER_OFFSET
from layoutscope.ondisk import grammar
from layoutscope.tables import Table, build_table

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64
    from layoutscope.filesystems.hfsplus.tree.tree import Tree
    from layoutscope.filesystems.hfsplus.volume.journal import Journal
    from layoutscope.filesystems.hfsplus.volume.volume import Volume

CNID = grammar.HfsplusVolume.Cnid

Region = tuple[str, str, int, int]
"""Type, owner, volume offset, length in bytes."""

NEEDED_BY_NOBODY: Final = frozenset({"boot-blocks", "reserved", "startup-file", "bad-blocks"})
"""Types of regions of whose bytes nothing is told: what starts other systems, Apple's factories, and bad blocks."""


def find_regions(
    volume: Volume, special: dict[int, Fork], journal: Journal | None, overflow: Tree | None
) -> list[Region]:
    """List the regions of a volume."""
    regions: list[Region] = [
        ("boot-blocks", "", 0, HEADER_OFFSET),
        ("volume-header", "", HEADER_OFFSET, HEADER_BYTES),
    ]
    if volume.end_offset is not None:
        # The copy takes the last sector but one; behind it lie 512 bytes that Apple keeps for its factories.
        reserved = volume.end_offset + HEADER_BYTES
        regions.append(("alternate-volume-header", "", volume.end_offset, HEADER_BYTES))
        regions.append(("reserved", "", reserved, END_BYTES - HEADER_BYTES))
    regions += fork_regions(volume, "allocation-file", special[CNID.allocation_file])
    regions += fork_regions(volume, "startup-file", special[CNID.startup_file])
    none = np.empty(0, np.int64)
    # Neither the volume header nor the catalog knows this file: all of its extents stand in the overflow file.
    bad_blocks = extend_fork(Fork(0, none, none, none), overflow, CNID.bad_block_file, DATA_FORK)
    regions += fork_regions(volume, "bad-blocks", bad_blocks)
    return regions + (journal_regions(volume, journal) if journal is not None else [])


def journal_regions(volume: Volume, journal: Journal) -> list[Region]:
    """Make regions of the journal info block, which takes a whole block, and of the journal."""
    regions: list[Region] = [("journal-info-block", "journal", journal.info_offset, volume.block_size_bytes)]
    if journal.size_bytes:
        regions.append(("journal", "journal", journal.journal_offset, journal.size_bytes))
    return regions


def fork_regions(volume: Volume, kind: str, fork: Fork) -> list[Region]:
    """Make a region of each extent of a special file."""
    block = volume.block_size_bytes
    return [
        (kind, kind, start * block, count * block)
        for start, count in zip(fork.start_blocks.tolist(), fork.block_counts.tolist(), strict=True)
    ]


def free_table(volume: Volume, number: int | None, starts: I64, counts: I64) -> Table:
    """Build the table of free space."""
    block = volume.block_size_bytes
    return build_table(
        "free",
        {
            "device": 0,
            "volume": number,
            "image_offset": starts * block + volume.image_offset,
            "length_bytes": counts * block,
        },
    )


def regions_table(volume: Volume, number: int | None, regions: list[tuple[str, str, int, int]]) -> Table:
    """Build the table of metadata that is no tree node."""
    ordered = sorted(regions, key=lambda region: region[2])
    return build_table(
        "regions",
        {
            "device": 0,
            "volume": number,
            "type": [region[0] for region in ordered],
            "owner": [region[1] for region in ordered],
            "image_offset": np.array([region[2] + volume.image_offset for region in ordered], np.int64),
            "length_bytes": np.array([region[3] for region in ordered], np.int64),
        },
    )
