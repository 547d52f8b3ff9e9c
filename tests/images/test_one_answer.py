"""One volume, one drive, one host: every command gives the same seconds and the same range."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import layoutscope
from layoutscope.drive.uncertain import Host, median_draw
from layoutscope.remedies.changes import WHAT_IFS
from layoutscope.results.explanation import CAUSES, PACKED
from layoutscope.results.scan import knows_offset
from layoutscope.walk.host import host_profile

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = tuple(str(ROOT / f"fixtures/images/{name}-scattered.img.zst") for name in ("apfs", "hfsplus"))
DRIVES = ("wd-mybook-duo-2tb", "generic-5400-2.5", "sata-ssd")
LARGEST = DRIVES[0]
OPTIONS = {"fusion/main.img": {"second": "fusion/tier2.img"}, "apple/dissect_encrypted.raw": {"password": "password"}}
"""Options for the images that need some to open."""


def named(shared):
    """Return the names of the reference images for `reference_image`; a set's second disk is read with the first."""
    endings = (".raw.zst", ".img.zst", ".img.tar.zst", ".iso.zst")
    folders = ("aged", "apple", "driver", "fusion")
    found = {
        path.relative_to(shared / "images").as_posix().removesuffix(".zst").removesuffix(".tar")
        for folder in folders
        for path in (shared / "images" / folder).iterdir()
        if path.name.endswith(endings)
    }
    return sorted(found - {options["second"] for options in OPTIONS.values() if "second" in options})


def is_large(name):
    """Whether an image has 200,000 files."""
    return "-200000-" in name


def told(item):
    """Return a time and both ends of its range."""
    return item.seconds, item.seconds_low, item.seconds_high


def of_range(found):
    """Return the same for a range."""
    return found.median_s, found.low_s, found.high_s


class Answers:
    """Differences between the answers of the commands, in words."""

    def __init__(self):
        self.differences = []
        self.volumes = 0

    def expect(self, place, found, wanted):
        """Note a difference."""
        if found != wanted:
            self.differences.append(f"{place}: {found} for {wanted}")

    def compare(self, name, path, options, host):
        """Run every command on each volume of an image; return the predictions of a scan, per volume."""
        with layoutscope.open(path, **options) as session:
            scanned = session.scan(drives=DRIVES, host=host)
            several = len(session.volumes) > 1
        wanted = {}
        for volume in (each for each in scanned.volumes if each.walk):
            number = volume.layout.facts.volume
            place = f"{name}, volume {number}, {host}"
            choice = {**options, "volume": number} if several else options
            wanted[number] = {item.drive: told(item) for item in volume.predictions}
            self.expect(f"{place}: drives", set(wanted[number]), set(DRIVES))
            self.check_medians(place, volume)
            with layoutscope.open(path, **choice) as session:
                self.ask_about_reads(place, session, host, wanted[number])
                self.ask_about_pages(place, session, host, wanted[number])
                self.ask_about_changes(place, session, host, volume)
            self.volumes += 1
        return wanted

    def check_medians(self, place, volume):
        """Compare with the median and quantiles of the simulations, which define the range."""
        for item in volume.predictions:
            draws = np.array(item.draws_s)
            self.expect(f"{place}, {item.drive}: median", item.seconds, draws[median_draw(draws)])
            low, high = np.quantile(draws, (0.05, 0.95))
            # A sample of a long workload makes the range wider by the sampling error, equally on both sides.
            wider = low / item.seconds_low if item.seconds_low else 1.0
            self.expect(f"{place}, {item.drive}: narrower", wider > 1 - 1e-12, True)
            self.expect(f"{place}, {item.drive}: wider", item.seconds_high, pytest.approx(high * wider))
            if volume.walk.reads <= 8192:
                self.expect(f"{place}, {item.drive}: wider than all simulations", wider, pytest.approx(1))

    def ask_about_reads(self, place, session, host, wanted):
        """Run the commands and functions that serve reads."""
        (predicted,) = session.predict(drives=DRIVES, host=host).volumes
        self.expect(
            f"{place}: predict", {case.prediction.drive: told(case.prediction) for case in predicted.drives}, wanted
        )
        ranges = {case.prediction.drive: of_range(case.prediction.interval) for case in predicted.drives}
        self.expect(f"{place}: interval of predict", ranges, wanted)
        if not is_large(place):  # twenty orders, most of which read more, up to the end of the disk
            (orders,) = session.predict(drives=LARGEST, host=host, order="all").orders
            (fts,) = (case for case in orders.orders if case.order == "fts")
            self.expect(f"{place}: orders", [told(item) for item in fts.times], [wanted[LARGEST]])
        (layout,) = session.volumes
        reads, who = session.trace(host=host), Host.of(host_profile(host))
        for drive in DRIVES:
            found = layoutscope.simulate(reads, drive, who, knows_offset=knows_offset(layout, 0))
            self.expect(f"{place}, {drive}: simulate", told(found), wanted[drive])

    def ask_about_pages(self, place, session, host, wanted):
        """Run the commands that show several images, or a picture."""
        compared = layoutscope.compare(session, session, drives=DRIVES, host=host)
        followed = layoutscope.series([session], drives=DRIVES, host=host).found
        for verb, found, sides in (("compare", compared, 2), ("series", followed, 1)):
            for side in range(sides):
                costs = {row.drive: told(row.costs[side]) for row in found.times}
                self.expect(f"{place}: {verb}, side {side}", costs, wanted)
        shown = session.map(io.BytesIO(), drives=DRIVES, host=host)
        (mapped,) = (volume for volume in shown.volumes if volume.walk)
        self.expect(f"{place}: map", {item.drive: told(item) for item in mapped.predictions}, wanted)

    def ask_about_changes(self, place, session, host, volume):
        """Compare causes and remedies of a scan with the same changes in a plan and as what-ifs."""
        verdict, predictions = volume.verdict, {item.drive: item for item in volume.predictions}
        plans = {drive: layoutscope.plan(session, drive=drive, host=host).volumes[0] for drive in DRIVES}
        for drive, plan in plans.items():
            time = plan.seconds, *of_range(plan.interval)[1:]
            self.expect(f"{place}, {drive}: plan", time, told(predictions[drive]))
        if not volume.walk.reads:
            return
        plan = plans[verdict.drive]
        rows = {row.words.name: row for row in plan.remedies if not row.why_not}
        for remedy in verdict.remedies:
            row = rows[remedy.name]
            found, wanted = (remedy.seconds, remedy.helps, remedy.is_sure), (row.seconds, row.helps, row.is_sure)
            self.expect(f"{place}: {remedy.name} of scan and plan", found, wanted)
        for other in verdict.yardsticks:
            row = rows[f"on-{other.filesystem.lower().replace('+', 'plus')}"]
            self.expect(f"{place}: a copy to {other.filesystem}", told(other), of_range(row.interval))
        (predicted,) = session.predict(drives=verdict.drive, host=host, what_ifs=tuple(WHAT_IFS)).volumes
        (case,) = predicted.drives
        what_ifs = {item.name: item for item in (case.packed, *case.what_ifs)}
        self.expect(f"{place}: {PACKED}", verdict.packed_seconds, what_ifs[PACKED].seconds)
        for cause in verdict.causes:
            name = CAUSES[cause.name]
            if name in what_ifs:
                self.expect(f"{place}: {name} of scan and predict", cause.seconds, what_ifs[name].seconds)
            if name in rows:
                self.expect(f"{place}: {name} of scan and plan", cause.seconds, rows[name].seconds)


def ask_fleet(answers, images, host, folder, wanted):
    """Compare the predictions of a batch of all images with those of scans; a batch has no two-disk sets."""
    groups = {}
    for name, path, options in (image for image in images if "second" not in image[2]):
        groups.setdefault(tuple(options.items()), []).append((name, path))
    for number, (options, members) in enumerate(groups.items()):
        paths = [path for _, path in members]
        done = layoutscope.batch(paths, folder / f"{host}-{number}", drives=DRIVES, host=host, **dict(options))
        numbers = {(row["source"], row["volume"]): row["number"] for row in done.table("volumes").to_dicts()}
        sources = {item.path: item.source for item in done.sources}
        rows = done.table("predictions").to_dicts()
        for name, path in members:
            found = {}
            for row in (row for row in rows if row["source"] == sources[str(path)]):
                times = row["seconds"], row["seconds_low"], row["seconds_high"]
                found.setdefault(numbers[row["source"], row["volume"]], {})[row["drive"]] = times
            answers.expect(f"{name}, {host}: batch", found, wanted[name])


def check(images, folder):
    """Run every command on every image as both hosts, and list all differences; return the number of volumes."""
    answers = Answers()
    for host in ("linux", "macos"):
        wanted = {name: answers.compare(name, path, options, host) for name, path, options in images}
        ask_fleet(answers, images, host, folder, wanted)
    assert answers.differences == []
    return answers.volumes


def of_reference(reference_image, names):
    """Return images with the options that open them."""
    found = []
    for name in names:
        options = dict(OPTIONS.get(name, {}))
        if "second" in options:
            options["second"] = str(reference_image(options["second"]))
        found.append((name, str(reference_image(name)), options))
    return found


def test_every_verb_has_the_same_answers(tmp_path):
    """Scan, prediction, plan, orders, comparison, series, map, batch and library, on the committed images."""
    assert check([(Path(path).name, path, {}) for path in COMMITTED], tmp_path) == 4


@pytest.mark.full
def test_every_verb_has_the_same_answers_on_reference_images(shared, reference_image, tmp_path):
    """The same for all images from macOS and Linux's drivers, except the aged ones."""
    images = of_reference(reference_image, [name for name in named(shared) if "aged/" not in name])
    assert len(images) >= 28
    assert check(images, tmp_path) >= 2 * 28


@pytest.mark.slow
def test_every_verb_has_the_same_answers_on_aged_images(shared, reference_image, tmp_path):
    """The same with 20,000 and 200,000 files; most of their reads are simulated as samples."""
    images = of_reference(reference_image, [name for name in named(shared) if "aged/" in name])
    assert len(images) == 8
    assert check(images, tmp_path) == 16
