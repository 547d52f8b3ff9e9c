"""Pictures of the map's page for README and docs, made from the committed images: ``python -m tests.docs.pictures``.

Needs Chromium and Playwright (``pip install -e '.[dev]'``). ``tests/browser/test_pictures.py`` compares them with the
page as it is.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from layoutscope.api.map import map_page
from layoutscope.api.scan import scan
from tests.browser.conftest import ARGUMENTS, Visit

HOUSE = Path(__file__).resolve().parents[2]
PICTURES = HOUSE / "docs" / "pictures"
IMAGES = [HOUSE / "fixtures" / "images" / f"{name}-scattered.img.zst" for name in ("hfsplus", "apfs")]

SIZES = {"laptop": (1280, 720), "desktop": (1920, 1080), "phone": (390, 844)}

SHOWN = [("laptop", False), ("laptop", True), ("desktop", False), ("desktop", True), ("phone", False), ("phone", True)]
"""Sizes of the window, and whether it is dark."""


def name_of(size: str, *, dark: bool) -> str:
    """Name the file of a picture."""
    return f"map-{size}-{'dark' if dark else 'light'}.png"


def take(browser: object, page: Path, size: str, *, dark: bool) -> bytes:
    """Open a page in a window of a size, and return what is seen as PNG."""
    seen = Visit(browser, page, dark=dark, size=SIZES[size])
    seen.page.wait_for_timeout(300)
    taken = seen.page.screenshot()
    seen.page.context.close()
    return taken


def write_page(folder: Path) -> Path:
    """Write the page of both committed images."""
    path = folder / "map.html"
    path.write_text(map_page([scan(image) for image in IMAGES]), "utf-8")
    return path


def main() -> None:
    """Write all pictures."""
    from tempfile import TemporaryDirectory

    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        page = write_page(Path(folder))
        for size, dark in SHOWN:
            (PICTURES / name_of(size, dark=dark)).write_bytes(take(browser, page, size, dark=dark))
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
