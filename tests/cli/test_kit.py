"""The kit for Macs: its script is run here, with each of Apple's tools replaced by one that replays recorded output."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import plistlib
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest

import layoutscope
from layoutscope.api.drives import fit_log_text, measure_drive
from layoutscope.drive.calibration.plan import read_log
from layoutscope.errors import ImageError
from layoutscope.image import opening
from tests.recordings import fs_usage_lines
from tests.unit.drive.fakes import FakeDrive
from tests.unit.drive.toys import flash

SIZE = 96 << 20
INFO = {
    "DeviceIdentifier": "disk4s2",
    "ParentWholeDisk": "disk4",
    "VolumeName": "Secret plans",
    "VolumeUUID": "01234567-89AB-CDEF-0123-456789ABCDEF",
    "MountPoint": "/Volumes/Secret plans",
    "DeviceBlockSize": 512,
    "TotalSize": SIZE,
    "MediaName": "My Book Duo",
}
LINES = """\
14:29:18.897582    RdData[A]  D=0x00a886d2  B=0x1000   /dev/disk4s2  /Secret plans/a b.txt  0.000875 W Telegram.17658480
13:02:55.798666    RdMeta[S]       D=0x00008ae0  B=0x1000   /dev/disk4s2  /dev/disk4s2    0.000745 W find.38325373
13:02:56.000001    RdMeta[S]       D=0x00008af0  B=0x1000   /dev/disk4s2    0.000145 W Google Chrome He.42
"""
"""Real lines of fs_usage with changed device and file names."""
TOOLS = {
    "uname": 'case $1 in -s) echo Darwin;; -n) echo secret-host;; *) echo "Darwin secret-host 23.1.0";; esac',
    "id": "echo 0",
    "sw_vers": "printf 'ProductName:\\tmacOS\\nProductVersion:\\t14.1\\nBuildVersion:\\t23B74\\n'",
    "sysctl": "printf 'hw.memsize: 17179869184\\nkern.maxvnodes: 263168\\n'",
    "mount": 'echo "/dev/disk4s2 on /Volumes/Secret plans (hfs, local, journaled)"',
    "diskutil": 'echo "diskutil $*" >>"$KIT_CALLS"\ncase "$*" in\n'
    '"info -plist /"|"info -plist /System/"*) exit 1;;\n'
    '"info -plist "*) cat "$KIT_TOOLS/info.plist";;\n'
    '"list -plist") cat "$KIT_TOOLS/info.plist";;\nesac',
    "fs_usage": 'trap "rm $KIT_TOOLS/recorded; exit 0" INT TERM\ncat "$KIT_TOOLS/lines"\necho "events lost" >&2\n'
    'touch "$KIT_TOOLS/recorded"\nwhile :; do /bin/sleep 0.1; done',
    # The script pauses until fs_usage has reported the reads; here it pauses until that happens.
    "sleep": 'until [ -e "$KIT_TOOLS/recorded" ]; do /bin/sleep 0.1; done',
    "find": 'printf "a\\nb\\nc\\n"',
    "osascript": "echo 3",
    "chown": ":",
    "layoutscope": 'echo "layoutscope $*" >>"$KIT_CALLS"\nmkdir -p "$4" && echo tables >"$4/manifest"',
}
PLIST_BUDDY = """import plistlib, sys
value = plistlib.load(open(sys.argv[3], "rb"))
for part in sys.argv[2].split(":")[1:]:
    value = value[int(part) if part.isdigit() else part]
print(value)
"""
SHELLS = [name for name in ("dash", "bash", "zsh") if shutil.which(name)]


def can_time_reads() -> bool:
    """Whether perl has the modules that it has on macOS; the perl of a bare Debian lacks them."""
    command = ["perl", "-MTime::HiRes", "-e", "1"]
    return (
        shutil.which("perl") is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


TIMED = pytest.mark.skipif(not can_time_reads(), reason="perl has no Time::HiRes here")
TIMES = pytest.mark.skipif(shutil.which("time") is None, reason="sh is dash here and needs the program time")


@pytest.fixture
def mac(tmp_path):
    """Return the environment of a simulated Mac: its tools, and a file in place of the disk."""
    tools, devices = tmp_path / "tools", tmp_path / "dev"
    tools.mkdir()
    devices.mkdir()
    for name, text in TOOLS.items():
        tool(tools, name, f"#!/bin/sh\n{text}\n")
    (tools / "buddy.py").write_text(PLIST_BUDDY)
    tool(tools, "PlistBuddy", f'#!/bin/sh\nexec {sys.executable} {tools}/buddy.py "$@"\n')
    (tools / "info.plist").write_bytes(plistlib.dumps(INFO))
    (tools / "lines").write_text(LINES)
    with (devices / "rdisk4").open("wb") as disk:
        disk.truncate(SIZE)
    (tmp_path / "volume").mkdir()
    return {
        "KIT_TOOLS": str(tools),
        "KIT_DEV": str(devices),
        "KIT_CALLS": str(tmp_path / "calls"),
        "TMPDIR": str(tmp_path),
        "PATH": os.environ["PATH"],
    }


def tool(folder: Path, name: str, text: str) -> None:
    """Write a program."""
    path = folder / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def run_kit(mac, folder, *, shell="sh", answer="yes\n", volume="volume"):
    """Run the script; return its result, and the files of its archive by name."""
    script = folder / "kit.sh"
    script.write_text(layoutscope.kit())
    done = subprocess.run(
        [shell, script, folder / volume], input=answer, env=mac, cwd=folder, capture_output=True, text=True, check=False
    )
    files = {}
    for archive in folder.glob("layoutscope-kit-*.tar.gz"):
        with tarfile.open(archive) as tar:
            files = {
                m.name.removeprefix("kit/"): tar.extractfile(m).read().decode(errors="replace")
                for m in tar
                if m.isfile()
            }
    return done, files


def steps(files):
    """Return the result of each step."""
    return {row["step"]: row["status"] for row in csv.DictReader(io.StringIO(files["steps.tsv"]), delimiter="\t")}


@TIMED
@TIMES
@pytest.mark.parametrize("shell", SHELLS)
def test_it_runs(mac, tmp_path, shell):
    """Every step succeeds, the archive has the files that docs/drives.md lists, and the disk is as before."""
    disk = Path(mac["KIT_DEV"]) / "rdisk4"
    disk.chmod(0o444)
    before = disk.stat().st_mtime_ns
    done, files = run_kit(mac, tmp_path, shell=shell)
    assert done.returncode == 0, done.stderr
    expected = ["facts", "unmount", "calibration", "walk-find", "walk-find-2", "walk-ls", "walk-bulk", "metadata"]
    assert steps(files) == dict.fromkeys(expected, "0")
    told = (Path(__file__).parents[2] / "docs" / "drives.md").read_text()
    for name in files:
        known = re.sub("walk-(find-2|ls|bulk)", "walk-find", name).split("/")[0]
        assert f"`{known}" in told, name
    assert f"`{files['calibration.csv'].splitlines()[0]}`" in told
    assert "32 MiB at 16 places" in told
    assert "count=32 " in layoutscope.kit()
    assert files["walk-find.count.txt"].split() == ["3"]
    assert "real" in files["walk-find.time.txt"]
    assert "events lost" in files["walk-ls.fs_usage.err.txt"]
    assert "physical = disk4\n" in files["kit.txt"]
    assert "version = " + layoutscope.__version__ in files["kit.txt"]
    # The reads of a file, which is as fast as flash, are valid input of `drives fit --reads`.
    log = read_log(files["calibration.csv"], "log")
    assert (log.capacity_bytes, set(log.step.tolist())) == (SIZE, {"start", "kind", "sizes", "rates"})
    path = tmp_path / "calibration.csv"
    path.write_text(files["calibration.csv"])
    assert 'kind = "ssd"' in layoutscope.fit("mine", reads=path)
    # Mounted read-only for the listings, and as before at the end.
    assert disk.stat().st_mtime_ns == before
    calls = Path(mac["KIT_CALLS"]).read_text().splitlines()
    mounts = [call for call in calls if " mount" in call]
    assert mounts == ["diskutil mount readOnly /dev/disk4s2"] * 4 + ["diskutil mount /dev/disk4s2"]
    assert any(call.startswith("layoutscope scan") and "--no-names" in call for call in calls)
    assert not list(tmp_path.glob("kit.??????"))
    assert_no_name(files)


def assert_no_name(files):
    """Assert that no names of volume, files or machine and no identifiers leave it; devices and processes do."""
    secrets = ("Secret", "secret-host", "a b.txt", "01234567")
    assert [name for name, text in files.items() for secret in secrets if secret in text] == []
    lines = files["walk-find.fs_usage.txt"].splitlines()
    assert [line.split("/dev/disk4s2")[1].split() for line in lines] == [
        ["-", "0.000875", "W", "Telegram.17658480"],
        ["-", "0.000745", "W", "find.38325373"],
        ["0.000145", "W", "Google", "Chrome", "He.42"],
    ]
    assert "My Book Duo" in files["physical.plist"]


COMMON = {"start", "kind", "close", "apart", "together", "turn", "rates", "before", "hits", "again", "uniform", "back"}
ONE_DISK = {"tracks", "stream", "paced", "skips", "late", "behind", "pairs"}


ASKING = {
    # Where the script reads, waits or looks at the clock it asks the test, which uses a model drive.
    "sysseek($file, $offset, 0) or": "1 or",
    "sysread($file, my $bytes, $length)": 'ask("read", $offset, $length) && $length',
    "clock_gettime(CLOCK_MONOTONIC)": "$now",
    "sleep(": 'ask("wait", ',
    "sub take_both {": 'sub take_both { my @at = map { within($_, $small) } @_; my $began = $now; ask("both", @at);\n'
    '  push @rows, sprintf "together,%d,%d,0,%.0f\\n", $at[0], $small, ($now - $began) * 1e9; return $now - $began }\n'
    "sub unused {",
    "use strict;": 'our $now = 0; sub ask { syswrite(STDOUT, "? @_\\n"); $now = <STDIN>; return 1 } use strict;',
}


def perl_reads(drive, folder):
    """Measure a model drive with the script's perl part; return its log."""
    script = layoutscope.kit()
    begin, end = script.index("<<'PERL'\n") + 8, script.index("\nPERL\n")
    script = script[begin:end]
    for old, new in ASKING.items():
        assert old in script, old
        script = script.replace(old, new)
    (folder / "plan.pl").write_text(script)
    (folder / "disk").touch()
    command = ["perl", folder / "plan.pl", folder / "disk", str(drive.capacity_bytes)]
    lines = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as perl:
        for line in perl.stdout:
            if not line.startswith("?"):
                lines.append(line)
                continue
            what, *numbers = line[2:].split()
            if what == "read":
                drive.read(*map(int, numbers))
            elif what == "both":
                drive.read_together([int(number) for number in numbers], 4096, 2)
            else:
                drive.wait(1000 * float(numbers[0]))
            perl.stdin.write(f"{drive.now_ms / 1000:.9f}\n")
    return "".join(lines)


@pytest.mark.full
@TIMED
@pytest.mark.parametrize(("on_arrival", "mirror"), [("none", None), ("track", None), ("none", "nearest")])
def test_its_reads_tell_a_drive(tmp_path, on_arrival, mirror):
    """A model drive: revolution, buffering on arrival, overhead, look-ahead and streams, within a minute.

    With a disk's times perl reads what `drives measure` reads: for one disk, one with track buffering, and a set.
    """
    profile = layoutscope.load_profile("generic-7200").with_figures(capacity_bytes=200 * 10**9, on_arrival=on_arrival)
    drive = FakeDrive(profile, mirror=mirror)
    text = perl_reads(drive, tmp_path)
    assert drive.now_ms < 60_000
    log = read_log(text, "log")
    steps = COMMON if mirror else COMMON | ONE_DISK | {"arrival" if on_arrival == "track" else "turn-wide"}
    assert {step for step in log.step.tolist() if not step.startswith("streams")} - {"edge"} == steps
    assert "streams1" in log.step
    assert [len(log.of(step)) for step in ("close", "apart", "together", "uniform")] == [48, 96, 48, 400]
    found = fit_log_text(text, "log", "mine").profile
    assert found.number("rpm") == pytest.approx(7200, rel=1e-4)
    assert found.number("read_hit_ms") == pytest.approx(0.17, abs=0.03)  # includes two looks at the clock
    assert f"Looks like {'a mirror' if mirror else 'one disk'}" in found.note
    if not mirror:
        places = log.of("tracks").offset
        # Places alternate where reads take turns; else one place is read in descending order before the next.
        assert (places[1] > places[0]) == (on_arrival == "track")
        assert (found.text("on_arrival", ""), found.text("look_ahead", "")) == (on_arrival, "segment")
        assert found.number("segments") == 41
        assert found.number("segment_sectors") == pytest.approx(3164, rel=0.02)


def test_what_is_not_installed_is_left_out(mac, tmp_path):
    """As on a Mac without its perl modules: rates instead of a calibration. Without layoutscope: no metadata."""
    tool(Path(mac["KIT_TOOLS"]), "perl", "#!/bin/sh\nexit 2\n")
    (Path(mac["KIT_TOOLS"]) / "layoutscope").unlink()
    done, files = run_kit(mac | {"PATH": "/usr/bin:/bin"}, tmp_path)
    assert "calibration" not in steps(files)
    assert (steps(files)["rates"], steps(files)["metadata"]) == ("0", "-")
    assert "layoutscope is not installed" in done.stderr
    assert not any(name.startswith(("metadata", "calibration.csv")) for name in files)


@pytest.mark.parametrize("leads_to", ["letter", "nowhere", None])
def test_the_archive_replaces_nothing(mac, tmp_path, leads_to):
    """It runs as root, in a folder where others may have placed a file or a link with the archive's name."""
    usual = shutil.which("date")
    tool(Path(mac["KIT_TOOLS"]), "date", f'#!/bin/sh\ncase $* in *%d-*) echo 1;; *) exec {usual} "$@";; esac\n')
    (tmp_path / "letter").write_text("mine")
    archive, script = tmp_path / "layoutscope-kit-1.tar.gz", tmp_path / "kit.sh"
    script.write_text(layoutscope.kit())
    if leads_to is None:
        archive.write_text("mine")
    else:
        archive.symlink_to(leads_to)
    command = ["sh", script, tmp_path / "volume"]
    done = subprocess.run(command, input="yes\n", env=mac, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "layoutscope-kit-1.tar.gz: exists" in done.stderr
    assert (tmp_path / "letter").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    assert archive.is_symlink() or archive.read_text() == "mine"


STARTUP = (
    'case "$*" in "info -plist /"|"info -plist /System/"*) cat "$KIT_TOOLS/startup.plist";; '
    '*) cat "$KIT_TOOLS/info.plist";; esac'
)
"""The system starts from another partition of the disk, in a container, which appears as a disk of its own."""
IN_USE = TOOLS["diskutil"].replace('case "$*" in', 'case "$*" in\nunmountDisk*) exit 1;;', 1)


@pytest.mark.parametrize(
    ("changes", "answer", "volume", "said"),
    [
        ({"uname": "echo Linux"}, "yes\n", "volume", "this is for macOS"),
        ({"id": "echo 501"}, "yes\n", "volume", "run it with sudo"),
        ({}, "yes\n", "absent", "is not mounted"),
        ({}, "no\n", "volume", "nothing was done"),
        ({}, "", "volume", "nothing was done"),
        ({"diskutil": 'cat "$KIT_TOOLS/info.plist"'}, "yes\n", "volume", "is on the startup disk"),
        ({"diskutil": STARTUP}, "yes\n", "volume", "is on the startup disk"),
        ({"diskutil": IN_USE}, "yes\n", "volume", "is in use"),
    ],
)
def test_it_refuses(mac, tmp_path, changes, answer, volume, said):
    """Wrong system, not root, no volume, no consent, the startup disk, one in use: nothing is read."""
    for name, text in changes.items():
        tool(Path(mac["KIT_TOOLS"]), name, f"#!/bin/sh\n{text}\n")
    store = {"ParentWholeDisk": "disk9", "APFSPhysicalStores": [{"APFSPhysicalStore": "disk4s3"}]}
    (Path(mac["KIT_TOOLS"]) / "startup.plist").write_bytes(plistlib.dumps(store))
    done, files = run_kit(mac, tmp_path, answer=answer, volume=volume)
    assert done.returncode == 1
    assert said in done.stderr
    assert files == {}
    calls = Path(mac["KIT_CALLS"])
    assert not calls.exists() or "unmount" not in calls.read_text() or said == "is in use"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("name", "code"), [("HUP", 129), ("INT", 130), ("TERM", 130)])
def test_a_signal_leaves_the_disk_as_it_was(mac, tmp_path, shell, name, code):
    """A closed terminal as well as Ctrl-C: the volume is mounted again, and no temporary files are left."""
    tool(Path(mac["KIT_TOOLS"]), "perl", f"#!/bin/sh\nkill -{name} $PPID\n")
    done, files = run_kit(mac, tmp_path, shell=shell)
    assert (done.returncode, files) == (code, {})
    assert Path(mac["KIT_CALLS"]).read_text().splitlines()[-1] == "diskutil mount /dev/disk4s2"
    assert not list(tmp_path.glob("kit.??????"))


@TIMED
@TIMES
@pytest.mark.parametrize("answers", ["yes\nMy Book Duo, 5400 rpm\nCCC, from APFS\n", "yes\n"])
def test_it_asks_what_no_tool_tells(mac, tmp_path, answers):
    """Two answers are stored as typed; without an answer the kit continues."""
    _, files = run_kit(mac, tmp_path, answer=answers)
    said = dict(line.partition(" = ")[::2] for line in files["kit.txt"].splitlines())
    assert [said["disks"], said["filled"]] == (answers.splitlines()[1:] or ["", ""])


@TIMED
@pytest.mark.parametrize("shell", SHELLS)
def test_the_warm_script_times_listings(tmp_path, shell):
    """Without sudo and names: entries, and microseconds per entry of a listing and of a lookup."""
    script, folder = tmp_path / "warm.sh", tmp_path / "secret"
    script.write_text(layoutscope.kit(warm=True).replace("time + 3", "time + 0.1"))
    folder.mkdir()
    for number in range(1200):
        (folder / str(number)).touch()
    done = subprocess.run([shell, script, folder], capture_output=True, text=True, check=True)
    told = dict(line.split(" = ") for line in done.stdout.splitlines())
    assert list(told) == ["warm", "system", "entries", "list_us", "lstat_us"]
    assert told["entries"] == "1201"
    assert 0 < float(told["lstat_us"]) < 1000
    assert 0 < float(told["list_us"]) < 1000
    assert "secret" not in done.stdout
    few = subprocess.run([shell, script, tmp_path / "none"], capture_output=True, text=True, check=False)
    assert few.returncode != 0
    assert "fewer than 1,000 entries" in few.stderr


@pytest.mark.parametrize("warm", [False, True])
def test_shellcheck_has_nothing_to_say(tmp_path, warm):
    """Only if shellcheck is installed."""
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    script = tmp_path / "kit.sh"
    script.write_text(layoutscope.kit(warm=warm))
    done = subprocess.run(["shellcheck", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_command_writes_it(run, tmp_path):
    """Writes to a file or to standard output; nothing is overwritten unless forced."""
    target = tmp_path / "kit.sh"
    assert run("kit", "-o", target).exit_code == 0
    assert target.read_text() == layoutscope.kit() == run("kit").stdout
    assert run("kit", "-o", target).exit_code != 0


def test_validate_reads_what_it_packs(mac, tmp_path, run, image):
    """From the script to the score: a real capture without names, and listings from our own workloads."""
    reads = layoutscope.trace(image, host="macos", stat=False)
    served = layoutscope.service(reads, layoutscope.load_profile("generic-7200")).reads_ms.service_ms * 1000
    lines = fs_usage_lines(reads, served, unit=512, device="disk4", process="find")
    (tmp_path / "tools" / "lines").write_text("\n".join(lines) + "\n")
    shutil.copy(image, tmp_path / "dev" / "rdisk4")
    tool(tmp_path / "tools", "layoutscope", f'#!/bin/sh\nexec {sys.executable} -m layoutscope "$@"\n')
    done, files = run_kit(mac | {"PYTHONPATH": str(Path(layoutscope.__file__).parents[1])}, tmp_path)
    assert done.returncode == 0, done.stderr
    assert steps(files)["metadata"] == "0"
    (archive,) = tmp_path.glob("layoutscope-kit-*.tar.gz")
    result = run("validate", archive, "--drive", "generic-7200", "--json")
    assert result.exit_code == 0, result.stderr
    walk = json.loads(result.stdout)["walks"][0]
    assert walk["name"] == "find"
    found = walk["replay"]
    assert (found["agreement"]["block_share"], found["agreement"]["pair_share"]) == (1, 1)
    assert found["recording"]["on_nodes"] == found["recording"]["tried"] == len(reads)


# ``validate``: kits made from the committed APFS image with our own workload, in the format of a Mac's kit.
#
# The files are those of docs/drives.md. A faulty kit is reported with the reason: another unit or disk, a missing
# workload. Malicious archives are refused in one line.


DRIVE = "generic-7200"
ORDERS = {"find": {"stat": False}, "ls": {}, "bulk": {"order": "bulk"}}


@pytest.fixture(scope="module")
def files(apfs_image, tmp_path_factory):
    """Return the files of a kit by name: three workloads at twice the host's time, on a drive as its profile says."""
    folder = tmp_path_factory.mktemp("capture")
    layoutscope.scan(apfs_image, drives=(), names=False).save(folder / "metadata.lscope")
    made = {f"metadata.lscope/{place.relative_to(folder / 'metadata.lscope').as_posix()}": place.read_bytes()
            for place in (folder / "metadata.lscope").rglob("*") if place.is_file()}  # fmt: skip
    for name, order in ORDERS.items():
        reads = layoutscope.trace(apfs_image, host="macos", **order)
        reads.think_us[:] = reads.think_us.round() * 2
        served = layoutscope.service(reads, layoutscope.load_profile(DRIVE)).reads_ms.service_ms * 1000
        lines = fs_usage_lines(reads, served, unit=4096, device="disk5", process=name)
        made[f"walk-{name}.fs_usage.txt"] = ("\n".join(lines) + "\n").encode()
        made[f"walk-{name}.fs_usage.err.txt"] = b""
        seconds = (reads.think_us.sum() + served.sum()) / 1e6
        made[f"walk-{name}.time.txt"] = b"real %.2f\nuser 0.10\nsys 0.40\n" % seconds
        made[f"walk-{name}.count.txt"] = b"    4198\n"
    return made | {
        "kit.txt": b"kit = 1\nvolume = blanked\ndevice = disk4s2\ncontainer = disk5\nphysical = disk4\n",
        "steps.tsv": b"step\tstatus\tseconds\tnote\ncalibrate\t-\t0\tno perl\nwalk-find\t0\t3\t\n",
        "sw_vers.txt": b"ProductName:\t\tmacOS\nProductVersion:\t\t14.5\nBuildVersion:\t\t23F79\n",
        "sysctl.txt": b"hw.memsize: 17179869184\nhw.model: MacBookPro18,3\nkern.maxvnodes: 263168\n",
        "volume.plist": plistlib.dumps({"DeviceBlockSize": 4096}),
        "physical.plist": plistlib.dumps({"MediaName": "Some|Disk", "SolidState": False}),
    }


@pytest.fixture
def packed(tmp_path):
    """Return a function that packs files and further members as the kit's script does."""

    def pack(content, *members):
        target = tmp_path / "layoutscope-kit.tar.gz"
        with tarfile.open(target, "w:gz") as made:
            for name, data in content.items():
                member = tarfile.TarInfo(f"kit/{name}")
                member.size = len(data)
                made.addfile(member, io.BytesIO(data))
            for member in members:
                made.addfile(member, io.BytesIO(bytes(member.size)))
        return target

    return pack


@pytest.fixture
def scored(run, packed):
    """Return a function that validates files and returns the document."""

    def get(content, *options):
        result = run("validate", packed(content), "--drive", DRIVE, *options, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return get


def test_every_walk_meets_its_prediction(scored, files):
    """All blocks and pairs, all metadata on nodes, the drive at its pace, the host at half of the measured time."""
    document = scored(files)
    assert [walk["name"] for walk in document["walks"]] == ["find", "ls", "bulk"]
    for walk in document["walks"]:
        found = walk["replay"]
        assert (found["agreement"]["block_share"], found["agreement"]["pair_share"]) == (1, 1), walk["name"]
        assert found["recording"]["on_nodes"] == found["recording"]["tried"] == found["reads"] > 300
        assert found["measured"][0]["ratio"] == pytest.approx(1, abs=0.01)
        assert found["host"]["measured_us"] / found["host"]["model_us"] == pytest.approx(2, rel=0.03)
        assert (walk["entries"], walk["cpu_s"], walk["notes"]) == (4198, 0.5, [])
        assert walk["is_hit"] is True


def test_the_text_has_the_rows_for_the_table_and_the_counts_of_leaves(run, packed, scored, files, apfs_image):
    """What it was made on, and a row per workload; transactions and leaves are counted from the table of nodes."""
    nodes = layoutscope.read_layouts(apfs_image)[1].nodes.filter(tree="fs", kind="leaf", state="live")
    counts = nodes.group_by("xid").len()["len"]
    policy = scored(files)["policy"]
    middle, high, most = policy["leaves_per_transaction"]
    assert (policy["leaves"], policy["transactions"], most) == (len(nodes), len(counts), counts.max())
    assert (policy["xid_deciles"][0], policy["xid_deciles"][-1]) == (nodes["xid"].min(), nodes["xid"].max())
    ordered = nodes.sort("key_rank")["image_offset"].to_list()
    adjacent = sum(after == before + 4096 for before, after in pairwise(ordered))
    assert policy["adjacent_share"] == pytest.approx(adjacent / (len(ordered) - 1))
    lost = files | {"walk-ls.fs_usage.err.txt": b"fs_usage: buffer overrun, events generated too quickly: 6\n"}
    words = " ".join(run("validate", packed(lost), "--drive", DRIVE).stdout.split())
    assert "macOS 14.5 on MacBookPro18,3; APFS disk4s2, disk4 (Some|Disk, rotating)" in words
    assert "Predicted for generic-7200, as asked for" in words
    assert "left out or failed: calibrate no perl" in words
    assert "lost events: reads are missing" in words
    assert "| macOS 14.5 | Some/Disk | 16.0 GiB | APFS | 4,198 | find | fts --no-stat |" in words
    assert words.count("| yes |") == 3
    tenths = ", ".join(f"{xid:,}" for xid in policy["xid_deciles"])
    said = f"{policy['transactions']:,} transactions: {middle:g} leaves each (90 % {high:g}, most {most:g})"
    assert words.count(f"{said} | {tenths} |") == 3


@pytest.mark.parametrize(
    ("model", "calibration", "said"),
    [
        ("APPLE SSD AP0256J", None, "by its model APPLE SSD AP0256J"),
        ("Nobody's", None, "Predicted for sata-ssd, since no profile is of its model"),
        ("APPLE SSD AP0256J", b"kit: no such disk\n", "AP0256J (not by its calibration: "),
        (
            "APPLE SSD AP0256J",
            b"step,offset,length,at_ns,ns\ncapacity,0,4096,0,0\nturn,0,4096,0,1\n",
            "AP0256J (not by its calibration: ",
        ),
    ],
)
def test_the_drive_is_that_of_its_model(run, packed, files, model, calibration, said):
    """A profile that matches, else the usual one of the kind; a calibration without results is not used."""
    known = {"physical.plist": plistlib.dumps({"MediaName": model, "SolidState": True})}
    known |= {"calibration.csv": calibration} if calibration else {}
    assert said in " ".join(run("validate", packed(files | known)).stdout.split())


def test_the_drive_is_that_of_the_calibration(run, packed, files):
    """The kit's measurement takes precedence over its model; --drive takes precedence over both."""
    log = measure_drive(FakeDrive(flash()), "mine", []).log.text().encode()
    known = {"physical.plist": plistlib.dumps({"MediaName": "APPLE SSD AP0256J", "SolidState": True})}
    kit = packed(files | known | {"calibration.csv": log})
    result = run("validate", kit, "--json")
    document = json.loads(result.stdout)
    assert document["profile"].startswith("kit, by its own calibration: Measured with")
    found = document["walks"][1]["replay"]
    causes = found["expected"][0]["causes_s"]
    assert sum(causes.values()) - causes["host"] == pytest.approx(found["reads"] * 100e-6, rel=0.01)
    assert "calibration" not in json.loads(run("validate", kit, "--drive", DRIVE, "--json").stdout)["profile"]


def test_a_kit_that_does_not_fit_says_why(scored, files):
    """A workload of ten minutes, one of another disk; blocks of another unit, and some that never match nodes."""
    listed = files["walk-ls.fs_usage.txt"]
    slow = {"walk-bulk.time.txt": b"real 600.00\nuser 0.10\nsys 0.40\n"}
    elsewhere = {"walk-ls.fs_usage.txt": listed.replace(b"/dev/disk5", b"/dev/disk7")}
    walks = scored(files | slow | elsewhere)["walks"]
    assert [walk["is_hit"] for walk in walks] == [True, True, False]
    assert [walk["notes"] for walk in walks] == [[], ["its reads are on disk7, the kit is of disk4s2"], []]
    unit = {"volume.plist": plistlib.dumps({"DeviceBlockSize": 512})}
    walks = scored(files | unit | {"walk-ls.fs_usage.txt": listed.replace(b"D=0x0", b"D=0x7")})["walks"]
    assert walks[0]["notes"] == ["its blocks have 4,096 bytes, diskutil says 512"]
    assert walks[1]["replay"]["recording"]["problem"].startswith("only 0 % of 628 reads are on nodes")


@pytest.mark.parametrize(
    ("gone", "changed", "why"),
    [
        ("walk-ls.fs_usage.txt", {}, "it was not recorded"),
        ("", {"walk-ls.fs_usage.txt": b"TIMESTAMP\n09:00:00.0001 RdMeta[S] D=0x8  B=0x1"}, "line 2 is cut or damaged"),
        ("", {"walk-ls.fs_usage.txt": b""}, "its recording holds no reads"),
    ],
)
def test_a_walk_that_is_missing_is_told(scored, files, gone, changed, why):
    """The others are still scored."""
    walks = scored({name: data for name, data in (files | changed).items() if name != gone})["walks"]
    assert why in walks[1]["why_not"]
    assert [walk["why_not"] for walk in (walks[0], walks[2])] == ["", ""]


def test_without_a_capture_an_image_can_be_given(scored, files, apfs_image):
    """A kit without a capture gives no score; a given image replaces it."""
    bare = {name: data for name, data in files.items() if not name.startswith("metadata")}
    document = scored(bare)
    assert {walk["why_not"] for walk in document["walks"]} == {
        "the kit has no capture of the volume; --against takes one"
    }
    assert document["policy"] is None
    document = scored(bare, "--against", apfs_image)
    assert document["walks"][0]["replay"]["agreement"]["pair_share"] == 1


def member(name, kind=tarfile.REGTYPE, size=0, link=""):
    """Return a member of an archive."""
    made = tarfile.TarInfo(name)
    made.type, made.size, made.linkname = kind, size, link
    return made


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (member("../kit.txt"), "'../kit.txt' is not in the folder 'kit'"),
        (member("kit/../../x"), "is not in the folder 'kit'"),
        (member("/etc/passwd"), "'/etc/passwd' is not in the folder 'kit'"),
        (member("kit/a\x1b[31m"), "is not in the folder 'kit'"),
        (member("kit/sysctl.txt", tarfile.SYMTYPE, link="/etc/passwd"), "is a link or a device"),
        (member("kit/x", tarfile.LNKTYPE, link="kit/kit.txt"), "is a link or a device"),
        (member("kit/x", tarfile.CHRTYPE), "is a link or a device"),
        (member("kit/kit.txt"), "is in the archive twice"),
    ],
    ids=["up", "up inside", "absolute", "control", "symbolic link", "hard link", "device", "twice"],
)
def test_hostile_archives_are_refused_in_one_line(run, packed, files, bad, message):
    """Nothing of them is read or written."""
    result = run("validate", packed({"kit.txt": files["kit.txt"]}, bad))
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert message in result.stderr
    assert "\x1b" not in result.stderr


def test_an_archive_that_unpacks_without_end_is_refused(run, tmp_path, monkeypatch):
    """Too large a member, too many, and headers stored as files: refused before they fill the memory."""
    monkeypatch.setattr(opening, "MAX_UNPACKED_BYTES", 1 << 24)
    monkeypatch.setattr(opening, "MAX_MEMBER_BYTES", 1 << 23)
    target = tmp_path / "kit.tar.gz"
    header = member("kit/x", size=1 << 36)
    with gzip.open(target, "wb", 1) as file:
        file.write(header.tobuf())
        file.write(bytes(1 << 20))
    assert "member 1, 'kit/x', has 68,719,476,736 bytes: too large" in run("validate", target).stderr
    header = member("kit/x", tarfile.XHDTYPE, size=1 << 30)
    with gzip.open(target, "wb", 1) as file:
        file.write(header.tobuf())
        for _ in range(64):
            file.write(bytes(1 << 20))
    tracemalloc.start()
    with pytest.raises(ImageError, match="unpacks to more than 16,777,216 bytes"):
        opening.list_files_in_archive(target, "kit")
    assert tracemalloc.get_traced_memory()[1] < 1 << 26
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "is a kit without a version"),
        ({"kit.txt": b"kit = 2\n"}, "is a kit of version '2'; version 1 can be read"),
        ({"kit.txt": b"kit = 1\n", "metadata.img.zst": b"nothing"}, "metadata.img.zst"),
        ({"kit.txt": b"kit = 1\n", "metadata.lscope/manifest.json": b"{"}, "metadata.lscope"),
    ],
)
def test_what_is_no_kit_is_refused_in_one_line(run, packed, content, message):
    """It says what is wrong, and nothing about the unpacked folder."""
    result = run("validate", packed(content))
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert message in result.stderr
    assert "layoutscope-kit.tar.gz" in result.stderr


def test_a_cut_archive_is_refused(run, packed, files, tmp_path):
    """In the middle of a file, and in the middle of the compressed data."""
    data = packed(files).read_bytes()
    for length in (0, 10, len(data) // 2, len(data) - 4):
        (tmp_path / "cut.tar.gz").write_bytes(data[:length])
        result = run("validate", tmp_path / "cut.tar.gz")
        assert (result.exit_code, result.stderr.count("\n")) == (1, 1), length


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\0", b"<?xml version='1.0'?><plist><array/></plist>", b"a\nb: c"])
def test_damaged_facts_are_none(scored, files, data):
    """The kit's facts about its Mac may be anything; workloads are scored without them."""
    for name in ("volume.plist", "physical.plist", "sysctl.txt", "sw_vers.txt", "steps.tsv"):
        assert scored(files | {name: data})["walks"][0]["is_hit"] is True, name


def test_an_unpacked_folder_is_a_kit_too(run, tmp_path):
    """A repeated workload follows the others; the answers are kept; words are where the device's name would be."""
    folder = tmp_path / "kit"
    folder.mkdir()
    (folder / "kit.txt").write_text("kit = 1\ndisks = My Book = Duo, 5400 rpm\nfilled = CCC, from APFS\n")
    (folder / "walk-find-2.time.txt").write_text("real 3.5\nuser 0.1\nsys 0.2\n")
    found = layoutscope.validate(folder)
    assert [(walk.name, walk.order, walk.real_s) for walk in found.walks if walk.real_s] == [
        ("find-2", "fts --no-stat", 3.5)
    ]
    assert (found.machine.disks, found.machine.filled) == ("My Book = Duo, 5400 rpm", "CCC, from APFS")
    assert "Disks: My Book = Duo, 5400 rpm" in str(found)
    assert run("validate", folder).stdout.splitlines()[0].endswith("an unnamed Mac; an unnamed volume")
