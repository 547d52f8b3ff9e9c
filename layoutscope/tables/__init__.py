"""The tables that readers make, and that all later stages use."""

from __future__ import annotations

from layoutscope.tables.columns import (
    NULL_OFFSET,
    NULL_ROW,
    LazyColumn,
    Table,
    TextColumn,
    Values,
    build_table,
    stack_tables,
)
from layoutscope.tables.layout import (
    TreeFacts,
    VolumeFacts,
    VolumeLayout,
    attach_containers,
    coverage_of,
    findings_table,
    layout_findings,
)
from layoutscope.tables.schema import LIVE_STATES, TABLES, Column

__all__ = [
    "LIVE_STATES",
    "NULL_OFFSET",
    "NULL_ROW",
    "TABLES",
    "Column",
    "LazyColumn",
    "Table",
    "TextColumn",
    "TreeFacts",
    "Values",
    "VolumeFacts",
    "VolumeLayout",
    "attach_containers",
    "build_table",
    "coverage_of",
    "findings_table",
    "layout_findings",
    "stack_tables",
]
