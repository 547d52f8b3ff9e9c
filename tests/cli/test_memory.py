"""Too little memory: one line and exit code 1, or the result, under whatever limit the interpreter starts."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.apfs.scenarios import SCENARIOS as APFS
from fixtures.apfs.writer import write as write_apfs
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from tests.cli.conftest import ends

ROOT = Path(__file__).resolve().parents[2]
LACK = "layoutscope: not enough memory: limited to {:,} MiB (ulimit -v)"
COMFORTABLE_MIB = 8192

VERBS = {
    "scan": ("H",), "check": ("H",), "verify": ("H",), "predict": ("H",), "trace": ("H",), "checkpoints": ("A",),
    "inspect": ("H", "--at", "1024"), "export": ("A", "--table", "entries"), "map": ("A", "-o", "O"),
    "extract": ("H", "-o", "O"), "compare": ("H", "A"), "series": ("H", "A"), "explain": ("sweep",), "drives": (),
    "kit": (), "cache": (),
}  # fmt: skip
"""What is run: H and A stand for images of HFS+ and APFS, O for an output."""

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
    """Run a program of Python under ``ulimit -v``, in the shell, so that nothing is loaded yet."""
    limit = "unlimited" if mib is None else str(mib * 1024)
    return subprocess.run(
        [*SHELL, limit, sys.executable, *map(str, words)],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=120, stdin=subprocess.DEVNULL, **options,
    )  # fmt: skip


def started(code: str, **options):
    """Start a program of Python with enough memory, and a limit."""
    words = [*SHELL, str(COMFORTABLE_MIB * 1024), sys.executable, "-c", code]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT, **options)


WORK_OF_ITS_OWN = """
from layoutscope import bounded
def run(work):
    with bounded.run_in_child():
        work()
"""


def command(code: str, mib: int | None = COMFORTABLE_MIB):
    """Run some lines as the command of a program."""
    lines = "\n    ".join(["import os, signal, sys", *code.splitlines()])
    return limited(mib, "-c", f"{WORK_OF_ITS_OWN}def work():\n    {lines}\nrun(work)")


@pytest.mark.parametrize("mib", [20, 75, 130, 400])
@pytest.mark.parametrize("verb", VERBS)
def test_any_limit_gives_the_result_or_one_line(disks, tmp_path, verb, mib):
    """From where not even the libraries load to where some verbs work."""
    words = [{"H": disks / "H", "A": disks / "A", "O": tmp_path / "out"}.get(word, word) for word in VERBS[verb]]
    result = limited(mib, "-m", "layoutscope", verb, *words)
    assert "Traceback" not in result.stderr, result.stderr[-600:]
    assert result.returncode in (0, 1, 3), result.stderr[-600:]
    if result.returncode == 1:
        assert result.stderr == LACK.format(mib) + "\n"
        assert list(tmp_path.iterdir()) == []
    else:
        assert mib > 20
        assert all(line.startswith("layoutscope: ") for line in result.stderr.splitlines())


def test_with_enough_memory_a_limit_changes_nothing(disks):
    """The same text, the same codes."""
    for words in (["scan", disks / "H"], ["scan", disks / "absent"], ["scan", "--nonsense"], ["--help"]):
        one, other = (limited(mib, "-m", "layoutscope", *words) for mib in (COMFORTABLE_MIB, None))
        assert (one.returncode, one.stdout, one.stderr) == (other.returncode, other.stdout, other.stderr)


def test_without_a_limit_there_is_no_second_process():
    """The command runs where it was started, and standard error is what it was."""
    code = "print(os.getpid() == start, sys.stderr is sys.__stderr__)"
    told = {}
    for mib in (None, COMFORTABLE_MIB):
        program = f"import os, sys\nstart = os.getpid(){WORK_OF_ITS_OWN}run(lambda: {code})"
        told[mib] = limited(mib, "-c", program).stdout
    assert told == {None: "True True\n", COMFORTABLE_MIB: "False False\n"}


@pytest.mark.parametrize("name", ["SIGABRT", "SIGSEGV", "SIGBUS", "SIGKILL"])
def test_what_ends_a_process_without_memory_is_told_with_the_signal(name):
    """A line that says what is known; and no other line of what was written meanwhile by a library."""
    result = command(f"os.write(2, b'a page of its own')\nos.kill(os.getpid(), signal.{name})")
    assert (result.returncode, result.stderr) == (1, f"{LACK.format(COMFORTABLE_MIB)}; {name} ended the work\n")


@pytest.mark.parametrize(
    "code",
    [
        "raise MemoryError",
        "bytearray(1 << 36)",
        "os.write(2, b'memory allocation of 17179869184 bytes failed')\nos.abort()",
        "os.write(2, b'OpenBLAS error: Memory allocation still failed')\nos._exit(1)",
        "try: raise MemoryError\nexcept MemoryError as error: raise ValueError('damaged') from error",
        "raise ImportError('a.so: failed to map segment from shared object')",
        "raise OSError(12, 'Cannot allocate memory')",
        'raise RuntimeError("can\'t start new thread")',
        "import threading\nthread = threading.Thread(target=bytearray, args=[1 << 36])\nthread.start()\nthread.join()",
        "sys.stderr.write('ERROR: code for hash sha1 was not found: unsupported hash type')\nraise AttributeError",
    ],
)
def test_whatever_lacks_memory_ends_in_the_same_line(code):
    """Of Python, of libraries in C and Rust, in threads, and where a library goes on at first."""
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
        ("os.write(2, b'x' * 1000000)", 0, "x" * 4096),
    ],
)
def test_other_ends_are_what_they_are(code, exit_code, said):
    """A fault of the program is no lack of memory, nor is the time that ran out; what was said is said."""
    result = command(code)
    assert result.returncode == exit_code
    assert said in result.stderr
    assert "not enough memory" not in result.stderr
    assert len(result.stderr) < 70_000


@pytest.mark.parametrize("at", ["import broken", "def late():\n    import broken\nlate()"])
def test_a_module_that_cannot_be_loaded_lacks_memory(tmp_path, at):
    """Compiling without memory raises whatever comes; a function of that module that fails is a fault all the same."""
    (tmp_path / "work.py").write_text(at)
    (tmp_path / "broken.py").write_text("raise ValueError(\"field 'target' is required for AnnAssign\")")
    (tmp_path / "sound.py").write_text("def fail():\n    raise ValueError('a fault of the program')")
    code = f"sys.path.insert(0, {str(tmp_path)!r})\n"
    result = command(code + "import work")
    assert (result.returncode, result.stderr) == (1, LACK.format(COMFORTABLE_MIB) + "\n")
    result = command(code + "from sound import fail\nfail()")
    assert "ValueError: a fault of the program" in result.stderr
    assert "not enough memory" not in result.stderr


def test_an_error_that_was_told_is_not_told_again():
    """Where a library complained of memory and the program ended with a line of its own, that line stands alone."""
    told = "layoutscope: a.img: no such file\n"
    result = command(f"os.write(2, b'background thread creation failed')\nsys.stderr.write({told!r})\nsys.exit(1)")
    assert (result.returncode, result.stderr) == (1, told)


@pytest.mark.parametrize(
    ("name", "exit_code"), [("SIGINT", 130), ("SIGTERM", -signal.SIGTERM), ("SIGHUP", -signal.SIGHUP)]
)
def test_signals_reach_the_process_that_works(name, exit_code):
    """Those that were sent to the one that waits, which then ends in the same way; nothing is left running."""
    code = (
        f"import os, signal, sys, time{WORK_OF_ITS_OWN}"
        # Who started the tests may have them ignore what a terminal sends.
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        # A signal that comes just before the sleep does not end it: Python's own gap.
        "def work():\n    try:\n        print(os.getpid(), flush=True)\n        while True: time.sleep(0.1)\n"
        "    except KeyboardInterrupt: sys.exit(130)\nrun(work)"
    )
    with started(code, stderr=subprocess.PIPE) as process:
        worker = int(process.stdout.readline())
        assert worker != process.pid
        process.send_signal(getattr(signal, name))
        said = process.communicate(timeout=120)[1]
    assert (process.returncode, said) == (exit_code, "")
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_the_worker_ends_with_the_one_that_waits():
    """Killed outright, the first process leaves nobody behind."""
    code = f"import os, time{WORK_OF_ITS_OWN}run(lambda: (print(os.getpid(), flush=True), time.sleep(60)))"
    with started(code) as process:
        worker = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
        # The pipe ends when nobody has it open any more.
        assert process.stdout.read() == ""
    assert ends(worker), "it runs on"


def test_a_terminal_stays_a_terminal():
    """What is drawn while it works is drawn: standard error of the process that works is the terminal itself."""
    code = (
        f"import sys{WORK_OF_ITS_OWN}"
        "run(lambda: print(sys.stderr.isatty(), bounded.terminal().isatty(), bounded.terminal() is sys.stderr))"
    )
    leader, follower = pty.openpty()
    try:
        with started(code, stderr=follower) as process:
            said = process.stdout.read()
    finally:
        os.close(leader)
        os.close(follower)
    assert said == "True True False\n"


JOB = r"""
import os, pty, resource, signal, sys, termios, time
press = sys.argv[1].encode()
leader, terminal = pty.fork()
if not leader:  # what a shell does: the job has a group of its own, which has the terminal
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    modes = termios.tcgetattr(0)
    modes[3] &= ~termios.ECHO  # keys that are shown would stand amid what is said
    termios.tcsetattr(0, termios.TCSANOW, modes)
    job = os.fork()
    if not job:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        for each in (signal.SIGINT, signal.SIGTSTP):  # who started the tests may ignore them
            signal.signal(each, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        os.execv(sys.executable, [sys.executable, "-c", sys.argv[2]])
    status = os.waitpid(job, os.WUNTRACED)[1]
    both = [job, *map(int, open(f"/proc/{job}/task/{job}/children").read().split())]
    def states(wanted):
        for _ in range(200):
            found = [open(f"/proc/{each}/stat").read().split()[2] for each in both]
            if found == wanted:
                break
            time.sleep(0.05)
        return found
    print("states", *states(["T", "T"]), os.WIFSTOPPED(status), flush=True)
    os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
    states(["S", "S"])  # a signal that comes just before read(2) does not end it: Python's own gap
    print("goes on.", flush=True)
    status = os.waitpid(job, 0)[1]
    os.tcsetpgrp(0, os.getpid())
    print("ends with", os.waitstatus_to_exitcode(status), "end.", flush=True)
    sys.stdin.readline()
    os._exit(0)
said = b""
def until(word):
    global said
    while word + b"\r\n" not in said:
        said += os.read(terminal, 4096)
until(b"ready")
os.write(terminal, b"\x1a")
until(b"goes on.")
os.write(terminal, press)
until(b"end.")
print(said.decode().replace("\r", ""))
"""
"""A shell with a job, on a terminal on which Ctrl-Z is pressed, and something else when the job goes on."""

WORK = """
import sys, time
from layoutscope import bounded
def work():
    try:
        print("ready", flush=True)
        sys.stdout.write("read " + sys.stdin.readline())
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        time.sleep(0.3)
        print("tidied up", flush=True)
        sys.exit(130)
with bounded.run_in_child():
    work()
"""


@pytest.mark.parametrize(
    ("press", "said"), [("words\n", "read words\nends with 0"), ("\x03", "tidied up\nends with 130")]
)
def test_keys_of_the_terminal_stop_and_end_both_processes(press, said):
    """Ctrl-Z stops both, and both go on; what is typed is read; Ctrl-C comes once, so that it can be tidied up."""
    result = subprocess.run(
        [sys.executable, "-c", JOB, press, WORK], capture_output=True, text=True, check=True, cwd=ROOT, timeout=60
    )
    assert "states T T True" in result.stdout
    assert said in result.stdout
