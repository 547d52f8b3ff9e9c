"""What stayed, moved, appeared and went between two states of one volume.

Nodes are told by tree and the number by which their file system finds them. Where that number is the address itself, as
of physical objects, nodes appear and go and never move. Addresses count from the start of the volume, so that a copy
elsewhere is alike.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import polars as pl

from layoutscope.errors import UsageError
from layoutscope.metrics.pieces import live_nodes, main_tree
from layoutscope.results.compare import ChangeRow, Changes, side_letters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.results.compare import Comparison
    from layoutscope.tables import VolumeLayout

CHANGE: Final = (
    pl.when(pl.col("later_offset").is_null())
    .then(pl.lit("went"))
    .when(pl.col("earlier_offset").is_null())
    .then(pl.lit("appeared"))
    .when((pl.col("earlier_offset") == pl.col("later_offset")) & (pl.col("device") == pl.col("device_later")))
    .then(pl.lit("stayed"))
    .otherwise(pl.lit("moved"))
)
"""What happened to something that has an address in one state, the other, or both."""


def layout_changes(earlier: VolumeLayout, later: VolumeLayout) -> Changes | None:
    """Follow nodes, entries and data from one state to another; None unless both are states of one volume.

    Images of one volume share its identifier; so do copies that went on apart.
    """
    if not earlier.facts.uuid or earlier.facts.uuid != later.facts.uuid:
        return None
    nodes = node_changes(earlier, later)
    rows = (*_tree_rows(nodes, main_tree(later)), _entry_row(earlier, later), _data_row(earlier, later))
    shown = nodes.filter(pl.col("change") != "stayed").select(
        "tree", "node_id", "level", "change", "earlier_offset", "later_offset"
    )
    return Changes(rows, shown.sort("tree", "node_id"))


def changed_nodes(found: Comparison) -> pl.DataFrame:
    """Put the nodes that did not stay into one table, with the letters of the sides.

    Raises
    ------
    UsageError
        If no two neighbouring sides are states of one volume.
    """
    letters = side_letters(len(found.names))
    frames = [
        change.nodes.select(pl.lit(earlier).alias("earlier"), pl.lit(later).alias("later"), pl.all())
        for (earlier, later), change in zip(pairwise(letters), found.changes, strict=True)
        if change is not None
    ]
    if not frames:
        raise UsageError("no two of these are states of one volume, so that no nodes can be followed")
    return pl.concat(frames)


def node_changes(earlier: VolumeLayout, later: VolumeLayout) -> pl.DataFrame:
    """Join the nodes in use of two states, and say of each what happened to it.

    Returns
    -------
    DataFrame
        ``tree, node_id, level, device, device_later, earlier_offset, later_offset, change``; offsets are bytes from the
        start of the volume.
    """
    joined = _placed(earlier, "earlier_offset").join(
        _placed(later, "later_offset"), on=("tree", "node_id"), how="full", coalesce=True, suffix="_later"
    )
    level = pl.coalesce("level_later", "level").alias("level")
    return joined.with_columns(level, change=CHANGE).drop("level_later")


def _placed(layout: VolumeLayout, name: str) -> pl.DataFrame:
    nodes = live_nodes(layout).filter(pl.col("state") == "live").unique(("tree", "node_id"), keep="first")
    offset = (pl.col("image_offset") - layout.facts.image_offset).alias(name)
    return nodes.select(pl.col("tree").cast(pl.String), "node_id", "level", "device", offset)


def _tree_rows(nodes: pl.DataFrame, main: str) -> Iterator[ChangeRow]:
    trees = nodes["tree"].unique().sort().to_list()
    for tree in (main, *(name for name in trees if name != main)):
        own = nodes.filter(pl.col("tree") == tree)
        moved = own.filter(pl.col("change") == "moved")
        distance = (moved["later_offset"] - moved["earlier_offset"]).abs().median()
        yield ChangeRow(f"nodes of {tree}", *_counts(own), distance if isinstance(distance, float) else None)


def _counts(changes: pl.DataFrame) -> tuple[int, int, int, int]:
    found = dict(changes["change"].value_counts().iter_rows())
    return found.get("stayed", 0), found.get("moved", 0), found.get("appeared", 0), found.get("went", 0)


def _entry_row(earlier: VolumeLayout, later: VolumeLayout) -> ChangeRow:
    """Count files and directories; one that another directory lists now has moved."""
    return ChangeRow("files and directories", *_counts(_followed(*map(_parents, (earlier, later)))))


def _parents(layout: VolumeLayout) -> pl.DataFrame:
    return layout.entries.group_by("file_id").agg(state=pl.col("parent_id").min())


def _data_row(earlier: VolumeLayout, later: VolumeLayout) -> ChangeRow:
    """Count the files that have data on disk; one whose extents are not the same has moved."""
    return ChangeRow("files' data", *_counts(_followed(*map(_data, (earlier, later)))))


def _data(layout: VolumeLayout) -> pl.DataFrame:
    extents = layout.extents.filter((pl.col("fork") == "data") & pl.col("image_offset").is_not_null())
    place = pl.struct("logical_offset", pl.col("image_offset") - layout.facts.image_offset, "length_bytes", "device")
    return extents.group_by("file_id").agg(state=place.hash().sort().implode().hash().first())


def _followed(earlier: pl.DataFrame, later: pl.DataFrame) -> pl.DataFrame:
    joined = earlier.join(later, on="file_id", how="full", coalesce=True, suffix="_later")
    change = (
        pl.when(pl.col("state_later").is_null())
        .then(pl.lit("went"))
        .when(pl.col("state").is_null())
        .then(pl.lit("appeared"))
        .when(pl.col("state") == pl.col("state_later"))
        .then(pl.lit("stayed"))
        .otherwise(pl.lit("moved"))
    )
    return joined.with_columns(change=change)
