"""The tables of a batch: every column with its type, unit and meaning; keyed by ``source``."""

from __future__ import annotations

from typing import Final

from layoutscope.tables.frames import FRAMES
from layoutscope.tables.schema import Column

FLEET_FORMAT: Final = "layoutscope.batch/1"
"""Version of the tables and of the rows behind them."""

_SOURCE: Final = Column("source", "String", "", "which source: its row in batch")

FLEET_TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "batch": (
        Column("source", "String", "", "identifier of the source: the same for the same place"),
        Column("path", "String", "", "where it was found; bytes that are no UTF-8 are escaped"),
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


def plain_text(text: str) -> str:
    """Escape what is no UTF-8 in a path, or in a sentence that quotes one, so that tables take it."""
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # Half a pair of surrogates, as names on a disk may have.
        raw = text.encode("utf-8", "backslashreplace")
    return raw.decode("utf-8", "backslashreplace")
