"""Each page is listed once, and the checks of the built pages find planted faults."""

from __future__ import annotations

import re

import pytest

from tests.docs.imports import ROOT
from tests.docs.site import faults

DOCS = ROOT / "docs"
RESULTS = ROOT / "layoutscope" / "results"
PAGE = "<html><head>{head}</head><body><p id='here'>text</p>{body}</body></html>"


def _names(folder, first):
    """Return the pages of a folder but the first, and the first pages of the folders in it."""
    pages = [path.name for path in folder.iterdir() if path.suffix in (".md", ".ipynb") and path.name != first]
    return sorted([*pages, *(str(path.relative_to(folder)) for path in folder.glob("*/README.md"))])


@pytest.mark.parametrize(("folder", "first"), [(".", "index.md"), ("reference", "README.md"), ("dev", "README.md")])
def test_every_page_is_listed_once(folder, first):
    """The first page of a folder lists each other page, and the first pages of its folders."""
    text = (DOCS / folder / first).read_text(encoding="utf-8")
    listed = re.findall(r"\]\(([^)#]+)\)", text.split("\n## ", 1)[-1])
    assert sorted(listed) == _names(DOCS / folder, first)


def test_there_are_few_pages_to_read():
    """About 25 pages for users in four groups; everything else is in the reference or for developers."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert len(_names(DOCS, "index.md")) <= 25
    assert re.findall(r"(?m)^## (.+)$", text) == ["Start", "Tasks", "Concepts", "Evidence", "Apart"]
    assert len([path for path in (DOCS / "dev").glob("*.md") if path.name != "README.md"]) <= 10


def test_every_module_of_results_is_on_their_page():
    """All results are described, in whichever module they are."""
    listed = re.findall(
        r"^\.\. automodule:: (\S+)$", (DOCS / "reference" / "results.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert listed == sorted(f"layoutscope.results.{path.stem}" for path in RESULTS.glob("[!_]*.py"))


def site(tmp_path, head="", body=""):
    """Build a page with something in its head or body beside another page."""
    (tmp_path / "other.html").write_text(PAGE.format(head="", body=""))
    (tmp_path / "page.html").write_text(PAGE.format(head=head, body=body))
    return faults(tmp_path.resolve())


def test_links_to_pages_and_places_hold(tmp_path):
    """Links to a page, to a place in it, to a place in the same page, and to other hosts are allowed."""
    body = "<a href='other.html#here'>1</a><a href='#here'>2</a><a href='https://example.org/x#y'>3</a>"
    assert site(tmp_path, body=body) == []


def test_a_link_to_nothing_is_found(tmp_path):
    """A page that is not there, and a place that no page has."""
    body = "<a href='another.html'>1</a><a href='other.html#there'>2</a><a href='#there'>3</a>"
    assert site(tmp_path, body=body) == [
        "page.html: leads to another.html",
        "page.html: leads to other.html#there",
        "page.html: leads to #there",
    ]


def test_what_a_network_would_be_needed_for_is_found(tmp_path):
    """Scripts, styles and pictures from elsewhere are; the address that a page gives itself is not."""
    head = (
        "<script src='https://example.org/a.js'></script><link rel='stylesheet' href='//example.org/a.css'>"
        "<link rel='canonical' href='https://example.org/'>"
    )
    assert site(tmp_path, head=head, body="<img src='http://example.org/a.png'>") == [
        "page.html: loads https://example.org/a.js",
        "page.html: loads //example.org/a.css",
        "page.html: loads http://example.org/a.png",
    ]
