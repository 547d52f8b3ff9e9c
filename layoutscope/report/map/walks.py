"""The walk, its cost and its directories, for the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from layoutscope.report.map import encode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.report.map.model import MapDisk, MapWalk

POINTS: Final = 40_000
"""Reads that are drawn one by one; of a longer walk every n-th."""

BINS: Final = 300
TREEMAP_DIRECTORIES: Final = 1_500


def walk_panel(item: MapWalk) -> dict[str, Any]:
    """Return where the head is over time, and its rates."""
    trace = item.trace
    end = np.cumsum(item.service_s + trace.think_us * 1e-6)
    begin = end - item.service_s
    step = max(1, -(-len(trace) // POINTS))
    shown = slice(None, None, step)
    return {
        "label": f"{item.order} on {item.drive}",
        "total_s": float(end[-1]) if len(end) else 0.0,
        "reads": len(trace),
        "step": step,
        "trees": list(trace.trees),
        "time": encode.array(begin[shown]),
        "offset": encode.array(trace.image_offset[shown], delta=True),
        "length": encode.array(trace.length_bytes[shown]),
        "tree": encode.array(trace.tree[shown]),
        "rates": _rates(begin, trace.image_offset, trace.length_bytes),
    }


def _rates(begin: NDArray[np.float64], offset: NDArray[np.int64], length: NDArray[np.int64]) -> dict[str, Any]:
    """Seeks and bytes per second in equal spans of time."""
    if not len(begin):
        return {"time": [], "seeks": [], "bytes": []}
    edges = np.linspace(0.0, float(begin[-1]) or 1.0, BINS + 1)
    width = edges[1] - edges[0]
    moved = np.concatenate([[True], offset[1:] != offset[:-1] + length[:-1]])
    seeks = np.histogram(begin, edges, weights=moved.astype(np.float64))[0] / width
    moved_bytes = np.histogram(begin, edges, weights=length.astype(np.float64))[0] / width
    return {"time": _rounded(edges[:-1]), "seeks": _rounded(seeks), "bytes": _rounded(moved_bytes)}


def _rounded(values: NDArray[np.float64]) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]


def costs(item: MapWalk) -> dict[str, Any]:
    """Return the causes of one prediction, in seconds."""
    return {
        "drive": item.drive,
        "order": item.order,
        "causes": {name: float(value) for name, value in item.causes_s.items()},
        "bound_s": item.bound_s,
        "interval_s": item.interval_s,
    }


def directories(item: MapDisk, *, names: bool) -> dict[str, Any] | None:
    """Return the costliest directories with their ancestors: time of the first walk, entries and bytes."""
    entries = pl.concat([layout.entries for layout in item.layouts], how="vertical_relaxed")
    if not entries.height or not item.walks:
        return None
    table = _per_directory(entries, item.walks[0])
    kept = _with_ancestors(table.sort("seconds", "id", descending=[True, False]).head(TREEMAP_DIRECTORIES), table)
    return {
        "id": kept["id"].cast(pl.String).to_list(),
        "parent": kept["parent"].cast(pl.String).to_list(),
        "name": kept["name"].to_list() if names else kept["id"].cast(pl.String).to_list(),
        "seconds": _rounded(kept["seconds"].to_numpy()),
        "entries": kept["entries"].to_list(),
        "bytes": kept["bytes"].to_list(),
        "shown": kept.height,
        "total": table.height,
    }


def _per_directory(entries: pl.DataFrame, walked: MapWalk) -> pl.DataFrame:
    seconds = (
        pl.DataFrame({"id": walked.trace.directory_id, "seconds": walked.service_s + walked.trace.think_us * 1e-6})
        .group_by("id")
        .agg(pl.col("seconds").sum())
    )
    held = entries.group_by(id="parent_id").agg(entries=pl.len(), bytes=pl.col("size_bytes").sum())
    folders = entries.filter(pl.col("kind").cast(pl.String) == "directory").select(
        id="file_id", parent="parent_id", name="name"
    )
    table = held.join(folders, on="id", how="left").join(seconds, on="id", how="left")
    # Whose parent no entry names is a root: the volume's own directory.
    known = table["id"].implode()
    return table.unique("id", keep="first", maintain_order=True).with_columns(
        parent=pl.when(pl.col("parent").is_in(known) & (pl.col("parent") != pl.col("id"))).then(pl.col("parent")),
        name=pl.col("name").fill_null("/"),
        seconds=pl.col("seconds").fill_null(0.0),
    )


def _with_ancestors(kept: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    """Add what lies between the chosen directories and the root; each step goes one level up."""
    for _ in range(table.height):
        missing = kept.select(id="parent").drop_nulls().unique().join(kept, on="id", how="anti")
        if not missing.height:
            break
        kept = pl.concat([kept, table.join(missing, on="id", how="semi")])
    return kept.sort("id")
