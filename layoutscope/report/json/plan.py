"""A plan as JSON: every remedy of every volume, with what it saves and costs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from layoutscope.report.json.predict import interval_document
from layoutscope.results.plan import PlanResult

if TYPE_CHECKING:
    from layoutscope.results.plan import EmittedOrder, Pace, PlannedRemedy, VolumePlan


def plan_document(result: PlanResult) -> dict[str, Any]:
    """Build the document of a plan."""
    return {
        "schema": "layoutscope.plan/1",
        "image": result.image.name,
        "volumes": [_volume(volume) for volume in result.volumes],
        "untold": list(result.untold),
        "emitted": None if result.emitted is None else _emitted(result.emitted),
    }


def _emitted(found: EmittedOrder) -> dict[str, Any]:
    return {
        "path": found.path,
        "files": found.files,
        "missing": [asdict(each) for each in found.missing],
        "windows": found.windows,
        "seconds": [{"order": name, "seconds": seconds} for name, seconds in found.seconds],
    }


def _volume(volume: VolumePlan) -> dict[str, Any]:
    pair = volume.pair
    return {
        "volume": volume.volume,
        "coverage": volume.coverage,
        "errors": volume.num_errors,
        "order": volume.order,
        "host": volume.host,
        "drive": volume.drive,
        "reads": volume.reads,
        "seconds": volume.seconds,
        "interval": interval_document(volume.interval),
        "pace": None if volume.pace is None else {**asdict(volume.pace), "per_cycle_s": volume.pace.per_cycle_s},
        "remedies": [_remedy(item, volume.pace) for item in volume.remedies],
        "pair": None if pair is None else {"names": list(pair.names), "seconds": pair.seconds, "share": pair.share},
        "unknown": list(volume.unknown),
    }


def _remedy(item: PlannedRemedy, pace: Pace | None) -> dict[str, Any]:
    words = item.words
    return {
        "name": words.name,
        "title": words.title,
        "kind": words.kind,
        "applies": not item.why_not,
        "why_not": item.why_not or None,
        "helps": item.helps,
        "is_sure": item.is_sure,
        "seconds": None if item.why_not else item.seconds,
        "interval": None if item.interval is None else interval_document(item.interval),
        "saved_s": None if item.why_not else item.saved_s,
        "saved": None if item.saved is None else interval_document(item.saved),
        "share": None if item.why_not else item.share,
        "effort_s": None if item.why_not else item.effort_s,
        "pays_after": item.pays_after,
        "lasts_cycles": None if pace is None else pace.lasts(item),
        "ways": [{"system": system, "command": command} for system, command in words.ways],
        "risk": words.risk,
        "side_effects": words.side_effects,
        "assumes": words.assumes,
        "source": words.source,
        "page": words.page,
    }


DOCUMENTS: Final = {PlanResult: plan_document}
"""Makers of the documents of these results, by their kind."""
