import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from layoutscope.fleet import engines
from layoutscope.fleet.engines import MAX_SOURCES, WorkerPool, attempt
from layoutscope.fleet.jobs import FleetJob, FleetLimits, FleetSource
from layoutscope.fleet.store import FleetFolder
from tests.cli.conftest import ends, files_of

IMAGES = Path(__file__).parents[2] / "fixtures/images"
HFS = IMAGES / "hfsplus-scattered.img.zst"
LIMITS = FleetLimits(4 << 30, 200.0)


def begun(folder):
    FleetFolder(folder).begin(resume=False)
    FleetFolder(folder).prepare({})
    return folder


def job(path, folder, limits=LIMITS):
    return FleetJob(FleetSource(str(path)), str(folder), limits, {"orders": ["fts"], "hash_names": False})


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


def test_time_begins_when_a_process_is_ready(tmp_path, workers):
    """A source's time limit excludes the start of processes."""
    fleet = begun(tmp_path / "fleet")
    row = attempt(job(HFS, fleet, FleetLimits(4 << 30, 0.001)), workers)
    assert (row["status"], row["message"], row["capture"]) == (
        "failed",
        "took longer than 0.001 s, and was ended",
        None,
    )
    assert attempt(job(HFS, fleet), workers)["status"] == "complete"


def test_a_worker_that_never_starts_is_no_slow_source(tmp_path, workers, monkeypatch):
    """The row names what took too long: not the source, which still has its whole time limit."""
    monkeypatch.setattr(engines, "START_WAIT_S", 0.001)
    row = attempt(job(HFS, begun(tmp_path / "fleet")), workers)
    assert (row["status"], row["message"]) == ("failed", "its process has not started within 0.001 s")
