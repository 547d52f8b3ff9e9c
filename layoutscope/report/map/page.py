"""One offline HTML page from the data of one or more disks, each a :class:`~layoutscope.report.map.model.MapDisk`."""

from __future__ import annotations

import html
import json
from dataclasses import asdict
from functools import cache
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from layoutscope.report.map import encode
from layoutscope.report.map.panels import costs, directories, distances, walk_panel, written_when
from layoutscope.report.map.segments import Segments, coalesce, from_layouts, merge_touching, used_span
from layoutscope.tables.series import numbered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from layoutscope.report.map.model import MapDisk
    from layoutscope.report.map.segments import Segments

_SCRIPTS = ("data.js", "address.js", "panels.js", "page.js")


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
    data = {"disks": [disk_data(item, names=names) for item in disks], "made": made}
    title = " and ".join(item.title for item in disks) if names else "layout map"
    return Template(_asset("page.html")).substitute(
        title=html.escape(title),
        style=_asset("page.css"),
        payload=encode.script_json(data),
        plotly=_plotly(),
        script=_script(),
    )


def _script() -> str:
    """Plotly is kept compressed and started first; the page's own scripts follow."""
    own = "\n".join(_asset(name).replace('"use strict";\n', "") for name in _SCRIPTS)
    unpack = (
        '"use strict";\n(async () => {\n'
        'const raw = Uint8Array.from(atob(document.getElementById("plotly").textContent), (c) => c.charCodeAt(0));\n'
        'const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));\n'
        "(0, eval)(await new Response(stream).text());\n"
    )
    return f"{unpack}{own}\n}})();"


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return encode.text(get_plotlyjs())


@cache
def _asset(name: str) -> str:
    return resources.files("layoutscope.report.map").joinpath("assets", name).read_text("utf-8")


OVERVIEW_BUDGET: Final = 120_000
"""Segments of the overview; the whole of a smaller disk."""

DETAIL_BUDGET: Final = 800_000
"""Segments kept one by one for the deepest zoom, in tiles that are unpacked when they are needed."""

NODE_BUDGET: Final = 250_000
"""Nodes whose records, keys and xid the page can tell."""

NAME_BUDGET: Final = 100_000
"""Directory entries up to which the page can name the file that an extent belongs to."""

TILE_SEGMENTS: Final = 16_384


def disk_data(item: MapDisk, *, names: bool) -> dict[str, Any]:
    """Return everything that the page needs of one disk, ready for JSON."""
    segments = merge_touching(from_layouts(item.layouts))
    small = len(segments) <= OVERVIEW_BUDGET
    return {
        "title": item.title if names else "volume",
        "subtitle": item.subtitle,
        "headline": item.headline,
        "coverage": item.coverage,
        "start": item.image_offset,
        "size": item.size_bytes,
        "used": used_span(segments, item.image_offset),
        "block": item.block_size_bytes,
        "classes": [asdict(one) for one in segments.classes],
        "overview": _segments(segments if small else coalesce(segments, OVERVIEW_BUDGET)),
        "tiles": [] if small else tiles(segments, DETAIL_BUDGET, _segments),
        "exact": len(segments) <= DETAIL_BUDGET,
        "nodes": _nodes(pl.concat([layout.nodes for layout in item.layouts], how="vertical_relaxed")),
        "names": _names(item) if names else None,
        "walks": [walk_panel(one) for one in item.walks],
        "costs": [costs(one) for one in item.walks],
        "directories": directories(item, names=names),
        "distances": distances(item),
        "history": written_when(item),
        "facts": [{"title": f.title, "columns": f.columns, "rows": f.rows} for f in item.facts],
    }


def _names(item: MapDisk) -> str | None:
    """Names of files by their ids, packed; None for too many."""
    entries = pl.concat([layout.entries for layout in item.layouts], how="vertical_relaxed")
    if not 0 < entries.height <= NAME_BUDGET:
        return None
    first = entries.select("file_id", "name").drop_nulls().unique("file_id", keep="first", maintain_order=True)
    ids = first["file_id"].cast(pl.String).to_list()
    return encode.text(json.dumps(dict(zip(ids, first["name"].to_list(), strict=True)), separators=(",", ":")))


def _segments(segments: Segments) -> dict[str, Any]:
    merged = not np.array_equal(segments.length, segments.filled)
    return {
        "start": encode.array(segments.start, delta=True),
        "length": encode.array(segments.length),
        "filled": encode.array(segments.filled) if merged else None,
        "class": encode.array(segments.class_id),
        "owner": encode.array(segments.owner, delta=True),
    }


def _nodes(nodes: pl.DataFrame) -> dict[str, Any]:
    kept = nodes.head(NODE_BUDGET)
    codes, trees = numbered(kept["tree"])
    return {
        "trees": list(trees),
        "kinds": ["leaf", "index", "header", "map", "free"],
        "tree": encode.array(codes),
        "kind": encode.array(_kinds(kept["kind"])),
        "level": encode.array(kept["level"].fill_null(255).to_numpy()),
        "offset": encode.array(kept["image_offset"].fill_null(-1).to_numpy(), delta=True),
        "size": encode.array(kept["size_bytes"].to_numpy()),
        "records": encode.array(kept["num_records"].fill_null(0).to_numpy()),
        "xid": encode.array(kept["xid"].fill_null(0).to_numpy()),
        "rank": encode.array(kept["key_rank"].cast(pl.Int64).fill_null(-1).to_numpy()),
        "id": _texts(kept["node_id"]),
        "first": _texts(kept["first_key_id"]),
        "last": _texts(kept["last_key_id"]),
        "total": nodes.height,
    }


def _kinds(kinds: pl.Series) -> NDArray[np.uint8]:
    codes = {"leaf": 0, "index": 1, "header": 2, "map": 3, "free": 4}
    return kinds.cast(pl.String).replace_strict(codes, default=4, return_dtype=pl.UInt8).to_numpy()


def _texts(ids: pl.Series) -> dict[str, Any]:
    """Identifiers of 64 bits in two halves, which doubles cannot hold whole."""
    values = ids.fill_null(0).cast(pl.UInt64).to_numpy()
    return {"low": encode.array(values & np.uint64(0xFFFFFFFF)), "high": encode.array(values >> np.uint64(32))}


def tiles(segments: Segments, budget: int, pack: Callable[[Segments], dict[str, Any]]) -> list[dict[str, Any]]:
    """Cut segments in address order into tiles of equal count.

    Parameters
    ----------
    segments : Segments
        In address order.
    budget : int
        Most segments that are kept; past it every n-th tile is kept, and the page says where it has only shares.
    pack : callable
        Turns segments into JSON-ready arrays.
    """
    count = -(-len(segments) // TILE_SEGMENTS)
    step = max(1, -(-len(segments) // budget))
    return [_tile(segments, number, pack) for number in range(0, count, step)]


def _tile(segments: Segments, number: int, pack: Callable[[Segments], dict[str, Any]]) -> dict[str, Any]:
    following = min((number + 1) * TILE_SEGMENTS, len(segments))
    part = segments.take(np.arange(number * TILE_SEGMENTS, following))
    stop = int((part.start + part.length).max())
    # What lies between two tiles belongs to the first; the last one of a run ends where its segments end.
    end = int(segments.start[following]) if following < len(segments) else stop
    return {"from": int(part.start[0]), "to": end, **pack(part)}
