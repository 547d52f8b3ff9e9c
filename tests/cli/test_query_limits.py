"""Limits of a query, its interruption, and DuckDB's errors as one line."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import layoutscope
from layoutscope.errors import LayoutscopeError, UsageError

duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
from layoutscope.fleet import query  # noqa: E402  (needs DuckDB)
from tests.cases import for_each  # noqa: E402
from tests.peak import run_measured  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
HFS = ROOT / "fixtures/images/hfsplus-scattered.img.zst"
AROUND = {**os.environ, "PYTHONPATH": str(ROOT)}

ENDLESS = (
    "SELECT count(*) FROM range(100000000000000)",
    "SELECT count(*) FROM range(10000000) AS a, range(10000000) AS b",
    "WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM a) SELECT count(*) FROM a",
)
LARGE = (
    "SELECT list(range) FROM range(3000000000)",  # DuckDB's own memory
    "SELECT * FROM range(3000000000)",  # memory of the rows
    "SELECT repeat('x', 100000000) AS a FROM range(1000)",  # long texts, which DuckDB does not count
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """A batch of one image."""
    folder = tmp_path_factory.mktemp("limits") / "fleet"
    layoutscope.batch([HFS], folder)
    return folder


@pytest.mark.parametrize("sql", ENDLESS)
def test_a_query_ends_when_its_time_is_over(fleet, sql):
    """The line names the limit and the option that changes it; the next query is answered."""
    with pytest.raises(LayoutscopeError, match=r"takes longer than 0\.5 s; timeout_ms allows more") as ended:
        layoutscope.query(fleet, sql, timeout_ms=500)
    assert ended.value.typed == "the query takes longer than 0.5 s; --timeout allows more"
    assert not query.is_working()
    assert layoutscope.query(fleet, "SELECT 1 AS a").frame.rows() == [(1,)]


@pytest.mark.full
@pytest.mark.parametrize("sql", LARGE)
def test_a_query_ends_when_it_takes_too_much_memory(fleet, sql):
    """Whichever part uses the memory; in a separate process, whose peak is measured."""
    limit_mib, loaded_mib = 300, 300
    words = [sys.executable, "-m", "layoutscope", "query", fleet, sql, "--memory", f"{limit_mib}MiB", "-o", "a.csv"]
    process, peak = run_measured(
        words, str(fleet.parent / "peak"), stderr=subprocess.PIPE, text=True, env=AROUND, cwd=fleet.parent
    )
    assert process.stderr == "layoutscope: the query takes more memory than 300 MiB; --memory allows more\n"
    assert process.returncode == 1
    peak_mib = peak >> 20
    # Memory used between two checks exceeds the limit, and checks may be late. Without a limit it takes 100 GB.
    assert peak_mib < loaded_mib + limit_mib + 2048
    assert not (fleet.parent / "a.csv").exists()


@pytest.mark.parametrize(("option", "value"), [("timeout_ms", 0), ("memory_bytes", 0), ("timeout_ms", -1)])
def test_a_limit_that_leaves_nothing_is_refused(option, value):
    """Refused before anything is read."""
    with pytest.raises(UsageError, match="must be more than 0"):
        layoutscope.query("absent.img", "SELECT 1", **{option: value})


def test_without_options_there_are_limits(fleet, monkeypatch):
    """A quarter of this machine's memory and five minutes; spilling to disk is disabled."""
    found, make = [], query.Limits
    monkeypatch.setattr(query, "Limits", lambda *given: found.append(given) or make(*given))
    sql = "SELECT current_setting('memory_limit') AS m, current_setting('temp_directory') AS t"
    told = layoutscope.query(fleet, sql).frame.rows()[0]
    assert found[-1] == (None, 300.0)
    assert query.default_memory_bytes() >= 1 << 30
    number, unit = told[0].split()
    assert float(number) * 1024 ** ["KiB", "MiB", "GiB"].index(unit) * 1024 == pytest.approx(
        query.default_memory_bytes(), rel=0.1
    )
    assert told[1] == ""


SIGNALS = {"SIGINT": (130, "layoutscope: interrupted\n"), "SIGTERM": (143, "layoutscope: ended by SIGTERM\n")}


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("sql", [*ENDLESS, "SELECT sum(length(repeat('x', 1000000) || range)) FROM range(30000000)"])
def test_a_query_hears_signals(fleet, sql, name):
    """Immediately, while DuckDB works; the shell's line for the signal is the only output."""
    code = (
        "import sys\nfrom layoutscope.fleet import query\nfrom layoutscope.__main__ import main\n"
        "check = query.Limits.check\n"
        "query.Limits.check = lambda self: print('at work', flush=True) or check(self)\nmain()"
    )
    usual = {"SIGINT": signal.default_int_handler, "SIGTERM": signal.SIG_DFL}[name]
    with subprocess.Popen(
        [sys.executable, "-c", code, "query", fleet, sql],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=AROUND,
        preexec_fn=lambda: signal.signal(getattr(signal, name), usual),  # noqa: PLW1509  (no thread runs here)
    ) as process:  # fmt: skip
        assert "at work\n" in process.stdout
        process.send_signal(getattr(signal, name))
        said = process.communicate(timeout=60)[1]  # the query would take hours
    assert (process.returncode, said) == SIGNALS[name]


def test_who_does_not_hear_is_left_alone(fleet, monkeypatch):
    """A single operation may take any time, so nobody waits for its end, and its resources are not freed."""
    release = query.Event()
    monkeypatch.setattr(query.FleetViews, "_frame", lambda *_: release.wait())
    before = len(query._ABANDONED_CONNECTIONS)
    with pytest.raises(LayoutscopeError, match="takes longer than"):
        layoutscope.query(fleet, "SELECT 1", timeout_ms=200)
    assert query.is_working()
    assert len(query._ABANDONED_CONNECTIONS) == before + 1
    release.set()
    for thread in query.threading.enumerate():
        if thread.name == query.THREAD_NAME:
            thread.join()
    assert not query.is_working()


STATEMENTS = [
    "INSERT INTO sources VALUES (1)", "UPDATE sources SET status = 1", "CREATE TABLE a (b INT)", "DELETE FROM sources",
    "PREPARE a AS SELECT 1", "EXECUTE a", "ALTER TABLE sources ADD COLUMN a INT", "BEGIN TRANSACTION", "COMMIT",
    "ROLLBACK", "COPY sources TO 'a'", "ANALYZE", "SET VARIABLE a = 1", "CREATE MACRO a() AS 1", "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE SELECT 1", "DROP VIEW sources", "EXPORT DATABASE 'a'", "IMPORT DATABASE 'a'", "PRAGMA version",
    "VACUUM", "CALL range(1)", "SET threads = 1", "RESET threads", "LOAD a", "INSTALL a", "FORCE INSTALL a",
    "ATTACH 'a'", "DETACH a", "USE a", "COPY FROM DATABASE a TO b", "UPDATE EXTENSIONS", "UPDATE EXTENSIONS (a)",
    "CHECKPOINT", "FORCE CHECKPOINT", "DEALLOCATE a", "CREATE SECRET a (TYPE s3)", "DROP SECRET a", "CREATE SCHEMA a",
    "CREATE SEQUENCE a", "CREATE TYPE a AS ENUM ('b')", "CREATE INDEX a ON sources (status)",
    "COMMENT ON VIEW sources IS 'a'",
    "MERGE INTO sources USING volumes ON true WHEN MATCHED THEN DELETE", "PIVOT sources ON status USING count(*)",
    "UNPIVOT sources ON status INTO NAME a VALUE b", "TRUNCATE sources",
    "SELECT \x00 1", "SELECT '\udcff'", "SELECT 1" + " + 1" * 20000, "(" * 5000 + "SELECT 1" + ")" * 5000,
    ";;;", "\ufeffSELECT",
]  # fmt: skip
"""One of each kind that DuckDB parses, and some that it does not."""


@for_each("sql", STATEMENTS)
def test_every_kind_of_statement_is_answered_or_refused_in_one_line(fleet, sql):
    """A query raises only errors of this package, and writes nothing."""
    before = {file: file.stat().st_mtime_ns for file in fleet.rglob("*")}
    try:
        layoutscope.query(fleet, sql, timeout_ms=60_000)
    except LayoutscopeError as error:
        assert "\n" not in str(error)  # noqa: PT017  (a few of them are answered)
    assert {file: file.stat().st_mtime_ns for file in fleet.rglob("*")} == before
    assert not Path("a").exists()


def test_a_kind_without_a_name_is_refused(fleet, monkeypatch):
    """DuckDB parses statement kinds that its Python package has no name for: 29, in version 1.4."""

    class Statement:
        @property
        def type(self):
            raise ValueError("29 is not a valid StatementType")

    monkeypatch.setattr(duckdb, "extract_statements", lambda _: [Statement()])
    with pytest.raises(UsageError, match="a query only reads"):
        layoutscope.query(fleet, "UPDATE EXTENSIONS")


EXCEPTIONS = sorted(
    {each for each in vars(duckdb).values() if isinstance(each, type) and issubclass(each, duckdb.Error)},
    key=lambda each: each.__name__,
)


@for_each("kind", EXCEPTIONS)
@for_each("place", ["connect", "extract_statements", "frame"])
def test_every_exception_of_duckdb_is_one_line(fleet, monkeypatch, kind, place):
    """At startup, while a query is parsed, and while it is answered."""

    def fail(*_, **__):
        raise kind(f"{kind.__name__.removesuffix('Exception')} Error: first\nsecond\n\nthird")

    if place == "frame":
        monkeypatch.setattr(query.FleetViews, "_frame", fail)
    else:
        monkeypatch.setattr(duckdb, place, fail)
    with pytest.raises(LayoutscopeError) as ended:
        layoutscope.query(fleet, "SELECT 1")
    assert "first" in str(ended.value)
    assert "\n" not in str(ended.value)


def test_errors_while_rows_are_taken_are_one_line(fleet):
    """They are polars errors, because polars fetches the rows."""
    sql = "SELECT CASE WHEN range = 5000000 THEN error('boom') ELSE range END AS a FROM range(6000000)"
    with pytest.raises(LayoutscopeError, match="boom") as ended:
        layoutscope.query(fleet, sql)
    assert "\n" not in str(ended.value)


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="Linux holds processes to such limits")
@pytest.mark.parametrize("mib", [130, 176, 192, 208, 256, 512, 768, 1024])
def test_too_little_memory_is_told(fleet, mib):
    """From limits at which libraries fail to load to those at which DuckDB gets no memory: without a traceback."""
    code = f"import resource, sys\nresource.setrlimit(resource.RLIMIT_AS, ({mib << 20}, {mib << 20}))\n"
    code += "from layoutscope.__main__ import main\nmain()"
    words = [sys.executable, "-c", code, "query", fleet, "SELECT 1 AS a"]
    result = subprocess.run(words, capture_output=True, text=True, check=False, env=AROUND, timeout=120)
    if result.returncode:
        # A library may end the process with its own message; DuckDB's zstd and nanobind give no reason.
        assert result.stderr
        assert "Traceback" not in result.stderr


@pytest.mark.full
@pytest.mark.parametrize("form", [None, "csv", "md", "json"])
def test_names_of_columns_are_escaped_as_cells_are(fleet, form):
    """The sender of a query chooses them: they act on no terminal, spreadsheet or Markdown."""
    sql = 'SELECT 1 AS "\x1b[31m", 2 AS "=1+1", 3 AS "a,b""c", 4 AS "<b>|x", 5 AS "x\u202ey"'
    words = [sys.executable, "-m", "layoutscope", "query", fleet, sql, *(["--format", form] if form else [])]
    result = subprocess.run(words, capture_output=True, text=True, check=False, env=AROUND, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "\x1b" not in result.stdout
    assert form == "json" or "\u202e" not in result.stdout
    if form == "csv":
        assert result.stdout.splitlines()[0] == '\\u001b[31m,\'=1+1,"a,b""c",<b>|x,x\\u202ey'
    if form == "md":
        assert r"\<b\>\|x" in result.stdout.splitlines()[0]
