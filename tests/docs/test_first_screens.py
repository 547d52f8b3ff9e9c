"""The first screens of ten images are the texts in ``screens``; ``python -m tests.docs.first_screens`` writes them."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

import layoutscope
from layoutscope.cli import app
from layoutscope.errors import UsageError
from tests.docs.first_screens import FOLDER, MADE, REFERENCE, made, screen

APFS = "fixtures/images/apfs-scattered.img.zst"
HFS = "fixtures/images/hfsplus-scattered.img.zst"


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
        a about above already also an and apart are as at be because before below by byte can cannot check cost empty
        everything fine first for found from full given has helps html img improve in inch included intact is it its
        last least loaded main may more mounting move needs new no not nothing now o of older on only or others partly
        plan plaso raw rest risk s saved scan second see size so software stored takes than that the their them this
        three-volumes time tiny to under unlocks use value was were what whether which whole why with within without
        worst per number share files leaves blocks label kind volumes free after listing saves range next disk reads
        dates every layoutscope measure password-file rescan left
        """,
    )
)
"""Words that a dictionary explains, commands, and names of the images."""

HEADED = (
    ("plan", APFS),
    ("predict", APFS),
    ("compare", HFS, APFS),
    ("drives", "generic-7200"),
    ("inspect", APFS, "--states"),
)


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
    """Each word that is not an everyday one."""
    text = "".join(re.sub(r"\S+\.(?:img|raw)\S*", "", path.read_text("utf-8")) for path in FOLDER.glob("*.txt"))
    assert sorted(word for word in words_of(text) - EVERYDAY if not is_explained(word)) == []


@pytest.mark.parametrize("words", HEADED, ids=lambda words: words[0])
def test_explain_knows_every_head_of_a_table(words):
    """The heads above the lines of the tables of other verbs."""
    result = CliRunner().invoke(app, [*words], env={"COLUMNS": "120"})
    lines = result.stdout.splitlines()
    heads = [lines[number - 1] for number, line in enumerate(lines) if line.startswith("──")]
    assert heads
    assert sorted(word for word in words_of(" ".join(heads)) - EVERYDAY if not is_explained(word)) == []


def test_there_are_ten_screens():
    """Each of ten kinds of images fits on a screen of 24 lines with 80 columns."""
    texts = {path.stem: path.read_text("utf-8").splitlines() for path in FOLDER.glob("*.txt")}
    assert sorted(texts) == sorted({**MADE, **REFERENCE})
    assert len(texts) == 10
    assert all(4 <= len(lines) <= 24 and max(map(len, lines)) <= 80 for lines in texts.values())
