"""A batch as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from layoutscope.results.fleet import FleetResult


def fleet_document(result: FleetResult) -> dict[str, Any]:
    """Build the document of a batch."""
    return {
        "schema": "layoutscope.batch/1",
        "folder": result.folder,
        "seconds": result.seconds,
        "kept": result.kept,
        "counts": result.counts,
        "sources": [asdict(item) for item in result.sources],
    }


DOCUMENTS: Final = {FleetResult: fleet_document}
"""Makers of the documents of these results, by their kind."""
