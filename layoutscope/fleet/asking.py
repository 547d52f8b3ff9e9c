"""What may be asked, and what an answer may cost.

A question is looked at as DuckDB has parsed it before it runs, for settings of DuckDB do not suffice: a ``COPY`` within
a ``WITH`` is part of a ``SELECT``, and would write over every file that may be read. It runs in a thread of its own, so
that signals are heard, and within limits of memory and time.
"""

from __future__ import annotations

import json
import math
import threading
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

from layoutscope import system
from layoutscope.errors import LayoutscopeError, UnsupportedError, UsageError
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

T = TypeVar("T")

WORKER: Final = "layoutscope query"
"""Name of the thread in which DuckDB works."""

LOOK_S: Final = 0.05
"""So often limits are looked at."""

INTERRUPTS: Final = 10
"""So often DuckDB is interrupted before it is left alone, a look apart: whoever ends it waits half a second at most."""

FLAGS: Final = {"timeout_ms": "--timeout", "memory_bytes": "--memory"}
"""What the command line has for keywords."""

QUERY_NODES: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
"""Parts of a parsed query that only read; those of COPY, INSERT, UPDATE and DELETE have names of their own."""

TABLE_FUNCTIONS: Final = frozenset({"range", "generate_series", "unnest", "repeat"})
"""Functions that make rows of their arguments alone; others read files, run further queries, or take addresses."""


def duckdb() -> Any:
    """Return the package."""
    try:
        import duckdb as found
    except ImportError as error:
        raise UnsupportedError(
            "queries need the package duckdb", code="duckdb-missing", advice="pip install 'layoutscope[query]'"
        ) from error
    return found


def check_reads_only(sql: str, connection: Any, views: Collection[str]) -> None:
    """Refuse whatever does more than read views."""
    try:
        sql.encode()
    except UnicodeEncodeError:
        raise UsageError("the query is not in UTF-8") from None
    statements = duckdb().extract_statements(sql)
    if len(statements) != 1:
        raise UsageError("there is no query" if not statements else "one query at a time")
    try:
        kind = statements[0].type.name
    except ValueError:
        kind = "statement of another kind"  # DuckDB parses some that its package for Python has no names for
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


class Limits:
    """What an answer may cost, from now on."""

    def __init__(
        self,
        # memory that is taken beyond what this process has now; `usual_memory_bytes` without it
        memory_bytes: int | None = None,
        seconds: float = math.inf,
    ) -> None:
        self.memory_bytes = usual_memory_bytes() if memory_bytes is None else memory_bytes
        self.seconds = seconds
        if self.memory_bytes <= 0 or seconds <= 0:
            raise UsageError("a query has some memory and some time")
        self._before_bytes, self._end = system.resident_bytes(), monotonic() + seconds

    def check(self) -> None:
        """Refuse to go on where a limit is reached."""
        if monotonic() > self._end:
            raise LayoutscopeError(
                f"the query takes longer than {self.seconds:g} s; timeout_ms allows more", options=FLAGS
            )
        if system.resident_bytes() - self._before_bytes > self.memory_bytes:
            raise self.too_large()

    def too_large(self) -> LayoutscopeError:
        """Return the error of a query that takes too much memory."""
        limit = format_bytes(self.memory_bytes)
        return LayoutscopeError(f"the query takes more memory than {limit}; memory_bytes allows more", options=FLAGS)


def usual_memory_bytes() -> int:
    """Return the memory that a query may take unless told otherwise: a quarter of the machine's, but 1 GiB at least."""
    return max(1 << 30, system.machine_memory_bytes() // 4)


def within(limits: Limits, connection: Any, work: Callable[[], T]) -> T:
    """Let DuckDB work in a thread, which it leaves when it is interrupted; signals are heard here meanwhile."""
    ended, results, errors = Event(), list[T](), list[BaseException]()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001  (it is raised below)
            errors.append(error)
        finally:
            ended.set()

    Thread(target=run, name=WORKER, daemon=True).start()
    try:
        while not ended.wait(LOOK_S):
            limits.check()
    except BaseException:
        for _ in range(INTERRUPTS):
            connection.interrupt()  # is not heard between two statements
            if ended.wait(LOOK_S):
                break
        raise
    if errors:
        raise errors[0]
    return results[0]


def is_at_work() -> bool:
    """Whether DuckDB goes on although it was interrupted, which it hears between two pieces of work of any size."""
    return any(thread.name == WORKER for thread in threading.enumerate())


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
