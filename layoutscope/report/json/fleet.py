"""A batch as JSON, and what a query gives."""

from __future__ import annotations

import math
from dataclasses import asdict
from decimal import Decimal
from typing import Any, Final

from layoutscope.results.fleet import FleetResult, QueryResult, ReportResult, ViewList


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


EXACT: Final = 2**53
"""Many readers of JSON keep no more of a number."""


def answer_document(result: QueryResult) -> dict[str, Any]:
    """Build the document of an answer."""
    frame = result.frame
    return {
        "schema": "layoutscope.query/1",
        "columns": [{"name": name, "type": str(kind)} for name, kind in frame.schema.items()],
        "rows": [
            {name: _value(value, str(kind)) for (name, kind), value in zip(frame.schema.items(), row, strict=True)}
            for row in frame.iter_rows()
        ],
        "left_out": list(result.left_out),
    }


def _value(value: Any, kind: str) -> Any:
    """Return what JSON has of a value: 64-bit identifiers and decimals as text, bytes as hexadecimal."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return str(value) if kind == "UInt64" or abs(value) > EXACT else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        is_whole = value == value.to_integral_value() and abs(value) <= EXACT
        return int(value) if is_whole else str(value)
    return value.hex() if isinstance(value, bytes) else value.isoformat()


def views_document(result: ViewList) -> dict[str, Any]:
    """Build the document of the views that a query can ask for."""
    return {
        "schema": "layoutscope.views/1",
        "views": {
            view.name: [
                {"name": column.name, "type": column.kind, "unit": column.unit, "about": column.doc}
                for column in view.columns
            ]
            for view in result.views
        },
    }


def report_document(result: ReportResult) -> dict[str, Any]:
    """Build the document of a page over a batch."""
    return {"schema": "layoutscope.report/1", **asdict(result)}


DOCUMENTS: Final = {
    ReportResult: report_document,
    FleetResult: fleet_document,
    QueryResult: answer_document,
    ViewList: views_document,
}
"""Makers of the documents of these results, by their kind."""
