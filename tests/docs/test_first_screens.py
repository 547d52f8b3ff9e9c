"""The first screens of ten images are the texts in ``screens``; ``python -m tests.docs.first_screens`` writes them."""

from __future__ import annotations

import re

import pytest

import layoutscope
from layoutscope.errors import UsageError
from tests.docs.first_screens import FOLDER, MADE, REFERENCE, made, screen


@pytest.mark.parametrize("name", MADE)
def test_screens_of_made_images_are_as_written(name, tmp_path):
    """Fine, locked, damaged, half of a Fusion Drive, three volumes, tiny, and a million files."""
    if name == "locked":
        pytest.importorskip("cryptography", reason="the screen without it names the extra crypto")
    assert made(name, tmp_path) == (FOLDER / f"{name}.txt").read_text("utf-8")


@pytest.mark.parametrize("name", REFERENCE)
def test_screens_of_real_images_are_as_written(name, reference_image):
    """Aged, fresh, and made by macOS."""
    assert screen(reference_image(REFERENCE[name])) == (FOLDER / f"{name}.txt").read_text("utf-8")


EVERYDAY = frozenset(
    re.findall(
        r"\S+",
        """
        about above already also apart are be because below can cannot dates empty every everything full given
        has improve inch included intact least loaded main may mounting move needs new now o partly rescan rest
        see so software stored takes that this under unlocks was were whether which whole with within without
        worst
        check html inspect layoutscope measure password-file plan scan
        """,
    )
)
"""Words of everyday English, and of commands."""


def words_of(text):
    """Return the words of a screen, without names and paths in quotation marks."""
    return {word.lower().strip("-") for word in re.findall(r"[A-Za-z][A-Za-z0-9+-]*", re.sub(r'"[^"]*"', "", text))}


def is_explained(word):
    """Whether ``layoutscope explain`` knows a word."""
    try:
        return bool(layoutscope.explain(word))
    except UsageError:
        return False


def test_explain_knows_every_word_of_the_first_screens():
    """Each word that is not an everyday one; heads, labels and columns have a test of their own."""
    text = "".join(re.sub(r"\S+\.(?:img|raw)\S*", "", path.read_text("utf-8")) for path in FOLDER.glob("*.txt"))
    assert sorted(word for word in words_of(text) - EVERYDAY if not is_explained(word)) == []


def test_there_are_ten_screens():
    """Each of ten kinds of images fits on a screen of 24 lines with 80 columns."""
    texts = {path.stem: path.read_text("utf-8").splitlines() for path in FOLDER.glob("*.txt")}
    assert sorted(texts) == sorted({**MADE, **REFERENCE})
    assert len(texts) == 10
    assert all(4 <= len(lines) <= 24 and max(map(len, lines)) <= 80 for lines in texts.values())
