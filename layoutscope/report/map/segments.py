"""From tables to segments: sorted stretches of disk, each of one class.

Nodes come first, then regions, file extents and free space; what nobody names is left out here and drawn as "used,
owner unknown" by the page, never as empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from layoutscope.report.map import classes
from layoutscope.tables import NULL_ROW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.report.map.classes import MapClass
    from layoutscope.tables import VolumeLayout


@dataclass(frozen=True, slots=True)
class Segments:
    """Stretches of disk in address order; all arrays have shape (n,).

    Attributes
    ----------
    start, length : int64 arrays
        Bytes from the start of the image.
    filled : int64 array
        Bytes of the stretch that really are of the class; less than `length` where stretches were merged.
    class_id : uint8 array
        Index into `classes`.
    node_row : uint32 array
        Row of the node, or of the first one, or NULL_ROW.
    classes : tuple of MapClass
        What the ids mean.
    """

    start: NDArray[np.int64]
    length: NDArray[np.int64]
    filled: NDArray[np.int64]
    class_id: NDArray[np.uint8]
    node_row: NDArray[np.uint32]
    classes: tuple[MapClass, ...]

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: NDArray[np.int64]) -> Segments:
        """Return chosen segments, in the order given."""
        return Segments(
            self.start[index],
            self.length[index],
            self.filled[index],
            self.class_id[index],
            self.node_row[index],
            self.classes,
        )


def from_layouts(layouts: list[VolumeLayout], device: int = 0) -> Segments:
    """Collect the segments of all layouts that share a disk."""
    frames = [frame for layout in layouts for frame in _layout_frames(layout, device)]
    table = pl.concat(frames) if frames else _frame(pl.DataFrame({"image_offset": [], "length_bytes": []}), "data")
    table = table.filter(pl.col("start").is_not_null() & (pl.col("length") > 0)).sort("start", "key")
    table = table.unique(["start", "length", "key"], keep="first", maintain_order=True)
    known = _known_classes(table["key"].unique().to_list())
    codes = {item.key: number for number, item in enumerate(known)}
    length = table["length"].to_numpy()
    return Segments(
        table["start"].to_numpy(),
        length,
        length.copy(),
        table["key"].replace_strict(codes, return_dtype=pl.UInt8).to_numpy() if len(table) else np.empty(0, np.uint8),
        table["node_row"].to_numpy(),
        known,
    )


def _known_classes(keys: list[str]) -> tuple[MapClass, ...]:
    """Order classes: trees, other metadata, data, unknown, free, as the legend shows them."""
    fixed = [
        classes.REGION,
        classes.DAMAGED,
        classes.FILE_DATA,
        classes.PENDING,
        classes.UNCLAIMED,
        classes.UNREAD,
        classes.FREE_SPACE,
    ]
    names = {item.key for item in fixed}
    trees = [classes.tree_class(key) for key in sorted(set(keys) - names)]
    return (*trees, *(item for item in fixed if item.key in keys or item is classes.UNCLAIMED))


def _layout_frames(layout: VolumeLayout, device: int) -> list[pl.DataFrame]:
    here = pl.col("device") == device
    nodes = layout.nodes.filter(here)
    fragmented = layout.node_fragments["node_row"].implode()
    whole = nodes.filter(~pl.col("row").is_in(fragmented))
    pieces = layout.node_fragments.filter(here).join(
        nodes.select("row", "tree", "valid"), left_on="node_row", right_on="row"
    )
    parts = [
        _nodes(whole.select("image_offset", "tree", "valid", length_bytes="size_bytes", node_row="row")),
        _nodes(pieces.select("image_offset", "tree", "valid", "length_bytes", "node_row")),
        _regions(layout.regions.filter(here)),
        _frame(layout.extents.filter(here), classes.FILE_DATA.key),
        _frame(layout.free.filter(here), classes.FREE_SPACE.key),
    ]
    return [part for part in parts if part.height]


def _nodes(table: pl.DataFrame) -> pl.DataFrame:
    damaged = pl.col("valid").cast(pl.String) == "no"
    key = pl.when(damaged).then(pl.lit(classes.DAMAGED.key)).otherwise(pl.col("tree").cast(pl.String))
    return _columns(table, key, pl.col("node_row").cast(pl.UInt32))


def _regions(table: pl.DataFrame) -> pl.DataFrame:
    kind = pl.col("type").cast(pl.String)
    key = pl.when(kind.is_in(classes.NOT_METADATA_REGIONS)).then(kind).otherwise(pl.lit(classes.REGION.key))
    return _columns(table, key, pl.lit(int(NULL_ROW), pl.UInt32))


def _frame(table: pl.DataFrame, key: str) -> pl.DataFrame:
    return _columns(table, pl.lit(key), pl.lit(int(NULL_ROW), pl.UInt32))


def _columns(table: pl.DataFrame, key: pl.Expr, node_row: pl.Expr) -> pl.DataFrame:
    return table.select(
        start=pl.col("image_offset").cast(pl.Int64),
        length=pl.col("length_bytes").cast(pl.Int64),
        key=key.cast(pl.String),
        node_row=node_row,
    )


def merge_touching(segments: Segments) -> Segments:
    """Join neighbours of one class that touch, except tree nodes, which stay apart."""
    if not len(segments):
        return segments
    joined = (
        (segments.class_id[1:] == segments.class_id[:-1])
        & (segments.start[1:] == segments.start[:-1] + segments.length[:-1])
        & (segments.node_row[1:] == NULL_ROW)
        & (segments.node_row[:-1] == NULL_ROW)
    )
    return _merge(segments, np.concatenate([[True], ~joined]))


def coalesce(segments: Segments, budget: int) -> Segments:
    """Merge neighbours of one class over growing gaps until no more than `budget` segments are left.

    Merged stretches keep how many of their bytes are filled, so that shares stay right.
    """
    gap = 0
    apart = _by_class(merge_touching(segments))
    while len(apart) > budget:
        gap = max(4096, gap * 4)
        distance = apart.start[1:] - (apart.start[:-1] + apart.length[:-1])
        near = (apart.class_id[1:] == apart.class_id[:-1]) & (distance <= gap)
        apart = _merge(apart, np.concatenate([[True], ~near]))
    return apart.take(np.argsort(apart.start, kind="stable"))


def _by_class(segments: Segments) -> Segments:
    return segments.take(np.lexsort((segments.start, segments.class_id)))


def _merge(segments: Segments, is_first: NDArray[np.bool_]) -> Segments:
    """Join each run that begins where `is_first` holds."""
    first = np.flatnonzero(is_first)
    ends = np.maximum.reduceat(segments.start + segments.length, first)
    return Segments(
        segments.start[first],
        ends - segments.start[first],
        np.add.reduceat(segments.filled, first),
        segments.class_id[first],
        segments.node_row[first],
        segments.classes,
    )
