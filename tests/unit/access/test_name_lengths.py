"""Lengths of names as Linux reports them: composed, and computed once for all walks of a volume."""

from __future__ import annotations

import unicodedata
from types import SimpleNamespace

from fixtures.hfsplus.plan import File, VolumePlan
from fixtures.hfsplus.writer import write
from layoutscope import scan
from layoutscope.access.entries import name_bytes
from layoutscope.tables import columns
from layoutscope.tables.columns import TextColumn

COUNT = 500
MARKS = 60


def test_lengths_are_those_of_composed_names():
    """The three bytes of a decomposed é become two; ASCII names and names that were left out keep their length."""
    names = TextColumn.of(["cafe\u0301", "plain", "\u30ab\u3099", None, "e\u0301" * 85])

    class Entries(SimpleNamespace):
        def __len__(self):
            return 5

    table = Entries(stored_names=names, order=slice(None, None, -1))
    assert name_bytes(table).tolist() == [170, 20, 3, 5, 5]
    assert name_bytes(table, slice(2, 5)).tolist() == [3, 5, 5]


def test_a_scan_composes_each_name_once(tmp_path, monkeypatch):
    """A scan lists the folder several times, for its drives and remedies; names do not change between the listings."""
    names = [f"{number:03}" + "\u0323\u0301" * MARKS for number in range(COUNT)]
    plan = VolumePlan(attributes=None, total_blocks=4096, root=tuple(File(name) for name in names))
    write(plan, tmp_path / "a.img")
    composed = []

    def normalize(form, text):
        composed.append(text)
        return unicodedata.normalize(form, text)

    monkeypatch.setattr(columns, "unicodedata", SimpleNamespace(normalize=normalize))
    found = scan(tmp_path / "a.img")
    assert found.volumes[0].walk.reads > 0
    assert sorted(composed) == sorted(names)
