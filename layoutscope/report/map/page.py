"""One offline HTML page from the data of one or more disks, each a :class:`~layoutscope.report.map.model.MapDisk`."""

from __future__ import annotations

import html
from dataclasses import asdict
from functools import cache
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.report.map import encode
from layoutscope.report.map.bands import scale_of
from layoutscope.report.map.directories import directories
from layoutscope.report.map.nodes import NODE_BUDGET, identifiers, ids_of, packed_nodes
from layoutscope.report.map.panels import costs, distances, first_of, walk_panel, written_when
from layoutscope.report.map.pyramid import Cells, Share, partition, pyramid, used_span
from layoutscope.report.map.segments import from_layouts, merge_touching
from layoutscope.report.map.text import sections
from layoutscope.tables.table import stacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.report.map.model import MapDisk
    from layoutscope.report.map.segments import Segments


def render(disks: Sequence[MapDisk], *, made: str, names: bool = True) -> str:
    """Return the whole page; the same input gives the same text.

    Parameters
    ----------
    disks : sequence of MapDisk
        Shown side by side on one scale.
    made : str
        How it was made: version, identity of the image, options.
    names : bool
        Whether names from the image may appear.
    """
    segments = [from_layouts(item.layouts, item.device) for item in disks]
    shares = [disk_shares(item, own) for item, own in zip(disks, segments, strict=True)]
    parts = zip(disks, segments, shares, strict=True)
    data = {
        "disks": [disk_data(item, own, held, names=names) for item, own, held in parts],
        "scale": _scale(disks, shares),
    }
    title = " and ".join(item.title for item in disks) if names else "layout map"
    return Template(asset("page.html")).substitute(
        title=html.escape(title),
        style=asset("page.css"),
        sections=sections(disks, shares),
        made=html.escape(made),
        payload=encode.script_json(data),
        plotly=packed_plotly(),
        script=started(f'(0, eval)(await unpacked("{_packed_script()}"));\n'),
    )


def _scale(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]]) -> dict[str, float]:
    """Return what all disks are drawn on: bytes of the largest, bytes that are of interest, seconds of the slowest."""
    return {
        "span": max((disk.size_bytes for disk in disks), default=0),
        "used": scale_of(disks, shares),
        "seconds": max((disk.walks[0].seconds for disk in disks if disk.walks), default=0.0),
    }


def started(script: str) -> str:
    """Return a script that unpacks Plotly (:func:`packed_plotly`) from the page, and goes on with another."""
    # Called through another expression, eval runs in the global scope, where Plotly leaves its name for the page.
    return (
        '"use strict";\n(async () => {\n'
        'if (!window.DecompressionStream) { document.getElementById("old").hidden = false; return; }\n'
        f"{asset('boot.js')}"
        '(0, eval)(await unpacked(document.getElementById("plotly").textContent));\n'
        f"{script}}})();"
    )


@cache
def _packed_script() -> str:
    return encode.packed_text(asset("page.js"))


@cache
def packed_plotly() -> str:
    """Return our own bundle of Plotly, as pages hold it: a third of all of it, and nothing that sends."""
    return encode.packed_text(asset("plotly.js"))


@cache
def asset(name: str) -> str:
    """Return the text of one of the files that pages are made of."""
    return resources.files("layoutscope.report.map").joinpath("assets", name).read_text("utf-8")


OWNER_BUDGET: Final = 800_000
"""Stretches whose file or node the page can tell; past it those of files are left out."""

NAME_BUDGET: Final = 100_000
"""Directory entries up to which the page can name the file that an extent belongs to."""

TILE_SEGMENTS: Final = 16_384


def disk_shares(item: MapDisk, segments: Segments) -> tuple[Share, ...]:
    """Share out a disk among the classes of the map; one of two states among those of what changed."""
    if item.num_earlier:
        from layoutscope.report.map.difference import changed_shares

        return changed_shares(item)
    return partition(segments, item.image_offset, item.size_bytes, item.block_size_bytes)


def disk_data(item: MapDisk, segments: Segments, shares: Sequence[Share], *, names: bool) -> dict[str, Any]:
    """Return what the page draws of one disk, ready for JSON.

    Parameters
    ----------
    item : MapDisk
        The disk.
    segments : Segments
        Its stretches.
    shares : sequence of Share
        What it holds, by class.
    names : bool
        Whether names from the image may appear.
    """
    # What is told of nodes is told of so many; places of the others are in the pyramid.
    owned = merge_touching(segments.take(np.flatnonzero((segments.owner != 0) & (segments.owner <= NODE_BUDGET))))
    tells_files = len(owned) <= OWNER_BUDGET
    nodes = stacked([layout.columns("nodes") for layout in item.layouts])
    here = nodes if not nodes["device"].data.any() else nodes.take(nodes["device"].data == item.device)
    # Orders and ages of two states at once would say nothing.
    here = here.take(slice(0, 0)) if item.num_earlier else here
    return {
        "title": item.title if names else "volume",
        "start": item.image_offset,
        "size": item.size_bytes,
        "used": used_span(shares),
        "block": item.block_size_bytes,
        "classes": [_class(share) for share in shares],
        "pyramid": _pyramid(shares, item.block_size_bytes),
        "owners": tiles(owned if tells_files else owned.take(np.flatnonzero(owned.owner > 0))),
        "tells_files": tells_files,
        "nodes": packed_nodes(nodes, item, segments, [share.item.key for share in shares]),
        "files": _files(owned.files),
        "entries": _entries(item) if names else None,
        "walks": [walk_panel(one, item, first_of(one.trace, item.walks)) for one in item.walks],
        "costs": [costs(one) for one in item.walks if not item.device],
        "directories": None if item.device else encode.packed_json(directories(item, names=names)),
        "distances": distances(item, here),
        "history": written_when(item, here),
        "earlier": len(item.layouts) - item.num_earlier,
    }


def _files(files: NDArray[np.uint64]) -> dict[str, Any]:
    """Pack which volume's file each owner of data is."""
    return {"volume": encode.array(files[:, 0]), **identifiers(files[:, 1])}


def _entries(item: MapDisk) -> dict[str, Any] | None:
    """Pack the directories of all volumes, with the leaf of each inode; None for too many entries."""
    tables = [layout.columns("entries") for layout in item.layouts]
    counts = [len(table) for table in tables]
    if not 0 < sum(counts) <= NAME_BUDGET:
        return None
    base = np.cumsum([0, *(len(layout.columns("nodes")) for layout in item.layouts)])
    rows = [table["inode_node_row"].signed() for table in tables]
    nodes = [np.where(row >= 0, row + first, -1) for row, first in zip(rows, base, strict=False)]
    volume, found = np.repeat(np.arange(len(tables)), counts), stacked(tables)
    # By their numbers: ids and nodes rise then, and take a fifth of the room.
    order = np.lexsort((found["file_id"].filled(0), volume))
    entries = found.take(order)
    names = [name or "" for name in entries.texts("name").to_list()]
    return {
        "volume": encode.array(volume),
        "node": encode.array(np.concatenate(nodes)[order], delta=True),
        "id": identifiers(ids_of(entries["file_id"])),
        "parent": identifiers(ids_of(entries["parent_id"])),
        "names": encode.packed_json(names),
    }


def _class(share: Share) -> dict[str, Any]:
    return {**asdict(share.item), "bytes": share.size_bytes, "pieces": len(share.runs)}


def _pyramid(shares: Sequence[Share], block_bytes: int) -> dict[str, Any]:
    finest = pyramid(shares, block_bytes)
    return {"unit": finest.unit_bytes, "cell": finest.cell_bytes, "cells": [_cells(one) for one in finest.cells]}


def _cells(cells: Cells) -> dict[str, Any]:
    behind = np.concatenate([[0], (cells.first + cells.count)[:-1]])[: len(cells)]
    return {
        "gap": encode.array(cells.first - behind),
        "count": encode.array(cells.count - 1),
        "held": encode.array(cells.held),
    }


def tiles(segments: Segments) -> list[dict[str, Any]]:
    """Cut segments in address order into tiles of equal count, which the page unpacks when they are needed.

    Returns
    -------
    list of dict
        ``from`` and ``to``, in bytes of the image, and the packed ``start``, ``length`` and ``owner``.
    """
    return [_tile(segments, first) for first in range(0, len(segments), TILE_SEGMENTS)]


def _tile(segments: Segments, first: int) -> dict[str, Any]:
    part = segments.take(np.arange(first, min(first + TILE_SEGMENTS, len(segments))))
    return {
        "from": int(part.start[0]),
        "to": int((part.start + part.length).max()),
        "start": encode.array(part.start, delta=True),
        "length": encode.array(part.length),
        "owner": encode.array(part.owner),
    }
