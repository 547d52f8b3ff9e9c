"""The first screen on real images: it always fits, and each sentence appears only where it is true."""

from __future__ import annotations

import io
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import layoutscope
from fixtures.apfs import scenarios
from fixtures.apfs.plan import TreeShape, VolumePlan
from fixtures.apfs.writer import write
from fixtures.hfsplus import writer as hfsplus
from fixtures.hfsplus.plan import Extent, Tree
from fixtures.hfsplus.plan import VolumePlan as HfsPlan
from fixtures.hfsplus.scenarios import folders
from layoutscope import explain, predict, read_layouts, scan
from layoutscope.api.drives import fit
from layoutscope.api.map import map_page
from layoutscope.api.predict import PACKED
from layoutscope.drive.uncertain import Host, median_draw
from layoutscope.remedies.changes import WHAT_IFS
from layoutscope.report.json import result_json
from layoutscope.report.text.console import make_console
from layoutscope.report.text.scan import print_scan
from layoutscope.results.explanation import count_files, story
from layoutscope.results.scan import knows_offset
from layoutscope.units import brief_bytes
from layoutscope.walk.host import host_profile

SCATTERED = "fixtures/images/apfs-scattered.img.zst"
IMAGES = (
    *("aged/apfs-20000-c00.img", "aged/apfs-20000-c20.img", "aged/hfsplus-20000-c00.img", "aged/hfsplus-20000-c20.img"),
    *("apple/dissect_encrypted.raw", "apple/dissect_jhfs_converted.raw", "apple/goapfsv2_hfs-basic.raw"),
    *("apple/hdimac_apfs-c.raw", "apple/hfsinspect_MBR.raw", "apple/offsite_source_2snaps.raw"),
    *("apple/plaso_spotlight10.13.raw", "apple/slate_20121008.raw", "apple/sparkle_apfs_lzma_aux.raw"),
    *("driver/apfs-empty.img", "driver/apfs-snap.img", "driver/gpt-both.img", "driver/hfsplus-empty-plain.img"),
    *("driver/hfsplus-frag.img", "driver/hfsplus-journaled-pop.img", "driver/hybrid-hfsplus.iso"),
)


@cache
def screen(path: Path, **options: object) -> str:
    """Return the printed screen of an image."""
    file = io.StringIO()
    print_scan(scan(path, **options), make_console(file, width=80))
    return file.getvalue()


@pytest.mark.parametrize("name", IMAGES)
def test_every_image_fits_on_one_screen(reference_image, name):
    """24 lines of 80 columns, without words that claim more than the numbers."""
    text = screen(reference_image(name))
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines())) <= 80
    for word in ("strewn", "dearest", "headroom", "told", "bound", "lies together", "follow its keys"):
        assert word not in text


SENTENCES = {
    "After a copy in listing order to a new HFS+ volume: ": ("aged/apfs-20000-c20.img", "aged/hfsplus-20000-c20.img"),
    "SLOW on hard disks: listing all files takes": ("aged/apfs-20000-c20.img", "driver/apfs-snap.img"),
    "OK: listing all files takes": ("driver/apfs-snap.img", "aged/apfs-20000-c20.img"),
    "Nothing to improve.": ("driver/apfs-snap.img", "driver/hfsplus-frag.img"),
    "s on some of them.": ("driver/hfsplus-frag.img", "driver/hfsplus-journaled-pop.img"),
    "with cost and risk: layoutscope plan": ("aged/apfs-20000-c20.img", "driver/apfs-empty.img"),
    "attributes are stored apart from the names": ("aged/apfs-20000-c20.img", "driver/hfsplus-frag.img"),
    "not stored in the order in which it is read": ("aged/hfsplus-20000-c20.img", "driver/hfsplus-frag.img"),
    "metadata blocks are partly empty": ("aged/apfs-20000-c20.img", "driver/hfsplus-frag.img"),
    "move to a solid-state drive (SATA)": ("aged/apfs-20000-c20.img", "driver/hfsplus-frag.img"),
    "s list the files from the device with layoutscope": ("aged/apfs-20000-c20.img", "driver/hfsplus-frag.img"),
    "2 snapshots": ("driver/apfs-snap.img", "driver/hfsplus-4k.img"),
    "Note: the volume was not unmounted cleanly; its journal was replayed in memory.": (
        "apple/hfsinspect_hfsj.raw",
        "driver/hfsplus-journaled-pop.img",
    ),
    "needs no disk reads": ("driver/apfs-empty.img", "driver/hfsplus-frag.img"),
    "LOCKED: the volume is encrypted": ("apple/dissect_encrypted.raw", "apple/hdimac_apfs-c.raw"),
    "--password-file FILE": ("apple/dissect_encrypted.raw", "apple/hdimac_apfs-c.raw"),
    "2 volumes": ("driver/gpt-both.img", "aged/apfs-20000-c20.img"),
    "No damage found. Full check: layoutscope check": ("aged/apfs-20000-c20.img", "apple/dissect_encrypted.raw"),
    "See also: layoutscope check": ("driver/gpt-both.img", "aged/apfs-20000-c20.img"),
    "worst first": ("driver/gpt-both.img", "aged/apfs-20000-c20.img"),
    "the rest was not given": ("fusion/main.img", "apple/dissect_encrypted.raw"),
}
"""Sentences, each with an image for which it is true, and one for which it would be wrong."""


@pytest.mark.full
@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_stands_where_it_is_true_alone(reference_image, sentence):
    """Each appears for the image for which it is true, and not for the other."""
    true, wrong = (screen(Path(name) if name == SCATTERED else reference_image(name)) for name in SENTENCES[sentence])
    assert sentence in " ".join(true.split())
    assert sentence not in " ".join(wrong.split())


def test_the_fresh_volume_is_not_blamed_for_what_age_did(reference_image):
    """Reading in key order saves half of the time on the fresh volume, and almost nothing on the aged one."""
    shares = {}
    for age in ("c00", "c20"):
        verdict = scan(reference_image(f"aged/apfs-20000-{age}.img")).parts[-1].verdict
        shares[age] = next(item.share for item in verdict.remedies if item.name == "tree-in-key-order")
    assert shares["c00"] > 0.5
    assert shares["c20"] < 0.1


def test_a_password_opens_what_was_locked(reference_image):
    """With its password the volume has the same screen as any other."""
    text = screen(reference_image("apple/dissect_encrypted.raw"), password="password")  # noqa: S106  (the image is public)
    assert "OK: listing all files takes" in text
    assert "links or devices" in text
    assert "LOCKED" not in text


def test_a_volume_of_which_blocks_are_lost_is_not_called_whole(reference_image, tmp_path):
    """One leaf of zeros: the loss comes first, and no sentence says that everything was read."""
    source = reference_image("driver/apfs-snap.img")
    leaf = next(
        item.nodes.filter(tree="fs", level=0, state="live")["image_offset"][0]
        for item in read_layouts(source)
        if item.entries.height
    )
    damaged = tmp_path / "damaged.img"
    data = bytearray(source.read_bytes())
    data[leaf : leaf + 4096] = bytes(4096)
    damaged.write_bytes(data)
    text = screen(damaged)
    assert "DAMAGED" in text
    assert "amage found" not in text
    whole = screen(source)
    for said in ("DAMAGED", "Listing what was read takes", "of metadata; see the errors above", "--sweep # "):
        assert said in " ".join(text.split())
        assert said not in " ".join(whole.split())
    assert "all files" not in text


@pytest.mark.parametrize("is_alone", [True, False])
def test_beside_a_locked_volume_others_can_be_predicted(is_alone, tmp_path):
    """A password is needed for the next command only if no volume is open; a locked volume is not truncated."""
    volumes = (scenarios.ENCRYPTED, *(() if is_alone else (VolumePlan("Open", scenarios.many(9)),)))
    write(scenarios.container(*volumes, block_count=2 * 131072), tmp_path / "disk.img")
    text = screen(tmp_path / "disk.img")
    assert "LOCKED" in text
    assert (" map " in text) == (not is_alone)
    assert "--sweep" not in text


def test_nodes_in_pieces_are_not_said_to_lie_near(tmp_path):
    """A catalog in 300 fragments that split its nodes: removing the gaps would save most of the time."""
    tree = Tree(8192, pieces=300, pieces_of_whole_nodes=False, shuffled=0.9)
    plan = HfsPlan(block_size=512, total_blocks=120_000, root=folders(60, 60, 400), catalog=tree, gap_blocks=3)
    hfsplus.write(plan, tmp_path / "disk.img")
    text = screen(tmp_path / "disk.img")
    assert "scattered: 90 %" in " ".join(story(scan(tmp_path / "disk.img").volume))
    assert "other data is stored between the metadata blocks" in text
    found = scan(tmp_path / "disk.img").volume.verdict
    asked = predict(tmp_path / "disk.img", drives="generic-5400-2.5", what_ifs=["clumped-like-hfs"])
    (clumped,) = asked.volumes[0].drives[0].what_ifs
    share = next(cause.share for cause in found.causes if cause.name == "distance")
    # A cause needs a quarter of the simulations, the what-if all of them.
    assert share == pytest.approx(1 - clumped.seconds / found.seconds, abs=0.1)


def test_where_little_is_to_be_gained_no_other_remedies_are_named(reference_image):
    """A small macOS volume needs reads, but its screen names neither a remedy nor the command for more of them."""
    text = screen(reference_image("apple/plaso_spotlight10.13.raw"))
    assert "Nothing to improve." in " ".join(text.split())
    assert "plan" not in text


def test_the_stretch_of_a_listing_is_that_of_the_nodes_it_reads(reference_image):
    """On a small volume these are a few of all metadata blocks: the two counts are not shares of each other."""
    image = reference_image("apple/dissect_jhfs_converted.raw")
    (volume,) = [item for item in scan(image).volumes if item.walk is not None]
    nodes = volume.layout.nodes.filter(pl.col("level").is_not_null())
    read = nodes.filter(pl.col("image_offset").is_in(volume.walk.trace.image_offset.tolist()))
    span, known = volume.verdict.placement.span_bytes, volume.layout.facts.metadata_known_bytes
    assert 0.9 * read["size_bytes"].sum() <= span < 0.9 * known
    text = screen(image)
    assert f"; 90 % of a listing within {brief_bytes(span)} (" in text
    assert "of it within" not in text


PLACES = {
    "close together: 90 %": ("aged/apfs-20000-c20.img", {}),
    "spread over the volume: 90 %": (SCATTERED, {}),
    "scattered: 90 %": ("aged/apfs-200000-c00.img", {"host": "macos"}),
    "loosely packed, at little cost: 90 %": ("aged/hfsplus-20000-c20.img", {"host": "linux"}),
}
"""Descriptions of metadata placement: on one volume the gaps cost a tenth of the time, on another less."""


@pytest.mark.full
@pytest.mark.parametrize("words", PLACES)
def test_places_are_described_by_the_rule(reference_image, words):
    """Exactly one description applies."""
    name, options = PLACES[words]
    found = scan(Path(name) if name == SCATTERED else reference_image(name), **options)
    text = " ".join(story(found.volume))
    assert [other for other in PLACES if f"The metadata of a listing is {other}" in text] == [words]


@pytest.mark.parametrize("half", ["main", "tier2"])
def test_half_of_a_set_is_not_called_damaged(reference_image, half):
    """The other half's data were not given, nothing is known to be wrong with them, and no sweep finds them.

    The headline of the map says the same. The main device holds the volumes: the second one alone is not called empty.
    """
    text = screen(reference_image(f"fusion/{half}.img"))
    assert re.search(r"INCOMPLETE: .*\(fusion-half\)", " ".join(text.split()))
    assert not re.search(r"^Second +0 ", text, re.MULTILINE)  # unread space is not drawn as empty
    assert "\nName the image of the other device: --second IMAGE.\n" in text
    for wrong in ("DAMAGED", "all files", "--sweep", "no volume in it"):
        assert wrong not in text
    assert half == "main" or "no volume of it could be read" in text
    page = map_page([scan(reference_image(f"fusion/{half}.img"))])
    assert "is incomplete: one error" in page
    assert "is damaged: one error" not in page


@pytest.mark.parametrize("name", ["hfsplus-4k", "apfs-ci", "apfs-snap", "hfsplus-b512-n4096"])
def test_counts_are_those_of_the_drivers_listing(reference_image, truth, name):
    """Files by their inode numbers, folders without the root; all other names are additional links or devices."""
    rows = [line.split("\t") for line in truth(f"{name}.find.tsv.zst").decode("utf-8", "replace").split("\n")[:-1]]
    files = len({row[0] for row in rows if row[1] == "f"})
    folders = sum(row[1] == "d" for row in rows) - 1
    others = len(rows) - 1 - files - folders
    assert count_files(scan(reference_image(f"driver/{name}.img"), drives=()).volume.layout) == (files, folders, others)


TERMS = {
    "SLOW": "aged/apfs-20000-c20.img", "OK": "driver/apfs-snap.img", "LOCKED": "apple/dissect_encrypted.raw",
    "INCOMPLETE": "fusion/main.img", "median": "aged/apfs-20000-c20.img", "90 % range": "aged/apfs-20000-c20.img",
    "cause": "aged/apfs-20000-c20.img", "metadata block": "aged/apfs-20000-c20.img", "snapshot": "driver/apfs-snap.img",
    "metadata": "driver/apfs-snap.img", "unknown": "aged/apfs-20000-c00.img", "volume": SCATTERED}  # fmt: skip
"""Terms that first screens print, each with an image whose screen has it."""


@pytest.mark.parametrize("term", TERMS)
def test_explain_knows_the_terms_of_the_screen(reference_image, term):
    """Each term on a screen can be looked up under that name."""
    name = TERMS[term]
    assert term.casefold() in screen(Path(name) if name == SCATTERED else reference_image(name)).casefold()
    assert explain(term)


# Sentences of a scan and a plan, each on a volume for which it is true and on one for which it would be wrong.


DISK = "generic-5400-2.5"
SLOW_DISK = {
    "capacity_bytes": 2e9, "rpm": 5400, "track_to_track_ms": 1, "average_seek_ms": 9, "outer_mb_s": 1, "inner_mb_s": 0.9
}  # fmt: skip
"""A disk whose time is only the transfer of bytes."""
NODES = 360
DEEP = TreeShape(12, 4)
"""Nodes with few records, so 300 files take more than a second on a disk."""
PIECES = tuple(Extent(1000 + 3 * number, 2) for number in range(NODES // 2))
"""Two nodes, then an unrelated block."""


def catalog(path, tree, files=60):
    """Write HFS+ whose catalog is placed as a tree describes."""
    hfsplus.write(
        HfsPlan(block_size=4096, total_blocks=120_000, root=folders(60, files, 400), catalog=tree, gap_blocks=3), path
    )
    return path


@pytest.fixture(scope="module")
def disks(tmp_path_factory):
    """Write volumes, and profiles of slow drives on which they take more than a second."""
    folder = tmp_path_factory.mktemp("sentences")
    for name, shape in (("few-maps", TreeShape()), ("many-maps", TreeShape(4, 3))):
        plan = VolumePlan("Deep", scenarios.many(300), fs_shape=DEEP, omap_shape=shape)
        write(scenarios.container(plan, block_count=65536), folder / name)
    catalog(folder / "pages", Tree(8192))
    catalog(folder / "whole", Tree(4096))
    catalog(folder / "gaps", Tree(4096, total_nodes=NODES, extents=PIECES))
    (folder / "flash.toml").write_text(fit("flash", base="sata-ssd", random_ms=16))
    (folder / "disk.toml").write_text(fit("disk", datasheet=SLOW_DISK))
    return folder


@pytest.fixture(scope="module")
def scanned(disks):
    """Return a function that scans one of these volumes."""

    @cache
    def of(name, drive=DISK, host="linux"):
        profile = str(disks / drive) if drive.endswith(".toml") else drive
        return scan(disks / name, drives=profile, host=host)

    return of


@pytest.fixture(scope="module")
def screen_of_sentence(scanned):
    """Return a function that returns the first screen of one of these volumes."""

    def of(*which):
        file = io.StringIO()
        print_scan(scanned(*which), make_console(file, width=80))
        assert len(file.getvalue().splitlines()) <= 24
        return file.getvalue()

    return of


FLASH = ("flash.toml", "linux")
ON_A_MAC = ("flash.toml", "macos")
GAPS = ("gaps", "disk.toml", "macos")
SENTENCES_OF_PAGES = {
    "the addresses of metadata blocks must be looked up": (("many-maps",), [("few-maps",), ("pages", *FLASH), GAPS]),
    "metadata blocks are read page by page, not whole": (
        ("pages", *FLASH),
        [("pages", *ON_A_MAC), ("whole", *FLASH), ("many-maps", *FLASH)],
    ),
    "Why: no single cause accounts for 10 % of the time": (
        ("whole", *FLASH),
        [("pages", *FLASH), ("many-maps",), GAPS],
    ),
    "Why: the only cause found is gaps between metadata blocks (10 % or more)": (
        GAPS,
        [("whole", *FLASH), ("gaps", "disk.toml", "linux")],
    ),
    "s  in software: cache the last listing, rescan only changed folders": (GAPS, [("many-maps",), ("few-maps",)]),
    "s  in software: list names only, without stat": (("many-maps",), [GAPS, ("whole", *FLASH)]),
}
"""Sentences: a volume, drive and host for which each is true, and some for which it would be wrong."""


@pytest.mark.full
@pytest.mark.parametrize("sentence", SENTENCES_OF_PAGES)
def test_a_sentence_of_details_stands_where_it_is_true_alone(screen_of_sentence, sentence):
    """Each appears for its volume and for none of the others, which all take over a second."""
    true, wrong = SENTENCES_OF_PAGES[sentence]
    assert sentence in screen_of_sentence(*true)
    for which in wrong:
        text = screen_of_sentence(*which)
        assert "What helps" in text
        assert sentence not in text


def test_what_is_said_of_causes_is_what_their_numbers_say(scanned):
    """With no named cause none has a tenth of the time; where nodes are close, the gaps between them have."""
    shares = {cause.name: cause.share for cause in scanned("whole", *FLASH).volume.verdict.causes}
    assert max(shares.values()) < 0.1
    close = scanned(*GAPS).volume.verdict
    assert [cause.name for cause in close.causes if cause.share >= 0.1] == ["distance"]
    assert close.placement.is_close
    assert close.named_causes == ()


def test_maps_and_pages_are_those_that_are_read(scanned):
    """Where maps are blamed a third of the reads are of object maps; on the other volume at most one in twenty."""
    share = {}
    for name in ("few-maps", "many-maps"):
        volume = scanned(name).volume
        nodes = volume.layout.nodes.filter(tree="omap")["image_offset"].to_list()
        offsets = volume.walk.trace.image_offset.tolist()
        share[name] = sum(offset in set(nodes) for offset in offsets) / len(offsets)
    assert share["many-maps"] > 0.3
    assert share["few-maps"] < 0.05
    hosts = ("linux", "macos")
    reads = [scanned("pages", "flash.toml", host).volume.walk.trace.length_bytes for host in hosts]
    assert [set(lengths.tolist()) for lengths in reads] == [{4096}, {8192}]


def test_every_remedy_that_saves_enough_is_said_to_help(reference_image):
    """All five that a scan tries save two thirds or more on this volume; none is reported as useless, even in JSON."""
    result = scan(reference_image("aged/apfs-20000-c00.img"), host="macos")
    (volume,) = [item for item in json.loads(result_json(result))["volumes"] if item["remedies"]]
    assert [item["share"] > 0.6 for item in volume["remedies"]] == 5 * [True]
    assert [item["helps"] for item in volume["remedies"]] == 5 * [True]


def test_what_saves_a_little_is_not_said_to_save_nothing(scanned):
    """A remedy that saves under a twentieth is listed by name and time, but not among those that help."""
    found = scanned("whole", *ON_A_MAC).volume.verdict
    (names,) = [item for item in found.useless if item.name == "names-only"]
    assert 0 < names.share < 0.05
    *_, helps, little = json.loads(result_json(scanned("whole", *ON_A_MAC)))["volumes"][0]["story"]
    assert little.startswith("Saves under 5 %: list names only, without stat (4.8 s)")
    assert helps.startswith("What helps: ")
    assert "list names only" not in helps


# One volume, one drive, one host: every command gives the same seconds and the same range.


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
            name = cause.name.change
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


@pytest.mark.slow
def test_every_verb_has_the_same_answers_on_reference_images(shared, reference_image, tmp_path):
    """The same for all images from macOS and Linux's drivers, also with 200,000 files, whose reads are samples."""
    images = of_reference(reference_image, named(shared))
    assert len(images) >= 28 + 8
    assert check(images, tmp_path) >= 2 * (28 + 8)
