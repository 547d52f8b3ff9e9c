"""Inspections as text and JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from layoutscope.report.escape import escape_text
from layoutscope.report.text.grid import plain_table
from layoutscope.report.text.scan import print_parts
from layoutscope.units import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from layoutscope.results.inspect import Inspection, StructureLines

SCHEMA: Final = "layoutscope.inspect/1"


def print_inspection(found: Inspection, console: Console) -> None:
    """Print who owns the place, then every structure field by field."""
    print_parts(_parts(found), console)


def _parts(found: Inspection) -> Iterator[RenderableType]:
    yield Text(f"{escape_text(found.image)}: {escape_text(found.subject)}", style="bold")
    for owner in found.owners:
        yield Text(
            f"{owner.what} at byte {owner.image_offset:,}, {owner.length_bytes:,} bytes, in {escape_text(owner.volume)}"
        )
        for name, value in owner.facts:
            yield Text(f"  {name}: {escape_text(value)}")
    for structure in found.structures:
        yield Text()
        yield _structure(structure)


def _structure(structure: StructureLines) -> RenderableType:
    columns = [("Field", False), ("Byte", True), ("Length", True), ("Value", False)]
    rows = [
        (
            field.path,
            NOTHING if field.image_offset is None else f"{field.image_offset:,}",
            f"{field.length_bytes:,}" if field.image_offset is not None else NOTHING,
            escape_text(field.value),
        )
        for field in structure.fields
    ]
    if structure.error:
        rows.append(("damaged", NOTHING, NOTHING, escape_text(structure.error)))
    return plain_table(f"{structure.title} at byte {structure.image_offset:,}", columns, rows)


def inspection_document(found: Inspection) -> dict[str, Any]:
    """Build the document of an inspection; values are strings, since ids may have 64 bits."""
    return {
        "schema": SCHEMA,
        "image": found.image,
        "subject": found.subject,
        "owners": [
            {
                "volume": owner.volume,
                "what": owner.what,
                "image_offset": owner.image_offset,
                "length_bytes": owner.length_bytes,
                "facts": dict(owner.facts),
            }
            for owner in found.owners
        ],
        "structures": [
            {
                "title": structure.title,
                "image_offset": structure.image_offset,
                "error": structure.error,
                "fields": [
                    {
                        "path": field.path,
                        "image_offset": field.image_offset,
                        "length_bytes": field.length_bytes,
                        "value": field.value,
                    }
                    for field in structure.fields
                ],
            }
            for structure in found.structures
        ],
    }


def inspect_json(found: Inspection) -> str:
    """Write the document of an inspection as JSON text; ASCII."""
    return json.dumps(inspection_document(found), indent=2)
