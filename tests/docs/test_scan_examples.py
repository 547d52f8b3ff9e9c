"""The page of examples shows what ``scan`` prints today, for every image that is committed."""

from __future__ import annotations

import pytest

from tests.docs.scan_examples import COMMITTED, DAMAGED, PAGE, REFERENCE, ROOT, damaged, screen, section, sections


@pytest.fixture(scope="module")
def page():
    return sections(PAGE.read_text("utf-8"))


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_images_are_shown_as_they_are_printed(page, name):
    """``python -m tests.docs.scan_examples`` was run after the last change of the first screen."""
    title = COMMITTED[name]
    assert page[title] == section(name, title, screen(ROOT / name))


def test_the_damaged_image_is_shown_as_it_is_printed(page):
    """Likewise for the one that is damaged on the way."""
    assert page[DAMAGED] == damaged()


def test_there_are_ten_examples(page):
    """Fresh and aged, both file systems, Apple's, locked, damaged, several volumes; each fits on a screen."""
    assert set(page) == {*COMMITTED.values(), *REFERENCE.values(), DAMAGED}
    assert len(page) == 10
    for text in page.values():
        lines = text.partition("```console\n")[2].rpartition("```")[0].splitlines()[1:]
        assert 5 <= len(lines) <= 24
        assert max(map(len, lines)) <= 80
