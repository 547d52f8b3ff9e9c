"""``query``: SQL over a batch, a capture or an image, answered from the tables as views of DuckDB.

Neither the query nor the folder is trusted. Only the tables can be opened, nothing is written, no extension is loaded,
and a capture that cannot be read is left out and named. DuckDB's own settings do not suffice for that: a ``COPY``
within a ``WITH`` is part of a ``SELECT``, and may overwrite any file that may be read. The parsed query is checked
before it runs.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from layoutscope.api.keywords import takes
from layoutscope.api.outputs import file_form, open_output, without_write_events
from layoutscope.errors import ImageError, LayoutscopeError, UnsupportedError, UsageError, install_command
from layoutscope.fleet.limits import machine_memory_bytes, resident_bytes
from layoutscope.fleet.store import FLEET_MANIFEST, FleetFolder
from layoutscope.inputs import split_volume
from layoutscope.options import LISTENER_OPTIONS, QueryLimits, QueryOptions, ReadOptions, fill, leave_out
from layoutscope.report.json import result_json
from layoutscope.report.tables import FORMATS, write_table
from layoutscope.report.text.fleet import markdown
from layoutscope.results.fleet import QueryResult, ViewList
from layoutscope.tables.capture import is_capture
from layoutscope.tables.frames import FLEET_TABLES
from layoutscope.tables.schema import DEFAULTS, OPTIONAL, TABLES, Column
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import IO, Unpack

    from layoutscope.frames import pl


T = TypeVar("T")

THREAD_NAME: Final = "layoutscope query"
"""Name of the thread in which DuckDB works."""

POLL_INTERVAL_S: Final = 0.05
"""Interval between checks of the limits."""

NUM_INTERRUPTS: Final = 10
"""Number of interrupts, one poll interval apart, before DuckDB's thread is abandoned after half a second."""

FLAGS: Final = {"timeout_ms": "--timeout", "memory_bytes": "--memory"}
"""Command-line options of the keywords."""

QUERY_NODES: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
"""Nodes of a parsed query that only read; COPY, INSERT, UPDATE and DELETE have other nodes."""

TABLE_FUNCTIONS: Final = frozenset({"range", "generate_series", "unnest", "repeat"})
"""Functions that make rows from their arguments alone; others read files, run queries, or open addresses."""


def duckdb() -> Any:
    """Import the package, or raise with the command that installs it."""
    try:
        import duckdb as found
    except ImportError as error:
        raise UnsupportedError(
            "the package duckdb is missing: it reads the tables of a batch",
            code="duckdb-missing",
            advice=install_command("query"),
        ) from error
    return found


def check_reads_only(sql: str, connection: Any, views: Collection[str]) -> None:
    """Refuse a query that does more than read views."""
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
        kind = "statement of another kind"  # DuckDB parses some kinds that its Python package cannot name
    if kind != "SELECT":
        raise UsageError(f"a query only reads: it begins with SELECT, FROM or WITH, and is not a {kind}")
    parsed = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0][0]
    try:
        tree = json.loads(parsed)
    except RecursionError:
        raise UsageError("this query is nested too deep") from None
    if tree.get("error"):
        raise UsageError(f"unsupported form of a query: {tree.get('error_message', '')}")
    remaining = [tree]
    while remaining:
        node = remaining.pop()
        if isinstance(node, list):
            remaining += node
        if not isinstance(node, dict):
            continue
        remaining += node.values()
        word, function = node.get("type"), node.get("function")
        if isinstance(word, str) and word.endswith("_NODE") and word not in QUERY_NODES:
            raise UsageError(f"a query only reads, and has no {word.partition('_')[0]} in it")
        name = str(function.get("function_name")) if isinstance(function, dict) else ""
        if word == "TABLE_FUNCTION" and name not in TABLE_FUNCTIONS:
            raise UsageError(f"a query reads the views alone: {', '.join(views)}; not what {name}() reads")


class Limits:
    """Time and memory that an answer may take, from now on."""

    def __init__(
        self,
        # in addition to what this process has now; None for `default_memory_bytes`
        memory_bytes: int | None = None,
        seconds: float = math.inf,
    ) -> None:
        self.memory_bytes = default_memory_bytes() if memory_bytes is None else memory_bytes
        self.seconds = seconds
        if self.memory_bytes <= 0 or seconds <= 0:
            raise UsageError("memory and timeout of a query must be more than 0")
        self._before_bytes, self._end = resident_bytes(), monotonic() + seconds

    def check(self) -> None:
        """Raise if a limit is exceeded."""
        if monotonic() > self._end:
            raise LayoutscopeError(
                f"the query takes longer than {self.seconds:g} s; timeout_ms allows more", options=FLAGS
            )
        if resident_bytes() - self._before_bytes > self.memory_bytes:
            raise self.too_large()

    def too_large(self) -> LayoutscopeError:
        """Return the error of a query that takes too much memory."""
        limit = format_bytes(self.memory_bytes)
        return LayoutscopeError(f"the query takes more memory than {limit}; memory_bytes allows more", options=FLAGS)


def default_memory_bytes() -> int:
    """Return the memory that a query may take by default: a quarter of the machine's, but 1 GiB at least."""
    return max(1 << 30, machine_memory_bytes() // 4)


def run_interruptibly(limits: Limits, connection: Any, work: Callable[[], T]) -> T:
    """Run DuckDB in a thread that can be interrupted, while this thread receives signals."""
    # A signal within `Event.wait` may raise an error of its own in place of the signal's: it releases a lock twice.
    working, results, errors = Lock(), list[T](), list[BaseException]()
    working.acquire()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001  (it is raised below)
            errors.append(error)
        finally:
            working.release()

    try:
        Thread(target=run, name=THREAD_NAME, daemon=True).start()
        while not working.acquire(timeout=POLL_INTERVAL_S):
            limits.check()
    except BaseException:
        for _ in range(NUM_INTERRUPTS):
            connection.interrupt()  # has no effect between two statements
            if working.acquire(timeout=POLL_INTERVAL_S):
                break
        raise
    if errors:
        raise errors[0]
    return results[0]


def is_working() -> bool:
    """Whether DuckDB still runs after an interrupt, which it checks only between pieces of work of any length."""
    return any(thread.name == THREAD_NAME for thread in threading.enumerate())


CAPTURE_TABLES: Final = ("nodes", "entries", "extents", "regions", "free")
"""Tables of captures that are views as well."""

NEWER: Final = OPTIONAL | DEFAULTS.keys()
"""Columns that captures of earlier versions lack; a table without any other column is damaged."""

_LAYOUT_COLUMNS: Final = (
    Column("source", "String", "", "source, as in sources"),
    Column("volume", "String", "", "volume: its layers and name, as in volumes"),
    Column("number", "UInt32", "", "its number on the image, from 1; null for a container's own"),
    Column("layout", "UInt32", "", "number of the layout in its capture, from 0; rows are numbered from 0 in each"),
)


VIEW_FILES: Final = {"sources": "batch", **{name: name for name in FLEET_TABLES if name != "batch"}}
"""Name of the file with the table over all sources, by view."""

VIEWS: Final[dict[str, tuple[Column, ...]]] = {
    **{view: FLEET_TABLES[file] for view, file in VIEW_FILES.items()},
    **{
        name: (*_LAYOUT_COLUMNS, *(column for column in TABLES[name] if column.name != "volume"))
        for name in CAPTURE_TABLES
    },
}
"""Columns of each view, in order."""

SQL_TYPES: Final = {
    "String": "VARCHAR", "Categorical": "VARCHAR", "Binary": "BLOB", "Boolean": "BOOLEAN", "Float64": "DOUBLE",
    "UInt8": "UTINYINT", "UInt32": "UINTEGER", "UInt64": "UBIGINT", "Int64": "BIGINT", "time": "TIMESTAMP",
}  # fmt: skip
"""DuckDB's names for the types of columns."""

SETTINGS: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",  # by default, DuckDB spills to a folder in the current one
}

PLAIN_TYPES: Final = frozenset({
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT",
    "UHUGEINT", "FLOAT", "DOUBLE", "VARCHAR", "BLOB", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS",
    "TIMESTAMP_NS", "UUID",
})  # fmt: skip
"""Types that frames support, besides decimals; all others become text."""

_CAPTURE: Final = re.compile(r"captures/[A-Za-z0-9._-]+\.lscope")
_OVER_LIMIT: Final = re.compile(r"Out of Memory Error: .* used\)")
"""DuckDB's message when its own limit is reached; it lacks the usage if the system refuses memory."""

_ABANDONED_CONNECTIONS: Final[list[Any]] = []
"""Connections that still run after an interrupt."""

_ERROR_KIND: Final = re.compile(r"^(?:INTERNAL|[A-Z][A-Za-z /]+) Error: ")


class FleetViews:
    """A connection that can read the views of one batch, and nothing else."""

    def __init__(
        self,
        folder: Path,
        # the queries to come; tables of captures that they do not name stay empty
        sql: str,
        limits: Limits | None = None,  # of all answers together; None for the default memory
    ) -> None:
        self.folder, self.left_out, self.captures = folder.resolve(), list[str](), dict[str, str]()
        self._limits = limits or Limits()
        self._files: dict[str, list[str]] = {name: [] for name in CAPTURE_TABLES}
        self._lacking: dict[str, frozenset[str]] = {}  # columns that the files of earlier versions lack
        with self._translate_errors():
            settings = {**SETTINGS, "memory_limit": f"{self._limits.memory_bytes} B"}
            self._connection = duckdb().connect(":memory:", config=settings)
            for view, file in VIEW_FILES.items():
                self._connection.execute(f"CREATE VIEW {view} AS {self._select_all_sources(view, file)}")
            self._find_capture_tables([name for name in CAPTURE_TABLES if _mentions(sql, name)])
            for name in CAPTURE_TABLES:
                try:
                    self._create_capture_view(name)
                except duckdb().Error:
                    # DuckDB takes the columns from the first file.
                    self._repair_views([name])
            self._lock()

    def close(self) -> None:
        """Close the connection and its files."""
        if is_working():
            _ABANDONED_CONNECTIONS.append(self._connection)  # closing it would wait for the end of the work
        else:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def frame(self, sql: str) -> pl.DataFrame:
        """Return the result of a query that :meth:`check` has accepted."""
        return self._answer(sql, lambda: self._frame(sql))

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a trusted query."""

        def fetch() -> list[dict[str, Any]]:
            found = self._connection.execute(sql)
            names = [column[0] for column in found.description]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

        return self._answer(sql, fetch)

    def _answer(self, sql: str, work: Callable[[], T]) -> T:
        """Run a query, and run it again without the tables that cannot be read if it fails."""
        while True:
            try:
                with self._translate_errors():
                    return run_interruptibly(self._limits, self._connection, work)
            except LayoutscopeError:
                with self._translate_errors():
                    if not self._repair_views([name for name in CAPTURE_TABLES if _mentions(sql, name)]):
                        raise

    def _frame(self, sql: str) -> pl.DataFrame:
        from layoutscope.frames import pl

        relation = self._connection.sql(sql)
        names, kinds = list(relation.columns), [str(kind) for kind in relation.types]
        doubled = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if doubled is not None:
            raise UsageError(f"two columns are called {doubled}. Give one of them another name with AS.")
        if not all(map(_is_plain, kinds)):
            columns = zip(map(_quote_name, names), kinds, strict=True)
            relation = relation.project(
                ", ".join(name if _is_plain(kind) else f"{name}::VARCHAR AS {name}" for name, kind in columns)
            )
        return pl.DataFrame(_Stream(relation))

    def _fetch(self, sql: str) -> list[tuple[Any, ...]]:
        return run_interruptibly(self._limits, self._connection, lambda: list(self._connection.execute(sql).fetchall()))

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn errors of DuckDB, and of polars for its answers, into one-line errors of this package."""
        from layoutscope.frames import pl

        package = duckdb()
        try:
            yield
        except (package.ParserException, package.BinderException, package.CatalogException) as error:
            raise UsageError(summarize_error(error)) from None
        except (package.PermissionException, package.InvalidInputException, package.ConversionException) as error:
            raise UsageError(summarize_error(error)) from None
        except (package.Error, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            # DuckDB's errors while polars fetches the rows arrive as errors of polars.
            if not _OVER_LIMIT.search(str(error)):
                raise LayoutscopeError(f"the query cannot be answered: {summarize_error(error)}") from None
        else:
            return
        raise self._limits.too_large()  # outside of the handler, which would keep the memory in use

    def _select_all_sources(self, view: str, file: str) -> str:
        """Select the columns of a table over all sources; columns that an older batch lacks are null."""
        path = self.folder / f"{file}.parquet"
        if path.is_symlink() or not path.is_file():
            raise UsageError(
                f"{path}: missing, because the batch was interrupted. layoutscope.batch with resume=True completes it.",
                options={"layoutscope.batch with resume=True": "layoutscope batch --resume"},
            )
        read = f"read_parquet({_quote_files([str(path)])})"
        try:
            available = {row[0] for row in self._connection.execute(f"DESCRIBE SELECT * FROM {read}").fetchall()}  # noqa: S608
        except duckdb().Error as error:
            raise LayoutscopeError(f"{path}: cannot be read as a table: {summarize_error(error)}") from None
        return f"SELECT {', '.join(_select_column(column, available) for column in VIEWS[view])} FROM {read}"  # noqa: S608

    def _find_capture_tables(self, names: Sequence[str]) -> None:
        """Find the tables of each volume: the N-th volume of a source is in the folder N of its capture."""
        volumes = str(self.folder / "volumes.parquet")
        numbered = f"read_parquet({_quote_files([volumes])}, file_row_number = true)"
        own = "source, volume, number, image_offset, size_bytes, file_row_number AS place"
        counted = "row_number() OVER (PARTITION BY source ORDER BY file_row_number) - 1 AS layout"
        self._connection.execute(f"CREATE TABLE layouts AS SELECT {own}, {counted} FROM {numbered}")  # noqa: S608
        captures = dict(self._connection.execute("SELECT source, capture FROM sources WHERE capture <> ''").fetchall())
        self.captures = {source: name for source, name in captures.items() if self._is_own(name)}
        self.left_out += [f"{name}: is not a folder of its own" for name in captures.values() if not self._is_own(name)]
        self._connection.execute(
            "CREATE TABLE places AS SELECT l.*, capture || '/' || layout AS folder FROM layouts AS l "
            "JOIN sources USING (source) ORDER BY place"
        )
        for source, folder in self._connection.execute("SELECT source, folder FROM places").fetchall():
            if source not in self.captures:
                continue
            # Links are refused because they may lead anywhere.
            if not _has_kind(f"{self.folder}/{folder}", stat.S_ISDIR):
                self.left_out.append(f"{folder}: is not there")
                continue
            for name in names:
                path = f"{self.folder}/{folder}/{name}.parquet"
                if _has_kind(path, stat.S_ISREG):
                    self._files[name].append(path)
                else:
                    self.left_out.append(f"{folder}/{name}.parquet: is not a file of its own")

    def _is_own(self, capture: str) -> bool:
        """Whether a capture is in this folder and not a link."""
        is_named_so = _CAPTURE.fullmatch(capture) is not None
        return is_named_so and all(_has_kind(f"{self.folder}/{place}", stat.S_ISDIR) for place in ("captures", capture))

    def _create_capture_view(self, name: str) -> None:
        """Create or replace the view of one table of all captures that are not left out; what they lack is null."""
        own = VIEWS[name][len(_LAYOUT_COLUMNS) :]
        layout_columns = ", ".join(_select_column(column, {column.name}, "of.") for column in _LAYOUT_COLUMNS)
        files_by_lack: dict[frozenset[str], list[str]] = {}
        for path in self._files[name]:
            files_by_lack.setdefault(self._lacking.get(path, frozenset()), []).append(path)
        parts = []
        for lack, files in files_by_lack.items():
            available = {column.name for column in own} - lack
            columns = ", ".join(_select_column(column, available, "held.") for column in own)
            read = f"read_parquet({_quote_files(files)}, filename = 'file') AS held"
            named = f"held.file = {_quote_text(f'{self.folder}/')} || of.folder || '/{name}.parquet'"
            parts.append(f"SELECT {layout_columns}, {columns} FROM {read} JOIN places AS of ON {named}")  # noqa: S608
        if not parts:
            parts.append(f"SELECT {', '.join(_select_column(column, set()) for column in VIEWS[name])} WHERE false")
        self._connection.execute(f"CREATE OR REPLACE VIEW {name} AS {' UNION ALL '.join(parts)}")

    def _lock(self) -> None:
        """Restrict DuckDB to the tables, and lock that setting."""
        allowed = [str(self.folder / f"{file}.parquet") for file in VIEW_FILES.values()]
        allowed += [path for files in self._files.values() for path in files]
        # DuckDB checks the pattern as it is written, and each path that it matches.
        allowed += [_pattern(path) for path in allowed if _pattern(path) != path]
        self._connection.execute(f"SET allowed_paths = [{', '.join(map(_quote_text, allowed))}]")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def check(self, sql: str) -> None:
        """Refuse a query that does more than read the views."""
        with self._translate_errors():
            run_interruptibly(self._limits, self._connection, lambda: check_reads_only(sql, self._connection, VIEWS))

    def _repair_views(self, names: list[str]) -> bool:
        """Make the views of some tables again after a failure; return whether any differs.

        Columns that captures of earlier versions lack are null. If that does not suffice, each file is read, and those
        that cannot be are left out.
        """
        files, lacking = dict(self._files), dict(self._lacking)
        for name in names:
            with suppress(duckdb().Error):
                self._note_columns(name, files[name])
        if self._lacking != lacking:
            with suppress(duckdb().Error):
                for name in names:
                    self._create_capture_view(name)
                return True
        for name in names:
            self._files[name] = [path for path in files[name] if self._is_readable(name, path)]
            self._create_capture_view(name)
        return self._files != files or self._lacking != lacking

    def _note_columns(self, name: str, paths: list[str]) -> None:
        """Find out which columns some files lack; only their footers are read."""
        newer = frozenset(column.name for column in VIEWS[name] if column.name in NEWER)
        columns = f"SELECT file_name, list(name) FROM parquet_schema({_quote_files(paths)}) GROUP BY file_name"  # noqa: S608
        self._lacking |= {path: newer.difference(found) for path, found in self._fetch(columns) if newer - {*found}}

    def _is_readable(self, name: str, path: str) -> bool:
        try:
            self._note_columns(name, [path])
            columns = VIEWS[name][len(_LAYOUT_COLUMNS) :]
            available = {column.name for column in columns} - self._lacking.get(path, frozenset())
            selected = ", ".join(_select_column(column, available) for column in columns)
            read = f"read_parquet({_quote_files([path])})"
            self._fetch(f"SELECT bit_xor(hash(COLUMNS(*))) FROM (SELECT {selected} FROM {read})")  # noqa: S608
        except duckdb().OutOfMemoryException:
            raise
        except duckdb().Error as error:
            place = path.removeprefix(f"{self.folder}/")
            self.left_out.append(f"{place}: cannot be read as a table: {summarize_error(error)}")
            return False
        return True


class _Stream:
    """A result as an Arrow stream that hides DuckDB's type: polars caches the types it was given."""

    def __init__(self, relation: Any) -> None:
        self._relation = relation

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._relation.__arrow_c_stream__(requested_schema)


def summarize_error(error: Exception) -> str:
    """Reduce an error of DuckDB to one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    text = _ERROR_KIND.sub("", lines[0]).rstrip("!.")
    if text.startswith("Table with name"):
        return f"{text}. Choose from: {', '.join(VIEWS)}"
    more = next((line for line in lines[1:] if line.startswith("Candidate")), "")
    return f"{text}; {more}" if more else text


def _is_plain(kind: str) -> bool:
    return kind in PLAIN_TYPES or kind.startswith("DECIMAL")


def _mentions(sql: str, view: str) -> bool:
    return re.search(rf"\b{view}\b", sql, re.IGNORECASE) is not None


def _has_kind(path: str, kind: Any) -> bool:
    """Whether a path itself, not the target of a link, is of a kind."""
    with suppress(OSError, ValueError):
        return bool(kind(os.lstat(path).st_mode))
    return False


def _select_column(column: Column, available: set[str], prefix: str = "") -> str:
    """Select a column in its type; times without their zone, which is UTC."""
    name, kind = _quote_name(column.name), SQL_TYPES[column.kind]
    if column.name not in available:
        return f"NULL::{kind} AS {name}"
    expression = f"make_timestamp(epoch_us({prefix}{name}))" if column.kind == "time" else f"{prefix}{name}::{kind}"
    return f"{expression} AS {name}"


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quote_text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _quote_files(paths: Sequence[str]) -> str:
    """Format a list of files for DuckDB, with the pattern characters in their names escaped."""
    return f"[{', '.join(_quote_text(_pattern(path)) for path in paths)}]"


def _pattern(path: str) -> str:
    """Return the pattern that matches this path only."""
    return re.sub(r"([*?\[])", r"[\1]", path)


ANSWER_FORMATS: Final = ("csv", "json", "md", "parquet")


def views() -> ViewList:
    """List the views that a query can read, with their columns and units."""
    return ViewList(dict(VIEWS))


@takes(QueryOptions)
def query(path: str | os.PathLike[str], sql: str, **options: Unpack[QueryOptions]) -> QueryResult:
    """Run a read-only SQL query.

    Parameters
    ----------
    path : path
        The folder of a batch, an image or a capture. For an image or a capture, a batch of one is made temporarily.
    sql : str
        ``SELECT`` over the views of :func:`views`, in DuckDB's dialect.

    Returns
    -------
    QueryResult

    Raises
    ------
    UsageError
        If it is not a query, or would do more than read the views.
    ImageError
        If nothing can be read.
    UnsupportedError
        If DuckDB is not installed.
    LayoutscopeError
        If the query fails or exceeds its limits.

    Examples
    --------
    >>> import layoutscope
    >>> image = "fixtures/images/hfsplus-scattered.img.zst"
    >>> found = layoutscope.query(image, "SELECT count(*) AS nodes FROM nodes WHERE tree = 'catalog' AND level = 0")
    >>> found.frame["nodes"].to_list()
    [210]
    """
    limit_options = fill(QueryLimits, options)
    read_options = leave_out(options, limit_options)
    limits = Limits(limit_options["memory_bytes"], limit_options["timeout_ms"] / 1000)  # raises before the work begins
    folder = Path(path)
    if (folder / FLEET_MANIFEST).is_file():
        # The images of a batch were read already.
        defaults: Mapping[str, Any] = fill(ReadOptions, {})
        names = [name for name, value in read_options.items() if value is not None and value != defaults.get(name)]
        unused = [name for name in names if name not in (*LISTENER_OPTIONS, "cache_dir")]
        if unused:
            option = unused[0].replace("_", "-")
            raise UsageError(f"{folder}: is a batch, whose images were read. Give {option} to batch.")
        if not FleetFolder(folder).is_ours():
            raise UsageError(f"{folder}: is not a batch; its {FLEET_MANIFEST} was not written by layoutscope")
        FleetFolder(folder).note()
        return _answer_query(folder, sql, limits)
    duckdb()
    name, volume = split_volume(os.fspath(path))
    if name.startswith("@") or (Path(name).is_dir() and not is_capture(Path(name))):
        raise UsageError(
            f"{name}: is not an image; 'layoutscope batch {name} -o FLEET' reads what is in it, for queries"
        )
    volume_options: dict[str, Any] = {} if volume is None else {"volume": volume}
    with tempfile.TemporaryDirectory(prefix="layoutscope-") as work:
        # Loading the image reader takes longer than a query of a batch.
        from layoutscope.fleet.batch import batch

        with without_write_events():
            result = batch([name], Path(work) / "one", **{**read_options, **volume_options})
        if len(result.sources) != 1:
            raise UsageError(f"{name}: is not one image")
        if not result.sources[0].has_capture:
            raise ImageError(result.sources[0].message)
        return _answer_query(Path(work) / "one", sql, limits)


def _answer_query(folder: Path, sql: str, limits: Limits) -> QueryResult:
    with FleetViews(folder, sql, limits) as fleet_views:
        fleet_views.check(sql)
        frame = fleet_views.frame(sql)
        return QueryResult(frame, tuple(fleet_views.left_out))


def write_answer(
    result: QueryResult,
    target: str | os.PathLike[str] | IO[bytes],
    *,
    # one of `ANSWER_FORMATS`; by default from the target's name, else CSV
    file_format: str | None = None,
    force: bool = False,
) -> None:
    """Write the answer of a query."""
    form = file_form(target, file_format, ANSWER_FORMATS, "csv")
    with open_output(target, force=force, holds=f"{len(result.frame):,} rows") as file:
        if form in FORMATS:
            write_table(result.answer(), file, form)
        else:
            text = markdown(result) if form == "md" else result_json(result) + "\n"
            file.write(text.encode())
