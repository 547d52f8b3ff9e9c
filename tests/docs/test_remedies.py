"""Pages of remedies are those of the remedies that there are."""

from __future__ import annotations

from layoutscope.remedies.planning import every_treatment
from tests.docs.remedies import FOLDER, pages


def test_pages_of_remedies_are_fresh():
    """What is written is what the words say: ``python -m tests.docs.remedies`` writes them."""
    assert {path.name: path.read_text() for path in FOLDER.glob("*.md")} == pages()


def test_every_remedy_has_its_page():
    """The page that a plan names exists, and no page is of a remedy that nobody tries."""
    named = {item.words.page.rpartition("/")[2] for item in every_treatment()}
    assert named | {"README.md"} == set(pages())
