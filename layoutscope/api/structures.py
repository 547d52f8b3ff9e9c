"""From rows of tables to parsed structures with their addresses on the image."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from layoutscope.errors import FormatError
from layoutscope.results.inspect import FieldLine, StructureLines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.filesystems.apfs.container.plaintext import Plaintext
    from layoutscope.image import Source
    from layoutscope.ondisk.described import Described
    from layoutscope.tables import VolumeLayout

Row = dict[str, Any]
Piece = tuple[int, int]
"""Address on the image and length, in bytes."""

_LONGEST_REGION_BYTES: Final = 1 << 20
_LONGEST_VALUE: Final = 64


@dataclass(frozen=True, slots=True)
class View:
    """The bytes of a volume as its reader saw them: after the journal's replay, if that was asked for.

    Attributes
    ----------
    source : Source
        The image, or the volume alone.
    origin : int
        Where its address 0 lies on the image, in bytes.
    plaintext : Plaintext or None
        Decrypts nodes of an unlocked APFS volume.
    """

    source: Source
    origin: int
    plaintext: Plaintext | None = None

    def read(self, row: Row, piece: Piece) -> bytes:
        """Read a range of the image, from the device of a row; nodes of an unlocked tree are decrypted."""
        source = self.source.second if row["device"] and self.source.second is not None else self.source
        data = source.read(piece[0] - self.origin, piece[1])
        if self.plaintext is not None and row.get("tree") == "fs":
            return self.plaintext.of_node(data, row["device"], piece[0])
        return data


def view_of(source: Source, layout: VolumeLayout, *, replay_journal: bool, password: str | None = None) -> View:
    """Return the bytes of a volume as its reader saw them."""
    if layout.facts.filesystem == "apfs":
        return View(source, 0, _plaintext(source, layout, password))
    if not replay_journal:
        return View(source, 0)
    from layoutscope.filesystems.hfsplus.inspect import mounted

    start = layout.facts.image_offset
    try:
        return View(mounted(source, start, layout.facts.size_bytes), start)
    except FormatError:
        # Of a volume that only a sweep brought out, no journal was applied.
        return View(source, 0)


def _plaintext(source: Source, layout: VolumeLayout, password: str | None) -> Plaintext | None:
    facts = layout.facts
    if password is None or facts.volume is None or facts.details.get("locked"):
        return None
    from layoutscope.api.reading import second_half
    from layoutscope.filesystems.apfs.container.plaintext import plaintext_of

    second, start = second_half(source), facts.image_offset
    return plaintext_of(source, image_offset=start, volume_uuid=facts.uuid, password=password, second=second)


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
    from layoutscope.filesystems.apfs import inspect as apfs
    from layoutscope.filesystems.hfsplus import inspect as hfsplus

    prefix, pieces = f"{row['tree']}:{row['node_id']} ", node_pieces(layout, row)
    if row["kind"] == "locked":
        return [StructureLines(prefix + "node", pieces[0][0], (), "it is encrypted; the password shows what it holds")]
    data = b"".join(view.read(row, piece) for piece in pieces)
    module = hfsplus if layout.facts.filesystem == "hfsplus" else apfs
    found = module.describe_node(data, str(row["tree"]))
    if at is not None:
        place = node_offset(pieces, at)
        found = [part for number, part in enumerate(found) if number == 0 or part.start <= place < part.stop]
    if file_id is not None:
        found = [part for part in found[1:] if module.is_about(part, file_id)]
    return [lines(part, pieces, prefix) for part in found]


def region_structures(view: View, layout: VolumeLayout, row: Row) -> list[StructureLines]:
    """Parse a region, where it is one structure."""
    from layoutscope.filesystems.apfs import inspect as apfs
    from layoutscope.filesystems.hfsplus import inspect as hfsplus

    piece = (row["image_offset"], min(row["length_bytes"], _LONGEST_REGION_BYTES))
    data = view.read(row, piece)
    is_hfs = layout.facts.filesystem == "hfsplus"
    found = hfsplus.describe_region(data, str(row["type"])) if is_hfs else apfs.describe_region(data)
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
