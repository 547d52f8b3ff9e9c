"""States of a container as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.results.checkpoints import StateLine


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
