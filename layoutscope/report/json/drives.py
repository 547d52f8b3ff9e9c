"""Drive profiles as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from layoutscope.units import NOTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.results.drives import DriveFacts


def drives_json(drives: Sequence[DriveFacts]) -> str:
    """Write profiles as JSON text."""
    return json.dumps({"schema": "layoutscope.drives/1", "drives": [_document(item) for item in drives]}, indent=2)


def _document(item: DriveFacts) -> dict[str, Any]:
    profile = item.profile
    return {
        "name": profile.name,
        "title": profile.title,
        "kind": profile.kind,
        "geometry": profile.geometry,
        "capacity_bytes": profile.capacity_bytes,
        "random_4k_ms": dict(zip(("p50", "p90", "p99"), item.random_ms, strict=True)),
        "sequential_mb_s": item.sequential_mb_s,
        "figures": {
            name: {"value": each.value, "kind": each.kind, "source": each.source}
            for name, each in profile.figures.items()
        },
        "members": [member.name for member in profile.members],
        "note": profile.note or NOTHING,
    }
