"""One offline HTML page from the data of one or more disks, each a :class:`~layoutscope.report.map.scans.MapDisk`."""

from __future__ import annotations

import html
from functools import cache
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.findings import MAX_CASES
from layoutscope.report import escape_text
from layoutscope.report.map import pyramid as encode
from layoutscope.report.map.figure import (
    BINS,
    CHANGES,
    MAX_DOTS,
    MAX_ROWS,
    ROLES,
    TIME_UNITS,
    scale_of,
    skeleton,
    unit_of,
)
from layoutscope.report.map.panels import (
    NODE_BUDGET,
    charts_of,
    entries,
    first_of,
    identifiers,
    pack_nodes_table,
    walk_panel,
)
from layoutscope.report.map.pyramid import (
    Share,
    damage_without_node,
    from_layouts,
    merge_touching,
    partition,
    pyramid,
    used_span,
)
from layoutscope.report.map.screen import drive_words_of, sections
from layoutscope.tables.columns import stack_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.report.map.pyramid import Segments
    from layoutscope.report.map.scans import MapDisk


def render(disks: Sequence[MapDisk], *, made: str, names: bool = True, all_paths: bool = False) -> str:
    """Return the whole page; the same input gives the same text."""
    segments = [from_layouts(item.layouts, item.device) for item in disks]
    shares = [disk_shares(item, own) for item, own in zip(disks, segments, strict=True)]
    parts = zip(disks, segments, shares, strict=True)
    data = {
        "disks": [disk_data(item, own, held, names=names, all_paths=all_paths) for item, own, held in parts],
        "figure": _figure(disks, shares),
        "drives": drive_words_of(disks),
        "charts": [encode.packed_json(charts) for charts in charts_of(disks, names=names)],
    }
    return fill_page(
        title=" and ".join(item.title for item in disks) if names else "layout map",
        sections=sections(disks, shares),
        made=made,
        payload=data,
        script="page.js",
    )


def fill_page(*, title: str, sections: str, made: str, payload: dict[str, Any], script: str) -> str:
    """Return a page of sections that are HTML, with what its script draws."""
    return Template(asset("page.html")).substitute(
        title=html.escape(title),
        style=asset("figure.css") + asset("page.css"),
        sections=sections,
        made=html.escape(made),
        payload=encode.script_json(payload),
        boot=asset("boot.js"),
        plotly=_pack("plotly.js"),
        script=_pack(script),
    )


def _figure(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]]) -> dict[str, Any]:
    """Return the first screen's figure without what it shows, which the page has as cells and reads."""
    span = scale_of(disks[:MAX_ROWS], shares[:MAX_ROWS])
    known = CHANGES if any(disk.num_earlier for disk in disks) else ROLES
    return {
        **skeleton(disks, shares),
        "span": span,
        "unit": unit_of(span),
        "bins": BINS,
        "dots": MAX_DOTS,
        "times": [(least, length, name) for least, length, name, _ in TIME_UNITS],
        "roles": [role.key for role in known],
    }


@cache
def _pack(name: str) -> str:
    return encode.packed_text(asset(name))


@cache
def asset(name: str) -> str:
    """Return the text of one of the files that pages are made of."""
    return resources.files("layoutscope.report.map").joinpath("assets", name).read_text("utf-8")


OWNER_BUDGET: Final = 800_000
"""Stretches whose file or node the page always names; past it those of files only where all are asked for."""

TILE_SEGMENTS: Final = 16_384


def disk_shares(item: MapDisk, segments: Segments) -> tuple[Share, ...]:
    """Share out a disk among the classes of the map; one of two states among those of what changed."""
    if item.num_earlier:
        from layoutscope.report.map.difference import share_by_change

        return share_by_change(item)
    return partition(segments, item.image_offset, item.size_bytes, item.block_size_bytes)


def shares_of(disks: Sequence[MapDisk]) -> list[tuple[Share, ...]]:
    """Share out disks."""
    return [disk_shares(item, from_layouts(item.layouts, item.device)) for item in disks]


def disk_data(
    item: MapDisk, segments: Segments, shares: Sequence[Share], *, names: bool, all_paths: bool = False
) -> dict[str, Any]:
    """Return what the page draws of one disk, ready for JSON."""
    # The page lists at most this many nodes; the places of the others are in the pyramid.
    owned = merge_touching(segments.take(np.flatnonzero((segments.owner != 0) & (segments.owner <= NODE_BUDGET))))
    tells_files = all_paths or len(owned) <= OWNER_BUDGET
    nodes = stack_tables([layout.columns("nodes") for layout in item.layouts])
    unit_bytes, cell_bytes, cells = pyramid(shares, item.block_size_bytes)
    return {
        "title": item.title if names else "volume",
        "start": item.image_offset,
        "size": item.size_bytes,
        "used": used_span(shares),
        "block": item.block_size_bytes,
        "volumes": _volumes(item),
        "classes": [
            {"key": share.item.key, "label": share.item.label, "role": share.item.role, "bytes": share.size_bytes}
            for share in shares
        ],
        "pyramid": {"unit": unit_bytes, "cell": cell_bytes, "cells": [_cells(*one) for one in cells]},
        "owners": tiles(owned if tells_files else owned.take(np.flatnonzero(owned.owner > 0))),
        "tells_files": tells_files,
        "nodes": pack_nodes_table(nodes, item, segments, [share.item.key for share in shares]),
        "files": _files(owned.files),
        "entries": entries(item, names=names, all_paths=all_paths),
        "walks": [walk_panel(one, item, first_of(one.trace, item.walks)) for one in item.walks],
        "damage": [
            {"at": found.image_offset, "text": escape_text(f"{found.structure}: {found.message}")}
            for layout in item.layouts
            for found in damage_without_node(layout)[:MAX_CASES]
            if found.device == item.device
        ],
        "earlier": len(item.layouts) - item.num_earlier,
    }


def _volumes(item: MapDisk) -> list[dict[str, Any]]:
    """Name the volumes, where there are several, and say from which to before which of the nodes are each one's."""
    ends = np.cumsum([0, *(len(layout.columns("nodes")) for layout in item.layouts)]).tolist()
    places = range(len(item.layouts))
    return [{"name": item.called.get(place, ""), "nodes": ends[place : place + 2]} for place in places]


def _files(files: NDArray[np.uint64]) -> dict[str, Any]:
    """Pack which volume's file each owner of data is."""
    return {"volume": encode.array(files[:, 0]), **identifiers(files[:, 1])}


def _cells(first: NDArray[np.int64], count: NDArray[np.int64], held: NDArray[np.int64]) -> dict[str, Any]:
    behind = np.concatenate([[0], (first + count)[:-1]])[: len(first)]
    return {"gap": encode.array(first - behind), "count": encode.array(count - 1), "held": encode.array(held)}


def tiles(segments: Segments) -> list[dict[str, Any]]:
    """Cut segments in address order into tiles of equal count, which the page unpacks when they are needed.

    `from` and `to`, in bytes of the image, and the packed `start`, `length` and `owner`.
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
