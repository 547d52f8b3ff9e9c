"""Ends other than Ctrl-C: signals from service managers and terminals, and lack of memory, leave no partial file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import cycle
from pathlib import Path

import pytest

import layoutscope
from fixtures.apfs.scenarios import SCENARIOS as APFS
from fixtures.apfs.writer import write as write_apfs
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")

ENDED = {"SIGTERM": 143, "SIGHUP": 129, "SIGXCPU": 152}

WRITING = {
    "export": ("export", "H", "--table", "nodes", "-o", "out.parquet"),
    "map": ("map", "A", "-o", "out.html"),
    "trace": ("trace", "H", "-o", "out.csv"),
    "kit": ("kit", "-o", "out.sh"),
    "extract": ("extract", "H", "-o", "out.img"),
    "compressed extract": ("extract", "A", "-o", "out.img.zst"),
    "save": ("scan", "A", "--save", "out.lscope"),
    "query": ("query", "H", "SELECT count(*) FROM nodes"),
    "cache": ("scan", "zst", "--cache-dir", "."),
}
"""Commands that write, and what they write."""

STOPS = {
    "save": "from layoutscope.tables import capture\ncapture.parquet = stop",
    "query": "from layoutscope.fleet import query\nquery._answer_query = stop",
}
"""Where they are stopped in the middle of writing; the others stop after their file is complete and before its
rename."""

WAIT = "print('writing', flush=True)\n    while True: time.sleep(0.1)"
"""Code that stops a command until a signal comes. A signal just before a sleep does not end the sleep, a gap of
Python."""

PROGRAM = """
import os, signal, sys, time
from layoutscope import __main__
def stop(*_, **__):
    {what}
{place}
__main__.main()
"""


@pytest.fixture(scope="module")
def disks(tmp_path_factory):
    """Return an image of each file system, and a compressed one."""
    folder = tmp_path_factory.mktemp("ends")
    write(SCENARIOS["hard-links"], folder / "H")
    write_apfs(APFS["basic"], folder / "A")
    (folder / "zst").write_bytes((ROOT / "fixtures/images/hfsplus-scattered.img.zst").read_bytes())
    return folder


def started(disks, folder, words, what, place, **more):
    """Start a command that runs other code at a stop point, in a folder for its results."""
    if words[0] == "query":
        pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    named = [str(disks / word) if (disks / word).is_file() else word for word in words]
    around = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    code = PROGRAM.format(what=what, place=place)
    return subprocess.Popen(
        [sys.executable, "-c", code, *named],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=around, **more,
    )  # fmt: skip


def usual_signals():
    """Restore default signal handling, because the parent of the tests may ignore signals."""
    for name in ENDED:
        signal.signal(getattr(signal, name), signal.SIG_DFL)


@pytest.mark.parametrize(("verb", "name"), [*zip(WRITING, cycle(ENDED), strict=False)])
def test_a_signal_in_the_middle_of_writing_leaves_nothing(disks, tmp_path, verb, name):
    """The exit status is the signal's, standard error has one line, and the folder is empty as before."""
    place = STOPS.get(verb, "os.fsync = stop")
    with started(disks, tmp_path, WRITING[verb], WAIT, place, preexec_fn=usual_signals) as process:
        assert process.stdout.readline() == "writing\n"
        assert list(tmp_path.iterdir()), "it was not in the middle of writing"
        process.send_signal(getattr(signal, name))
        said = process.communicate(timeout=120)[1]
    assert (process.returncode, said) == (ENDED[name], f"layoutscope: ended by {name}\n")
    assert list(tmp_path.iterdir()) == []


def test_signals_that_follow_do_not_interrupt_tidying_up(disks, tmp_path):
    """``timeout`` sends its signal to the process and to its group; service managers send SIGHUP as well."""
    wait = "for _ in range(2): os.kill(os.getpid(), signal.SIGTERM)"
    place = (
        "os.fsync = stop\nfrom pathlib import Path\nunlink = Path.unlink\n"
        "def slow(*given, **more):\n"
        "    for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGTERM): os.kill(os.getpid(), each)\n"
        "    unlink(*given, **more)\nPath.unlink = slow"
    )
    with started(disks, tmp_path, WRITING["kit"], wait, place, preexec_fn=usual_signals) as process:
        said = process.communicate(timeout=120)[1]
    assert (process.returncode, said) == (143, "layoutscope: ended by SIGTERM\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ENDED)
def test_signals_that_were_ignored_at_the_start_stay_so(disks, tmp_path, name):
    """As with ``nohup``: the result is written."""
    program = f"os.kill(os.getpid(), signal.{name})"
    ignore = lambda: signal.signal(getattr(signal, name), signal.SIG_IGN)  # noqa: E731
    with started(disks, tmp_path, WRITING["kit"], program, "os.fsync = stop", preexec_fn=ignore) as process:
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 0, said
    assert [path.name for path in tmp_path.iterdir()] == ["out.sh"]


def test_a_batch_that_is_ended_leaves_what_it_has_read(disks, tmp_path):
    """No work remains in progress, no partial file is left, and the batch can be resumed."""
    pytest.importorskip("polars", reason="polars is not installed")
    images = [f"{number}.img" for number in range(3)]
    for name in images:
        (tmp_path / name).write_bytes((disks / "H").read_bytes())
    place = "from layoutscope.fleet.store import FleetFolder\nFleetFolder.check_room = stop"
    words = ("batch", *images, "-o", "fleet", "--jobs", "2", "--quiet")
    with started(disks, tmp_path, words, WAIT, place, preexec_fn=usual_signals) as process:
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=120)[1]
    assert (process.returncode, said.splitlines()[-1]) == (143, "layoutscope: ended by SIGTERM")
    assert [path for path in tmp_path.rglob("*") if path.name.endswith(".part")] == []
    assert list((tmp_path / "fleet/work").iterdir()) == []
    assert layoutscope.batch([tmp_path / name for name in images], tmp_path / "fleet", resume=True).kept >= 1


def test_a_report_of_an_examination_names_the_signal(disks, tmp_path):
    """The exit code in the report is the one that the process ends with."""
    words = ("export", "H", "--table", "nodes", "-o", "out.csv", "--evidence", "report.txt")
    place = "from layoutscope.api import export\nexport.write_table = stop"
    what = "os.kill(os.getpid(), signal.SIGTERM)"
    with started(disks, tmp_path, words, what, place, preexec_fn=usual_signals) as process:
        process.communicate(timeout=120)
    assert process.returncode == 143
    report = (tmp_path / "report.txt").read_text()
    assert "143" in report
    assert "ended by SIGTERM" in report
    assert [path.name for path in tmp_path.iterdir()] == ["report.txt"]


def under_limit():
    """Limit the address space, far above actual needs."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="Linux holds processes to such limits")
@pytest.mark.parametrize("verb", WRITING)
def test_too_little_memory_in_the_middle_of_writing_leaves_nothing(disks, tmp_path, verb):
    """One line, and no partial file."""
    place = STOPS.get(verb, "os.fsync = stop")
    with started(disks, tmp_path, WRITING[verb], "raise MemoryError", place, preexec_fn=under_limit) as process:
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 1
    assert said.startswith("layoutscope: not enough memory: limited to 8,192 MiB (ulimit -v)")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
