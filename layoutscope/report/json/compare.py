"""Comparisons and series as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from layoutscope.analysis.explanation import all_reads, costs_of_ends, explained_row, growth_by_cause, growth_by_reads
from layoutscope.results.compare import Comparison, Series, ratio, ratios

if TYPE_CHECKING:
    from layoutscope.results.compare import Changes, Cost, TimeRow


def comparison_document(found: Comparison) -> dict[str, Any]:
    """Build the document of a comparison."""
    return {
        "schema": "layoutscope.compare/1",
        "names": list(found.names),
        "coverage": list(found.coverages),
        "verdict": found.verdict,
        "times": [_time_document(row) for row in found.times],
        "metrics": [
            {
                "name": row.name,
                "subject": row.subject,
                "unit": row.unit,
                "values": list(row.values),
                "ratio": ratio(row.values),
                "ratios": ratios(row.values),
            }
            for row in found.metrics
        ],
        "changes": [None if change is None else _change_document(change) for change in found.changes],
    }


def _time_document(row: TimeRow) -> dict[str, Any]:
    found: dict[str, Any] = {
        "drive": row.drive,
        "seconds": list(row.seconds),
        "intervals_s": [None if cost is None else [cost.seconds_low, cost.seconds_high] for cost in row.costs],
        "causes_s": [{} if cost is None else dict(cost.causes_s) for cost in row.costs],
        "reads": [None if cost is None else _reads_document(cost) for cost in row.costs],
        "ratio": ratio(row.seconds),
        "ratios": ratios(row.seconds),
    }
    if explained_row([row]) is not None:
        found["difference_s"] = {
            "by_cause": growth_by_cause(*costs_of_ends(row)),
            "by_reads": growth_by_reads(*costs_of_ends(row)),
        }
    return found


def _reads_document(cost: Cost) -> dict[str, Any]:
    return {
        "entries": cost.entries,
        "nodes": cost.nodes,
        "nodes_in_sequence_share": cost.sequence_share,
        "reads": all_reads(cost).count,
        "in_sequence": cost.in_sequence.count,
        "in_sequence_s": cost.in_sequence.seconds,
        "elsewhere": cost.elsewhere.count,
        "elsewhere_s": cost.elsewhere.seconds,
        "elsewhere_distance_bytes": cost.elsewhere.distance_bytes,
    }


def _change_document(change: Changes) -> dict[str, Any]:
    names = ("what", "stayed", "moved", "appeared", "went", "moved_by_bytes")
    rows = [{name: getattr(row, name) for name in names} for row in change.rows]
    main = {name: rows[0][name] for name in ("stayed", "moved", "appeared", "went")}
    return {**main, "rows": rows}


def series_document(series: Series) -> dict[str, Any]:
    """Build the document of a series: that of a comparison, with the places and the volumes."""
    return {
        **comparison_document(series.found),
        "schema": "layoutscope.series/1",
        "by": series.by,
        "places": list(series.places),
        "volumes": list(series.volumes),
    }


DOCUMENTS: Final = {Comparison: comparison_document, Series: series_document}
"""Makers of the documents of these results, by their kind."""
