"""The pages of the grammars are those of their texts, whole, and the words of a grammar stay words."""

from __future__ import annotations

import pytest

from tests.docs import grammar_pages
from tests.docs.spec.grammars import grammars


def test_pages_are_fresh():
    """They are what ``python -m tests.docs.grammar_pages`` writes, and no other is there."""
    made = grammar_pages.pages()
    assert sorted(path.name for path in grammar_pages.FOLDER.iterdir()) == sorted(made)
    for name, text in made.items():
        assert (grammar_pages.FOLDER / name).read_text(encoding="utf-8") == text, name


@pytest.mark.parametrize("name", grammars())
def test_every_field_has_a_row(name):
    """Each field of each structure stands on the page of its grammar once a structure, and so does each value."""
    spec = grammars()[name]
    rows = grammar_pages.page(name, spec).splitlines()
    fields = sum(len(body.get("seq", ())) for body in spec.get("types", {}).values())
    values = sum(map(len, spec.get("enums", {}).values()))
    instances = sum(len(body.get("instances", ())) for body in spec.get("types", {}).values())
    heads = sum(1 for row in rows if row.startswith(("| at |", "| value |", "| worked out |")))
    assert sum(1 for row in rows if row.startswith("|")) - 2 * heads == fields + values + instances


def test_every_grammar_may_be_taken():
    """The licence on the first page is that of each grammar."""
    assert {spec["meta"]["license"] for spec in grammars().values()} == {"CC0-1.0"}


def test_places_end_where_a_field_varies():
    """Fields after a text of any length have no place."""
    rows = grammar_pages.page("hfsplus_catalog", grammars()["hfsplus_catalog"]).splitlines()
    key = rows[rows.index("## `catalog_key`") :]
    cells = [row.split("|")[1:4] for row in key if row.startswith("| ") and "`" in row][:5]
    places = {name.strip(" `"): place.strip() for place, _, name in cells}
    assert places["parent_id"] == "2"


def test_marks_in_a_grammar_are_no_marks_on_the_page():
    """Stars, brackets and bars are shown."""
    assert grammar_pages.cell(grammar_pages.escape("a*b [c] <d> e|f")) == r"a\*b \[c\] \<d\> e\|f"
