"""The tables of an HFS+ or HFSX volume: from a source to a :class:`~layoutscope.tables.layout.VolumeLayout`.

The order of the tables follows the disk.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.filesystems.hfsplus.contents import Contents, KeptVolume, open_contents
from layoutscope.filesystems.hfsplus.contents.rules import check_contents
from layoutscope.filesystems.hfsplus.layout.entries import entries_table, with_orphans
from layoutscope.filesystems.hfsplus.layout.extents import extents_table
from layoutscope.filesystems.hfsplus.layout.facts import volume_facts
from layoutscope.filesystems.hfsplus.layout.nodes import lost_headers, nodes_tables, with_locators
from layoutscope.filesystems.hfsplus.layout.regions import find_regions, free_table, regions_table
from layoutscope.filesystems.hfsplus.records import links
from layoutscope.filesystems.hfsplus.tree.tree import first_rows
from layoutscope.tables import Values, stacked
from layoutscope.tables.layout import VolumeLayout, findings_table
from layoutscope.tables.table import condition_details

if TYPE_CHECKING:
    from layoutscope.filesystems.contract import VolumeRequest
    from layoutscope.filesystems.hfsplus.volume.volume import Volume


def read_layout(request: VolumeRequest) -> VolumeLayout:
    """Read the layout of an HFS+ or HFSX volume."""
    opened, contents = open_contents(request)
    kept = KeptVolume(opened, contents, opened.log.mark())
    check_contents(opened, contents)
    contents = replace(contents, catalog=contents.catalog.checked())
    # The last layer is the volume itself, which its header names better.
    layout = build_layout(opened, contents, request.stack[:-1], request.first_volume)
    request.keep(kept)
    return layout


def build_layout(volume: Volume, contents: Contents, stack: tuple[str, ...], number: int | None) -> VolumeLayout:
    """Build the public tables."""
    trees = list(contents.trees.values())
    rows = first_rows(trees)
    nodes, fragments = nodes_tables(volume, number, trees)
    lost = lost_headers(volume, number, contents)
    if len(lost):
        row = np.arange(len(nodes), len(nodes) + len(lost), dtype=np.uint32)
        nodes = stacked([nodes, lost.changed("row", Values(row))])
    catalog = contents.trees.get("catalog")
    entries = entries_table(
        number,
        contents.catalog,
        links.resolve_links(volume, contents.catalog, catalog.file if catalog is not None else None),
        contents.attributes,
        rows.get("catalog", 0),
    )
    if contents.stale is not None:
        entries = with_orphans(entries, number, contents.catalog, rows.get("catalog", 0))
    extents = extents_table(volume, number, contents)
    regions = regions_table(
        volume, number, find_regions(volume, contents.special, contents.journal, contents.trees.get("extents-overflow"))
    )
    free = free_table(volume, number, contents.free_starts, contents.free_counts)
    facts = volume_facts(volume, contents, stack, number)
    return VolumeLayout(
        facts=replace(facts, details={**facts.details, **condition_details(nodes)}),
        nodes=with_locators(nodes, extents),
        node_fragments=fragments,
        regions=regions,
        extents=extents,
        entries=entries,
        free=free,
        findings=findings_table(volume.log.findings),
    )
