"""Predictions as distributions: the file of priors, the draws of a drive, the loops, and their fast approximation."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from layoutscope import fit
from layoutscope.drive import fusion_set, load_profile, simulate
from layoutscope.drive.profile import Figure, Spread
from layoutscope.drive.simulation import Part, draw_seconds
from layoutscope.drive.uncertain import (
    FIGURES,
    QUANTILES,
    UNSAID,
    Host,
    contributions,
    draw_drive,
    drawn,
    factors,
    interval_of,
    is_any_set,
    is_measured,
    kind_of,
    model_error,
    num_draws,
    priors,
    uncertain,
    uniform,
)
from tests.unit.drive.toys import disk, flash, trace

MAC = Host("macos")
NAMES = ("generic-5400-2.5", "generic-7200", "sata-ssd", "wd-mybook-duo-2tb", "stripe-8-blades")


def scattered(reads=3000, span=4 << 30, think_us=50.0):
    """Return reads of 4 KiB spread over a span."""
    rng = np.random.default_rng(3)
    offset = rng.integers(0, span // 4096, reads) * 4096
    made = trace(0)
    return type(made).from_reads(offset, np.full(reads, 4096), think_us=think_us)


def draw_interval(reads, profile, unknown):
    """Return the range of the draws."""
    return interval_of(draw_seconds(Part(reads, profile), unknown).seconds, {})


def known(profile):
    """Return a drive with all figures measured."""
    figures = {name: Figure(each.value, "measured", "here") for name, each in profile.figures.items()}
    return replace(profile, figures=figures)


def test_every_prior_has_its_source():
    """Each prior names its source; the model's errors name their drives."""

    def lines(table):
        for value in table.values():
            if isinstance(value, dict) and not any(isinstance(each, dict) for each in value.values()):
                yield value
            elif isinstance(value, dict):
                yield from lines(value)

    tables = priors()
    drawn_from = [line for name in ("drive", "host", "placement") for line in lines(tables[name])]
    assert len(drawn_from) > 20
    assert all(line["source"] for line in drawn_from)
    assert set(tables["model"]["zones"]) == {"cheetah15k5", "cheetah9lp", "atlas10k5"}
    assert set(FIGURES) <= set(tables["drive"])


def test_draws_of_a_column_depend_on_its_name_and_prior():
    """A column depends on its name, and has the distribution that its prior says."""
    # A column depends only on its name, and has one draw in each of 64 equal shares.
    assert num_draws() == 64
    assert np.array_equal(uniform("a"), uniform("a"))
    assert not np.array_equal(uniform("a"), uniform("b"))
    assert sorted((uniform("a") * 64).astype(int)) == list(range(64))
    # For a factor of 2, 58 of 64 draws are between 0.5 and 2, and their median is 1.
    values = factors("a", 2.0)
    assert ((values > 0.5) & (values < 2)).sum() == 58
    assert np.median(values) == pytest.approx(1, rel=1e-3)
    # A range is uniform in the logarithm, a span is uniform in the value, and words follow their weights.
    assert np.median(drawn("a", {"range": [1, 100]})) == pytest.approx(10, rel=0.05)
    assert np.median(drawn("a", {"span": [1, 100]})) == pytest.approx(50.5, rel=0.05)
    words = drawn("a", {"words": ["x", "y"], "weights": [0.25, 0.75]})
    assert (words == "x").sum() == 16


def test_known_figures_are_narrower():
    """The less certain a figure, the wider its distribution."""
    # The less certain a figure, the wider its distribution; a class of drives has no data sheet of its own.
    for name in FIGURES:
        widths = [priors()["drive"][name][kind] for kind in ("measured", "fitted", "datasheet", "assumed")]
        assert widths == sorted(widths)
    sheet = Figure(1, "datasheet", "")
    assert kind_of(load_profile("generic-7200"), sheet) == "assumed"
    assert kind_of(load_profile("st2000dm006"), sheet) == "datasheet"
    assert kind_of(disk(), sheet) == "datasheet"
    # Measured figures give a narrower range than the same figures assumed.
    reads = scattered(300, span=disk().capacity_bytes)
    wide, narrow = (draw_interval(reads, drive, uncertain(drive, MAC)) for drive in (disk(), known(disk())))
    assert narrow.ratio < wide.ratio
    assert is_measured(known(disk()))
    assert not is_measured(disk())
    # The caller's buffer setting is known, although the profile only assumed it.
    off = load_profile("generic-7200").with_cache("off")
    assert simulate(trace(*range(0, 800, 8)), off).whole_hit == 0
    assert "look_ahead" not in uncertain(off, UNSAID).choice
    assert "on_arrival" in uncertain(off, UNSAID).choice


@pytest.mark.full
def test_what_is_told_of_a_drive_narrows_far_reads(tmp_path):
    """Over the whole disk, ranges narrow from a class to a data sheet, two measured numbers, and all figures."""
    base = load_profile("generic-7200")
    sheet = {"rpm": 7200, "average_seek_ms": 8.5, "outer_mb_s": 180, "inner_mb_s": 85, "track_to_track_ms": 1.0}
    told = {
        "sheet.toml": fit("sheet", datasheet={**sheet, "capacity_bytes": 2e12}),
        "two.toml": fit("two", random_ms=17.5, rate_mb_s=150),
    }
    for name, text in told.items():
        (tmp_path / name).write_text(text)
    drives = [known(base), *(load_profile(str(tmp_path / name)) for name in ("two.toml", "sheet.toml")), base]
    reads = scattered(600, span=base.capacity_bytes // 6)
    ratios = [draw_interval(reads, drive, uncertain(drive, MAC)).ratio for drive in drives]
    assert ratios == sorted(ratios)
    assert ratios[0] > 1.2


def test_quantiles_are_in_order_and_hold_the_median():
    """The inner half is within the outer nine tenths."""
    found = interval_of(np.arange(1.0, 65.0), {})
    assert found.low_s < found.quarter_s < found.median_s < found.three_quarters_s < found.high_s
    assert (found.quarter_s, found.median_s, found.three_quarters_s) == pytest.approx((16.75, 32, 48.25))


@pytest.mark.parametrize("count", [1, 2, 3, 20, 64])
def test_quantiles_are_those_of_numpy(count):
    """They agree bit for bit, for draws in any order."""
    seconds = np.random.default_rng(count).exponential(3.0, count)
    found = interval_of(seconds, {})
    ours = [found.low_s, found.quarter_s, found.three_quarters_s, found.high_s]
    assert found.median_s == np.quantile(seconds, 0.5, method="lower")
    assert ours == np.quantile(seconds, QUANTILES).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_drive_has_an_interval(name):
    """Disks, flash and stripes of both, with the host's time, all have a range of non-zero width."""
    profile, reads = load_profile(name), scattered()
    found = draw_interval(reads, profile, uncertain(profile, MAC))
    assert found.low_s < found.median_s < found.high_s


def test_what_is_known_is_not_drawn():
    """Neither hosts nor places that are named."""
    # Host costs are drawn only if the host's drivers are named.
    assert "host" not in uncertain(disk(), UNSAID).columns()
    assert "host" in uncertain(disk(), MAC).columns()
    # The volume's place is drawn, over the whole drive, only if it is not given.
    profile, reads = load_profile("generic-7200"), scattered()
    assert uncertain(profile, MAC).offset is None
    anywhere = uncertain(profile, MAC, knows_offset=False)
    assert anywhere.offset is not None
    assert np.ptp(anywhere.offset) > 0.9
    assert draw_seconds(Part(reads, profile), anywhere).seconds.shape == (64,)
    # Each image of a Fusion set has its own drive, so the free space of both together does not apply to either.
    pair = fusion_set(load_profile("sata-ssd"), load_profile("generic-7200"))
    unknown = uncertain(pair, MAC, knows_offset=False)
    seconds = draw_seconds(Part(scattered(100), pair), unknown).seconds
    assert (seconds > 0).all()


def test_a_set_of_two_disks_may_be_a_mirror():
    """In half of the draws, the case of two disks is one disk as large as both; a stripe of eight blades never is."""
    case = load_profile("wd-mybook-duo-2tb")
    assert is_any_set(case)
    assert not is_any_set(load_profile("stripe-8-blades"))
    unknown = uncertain(case, MAC)
    drives = [draw_drive(case, unknown, number) for number in range(16)]
    mirrors = [drive for drive in drives if not drive.members]
    assert len(mirrors) == 8
    assert all(drive.capacity_bytes == case.capacity_bytes for drive in drives)
    assert len({drive.number("chunk_bytes") for drive in drives if drive.members}) > 2


def test_contributions_name_the_input_that_matters():
    """The input that determines the time has nearly all of the share, for numbers and for words."""
    one, other = factors("one", 2), factors("other", 2)
    shares = dict(contributions(10 * one * other**0.1, {"one": ("a", one), "other": ("b", other)}))
    assert shares["a"] > 0.95
    assert shares["b"] < 0.05
    words = drawn("word", {"words": ["x", "y"]})
    shares = dict(contributions(np.where(words == "x", 1.0, 2.0), {"word": ("w", words), "one": ("a", one)}))
    assert shares["w"] > 0.99
    # Constant times and constant inputs have no shares.
    assert contributions(np.full(64, 3.0), {"one": ("a", factors("one", 2))}) == ()
    assert contributions(factors("one", 2), {"same": ("a", np.ones(64))}) == ()
    # The part that chance explains is subtracted.
    columns = {str(k): (str(k), factors(str(k), 2)) for k in range(10)}
    shares = dict(contributions(factors("time", 2), columns))
    assert sum(shares.values()) < 0.35
    # Two groups with identical draws have half each; inputs that cancel each other have no negative share.
    one, other = factors("one", 2), factors("other", 2)
    shares = dict(contributions(one, {"one": ("a", one), "same": ("b", one)}))
    assert shares == pytest.approx({"a": 0.5, "b": 0.5})
    undone = {"one": ("a", one * other), "other": ("b", other * one**0.5)}
    assert min(dict(contributions(one, undone)).values()) >= 0


@pytest.mark.parametrize("seed", range(8))
def test_shares_are_never_more_than_the_whole(seed):
    """Eight volumes determine four inputs beside a drive: each has a share, and the sum is at most one."""
    random = np.random.default_rng(seed)
    volume = np.arange(64) % 8
    placed = {name: ("placement", random.uniform(1, 2, 8)[volume]) for name in "abcd"}
    # If the drive happens to correlate with the volume, the two cannot be told apart.
    drive = np.exp(np.log(placed["a"][1]) + random.normal(0, 0.1, 64))
    seconds = drive**2 * placed["b"][1] / placed["c"][1] * np.exp(random.normal(0, 0.02, 64))
    shares = dict(contributions(seconds, {**placed, "drive": ("drive", drive)}))
    assert min(shares.values()) > 0.05
    assert 0.9 < sum(shares.values()) <= 1


def test_a_drive_that_is_left_out_does_not_judge_itself():
    """Without the drive with the largest error, the others look better, apart from the penalty for a small sample."""
    errors = priors()["model"]["zones"]
    worst = max(errors, key=errors.get)
    rest = np.array([error for drive, error in errors.items() if drive != worst])
    expected = np.exp(np.sqrt((rest**2).mean()) * 2.92)
    assert model_error("zones", worst) == pytest.approx(expected)
    assert model_error("none") == 0


def test_costs_of_a_host_have_their_widths():
    """Costs have their widths, and threads make the processors matter."""
    # One factor applies to entries and look-ups: on a known Mac that of a look-up, 1.8, on Linux 1.3.
    for name, width in (("macos", 1.8), ("linux", 1.3)):
        told = uncertain(flash(), Host(name, machine=1.0)).of("host")
        assert told == pytest.approx(factors("host.cost", width))
    # One thread takes the same time on any number of processors; twenty threads do not.
    one, many = (uncertain(flash(), Host("macos", threads, 4)).of("host") for threads in (1, 20))
    assert not np.allclose(one, many)
    assert np.allclose(one, uncertain(flash(), Host("macos", 1, 8)).of("host"))


def test_what_was_measured_together_is_drawn_together():
    """Figures in a profile's spread are drawn from it, not by their kind; the others by their kind."""
    spread = Spread(("seek_ms[0]", "seek_ms[1]"), ((0.01, 0.01), (0.01, 0.01)))
    told = replace(known(disk()), spread=spread)
    unknown = uncertain(told, UNSAID)
    assert "seek" not in unknown.factor
    assert "overhead" in unknown.factor
    assert set(unknown.together) == set(spread.figures)
    drives = [draw_drive(told, unknown, number) for number in range(16)]
    curves = np.array([drive.numbers("seek_ms") for drive in drives])
    assert np.log(curves[:, 0]).std() == pytest.approx(0.1, rel=0.3)
    assert np.allclose(curves[:, 1] / curves[:, 0], 10.98, rtol=0.3)
    assert draw_interval(scattered(300, span=told.capacity_bytes), told, unknown).ratio > 1.01
