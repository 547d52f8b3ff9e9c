"""The tables that everything right of the readers works on."""

from __future__ import annotations

from layoutscope.tables.layout import (
    NULL_OFFSET,
    NULL_ROW,
    TreeFacts,
    VolumeFacts,
    VolumeLayout,
    build_table,
    coverage_of,
    findings_table,
)
from layoutscope.tables.schema import LIVE_STATES, TABLES, Column

__all__ = [
    "LIVE_STATES",
    "NULL_OFFSET",
    "NULL_ROW",
    "TABLES",
    "Column",
    "TreeFacts",
    "VolumeFacts",
    "VolumeLayout",
    "build_table",
    "coverage_of",
    "findings_table",
]
