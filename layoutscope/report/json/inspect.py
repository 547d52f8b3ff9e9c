"""An inspection as JSON, and the states that a container still has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.results.inspect import Inspection, StateLine


def inspection_document(found: Inspection) -> dict[str, Any]:
    """Build the document of an inspection; values are strings, since ids may have 64 bits."""
    return {
        "schema": "layoutscope.inspect/1",
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


def states_json(states: Sequence[StateLine]) -> str:
    """Write states as JSON text; xids as strings."""
    return json.dumps({"schema": "layoutscope.checkpoints/1", "states": [_state(item) for item in states]}, indent=2)


def _state(item: StateLine) -> dict[str, Any]:
    return {
        "container": item.container,
        "kind": item.kind,
        "label": item.label,
        "xid": str(item.xid),
        "volume": item.volume,
        "time_ns": str(item.time_ns),
        "is_complete": item.is_complete,
        "num_nodes": item.num_nodes,
        "num_sound_nodes": item.num_sound_nodes,
    }
