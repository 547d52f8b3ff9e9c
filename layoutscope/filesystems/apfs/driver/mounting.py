"""What a mount of a volume of APFS reads: by linux-apfs-rw, and, as far as is known, by Apple's driver.

linux-apfs-rw 0.3.20 ``super.c`` (apfs_read_main_super, apfs_map_volume_super, apfs_first_read_omap,
apfs_read_catalog, apfs_fill_super). Of macOS: Apple File System Reference, "Mounting an Apple File System Partition",
for the checkpoint, the space manager and the object maps; that the volumes are trimmed then has been observed (Eclectic
Light Company, 17 June 2025), that this reads all chunk-info blocks and bitmaps is assumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.entries import ROOT_ID
from layoutscope.access.steps import FixedPlaces, Searched, fixed_place, regions_of
from layoutscope.units import KIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.access.entries import EntryTable
    from layoutscope.access.nodes import NodeTable
    from layoutscope.access.steps import MountStep
    from layoutscope.tables import VolumeLayout

PRIVATE_ID: Final = 3
"""Private directory (Apple File System Reference, inode numbers)."""

FIRST_BYTES: Final = 4 * KIB
"""What is read of block 0 until its size is known (NX_DEFAULT_BLOCK_SIZE)."""

RING: Final = ("checkpoint-map", "container-superblock", "checkpoint-descriptor")
"""Types of the blocks of the descriptor area; a copy of the superblock lies in block 0, too."""


def apfs_by_linux(layout: VolumeLayout, nodes: NodeTable, entries: EntryTable) -> list[MountStep]:  # noqa: ARG001  (as others)
    """Read block 0, every block of the descriptor area, both object maps, the root and the private directory."""
    return [*_superblock(layout), *ring(layout), *_volume(layout, entries)]


def apfs_by_macos(
    trims: bool,
    layout: VolumeLayout,
    nodes: NodeTable,  # noqa: ARG001  (as others)
    entries: EntryTable,
) -> list[MountStep]:
    """Read as Linux, the ephemeral objects of the checkpoint before the maps, and what a trim of the volume needs."""
    container = layout.container
    steps = [*_superblock(layout), *ring(layout)]
    # The unused rest of the data area is a region of the same type.
    steps += ephemeral(layout)
    steps.append(_nodes_of(container, "spaceman"))
    steps += _volume(layout, entries)
    if trims:
        steps += [regions_of(container, kind) for kind in ("spaceman-cab", "spaceman-cib", "spaceman-bitmap")]
    return steps


def ephemeral(layout: VolumeLayout) -> list[FixedPlaces]:
    """Find the ephemeral objects of the checkpoint: the space manager with its queues of freed blocks, the reaper."""
    return [regions_of(layout.container, "checkpoint-data", lambda owner: owner != "unused")]


def first_write(layout: VolumeLayout) -> list[FixedPlaces]:
    """Read what the first transaction needs, as far as the volume tells it.

    linux-apfs-rw 0.3.0 ``transaction.c`` (apfs_transaction_start), ``spaceman.c`` (apfs_read_spaceman,
    apfs_spaceman_allocate_block): all ephemeral objects, then the internal pool's bitmap, the last chunk-info block,
    and the bitmap of the chunk in which the first block is allocated. Which one is meant is known of the chunk-info
    block alone, where there is no other; the bitmaps are left out.
    """
    places = regions_of(layout.container, "spaceman-cib")
    queues = _nodes_of(layout.container, "spaceman")
    return [*ephemeral(layout), queues, *([places] if len(places) == 1 else [])]


def _superblock(layout: VolumeLayout) -> Iterator[MountStep]:
    start, block_bytes = layout.facts.image_offset, layout.facts.block_size_bytes
    if layout.container is None:
        return
    yield fixed_place("container-superblock", start, FIRST_BYTES)
    if block_bytes != FIRST_BYTES:
        yield fixed_place("container-superblock", start, block_bytes)


def ring(layout: VolumeLayout) -> Iterator[FixedPlaces]:
    """Every block of the descriptor area in the order of addresses, whichever of them are in use."""
    parts = [regions_of(layout.container, kind, lambda owner: not owner.startswith("copy")) for kind in RING]
    blocks = [part.cut(layout.facts.block_size_bytes) for part in parts]
    offset = np.concatenate([part.image_offset for part in blocks])
    owner = np.repeat(np.arange(len(blocks)), [len(part) for part in blocks])
    nth = np.concatenate([np.arange(len(part)) for part in blocks])
    for row in np.argsort(offset, kind="stable").tolist():
        yield blocks[owner[row]].chosen(nth[row : row + 1])


def _nodes_of(layout: VolumeLayout | None, tree: str) -> FixedPlaces:
    """Nodes of a tree of the container, those nearer to the root first."""
    if layout is None:
        return regions_of(None, tree)
    table = layout.columns("nodes")
    own = np.flatnonzero(table["tree"].equals(tree) & ~table["condition"].equals("unread"))
    own = own[np.lexsort((table["image_offset"].signed()[own], -table["level"].signed()[own]))]
    return FixedPlaces(
        tree,
        table["device"].filled(0)[own].astype(np.uint8),
        table["image_offset"].signed()[own],
        table["size_bytes"].signed()[own],
    )


def _volume(layout: VolumeLayout, entries: EntryTable) -> Iterator[MountStep]:
    """Both object maps with the volume's superblock between them, then the trees' roots and two inodes."""
    yield regions_of(layout.container, "object-map")
    # It has a leaf for some hundred volumes, and a container has no more than a hundred.
    yield _nodes_of(layout.container, "container-omap")
    yield regions_of(layout, "volume-superblock", lambda owner: owner == "live")
    yield regions_of(layout, "object-map")
    # On the way to the first inode lie the object map's root and the tree's own.
    for number in (PRIVATE_ID, ROOT_ID):
        yield Searched(entries.inode_node[np.flatnonzero(entries.file_id == number)[:1]], "inode")
