"""Paths in the page: every entry leads to its directory's entry, and every name is recovered."""

from __future__ import annotations

import json

import pytest

from layoutscope.report.map import MapDisk
from layoutscope.report.map.panels import BLOCK, NAME_BUDGET, entries, pack_names
from layoutscope.tables.columns import TextColumn
from tests import layouts
from tests.pages import ids, inflated, unpacked

HOME = (
    (16, 20, "letter", "file", 1),
    (1, 2, "root", "directory", 0),
    (2, 16, "home", "directory", 0),
    (2, 20, "same letter", "file", 1),
    (99, 2**40 + 7, "found", "file", -1),
)
WORK = ((1, 2, "root", "directory", 0), (2, 16, "work", "directory", 0))


def _disk(*volumes: tuple) -> MapDisk:
    made = []
    for rows in volumes:
        named = layouts.entries(*((*row[:4], None if row[4] < 0 else row[4]) for row in rows))
        made.append(layouts.layout(nodes=layouts.leaves(1, 2), entries=named))
    return MapDisk("disk", "", made, 0, 2**20, 4096)


def _names(packed: dict) -> list[str]:
    return [name for block in packed["names"] for name in inflated(block).decode().split("\0")[1:]]


def test_entries_lead_to_those_of_their_directories():
    """By volume and number, the parent is the first entry of its directory on the same volume, if there is one."""
    packed = entries(_disk(HOME, WORK), names=True, all_paths=False)["packed"]
    assert unpacked(packed["volume"]) == [0, 0, 0, 0, 0, 1, 1]
    assert ids(packed["id"]) == [2, 16, 20, 20, 2**40 + 7, 2, 16]
    assert _names(packed) == ["root", "home", "letter", "same letter", "found", "root", "work"]
    assert unpacked(packed["above"]) == [-1, 0, 1, 0, -1, -1, 5]
    assert ids(packed["orphan"]) == [1, 99, 1]
    assert unpacked(packed["node"]) == [0, 0, 1, 1, -1, 2, 2]
    # Names have any script and length, or are missing; a zero byte (the separator) and a slash are escaped.
    names = ["", "b\0d\0", "..", "</script>", "\u00e9\U0001f4be", None, "x" * 765, "line\nbreak"]
    told = ["" if name is None else SPELLED.get(name, name) for name in names]
    assert _names({"names": pack_names(TextColumn.of(names))}) == told


SPELLED = {"b\0d\0": "b\\u0000d\\u0000", "</script>": "<\\u002fscript>", "..": "\\u002e\\u002e"}


@pytest.mark.parametrize("many", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1])
def test_names_are_cut_into_blocks(many):
    """Each block but the last has the number of names that the page declares."""
    names = [f"n{i}" for i in range(many)]
    blocks = pack_names(TextColumn.of(names))
    assert [inflated(block).count(b"\0") for block in blocks] == [BLOCK] * (many // BLOCK) + [many % BLOCK] * (
        many % BLOCK > 0
    )
    assert _names({"names": blocks}) == names


def test_a_disk_of_many_entries_has_its_paths_where_they_are_asked_for(monkeypatch):
    """Paths beyond the budget are counted on the page; without names it has none, however few."""
    disk = _disk(HOME)
    size = len(json.dumps(entries(disk, names=True, all_paths=False)["packed"]))
    assert size < NAME_BUDGET == 3_800_000  # as docs/concepts.md says
    monkeypatch.setattr("layoutscope.report.map.panels.NAME_BUDGET", size // 2)
    told = {all_paths: entries(disk, names=True, all_paths=all_paths) for all_paths in (False, True)}
    assert (told[False]["total"], told[False]["packed"], told[False]["withheld"]) == (5, None, False)
    assert len(_names(told[True]["packed"])) == 5
    hushed = entries(disk, names=False, all_paths=True)
    assert (hushed["packed"], hushed["withheld"]) == (None, True)
    assert entries(_disk(), names=True, all_paths=True)["packed"] is None
