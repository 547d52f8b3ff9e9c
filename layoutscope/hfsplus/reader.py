"""The HFS+ and HFSX reader: from a source to a :class:`~layoutscope.tables.layout.VolumeLayout`.

TN1150, "HFS Plus Basics". The volume header leads to the special files; the extents-overflow file is read first, as it
completes the others; then the catalog, the attributes and the hot files. The order of the tables follows the disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.hfsplus import attributes as attributes_file
from layoutscope.hfsplus import catalog as catalog_file
from layoutscope.hfsplus import decoding, links
from layoutscope.hfsplus.allocation import free_runs
from layoutscope.hfsplus.checks import check_contents, check_free_count
from layoutscope.hfsplus.extents import extents_table
from layoutscope.hfsplus.facts import volume_facts
from layoutscope.hfsplus.files import entries_table
from layoutscope.hfsplus.fork import Fork, inline_fork, read_fork
from layoutscope.hfsplus.hotfiles import read_hot_files
from layoutscope.hfsplus.journal import find_journal, replay, report_pending
from layoutscope.hfsplus.layout import first_rows, free_table, nodes_tables, regions_table
from layoutscope.hfsplus.overflow import OverflowLeaves, extend_fork
from layoutscope.hfsplus.regions import find_regions
from layoutscope.hfsplus.tree import Tree, read_tree
from layoutscope.hfsplus.volume import Volume, open_volume, reread
from layoutscope.ondisk import grammar
from layoutscope.tables.layout import VolumeLayout, findings_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.hfsplus.arrays import I64
    from layoutscope.hfsplus.attributes import Attributes
    from layoutscope.hfsplus.catalog import Catalog
    from layoutscope.hfsplus.decoding import Decoder, DecoderName
    from layoutscope.hfsplus.journal import Journal
    from layoutscope.image import Source

CNID = grammar.HfsplusVolume.Cnid


@dataclass(frozen=True, slots=True)
class Contents:
    """All that was read of a volume.

    Attributes
    ----------
    journal : Journal or None
        The journal, where there is one.
    special : dict of int to Fork
        Special files by their CNID.
    trees : dict of str to Tree
        B-trees by their names.
    catalog, attributes
        What these trees hold.
    free_starts, free_counts : (n,) int64 arrays
        Runs of free blocks.
    """

    journal: Journal | None
    special: dict[int, Fork]
    trees: dict[str, Tree]
    catalog: Catalog
    attributes: Attributes
    free_starts: I64
    free_counts: I64


def read_layout(
    source: Source,
    *,
    image_offset: int = 0,
    stack: Sequence[str] = (),
    volume: int | None = 0,
    decoder: DecoderName = "bulk",
    replay_journal: bool = True,
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

    Returns
    -------
    VolumeLayout
        With all that can be read; damage is among its findings.

    Raises
    ------
    FormatError
        If neither the volume header nor its copy can be read.
    """
    opened, contents = open_contents(source, image_offset, decoding.choose(decoder), replay_journal=replay_journal)
    check_contents(opened, contents)
    return build_layout(opened, contents, tuple(stack), volume)


def open_contents(
    source: Source, image_offset: int, decoder: Decoder, *, replay_journal: bool
) -> tuple[Volume, Contents]:
    """Open a volume, apply its journal in memory if wanted, and read all of its metadata."""
    opened = open_volume(source, image_offset, decoder)
    journal = find_journal(opened)
    if journal is not None:
        opened = _with_journal(opened, journal, replay_journal=replay_journal)
    return opened, read_contents(opened, journal)


def _with_journal(volume: Volume, journal: Journal, *, replay_journal: bool) -> Volume:
    if not replay_journal:
        report_pending(volume, journal)
        return volume
    overlay = replay(volume, journal)
    return volume if overlay is None else reread(volume, overlay)


def read_contents(volume: Volume, journal: Journal | None = None) -> Contents:
    """Read all metadata of a volume, each block once."""
    header = volume.header
    special = {
        int(CNID.allocation_file): inline_fork(header.allocation_file),
        int(CNID.extents_file): inline_fork(header.extents_file),
        int(CNID.catalog_file): inline_fork(header.catalog_file),
        int(CNID.attributes_file): inline_fork(header.attributes_file),
        int(CNID.startup_file): inline_fork(header.startup_file),
    }
    overflow = read_tree(volume, "extents-overflow", CNID.extents_file, special[CNID.extents_file], OverflowLeaves())
    for file_id, fork in special.items():
        special[file_id] = extend_fork(fork, overflow, file_id, catalog_file.DATA_FORK)
    catalog_leaves, attribute_leaves = catalog_file.CatalogLeaves(), attributes_file.AttributeLeaves()
    found = {
        "extents-overflow": overflow,
        "catalog": read_tree(volume, "catalog", CNID.catalog_file, special[CNID.catalog_file], catalog_leaves),
        "attributes": read_tree(
            volume, "attributes", CNID.attributes_file, special[CNID.attributes_file], attribute_leaves
        ),
    }
    catalog = catalog_file.collect(found["catalog"], catalog_leaves)
    found["hot-files"] = read_hot_files(volume, catalog, overflow)
    trees = {name: tree for name, tree in found.items() if tree is not None}
    rows = first_rows(list(trees.values()))
    return Contents(
        journal,
        special,
        trees,
        catalog,
        attributes_file.collect(found["attributes"], attribute_leaves, rows.get("attributes", 0)),
        *_free_space(volume, special[CNID.allocation_file]),
    )


def _free_space(volume: Volume, fork: Fork) -> tuple[I64, I64]:
    try:
        bitmap = read_fork(volume, fork)
    except FormatError as error:
        volume.survive(error, code="allocation-file-unreadable")
        return np.empty(0, np.int64), np.empty(0, np.int64)
    starts, counts = free_runs(bitmap, int(volume.header.total_blocks))
    check_free_count(volume, counts)
    return starts, counts


def build_layout(volume: Volume, contents: Contents, stack: tuple[str, ...], number: int | None) -> VolumeLayout:
    """Build the public tables."""
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
        nodes=nodes,
        node_fragments=fragments,
        regions=regions,
        extents=extents,
        entries=entries,
        free=free,
        findings=findings_table(volume.findings),
    )
