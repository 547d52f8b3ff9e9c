"""Names of APFS entries that damage changed inside records that are sound otherwise, with right checksums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import layoutscope
from fixtures.apfs import locate as at
from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.structures.records import RecordType
from fixtures.apfs.victims import VICTIMS
from fixtures.apfs.writer import write
from layoutscope.checks.apfs import names
from layoutscope.filesystems.apfs.fsrecords import Names

HEAD = 12
"""Bytes before the name in the key of a directory record with a hash: number and type, length and hash."""


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    """Write a container; return its image and layout."""
    path = tmp_path_factory.mktemp("names") / "disk.img"
    return path, write(VICTIMS["victim"], path)


@pytest.fixture
def renamed(victim, tmp_path):
    """Return a function that changes one byte of the name of some entry, and mends the checksum of its node."""
    path, expected = victim

    def change(which, byte, *, of=RecordType.DIR_REC, head=HEAD):
        data = bytearray(path.read_bytes())
        node, place = at.leaf_records(data, expected, of)[which]
        start = (place.value if of == RecordType.SIBLING_LINK else place.key) + head
        data[start] = byte
        at.fix_checksum(data, node, expected.block_size)
        copy = tmp_path / "renamed.img"
        copy.write_bytes(data)
        return copy

    return change


def told(result):
    return {(item.code, item.level) for volume in result.volumes for item in volume.findings}


@pytest.mark.parametrize("which", [3, 20, -1])
def test_changed_name_is_damage_in_a_scan(renamed, which):
    """Its hash says so: exit code 3, and no coverage of 1."""
    result = layoutscope.scan(renamed(which, ord("Q")), drives=())
    assert ("name-hash-differs", "error") in told(result)
    assert result.exit_code == 3
    assert result.coverage != 1


def test_name_that_is_no_text_is_damage_in_a_scan(renamed):
    """A byte that no UTF-8 holds."""
    result = layoutscope.scan(renamed(20, 0xFF), drives=())
    assert ("record-invalid", "error") in told(result)
    assert result.exit_code == 3


def test_name_that_is_no_text_is_damage_where_names_have_no_hashes(tmp_path):
    """The first volumes of APFS keep the bytes of names alone; that they are text bears witness there, too."""
    path = tmp_path / "disk.img"
    expected = write(replace(SCENARIOS["plain-keys"], block_count=16384), path)
    assert layoutscope.scan(path, drives=()).exit_code == 0
    data = bytearray(path.read_bytes())
    node, place = at.leaf_records(data, expected, RecordType.DIR_REC)[5]
    # The key is of eight bytes of number and type and two of length; then comes the name.
    data[place.key + 10] = 0xFF
    at.fix_checksum(data, node, expected.block_size)
    path.write_bytes(data)
    result = layoutscope.scan(path, drives=())
    assert ("record-invalid", "error") in told(result)
    assert result.exit_code == 3


@pytest.mark.parametrize(
    ("name", "stored"),
    [("\u1c90", 3_222_383), ("\u1c90\u1c91", 1_713_518), ("\u1c90\u10d1", 3_399_766), ("\u10d0", 1_633_879)],
)
def test_hashes_of_letters_younger_than_the_tables_of_apfs(name, stored):
    """Georgian capitals of Unicode 11 do not fold: the hashes are those that Linux's driver stored in a volume."""
    raw = np.frombuffer(name.encode(), np.uint8)
    hashes, known = names.hash_names(Names(raw, np.array([len(raw)], np.uint32)), folded=True)
    assert known.all()
    assert hashes.tolist() == [stored]


def test_changed_name_of_a_hard_link_is_damage_in_a_scan(renamed):
    """The record at its inode and the entry in its directory name it alike."""
    result = layoutscope.scan(renamed(0, ord("Q"), of=RecordType.SIBLING_LINK, head=10), drives=())
    assert ("record-differs", "error") in told(result)
    assert result.exit_code == 3


def test_check_says_the_same(renamed):
    """A check ends with the same code at the same level."""
    result = layoutscope.check(renamed(20, ord("Q")))
    assert ("name-hash-differs", "error") in told(result)


def test_sound_names_are_not_told(victim):
    """Every name has its hash, and no link another name."""
    assert layoutscope.scan(victim[0], drives=()).exit_code == 0


def test_names_in_other_scripts_are_hashed_where_they_are_few(monkeypatch, victim):
    """Above the limit names of ASCII alone are compared, and nothing is told of the others."""
    monkeypatch.setattr(names, "MAX_SLOW_HASHES", -1)
    assert layoutscope.scan(victim[0], drives=()).exit_code == 0
