"""Too little memory: one line and exit code 1, or the result, at any limit at which the interpreter starts."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.apfs.scenarios import SCENARIOS as APFS
from fixtures.apfs.writer import write as write_apfs
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from layoutscope import memory

ROOT = Path(__file__).resolve().parents[2]
LACK = "layoutscope: not enough memory: limited to {:,} MiB (ulimit -v)"
COMFORTABLE_MIB = 8192

VERBS = {
    "scan": ("H",), "check": ("H",), "verify": ("H",), "predict": ("H",), "trace": ("H",), "checkpoints": ("A",),
    "inspect": ("H", "--at", "1024"), "export": ("A", "--table", "entries"), "map": ("A", "-o", "O"),
    "extract": ("H", "-o", "O"), "compare": ("H", "A"), "series": ("H", "A"), "explain": ("sweep",), "drives": (),
    "kit": (), "cache": (),
}  # fmt: skip
"""Commands to run: H and A stand for images of HFS+ and APFS, O for an output."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux holds processes to such limits")


@pytest.fixture(scope="module")
def disks(tmp_path_factory):
    """Return an image of each file system."""
    folder = tmp_path_factory.mktemp("memory")
    write(SCENARIOS["hard-links"], folder / "H")
    write_apfs(APFS["basic"], folder / "A")
    return folder


SHELL = ["sh", "-c", 'ulimit -v $0 && exec "$@"']


def limited(mib: int | None, *words: object, **options):
    """Run a Python program under ``ulimit -v``, which the shell sets before anything is loaded."""
    limit = "unlimited" if mib is None else str(mib * 1024)
    return subprocess.run(
        [*SHELL, limit, sys.executable, *map(str, words)],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=120, stdin=subprocess.DEVNULL, **options,
    )  # fmt: skip


def command(code: str, mib: int | None = COMFORTABLE_MIB):
    """Run some lines as the command of a program."""
    lines = "\n    ".join(["import os, signal, sys", "from layoutscope import memory", *code.splitlines()])
    return limited(mib, "-c", f"from layoutscope import memory\nwith memory.report_lack():\n    {lines}")


@pytest.mark.parametrize("mib", [20, 130, 400])
@pytest.mark.parametrize("verb", VERBS)
def test_any_limit_gives_the_result_or_says_what_is_missing(disks, tmp_path, verb, mib):
    """From limits at which libraries fail to load to some that work; a library that ends the process says why."""
    words = [{"H": disks / "H", "A": disks / "A", "O": tmp_path / "out"}.get(word, word) for word in VERBS[verb]]
    result = limited(mib, "-m", "layoutscope", verb, *words)
    if result.returncode in (0, 3):
        assert mib > 20
        assert all(line.startswith("layoutscope: ") for line in result.stderr.splitlines())
    elif result.stderr != LACK.format(mib) + "\n":
        assert memory.mentions_lack(result.stderr), result.stderr[-600:]
        assert "Traceback" not in result.stderr, result.stderr[-600:]
    else:
        assert result.returncode == 1
        assert list(tmp_path.iterdir()) == []


def test_with_enough_memory_a_limit_changes_nothing(disks):
    """The same text, the same codes."""
    for words in (["scan", disks / "H"], ["scan", disks / "absent"], ["scan", "--nonsense"], ["--help"]):
        one, other = (limited(mib, "-m", "layoutscope", *words) for mib in (COMFORTABLE_MIB, None))
        assert (one.returncode, one.stdout, one.stderr) == (other.returncode, other.stdout, other.stderr)


@pytest.mark.parametrize(
    "code",
    [
        "raise MemoryError",
        "bytearray(1 << 36)",
        "try: raise MemoryError\nexcept MemoryError as error: raise ValueError('damaged') from error",
        "raise ImportError('a.so: failed to map segment from shared object')",
        "raise OSError(12, 'Cannot allocate memory')",
        'raise RuntimeError("can\'t start new thread")',
    ],
)
def test_whatever_lacks_memory_ends_in_the_same_line(code):
    """Errors of Python, of its loader, and of libraries."""
    result = command(code)
    assert (result.returncode, result.stderr) == (1, LACK.format(COMFORTABLE_MIB) + "\n")


@pytest.mark.parametrize(
    ("code", "exit_code", "said"),
    [
        ("raise KeyError('a fault of the program')", 1, "KeyError: 'a fault of the program'"),
        ("import layoutscope.absent", 1, "ModuleNotFoundError"),
        ("raise FileNotFoundError(2, 'No such file', 'out of memory.img')", 1, "FileNotFoundError"),
        ("os.write(2, b'a library warns')", 0, "a library warns"),
        ("sys.stderr.write('layoutscope: it has findings\\n')\nsys.exit(3)", 3, "layoutscope: it has findings"),
        ("sys.exit('said at the end')", 1, "said at the end"),
        ("sys.exit(130)", 130, ""),
        ("os.kill(os.getpid(), signal.SIGXCPU)", -signal.SIGXCPU, ""),
    ],
)
def test_other_ends_are_what_they_are(code, exit_code, said):
    """A program error or a timeout is not a lack of memory; earlier output is kept."""
    result = command(code)
    assert result.returncode == exit_code
    assert said in result.stderr
    assert "not enough memory" not in result.stderr
