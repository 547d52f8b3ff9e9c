"""An inspection as JSON, and the states that a container still has."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from layoutscope.results.inspect import Inspection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.results.inspect import StateLine


def inspection_document(found: Inspection) -> dict[str, Any]:
    """Build the document of an inspection; values are strings, since ids may have 64 bits."""
    return {
        "schema": "layoutscope.inspect/1",
        "image": found.image,
        "subject": found.subject,
        "owners": [{**asdict(owner), "facts": dict(owner.facts)} for owner in found.owners],
        "structures": [
            {
                "title": structure.title,
                "image_offset": structure.image_offset,
                "error": structure.error,
                "fields": [asdict(field) for field in structure.fields],
            }
            for structure in found.structures
        ],
    }


def states_json(states: Sequence[StateLine]) -> str:
    """Write states as JSON text; xids as strings."""
    return json.dumps({"schema": "layoutscope.checkpoints/1", "states": [_state(item) for item in states]}, indent=2)


def _state(item: StateLine) -> dict[str, Any]:
    return {**asdict(item), "xid": str(item.xid), "time_ns": str(item.time_ns)}


DOCUMENTS: Final = {Inspection: inspection_document}
"""Makers of the documents of these results, by their kind."""
