"""The first screen on real images: it always fits, and each sentence appears only where it is true."""

from __future__ import annotations

import io
import re
from functools import cache
from pathlib import Path

import pytest

from fixtures.apfs import scenarios
from fixtures.apfs.plan import VolumePlan
from fixtures.apfs.writer import write
from fixtures.hfsplus import writer as hfsplus
from fixtures.hfsplus.plan import Tree
from fixtures.hfsplus.plan import VolumePlan as HfsPlan
from fixtures.hfsplus.scenarios import folders
from layoutscope import explain, predict, read_layouts, scan
from layoutscope.api.map import map_page
from layoutscope.report.text.console import make_console
from layoutscope.report.text.scan import print_scan
from layoutscope.results.explanation import count_files, story

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
    assert [other for other in PLACES if f"The metadata is {other}" in text] == [words]


@pytest.mark.parametrize("half", ["main", "tier2"])
def test_half_of_a_set_is_not_called_damaged(reference_image, half):
    """The other half's data were not given, and nothing is known to be wrong with them."""
    text = screen(reference_image(f"fusion/{half}.img"))
    assert re.search(r"INCOMPLETE: .*\(fusion-half\)", " ".join(text.split()))
    assert not re.search(r"^Second +0 ", text, re.MULTILINE)  # unread space is not drawn as empty
    assert "DAMAGED" not in text
    assert "all files" not in text


@pytest.mark.parametrize("half", ["main", "tier2"])
def test_half_of_a_set_asks_for_the_other_half(reference_image, half):
    """No sweep finds data on an image that was not given."""
    text = screen(reference_image(f"fusion/{half}.img"))
    assert "\nName the image of the other device: --second IMAGE.\n" in text
    assert "--sweep" not in text


@pytest.mark.parametrize("half", ["main", "tier2"])
def test_the_map_does_not_call_half_of_a_set_damaged(reference_image, half):
    """Its headline describes one half as the first screen does."""
    text = map_page([scan(reference_image(f"fusion/{half}.img"))])
    assert "is incomplete: one error" in text
    assert "is damaged: one error" not in text


def test_second_device_alone_is_not_called_empty(reference_image):
    """The main device holds the volumes: that none could be read does not mean that there is none."""
    text = screen(reference_image("fusion/tier2.img"))
    assert "no volume of it could be read" in text
    assert "no volume in it" not in text


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
