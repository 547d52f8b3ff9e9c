"""The drawings of the concepts are of the committed images as they are read now, and show what the page says."""

from __future__ import annotations

import re

from tests.docs import concepts


def test_drawings_are_fresh():
    """``python -m tests.docs.concepts`` would write the same."""
    for name, made in concepts.drawings().items():
        assert (concepts.FOLDER / name).read_text(encoding="utf-8") == made, name


def test_every_drawing_is_shown_once():
    """The page shows each of them."""
    page = (concepts.FOLDER.parent / "concepts.md").read_text(encoding="utf-8")
    shown = re.findall(r"\(drawings/(concept-[^)]+)\)", page)
    assert sorted(shown) == sorted(path.name for path in concepts.FOLDER.glob("concept-*.svg"))


def test_rotation_is_the_largest_part_on_both():
    """What the bars show: most of the time the platter is waited for, reading bytes takes next to nothing."""
    for image in concepts.IMAGES.values():
        spent = concepts.causes(image)
        assert max(spent, key=spent.__getitem__) == "rotation"
        assert spent["transfer"] < sum(spent.values()) / 100


def test_a_wrong_share_would_be_seen(monkeypatch):
    """The bars follow the numbers: with another cause in the lead, the drawing is another one."""
    made = concepts.times()
    monkeypatch.setattr(concepts, "causes", lambda image: dict.fromkeys(concepts.CAUSES, 1.0 + len(image)))
    assert concepts.times() != made
