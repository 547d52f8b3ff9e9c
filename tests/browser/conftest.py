"""A browser without network access, and pages made from real scans."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import numpy as np
import pytest

from layoutscope.api.map import map_page
from layoutscope.api.scan import scan

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "images"

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--use-gl=angle", "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]  # fmt: skip

READY_MS = 180_000
"""A page is ready in seconds; a machine that is busy with other tests takes longer."""


@pytest.fixture(scope="session")
def browser():
    """Return headless Chromium, driven by Playwright; skips where either is absent."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed (pip install -e '.[dev]')"
    )
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("Chromium is not installed")
    with (
        playwright.sync_playwright() as driver,
        driver.chromium.launch(executable_path=chromium, args=ARGUMENTS) as running,
    ):
        yield running


class Visit:
    """An open page, with its network requests and errors."""

    def __init__(
        self, browser, path, *, dark: bool = False, is_still: bool = True, fragment: str = "", size=(1366, 768)
    ) -> None:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce" if is_still else "no-preference",
        )
        context.set_default_timeout(READY_MS)
        self.page = context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: message.type == "error" and self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(path.as_uri() + fragment)
        self.page.wait_for_selector("html[data-ready=yes]")

    def run(self, script: str):
        """Evaluate JavaScript in the page."""
        return self.page.evaluate(script)


@pytest.fixture
def visit(browser):
    """Return a function that opens a page and waits until everything is drawn."""
    opened = []

    def open_page(path, **options) -> Visit:
        opened.append(Visit(browser, path, **options))
        return opened[-1]

    yield open_page
    for each in opened:
        each.page.context.close()


@pytest.fixture(scope="session")
def scans():
    """Return scans of the two committed images."""
    return {name: scan(FIXTURES / f"{name}-scattered.img.zst") for name in ("hfsplus", "apfs")}


@pytest.fixture(scope="session")
def pages(scans, tmp_path_factory):
    """Return their pages: each alone, and both together."""
    folder = tmp_path_factory.mktemp("pages")
    for name, chosen in {**{name: [one] for name, one in scans.items()}, "both": list(scans.values())}.items():
        (folder / f"{name}.html").write_text(map_page(chosen), "utf-8")
    return folder


def unfold(page, parts: str = "section > details") -> None:
    """Open folded parts, and wait until each of their plots is drawn."""
    page.evaluate("(parts) => document.querySelectorAll(parts).forEach((one) => { one.open = true; })", parts)
    page.wait_for_function(
        """() => [...document.querySelectorAll('section.scripted:not(#map) > details[open]')]
          .every((one) => one.dataset.filled)"""
    )
    for plot in page.locator(".card .plot").all():
        if plot.is_visible():
            plot.scroll_into_view_if_needed()
            page.wait_for_function("(plot) => plot.dataset.drawn === 'yes'", arg=plot.element_handle())


def drag(page, start, end) -> None:
    """Press the mouse at one place and release it at another."""
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=4)
    page.mouse.up()


CELLS = """([number, start, width, cells]) => {
  const { pyramid, disk } = layoutscope.detail.disks[number];
  const held = new Float64Array(pyramid.held(start, width, cells).flatMap((of) => Array.from(of)));
  const bytes = new Uint8Array(held.buffer);
  let text = '';
  for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return [disk.classes.map((c) => c.key), btoa(text)];
}"""


def cells_of(page, number: int, start: int, width: int, cells: int = 16384):
    """Return the classes of a disk, and their bytes in each of some ranges from a byte of the disk.

    Hundreds of thousands of numbers transfer quickly as one string; as objects they take a second each time.
    """
    keys, packed = page.evaluate(CELLS, [number, start, width, cells])
    return keys, np.frombuffer(base64.b64decode(packed)).reshape(len(keys), -1)


def show(page, low: float, high: float, **times: float) -> None:
    """Show a range of the disks, and optionally of time, and wait until it is drawn."""
    page.evaluate("(range) => layoutscope.view.show(range)", {"low": low, "high": high, **times})
    page.evaluate("() => layoutscope.view.done")


def range_of(page) -> dict[str, float]:
    """Return the visible range of disk and time."""
    return page.evaluate("() => layoutscope.view.range")


AXE = Path(__file__).resolve().parents[2] / "layoutscope/report/map/web/node_modules/axe-core/axe.min.js"


def assert_accessible(page) -> None:
    """Run axe-core on the visible page; skips if it is not installed."""
    if not AXE.is_file():
        pytest.skip("axe-core is not installed (npm ci in layoutscope/report/map/web)")
    page.evaluate(AXE.read_text("utf-8"))
    assert (
        page.evaluate("async () => (await axe.run()).violations.map((v) => [v.id, v.nodes.map((n) => n.html)])") == []
    )


COLOUR = "() => getComputedStyle(document.body).backgroundColor"


def assert_fits(seen, width: int) -> None:
    """Assert that an open page makes no request, logs no error, fits the window, is accessible, and has two themes."""
    assert [url for url in seen.requests if not url.startswith(("file:", "blob:", "data:"))] == []
    assert seen.complaints == []
    assert seen.run("() => document.documentElement.scrollWidth") <= width
    assert_accessible(seen.page)
    before = seen.run(COLOUR)
    seen.page.locator("#theme").click()
    assert seen.run(COLOUR) != before
