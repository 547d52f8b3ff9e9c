"""``--evidence``: others can verify the report of an examination with other tools."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec

import pytest

from fixtures.apfs.scenarios import SCENARIOS as APFS
from fixtures.apfs.writer import write as write_apfs
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render, write
from layoutscope.api.evidence import without_secrets
from layoutscope.cli.application import COMMANDS
from layoutscope.drive.profile import profile_folder
from layoutscope.version import __version__
from tests.unit.image.containers.test_udif import ZLIB, udif

MIB = 1024**2


def sha256(path):
    """Return the SHA-256 digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def disk(tmp_path):
    """Return a small image."""
    write(SCENARIOS["hard-links"], tmp_path / "disk.img")
    return tmp_path / "disk.img"


def report(run, tmp_path, *words):
    """Run a command with a report; return the result and the report."""
    target = tmp_path / "report.json"
    result = run(*words, "--evidence", target)
    return result, json.loads(target.read_text())


VERBS = {
    "scan": ("scan", "{disk}"),
    "check": ("check", "{disk}"),
    "check of two": ("check", "{disk}", "{other}"),
    "map": ("map", "{disk}", "-o", "{out}.html"),
    "inspect": ("inspect", "{disk}", "--at", "1024"),
    "compare": ("compare", "{disk}", "{other}", "--plot", "{out}.html"),
    "series": ("series", "{disk}", "{other}"),
    "predict": ("predict", "{disk}"),
    "plan": ("plan", "{disk}", "--emit-order", "{out}.txt", "--emit-script", "{out}.sh"),
    "trace": ("trace", "{disk}", "-o", "{out}.csv"),
    "forecast": ("forecast", "{disk}", "--cycles", "2", "--seeds", "1", "--plot", "{out}.html"),
    "export": ("export", "{disk}", "--table", "nodes", "-o", "{out}.csv"),
    "list": ("list", "{disk}", "-o", "{out}.txt"),
    "extract": ("extract", "{disk}", "-o", "{out}.img"),
    "verify": ("verify", "{disk}"),
}
"""Every command that reads an image, and what it writes."""


def test_every_verb_that_reads_images_is_here():
    """A new command must be listed, too."""
    # Checkpoints need APFS; a trace and a kit are compared with an image only if one is named. A batch hashes no
    # source, because its tables record what it keeps of each; a query reads these tables.
    without = {"batch", "query", "report", "explain", "drives", "cache", "kit", "checkpoints", "replay", "validate"}
    without |= {"fit", "measure"}  # of drives
    assert {words[0] for words in VERBS.values()} == set(COMMANDS) - without


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_tells_what_it_read_and_wrote(run, disk, tmp_path, verb):
    """Hashes of each image before and after, and of each result, equal those of any other program."""
    write(SCENARIOS["hard-links"], tmp_path / "other.img")
    given = {"disk": disk, "other": tmp_path / "other.img", "out": tmp_path / "out"}
    words = [word.format(**given) for word in VERBS[verb]]
    result, told = report(run, tmp_path, *words)
    assert result.exit_code in (0, 3)
    assert (told["tool"], told["version"], told["exit_code"]) == ("layoutscope", __version__, result.exit_code)
    named = [word for word in words if word in (str(disk), str(tmp_path / "other.img"))]
    assert [image["named"] for image in told["images"]] == named
    for image in told["images"]:
        (file,) = image["files"]
        assert (file["path"], file["size_bytes"]) == (image["named"], disk.stat().st_size)
        assert file["sha256_before"] == file["sha256_after"] == sha256(disk)
        assert file["unchanged"]
    assert told["unchanged"]
    written = [path for path in tmp_path.iterdir() if path.name.startswith("out.")]
    assert {each["path"]: each["sha256"] for each in told["written"]} == {str(path): sha256(path) for path in written}


def test_times_and_the_command_line_are_recorded(shell, disk, tmp_path):
    """The command can be run again from the report, without its password; the text has the same facts, one per line."""
    before = datetime.now(UTC) - timedelta(seconds=1)
    text, document = tmp_path / "a.txt", tmp_path / "a.json"
    result = shell("scan", disk, "--volume", "1", "--password", "swordfish", "--evidence", text, "--evidence", document)
    assert result.returncode == 0
    told = json.loads(document.read_text())
    words = ["scan", str(disk), "--volume", "1", "--password", "(withheld)"]
    assert told["command"] == [*words, "--evidence", str(text), "--evidence", str(document)]
    assert without_secrets(["--password=swordfish"]) == ("--password=(withheld)",)
    assert "swordfish" not in text.read_text() + document.read_text()
    lines = text.read_text().splitlines()
    assert lines[0] == f"Report of an examination by layoutscope {__version__}"
    assert f"  SHA-256:  {sha256(disk)} before" in lines
    assert f"            {sha256(disk)} after" in lines
    assert lines[-1] == "Every file examined has the same SHA-256 after the work as before it."
    assert before <= datetime.fromisoformat(told["started"]) + timedelta(seconds=1)
    assert datetime.fromisoformat(told["started"]) <= datetime.fromisoformat(told["ended"])
    assert told["system"]
    assert told["folder"]


def test_each_part_and_container_is_hashed_as_stored(run, disk, tmp_path):
    """Three parts in order; the file of a disk image, not the disk inside, so anybody can compare it."""
    data = disk.read_bytes()
    size = -(-len(data) // 3 // 512) * 512
    parts, dmg = [tmp_path / f"set.00{number}" for number in (1, 2, 3)], tmp_path / "a.dmg"
    for number, part in enumerate(parts):
        part.write_bytes(data[number * size : (number + 1) * size])
    dmg.write_bytes(udif([(ZLIB, data + bytes(-len(data) % 512))]))
    for number, stored in enumerate((parts, [dmg])):
        run("scan", stored[0], "--evidence", tmp_path / f"{number}.json")
        files = json.loads((tmp_path / f"{number}.json").read_text())["images"][0]["files"]
        assert [(file["path"], file["sha256_before"]) for file in files] == [
            (str(path), sha256(path)) for path in stored
        ]


def test_each_segment_of_an_expert_witness_image_is_hashed(run, tmp_path, peer):
    """E01 and E02, as stored files."""
    data = bytes(render(SCENARIOS["hard-links"])[0].to_bytearray())
    (tmp_path / "raw").write_bytes(data.ljust(4 * MIB, b"\0"))
    command = [peer("ewfacquire"), "-u", "-q", "-c", "none", "-S", str(2 * MIB), "-t", tmp_path / "a", tmp_path / "raw"]
    subprocess.run(command, check=True, capture_output=True)
    _, told = report(run, tmp_path, "scan", tmp_path / "a.E01")
    segments = sorted(tmp_path.glob("a.E*"))
    assert len(segments) > 1
    files = told["images"][0]["files"]
    assert {file["path"]: file["sha256_after"] for file in files} == {str(path): sha256(path) for path in segments}


@pytest.mark.full
def test_both_images_of_a_set_are_hashed(run, tmp_path):
    """The second device is evidence, too."""
    pair = tmp_path / "main.img", tmp_path / "second.img"
    write_apfs(APFS["fusion"], *pair)
    _, told = report(run, tmp_path, "scan", pair[0], "--second", pair[1])
    found = {image["named"]: image["files"][0]["sha256_after"] for image in told["images"]}
    assert found == {str(path): sha256(path) for path in pair}


@pytest.mark.parametrize("is_there", [True, False])
def test_an_image_that_changes_meanwhile_is_reported(run, disk, tmp_path, monkeypatch, is_there):
    """Another program writes between the two hashes, or the disk is unplugged: exit 1, and the file is named."""
    from layoutscope.api import scan as verb

    real = verb.scan

    def scan_while_written(path, **options):
        found = real(path, **options)
        data = bytearray(disk.read_bytes())
        data[-1] ^= 1
        disk.write_bytes(data) if is_there else disk.unlink()
        return found

    monkeypatch.setattr("layoutscope.scan", scan_while_written)
    before = sha256(disk)
    result, told = report(run, tmp_path, "scan", disk)
    assert (result.exit_code, told["unchanged"]) == (1, False)
    assert "is not what it was before the work" in result.stderr or not is_there
    (file,) = told["images"][0]["files"]
    assert (file["sha256_before"], file["sha256_after"]) == (before, sha256(disk) if is_there else "")


def test_work_that_fails_is_reported(run, disk, tmp_path):
    """The report gives the end of the command, and says that the image is unchanged."""
    result, told = report(run, tmp_path, "scan", disk, "--volume", "nobody")
    assert (result.exit_code, told["exit_code"]) == (2, 2)
    assert "nobody" in told["error"]
    assert told["unchanged"]


def test_a_report_is_never_overwritten(run, disk, tmp_path):
    """Nor does a report overwrite an image: refused before the work, even with --force."""
    report(run, tmp_path, "scan", disk)
    for target in (tmp_path / "report.json", disk):
        before = sha256(target)
        result = run("export", disk, "--table", "nodes", "-o", tmp_path / "a.csv", "--force", "--evidence", target)
        assert (result.exit_code, sha256(target)) == (2, before)
    assert not (tmp_path / "a.csv").exists()


def test_sectors_that_cannot_be_read_are_counted(run, disk, tmp_path, monkeypatch):
    """Unreadable bytes are hashed as zeros, and the report gives their number."""
    from layoutscope.image import raw

    disk.write_bytes(disk.read_bytes())  # without holes, which are not read
    real, size = raw.pread_into, disk.stat().st_size
    bad = (size // 2) // 512 * 512

    def failing(descriptor, offset, target):
        if offset < bad + 512 and offset + len(target) > bad:
            raise OSError(5, "Input/output error")
        return real(descriptor, offset, target)

    monkeypatch.setattr(raw, "pread_into", failing)
    _, told = report(run, tmp_path, "scan", disk)
    (file,) = told["images"][0]["files"]
    data = bytearray(disk.read_bytes())
    data[bad : bad + 512] = bytes(512)
    assert (file["unread_bytes"], file["sha256_before"]) == (512, hashlib.sha256(data).hexdigest())


# No command does more to its inputs than read them, or uses a network, according to strace and Python's audit log.


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


def stamps(paths):
    """Return the attributes of files that anything but a read would change."""
    found = [path.stat() for path in paths]
    return [(each.st_size, each.st_mtime_ns, each.st_ctime_ns, each.st_mode, each.st_ino) for each in found]


def test_every_verb_is_here():
    """A new command that reads files must be listed, too."""
    # A batch scans and saves each source as above, in its own process; a query reads its tables.
    without = {"batch", "query", "report", "explain", "drives", "cache", "kit", "fit", "measure"}
    assert {words[0] for words in CALLS.values()} >= set(COMMANDS) - without


@dataclass
class Watched:
    """What was seen while all commands ran after each other in one process."""

    folder: str
    events: dict[str, tuple[int, list]]
    system_calls: list[str]
    is_changed: bool
    accessed: list[str] | None


@pytest.fixture(scope="module")
def watched(files, tmp_path_factory):
    """Run every command once, watched by Python's audit events, and by strace where it is installed."""
    folder, given = files
    out = tmp_path_factory.mktemp("watched")
    calls = dict(CALLS)
    if shutil.which("qemu-img"):
        subprocess.run(["qemu-img", "convert", "-O", "qcow2", given["disk"], folder / "a.qcow2"], check=True)
    else:
        del calls["qcow2"]
    if find_spec("duckdb"):
        calls |= {"batch": ("batch", "{disk}", "{capture}", "{bundle}", "{part}", "-o", "{out}"),
                  "query": ("query", "{capture}", "SELECT 1")}  # fmt: skip
    commands = {name: [word.format(**given, out=out / f"{name}-out") for word in calls[name]] for name in calls}
    places = sorted((folder, *folder.rglob("*")), reverse=True)  # listing a folder is an access
    control = out / "control"
    control.write_bytes(b"read")
    for path in (control, *places):
        os.utime(path, ns=(LONG_AGO_NS, path.stat().st_mtime_ns))
    control.read_bytes()
    before = stamps(places)
    code = AUDITED.replace("TARGET", repr(str(out / "events.json")))
    run = [sys.executable, "-c", code]
    if shutil.which("strace"):
        # All calls with a path or a descriptor among their arguments; the system stops the process for no other one.
        kinds = ["-e", "trace=%file,%desc,%network", "--seccomp-bpf"]
        run = ["strace", "-f", "-y", "-s", "4096", *kinds, "-o", out / "calls", *run]
    result = subprocess.run(run, input=json.dumps(commands), capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    accessed = [str(path) for path in places if path.stat().st_atime_ns != LONG_AGO_NS]
    events = json.loads((out / "events.json").read_text())
    assert events.keys() == commands.keys()
    assert {code for code, _ in events.values()} <= {0, 3}, result.stderr
    lines = (out / "calls").read_text(errors="replace").splitlines() if shutil.which("strace") else []
    is_kept = control.stat().st_atime_ns != LONG_AGO_NS and hasattr(os, "O_NOATIME")
    is_changed = stamps(places) != before or sorted((folder, *folder.rglob("*")), reverse=True) != places
    return Watched(str(folder), events, lines, is_changed, accessed if is_kept else None)


def test_the_system_is_asked_to_read_alone(watched):
    """Every system call of any process that names an input or has it open is a read or a query."""
    assert not watched.is_changed
    if not watched.system_calls:
        pytest.skip("strace is not installed")
    touching = [line for line in watched.system_calls if watched.folder in line]
    assert [line for line in touching if not is_harmless(line, watched.folder)] == []
    assert [line for line in watched.system_calls if NETWORK.search(line)] == []
    assert any("pread" in line or "read(" in line for line in touching)


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


WITHOUT = {"explain": ("explain", "node"), "drives": ("drives",), "cache": ("cache",), "kit": ("kit", "-o", "{out}.sh")}
"""The other commands, except ``report``, which reads the output of ``batch``."""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="strace is of Linux")
@pytest.mark.parametrize("name", WITHOUT)
def test_the_system_is_asked_for_no_network(name, files, tmp_path, peer):
    """The commands that read no image use no network either."""
    command = [word.format(**files[1], out=tmp_path / "out") for word in WITHOUT[name]]
    run = [peer("strace"), "-f", "-e", "trace=network,execve", sys.executable, "-m", "layoutscope", *command]
    result = subprocess.run(run, capture_output=True, text=True, check=False, errors="replace")
    assert result.returncode == 0, result.stderr[-2000:]
    assert "execve(" in result.stderr
    assert NETWORK.findall(result.stderr) == []


def test_a_connection_would_be_seen(peer):
    """The tests of the network would fail for a command that opened one."""
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
found = {}
for name, words in json.load(sys.stdin).items():
    seen.clear()
    sys.argv = ["layoutscope", *words]
    try:
        main()
    except SystemExit as end:
        found[name] = end.code, list(seen)
with os.fdopen(os.open(TARGET, os.O_WRONLY | os.O_CREAT), "w") as file:
    json.dump(found, file)
"""
HARMLESS = {"os.listdir", "os.scandir", "os.getxattr", "os.listxattr", "os.walk", "os.fwalk"}


def test_python_is_asked_to_read_alone(watched):
    """By Python's audit events, inputs are opened read-only, with O_NOATIME where that is allowed."""
    changing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    for name, (_, events) in watched.events.items():
        if name in ("batch", "query"):  # other processes read
            continue
        about = [
            (event, arguments)
            for event, arguments in events
            if any(isinstance(item, str) and item.startswith(watched.folder) for item in arguments)
        ]
        opened = [arguments for event, arguments in about if event == "open"]
        assert {event for event, _ in about} - HARMLESS <= {"open"}, name
        assert opened, name
        assert [arguments for arguments in opened if arguments[2] & changing] == [], name
        if hasattr(os, "O_NOATIME"):
            assert [arguments for arguments in opened if not arguments[2] & os.O_NOATIME] == [], name


LONG_AGO_NS = 10**18
"""A day in 2001: relatime, too, updates an access time that is older than the last change."""


def test_no_time_of_access_is_changed(watched):
    """For every file and folder, whether this program or a library in C or Rust opens it."""
    if watched.accessed is None:
        pytest.skip("this system or file system keeps no times of access")
    assert watched.accessed == []
