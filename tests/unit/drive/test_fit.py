"""Profiles made from published or measured figures."""

from __future__ import annotations

import json

import numpy as np
import pytest

from layoutscope.access.trace import AccessTrace
from layoutscope.drive import load_profile, service
from layoutscope.drive.profile import fit_latency, fit_rate, from_datasheet, from_fio, parse_profile, profile_text
from layoutscope.drive.simulation import flash_ms
from layoutscope.errors import UsageError
from tests.cases import for_each
from tests.unit.drive.lesser import as_datasheet, without_map
from tests.unit.drive.toys import flash

SHEET = {
    "capacity_bytes": 10**12,
    "rpm": 5400,
    "track_to_track_ms": 1.0,
    "average_seek_ms": 12.0,
    "outer_mb_s": 110.0,
    "inner_mb_s": 52.0,
}


def random_reads(profile, count=6000):
    """Return single reads of 4 KiB over the whole drive."""
    offsets = np.random.default_rng(2).integers(0, profile.capacity_bytes // 4096, count) * 4096
    return AccessTrace.from_reads(offsets, np.full(count, 4096))


def test_a_datasheet_makes_a_drive():
    """Its sequential rate is the outer rate; its random reads take average seek + half a turn + overhead."""
    profile = from_datasheet("x", **SHEET)
    reads = AccessTrace.from_reads(np.arange(2048) * 131_072, np.full(2048, 131_072))
    assert 2048 * 131_072 / service(reads, profile).service_s / 1e6 == pytest.approx(110, rel=0.03)
    # More sectors are outside, where distances are shorter, so the mean seek is a little below the datasheet's.
    assert service(random_reads(profile), profile).summary()["mean_ms"] == pytest.approx(17.7, rel=0.02)


def test_figures_are_fitted_to_measurements():
    """The fitted drive gives the measured number."""
    # A drive fitted to a random read of 15 ms has a mean of 15 ms within 4 %.
    profile = fit_latency(from_datasheet("x", **SHEET), 15.0, source="ioping")
    # 15 - 5.556 - 0.15 = 9.294 ms of seek.
    assert profile.number("average_seek_ms") == pytest.approx(9.294, abs=1e-3)
    assert profile.figures["average_seek_ms"].kind == "fitted"
    assert service(random_reads(profile), profile).summary()["mean_ms"] == pytest.approx(15, rel=0.04)
    # The inner rate is scaled in proportion: 55 to 110 becomes 75 to 150.
    profile = fit_rate(from_datasheet("x", **SHEET | {"inner_mb_s": 55.0}), 150.0, source="dd")
    assert (profile.number("outer_mb_s"), profile.number("inner_mb_s")) == (150.0, 75.0)
    # 80 us at 4 KiB, 500 MB/s.
    profile = fit_rate(fit_latency(flash(), 0.080, 4096, source="ioping"), 500.0, source="dd")
    assert service(random_reads(profile, 10), profile).summary()["mean_ms"] == pytest.approx(0.080)
    assert profile.number("bandwidth_mb_s") == 500
    # A latency of 4 KiB applies to smaller reads too; larger reads add time at the bandwidth.
    fitted = fit_latency(load_profile("sata-ssd"), 0.09, 4096, source="ioping")
    again = parse_profile(profile_text(fitted), name="sata-ssd", folder=fitted.folder)
    assert again == fitted
    latency, _ = flash_ms(again, np.array([512, 4096, 4096 + 10**6]))
    assert latency.tolist() == pytest.approx([0.09, 0.09, 0.09 + 1000 / fitted.number("bandwidth_mb_s")])


def test_fio_report():
    """Random reads at queue depth 1 fit the seek, sequential ones the rate; deeper queues do not count as latency."""
    report = {
        "global options": {"bs": "4k"},
        "jobs": [
            {
                "job options": {"rw": "randread", "iodepth": "1"},
                "read": {"clat_ns": {"mean": 16e6, "percentile": {"50.000000": 15_000_000}}},
            },
            {"job options": {"rw": "randread", "iodepth": "32"}, "read": {"clat_ns": {"mean": 300e6}}},
            {"job options": {"rw": "read", "bs": "1m"}, "read": {"bw_bytes": 120_000_000}},
        ],
    }
    profile = from_fio(report, from_datasheet("x", **SHEET))
    assert profile.number("average_seek_ms") == pytest.approx(9.294, abs=1e-3)
    assert profile.number("outer_mb_s") == 120


@pytest.mark.parametrize("name", ["generic-7200", "cheetah9lp", "sata-ssd", "wd-mybook-duo-2tb"])
def test_a_profile_is_written_as_it_is_read(name):
    profile = load_profile(name)
    again = parse_profile(profile_text(profile), name=name, folder=profile.folder)
    assert again == profile


def test_knowing_less():
    """Without the map, the zones remain; a datasheet keeps rotation, three seeks, two rates and the buffer's size."""
    full = load_profile("cheetah9lp")
    assert without_map(full).geometry == "zones"
    sheet = as_datasheet(full)
    assert sheet.geometry == "datasheet"
    # Published with the parameters: reading on, 15.62 MB/s in the first GiB, 9.78 in the last, which is more than the
    # last of eleven zones; 5.402 ms mean seek.
    assert sheet.number("outer_mb_s") == pytest.approx(15.62, rel=0.01)
    assert sheet.number("inner_mb_s") == pytest.approx(9.78, rel=0.05)
    assert sheet.number("average_seek_ms") == pytest.approx(5.402, rel=0.015)
    assert sheet.number("buffer_bytes") == 3 * 561 * 512


ODD_SIZE = {"job options": {"rw": "randread", "bs": "many"}, "read": {"clat_ns": {"mean": 9e6}}}


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"jobs": 7}', '{"jobs": [7]}', json.dumps({"jobs": [ODD_SIZE]}), '{"jobs": [{"read": []}]}'],
)
def test_what_is_no_report_of_fio_is_named(tmp_path, text):
    """Endless nesting, wrong types, and invalid sizes each give a one-line error with the file's name."""
    from layoutscope.api.drives import fit

    (tmp_path / "fio.json").write_text(text)
    with pytest.raises(UsageError, match="fio"):
        fit("new", base="generic-7200", fio=tmp_path / "fio.json")


def test_jobs_of_fio_that_cover_a_part():
    """The part that a job covered and its error count."""
    # Over a quarter of the stroke, a seek beyond one track takes half as long on the mean: 1 + 8 / 0.5 = 17 ms.
    sheet = from_datasheet("x", **SHEET)
    # 9 ms of seek, half a turn of 5.556 and 0.15 of overhead.
    profile = fit_latency(sheet, 9 + 60_000 / 5400 / 2 + 0.15, range_bytes=10**12 // 4, source="fio")
    assert profile.number("average_seek_ms") == pytest.approx(17.0)
    # More sectors are outside, so a quarter of the bytes is less than a quarter of the stroke.
    narrow = AccessTrace.from_reads(
        np.random.default_rng(2).integers(0, 10**12 // 4096 // 4, 6000) * 4096, np.full(6000, 4096)
    )
    assert service(narrow, profile).summary()["mean_ms"] == pytest.approx(14.7, rel=0.08)
    # A gibibyte of a terabyte is refused, also if given in fio's own options.
    with pytest.raises(UsageError, match=r"0\.11% of the drive"):
        fit_latency(from_datasheet("x", **SHEET), 8.0, range_bytes=1 << 30, source="ioping")
    with pytest.raises(UsageError, match="size=100%"):
        from_fio({"jobs": [job_of("1g")]}, from_datasheet("x", **SHEET))
    # The mean of 400 reads that differ by 4 ms is known to 0.2 ms, of a seek of 9.294.
    read = {"clat_ns": {"mean": 15e6, "stddev": 4e6, "N": 400}}
    job = {"job options": {"rw": "randread"}, "read": read}
    profile = from_fio({"jobs": [job]}, from_datasheet("x", **SHEET))
    assert profile.spread.figures == ("average_seek_ms",)
    assert profile.spread.covariance[0][0] ** 0.5 == pytest.approx(0.2 / 9.294, rel=1e-3)


@for_each("size, seek", [("100%", 9.294), ("25%", 1 + 8.294 * 2), ("250g", 1 + 8.294 * 1.93)])
def test_fio_tells_what_its_job_covered(size, seek):
    """The range is given in bytes or as a share of the drive."""
    profile = from_fio({"jobs": [job_of(size)]}, from_datasheet("x", **SHEET))
    assert profile.number("average_seek_ms") == pytest.approx(seek, rel=2e-3)


@for_each(
    "offset, rate_mb_s, inner, expected",
    [
        ("90%", 60, 52.0, (110, 60)),  # a stream from 90 % of the drive on sets the inner rate
        ("50%", 75, 55.0, (100, 50)),  # rates fall by half, so 75 in the middle means 100 outside and 50 inside
    ],
)
def test_a_rate_is_that_of_its_place(offset, rate_mb_s, inner, expected):
    job = {"job options": {"rw": "read", "offset": offset}, "read": {"bw_bytes": rate_mb_s * 1_000_000}}
    profile = from_fio({"jobs": [job]}, from_datasheet("x", **SHEET | {"inner_mb_s": inner}))
    assert (profile.number("outer_mb_s"), profile.number("inner_mb_s")) == pytest.approx(expected)


@for_each(
    "make, words",
    [
        (lambda: from_datasheet("x", **{name: value for name, value in SHEET.items() if name != "rpm"}), "rpm"),
        # 5 ms is less than half a turn at 5400 rpm.
        (lambda: fit_latency(from_datasheet("x", **SHEET), 5.0, source="ioping"), "no time for a seek"),
        (lambda: from_fio({"jobs": [job_of("x%")]}, from_datasheet("x", **SHEET)), "not a share"),
        # Writes alone fit no figure.
        (lambda: from_fio({}, from_datasheet("x", **SHEET)), "neither"),
        (lambda: from_fio({"jobs": [WRITES]}, from_datasheet("x", **SHEET)), "neither"),
    ],
)
def test_figures_that_make_no_drive_are_refused(make, words):
    with pytest.raises(UsageError, match=words):
        make()


WRITES = {"job options": {"rw": "write"}, "write": {}}


def job_of(size: str) -> dict:
    """Return a job of random reads over a part of the drive."""
    return {"job options": {"rw": "randread", "size": size}, "read": {"clat_ns": {"mean": 15e6}}}
