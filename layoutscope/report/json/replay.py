"""A replay as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from layoutscope.report.json.scan import prediction_document

if TYPE_CHECKING:
    from layoutscope.results.replay import ReplayResult

SCHEMA: Final = "layoutscope.replay/1"


def replay_document(result: ReplayResult) -> dict[str, Any]:
    """Build the document of a replay."""
    found = result.agreement
    return {
        "schema": SCHEMA,
        "trace": result.trace,
        "reads": result.reads,
        "read_bytes": result.read_bytes,
        "times": [prediction_document(item) | dict(item.summary) for item in result.times],
        "expected": [prediction_document(item) | dict(item.summary) for item in result.expected],
        "agreement": None
        if found is None
        else {
            "block_bytes": found.block_bytes,
            "real_blocks": found.real_blocks,
            "predicted_blocks": found.predicted_blocks,
            "block_share": found.block_share,
            "extra_share": found.extra_share,
            "pair_share": found.pair_share,
            "missed": dict(found.missed),
            "extra": dict(found.extra),
        },
    }


def replay_json(result: ReplayResult) -> str:
    """Write the document of a replay as JSON text."""
    return json.dumps(replay_document(result), indent=2, allow_nan=False)
