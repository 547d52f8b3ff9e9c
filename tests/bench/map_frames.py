"""How quick pages of maps are in Chromium: first paint, ready, frames while one moves, search, choosing all nodes.

``python -m tests.bench.map_frames PAGE.html…`` prints the figures of pages that ``layoutscope map`` made before. CPU is
that of the page's main thread alone, which is what a busy machine does not change; the other times are by the clock.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from playwright.sync_api import Browser, CDPSession

SIZE = {"width": 1280, "height": 720}
STEPS = 12
WORK = ("ThreadControllerImpl::RunTask", "BlinkScheduler_PerformMicrotaskCheckpoint")
SETTLED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
CHOOSE_ALL = """() => {
  const { selection, disk } = layoutscope.detail.drawn;
  selection.between(disk.start, disk.start + disk.size);
}"""
TIMES = """() => Object.fromEntries(
  ['first-contentful-paint', 'figure', 'ready'].map((name) => [name, performance.getEntriesByName(name)[0].startTime])
)"""
FIND = """async (text) => {
  const { files } = layoutscope.detail.drawn.owners;
  const begin = performance.now();
  const found = await files.find(text, 12);
  return [performance.now() - begin, found.length];
}"""


class Watched:
    """An open page whose main thread is watched."""

    def __init__(self, browser: Browser, path: Path) -> None:
        self.browser = browser
        self.page = browser.new_page(viewport=SIZE, reduced_motion="reduce")
        self.session: CDPSession = self.page.context.new_cdp_session(self.page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.loaded = self.longest(lambda: self._open(path))

    def _open(self, path: Path) -> None:
        self.page.goto(path.resolve().as_uri(), wait_until="commit")
        self.page.wait_for_selector("html[data-ready=yes]", timeout=120_000)

    def spent(self) -> float:
        """Return the CPU seconds of the main thread so far."""
        metrics = self.session.send("Performance.getMetrics")["metrics"]
        return next(float(item["value"]) for item in metrics if item["name"] == "TaskDuration")

    def cost(self, act: Callable[[], Any]) -> float:
        """Return the CPU milliseconds that an act takes, until the next frame is drawn."""
        before = self.spent()
        act()
        self.page.evaluate(SETTLED)
        return 1000 * (self.spent() - before)

    def longest(self, act: Callable[[], Any]) -> tuple[float, float]:
        """Return CPU milliseconds of an act in all, and of the longest piece in which the page hears nothing."""
        self.browser.start_tracing(page=self.page, categories=["toplevel", "devtools.timeline", "__metadata"])
        cost = self.cost(act)
        events = json.loads(self.browser.stop_tracing())["traceEvents"]
        mains = {
            (event["pid"], event["tid"])
            for event in events
            if event.get("name") == "thread_name" and event["args"]["name"] == "CrRendererMain"
        }
        pieces = [
            event["tdur"]
            for event in events
            if event.get("name") in WORK and "tdur" in event and (event["pid"], event["tid"]) in mains
        ]
        return cost, max(pieces) / 1000


def _moves(seen: Watched) -> dict[str, list[float]]:
    """Return CPU milliseconds of each step of what one does with the figure, by a real pointer and keys."""
    plot = seen.page.locator("#figure > .plot")
    box = plot.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + min(box["height"] / 2, 200)
    mouse, keys = seen.page.mouse, seen.page.keyboard
    mouse.move(x, y)
    keys.down("Control")
    found = {
        "wheel": [seen.cost(lambda: mouse.wheel(0, -100)) for _ in range(STEPS)]
        + [seen.cost(lambda: mouse.wheel(0, 100)) for _ in range(STEPS)]
    }
    keys.up("Control")
    plot.focus()
    pressed = ["+", "ArrowUp", "ArrowDown", "-", "+", "+", "ArrowUp", "-", "-", "0", "Backspace"]
    found["keys"] = [seen.cost(lambda key=key: keys.press(key)) for key in pressed]
    found["nothing"] = [seen.cost(lambda: None) for _ in range(STEPS)]
    found["hover"] = [seen.cost(lambda at=at: mouse.move(x + 3 * at, y + at)) for at in range(STEPS)]
    return found


def _told(times: Sequence[float]) -> str:
    ordered = sorted(times)
    return f"median {ordered[len(ordered) // 2]:.1f}, 95 % {ordered[int(0.95 * (len(ordered) - 1))]:.1f} ms"


def _loading(seen: Watched) -> str:
    first, drawn, ready = seen.page.evaluate(TIMES).values()
    cpu, longest = seen.loaded
    return (
        f"first paint after {first / 1000:.2f} s, figure {drawn / 1000:.2f}, all {ready / 1000:.2f}; {cpu:.0f} ms of "
        f"CPU, at most {longest:.0f} at once"
    )


def _searching(seen: Watched) -> Iterator[str]:
    if not seen.page.evaluate("() => layoutscope.detail.drawn.disk.entries.packed !== null"):
        return
    cpu, longest = seen.longest(lambda: seen.page.evaluate("() => layoutscope.detail.drawn.owners.files.whole"))
    yield f"the rest of the names: {cpu:.0f} ms of CPU, at most {longest:.0f} at once"
    for text in ("no such name", "99", "d0095349/f0", "0/f", "f0999999.dat"):
        wall, many = seen.page.evaluate(FIND, text)
        yield f"search of {text!r}: {many} found in {wall:.0f} ms"


def figures(browser: Browser, path: Path) -> Iterator[str]:
    """Tell what a page takes, in lines."""
    seen = Watched(browser, path)
    yield f"{path.name}: {path.stat().st_size / 1e6:.2f} MB; {_loading(seen)}"
    yield from _searching(seen)
    for name, times in _moves(seen).items():
        yield f"{name}: {_told(times)}"
    for _ in range(2):
        cpu, longest = seen.longest(lambda: seen.page.evaluate(CHOOSE_ALL))
        yield f"all nodes chosen: {cpu:.0f} ms of CPU, at most {longest:.0f} at once"
    seen.page.close()


def main() -> None:
    """Print the figures of each page."""
    from playwright.sync_api import sync_playwright

    from tests.browser.conftest import ARGUMENTS

    with (
        sync_playwright() as driver,
        driver.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS) as browser,
    ):
        for path in map(Path, sys.argv[1:]):
            for line in figures(browser, path):
                print(line)  # noqa: T201


if __name__ == "__main__":
    main()
