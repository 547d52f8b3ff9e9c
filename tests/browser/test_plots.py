"""Pages of curves in a browser: nothing leaves them, every button does something, every curve has a look of its own."""

from __future__ import annotations

import pytest

import layoutscope
from layoutscope.report.plots import drive_page, series_page
from tests.browser.conftest import FIXTURES

BUTTONS = "() => [...document.querySelectorAll('.modebar-btn')].map((button) => button.dataset.title)"
LOOKS = """() => [...document.querySelectorAll('.legend .traces')].map((entry) => {
  const line = getComputedStyle(entry.querySelector('.legendlines path'));
  return [line.stroke, line.strokeDasharray];
})"""


@pytest.fixture(scope="module")
def plots(tmp_path_factory):
    """The page of all drives, and that of a series."""
    folder = tmp_path_factory.mktemp("plots")
    (folder / "drives.html").write_text(drive_page(layoutscope.drives()), "utf-8")
    found = layoutscope.series([FIXTURES / "hfsplus-scattered.img.zst"], drives="sata-ssd")
    (folder / "series.html").write_text(series_page(found), "utf-8")
    return folder


@pytest.mark.parametrize("name", ["drives", "series"])
def test_no_chart_can_be_sent_anywhere(visit, plots, name):
    """The bar above the curves has no button that shares them, and none that selects what nobody listens to."""
    seen = visit(plots / f"{name}.html")
    buttons = seen.run(BUTTONS)
    assert "Zoom" in buttons
    assert not [title for title in buttons if "Share" in title or "Select" in title]
    assert [url for url in seen.requests if not url.startswith(("file:", "blob:"))] == []
    assert seen.complaints == []


def test_all_drives_are_told_apart(visit, plots):
    """There are twice as many as colours: colour and dashes are one drive's, and the legend shows all of them."""
    seen = visit(plots / "drives.html")
    looks = seen.run(LOOKS)
    assert len(looks) == len(layoutscope.drives())
    assert len(set(map(tuple, looks))) == len(looks)
    assert seen.page.locator(".legend .scrollbar").evaluate("(bar) => +bar.getAttribute('height') || 0") == 0
