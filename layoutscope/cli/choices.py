"""Words that options choose among, for help, completion and checks before anything is loaded.

They are the keys of what does the work, such as :data:`layoutscope.walk.orders.ORDERS`; a test holds them together.
"""

from __future__ import annotations

from typing import Literal

Order = Literal[
    "fts",
    "readdir-stat",
    "du",
    "backup",
    "backup-events",
    "delete",
    "mount",
    "fsck",
    "find",
    "ls",
    "ls-folder",
    "archive",
    "git-status",
    "search",
    "bulk",
    "names",
    "catalog",
    "searchfs",
    "paths",
    "copy",
    "read",
]
OrderOrAll = Literal[Order, "all"]
PlannedOrder = Literal["fts", "readdir-stat", "du", "backup", "ls", "git-status", "copy", "archive"]
Host = Literal["linux", "macos"]
Placement = Literal["known", "unknown"]
Table = Literal[
    "nodes",
    "node_fragments",
    "node_views",
    "regions",
    "extents",
    "entries",
    "free",
    "findings",
    "metrics",
    "times",
    "directories",
    "reads",
    "all",
]
ExportFormat = Literal["csv", "parquet", "jsonl", "bodyfile", "dfxml", "speedscope", "perfetto", "folded"]
CheckFormat = Literal["text", "json", "csv", "sarif"]
PlanFormat = Literal["text", "json", "csv"]
TraceFormat = Literal["csv", "fio", "blkparse"]
ReplayFormat = Literal["csv", "fio", "blkparse", "pairs", "fs_usage", "iosnoop", "biosnoop"]
Buffer = Literal["own", "off", "join", "no-join"]
Ordering = Literal["order", "xid", "time"]
CacheVerb = Literal["show", "clear"]


def what_ifs() -> list[str]:
    """Name every what-if, for completion; help does not load what knows them."""
    from layoutscope.api.predict import WHAT_IF_NAMES

    return list(WHAT_IF_NAMES)


def complete_what_if(incomplete: str) -> list[str]:
    """Name the what-ifs that begin so."""
    return [name for name in what_ifs() if name.startswith(incomplete)]
