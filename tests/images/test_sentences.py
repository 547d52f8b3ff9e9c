"""Sentences of a scan and a plan, each on a volume for which it is true and on one for which it would be wrong."""

from __future__ import annotations

import io
import json
from functools import cache

import pytest

from fixtures.apfs import scenarios
from fixtures.apfs.plan import TreeShape, VolumePlan
from fixtures.apfs.writer import write
from fixtures.hfsplus import writer as hfsplus
from fixtures.hfsplus.plan import Extent, Tree
from fixtures.hfsplus.plan import VolumePlan as HfsPlan
from fixtures.hfsplus.scenarios import folders
from layoutscope import scan
from layoutscope.api.drives import fit
from layoutscope.report.json import result_json
from layoutscope.report.text.console import make_console
from layoutscope.report.text.scan import print_scan

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
def screen(scanned):
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
SENTENCES = {
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
@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_stands_where_it_is_true_alone(screen, sentence):
    """Each appears for its volume and for none of the others, which all take over a second."""
    true, wrong = SENTENCES[sentence]
    assert sentence in screen(*true)
    for which in wrong:
        text = screen(*which)
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
