"""Checks built pages: every link within them leads to a page and a place that are there; nothing needs a network.

``python -m tests.docs.site FOLDER`` prints what does not hold and ends with 1 if anything does not. Links elsewhere are
left alone: what a reader clicks may lead outside, what a page loads may not.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "source": "srcset", "iframe": "src", "link": "href"}
"""Attributes whose targets a browser loads by itself."""


class Page(HTMLParser):
    """What one page leads to, what it loads, and the places in it that can be led to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take down what a tag names."""
        attributes = dict(attrs)
        self.places.update(name for name in (attributes.get("id"), attributes.get("name")) if name)
        if tag == "a" and attributes.get("href"):
            self.links.append(str(attributes["href"]))
        target = attributes.get(LOADED.get(tag, ""))
        if target and attributes.get("rel") != "canonical":
            self.loaded.append(target)


def faults(folder: Path) -> list[str]:
    """List the links of built pages that lead nowhere, and what they would load from a network."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(folder).as_posix()
        abroad = [target for target in page.loaded if urlsplit(target).netloc]
        found += [f"{name}: loads {target}" for target in abroad]
        here = [target for target in page.links + page.loaded if not (urlsplit(target).scheme or target in abroad)]
        found += [f"{name}: leads to {target}" for target in here if not _is_there(path, target, pages)]
    return found


def _is_there(path: Path, target: str, pages: dict[Path, Page]) -> bool:
    """Return whether a link's file is there, and the place in it."""
    parts = urlsplit(target)
    led = Path(path.parent, unquote(parts.path)).resolve() if parts.path else path
    place = unquote(parts.fragment)
    return led.is_file() and (not place or led not in pages or place in pages[led].places)


def main() -> int:
    """Print the faults of a folder of pages."""
    folder = Path(sys.argv[1]).resolve()
    found = faults(folder)
    print("\n".join(found) or f"{len(list(folder.rglob('*.html')))} pages, no link leads nowhere")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
