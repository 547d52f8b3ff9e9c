"""``forecast``: what it says, what it refuses, and that its sentences are said where they hold."""

from __future__ import annotations

import json

import pytest

import layoutscope
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from layoutscope.analysis.aged import planned
from layoutscope.errors import UsageError

HFSPLUS = "fixtures/images/hfsplus-scattered.img.zst"
APFS = "fixtures/images/apfs-scattered.img.zst"
DRIVE = ("--drive", "sata-ssd", "--seeds", "2")


def test_no_cycles_say_what_predict_says(run):
    """After no cycle a volume is as it is: the seconds of one point are those of a prediction."""
    told = json.loads(run("forecast", HFSPLUS, "--cycles", "0", *DRIVE, "--json").stdout)
    predicted = layoutscope.predict(HFSPLUS, drives="sata-ssd").volumes[0].drives[0].prediction.seconds
    assert [point["cycle"] for point in told["points"]] == [0]
    assert told["points"][0]["times"][0]["seconds"]["value"] == pytest.approx(predicted, rel=0.01)


@pytest.mark.parametrize("image", [HFSPLUS, APFS])
def test_the_text_has_every_point(run, image):
    """Each of them is a row of both tables."""
    result = run("forecast", image, "--cycles", "2", *DRIVE)
    assert result.exit_code == 0
    rows = [line.split()[0] for line in result.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert rows == ["0", "1", "2"] * 2
    assert ("A transaction ends when 10,000 blocks wait" in result.stdout) == (image == APFS)
    assert ("Neighbours that fill half a node" in result.stdout) is False


def test_draws_are_the_same_each_time():
    """The same question has the same answer."""
    asked = {"cycles": 2, "seeds": 2, "drives": ()}
    assert layoutscope.forecast(APFS, **asked).points == layoutscope.forecast(APFS, **asked).points


def test_ten_thousand_cycles_are_followed_in_forty_steps(run):
    """The plan is bounded, and says where it ends; of few cycles none of this is said."""
    assert planned(10_000, 0.05).steps == 40
    many = run("forecast", HFSPLUS, "--cycles", "10000", "--seeds", "1", "--drive", "sata-ssd").stdout
    assert "10 cycles are followed as one." in many
    assert "400 of 10,000 cycles were followed" in many
    few = run("forecast", HFSPLUS, "--cycles", "2", "--seeds", "1", "--drive", "sata-ssd").stdout
    assert "followed" not in few


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--workload", "replaec"), "no workload 'replaec' (did you mean 'replace'?); there are replace, "),
        (("--share", "0"), "more than 0 and at most 1, not 0"),
        (("--share", "1.5"), "not 1.5"),
        (("--seeds", "65"), "seeds are 1 to 64, not 65"),
        (("--drive", "nosuch"), "nosuch"),
    ],
)
def test_what_cannot_be_asked_is_refused(run, words, told):
    """One line says what is wrong, with the list of what there is."""
    result = run("forecast", HFSPLUS, *words)
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


def test_a_volume_without_files_is_refused(tmp_path):
    """Nothing would change on it."""
    write(SCENARIOS["empty"], tmp_path / "empty.img")
    with pytest.raises(UsageError, match="without files: nothing would change"):
        layoutscope.forecast(tmp_path / "empty.img", cycles=1)


def test_a_full_volume_says_when_it_is_full(run):
    """A volume to which a fifth of its files is added each cycle ends; one that is only changed does not."""
    full = run("forecast", APFS, "--workload", "add", "--share", "0.2", "--cycles", "8", *DRIVE).stdout
    assert "the volume is full" in full
    assert "the volume is full" not in run("forecast", APFS, "--cycles", "2", *DRIVE).stdout


def test_images_of_one_volume_tell_how_much_is_replaced(run):
    """From an image to itself nothing is; images of several volumes are refused."""
    same = run("forecast", HFSPLUS, HFSPLUS, *DRIVE)
    assert same.exit_code == 2
    assert "no file was replaced from the first image to the last" in " ".join(same.stderr.split())
    assert "0.0 %" in run("forecast", HFSPLUS, HFSPLUS, "--share", "0.1", "--cycles", "0", *DRIVE).stdout
    other = run("forecast", HFSPLUS, APFS, *DRIVE)
    assert "the images are of different volumes" in " ".join(other.stderr.split())


def test_the_page_asks_nothing_of_any_network(run, tmp_path):
    """Its policy forbids all that is not in it, as that of the other pages."""
    target = tmp_path / "next.html"
    run("forecast", HFSPLUS, "--cycles", "1", *DRIVE, "--plot", target)
    page = target.read_text()
    assert "default-src 'none'" in page
    assert "Enumeration on sata-ssd" in page
