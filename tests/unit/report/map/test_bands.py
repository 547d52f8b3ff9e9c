"""The bands of the first screen: each column is of what the tables say, and nothing is called what it is not."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

from layoutscope.api.scan import scan
from layoutscope.report.map import screen
from layoutscope.report.map.page import disk_shares
from layoutscope.report.map.pyramid import FREE_SPACE, UNCLAIMED, from_layouts
from layoutscope.report.map.scans import disks
from layoutscope.report.map.screen import (
    COLUMNS,
    PARTS,
    UPPER,
    file_list_reach,
    first_screen,
    legend,
    parts_of,
    picture,
    scale_of,
)
from layoutscope.units import format_bytes
from layoutscope.zstd import zstd

FUSION = Path(__file__).resolve().parents[5] / "shared" / "images" / "fusion"
FIXTURES = Path(__file__).resolve().parents[4] / "fixtures" / "images"
PATH = re.compile(r'<path class="part-(\w+)" fill-opacity="([\d.]+)" d="([^"]*)"/>')
STEP = re.compile(r"M(\d+) (\d+)h(\d+)v")


def _held(result):
    (disk,) = disks([result])
    return disk, disk_shares(disk, from_layouts(disk.layouts))


@pytest.fixture(scope="module", params=["hfsplus", "apfs"])
def result(request):
    return scan(FIXTURES / f"{request.param}-scattered.img.zst")


def _painted(svg: str, top: int) -> list[str]:
    """The part that each column of a half is painted in; empty where there is none."""
    columns = [""] * COLUMNS
    for key, _, path in PATH.findall(svg):
        for first, y, count in STEP.findall(path):
            if int(y) == top:
                for column in range(int(first), int(first) + int(count)):
                    assert columns[column] == "", "a column is painted twice"
                    columns[column] = key
    return columns


def test_columns_with_metadata_are_those_of_the_tables(result):
    """A column of the upper half is painted exactly where a node or other metadata lies."""
    disk, shares = _held(result)
    metadata = [share.runs for share in shares if share.item.group == "metadata"]
    span = scale_of([disk], [shares])
    expected = np.zeros(COLUMNS, bool)
    edges = np.arange(COLUMNS + 1) * span // COLUMNS
    for first, length in np.concatenate(metadata).tolist():
        low, high = np.searchsorted(edges, [first, first + length - 1], side="right") - 1
        expected[low : min(high, COLUMNS - 1) + 1] = True
    painted = _painted(picture(disk, shares, span), 0)
    assert [key != "" for key in painted] == expected[:COLUMNS].tolist()


def test_nothing_is_unknown_or_damaged_on_a_sound_disk(result):
    """Both fixtures were read whole: neither word nor colour says otherwise."""
    disk, shares = _held(result)
    page = first_screen([disk], [shares])
    assert not {"unknown", "damaged", "locked"} & {*_painted(page, 0), *_painted(page, UPPER)}
    assert all(word not in page for word in ("unknown", "damaged", "locked", 'class="warn"'))


def test_parts_share_out_the_disk(result):
    """Every class is of one part, and the legend's bytes are those of the tables."""
    disk, shares = _held(result)
    parts = parts_of(shares)
    assert sorted(place for places in parts.values() for place in places) == list(range(len(shares)))
    assert {part.key for part in PARTS} == set(parts)
    main = sum(shares[place].size_bytes for place in parts["main"])
    (layout,) = [layout for layout in disk.layouts if layout.entries.height]
    tree = {"HFS+": "catalog", "APFS": "fs"}[layout.facts.variant]
    nodes = layout.nodes.filter(pl.col("tree").cast(pl.String) == tree).unique("image_offset")
    assert main == nodes["size_bytes"].sum()
    assert f"in {len(shares[parts['main'][0]].runs):,} pieces" in file_list_reach(shares)


def test_a_locked_volume_is_locked_and_not_damaged(reference_image):
    """What nobody can decipher is neither verified nor broken; the page says first that it is locked."""
    result = scan(reference_image("apple/dissect_encrypted.raw"))
    disk, shares = _held(result)
    page = first_screen([disk], [shares])
    assert "damaged" not in page
    assert "locked metadata" in legend([disk], [shares])
    assert "locked" in _painted(page, 0)
    headline = re.search(r'<p class="headline">(.*?)</p>', page)
    assert headline is not None
    assert "is locked" in headline[1]


def test_a_damaged_volume_says_so_before_its_time(result):
    """The first sentence is of the damage, not of the time that the rest takes."""
    volume = next(volume for volume in result.parts if volume.layout.entries.height)
    first = volume.layout.nodes.height - 1
    condition = pl.when(pl.col("row") == first).then(pl.lit("damaged")).otherwise(pl.lit("sound"))
    layout = volume.layout.changed(nodes=volume.layout.nodes.with_columns(condition=condition.cast(pl.Categorical)))
    facts = replace(layout.facts, num_missing_entries=31)
    changed = replace(volume, layout=layout.changed(facts=facts))
    others = [changed if item is volume else item for item in result.parts]
    disk, shares = _held(replace(result, parts=tuple(others)))
    page = first_screen([disk], [shares])
    assert re.search(r'<p class="headline">At least 31 entries of [^<]* are missing', page)
    assert "damaged metadata" in page


def test_destroyed_nodes_of_hfsplus_are_damaged(tmp_path):
    """Overwritten leaves of the catalog are painted as damage, each byte of them, and not as the catalog that was."""
    image = FIXTURES / "hfsplus-scattered.img.zst"
    raw = bytearray(zstd.decompress(image.read_bytes()))
    nodes = scan(image, drives=()).volumes[0].layout.nodes
    leaves = nodes.filter((nodes["tree"] == "catalog") & (nodes["kind"] == "leaf"))[3:40:9]
    for place, size in leaves["image_offset", "size_bytes"].rows():
        raw[place : place + size] = b"\xa5" * size
    (tmp_path / "damaged.img").write_bytes(raw)
    disk, shares = _held(scan(tmp_path / "damaged.img", drives=()))
    held = {share.item.key: share.runs for share in shares}
    assert sorted(held["damaged"][:, 0] + disk.image_offset) == sorted(leaves["image_offset"])
    assert held["damaged"][:, 1].sum() == leaves["size_bytes"].sum()
    assert _painted(picture(disk, shares, disk.size_bytes), 0).count("damaged") >= 3
    first = re.search(r"first of all at byte ([\d,]+): it is in use, but neither a leaf nor an index", disk.warnings[0])
    assert int(first[1].replace(",", "")) in set(leaves["image_offset"])


def test_an_image_that_is_cut_off_says_so_first(tmp_path):
    """What is wrong with the image itself is the cause of what is wrong with its volumes."""
    image = FIXTURES / "hfsplus-scattered.img.zst"
    raw = zstd.decompress(image.read_bytes())
    (tmp_path / "cut.img").write_bytes(raw[: len(raw) * 6 // 10])
    disk, shares = _held(scan(tmp_path / "cut.img"))
    page = first_screen([disk], [shares])
    assert re.search(r'<p class="headline">The image is damaged: one error at byte [\d,]+: [^<]*cut off', page)
    assert "“Scattered” is damaged: " in page


def test_the_scale_says_of_how_much_it_is_a_part(result):
    """Of a disk that is nearly empty the bands show the part in use; a full one is told by one number."""
    disk, shares = _held(result)
    larger = replace(disk, size_bytes=16 * disk.size_bytes)
    told = [first_screen([one], [shares]) for one in (disk, larger)]
    assert f"<span>{format_bytes(disk.size_bytes)}</span></div>" in told[0]
    part = format_bytes(scale_of([larger], [shares]))
    assert f"<span>{part} of {format_bytes(larger.size_bytes)}</span></div>" in told[1]


def test_a_disk_that_ends_early_leaves_the_rest_of_its_band_empty(result):
    """On the scale of a larger one, nothing is painted behind a disk's end."""
    disk, shares = _held(result)
    svg = picture(disk, shares, 4 * disk.size_bytes)
    painted = _painted(svg, 0)
    assert any(painted[: COLUMNS // 4 + 1])
    assert not any(painted[COLUMNS // 4 + 1 :])
    assert f'<rect class="part-free" width="{COLUMNS // 4}"' in svg


def test_bands_and_cells_have_the_same_steps():
    """One legend serves both: what is a strong colour above is one below."""
    cells = Path(screen.__file__).with_name("web") / "src" / "cells.ts"
    steps = re.search(r"SHADES: \[number, number\]\[\] = \[(.*?)\];", cells.read_text("utf-8"), re.DOTALL)
    assert steps is not None
    found = [(float(least), float(strength)) for least, strength in re.findall(r"\[([\d.]+), ([\d.]+)\]", steps[1])]
    assert tuple(found) == screen.SHADES


def test_names_are_escaped(result):
    """A name is text in the sentence, in the title and in the picture's label."""
    disk, shares = _held(result)
    bad = "<b>&\"'"
    page = first_screen([replace(disk, title=bad, kind=bad, warnings=(bad,), story=(bad,))] * 2, [shares] * 2)
    assert "<b>&" not in page
    assert "&lt;b&gt;&amp;" in page


def test_devices_of_a_set_have_a_band_each():
    """Of a Fusion set each device has its own size and addresses: all of it is known, no byte stands on both."""
    images = [Path(FUSION) / name for name in ("main.img.zst", "tier2.img.zst")]
    if not all(image.exists() for image in images):
        pytest.skip("the images of the set are not beside the checkout")
    result = scan(images[0], second=images[1])
    main, second = disks([result])
    details = result.volumes[0].layout.facts.details
    assert [main.size_bytes, second.size_bytes] == [details[f"bytes of device {number}"] for number in (0, 1)]
    shares = [disk_shares(disk, from_layouts(disk.layouts, disk.device)) for disk in (main, second)]
    for disk, own in zip((main, second), shares, strict=True):
        held = {share.item.key: share.size_bytes for share in own}
        assert sum(held.values()) == disk.size_bytes
        assert held["unclaimed"] == 0
    assert second.walks == main.walks  # whose reads each panel shows by their device
    screen = first_screen([main, second], shares)
    assert screen.count('class="band"') == 2
    assert '<p class="headline">' in screen
    assert "0 us" not in screen


def test_what_counts_as_used_and_is_described_by_nothing_is_said(result):
    """It is only there on a volume that contradicts itself; on a sound one neither the sentence nor the colour is."""
    disk, shares = _held(result)
    told = "count as used, and nothing that was read says by what"
    screen = first_screen([disk], [shares])
    assert disk.coverage == 1
    assert told not in screen
    assert "part-unknown" not in screen
    leaked = [replace(share, item=UNCLAIMED) if share.item.key == FREE_SPACE.key else share for share in shares]
    size = next(share.size_bytes for share in shares if share.item.key == FREE_SPACE.key)
    screen = first_screen([disk], [leaked])
    assert f"{format_bytes(size)} {told}" in screen
    assert "part-unknown" in screen
    assert told not in first_screen([replace(disk, coverage=0.5)], [leaked])
