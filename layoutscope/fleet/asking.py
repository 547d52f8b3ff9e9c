"""What may be asked: a question as DuckDB has parsed it is looked at before it runs, for its settings do not suffice.

A ``COPY`` within a ``WITH`` is part of a ``SELECT``, and would write over every file that may be read.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from layoutscope.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

QUERY_NODES: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
"""Parts of a parsed query that only read; those of COPY, INSERT, UPDATE and DELETE have names of their own."""

TABLE_FUNCTIONS: Final = frozenset({"range", "generate_series", "unnest", "repeat"})
"""Functions that make rows of their arguments alone; others read files, run further queries, or take addresses."""


def duckdb() -> Any:
    """Return the package.

    Raises
    ------
    UnsupportedError
        If it is not there.
    """
    try:
        import duckdb as found
    except ImportError as error:
        raise UnsupportedError(
            "queries need the package duckdb", code="duckdb-missing", advice="pip install 'layoutscope[query]'"
        ) from error
    return found


def check_reads_only(sql: str, connection: Any, views: Collection[str]) -> None:
    """Refuse whatever does more than read views.

    Parameters
    ----------
    sql : str
        What is asked.
    connection : DuckDBPyConnection
        Parses it.
    views : collection of str
        What there is to read.

    Raises
    ------
    UsageError
        If it is no single question, or one that writes, or reads something else.
    """
    statements = duckdb().extract_statements(sql)
    if len(statements) != 1:
        raise UsageError("there is no query" if not statements else "one query at a time")
    kind = statements[0].type.name
    if kind != "SELECT":
        raise UsageError(f"a query only reads: it begins with SELECT, FROM or WITH, and is no {kind}")
    parsed = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0][0]
    try:
        tree = json.loads(parsed)
    except RecursionError:
        raise UsageError("this query is nested too deep") from None
    if tree.get("error"):
        raise UsageError(f"this form of a query is not taken here: {tree.get('error_message', '')}")
    for part in _parts(tree):
        word = part.get("type")
        if isinstance(word, str) and word.endswith("_NODE") and word not in QUERY_NODES:
            raise UsageError(f"a query only reads, and has no {word.partition('_')[0]} in it")
        if word == "TABLE_FUNCTION" and _function(part) not in TABLE_FUNCTIONS:
            raise UsageError(f"a query reads the views alone: {', '.join(views)}; not what {_function(part)}() reads")


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a parsed query."""
    left = [tree]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            yield part
            left += part.values()
        elif isinstance(part, list):
            left += part


def _function(part: dict[str, Any]) -> str:
    own = part.get("function")
    return str(own.get("function_name")) if isinstance(own, dict) else ""
