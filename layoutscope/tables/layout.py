"""VolumeLayout: one view of one volume as frozen tables.

The readers make it; metrics, walks, reports and captures see nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from layoutscope.tables.schema import OPTIONAL, TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from layoutscope.findings import Finding

NULL_ROW = np.uint32(2**32 - 1)
"""Marks "no row" in arrays of rows; :func:`build_table` turns it into null."""

NULL_OFFSET = np.int64(-1)
"""Marks "no address" in arrays of offsets; :func:`build_table` turns it into null."""


@dataclass(frozen=True, slots=True)
class TreeFacts:
    """One B-tree as its header declares it.

    Attributes
    ----------
    tree : str
        Name as in the tables.
    node_size_bytes : int
        Size of its nodes.
    height : int
        Levels, 0 for an empty tree.
    num_nodes, num_free_nodes, num_leaf_records : int
        As declared.
    root_node_id : int
        Node number or oid of the root, 0 for none.
    """

    tree: str
    node_size_bytes: int
    height: int
    num_nodes: int
    num_free_nodes: int
    num_leaf_records: int
    root_node_id: int


@dataclass(frozen=True, slots=True)
class VolumeFacts:
    """What a volume says of itself.

    Attributes
    ----------
    filesystem : str
        Name of the file system that read it.
    variant : str
        As people say: a label of the file system, of one of its variants, or of a container.
    volume : int or None
        Its number on the image.
    name, uuid : str
        Volume name and identifier.
    stack : tuple of str
        The layers around it, outermost first.
    image_offset, size_bytes, block_size_bytes : int
        Where the volume (or its container) lies, how large it is, and its block.
    case_sensitive : bool
        How names compare.
    stamp : int
        Number of this state, of what the file system counts: transactions, or times that the volume was written.
    num_files, num_directories : int
        As the superblock counts them.
    features : tuple of str
        Flags by their names.
    details : mapping
        Further facts in the order in which a report shows them.
    trees : tuple of TreeFacts
        B-trees as their headers declare them.
    view : str
        ``live``, ``xid N`` or ``snapshot NAME``.
    metadata_known_bytes, metadata_read_bytes : int
        Coverage: metadata that is known to exist, and the part of it that could be read.
    num_missing_entries : int
        Entries that must be there by what the volume says of itself, and are not: no fewer are lost.
    """

    filesystem: str
    variant: str
    volume: int | None
    name: str
    uuid: str
    stack: tuple[str, ...]
    image_offset: int
    size_bytes: int
    block_size_bytes: int
    case_sensitive: bool
    stamp: int
    num_files: int
    num_directories: int
    features: tuple[str, ...] = ()
    details: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    trees: tuple[TreeFacts, ...] = ()
    view: str = "live"
    metadata_known_bytes: int = 0
    metadata_read_bytes: int = 0
    num_missing_entries: int = 0


@dataclass(frozen=True, slots=True)
class VolumeLayout:
    """Tables of one view of one volume; columns as in :data:`layoutscope.tables.schema.TABLES`."""

    facts: VolumeFacts
    nodes: pl.DataFrame
    node_fragments: pl.DataFrame
    regions: pl.DataFrame
    extents: pl.DataFrame
    entries: pl.DataFrame
    free: pl.DataFrame
    findings: pl.DataFrame
    node_views: pl.DataFrame = field(default_factory=lambda: build_table("node_views", {}))

    def table(self, name: str) -> pl.DataFrame:
        """Return a table by its name.

        Raises
        ------
        KeyError
            If there is no such table.
        """
        if name not in TABLES:
            raise KeyError(name)
        frame: pl.DataFrame = getattr(self, name)
        return frame

    @property
    def coverage(self) -> float | None:
        """Share of its metadata that could be read, 0 to 1; None where that is unknown."""
        return coverage_of([self])

    @property
    def num_errors(self) -> int:
        """How many findings are errors."""
        return int((self.findings["level"] == "error").sum())


def coverage_of(layouts: Sequence[VolumeLayout], num_errors_outside: int = 0) -> float | None:
    """Say how much of what must be there was read, by the witness that says least.

    Parameters
    ----------
    layouts : sequence of VolumeLayout
        Volumes of an image.
    num_errors_outside : int
        Findings outside of them that are errors.

    Returns
    -------
    float or None
        The smaller of two shares: of the bytes of metadata that are known to exist, and of the entries that must be
        there. None where both say that all was read and an error says otherwise: then something is lost, and nothing is
        left that says how much.
    """
    facts = [layout.facts for layout in layouts]
    known, read = sum(item.metadata_known_bytes for item in facts), sum(item.metadata_read_bytes for item in facts)
    missing, found = sum(item.num_missing_entries for item in facts), sum(layout.entries.height for layout in layouts)
    share = min(read / known if known else 1.0, found / (found + missing) if missing else 1.0)
    is_contradicted = num_errors_outside + sum(layout.num_errors for layout in layouts) > 0
    return None if share >= 1 and is_contradicted else share


def build_table(name: str, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Make one public table from columns.

    Parameters
    ----------
    name : str
        Key of ``TABLES``.
    columns : mapping of str to array, polars Series, sequence or scalar
        Arrays of one length; a scalar fills its column. ``row`` may be left out and is then numbered; a missing
        optional column is null. :data:`NULL_ROW` in references and :data:`NULL_OFFSET` in ``image_offset`` become
        null. Categories may come as ``(codes, names)``.

    Raises
    ------
    ValueError
        If a column is unknown or missing, or lengths differ.
    """
    schema = TABLES[name]
    unknown = set(columns) - {column.name for column in schema}
    if unknown:
        raise ValueError(f"table {name} has no column {sorted(unknown)}")
    if not columns:
        return pl.DataFrame(schema={column.name: column.dtype for column in schema})
    height = _height(name, columns)
    return pl.DataFrame([_series(name, column, columns, height) for column in schema])


def _height(name: str, columns: Mapping[str, Any]) -> int:
    lengths = {
        key: len(value[0] if isinstance(value, tuple) else value)
        for key, value in columns.items()
        if _has_length(value)
    }
    if len(set(lengths.values())) != 1:
        raise ValueError(f"table {name}: columns of different lengths: {lengths}")
    return next(iter(lengths.values()))


def _has_length(value: Any) -> bool:
    return isinstance(value, pl.Series | np.ndarray | list | tuple)


def _series(table: str, column: Any, columns: Mapping[str, Any], height: int) -> pl.Series:
    if column.name not in columns:
        if column.name == "row":
            return pl.Series("row", np.arange(height, dtype=np.uint32))
        if column.name in OPTIONAL:
            return pl.Series(column.name, [None], dtype=column.dtype).new_from_index(0, height)
        raise ValueError(f"table {table} misses column {column.name!r}")
    value = columns[column.name]
    if isinstance(value, tuple):
        codes, names = value
        return _categories(column.name, np.asarray(codes), list(names))
    if not _has_length(value):
        return pl.Series(column.name, [value], dtype=column.dtype).new_from_index(0, height)
    return _with_nulls(pl.Series(column.name, value), column).cast(column.dtype)


def _categories(name: str, codes: np.ndarray[Any, Any], names: Sequence[str]) -> pl.Series:
    """Categories from codes: one gather, no string a row."""
    return pl.Series(name, names, dtype=pl.Categorical).gather(pl.Series(codes.astype(np.uint32)))


def _with_nulls(series: pl.Series, column: Any) -> pl.Series:
    if column.unit == "row of nodes" and series.dtype == pl.UInt32:
        return series.set(series == int(NULL_ROW), None)
    if column.name == "image_offset":
        return series.set((series < 0).fill_null(value=False), None)
    return series


def findings_table(findings: Sequence[Finding]) -> pl.DataFrame:
    """Make the findings table, in the order in which they were found."""
    return build_table(
        "findings",
        {
            "code": pl.Series([item.code for item in findings], dtype=pl.String),
            "level": pl.Series([item.level for item in findings], dtype=pl.String),
            "structure": pl.Series([item.structure for item in findings], dtype=pl.String),
            "device": pl.Series([item.device for item in findings], dtype=pl.UInt8),
            "image_offset": pl.Series([item.image_offset for item in findings], dtype=pl.Int64),
            "expected": pl.Series([item.expected for item in findings], dtype=pl.String),
            "found": pl.Series([item.found for item in findings], dtype=pl.String),
            "message": pl.Series([item.message for item in findings], dtype=pl.String),
        },
    )
