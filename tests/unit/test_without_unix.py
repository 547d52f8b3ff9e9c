"""Without Unix-only modules, images are read as usual, and features that need them fail with one line.

A process without these modules and functions, in which no open file is renamed or removed, stands in for Windows. What
it cannot show is Windows itself: its paths, its console, its devices.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from layoutscope import inputs

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "fixtures" / "images"
pytestmark = [
    pytest.mark.images,
    pytest.mark.skipif(sys.platform != "linux", reason="what is open is looked for in /proc"),
]
STAND_IN = """
import ctypes, mmap, numpy, os, platform, platformdirs.unix, select, signal, socket, subprocess, sys, tempfile
HIDDEN = {
    os: "fork forkpty pread preadv pwrite pwritev readv writev sysconf sched_getaffinity geteuid getuid getegid getgid "
        "killpg setsid getpgid waitpid WNOHANG fchmod fchown chown chroot statvfs fstatvfs mkfifo mknod posix_fadvise "
        "posix_spawn nice getloadavg openpty ttyname set_blocking sync O_NONBLOCK O_CLOEXEC O_NOATIME O_DIRECT "
        "O_NOFOLLOW O_DIRECTORY SEEK_DATA SEEK_HOLE WIFSIGNALED WTERMSIG getxattr listxattr",
    signal: "SIGALRM SIGCHLD SIGHUP SIGQUIT SIGUSR1 SIGUSR2 SIGKILL SIGXCPU SIGPIPE SIGWINCH SIGTSTP alarm setitimer "
        "sigwaitinfo pthread_sigmask",
    select: "poll epoll",
    socket: "AF_UNIX send_fds recv_fds",
}
for module, names in HIDDEN.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
os.process_cpu_count = os.cpu_count  # from 3.13 on it asks the affinity where there is one
for name in "fcntl grp pwd resource termios tty pty syslog readline curses".split():
    sys.modules[name] = None
def closed(call):
    def refusing(path, *more, **words):
        name = os.path.realpath(path)
        for number in os.listdir("/proc/self/fd"):
            if os.path.realpath("/proc/self/fd/" + number) == name:
                raise PermissionError(13, "is open", name)
        return call(path, *more, **words)
    return refusing
for name in "rename replace unlink remove".split():
    setattr(os, name, closed(getattr(os, name)))
from layoutscope.image import raw
import types
raw.READ_PIECES = types.SimpleNamespace(attempt=lambda *_: None)  # the kernel refuses on Windows
from layoutscope.__main__ import main
"""
"""Third-party modules that depend on the system are imported first: they are not under test."""
EACH = """
for line in sys.argv.pop().splitlines():
    sys.argv[1:] = line.split()
    try:
        main()
    except SystemExit as end:
        print("ended", end.code, *sys.argv[1:], file=sys.stderr)
"""
"""Run several commands, one per line."""


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a command line without Unix, with its own cache folder."""

    def call(*words: object, code: str = "main()"):
        around = {"LAYOUTSCOPE_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
        command = [sys.executable, "-c", STAND_IN + code, *map(str, words)]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path, env=around
        )

    return call


@pytest.mark.parametrize("name", ["apfs-scattered", "hfsplus-scattered"])
def test_images_are_scanned_to_the_same_result(run, shell_scan, name):
    """Reads and predictions do not depend on the system's read calls."""
    ended = run("scan", IMAGES / f"{name}.img.zst", "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["volumes"] == shell_scan(name)["volumes"]


@pytest.fixture
def shell_scan():
    """Return a function that scans with everything that this system has."""

    def call(name):
        command = [sys.executable, "-m", "layoutscope", "scan", IMAGES / f"{name}.img.zst", "--json"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout)

    return call


LINES = """
--version
check images/hfsplus-scattered.img.zst
verify disk.img
map images/apfs-scattered.img.zst -o map.html
predict images/apfs-scattered.img.zst --order names
extract images/hfsplus-scattered.img.zst -o metadata.img.zst
inspect images/hfsplus-scattered.img.zst --at 1024
cache show
cache clear
drives
explain extent
""".strip()


def test_what_reads_one_image_works(run, tmp_path):
    """Each verb for one image ends as on Unix and writes the requested output; one process runs them all."""
    (tmp_path / "images").symlink_to(IMAGES)
    write(SCENARIOS["hard-links"], tmp_path / "disk.img")
    ended = run(LINES, code=EACH)
    assert re.findall("(?m)^ended (.*)", ended.stderr) == [f"0 {line}" for line in LINES.splitlines()], ended.stderr
    for target in re.findall(r"-o (\S+)", LINES):
        assert (tmp_path / target).stat().st_size > 1000


def test_a_plain_image_is_read_at_its_places(run, tmp_path):
    """A raw file, not only a compressed image, is read correctly with a single shared position."""
    from layoutscope.image import open_image

    with open_image(IMAGES / "hfsplus-scattered.img.zst") as source:
        (tmp_path / "disk.img").write_bytes(source.read(0, source.size_bytes))
    ended = run("scan", tmp_path / "disk.img", "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["volumes"][0]["findings"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("batch", IMAGES, "-o", "batch"), "a batch needs Unix: Linux, macOS or WSL"),
        (("batch", IMAGES, "-o", "batch", "--jobs", 1, "--memory", "2GiB"), "a batch needs Unix"),
    ],
)
def test_what_needs_unix_says_so_in_one_line(run, words, said):
    """No feature ends in a traceback."""
    ended = run(*words)
    assert ended.returncode == 1
    assert said in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr
    assert "pip install" not in ended.stderr


def test_reading_at_a_place_is_the_same_in_both_ways(tmp_path, monkeypatch):
    """The system's call and a shared position give all bytes, and fewer at the end of the file."""
    (tmp_path / "file").write_bytes(bytes(range(200)))
    with (tmp_path / "file").open("rb") as file:
        got = []
        for _ in range(2):
            target = bytearray(50)
            got += [(inputs.pread_into(file.fileno(), at, memoryview(target)), bytes(target)) for at in (180, 10)]
            monkeypatch.delattr("os.preadv", raising=False)
    assert got[:2] == got[2:]
    assert got[0] == (20, bytes(range(180, 200)) + bytes(30))
