"""The kit for Macs: its script is run here, with each of Apple's tools replaced by one that replays recorded output."""

from __future__ import annotations

import csv
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
from pathlib import Path

import pytest

import layoutscope
from layoutscope.api.measure import fit_log_text
from layoutscope.drive.calibration.plan import read_log
from tests.recordings import fs_usage_lines
from tests.unit.drive.fakes import FakeDrive

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
    """Every step succeeds, and the archive has the files that docs/drives.md lists."""
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


def test_no_name_leaves_the_machine(mac, tmp_path):
    """No names of volume, files or machine and no identifiers; devices, times and processes stay."""
    _, files = run_kit(mac, tmp_path)
    for name, text in files.items():
        for secret in ("Secret", "secret-host", "a b.txt", "01234567"):
            assert secret not in text, name
    lines = files["walk-find.fs_usage.txt"].splitlines()
    assert [line.split("/dev/disk4s2")[1].split() for line in lines] == [
        ["-", "0.000875", "W", "Telegram.17658480"],
        ["-", "0.000745", "W", "find.38325373"],
        ["0.000145", "W", "Google", "Chrome", "He.42"],
    ]
    assert "My Book Duo" in files["physical.plist"]


@TIMED
def test_its_calibration_is_a_log(mac, tmp_path):
    """The reads of a file, which is as fast as flash, are valid input of `drives fit --reads`."""
    _, files = run_kit(mac, tmp_path)
    log = read_log(files["calibration.csv"], "log")
    assert log.capacity_bytes == SIZE
    assert set(log.step.tolist()) == {"start", "kind", "sizes", "rates"}
    path = tmp_path / "calibration.csv"
    path.write_text(files["calibration.csv"])
    assert 'kind = "ssd"' in layoutscope.fit("mine", reads=path)


COMMON = {"start", "kind", "close", "apart", "together", "turn", "rates", "before", "hits", "again", "uniform", "back"}
ONE_DISK = {"tracks", "stream", "paced", "skips", "late", "behind", "pairs"}


@TIMED
@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        # The reads of a disk in descending order come from the platter; those of the file are as fast as from a buffer.
        ({"$keeps = $took < 0.001": "$keeps = 0", "$free > $pairs / 5": "0"}, COMMON | ONE_DISK | {"turn-wide"}),
        ({"$free > $pairs / 5": "0"}, COMMON | ONE_DISK | {"arrival"}),
        ({"$free > $pairs / 5": "1"}, COMMON),
    ],
)
def test_the_steps_of_a_disk_are_those_of_the_plan(mac, changes, steps):
    """With a disk's times perl reads what `drives measure` reads: for one disk, one with track buffering, and a set."""
    script = layoutscope.kit()
    # The track length is measured by the clock; a busy computer makes it too short to choose two places.
    fixed = {
        "< 0.002": "< 0",
        "sleep(0.025)": "1",
        "> 1.2 * $best": ">= 0",
        "@{$place[$number]};": "($place[$number][0], 1 << 20);",
    }
    for old, new in (fixed | changes).items():
        assert old in script
        script = script.replace(old, new)
    begin, end = script.index("<<'PERL'\n") + 8, script.index("\nPERL\n")
    disk = f"{mac['KIT_DEV']}/rdisk4"
    done = subprocess.run(
        ["perl", "-", disk, str(SIZE)], input=script[begin:end], capture_output=True, text=True, check=True
    )
    assert not done.stderr
    log = read_log(done.stdout, "log")
    assert {step for step in log.step.tolist() if not step.startswith("streams")} - {"edge"} == steps
    assert "streams1" in log.step
    assert (len(log.of("close")), len(log.of("apart")), len(log.of("together"))) == (48, 96, 48)
    assert len(log.of("uniform")) == 400
    assert len(log.of("turn")) == (100 if "turn-wide" in steps else 600)
    if "tracks" in steps:
        assert len(log.of("pairs")) == 2880
        places = log.of("tracks").offset
        # Places alternate where reads take turns; else one place is read in descending order before the next.
        assert (places[1] > places[0]) == ("arrival" in steps)


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
    """A model drive: revolution, buffering on arrival, overhead, look-ahead and streams, within a minute."""
    profile = layoutscope.load_profile("generic-7200").with_figures(capacity_bytes=200 * 10**9, on_arrival=on_arrival)
    drive = FakeDrive(profile, mirror=mirror)
    found = fit_log_text(perl_reads(drive, tmp_path), "log", "mine").profile
    assert drive.now_ms < 60_000
    assert found.number("rpm") == pytest.approx(7200, rel=1e-4)
    assert found.number("read_hit_ms") == pytest.approx(0.17, abs=0.03)  # includes two looks at the clock
    assert f"Looks like {'a mirror' if mirror else 'one disk'}" in found.note
    if not mirror:
        assert (found.text("on_arrival", ""), found.text("look_ahead", "")) == (on_arrival, "segment")
        assert found.number("segments") == 41
        assert found.number("segment_sectors") == pytest.approx(3164, rel=0.02)


def test_a_perl_without_its_library_leaves_the_timing_to_dd(mac, tmp_path):
    """As on a Mac without its perl modules: rates instead of a calibration; the rest continues."""
    tool(Path(mac["KIT_TOOLS"]), "perl", "#!/bin/sh\nexit 2\n")
    _, files = run_kit(mac, tmp_path)
    assert "calibration" not in steps(files)
    assert steps(files)["rates"] == "0"
    assert "calibration.csv" not in files


def test_the_disk_is_left_as_it_was(mac, tmp_path):
    """Mounted read-only for the listings and as before at the end; its bytes do not change."""
    disk = Path(mac["KIT_DEV"]) / "rdisk4"
    disk.chmod(0o444)
    before = disk.stat().st_mtime_ns
    run_kit(mac, tmp_path)
    assert disk.stat().st_mtime_ns == before
    calls = Path(mac["KIT_CALLS"]).read_text().splitlines()
    mounts = [call for call in calls if " mount" in call]
    assert mounts == ["diskutil mount readOnly /dev/disk4s2"] * 4 + ["diskutil mount /dev/disk4s2"]
    assert any(call.startswith("layoutscope scan") and "--no-names" in call for call in calls)
    assert not list(tmp_path.glob("kit.??????"))


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


def test_without_layoutscope_the_metadata_is_left_out(mac, tmp_path):
    """The script says so, and the rest is included."""
    (Path(mac["KIT_TOOLS"]) / "layoutscope").unlink()
    done, files = run_kit(mac | {"PATH": "/usr/bin:/bin"}, tmp_path)
    assert steps(files)["metadata"] == "-"
    assert "layoutscope is not installed" in done.stderr
    assert not any(name.startswith("metadata") for name in files)


STARTUP = (
    'case "$*" in "info -plist /"|"info -plist /System/"*) cat "$KIT_TOOLS/startup.plist";; '
    '*) cat "$KIT_TOOLS/info.plist";; esac'
)
"""The system starts from another partition of the disk, in a container, which appears as a disk of its own."""


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
    ],
)
def test_it_refuses(mac, tmp_path, changes, answer, volume, said):
    """Wrong system, not root, no volume, no consent, the startup disk: refused before anything is read."""
    for name, text in changes.items():
        tool(Path(mac["KIT_TOOLS"]), name, f"#!/bin/sh\n{text}\n")
    store = {"ParentWholeDisk": "disk9", "APFSPhysicalStores": [{"APFSPhysicalStore": "disk4s3"}]}
    (Path(mac["KIT_TOOLS"]) / "startup.plist").write_bytes(plistlib.dumps(store))
    done, files = run_kit(mac, tmp_path, answer=answer, volume=volume)
    assert done.returncode == 1
    assert said in done.stderr
    assert files == {}
    calls = Path(mac["KIT_CALLS"])
    assert not calls.exists() or "unmount" not in calls.read_text()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("name", "code"), [("HUP", 129), ("INT", 130), ("TERM", 130)])
def test_a_signal_leaves_the_disk_as_it_was(mac, tmp_path, shell, name, code):
    """A closed terminal as well as Ctrl-C: the volume is mounted again, and no temporary files are left."""
    tool(Path(mac["KIT_TOOLS"]), "perl", f"#!/bin/sh\nkill -{name} $PPID\n")
    done, files = run_kit(mac, tmp_path, shell=shell)
    assert (done.returncode, files) == (code, {})
    assert Path(mac["KIT_CALLS"]).read_text().splitlines()[-1] == "diskutil mount /dev/disk4s2"
    assert not list(tmp_path.glob("kit.??????"))


def test_a_disk_in_use_is_left_alone(mac, tmp_path):
    """If it cannot be unmounted nothing is read."""
    path = Path(mac["KIT_TOOLS"]) / "diskutil"
    path.write_text(path.read_text().replace('case "$*" in', 'case "$*" in\nunmountDisk*) exit 1;;', 1))
    done, files = run_kit(mac, tmp_path)
    assert "is in use" in done.stderr
    assert files == {}


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
