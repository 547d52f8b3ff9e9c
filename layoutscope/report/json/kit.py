"""A Mac's kit as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from layoutscope.report.json.predict import replay_document
from layoutscope.results.kit import KitResult

if TYPE_CHECKING:
    from layoutscope.results.kit import KitWalk


def validate_document(result: KitResult) -> dict[str, Any]:
    """Build the document of a scored kit."""
    return {
        "schema": "layoutscope.validate/1",
        "kit": result.name,
        "machine": {**asdict(result.machine), "cache_sizes": dict(result.machine.cache_sizes)},
        "filesystem": result.filesystem,
        "profile": result.profile,
        "walks": [_walk(walk) for walk in result.walks],
        "policy": None if result.policy is None else asdict(result.policy),
        "missing": [{"step": step, "note": note} for step, note in result.missing],
    }


def _walk(walk: KitWalk) -> dict[str, Any]:
    return {
        "name": walk.name,
        "order": walk.order,
        "why_not": walk.why_not,
        "real_s": walk.real_s,
        "cpu_s": walk.cpu_s,
        "entries": walk.entries,
        "is_hit": walk.is_hit,
        "notes": list(walk.notes),
        "replay": None if walk.replay is None else replay_document(walk.replay),
    }


DOCUMENTS: Final = {KitResult: validate_document}
"""Makers of the documents of these results, by their kind."""
