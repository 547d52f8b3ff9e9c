"""The tables of an HFS+ or HFSX volume: from a source to a :class:`~layoutscope.tables.layout.VolumeLayout`.

The order of the tables follows the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.filesystems.hfsplus.contents import Contents, open_contents
from layoutscope.filesystems.hfsplus.contents.rules import check_contents
from layoutscope.filesystems.hfsplus.layout.entries import entries_table
from layoutscope.filesystems.hfsplus.layout.extents import extents_table
from layoutscope.filesystems.hfsplus.layout.facts import volume_facts
from layoutscope.filesystems.hfsplus.layout.nodes import nodes_tables, with_locators
from layoutscope.filesystems.hfsplus.layout.regions import find_regions, free_table, regions_table
from layoutscope.filesystems.hfsplus.records import links
from layoutscope.filesystems.hfsplus.tree.tree import first_rows
from layoutscope.ondisk.decoder import decoder_named
from layoutscope.tables.layout import VolumeLayout, findings_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.filesystems.hfsplus.volume.volume import Volume
    from layoutscope.image import Source
    from layoutscope.ondisk.decoder import DecoderName


def read_layout(
    source: Source,
    *,
    image_offset: int = 0,
    stack: Sequence[str] = (),
    volume: int | None = 0,
    decoder: DecoderName = "bulk",
    replay_journal: bool = True,
    sweep: bool = False,
    space_bytes: int | None = None,
) -> VolumeLayout:
    """Read the layout of an HFS+ or HFSX volume.

    Parameters
    ----------
    source : Source
        The image, or a window on it.
    image_offset : int
        Where the volume starts in `source`, in bytes. Offsets in the tables count from the start of the image.
    stack : sequence of str
        The layers around the volume, outermost first.
    volume : int or None
        Its number on the image.
    decoder : {'bulk', 'grammar'}
        How structures are decoded; both give the same tables.
    replay_journal : bool
        Whether transactions that the journal still holds are applied, in memory, as a mount would.
    sweep : bool
        Whether the whole volume is looked at for nodes, to rebuild broken trees and to count old copies.
    space_bytes : int, optional
        Size of the partition that the volume lies in, where it ends before the source.

    Returns
    -------
    VolumeLayout
        With all that can be read; damage is among its findings.

    Raises
    ------
    FormatError
        If neither the volume header nor its copy can be read.
    """
    opened, contents = open_contents(
        source,
        image_offset,
        decoder_named(decoder),
        replay_journal=replay_journal,
        sweep=sweep,
        space_bytes=space_bytes,
    )
    check_contents(opened, contents)
    return build_layout(opened, contents, tuple(stack), volume)


def build_layout(volume: Volume, contents: Contents, stack: tuple[str, ...], number: int | None) -> VolumeLayout:
    """Build the public tables.

    Parameters
    ----------
    volume : Volume
        The volume; its findings become a table.
    contents : Contents
        All that was read of it.
    stack : tuple of str
        The layers around the volume, outermost first.
    number : int or None
        Its number on the image.

    Returns
    -------
    VolumeLayout
        Nodes tree by tree, those of each in node-number order.
    """
    trees = list(contents.trees.values())
    rows = first_rows(trees)
    overflow = contents.trees.get("extents-overflow")
    nodes, fragments = nodes_tables(volume, number, trees)
    catalog = contents.trees.get("catalog")
    resolved = links.resolve(volume, contents.catalog, catalog.file if catalog is not None else None)
    entries = entries_table(number, contents.catalog, resolved, contents.attributes, rows.get("catalog", 0))
    extents = extents_table(
        volume,
        number,
        rows,
        contents.catalog,
        contents.trees.get("extents-overflow"),
        contents.attributes,
        contents.special,
    )
    regions = regions_table(volume, number, find_regions(volume, contents.special, contents.journal, overflow))
    free = free_table(volume, number, contents.free_starts, contents.free_counts)
    return VolumeLayout(
        facts=volume_facts(volume, contents, stack, number),
        nodes=with_locators(nodes, extents),
        node_fragments=fragments,
        regions=regions,
        extents=extents,
        entries=entries,
        free=free,
        findings=findings_table(volume.log.findings),
    )
