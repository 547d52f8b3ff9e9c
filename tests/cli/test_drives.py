from __future__ import annotations

import json
import tomllib

import pytest

from layoutscope.drive import list_profiles, load_profile
from tests.pages import chart_titles


def test_every_profile_is_listed(run):
    """The list names each profile that comes with the package, with a latency and a rate."""
    document = json.loads(run("drives", "--json").stdout)
    assert [drive["name"] for drive in document["drives"]] == list_profiles()
    for drive in document["drives"]:
        assert 0 < drive["random_4k_ms"]["p50"] <= drive["random_4k_ms"]["p99"]
        assert drive["sequential_mb_s"] > 1


def test_one_profile_shows_the_source_of_every_number(run):
    """Each figure is shown with its kind and its source."""
    (drive,) = json.loads(run("drives", "generic-7200", "--json").stdout)["drives"]
    assert set(drive["figures"]) == set(load_profile("generic-7200").figures)
    for figure in drive["figures"].values():
        assert figure["kind"] in ("measured", "datasheet", "fitted", "assumed")
        assert figure["source"]
    assert "datasheet" in run("drives", "generic-7200").stdout


def test_random_latency_of_a_disk_is_seek_plus_half_a_turn(run):
    """At 7200 rpm half a revolution is 4.17 ms: the median is between that and the longest seek plus a revolution."""
    (drive,) = json.loads(run("drives", "generic-7200", "--json").stdout)["drives"]
    assert 60_000 / 7200 / 2 < drive["random_4k_ms"]["p50"] < 25


def test_fit_meets_what_it_was_fitted_to(run, tmp_path):
    """A profile fitted to 15 ms has a median of 15 ms within 2 %, and is loaded by its file."""
    target = tmp_path / "mine.toml"
    assert run("drives", "fit", "mine", "--random-ms", "15", "-o", target).exit_code == 0
    assert tomllib.loads(target.read_text())["figures"]["average_seek_ms"]["kind"] == "fitted"
    (drive,) = json.loads(run("drives", target, "--json").stdout)["drives"]
    assert drive["random_4k_ms"]["p50"] == pytest.approx(15, rel=0.02)


def test_a_fitted_drive_does_not_say_what_its_base_is(run, tmp_path):
    """It does not repeat the base's lines on published seek times and on use; the base still shows both."""
    target = tmp_path / "mine.toml"
    run("drives", "fit", "mine", "--random-ms", "15", "-o", target)
    made, base = (run("drives", name).stdout for name in (target, "generic-7200"))
    assert "Seek times of a published drive" in base
    assert "Use it for" in base
    assert "Seek times of a published drive" not in made
    assert "Use it for" not in made
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
    ("words", "reason"),
    [
        (["abacus"], "unknown drive profile"),
        (["fit", "mine"], "nothing to fit to"),
        (["fit", "mine", "--datasheet", "rpm"], "is not a figure"),
        (["fit", "mine", "--fio", "/no/such"], "is not a JSON report"),
    ],
)
def test_wrong_wishes_are_usage_errors(run, words, reason):
    """Unknown values are refused in one line, with exit code 2."""
    result = run("drives", *words)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert reason in result.stderr


def test_the_list_says_which_to_take(run):
    """Each profile describes the drives that it represents."""
    text = " ".join(run("drives").stdout.split())
    assert "external or notebook 2.5-inch disk, 5,400 rpm" in text
    for item in json.loads(run("drives", "--json").stdout)["drives"]:
        assert item["take_for"] in text
        assert len(item["take_for"]) > 20


@pytest.mark.parametrize(
    ("model", "profile"),
    [
        ("ST2000DM006", "st2000dm006"),
        ("st2000dm006-2dm164", "st2000dm006"),
        ("APPLE SSD SM0512L", "apple-sm0512l-2016"),
        ("Samsung SSD 870 EVO 1TB", "sata-ssd"),
    ],
)
def test_a_drive_goes_by_its_model_number(run, model, profile):
    """Model numbers are matched as systems report them, with vendor suffixes."""
    assert json.loads(run("drives", model, "--json").stdout)["drives"][0]["name"] == profile


@pytest.mark.parametrize("model", ["ST2000DM00", "EVO", "SSD", "WD10EZEX"])
def test_another_model_is_not_taken_for_one_that_is_known(run, model):
    """Part of a number does not match, and an unmeasured drive has no profile."""
    result = run("drives", model)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"unknown drive profile '{model}'" in result.stderr
    assert "'layoutscope drives' says what to take each for" in result.stderr
