"""Queries of a batch: results, limits, interruption, and that they only read, whatever the folder holds."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

import layoutscope
from layoutscope.errors import LayoutscopeError, UsageError
from layoutscope.fleet import query
from layoutscope.fleet.query import CAPTURE_TABLES, VIEWS
from layoutscope.report.text import print_result
from layoutscope.report.text.console import make_console
from layoutscope.tables.schema import TABLES
from tests.cases import for_each
from tests.cli.conftest import APFS, HFS, ROOT
from tests.peak import run_measured

pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")

AROUND = {**os.environ, "PYTHONPATH": str(ROOT)}


def run(*words, **more):
    command = [sys.executable, "-m", "layoutscope", "query", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=AROUND, **more)


def rows(folder, sql, **options):
    return layoutscope.query(folder, sql, **options).frame.rows()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A batch of two images and a file that is none, in a folder whose name has SQL and glob characters."""
    folder = tmp_path_factory.mktemp("written") / "it's [1]*"
    layoutscope.batch([HFS, APFS, "nowhere.img"], folder, drives=["generic-7200", "sata-ssd"])
    return folder


@pytest.fixture
def fleet(written, tmp_path):
    """A copy of the batch that a test may change."""
    return Path(shutil.copytree(written, tmp_path / "fleet"))


def capture_of(folder, name):
    return next((folder / "captures").glob(f"{name}*"))


def test_every_view_has_the_rows_of_its_tables(written):
    """Views over all sources are those files; views over captures have each row of each layout once."""
    for view, columns in VIEWS.items():
        found = layoutscope.query(written, f"SELECT * FROM {view}").frame  # noqa: S608
        assert found.columns == [column.name for column in columns]
        if view in CAPTURE_TABLES:
            parts = [pl.read_parquet(file, glob=False) for file in written.glob(f"captures/*/*/{view}.parquet")]
            assert len(parts) == 3
            assert found.height == sum(part.height for part in parts)
        else:
            file = "batch" if view == "sources" else view
            assert found.equals(pl.read_parquet(written / f"{file}.parquet", glob=False))


def test_rows_of_captures_are_those_of_their_volume(written):
    """Each layout's rows have the source and the volume that they belong to."""
    for path in (HFS, APFS):
        for number, layout in enumerate(layoutscope.read_layouts(path)):
            found = layoutscope.query(
                written,
                "SELECT e.* FROM entries e JOIN sources USING (source) JOIN volumes v USING (source, volume) "  # noqa: S608
                f"WHERE path = '{path}' AND layout = {number} AND v.uuid = '{layout.facts.uuid}' ORDER BY \"row\"",
            ).frame
            wanted = layout.entries
            assert found.height == wanted.height
            for column in TABLES["entries"]:
                if column.name == "volume":
                    assert found["number"].to_list() == wanted["volume"].to_list()
                elif column.kind == "time":
                    assert found[column.name].to_list() == wanted[column.name].dt.replace_time_zone(None).to_list()
                else:
                    assert found[column.name].to_list() == wanted[column.name].to_list(), column.name


def test_an_image_and_its_capture_are_asked_as_a_batch_is(written):
    """A query of one image gives the same rows as its row in a batch; its temporary batch is removed."""
    sql = "SELECT tree, level, count(*) AS nodes FROM nodes WHERE volume LIKE '%HFS+%' GROUP BY ALL ORDER BY ALL"
    wanted = rows(written, sql)
    assert wanted == rows(HFS, sql) == rows(capture_of(written, "hfs"), sql)
    assert rows(f"{HFS}:Scattered", sql) == wanted
    assert len(wanted) > 3


@for_each(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_text('{folder}/batch.json')",
        "SELECT * FROM parquet_metadata('{folder}/batch.parquet')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM query('SELECT 1')",
        "SELECT (SELECT count(*) FROM read_blob('/etc/passwd'))",
        "COPY sources TO '{out}'",
        "COPY sources TO '{folder}/sources.csv'",
        "WITH a AS (COPY (SELECT 1) TO '{folder}/batch.parquet' (FORMAT csv, USE_TMP_FILE false)) SELECT 1",
        "WITH a AS (COPY (SELECT 1) TO '{out}') SELECT 1",
        "SELECT 1 UNION ALL (WITH a AS (DELETE FROM nodes_files RETURNING *) SELECT count(*) FROM a)",
        "EXPORT DATABASE '{out}'",
        "ATTACH '{out}'",
        "ATTACH '{folder}/new.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET threads = 1; SELECT 1",
        "CREATE TABLE mine AS SELECT 1",
        "DROP VIEW sources",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "SELECT * FROM layoutscope",
        "SELECT nothing FROM sources",
        "SELEC 1",
        "SELECT 1; SELECT 2",
        "-- nothing",
        "",
        "SELECT 1 AS a, 2 AS a",
    ],
)
def test_nothing_but_a_question_is_taken(written, tmp_path, sql):
    """Statements that read files, write or load are refused, and the folder does not change."""
    before = {file: file.stat().st_mtime_ns for file in written.rglob("*")}
    quoted = str(written).replace("'", "''")
    with pytest.raises(UsageError) as refused:
        layoutscope.query(written, sql.format(folder=quoted, out=tmp_path / "out"))
    assert "\n" not in str(refused.value)
    assert {file: file.stat().st_mtime_ns for file in written.rglob("*")} == before
    assert not list(tmp_path.iterdir())


def test_a_refusal_is_one_line_and_a_result_has_none(written, tmp_path):
    """A terminal shows one line on standard error with exit code 2, or only the rows."""
    refused = run(written, "SELECT * FROM read_csv('/etc/passwd')", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.count("\n") == 1
    assert "read_csv" in refused.stderr
    asked = run(written, "SELECT status, count(*) AS number FROM sources GROUP BY ALL ORDER BY ALL", cwd=tmp_path)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert [line.split() for line in asked.stdout.splitlines()[3:]] == [["complete", "2"], ["failed", "1"]]
    assert not list(tmp_path.iterdir())


def test_plain_questions_of_every_kind_are_taken(written):
    """Read-only queries are accepted: grouping, windows, common tables, sets, lists of numbers, descriptions."""
    for sql in (
        "FROM sources",
        "WITH a AS (SELECT 1 AS n) SELECT n FROM a UNION SELECT 2",
        "WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM a WHERE n < 3) SELECT * FROM a",
        "SELECT *, rank() OVER (PARTITION BY drive ORDER BY seconds) AS place FROM predictions",
        "SELECT * FROM range(3), unnest([1, 2])",
        "DESCRIBE nodes",
        "SHOW TABLES",
        "SUMMARIZE predictions",
        "VALUES (1)",
    ):
        assert rows(written, sql)


@pytest.mark.full
def test_forms_say_the_same(written, tmp_path):
    """CSV, JSON, Parquet and Markdown hold the same rows, on standard output and in files."""
    sql = "SELECT drive, sum(reads) AS reads, max(seconds) AS s, [1, 2] AS two FROM predictions GROUP BY 1 ORDER BY ALL"
    wanted = layoutscope.query(written, sql).frame
    assert wanted.height == 2
    read = pl.read_csv(io.StringIO(run(written, sql, "--format", "csv").stdout))
    assert read["reads"].to_list() == [int(number) for number in wanted["reads"]]
    assert read["s"].to_list() == wanted["s"].to_list()
    document = json.loads(run(written, sql, "--format", "json").stdout)
    assert [row["reads"] for row in document["rows"]] == read["reads"].to_list()
    assert document["rows"][0]["two"] == "[1, 2]"
    assert run(written, sql, "-o", tmp_path / "a.parquet").returncode == 0
    assert pl.read_parquet(tmp_path / "a.parquet").equals(wanted)
    lines = run(written, sql, "--format", "md").stdout.splitlines()
    assert [line.split(" | ")[1] for line in lines[2:]] == [str(number) for number in read["reads"]]
    again = run(written, sql, "-o", tmp_path / "a.parquet")
    assert (again.returncode, "exists" in again.stderr) == (2, True)
    assert run(written, sql, "-o", tmp_path / "b.csv", "--format", "json").returncode == 2


def test_the_list_names_every_column(written):
    """--list names views and columns with their units; its JSON says the same."""
    told = run(written, "--list")
    assert told.returncode == 0
    for columns in VIEWS.values():
        assert all(column.name in told.stdout for column in columns)
    document = json.loads(run(written, "--list", "--format", "json").stdout)
    assert list(document["views"]) == list(VIEWS)
    units = {column["name"]: column["unit"] for column in document["views"]["predictions"]}
    assert (units["seconds"], units["read_bytes"]) == ("s", "bytes")


def harmed(folder, how):
    """Damage the table of nodes of the HFS+ volume, or its capture."""
    capture = capture_of(folder, "hfs")
    file = capture / "0" / "nodes.parquet"
    if how == "cut":
        file.write_bytes(file.read_bytes()[:-1000])
    elif how == "noise":
        data = file.read_bytes()
        footer = int.from_bytes(data[-8:-4], "little") + 8
        file.write_bytes(data[:4] + hashlib.shake_128(b"noise").digest(len(data) - footer - 4) + data[-footer:])
    elif how == "link":
        shutil.move(file, folder.parent / "elsewhere.parquet")
        file.symlink_to(folder.parent / "elsewhere.parquet")
    elif how == "folder link":
        shutil.move(capture, folder.parent / "elsewhere")
        capture.symlink_to(folder.parent / "elsewhere")
    elif how == "pipe":
        file.unlink()
        os.mkfifo(file)
    elif how == "columns":
        pl.DataFrame({"row": [1]}).write_parquet(file)
    elif how == "types":
        pl.read_parquet(file).with_columns(tree=pl.lit("x"), size_bytes=pl.lit("many")).write_parquet(file)
    elif how == "gone":
        shutil.rmtree(capture)
    else:
        sources = pl.read_parquet(folder / "batch.parquet")
        shutil.move(capture, folder.parent / "elsewhere.lscope")
        path = pl.when(pl.col("capture").str.contains("hfs")).then(pl.lit(how)).otherwise("capture")
        sources.with_columns(capture=path).write_parquet(folder / "batch.parquet")


@pytest.mark.full
@pytest.mark.parametrize(
    "how",
    ["cut", "noise", "link", "folder link", "pipe", "columns", "types", "gone", "../elsewhere.lscope", "captures/.."],
)
def test_a_capture_that_means_harm_is_left_out_and_named(fleet, how):
    """The others answer, the exit code is 3, a line names the missing one; files outside are not opened."""
    sql = "SELECT volume, sum(size_bytes) AS b, count(DISTINCT xid) AS x FROM nodes GROUP BY ALL ORDER BY ALL"
    wanted = [row for row in rows(fleet, sql) if "HFS+" not in row[0]]
    assert len(wanted) == 2
    harmed(fleet, how)
    found = layoutscope.query(fleet, sql)
    assert found.frame.rows() == wanted
    assert found.exit_code == 3
    assert found.left_out
    told = run(fleet, sql)
    assert told.returncode == 3
    assert all(line.startswith("layoutscope: left out: ") for line in told.stderr.splitlines())
    assert layoutscope.query(fleet, "SELECT count(*) FROM volumes").frame.rows() == [(3,)]


def test_a_batch_that_was_cut_off_or_is_damaged_is_one_line(fleet):
    """Columns that it lacks are null. Errors name a file that is not a table, a missing table and a foreign batch."""
    pl.read_parquet(fleet / "volumes.parquet").drop("features").write_parquet(fleet / "volumes.parquet")
    assert rows(fleet, "SELECT DISTINCT features FROM volumes") == [(None,)]
    (fleet / "metrics.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    with pytest.raises(LayoutscopeError, match=r"metrics\.parquet: cannot be read as a table"):
        layoutscope.query(fleet, "SELECT 1")
    (fleet / "metrics.parquet").unlink()
    with pytest.raises(UsageError, match="resume=True completes it"):
        layoutscope.query(fleet, "SELECT 1")
    (fleet / "batch.json").write_text('{"format": "something else"}')
    with pytest.raises(UsageError, match="is not a batch"):
        layoutscope.query(fleet, "SELECT 1")


@pytest.mark.parametrize("name", ["hfs", "apfs"])
def test_columns_that_an_older_capture_has_not_are_null(fleet, name):
    """No table is left out for them, whether its file is the first of the view or a later one."""
    assert {"condition", "xid"} <= query.NEWER
    sql = "SELECT capture, volume, condition, xid, node_id FROM nodes JOIN sources USING (source) ORDER BY ALL"
    older = f"captures/{capture_of(fleet, name).name}"
    wanted = [(*row[:2], None, None, row[4]) if row[0] == older else row for row in rows(fleet, sql)]
    for file in capture_of(fleet, name).glob("*/nodes.parquet"):
        pl.read_parquet(file).drop("condition", "xid").write_parquet(file)
    found = layoutscope.query(fleet, sql)
    assert (found.left_out, found.exit_code) == ((), 0)
    assert sorted(found.frame.rows(), key=repr) == sorted(wanted, key=repr)
    assert {row[2] is None for row in wanted} == {True, False}


def test_several_older_tables_in_one_query_cost_no_pass_over_their_files(fleet, monkeypatch):
    """The columns that the tables of the second capture lack are in the footers of the files."""
    monkeypatch.setattr(query.FleetViews, "_is_readable", lambda *_: pytest.fail("a whole file was read"))
    for name, column in (("nodes", "xid"), ("entries", "valence")):
        for file in capture_of(fleet, "apfs").glob(f"*/{name}.parquet"):
            pl.read_parquet(file).drop(column).write_parquet(file)
    found = layoutscope.query(fleet, "SELECT xid FROM nodes UNION ALL SELECT valence FROM entries")
    assert (found.left_out, found.exit_code) == ((), 0)


@pytest.mark.parametrize(
    ("place", "said"),
    [("nowhere.img", "no such file"), (".", "is not an image"), ("@list", "is not an image"), (__file__, "text file")],
)
def test_what_is_no_image_is_one_line(tmp_path, monkeypatch, place, said):
    """An unreadable input gives no rows."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LayoutscopeError, match=said):
        layoutscope.query(place, "SELECT 1")


def test_how_images_are_read_is_told_to_batch(written):
    """A written batch ignores passwords, so one is refused; an image uses it."""
    with pytest.raises(UsageError, match="Give password to batch"):
        layoutscope.query(written, "SELECT 1", password="x")  # noqa: S106
    assert rows(written, "SELECT 1 AS n", names=True, cache_dir="x") == [(1,)]
    assert rows(HFS, "SELECT DISTINCT name FROM entries WHERE file_id > 20", names=False) == [(None,)]


@pytest.mark.full
@pytest.mark.parametrize("name", ["batch.json", "metrics.parquet", "rows/*.json", "captures/*/manifest.json"])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("verb", ["query", "report"])
def test_nothing_is_printed_into_the_batch(fleet, tmp_path, verb, name, stream):
    """Also if the query needs no table; the file is open for reading and writing, as with ``1<>``."""
    place = next(fleet.glob(name))
    before = place.read_bytes()
    more = ("SELECT 1",) if verb == "query" else ("-o", tmp_path / "page.html")
    with place.open("r+b") as file:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: file}
        command = [sys.executable, "-m", "layoutscope", verb, *map(str, (fleet, *more))]
        done = subprocess.run(command, text=True, timeout=240, check=False, env=AROUND, **streams)
    assert done.returncode == 2
    told = done.stderr if stream == "stdout" else done.stdout
    assert ("which is a capture, and standard" if "captures" in name else "is read as input, and standard") in told
    assert place.read_bytes() == before
    assert not (tmp_path / "page.html").exists()


def test_a_terminal_is_shown_the_columns_that_fit(image):
    """No line is wider than the terminal, and hidden columns are counted; a pipe gets all columns."""
    found = layoutscope.query(image, "SELECT * FROM volumes")
    for width, is_cut in ((80, True), (10_000, False)):
        file = io.StringIO()
        print_result(found, make_console(file, width=width))
        title, head, *_ = file.getvalue().splitlines()
        assert max(map(len, file.getvalue().splitlines())) <= width
        assert ("shown; -o FILE.csv has all)" in title) == is_cut
        assert head.split() == found.frame.columns[: len(head.split())]
        assert (len(head.split()) < len(found.frame.columns)) == is_cut


# Limits of a query, its interruption, and DuckDB's errors as one line.


duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
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
def large_fleet(tmp_path_factory):
    """A batch of one image."""
    folder = tmp_path_factory.mktemp("limits") / "fleet"
    layoutscope.batch([HFS], folder)
    return folder


@pytest.mark.parametrize("sql", ENDLESS)
def test_a_query_ends_when_its_time_is_over(large_fleet, sql):
    """The line names the limit and the option that changes it; the next query is answered."""
    with pytest.raises(LayoutscopeError, match=r"takes longer than 0\.5 s; timeout_ms allows more") as ended:
        layoutscope.query(large_fleet, sql, timeout_ms=500)
    assert ended.value.typed == "the query takes longer than 0.5 s; --timeout allows more"
    assert not query.is_working()
    assert layoutscope.query(large_fleet, "SELECT 1 AS a").frame.rows() == [(1,)]


@pytest.mark.full
@pytest.mark.parametrize("sql", LARGE)
def test_a_query_ends_when_it_takes_too_much_memory(large_fleet, sql):
    """Whichever part uses the memory; in a separate process, whose peak is measured."""
    limit_mib, loaded_mib = 300, 300
    words = [
        sys.executable,
        "-m",
        "layoutscope",
        "query",
        large_fleet,
        sql,
        "--memory",
        f"{limit_mib}MiB",
        "-o",
        "a.csv",
    ]
    process, peak = run_measured(
        words, str(large_fleet.parent / "peak"), stderr=subprocess.PIPE, text=True, env=AROUND, cwd=large_fleet.parent
    )
    assert process.stderr == "layoutscope: the query takes more memory than 300 MiB; --memory allows more\n"
    assert process.returncode == 1
    peak_mib = peak >> 20
    # Memory used between two checks exceeds the limit, and checks may be late. Without a limit it takes 100 GB.
    assert peak_mib < loaded_mib + limit_mib + 2048
    assert not (large_fleet.parent / "a.csv").exists()


def test_without_options_there_are_limits(large_fleet, monkeypatch):
    """A quarter of this machine's memory and five minutes; spilling to disk is disabled; none may be 0 or less."""
    found, make = [], query.Limits
    monkeypatch.setattr(query, "Limits", lambda *given: found.append(given) or make(*given))
    sql = "SELECT current_setting('memory_limit') AS m, current_setting('temp_directory') AS t"
    told = layoutscope.query(large_fleet, sql).frame.rows()[0]
    assert found[-1] == (None, 300.0)
    assert query.default_memory_bytes() >= 1 << 30
    number, unit = told[0].split()
    bytes_ = float(number) * 1024 ** (1 + ["KiB", "MiB", "GiB"].index(unit))
    assert bytes_ == pytest.approx(query.default_memory_bytes(), rel=0.1)
    assert told[1] == ""
    for option, value, message in (
        ("timeout_ms", 0, "memory and timeout of a query must be more than 0"),
        ("memory_bytes", 0, "memory and timeout of a query must be more than 0"),
        ("timeout_ms", -1, "timeout_ms must be a number, 0 or more: it is -1"),
    ):
        with pytest.raises(UsageError, match=message):
            layoutscope.query("absent.img", "SELECT 1", **{option: value})


SIGNALS = {"SIGINT": (130, "layoutscope: interrupted\n"), "SIGTERM": (143, "layoutscope: ended by SIGTERM\n")}


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("sql", [*ENDLESS, "SELECT sum(length(repeat('x', 1000000) || range)) FROM range(30000000)"])
def test_a_query_hears_signals(large_fleet, sql, name):
    """Immediately, while DuckDB works; the shell's line for the signal is the only output."""
    code = (
        "import sys\nfrom layoutscope.fleet import query\nfrom layoutscope.__main__ import main\n"
        "check = query.Limits.check\n"
        "query.Limits.check = lambda self: print('at work', flush=True) or check(self)\nmain()"
    )
    usual = {"SIGINT": signal.default_int_handler, "SIGTERM": signal.SIG_DFL}[name]
    with subprocess.Popen(
        [sys.executable, "-c", code, "query", large_fleet, sql],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=AROUND,
        preexec_fn=lambda: signal.signal(getattr(signal, name), usual),  # noqa: PLW1509  (no thread runs here)
    ) as process:  # fmt: skip
        assert "at work\n" in process.stdout
        process.send_signal(getattr(signal, name))
        said = process.communicate(timeout=60)[1]  # the query would take hours
    assert (process.returncode, said) == SIGNALS[name]


LONG_S = 20.0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no such timer")
def test_a_signal_at_any_moment_is_the_error_that_is_raised(monkeypatch):
    """Also within the wait for DuckDB's thread, whose locks stay usable."""
    heard = []

    def interrupt(*_):
        heard.append(number)
        raise KeyboardInterrupt

    def start_timer(seconds):
        signal.setitimer(signal.ITIMER_REAL, seconds, LONG_S)

    monkeypatch.setattr(query, "POLL_INTERVAL_S", 1e-6)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for number in range(600):
            interrupted = threading.Event()
            # Set within the wait, for the start of a thread is a wait as well; again, if one waits without end.
            limits = SimpleNamespace(check=partial(next, map(start_timer, [0.0001 + number * 1e-7]), None))
            with pytest.raises(KeyboardInterrupt):
                query.run_interruptibly(limits, SimpleNamespace(interrupt=interrupted.set), interrupted.wait)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert heard == [*range(600)]


def test_who_does_not_hear_is_left_alone(large_fleet, monkeypatch):
    """A single operation may take any time, so nobody waits for its end, and its resources are not freed."""
    release = threading.Event()
    monkeypatch.setattr(query.FleetViews, "_frame", lambda *_: release.wait())
    before = len(query._ABANDONED_CONNECTIONS)
    with pytest.raises(LayoutscopeError, match="takes longer than"):
        layoutscope.query(large_fleet, "SELECT 1", timeout_ms=200)
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
def test_every_kind_of_statement_is_answered_or_refused_in_one_line(large_fleet, sql):
    """A query raises only errors of this package, and writes nothing."""
    before = {file: file.stat().st_mtime_ns for file in large_fleet.rglob("*")}
    try:
        layoutscope.query(large_fleet, sql, timeout_ms=60_000)
    except LayoutscopeError as error:
        assert "\n" not in str(error)  # noqa: PT017  (a few of them are answered)
    assert {file: file.stat().st_mtime_ns for file in large_fleet.rglob("*")} == before
    assert not Path("a").exists()


def test_a_kind_without_a_name_is_refused(large_fleet, monkeypatch):
    """DuckDB parses statement kinds that its Python package has no name for: 29, in version 1.4."""

    class Statement:
        @property
        def type(self):
            raise ValueError("29 is not a valid StatementType")

    monkeypatch.setattr(duckdb, "extract_statements", lambda _: [Statement()])
    with pytest.raises(UsageError, match="a query only reads"):
        layoutscope.query(large_fleet, "UPDATE EXTENSIONS")


EXCEPTIONS = sorted(
    {each for each in vars(duckdb).values() if isinstance(each, type) and issubclass(each, duckdb.Error)},
    key=lambda each: each.__name__,
)


@for_each("kind", EXCEPTIONS)
@for_each("place", ["connect", "extract_statements", "frame"])
def test_every_exception_of_duckdb_is_one_line(large_fleet, monkeypatch, kind, place):
    """At startup, while a query is parsed, and while it is answered."""

    def fail(*_, **__):
        raise kind(f"{kind.__name__.removesuffix('Exception')} Error: first\nsecond\n\nthird")

    if place == "frame":
        monkeypatch.setattr(query.FleetViews, "_frame", fail)
    else:
        monkeypatch.setattr(duckdb, place, fail)
    with pytest.raises(LayoutscopeError) as ended:
        layoutscope.query(large_fleet, "SELECT 1")
    assert "first" in str(ended.value)
    assert "\n" not in str(ended.value)


def test_errors_while_rows_are_taken_are_one_line(large_fleet):
    """They are polars errors, because polars fetches the rows."""
    sql = "SELECT CASE WHEN range = 5000000 THEN error('boom') ELSE range END AS a FROM range(6000000)"
    with pytest.raises(LayoutscopeError, match="boom") as ended:
        layoutscope.query(large_fleet, sql)
    assert "\n" not in str(ended.value)


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="Linux holds processes to such limits")
@pytest.mark.parametrize("mib", [130, 176, 192, 208, 256, 512, 768, 1024])
def test_too_little_memory_is_told(large_fleet, mib):
    """From limits at which libraries fail to load to those at which DuckDB gets no memory: without a traceback."""
    code = f"import resource, sys\nresource.setrlimit(resource.RLIMIT_AS, ({mib << 20}, {mib << 20}))\n"
    code += "from layoutscope.__main__ import main\nmain()"
    words = [sys.executable, "-c", code, "query", large_fleet, "SELECT 1 AS a"]
    result = subprocess.run(words, capture_output=True, text=True, check=False, env=AROUND, timeout=120)
    if result.returncode:
        # A library may end the process with its own message; DuckDB's zstd and nanobind give no reason.
        assert result.stderr
        assert "Traceback" not in result.stderr


@pytest.mark.full
@pytest.mark.parametrize("form", [None, "csv", "md", "json"])
def test_names_from_a_disk_and_of_columns_act_on_nobody(large_fleet, form):
    """Cells, and heads that the sender of a query chooses, are escaped for terminals, spreadsheets and Markdown."""
    names = '"\x1b[31m", 2 AS "=1+1", 3 AS "a,b""c", 4 AS "<b>|x", 5 AS "x\u202ey"'
    sql = f"SELECT 1 AS {names}, '=1+1' AS a, chr(27) || '[31m' AS b, 'x|y' || chr(10) || '<b>' AS c, 'plain_name' AS d"
    done = run(large_fleet, sql, *(["--format", form] if form else []))
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert form == "json" or "\u202e" not in done.stdout
    if form == "csv":
        assert done.stdout.startswith('\\u001b[31m,\'=1+1,"a,b""c",<b>|x,x\\u202ey,a')
        assert list(csv.reader(io.StringIO(done.stdout)))[1][5:7] == ["'=1+1", "\\u001b[31m"]
    elif form == "md":
        head, _, line = done.stdout.splitlines()
        assert r"\<b\>\|x" in head
        assert all(part in line for part in (r"x\|y", r"\<b\>", "plain_name"))
    elif form == "json":
        assert json.loads(done.stdout)["rows"][0]["b"] == "\x1b[31m"
