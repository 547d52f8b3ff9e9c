"""Past defects of map pages, each as a test of its whole kind."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from fixtures.apfs.plan import VolumePlan
from fixtures.apfs.scenarios import SCENARIOS, container, many
from fixtures.apfs.writer import write
from layoutscope.api.map import map_page
from layoutscope.api.scan import scan
from tests.browser.conftest import READY_MS, Visit, drag, range_of, show, unfold

MANY = container(*(VolumePlan(f"Volume {number}", many(9)) for number in range(100)), block_count=3 * 131072)


@pytest.fixture(scope="module")
def four(scans):
    """Return a page of four disks."""
    return map_page([*scans.values(), *scans.values()])


def _all_drawn(seen, least: int = 4) -> None:
    """Assert that every part unfolds, every visible plot is drawn, and WebGL is not mentioned."""
    unfold(seen.page)
    plots = seen.page.locator(".card .plot")
    assert plots.count() >= least
    for plot in plots.all():
        if plot.is_visible():
            plot.scroll_into_view_if_needed()
            seen.page.wait_for_function("(p) => p.dataset.drawn === 'yes'", arg=plot.element_handle())
            assert plot.locator(".main-svg").count() >= 1
    assert "WebGL" not in seen.page.locator("main").inner_text()
    assert seen.run("() => document.querySelectorAll('canvas').length") <= 4
    assert seen.complaints == []


@pytest.mark.parametrize("name", ["four", "volumes", "many"])
def test_all_charts_are_drawn_however_many_there_are(visit, four, tmp_path, name):
    """Four disks, three volumes of one container, and a set of many volumes: each chart has its picture."""
    if name == "four":
        (tmp_path / "page.html").write_text(four, "utf-8")
    else:
        write(SCENARIOS["volumes"] if name == "volumes" else MANY, tmp_path / "disk.img")
        (tmp_path / "page.html").write_text(map_page([scan(tmp_path / "disk.img")]), "utf-8")
    seen = visit(tmp_path / "page.html")
    assert len(seen.page.locator("h1").inner_text()) < 300
    _all_drawn(seen, 1 if name == "many" else 4)


def test_charts_are_drawn_where_there_is_no_webgl(pages):
    """Virtual machines often have none."""
    pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("Chromium is not installed")
    script = (
        "import sys; from pathlib import Path; from playwright.sync_api import sync_playwright\n"
        "from tests.browser.conftest import ARGUMENTS, Visit\n"
        "from tests.browser.test_map_defects import _all_drawn\n"
        "with sync_playwright() as d:\n"
        "    b = d.chromium.launch(executable_path=sys.argv[1], args=[*ARGUMENTS, '--disable-3d-apis'])\n"
        "    _all_drawn(Visit(b, Path(sys.argv[2])))\n"
    )
    command = [sys.executable, "-c", script, chromium, pages / "both.html"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("name", ["apfs", "hfsplus"])
def test_every_leaf_is_a_spot(visit, pages, name):
    """A chart of order on disk has as many points as leaves in its title, with or without a snapshot."""
    seen = visit(pages / f"{name}.html")
    unfold(seen.page, "#order > details")
    plots = seen.page.locator("#order .plot").all()
    titles = seen.page.locator("#order h3").all_inner_texts()
    assert len(plots) == len(titles) > 1
    for plot, title in zip(plots, titles, strict=True):
        plot.scroll_into_view_if_needed()
        seen.page.wait_for_function("(p) => p.dataset.drawn === 'yes'", arg=plot.element_handle())
        count = int(title.rpartition(": ")[2].split()[0].replace(",", ""))
        assert plot.locator(".trace.scatter path.point").count() == count


def test_the_wheel_scrolls_the_page(visit, pages):
    """Over the figure and cells it scrolls to the end of the page, and zooms nothing."""
    seen = visit(pages / "both.html")
    before = range_of(seen.page)
    seen.page.mouse.move(500, 400)
    for _ in range(40):
        seen.page.mouse.wheel(0, 120)
        seen.page.wait_for_timeout(5)
    seen.page.wait_for_function("() => scrollY + innerHeight >= document.documentElement.scrollHeight - 2")
    assert range_of(seen.page) == before


def _wheel(seen, dx: float, dy: float) -> None:
    seen.page.keyboard.down("Control")
    seen.page.mouse.wheel(dx, dy)
    seen.page.keyboard.up("Control")
    seen.page.wait_for_timeout(40)
    seen.run("() => layoutscope.view.done")


def test_a_trackpad_zooms_smoothly_and_never_past_the_limit(visit, pages):
    """Small movements zoom a little, horizontal ones not at all, and at the limits nothing moves."""
    seen = visit(pages / "apfs.html")
    box = seen.page.locator("#figure > .plot").bounding_box()
    seen.page.mouse.move(box["x"] + 600, box["y"] + 150)
    whole = range_of(seen.page)
    for _ in range(10):
        _wheel(seen, 0, -2)
    size = range_of(seen.page)["high"] - range_of(seen.page)["low"]
    assert 0.9 < size / whole["high"] < 0.95
    before = range_of(seen.page)
    _wheel(seen, -60, 0)
    assert range_of(seen.page) == before
    show(seen.page, whole["low"], whole["high"])
    _wheel(seen, 0, 400)
    assert range_of(seen.page) == whole
    for _ in range(14):
        _wheel(seen, 0, -400)
    nearest = range_of(seen.page)
    for _ in range(3):
        _wheel(seen, 0, -400)
        seen.page.locator("#figure > .plot").press("+")
    assert range_of(seen.page) == nearest
    assert seen.run("() => layoutscope.detail.painted.length") <= 80
    assert seen.run("() => layoutscope.detail.cell") == 4096


@pytest.fixture
def phone(browser, pages):
    """Open a page on a phone; return it, its session for touches, and the box of the figure."""
    context = browser.new_context(has_touch=True, is_mobile=True, viewport={"width": 390, "height": 844})
    context.set_default_timeout(READY_MS)
    page = context.new_page()
    page.goto((pages / "apfs.html").as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    yield page, context.new_cdp_session(page), page.locator("#figure > .plot").bounding_box()
    context.close()


def test_a_finger_scrolls_past_the_figure_and_reads_by_a_tap(phone):
    """A swipe leaves the view unchanged; a tap shows the text for its place."""
    page, device, box = phone
    before = range_of(page)
    x, y = box["x"] + 150, box["y"] + 250
    for kind, at in (("touchStart", y), *(("touchMove", y - step * 20) for step in range(1, 12))):
        device.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": at}]})
    device.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_function("() => scrollY > 50")
    assert range_of(page) == before
    page.evaluate("() => scrollTo(0, 0)")
    page.touchscreen.tap(box["x"] + 70, box["y"] + 200)
    page.locator(".tip:visible").first.wait_for()
    assert "bytes" in page.locator(".tip:visible").first.inner_text()


def test_two_fingers_zoom(phone):
    """Spreading zooms in around the fingers, pinching zooms out; the page keeps its scale."""
    page, device, box = phone
    whole = range_of(page)
    x, y = box["x"] + 200, box["y"] + 220

    def touch(kind: str, *apart: int) -> None:
        points = [{"x": x, "y": y + way * each, "id": number} for each in apart for number, way in ((0, -1), (1, 1))]
        device.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        page.evaluate("() => new Promise(requestAnimationFrame)")

    touch("touchStart", 20)
    for apart in range(25, 85, 5):
        touch("touchMove", apart)
    page.evaluate("() => layoutscope.view.done")
    near = range_of(page)
    assert (whole["high"] - whole["low"]) / (near["high"] - near["low"]) == pytest.approx(4, rel=0.1)
    for apart in range(80, 15, -5):
        touch("touchMove", apart)
    touch("touchEnd")
    page.evaluate("() => layoutscope.view.done")
    assert range_of(page)["high"] - range_of(page)["low"] == pytest.approx(whole["high"] - whole["low"], rel=0.1)
    assert page.evaluate("() => visualViewport.scale") == 1


STALE = (
    "as many files", "per 1,000 entries", "the upright line", "nodes by", "In words", "choose none",
    "What the map answers", "Hilbert", "snake", "place on disk", "as slow as the drive", "this up to twice",
)  # fmt: skip


def test_no_word_of_the_old_page_is_left(visit, pages):
    """Terms that newcomers did not understand are absent; spelling matches the rest of the tool."""
    seen = visit(pages / "both.html")
    unfold(seen.page, "details")
    text = seen.run("() => document.querySelector('main').innerText").partition("The report's tables.")[0]
    assert [word for word in STALE if word in text] == []


def test_a_page_may_make_no_code_of_strings(pages, visit):
    """Its policy allows scripts of the page, but no evaluation of strings."""
    text = (pages / "both.html").read_text("utf-8")
    assert "unsafe-eval" not in text.partition("</head>")[0]
    seen = visit(pages / "apfs.html")
    # Code that the driver itself evaluates is exempt from the policy.
    seen.run(
        """() => {
          const script = document.createElement('script');
          const made = "new Function('return 1')(); document.title = 'ran'";
          const act = `try { ${made}; } catch (e) { document.title = e.name; }`;
          script.textContent = `setTimeout(() => { ${act} });`;
          document.body.append(script);
        }"""
    )
    seen.page.wait_for_function("() => /ran|Error/.test(document.title)")
    assert seen.page.title() == "EvalError"


def test_plots_are_let_go_when_they_are_out_of_sight(browser, pages):
    """A panel is drawn when it comes into view, and purged when it leaves."""
    seen = Visit(browser, pages / "both.html")
    unfold(seen.page)
    seen.run("() => scrollTo(0, document.documentElement.scrollHeight)")
    first = seen.page.locator("#directories .plot").first
    seen.page.wait_for_function("(p) => p.dataset.drawn === 'no'", arg=first.element_handle())
    assert first.locator(".main-svg").count() == 0
    first.scroll_into_view_if_needed()
    seen.page.wait_for_function("(p) => p.dataset.drawn === 'yes'", arg=first.element_handle())
    seen.page.context.close()


def test_cells_are_zoomed_after_they_were_out_of_sight(visit, pages):
    """A drag over them zooms after they were removed and drawn again."""
    seen = visit(pages / "both.html")
    plot = seen.page.locator("#map .plot")
    for _ in range(2):
        plot.scroll_into_view_if_needed()
        seen.page.wait_for_function("(p) => p.dataset.drawn === 'yes'", arg=plot.element_handle())
        before = range_of(seen.page)
        box = plot.bounding_box()
        drag(seen.page, (box["x"] + 200, box["y"] + 60), (box["x"] + 600, box["y"] + 140))
        seen.page.wait_for_function(
            "(size) => layoutscope.view.range.high - layoutscope.view.range.low < size / 2",
            arg=before["high"] - before["low"],
        )
        seen.run("() => layoutscope.view.show(layoutscope.view.whole())")
        seen.run("() => layoutscope.view.done")
        unfold(seen.page)
        seen.run("() => scrollTo(0, document.documentElement.scrollHeight)")
        seen.page.wait_for_function("(p) => p.dataset.drawn === 'no'", arg=plot.element_handle())
