"""Targets of the search of the pages: headings and rows of tables, each with its own anchor."""

from __future__ import annotations

import sys

import pytest

from tests.docs.imports import ROOT

nodes = pytest.importorskip("docutils.nodes", reason="Sphinx is not installed (pip install -e '.[docs]')")

PAGE = """
Numbers
=======

What they are.

Odd ones
--------

====== ========
name   meaning
====== ========
three  a prime
nine   a square
9      a number
====== ========
"""


@pytest.fixture
def sections(monkeypatch):
    """Return the extension of the pages, where Sphinx looks for it."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    import sections

    yield sections
    sys.modules.pop("sections")


@pytest.fixture
def document():
    """Return a page with a table, as it is read."""
    from docutils.core import publish_doctree

    return publish_doctree(PAGE, settings_overrides={"doctitle_xform": False})


def test_headings_and_rows_can_be_led_to(sections, document):
    """By the page, the heading's place, and the row's, each with the headings above it and what is there."""
    sections.name_rows(None, document)
    assert [tuple(each) for each in sections.places("numbers", document)] == [
        ("numbers", "", "Numbers", "", "What they are."),
        ("numbers", "odd-ones", "Odd ones", "Numbers", "name meaning three a prime nine a square 9 a number"),
        ("numbers", "odd-ones.three", "three", "Numbers > Odd ones", "a prime"),
        ("numbers", "odd-ones.nine", "nine", "Numbers > Odd ones", "a square"),
    ]


def test_a_row_that_names_its_place_keeps_it(sections, document):
    """The place in the row counts, not one that is made of its cell."""
    cell = next(cell for cell in document.findall(nodes.entry) if cell.astext() == "9")
    cell[0].insert(0, nodes.raw("", '<a id="number-9">', format="html"))
    sections.name_rows(None, document)
    found = {each.anchor: each.title for each in sections.places("numbers", document)}
    assert found["number-9"] == "number-9"
    assert "odd-ones.nine" in found


def test_a_sentence_is_no_name(sections, document):
    """A row whose first cell is long is part of its section's text alone."""
    cell = next(cell for cell in document.findall(nodes.entry) if cell.astext() == "three")
    cell[0][0] = nodes.Text("three " * 20)
    sections.name_rows(None, document)
    assert "odd-ones.three" not in {each.anchor for each in sections.places("numbers", document)}


def test_columns_of_sentences_are_marked(sections, document):
    """A column with one long cell is, down to its short ones; the names beside it are kept in one piece."""
    row = next(row for row in document.findall(nodes.row) if row[0].astext() == "nine")
    row[1][0][0] = nodes.Text("a square " * 10)
    sections.mark_cells(None, document)
    marked = {cell.astext().split(" ")[0] for cell in document.findall(nodes.entry) if "said" in cell["classes"]}
    assert marked == {"a"}
    names = {cell.astext() for cell in document.findall(nodes.entry) if "name" in cell["classes"]}
    assert names == {"three", "nine", "9"}
