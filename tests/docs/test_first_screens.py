"""The first screens of ten images are the texts in ``screens``; ``python -m tests.docs.first_screens`` writes them."""

from __future__ import annotations

import pytest

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


def test_there_are_ten_screens():
    """Each of ten kinds of images fits on a screen of 24 lines with 80 columns."""
    texts = {path.stem: path.read_text("utf-8").splitlines() for path in FOLDER.glob("*.txt")}
    assert sorted(texts) == sorted({**MADE, **REFERENCE})
    assert len(texts) == 10
    assert all(4 <= len(lines) <= 24 and max(map(len, lines)) <= 80 for lines in texts.values())
