"""The diagrams of the grammars are those of their texts: every structure, every field, every way between them."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.docs import grammar_diagrams
from tests.docs.spec.grammars import grammars

WIDEST = 1000
"""What stays legible in the column of a page."""

MADE = """\
meta: {id: made, endian: be}
types:
  outer:
    seq:
      - {id: first, type: inner, repeat: expr, repeat-expr: 3}
      - {id: body, type: {switch-on: first, cases: {1: inner, 2: other}}}
  inner: {seq: [{id: deep, type: deepest}]}
  other: {seq: [{id: number, type: u2, if: first}]}
  deepest: {seq: [{id: last, size: 2}]}
  late: {seq: [{id: last, type: deepest}]}
  alone: {seq: [{id: magic, contents: [1, 2]}]}
"""


@pytest.fixture
def made(monkeypatch):
    """Return the structures of a grammar of a few lines; places and sizes are another test's."""
    spec = yaml.safe_load(MADE)
    monkeypatch.setattr(grammar_diagrams, "width", lambda _: None)
    kind = type("Told", (), {"offset": None, "size": None})
    monkeypatch.setattr(
        grammar_diagrams, "fields_of", lambda name: [kind] * len(spec["types"][name.partition(".")[2]]["seq"])
    )
    return grammar_diagrams.boxes("made", spec)


def test_diagrams_are_fresh():
    """They are what ``python -m tests.docs.grammar_diagrams`` writes, and no other is there."""
    drawn = grammar_diagrams.drawings()
    assert set(grammar_diagrams.FOLDER.glob("grammar-*.svg")) == set(drawn)
    for path, text in drawn.items():
        assert path.read_text(encoding="utf-8") == text, path.name


@pytest.mark.parametrize("name", grammars())
def test_every_field_is_drawn_and_nothing_is_too_wide(name):
    """Each structure has a box and each field a line in it, and the whole fits a page."""
    spec = grammars()[name]
    text = grammar_diagrams.draw(name, spec)
    across = int(re.search(r'viewBox="0 0 (\d+)', text)[1])
    assert across <= WIDEST
    for key, body in spec["types"].items():
        assert f'<tspan class="h">{key}</tspan>' in text
        for item in body.get("seq", ()):
            assert f">{item['id']}</tspan>" in text


@pytest.mark.parametrize("name", grammars())
def test_every_way_has_an_arrow(name):
    """Where a field is a structure of the same grammar, an arrow leads to it, wherever the drawing is cut."""
    boxes = grammar_diagrams.boxes(name, grammars()[name])
    wanted = {(box.name, row.target) for box in boxes.values() for row in box.rows if row.target in boxes}
    drawn = {
        (way.box.name, way.through[-1].name)
        for group in grammar_diagrams.groups(boxes)
        for band in grammar_diagrams.bands(boxes, group)
        for way in grammar_diagrams.ways(band)
    }
    assert drawn == wanted


def test_boxes_do_not_overlap():
    """Nothing is drawn over another structure."""
    for name, spec in grammars().items():
        text = grammar_diagrams.draw(name, spec)
        found = re.findall(r'class="b" x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"', text)
        places = [tuple(map(int, each)) for each in found]
        for number, (x, y, across, down) in enumerate(places):
            for left, top, wide, high in places[number + 1 :]:
                assert x + across <= left or left + wide <= x or y + down <= top or top + high <= y, (name, x, y)


def test_what_is_held_stands_right_of_what_holds_it(made):
    """By the longest way; what nothing holds stands right before the first that it holds."""
    (group,) = grammar_diagrams.groups(made)
    assert group == ["outer", "inner", "other", "deepest", "late"]
    assert grammar_diagrams.levels(made, group) == {"outer": 0, "inner": 1, "other": 1, "deepest": 2, "late": 1}


def test_rows_say_how_often_and_whether(made):
    """Three times, one of several, perhaps, and constant."""
    kinds = {(name, row.name.strip()): row.kind for name, box in made.items() for row in box.rows}
    assert kinds["outer", "first"] == "inner[3]"
    assert kinds["outer", "body"] == "by first"
    assert kinds["outer", "2"] == "other"
    assert kinds["other", "number"] == "u2?"
    assert kinds["alone", "magic"] == "constant"
    assert kinds["deepest", "last"] == "bytes"


def test_a_chosen_structure_has_a_broken_arrow(made):
    """Only what a number chooses is one of several."""
    (band,) = grammar_diagrams.bands(made, grammar_diagrams.groups(made)[0])
    chosen = {(way.box.name, way.through[-1].name): way.chosen for way in grammar_diagrams.ways(band)}
    assert chosen["outer", "other"]
    assert not chosen["inner", "deepest"]
    assert not chosen["late", "deepest"]
