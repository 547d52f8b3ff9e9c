"""Whether tables that come from a file, not from a reader, hold what everything right of them relies on.

A capture may be damaged, or made by somebody who means harm: its columns are checked against the schema, its numbers
for their range, its references for what they refer to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from layoutscope.tables.schema import OPTIONAL, TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAX_ROWS_A_BYTE: Final = 64
"""No table of a real volume packs more rows into a byte of its file; one that does is made to fill the memory."""

MAX_ADDRESS: Final = 2**62
REFERENCE: Final = "row of nodes"

NULLABLE: Final = OPTIONAL | {
    "volume", "level", "num_records", "used_bytes", "free_bytes", "key_rank", "first_key_id", "last_key_id",
    "name", "name_raw", "create_time", "modify_time", "size_bytes", "link_count", "entry_rank",
    "expected", "found", "owner",
}  # fmt: skip
"""Columns that may be null, besides references."""

WORDS: Final[dict[tuple[str, str], frozenset[str]]] = {
    ("nodes", "kind"): frozenset({"leaf", "index", "header", "map", "free", "locked"}),
    ("nodes", "state"): frozenset({"live", "snapshot", "stale"}),
    ("nodes", "valid"): frozenset({"checksum", "child-hash", "structure", "no"}),
    ("findings", "level"): frozenset({"info", "warning", "error"}),
}
"""Columns that hold certain words alone."""


def read_table(path: Path, name: str) -> pl.DataFrame:
    """Read a table and check what can be told from it alone.

    Raises
    ------
    ValueError
        If it contradicts the schema.
    """
    rows = int(pl.scan_parquet(path).select(pl.len()).collect().item())
    if rows > path.stat().st_size * MAX_ROWS_A_BYTE:
        raise ValueError(f"{name} claims {rows:,} rows in {path.stat().st_size:,} bytes")
    frame = pl.read_parquet(path)
    if dict(frame.schema) != {column.name: column.dtype for column in TABLES[name]}:
        raise ValueError(f"the columns of {name} are not those of this version")
    _check_rows(name, frame)
    _check_nulls(name, frame)
    _check_ranges(name, frame)
    _check_words(name, frame)
    return frame


def _check_rows(name: str, frame: pl.DataFrame) -> None:
    if "row" in frame.columns and not (frame["row"] == pl.int_range(frame.height, dtype=pl.UInt32, eager=True)).all():
        raise ValueError(f"the rows of {name} are not numbered from 0")


def _check_nulls(name: str, frame: pl.DataFrame) -> None:
    for column in TABLES[name]:
        may_be_null = column.name in NULLABLE or column.unit == REFERENCE or name in ("findings", "extents")
        may_be_null &= (name, column.name) not in {("node_fragments", "node_row"), ("node_views", "node_row")}
        if not may_be_null and frame[column.name].null_count():
            raise ValueError(f"{name}.{column.name} has nulls")


def _check_ranges(name: str, frame: pl.DataFrame) -> None:
    length = "length_bytes" if "length_bytes" in frame.columns else "size_bytes"
    for column in ("image_offset", "length_bytes", "logical_offset"):
        if column in frame.columns and not frame[column].drop_nulls().is_between(0, MAX_ADDRESS).all():
            raise ValueError(f"{name}.{column} is negative or beyond every disk")
    if "image_offset" in frame.columns and length in frame.columns:
        if frame[length].null_count() or not frame[length].is_between(0, MAX_ADDRESS).all():
            raise ValueError(f"{name}.{length} is negative or beyond every disk")
        if not (frame["image_offset"] + frame[length]).drop_nulls().is_between(0, MAX_ADDRESS).all():
            raise ValueError(f"{name} has pieces that end beyond every disk")


def _check_words(name: str, frame: pl.DataFrame) -> None:
    for (table, column), words in WORDS.items():
        found = set(frame[column].unique().cast(pl.String)) if table == name else set()
        if not found <= words:
            raise ValueError(f"{name}.{column} has the unknown word {min(map(str, found - words))!r:.40}")


def check_references(tables: Mapping[str, pl.DataFrame]) -> None:
    """Check that every reference leads to a node, and every parent lies above its child.

    Raises
    ------
    ValueError
        If one does not.
    """
    nodes = tables["nodes"]
    for name, columns in TABLES.items():
        for column in columns:
            if column.unit == REFERENCE and (tables[name][column.name] >= nodes.height).any():
                raise ValueError(f"{name}.{column.name} refers to nodes that are not there")
    parent = nodes["parent_row"].drop_nulls()
    child_level = nodes.filter(pl.col("parent_row").is_not_null())["level"]
    if not (nodes["level"].gather(parent) > child_level).all():
        raise ValueError("a node's parent does not lie above it")


def check_values(what: str, values: Mapping[str, Any], types: Mapping[str, type | tuple[type, ...]]) -> None:
    """Check the members of a JSON object: those that are asked for and no others, each of its type.

    Parameters
    ----------
    what : str
        What the object describes.
    values : mapping
        The object.
    types : mapping of str to type or tuple of types
        Its members.

    Raises
    ------
    ValueError
        If one differs.
    """
    if not isinstance(values, dict) or set(values) != set(types):
        raise ValueError(f"{what} has not the members of this version")
    for name, kind in types.items():
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(values[name], kinds) or (isinstance(values[name], bool) and bool not in kinds):
            raise ValueError(f"{what}.{name} is of the wrong type")
        if isinstance(values[name], int) and not 0 <= values[name] < 2**64:
            raise ValueError(f"{what}.{name} is negative or too large")
