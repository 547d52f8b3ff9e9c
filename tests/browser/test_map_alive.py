"""The map in a browser answers: colours by number, what is out of sight, keys, pointers, links."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from layoutscope.api.map import map_page
from layoutscope.api.scan import scan
from layoutscope.report.map.difference import difference, share_by_change
from layoutscope.report.map.pyramid import held_by
from layoutscope.report.map.scans import disks, state_names
from tests.browser.conftest import cells_of
from tests.browser.kinds import nodes_of

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "images"
STEPS = ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"]
COLOUR = """async (at) => {
  const m = layoutscope.maps[0];
  await m.show(at - 4096 * 5000, 1);
  const cell = Math.floor((at - m.from) / m.cellSize);
  const c = document.querySelector('.cells');
  const fine = c.width / 256;
  const { data } = c.getContext('2d').getImageData(fine * (cell % 256), fine * Math.floor(cell / 256), fine, fine);
  const hex = (i) => '#' + [...data.slice(i, i + 3)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return [...new Set(Array.from({ length: data.length / 4 }, (_, i) => hex(4 * i)))];
}"""


TWO_FRAMES = """() => new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)));
})"""


@pytest.mark.parametrize("name", ["hfsplus", "apfs"])
def test_nodes_are_coloured_by_how_full_they_are(visit, pages, scans, name):
    """The scale goes from empty to full on every disk; a node whose fill is not known is hatched, and that is said."""
    known = pl.col("used_bytes").is_not_null() & (pl.col("used_bytes") + pl.col("free_bytes") > 0)
    nodes = nodes_of(scans[name]).filter(pl.col("image_offset") > 4096 * 5000)
    seen = visit(pages / f"{name}.html")
    seen.page.get_by_label("what colours nodes").select_option("fill")
    told = seen.page.locator(".scale").inner_text()
    assert "0 %" in told
    assert "100 %" in told
    assert "not told: not known" in told
    for node in nodes.filter(known).sample(5, seed=3).iter_rows(named=True):
        share = round(100 * node["used_bytes"] / (node["used_bytes"] + node["free_bytes"]))
        assert seen.page.evaluate(COLOUR, node["image_offset"]) == [STEPS[min(7, share * 8 // 100)]]
        cell = f"Math.floor(({node['image_offset']} - m.from) / m.cellSize)"
        seen.run(f"() => {{ const m = layoutscope.maps[0]; m.describe({cell}); }}")
        assert f"{share} % full" in seen.run("() => layoutscope.maps[0].info.textContent")


def test_nodes_are_coloured_by_what_reading_them_costs(visit, pages):
    """A node that the walk never reads is hatched and has no step; the costliest has the last one."""
    seen = visit(pages / "hfsplus.html")
    seen.page.get_by_label("what colours nodes").select_option("cost")
    told = seen.page.locator(".scale").inner_text()
    assert "time to read the node on a walk, " in told
    assert "5400 rpm" in told
    assert "not read by it" in told
    places, costs = seen.run(
        "() => { const n = layoutscope.maps[0].owners.nodes; return [Array.from(n.offset), Array.from(n.cost)]; }"
    )
    rows = [row for row in zip(costs, places, strict=True) if row[1] >= 0]
    dearest, unread = max(rows), min(rows)
    assert unread[0] == 0
    assert seen.page.evaluate(COLOUR, dearest[1]) == [STEPS[7]]
    assert sorted(seen.page.evaluate(COLOUR, unread[1])) == ["#d4d7db", "#ffffff"]


def test_the_race_leaves_a_map_alone_that_is_out_of_sight(visit, pages):
    """While it plays above the map, the map's chart is not drawn; scrolled to, it shows the head at once."""
    seen = visit(pages / "hfsplus.html", size=(1280, 720))
    seen.run(
        """() => {
          window.restyled = 0;
          const { restyle } = Plotly;
          Plotly.restyle = (...given) => {
            if (given[0].classList.contains('map')) window.restyled++;
            return restyle(...given);
          };
          scrollTo(0, 0);
          document.querySelector('#what').style.marginBottom = '2000px';
        }"""
    )
    seen.run(TWO_FRAMES)  # in the first one it is noticed that the map is out of sight
    before = seen.run("() => window.restyled")
    seen.run("() => { for (let i = 1; i < 9; i++) layoutscope.race.show((layoutscope.race.longest() * i) / 10); }")
    assert seen.run("() => [window.restyled, layoutscope.maps[0].head === null]") == [before, False]
    seen.run("() => document.querySelector('.map').scrollIntoView()")
    seen.page.wait_for_function("(before) => window.restyled > before", arg=before)
    drawn = seen.run("() => document.querySelector('.map').data[0].x.length")
    assert drawn > 0
    assert seen.run("() => window.restyled") == before + 1


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """Two checkpoints of one image, and the page of what changed between them."""
    image = FIXTURES / "apfs-scattered.img.zst"
    found = scan(image, xid=2, drives=()), scan(image, drives=())
    path = tmp_path_factory.mktemp("difference") / "page.html"
    path.write_text(map_page(found, difference=True), "utf-8")
    return found, path


def test_a_difference_is_that_of_the_tables_at_every_zoom(visit, states):
    """At ten zooms each cell holds exactly the bytes that changed there; the page asks and complains of nothing."""
    (earlier, later), path = states
    (disk,) = difference(disks([earlier]), disks([later]), ("a", "b"))
    shares = share_by_change(disk)
    seen = visit(path)
    draw = np.random.default_rng(5)
    for zoom in range(10):
        size = disk.size_bytes >> zoom // 2
        start = int(draw.integers(0, disk.size_bytes - size + 1))
        begin, cell, keys, held = cells_of(seen.page, 0, start, size)
        edges = np.arange(16385) * cell + begin - disk.image_offset
        assert np.array_equal(held, held_by(shares, np.minimum(edges, disk.size_bytes)))
        assert keys == [share.item.key for share in shares]
    assert seen.complaints == []
    assert [url for url in seen.requests if not url.startswith(("file:", "blob:", "data:"))] == []
    told = difference(disks([earlier]), disks([later]), state_names(earlier, later, names=True))[0].story[0]
    assert seen.page.locator(".headline").inner_text() == told


def test_a_node_that_moved_says_from_where(visit, states):
    """Over a node's new place the page tells the old one, and over the old one the new."""
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
    told = """async (at) => {
      const m = layoutscope.maps[0];
      await m.show(at - 4096 * 5000, 1);
      m.describe(Math.floor((at - m.from) / m.cellSize));
      return m.info.textContent;
    }"""
    node = moved[0]
    assert f"moved here from byte {before[node]:,}" in seen.page.evaluate(told, now[node])
    assert f"moved away to byte {now[node]:,}" in seen.page.evaluate(told, before[node])


VIEW = "() => { const m = layoutscope.maps[0]; return [m.view.from - m.disk.start, m.view.size, m.full]; }"


def test_the_frame_on_the_strip_is_dragged(visit, pages):
    """Pressed inside, the frame goes with the pointer; beside it, it comes there; Backspace undoes a whole drag."""
    seen = visit(pages / "apfs.html")
    seen.run(
        "async () => { const m = layoutscope.maps[0]; await m.show(m.disk.start, m.full / 4, true); m.earlier = []; }"
    )
    strip = seen.page.locator(".strip")
    strip.scroll_into_view_if_needed()
    box = strip.bounding_box()
    middle = box["y"] + box["height"] / 2
    before = seen.run(VIEW)
    _drag(seen.page, (box["x"] + box["width"] / 8, middle), (box["x"] + box["width"] * 3 / 8, middle))
    start, size, full = seen.run(VIEW)
    assert size == before[1]
    assert start / full == pytest.approx(0.25, abs=0.01)
    seen.page.mouse.click(box["x"] + box["width"] * 0.9, middle)
    assert seen.run(VIEW)[0] / full == pytest.approx(0.75, abs=0.01)  # as far as the disk goes
    seen.page.locator(".map").focus()
    seen.page.keyboard.press("Backspace")
    assert seen.run(VIEW)[0] == start
    seen.page.keyboard.press("Backspace")
    assert seen.run(VIEW) == before


def _drag(page, start, end) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=4)
    page.mouse.up()


def test_keys_move_and_zoom(visit, pages):
    """Plus and minus zoom fourfold, arrows go a quarter or a whole view, 0 shows the disk, Backspace goes back."""
    seen = visit(pages / "apfs.html")
    seen.run("async () => { const m = layoutscope.maps[0]; await m.show(m.disk.start, m.full, true); m.earlier = []; }")
    seen.page.locator(".map").focus()
    whole = seen.run(VIEW)[2]
    expected = {"+": whole / 4, "-": whole}
    for key, size in expected.items():
        seen.page.keyboard.press(key)
        assert seen.run(VIEW)[1] == pytest.approx(size)
    seen.page.keyboard.press("+")
    seen.run(
        "async () => { const m = layoutscope.maps[0]; await m.show(m.disk.start, m.view.size, true); m.earlier = []; }"
    )
    size = seen.run(VIEW)[1]
    for key, place in {"ArrowRight": 1 / 4, "ArrowDown": 5 / 4, "ArrowLeft": 1, "ArrowUp": 0}.items():
        seen.page.keyboard.press(key)
        assert seen.run(VIEW)[0] == pytest.approx(place * size)
    seen.page.keyboard.press("0")
    assert seen.run(VIEW)[:2] == [0, whole]
    for place in (0, 1, 5 / 4, 1 / 4, 0):
        seen.page.keyboard.press("Backspace")
        assert seen.run(VIEW)[0] == pytest.approx(place * size)
    seen.page.keyboard.press("Backspace")  # there is nothing before
    assert seen.run(VIEW)[1] == size


def test_wheel_and_drag_keep_the_place_under_the_pointer(visit, pages):
    """The byte under the wheel stays in its cell; a drag takes the cells along."""
    seen = visit(pages / "apfs.html")
    seen.run("async () => { const m = layoutscope.maps[0]; await m.show(m.disk.start, m.full, true); }")
    plot = seen.page.locator(".map")
    plot.evaluate("plot => plot.scrollIntoView({block: 'center'})")
    box = plot.bounding_box()
    at = (box["x"] + box["width"] / 2 + 2, box["y"] + box["height"] / 2 + 3)  # within a cell, not on its edge
    under = """([x, y]) => {
      const m = layoutscope.maps[0], cell = m.cellAt({ clientX: x, clientY: y });
      return [m.from + cell * m.cellSize, m.cellSize];
    }"""
    byte, cell = seen.page.evaluate(under, at)
    seen.page.mouse.move(*at)
    seen.page.mouse.wheel(0, -100)
    seen.page.wait_for_function(f"() => layoutscope.maps[0].cellSize < {cell}")
    assert abs(seen.page.evaluate(under, at)[0] - byte) <= 2 * cell
    scrolled = seen.run("() => scrollY")
    byte, cell = seen.page.evaluate(under, at)
    to = (at[0] + 40, at[1] + 60)
    _drag(seen.page, at, to)
    assert abs(seen.page.evaluate(under, to)[0] - byte) <= 2 * cell
    assert seen.run("() => scrollY") == scrolled


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "the page carries none of the disk's"),
        ({"names": False}, "the page was made without names"),
        ({"all_paths": True}, None),
    ],
)
def test_a_page_without_paths_says_that_it_has_none(visit, scans, tmp_path, monkeypatch, given, told):
    """Past the budget a search says in words what it cannot find and how it could; with all paths it finds each one."""
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
    assert (f"{layout.entries.height:,} paths" in found.inner_text()) == (not given)
