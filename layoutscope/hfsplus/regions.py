"""Regions: metadata that is no tree node.

TN1150, "HFS Plus Volume Structure": boot blocks, volume header and its copy, reserved areas, allocation and startup
file, journal, bad blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.hfsplus.volume import END_BYTES, HEADER_BYTES, HEADER_OFFSET
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from layoutscope.hfsplus.fork import Fork
    from layoutscope.hfsplus.volume import Volume

CNID = grammar.HfsplusVolume.Cnid

Region = tuple[str, str, int, int]
"""Type, owner, volume offset, length in bytes."""


def find_regions(volume: Volume, special: dict[int, Fork]) -> list[Region]:
    """List the regions of a volume, but those of its journal."""
    regions: list[Region] = [
        ("boot-blocks", "", 0, HEADER_OFFSET),
        ("volume-header", "", HEADER_OFFSET, HEADER_BYTES),
    ]
    if volume.end_offset is not None:
        reserved = volume.end_offset + HEADER_BYTES
        regions.append(("alternate-volume-header", "", volume.end_offset, HEADER_BYTES))
        regions.append(("reserved", "", reserved, END_BYTES - HEADER_BYTES))
    regions += fork_regions(volume, "allocation-file", special[CNID.allocation_file])
    regions += fork_regions(volume, "startup-file", special[CNID.startup_file])
    return regions


def fork_regions(volume: Volume, kind: str, fork: Fork) -> list[Region]:
    """Make a region of each extent of a special file."""
    block = volume.block_size_bytes
    return [
        (kind, kind, start * block, count * block)
        for start, count in zip(fork.start_blocks.tolist(), fork.block_counts.tolist(), strict=True)
    ]
