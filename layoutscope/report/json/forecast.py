"""A forecast as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from layoutscope.results.forecast import ForecastResult


def forecast_document(result: ForecastResult) -> dict[str, Any]:
    """Build the document of a forecast."""
    return {"schema": "layoutscope.forecast/1", **asdict(result)}


DOCUMENTS: Final = {ForecastResult: forecast_document}
"""Makers of the documents of these results, by their kind."""
