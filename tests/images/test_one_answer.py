"""One volume, one drive, one host: the same seconds and the same range, whichever verb is asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import layoutscope
from layoutscope.drive.uncertain import median_draw

COMMITTED = tuple(f"fixtures/images/{name}-scattered.img.zst" for name in ("apfs", "hfsplus"))
IMAGES = (
    *COMMITTED,
    "aged/apfs-20000-c20.img",
    "aged/hfsplus-200000-c20.img",
    "apple/offsite_source_2snaps.raw",
    "apple/hdimac_hfsx_j.raw",
)
DRIVES = ("generic-5400-2.5", "wd-mybook-duo-2tb", "sata-ssd")
LARGEST = "wd-mybook-duo-2tb"
HOSTS = ("linux", "macos")


@pytest.fixture
def path(request, reference_image):
    """Return where an image is."""
    return request.param if request.param in COMMITTED else reference_image(request.param)


def told(item):
    """Return a time and both ends of its range."""
    return item.seconds, item.seconds_low, item.seconds_high


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("path", IMAGES, indirect=True)
def test_every_verb_has_the_same_time_and_range(path, host, tmp_path):
    """Scan, prediction, plan, orders, comparison, series, map and batch."""
    scanned = next(volume for volume in layoutscope.scan(path, drives=DRIVES, host=host).parts if volume.walk)
    wanted = {item.drive: told(item) for item in scanned.predictions}
    predicted = layoutscope.predict(path, drives=DRIVES, host=host).volumes[0]
    assert {case.prediction.drive: told(case.prediction) for case in predicted.drives} == wanted
    for case in predicted.drives:
        found = case.prediction.interval
        assert (found.median_s, found.low_s, found.high_s) == wanted[case.prediction.drive]
    # Other orders read the end of the disk, which a drive of a terabyte has not.
    orders = layoutscope.predict(path, drives=LARGEST, host=host, order="all").orders[0].orders
    (fts,) = (case for case in orders if case.order == "fts")
    assert {item.drive: told(item) for item in fts.times} == {LARGEST: wanted[LARGEST]}
    for drive in DRIVES:
        plan = layoutscope.plan(path, drive=drive, host=host).volumes[0]
        assert (plan.seconds, plan.interval.low_s, plan.interval.high_s) == wanted[drive]
    series = layoutscope.series([path, path], drives=DRIVES, host=host).found
    for row in (*layoutscope.compare(path, path, drives=DRIVES, host=host).times, *series.times):
        assert [told(cost) for cost in row.costs] == 2 * [wanted[row.drive]]
    (shown,) = layoutscope.map(path, tmp_path / "map.html", drives=DRIVES, host=host)
    (mapped,) = (volume for volume in shown.parts if volume.walk)
    assert {item.drive: told(item) for item in mapped.predictions} == wanted
    done = layoutscope.batch(Path(path), tmp_path / "batch", drives=DRIVES, host=host)
    rows = done.table("predictions")
    assert {
        row["drive"]: (row["seconds"], row["seconds_low"], row["seconds_high"]) for row in rows.to_dicts()
    } == wanted


@pytest.mark.parametrize("path", IMAGES, indirect=True)
def test_the_headline_is_the_median(path):
    """Of the simulations that the range is made of; the range is theirs, and reaches for nothing else."""
    for volume in layoutscope.scan(path, drives=DRIVES).parts:
        for item in volume.predictions:
            draws = np.array(item.draws_s)
            assert item.seconds == draws[median_draw(draws)]
            low, high = np.quantile(draws, (0.05, 0.95))
            assert item.seconds_low <= low * (1 + 1e-12)
            assert item.seconds_high >= high * (1 - 1e-12)
            # A sample of a long walk makes it wider by what the sample leaves open, and that on both sides alike.
            assert low / item.seconds_low == pytest.approx(item.seconds_high / high)


@pytest.mark.parametrize("path", IMAGES, indirect=True)
def test_remedies_of_a_scan_are_those_of_a_plan(path):
    """The same seconds, and what one calls a help the other does, too."""
    for volume in layoutscope.scan(path, drives="generic-7200").parts:
        if volume.verdict is None or not volume.verdict.is_noticeable:
            continue
        plan = layoutscope.plan(path, drive="generic-7200").volumes[0]
        rows = {row.words.name: row for row in plan.remedies}
        for remedy in volume.verdict.remedies:
            assert remedy.seconds == rows[remedy.name].seconds
            assert remedy.helps == rows[remedy.name].helps
