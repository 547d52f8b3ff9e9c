"""Comparisons of ``verify``: errors in a record type, a kernel, node bounds or the table of contents are named."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from layoutscope.api.check import verify
from layoutscope.filesystems.apfs import inspect as apfs
from layoutscope.filesystems.hfsplus import inspect as hfsplus
from layoutscope.structs import comparison
from layoutscope.structs.leaves import LeafTables
from layoutscope.structs.recordtypes import RecordType
from tests.cli.conftest import ROOT

IMAGES = ROOT / "fixtures" / "images"


def swapped(record_type: RecordType, one: str, other: str) -> RecordType:
    """Return a record type with two fields of the same width swapped; its grammar stays right."""
    names = {one: other, other: one}
    members = record_type._members
    return RecordType(record_type.type_name, **{names.get(name, name): kind for name, kind in members.items()})


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Write a small HFS+ volume with all trees."""
    path = tmp_path_factory.mktemp("comparison") / "disk.img"
    write(SCENARIOS["victim"], path)
    return path


def differences(path) -> dict[str, tuple[str, ...]]:
    """Return the differences by table."""
    return {table.table: table.differences for table in verify(path).tables if table.differences}


def test_a_sound_image_agrees(image):
    """Every node and record was compared, and the exit code says so."""
    found = verify(image)
    assert found.exit_code == 0
    assert differences(image) == {}
    assert {table.table for table in found.tables} >= {"nodes", "catalog"}
    assert all(table.rows > 0 for table in found.tables if table.table in ("nodes", "catalog"))


def test_a_slip_in_a_record_type_is_named(image, monkeypatch):
    """It is named by node, address, record and field, with both values; correct tables are not reported."""
    monkeypatch.setattr(hfsplus, "NODE_DESCRIPTOR", swapped(hfsplus.NODE_DESCRIPTOR, "f_link", "b_link"))
    found = differences(image)
    assert "nodes" not in found
    first = found["catalog"][0]
    assert first.startswith("catalog:")
    assert " at byte " in first
    assert ", node descriptor, " in first
    assert first.endswith(" through the grammar")
    assert verify(image).exit_code == 3


def test_a_slip_of_the_kernel_is_named(image, monkeypatch):
    """A column that the kernel fills wrongly is reported with its record."""

    class Wrong(LeafTables):
        def table(self, name):
            found = super().table(name)
            return found | ({"parent_id": found["parent_id"] + 1} if name == "entries" else {})

    monkeypatch.setattr(comparison, "LeafTables", Wrong)
    found = differences(image)
    assert list(found) == ["catalog"]
    assert ", column parent_id: " in found["catalog"][0]
    assert found["catalog"][-1].endswith(" more")


def test_records_in_another_place_are_named(image, monkeypatch):
    """A kernel that ends a record early is reported with both places."""
    locate = hfsplus.locate_records

    def shifted(*given):
        found = locate(*given)
        return replace(found, stop=found.stop - 2)

    monkeypatch.setattr(hfsplus, "locate_records", shifted)
    assert all("bytes: " in found[0] for found in differences(image).values())


def test_a_slip_in_the_table_of_contents_is_named(monkeypatch):
    """The keys of an APFS node are two bytes further than their table says."""
    slots = apfs.toc.slots

    def shifted(*given):
        found, *others = slots(*given)
        return replace(found, key_start=found.key_start + 2), *others

    monkeypatch.setattr(apfs.toc, "slots", shifted)
    found = {}
    for table in verify(IMAGES / "apfs-scattered.img.zst", volume="Scattered").tables:
        found[table.table] = table.differences
    assert ", record 0, key and value: " in found["snapmeta"][0]
