"""From a :class:`~layoutscope.report.map.model.MapDisk` to the data that the page reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from layoutscope.report.map import encode
from layoutscope.report.map.distances import distances
from layoutscope.report.map.segments import Segments, coalesce, from_layouts, merge_touching
from layoutscope.report.map.tiles import tiles
from layoutscope.report.map.walks import costs, directories, walk
from layoutscope.tables import NULL_ROW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.report.map.model import MapDisk

OVERVIEW_BUDGET: Final = 150_000
"""Segments of the overview; the whole of a smaller disk."""

DETAIL_BUDGET: Final = 1_500_000
"""Segments kept one by one for the deepest zoom, in tiles that are unpacked when they are needed."""

NODE_BUDGET: Final = 400_000
"""Nodes whose records, keys and xid the page can tell."""


def disk(item: MapDisk, *, names: bool) -> dict[str, Any]:
    """Return everything that the page needs of one disk, ready for JSON."""
    nodes = pl.concat([layout.nodes for layout in item.layouts], how="vertical_relaxed")
    segments = _with_node_index(merge_touching(from_layouts(item.layouts)), nodes)
    overview = segments if len(segments) <= OVERVIEW_BUDGET else coalesce(segments, OVERVIEW_BUDGET)
    return {
        "title": item.title if names else "volume",
        "subtitle": item.subtitle,
        "headline": item.headline,
        "coverage": item.coverage,
        "start": item.image_offset,
        "size": item.size_bytes,
        "block": item.block_size_bytes,
        "classes": [
            {"key": c.key, "label": c.label, "group": c.group, "light": c.light, "dark": c.dark}
            for c in segments.classes
        ],
        "overview": _segments(overview),
        "tiles": [] if overview is segments else tiles(segments, DETAIL_BUDGET, _segments),
        "exact": overview is segments or len(segments) <= DETAIL_BUDGET,
        "nodes": _nodes(nodes),
        "walks": [walk(one) for one in item.walks],
        "costs": [costs(one) for one in item.walks],
        "directories": directories(item, names=names),
        "distances": distances(item),
        "facts": [{"title": f.title, "columns": f.columns, "rows": f.rows} for f in item.facts],
    }


def _with_node_index(segments: Segments, nodes: pl.DataFrame) -> Segments:
    """Replace rows by places in the node arrays of the page."""
    if not nodes.height:
        return segments
    rows = nodes["row"].to_numpy()
    place = np.full(int(rows.max()) + 1, NULL_ROW, np.uint32)
    place[rows] = np.arange(len(rows), dtype=np.uint32)
    known = segments.node_row != NULL_ROW
    index = segments.node_row.copy()
    index[known] = place[segments.node_row[known]]
    return Segments(segments.start, segments.length, segments.filled, segments.class_id, index, segments.classes)


def _segments(segments: Segments) -> dict[str, Any]:
    merged = not np.array_equal(segments.length, segments.filled)
    return {
        "start": encode.array(segments.start, delta=True),
        "length": encode.array(segments.length),
        "filled": encode.array(segments.filled) if merged else None,
        "class": encode.array(segments.class_id),
        "node": encode.array(_plus_one(segments.node_row), delta=True),
    }


def _plus_one(rows: NDArray[np.uint32]) -> NDArray[np.int64]:
    """0 for no node, else its place plus one."""
    return np.where(rows == NULL_ROW, 0, rows.astype(np.int64) + 1)


def _nodes(nodes: pl.DataFrame) -> dict[str, Any]:
    kept = nodes.head(NODE_BUDGET)
    trees = kept["tree"].cast(pl.String)
    names = sorted(trees.unique().drop_nulls().to_list())
    codes = {name: number for number, name in enumerate(names)}
    return {
        "trees": names,
        "kinds": ["leaf", "index", "header", "map", "free"],
        "tree": encode.array(trees.replace_strict(codes, return_dtype=pl.UInt8).to_numpy()),
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


def _kinds(kinds: pl.Series) -> NDArray[Any]:
    codes = {"leaf": 0, "index": 1, "header": 2, "map": 3, "free": 4}
    return kinds.cast(pl.String).replace_strict(codes, default=4, return_dtype=pl.UInt8).to_numpy()


def _texts(ids: pl.Series) -> dict[str, Any]:
    """Identifiers of 64 bits in two halves, which doubles cannot hold whole."""
    values = ids.fill_null(0).cast(pl.UInt64).to_numpy()
    return {"low": encode.array(values & np.uint64(0xFFFFFFFF)), "high": encode.array(values >> np.uint64(32))}
