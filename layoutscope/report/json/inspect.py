"""An inspection as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from layoutscope.results.inspect import Inspection

SCHEMA: Final = "layoutscope.inspect/1"


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
