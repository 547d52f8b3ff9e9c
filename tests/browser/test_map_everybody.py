"""Accessibility of the map: every kind of disk, forced colors, screen readers, small windows, print."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from layoutscope.api.map import map_page
from layoutscope.api.scan import scan
from layoutscope.report.map.difference import difference, share_by_change
from layoutscope.report.map.pyramid import held_by
from layoutscope.report.map.scans import disks, state_names
from tests.browser.conftest import Visit, assert_accessible, cells_of, show, unfold
from tests.browser.kinds import FIXTURES, KINDS

if TYPE_CHECKING:
    from pathlib import Path


def _difference(_folder: Path) -> list:
    image = FIXTURES / "apfs-scattered.img.zst"
    return [scan(image, xid=2, drives=()), scan(image, drives=())]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    """Return a function that maps a kind to its page, made once, and the scans on it."""
    made = {}

    def page(name: str) -> tuple[Path, list]:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            results = (_difference if name == "difference" else KINDS[name])(folder)
            path = folder / "page.html"
            path.write_text(map_page(results, difference=name == "difference"), "utf-8")
            made[name] = path, results
        return made[name]

    return page


ALL = [*KINDS, "difference"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_forced_colors_leave_what_says_something(browser, kinds, scheme):
    """Swatches, bars and dots keep their colors; text and lines have the system's."""
    path, _ = kinds("damaged")
    seen = Visit(browser, path, dark=scheme == "dark")
    looks = """() => [...document.querySelectorAll('.key .swatch')].map((s) => getComputedStyle(s).backgroundColor)"""
    bars = """() => [...document.querySelectorAll('#figure .bars .point path')].map((p) => getComputedStyle(p).fill)"""
    own = seen.run(looks), seen.run(bars)
    assert len(set(own[0])) == len(own[0]) > 3
    seen.page.emulate_media(forced_colors="active", color_scheme=scheme, reduced_motion="reduce")
    assert (seen.run(looks), seen.run(bars)) == own
    found = seen.run(
        """() => {
          const probe = document.body.appendChild(document.createElement('i'));
          probe.style.color = 'CanvasText';
          const text = getComputedStyle(probe).color;
          probe.remove();
          return [text, getComputedStyle(document.querySelector('h1')).color];
        }"""
    )
    assert found[0] == found[1]
    assert seen.page.locator("#theme:visible").count() == 0  # it would set colors that the system controls
    assert seen.complaints == []
    seen.page.context.close()


@pytest.mark.parametrize("name", ALL)
def test_axe_finds_nothing(visit, kinds, name):
    """Names, roles, contrasts and order, with every part and table unfolded, and nodes listed."""
    seen = visit(kinds(name)[0], dark=name in ("damaged", "difference", "pair"))
    seen.page.get_by_text("list metadata blocks in view").click()
    unfold(seen.page)
    seen.run("() => { for (const one of document.querySelectorAll('details')) one.open = true; }")
    seen.page.wait_for_function(
        "() => [...document.querySelectorAll('.told')].every((one) => one.querySelector('table'))"
    )
    assert_accessible(seen.page)
    assert seen.complaints == []


@pytest.mark.parametrize("name", ["pair", "fusion"])
def test_the_figure_is_few_stops_away(visit, kinds, name):
    """The figure is at most twelve presses of Tab away, and the end of the folded page at most sixty."""
    seen = visit(kinds(name)[0])
    stops = seen.run(
        """() => [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')]
          .filter((one) => one.checkVisibility()).map((one) => one.matches('#figure > .plot'))"""
    )
    assert stops.index(True) < 12
    assert len(stops) <= 60


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_everything_within_its_width(visit, kinds, name, dark):
    """Nothing exceeds the width, with every part unfolded."""
    seen = visit(kinds(name)[0], dark=dark, size=(390, 844))
    box = seen.page.locator("#figure").bounding_box()
    assert box["y"] < 500
    unfold(seen.page)
    assert seen.run("() => document.documentElement.scrollWidth") <= 390
    assert seen.complaints == []


RED = """async ([png, hue]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const { width, height } = image, pen = new OffscreenCanvas(width, height).getContext('2d');
  pen.drawImage(image, 0, 0);
  const { data } = pen.getImageData(0, 0, width, height), rows = new Map();
  for (let i = 0; i < data.length; i += 4)
    if (hue.every((value, k) => Math.abs(data[i + k] - value) < 40)) {
      const row = Math.floor(i / 4 / width);
      rows.set(row, (rows.get(row) ?? 0) + 1);
    }
  return [height, [...rows]];
}"""


@pytest.mark.parametrize("size", [(390, 844), (1366, 768)])
def test_all_damage_is_seen_and_nothing_else_is_red(visit, kinds, size):
    """The bar of each damaged node has at least two red pixels next to it; the sound pair has none."""
    path, results = kinds("damaged")
    seen = visit(path, size=size)
    plot = seen.page.locator("#figure > .plot")
    hue = [0xD0, 0x02, 0x1B]
    _, rows = seen.page.evaluate(RED, [base64.b64encode(plot.screenshot()).decode(), hue])
    top, high, start, end = seen.run(
        "() => { const a = layoutscope.figure.plot._fullLayout.yaxis; return [a._offset, a._length, ...a.range]; }"
    )
    red = np.array([row for row, many in rows if many >= 2])
    (disk,) = disks(results)
    nodes = pl.concat([layout.nodes for layout in disk.layouts], how="vertical_relaxed")
    bad = nodes.filter(pl.col("condition").cast(pl.String) != "sound")["image_offset"].to_numpy()
    assert len(bad) > 1
    for place in bad:
        at = top + high * (1 - ((place - disk.image_offset) / 2**20 - start) / (end - start))
        assert np.abs(red - at).min() <= 1 + high / 96
    sound = visit(kinds("pair")[0], size=size)
    picture = base64.b64encode(sound.page.screenshot(full_page=True)).decode()
    assert sound.page.evaluate(RED, [picture, hue])[1] == []


@pytest.mark.parametrize("name", ["damaged", "locked"])
def test_damaged_nodes_are_told_with_their_trees(visit, kinds, name):
    """Every damaged or locked address is drawn as such in the cells, and the pointer's text names the tree."""
    path, results = kinds(name)
    seen = visit(path)
    (disk,) = disks(results)
    nodes = pl.concat([layout.nodes for layout in disk.layouts], how="vertical_relaxed")
    bad = nodes.filter(pl.col("condition").cast(pl.String) != "sound").unique("image_offset")
    role = {"damaged": "damaged", "locked": "unknown"}[name]
    place = seen.run("() => layoutscope.page.figure.roles").index(role)
    for tree, at in bad.select(pl.col("tree").cast(pl.String), "image_offset").sort("image_offset").rows()[:12]:
        start = at - disk.image_offset
        show(seen.page, max(0, start - 2**17), start + 2**17)
        painted, lines = seen.page.evaluate(
            """async (at) => {
              const { detail } = layoutscope, cell = Math.floor((at - detail.from) / detail.cell);
              await detail.draw();
              return [detail.painted[cell], detail.lines(cell).join('\\n')];
            }""",
            start,
        )
        assert painted == place
        assert tree in lines
        assert ("damaged" in lines) == (name == "damaged")


@pytest.fixture(scope="module")
def states(kinds):
    """Write two checkpoints of one image, and the page of their difference."""
    path, results = kinds("difference")
    return results, path


def test_a_difference_is_that_of_the_tables_at_every_zoom(visit, states):
    """At ten zoom levels each cell holds exactly the bytes that changed there; the headline names the changes."""
    (earlier, later), path = states
    (disk,) = difference(disks([earlier]), disks([later]), ("a", "b"))
    shares = share_by_change(disk)
    seen = visit(path)
    draw = np.random.default_rng(5)
    for zoom in range(10):
        width = disk.block_size_bytes << max(0, 2 - zoom // 4)
        start = int(draw.integers(0, disk.size_bytes // width)) * width
        keys, held = cells_of(seen.page, 0, start, width)
        edges = np.arange(16385) * width + start
        assert np.array_equal(held, held_by(shares, np.minimum(edges, disk.size_bytes)))
        assert keys == [share.item.key for share in shares]
    told = difference(disks([earlier]), disks([later]), state_names(earlier, later, names=True))[0].story[0]
    assert seen.page.locator("h1").inner_text() == told


def test_a_node_that_moved_says_from_where(visit, states):
    """At a node's new place the page shows the old one, and at the old place the new one."""
    (earlier, later), path = states
    places = []
    for result in (earlier, later):
        nodes = next(volume.layout for volume in result.parts if volume.layout.entries.height).nodes
        live = nodes.filter((pl.col("tree").cast(pl.String) == "fs") & (pl.col("state").cast(pl.String) == "live"))
        places.append(dict(live.select("node_id", "image_offset").iter_rows()))
    before, now = places
    moved = [node for node in before if node in now and before[node] != now[node]]
    assert moved
    seen = visit(path)

    def told(at: int) -> str:
        show(seen.page, max(0, at - 2**18), at + 2**18)
        lines = "(at) => { const d = layoutscope.detail; return d.lines(Math.floor((at - d.from) / d.cell)).join(); }"
        return seen.page.evaluate(lines, at)

    assert f"moved here from byte {before[moved[0]]:,}" in told(now[moved[0]])
    assert f"moved away to byte {now[moved[0]]:,}" in told(before[moved[0]])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "the page carries none of the disk's"),
        ({"names": False}, "the page was made without names"),
        ({"all_paths": True}, None),
    ],
)
def test_a_page_without_paths_says_that_it_has_none(visit, scans, tmp_path, monkeypatch, given, told):
    """Above the limit a search says what it cannot find and how it could; with all paths it finds each one."""
    monkeypatch.setattr("layoutscope.report.map.panels.NAME_BUDGET", 3)
    layout = scans["hfsplus"].parts[0].layout
    (tmp_path / "page.html").write_text(map_page([scans["hfsplus"]], **given), "utf-8")
    seen = visit(tmp_path / "page.html")
    field, found = seen.page.locator(".search input"), seen.page.locator(".found")
    assert field.get_attribute("placeholder").startswith("path, file number or byte" if told is None else "byte")
    file = layout.entries.filter(pl.col("kind").cast(pl.String) == "file").row(-1, named=True)
    field.fill(file["name"])
    if told is None:
        found.locator("button", has_text=f"(file {file['file_id']})").first.wait_for()
        return
    found.get_by_text(told).wait_for()
    assert ("--all-paths does" in found.inner_text()) == (not given)


def test_names_of_volumes_stand_before_their_paths(visit, tmp_path):
    """With two volumes, results name the volume of each root; with a single volume they name none."""
    write(SCENARIOS["volumes"], tmp_path / "disk.img")
    (tmp_path / "map.html").write_text(map_page([scan(tmp_path / "disk.img")]), "utf-8")
    (tmp_path / "alone.html").write_text(map_page([scan(FIXTURES / "apfs-scattered.img.zst")]), "utf-8")
    found = []
    for name in ("map", "alone"):
        seen = visit(tmp_path / f"{name}.html")
        seen.page.locator(".search input").fill("2")
        root = seen.page.locator(".found button", has_text=re.compile(r"\(file 2\)$"))
        root.first.wait_for()
        found.append(root.all_inner_texts())
    assert {text.partition(":")[0] for text in found[0]} >= {"System", "Data"}
    assert found[1] == ["/ (file 2)"]
