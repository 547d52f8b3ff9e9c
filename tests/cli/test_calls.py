"""No command does more to its inputs than read them, or uses a network, according to strace and Python's audit log."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from fixtures.apfs.scenarios import SCENARIOS as APFS
from fixtures.apfs.writer import write as write_apfs
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from layoutscope.cli.application import COMMANDS
from layoutscope.drive.profile import profile_folder
from tests.cli.test_evidence import VERBS

CALLS = {**VERBS, "checkpoints": ("checkpoints", "{apfs}"), "scan --sweep": ("scan", "{disk}", "--sweep"),
         "scan --save": ("scan", "{disk}", "--save", "{out}.lscope"), "scan of parts": ("scan", "{part}"),
         "scan of a bundle": ("scan", "{bundle}"), "scan with a report": ("scan", "{disk}", "--evidence", "{out}.txt"),
         "scan of a capture": ("scan", "{capture}"), "replay": ("replay", "{trace}"),
         "plan": ("plan", "{disk}"),
         "validate": ("validate", "{kit}", "--drive", "generic-7200"),
         "scan with a map": ("scan", "{disk}", "--ddrescue-map", "{map}"), "qcow2": ("scan", "{qcow2}"),
         "list of paths": ("trace", "{disk}", "--order", "paths", "--paths", "{list}"),
         "list of offsets": ("trace", "{disk}", "--order", "read", "--file", "/three", "--offsets", "{offsets}"),
         "password": ("scan", "{apfs}", "--password-file", "{list}"),
         "profile": ("predict", "{disk}", "--drive", "{profile}"),
         "report of parts": ("scan", "{bundle}", "--evidence", "{out}.txt"),
         "check of a capture": ("predict", "{capture}", "--evidence", "{out}.txt")}  # fmt: skip
"""Every command that reads a file, and every way in which an image consists of files."""

READING = {"read", "pread64", "preadv", "preadv2", "readv", "lseek", "fstat", "newfstatat", "stat", "lstat", "statx",
           "access", "faccessat", "faccessat2", "readlink", "readlinkat", "close", "fcntl", "dup", "dup2", "dup3",
           "getdents64", "fadvise64", "openat", "open", "statfs", "fstatfs"}  # fmt: skip
"""Calls that change nothing; the arguments of open, fcntl, ioctl and mmap are checked as well."""

WORDS_ONLY = {"write", "writev", "execve", "sendto"}
"""Calls that may mention a file in their data."""

ASKING = re.compile(r"ioctl\([^,]*, (TCGETS|BLKSSZGET|BLKGETSIZE64|BTRFS_IOC_\w*GET\w*|FIOCLEX)")
WRITING = re.compile(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)|PROT_WRITE.*MAP_SHARED|F_(SETLK|SETLKW|OFD_SETLK)")
NETWORK = re.compile(r"\bsocket\(AF_INET6?\b")
CALL = re.compile(r"^(?:\[pid +\d+\] |\d+ +)?(?:<\.\.\. )?(\w+)[( ]")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return everything that a command may be given, in a folder of its own."""
    folder = tmp_path_factory.mktemp("evidence")
    write(SCENARIOS["hard-links"], folder / "disk.img")
    write(SCENARIOS["hard-links"], folder / "other.img")
    write_apfs(APFS["basic"], folder / "apfs.img")
    data = (folder / "disk.img").read_bytes()
    half = len(data) // 1024 * 512
    (folder / "set.001").write_bytes(data[:half])
    (folder / "set.002").write_bytes(data[half:])
    _bundle(folder / "a.sparsebundle", data)
    (folder / "trace.csv").write_text("image_offset,length_bytes\n0,4096\n8192,4096\n")
    (folder / "a.map").write_text(f"# Mapfile.\n0x0 ? 1\n0x0 0x{len(data):x} +\n")
    run = [sys.executable, "-m", "layoutscope", "scan", folder / "disk.img", "--save", folder / "a.lscope"]
    subprocess.run(run, check=True, capture_output=True)
    _kit(folder / "kit.tar.gz")
    (folder / "list").write_text("/a\n/b\n")
    (folder / "offsets").write_text("0\n4096\n")
    (folder / "mine.toml").write_bytes(profile_folder().joinpath("generic-7200.toml").read_bytes())
    names = {"kit": "kit.tar.gz", "disk": "disk.img", "other": "other.img", "apfs": "apfs.img", "part": "set.001",
             "qcow2": "a.qcow2", "bundle": "a.sparsebundle", "trace": "trace.csv", "map": "a.map",
             "capture": "a.lscope", "list": "list", "offsets": "offsets", "profile": "mine.toml"}  # fmt: skip
    return folder, {name: folder / path for name, path in names.items()}


def _kit(path):
    content = {"kit.txt": b"kit = 1\ndevice = disk4s2\nphysical = disk4\n", "walk-find.time.txt": b"real 1.0\n"}
    with tarfile.open(path, "w:gz") as made:
        for name, data in content.items():
            member = tarfile.TarInfo(f"kit/{name}")
            member.size = len(data)
            made.addfile(member, io.BytesIO(data))


def _bundle(folder, data):
    import plistlib

    (folder / "bands").mkdir(parents=True)
    size = 1 << 20
    facts = {"band-size": size, "size": len(data), "diskimage-bundle-type": "com.apple.diskimage.sparsebundle"}
    (folder / "Info.plist").write_bytes(plistlib.dumps(facts))
    (folder / "token").touch()
    for number in range(-(-len(data) // size)):
        (folder / "bands" / f"{number:x}").write_bytes(data[number * size : (number + 1) * size])


@pytest.fixture
def words(files, tmp_path, request):
    """Return the values for a command's words; a qcow2 is made only if its program is installed."""
    folder, given = files

    def fill(name: str):
        if name == "qcow2" and not given["qcow2"].exists():
            tool = request.getfixturevalue("peer")("qemu-img")
            subprocess.run([tool, "convert", "-O", "qcow2", given["disk"], given["qcow2"]], check=True)
        return folder, [word.format(**given, out=tmp_path / "out") for word in CALLS[name]]

    return fill


def stamps(folder):
    """Return the attributes of a file that anything but a read would change."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.stat()
        found[str(path)] = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode, status.st_ino)
    return found


def test_every_verb_is_here():
    """A new command that reads files must be listed, too."""
    # A batch scans and saves each source as above, in its own process; a query reads its tables.
    without = {"batch", "query", "report", "explain", "drives", "cache", "kit", "fit", "measure"}
    assert {words[0] for words in CALLS.values()} >= set(COMMANDS) - without


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="strace is of Linux")
@pytest.mark.parametrize("name", CALLS)
def test_the_system_is_asked_to_read_alone(name, words, peer):
    """Every system call of any process that names an input or has it open is a read or a query."""
    folder, command = words(name)
    before = stamps(folder)
    run = [peer("strace"), "-f", "-y", "-s", "4096", sys.executable, "-m", "layoutscope", *command]
    result = subprocess.run(run, capture_output=True, text=True, check=False, errors="replace")
    assert result.returncode in (0, 3)
    touching = [line for line in result.stderr.splitlines() if str(folder) in line]
    wrong = [line for line in touching if not is_harmless(line, str(folder))]
    assert wrong == []
    assert NETWORK.findall(result.stderr) == []
    assert any("pread" in line or "read(" in line for line in touching)
    assert stamps(folder) == before


def is_harmless(line: str, folder: str) -> bool:
    """Whether a system call that mentions a folder changes nothing in it."""
    match = CALL.match(line)
    call = match[1] if match else ""
    if call in WORDS_ONLY:
        # Written data may mention an input; the file written to may not be one.
        return f"<{folder}" not in line.partition(",")[0]
    if WRITING.search(line):
        return False
    return call in READING or call == "mmap" or bool(ASKING.search(line))


@pytest.mark.parametrize(
    "line",
    [
        'openat(AT_FDCWD, "/e/a", O_RDWR|O_CLOEXEC) = 3',
        'openat(AT_FDCWD, "/e/a", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3',
        'write(3</e/a>, "x", 1) = 1',
        'unlink("/e/a") = 0',
        '[pid 12] rename("/t", "/e/a") = 0',
        'utimensat(AT_FDCWD, "/e/a", NULL, 0) = 0',
        "ftruncate(3</e/a>, 0) = 0",
        "flock(3</e/a>, LOCK_EX) = 0",
        "fcntl(3</e/a>, F_SETLK, {l_type=F_WRLCK}) = 0",
        "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3</e/a>, 0) = 0x7f",
        "ioctl(3</e/a>, BLKDISCARD, [0, 512]) = 0",
        'mkdir("/e/b", 0777) = 0',
    ],
)
def test_calls_that_touch_are_told_from_those_that_read(line):
    """The test above would fail for each of these calls."""
    assert not is_harmless(line, "/e")
    assert is_harmless("pread64(3</e/a>, buffer, 512, 0) = 512", "/e")
    assert is_harmless('write(2</dev/pts/0>, "wrote of /e/a", 13) = 13', "/e")


WITHOUT = {
    "batch": ("batch", "{disk}", "{apfs}", "-o", "{out}"),
    "query": ("query", "{disk}", "SELECT count(*) FROM nodes"),
    "explain": ("explain", "node"),
    "drives": ("drives",),
    "cache": ("cache",),
    "kit": ("kit", "-o", "{out}.sh"),
}
"""The other commands above, except ``report``, which reads the output of ``batch``."""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="strace is of Linux")
@pytest.mark.parametrize("name", WITHOUT)
def test_the_system_is_asked_for_no_network(name, files, tmp_path, peer):
    """The commands that do not produce a single layout use no network either, in any of their processes."""
    if name == "query":
        pytest.importorskip("duckdb")
    command = [word.format(**files[1], out=tmp_path / "out") for word in WITHOUT[name]]
    run = [peer("strace"), "-f", "-e", "trace=network,execve", sys.executable, "-m", "layoutscope", *command]
    result = subprocess.run(run, capture_output=True, text=True, check=False, errors="replace")
    assert result.returncode == 0, result.stderr[-2000:]
    assert "execve(" in result.stderr
    assert NETWORK.findall(result.stderr) == []


def test_a_connection_would_be_seen(peer):
    """The two tests above would fail for a command that opened one."""
    code = "import socket; socket.socket(socket.AF_INET).close(); socket.socket(socket.AF_UNIX).close()"
    run = [peer("strace"), "-f", "-e", "trace=network", sys.executable, "-c", code]
    result = subprocess.run(run, capture_output=True, text=True, check=False)
    assert len(NETWORK.findall(result.stderr)) == 1


AUDITED = """
import json, os, sys
seen = []
def hook(event, arguments):
    if event.startswith(("open", "os.", "shutil.", "fcntl.", "mmap")):
        seen.append((event, [item if isinstance(item, (str, int, type(None))) else os.fspath(item)
                             if isinstance(item, os.PathLike) else repr(item) for item in arguments]))
sys.addaudithook(hook)
from layoutscope.__main__ import main
sys.argv = ["layoutscope", *sys.argv[2:]]
try:
    main()
finally:
    with os.fdopen(os.open(TARGET, os.O_WRONLY | os.O_CREAT), "w") as file:
        json.dump(seen, file)
"""

HARMLESS = {"os.listdir", "os.scandir", "os.getxattr", "os.listxattr", "os.walk", "os.fwalk"}


@pytest.mark.parametrize("name", CALLS)
def test_python_is_asked_to_read_alone(name, words, tmp_path):
    """By Python's audit events, inputs are opened read-only, with O_NOATIME where that is allowed."""
    folder, command = words(name)
    target = tmp_path / "events.json"
    code = AUDITED.replace("TARGET", repr(str(target)))
    result = subprocess.run([sys.executable, "-c", code, "-", *command], capture_output=True, text=True, check=False)
    assert result.returncode in (0, 3), result.stderr
    about = [
        (event, arguments)
        for event, arguments in json.loads(target.read_text())
        if any(isinstance(item, str) and item.startswith(str(folder)) for item in arguments)
    ]
    opened = [arguments for event, arguments in about if event == "open"]
    assert {event for event, _ in about} - HARMLESS <= {"open"}
    assert opened
    changing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    assert [arguments for arguments in opened if arguments[2] & changing] == []
    if hasattr(os, "O_NOATIME"):
        assert [arguments for arguments in opened if not arguments[2] & os.O_NOATIME] == []


LONG_AGO_NS = 10**18
"""A day in 2001: relatime, too, updates an access time that is older than the last change."""


def accessed(folder):
    """Return the access times of a folder and everything in it, top down, because listing a folder is an access."""
    return {str(path): path.stat().st_atime_ns for path in (folder, *folder.rglob("*")) if path.exists()}


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "O_NOATIME"), reason="this system has no way to read without a trace")
@pytest.mark.parametrize("name", [*CALLS, "batch", "query"])
def test_no_time_of_access_is_changed(name, files, words, tmp_path):
    """For every file and folder, whether this program or a library in C or Rust opens it."""
    folder, given = files
    if name in CALLS:
        folder, command = words(name)
    else:
        pytest.importorskip("duckdb")
        sources = [given[each] for each in ("disk", "capture", "bundle", "part")]
        command = ["batch", *sources, "-o", tmp_path / "out"] if name == "batch" else ["query", sources[1], "SELECT 1"]
    control = tmp_path / "control"
    control.write_bytes(b"read")
    places = [control, *map(Path, sorted(accessed(folder), reverse=True))]
    for path in places:
        os.utime(path, ns=(LONG_AGO_NS, path.stat().st_mtime_ns))
    control.read_bytes()
    if control.stat().st_atime_ns == LONG_AGO_NS:
        pytest.skip("this file system keeps no times of access")
    run = [sys.executable, "-m", "layoutscope", *map(str, command)]
    result = subprocess.run(run, capture_output=True, text=True, check=False)
    assert result.returncode in (0, 3), result.stderr
    assert [str(path) for path in places[1:] if path.stat().st_atime_ns != LONG_AGO_NS] == []
