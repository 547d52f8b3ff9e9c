"""Pages of comparisons, series and drives in a browser: drawn at all sizes, without network."""

from __future__ import annotations

import pytest

import layoutscope
from layoutscope.report.plots import compare_page, drive_page, series_page
from tests.browser.conftest import FIXTURES, assert_fits, drag, unfold

LOOKS = """() => [...document.querySelectorAll('.legend .traces')].map((entry) => {
  const line = getComputedStyle(entry.querySelector('.legendlines path'));
  return [line.stroke, line.strokeDasharray];
})"""
RANGES = """() => {
  const { _fullLayout: layout } = document.querySelector('#figure > .plot');
  return ['yaxis', 'yaxis2', 'xaxis2', 'xaxis4'].map((name) => layout[name].range);
}"""


@pytest.fixture(scope="module")
def plots(tmp_path_factory):
    """Write the pages of all drives, of a comparison of two disks, and of a series of both."""
    folder = tmp_path_factory.mktemp("plots")
    images = [FIXTURES / f"{name}-scattered.img.zst" for name in ("hfsplus", "apfs")]
    (folder / "drives.html").write_text(drive_page(layoutscope.drives()), "utf-8")
    (folder / "compare.html").write_text(compare_page(layoutscope.compare(images, drives="sata-ssd")), "utf-8")
    series = layoutscope.series(images, drives="sata-ssd")
    (folder / "series.html").write_text(series_page(series), "utf-8")
    (folder / "series.charts").write_text(str(len(series.found.times) + len(series.found.metrics)))
    return folder


@pytest.mark.parametrize(("size", "dark"), [((1366, 768), False), ((390, 844), True)])
@pytest.mark.parametrize("name", ["drives", "compare", "series"])
def test_everything_is_drawn_within_the_window(visit, plots, name, size, dark):
    """All charts and rows have their pictures, no button shares them, and the page fits the window."""
    seen = visit(plots / f"{name}.html", size=size, dark=dark)
    unfold(seen.page)
    charts = {"drives": 2, "compare": 0, "series": int((plots / "series.charts").read_text())}
    assert seen.page.locator(".card .plot").count() == charts[name]
    assert seen.page.locator("#figure .swalk").count() == (0 if name == "drives" else 2)
    assert seen.page.locator(".modebar-btn:visible").count() == 0
    assert_fits(seen, size[0])


@pytest.mark.parametrize("name", ["compare", "series"])
def test_a_drag_zooms_all_rows_and_a_double_click_goes_back(visit, plots, name):
    """All rows share one axis of positions, and one of times."""
    seen = visit(plots / f"{name}.html")
    whole = seen.run(RANGES)
    assert whole[0] == whole[1]
    assert whole[2] == whole[3]
    box = seen.page.locator("#figure > .plot").bounding_box()
    drag(seen.page, (box["x"] + 400, box["y"] + 80), (box["x"] + 600, box["y"] + 160))
    seen.page.wait_for_function(f"(whole) => JSON.stringify(({RANGES})()) !== JSON.stringify(whole)", arg=whole)
    near = seen.run(RANGES)
    assert near[0] == near[1] != whole[0]
    assert near[2] == near[3] != whole[2]
    seen.page.mouse.dblclick(box["x"] + 500, box["y"] + 120)
    seen.page.wait_for_function(f"(whole) => JSON.stringify(({RANGES})()) === JSON.stringify(whole)", arg=whole)


def test_all_drives_are_told_apart(visit, plots):
    """There are twice as many drives as colors: color and dash identify a drive, and the legend shows them all."""
    seen = visit(plots / "drives.html")
    unfold(seen.page)
    looks = seen.run(LOOKS)
    assert len(looks) == len(layoutscope.drives())
    assert len(set(map(tuple, looks))) == len(looks)
    assert seen.page.locator(".legend .scrollbar").evaluate("(bar) => +bar.getAttribute('height') || 0") == 0
