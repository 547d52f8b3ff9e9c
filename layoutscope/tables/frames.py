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

_IN: Final = Column("volume", "String", "", "volume: layers and name, with its number if several have the same name")
_ON: Final = Column("drive", "String", "", "drive profile")
_DIRECTORY: Final = Column("directory_id", "UInt64", "", "CNID or inode number of the directory; 0 for none")
_PATH: Final = Column("path", "String", "", "path from the root of the volume")
_READS: Final = Column("reads", "UInt32", "count", "reads that reach the drive")
_SECONDS: Final = Column("seconds", "Float64", "s", "service time of the reads, and the time of the host before them")
_METRIC: Final = (
    Column("subject", "String", "", "measured subject: a tree, metadata, files, free space or walk"),
    Column("metric", "String", "", "identifier of the metric"),
    Column("title", "String", "", "title in reports"),
    Column("value", "Float64", "as `unit`", "the number; null where its denominator is empty"),
    Column("unit", "String", "", "unit of the value; a share is a number from 0 to 1"),
)

FRAMES: Final[dict[str, tuple[Column, ...]]] = {
    "metrics": (_IN, *_METRIC, Column("denominator", "String", "", "what the value is a share, mean or count of")),
    "times": (
        _IN,
        Column("order", "String", "", "what a program does on the volume"),
        Column("host", "String", "", "modelled operating system"),
        _ON,
        Column("seconds", "Float64", "s", "predicted time: the median of the simulations"),
        Column("seconds_low", "Float64", "s", "lower end of the 90 % range; in a batch, of the quick interval"),
        Column("seconds_high", "Float64", "s", "upper end of the 90 % range"),
        _READS,
        Column("read_bytes", "Int64", "bytes", "bytes that these reads return"),
    ),
    "directories": (_IN, _ON, _DIRECTORY, _PATH, _READS, _SECONDS),
    "reads": (
        _IN,
        _ON,
        Column("read", "UInt32", "count", "number of the read, in the order in which reads reach the drive, from 0"),
        Column("device", "UInt8", "", "image of a Fusion set, 0 otherwise"),
        Column("image_offset", "Int64", "bytes", "start, from the start of the image"),
        Column("length_bytes", "Int64", "bytes", "length"),
        Column("cause", "String", "", "reason for the read"),
        Column("tree", "String", "", "tree that is read, or data"),
        _DIRECTORY,
        Column("issuer", "UInt16", "", "number of the thread that issues the read"),
        Column("host_s", "Float64", "s", "time of the host before the read, and after the last one"),
        Column("service_s", "Float64", "s", "service time"),
    ),
    "comparison": (
        Column("side", "String", "", "A, B and so on, in the order of the command"),
        Column("name", "String", "", "image of the side, with its volume if needed"),
        *_METRIC,
        Column("first_value", "Float64", "as `unit`", "the value of side A"),
        Column("difference", "Float64", "as `unit`", "difference to the value of side A"),
        Column("ratio", "Float64", "", "ratio to the value of side A; null if that is 0"),
    ),
    "faults": (
        Column("volume", "String", "", "volume: its layers and name; empty outside of volumes"),
        Column("level", "String", "", "error, warning or info"),
        Column("code", "String", "", "identifier of the rule, see docs/reference/findings.md"),
        Column("structure", "String", "", "structure, in the terms of the format"),
        Column("field", "String", "", "path of the field in the structure; empty if unknown"),
        Column("device", "UInt8", "", "image of a set, 0 otherwise"),
        Column("image_offset", "Int64", "bytes", "start, from the start of the image; null without a place"),
        Column("message", "String", "", "one sentence"),
        Column("expected", "String", "", "value that the format requires"),
        Column("found", "String", "", "value on the disk"),
        Column(
            "cause",
            "String",
            "",
            "code and place of the finding that caused it, or the number of possible causes; empty in a cause",
        ),
    ),
    "node_costs": (
        Column("row", "UInt32", "row of nodes", "the node; null in the row of reads without a node"),
        Column("tree", "String", "", "its tree"),
        Column("node_id", "UInt64", "", "node number or oid"),
        Column("level", "UInt8", "", "0 at the leaf"),
        Column("image_offset", "Int64", "bytes", "start, from the start of the image"),
        Column("reads", "UInt32", "count", "reads that return the node, or a part of it"),
        Column("files", "UInt32", "count", "files and directories that have a record in it"),
        _SECONDS,
    ),
    "file_costs": (
        Column("file_id", "UInt64", "", "CNID or inode number; null in rows that belong to no single file"),
        _PATH,
        Column("kind", "String", "", "file, directory and so on, as in the table of entries"),
        Column("nodes", "UInt32", "count", "nodes with its records that are read"),
        Column("seconds", "Float64", "s", "its share of the time of these nodes, and the reads of its data"),
    ),
    "remedies": (
        _IN,
        Column("order", "String", "", "workload to make faster"),
        Column("host", "String", "", "modelled operating system"),
        _ON,
        Column("remedy", "String", "", "name of the remedy, and of its section in docs/remedies.md"),
        Column("kind", "String", "", "software, volume or hardware"),
        Column("seconds", "Float64", "s", "time of the workload with the remedy; null if it does not apply"),
        Column("seconds_low", "Float64", "s", "lower end of the 90 % range"),
        Column("seconds_high", "Float64", "s", "upper end of the 90 % range"),
        Column("saved_s", "Float64", "s", "saved time; below 0 if the workload takes longer"),
        Column("saved_low_s", "Float64", "s", "lower end of the saved time, on the same drives"),
        Column("saved_high_s", "Float64", "s", "upper end of the saved time"),
        Column("share", "Float64", "", "share of the time that is saved"),
        Column("effort_s", "Float64", "s", "one-time cost of the remedy; null if it is not modelled"),
        Column("helps", "Boolean", "", "whether it saves at least 5 %"),
        Column("why_not", "String", "", "reason why it does not apply; empty if it does"),
    ),
    "directory_costs": (_DIRECTORY, _PATH, _READS, _SECONDS),
}
"""Columns of each frame, in order."""

_SOURCE: Final = Column("source", "String", "", "source, as in the table batch")

FLEET_TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "batch": (
        Column("source", "String", "", "identifier of the source, always the same for the same path"),
        Column("path", "String", "", "path of the source; bytes that are not UTF-8 are escaped"),
        Column("path_raw", "Binary", "", "path of the source, unescaped"),
        Column("status", "String", "", "complete, damaged, locked, refused or failed"),
        Column("exit_code", "Int64", "", "exit code of a scan"),
        Column("message", "String", "", "reason why the source is not complete, in one line; empty if it is"),
        Column("capture", "String", "", "path of its capture in the folder of the batch; null without one"),
        Column("identity", "String", "", "SHA-256 of names, sizes, times and ends of its files; null if unreadable"),
        Column("size_bytes", "Int64", "bytes", "size of its files"),
        Column("modify_time_ns", "Int64", "ns", "time of the last change of its files, since 1970, UTC"),
        Column("image_bytes", "Int64", "bytes", "size of the disk in it"),
        Column("read_bytes", "Int64", "bytes", "bytes that were read from it"),
        Column("coverage", "Float64", "", "share of the known metadata that was read, 0 to 1; null where unknown"),
        Column("metadata_sha256", "String", "", "SHA-256 of the metadata in address order"),
        Column("made_by", "String", "", "program and version that read it"),
        Column("seconds", "Float64", "s", "time to read it"),
        Column("peak_memory_bytes", "Int64", "bytes", "peak memory of its process; null if unknown"),
    ),
    "volumes": (
        _SOURCE,
        Column("volume", "String", "", "volume: layers and name, with its number if several have the same name"),
        Column("number", "UInt32", "", "its number on the image, from 1; null for a container's own"),
        Column("filesystem", "String", "", "file system"),
        Column("variant", "String", "", "variant of the file system"),
        Column("name", "String", "", "name of the volume"),
        Column("uuid", "String", "", "identifier of the volume"),
        Column("view", "String", "", "state of the volume: live, an xid, or a snapshot"),
        Column("image_offset", "Int64", "bytes", "start, from the start of the image"),
        Column("size_bytes", "Int64", "bytes", "size of the volume"),
        Column("block_size_bytes", "Int64", "bytes", "size of an allocation block"),
        Column("num_files", "Int64", "count", "files, by the volume's count"),
        Column("num_directories", "Int64", "count", "directories, by the volume's count"),
        Column("metadata_known_bytes", "Int64", "bytes", "metadata that is known to exist"),
        Column("metadata_read_bytes", "Int64", "bytes", "metadata that was read"),
        Column("case_sensitive", "Boolean", "", "whether names are case-sensitive"),
        Column("features", "String", "", "further features of the volume"),
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
    """Encode a table as Parquet in memory."""
    # Polars does not write the file itself because its errors name neither a full disk nor a closed pipe.
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", statistics=True)
    return buffer.getbuffer()
