"""From rows of tables to parsed structures with their addresses on the image."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

import polars as pl

from layoutscope.results.inspect import FieldLine, StructureLines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.filesystems.contract import Piece, Row, View
    from layoutscope.ondisk.described import Described
    from layoutscope.tables import VolumeLayout


_LONGEST_REGION_BYTES: Final = 1 << 20
_LONGEST_VALUE: Final = 64


def node_structures(
    view: View, layout: VolumeLayout, row: Row, *, at: int | None = None, file_id: int | None = None
) -> list[StructureLines]:
    """Parse a node.

    Parameters
    ----------
    view : View
        The bytes of the volume.
    layout : VolumeLayout
        Its tables.
    row : dict
        Row of the table of nodes.
    at : int, optional
        Only the node's head and what lies at this byte of the image.
    file_id : int, optional
        Only the records of this file.
    """
    prefix, pieces = f"{row['tree']}:{row['node_id']} ", node_pieces(layout, row)
    if row["kind"] == "locked":
        return [StructureLines(prefix + "node", pieces[0][0], (), "it is encrypted; the password shows what it holds")]
    data = b"".join(view.read(row, piece) for piece in pieces)
    found = view.describe_node(data, str(row["tree"]))
    if at is not None:
        place = node_offset(pieces, at)
        found = [part for number, part in enumerate(found) if number == 0 or part.start <= place < part.stop]
    if file_id is not None:
        found = [part for part in found[1:] if view.is_about(part, file_id)]
    return [lines(part, pieces, prefix) for part in found]


def region_structures(view: View, row: Row) -> list[StructureLines]:
    """Parse a region, where it is one structure."""
    piece = (row["image_offset"], min(row["length_bytes"], _LONGEST_REGION_BYTES))
    found = view.describe_region(view.read(row, piece), str(row["type"]))
    return [lines(part, [piece], "") for part in found]


def node_pieces(layout: VolumeLayout, row: Row) -> list[Piece]:
    """List where the parts of a node lie, in the node's order."""
    parts = layout.node_fragments.filter(pl.col("node_row") == row["row"]).select("image_offset", "length_bytes")
    return list(parts.iter_rows()) or [(row["image_offset"], row["size_bytes"])]


def node_offset(pieces: Sequence[Piece], at: int) -> int:
    """Turn an address on the image into one from the start of a node in pieces."""
    before = 0
    for start, length in pieces:
        if start <= at < start + length:
            return before + at - start
        before += length
    return -1


def image_offset(pieces: Sequence[Piece], offset: int) -> int:
    """Turn an address from the start of a node in pieces into one on the image."""
    for start, length in pieces:
        if offset < length:
            return start + offset
        offset -= length
    return pieces[-1][0] + pieces[-1][1] + offset


def lines(part: Described, pieces: Sequence[Piece], prefix: str) -> StructureLines:
    """Turn a described structure into lines with addresses on the image."""
    fields = tuple(
        FieldLine(
            field.path,
            None if field.image_offset is None else image_offset(pieces, field.image_offset),
            field.length_bytes,
            shown(field.value),
        )
        for field in part.fields
    )
    return StructureLines(prefix + part.title, image_offset(pieces, part.start), fields, part.error)


def shown(value: object) -> str:
    """Write a value for people: enums by name, bytes as hexadecimal, long ones cut."""
    if isinstance(value, Enum):
        return f"{value.value} ({value.name})"
    if isinstance(value, bytes):
        more = f"… ({len(value):,} bytes)" if len(value) > _LONGEST_VALUE else ""
        return value[:_LONGEST_VALUE].hex() + more
    return str(value)
