"""Times on drives as JSON: predictions, replays, and the drives themselves."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from layoutscope.report.json.scan import prediction_document, walk_document
from layoutscope.results.predict import PredictResult, ReplayResult
from layoutscope.units import NOTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.drive.uncertain import Interval
    from layoutscope.results.predict import DriveCase, DriveFacts, OrdersCase
    from layoutscope.results.recorded import PlacedDevice, Recording

AGREEMENT: Final = (
    *("block_bytes", "real_blocks", "predicted_blocks", "block_share", "extra_share"),
    *("pair_share", "missed", "extra", "pairs_by_cause"),
)
"""What is told of how well a prediction meets a trace."""


def predict_document(result: PredictResult) -> dict[str, Any]:
    """Build the document of a prediction; parts that a scan has too look alike."""
    return {
        "schema": "layoutscope.predict/1",
        "image": result.image.name,
        "volumes": [
            {
                "volume": volume.volume,
                "coverage": volume.coverage,
                "errors": volume.num_errors,
                "missing_paths": list(volume.missing_paths),
                "walk": walk_document(volume.walk),
                "host_cpu_s": volume.host_time.cpu_s,
                "host_wall_s": volume.host_time.wall_s,
                "least_written": None if volume.least_written is None else asdict(volume.least_written),
                "drives": [_case(case) for case in volume.drives],
            }
            for volume in result.volumes
        ],
        "orders": [_orders(case) for case in result.orders],
    }


def _orders(case: OrdersCase) -> dict[str, Any]:
    return {
        "volume": case.volume,
        "coverage": case.coverage,
        "errors": case.num_errors,
        "missing_paths": list(case.missing_paths),
        "host": case.host,
        "orders": [
            {
                "order": order.order,
                "not_applicable": order.why_not or None,
                "reads": order.reads,
                "read_bytes": order.read_bytes,
                "entries": order.entries,
                "drives": [
                    prediction_document(item) | {"seconds_per_1000": order.seconds_per_1000(item)}
                    for item in order.times
                ],
            }
            for order in case.orders
        ],
    }


def _case(case: DriveCase) -> dict[str, Any]:
    changes = [case.packed, *case.what_ifs] if case.packed is not None else case.what_ifs
    return {
        **prediction_document(case.prediction),
        "interval": None if case.prediction.interval is None else interval_document(case.prediction.interval),
        "volume_interval": None if case.volume is None else interval_document(case.volume),
        "halves_s": list(case.halves_s),
        "packed_gain": case.gain,
        "best_layout": None if case.best is None else {"name": case.best.name, "seconds": case.best.seconds},
        "layouts_tried": case.tried,
        "what_ifs": [asdict(item) | {"is_applicable": item.is_applicable} for item in changes if item],
        "directories": [
            {
                "directory_id": str(cost.directory_id),
                "path": cost.path,
                "reads": cost.reads,
                "seconds": cost.seconds,
            }
            for cost in case.directories
        ],
    }


def interval_document(found: Interval) -> dict[str, Any]:
    """Build the document of an interval."""
    return {
        "of": found.of,
        "draws": found.draws,
        "p5_s": found.low_s,
        "p25_s": found.quarter_s,
        "p50_s": found.median_s,
        "p75_s": found.three_quarters_s,
        "p95_s": found.high_s,
        "shares": dict(found.shares),
    }


def replay_document(result: ReplayResult) -> dict[str, Any]:
    """Build the document of a replay."""
    found = result.agreement
    return {
        "schema": "layoutscope.replay/1",
        "trace": result.trace,
        "reads": result.reads,
        "read_bytes": result.read_bytes,
        "times": [prediction_document(item) | dict(item.summary) for item in result.times],
        "expected": [prediction_document(item) | dict(item.summary) for item in result.expected],
        "agreement": None if found is None else {name: getattr(found, name) for name in AGREEMENT},
        "recording": None if result.recording is None else recording_document(result.recording),
        "measured": [asdict(item) | {"ratio": item.ratio} for item in result.measured],
        "host": None if result.host is None else asdict(result.host),
        "driver": result.driver,
    }


def recording_document(found: Recording) -> dict[str, Any]:
    """Build the document of what became of a recording."""
    plain = ("form", "used", "foreign_reads", "twice", "background", "overlapping", "is_timed", "tried", "on_nodes")
    return {
        **{name: getattr(found, name) for name in plain},
        "lines": asdict(found.lines),
        "placed": [_placed(item) for item in found.placed],
        "foreign": dict(found.foreign),
        "others": dict(found.others),
        "processes": list(found.processes),
        "problem": found.problem,
    }


def _placed(item: PlacedDevice) -> dict[str, Any]:
    return {**asdict(item.place), "reads": item.reads, "tried": item.tried, "on_nodes": item.on_nodes}


def drives_json(drives: Sequence[DriveFacts]) -> str:
    """Write profiles as JSON text."""
    return json.dumps({"schema": "layoutscope.drives/1", "drives": [_drive_facts(item) for item in drives]}, indent=2)


def _drive_facts(item: DriveFacts) -> dict[str, Any]:
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
        "take_for": profile.take_for or NOTHING,
        "models": list(profile.models),
    }


DOCUMENTS: Final = {PredictResult: predict_document, ReplayResult: replay_document}
"""Makers of the documents of these results, by their kind."""
