"""A prediction as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from layoutscope.report.json.scan import prediction_document, walk_document

if TYPE_CHECKING:
    from layoutscope.results.predict import DriveCase, PredictResult

SCHEMA: Final = "layoutscope.predict/1"


def predict_document(result: PredictResult) -> dict[str, Any]:
    """Build the document of a prediction; parts that a scan has too look alike."""
    return {
        "schema": SCHEMA,
        "image": result.image.name,
        "volumes": [
            {
                "volume": volume.volume,
                "coverage": volume.coverage,
                "errors": volume.num_errors,
                "walk": walk_document(volume.walk),
                "host_cpu_s": volume.host_time.cpu_s,
                "host_wall_s": volume.host_time.wall_s,
                "drives": [_drive_document(case) for case in volume.drives],
            }
            for volume in result.volumes
        ],
    }


def _drive_document(case: DriveCase) -> dict[str, Any]:
    changes = [case.bound, *case.what_ifs] if case.bound is not None else case.what_ifs
    return {
        **prediction_document(case.prediction),
        "headroom": case.headroom,
        "what_ifs": [{"name": item.name, "because": item.because, "seconds": item.seconds} for item in changes if item],
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


def predict_json(result: PredictResult) -> str:
    """Write the document of a prediction as JSON text; ASCII."""
    return json.dumps(predict_document(result), indent=2, allow_nan=False)
