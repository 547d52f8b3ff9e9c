"""Whom the time of a walk belongs to: nodes, the files with records in them, and directories.

A read brings whole pages of the host's cache, and with read-ahead many at once: it is shared by all live nodes and file
data in it, in proportion to their bytes, whether the walk asked for them or not. That is what their being there costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.access.paths import Paths
from layoutscope.analysis.files import with_paths
from layoutscope.analysis.frames import cost_of_directories, read_seconds
from layoutscope.arrays.ragged import owners, ranges
from layoutscope.frames import pl
from layoutscope.metrics.pieces import live_nodes
from layoutscope.tables.frames import WalkCosts, build_frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.results.scan import Prediction
    from layoutscope.tables import Table, VolumeLayout

DEVICE_BIT: Final = 56
"""Addresses of the second device of a set are told from those of the first by a bit that no address has."""

RECORDS: Final = ("entry_node_row", "inode_node_row", "thread_node_row", "xattr_node_row", "dstream_node_row")
"""Columns of entries that name nodes with records of the entry."""


def costs_of(layout: VolumeLayout, reads: AccessTrace, prediction: Prediction, order: str) -> WalkCosts:
    """Charge a walk to whom it belongs."""
    seconds = read_seconds(reads, prediction.service_s)
    shares = _shares(layout, reads, seconds)
    records = _records(layout)
    nodes = _nodes(layout, shares, records, prediction.seconds)
    files = _files(layout, shares, records, nodes, prediction.seconds)
    directories = build_frame("directory_costs", cost_of_directories(Paths(layout), reads, seconds))
    return WalkCosts(prediction.drive, order, prediction.seconds, nodes, files, directories)


class _Pieces(NamedTuple):
    """Runs of bytes that belong to somebody; arrays of shape (n,), in address order.

    `owner` is a row of the table of nodes, or, where `is_data`, a place in the table of extents.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    owner: NDArray[np.int64]
    is_data: NDArray[np.bool_]


class _Shares(NamedTuple):
    """Parts of reads: which piece each brings, and the seconds that this costs; arrays of shape (n,)."""

    owner: NDArray[np.int64]
    is_data: NDArray[np.bool_]
    seconds: NDArray[np.float64]


def _pieces(layout: VolumeLayout) -> _Pieces:
    nodes, fragments, extents = live_nodes(layout), layout.columns("node_fragments"), layout.columns("extents")
    row, owner = nodes["row"].data, fragments["node_row"].data
    whole, split = nodes.take(~np.isin(row, owner)), fragments.take(np.isin(owner, row))
    # Where trees lie in files of their own, these have extents and no entries; their nodes are counted as nodes.
    is_file = np.isin(extents["file_id"].data, layout.columns("entries")["file_id"].data)
    places = np.flatnonzero(extents["image_offset"].is_known & is_file)
    data = extents.take(places)
    parts = [
        (*_edges(whole, "size_bytes"), whole["row"].data.astype(np.int64), np.zeros(len(whole), np.bool_)),
        (*_edges(split, "length_bytes"), split["node_row"].data.astype(np.int64), np.zeros(len(split), np.bool_)),
        (*_edges(data, "length_bytes"), places, np.ones(len(data), np.bool_)),
    ]
    start, stop, whose, is_data = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(start, kind="stable")
    return _Pieces(start[order], stop[order], whose[order], is_data[order])


def _edges(table: Table, length: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    start = _address(table["image_offset"].signed(), table["device"].filled(0))
    return start, start + table[length].signed()


def _address(offset: NDArray[np.int64], device: NDArray[Any]) -> NDArray[np.int64]:
    found: NDArray[np.int64] = offset + (device.astype(np.int64) << DEVICE_BIT)
    return found


def _shares(layout: VolumeLayout, reads: AccessTrace, seconds: NDArray[np.float64]) -> _Shares:
    """Share each read among the pieces in it, by their bytes."""
    pieces = _pieces(layout)
    start = _address(reads.image_offset, reads.device)
    stop = start + reads.length_bytes
    # Pieces of a sound volume do not overlap; of a damaged one a long piece may reach over later ones, of which the
    # furthest end so far knows.
    first = np.searchsorted(np.maximum.accumulate(pieces.stop), start, "right")
    counts = np.maximum(np.searchsorted(pieces.start, stop, "left") - first, 0)
    read, piece = owners(counts), ranges(first, counts)
    held = np.minimum(stop[read], pieces.stop[piece]) - np.maximum(start[read], pieces.start[piece])
    read, piece, held = (values[held > 0] for values in (read, piece, held))
    total = np.bincount(read, held, minlength=len(reads))
    return _Shares(pieces.owner[piece], pieces.is_data[piece], seconds[read] * held / total[read])


def _records(layout: VolumeLayout) -> pl.DataFrame:
    """List which entry has records in which node, each pair once: ``node_row, entry``."""
    entries = layout.entries.select(pl.col("row").alias("entry"), *RECORDS)
    pairs = entries.unpivot(list(RECORDS), index="entry", value_name="node_row").drop_nulls("node_row")
    return pairs.select("node_row", "entry").unique()


def _nodes(layout: VolumeLayout, shares: _Shares, records: pl.DataFrame, seconds: float) -> pl.DataFrame:
    """Sum the shares of nodes up; what no node is charged with is the last row."""
    charged = pl.DataFrame({"row": shares.owner[~shares.is_data], "seconds": shares.seconds[~shares.is_data]})
    costs = charged.group_by("row").agg(pl.len().alias("reads"), pl.col("seconds").sum()).cast({"row": pl.UInt32})
    files = records.group_by("node_row").agg(pl.len().alias("files"))
    about = layout.nodes.select("row", "tree", "node_id", "level", "image_offset")
    found = costs.join(about, on="row", how="left").join(files, left_on="row", right_on="node_row", how="left")
    found = found.with_columns(pl.col("files").fill_null(0)).sort("seconds", "row", descending=[True, False])
    return _with_rest("node_costs", found, seconds)


def _files(
    layout: VolumeLayout, shares: _Shares, records: pl.DataFrame, nodes: pl.DataFrame, seconds: float
) -> pl.DataFrame:
    """Share what nodes cost among the entries in them, and charge files with the reads of their data."""
    costs = nodes.select(node_row="row", each=pl.col("seconds") / pl.col("files"))
    charged = records.join(costs, on="node_row").group_by("entry")
    by_entry = charged.agg(pl.len().alias("nodes"), pl.col("each").sum().alias("seconds"))
    about = with_paths(layout).select("row", "file_id", "path", "kind")
    named = by_entry.join(about, left_on="entry", right_on="row", how="left")
    owner = layout.extents["file_id"].gather(shares.owner[shares.is_data])
    data = pl.DataFrame({"file_id": owner, "data": shares.seconds[shares.is_data]}).group_by("file_id").sum()
    # Hard links are several entries of one file: the first has its data.
    first = about.unique("file_id", keep="first").select("file_id", entry="row")
    with_data = data.join(first, on="file_id", how="left")
    found = named.join(with_data.drop_nulls("entry").select("entry", "data"), on="entry", how="left")
    alone = with_data.join(by_entry.select("entry"), on="entry", how="anti").join(
        about.drop("file_id"), left_on="entry", right_on="row", how="left"
    )
    found = found.with_columns(pl.col("seconds") + pl.col("data").fill_null(0.0))
    alone = alone.with_columns(nodes=pl.lit(0), seconds="data")
    columns = ["file_id", "path", "kind", "nodes", "seconds"]
    both = pl.concat([part.select(columns).cast({"nodes": pl.UInt32, "kind": pl.String}) for part in (found, alone)])
    return _with_rest("file_costs", both.sort("seconds", "file_id", descending=[True, False]), seconds)


def _with_rest(name: str, found: pl.DataFrame, seconds: float) -> pl.DataFrame:
    """Add a row of what nobody in particular is charged with, so that the sum is the whole."""
    rest = seconds - float(found["seconds"].sum())
    last = pl.DataFrame({column: [rest if column == "seconds" else None] for column in found.columns}, found.schema)
    # Sums of many shares differ from the whole by rounding.
    both = pl.concat([found, last]) if abs(rest) > 1e-9 * max(seconds, 1.0) else found
    return build_frame(name, {column: both[column] for column in both.columns})
