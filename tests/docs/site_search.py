"""Asks the search of built pages what users ask: each answer must be among the first three places, from files alone.

``python -m tests.docs.site_search FOLDER`` prints what is not, and ends with 1 if anything is not. Needs Chromium and
Playwright; without them it says so and ends with 0.
"""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FIRST = 3

ASKED = {
    "extent overflow": "reference/spec-coverage/hfsplus.html#extents-overflow-file-key",
    "omap": "reference/grammars/apfs-container.html#omap-phys",
    "object map": "concepts.html#the-object-map",
    "exit code 3": "reference/commands.html#exit-code-3",
    "seek curve": "reference/commands.html#measure.plot",
    "FileVault": "encrypted-and-fusion.html#",
    "spotlight": "workloads.html#record-one-on-a-mac",
    "--drive": "reference/commands.html#scan.drive",
    "node-unreadable": "reference/findings.html#node-unreadable",
    "clump-count": "reference/metrics.html#clump-count",
    "nodes.key_rank": "reference/tables.html#nodes.key_rank",
    "locator_row": "reference/tables.html#nodes.locator_row",
    "read_ahead_bytes": "reference/hosts.html#read_ahead_bytes",
    "generic-7200": "drives.html#generic-7200",
    "fts": "workloads.html#fts",
    "T2": "image-a-mac-disk.html#",
    "time machine": "workloads.html#differences-between-systems.backup-events",
    "nx_superblock": "reference/grammars/apfs-container.html#nx-superblock",
    "layoutscope.predict": "reference/library.html#layoutscope-predict",
    "LAYOUTSCOPE_PASSWORD": "reference/commands.html#layoutscope_password",
    "defragment": "remedies.html",
    "how to image": "image-a-mac-disk.html",
    "scatter": "glossary.html#glossary.scatter",
}
"""What is typed, and how the address of a right answer begins."""

NONSENSE = "qwzxkjv"


def answers(page: Any, folder: Path, question: str) -> list[str]:
    """Return the places that are found of a question, the best first.

    Parameters
    ----------
    page : playwright.sync_api.Page
        A tab of a browser.
    folder : pathlib.Path
        Built pages.
    question : str
        What is typed into the field.
    """
    page.goto(f"{(folder / 'search.html').as_uri()}?q={quote(question)}")
    page.wait_for_selector("#search-results h2")
    found = page.evaluate("[...document.querySelectorAll('#search-results li a')].map((a) => a.getAttribute('href'))")
    return [str(each) for each in found]


def faults(ask: Callable[[str], list[str]]) -> Iterator[str]:
    """Yield questions without a right answer among the first, with the answers there, and answers to nonsense."""
    for question, wanted in ASKED.items():
        first = ask(question)[:FIRST]
        if not any(each.startswith(wanted) for each in first):
            yield f"{question}: {wanted} is not among {', '.join(first) or 'nothing'}"
    if found := ask(NONSENSE):
        yield f"{NONSENSE}: {found[0]}"


def main() -> int:
    """Ask all questions."""
    folder = Path(sys.argv[1]).resolve()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None or find_spec("playwright") is None:
        print("the search was not asked anything: that takes Chromium and Playwright")  # noqa: T201
        return 0
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        found = list(faults(lambda question: answers(page, folder, question)))
        browser.close()
    print("\n".join(found) or f"{len(ASKED)} questions, each answered among the first {FIRST}")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
