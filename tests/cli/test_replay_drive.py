"""``replay`` of any trace on any drive: options of the drive, and its JSON."""

from __future__ import annotations

import json

import pytest

from layoutscope.drive.fit import profile_text
from tests.unit.drive.toys import disk

IOLOG = "fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n/dev/sdb read 0 4096\n/dev/sdb read 25600000 4096\n"


@pytest.fixture
def replayed(run, tmp_path):
    """Return a function that replays two reads, 500 cylinders apart, on the disk of round numbers."""
    (tmp_path / "toy.toml").write_text(profile_text(disk()))
    (tmp_path / "two.log").write_text(IOLOG)

    def get(*options):
        result = run("replay", tmp_path / "two.log", "--drive", tmp_path / "toy.toml", *options, "--json")
        return json.loads(result.stdout)["times"][0]

    return get


def test_the_time_of_the_drive_as_its_profile_stands(replayed):
    """10.8 ms for the first read, 10.0 for the second (see tests/unit/drive/test_closed_forms.py)."""
    found = replayed("--buffer", "off")
    assert found["nominal_s"] == pytest.approx(0.0208, abs=1e-6)
    assert (found["whole_hit"], found["miss"]) == (0, 1)
    assert found["seconds_low"] < found["seconds"] < found["seconds_high"]
    parts = sum(found[f"{name}_ms"] for name in ("seek", "latency", "xfer", "rest"))
    assert parts == pytest.approx(found["mean_ms"])


def test_think_time(replayed):
    """2 ms of host time before the second read reduce its wait, and are in the total."""
    found = replayed("--buffer", "off", "--think-us", "2000")
    assert found["nominal_s"] == pytest.approx(0.0208, abs=1e-6)
    assert found["total_s"] - found["service_s"] == pytest.approx(0.002)


def test_an_unknown_buffer_is_refused(run, tmp_path):
    """The error lists the valid values."""
    (tmp_path / "two.log").write_text(IOLOG)
    result = run("replay", tmp_path / "two.log", "--drive", "generic-7200", "--buffer", "warm")
    assert result.exit_code == 2
    assert "own, off, join, no-join" in result.stderr


def test_usual_drives_that_are_too_small_are_left_out(run, tmp_path):
    """A read after a terabyte is served by the larger usual drives; a named drive is not left out silently."""
    (tmp_path / "far.log").write_text(IOLOG.replace("25600000", "1099511623680"))
    result = run("replay", tmp_path / "far.log", "--json")
    drives = [one["drive"] for one in json.loads(result.stdout)["times"]]
    assert drives == ["generic-7200", "sata-ssd"]
    result = run("replay", tmp_path / "far.log", "--drive", "generic-5400-2.5")
    assert result.exit_code != 0
    assert "1,099,511,627,776" in result.stderr


def test_a_trace_of_another_image_is_doubted(run, reference_image, tmp_path):
    """The HFS+ reads match no APFS reads: unmatched predictions are counted, and the image is doubted."""
    apfs, hfsplus = (reference_image(f"aged/{name}-20000-c20.img") for name in ("apfs", "hfsplus"))
    run("trace", apfs, "--order", "names", "-o", tmp_path / "names.csv")
    words = ("replay", tmp_path / "names.csv", "--order", "names", "--drive", "sata-ssd", "--against")
    other, own = (" ".join(run(*words, image).stdout.split()) for image in (hfsplus, apfs))
    assert "Few reads match." in other
    assert "0 % of 942 recorded blocks were predicted, 3,172 more predicted" in other
    assert "Was this the image" not in own
    assert "100 % of 942 recorded blocks were predicted, no others predicted" in own
