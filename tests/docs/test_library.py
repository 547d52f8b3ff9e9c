"""The reference of the library is that of its code, and nothing in it lacks description, unit or default."""

from __future__ import annotations

import inspect

import pytest

from tests.docs.library import PAGE, REQUIRED, UNITS, Keyword, documented, keywords, methods, page, section, verbs

FUNCTIONS = verbs() | methods()
NUMBERS = ("int", "float")


def test_the_reference_is_fresh():
    """The page is what ``python -m tests.docs.library`` writes."""
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_keyword_lacks_description_unit_or_default(name):
    """Every parameter is described; numbers have a unit, and optional ones a default."""
    for item, keyword, default in keywords(FUNCTIONS[name]):
        assert item is not None, f"{name}: {keyword} is not described"
        assert len(item.text) > 5, f"{name}: {keyword} has no text"
        assert item.kind, f"{name}: {keyword} has no type"
        is_number = item.kind.split(" ")[0] in NUMBERS
        assert not is_number or item.unit in UNITS, f"{name}: {keyword} is a number without a unit"
        is_told = default == REQUIRED or default != "None" or "optional" in item.kind or item.default is None
        assert is_told, f"{name}: {keyword} may be left out and does not say so"
        is_said = item.default is not inspect.Parameter.empty
        assert not is_said or repr(item.default) == default, f"{name}: {keyword} has another default"


def test_a_keyword_without_unit_or_text_would_be_found():
    """The test above fails if one of these is missing."""

    def verb(size=1, *, other=None):
        """Do.

        Parameters
        ----------
        size : int
            The size of it.
        """

    (size, _, default), (other, _, _) = keywords(verb)
    assert (size.unit, size.text, default) == ("", "The size of it.", "1")
    assert other is None


@pytest.mark.parametrize("name", verbs())
def test_every_verb_says_what_it_raises_and_shows_an_example(name):
    """The page has both for each; functions without parameters raise nothing."""
    doc = FUNCTIONS[name].__doc__
    assert section(inspect.cleandoc(doc), "Raises") or not inspect.signature(FUNCTIONS[name]).parameters
    assert ">>>" in doc


def test_each_part_of_a_keyword_is_read():
    """Type, unit and default are distinguished, also for choices with commas; absent parts are empty."""
    (choice, size) = documented(
        "Attributes\n----------\na : {'x', 'y'}, default 'x'\n    One.\nb : int, bytes\n    Two\n    lines.",
        "Attributes",
    )
    assert choice == Keyword("a", "{'x', 'y'}", "", "x", "One.")
    assert size == Keyword("b", "int", "bytes", inspect.Parameter.empty, "Two lines.")
