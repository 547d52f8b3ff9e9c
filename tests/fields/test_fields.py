"""The generator makes the changes that it names and undoes them; changes of fields with a rule are found."""

from __future__ import annotations

import pytest

from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render
from tests.fields.faults import Field, changes, fields_of, found_on, outcomes


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    """Write a small volume with all trees."""
    path = tmp_path_factory.mktemp("fields") / "volume.img"
    canvas, _ = render(SCENARIOS["empty"])
    path.write_bytes(bytes(canvas.to_bytearray()))
    return path


def test_changes_are_all_different_and_only_in_the_field():
    """A two-byte field: one bit, plus one, minus one, zero, ones, random, the neighbor's value; no duplicates."""
    found = dict(changes(bytes(range(16)), Field("a.b.c", 0, 16, 4, 2), "big"))
    assert len(set(found.values())) == len(found)
    assert {found["plus"], found["zero"]} == {
        bytes([*range(4), 4, 6, *range(6, 16)]),
        bytes([*range(4), 0, 0, *range(6, 16)]),
    }
    assert found.pop("exchange") == bytes([0, 1, 2, 3, 6, 7, 4, 5, *range(8, 16)])
    assert all(data[:4] == bytes(range(4)) and data[6:] == bytes(range(6, 16)) for data in found.values())


FREE = ("header_record.len_clump", "header_record.key_compare_type", "record_offset.ofs_record in kind 0")
"""Fields of header nodes that are free according to the rules module."""


def test_changes_of_header_nodes_are_found_and_put_back(volume):
    """Every change of a header node field with a rule is found; the volume is clean afterwards."""
    before = volume.read_bytes()
    fields = [each for each in fields_of(volume, places=1) if each.owner == "kind 1"]
    fields = [each for each in fields if not each.address.endswith(FREE)]
    # A swap also changes the neighbor, which may be free.
    missed = [each for each in outcomes(volume, fields, "big") if not each.codes and each.change != "exchange"]
    assert len(fields) > 20
    assert missed == []
    assert volume.read_bytes() == before
    assert found_on(volume) == set()
