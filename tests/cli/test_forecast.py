"""``forecast``: its results and refusals, and that its sentences appear only where they are true."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import layoutscope
from fixtures.apfs.scenarios import PASSWORD
from fixtures.apfs.scenarios import SCENARIOS as APFS_SCENARIOS
from fixtures.apfs.writer import write as write_apfs
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from layoutscope.aging.layouts import build_aged_layout
from layoutscope.aging.volume import model_errors
from layoutscope.api.forecast import churn_of, plan_steps, readable
from layoutscope.errors import LayoutscopeError, UsageError
from layoutscope.zstd import zstd
from tests.pages import chart_titles

HFSPLUS = "fixtures/images/hfsplus-scattered.img.zst"
APFS = "fixtures/images/apfs-scattered.img.zst"
DRIVE = ("--drive", "sata-ssd", "--seeds", "2")


def test_no_cycles_say_what_predict_says(run):
    """After zero cycles a volume is unchanged: the seconds of the single point equal those of predict."""
    told = json.loads(run("forecast", HFSPLUS, "--cycles", "0", *DRIVE, "--json").stdout)
    predicted = layoutscope.predict(HFSPLUS, drives="sata-ssd").volumes[0].drives[0].prediction.seconds
    assert [point["cycle"] for point in told["points"]] == [0]
    assert told["points"][0]["times"][0]["seconds"]["value"] == pytest.approx(predicted, rel=0.01)


@pytest.mark.parametrize("image", [HFSPLUS, APFS])
def test_the_text_has_every_point(run, image):
    """Each point is a row of both tables."""
    result = run("forecast", image, "--cycles", "2", *DRIVE, "--host", "linux")
    assert result.exit_code == 0
    rows = [line.split()[0] for line in result.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert rows == ["0", "1", "2"] * 2
    assert ("A transaction ends when 10,000 blocks wait" in result.stdout) == (image == APFS)
    assert ("Neighbours that fill half a node" in result.stdout) is False


@pytest.mark.full
@pytest.mark.parametrize("host", ["linux", "macos"])
@pytest.mark.parametrize("image", [HFSPLUS, APFS])
def test_the_range_of_drives_holds_that_of_layouts(image, host):
    """The range over drives contains that over layouts: on single disks, sets and flash, fresh and aged."""
    drives = ("generic-7200", "wd-mybook-duo-2tb", "atlas10k5", "sata-ssd")
    for point in layoutscope.forecast(image, cycles=2, seeds=2, host=host, drives=drives).points:
        assert [time.profile for time in point.times] == list(drives)
        for time in point.times:
            assert time.low_s <= time.seconds.low <= time.seconds.value <= time.seconds.high <= time.high_s, time
            assert time.low_s < time.high_s


def test_draws_are_the_same_each_time():
    """The same request gives the same result."""
    asked = {"cycles": 2, "seeds": 2, "drives": ()}
    assert layoutscope.forecast(APFS, **asked).points == layoutscope.forecast(APFS, **asked).points


def test_ten_thousand_cycles_are_followed_in_forty_steps(run):
    """The plan is bounded, and the text says where it ends; with few cycles no such line appears."""
    assert plan_steps(10_000, 0.05)[1] == 40
    many = run("forecast", HFSPLUS, "--cycles", "10000", "--seeds", "1", "--drive", "sata-ssd").stdout
    assert "10 cycles are followed as one." in many
    assert "400 of 10,000 cycles were simulated" in many
    few = run("forecast", HFSPLUS, "--cycles", "2", "--seeds", "1", "--drive", "sata-ssd").stdout
    assert "followed" not in few


def test_what_is_assumed_of_a_mac_is_said_first_and_of_a_mac_alone(run):
    """The macOS driver was not compared, Linux drivers were. Both notes mention narrow ranges; one draw is singular."""
    told = {
        host: " ".join(run("forecast", HFSPLUS, "--cycles", "1", *DRIVE, "--seeds", "1", "--host", host).stdout.split())
        for host in ("macos", "linux")
    }
    assert "has not been checked on a Mac" in told["macos"]
    assert "has not been checked on a Mac" not in told["linux"]
    for text in told.values():
        assert "The layout range is too narrow" in text
        assert "; 1 simulation Listing" in text


def test_a_volume_without_files_or_key_is_refused(tmp_path):
    """The first would not change; one line says what the second lacks, and with the password there is a forecast."""
    write(SCENARIOS["empty"], tmp_path / "empty.img")
    with pytest.raises(UsageError, match="without files: nothing would change"):
        layoutscope.forecast(tmp_path / "empty.img", cycles=1)
    write_apfs(APFS_SCENARIOS["encrypted"], tmp_path / "locked.img")
    with pytest.raises(LayoutscopeError, match=r"locked|not read"):
        layoutscope.forecast(tmp_path / "locked.img", cycles=1, drives=())
    found = layoutscope.forecast(tmp_path / "locked.img", cycles=1, seeds=1, drives=(), password=PASSWORD)
    assert found.points[-1].cycle == 1


def test_a_full_volume_says_when_it_is_full(run):
    """A volume that grows by a fifth of its files per cycle fills up; one that is only changed does not."""
    full = run("forecast", APFS, "--workload", "add", "--share", "0.2", "--cycles", "8", *DRIVE).stdout
    assert "the volume is full" in full
    assert "the volume is full" not in run("forecast", APFS, "--cycles", "2", *DRIVE).stdout


def test_images_of_one_volume_tell_how_much_is_replaced(run):
    """Two copies of one image give zero; images of several volumes are refused."""
    same = run("forecast", HFSPLUS, HFSPLUS, *DRIVE)
    assert same.exit_code == 2
    assert "no file was replaced from the first image to the last" in " ".join(same.stderr.split())
    assert "0.0 %" in run("forecast", HFSPLUS, HFSPLUS, "--share", "0.1", "--cycles", "0", *DRIVE).stdout
    other = run("forecast", HFSPLUS, APFS, *DRIVE)
    assert "the images are of different volumes" in " ".join(other.stderr.split())


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory):
    """Write an APFS volume with snapshots."""
    path = tmp_path_factory.mktemp("snapshots") / "kept.img"
    write_apfs(APFS_SCENARIOS["snapshots"], path)
    return path


def test_what_snapshots_hold_is_not_free_when_it_is_replaced(snapshots):
    """No block that a snapshot holds becomes free in cycles that replace half of the files."""
    layout = layoutscope.read_layouts(snapshots)[-1]
    volume = readable(layout, "linux")
    held = volume.space._pinned
    assert 0 < len(held) < volume.data.count.sum() + sum(len(level) for level in volume.trees["fs"].levels)
    for seed in range(3):
        volume.age("replace", int(volume.entries.is_file.sum()) // 2, np.random.default_rng(seed))
    start, count = volume.space.runs()
    place = np.searchsorted(start, held, side="right") - 1
    assert not ((place >= 0) & (held < start[place] + count[place])).any()


def test_what_snapshots_hold_is_said_where_there_are_some(run, snapshots, tmp_path):
    """Without snapshots the text does not mention them; the page forbids all external sources, as others do."""
    told, target = "Snapshots that the volume has hold", tmp_path / "next.html"
    assert told in " ".join(run("forecast", snapshots, "--cycles", "1", *DRIVE).stdout.split())
    plain = run("forecast", HFSPLUS, "--cycles", "1", *DRIVE, "--plot", target).stdout
    assert told not in " ".join(plain.split())
    page = target.read_text()
    assert "default-src 'none'" in page
    assert "Listing every file on a SATA SSD" in chart_titles(page)


@pytest.mark.parametrize("image", [HFSPLUS, APFS])
def test_a_volume_whose_half_is_lost_ends_with_a_line_or_a_forecast(run, image, tmp_path):
    """Nodes of the second half are zeros: the rest ages, and only intended errors are raised."""
    with Path(image).open("rb") as file:
        data = bytearray(zstd.decompress(file.read()))
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    (tmp_path / "half.img").write_bytes(data)
    told = run("forecast", tmp_path / "half.img", "--cycles", "2", "--seeds", "1", "--drive", "sata-ssd")
    assert told.exit_code in (0, 1, 2, 3)
    assert "Traceback" not in told.stderr
    assert told.exit_code == 0 or len(told.stderr.strip().splitlines()) >= 1


def later(layout, *shares):
    """Return a volume after cycles that replace shares of its files: one state per cycle."""
    volume, states = readable(layout, "linux"), [layout]
    for seed, share in enumerate(shares):
        wanted = round(share * int(volume.entries.is_file.sum()))
        volume.age("replace", wanted, np.random.default_rng(seed))
        states.append(build_aged_layout(layout, volume))
    return states


@pytest.mark.parametrize("image", [HFSPLUS, APFS])
def test_states_of_one_volume_tell_the_share_that_is_replaced_and_how_well_it_held(image):
    """With steps of 1/10, 1/10 and 1/5, the earlier states estimate a tenth for the last step; it was a fifth."""
    layout = layoutscope.read_layouts(image)[-1]
    found = churn_of(later(layout, 0.1, 0.1, 0.2))
    assert found.replaced == pytest.approx((0.1, 0.1, 0.2), abs=0.01)
    assert found.expected == pytest.approx(0.1, abs=0.01)
    # APFS nodes record when they were written; HFS+ nodes do not.
    assert [share is None for share in found.rewritten] == [image == HFSPLUS] * 3
    assert churn_of(later(layout, 0.1)).expected is None


def test_ranges_are_wider_by_what_the_model_was_off():
    """Only after cycles, and only where the model was compared with drivers; the current volume has no such error."""
    errors = model_errors("hfsplus", "linux")
    first, *_, last = layoutscope.forecast(HFSPLUS, cycles=2, seeds=2, drives=(), host="linux").points
    assert all(metric.low is None for metric in first.metrics)
    told = [metric for metric in last.metrics if metric.found is not None and (metric.name, metric.subject) in errors]
    assert told
    for metric in told:
        share = errors[metric.name, metric.subject]
        assert metric.low == pytest.approx(metric.found.low - share * abs(metric.found.low))
        assert metric.high == pytest.approx(metric.found.high + share * abs(metric.found.high))
    macos = layoutscope.forecast(HFSPLUS, cycles=2, seeds=2, drives=(), host="macos").points[-1]
    assert all(metric.low is None for metric in macos.metrics)
