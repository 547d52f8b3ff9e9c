"""Fragmentation, locality, distance and free space: named numbers with their definition, unit and source.

Input: a :class:`~layoutscope.tables.VolumeLayout`, for some of them an access trace. Nothing here reads an image.
"""

from __future__ import annotations

from layoutscope.metrics.definition import DEFINITIONS, Definition, Metric
from layoutscope.metrics.measure import measure, measure_trace
from layoutscope.metrics.trees import TreeSummary, tree_summaries

__all__ = [
    "DEFINITIONS",
    "Definition",
    "Metric",
    "TreeSummary",
    "measure",
    "measure_trace",
    "tree_summaries",
]
