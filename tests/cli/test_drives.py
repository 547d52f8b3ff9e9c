"""``drives``: the list, profiles, and measurements of files and loop devices (their mechanics, not their times)."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import layoutscope
from layoutscope.api.drives import OF_A_FILE
from layoutscope.drive import list_profiles, load_profile
from layoutscope.drive.calibration.fitting import calibrate
from layoutscope.drive.calibration.plan import read_log
from layoutscope.image import raw
from layoutscope.image.raw import list_mounted
from tests.cli.conftest import ROOT
from tests.pages import chart_titles


def test_every_profile_is_listed(run, monkeypatch):
    """The list names each profile of the package, with a latency, a rate and the drives that it represents."""
    found = layoutscope.drives(())
    monkeypatch.setattr("layoutscope.drives", lambda *_, **__: found)  # shown in two forms, simulated once
    document = json.loads(run("drives", "--json").stdout)
    assert [drive["name"] for drive in document["drives"]] == list_profiles()
    for drive in document["drives"]:
        assert 0 < drive["random_4k_ms"]["p50"] <= drive["random_4k_ms"]["p99"]
        assert drive["sequential_mb_s"] > 1
    text = " ".join(run("drives").stdout.split())
    assert "external or notebook 2.5-inch disk, 5,400 rpm" in text
    for drive in document["drives"]:
        assert drive["take_for"] in text
        assert len(drive["take_for"]) > 20


def test_one_profile_shows_the_source_of_every_number(run):
    """Each figure is shown with its kind and source; at 7200 rpm a random read takes over half a turn, 4.17 ms."""
    (drive,) = json.loads(run("drives", "generic-7200", "--json").stdout)["drives"]
    assert set(drive["figures"]) == set(load_profile("generic-7200").figures)
    assert {figure["kind"] for figure in drive["figures"].values()} <= {"measured", "datasheet", "fitted", "assumed"}
    assert all(figure["source"] for figure in drive["figures"].values())
    assert "datasheet" in run("drives", "generic-7200").stdout
    assert 60_000 / 7200 / 2 < drive["random_4k_ms"]["p50"] < 25


def test_fit_meets_what_it_was_fitted_to(run, tmp_path):
    """A profile fitted to 15 ms has this median within 2 %; it repeats no line of its base on seek times and use."""
    target = tmp_path / "mine.toml"
    assert run("drives", "fit", "mine", "--random-ms", "15", "-o", target).exit_code == 0
    assert tomllib.loads(target.read_text())["figures"]["average_seek_ms"]["kind"] == "fitted"
    (drive,) = json.loads(run("drives", target, "--json").stdout)["drives"]
    assert drive["random_4k_ms"]["p50"] == pytest.approx(15, rel=0.02)
    made, base = (run("drives", name).stdout for name in (target, "generic-7200"))
    for part in ("Seek times of a published drive", "Use it for"):
        assert part in base
        assert part not in made
    assert "mine, fitted" in made
    assert "all other figures are those of generic-7200" in " ".join(made.split())


def test_plot_is_one_page(run, tmp_path):
    """Seek curves and latencies are written to a page that needs no network."""
    target = tmp_path / "drives.html"
    assert run("drives", "generic-7200", "sata-ssd", "--plot", target).exit_code == 0
    page = target.read_text("utf-8")
    assert chart_titles(page) == ["Seek time by distance", "Random 4 KiB reads"]
    assert "default-src 'none'" in page.split("<body>")[0]
    assert "plot.ly" not in page


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["abacus"], 2, "unknown drive profile"),
        (["fit", "mine"], 2, "nothing to fit to"),
        (["fit", "mine", "--datasheet", "rpm"], 2, "is not a figure"),
        (["fit", "mine", "--fio", "/no/such"], 2, "is not a JSON report"),
        (["fit", "mine", "--reads", "/dev/null"], 2, "is not a log of a calibration"),
        (["measure"], 2, "Missing argument 'DEVICE'"),
        (["measure", "/dev/absent"], 1, "no such file"),
        (["measure", "/dev/null"], 1, "is not a disk"),
    ],
)
def test_what_cannot_be_done_is_refused(run, words, code, reason):
    """It says what is wrong in one line, after the usage if an argument is missing."""
    result = run("drives", *words)
    assert (result.exit_code, result.stdout) == (code, "")
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1 or words == ["measure"]


@pytest.mark.parametrize(
    ("model", "profile"),
    [
        ("ST2000DM006", "st2000dm006"),
        ("st2000dm006-2dm164", "st2000dm006"),
        ("APPLE SSD SM0512L", "apple-sm0512l-2016"),
        ("Samsung SSD 870 EVO 1TB", "sata-ssd"),
        *((name, None) for name in ("ST2000DM00", "EVO", "SSD", "WD10EZEX")),
    ],
)
def test_a_drive_goes_by_its_model_number(run, model, profile):
    """As systems report them, with vendor suffixes; part of a number does not match, nor does an unmeasured drive."""
    result = run("drives", model, "--json")
    if profile:
        assert json.loads(result.stdout)["drives"][0]["name"] == profile
        return
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"unknown drive profile '{model}'" in result.stderr
    assert "'layoutscope drives' says what to take each for" in result.stderr


# ``layoutscope drives measure`` on files and loop devices: only the mechanics; times are tested without a clock.


SIZE = 96 << 20
WATCHED = """
import sys
opened = []
def hook(event, args):
    if event == "open" and str(args[0]) == sys.argv[1]:
        opened.append(args[2])
    if event.startswith("os.") and event.split(".")[1] in {"truncate", "remove", "rename", "chmod"}:
        opened.append(event)
sys.addaudithook(hook)
from layoutscope.api.drives import measure
measure(sys.argv[1])
print(opened)
"""


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """Return a file that can be read with O_DIRECT; in this process a read takes 0.1 ms."""
    monkeypatch.setattr(raw, "time", SimpleNamespace(perf_counter_ns=itertools.count(step=100_000).__next__))
    path = tmp_path / "disk.img"
    path.write_bytes(os.urandom(1 << 20))
    os.truncate(path, SIZE)
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip("this file system has no direct reads")
    return path


@pytest.mark.parametrize("option", ["--output", "--log", "--plot"])
def test_places_of_results_are_asked_for_before_any_read(run, disk, tmp_path, monkeypatch, option):
    """A measurement takes hours; existing outputs, including folders, are refused before it."""
    monkeypatch.setattr("layoutscope.api.drives.measure", lambda *_, **__: pytest.fail("it was measured"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("mine")
    for place in ("there", ".", disk):
        result = run("drives", "measure", disk, option, place, "--force")
        assert result.exit_code == 2, (place, result.stderr)
    assert (tmp_path / "there").read_text() == "mine"


def test_a_file_is_measured(run, disk, tmp_path, monkeypatch):
    """Profile and log are written, the log gives the same profile again, the file is unchanged; --quick is short."""
    asked = []
    monkeypatch.setattr(
        "layoutscope.api.drives.calibrate",
        lambda *words, **how: asked.append(how["is_short"]) or calibrate(*words, **how),
    )
    before = disk.read_bytes()
    target = tmp_path / "mine.toml"
    result = run("drives", "measure", disk, "-o", target, "--plot", tmp_path / "mine.html")
    assert result.exit_code == 0, result.stderr
    assert run("drives", "measure", disk, "--quick").exit_code == 0
    assert asked == [False, True]
    assert "that were held back" in result.stderr or "are known within" in result.stderr
    log = read_log((tmp_path / "mine.reads.csv").read_text(), "log")
    assert log.capacity_bytes == SIZE
    assert (log.offset + log.length <= SIZE).all()
    assert tomllib.loads(target.read_text())["spread"]["figures"]
    again = tmp_path / "again.toml"
    assert run("drives", "fit", "mine", "--reads", tmp_path / "mine.reads.csv", "-o", again).exit_code == 0
    assert tomllib.loads(again.read_text())["figures"] == tomllib.loads(target.read_text())["figures"]
    assert disk.read_bytes() == before
    assert f"{disk} is a file: the figures include the file system above the drive" in result.stderr
    for profile in (target, again):
        made = tomllib.loads(profile.read_text())
        assert made["name"].endswith(" (a file, no drive)")
        assert made["note"].startswith(OF_A_FILE)
    assert "(a file, no drive)" in " ".join(run("drives", target).stdout.split())


def test_it_is_opened_for_reading_alone(disk):
    """Python's audit events: opened once, without a write flag, and nothing is truncated, removed or renamed."""
    done = subprocess.run([sys.executable, "-c", WATCHED, disk], capture_output=True, text=True, check=True, cwd=ROOT)
    flags = [flag for flag in eval(done.stdout) if flag is not None]  # noqa: S307  (a list of our own)
    assert flags
    assert all(isinstance(flag, int) and flag & os.O_ACCMODE == os.O_RDONLY for flag in flags)


def test_a_read_that_fails_ends_it(run, disk, tmp_path, monkeypatch):
    """One line names the byte, the reads before are logged, and no profile is written."""
    whole = os.preadv
    count = iter(range(1000))

    def fails(descriptor, buffers, offset):
        if next(count) == 60:
            raise OSError(5, "Input/output error")
        return whole(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", fails)
    target = tmp_path / "mine.toml"
    result = run("drives", "measure", disk, "-o", target)
    assert result.exit_code == 1
    assert "input/output error; nothing more was read" in result.stderr
    assert not target.exists()
    assert len(read_log((tmp_path / "mine.reads.csv").read_text(), "log")) == 60


@contextmanager
def loop_device(path):
    """Attach a file as a read-only loop device, where that is allowed."""
    try:
        done = subprocess.run(
            ["losetup", "--read-only", "--find", "--show", path], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("losetup is not installed")
    if done.returncode:
        pytest.skip("loop devices need root and a kernel that has them")
    device = done.stdout.strip()
    try:
        yield Path(device)
    finally:
        subprocess.run(["losetup", "--detach", device], check=False)


def test_a_loop_device_is_measured(run, disk, tmp_path):
    """The size of a block device comes from its own calls."""
    with loop_device(disk) as device:
        result = run("drives", "measure", device, "-o", tmp_path / "mine.toml")
    # Times on a busy machine mean nothing, so they are tested without a clock; all reads are logged in any case.
    assert result.exit_code == 0 or "the reads show no rotation" in result.stderr, result.stderr
    log = read_log((tmp_path / "mine.reads.csv").read_text(), "log")
    assert (log.capacity_bytes, log.is_file) == (SIZE, False)
    assert "a file" not in result.stderr


def test_mounted_parts_are_found():
    """Mounts of a disk and its partitions, on Linux and on macOS (/dev/rdisk4 is /dev/disk4); of no other disk."""
    linux = (
        "/dev/sdb1 /mnt ext4 rw 0 0\n/dev/sdba1 /x ext4 rw 0 0\nproc /proc proc rw 0 0\n/dev/nvme0n1p2 / ext4 rw 0 0\n"
    )
    assert list_mounted(Path("/dev/sdb"), linux) == ["sdb1"]
    assert list_mounted(Path("/dev/nvme0n1"), linux) == ["nvme0n1p2"]
    macos = "/dev/disk4s2 on /Volumes/A (hfs, local)\n/dev/disk41s1 on /Volumes/B (apfs, local)\n"
    assert list_mounted(Path("/dev/rdisk4"), macos) == ["disk4s2"]
    assert list_mounted(Path("/dev/rdisk5"), macos) == []
