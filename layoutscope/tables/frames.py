"""Frames of results, with the meaning of their columns; documented and checked like the tables of a layout.

Times are in seconds. The sum over all rows of one volume and one drive is the predicted time: reads that belong to no
node, file or directory have a row of their own.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

from layoutscope.display import Displayed, Struct
from layoutscope.tables.columns import Rows
from layoutscope.tables.schema import Column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from layoutscope.frames import pl

_IN: Final = Column("volume", "String", "", "which volume: its layers and its name, its number where that is shared")
_ON: Final = Column("drive", "String", "", "drive profile")
_DIRECTORY: Final = Column("directory_id", "UInt64", "", "CNID or inode number of the directory; 0 for none")
_PATH: Final = Column("path", "String", "", "its path from the root of the volume")
_READS: Final = Column("reads", "UInt32", "count", "reads that reach the drive")
_SECONDS: Final = Column("seconds", "Float64", "s", "service time of its reads, and the host's time before them")
_METRIC: Final = (
    Column("subject", "String", "", "what was measured: a tree, metadata, files, free space or walk"),
    Column("metric", "String", "", "identifier of the metric"),
    Column("title", "String", "", "what reports call it"),
    Column("value", "Float64", "as `unit`", "the number; null where its denominator is empty"),
    Column("unit", "String", "", "unit of the value; a share is a number from 0 to 1"),
)

FRAMES: Final[dict[str, tuple[Column, ...]]] = {
    "metrics": (_IN, *_METRIC, Column("denominator", "String", "", "what the value is a share, mean or count of")),
    "times": (
        _IN,
        Column("order", "String", "", "what a program does on the volume"),
        Column("host", "String", "", "whose driver and library do it"),
        _ON,
        Column("seconds", "Float64", "s", "predicted time: the median of the simulations"),
        Column("seconds_low", "Float64", "s", "lower end of its interval; in a batch, of its quick interval"),
        Column("seconds_high", "Float64", "s", "upper end of its interval"),
        _READS,
        Column("read_bytes", "Int64", "bytes", "what they read"),
    ),
    "directories": (_IN, _ON, _DIRECTORY, _PATH, _READS, _SECONDS),
    "reads": (
        _IN,
        _ON,
        Column("read", "UInt32", "count", "place in the order in which reads reach the drive, from 0"),
        Column("device", "UInt8", "", "image of a Fusion set, 0 otherwise"),
        Column("image_offset", "Int64", "bytes", "start, from the start of the image"),
        Column("length_bytes", "Int64", "bytes", "length"),
        Column("cause", "String", "", "why the host reads this"),
        Column("tree", "String", "", "which tree is read, or data"),
        _DIRECTORY,
        Column("issuer", "UInt16", "", "number of the thread that asks"),
        Column("host_s", "Float64", "s", "host's time before the read; of the last one, what follows too"),
        Column("service_s", "Float64", "s", "service time"),
    ),
    "comparison": (
        Column("side", "String", "", "A, B and so on, as they were given"),
        Column("name", "String", "", "image of the side, with its volume if needed"),
        *_METRIC,
        Column("first_value", "Float64", "as `unit`", "the value of side A"),
        Column("difference", "Float64", "as `unit`", "the value less that of side A"),
        Column("ratio", "Float64", "", "the value over that of side A; null where that is 0"),
    ),
    "faults": (
        Column("volume", "String", "", "which volume: its layers and its name; empty outside of volumes"),
        Column("level", "String", "", "error, warning or info"),
        Column("code", "String", "", "identifier of the rule, see docs/reference/findings.md"),
        Column("structure", "String", "", "structure in the field's words"),
        Column("field", "String", "", "path of the field in it; empty where it is not known"),
        Column("device", "UInt8", "", "image of a set, 0 otherwise"),
        Column("image_offset", "Int64", "bytes", "start, from the start of the image; null where it has no place"),
        Column("message", "String", "", "one sentence"),
        Column("expected", "String", "", "what the format asks for"),
        Column("found", "String", "", "what is there"),
        Column(
            "cause",
            "String",
            "",
            "code and place of the finding that it follows from, or how many it may; empty in a cause",
        ),
    ),
    "node_costs": (
        Column("row", "UInt32", "row of nodes", "the node; null in the row of reads that hold none"),
        Column("tree", "String", "", "its tree"),
        Column("node_id", "UInt64", "", "node number or oid, by which its file system finds it"),
        Column("level", "UInt8", "", "0 at the leaf"),
        Column("image_offset", "Int64", "bytes", "start, from the start of the image"),
        Column("reads", "UInt32", "count", "reads that bring the node, or a part of it"),
        Column("files", "UInt32", "count", "files and directories that have a record in it"),
        _SECONDS,
    ),
    "file_costs": (
        Column("file_id", "UInt64", "", "CNID or inode number; null in rows that belong to no single file"),
        _PATH,
        Column("kind", "String", "", "file, directory and so on, as in the table of entries"),
        Column("nodes", "UInt32", "count", "nodes with its records that are read"),
        Column("seconds", "Float64", "s", "its part of the time of these nodes, and the reads of its data"),
    ),
    "remedies": (
        _IN,
        Column("order", "String", "", "the work that is to take less"),
        Column("host", "String", "", "whose driver and library do it"),
        _ON,
        Column("remedy", "String", "", "name of the remedy, and of its page in docs/remedies"),
        Column("kind", "String", "", "software, volume or hardware"),
        Column("seconds", "Float64", "s", "what the work would take; null where it does not apply"),
        Column("seconds_low", "Float64", "s", "lower end of its interval, of nine in ten drives like that"),
        Column("seconds_high", "Float64", "s", "upper end of its interval"),
        Column("saved_s", "Float64", "s", "what it saves, below 0 where it takes longer"),
        Column("saved_low_s", "Float64", "s", "lower end of what it saves, on the same drives"),
        Column("saved_high_s", "Float64", "s", "upper end of what it saves"),
        Column("share", "Float64", "", "share of the time that it saves"),
        Column("effort_s", "Float64", "s", "what the remedy itself takes, once; null if no model knows"),
        Column("helps", "Boolean", "", "whether it saves at least 5 %"),
        Column("why_not", "String", "", "why it does not apply; empty where it does"),
    ),
    "directory_costs": (_DIRECTORY, _PATH, _READS, _SECONDS),
}
"""Columns of each frame, in order."""

_SOURCE: Final = Column("source", "String", "", "which source: its row in batch")

FLEET_TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "batch": (
        Column("source", "String", "", "identifier of the source: the same for the same place"),
        Column("path", "String", "", "where it was found; bytes that are not UTF-8 are escaped"),
        Column("path_raw", "Binary", "", "the same, as the system has it"),
        Column("status", "String", "", "complete, damaged, locked, refused or failed"),
        Column("exit_code", "Int64", "", "what scan ends with"),
        Column("message", "String", "", "why it is not complete, in one line; else empty"),
        Column("capture", "String", "", "its capture, from the folder of the batch; null without one"),
        Column("identity", "String", "", "SHA-256 of names, sizes, times and ends of its files; null if unreadable"),
        Column("size_bytes", "Int64", "bytes", "length of its files"),
        Column("modify_time_ns", "Int64", "ns", "when the newest of its files was changed, since 1970, UTC"),
        Column("image_bytes", "Int64", "bytes", "length of the disk in it"),
        Column("read_bytes", "Int64", "bytes", "what was read of it"),
        Column("coverage", "Float64", "", "share of the known metadata that was read, 0 to 1; null where unknown"),
        Column("metadata_sha256", "String", "", "SHA-256 of the metadata in address order"),
        Column("made_by", "String", "", "program and version that read it"),
        Column("seconds", "Float64", "s", "what reading it took"),
        Column("peak_memory_bytes", "Int64", "bytes", "the most memory that its process had; null where unknown"),
    ),
    "volumes": (
        _SOURCE,
        Column("volume", "String", "", "which volume: its layers and its name, its number where that is shared"),
        Column("number", "UInt32", "", "its number on the image, from 1; null for a container's own"),
        Column("filesystem", "String", "", "what it is"),
        Column("variant", "String", "", "which kind of that"),
        Column("name", "String", "", "its name"),
        Column("uuid", "String", "", "its identifier"),
        Column("view", "String", "", "which of its states was read"),
        Column("image_offset", "Int64", "bytes", "start, from the start of the image"),
        Column("size_bytes", "Int64", "bytes", "length"),
        Column("block_size_bytes", "Int64", "bytes", "its allocation blocks"),
        Column("num_files", "Int64", "count", "files, as it says itself"),
        Column("num_directories", "Int64", "count", "directories, as it says itself"),
        Column("metadata_known_bytes", "Int64", "bytes", "metadata that there are"),
        Column("metadata_read_bytes", "Int64", "bytes", "metadata that were read"),
        Column("case_sensitive", "Boolean", "", "whether its names are"),
        Column("features", "String", "", "what else it is or has"),
    ),
    "metrics": (_SOURCE, *FRAMES["metrics"]),
    "predictions": (_SOURCE, *FRAMES["times"]),
    "findings": (_SOURCE, *FRAMES["faults"][:-1]),
}
"""Columns of each file ``TABLE.parquet`` in the folder of a batch, in order."""


def build_frame(name: str, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Make a frame from columns."""
    return Rows.under(FRAMES[name], columns).frame


class WalkCosts(Displayed, Struct, frozen=True):
    """The cost of a walk on one drive, by node, by file and by directory; each sums to the whole.

    A read is charged to the nodes that it returns, in proportion to their bytes. The files and directories with a
    record in a node share its cost equally; shared index nodes and maps belong to no file. A directory is charged with
    the reads that listing it caused.
    """

    drive: str  # name of the profile
    order: str  # name of the order
    seconds: float  # predicted time
    # nodes, files, directories: `node_costs`, `file_costs` and `directory_costs` of `FRAMES`, the most expensive first
    nodes: pl.DataFrame
    files: pl.DataFrame
    directories: pl.DataFrame


def parquet(frame: pl.DataFrame) -> memoryview:
    """Encode a table as Parquet in memory.

    Polars does not write the file itself because its errors name neither a full disk nor a closed pipe.
    """
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", statistics=True)
    return buffer.getbuffer()
