import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from layoutscope.fleet.engines import attempt
from layoutscope.fleet.jobs import FleetJob, FleetLimits, FleetSource
from layoutscope.fleet.readers import MOST_SOURCES, Readers
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
    """All processes that a process started, theirs, too."""
    own = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            own += file.read_text().split()
    return [each for pid in own for each in (int(pid), *below(pid))]


@pytest.fixture
def readers():
    made = Readers()
    yield made
    made.end()


def test_one_process_reads_on_while_all_is_complete(tmp_path, readers):
    """The second source is read by the process of the first, and its capture is the same as from a new process."""
    other = tmp_path / "other.img.zst"
    shutil.copy(HFS, other)
    shared, alone = begun(tmp_path / "shared"), begun(tmp_path / "alone")
    rows = [attempt(job(path, shared), readers) for path in (HFS, other)]
    (reader,) = readers._idle
    assert reader.done == 2
    row = attempt(job(other, alone))
    for name in ("status", "coverage", "metrics", "predictions", "volumes", "metadata_sha256"):
        assert row[name] == rows[1][name]
    assert files_of(alone / row["capture"]) == files_of(shared / rows[1]["capture"])


def test_a_process_that_read_anything_else_reads_no_more(tmp_path, readers):
    """What a stranger's file did to a process cannot reach the next source; nor is one used without end."""
    note, fleet = tmp_path / "note.txt", begun(tmp_path / "fleet")
    note.write_text("no image\n")
    assert attempt(job(HFS, fleet), readers)["status"] == "complete"
    (reader,) = readers._idle
    assert attempt(job(note, fleet), readers)["status"] == "refused"
    assert (readers._idle, reader.done) == ([], 2)
    assert attempt(job(HFS, fleet), readers)["status"] == "complete"
    (other,) = readers._idle
    assert other is not reader
    other.done = MOST_SOURCES - 1
    assert attempt(job(HFS, fleet), readers)["status"] == "complete"
    assert not readers._idle


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes where Linux has them")
def test_a_process_that_was_ended_costs_no_source(tmp_path, readers):
    """Where a process that had read others breaks off, or the one that makes them, the source is read by a new one."""
    fleet = begun(tmp_path / "fleet")
    assert attempt(job(HFS, fleet), readers)["status"] == "complete"
    for victim in (lambda: below(readers._nursery.pid)[-1], lambda: readers._nursery.pid):
        os.kill(victim(), signal.SIGKILL)
        assert attempt(job(HFS, fleet), readers)["status"] == "complete"


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes where Linux has them")
def test_a_batch_that_is_killed_takes_its_processes_along(tmp_path):
    """Nothing reads on for nobody, whatever ended the batch."""
    for number in range(20):
        shutil.copy(HFS, tmp_path / f"{number}.img.zst")
    command = [sys.executable, "-m", "layoutscope", "batch", tmp_path, "-o", tmp_path / "fleet", "-j", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        while len(mine := below(process.pid)) < 3:  # the one that makes others, and two of them
            assert process.stderr.readline()
        mine = [os.pidfd_open(pid) for pid in mine]
        process.kill()
        process.stderr.read()
    assert all(ends(pid) for pid in mine)


def test_time_begins_when_a_process_is_ready(tmp_path, readers):
    """What a source is given is its own, however long processes take to start."""
    fleet = begun(tmp_path / "fleet")
    row = attempt(job(HFS, fleet, FleetLimits(4 << 30, 0.001)), readers)
    assert (row["status"], row["message"], row["capture"]) == (
        "failed",
        "took longer than 0.001 s, and was ended",
        None,
    )
    assert attempt(job(HFS, fleet), readers)["status"] == "complete"
