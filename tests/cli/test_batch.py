"""Batches of many images: rows, limits, workers, folders that hold other files, full disks, and volumes of one name."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import polars as pl
import pytest

import layoutscope
from fixtures.apfs import writer as apfs
from fixtures.apfs.plan import VolumePlan as ApfsVolume
from fixtures.apfs.scenarios import ENCRYPTED, container, many
from fixtures.apfs.writer import write
from fixtures.hfsplus import writer as hfsplus
from fixtures.hfsplus.plan import File
from fixtures.hfsplus.plan import VolumePlan as HfsVolume
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write as write_hfsplus
from fixtures.partitions import mbr_of_several
from layoutscope.api.export import export
from layoutscope.api.outputs import OutputError
from layoutscope.errors import LayoutscopeError, UnsupportedError, UsageError, install_command
from layoutscope.fleet import engines
from layoutscope.fleet.engines import (
    MAX_SOURCES,
    FleetJob,
    WorkerPool,
    attempt,
    attempt_on_dask_worker,
)
from layoutscope.fleet.store import MIN_FREE_BYTES, FleetFolder
from layoutscope.results.fleet import STATUSES
from layoutscope.results.scan import volume_names
from layoutscope.tables.capture import is_capture
from tests.cli.conftest import APFS, HFS, IMAGES, ends, files_of

TABLES = ("batch", "volumes", "metrics", "predictions", "findings")
RUN = ("seconds", "peak_memory_bytes")
VARYING = (*RUN, "modify_time_ns", "identity")


def run(*words, **more):
    command = [sys.executable, "-m", "layoutscope", "batch", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, **more)


def table(folder, name="batch"):
    return pl.read_parquet(folder / f"{name}.parquet")


def status_of(folder):
    return {Path(path).name: status for path, status in table(folder).select("path", "status").rows()}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A folder of good and poisoned sources, with the output of a batch of it inside."""
    folder = tmp_path_factory.mktemp("mixed")
    for name in ("one", "two"):
        (folder / name).mkdir()
        shutil.copy(HFS, folder / name / "same.img.zst")
    (folder / "cut.img.zst").write_bytes(APFS.read_bytes()[:20000])
    (folder / "note.txt").write_text("a text, and no image\n")
    (folder / "empty").touch()
    (folder / "random").write_bytes(bytes(range(256)) * 400)
    (folder / "loop").symlink_to("loop")
    (folder / "up").symlink_to(".")
    Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff.img")).write_bytes(b"x" * 5000)
    os.mkfifo(folder / "pipe")
    unix = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(folder)  # socket paths have a short limit
    unix.bind("socket")
    os.chdir(here)
    done = run(folder, folder / "gone.img", "-o", folder / "fleet", "-j", 2)
    unix.close()
    return folder, folder / "fleet", done


def test_every_source_has_one_row_whatever_it_is(mixed):
    """The batch waits for neither a pipe nor a loop of links, and a file that is not an image has a row like others."""
    _, fleet, done = mixed
    assert done.returncode == 3
    rows = table(fleet)
    named = dict(zip(map(os.path.basename, rows["path_raw"]), rows["status"], strict=True))
    refused = [b"note.txt", b"empty", b"random", b"bad\xff.img", b"pipe", b"socket", b"cut.img.zst"]
    wanted = dict.fromkeys(refused, "refused") | {b"loop": "failed", b"gone.img": "failed", b"same.img.zst": "complete"}
    assert named == wanted
    assert rows.height == len(wanted) + 1  # two have the same name
    assert rows["source"].is_unique().all()
    assert rows.filter(status="complete")["message"].to_list() == ["", ""]
    assert (rows.filter(pl.col("status") != "complete")["message"] != "").all()
    assert rows.filter(path=str(fleet.parent / "pipe"))["message"].str.contains("may never end").all()
    assert rows["path"].str.contains(r"bad\xff.img", literal=True).sum() == 1
    assert not rows["path"].str.contains("fleet/").any()  # the output is not a source


def test_tables_are_keyed_by_source_and_documented(mixed, tmp_path, monkeypatch):
    """Every row belongs to a source; the manifest has the columns in order; tables are the same in small pieces."""
    _, fleet, done = mixed
    total, sources = table(fleet).height, set(table(fleet)["source"])
    # Without a terminal, each source prints a line.
    lines = [line for line in done.stderr.splitlines() if f" of {total}: " in line]
    assert lines[-1].startswith(f"layoutscope: {total} of")
    assert "Traceback" not in done.stderr
    manifest = json.loads((fleet / "batch.json").read_text())
    assert (manifest["format"], manifest["is_complete"]) == ("layoutscope.batch/1", True)
    assert manifest["counts"] == {name: (table(fleet)["status"] == name).sum() for name in STATUSES}
    read = set(table(fleet).filter(status="complete")["source"])
    assert set(table(fleet, "volumes")["source"]) == set(table(fleet, "metrics")["source"]) == read
    shutil.copytree(fleet, tmp_path / "copy")
    for name in TABLES:
        assert set(table(fleet, name)["source"]) <= sources
        assert table(fleet, name).columns == [column["name"] for column in manifest["tables"][name]]
        (tmp_path / f"copy/{name}.parquet").unlink()
    monkeypatch.setattr("layoutscope.fleet.store.SOURCES_PER_PIECE", 2)
    FleetFolder(tmp_path / "copy").write_tables(table(fleet)["source"], {})
    assert all(table(tmp_path / "copy", name).equals(table(fleet, name)) for name in TABLES)


def test_a_capture_equals_the_one_that_scan_saves(mixed, tmp_path):
    """Two sources of the same name each have a capture, byte for byte the one that scan --save writes."""
    folder, fleet, _ = mixed
    rows = table(fleet).filter(status="complete").sort("path")
    assert rows["capture"].n_unique() == 2
    result = layoutscope.scan(folder / "one/same.img.zst", identify=True)
    result.save(tmp_path / "single.lscope")
    assert files_of(fleet / rows["capture"][0]) == files_of(tmp_path / "single.lscope")
    predicted = table(fleet, "predictions").filter(source=rows["source"][0])
    assert predicted.select("drive", "seconds").rows() == result.times.select("drive", "seconds").rows()


def test_resuming_reads_only_what_changed_or_failed(mixed):
    """Complete, unchanged sources are not read again; changed or failed ones are; the tables follow."""
    folder, fleet, _ = mixed
    before = {file.name: file.stat().st_mtime_ns for file in (fleet / "rows").iterdir()}
    tables = {name: table(fleet, name) for name in TABLES}
    (folder / "note.txt").write_text("a text, not an image\n")
    done = run(folder, folder / "gone.img", "-o", fleet, "--resume")
    assert done.returncode == 3
    after = {file.name: file.stat().st_mtime_ns for file in (fleet / "rows").iterdir()}
    again = {name.removesuffix(".json") for name in before if before[name] != after[name]}
    paths = table(fleet).filter(pl.col("source").is_in(list(again)))["path"]
    assert {Path(path).name for path in paths} == {"note.txt", "loop", "gone.img"}
    assert table(fleet).drop(VARYING).equals(tables["batch"].drop(VARYING))
    assert all(table(fleet, name).equals(tables[name]) for name in TABLES[1:])


def test_other_options_are_read_anew(mixed, tmp_path):
    """A capture with names is not reused as one without: an option that changes results makes it again."""
    folder, _, _ = mixed
    image, fleet = folder / "one/same.img.zst", tmp_path / "fleet"
    first = layoutscope.batch(image, fleet, drives="generic-7200")
    same = layoutscope.batch(image, fleet, drives="generic-7200", resume=True, workers=1)
    other = layoutscope.batch(image, fleet, drives=["sata-ssd"], orders=["fts", "names"], resume=True)
    assert [first.kept, same.kept, other.kept] == [0, 1, 0]
    rows = other.table("predictions")
    assert rows.select("order", "drive").rows() == [("fts", "sata-ssd"), ("names", "sata-ssd")]
    listed = layoutscope.predict(image, order="names", drives="sata-ssd")
    assert rows["seconds"][1] == listed.times["seconds"][0]


@pytest.mark.full
def test_a_batch_that_was_killed_and_resumed_equals_a_calm_one(tmp_path):
    """Killed at its first lines, repeatedly, a batch resumes each time; the tables are those of an undisturbed run."""
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(4):
        shutil.copy((HFS, APFS)[number % 2], folder / f"disk {number}.img.zst")
    (folder / "note.txt").write_text("no image\n")
    killed, calm = tmp_path / "killed", tmp_path / "calm"
    assert run(folder, "-o", calm).returncode == 3
    kept = []
    for lines in (0, 1, 2):
        command = [sys.executable, "-m", "layoutscope", "batch", folder, "-o", killed, "--resume", "-j", "2"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            while not (killed / "work").is_dir() and process.poll() is None:
                continue
            for _ in range(lines):
                process.stderr.readline()
            process.send_signal(signal.SIGKILL)
        kept.append(len(list((killed / "rows").glob("*.json"))))
    assert kept[1] >= 1
    assert kept[2] >= min(kept[1] + 2, 5)  # a busy machine may do more before it is killed
    result = layoutscope.batch(folder, killed, resume=True)
    assert result.kept == kept[-1]
    assert not list((killed / "work").iterdir())
    for name in TABLES:
        there, wanted = table(killed, name), table(calm, name)
        assert there.drop(RUN, strict=name == "batch").equals(wanted.drop(RUN, strict=name == "batch"))
    for capture in table(calm)["capture"].drop_nulls():
        assert files_of(killed / capture) == files_of(calm / capture)


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--timeout", "0.01"), "took longer than 0.01 s"),
        (("--memory", "150MiB"), "not enough memory: limited to 150 MiB"),
        (("--written", "10KiB", "--no-cache"), "file too large"),
    ],
)
def test_what_passes_its_limits_is_a_row_that_says_which(tmp_path, words, said):
    """Time, memory and written bytes are limited for each source, and the batch continues."""
    done = run(HFS, "-o", tmp_path / "fleet", *words)
    assert done.returncode == 1
    rows = table(tmp_path / "fleet")
    assert rows.select("status", "exit_code").rows() == [("failed", 1)]
    assert said in rows["message"][0]
    assert layoutscope.batch(HFS, tmp_path / "fleet", resume=True).counts["complete"] == 1


def test_what_is_locked_is_not_called_damaged_unless_it_is(tmp_path):
    """An encrypted volume without its password is locked; if another volume lost a leaf, the source is damaged."""
    write(container(ApfsVolume("Plain", many(60)), ENCRYPTED, block_count=16384), tmp_path / "locked.img")
    volumes = layoutscope.scan(tmp_path / "locked.img", drives=()).parts
    plain = next(volume.layout for volume in volumes if volume.layout.facts.name == "Plain")
    leaf = next(node for node in plain.nodes.rows(named=True) if node["tree"] == "fs" and node["level"] == 0)
    data = bytearray((tmp_path / "locked.img").read_bytes())
    data[leaf["image_offset"] : leaf["image_offset"] + 4096] = bytes(4096)
    (tmp_path / "both.img").write_bytes(data)
    run(tmp_path / "locked.img", tmp_path / "both.img", "-o", tmp_path / "fleet")
    assert status_of(tmp_path / "fleet") == {"locked.img": "locked", "both.img": "damaged"}


def test_workers_do_not_take_over_the_memory_settings_of_dask(monkeypatch):
    """Dask's settings for its workers would make every large buffer of a reader be mapped again."""
    seen = []
    begin = subprocess.Popen
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    monkeypatch.setattr(engines.subprocess, "Popen", lambda *words, **more: seen.append(more) or begin(*words, **more))
    engines.Worker(1 << 30).close()
    assert "MALLOC_TRIM_THRESHOLD_" not in seen[0]["env"]
    assert seen[0]["env"]["PATH"] == os.environ["PATH"]


def test_a_folder_of_another_batch_or_of_something_else_is_left_alone(tmp_path):
    """In one line; a batch writes into a new or empty folder or, with --resume, into its own."""
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    with FleetFolder(fleet).lock():
        done = run(HFS, "-o", fleet)
        assert (done.returncode, done.stderr) == (2, f"layoutscope: {fleet}: another batch is writing here\n")
    assert run(HFS, "-o", fleet, "--quiet", "--json").returncode == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear all")
    done = run(HFS, "-o", tmp_path / "mine", "--resume")
    assert (done.returncode, "holds something else than a batch" in done.stderr) == (2, True)
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_a_full_disk_is_one_line(tmp_path):
    """If nothing can be written, the batch reports it once."""
    import resource

    # Without writing modules: Python may leave truncated ones in the checkout, and then nothing starts any more.
    uncompiled = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    limit = (resource.RLIMIT_FSIZE, (1024, 1024))
    done = run(HFS, "-o", tmp_path / "fleet", preexec_fn=lambda: resource.setrlimit(*limit), env=uncompiled)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [f"layoutscope: {tmp_path}/fleet: the batch cannot be written: file too large"]


def test_lists_and_patterns_name_sources(tmp_path):
    """A list has a path per line, a pattern names its matches; twins and parts of a split image are one source."""
    (tmp_path / "list.txt").write_text(f"{HFS}\n{tmp_path}/gone.img\n{HFS}\n")
    (tmp_path / "images").mkdir()
    for name in ("disk.001", "disk.002"):
        (tmp_path / "images" / name).write_bytes(bytes(4096))
    sources = [f"@{tmp_path}/list.txt", f"{IMAGES}/hfs*.zst", tmp_path / "images"]
    result = layoutscope.batch(sources, tmp_path / "fleet", drives=[], names=False)
    assert [(Path(end.path).name, end.status) for end in result.sources] == [
        (HFS.name, "complete"), ("gone.img", "failed"), ("disk.001", "refused"),
    ]  # fmt: skip
    assert (result.exit_code, result.table("predictions").height) == (3, 0)
    with pytest.raises(UsageError, match="cannot be read as a list of sources"):
        layoutscope.batch(f"@{tmp_path}/none", tmp_path / "other")


def test_without_polars_a_batch_says_so_before_it_begins(tmp_path):
    """Tables need the extra: one error line, and nothing is written."""
    code = "import sys; sys.modules['polars'] = None; from layoutscope.__main__ import main; main()"
    command = [sys.executable, "-c", code, "batch", str(HFS), "-o", str(tmp_path / "fleet")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n"), install_command("frames") in done.stderr) == (1, 1, True)
    assert not (tmp_path / "fleet").exists()


def assert_same(one, other):
    """Assert that every row of every table and every byte of every capture are equal."""
    for name in TABLES:
        there, wanted = (pl.read_parquet(folder / f"{name}.parquet") for folder in (one, other))
        assert there.drop(RUN, strict=name == "batch").equals(wanted.drop(RUN, strict=name == "batch"))
    assert files_of(one / "captures") == files_of(other / "captures")
    assert not list((one / "work").iterdir())


def poisoned(folder, copies):
    folder.mkdir()
    for number in range(copies):
        shutil.copy((HFS, APFS)[number % 2], folder / f"disk {number}.img.zst")
    (folder / "note.txt").write_text("no image\n")
    (folder / "cut.img.zst").write_bytes(APFS.read_bytes()[:20000])
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    return folder


@pytest.mark.full
def test_a_cluster_gives_the_same_rows_as_processes_here(tmp_path, monkeypatch):
    """With paths relative to the working folder, for good and bad sources."""
    pytest.importorskip("distributed")
    poisoned(tmp_path / "images", 4)
    monkeypatch.chdir(tmp_path)
    local = layoutscope.batch(["images", "gone.img"], "local", drives="generic-7200")
    cluster = layoutscope.batch(["images", "gone.img"], "cluster", drives="generic-7200", scheduler="local", workers=2)
    assert cluster.counts == local.counts == {"complete": 4, "damaged": 0, "locked": 0, "refused": 3, "failed": 2}
    assert_same(tmp_path / "cluster", tmp_path / "local")


def end(process):
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


WORKER = ("worker", "--nthreads", "1", "--memory-limit", "0", "--no-nanny", "--no-dashboard")
HELD = """
import time
from layoutscope.fleet import engines
attempt = getattr(engines.attempt, "original", engines.attempt)  # Dask may load this file twice
def hold(job, workers):
    while job.path.endswith("disk 9.img.zst"):
        time.sleep(0.1)
    return attempt(job, workers)
hold.original = attempt
engines.attempt = hold
"""
"""Loaded by a worker that never returns a certain source: the batch runs until it is killed."""


@contextmanager
def scheduler_of(folder, *words):
    """Run a scheduler and four workers as programs, as on a cluster; return its address, itself and the workers."""
    file, quiet = folder / "scheduler.json", {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    tell = ["--scheduler-file", str(file)]
    with ExitStack() as stack:

        def begin(program, *words):
            command = [sys.executable, "-m", f"distributed.cli.dask_{program}", *tell, *words]
            process = subprocess.Popen(command, start_new_session=True, cwd="/", **quiet)
            stack.callback(end, process)
            return process

        scheduler = begin("scheduler", "--port", "0", "--no-dashboard")
        while not file.exists() or not file.read_text().endswith("}"):
            assert scheduler.poll() is None
        yield json.loads(file.read_text())["address"], scheduler, [begin(*WORKER, *words) for _ in range(4)], begin


@pytest.mark.full
@pytest.mark.slow
def test_workers_that_are_killed_at_random_cost_no_row(tmp_path):
    """Four workers, one killed every few seconds and replaced: the result equals that of an undisturbed run."""
    pytest.importorskip("distributed")
    folder = poisoned(tmp_path / "images", 40)
    layoutscope.batch(folder, tmp_path / "calm")
    over, chosen, killed = threading.Event(), random.Random(1), []  # noqa: S311  (the choice of victims needs no secrecy)
    with scheduler_of(tmp_path) as (address, _, workers, begin):

        def kill():
            while not over.wait(chosen.uniform(2, 5)):
                victim = chosen.choice(workers)
                os.killpg(victim.pid, signal.SIGKILL)
                killed.append(victim.pid)
                workers[workers.index(victim)] = begin(*WORKER)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            layoutscope.batch(folder, tmp_path / "killed", scheduler=address)
        finally:
            over.set()
            killer.join()
    assert len(killed) >= 3
    assert_same(tmp_path / "killed", tmp_path / "calm")


@pytest.mark.full
def test_a_scheduler_that_is_killed_costs_what_was_under_way(tmp_path):
    """The client prints one line, no partial results are left, and resuming gives the undisturbed result."""
    pytest.importorskip("distributed")
    folder, fleet = poisoned(tmp_path / "images", 16), tmp_path / "killed"
    layoutscope.batch(folder, tmp_path / "calm")
    command = [sys.executable, "-m", "layoutscope", "batch", str(folder), "-o", str(fleet), "--scheduler"]
    (tmp_path / "held.py").write_text(HELD)
    with scheduler_of(tmp_path, "--preload", str(tmp_path / "held.py")) as (address, scheduler, _, _):
        quiet = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL}
        with subprocess.Popen([*command, address], text=True, **quiet) as asking:
            lines = [next(asking.stderr) for _ in range(3)]
            os.killpg(scheduler.pid, signal.SIGKILL)
            lines += asking.stderr
        assert asking.returncode == 1
    told = [line for line in lines if " of 20: " not in line]
    wanted = f"the scheduler {address} cannot be reached: what was read is kept, and --resume takes it up"
    assert told == [f"layoutscope: {wanted}\n"]
    done = [line for line in lines if ": complete " in line or ": refused " in line]
    assert len(done) < 20
    again = layoutscope.batch(folder, fleet, resume=True)
    assert again.kept >= len(done) >= 3
    assert_same(fleet, tmp_path / "calm")


@pytest.mark.full
def test_rows_of_a_late_worker_or_of_another_version_do_not_count(tmp_path):
    """A resumed batch has cleared unfinished work, so a late worker changes nothing; rows of two versions never mix."""
    layoutscope.batch(HFS, tmp_path / "fleet", drives=[])
    folder = FleetFolder(tmp_path / "fleet")
    (row,) = (json.loads(file.read_text()) for file in (folder.path / "rows").iterdir())
    before, late = files_of(folder.path), folder.new_work(row["source"])
    folder.clear_work()
    with pytest.raises(FileNotFoundError, match="another batch has taken its place"):
        folder.commit({**row, "status": "failed"}, late / "capture.lscope")
    assert files_of(folder.path) == before
    other = FleetJob(str(HFS), str(tmp_path), 1 << 32, 60.0)
    document = attempt_on_dask_worker(other, "0.0")
    assert (document["status"], document["message"].endswith("and the batch is of 0.0")) == ("failed", True)


@pytest.mark.full
def test_a_scheduler_that_is_not_there_is_one_line(tmp_path, monkeypatch):
    """The batch waits for it as long as specified, and can be resumed."""
    pytest.importorskip("distributed")
    monkeypatch.setattr(engines, "CONNECT_S", 1)
    with pytest.raises(LayoutscopeError, match=r"tcp://127.0.0.1:9 cannot be reached: .* resume=True takes it up"):
        layoutscope.batch(HFS, tmp_path / "fleet", scheduler="tcp://127.0.0.1:9")
    assert layoutscope.batch(HFS, tmp_path / "fleet", resume=True).counts["complete"] == 1


@pytest.mark.full
def test_what_a_cluster_needs_is_said_before_it_begins(tmp_path, monkeypatch):
    """Requirements are checked first: the extra, the package of the page, and which options go together."""
    monkeypatch.setitem(sys.modules, "bokeh", None)
    with pytest.raises(UsageError, match="has its own workers"):
        layoutscope.batch(HFS, tmp_path / "fleet", scheduler="tcp://127.0.0.1:9", workers=2)
    if "distributed" in sys.modules or pytest.importorskip("distributed"):
        with pytest.raises(UnsupportedError, match="needs the package bokeh"):
            layoutscope.batch(HFS, tmp_path / "fleet", dashboard=True)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UnsupportedError, match="needs the package distributed") as caught:
        layoutscope.batch(HFS, tmp_path / "fleet", scheduler="local")
    assert caught.value.advice == install_command("fleet")


# The folder of a batch: other files in it are kept, and nothing is reached through a link.


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with two disks and a batch of them, not to be changed."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "disks").mkdir()
    for name in ("hard-links", "victim"):
        write_hfsplus(SCENARIOS[name], folder / "disks" / f"{name}.img")
    layoutscope.batch(folder / "disks", folder / "fleet", drives=["generic-7200"], workers=1)
    return folder


@pytest.fixture
def fleet(made, tmp_path):
    """Return a copy of the batch that a test may change, with its marks."""
    if not hasattr(os, "listxattr"):
        pytest.skip("copies keep no marks on this system")
    shutil.copytree(made / "fleet", tmp_path / "fleet")
    return tmp_path / "fleet"


def states(folder):
    """Return the state of a folder: kind, content and modification time of each file, without following links."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
        found[path.relative_to(folder).as_posix()] = (stat.S_IFMT(status.st_mode), data, status.st_mtime_ns)
    return found


def resumed(run, made, fleet, *words):
    """Resume the batch on the command line."""
    return run("batch", made / "disks", "-o", fleet, "--resume", "--jobs", 1, "--drive", "generic-7200", *words)


@pytest.mark.usefixtures("marks")
def test_a_batch_is_taken_up_as_often_as_one_likes(run, made, fleet):
    """Its own files are replaced, including those of its captures if the options differ."""
    for words in ((), ("--order", "names"), ()):
        result = resumed(run, made, fleet, *words)
        assert result.exit_code == 0, result.stderr
    assert list((fleet / "work").iterdir()) == []


@pytest.mark.usefixtures("marks")
@pytest.mark.parametrize("name", ["work", "rows", "captures", "batch.lock", "batch.json", "volumes.parquet", "."])
def test_nothing_is_reached_through_a_link(run, made, fleet, tmp_path, name):
    """Neither folders nor files of the batch, nor its own folder; what is there stays."""
    far, place = tmp_path / "far", fleet if name == "." else fleet / name
    place.rename(far)
    if far.is_dir():
        (far / "case1").mkdir()
        (far / "case1" / "disk.img").write_bytes(b"disk")
    place.symlink_to(far)
    before = states(tmp_path)
    result = resumed(run, made, fleet)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "is a link" in result.stderr
    assert states(tmp_path) == before


@pytest.mark.usefixtures("marks")
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_lock_that_is_no_file_is_refused(run, made, fleet, kind):
    """Opening one fails or would block; one line says what is wrong."""
    lock = fleet / "batch.lock"
    lock.unlink()
    os.mkfifo(lock) if kind == "pipe" else lock.mkdir()
    result = run("batch", made, "-o", fleet, "--resume")
    assert (result.exit_code, "batch.lock: is not a regular file. Remove it." in result.stderr) == (2, True), (
        result.stderr
    )


@pytest.mark.usefixtures("marks")
def test_only_what_the_batch_made_goes_from_its_work(made, fleet):
    """Folders with names of its kind are removed with their content; everything else stays."""
    folder = FleetFolder(fleet)
    abandoned, linked = folder.new_work("0a"), folder.new_work("0b")
    (abandoned / "half").write_bytes(b"half")
    linked.rmdir()
    linked.symlink_to(made)
    (fleet / "work" / "evidence").mkdir()
    (fleet / "work" / "evidence" / "disk.img").write_bytes(b"disk")
    (fleet / "work" / "notes.txt").write_text("mine")
    layoutscope.batch(made / "disks", fleet, drives=["generic-7200"], resume=True, workers=1)
    left = sorted(path.name for path in (fleet / "work").iterdir())
    assert left == sorted([linked.name, "evidence", "notes.txt"])
    assert (fleet / "work" / "evidence" / "disk.img").read_bytes() == b"disk"
    assert (made / "disks").is_dir()


@pytest.mark.usefixtures("marks")
@pytest.mark.parametrize("kind", ["volumes.parquet", "batch.json", "rows", "captures"])
def test_what_was_edited_is_not_replaced(run, made, fleet, kind):
    """Without its tables a batch is not resumed; a source whose row or capture was changed fails in one line."""
    (first, *_), edited = sorted((fleet / "rows").iterdir()), fleet / kind
    if kind == "captures":
        (capture,) = (fleet / "captures").glob(f"*-{first.stem}.lscope")
        edited = capture / "0" / "nodes.parquet"
    elif kind == "rows":
        edited = first
    edited.write_bytes(edited.read_bytes() + b"\n")
    before = files_of(fleet)
    result = resumed(run, made, fleet, "--order", "names")  # every source is read again
    said = result.stderr + result.stdout
    assert "was changed since layoutscope wrote it" in said
    assert edited.read_bytes() == before[edited.relative_to(fleet).as_posix()]
    if "." in kind:
        assert (
            f"{kind}: exists and was changed since layoutscope wrote it. Begin a new batch in another folder." in said
        )
        assert (result.exit_code, result.stderr.count("\n"), files_of(fleet)) == (2, 1, before)
    else:
        assert result.exit_code == 3


@pytest.mark.usefixtures("marks")
def test_a_batch_is_made_where_the_file_system_keeps_no_marks(made, tmp_path, monkeypatch):
    """The batch itself remembers the files that it writes twice; only resuming needs the marks."""
    for name in ("setxattr", "getxattr"):
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.setattr("layoutscope.ownfiles._IS_DARWIN", False)
    done = layoutscope.batch(made / "disks", tmp_path / "fleet", drives=["generic-7200"], workers=1)
    assert done.counts["complete"] == 2
    with pytest.raises(UsageError, match="keeps no extended attributes"):
        layoutscope.batch(made / "disks", tmp_path / "fleet", drives=["generic-7200"], workers=1, resume=True)


@pytest.mark.usefixtures("marks")
def test_no_other_verb_writes_into_a_batch(run, made, fleet, tmp_path):
    """Its files have the marks of results; if another command replaced one, the whole batch would be lost."""
    (tmp_path / "linked").symlink_to(fleet.name)
    disk, before = made / "disks" / "victim.img", states(fleet)
    files = [path for path in fleet.rglob("*") if path.is_file() and not any(map(is_capture, path.parents))]
    assert len(files) == 9
    captures = [path for path in fleet.rglob("*") if is_capture(path)]
    assert len(captures) == 2
    for folder in (fleet, tmp_path / "linked"):
        for place in (*files, fleet / "rows" / "new.json", fleet / "captures" / "new"):
            goal = folder / place.relative_to(fleet)
            for words in (("kit", "-o"), ("plan", disk, "--emit-order"), ("extract", disk, "-o")):
                result = run(*words, goal, "--force")
                assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.stderr
                assert "part of the batch in" in result.stderr
        for place in (*captures, fleet / "captures" / "new.lscope"):
            result = run("scan", disk, "--save", folder / place.relative_to(fleet), "--force")
            assert (result.exit_code, "part of the batch in" in result.stderr) == (2, True), result.stderr
    assert states(fleet) == before
    # Names that a batch does not use are free, and names of its parts are free elsewhere.
    for place in (fleet / "kit.sh", tmp_path / "batch.json", tmp_path / "rows"):
        assert run("kit", "-o", place).exit_code == 0


@pytest.mark.usefixtures("marks")
@pytest.mark.parametrize("way", ["folder", "captures", "a capture", "list", "link"])
def test_what_a_batch_wrote_itself_is_no_source_of_it(run, made, fleet, tmp_path, way):
    """Its tables would otherwise describe its own captures instead of the disks."""
    before = states(fleet)
    capture = next((fleet / "captures").iterdir())
    named = {"folder": fleet, "captures": fleet / "captures", "a capture": capture}.get(way, tmp_path / way)
    if way == "list":
        named.write_text(f"{made / 'disks'}\n{capture}\n")
        named = f"@{named}"
    elif way == "link":
        named.symlink_to(fleet / "captures")
    result = run("batch", named, "-o", fleet, "--resume", "--drive", "generic-7200")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"is in the folder of this batch ({fleet}), which is not a source" in result.stderr
    assert result.stderr.count("\n") == 1
    assert states(fleet) | {"batch.lock": None} == before | {"batch.lock": None}


@pytest.mark.usefixtures("marks")
def test_patterns_and_folders_leave_out_what_the_batch_wrote(run, made, fleet, tmp_path):
    """They match by chance, because the folder of a batch may be among the disks."""
    (tmp_path / "disk.img").symlink_to(made / "disks/victim.img")
    for asked in (tmp_path / "*", tmp_path / "**", tmp_path):
        result = run("batch", asked, "-o", fleet, "--resume", "--drive", "generic-7200", "--json")
        assert result.exit_code == 0, result.stderr
        # The same disk as before, by another path.
        assert [Path(item["path"]).name for item in json.loads(result.stdout)["sources"]] == ["victim.img"]


@pytest.mark.usefixtures("marks")
def test_a_list_with_zero_bytes_is_refused_in_one_line(run, tmp_path):
    """In the output of ``find -print0`` all paths are on one line."""
    (tmp_path / "list").write_bytes(b"one.img\0two.img\0")
    result = run("batch", f"@{tmp_path / 'list'}", "-o", tmp_path / "fleet")
    assert (result.exit_code, result.stdout) == (2, "")
    said = "layoutscope: one.img\\u0000two.img\\u0000: has a zero byte. A list has one path per line.\n"
    assert result.stderr == said


@pytest.mark.usefixtures("marks")
@pytest.mark.parametrize("way", ["edited", "another document", "link", "folder", "pipe"])
def test_tables_have_no_row_of_before_in_place_of_one_that_failed(run, made, fleet, tmp_path, way):
    """A row that cannot be replaced describes the disk's earlier state; a file in its place may not be a row."""
    disk = tmp_path / "disk.img"
    shutil.copyfile(made / "disks/victim.img", disk)
    words = ("batch", disk, "-o", tmp_path / "own", "--drive", "generic-7200")
    assert run(*words).exit_code == 0
    (row,) = (tmp_path / "own/rows").iterdir()
    if way == "edited":
        row.write_text(row.read_text() + " ")
    elif way == "another document":
        row.write_text('{"status": "complete", "volumes": 3}')
    else:
        row.unlink()
        make = {"link": lambda: row.symlink_to(next((fleet / "rows").iterdir())), "pipe": lambda: os.mkfifo(row)}
        make.get(way, row.mkdir)()
    disk.write_bytes(disk.read_bytes() + bytes(4096))
    before = states(row.parent)
    result = run(*words, "--resume")
    assert (result.exit_code, "failed" in result.stdout) == (1, True)
    (found,) = pl.read_parquet(tmp_path / "own/batch.parquet").select("status", "message").rows()
    assert found[0] == "failed"
    assert row.name in found[1]
    assert states(row.parent) == before


# A disk that fills during a batch: one line, no partial file that counts, and no row lost.


DISKS = 8
FULL = "its disk has no room left: what was read is kept, and --resume takes it up where there is room again"


def mount(*words):
    done = subprocess.run(["mount", *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")


@contextmanager
def small_disk(folder, size):
    folder.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("no small disk can be mounted here: mount is not installed")
    mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """Disks, and a batch of them on a disk with free space."""
    folder = tmp_path_factory.mktemp("calm")
    (folder / "disks").mkdir()
    for number in range(DISKS):
        shutil.copy(IMAGES / "hfsplus-scattered.img.zst", folder / "disks" / f"disk {number}.img.zst")
    layoutscope.batch(folder / "disks", folder / "fleet", drives=["generic-7200"], workers=2)
    return folder


@pytest.mark.parametrize("size", ["1200k", "64k", "16k"])
def test_a_disk_that_fills_ends_the_batch_in_one_line(calm, tmp_path, size):
    """Every row is complete with its capture; with free space again, the batch resumes to the undisturbed result."""
    with small_disk(tmp_path / "small", size) as small:
        command = [sys.executable, "-m", "layoutscope", "batch", calm / "disks", "-o", small / "fleet", "-j", "2"]
        drive = ["--drive", "generic-7200"]
        done = subprocess.run([*map(str, command), *drive], capture_output=True, text=True, timeout=240, check=False)
        told = [line for line in done.stderr.splitlines() if f" of {DISKS}: " not in line]
        assert (done.returncode, told) == (1, [f"layoutscope: {small / 'fleet'}: {FULL}"])
        assert done.stderr.count("no space left on device") <= 1
        folder = FleetFolder(small / "fleet")
        rows = [folder.read_row(file.stem) for file in (small / "fleet/rows").iterdir()]
        assert all((row["status"] == "complete") == bool(row["capture"]) for row in rows)
        assert all(is_capture(small / "fleet" / row["capture"]) for row in rows if row["capture"])
        assert not list((small / "fleet/work").iterdir())
        assert not [name for name in TABLES if (small / f"fleet/{name}.parquet").exists()]
        mount("-o", "remount,size=16m", small)
        kept = [row for row in rows if row["capture"]]
        again = layoutscope.batch(calm / "disks", small / "fleet", drives=["generic-7200"], resume=True)
        assert again.kept == len(kept)
        assert_same(small / "fleet", calm / "fleet")


def test_tables_that_do_not_fit_replace_none(calm, tmp_path):
    """All tables appear or none: those of an earlier batch stay together."""
    with small_disk(tmp_path / "small", "4m") as small:
        fleet = Path(shutil.copytree(calm / "fleet", small / "fleet"))
        before = {name: (fleet / f"{name}.parquet").read_bytes() for name in TABLES}
        left = shutil.disk_usage(small).free
        (small / "other").write_bytes(bytes(left - 12 * 1024))  # space for one table, not for all
        with pytest.raises(OutputError, match=FULL.replace("--resume", "resume=True")):
            FleetFolder(fleet).write_tables([file.stem for file in (fleet / "rows").iterdir()][::-1], {})
        assert {name: (fleet / f"{name}.parquet").read_bytes() for name in TABLES} == before
        assert not list(fleet.glob(".*"))


def test_only_what_does_not_fit_anywhere_ends_a_batch(tmp_path):
    """A source that is too large where others have space is a row; a nearly full disk takes the rows of others."""
    if shutil.disk_usage(tmp_path).free < MIN_FREE_BYTES:
        pytest.skip("this disk is too full")
    job = FleetJob("large.img", str(tmp_path), 1 << 30, 60.0)
    too_large = {
        "path": job.path, "status": "failed", "message": "its results cannot be written: no space left on device"
    }  # fmt: skip
    FleetFolder(tmp_path).check_room(too_large)
    with small_disk(tmp_path / "small", "64k") as small:
        folder = FleetFolder(small)
        folder.check_room({"status": "failed", "message": "no such file or directory"})
        folder.check_room({"status": "complete", "message": "no space left on device"})
        with pytest.raises(OutputError, match=FULL.replace("--resume", "resume=True")):
            folder.check_room(too_large)


def begun(folder):
    FleetFolder(folder).begin(resume=False)
    FleetFolder(folder).prepare({})
    return folder


def job(path, folder, seconds=200.0):
    return FleetJob(str(path), str(folder), 4 << 30, seconds, None, {"orders": ["fts"], "hash_names": False})


def below(pid):
    """Return all descendant processes."""
    own = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            own += file.read_text().split()
    return [each for pid in own for each in (int(pid), *below(pid))]


@pytest.fixture
def workers():
    pool = WorkerPool()
    yield pool
    pool.end()


def test_one_process_reads_on_while_all_is_complete(tmp_path, workers):
    """The first source's process reads the second, and the capture is the same as from a new process."""
    other = tmp_path / "other.img.zst"
    shutil.copy(HFS, other)
    shared, alone = begun(tmp_path / "shared"), begun(tmp_path / "alone")
    rows = [attempt(job(path, shared), workers) for path in (HFS, other)]
    (worker,) = workers.idle
    assert worker.num_sources == 2
    row = attempt(job(other, alone))
    for name in ("status", "coverage", "metrics", "predictions", "volumes", "metadata_sha256"):
        assert row[name] == rows[1][name]
    assert files_of(alone / row["capture"]) == files_of(shared / rows[1]["capture"])


def test_a_process_that_read_anything_else_reads_no_more(tmp_path, workers):
    """A process that read a foreign file cannot affect the next source; and no process is used indefinitely."""
    note, fleet = tmp_path / "note.txt", begun(tmp_path / "fleet")
    note.write_text("no image\n")
    assert attempt(job(HFS, fleet), workers)["status"] == "complete"
    (worker,) = workers.idle
    assert attempt(job(note, fleet), workers)["status"] == "refused"
    assert (workers.idle, worker.num_sources) == ([], 2)
    assert attempt(job(HFS, fleet), workers)["status"] == "complete"
    (other,) = workers.idle
    assert other is not worker
    other.num_sources = MAX_SOURCES - 1
    assert attempt(job(HFS, fleet), workers)["status"] == "complete"
    assert not workers.idle


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes where Linux has them")
def test_a_process_that_was_ended_costs_no_source(tmp_path, workers):
    """If a reused worker was killed, a new one reads the source."""
    fleet = begun(tmp_path / "fleet")
    assert attempt(job(HFS, fleet), workers)["status"] == "complete"
    (worker,) = workers.idle
    os.kill([worker.process.pid, *below(worker.process.pid)][-1], signal.SIGKILL)
    assert attempt(job(HFS, fleet), workers)["status"] == "complete"
    assert workers.idle != [worker]


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes where Linux has them")
def test_a_batch_that_is_killed_takes_its_processes_along(tmp_path):
    """No process continues reading, however the batch ended."""
    for number in range(20):
        shutil.copy(HFS, tmp_path / f"{number}.img.zst")
    command = [sys.executable, "-m", "layoutscope", "batch", tmp_path, "-o", tmp_path / "fleet", "-j", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        while len(mine := below(process.pid)) < 2:
            assert process.stderr.readline()
        mine = [os.pidfd_open(pid) for pid in mine]
        process.kill()
        process.stderr.read()
    assert all(ends(pid) for pid in mine)


@pytest.mark.parametrize("is_read", [True, False])
def test_a_worker_ends_with_its_owner(is_read):
    """Also where the owner ended before it read the byte that says that the worker is ready."""
    owner, theirs = socket.socketpair()
    command = [sys.executable, "-m", "layoutscope.fleet.worker"]
    with owner, theirs, subprocess.Popen(command, stdin=theirs, stdout=theirs, start_new_session=True) as worker:
        theirs.close()
        owner.sendall(json.dumps({"memory_bytes": 4 << 30, "written_bytes": None}).encode() + b"\n")
        owner.recv(1, 0 if is_read else socket.MSG_PEEK)
        owner.close()
        try:
            assert worker.wait(60) == -signal.SIGKILL
        finally:
            worker.kill()


def test_time_begins_when_a_process_is_ready(tmp_path, workers, monkeypatch):
    """A source's time limit excludes the start of processes; the row names what took too long."""
    fleet = begun(tmp_path / "fleet")
    row = attempt(job(HFS, fleet, 0.001), workers)
    message = "took longer than 0.001 s, and was ended"
    assert (row["status"], row["message"], row["capture"]) == ("failed", message, None)
    assert attempt(job(HFS, fleet), workers)["status"] == "complete"
    workers.end()
    monkeypatch.setattr(engines, "START_WAIT_S", 0.001)
    row = attempt(job(HFS, fleet), WorkerPool())
    assert (row["status"], row["message"]) == ("failed", "its process has not started within 0.001 s")


# Volumes with equal names on one disk: each has its own rows, capture, time and card.


FILES = {1: 140, 2: 190, 3: 120}
"""Number of files per volume number."""
CONTAINER = 'APFS "Untitled" (volume 1)', 'APFS "Untitled" (volume 2)', "APFS (volume 3)"
PARTITIONS = 'MBR > partition 1 > HFS+ "Untitled"', 'MBR > partition 2 > HFS+ "Untitled"'
KEYED = ("metrics", "predictions")


def hfs_volume(number):
    return hfsplus.render(HfsVolume("Untitled", root=tuple(File(f"file {place:04}") for place in range(number))))[0]


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """A batch of two disks, each with volumes of equal names: an APFS container, and two partitions of HFS+."""
    folder = tmp_path_factory.mktemp("twins")
    names = ("Untitled", "Untitled", "")
    volumes = [ApfsVolume(name, many(number)) for name, number in zip(names, FILES.values(), strict=True)]
    apfs.write(container(*volumes), folder / "apfs.img")
    mbr_of_several(hfs_volume(FILES[1]), hfs_volume(FILES[2]), start_bytes=1 << 20).save(folder / "hfs.img")
    layoutscope.batch([folder / "apfs.img", folder / "hfs.img"], folder / "fleet", drives=["generic-7200"])
    return folder / "fleet"


def test_volume_is_a_key_within_its_source(twins):
    """Source and volume identify one row of volumes, and each row of the other tables belongs to one of these."""
    volumes = table(twins, "volumes").drop_nulls("number")
    assert volumes["volume"].to_list() == [*CONTAINER, *PARTITIONS]
    assert table(twins, "volumes").select("source", "volume").is_unique().all()
    files = dict(volumes.select("volume", "num_files").rows())
    assert [files[name] for name in (*CONTAINER, *PARTITIONS)] == [*FILES.values(), FILES[1], FILES[2]]
    for name in KEYED:
        found = table(twins, name)
        assert set(volumes["volume"]) <= set(found["volume"])
        joined = found.join(table(twins, "volumes"), on=["source", "volume"])
        assert joined.height == found.height


def test_a_name_that_is_nobody_elses_is_left_as_it_is(tmp_path):
    """A number is appended only where it tells volumes apart."""
    apfs.write(container(ApfsVolume("Untitled", many(5)), ApfsVolume("untitled", many(5))), tmp_path / "two.img")
    layouts = layoutscope.read_layouts(tmp_path / "two.img")
    assert [name for name in volume_names(layouts) if "(" in name] == []
    assert len(set(volume_names(layouts))) == len(layouts)


def test_twins_are_the_same_in_what_is_asked_of_the_image_alone(twins):
    """Scan, predict, check and plan name the volumes as the batch does, so their frames can be joined."""
    image = twins.parent / "apfs.img"
    scanned = layoutscope.scan(image, drives="generic-7200")
    predicted = layoutscope.predict(image, drives="generic-7200")
    assert scanned.times["volume"].to_list() == predicted.times["volume"].to_list() == list(CONTAINER)
    assert set(CONTAINER) <= set(scanned.metrics["volume"])
    assert [each.volume for each in layoutscope.check(image).volumes] == ["APFS", *CONTAINER]
    assert [each.volume for each in layoutscope.plan(image, drive="generic-7200").volumes] == list(CONTAINER)
    listed = layoutscope.predict(image, drives="generic-7200", order="all").times["volume"]
    assert listed.unique(maintain_order=True).to_list() == list(CONTAINER)


def test_lists_of_files_keep_twins_apart(twins, tmp_path):
    """In a body file a path begins with its volume: no two volumes share a prefix, and none is another's prefix."""
    export(twins.parent / "apfs.img", None, tmp_path / "list.body", file_format="bodyfile")
    lines = (tmp_path / "list.body").read_text().splitlines()
    firsts = [line.split("|")[1].split("/")[1].partition("<")[0] for line in lines]
    counts = {name: firsts.count(name) for name in dict.fromkeys(firsts)}
    assert list(counts) == ["Untitled (volume 1)", "Untitled (volume 2)", "volume 3"]
    assert all(counts[name] >= number for name, number in zip(counts, FILES.values(), strict=True))


def test_a_resumed_batch_keeps_them_all(twins):
    """Nothing is read again, and the tables have the same rows; each volume is at its own place in its capture."""
    before = {name: table(twins, name) for name in ("batch", "volumes", *KEYED)}
    images = [twins.parent / "apfs.img", twins.parent / "hfs.img"]
    again = layoutscope.batch(images, twins, drives=["generic-7200"], resume=True)
    assert again.kept == 2
    assert all(table(twins, name).equals(before[name]) for name in before)
    capture = next((twins / "captures").glob("apfs*"))
    rows = [pl.read_parquet(capture / str(place) / "entries.parquet").height for place in (1, 2, 3)]
    assert len(set(rows)) == 3
    document = json.loads(next(file.read_text() for file in (twins / "rows").iterdir() if "apfs" in file.read_text()))
    assert [row["volume"] for row in document["volumes"]] == ["APFS", *CONTAINER]


def test_a_query_counts_each_of_them_once(twins):
    """Joins on source and volume give each volume its own time, and captures give each its own entries."""
    pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    joined = "SELECT volume, num_files, reads FROM predictions JOIN volumes USING (source, volume) ORDER BY num_files"
    rows = layoutscope.query(twins, joined).frame.rows()
    assert len(rows) == len({name for name, _, _ in rows}) == 5
    counted = "SELECT volume, count(*) FILTER (kind = 'file') FROM entries GROUP BY ALL"
    assert dict(layoutscope.query(twins, counted).frame.rows()) == {
        **dict(zip(CONTAINER, FILES.values(), strict=True)),
        **dict(zip(PARTITIONS, FILES.values(), strict=False)),
    }


def test_the_page_has_a_card_for_each_with_its_own_time(twins):
    """No volume has the seconds or the reads of its namesake."""
    pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    from layoutscope.fleet.query import FleetViews
    from layoutscope.fleet.report import _AGES_SQL, _STRIPS_SQL, _gather_page

    with FleetViews(twins, _STRIPS_SQL + _AGES_SQL) as known:
        cards = {card.volume: card for card in _gather_page(known, twins, {}, [], names=True).volumes}
    wanted = {row["volume"]: row for row in table(twins, "predictions").iter_rows(named=True)}
    assert set(cards) == set(wanted) == {*CONTAINER, *PARTITIONS}
    assert all(cards[name].seconds == {"generic-7200": row["seconds"]} for name, row in wanted.items())
    assert all(cards[name].reads == row["reads"] for name, row in wanted.items())
    assert len({card.metadata for card in cards.values()}) == len(cards)
