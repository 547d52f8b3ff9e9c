"""Where a volume starts: told by a copy of its header, confirmed by what the header leads to.

TN1150, "Volume Header". The header is 1,024 bytes behind the start, its copy 1,024 bytes before the end of the volume,
which may be up to one allocation block behind the last whole one. So the copy gives the start to a block, and what lies
at the right distance from an assumed start gives the sector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.hfsplus.volume.volume import END_BYTES, HEADER_OFFSET, read_header
from layoutscope.filesystems.recognition import SECTOR_BYTES
from layoutscope.ondisk import grammar
from layoutscope.ondisk.decoder import BULK
from layoutscope.ondisk.records import HEADER_NODE, JOURNAL_INFO_BLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from layoutscope.arrays.columns import I64, U8, Mask
    from layoutscope.image.source import Source
    from layoutscope.ondisk.grammar import HfsplusVolume

MAX_BLOCK_BYTES: Final = 1024**2
"""Of allocation blocks; a larger size is none of HFS+."""
TREES: Final = ("catalog", "extents", "attributes")
NUM_HEADER_RECORDS: Final = 3
"""Header, user data and map (TN1150, Header Nodes)."""
CONFIRMING: Final = "the header nodes of its trees"

_KIND: Final = HEADER_NODE.descriptor
_LIMITS: Final = grammar.HfsplusBtree.NodeSizeLimit


def starts_by_copy(place: int, copy: HfsplusVolume.VolumeHeader) -> range:
    """List where a volume may start whose copy of the header is at a place, the likeliest first."""
    if not SECTOR_BYTES <= copy.len_block <= MAX_BLOCK_BYTES:
        return range(0)
    spare = place + END_BYTES - copy.num_blocks * copy.len_block
    first = max(spare - copy.len_block + SECTOR_BYTES, spare % SECTOR_BYTES)
    return range(spare, first - 1, -SECTOR_BYTES)


def start_by_copy(source: Source, place: int, copy: HfsplusVolume.VolumeHeader) -> tuple[int | None, bool]:
    """Tell where the volume starts whose copy of the header is at a place, and whether its header is there.

    None if nothing confirms any of the sectors where it may start.
    """
    starts = starts_by_copy(place, copy)
    for start in starts:
        header = header_at(source, start)
        if header is not None and _has_same_blocks(header, copy):
            return start, True
    votes = confirming(source, starts, copy)
    best = int(votes.argmax()) if len(votes) else 0
    if len(votes) and votes[best]:
        return starts[best], False
    # A volume that fills what it is in has one place only.
    return (starts[0] if len(starts) == 1 else None), False


def header_at(source: Source, start: int) -> HfsplusVolume.VolumeHeader | None:
    """Return the header of a volume that would start at a byte; None if there is none."""
    try:
        return read_header(source, start + HEADER_OFFSET, "volume header")
    except FormatError:
        return None


def _has_same_blocks(first: HfsplusVolume.VolumeHeader, second: HfsplusVolume.VolumeHeader) -> bool:
    return bool(first.len_block == second.len_block and first.num_blocks == second.num_blocks)


def confirming(
    source: Source,
    starts: Sequence[int],  # assumed starts, a sector apart, in bytes
    header: HfsplusVolume.VolumeHeader,
) -> I64:
    """Count, for each assumed start, the structures that are where a header has them."""
    votes = np.zeros(len(starts), np.int64)
    forks = (getattr(header, f"{tree}_file") for tree in TREES)
    for extent in (fork.extents[0] for fork in forks if fork.num_blocks):
        votes += _are(_is_header_node, source, starts, extent.start_block * header.len_block)
    if header.is_journaled:
        votes += _are(_is_journal_info, source, starts, header.journal_info_block * header.len_block)
    return votes


def _are(is_one: Callable[[U8, I64], Mask], source: Source, starts: Sequence[int], distance: int) -> Mask:
    """Say for each assumed start whether a structure is at a distance from it."""
    if not len(starts):
        return np.zeros(0, np.bool_)
    low, high = min(starts) + distance, max(starts) + distance
    found = np.zeros((high - low) // SECTOR_BYTES + 1, np.bool_)
    length = min(high + SECTOR_BYTES, source.size_bytes) - low
    try:
        data = np.frombuffer(source.read(low, max(length, 0)), np.uint8)
    except FormatError:
        data = np.empty(0, np.uint8)
    places = np.arange(len(data) // SECTOR_BYTES, dtype=np.int64) * SECTOR_BYTES
    if len(places):
        found[: len(places)] = is_one(data, places)
    result: Mask = found if starts[0] == min(starts) else found[::-1]
    return result


def _is_header_node(data: U8, places: I64) -> Mask:
    fields = (_KIND.kind, _KIND.height, _KIND.num_records, HEADER_NODE.header.len_node)
    found = BULK.columns(HEADER_NODE, data, places, fields)
    kind, height, count, size = (found[name].astype(np.int64) for name in found)
    is_size = (size >= int(_LIMITS.minimum)) & (size <= int(_LIMITS.maximum)) & (size & (size - 1) == 0)
    is_kind = kind == int(grammar.HfsplusBtree.NodeKind.header)
    result: Mask = is_kind & (height == 0) & (count == NUM_HEADER_RECORDS) & is_size
    return result


def _is_journal_info(data: U8, places: I64) -> Mask:
    fields = (JOURNAL_INFO_BLOCK.flags, JOURNAL_INFO_BLOCK.ofs_journal, JOURNAL_INFO_BLOCK.len_journal)
    found = BULK.columns(JOURNAL_INFO_BLOCK, data, places, fields)
    inside = int(grammar.HfsplusJournal.JournalInfoFlag.in_file_system)
    result: Mask = (found["flags"] == inside) & (found["ofs_journal"] > 0) & (found["len_journal"] > 0)
    return result
