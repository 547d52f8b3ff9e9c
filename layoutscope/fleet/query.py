"""``query``: questions in SQL over a batch, a capture or an image, answered from the tables as views of DuckDB.

The query may come from a mail, and the folder from a stranger. So nothing but the tables can
be opened, nothing is written anywhere, no extension is loaded, and a capture that cannot be read is left out and named.
DuckDB's own settings do not suffice for that: a ``COPY`` within a ``WITH`` is part of a ``SELECT``, and may overwrite
every file that may be read. A query is checked as DuckDB has parsed it, before it runs.
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
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from layoutscope.api.keywords import takes
from layoutscope.api.outputs import file_form, output, written_unheard
from layoutscope.errors import ImageError, LayoutscopeError, UnsupportedError, UsageError, install_command
from layoutscope.fleet.store import FLEET_MANIFEST, FLEET_TABLES, FleetFolder
from layoutscope.fleet.worker import machine_memory_bytes, resident_bytes
from layoutscope.inputs import split_volume
from layoutscope.options import QueryLimits, QueryOptions, ReadOptions, fill, leave_out
from layoutscope.report.json import result_json
from layoutscope.report.tables import FORMATS, write_table
from layoutscope.report.text.fleet import markdown
from layoutscope.results.fleet import QueryResult, ViewFacts, ViewList
from layoutscope.tables.capture import is_capture
from layoutscope.tables.schema import TABLES, Column
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import IO, Unpack

    from layoutscope.frames import pl


T = TypeVar("T")

WORKER: Final = "layoutscope query"
"""Name of the thread in which DuckDB works."""

LOOK_S: Final = 0.05
"""So often limits are looked at."""

INTERRUPTS: Final = 10
"""How often DuckDB is interrupted before it is left alone: the wait is half a second at most."""

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
            "queries need the package duckdb", code="duckdb-missing", advice=install_command("query")
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
        raise UsageError(f"a query only reads: it begins with SELECT, FROM or WITH, and is not a {kind}")
    parsed = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0][0]
    try:
        tree = json.loads(parsed)
    except RecursionError:
        raise UsageError("this query is nested too deep") from None
    if tree.get("error"):
        raise UsageError(f"unsupported form of a query: {tree.get('error_message', '')}")
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
            raise UsageError("memory and timeout of a query must be more than 0")
        self._before_bytes, self._end = resident_bytes(), monotonic() + seconds

    def check(self) -> None:
        """Refuse to go on where a limit is reached."""
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


def usual_memory_bytes() -> int:
    """Return the memory that a query may take by default: a quarter of the machine's, but 1 GiB at least."""
    return max(1 << 30, machine_memory_bytes() // 4)


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


CAPTURED: Final = ("nodes", "entries", "extents", "regions", "free")
"""Tables of captures that are views, too."""

_OF_LAYOUT: Final = (
    Column("source", "String", "", "which source: its row in sources"),
    Column("volume", "String", "", "which volume: its layers and its name, as in volumes"),
    Column("number", "UInt32", "", "its number on the image, from 1; null for a container's own"),
    Column("layout", "UInt32", "", "place of the volume in its capture, from 0; rows are numbered from 0 in each"),
)


def _columns_of_all(name: str) -> tuple[Column, ...]:
    return (*_OF_LAYOUT, *(column for column in TABLES[name] if column.name != "volume"))


VIEWS: Final[dict[str, tuple[Column, ...]]] = {
    "sources": FLEET_TABLES["batch"],
    "volumes": FLEET_TABLES["volumes"],
    "metrics": FLEET_TABLES["metrics"],
    "predictions": FLEET_TABLES["predictions"],
    "findings": FLEET_TABLES["findings"],
    **{name: _columns_of_all(name) for name in CAPTURED},
}
"""Columns of each view, in order."""

FILES: Final = {"sources": "batch", **{name: name for name in FLEET_TABLES if name != "batch"}}
"""The table over all sources that each view shows, by its file."""

SQL_TYPES: Final = {
    "String": "VARCHAR", "Categorical": "VARCHAR", "Binary": "BLOB", "Boolean": "BOOLEAN", "Float64": "DOUBLE",
    "UInt8": "UTINYINT", "UInt32": "UINTEGER", "UInt64": "UBIGINT", "Int64": "BIGINT", "time": "TIMESTAMP",
}  # fmt: skip
"""What DuckDB calls the types of columns."""

SETTINGS: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",  # what does not fit into memory would be written beside the current folder
}

PLAIN: Final = frozenset({
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT",
    "UHUGEINT", "FLOAT", "DOUBLE", "VARCHAR", "BLOB", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS",
    "TIMESTAMP_NS", "UUID",
})  # fmt: skip
"""Types that frames have, too, besides decimals; all others become text."""

_CAPTURE: Final = re.compile(r"captures/[A-Za-z0-9._-]+\.lscope")
_OVER_LIMIT: Final = re.compile(r"Out of Memory Error: .* used\)")
"""How DuckDB reports its own limit; without memory from the system, it reports no use."""

_LEFT: Final[list[Any]] = []
"""Connections that still work after they were interrupted."""

_KIND: Final = re.compile(r"^(?:INTERNAL|[A-Z][A-Za-z /]+) Error: ")


class FleetViews:
    """A connection that knows the views of one batch, and nothing else."""

    def __init__(
        self,
        folder: Path,
        # what will be asked: tables of captures that it does not name are looked for in none, and have no rows
        asked: str,
        limits: Limits | None = None,  # what answers may cost, all together; the usual memory without it
    ) -> None:
        self.folder, self.left_out, self.captures = folder.resolve(), list[str](), dict[str, str]()
        self._limits = limits or Limits()
        self._files: dict[str, list[str]] = {name: [] for name in CAPTURED}
        with self._errors_in_one_line():
            settings = {**SETTINGS, "memory_limit": f"{self._limits.memory_bytes} B"}
            self._connection = duckdb().connect(":memory:", config=settings)
            for view, file in FILES.items():
                self._connection.execute(f"CREATE VIEW {view} AS {self._over_all(view, file)}")
            self._find_captured([name for name in CAPTURED if _names(asked, name)])
            for name in CAPTURED:
                try:
                    self._make_captured(name)
                except duckdb().Error:
                    # The first file gives the columns.
                    self._leave_out_damaged(name)
            self._lock()

    def close(self) -> None:
        """Let go of the files."""
        if is_at_work():
            _LEFT.append(self._connection)  # to close it waits for the end of the work
        else:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def frame(self, sql: str) -> pl.DataFrame:
        """Return what a query gives that :meth:`check` has passed."""
        with self._errors_in_one_line():
            return within(self._limits, self._connection, lambda: self._frame(sql))

    def _frame(self, sql: str) -> pl.DataFrame:
        from layoutscope.frames import pl

        found = self._connection.sql(sql)
        names, kinds = list(found.columns), [str(kind) for kind in found.types]
        doubled = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if doubled is not None:
            raise UsageError(f"two columns are called {doubled}. Give one of them another name with AS.")
        if not all(map(_is_plain, kinds)):
            told = zip(map(_quote_name, names), kinds, strict=True)
            found = found.project(
                ", ".join(name if _is_plain(kind) else f"{name}::VARCHAR AS {name}" for name, kind in told)
            )
        return pl.DataFrame(_Stream(found))

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query of our own, without the captures that cannot be read."""
        with self._errors_in_one_line():
            try:
                found = self._fetched(sql)
            except duckdb().Error:
                if not self.without_damaged(sql):
                    raise
                found = self._fetched(sql)
            names = [column[0] for column in self._connection.description]
            return [dict(zip(names, row, strict=True)) for row in found]

    def _fetched(self, sql: str) -> list[tuple[Any, ...]]:
        return within(self._limits, self._connection, lambda: list(self._connection.execute(sql).fetchall()))

    @contextmanager
    def _errors_in_one_line(self) -> Iterator[None]:
        """Raise what DuckDB refuses, and what polars refuses of its answer, as errors of this package with one line."""
        from layoutscope.frames import pl

        package = duckdb()
        try:
            yield
        except (package.ParserException, package.BinderException, package.CatalogException) as error:
            raise UsageError(one_line(error)) from None
        except (package.PermissionException, package.InvalidInputException, package.ConversionException) as error:
            raise UsageError(one_line(error)) from None
        except (package.Error, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            # What DuckDB finds out while polars takes the rows comes as an error of polars.
            if not _OVER_LIMIT.search(str(error)):
                raise LayoutscopeError(f"the query cannot be answered: {one_line(error)}") from None
        else:
            return
        raise self._limits.too_large()  # outside of the handler: the system has memory left

    def _over_all(self, view: str, file: str) -> str:
        """Select the columns of a table over all sources; those that an older batch has not are null."""
        path = self.folder / f"{file}.parquet"
        if path.is_symlink() or not path.is_file():
            raise UsageError(
                f"{path}: missing, because the batch was interrupted. layoutscope.batch with resume=True completes it.",
                options={"layoutscope.batch with resume=True": "layoutscope batch --resume"},
            )
        read = f"read_parquet({_files([str(path)])})"
        try:
            held = {row[0] for row in self._connection.execute(f"DESCRIBE SELECT * FROM {read}").fetchall()}  # noqa: S608
        except duckdb().Error as error:
            raise LayoutscopeError(f"{path}: cannot be read as a table: {one_line(error)}") from None
        return f"SELECT {', '.join(_select_column(column, held) for column in VIEWS[view])} FROM {read}"  # noqa: S608

    def _find_captured(self, names: Sequence[str]) -> None:
        """Find the tables of each volume's layout: that at the N-th place of its source is in the folder N."""
        path = str(self.folder / "volumes.parquet")
        numbered = f"read_parquet({_files([path])}, file_row_number = true)"
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
            if source in self.captures:
                self._find_tables(folder, names)

    def _find_tables(self, folder: str, names: Sequence[str]) -> None:
        """Find the tables of one volume; what is a link may lead anywhere."""
        place = f"{self.folder}/{folder}"
        if not _is(place, stat.S_ISDIR):
            self.left_out.append(f"{folder}: is not there")
            return
        for name in names:
            if _is(f"{place}/{name}.parquet", stat.S_ISREG):
                self._files[name].append(f"{place}/{name}.parquet")
            else:
                self.left_out.append(f"{folder}/{name}.parquet: is not a file of its own")

    def _is_own(self, capture: str) -> bool:
        """Whether a capture is in this folder; a link may lead anywhere."""
        is_named_so = _CAPTURE.fullmatch(capture) is not None
        return is_named_so and all(_is(f"{self.folder}/{place}", stat.S_ISDIR) for place in ("captures", capture))

    def _make_captured(self, name: str) -> None:
        """Make the view of one table of all captures, or remake it from fewer."""
        columns, files = VIEWS[name], self._files[name]
        if not files:
            empty = ", ".join(f"NULL::{SQL_TYPES[column.kind]} AS {_quote_name(column.name)}" for column in columns)
            self._connection.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT {empty} WHERE false")
            return
        own = ", ".join(f"of.{column.name}::{SQL_TYPES[column.kind]} AS {column.name}" for column in _OF_LAYOUT)
        told = ", ".join(_select_column(column, {column.name}, "held.") for column in columns[len(_OF_LAYOUT) :])
        read = f"read_parquet({_files(files)}, filename = 'file') AS held"
        named = f"held.file = {_text(f'{self.folder}/')} || of.folder || '/{name}.parquet'"
        selected = f"SELECT {own}, {told} FROM {read} JOIN places AS of ON {named}"  # noqa: S608
        self._connection.execute(f"CREATE OR REPLACE VIEW {name} AS {selected}")

    def _lock(self) -> None:
        """Let nothing be opened but the tables, and nothing be changed about that."""
        allowed = [str(self.folder / f"{file}.parquet") for file in FILES.values()]
        allowed += [path for files in self._files.values() for path in files]
        # A pattern is asked after as it is written, and so is what it leads to.
        allowed += [_pattern(path) for path in allowed if _pattern(path) != path]
        self._connection.execute(f"SET allowed_paths = [{', '.join(map(_text, allowed))}]")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def check(self, sql: str) -> None:
        """Refuse whatever does more than read the views."""
        with self._errors_in_one_line():
            within(self._limits, self._connection, lambda: check_reads_only(sql, self._connection, VIEWS))

    def without_damaged(self, sql: str) -> bool:
        """Leave out the tables of captures that cannot be read, after a query failed."""
        found = len(self.left_out)
        for name in (each for each in CAPTURED if _names(sql, each)):
            self._leave_out_damaged(name)
        return len(self.left_out) > found

    def _leave_out_damaged(self, name: str) -> None:
        """Make the view of one table of the captures that can be read."""
        self._files[name] = [path for path in self._files[name] if self._is_readable(name, path)]
        self._make_captured(name)

    def _is_readable(self, name: str, path: str) -> bool:
        told = ", ".join(_select_column(column, {column.name}) for column in VIEWS[name][len(_OF_LAYOUT) :])
        every = f"SELECT bit_xor(hash(COLUMNS(*))) FROM (SELECT {told} FROM read_parquet({_files([path])}))"  # noqa: S608
        try:
            self._fetched(every)
        except duckdb().OutOfMemoryException:
            raise
        except duckdb().Error as error:
            place = path.removeprefix(f"{self.folder}/")
            self.left_out.append(f"{place}: cannot be read as a table: {one_line(error)}")
            return False
        return True


class _Stream:
    """A result as a stream of Arrow: polars remembers the types of what it was given, and DuckDB complains of that."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._found.__arrow_c_stream__(requested_schema)


def one_line(error: Exception) -> str:
    """Say in one line what DuckDB says in several."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    text = _KIND.sub("", lines[0]).rstrip("!.")
    if text.startswith("Table with name"):
        return f"{text}. Choose from: {', '.join(VIEWS)}"
    more = next((line for line in lines[1:] if line.startswith("Candidate")), "")
    return f"{text}; {more}" if more else text


def _is_plain(kind: str) -> bool:
    return kind in PLAIN or kind.startswith("DECIMAL")


def _names(sql: str, view: str) -> bool:
    return re.search(rf"\b{view}\b", sql, re.IGNORECASE) is not None


def _is(path: str, kind: Any) -> bool:
    """Whether a path itself, and no link, is of a kind."""
    with suppress(OSError, ValueError):
        return bool(kind(os.lstat(path).st_mode))
    return False


def _select_column(column: Column, held: set[str], of: str = "") -> str:
    """Select a column in its type; times without their zone, which is UTC."""
    name, kind = _quote_name(column.name), SQL_TYPES[column.kind]
    if column.name not in held:
        return f"NULL::{kind} AS {name}"
    told = f"make_timestamp(epoch_us({of}{name}))" if column.kind == "time" else f"{of}{name}::{kind}"
    return f"{told} AS {name}"


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _files(paths: Sequence[str]) -> str:
    """List files as DuckDB takes them, which looks for patterns in their names."""
    return f"[{', '.join(_text(_pattern(path)) for path in paths)}]"


def _pattern(path: str) -> str:
    """Return the pattern that means this path alone."""
    return re.sub(r"([*?\[])", r"[\1]", path)


ANSWER_FORMATS: Final = ("csv", "json", "md", "parquet")


def views() -> ViewList:
    """List what a query can ask for: views with their columns, and these with units."""
    return ViewList(tuple(ViewFacts(name, columns) for name, columns in VIEWS.items()))


@takes(QueryOptions)
def query(path: str | os.PathLike[str], sql: str, **options: Unpack[QueryOptions]) -> QueryResult:
    """Ask a question in SQL, which only reads.

    Parameters
    ----------
    path : path
        The folder of a batch, an image or a capture. For an image or a capture, a batch of one is made temporarily.
    sql : str
        ``SELECT`` over the views of :func:`views`, in DuckDB's dialect.
    **options
        What the answer may cost, and how an image is read: :class:`~layoutscope.options.QueryOptions`.

    Returns
    -------
    QueryResult

    Raises
    ------
    TypeError
        If there is no such keyword.
    UsageError
        If it is not a query, or would do more than read the views.
    ImageError
        If nothing can be read.
    UnsupportedError
        If DuckDB is not installed.
    LayoutscopeError
        If the query cannot be answered, or not within its limits.

    Examples
    --------
    >>> import layoutscope
    >>> image = "fixtures/images/hfsplus-scattered.img.zst"
    >>> found = layoutscope.query(image, "SELECT count(*) AS nodes FROM nodes WHERE tree = 'catalog' AND level = 0")
    >>> found.frame["nodes"].to_list()
    [210]
    """
    own = fill(QueryLimits, options)
    reading = leave_out(options, own)
    limits = Limits(own["memory_bytes"], own["timeout_ms"] / 1000)  # refuses them before the work
    folder = Path(path)
    if (folder / FLEET_MANIFEST).is_file():
        _refuse_reading(folder, reading)
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
    more: dict[str, Any] = {} if volume is None else {"volume": volume}
    with tempfile.TemporaryDirectory(prefix="layoutscope-") as work:
        # What reads images takes longer to load than a question to a batch takes.
        from layoutscope.fleet.batch import batch

        with written_unheard():
            found = batch([name], Path(work) / "one", **{**reading, **more})
        if len(found.sources) != 1:
            raise UsageError(f"{name}: is not one image")
        if not found.sources[0].has_capture:
            raise ImageError(found.sources[0].message)
        return _answer_query(Path(work) / "one", sql, limits)


def _refuse_reading(folder: Path, options: Mapping[str, Any]) -> None:
    """Refuse what a batch that is written cannot heed any more."""
    usual: Mapping[str, Any] = fill(ReadOptions, {})
    asked = [name for name, value in options.items() if value is not None and value != usual.get(name)]
    if not asked:
        return
    from layoutscope.fleet.batch import HEARD

    late = [name for name in asked if name not in (*HEARD, "cache_dir")]
    if late:
        raise UsageError(f"{folder}: is a batch, whose images were read. Give {late[0].replace('_', '-')} to batch.")


def _answer_query(folder: Path, sql: str, limits: Limits) -> QueryResult:
    """Answer a question; where a capture cannot be read, from the others."""
    with FleetViews(folder, sql, limits) as known:
        known.check(sql)
        try:
            frame = known.frame(sql)
        except LayoutscopeError:
            if not known.without_damaged(sql):
                raise
            frame = known.frame(sql)
        return QueryResult(frame, tuple(known.left_out))


def write_answer(
    result: QueryResult,
    target: str | os.PathLike[str] | IO[bytes],
    *,
    # one of `ANSWER_FORMATS`; by default from the target's name, else CSV
    file_format: str | None = None,
    force: bool = False,
) -> None:
    """Write what a query gave."""
    form = file_form(target, file_format, ANSWER_FORMATS, "csv")
    with output(target, force=force, holds=f"{len(result.frame):,} rows") as file:
        if form in FORMATS:
            write_table(result.answer(), file, form)
        else:
            text = markdown(result) if form == "md" else result_json(result) + "\n"
            file.write(text.encode())
