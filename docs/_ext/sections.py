"""Search by section: each heading and each row of a table can be found and led to, without network, from files, too.

Sphinx's own search leads to the tops of pages, and most of what is looked up here stands in a row of a long table: a
code, a metric, a column, an option. So rows get places of their own as pages are read, and when all are written a list
of all places is put beside ``sections.js``, which searches it on the search page in place of Sphinx's script.

Columns of sentences and short names are marked as such, for narrow windows.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from docutils import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

LIST = "sections-list.js"
PLACE = re.compile(r'<a id="([^"]+)">')
LONGEST_NAME = 60
"""Letters of a first cell that is a name; a longer one is a sentence, whose row is part of its section's text."""
LONGEST_PIECE = 30
"""Letters of a name that is not broken in two lines."""


class Place(NamedTuple):
    """Something that a search can lead to.

    Attributes
    ----------
    page : str
        Name of the page, without its ending.
    anchor : str
        Place in the page; empty at its top.
    title : str
        What it is called: its heading, or the name in its row.
    around : str
        The headings above it, the page's first.
    text : str
        What stands there, up to the next place.
    """

    page: str
    anchor: str
    title: str
    around: str
    text: str


def name_rows(_app: Sphinx, document: nodes.document) -> None:
    """Give each row of a table a place, made of its section and its first cell, unless it names one itself."""
    taken = set(document.ids)
    for row in document.findall(nodes.row):
        name = name_of(row)
        if not name or row["ids"] or anchor_of(row):
            continue
        section = next((each for each in _above(row) if isinstance(each, nodes.section)), None)
        first = section["ids"][0] if section and section["ids"] else "top"
        place = f"{first}.{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}"
        if place not in taken:
            row["ids"].append(place)
            taken.add(place)


def mark_cells(_app: Sphinx, document: nodes.document) -> None:
    """Mark columns of sentences, which a narrow window would make a word wide, and names, which stay in one piece."""
    for group in document.findall(nodes.tgroup):
        rows = [row for body in group.findall(nodes.tbody) for row in body]
        for column in zip(*rows, strict=False):
            said = max(len(_plain(cell)) for cell in column) > LONGEST_NAME
            for cell in column:
                cell["classes"] += ["said"] if said else ["name"] if len(_plain(cell)) <= LONGEST_PIECE else []


def name_of(row: nodes.row) -> str:
    """Return what a row of a table's body is about: the place it names, or its first cell if that is a name."""
    if not isinstance(row.parent, nodes.tbody):
        return ""
    text, anchor = _plain(row[0]), anchor_of(row)
    if anchor and anchor != text.lower():
        return anchor
    return text if len(text) <= LONGEST_NAME and re.search(r"[A-Za-z]", text) else ""


def anchor_of(row: nodes.row) -> str:
    """Return the place that a row names itself, as a page may do in HTML; empty where it names none."""
    found = (PLACE.search(raw.astext()) for raw in row.findall(nodes.raw))
    return next((each[1] for each in found if each), "")


def _above(node: nodes.Node) -> Iterator[nodes.Element]:
    while node.parent is not None:
        node = node.parent
        yield node


def places(page: str, document: nodes.document) -> Iterator[Place]:
    """List what a search can lead to on a page."""
    for section in document.findall(nodes.section):
        above = [each for each in _above(section) if isinstance(each, nodes.section)]
        around = " > ".join(_title(each) for each in reversed(above))
        anchor = section["ids"][0] if above else ""
        own = (child for child in section if not isinstance(child, nodes.section | nodes.title))
        yield Place(page, anchor, _title(section), around, " ".join(_plain(child) for child in own))
        within = f"{around} > {_title(section)}" if around else _title(section)
        yield from _rows(page, section, within)
        yield from _signatures(page, section, within)


def _rows(page: str, section: nodes.section, around: str) -> Iterator[Place]:
    for row in section.findall(nodes.row):
        nearest = next(each for each in _above(row) if isinstance(each, nodes.section))
        name = name_of(row)
        if nearest is not section or not name:
            continue
        anchor = anchor_of(row) or next(iter(row["ids"]), "")
        yield Place(page, anchor, name, around, " ".join(_plain(cell) for cell in row[1:]))


def _signatures(page: str, section: nodes.section, around: str) -> Iterator[Place]:
    for signature in section.findall(lambda node: node.tagname == "desc_signature"):
        nearest = next(each for each in _above(signature) if isinstance(each, nodes.section))
        if nearest is section and signature["ids"]:
            described = _plain(signature.parent)
            yield Place(page, signature["ids"][0], signature["ids"][0], around, described)


def _title(section: nodes.Element) -> str:
    found = next(iter(section.findall(nodes.title)), None)
    return _plain(found) if found is not None else ""


def _plain(node: nodes.Node) -> str:
    texts = (text.astext() for text in node.findall(nodes.Text) if not isinstance(text.parent, nodes.raw))
    return " ".join(" ".join(texts).split()) if not isinstance(node, nodes.raw) else ""


def write_list(app: Sphinx, failed: Exception | None) -> None:
    """Put the list of all places beside the script that searches it."""
    if failed or app.builder.format != "html":
        return
    found = [place for page in sorted(app.env.found_docs) for place in places(page, app.env.get_doctree(page))]
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    Path(app.outdir, "_static", LIST).write_text(f"const SECTIONS = {text};\n", encoding="utf-8")


def load(app: Sphinx, page: str, *_: object) -> None:
    """Have the search page load list and script."""
    if page == "search":
        app.add_js_file(LIST)
        app.add_js_file("sections.js")


def setup(app: Sphinx) -> dict[str, bool]:
    """Take part in the build."""
    app.connect("doctree-read", name_rows)
    app.connect("doctree-read", mark_cells)
    app.connect("html-page-context", load)
    app.connect("build-finished", write_list)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
