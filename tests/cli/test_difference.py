"""``map EARLIER LATER --difference``: valid and invalid arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

IMAGES = Path(__file__).resolve().parents[2] / "fixtures" / "images"
APFS, HFSPLUS = (IMAGES / f"{name}-scattered.img.zst" for name in ("apfs", "hfsplus"))


def test_a_checkpoint_kept_as_a_capture_is_set_against_the_newest(run, tmp_path):
    """Two captures, and a capture and an image, give the same number of moved nodes on the page."""
    for name, words in {"before": ("--xid", "2"), "after": ()}.items():
        assert run("scan", APFS, *words, "--save", tmp_path / f"{name}.lscope").exit_code == 0
    pages = []
    for later in (tmp_path / "after.lscope", APFS):
        target = tmp_path / f"{later.name}.html"
        assert run("map", tmp_path / "before.lscope", later, "--difference", "-o", target).exit_code == 0
        pages.append(target.read_text("utf-8").partition("nodes of metadata moved, ")[2][:60].partition(" where")[0])
    assert pages[0] == pages[1] != ""


def test_two_copies_of_an_image_differ_in_nothing(run, tmp_path):
    """The page says that nothing moved, came or went."""
    assert run("map", APFS, APFS, "--difference", "-o", tmp_path / "same.html").exit_code == 0
    assert "Nothing moved, came or went between the earlier state and the later state" in (
        tmp_path / "same.html"
    ).read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((APFS, HFSPLUS), "are not two states of one volume"),
        ((HFSPLUS, HFSPLUS), "are not two states of one volume"),  # it has no identifier
        ((APFS,), "a difference takes two states: 1 were given"),
        ((APFS, APFS, APFS), "a difference takes two states: 3 were given"),
        ((APFS, APFS, "--png", "a.png"), "a difference is drawn only on the page"),
    ],
)
def test_anything_else_is_refused_and_writes_nothing(run, tmp_path, words, told):
    """One line reports it, with the exit code of a usage error."""
    result = run("map", *words, "--difference", "-o", tmp_path / "a.html")
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())
    assert not (tmp_path / "a.html").exists()
