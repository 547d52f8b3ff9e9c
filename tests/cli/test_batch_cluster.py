import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import polars as pl
import pytest

import layoutscope
from layoutscope.errors import LayoutscopeError, UnsupportedError, UsageError, install_command
from layoutscope.fleet import engines
from layoutscope.fleet.engines import attempt_on_dask_worker
from layoutscope.fleet.jobs import FleetJob, FleetLimits, FleetSource
from layoutscope.fleet.store import FleetFolder
from tests.cli.conftest import files_of

pytestmark = pytest.mark.full

IMAGES = Path(__file__).parents[2] / "fixtures/images"
HFS, APFS = IMAGES / "hfsplus-scattered.img.zst", IMAGES / "apfs-scattered.img.zst"
TABLES = ("batch", "volumes", "metrics", "predictions", "findings")
RUN = ("seconds", "peak_memory_bytes")


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
    while job.source.path.endswith("disk 9.img.zst"):
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


@pytest.mark.slow
def test_workers_that_are_killed_at_random_cost_no_row(tmp_path):
    """Four workers, one killed every few seconds and replaced: the result equals that of an undisturbed run."""
    pytest.importorskip("distributed")
    folder = poisoned(tmp_path / "images", 40)
    layoutscope.batch(folder, tmp_path / "calm")
    over, chosen, killed = threading.Event(), random.Random(1), []  # noqa: S311  (when which one is killed is no secret)
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


def test_what_a_lost_worker_brings_late_counts_no_more(tmp_path):
    """A resumed batch has cleared unfinished work: a late worker changes no row and no capture."""
    layoutscope.batch(HFS, tmp_path / "fleet", drives=[])
    folder = FleetFolder(tmp_path / "fleet")
    (row,) = (json.loads(file.read_text()) for file in (folder.path / "rows").iterdir())
    before, late = files_of(folder.path), folder.new_work(row["source"])
    folder.clear_work()
    with pytest.raises(FileNotFoundError, match="another batch has taken its place"):
        folder.commit({**row, "status": "failed"}, late / "capture.lscope")
    assert files_of(folder.path) == before


def test_a_scheduler_that_is_not_there_is_one_line(tmp_path, monkeypatch):
    """The batch waits for it as long as specified, and can be resumed."""
    pytest.importorskip("distributed")
    monkeypatch.setattr(engines, "CONNECT_S", 1)
    with pytest.raises(LayoutscopeError, match=r"tcp://127.0.0.1:9 cannot be reached: .* resume=True takes it up"):
        layoutscope.batch(HFS, tmp_path / "fleet", scheduler="tcp://127.0.0.1:9")
    assert layoutscope.batch(HFS, tmp_path / "fleet", resume=True).counts["complete"] == 1


def test_workers_of_another_version_read_nothing(tmp_path):
    """Rows of two versions would be mixed; here the client has a version that does not exist."""
    job = FleetJob(FleetSource(str(HFS)), str(tmp_path), FleetLimits(1 << 32, 60.0), {})
    document = attempt_on_dask_worker(job, "0.0")
    assert document["status"] == "failed"
    assert document["message"].endswith("and the batch is of 0.0")


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
