"""A series as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from layoutscope.report.json.compare import comparison_document

if TYPE_CHECKING:
    from layoutscope.results.series import Series

SCHEMA: Final = "layoutscope.series/1"


def series_document(series: Series) -> dict[str, Any]:
    """Build the document of a series: that of a comparison, with the places and the volumes."""
    return {
        **comparison_document(series.found),
        "schema": SCHEMA,
        "by": series.by,
        "places": list(series.places),
        "volumes": list(series.volumes),
    }


def series_json(series: Series) -> str:
    """Write the document of a series as JSON text."""
    return json.dumps(series_document(series), indent=2, allow_nan=False)
