"""The map for everybody: colours that the system sets, readers of screens, small windows, paper, notebooks."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import numpy as np
import pytest

from layoutscope.api.map import layout_map, map_page
from layoutscope.api.scan import scan
from layoutscope.report.map.page import disk_shares
from layoutscope.report.map.pyramid import from_layouts
from layoutscope.report.map.scans import disks
from tests.browser.conftest import READY_MS, Visit, unfold
from tests.browser.kinds import FIXTURES, KINDS

WEB = Path(__file__).resolve().parents[2] / "layoutscope" / "report" / "map" / "web"
SWATCHES = """(which) => [...document.querySelectorAll(which)].filter((s) => s.checkVisibility()).map((s) => {
  const style = getComputedStyle(s);
  return [style.backgroundColor, style.backgroundImage === 'none' ? '' : 'hatched'].join(' ').trim();
})"""


def _difference(_folder: Path) -> list:
    image = FIXTURES / "apfs-scattered.img.zst"
    return [scan(image, xid=2, drives=()), scan(image, drives=())]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return a function from a kind to its page, made once."""
    made = {}

    def page(name: str) -> Path:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            results = (_difference if name == "difference" else KINDS[name])(folder)
            made[name] = folder / "page.html"
            made[name].write_text(map_page(results, difference=name == "difference"), "utf-8")
        return made[name]

    return page


def _forced(browser, path: Path, scheme: str) -> Visit:
    seen = Visit(browser, path, dark=scheme == "dark")
    seen.page.emulate_media(forced_colors="active", color_scheme=scheme, reduced_motion="reduce")
    seen.page.reload()
    seen.page.wait_for_selector("html[data-ready=yes]")
    return seen


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["pair", "damaged"])
def test_forced_colours_leave_what_says_something(browser, pages, name, scheme):
    """Swatches, bars, cells and hatches keep their colours; words and lines have the system's."""
    plain = Visit(browser, pages(name), dark=scheme == "dark")
    forced = _forced(browser, pages(name), scheme)
    for which in ("#map .legend .swatch", ".stack i", "#what .times .swatch:not(.best)", "#costs .legend .swatch"):
        own = plain.page.evaluate(SWATCHES, which)
        seen = forced.page.evaluate(SWATCHES, which)
        assert len(own) > 1
        # The line of the best remedy has the colour of words.
        assert seen[:4] == own[:4]
        assert len(set(seen)) == len(set(own))
    hatched = any("hatched" in one for one in forced.page.evaluate(SWATCHES, "#map .legend .swatch"))
    assert hatched == (name == "damaged")
    cells = "() => document.querySelector('canvas.cells').toDataURL()"
    assert forced.run(cells) == plain.run(cells)
    colours = """() => {
      const probe = document.body.appendChild(document.createElement('i'));
      const system = (name) => { probe.style.color = name; return getComputedStyle(probe).color; };
      const found = [system('CanvasText'), system('Canvas')];
      probe.remove();
      const text = document.querySelector('#costs .xtitle');
      return [found, getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor,
              getComputedStyle(text).fill];
    }"""
    (text, ground), body, behind, axis = forced.run(colours)
    assert (body, behind, axis) == (text, ground, text)
    forced.page.locator(".map").first.focus()
    forced.page.keyboard.press("Shift+ArrowRight")
    outline = forced.run("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    assert forced.page.locator("#theme:visible").count() == 0  # it would set colours that are not ours to set
    box = forced.page.locator("#map .legend input").first
    assert box.evaluate("box => getComputedStyle(box).appearance") == "auto"  # the system shows whether it is ticked
    for visit in (plain, forced):
        assert visit.complaints == []
        visit.page.context.close()


@pytest.mark.parametrize("name", ["locked", "damaged", "fusion", "difference"])
def test_axe_finds_nothing(visit, pages, name):
    """Names, roles, contrasts and order, with every part and every table unfolded, and nodes chosen."""
    axe = WEB / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.is_file():
        pytest.skip("axe-core is not installed (npm ci in layoutscope/report/map/web)")
    seen = visit(pages(name), dark=name in ("damaged", "difference"))
    seen.run("() => { const m = layoutscope.maps[0]; m.selection.between(m.disk.start, m.disk.start + m.full); }")
    unfold(seen.page, "details")
    # Parts that were folded are drawn now, and have tables of their own.
    seen.page.wait_for_function(
        """() => {
          const all = [...document.querySelectorAll('.told')];
          for (const one of all) one.open = true;
          return all.every((one) => one.querySelector('table'));
        }"""
    )
    seen.run(axe.read_text("utf-8"))
    broken = seen.run("async () => (await axe.run()).violations.map((v) => [v.id, v.nodes.map((n) => n.html)])")
    assert broken == []


@pytest.mark.parametrize("name", ["pair", "locked", "damaged", "fusion", "difference"])
@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_everything_within_its_width(visit, pages, name, dark):
    """Nothing reaches over the edge, with every part unfolded; no legend lies over a picture; swatches differ."""
    seen = visit(pages(name), dark=dark, size=(390, 844))
    assert seen.page.locator(".band").first.bounding_box()["y"] < 844
    unfold(seen.page, "details")
    seen.page.wait_for_function("() => document.documentElement.scrollWidth <= 390")
    assert seen.page.locator(".js-plotly-plot .legend:visible").count() == 0
    for plot in seen.page.locator("#costs .plot, #walk .plot").all():
        shown = plot.evaluate("p => p._fullLayout.xaxis._length / p.clientWidth")
        assert shown > 0.45
    hues = seen.page.evaluate(SWATCHES, "#map .card:first-child .entry .swatch")
    assert len(hues) > 3
    assert len(set(hues)) == len(hues)
    assert seen.complaints == []


PAINTED_IN = """async ([png, hue]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const { width, height } = image, pen = new OffscreenCanvas(width, height).getContext('2d');
  pen.drawImage(image, 0, 0);
  const { data } = pen.getImageData(0, 0, width, height), columns = new Set();
  for (let i = 0; i < data.length; i += 4)
    if (hue.every((value, k) => Math.abs(data[i + k] - value) < 40)) columns.add((i / 4) % width);
  return [width, [...columns]];
}"""


@pytest.mark.parametrize("kind", ["damaged", "locked"])
def test_no_damage_is_too_narrow_for_a_phone(visit, pages, kind):
    """The band has more columns than a phone has points: what is damaged or locked is painted all the same."""
    seen = visit(pages(kind), size=(390, 844))
    (disk,) = disks(KINDS[kind](pages(kind).parent))
    (bad,) = (share for share in disk_shares(disk, from_layouts(disk.layouts)) if share.item.key == kind)
    hue = tuple(bytes.fromhex(bad.item.light.removeprefix("#")))
    band = base64.b64encode(seen.page.locator(".band").first.screenshot()).decode()
    span = seen.run("() => +document.querySelector('.band').dataset.span")
    width, columns = seen.page.evaluate(PAINTED_IN, [band, hue])
    places = bad.runs[:, 0] / span * width
    assert len(places) > 1
    assert all(np.abs(np.array(columns) - place).min() <= 2 for place in places)


def test_a_printed_difference_is_two_pages(visit, pages):
    """Sentence, band and what changed; then the map; in their colours, without controls, on white."""
    seen = visit(pages("difference"), dark=True)
    paper = seen.page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page[^s]", paper)) == 2
    seen.page.emulate_media(media="print")
    assert seen.page.locator("button:visible, select:visible, nav:visible, .told:visible, .help:visible").count() == 0
    assert seen.run("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert "moved" in seen.page.locator(".headline").inner_text()
    assert seen.page.locator(".map:visible").count() == 1
    assert seen.run("() => getComputedStyle(document.querySelector('.swatch')).printColorAdjust") == "exact"


@pytest.mark.parametrize("size", [(1400, 900), (794, 1123)])
def test_printed_cells_stay_in_their_box(visit, pages, size):
    """They were placed for the screen: on paper they are as large as their box, and cover nothing of what is below."""
    seen = visit(pages("pair"), size=size)
    seen.page.emulate_media(media="print")
    boxes = seen.run(
        """() => [...document.querySelectorAll('.cellbox')].map((box) =>
          [box, box.querySelector('.cells')].map((one) => { const { x, y, width, height } = one.getBoundingClientRect();
            return [x, y, width, height].map(Math.round).join(); }))"""
    )
    assert len(boxes) == 2
    assert all(cells == box for box, cells in boxes)
    assert seen.page.locator(".map .main-svg:visible").count() == 0
    assert seen.page.get_by_text("nodes by").first.is_hidden()


@pytest.mark.parametrize("name", ["pair", "locked", "fusion"])
def test_a_notebook_has_the_same(browser, tmp_path, name):
    """Search, keys, legend, choices and words work in its frame; only the link is not there, as it has no address."""
    results = KINDS[name](tmp_path)
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    complaints = []
    page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_default_timeout(READY_MS)
    page.set_content(layout_map(results)._repr_html_())
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready=yes]").wait_for()
    inner = page.frames[1]
    assert frame.get_by_text("How to use the map").count() == 1
    assert frame.get_by_role("button", name="copy link").count() == 0
    frame.locator(".map").first.focus()
    page.keyboard.press("Shift+ArrowDown")
    assert "bytes" in frame.locator(".hover").first.inner_text()
    inner.evaluate("() => { const m = layoutscope.maps[0]; m.selection.between(m.disk.start, m.disk.start + m.full); }")
    frame.locator(".chosen table").first.wait_for()
    frame.locator(".only").first.click()
    assert inner.evaluate("() => layoutscope.maps[0].hidden.size") > 0
    frame.locator("#map .told summary").first.click()
    frame.locator("#map .told tbody tr").first.wait_for()
    assert complaints == []
    page.close()
