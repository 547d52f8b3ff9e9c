"""Without ``--host``, a volume's host is the system that wrote it last."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from layoutscope import compare, forecast, plan, predict, read_layouts, scan, trace
from layoutscope.api import scan as scanning
from layoutscope.api.workloads import choose_host

WRITERS = {
    "aged/apfs-20000-c00.img": ("linux", "written-by"),
    "driver/apfs-ci.img": ("linux", "written-by"),
    "aged/hfsplus-20000-c00.img": ("linux", "written-by"),
    "apple/sparkle_apfs_lzma_aux.raw": ("macos", "written-by"),
    "apple/dissect_jhfs_converted.raw": ("macos", "written-by"),
    "apple/slate_20121008.raw": ("macos", "written-by"),
    "apple/hfsinspect_hfsj.raw": ("macos", "written-by"),
    "driver/hybrid-hfsplus.iso": ("macos", "unknown"),
}
APFS, HFSPLUS = "fixtures/images/apfs-scattered.img.zst", "fixtures/images/hfsplus-scattered.img.zst"


@pytest.mark.parametrize("name", WRITERS)
def test_the_system_that_wrote_a_volume_reads_it(reference_image, name):
    """The strings in its header decide; `--host` overrides them."""
    walk = scan(reference_image(name), drives=()).parts[-1].walk
    assert (walk.host, walk.host_from) == WRITERS[name]
    asked = scan(reference_image(name), drives=(), host="linux").parts[-1].walk
    assert (asked.host, asked.host_from) == ("linux", "asked")


TEXTS = {
    "apfs": {
        ("newfs_apfs (945.260.7)", ""): "macos",
        ("newfs_apfs (945.260.7)", "linux-apfs by eafer (0.3.20) (xid 9), apfs_kext (945) (xid 4)"): "linux",
        ("mkapfs by eafer (v0.2.1)", "apfs_kext (1677.81.1) (xid 25)"): "macos",
        ("mkapfs by eafer ()", ""): "linux",
        ("layoutscope fixtures (1)", ""): "",
    },
    "hfsplus": {("", "H+Lx"): "linux", ("", "10.0"): "macos", ("", "HFSJ"): "macos", ("", "liso"): ""},
}


@pytest.mark.parametrize(("filesystem", "image"), [("apfs", APFS), ("hfsplus", HFSPLUS)])
def test_the_last_program_that_changed_a_volume_counts(filesystem, image):
    """The program that made the volume does not count if another one wrote later."""
    layout = next(item for item in read_layouts(image) if len(item.columns("entries")))
    for (made, changed), host in TEXTS[filesystem].items():
        details = {"formatted by": made, "modified by": changed, "last mounted by": changed}
        told = layout.changed(facts=replace(layout.facts, details=details))
        assert choose_host(told, None) == ((host, "written-by") if host else ("macos", "unknown")), (made, changed)
        assert choose_host(told, "linux") == ("linux", "asked")


def test_every_verb_takes_the_same_host(reference_image):
    """Predictions, plans and traces of a volume that Linux wrote, and of one with an unknown writer."""
    for image, host in ((reference_image("driver/hfsplus-frag.img"), "linux"), (APFS, "macos")):
        one, other = (trace(image, host=name) for name in (None, host))
        assert one.image_offset.tolist() == other.image_offset.tolist()
        assert predict(image, drives="sata-ssd").volumes[0].walk.host == host
        assert plan(image, drive="sata-ssd").volumes[0].host == host


def test_a_comparison_has_one_host(reference_image):
    """The common host where both agree, macOS otherwise; or the requested one."""
    linux = [reference_image(f"driver/{name}-frag.img") for name in ("apfs", "hfsplus")]
    assert choices(linux) == [("linux", "written-by")] * 2
    assert choices([linux[0], APFS]) == [("macos", "compared")] * 2
    assert choices([linux[0], APFS], host="linux") == [("linux", "asked")] * 2
    assert choices([APFS, HFSPLUS]) == [("macos", "unknown"), ("macos", "written-by")]


def choices(images, **options):
    """Return the host of each side of a comparison, with the reason."""
    walks = [result.volume.walk for result in scanning.scan_alike(images, {"drives": (), **options})]
    assert compare(*images, drives=(), **options).hosts == tuple(walk.host for walk in walks)
    return [(walk.host, walk.host_from) for walk in walks]


def test_the_screen_and_the_json_name_it(run):
    """The line above the times names it."""
    assert "modelled as macOS " in run("scan", APFS).stdout
    assert "modelled as Linux " in run("scan", APFS, "--host", "linux").stdout
    (walk,) = (item["walk"] for item in json.loads(run("scan", APFS, "--json").stdout)["volumes"] if item["walk"])
    assert (walk["host"], walk["host_from"]) == ("macos", "unknown")


@pytest.mark.parametrize(("host", "is_told"), [("macos", True), ("linux", False), (None, False)])
def test_a_forecast_for_another_system_says_so(reference_image, host, is_told):
    """Linux wrote the volume; macOS would change it at another pace."""
    found = forecast(reference_image("aged/hfsplus-20000-c00.img"), cycles=1, seeds=1, drives=(), host=host)
    told = "Linux wrote this volume, and from here on macOS does"
    assert any(note.startswith(told) for note in found.notes) == is_told


def test_images_of_two_writers_are_read_once(reference_image, monkeypatch):
    """The host is chosen between reading and modeling."""
    read, opened = [], scanning.open_volumes
    monkeypatch.setattr(scanning, "open_volumes", lambda path, *more: read.append(path) or opened(path, *more))
    images = [reference_image("aged/apfs-20000-c00.img"), reference_image("apple/plaso_spotlight10.13.raw")]
    assert set(compare(images, drives=()).hosts) == {"macos"}
    assert read == images
