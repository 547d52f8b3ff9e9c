"""In an executable without Python, a process that the program starts from itself runs the intended part.

``nox -s binary`` builds and tests the executable itself.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from layoutscope import memory
from tests.cli.conftest import ROOT

IMAGES = ROOT / "fixtures" / "images"
STAND_IN = """#!{python}
import sys
sys.path.insert(0, {root!r})
sys.frozen, sys.executable = True, {name!r}
from layoutscope.__main__ import main
main()
"""


@pytest.fixture
def executable(tmp_path):
    """Return a program that behaves like an executable without Python: it has none of Python's options."""
    path = tmp_path / "layoutscope"
    path.write_text(STAND_IN.format(python=sys.executable, root=str(ROOT), name=str(path)))
    path.chmod(0o755)

    def call(*words):
        return subprocess.run([path, *map(str, words)], capture_output=True, text=True, check=False, timeout=120)

    return call


def test_a_batch_is_read_by_processes_of_the_executable(executable, tmp_path):
    """Workers run the same executable, and every source is complete."""
    pytest.importorskip("polars", reason="the extra 'frames' is not installed")
    ended = executable("batch", IMAGES, "-o", tmp_path / "batch", "--jobs", 1)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2" in ended.stdout


def test_with_python_a_part_is_what_python_is_told():
    """An installation starts parts with ``python -m``, and its own command line requests none."""
    assert memory.make_command("layoutscope.x", "-m", "layoutscope.x") == [sys.executable, "-m", "layoutscope.x"]
    assert memory.get_requested_module() is None


def test_no_word_makes_an_installed_command_a_part(shell):
    """Only the executable accepts the word; it runs nothing else."""
    ended = shell(memory.OWN_PART, "layoutscope.fleet.worker")
    assert ended.returncode == 2
    assert "No such option" in ended.stderr or "no such option" in ended.stderr.lower()


def test_the_executable_runs_no_strangers_module(executable):
    """Only modules of the package are parts."""
    ended = executable(memory.OWN_PART, "this")
    assert ended.returncode == 2
    assert "Zen" not in ended.stdout


def test_everything_that_is_started_goes_the_same_way():
    """``sys.executable`` would not start Python here: two places use it, neither of them in the executable."""
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "layoutscope").rglob("*.py")
        if "sys.executable" in path.read_text("utf-8")
    }
    # Compiling is for checkouts; Dask is not in the executable.
    assert found == {"layoutscope/memory.py", "layoutscope/structs/build.py", "layoutscope/fleet/engines.py"}
