"""What the blocks of a volume are used for: every byte counted once.

Input: nodes, regions, extents and free. Where two tables claim the same byte, metadata wins over data, data over free.

Apple's metadata zone of HFS+: the reason why its metadata lies together.

At each mount the kernel sets aside the front of a journaled volume of 10 GiB or more for the volume bitmap, the
journal, the extents-overflow file, eleven clumps of the attributes and of the catalog file, and the hot files, rounded
up to what one block of the bitmap describes. Other files go behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.display import Displayed
from layoutscope.frozen import frozen
from layoutscope.metrics.definition import Definition, Metric
from layoutscope.metrics.pieces import Pieces, in_order, is_on, merged_pieces, metadata_pieces
from layoutscope.tables.schema import DATA_REGIONS
from layoutscope.units import GIB, MIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.tables import Table, VolumeLayout

USES: Final = ("metadata", "data", "free", "pending-free", "unclaimed")
"""In the order in which a byte that is claimed twice is counted."""

PLACED: Final = ("nodes", "regions", "extents", "free")
"""Tables of what has a place."""


@frozen
class SpaceUse(Displayed):
    """Bytes by use."""

    use: str  # one of `USES`, or `unaccounted`: no table says anything about them
    size_bytes: int  # bytes of the volume, each counted once


def space_use(layouts: Sequence[VolumeLayout]) -> tuple[SpaceUse, ...]:
    """Account for every byte of a volume, or of a container with the volumes that share it."""
    held = dict.fromkeys(USES, 0)
    devices = [layout.columns(name)["device"].filled(0) for layout in layouts for name in PLACED]
    for device in range(max((int(column.max(initial=0)) for column in devices), default=0) + 1):
        claimed = Pieces(np.empty(0, np.int64), np.empty(0, np.int64))
        for use, pieces in zip(USES, _pieces(layouts, device), strict=True):
            both = merged_pieces(in_order(claimed, pieces), 0)
            held[use] += int(both.length.sum() - claimed.length.sum())
            claimed = both
    held["unaccounted"] = max(layouts[0].facts.size_bytes - sum(held.values()), 0)
    return tuple(SpaceUse(use, size_bytes) for use, size_bytes in held.items() if size_bytes)


def _pieces(layouts: Sequence[VolumeLayout], device: int) -> tuple[Pieces, ...]:
    kinds: tuple[tuple[str, ...], ...] = (DATA_REGIONS, ("pending-free",), ("unclaimed",))
    data, pending, unclaimed = ([_of(_typed(layout, names), device) for layout in layouts] for names in kinds)
    return (
        in_order(*(metadata_pieces(layout, device) for layout in layouts)),
        in_order(*(_solid(_of(layout.columns("extents"), device)) for layout in layouts), *data),
        in_order(*(_of(layout.columns("free"), device) for layout in layouts)),
        in_order(*pending),
        in_order(*unclaimed),
    )


def _solid(pieces: Pieces) -> Pieces:
    """Join pieces that touch: most files lie one behind the other."""
    return merged_pieces(in_order(pieces), 0)


def _typed(layout: VolumeLayout, kinds: tuple[str, ...]) -> Table:
    regions = layout.columns("regions")
    return regions.take(regions["type"].is_in(kinds))


def _of(table: Table, device: int) -> Pieces:
    """Runs of bytes on one device as they stand in a table; holes are none."""
    held = table.take(table["image_offset"].is_known & is_on(table, device))
    start = held["image_offset"].data
    return Pieces(start, start + held["length_bytes"].data)


SMALLEST_VOLUME_BYTES: Final = 10 * GIB
HOT_FILES_BYTES: Final = (10 * MIB, 512 * MIB)
CLUMPS_RESERVED: Final = 11
# Boot blocks and volume header: 1,024 and 512 bytes.
HEADER_BYTES: Final = 1536

ZONE_SHARE = Definition(
    "metadata-zone-share",
    "In the metadata zone",
    unit="share",
    denominator="bytes of metadata",
    text="Share of the metadata in the zone that macOS sets aside at the front of a journaled volume from 10 GiB.",
    citation="Apple's hfs, core/hfs_vfsutils.c, hfs_metadatazone_init",
)


def zone_metric(layout: VolumeLayout) -> Metric:
    """Share of metadata in the zone; no value where macOS keeps none."""
    zone, note = zone_bytes(layout)
    if zone is None:
        return Metric(ZONE_SHARE, None, note=note)
    pieces = metadata_pieces(layout)
    total = pieces.length.sum()
    inside = _bytes_within(pieces, layout.facts.image_offset, layout.facts.image_offset + zone)
    return Metric(ZONE_SHARE, inside / total if total else None, parts=(("zone bytes", float(zone)),))


def _bytes_within(pieces: Pieces, start: int, stop: int) -> int:
    """Bytes of the pieces between two addresses."""
    return int(np.maximum(np.minimum(pieces.stop, stop) - np.maximum(pieces.start, start), 0).sum())


def zone_bytes(layout: VolumeLayout) -> tuple[int | None, str]:
    """Size of the metadata zone as the kernel computes it, or None and the reason.

    Quota files, which no header declares, are left out. The kernel's unit of bitmap reads is taken as one allocation
    block, so that the zone is a multiple of 8 x block size x block size: 128 MiB at 4 KiB.
    """
    facts = layout.facts
    journal = _region(layout, "journal")
    if facts.size_bytes < SMALLEST_VOLUME_BYTES:
        return None, "macOS keeps no metadata zone on volumes under 10 GiB"
    if not journal:
        return None, "macOS keeps no metadata zone on volumes without journal"
    clumps = [facts.details.get(f"{tree} clump bytes") for tree in ("catalog", "attributes")]
    if clumps[0] is None:
        return None, "the catalog's clump size is unknown"
    block = facts.block_size_bytes
    reserved = CLUMPS_RESERVED * sum(int(clump or 0) for clump in clumps)
    # 5 MiB a GiB of the volume, within bounds.
    hot = min(max(facts.size_bytes // 1024 * 5, HOT_FILES_BYTES[0]), HOT_FILES_BYTES[1])
    parts = (
        _up(HEADER_BYTES, block),
        _region(layout, "allocation-file"),
        block + journal,
        _overflow(layout),
        reserved,
        hot,
    )
    return _up(sum(parts), 8 * block * block), ""


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _region(layout: VolumeLayout, kind: str) -> int:
    return int(_typed(layout, (kind,))["length_bytes"].data.sum())


def _overflow(layout: VolumeLayout) -> int:
    nodes = layout.columns("nodes")
    return int(nodes["size_bytes"].data[nodes["tree"].equals("extents-overflow")].sum())
